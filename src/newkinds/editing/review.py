"""What is most worth a person's look: questions about a run, ordered by how much their answers would change.

Categories that were discovered are wrong in parts: some of the samples of a category belong together, elsewhere. So
each category is cut into parts (k-means, one more with every answer about it), and the question is about the middle
sample of a part: does it belong here? A part is worth the number of its samples that are expected to be wrong (the
sum of 1 - confidence), the more the farther it lies from the middle of its category and the more its samples agree
on where else they may belong, and the less the more of them are labelled. Pairs of categories that look like one,
and labels that look wrong, come in between.

An answer becomes one entry of the journal.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from newkinds.editing.edited_run import EditedRun
from newkinds.editing.opened_run import Category
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import IntArray
from newkinds.separation import Separation

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

Topic = Literal["sample", "merge", "label"]
TYPICAL = 3
"""Samples of a category that are shown beside a question."""
MOST_PARTS = 8
"""Parts that a category is cut into."""
CUT = 1000
"""Samples of a category or of a part that are looked at."""
SMALLEST = 4
"""Samples of a category that questions are asked about."""
ALTERNATIVES = 5
SAME = 0.1
"""How often two categories that look like one are: one in ten or so on texts and birds."""
PER_CATEGORY = 0.1
"""Share of a list of questions that may be about the same category."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Question:
    """Something to ask a person.

    Attributes
    ----------
    topic : {"sample", "merge", "label"}
        Does a sample belong to a category; are two categories one; is a label right?
    category : int
        The category that is proposed: where the sample is now, or the first of the two.
    samples : tuple of int
        Rows that are asked about; typical ones of the other category, where the topic is "merge".
    typical : tuple of int
        Rows to show of the category; confirmed ones first.
    alternatives : tuple of int
        Categories that may be right instead, the likeliest first; the other one, where the topic is "merge".
    worth : float
        About how many samples the answer is expected to put right.
    """

    topic: Topic
    category: int
    samples: tuple[int, ...]
    typical: tuple[int, ...]
    alternatives: tuple[int, ...]
    worth: float


def review_questions(run: EditedRun, n: int = 50) -> list[Question]:
    """At most so many questions, those most worth an answer first. Ask again after some answers, or a refit."""
    view = _View(run)
    candidates = [*view.parts(), *view.merges(), *view.doubted_labels()]
    candidates.sort(key=lambda question: (-question.worth, question.topic, question.samples))
    chosen: list[Question] = []
    taken: Counter[int] = Counter()
    for question in candidates:
        if len(chosen) == n:
            break
        if taken[question.category] < max(1, int(PER_CATEGORY * n)):
            taken[question.category] += 1
            chosen.append(question)
    return view.with_alternatives(chosen)


def question_about(run: EditedRun, row: int) -> Question:
    """Whether one sample belongs where it is, as a question of the queue."""
    view = _View(run)
    category = int(run.samples.categories[row])
    question = Question("sample", category, (row,), view.typical(category), (), 1.0)
    return view.with_alternatives([question])[0]


def answer_question(
    run: EditedRun,
    question: Question,
    answer: Literal["yes", "no", "new"] | Category,
    *,
    odd: Sequence[int] = (),
    name: str | None = None,
    reason: str = "",
) -> Entry:
    """Write what a person answered.

    Parameters
    ----------
    run : EditedRun
    question : Question
    answer : "yes", "no", "new", or a category
        "yes" confirms the samples that were shown, or merges. "no" to a merge confirms the samples of both sides
        where they are. A sample belongs to the category that is named, by its id or name, or to a "new" one.
    odd : sequence of int
        Rows that were shown and do not belong to the others: nothing is said of them.
    name : str, optional
        Of a new category.
    reason : str
        Written down with it.
    """
    with run.held():  # what is shown may not move between this look and the entry
        shown = np.setdiff1d(_still_there(run, question), odd)
        if answer == "yes" and question.topic == "merge":
            pair = [question.category, question.alternatives[0]]
            return run.merge(pair, known=True, reason=reason)
        if answer == "yes" or (answer == "no" and question.topic == "merge"):
            return run.confirm(shown, reason=reason)
        if answer == "no":
            raise InputError('where does it belong? Answer with a category, or with "new"')
        if question.topic == "merge":
            raise InputError(f'answer "yes" or "no" to whether two categories are one; got {answer!r}')
        if answer == "new":
            return run.create(list(question.samples), name, reason=reason)
        return run.move(list(question.samples), answer, reason=reason)


def _still_there(run: EditedRun, question: Question) -> list[int]:
    """The samples of a question that are still in the category that it showed them in."""
    asked = question.alternatives[0] if question.topic == "merge" else question.category
    categories = run.samples.categories
    return [
        *(row for row in question.samples if categories[row] == asked),
        *(row for row in question.typical if categories[row] == question.category),
    ]


