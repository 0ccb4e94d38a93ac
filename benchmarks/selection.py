"""How well settings and the number of categories are chosen: published rule, rehearsal, oracle, the final default.

    python benchmarks/selection.py FEATURES [--sets NAME …] [--splits 3] [--first-split 0]
        [--new-size 0.25] [--known-size 0.25] [--label-shares 0.1 0.9] [--known-share 0.2]
        [--parts published oracle default …] [--out RESULTS.jsonl] [--device auto]

FEATURES is a folder of feature sets in the released four-file layout. Split 0 is the set's own. For the
others as many known categories as the set has are drawn anew, the split being the seed, and half of each one's
samples are labelled.

Benchmarks have categories of even sizes and even shares of labels; collections do not. --new-size and --known-size
thin the new or the known categories, at random, to that part of their samples (but not below five), --label-shares
draws each known category's share of labels between two bounds, --known-share makes another part of the categories
known.

published   the paper's method, whole: `PIM.paper(K)`
oracle      the best All accuracy over 6 temperatures × 13 lams from one start, chosen by the truth
default     `PIM(K)`: lam and temperature by rehearsal, consensus; also how well novelty is told
unknown     `PIM()`: the number of categories too
quick       `PIM(effort="quick")`, and thorough likewise; the number of categories unknown
count       every estimator of the number of categories
interval    the number by rehearsal with its interval (for many splits: --splits 10)

Finished results in --out are not computed again. The tables at the end are over whatever is there.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score, roc_curve

from newkinds import PIM, estimate_n_categories, read_features
from newkinds.engine import Run, kmeans, optimise
from newkinds.labels import UNLABELLED, IntArray, known_categories
from newkinds.metrics import accuracy, calibration_error, correct
from newkinds.objective import PARTITION
from newkinds.selection.problem import make_problem

TEMPERATURES = (10.0, 15.0, 25.0, 40.0, 60.0, 100.0)
LAMS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
LEAST_SIZE = 5
"""Samples that a thinned category keeps."""
Result = dict[str, Any]
Results = dict[tuple[str, int, str], Result]
"""By set, split and part."""


@dataclass(frozen=True)
class Condition:
    """What is uneven about a problem.

    Attributes
    ----------
    new_size, known_size : float
        Part of the samples that new and known categories keep.
    label_shares : (float, float), optional
        Least and most of a known category's samples that are labelled; half of them where it is not given.
    known_share : float, optional
        Part of the categories that are known.
    """

    new_size: float = 1.0
    known_size: float = 1.0
    label_shares: tuple[float, float] | None = None
    known_share: float | None = None

    def __str__(self) -> str:
        uneven = [f"{key} {value}" for key, value in asdict(self).items() if value != getattr(EVEN, key)]
        return ", ".join(uneven).replace("_", " ") or "even"


EVEN = Condition()


class Task:
    """One split of one set under one condition."""

    def __init__(self, path: Path, split: int, device: str, condition: Condition = EVEN) -> None:
        collection = read_features(path)
        assert collection.truth is not None
        truth, labels = collection.truth, collection.labels
        self.name, self.split, self.device = path.name, split, device
        self.n_categories = len(np.unique(truth))
        generator = np.random.default_rng(split)
        known = known_categories(labels)
        if split or condition.known_share:
            n_known = round(self.n_categories * condition.known_share) if condition.known_share else len(known)
            known = np.sort(generator.choice(self.n_categories, n_known, replace=False))
        if split or condition.label_shares or condition.known_share:
            labels = np.full(len(truth), UNLABELLED)
            for category in known:
                members = np.flatnonzero(truth == category)
                share = generator.uniform(*condition.label_shares) if condition.label_shares else 0.5
                n_labelled = min(max(int(len(members) * share), 1), len(members) - 1)
                labels[generator.choice(members, n_labelled, replace=False)] = category
        stays = np.ones(len(truth), dtype=bool)
        for category in range(self.n_categories):
            members = np.flatnonzero(truth == category)
            size = condition.known_size if category in known else condition.new_size
            n_staying = min(max(LEAST_SIZE, round(len(members) * size)), len(members))
            if n_staying < len(members):
                # Labels thin with the rest; one stays.
                members = members[np.argsort(generator.random(len(members)) - 2 * _first_labelled(labels[members]))]
                stays[members[n_staying:]] = False
        self.features, self.truth, self.labels = collection.features[stays], truth[stays], labels[stays]
        self.known = known
        self.unlabelled = self.labels == UNLABELLED
        self.is_new = ~np.isin(self.truth[self.unlabelled], self.known)

    def score(self, categories: IntArray) -> list[float]:
        """All, Old and New of the unlabelled samples, in percent."""
        result = accuracy(self.truth[self.unlabelled], categories[self.unlabelled], self.known)
        return [100 * result.all, 100 * result.old, 100 * result.new]

    def fit(self, *, paper: bool = False, **parameters: Any) -> tuple[PIM, Result]:
        began = time.perf_counter()
        make = PIM.paper if paper else PIM
        model = make(**parameters, device=self.device, random_state=0).fit(self.features, self.labels)
        seconds = time.perf_counter() - began
        found = {"lam": model.lam_, "temperature": model.temperature_, "seconds": seconds}
        return model, {"score": self.score(model.labels_), **found}


def _first_labelled(labels: IntArray) -> npt.NDArray[np.bool_]:
    """Marks the first of a category's samples that has a label, if any has."""
    is_labelled = labels != UNLABELLED
    return np.asarray(is_labelled & (np.cumsum(is_labelled) == 1))


