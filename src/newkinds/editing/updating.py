"""Updating a run with new samples: a version of it, with those samples among its own.

What fits is assigned, what is strange is held back, and strangers that agree are a new category
(`newkinds.methods.updating`). Ids and names stay; samples that have a label or were confirmed never move.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.data import FeatureSet
from newkinds.editing.arrivals import (
    ArrivingCategories,
    checked_ids,
    ids_of_arrival,
    joined_features,
    joined_table,
    take_labels,
)
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.keeping import kept_rows
from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.proposals import MUCH, proposals
from newkinds.editing.supervision import supervision
from newkinds.editing.versions import (
    EditedMeanwhile,
    add_version,
    forget_versions,
    version_record,
    write_separately,
)
from newkinds.editing.waiting import TOKEN, Waiting, waiting_samples
from newkinds.errors import InputError
from newkinds.journal import Entry
from newkinds.labels import UNLABELLED, IntArray
from newkinds.past import Past
from newkinds.projection import project
from newkinds.run_folder import RUN_FILES, WAITING_FILE, as_standing
from newkinds.staging import PlaceTaken, refuse_existing, staged
from newkinds.standing import SampleState, lineage, standing
from newkinds.wording import option

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer
    from newkinds.methods.arriving import Window

LEAST_EXPECTED = 10
"""Samples of a category that an arrival should bring before it is called dormant for bringing none."""
ATTEMPTS = 3
"""To take in samples that wait, where somebody edits the run meanwhile."""


@dataclass(frozen=True)
class Limits:
    """How small a category is born and how much is kept, see `update`; None where nobody said."""

    birth_size: int | None = None
    keep: int | None = None
    keep_versions: int | None = None

    def __post_init__(self) -> None:
        for name in ("keep", "keep_versions"):
            most = getattr(self, name)
            if most is not None and most < 1:
                raise InputError(f"{option(name, '--' + name.replace('_', '-'))} should be at least 1; got {most}")

    @property
    def arguments(self) -> dict[str, int]:
        """What somebody said, for the journal."""
        return {name: value for name, value in vars(self).items() if value is not None}


NO_LIMITS = Limits()


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
    first : TakenWaiting or None
        The samples that `newkinds watch` had left waiting, and that were taken in before.
    """

    place: Path
    entry: Entry | None
    changes: dict[str, Any]
    names: dict[int, str]
    seconds: float
    first: "TakenWaiting | None" = None


@dataclass(frozen=True)
class TakenWaiting:
    """Samples that waited and were taken in.

    Attributes
    ----------
    n_samples : int
        How many waited.
    n_again : int
        How many of them the run had already, or came twice: these were not taken in again.
    update : Update or None
        None if none was new.
    """

    n_samples: int
    n_again: int
    update: Update | None


def update(
    run: str | Path | OpenedRun,
    arrivals: FeatureSet,
    *,
    out: str | Path | None = None,
    birth_size: int | None = None,
    keep: int | None = None,
    keep_versions: int | None = None,
    source: str = "",
    reason: str = "",
) -> Update:
    """Put new samples into a run.

    Each gets the category that it fits best. Those that are like nothing seen are held back: they have a category,
    the most probable one, but do not teach what it looks like. Once enough of them agree, also with those held back
    before, a category is born. Labels of new samples count: that of a category's name or key is this category; any
    other name is given to the new, unnamed category that most of its samples fall into, and otherwise makes one.

    Samples that `newkinds watch` has left waiting are taken in first, by an update of their own; with `out` they go
    on waiting.

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
        Of each category keep no more samples than so many: those that a person confirmed first, then labelled ones,
        then others by chance. The rest is kept as sums (`newkinds.past`). By default all are kept.
    keep_versions : int, optional
        Keep no more than so many of the run's versions, the last ones; earlier ones cannot be gone back to then. By
        default all are kept.
    source : str
        What the samples come from, for the journal.
    reason : str
        Written down with it.
    """
    opened = run if isinstance(run, OpenedRun) else EditedRun(run)
    opened.refresh()
    limits = Limits(birth_size, keep, keep_versions)
    first = take_waiting(opened, limits) if out is None else None
    arguments = {"source": source}
    done = _update(opened, arrivals, arguments, limits, out=out, reason=reason)
    return replace(done, first=first)


