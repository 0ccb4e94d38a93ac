"""The operations as methods of a saved discovery."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from newkinds.data import FeatureSet
from newkinds.editing.corrections import apply_corrections
from newkinds.editing.edited_run import EditedRun
from newkinds.editing.opened_run import Category, Samples
from newkinds.editing.refitting import Refit, refit
from newkinds.editing.splitting import Split
from newkinds.editing.updating import Update, update
from newkinds.errors import InputError
from newkinds.journal import Entry


class Editable(ABC):
    """What a person changes of a saved discovery; each call is one entry in the journal of its run folder.

    Categories are named by their name or key (new-3), or by their id as an int; samples by their ids, by their rows
    or by a mask. `reason` is written down with it.
    """

    folder: Path | None
    _opened_for_editing: EditedRun | None = None

    @abstractmethod
    def _check_own_folder(self) -> None:
        """Refuse a folder that is no longer what was saved there."""

    @abstractmethod
    def _take_edits(self) -> None:
        """Use what the run folder says now."""

    def rename(self, category: Category, name: str, *, reason: str = "") -> Entry:
        """Give a category a name, for good; its key takes the name away again."""
        return self._after(self._editing().rename(category, name, reason=reason))

    def merge(
        self,
        categories: Sequence[Category],
        *,
        into: Category | None = None,
        known: bool = False,
        reason: str = "",
    ) -> Entry:
        """Make one category of several, see `newkinds.editing.EditedRun.merge`."""
        return self._after(self._editing().merge(categories, into=into, known=known, reason=reason))

    def preview_split(self, category: Category, k: int | None = None) -> Split:
        """How a category would be split; nothing is written."""
        return self._editing().preview_split(category, k)

    def split(
        self,
        category: Category,
        k: int | None = None,
        *,
        parts: Sequence[Samples] | None = None,
        reason: str = "",
    ) -> Entry:
        """Make several categories of one, see `newkinds.editing.EditedRun.split`."""
        return self._after(self._editing().split(category, k, parts=parts, reason=reason))

    def move(self, samples: Samples, category: Category, *, reason: str = "") -> Entry:
        """Put samples into a category, by your word."""
        return self._after(self._editing().move(samples, category, reason=reason))

    def confirm(self, samples: Samples, *, reason: str = "") -> Entry:
        """Say that samples belong where they are: that is as good as a label."""
        return self._after(self._editing().confirm(samples, reason=reason))

    def create(self, samples: Samples, name: str | None = None, *, reason: str = "") -> Entry:
        """Make a new category of samples."""
        return self._after(self._editing().create(samples, name, reason=reason))

    def dissolve(self, category: Category, *, known: bool = False, reason: str = "") -> Entry:
        """Say that a category is none: its samples go to their next most probable ones."""
        return self._after(self._editing().dissolve(category, known=known, reason=reason))

    def undo(self, *, reason: str = "") -> Entry:
        """Take back the last thing that was done."""
        return self._after(self._editing().undo(reason=reason))

    def redo(self, *, reason: str = "") -> Entry:
        """Do again what was undone last."""
        return self._after(self._editing().redo(reason=reason))

    def apply(self, table: str | Path, *, reason: str = "") -> Entry:
        """Apply a table of corrections, see `newkinds.editing.apply_corrections`."""
        return self._after(apply_corrections(self._editing(), table, reason=reason))

    def refit(
        self,
        *,
        out: str | Path | None = None,
        lam: float | None = None,
        temperature: float | None = None,
        reason: str = "",
    ) -> Refit:
        """Fit again with what was said since, see `newkinds.editing.refit`."""
        done = refit(self._editing(), out=out, lam=lam, temperature=temperature, reason=reason)
        self._take_edits()
        return done

    def update(
        self,
        samples: Any,
        labels: Any = None,
        *,
        text: str | None = None,
        label: str | None = None,
        id: str | None = None,
        out: str | Path | None = None,
        birth_size: int | None = None,
        keep: int | None = None,
        keep_versions: int | None = None,
        reason: str = "",
    ) -> Update:
        """Put new samples into the run, see `newkinds.editing.update`.

        Parameters
        ----------
        samples
            As for `predict`: features, texts, photos, a data frame or a path.
        labels : array-like, optional
            Of each: a name or an id (None, NaN, blank or -1 = unlabelled).
        text, label, id : str, optional
            Columns of a table: texts, labels, and what names each sample.
        out, birth_size, keep, keep_versions, reason
            As for `newkinds.editing.update`.
        """
        run = self._editing()
        arrivals = self._arrivals(samples, labels, text, label, id)
        done = update(
            run,
            arrivals,
            out=out,
            birth_size=birth_size,
            keep=keep,
            keep_versions=keep_versions,
            reason=reason,
        )
        self._take_edits()
        return done

    @abstractmethod
    def _arrivals(
        self, samples: Any, labels: Any, text: str | None, label: str | None, id: str | None
    ) -> FeatureSet:
        """New samples with their labels, as features."""

    @property
    def history(self) -> list[Entry]:
        """What was done to the run since it was written."""
        return list(self._editing().entries)

    def _editing(self) -> EditedRun:
        if self.folder is None:
            raise InputError("what you change is kept in a run folder: save the discovery first")
        self._check_own_folder()
        run = self._opened_for_editing
        if run is None or run.folder != self.folder.resolve():
            run = self._opened_for_editing = EditedRun(self.folder)
        else:
            run.refresh()
        return run

    def _after(self, entry: Entry) -> Entry:
        self._take_edits()
        return entry
