"""Editing a run: what a person changes of it, from Python or the command line, written into the run's journal."""

from newkinds.editing.corrections import apply_corrections
from newkinds.editing.editable import Editable
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.operations import (
    confirm,
    create,
    dissolve,
    merge,
    move,
    preview_split,
    redo,
    rename,
    split,
    undo,
)
from newkinds.editing.refitting import Refit, refit

__all__ = [
    "Editable",
    "EditedRun",
    "Refit",
    "apply_corrections",
    "confirm",
    "create",
    "dissolve",
    "merge",
    "move",
    "preview_split",
    "redo",
    "refit",
    "rename",
    "split",
    "undo",
]