def take_waiting(run: OpenedRun, limits: Limits = NO_LIMITS, waiting: Waiting | None = None) -> TakenWaiting | None:
    """Put the samples of a run that wait into it; None if there are none, or if another program watches the run.

    Those whose ids the run has already are passed over. `waiting` is what the caller holds already.
    """
    if waiting is None:
        if not (run.folder / WAITING_FILE).exists():
            return None
        try:
            with waiting_samples(run.folder) as held:
                return take_waiting(run, limits, held)
        except PlaceTaken:  # whoever watches takes them in
            return None
    if not waiting.n_samples:
        return None
    n_samples = waiting.n_samples
    for attempt in range(1, ATTEMPTS + 1):
        run.refresh()
        arrivals = _arrivals_of(run, waiting)
        n_again = n_samples - (0 if arrivals is None else len(arrivals))
        try:
            arguments = {"source": "watch", TOKEN: waiting.token}
            done = None
            if arrivals is not None:
                done = _update(run, arrivals, arguments, limits)
            break
        except EditedMeanwhile:
            if attempt == ATTEMPTS:
                raise
    waiting.clear()
    return TakenWaiting(n_samples, n_again, done)


def check_can_be_updated(run: OpenedRun) -> None:
    """Refuse runs of methods without a partition that could grow."""
    if run.record["chosen"]["lam"] is None:
        raise InputError(f"a run by {run.record['method']} cannot be updated; discover again with all samples")


def _arrivals_of(run: OpenedRun, waiting: Waiting) -> FeatureSet | None:
    """The samples that wait and whose ids are new, as a collection; None if there are none."""
    blocks, seen = waiting.read(), set(run.places_of_ids)
    ids: list[str | None] = []
    features, texts = [], []
    for block in blocks:
        rows = []
        for row, name in enumerate(block.ids):
            if name is None or name not in seen:
                rows.append(row)
                ids.append(name)
                seen.update(() if name is None else (name,))
        features.append(block.features[rows])
        texts += [] if block.texts is None else [block.texts[row] for row in rows]
    if not ids:
        return None
    return FeatureSet(
        np.concatenate(features),
        np.full(len(ids), UNLABELLED),
        ids=tuple(ids_of_arrival(run, ids)),
        texts=tuple(texts) if len(texts) == len(ids) else None,
    )