def published(task: Task) -> Result:
    return task.fit(paper=True, n_categories=task.n_categories)[1]


def oracle(task: Task) -> Result:
    problem = make_problem(task.features, task.labels, device=task.device, random_state=0)
    n_categories = task.n_categories
    start = kmeans(
        problem.samples, n_categories, labels=problem.columns, seeding="d2", max_iter=100, rng=problem.rng
    ).centroids
    settings = [(temperature, lam) for temperature in TEMPERATURES for lam in LAMS]
    runs = [Run(start, PARTITION.at(lam), temperature) for temperature, lam in settings]
    trained = optimise(problem.samples, runs, labels=problem.columns, solver="lbfgs", max_iter=300)
    scores = [task.score(problem.samples.assign(found)) for found in trained.partitioners]
    best = int(np.argmax([score[0] for score in scores]))
    grid = [[*setting, score[0]] for setting, score in zip(settings, scores, strict=True)]
    return {"score": scores[best], "temperature": settings[best][0], "lam": settings[best][1], "grid": grid}


def default(task: Task) -> Result:
    model, result = task.fit(n_categories=task.n_categories)
    assessed = model.assess(task.features[task.unlabelled])
    right = correct(task.truth[task.unlabelled], model.labels_[task.unlabelled])
    false_positive, true_positive, _ = roc_curve(task.is_new, assessed.novelty)
    return {
        **result,
        "auroc": float(roc_auc_score(task.is_new, assessed.novelty)),
        "fpr95": float(false_positive[np.searchsorted(true_positive, 0.95)]),
        "novelty_error": calibration_error(assessed.novelty, task.is_new),
        "confidence_error": calibration_error(assessed.confidence, right),
    }


def unknown(task: Task, effort: str = "normal") -> Result:
    model, result = task.fit(n_categories="auto", effort=effort)
    search = model.n_categories_search_
    assert search is not None
    assert search.interval is not None
    return {**result, "n_categories": search.n_categories, "interval": list(search.interval)}


def quick(task: Task) -> Result:
    return unknown(task, "quick")


def thorough(task: Task) -> Result:
    return unknown(task, "thorough")


def count(task: Task) -> Result:
    return {rule: _count(task, rule) for rule in ("max-acc-kmeans", "max-acc-pim")}


def interval(task: Task) -> Result:
    return _count(task, "rehearsal")


def _count(task: Task, rule: Any) -> Result:
    began = time.perf_counter()
    found = estimate_n_categories(task.features, task.labels, rule, device=task.device, random_state=0)
    seconds = time.perf_counter() - began
    return {"n_categories": found.n_categories, "interval": found.interval, "seconds": seconds}


