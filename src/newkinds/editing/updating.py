"""Updating a run with new samples: a version of it, with those samples among its own.

What fits is assigned, what is strange is held back, and strangers that agree are a new category
(`newkinds.methods.updating`). Ids and names stay; samples that have a label or were confirmed never move.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.data import FeatureSet
from newkinds.data.pictures import png
from newkinds.data.thumbnails import packed_pictures
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.naming_rules import checked_name, next_number
from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.supervision import supervision
from newkinds.editing.versions import add_version, next_version, pictures_of, version_record, write_separately
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import UNLABELLED, IntArray
from newkinds.naming import suggest_names
from newkinds.projection import project
from newkinds.run_folder import PICTURES, RUN_FILES, as_standing
from newkinds.staging import refuse_existing, staged
from newkinds.standing import SampleState, lineage, standing
from newkinds.wording import option

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

LEAST_EXPECTED = 10
"""Samples of a category that an arrival should bring before it is called dormant for bringing none."""
SHOWN = 3
"""Ids that an error names."""


@dataclass(frozen=True)
class Update:
    """An update that was done.

    Attributes
    ----------
    place : Path
        The run folder that holds the result.
    entry : Entry or None
        Of the journal; None where the result is a run of its own.
    changes : dict
        What changed, see `newkinds.journal.UPDATE_CHANGES`.
    names : dict of int to str
        Name of every category.
    seconds : float
    """

    place: Path
    entry: Entry | None
    changes: dict[str, Any]
    names: dict[int, str]
    seconds: float


@dataclass
class _Categories:
    """The categories of a run while an update is worked out: those that there are, and those that come."""

    present: list[dict[str, Any]]
    last: tuple[int, int]
    born: list[dict[str, Any]] = field(default_factory=list)
    named: list[list[Any]] = field(default_factory=list)

    def bear(self, name: str | None = None) -> int:
        """A new category: an id and a key that nobody has ever had."""
        taken = {c[part].casefold() for c in [*self.present, *self.born] for part in ("key", "name")}
        number = next_number(self.last[1], taken)
        self.last = (self.last[0] + 1, number)
        category = {"id": self.last[0], "key": f"new-{number}", "name": name or f"new-{number}", "kind": "new"}
        self.born.append({**category, "named": name is not None, "suggestion": None, "size": 0, "labelled": 0})
        return self.last[0]

    def call(self, category: int, name: str) -> None:
        """Give a category of the run a name."""
        place = next(i for i, c in enumerate(self.present) if c["id"] == category)
        self.present[place] = {**self.present[place], "name": name, "named": True}
        self.named.append([category, name])

    def suggest(self, features: npt.NDArray[Any], categories: IntArray, texts: list[str] | None) -> None:
        """Suggest names for those that came."""
        if not self.born:
            return
        ids = np.array([c["id"] for c in self.all])
        n_known = sum(c["kind"] == "known" for c in self.all)
        columns = np.searchsorted(ids, categories)
        suggestions = suggest_names(features, columns, [c["name"] for c in self.all], n_known, texts)
        first = len(self.present)
        self.born = [
            {**category, "suggestion": suggestions.get(first + place)} for place, category in enumerate(self.born)
        ]

    @property
    def all(self) -> list[dict[str, Any]]:
        return [*self.present, *self.born]


def update(
    run: str | Path | OpenedRun,
    arrivals: FeatureSet,
    *,
    out: str | Path | None = None,
    birth_size: int | None = None,
    keep: int | None = None,
    source: str = "",
    reason: str = "",
) -> Update:
    """Put new samples into a run.

    Each gets the category that it fits best. Those that are like nothing seen are held back: they have a category,
    the most probable one, but do not teach what it looks like. Once enough of them agree, also with those held back
    before, a category is born. Labels of new samples count: that of a category's name or key is this category; any
    other name is given to the new, unnamed category that most of its samples fall into, and otherwise makes one.

    Parameters
    ----------
    run : path or OpenedRun
    arrivals : FeatureSet
        The new samples, as the run's features are made.
    out : path, optional
        Write a run folder of its own there; by default the result is a new version inside the run.
    birth_size : int, optional
        Samples that a category has at its birth, at least; 8 by default.
    keep : int, optional
        Of each category keep no more samples than so many; labelled, confirmed and held ones always. Which ones go
        is chance. By default all are kept.
    source : str
        What the samples come from, for the journal.
    reason : str
        Written down with it.
    """
    from newkinds.methods.refitting import Wanted
    from newkinds.methods.updating import Arrival, take_in
    from newkinds.selection.births import BIRTH_SIZE

    opened = run if isinstance(run, OpenedRun) else EditedRun(run)
    opened.refresh()
    began = time.perf_counter()
    chosen, n_entries = opened.record["chosen"], len(opened.entries)
    if chosen["lam"] is None:
        raise InputError(f"a run by {opened.record['method']} cannot be updated; discover again with all samples")
    if keep is not None and keep < 1:
        raise InputError(f"{option('keep', '--keep')} should be at least 1; got {keep}")
    ids = _checked_ids(opened, arrivals)
    earlier, features = opened.samples, _joined_features(opened, arrivals)
    n_before = len(earlier.categories)
    categories = _Categories(list(opened.record["categories"]), opened.last_used)
    settled_new = _take_labels(opened, arrivals, categories)
    taught = supervision(opened, np.asarray(opened.fitted._unit(features[:n_before]), dtype=np.float32))
    is_settled = np.concatenate([taught.labels != UNLABELLED, settled_new != UNLABELLED])
    before = np.concatenate([earlier.categories, settled_new])
    held = np.concatenate([earlier.held, np.zeros(len(arrivals), dtype=bool)])
    present = np.array([c["id"] for c in categories.all], dtype=np.int64)
    known = np.array([c["id"] for c in categories.all if c["kind"] == "known"], dtype=np.int64)
    became = lineage(opened.fitted.categories_.tolist(), opened.done_since_refit)
    labelled_born = frozenset(c["id"] for c in categories.born)
    wanted = Wanted(present, known, before, before, became, labelled_born | taught.changed)
    model: CategoryDiscoverer = opened.fitted
    if model.learnt_strangers() is None:  # of an earlier version, or fitted by several processes
        model = model.with_samples(features[:n_before], model.labels_, earlier.labelled)
        model.lam_ = float(chosen["lam"])  # which it is trained again with
    taken = take_in(
        model,
        Arrival(features, before, is_settled, held, n_before),
        wanted,
        categories.bear,
        lam=float(chosen["lam"]),
        size_ratio=chosen.get("size_ratio") or 1.0,
        birth_size=BIRTH_SIZE if birth_size is None else birth_size,
    )
    samples = _samples(earlier, taken, settled_new, features, known)
    kept = _kept_rows(samples, keep, np.random.default_rng(n_entries))
    changes = _changes(categories, earlier, samples, taken, n_before, len(features) - len(kept))
    table = _table(opened, arrivals, ids)
    model = taken.model
    if len(kept) < len(features):
        samples = SampleState(**{name: array[kept] for name, array in vars(samples).items()})
        features, table = features[kept], table.take(pa.array(kept))
        model.labels_ = samples.categories
    unit = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float16)
    categories.suggest(
        unit, samples.categories, table["text"].to_pylist() if "text" in table.column_names else None
    )
    record = version_record(opened, categories.all, samples)
    places = _map(record, unit, samples.categories)
    record["last"] = dict(zip(("id", "key"), categories.last, strict=True))
    record |= {
        "stopped": getattr(model, "stopped_", opened.record["stopped"]),
        "n_iter": getattr(model, "n_iter_", opened.record["n_iter"]),
        "suspected_labels": None,
        "score": None,
        "seconds": {**opened.record["seconds"], "update": round(time.perf_counter() - began, 3)},
    }
    table = as_standing(table, samples, standing(record, ())["categories"])
    names = {c["id"]: c["name"] for c in categories.all}
    if out is not None:
        place = Path(out)
        with staged(place, folder=True, replace=refuse_existing, ours=RUN_FILES) as stage:
            write_separately(stage, record, model, table, opened, unit, places)
        return Update(place, None, changes, names, time.perf_counter() - began)
    arguments = {"source": source, **({} if birth_size is None else {"birth_size": birth_size})}
    arguments |= {} if keep is None else {"keep": keep}
    entry = add_version(
        opened,
        "update",
        record,
        model,
        table,
        features=unit,
        places=places,
        arguments=arguments,
        outcome={"changes": changes},
        n_entries=n_entries,
        reason=reason,
    )
    return Update(opened.folder, entry, changes, names, time.perf_counter() - began)


def _checked_ids(run: OpenedRun, arrivals: FeatureSet) -> list[str]:
    """Names of the new samples; row numbers are numbers of the arrival."""
    if arrivals.ids is None:
        arrival = next_version(run)
        return [f"{arrival}/{row}" for row in range(len(arrivals))]
    ids = list(arrivals.ids)
    places = run.places_of_ids
    if again := [name for name in ids if name in places]:
        shown = ", ".join(repr(name) for name in again[:SHOWN]) + (", …" if len(again) > SHOWN else "")
        raise InputError(
            f"{len(again)} of {len(ids)} samples are in the run already ({shown}); an update takes new samples: "
            "leave those out, or give others ids of their own"
        )
    return ids


def _joined_features(run: OpenedRun, arrivals: FeatureSet) -> npt.NDArray[np.float32]:
    """All features, of unit length, the new ones last."""
    from newkinds.engine import normalised

    old = np.asarray(run.features, dtype=np.float32)
    new = arrivals.arranged(run.record["source"].get("columns"))
    if new.shape[1] != old.shape[1]:
        raise InputError(f"the run has {old.shape[1]} features, the new samples {new.shape[1]}")
    return np.concatenate([normalised(old), normalised(np.asarray(new))]).astype(np.float32)


def _take_labels(run: OpenedRun, arrivals: FeatureSet, categories: _Categories) -> IntArray:
    """Ids that labels of new samples stand for, -1 for those without; names are given and categories made."""
    settled = np.full(len(arrivals), UNLABELLED)
    unknown: list[tuple[str, IntArray]] = []
    for label in np.unique(arrivals.labels[arrivals.labels != UNLABELLED]).tolist():
        rows, name = np.flatnonzero(arrivals.labels == label), arrivals.name_of(int(label))
        category = _called(categories.present, name)
        if category is None:
            unknown.append((name, rows))
        else:
            settled[rows] = category
    if not unknown:
        return settled
    guesses = _guesses(run, arrivals)
    for name, rows in sorted(unknown, key=lambda pair: -len(pair[1])):  # the most samples choose first
        wanted = checked_name(name, {"categories": categories.all})
        found, counts = np.unique(guesses[rows], return_counts=True)
        best = int(found[counts.argmax()])
        free = {c["id"] for c in categories.present if c["kind"] == "new" and not c["named"]}
        if best in free and 2 * int(counts.max()) > len(rows):
            categories.call(best, wanted)
            settled[rows] = best
        else:
            settled[rows] = categories.bear(wanted)
    return settled


def _called(categories: Sequence[dict[str, Any]], name: str) -> int | None:
    """The category with this name or key; None if there is none."""
    wanted = name.strip().casefold()
    for part in ("name", "key"):
        for category in categories:
            if category[part].casefold() == wanted:
                return int(category["id"])
    return None


def _guesses(run: OpenedRun, arrivals: FeatureSet) -> IntArray:
    """The category of each new sample as the run stands; -1 for strangers."""
    model, features = run.model, arrivals.arranged(run.record["source"].get("columns"))
    categories: IntArray = model.predict(features).astype(np.int64)
    return np.where(run.fitted.strangeness(features) > 0.5, UNLABELLED, categories)


def _samples(
    earlier: SampleState,
    taken: Any,
    settled_new: IntArray,
    features: npt.NDArray[np.float32],
    known: IntArray,
) -> SampleState:
    """What is known of all samples after it."""
    result = taken.model.assess(features, taken.categories)
    nothing = np.zeros(len(settled_new), dtype=bool)
    confirmed = np.concatenate([earlier.confirmed, nothing])
    is_new_kind = ~np.isin(taken.categories, known)
    return SampleState(
        taken.categories,
        np.concatenate([earlier.given, settled_new != UNLABELLED]),
        confirmed,
        np.where(confirmed, 1, result.confidence).astype(np.float32),
        np.where(confirmed, is_new_kind, result.novelty).astype(np.float32),
        taken.strangeness.astype(np.float32),
        taken.held,
    )


def _kept_rows(samples: SampleState, keep: int | None, rng: np.random.Generator) -> IntArray:
    rows = np.arange(len(samples.categories))
    if keep is None:
        return rows
    stays = samples.labelled | samples.held
    for category in np.unique(samples.categories).tolist():
        others = np.flatnonzero((samples.categories == category) & ~stays)
        if len(others) > keep:
            stays[rng.choice(others, keep, replace=False)] = True
        else:
            stays[others] = True
    return rows[stays]


def _changes(
    categories: _Categories, earlier: SampleState, samples: SampleState, taken: Any, n_before: int, n_let_go: int
) -> dict[str, Any]:
    """What changed, for the journal."""
    new = samples.categories[n_before:]
    n_new = len(new)
    joined = {c: int(n) for c, n in zip(*np.unique(new[~samples.held[n_before:]], return_counts=True), strict=True)}
    born = {c["id"] for c in categories.born}
    share = {c["id"]: float((earlier.categories == c["id"]).mean()) for c in categories.present}
    dormant = [c for c, part in share.items() if part * n_new >= LEAST_EXPECTED and not (new == c).any()]
    parts: dict[str, Any] = {
        "born": [
            {
                "id": c["id"],
                "key": c["key"],
                "name": c["name"] if c["named"] else None,
                "size": int((samples.categories == c["id"]).sum()),
            }
            for c in categories.born
        ],
        "named": categories.named,
        "grown": [[int(c), n] for c, n in joined.items() if int(c) not in born],
        "dormant": dormant,
        "arrived": n_new,
        "held": int(samples.held.sum()),
        "labelled": int(samples.given[n_before:].sum()),
        "moved": int((samples.categories[:n_before] != earlier.categories).sum()),
        "let_go": n_let_go,
    }
    return {name: part for name, part in parts.items() if part or name == "arrived"}


def _map(
    record: dict[str, Any], features: npt.NDArray[np.float16], categories: IntArray
) -> npt.NDArray[np.float32] | None:
    """Places of the samples, where the run had a map before."""
    if record.get("map") is None:
        return None
    ids = [category["id"] for category in record["categories"]]
    projection = project(features, np.searchsorted(ids, categories), len(ids))
    record["map"] = {"method": projection.method}
    return projection.places


def _table(run: OpenedRun, arrivals: FeatureSet, ids: list[str]) -> pa.Table:
    """Predictions of all samples; what `as_standing` says anew is as in the first row."""
    table, pictures = run.predictions, pictures_of(run)
    if pictures is not None:
        table = table.append_column(PICTURES, pictures)
    for name, zeros in (("strangeness", np.zeros(len(table), np.float32)), ("held", np.zeros(len(table), bool))):
        if name not in table.column_names:
            table = table.append_column(name, pa.array(zeros))
    n = len(arrivals)
    new = table.take(pa.array(np.zeros(n, dtype=np.int64)))
    cells: dict[str, pa.Array] = {"id": pa.array(ids, pa.string())}
    if "text" in table.column_names:
        cells["text"] = pa.array(arrivals.texts or [""] * n, pa.string())
    if "truth" in table.column_names:
        cells["truth"] = pa.nulls(n, pa.string())
    if pictures is not None:
        cells[PICTURES] = _new_pictures(arrivals)
    for name, column in cells.items():
        new = new.set_column(new.column_names.index(name), table.schema.field(name), column)
    return pa.concat_tables([table, new])


def _new_pictures(arrivals: FeatureSet) -> pa.Array:
    """Thumbnails of new samples; where they come without, as features, a blank one."""
    n, blank = len(arrivals), np.full((1, 1), 255, dtype=np.uint8)
    pictures = [png(blank)] * n if arrivals.images is None else packed_pictures(arrivals.images, slice(0, n))
    return pa.array(pictures, type=pa.binary())
