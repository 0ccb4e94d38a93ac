"""The operations on a run folder, each a call: open the run, do it, close it.

Each checks what is asked and writes one entry with its outcome into the journal; no other file of the run is
touched. Whoever does several keeps an `EditedRun` open instead, whose methods these are.
"""

from collections.abc import Sequence
from pathlib import Path

from newkinds.editing.edited_run import EditedRun
from newkinds.editing.opened_run import Category, Samples
from newkinds.editing.splitting import Split
from newkinds.journal import Entry

Run = str | Path


def rename(run: Run, category: Category, name: str, *, reason: str = "") -> Entry:
    """See `EditedRun.rename`."""
    return EditedRun(run).rename(category, name, reason=reason)


def merge(
    run: Run,
    categories: Sequence[Category],
    *,
    into: Category | None = None,
    known: bool = False,
    reason: str = "",
) -> Entry:
    """See `EditedRun.merge`."""
    return EditedRun(run).merge(categories, into=into, known=known, reason=reason)


def preview_split(run: Run, category: Category, k: int | None = None) -> Split:
    """See `EditedRun.preview_split`."""
    return EditedRun(run).preview_split(category, k)


def split(
    run: Run,
    category: Category,
    k: int | None = None,
    *,
    parts: Sequence[Samples] | None = None,
    reason: str = "",
) -> Entry:
    """See `EditedRun.split`."""
    return EditedRun(run).split(category, k, parts=parts, reason=reason)


def move(run: Run, samples: Samples, category: Category, *, reason: str = "") -> Entry:
    """See `EditedRun.move`."""
    return EditedRun(run).move(samples, category, reason=reason)


def confirm(run: Run, samples: Samples, *, reason: str = "") -> Entry:
    """See `EditedRun.confirm`."""
    return EditedRun(run).confirm(samples, reason=reason)


def create(run: Run, samples: Samples, name: str | None = None, *, reason: str = "") -> Entry:
    """See `EditedRun.create`."""
    return EditedRun(run).create(samples, name, reason=reason)


def dissolve(run: Run, category: Category, *, known: bool = False, reason: str = "") -> Entry:
    """See `EditedRun.dissolve`."""
    return EditedRun(run).dissolve(category, known=known, reason=reason)


def undo(run: Run, *, reason: str = "") -> Entry:
    """See `EditedRun.undo`."""
    return EditedRun(run).undo(reason=reason)


def redo(run: Run, *, reason: str = "") -> Entry:
    """See `EditedRun.redo`."""
    return EditedRun(run).redo(reason=reason)
