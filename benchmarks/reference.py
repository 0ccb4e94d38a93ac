"""Our accuracies beside those of an independent implementation of the same methods on the same features.

    python benchmarks/reference.py FEATURES [--seeds 3] [--starts 3] [--device auto] [--estimate] [--sets NAME …]

FEATURES is a folder of feature sets in the released four-file layout, named as in `reference.json`. Everything
that the figures depend on is named here: plain k-means++ (D²) seeding, 10 restarts, 1000 epochs of Adam (500 in the
search for K), temperature 25, the released grid for λ.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from newkinds import PIM, KMeans, SemiSupervisedKMeans
from newkinds.data import FeatureSet, read_features
from newkinds.engine import Run, optimise
from newkinds.labels import UNLABELLED
from newkinds.methods import CategoryDiscoverer
from newkinds.metrics import Accuracy, accuracy
from newkinds.names import CountRule
from newkinds.objective import PARTITION
from newkinds.selection.n_categories import estimate_n_categories
from newkinds.selection.problem import make_problem
from newkinds.selection.recipes import RELEASED_GRID

REFERENCE = json.loads(Path(__file__).with_name("reference.json").read_text())
LAMS: list[float] = REFERENCE["lam"]
BAR = 1.5
BAR_ONE_SET = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=3, help="starts of the curve over λ")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--estimate", action="store_true", help="also estimate the number of categories")
    parser.add_argument("--sets", nargs="+", default=list(REFERENCE["sets"]))
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, device {arguments.device}, {arguments.seeds} seeds")
    differences: dict[str, list[float]] = {}
    for name in arguments.sets:
        collection = read_features(arguments.features / name)
        compare_methods(name, collection, arguments.seeds, arguments.device, differences)
        compare_curves(name, collection, arguments.starts, arguments.device, differences)
        if arguments.estimate:
            compare_estimates(name, collection, arguments.device)
    print("\nMean absolute difference of All over the sets")
    for method, values in differences.items():
        print(
            f"  {method:12s} {np.mean(values):.2f} (bar {BAR}), largest {np.max(values):.2f} (bar {BAR_ONE_SET})"
            if method != "curve"
            else f"  {method:12s} {np.mean(values):.2f}, worst set {np.max(values):.2f} (bar {BAR} a set)"
        )


def compare_methods(
    name: str, collection: FeatureSet, seeds: int, device: str, differences: dict[str, list[float]]
) -> None:
    reference = REFERENCE["sets"][name]
    assert collection.truth is not None
    n_categories = len(np.unique(collection.truth))
    common: dict[str, Any] = {"n_categories": n_categories, "seeding": "d2", "n_init": 10, "device": device}
    fixed_settings: dict[str, Any] = {"temperature": 25.0, "solver": "adam", "max_iter": 1000, "consensus": 1}
    fixed = reference.get("fixed_lam")
    print(f"\n{name}: {collection}, K = {n_categories}")
    estimators: dict[str, CategoryDiscoverer] = {
        "k-means": KMeans(**common),
        "ssKM": SemiSupervisedKMeans(**common),
        "PIM": PIM(**common, **fixed_settings, lam="labelled", lam_grid=RELEASED_GRID),
    }
    if fixed is not None:
        estimators[f"PIM, λ {fixed:g}"] = PIM(**common, **fixed_settings, lam=fixed)
        reference[f"PIM, λ {fixed:g}"] = [reference["curve"][LAMS.index(fixed)]]
    for method, estimator in estimators.items():
        began = time.perf_counter()
        scores, lams = [], []
        for seed in range(seeds):
            estimator.set_params(random_state=seed).fit(collection.features, collection.labels)
            scores.append(percent(score(collection, estimator.labels_)))
            lams.append(getattr(estimator, "lam_", None))
        mean, spread = np.mean(scores, axis=0), np.std(scores, axis=0)
        gap = abs(mean[0] - reference[method][0])
        counted = fixed is None or method != "PIM"
        if counted:
            differences.setdefault(method.split(",")[0], []).append(gap)
        chosen = "" if None in lams else f"  λ {', '.join(f'{lam:.2f}' for lam in lams)}"
        print(
            f"  {method:12s} {'/'.join(f'{v:.1f}' for v in mean):16s} ± {spread[0]:.1f}   reference "
            f"{'/'.join(map(str, reference[method])):16s} difference {gap:.1f}{'' if counted else ' (not counted)'}"
            f"{chosen}  {(time.perf_counter() - began) / seeds:.1f} s a seed"
        )


def compare_curves(
    name: str, collection: FeatureSet, starts: int, device: str, differences: dict[str, list[float]]
) -> None:
    """All accuracy over λ, ours as the mean of several starts, the reference's from one.

    How far one start lies from the mean of the others says what difference to expect of the same software.
    """
    expected = np.array(REFERENCE["sets"][name]["curve"])
    curves = np.array([lam_curve(collection, seed, device) for seed in range(starts)])
    mean = curves.mean(axis=0)
    gap = np.abs(mean - expected).mean()
    differences.setdefault("curve", []).append(float(gap))
    print("  λ at T 25   " + " ".join(f"{lam:5g}" for lam in LAMS))
    print("  ours (mean) " + " ".join(f"{v:5.1f}" for v in mean))
    print("  reference   " + " ".join(f"{v:5.1f}" for v in expected))
    each = np.abs(curves - expected).mean(axis=1)
    print(f"  mean absolute difference {gap:.2f} (start by start {', '.join(f'{v:.2f}' for v in each)})")
    if starts > 1:
        others = (curves.sum(axis=0) - curves) / (starts - 1)
        apart = np.abs(curves - others).mean(axis=1)
        spread = f"{apart.mean():.2f} ({apart.min():.2f} … {apart.max():.2f})"
        print(f"  one of our starts from the mean of the others: {spread}")


def compare_estimates(name: str, collection: FeatureSet, device: str) -> None:
    assert collection.truth is not None
    rules: tuple[CountRule, ...] = ("max-acc-kmeans", "max-acc-pim")
    for rule in rules:
        began = time.perf_counter()
        found = estimate_n_categories(
            collection.features, collection.labels, rule, solver="adam", device=device, random_state=0
        ).n_categories
        print(
            f"  {rule:15s} {found:4d}   reference {REFERENCE['sets'][name][rule]:4d}   "
            f"true {len(np.unique(collection.truth))}  {time.perf_counter() - began:.1f} s"
        )


def lam_curve(collection: FeatureSet, seed: int, device: str) -> npt.NDArray[np.float64]:
    """All accuracy of F for each λ from one semi-supervised k-means start, all λ in one batch."""
    assert collection.truth is not None
    n_categories = len(np.unique(collection.truth))
    start = SemiSupervisedKMeans(n_categories, seeding="d2", n_init=10, device=device, random_state=seed)
    start.fit(collection.features, collection.labels)
    problem = make_problem(collection.features, collection.labels, device=device)
    runs = [Run(start.weights_, PARTITION.at(lam), temperature=25.0) for lam in LAMS]
    trained = optimise(problem.samples, runs, labels=problem.columns, solver="adam", max_iter=1000)
    features = problem.samples.take(np.arange(len(problem.samples))).cpu().numpy()
    predicted = [partitioner.log_probabilities(features).argmax(axis=1) for partitioner in trained.partitioners]
    return np.array([percent(score(collection, columns))[0] for columns in predicted])


def score(collection: FeatureSet, predicted: npt.NDArray[np.int64]) -> Accuracy:
    assert collection.truth is not None
    unlabelled = collection.labels == UNLABELLED
    return accuracy(collection.truth[unlabelled], predicted[unlabelled], collection.known, protocol="v2")


def percent(result: Accuracy) -> list[float]:
    return [100 * result.all, 100 * result.old, 100 * result.new]


if __name__ == "__main__":
    main()
