"""How often the doubts of a run are right: labels that look wrong, categories that may be one or two.

    python benchmarks/doubts.py FEATURES [--sets NAME …] [--splits 0 4 5] [--flips 0 0.01 0.03 0.1]
        [--parts labels categories] [--device auto]

FEATURES is a folder of feature sets in the released four-file layout; splits as in benchmarks/selection.py. Every
fit is short: one start, settings given.

labels      A share of the labels is made wrong (--flips): `any` other known category; at the middle share also the
            category that is most `similar`, and `new`: samples of new kinds get a known label. Printed are the
            labels that were doubted, precision, recall, how often the likely category is right for those found, and
            the seconds that it took. Without flips everything doubted counts as false, though sets have errors of
            their own.
categories  The number of categories is given 15 % too large, right, and 15 % too small. A merge is right if both
            categories have most samples of the same class, a split if the category holds two classes with a
            quarter of its samples each. `overlap` is the share of the merges whose categories have half of their
            samples in common classes, `halves` that of the splits whose halves have most samples of different
            classes.
"""

import argparse
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from newkinds import PIM, read_features
from newkinds.labels import UNLABELLED, IntArray, known_categories
from newkinds.methods.base import CategoryDiscoverer
from newkinds.selection.label_doubts import doubt_labels
from newkinds.selection.problem import make_problem
from newkinds.separation import Separation, mostly_copies

SETTING = (0.03, 40.0)
"""lam and temperature, good for most sets."""
SETTINGS = {"cifar100lt_tinyvit": (1.0, 15.0)}
"""Those of sets that want something else."""
FACTORS = (1.15, 1.0, 0.85)
ALL_SETS = "all sets"
Counts = dict[str, list[float]]


