"""The operations on a run: each works out what happens, and writes it as one entry."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from newkinds.editing.changes import Change
from newkinds.editing.naming_rules import checked_name, next_number
from newkinds.editing.opened_run import Category, OpenedRun, Samples
from newkinds.editing.splitting import Split, split_rows
from newkinds.errors import InputError
from newkinds.journal import Entry, since_version
from newkinds.labels import IntArray
from newkinds.run_folder import has_version
from newkinds.standing import packed_rows
from newkinds.wording import option

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer


NOTHING = np.empty(0, dtype=np.int64)


class EditedRun(OpenedRun):
    """A run that is being edited.

    Categories are given by their name or key, or by their id as an int; samples by their ids, their rows or a mask.
    Each operation returns the entry that it has written; `reason` is written down with it.
    """

    def rename(self, category: Category, name: str, *, reason: str = "") -> Entry:
        """Give a category a name, for good. Its key (new-3, or its label) takes the name away again."""

        def outcome() -> dict[str, Any]:
            chosen = self.category(category)
            wanted = checked_name(name, self._standing.record, but=chosen["id"])
            return {"id": chosen["id"], "name": None if wanted == chosen["key"] else wanted}

        return self._do("rename", {"category": category, "name": name}, outcome, reason)

    def merge(
        self,
        categories: Sequence[Category],
        *,
        into: Category | None = None,
        known: bool = False,
        reason: str = "",
    ) -> Entry:
        """Make one category of several.

        Parameters
        ----------
        categories : sequence of str or int
            Two or more.
        into : str or int, optional
            The one that stays; by default a known one, or else the largest. The ids of the others are retired.
        known : bool
            Whether two known categories may be merged.

        The name of the one that stays is kept; a new one that nobody has named takes the name that a person gave to
        another.
        """

        def outcome() -> dict[str, Any]:
            merged = {c["id"]: c for c in map(self.category, categories)}
            heir = None if into is None else self.category(into)
            if heir is not None:
                merged.setdefault(heir["id"], heir)
            if len(merged) < 2:
                raise InputError("merging takes two different categories; name another one")
            if sum(c["kind"] == "known" for c in merged.values()) > 1 and not known:
                both = " and ".join(repr(c["name"]) for c in merged.values() if c["kind"] == "known")
                asking = option("known=True", "--known")
                raise InputError(
                    f"{both} are known: their labels say that they differ; to merge them give {asking}"
                )
            order = sorted(merged.values(), key=lambda c: (c["kind"] != "known", -c["size"], c["id"]))
            kept = heir or order[0]
            if kept["kind"] == "new" and order[0]["kind"] == "known":
                raise InputError(f"{order[0]['name']!r} is known, so it is the one that stays; merge into it")
            gone = [c for c in order if c["id"] != kept["id"]]
            change = Change(self.samples)
            for category in gone:
                change.move(np.flatnonzero(self.samples.categories == category["id"]), kept["id"])
                change.retire(category["id"], kept["id"])
            names = [c["name"] for c in gone if c["named"]]
            if names and not kept["named"] and kept["kind"] == "new":
                change.name(kept["id"], names[0])
            self._judge(change, np.flatnonzero(np.isin(self.samples.categories, list(merged))))
            return change.outcome()

        arguments = {"categories": list(categories), "into": into, "known": known}
        return self._do("merge", arguments, outcome, reason)

    def preview_split(self, category: Category, k: int | None = None) -> Split:
        """How a category would be split: nothing is written."""
        return split_rows(self.fitted, self.features, self.members(category), k)

    def split(
        self,
        category: Category,
        k: int | None = None,
        *,
        parts: Sequence[Samples] | None = None,
        reason: str = "",
    ) -> Entry:
        """Make several categories of one; the largest part keeps its id and name.

        Parameters
        ----------
        category : str or int
        k : int, optional
            Into how many; by default as many as are best apart.
        parts : sequence of samples, optional
            The parts, such as those of a preview. Together they are all of the category.
        """

        def outcome() -> dict[str, Any]:
            chosen, members = self.category(category), self.members(category)
            rows = self.preview_split(category, k).parts if parts is None else [self.rows(part) for part in parts]
            together = np.sort(np.concatenate([NOTHING, *rows]))
            if len(rows) < 2 or not np.array_equal(together, members):
                raise InputError(
                    f"the parts of a split should be two or more and hold each of the {len(members)} samples of "
                    f"{chosen['name']!r} once"
                )
            change = Change(self.samples)
            for part in sorted(rows, key=lambda part: (-len(part), part[0]))[1:]:
                change.move(part, self.bear(change))
            return change.outcome()

        return self._do("split", {"category": category, "k": k}, outcome, reason)

    def move(self, samples: Samples, category: Category, *, reason: str = "") -> Entry:
        """Put samples into a category, by a person's word: whatever they were labelled, they belong there."""

        def outcome() -> dict[str, Any]:
            rows, target = self.rows(samples), self.category(category)
            change = Change(self.samples)
            change.move(rows, target["id"])
            change.confirm(rows)
            return self._checked(change, f"these samples are confirmed in {target['name']!r} already")

        return self._do("move", {"samples": self._packed(samples), "category": category}, outcome, reason)

    def confirm(self, samples: Samples, *, reason: str = "") -> Entry:
        """Say that samples belong to the categories they are in: that is as good as a label."""

        def outcome() -> dict[str, Any]:
            change = Change(self.samples)
            change.confirm(self.rows(samples))
            return self._checked(change, "these samples are confirmed already")

        return self._do("confirm", {"samples": self._packed(samples)}, outcome, reason)

    def create(self, samples: Samples, name: str | None = None, *, reason: str = "") -> Entry:
        """Make a new category of samples; they are confirmed in it."""

        def outcome() -> dict[str, Any]:
            rows = self.rows(samples)
            wanted = None if name is None else checked_name(name, self._standing.record)
            change = Change(self.samples)
            change.move(rows, self.bear(change, wanted))
            change.confirm(rows)
            return change.outcome()

        return self._do("create", {"samples": self._packed(samples), "name": name}, outcome, reason)

    def dissolve(self, category: Category, *, known: bool = False, reason: str = "") -> Entry:
        """Say that a category is none: each of its samples goes to its next most probable one.

        Labels and confirmations of its samples no longer count. A known category is dissolved only with `known`.
        """

        def outcome() -> dict[str, Any]:
            chosen, members = self.category(category), self.members(category)
            if chosen["kind"] == "known" and not known:
                asking = option("known=True", "--known")
                raise InputError(f"{chosen['name']!r} is known, by its labels; to dissolve it give {asking}")
            if len(self._standing.record["categories"]) < 2:
                raise InputError("the last category of a run cannot be dissolved")
            change = Change(self.samples)
            change.retire(chosen["id"], None)
            change.withdraw(members)
            if len(members):
                model = self._model_after(change)
                result = model.assess(self._features_of(members))
                for target in np.unique(result.categories).tolist():
                    change.move(members[result.categories == target], target)
                change.judge(members, result.confidence, result.novelty)
            return change.outcome()

        return self._do("dissolve", {"category": category, "known": known}, outcome, reason)

    def undo(self, *, reason: str = "") -> Entry:
        """Take back the last thing that was done."""

        def outcome() -> dict[str, Any]:
            last = self._next(self.undoable, "undo")
            version, _ = since_version(self.done[:-1])
            if not has_version(self.folder, version):
                raise InputError(f"entry {last.n} cannot be undone: version {version} is no longer kept")
            return {"entry": last.n}

        return self._do("undo", {}, outcome, reason)

    def redo(self, *, reason: str = "") -> Entry:
        """Do again what was undone last."""
        return self._do("redo", {}, lambda: {"entry": self._next(self.redoable, "redo").n}, reason)

    def record_change(
        self, op: str, arguments: dict[str, Any], make: Callable[[], Change], reason: str = ""
    ) -> Entry:
        """Write one entry of a change that `make` works out, once the run is held and up to date."""
        return self._do(op, arguments, lambda: make().outcome(), reason)

    def _next(self, entry: Entry | None, what: str) -> Entry:
        if entry is None:
            raise InputError(f"there is nothing to {what}")
        return entry

    def bear(self, change: Change, name: str | None = None) -> int:
        """A new category: an id and a key that nobody has ever had."""
        categories = self._standing.record["categories"]
        taken = {c[part].casefold() for c in categories for part in ("key", "name")} | change.born_keys
        number = next_number(self._last[1] + change.n_born, taken)
        return change.bear(self._last[0] + change.n_born + 1, f"new-{number}", name)

    def _checked(self, change: Change, otherwise: str) -> dict[str, Any]:
        if change.is_empty:
            raise InputError(otherwise)
        return change.outcome()

    def _packed(self, samples: Samples) -> list[Any]:
        return packed_rows(self.rows(samples))

    def _model_after(self, change: Change) -> "CategoryDiscoverer":
        """The model with the categories that there are after a change."""
        retired = dict(change.retired)
        remaining = [c for c in self._standing.record["categories"] if c["id"] not in retired]
        return self._model_with(remaining, retired)

    def _judge(self, change: Change, rows: IntArray) -> None:
        """Confidence and novelty of samples after a change, where the model has a say."""
        categories = change.categories_after[rows]
        judged = rows[~self.samples.confirmed[rows]]
        if not len(judged):
            return
        result = self._model_after(change).assess(
            self._features_of(judged), categories[~self.samples.confirmed[rows]]
        )
        change.judge(judged, result.confidence, result.novelty)
