"""What an entry of the journal did, as a sentence."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from newkinds.journal import Entry

if TYPE_CHECKING:
    from newkinds.editing.updating import TakenWaiting

SHOWN_NAMES = 5
"""Names of categories in a list."""


def counted(n: int, what: str = "sample") -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def n_rows(items: list[Any]) -> int:
    """How many rows the journal's form of them stands for."""
    return sum(item[1] - item[0] + 1 if isinstance(item, list) else 1 for item in items)


def sentence(entry: Entry, names: dict[int, str]) -> str:
    """What was done, with the names that categories have, or had last.

    Examples
    --------
    >>> entry = Entry(1, "", "person", "merge", {}, {"retired": [[4, 3]]})
    >>> sentence(entry, {3: "bee", 4: "new-2"})
    'new-2 became part of bee'
    """
    outcome = entry.outcome
    if entry.op == "rename":
        name = outcome["name"]
        key = names.get(outcome["id"], str(outcome["id"]))
        return f"{key} has its first name again" if name is None else f"a category is called {name}"
    if entry.op in ("undo", "redo"):
        return f"entry {outcome['entry']} was {'undone' if entry.op == 'undo' else 'done again'}"
    if entry.op == "refit":
        return f"the run was refitted: version {outcome['version']}"

    def called(category: int) -> str:
        return names.get(category, f"category {category}")

    if entry.op == "update":
        return update_sentence(outcome["changes"], called)
    parts = [f"{called(gone)} became part of {called(heir)}" for gone, heir in _retired(entry) if heir is not None]
    parts += [f"{called(gone)} was dissolved" for gone, heir in _retired(entry) if heir is None]
    parts += [f"{called(new['id'])} was made" for new in entry.born]
    gone = {category for category, _ in _retired(entry)}
    for start, end, rows in outcome.get("flows", ()):
        if start not in gone:
            parts.append(f"{counted(n_rows(rows))} went from {called(start)} to {called(end)}")
    n_confirmed = n_rows(outcome.get("confirmed", []))
    if n_confirmed:
        parts.append(f"{counted(n_confirmed)} {'is' if n_confirmed == 1 else 'are'} confirmed")
    return "; ".join(parts) or "nothing changed"


def update_sentence(changes: dict[str, Any], called: Callable[[int], str]) -> str:
    """What an update did: what became of the samples that arrived; then everything else."""

    def listed(categories: list[int]) -> str:
        more = ", …" if len(categories) > SHOWN_NAMES else ""
        return ", ".join(called(category) for category in categories[:SHOWN_NAMES]) + more

    born, grown = [new["id"] for new in changes.get("born", ())], changes.get("grown", ())
    arrived = [f"{counted(len(born), 'kind')} born ({listed(born)})"] if born else []
    arrived += [f"{sum(n for _, n in grown):,} joined {counted(len(grown), 'kind')}"] if grown else []
    arrived += [f"{changes['held']:,} held back"] if changes.get("held") else []
    head = f"{counted(changes.get('arrived', 0))} arrived"
    parts = [f"{head}: {', '.join(arrived)}" if arrived else head]
    parts += [
        f"{called(gone)} was taken back: "
        + ("most of it is held back" if heir is None else f"most of it is in {called(heir)}")
        for gone, heir in changes.get("taken_back", ())
    ]
    parts += [f"{called(category)} has its name from labels" for category, _ in changes.get("named", ())]
    n_still, n_moved, n_gone = (changes.get(what, 0) for what in ("held_before", "moved", "let_go"))
    parts += [f"{n_still:,} of before {'is' if n_still == 1 else 'are'} held back"] if n_still else []
    parts += [f"{counted(n_moved, 'other')} moved"] if n_moved else []
    parts += [f"{counted(n_gone)} {'is' if n_gone == 1 else 'are'} no longer kept"] if n_gone else []
    if dormant := changes.get("dormant"):
        parts.append(f"nothing joins {listed(dormant)} any more")
    parts += [f"{called(one)} and {called(other)} may be one" for one, other, _ in changes.get("merges", ())]
    parts += [f"{called(category)} may be several" for category, _ in changes.get("splits", ())]
    return "; ".join(parts)


def taken_sentences(taken: "TakenWaiting") -> list[str]:
    """What became of samples that waited."""
    done, sentences = taken.update, []
    if done is not None:
        sentences.append(f"{update_sentence(done.changes, done.names.__getitem__)}.")
    if n := taken.n_again:
        what = (
            "has an id that the run has already; it was"
            if n == 1
            else "have ids that the run has already; they were"
        )
        sentences.append(f"{counted(n)} {what} answered, but not taken in again.")
    return sentences


def all_names(record: dict[str, Any], entries: list[Entry]) -> dict[int, str]:
    """The name of every category that there ever was: the one it has, or had last.

    `record` is the run's own `run.json`, not as it stands.
    """
    names = {category["id"]: category.get("called") or category["name"] for category in record["categories"]}
    keys = {category["id"]: category["name"] for category in record["categories"]}
    for entry in entries:
        for new in entry.born:
            keys[new["id"]] = new["key"]
            names[new["id"]] = new["name"] or new["key"]
        renamed = [[entry.outcome["id"], entry.outcome["name"]]] if entry.op == "rename" else []
        by_labels = entry.outcome.get("changes", {}).get("named", ())
        for category, name in [*renamed, *entry.outcome.get("names", ()), *by_labels]:
            names[category] = name or keys.get(category, str(category))
    return names


def _retired(entry: Entry) -> list[list[Any]]:
    retired: list[list[Any]] = entry.outcome.get("retired", [])
    return retired
