"""Editing a run: what a person changes of it, from Python or the command line, written into the run's journal."""

from newkinds.editing.operations import rename

__all__ = ["rename"]