def _update(
    opened: OpenedRun,
    arrivals: FeatureSet,
    arguments: dict[str, Any],
    limits: Limits,
    *,
    out: str | Path | None = None,
    reason: str = "",
) -> Update:
    """See `update`; the run is up to date. `arguments` are what the journal says of the source."""
    from newkinds.methods.arriving import Arrival, Lately, is_whole
    from newkinds.methods.refitting import Wanted
    from newkinds.methods.updating import take_in
    from newkinds.selection.births import BIRTH_SIZE

    began, n_entries = time.perf_counter(), len(opened.entries)
    check_can_be_updated(opened)
    ids = checked_ids(opened, arrivals)
    earlier, features = opened.samples, joined_features(opened, arrivals)
    n_before = len(earlier.categories)
    past = opened.past or Past.empty(features.shape[1])
    start = opened.before_batch
    old, chosen = start.samples, start.record["chosen"]
    present, of_start = opened.record["categories"], start.record["categories"]
    is_present = {c["id"] for c in present}
    gone = [c for c in of_start if c["id"] not in is_present]
    categories = ArrivingCategories(list(present), opened.last_used, gone)
    settled_new = take_labels(opened, arrivals, categories)
    n_old, n_all = len(old.categories), len(features)
    n_batch = n_all - n_old
    settled_lately = np.where(earlier.labelled, earlier.categories, UNLABELLED)[n_old:]
    settled = np.concatenate([settled_lately, settled_new])
    taught = supervision(start, np.asarray(start.fitted._unit(features[:n_old]), dtype=np.float32))
    before = np.concatenate([old.categories, settled])
    known_before = {c["id"] for c in of_start}
    by_labels = frozenset(settled[settled != UNLABELLED].tolist()) - known_before
    wanted_ids = np.array(sorted(by_labels | known_before), dtype=np.int64)
    known = np.array([c["id"] for c in categories.all if c["kind"] == "known"], dtype=np.int64)
    became = lineage(start.fitted.categories_.tolist(), start.done_since_refit)
    wanted = Wanted(wanted_ids, known, before, before, became, by_labels | taught.changed)
    model: CategoryDiscoverer = start.fitted
    is_ready = model.learnt_strangers() is not None
    if not is_ready:  # of an earlier version, or fitted by several processes
        model = model.with_samples(features[:n_old], model.labels_, old.labelled, ~old.held)
        model.lam_ = float(chosen["lam"])  # which it is trained again with
    arrival = Arrival(
        features,
        before,
        np.concatenate([taught.labels != UNLABELLED, settled != UNLABELLED]),
        np.concatenate([old.held, np.zeros(n_batch, dtype=bool)]),
        n_old,
        _window(start).with_arrival(n_old, n_batch),
        named=frozenset(c["id"] for c in categories.present if c["named"]),
        lately=None if start is opened else Lately(opened.fitted, earlier.categories, earlier.held),
        is_whole=out is not None or not is_ready or is_whole(n_batch, n_all),
    )
    taken = take_in(
        model,
        arrival,
        wanted,
        categories.bear,
        lam=float(chosen["lam"]),
        size_ratio=chosen.get("size_ratio") or 1.0,
        birth_size=BIRTH_SIZE if limits.birth_size is None else limits.birth_size,
        past=past,
    )
    names = {c["id"]: c["name"] for c in categories.all}
    categories.end_with(taken.model.categories_)
    samples = _samples(earlier, taken, settled_new, features, known)
    changes = _changes(categories, earlier, samples, past, n_before, taken.taken_back)
    table, model = joined_table(opened, arrivals, ids), taken.model
    kept = None if limits.keep is None else kept_rows(samples, table["id"].to_pylist(), limits.keep)
    is_over = kept is not None and is_whole(n_all - len(kept), n_all)
    goes_on = not (arrival.is_whole or is_over) and taken.model.learnt_strangers() is not None
    if kept is not None and not goes_on:
        goes = np.ones(len(features), dtype=bool)
        goes[kept] = False
        changes |= {"let_go": n_gone} if (n_gone := int(goes.sum())) else {}
        goes &= ~samples.held  # which are of no category, and teach nothing
        past = past.with_samples(features[goes], samples.categories[goes])
        samples = SampleState(**{name: array[kept] for name, array in vars(samples).items()})
        n_recent = int((kept >= n_all - taken.window.n_recent).sum())
        features, table = features[kept], table.take(pa.array(kept))
        model.labels_ = samples.categories
    else:
        n_recent = taken.window.n_recent
    unit = (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float16)
    categories.suggest(
        unit, samples.categories, table["text"].to_pylist() if "text" in table.column_names else None
    )
    changes |= _proposals(categories, samples, unit, changes, past, opened.done)
    record = version_record(opened, categories.all, samples, past)
    places = _map(record, unit, samples.categories)
    record["last"] = dict(zip(("id", "key"), categories.last, strict=True))
    record["window"] = {"recent": n_recent, "born": sorted(taken.window.born)}
    if goes_on:
        record["window"]["since"] = len(start.entries)
    record |= {
        "chosen": {
            **record["chosen"],
            "lam": float(getattr(model, "lam_", chosen["lam"])),
            "temperature": float(model.temperature_),
            "calibration": asdict(model.calibration_),
        },
        "stopped": getattr(model, "stopped_", opened.record["stopped"]),
        "n_iter": getattr(model, "n_iter_", opened.record["n_iter"]),
        "suspected_labels": None,
        "score": None,
        "seconds": {**opened.record["seconds"], "update": round(time.perf_counter() - began, 3)},
    }
    table = as_standing(table, samples, standing(record, ())["categories"])
    names |= {c["id"]: c["name"] for c in categories.all}
    if out is not None:
        place = Path(out)
        with staged(place, folder=True, replace=refuse_existing, ours=RUN_FILES) as stage:
            write_separately(stage, record, model, table, opened, unit, places, past)
        return Update(place, None, changes, names, time.perf_counter() - began)
    entry = add_version(
        opened,
        "update",
        record,
        model,
        table,
        features=unit,
        places=places,
        past=past,
        arguments={**arguments, **limits.arguments},
        outcome={"changes": changes},
        n_entries=n_entries,
        reason=reason,
    )
    if limits.keep_versions is not None:
        forget_versions(opened, limits.keep_versions)
    return Update(opened.folder, entry, changes, names, time.perf_counter() - began)


