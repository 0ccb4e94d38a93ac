"""The rows of the table: who takes in what comes. Each is a class, which registers itself in `ROWS`."""

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import roc_auc_score

from newkinds.benchmark.living.scores import State
from newkinds.benchmark.living.stream import STAGES, Stream
from newkinds.engine import normalised
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods.arriving import Arrival, Lately, Window, is_whole
from newkinds.methods.pim import PIM
from newkinds.methods.refitting import Wanted
from newkinds.methods.simgcd import SimGCD
from newkinds.methods.updating import take_in
from newkinds.metrics import calibration_error
from newkinds.selection.births import BIRTH_SIZE

Features = npt.NDArray[np.floating[Any]]
ROWS: dict[str, type["Row"]] = {}
"""Every row by its key, in the order of the table."""


@dataclass(frozen=True)
class First:
    """The model of the samples that are there at first, and the seconds that it took."""

    model: PIM
    seconds: float


class Row(ABC):
    """Base of the rows: a collection that takes samples in.

    Parameters
    ----------
    stream : Stream
    first : callable
        Fits the first model, or has it already.
    device : str
    counts : sequence of int
        How many categories the row that this one needs had after each stage.

    Attributes
    ----------
    categories : ndarray of shape (samples of the stream,)
        Ids; -1 for samples that have not come yet.
    """

    key: ClassVar[str]
    label: ClassVar[str]
    short: ClassVar[str]
    """Its name in the figure."""
    note: ClassVar[str] = ""
    needs: ClassVar[str | None] = None
    """The row from which it takes the number of categories."""
    in_parts: ClassVar[bool] = True
    """Whether it takes an arrival in parts, where that is asked for."""
    keeps_ids: ClassVar[bool] = True
    """Whether a category stays the same from stage to stage; otherwise none is born."""
    cost: ClassVar[float] = 100.0
    """See `newkinds.benchmark.jobs.Method`."""

    def __init_subclass__(cls) -> None:
        ROWS[cls.key] = cls

    def __init__(self, stream: Stream, first: functools.partial[First], device: str, counts: Sequence[int]) -> None:
        self.stream, self.first, self.device, self.counts = stream, first, device, counts
        self.categories = np.full(len(stream.truth), UNLABELLED)
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Give the samples that are there at first their categories."""

    @abstractmethod
    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        """Give samples that come their categories, perhaps others to those of before; the ids that are born."""

    @property
    @abstractmethod
    def n_categories(self) -> int:
        """That there are now."""

    @property
    def n_held(self) -> int:
        """Samples that are held back now."""
        return 0

    @property
    def facts(self) -> dict[str, Any]:
        """What else this row has to say in the end, as plain values."""
        return {}

    @property
    def there(self) -> IntArray:
        """Rows of the samples that have come."""
        return np.flatnonzero(self.categories != UNLABELLED)

    def run(self, parts: int = 1) -> list[State]:
        """Take in the whole stream; its states, the first and one for each part of an arrival."""
        states = [State(0, self.categories.copy(), (), self.n_categories, self.n_held)]
        for stage in range(1, STAGES + 1):
            for rows in self.stream.arrivals(stage, parts if self.in_parts else 1):
                began = time.perf_counter()
                born = self.take(rows, stage)
                seconds = time.perf_counter() - began
                categories = self.categories.copy()
                states.append(State(stage, categories, born, self.n_categories, self.n_held, seconds))
        return states


class Update(Row):
    """What fits is assigned, strangers are held back, and born when they agree."""

    key = "update"
    label = "Newkinds, updates"
    short = "updates"
    note = "what fits is assigned, strangers are held back, and born when they agree (`newkinds update`)."
    cost = 160

    def begin(self) -> None:
        self.model = self.first().model
        self.rows = self.stream.first_rows
        self.held = np.zeros(len(self.rows), dtype=bool)
        self.window = Window()
        self.last = int(self.model.categories_.max())
        self.categories[self.rows] = self.model.labels_
        self._begin_batch()

    def _begin_batch(self) -> None:
        """What comes is taken in from here until it is a whole batch."""
        self.before = self.model, self.categories[self.rows], self.held, self.window

    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        model, categories, held, window = self.before
        n_before = len(categories)
        lately = None
        if len(self.rows) > n_before:
            lately = Lately(self.model, self.categories[self.rows], self.held)
        self.rows = np.concatenate([self.rows, rows])
        n_batch = len(self.rows) - n_before
        categories = np.concatenate([categories, np.full(n_batch, UNLABELLED)])
        is_last = is_whole(n_batch, len(self.rows))
        arrival = Arrival(
            self.stream.features[self.rows],
            categories,
            self.stream.labels[self.rows] != UNLABELLED,
            np.concatenate([held, np.zeros(n_batch, dtype=bool)]),
            n_before,
            window.with_arrival(n_before, n_batch),
            lately=lately,
            is_whole=is_last,
        )
        became = {int(i): int(i) for i in model.categories_}
        wanted = Wanted(model.categories_, model.known_categories_, categories, categories, became)
        taken = take_in(model, arrival, wanted, self._new_id, lam=model.lam_)
        taken.model.learnt_strangers()  # which the next update needs, and a run is saved with
        self.model, self.held, self.window = taken.model, taken.held, taken.window
        self.categories[self.rows] = taken.categories
        if is_last:
            self._begin_batch()
        return taken.born

    def _new_id(self) -> int:
        self.last += 1
        return self.last

    @property
    def n_categories(self) -> int:
        return len(self.model.categories_)

    @property
    def n_held(self) -> int:
        return int(self.held.sum())


class Refit(Row):
    """Everything is fitted anew at every stage, the number of categories unknown."""

    key = "refit"
    label = "Newkinds, everything fitted again"
    short = "fitted again"
    note = "`PIM()` on all samples at every stage, the number of categories unknown; its ids are new each time."
    in_parts = False
    keeps_ids = False
    cost = 2000

    def begin(self) -> None:
        self._adopt(self.first().model, self.stream.first_rows)

    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        there = np.sort(np.concatenate([self.there, rows]))
        model = PIM(random_state=0, device=self.device)
        self._adopt(model.fit(self.stream.features[there], self.stream.labels[there]), there)
        return ()

    def _adopt(self, model: PIM, rows: IntArray) -> None:
        self.model = model
        self.categories[rows] = model.labels_

    @property
    def n_categories(self) -> int:
        return self.model.n_categories_


class Assign(Row):
    """The first model answers, whatever comes."""

    key = "assign"
    label = "Newkinds, the first model only"
    short = "first model only"
    note = "what comes gets the first model's answer; nothing is born."
    cost = 80

    def begin(self) -> None:
        self.model = self.first().model
        rows = self.stream.first_rows
        self.categories[rows] = self.model.predict(self.stream.features[rows])

    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        self.categories[rows] = self.model.predict(self.stream.features[rows])
        return ()

    @property
    def n_categories(self) -> int:
        return self.model.n_categories_

    @property
    def facts(self) -> dict[str, Any]:
        """How well the first model tells the classes that come later from the others.

        The error of what it takes for their probability is that of each stage's samples, asked about together.
        """
        rows = np.flatnonzero(self.stream.stage > 0)
        stages = self.stream.stage[rows]
        is_strange = ~np.isin(self.stream.truth[rows], self.stream.first)
        asked = self.stream.features[rows]
        together = [np.flatnonzero(stages == stage) for stage in range(1, STAGES + 1)]
        errors = [calibration_error(self.model.strangeness(asked[part]), is_strange[part]) for part in together]
        return {
            "auroc": float(roc_auc_score(is_strange, self.model.strangeness(asked))),
            "auroc_of_confidence": float(roc_auc_score(is_strange, 1 - self.model.assess(asked).confidence)),
            "calibration_error": float(np.mean(errors)),
        }


class NearestCentre(Row):
    """Mini-batch k-means with births by distance.

    The centres are the means of the first model's categories. A sample that comes goes to the nearest centre and
    moves it by 1 / count; one that is farther than `radius` is held back. Held samples are grouped by average
    linkage, up to pairs √2 · `radius` apart on average, as two samples are that lie in different directions at
    `radius` from the same centre; a group of 8 becomes a category.
    """

    key = "kmeans"
    label = "mini-batch k-means, births by distance"
    short = "mini-batch k-means"
    note = (
        "centres from the first model's categories; a sample farther than 60 % of the labelled ones are from "
        "theirs (by the truth the best share) is held back, and eight held samples that lie together are a "
        "category."
    )
    cost = 80
    QUANTILE = 0.6
    """Of those from 0.3 to 0.95 the best by the truth, on average over CUB and BANKING77."""
    BATCH = 256

    def begin(self) -> None:
        model = self.first().model
        self.features = normalised(self.stream.features)
        rows = self.stream.first_rows
        self.categories[rows] = model.labels_
        self.ids = model.categories_.tolist()
        columns = np.searchsorted(model.categories_, model.labels_)
        self.counts_of = np.bincount(columns, minlength=len(self.ids))
        sums = np.zeros((len(self.ids), self.features.shape[1]))
        np.add.at(sums, columns, self.features[rows])
        self.centres = sums / np.maximum(self.counts_of, 1)[:, None]
        self.held = np.zeros(len(self.categories), dtype=bool)
        self.radius = self._radius(rows, columns)

    def _radius(self, rows: IntArray, columns: IntArray) -> float:
        """A quantile of the distances of labelled samples to the mean of the others in their category."""
        labelled = (self.stream.labels[rows] != UNLABELLED) & (self.counts_of[columns] > 1)
        distances = np.linalg.norm(self.features[rows] - self.centres[columns], axis=1)
        # A sample has pulled its mean towards itself: the mean of the n - 1 others is n / (n - 1) times as far.
        n = self.counts_of[columns[labelled]]
        return float(np.quantile(distances[labelled] * n / (n - 1), self.QUANTILE))

    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        for first in range(0, len(rows), self.BATCH):
            batch = rows[first : first + self.BATCH]
            columns, distances = self._nearest(batch)
            self.categories[batch] = np.array(self.ids)[columns]
            self.held[batch] = distances > self.radius
            self._move(batch[~self.held[batch]], columns[~self.held[batch]])
        return self._give_birth()

    def _nearest(self, rows: IntArray) -> tuple[IntArray, Features]:
        """Column of the nearest centre of each sample, and how far it is."""
        features = self.features[rows]
        squares = (self.centres**2).sum(1) - 2 * features @ self.centres.T + 1
        columns = squares.argmin(1)
        return columns, np.sqrt(np.maximum(squares[np.arange(len(rows)), columns], 0))

    def _move(self, rows: IntArray, columns: IntArray) -> None:
        """Move centres to the means of all samples they have got, as steps of 1 / count one after another do."""
        sums = self.centres * self.counts_of[:, None]
        np.add.at(sums, columns, self.features[rows])
        self.counts_of = self.counts_of + np.bincount(columns, minlength=len(self.ids))
        self.centres = sums / np.maximum(self.counts_of, 1)[:, None]

    def _give_birth(self) -> tuple[int, ...]:
        held = np.flatnonzero(self.held)
        if len(held) < BIRTH_SIZE:
            return ()
        tree = linkage(self.features[held].astype(np.float64), method="average")
        groups = fcluster(tree, np.sqrt(2) * self.radius, criterion="distance")
        born = []
        for group in np.flatnonzero(np.bincount(groups) >= BIRTH_SIZE):
            rows = held[groups == group]
            category = self.ids[-1] + 1
            self.ids.append(category)
            born.append(category)
            self.centres = np.vstack([self.centres, self.features[rows].mean(0)])
            self.counts_of = np.append(self.counts_of, len(rows))
            self.categories[rows] = category
            self.held[rows] = False
        if born:  # others that were held back may be near to what was born
            rows = np.flatnonzero(self.held)
            columns, distances = self._nearest(rows)
            self.categories[rows] = np.array(self.ids)[columns]
            near = distances <= self.radius
            self.held[rows[near]] = False
            self._move(rows[near], columns[near])
        return tuple(born)

    @property
    def n_categories(self) -> int:
        return len(self.ids)

    @property
    def n_held(self) -> int:
        return int(self.held.sum())


class WarmSimGCD(Row):
    """SimGCD fitted again at every stage, from the prototypes of the stage before."""

    key = "simgcd"
    label = "SimGCD, head on frozen features, refitted warm"
    short = "SimGCD, warm"
    note = (
        "on all samples at every stage; prototypes go on from those of the stage before, others start at "
        "random. It is told the number of categories that the updates of Newkinds have found by then."
    )
    needs = "update"
    in_parts = False
    cost = 90

    def begin(self) -> None:
        self.prototypes: npt.NDArray[np.float32] = np.zeros((0, self.stream.features.shape[1]), dtype=np.float32)
        self._fit(self.stream.first_rows, self.counts[0])

    def take(self, rows: IntArray, stage: int) -> tuple[int, ...]:
        n_before = len(self.prototypes)
        self._fit(np.sort(np.concatenate([self.there, rows])), max(self.counts[stage], n_before))
        return tuple(self.ids[n_before:].tolist())

    def _fit(self, rows: IntArray, n_categories: int) -> None:
        added = np.zeros((n_categories - len(self.prototypes), self.stream.features.shape[1]), dtype=np.float32)
        start = np.vstack([self.prototypes, added])
        model = SimGCD(n_categories, init=start, random_state=0, device=self.device)
        labels = self.stream.labels[rows]
        model.fit(self.stream.features[rows], labels)
        self.prototypes = model.prototypes_
        known, n_known = model.known_categories_, len(model.known_categories_)
        new = known.max() + 1 + np.arange(n_categories - n_known)
        # The model numbers new categories by their size; here they keep the number of the prototype they come from.
        self.ids = np.concatenate([known, new])
        columns = (normalised(self.stream.features[rows]) @ self.prototypes.T).argmax(1)
        self.categories[rows] = np.where(labels == UNLABELLED, self.ids[columns], labels)

    @property
    def n_categories(self) -> int:
        return len(self.prototypes)
