"""Do corrections pay? A simulated reviewer answers the review queue from the truth; the error on the other samples.

    python benchmarks/review.py FEATURES [--sets NAME …] [--splits 1] [--first-split 0] [--answers 200] [--every 50]
        [--runs FOLDER] [--out RESULTS.jsonl] [--picture docs/pictures/review.svg]

FEATURES is a folder of feature sets in the released four-file layout; splits are those of `selection.py`. Each is
fitted once with all defaults (the number of categories is estimated, too) and kept in --runs. Then two reviewers
answer so many questions each, with a refit after every few: one those of the queue, in its order; one the same kind
of questions about samples drawn at random.

A reviewer sees the samples of a question and typical ones of the categories, takes a category for the class that
most of those belong to, and answers by the class of the sample asked about. All that were shown are left out of the
error: 1 - All accuracy of the unlabelled samples that were never shown, before and after, on the same samples.
"Kept": of the sure samples in categories that no answer was about, the share that keep their id, in the refit in
which most lose it.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from newkinds import discover
from newkinds.data import FeatureSet
from newkinds.editing import EditedRun, Question, answer_question, question_about, refit, review_questions
from newkinds.editing.supervision import SURE
from newkinds.labels import IntArray
from newkinds.metrics import accuracy
from selection import Task  # type: ignore[import-not-found]  # it lies beside this file

SETS = ("banking77_minilm", "cub_tinyvit", "clinc150_minilm")
ORDERS = ("queue", "random")


class Reviewer:
    """Answers from the truth."""

    def __init__(self, folder: Path, task: Task, seed: int = 0) -> None:
        self.run, self.task = EditedRun(folder), task
        self.before = self.run.samples.categories.copy()
        self.is_shown = np.zeros(len(task.truth), dtype=bool)
        self.generator = np.random.default_rng(seed)
        self.said: Counter[str] = Counter()

    def questions(self, order: str, n: int) -> list[Question]:
        if order == "queue":
            return review_questions(self.run, n)
        free = np.flatnonzero(self.task.unlabelled & ~self.run.samples.confirmed & ~self.is_shown)
        rows = self.generator.choice(free, n, replace=False)
        return [question_about(self.run, int(row)) for row in rows]

    def classes(self) -> dict[int, int]:
        """The class that each category is taken for: its label, or that of most samples that are shown of it."""
        classes = {}
        for category in self.run.record["categories"]:
            i = category["id"]
            members = self.run.members(i)
            if category["kind"] == "known":
                classes[i] = int(category["key"])
            elif len(members):
                confirmed = members[self.run.samples.confirmed[members]]
                classes[i] = _most(self.task.truth[confirmed if len(confirmed) else self._typical(members)])
        return classes

    def _typical(self, members: IntArray) -> IntArray:
        features = np.asarray(self.run.features[members], dtype=np.float32)
        return members[np.argsort(-(features @ features.mean(axis=0)))[:3]]

    def answer(self, question: Question, classes: dict[int, int]) -> None:
        truth = self.task.truth
        shown = np.array([*question.samples, *question.typical], dtype=np.int64)
        self.is_shown[shown] = True
        if question.category not in classes:  # merged meanwhile
            return
        own = classes[question.category]
        if question.topic == "merge":
            other = classes.get(question.alternatives[0])
            if other is None:
                return
            sides = dict.fromkeys(question.samples, other) | dict.fromkeys(question.typical, own)
            odd = [row for row, side in sides.items() if truth[row] != side]
            self._write(question, "yes" if own == other else "no", odd)
            if own == other:
                gone = set(classes) - {category["id"] for category in self.run.record["categories"]}
                for i in gone:
                    del classes[i]
            return
        right = int(truth[question.samples[0]])
        if right == own:
            self._write(question, "yes", [int(row) for row in shown if truth[row] != own])
            return
        others = [i for i in (*question.alternatives, *classes) if classes.get(i) == right]
        if others:
            self._write(question, others[0])
            return
        self._write(question, "new")
        classes[self.run.record["categories"][-1]["id"]] = right

    def _write(self, question: Question, answer: Any, odd: list[int] | None = None) -> None:
        self.said[answer if isinstance(answer, str) else "another"] += 1
        self.said[f"about a {question.topic}"] += 1
        rows = np.setdiff1d([*question.samples, *question.typical], odd or [])
        confirms = answer in ("yes", "no") and (answer, question.topic) != ("yes", "merge")
        if confirms and self.run.samples.confirmed[rows].all():
            return
        answer_question(self.run, question, answer, odd=odd or ())

    def errors(self) -> tuple[float, float]:
        """Before and after, on the samples that were never shown."""
        scored = self.task.unlabelled & ~self.is_shown
        now = self.run.samples.categories
        known = self.task.known
        truth = self.task.truth[scored]
        # mypy does not count the items of a generator.
        return tuple(1 - accuracy(truth, found[scored], known).all for found in (self.before, now))  # type: ignore[return-value]


def _most(classes: IntArray) -> int:
    return int(Counter(classes.tolist()).most_common(1)[0][0])


def review(run: Path, task: Task, order: str, n_answers: int, every: int) -> dict[str, Any]:
    curve, seconds, kept = [[0, 0.0]], [], []
    with tempfile.TemporaryDirectory() as folder:
        reviewer = Reviewer(Path(shutil.copytree(run, Path(folder, "run"))), task)
        for n in range(every, n_answers + 1, every):
            classes = reviewer.classes()
            for question in reviewer.questions(order, every):
                reviewer.answer(question, classes)
            samples = reviewer.run.samples
            entries = reviewer.run.done_since_refit
            touched = [category for entry in entries for category, _, _ in entry.outcome.get("sizes", ())]
            earlier = samples.categories.copy()
            sure = ~samples.labelled & (samples.confidence >= SURE) & ~np.isin(earlier, touched)
            began = time.perf_counter()
            refit(reviewer.run)
            seconds.append(time.perf_counter() - began)
            kept.append(float((reviewer.run.samples.categories == earlier)[sure].mean()))
            before, after = reviewer.errors()
            curve.append([n, 100 * (1 - after / before)])
        fit = reviewer.run.record["seconds"]["fit"]
    said = dict(reviewer.said)
    costs = {"refit": max(seconds), "fit": fit, "kept": min(kept)}
    return {"curve": curve, "error": [before, after], **costs, "said": said}


def fitted(folder: Path, task: Task) -> Path:
    place = folder / f"{task.name}-{task.split}-auto"
    if not place.exists():
        collection = FeatureSet(task.features, task.labels, task.truth)
        discover(collection).save(place, with_map=False)
    return place


def draw(results: dict[tuple[str, int, str], dict[str, Any]], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    names = sorted({name for name, _, _ in results})
    figure, axes = plt.subplots(1, len(names), figsize=(3.4 * len(names), 3.2), sharey=True, squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for order, colour in zip(ORDERS, ("#1f6f5c", "#999999"), strict=True):
            curves = [np.array(r["curve"]) for (own, _, kind), r in results.items() if (own, kind) == (name, order)]
            for curve in curves:
                axis.plot(curve[:, 0], curve[:, 1], color=colour, alpha=0.35, linewidth=1)
            mean = np.mean(curves, axis=0)
            axis.plot(mean[:, 0], mean[:, 1], color=colour, marker="o", label=f"{order} order")
        axis.axhline(10, color="#cc6677", linewidth=0.8, linestyle=":")
        axis.set_title(name.split("_")[0])
        axis.set_xlabel("answers")
    axes[0][0].set_ylabel("less error on the other samples (%)")
    axes[0][0].legend(frameon=False)
    figure.tight_layout()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--first-split", type=int, default=0)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir(), "newkinds-review-runs"))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--picture", type=Path, default=None)
    arguments = parser.parse_args()
    results: dict[tuple[str, int, str], dict[str, Any]] = {}
    if arguments.out is not None and arguments.out.exists():
        results = {tuple(key): result for key, result in map(json.loads, arguments.out.read_text().splitlines())}
    for split in range(arguments.first_split, arguments.first_split + arguments.splits):
        for name in arguments.sets:
            if all((name, split, order) in results for order in ORDERS):
                continue
            task = Task(arguments.features / name, split, "cpu")
            run = fitted(arguments.runs, task)
            for order in ORDERS:
                result = review(run, task, order, arguments.answers, arguments.every)
                results[name, split, order] = result
                steps = "  ".join(f"{n}: {gain:5.1f} %" for n, gain in result["curve"][1:])
                print(f"{name} {split} {order:6s}  {steps}", end="  ")
                print(f"refit {result['refit']:.1f} s of {result['fit']:.0f}", end="  ")
                print(f"kept {100 * result['kept']:.2f} %  {result['said']}", flush=True)
                if arguments.out is not None:
                    with arguments.out.open("a") as file:
                        file.write(json.dumps([[name, split, order], result]) + "\n")
    if arguments.picture is not None:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
