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
from newkinds.editing.review import Question, answer_question, question_about, review_questions
from newkinds.editing.updating import Update, update

__all__ = [
    "Editable",
    "EditedRun",
    "Question",
    "Refit",
    "Update",
    "answer_question",
    "apply_corrections",
    "confirm",
    "create",
    "dissolve",
    "merge",
    "move",
    "preview_split",
    "question_about",
    "redo",
    "refit",
    "rename",
    "review_questions",
    "split",
    "undo",
    "update",
]