PARTS: dict[str, Callable[[Task], Result]] = {
    part.__name__: part for part in (published, oracle, default, unknown, quick, thorough, count, interval)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=None)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--new-size", type=float, default=1.0)
    parser.add_argument("--known-size", type=float, default=1.0)
    parser.add_argument("--label-shares", nargs=2, type=float, default=None)
    parser.add_argument("--known-share", type=float, default=None)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["published", "oracle", "default"])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    names = arguments.sets or sorted(path.name for path in arguments.features.iterdir() if path.is_dir())
    shares = tuple(arguments.label_shares) if arguments.label_shares else None
    condition = Condition(arguments.new_size, arguments.known_size, shares, arguments.known_share)
    results: dict[str, Results] = {str(condition): {}}
    if arguments.out is not None and arguments.out.exists():
        for line in arguments.out.read_text().splitlines():
            where, name, split, part, result = json.loads(line)
            results.setdefault(where, {})[name, split, part] = result
    found = results[str(condition)]
    for split in range(arguments.first_split, arguments.first_split + arguments.splits):
        for name in names:
            missing = [part for part in arguments.parts if (name, split, part) not in found]
            task = Task(arguments.features / name, split, arguments.device, condition) if missing else None
            for part in missing:
                assert task is not None
                result = {**PARTS[part](task), "true": task.n_categories}
                found[name, split, part] = result
                shown = {key: value for key, value in result.items() if key != "grid"}
                print(f"{condition}: {name} {split} {part}: {_short(shown)}", flush=True)
                if arguments.out is not None:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps([str(condition), name, split, part, result]) + "\n")
    for where, of_condition in results.items():
        print(f"\n{where}")
        report(of_condition)


def report(results: Results) -> None:
    """Means over splits of each set, and over sets."""
    names = sorted({name for name, _, _ in results})

    def column(part: str, value: Callable[[Result], float]) -> list[float]:
        of_sets = []
        for name in names:
            found = [value(result) for (own, _, kind), result in results.items() if (own, kind) == (name, part)]
            of_sets.append(float(np.mean(found)) if found else float("nan"))
        return [*of_sets, float(np.mean(of_sets))]

    def error(result: Result) -> float:
        return 100.0 * float(abs(result["n_categories"] / result["true"] - 1))

    def covered(result: Result) -> float:
        return 100.0 * bool(result["interval"][0] <= result["true"] <= result["interval"][1])

    def on_grid(key: tuple[str, int, str]) -> float:
        """All accuracy, one start, of the setting that rehearsal chose."""
        chosen = results[key]["temperature"], results[key]["lam"]
        grid = results[key[0], key[1], "oracle"]["grid"]
        return next((score for *setting, score in grid if tuple(setting) == chosen), float("nan"))

    for name, split, part in list(results):
        if part == "default" and (name, split, "oracle") in results:
            results[name, split, "rehearsed"] = {"score": [on_grid((name, split, part))]}
    rows = {
        "All, published rule": column("published", lambda r: r["score"][0]),
        "All, rehearsed setting, one start": column("rehearsed", lambda r: r["score"][0]),
        "All, default": column("default", lambda r: r["score"][0]),
        "Old, default": column("default", lambda r: r["score"][1]),
        "New, default": column("default", lambda r: r["score"][2]),
        "All, oracle": column("oracle", lambda r: r["score"][0]),
        "All, K unknown": column("unknown", lambda r: r["score"][0]),
        "All, K unknown, quick": column("quick", lambda r: r["score"][0]),
        "All, K unknown, thorough": column("thorough", lambda r: r["score"][0]),
        "seconds, default": column("default", lambda r: r["seconds"]),
        "seconds, K unknown": column("unknown", lambda r: r["seconds"]),
        "seconds, quick": column("quick", lambda r: r["seconds"]),
        "seconds, thorough": column("thorough", lambda r: r["seconds"]),
        "K error %, K unknown": column("unknown", error),
        "K error %, quick": column("quick", error),
        "K error %, thorough": column("thorough", error),
        "K error %, rehearsal": column("interval", error),
        "K error %, Max-ACC k-means": column("count", lambda r: error({**r["max-acc-kmeans"], "true": r["true"]})),
        "K error %, Max-ACC PIM": column("count", lambda r: error({**r["max-acc-pim"], "true": r["true"]})),
        "coverage of the 90 % interval": column("interval", covered),
        "coverage, K unknown": column("unknown", covered),
        "novelty AUROC": column("default", lambda r: r["auroc"]),
        "novelty FPR95": column("default", lambda r: r["fpr95"]),
        "novelty calibration error": column("default", lambda r: r["novelty_error"]),
        "confidence calibration error": column("default", lambda r: r["confidence_error"]),
    }
    print(" " * 34 + " ".join(f"{name[:14]:>14}" for name in [*names, "mean"]))
    for title, values in rows.items():
        if not np.isnan(values).all():
            print(
                f"{title:34s}" + " ".join(f"{value:14.3f}" if value < 1 else f"{value:14.1f}" for value in values)
            )


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return {key: _short(each) for key, each in value.items()}
    return [_short(each) for each in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    main()