def _heir(samples: SampleState, rows: IntArray) -> int | None:
    """The category that more of these samples are in than are held back; None if there is none."""
    is_held = samples.held[rows]
    ids, counts = np.unique(samples.categories[rows[~is_held]], return_counts=True)
    return int(ids[counts.argmax()]) if counts.max(initial=0) > is_held.sum() else None


def _window(run: OpenedRun) -> "Window":
    """What came last."""
    from newkinds.methods.arriving import Window

    window = run.record.get("window", {"recent": 0, "born": []})
    return Window(window["recent"], frozenset(window["born"]))


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


def _changes(
    categories: ArrivingCategories,
    earlier: SampleState,
    samples: SampleState,
    past: Past,
    n_before: int,
    taken_back: Sequence[int],
) -> dict[str, Any]:
    """What changed, for the journal; `past` is what was no longer kept before."""
    new, is_held = samples.categories[n_before:], samples.held[n_before:]
    n_new = len(new)
    joined = {c: int(n) for c, n in zip(*np.unique(new[~is_held], return_counts=True), strict=True)}
    had_one = ~earlier.held & ~np.isin(earlier.categories, taken_back)
    born = {c["id"] for c in categories.born}
    n_ever = {c["id"]: int((earlier.categories == c["id"]).sum()) for c in categories.present}
    n_ever = {category: n + past.count_of(category) for category, n in n_ever.items()}
    expected = n_new / max(sum(n_ever.values()), 1)
    dormant = [c for c, n in n_ever.items() if n * expected >= LEAST_EXPECTED and not (new == c).any()]
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
        "taken_back": [
            [gone, _heir(samples, np.flatnonzero((earlier.categories == gone) & ~earlier.held))]
            for gone in taken_back
        ],
        "named": categories.named,
        "grown": [[int(c), n] for c, n in joined.items() if int(c) not in born],
        "dormant": dormant,
        "arrived": n_new,
        "held": int(is_held.sum()),
        "held_before": int(samples.held[:n_before].sum()),
        "labelled": int(samples.given[n_before:].sum()),
        "moved": int((had_one & (samples.categories[:n_before] != earlier.categories)).sum()),
    }
    return {name: part for name, part in parts.items() if part or name == "arrived"}


def _proposals(
    categories: ArrivingCategories,
    samples: SampleState,
    unit: npt.NDArray[np.float16],
    changes: dict[str, Any],
    past: Past,
    done: Collection[Entry],
) -> dict[str, Any]:
    """What a person might merge or split, of the categories that were born or grew by much."""
    changed = {c["id"] for c in categories.born}
    for category, n_joined in changes.get("grown", ()):
        n_now = int(((samples.categories == category) & ~samples.held).sum()) + past.count_of(category)
        if n_joined >= MUCH * (n_now - n_joined):
            changed.add(category)
    sure = np.flatnonzero(~samples.held)
    proposed = proposals(categories.all, unit[sure], samples.categories[sure], changed, list(done))
    return {name: part for name, part in proposed.items() if part}


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
