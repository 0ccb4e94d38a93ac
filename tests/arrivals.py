"""Samples that come to a run: a version made by hand, as an update makes it."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from newkinds.editing.opened_run import OpenedRun
from newkinds.editing.versions import add_version, pictures_of, version_record
from newkinds.journal import Entry
from newkinds.methods.refitting import Wanted, refit_model
from newkinds.run_folder import PICTURES, as_standing
from newkinds.standing import SampleState, standing

N_NEW, N_HELD = 6, 2
"""Samples that arrive, and how many of them are held back: the last ones, in the category of the first sample."""
STRANGE = 0.75


def arrive(run: str | Path | OpenedRun, let_go: int = 0, **options: Any) -> Entry:
    """Add a version with samples late-0, late-1, … of which most are a category of their own.

    With `let_go`, so many of the first samples are no longer kept: rows are others then.
    """
    opened = run if isinstance(run, OpenedRun) else OpenedRun(run)
    earlier, n_entries = opened.record, len(opened.entries)
    last_id, last_key = opened.last_used
    born: dict[str, Any] = {"id": last_id + 1, "key": f"new-{last_key + 1}", "name": None}
    kept = slice(let_go, None)
    samples = _samples(opened, kept, born["id"])
    features = np.concatenate([np.asarray(opened.features)[kept], _strangers(opened.features.shape[1])])
    facts = {"named": False, "kind": "new", "suggestion": None, "size": 0, "labelled": 0}
    categories = [*earlier["categories"], {**born, "name": born["key"], **facts}]
    ids = np.array([category["id"] for category in categories])
    known = np.array([category["id"] for category in categories if category["kind"] == "known"])
    became = {int(i): int(i) for i in opened.fitted.categories_}
    wanted = Wanted(ids, known, samples.categories, samples.categories, became, frozenset([born["id"]]))
    model = refit_model(opened.fitted, features.astype(np.float32), wanted, lam=0.3)
    record = version_record(opened, categories, samples)
    record |= {"stopped": model.stopped_, "n_iter": model.n_iter_, "suspected_labels": None, "score": None}
    record["chosen"] |= {"lam": model.lam_, "temperature": model.temperature_}
    table = as_standing(_table(opened, kept), samples, standing(record, ())["categories"])
    size = int((samples.categories == born["id"]).sum())
    changes = {"born": [{**born, "size": size}], "arrived": N_NEW, "held": N_HELD, "let_go": let_go}
    return add_version(
        opened,
        "update",
        record,
        model,
        table,
        features=features,
        arguments={"source": "late.npy"},
        outcome={"changes": changes},
        n_entries=n_entries,
        **options,
    )


def _strangers(width: int) -> np.ndarray[Any, np.dtype[np.float16]]:
    features = 0.05 * np.random.default_rng(3).normal(size=(N_NEW, width)) - np.eye(width)[-1]
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float16)


def _samples(opened: OpenedRun, kept: slice, born: int) -> SampleState:
    before, is_held = opened.samples, np.arange(N_NEW) >= N_NEW - N_HELD
    nothing = np.zeros(N_NEW, dtype=bool)
    arrived = SampleState(
        np.where(is_held, before.categories[0], born),
        nothing,
        nothing,
        np.full(N_NEW, 0.5, dtype=np.float32),
        np.full(N_NEW, 0.25, dtype=np.float32),
        np.where(is_held, STRANGE, 0.125).astype(np.float32),
        is_held,
    )
    pairs = {name: (array[kept], getattr(arrived, name)) for name, array in vars(before).items()}
    return SampleState(**{name: np.concatenate(pair) for name, pair in pairs.items()})


def _table(opened: OpenedRun, kept: slice) -> pa.Table:
    table, pictures = opened.predictions, pictures_of(opened)
    if pictures is not None:
        table = table.append_column(PICTURES, pictures)
    if "held" not in table.column_names:
        table = table.append_column("strangeness", pa.array(np.zeros(len(table), dtype=np.float32)))
        table = table.append_column("held", pa.array(np.zeros(len(table), dtype=bool)))
    arrived = table.take(pa.array(np.zeros(N_NEW, dtype=np.int64)))  # like the first sample, but for these:
    words = {"id": "late", "text": "words that came late"}
    for name, word in words.items():
        if name in table.column_names:
            cells = pa.array([f"{word}-{i}" for i in range(N_NEW)])
            arrived = arrived.set_column(arrived.column_names.index(name), table.schema.field(name), cells)
    return pa.concat_tables([table.slice(kept.start), arrived])
