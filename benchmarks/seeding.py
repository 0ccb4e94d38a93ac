"""What the seeding of semi-supervised k-means decides: its own accuracy, and that of PIM started from it.

    python benchmarks/seeding.py FEATURES [--sets NAME …] [--starts 8] [--device auto]

FEATURES is a folder of feature sets in the released four-file layout. Prints, for plain (D²) and greedy k-means++,
the All accuracy and inertia of semi-supervised k-means (10 restarts) and the All accuracy of F at several λ,
means ± std over the starts.
"""

import argparse
from pathlib import Path

import numpy as np

from newkinds.data import read_features
from newkinds.engine import Run, kmeans, optimise
from newkinds.labels import UNLABELLED
from newkinds.metrics import accuracy
from newkinds.names import Seeding
from newkinds.objective import PARTITION
from newkinds.selection.problem import make_problem

LAMS = (0.05, 0.1, 0.2, 0.3, 1.0)
SEEDINGS: tuple[Seeding, ...] = ("d2", "greedy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--starts", type=int, default=8)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    names = arguments.sets or sorted(path.name for path in arguments.features.iterdir() if path.is_dir())
    for name in names:
        collection = read_features(arguments.features / name)
        problem = make_problem(collection.features, collection.labels, device=arguments.device)
        assert collection.truth is not None
        truth, unlabelled = collection.truth, collection.labels == UNLABELLED
        n_categories = len(np.unique(truth))
        features = problem.samples.take(np.flatnonzero(unlabelled)).cpu().numpy()
        print(f"\n{name}: {collection}, K = {n_categories}; F at λ {', '.join(map(str, LAMS))}")
        for seeding in SEEDINGS:
            starts, partitions = [], []
            for seed in range(arguments.starts):
                rng = np.random.RandomState(seed)
                start = kmeans(problem.samples, n_categories, labels=problem.columns, seeding=seeding, rng=rng)
                right = accuracy(truth[unlabelled], start.columns[unlabelled], collection.known).all
                starts.append((100 * right, start.inertia))
                runs = [Run(start.centroids, PARTITION.at(lam)) for lam in LAMS]
                trained = optimise(problem.samples, runs, labels=problem.columns, solver="adam")
                partitions.append(
                    [
                        100 * accuracy(truth[unlabelled], partitioner.assign(features), collection.known).all
                        for partitioner in trained.partitioners
                    ]
                )
            (right_mean, inertia), (right_std, _) = np.mean(starts, axis=0), np.std(starts, axis=0)
            means, stds = np.mean(partitions, axis=0), np.std(partitions, axis=0)
            curve = "  ".join(f"{mean:.1f} ± {std:.1f}" for mean, std in zip(means, stds, strict=True))
            print(
                f"  {seeding:6s} ssKM {right_mean:.1f} ± {right_std:.1f}, inertia {inertia:.1f}   F {curve}",
                flush=True,
            )


if __name__ == "__main__":
    main()