class Task:
    """One split of one set."""

    def __init__(self, path: Path, split: int, device: str) -> None:
        collection = read_features(path)
        assert collection.truth is not None
        self.name, self.device, self.split = path.name, device, split
        self.features, self.truth, self.labels = collection.features, collection.truth, collection.labels
        self.n_classes = int(self.truth.max()) + 1
        if split:
            generator = np.random.default_rng(split)
            n_known = len(known_categories(self.labels))
            self.labels = np.full(len(self.truth), UNLABELLED)
            for category in np.sort(generator.choice(self.n_classes, n_known, replace=False)):
                members = np.flatnonzero(self.truth == category)
                n_labelled = min(max(len(members) // 2, 1), len(members) - 1)
                self.labels[generator.choice(members, n_labelled, replace=False)] = category
        self.known = known_categories(self.labels)

    def flipped(self, share: float, kind: str) -> tuple[IntArray, IntArray]:
        """Labels of which a share was made wrong, and the rows of those."""
        generator, labels = np.random.default_rng(1000 + self.split), self.labels.copy()
        labelled = np.flatnonzero(labels != UNLABELLED)
        rows = generator.choice(labelled, round(share * len(labelled)), replace=False)
        if kind == "new":
            rows = generator.choice(np.flatnonzero(~np.isin(self.truth, self.known)), len(rows), replace=False)
            labels[rows] = generator.choice(self.known, len(rows))
        elif kind == "similar":
            means = np.array([self.features[labels == category].mean(axis=0) for category in self.known])
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            similarity = means @ means.T
            np.fill_diagonal(similarity, -1)
            labels[rows] = self.known[similarity.argmax(axis=1)][np.searchsorted(self.known, labels[rows])]
        else:
            labels[rows] = [generator.choice(self.known[self.known != label]) for label in labels[rows]]
        return labels, rows

    def fit(self, labels: IntArray, factor: float = 1.0) -> CategoryDiscoverer:
        lam, temperature = SETTINGS.get(self.name, SETTING)
        model = PIM(
            round(self.n_classes * factor),
            lam=lam,
            temperature=temperature,
            consensus=1,
            n_init=2,
            tol=1e-4,
            device=self.device,
            random_state=0,
        )
        return model.fit(self.features, labels)

    def shares(self, columns: IntArray, n_categories: int) -> npt.NDArray[np.float64]:
        """Of each class in each category: (categories, classes)."""
        counts = np.zeros((n_categories, self.n_classes))
        np.add.at(counts, (columns, self.truth), 1)
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def labels(task: Task, flips: list[float], results: dict[str, Counts]) -> None:
    middle = sorted(flips)[len(flips) // 2]
    conditions = [(share, "any") for share in flips] + [(middle, "similar"), (middle, "new")]
    for share, kind in conditions:
        given, wrong = task.flipped(share, kind)
        model = task.fit(given)
        columns = np.searchsorted(model.categories_, model.labels_)
        problem = make_problem(task.features, given, device=task.device, random_state=0)
        began = time.perf_counter()
        doubts = doubt_labels(problem, columns, model.n_categories_)
        seconds = time.perf_counter() - began
        found = np.isin(doubts.rows, wrong)
        classes = task.shares(columns, model.n_categories_).argmax(axis=1)
        hits = classes[doubts.likely[found]] == task.truth[doubts.rows[found]]
        counts = [doubts.n_judged, len(doubts), found.sum(), len(wrong), hits.sum(), seconds]
        title = f"{share:.0%} {kind}" if share else "none"
        _add(results, task.name, title, counts)
        print(f"{task.name} {task.split}, labels, {title}: {_label_row(counts)}", flush=True)


def _label_row(counts: list[float]) -> str:
    judged, doubted, found, wrong, hits, seconds = counts
    return (
        f"{judged:6.0f} judged {doubted:5.0f} doubted ({doubted / max(judged, 1):5.2%})  "
        f"precision {_ratio(found, doubted)}  recall {_ratio(found, wrong)}  likely {_ratio(hits, found)}  "
        f"{seconds:.2f} s"
    )


def categories(task: Task, results: dict[str, Counts]) -> None:
    for factor in FACTORS:
        model = task.fit(task.labels, factor)
        columns = np.searchsorted(model.categories_, model.labels_)
        is_new = np.arange(model.n_categories_) >= len(model.known_categories_)
        shares = task.shares(columns, model.n_categories_)
        classes, is_mixed = shares.argmax(axis=1), np.sort(shares, axis=1)[:, -2] >= 0.25
        began = time.perf_counter()
        separation = Separation(task.features, columns, is_new)
        merges, splits = separation.merges(), separation.splits()
        n_copies = len(mostly_copies(task.features, columns, model.n_categories_))
        seconds = time.perf_counter() - began
        right = sum(classes[merge.first] == classes[merge.second] for merge in merges)
        overlap = sum(np.minimum(shares[merge.first], shares[merge.second]).sum() >= 0.5 for merge in merges)
        of_new = np.bincount(classes[is_new], minlength=task.n_classes)
        halves = 0
        for split in splits:
            rows, is_second = separation.halves(split.category)
            halves += _most(task.truth[rows[is_second]]) != _most(task.truth[rows[~is_second]])
        counts = [
            *(len(merges), right, overlap, np.maximum(of_new - 1, 0).sum()),
            *(len(splits), sum(is_mixed[split.category] for split in splits), halves, is_mixed[is_new].sum()),
            *(n_copies, seconds),
        ]
        _add(results, task.name, f"K x {factor}", counts)
        print(f"{task.name} {task.split}, categories, K x {factor}: {_category_row(counts)}", flush=True)


def _category_row(counts: list[float]) -> str:
    merges, right, overlap, to_merge, splits, mixed, halves, to_split, copies, seconds = counts
    return (
        f"merges {merges:3.0f} right {_ratio(right, merges)} of {to_merge:3.0f}, "
        f"overlap {_ratio(overlap, merges)}; "
        f"splits {splits:3.0f} right {_ratio(mixed, splits)} of {to_split:3.0f}, halves {_ratio(halves, splits)}; "
        f"copies {copies:.0f}; {seconds:.2f} s"
    )


def _most(truth: IntArray) -> int:
    return int(np.bincount(truth).argmax())


def _ratio(part: float, whole: float) -> str:
    return f"{part / whole:4.2f}" if whole else "   -"


def _add(results: dict[str, Counts], name: str, title: str, counts: list[float]) -> None:
    for key in (name, ALL_SETS):
        before = results[key].get(title, [0.0] * len(counts))
        results[key][title] = [old + float(new) for old, new in zip(before, counts, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 4, 5])
    parser.add_argument("--flips", nargs="+", type=float, default=[0.0, 0.01, 0.03, 0.1])
    parser.add_argument("--parts", nargs="+", choices=["labels", "categories"], default=["labels", "categories"])
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    names = arguments.sets or sorted(path.name for path in arguments.features.iterdir() if path.is_dir())
    of_labels: dict[str, Counts] = defaultdict(dict)
    of_categories: dict[str, Counts] = defaultdict(dict)
    for name in names:
        for split in arguments.splits:
            task = Task(arguments.features / name, split, arguments.device)
            if "labels" in arguments.parts:
                labels(task, arguments.flips, of_labels)
            if "categories" in arguments.parts:
                categories(task, of_categories)
    for results, row in ((of_labels, _label_row), (of_categories, _category_row)):
        for name in sorted(results, key=lambda name: (name == ALL_SETS, name)):
            print(f"\n{name}, all splits")
            for title, counts in results[name].items():
                print(f"  {title:14s}{row(counts)}")


if __name__ == "__main__":
    main()
