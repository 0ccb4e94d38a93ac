"""How often the name suggested for a new category shares a word with the name that people gave it.

    python benchmarks/naming.py tickets.csv [more.csv …] [--text text] [--label intent] [--splits 1 2]

Half of the classes are known, and half of their texts labelled; the number of categories is given. A new category
stands for the class that most of its texts have. A word is shared if it stands in both names, apart from words that
say nothing (`newkinds.stop_words`) and the s of a plural.
"""

import argparse
import csv
import re
from pathlib import Path

import numpy as np

from newkinds import discover
from newkinds.stop_words import STOP_WORDS

SHOWN = 12


def content_words(name: str) -> set[str]:
    words = {word for word in re.findall(r"[^\W\d_]+", name.casefold()) if word not in STOP_WORDS}
    return {word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words}


def measure(path: Path, text: str, label: str, split: int) -> tuple[int, int, list[tuple[str, str]]]:
    """New categories whose suggestion shares a word, all new ones, and pairs of true and suggested names."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    classes, truth = np.unique([row[label] for row in rows], return_inverse=True)
    rng = np.random.default_rng(split)
    known = np.sort(rng.permutation(len(classes))[: len(classes) // 2])
    labels = np.where(np.isin(truth, known) & (rng.random(len(rows)) < 0.5), truth, -1)
    given = [str(classes[i]) if i >= 0 else None for i in labels]
    discovery = discover([row[text] for row in rows], given, n_categories=len(classes))
    pairs = []
    for category in discovery.record["categories"]:
        if category["kind"] == "new" and category["size"]:
            members = discovery.model.labels_ == category["id"]
            majority = classes[np.bincount(truth[members]).argmax()]
            pairs.append((str(majority), category["suggestion"] or ""))
    shared = sum(bool(content_words(name) & content_words(suggestion)) for name, suggestion in pairs)
    return shared, len(pairs), pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="intent")
    parser.add_argument("--splits", nargs="+", type=int, default=[1])
    arguments = parser.parse_args()
    for path in arguments.tables:
        for split in arguments.splits:
            shared, n, pairs = measure(path, arguments.text, arguments.label, split)
            print(f"{path.name}, split {split}: {shared} of {n} new categories share a word ({shared / n:.0%})")
            for name, suggestion in pairs[:SHOWN]:
                print(f"    {name}: {suggestion}")


if __name__ == "__main__":
    main()
