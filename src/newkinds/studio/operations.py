"""What a page may do to a run: the shape of each request, and the call of `EditedRun` that it is."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from newkinds.editing import EditedRun
from newkinds.errors import InputError
from newkinds.journal import ROWS, Entry
from newkinds.labels import IntArray
from newkinds.run_record import COUNT, TEXT, Items, Keys, Misfit, OrNull, Shape, Value
from newkinds.standing import unpacked_rows
from newkinds.studio.jobs import Jobs
from newkinds.studio.live_run import LiveRun

FLAG = Value("true or false", lambda value: isinstance(value, bool))
SAMPLES: dict[str, Shape] = {"rows": ROWS, "seen": Keys(others=ROWS)}
"""Samples by their rows, wherever they are; or by the kind, its key, that a page shows them in."""
KEPT_PREVIEWS = 20
"""Previews of splits that can still be carried out."""


class Outdated(InputError):
    """Something else was done meanwhile, and the page did not know it."""


@dataclass(frozen=True)
class Operation:
    """An operation: what its request holds, and what it does."""

    shape: Keys
    do: "Callable[[Desk, EditedRun, dict[str, Any]], Entry]"


class Desk:
    """Operations and previews on a run, as pages ask for them."""

    def __init__(self, live: LiveRun, jobs: Jobs) -> None:
        self.live, self._jobs = live, jobs
        self._previews: OrderedDict[str, tuple[str, list[IntArray]]] = OrderedDict()

    def do(self, name: str, content: dict[str, Any]) -> dict[str, Any]:
        """Carry out an operation and return what changed."""
        operation = OPERATIONS[name]
        checked(operation.shape, content)
        return self.change(lambda run: operation.do(self, run, content))

    def change(self, work: Callable[[EditedRun], Entry]) -> dict[str, Any]:
        """Do something to the run, unless a refit is at work.

        The run is held from before `work` looks at it, so that nothing happens between its checks and its entry.
        """
        if self._jobs.is_running:
            raise InputError("a refit is at work, and would not see this; wait for it or cancel it")

        def work_alone(run: EditedRun) -> Entry:
            with run.held():
                if run.record.get("samples") != self.live.samples_of:  # pages name samples by their rows
                    raise Outdated("samples have come or gone meanwhile; look again")
                return work(run)

        return self.live.do(work_alone)

    def rows(self, content: dict[str, Any]) -> IntArray:
        """The samples that a request names; `Outdated` if they are not where the page saw them."""
        checked(Keys(optional=SAMPLES), content)
        record = self.live.edited.record
        n_samples = record["source"]["samples"]
        rows = unpacked_rows(content.get("rows", []), n_samples)
        seen = {key: unpacked_rows(packed, n_samples) for key, packed in content.get("seen", {}).items()}
        if seen:
            ids = {category["key"]: category["id"] for category in record["categories"]}
            now = self.live.edited.samples.categories
            n_moved = sum(int((now[some] != ids.get(key)).sum()) for key, some in seen.items())
            rows = np.concatenate([rows, *seen.values()])
            if n_moved:
                which = f"{n_moved} of these {len(rows)} samples" if len(rows) > 1 else "this sample"
                raise Outdated(f"{which} went to another kind meanwhile, so nothing was done; look once more")
        if not len(rows):
            raise InputError("no samples were given; select some")
        return rows

    def id(self, key: str) -> int:
        return int(self.live.by_key(key)["id"])

    def preview_split(self, content: dict[str, Any]) -> dict[str, Any]:
        """How a category would fall apart; it is kept, so that exactly this can be done."""
        checked(Keys({"kind": TEXT}, {"k": OrNull(COUNT)}), content)
        with self.live.held() as run:
            split = run.preview_split(self.id(content["kind"]), content.get("k"))
            name = secrets.token_urlsafe(8)
            self._previews[name] = content["kind"], split.parts
            while len(self._previews) > KEPT_PREVIEWS:
                self._previews.popitem(last=False)
            parts = [
                {"size": len(part), "typical": self.live.cards.typical(part)[0].tolist()} for part in split.parts
            ]
        return {"preview": name, "parts": parts, "separation": split.separation}

    def preview_merge(self, content: dict[str, Any]) -> dict[str, Any]:
        """What kind several would be together: which one stays, how large it is, who is in it."""
        checked(Keys({"kinds": Items(TEXT)}), content)
        with self.live.held() as run:
            merged = {c["id"]: c for c in map(self.live.by_key, content["kinds"])}
            if len(merged) < 2:
                raise InputError("merging takes two different kinds; choose another one")
            order = sorted(merged.values(), key=lambda c: (c["kind"] != "known", -c["size"], c["id"]))
            members = np.flatnonzero(np.isin(run.samples.categories, list(merged)))
            parts = [
                {"key": c["key"], "typical": self.live.cards.typical(run.members(c["id"]))[0].tolist()}
                for c in order
            ]
            middles = np.stack([self.live.cards.middle(c["id"]) for c in order])
            named = [c["name"] for c in order if c["named"]]
            takes_name = not order[0]["named"] and order[0]["kind"] == "new" and named
            return {
                "into": order[0]["key"],
                "name": named[0] if takes_name else order[0]["name"],
                "is_named": bool(takes_name) or order[0]["named"] or order[0]["kind"] == "known",
                "size": len(members),
                "labelled": int(run.samples.labelled[members].sum()),
                "known": sum(c["kind"] == "known" for c in order),
                "similarity": round(float((middles @ middles.T).min()), 4),
                "parts": parts,
            }

    def split(self, run: EditedRun, content: dict[str, Any]) -> Entry:
        """Carry out a split that was previewed, to the letter."""
        kind, parts = self._previews.get(content["preview"], (None, []))
        if kind != content["kind"]:
            raise Outdated("this preview is too old; look at a new one")
        together = np.sort(np.concatenate(parts))
        if not np.array_equal(together, run.members(self.id(content["kind"]))):
            raise Outdated("the kind has changed since this preview; look at a new one")
        return run.split(self.id(content["kind"]), parts=parts)

    def step(self, run: EditedRun, content: dict[str, Any], name: str) -> Entry:
        """Undo or redo, but only what the page shows as the next one."""
        entry = run.undoable if name == "undo" else run.redoable
        meant = content.get("entry")
        if meant is not None and (entry is None or entry.n != meant):
            raise Outdated(f"something else was done meanwhile; {name} once more if you still want to")
        return run.undo() if name == "undo" else run.redo()


def checked(shape: Keys, content: dict[str, Any]) -> None:
    """Refuse a request that is not as it should be."""
    try:
        shape.check("", content)
    except Misfit as error:
        raise InputError(f"the request cannot be used: {error}") from error


OPERATIONS: dict[str, Operation] = {
    "rename": Operation(
        Keys({"kind": TEXT, "name": TEXT}),
        lambda desk, run, asked: run.rename(desk.id(asked["kind"]), asked["name"]),
    ),
    "merge": Operation(
        Keys({"kinds": Items(TEXT), "into": TEXT}, {"known": FLAG}),
        lambda desk, run, asked: run.merge(
            [desk.id(key) for key in asked["kinds"]], into=desk.id(asked["into"]), known=asked.get("known", False)
        ),
    ),
    "split": Operation(Keys({"kind": TEXT, "preview": TEXT}), Desk.split),
    "move": Operation(
        Keys({"kind": TEXT}, SAMPLES),
        lambda desk, run, asked: run.move(desk.rows(asked), desk.id(asked["kind"])),
    ),
    "confirm": Operation(Keys(optional=SAMPLES), lambda desk, run, asked: run.confirm(desk.rows(asked))),
    "create": Operation(
        Keys(optional={"name": OrNull(TEXT), **SAMPLES}),
        lambda desk, run, asked: run.create(desk.rows(asked), asked.get("name")),
    ),
    "dissolve": Operation(
        Keys({"kind": TEXT}, {"known": FLAG}),
        lambda desk, run, asked: run.dissolve(desk.id(asked["kind"]), known=asked.get("known", False)),
    ),
    "undo": Operation(
        Keys(optional={"entry": OrNull(COUNT)}), lambda desk, run, asked: desk.step(run, asked, "undo")
    ),
    "redo": Operation(
        Keys(optional={"entry": OrNull(COUNT)}), lambda desk, run, asked: desk.step(run, asked, "redo")
    ),
}
