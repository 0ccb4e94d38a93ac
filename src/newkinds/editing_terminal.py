"""What the terminal shows of edits, of the journal and of a refit."""

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from newkinds.editing.edited_run import EditedRun
from newkinds.editing.refitting import Refit
from newkinds.editing.sentences import all_names, counted, sentence, taken_sentences, update_sentence
from newkinds.editing.splitting import Split
from newkinds.editing.updating import Update
from newkinds.journal import Entry, effective_entries, read_journal
from newkinds.run_folder import REPORT_FILE, read_record
from newkinds.terminal import show_comparison
from newkinds.visible import visible

SHOWN = 3
"""Samples of a part that are named."""


def show_entry(console: Console, run: Path, entry: Entry) -> None:
    """What was done just now."""
    names = all_names(read_record(run), list(read_journal(run)))
    _say(console, f"{sentence(entry, names)}.")
    place = shlex.quote(str(run))
    hint = f"newkinds undo {place} takes it back" if entry.op != "undo" else f"newkinds redo {place} does it again"
    report = f"; newkinds report {place} shows it" if (run / REPORT_FILE).is_file() else ""
    _say(console, f"{hint}{report}", style="dim")


def show_history(console: Console, record: dict[str, Any], entries: list[Entry]) -> None:
    """The journal, entry by entry; what was undone is marked."""
    if not entries:
        _say(console, "Nothing was done to this run since it was made.")
        return
    names = all_names(record, entries)
    done = {entry.n for entry in effective_entries(entries)[0]}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("n", "when", "by", "what"):
        table.add_column(name, overflow="fold", justify="right" if name == "n" else "left")
    for entry in entries:
        is_undone = entry.n not in done and entry.op not in ("undo", "redo")
        reason = f" ({entry.reason})" if entry.reason else ""
        text = f"{sentence(entry, names)}{reason}{'; undone' if is_undone else ''}"
        table.add_row(str(entry.n), entry.time, entry.by, visible(text), style="dim" if is_undone else None)
    console.print(table, markup=False)


def show_parts(console: Console, run: EditedRun, split: Split) -> None:
    """The parts of a category that would be split."""
    table = run.predictions
    for number, part in enumerate(split.parts, start=1):
        ids = ", ".join(table["id"][int(row)].as_py() for row in part[:SHOWN])
        _say(console, f"part {number}: {counted(len(part))}, such as {ids}")
    _say(console, f"They are apart by {split.separation:.2f} (silhouette: 1 is far apart, 0 is not at all).")


def show_refit(console: Console, done: Refit) -> None:
    """What a refit changed."""
    where = f"version {done.entry.outcome['version']} of {done.place}" if done.entry else str(done.place)
    _say(console, f"Refitted in {done.seconds:.1f} s: {where}.")
    show_comparison(console, done.comparison)
    if done.entry:
        _say(console, f"newkinds undo {shlex.quote(str(done.place))} goes back", style="dim")


def show_update(console: Console, done: Update) -> None:
    """What an update changed, and what may be worth doing now."""
    if done.first is not None:
        _say(console, f"{counted(done.first.n_samples)} waited since the run was watched:")
        for text in taken_sentences(done.first):
            _say(console, text)
    where = f"version {done.entry.version} of {done.place}" if done.entry else str(done.place)
    _say(console, f"{update_sentence(done.changes, done.names.__getitem__)}.")
    _say(console, f"Done in {done.seconds:.1f} s: {where}.")
    place = shlex.quote(str(done.place))
    for first, second, _ in done.changes.get("merges", ()):
        pair = f"{shlex.quote(done.names[first])} {shlex.quote(done.names[second])}"
        _say(console, f"newkinds merge {place} {pair} makes one of them", style="dim")
    for category, _ in done.changes.get("splits", ()):
        name = shlex.quote(done.names[category])
        _say(console, f"newkinds split {place} {name} --dry-run shows its parts", style="dim")
    if done.entry:
        _say(console, f"newkinds undo {place} goes back", style="dim")


def _say(console: Console, text: str, style: str | None = None) -> None:
    console.print(visible(text), style=style, soft_wrap=True, markup=False, highlight=False)
