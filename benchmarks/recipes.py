"""PIM as the paper states it, as its authors released it, and as it is here: accuracies and curves over λ.

    python benchmarks/recipes.py FEATURES [--sets cub_tinyvit] [--seeds 3] [--device auto]

FEATURES is a folder of feature sets in the released four-file layout. Of the first seed the whole curve is
printed: the labelled accuracy of G for each λ, by which λ is chosen. The release's differs most, because there
each λ goes on training the weights that the previous one ended with.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import PIM
from newkinds.data import read_features
from newkinds.labels import UNLABELLED
from newkinds.metrics import accuracy
from newkinds.selection.recipes import RECIPES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=["cub_tinyvit"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    for name in arguments.sets:
        collection = read_features(arguments.features / name)
        assert collection.truth is not None
        n_categories = len(np.unique(collection.truth))
        unlabelled = collection.labels == UNLABELLED
        print(f"\n{name}: {collection}, K = {n_categories}")
        for recipe in RECIPES:
            began = time.perf_counter()
            scores, lams = [], []
            for seed in range(arguments.seeds):
                settings: dict[str, Any] = {
                    "lam": "labelled",
                    "temperature": 25.0,
                    "consensus": 1,
                    "random_state": seed,
                }
                model = PIM(n_categories, recipe=recipe, device=arguments.device, **settings)
                model.fit(collection.features, collection.labels)
                result = accuracy(collection.truth[unlabelled], model.labels_[unlabelled], collection.known)
                scores.append([100 * result.all, 100 * result.old, 100 * result.new])
                lams.append(model.lam_)
                if seed == 0:
                    curve = model.lam_curve_
            mean = "/".join(f"{value:.1f}" for value in np.mean(scores, axis=0))
            seconds = (time.perf_counter() - began) / arguments.seeds
            print(
                f"  {recipe:9s} {mean} ± {np.std(scores, axis=0)[0]:.1f}  λ "
                f"{', '.join(f'{lam:.2f}' for lam in lams)}  {seconds:.1f} s a seed"
            )
            print("    λ        " + " ".join(f"{lam:5.2f}" for lam in curve))
            print("    labelled " + " ".join(f"{100 * score:5.1f}" for score in curve.values()), flush=True)


if __name__ == "__main__":
    main()
