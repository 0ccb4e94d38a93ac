"""What an entry of the journal did, as a sentence."""

from typing import Any

from newkinds.journal import Entry


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

    parts = [f"{called(gone)} became part of {called(heir)}" for gone, heir in _retired(entry) if heir is not None]
    parts += [f"{called(gone)} was dissolved" for gone, heir in _retired(entry) if heir is None]
    parts += [f"{called(new['id'])} was made" for new in outcome.get("born", ())]
    gone = {category for category, _ in _retired(entry)}
    for start, end, rows in outcome.get("flows", ()):
        if start not in gone:
            parts.append(f"{counted(n_rows(rows))} went from {called(start)} to {called(end)}")
    n_confirmed = n_rows(outcome.get("confirmed", []))
    if n_confirmed:
        parts.append(f"{counted(n_confirmed)} {'is' if n_confirmed == 1 else 'are'} confirmed")
    return "; ".join(parts) or "nothing changed"


def all_names(record: dict[str, Any], entries: list[Entry]) -> dict[int, str]:
    """The name of every category that there ever was: the one it has, or had last.

    `record` is the run's own `run.json`, not as it stands.
    """
    names = {category["id"]: category.get("called") or category["name"] for category in record["categories"]}
    keys = {category["id"]: category["name"] for category in record["categories"]}
    for entry in entries:
        for new in entry.outcome.get("born", ()):
            keys[new["id"]] = new["key"]
            names[new["id"]] = new["name"] or new["key"]
        renamed = [[entry.outcome["id"], entry.outcome["name"]]] if entry.op == "rename" else []
        for category, name in [*renamed, *entry.outcome.get("names", ())]:
            names[category] = name or keys.get(category, str(category))
    return names


def _retired(entry: Entry) -> list[list[Any]]:
    retired: list[list[Any]] = entry.outcome.get("retired", [])
    return retired