class _View:
    """A run as questions are looked for in it."""

    def __init__(self, run: EditedRun) -> None:
        self.run = run
        self.samples = run.samples
        self.labelled = self.samples.labelled
        features = np.asarray(run.features, dtype=np.float32)
        self.unit: Floats = np.asarray(run.fitted._unit(features), dtype=np.float32)
        ids = [category["id"] for category in run.record["categories"]]
        order = np.argsort(self.samples.categories, kind="stable")
        bounds = np.searchsorted(self.samples.categories[order], [*ids, ids[-1] + 1])
        self.members = {i: order[bounds[place] : bounds[place + 1]] for place, i in enumerate(ids)}

    @cached_property
    def model(self) -> "CategoryDiscoverer":
        return self.run.model

    def parts(self) -> Iterator[Question]:
        """About the middle sample of each part of each category."""
        answered = Counter(category for entry in self.run.done for category in _asked_about(entry))
        for category, members in self.members.items():
            n_parts = min(2 + answered[category], MOST_PARTS)
            if len(members) < max(SMALLEST, 2 * n_parts):
                continue
            typical = self.typical(category)
            middle = self.unit[members].mean(axis=0)
            for part in self._cut(members, n_parts):
                free = part[~self.labelled[part]]
                if not len(free):
                    continue
                centre = self.unit[part].mean(axis=0)
                wrong = float((1 - self.samples.confidence[free]).sum())
                worth = wrong * _apart(centre, middle) * (0.5 + self._agreement(category, free))
                worth /= 1 + len(part) - len(free)
                row = int(free[np.argmax(self.unit[free] @ centre)])
                shown = tuple(other for other in typical if other != row)
                yield Question("sample", category, (row,), shown, (), worth)

    def merges(self) -> Iterator[Question]:
        """About pairs of new categories that look like one and that nobody has looked at."""
        categories = self.run.record["categories"]
        columns = np.searchsorted([c["id"] for c in categories], self.samples.categories)
        is_new = np.array([category["kind"] == "new" for category in categories])
        for first, second, strength in Separation(self.run.features, columns, is_new).merges():
            pair = categories[first]["id"], categories[second]["id"]
            shown = [self.typical(category) for category in pair]
            if all(self.samples.confirmed[list(rows)].all() for rows in shown):
                continue
            smaller = min(len(self.members[category]) for category in pair)
            yield Question("merge", pair[0], shown[1], shown[0], (pair[1],), SAME * strength * smaller)

    def doubted_labels(self) -> Iterator[Question]:
        """About labels that look wrong."""
        for row, likely, probability in self.run.record.get("suspected_labels") or ():
            category = int(self.samples.categories[row])
            shown = tuple(other for other in self.typical(category) if other != row)
            yield Question("label", category, (row,), shown, (likely,), probability)

    def typical(self, category: int) -> tuple[int, ...]:
        """Samples to show of a category: those nearest to its middle, confirmed ones first."""
        members = self.members[category]
        if not len(members):
            return ()
        nearest = members[np.argsort(-(self.unit[members] @ self.unit[members].mean(axis=0)), kind="stable")]
        settled = nearest[self.labelled[nearest]]
        others = nearest[~self.labelled[nearest]]
        return tuple(int(row) for row in [*settled[:TYPICAL], *others][:TYPICAL])

    def with_alternatives(self, questions: list[Question]) -> list[Question]:
        """Questions with the categories that the model finds likeliest for their samples."""
        asking = [question for question in questions if question.topic != "merge"]
        if not asking:
            return questions
        model = self.model
        rows = [question.samples[0] for question in asking]
        probabilities = model.predict_proba(np.asarray(self.run.features[rows], dtype=np.float32))
        ranked = {
            question: [int(i) for i in model.categories_[np.argsort(-p, kind="stable")] if i != question.category]
            for question, p in zip(asking, probabilities, strict=True)
        }
        return [
            question
            if question.topic == "merge"
            else replace(
                question,
                alternatives=tuple(dict.fromkeys([*question.alternatives, *ranked[question]]))[:ALTERNATIVES],
            )
            for question in questions
        ]

    def _agreement(self, category: int, rows: IntArray) -> float:
        """How far samples agree on where else they may belong: the share of the likeliest other category."""
        some = np.asarray(self.run.features[_some(rows)], dtype=np.float32)
        others = self.model.predict_proba(some).mean(axis=0)[self.model.categories_ != category]
        total = float(others.sum())
        return float(others.max()) / total if total > 0 else 0.0

    def _cut(self, members: IntArray, n_parts: int) -> list[IntArray]:
        import torch

        from newkinds.engine import kmeans

        some = _some(members)
        found = kmeans(
            torch.from_numpy(np.ascontiguousarray(self.unit[some])),
            n_parts,
            n_init=2,
            max_iter=20,
            rng=np.random.RandomState(0),
            stage="looking for questions",
        )
        centres = found.centroids
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * self.unit[members] @ centres.T, axis=1)
        return [members[nearest == part] for part in range(n_parts) if (nearest == part).any()]


def _some(rows: IntArray) -> IntArray:
    """At most so many rows that looking at them is quick, at even distances."""
    return rows if len(rows) <= CUT else rows[np.linspace(0, len(rows) - 1, CUT).astype(np.int64)]


def _asked_about(entry: Entry) -> set[int]:
    """The categories that an entry is an answer about: those that samples left, or were confirmed in."""
    flows = {start for start, _, _ in entry.outcome.get("flows", ())}
    return flows or {category for category, _, _ in entry.outcome.get("sizes", ())}


def _apart(one: Floats, other: Floats) -> float:
    """1 - the cosine of two means."""
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return 1 - float(one @ other) / lengths if lengths else 1.0
