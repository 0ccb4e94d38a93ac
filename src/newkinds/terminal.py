"""What the command line shows: progress, and a run folder as a readable summary."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from newkinds.runtime import listening
from newkinds.visible import visible

if TYPE_CHECKING:
    from newkinds.selection.n_categories import CategoryCount

BAR_WIDTH = 24
SHOWN_CATEGORIES = 20
"""So many known and so many new categories are listed; the rest is summed up."""


class Screen(Console):
    """Standard output as rich prints on it; that nobody reads any more is for the command line to deal with."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich itself would end the program with exit code 1


@contextmanager
def progress_bars(console: Console, quiet: bool) -> Iterator[None]:
    """Show the progress of the work inside the block, a bar for each stage, on a terminal only."""
    if quiet or not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(BAR_WIDTH),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def listen(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                for earlier in tasks.values():
                    if progress.tasks[earlier].finished:
                        progress.update(earlier, visible=False)
                tasks[stage] = progress.add_task(_shown(stage), total=total)
            progress.update(tasks[stage], completed=done, total=total)

        with listening(listen):
            yield


def show_run(console: Console, record: dict[str, Any], *, everything: bool = False) -> None:
    """A run's summary: what was chosen and how, the categories (all, or the first few), and the warnings."""
    source, chosen, categories = record["source"], record["chosen"], record["categories"]
    new = [category for category in categories if category["kind"] == "new"]
    console.print(
        f"[bold]{_shown(source['name'])}[/bold]: {source['samples']:,} samples, {source['labelled']:,} labelled; "
        f"{len(categories) - len(new)} known categories, [yellow]{len(new)} new[/yellow]",
        emoji=False,
    )
    lam = "" if chosen["lam"] is None else f"λ {chosen['lam']:.3g}, "
    console.print(
        f"{_shown(record['method'].upper())}, {lam}temperature {chosen['temperature']:g}, fitted in "
        f"{record['seconds'].get('fit', 0):.1f} s by newkinds {_shown(record['versions']['newkinds'])}",
        style="dim",
    )
    if record["score"] is not None:
        shares = [record["score"][part] for part in ("all", "old", "new")]
        shown = " / ".join("–" if share is None else f"{100 * share:.1f}" for share in shares)
        console.print(f"Accuracy All / Old / New ({_shown(record['score']['protocol'])}): [bold]{shown}[/bold]")
    curves = record["curves"]
    if curves["lam"]:
        _show_curve(console, "λ", curves["lam"], chosen["lam"])
    if rehearsal := curves.get("rehearsal"):
        _show_rehearsal(console, rehearsal, (chosen["temperature"], chosen["lam"]))
    if curves["n_categories"]:
        if chosen.get("n_categories_interval"):
            low, high = chosen["n_categories_interval"]
            console.print(f"{chosen['n_categories']} categories; from {low} to {high} with a probability of 90 %")
        _show_curve(console, "categories", curves["n_categories"], chosen["n_categories"])
    console.print(_category_table(categories, len(categories) if everything else SHOWN_CATEGORIES))
    for warning in record["warnings"]:
        console.print(Text.assemble(("Warning:", "yellow"), " ", visible(warning)))


def _shown(text: object) -> str:
    """Text from a run folder, without power over the terminal or over rich's markup."""
    return escape(visible(text))


def show_estimate(console: Console, count: "CategoryCount", n_known: int) -> None:
    """An estimated number of categories and the curve behind it."""
    console.print(
        f"[bold]{count.n_categories}[/bold] categories, {n_known} known and "
        f"[yellow]{count.n_categories - n_known} new[/yellow] ({count.method}, searched {count.bounds[0]} to "
        f"{count.bounds[1]})"
    )
    if count.interval is not None:
        console.print(f"from {count.interval[0]} to {count.interval[1]} with a probability of 90 %")
    if count.curve:
        _show_curve(console, "categories", list(count.curve.items()), count.n_categories)
    if count.at_bound:
        console.print("[yellow]Warning:[/yellow] the estimate is at the bound of its search; give wider --bounds")


def _show_curve(console: Console, what: str, curve: Any, chosen: float) -> None:
    """A bar for each value that was tried; the scale starts a little below the lowest score."""
    table = Table(box=None, padding=(0, 1), show_edge=False)
    table.add_column(what, justify="right", style="dim")
    table.add_column("score", justify="right")
    table.add_column("")
    scores = [score for _, score in curve]
    low, high = min(scores), max(scores)
    floor = low - 0.25 * (high - low)
    for value, score in curve:
        share = 1.0 if high == low else (score - floor) / (high - floor)
        is_chosen = abs(value - chosen) < 1e-9
        bar = "█" * max(1, round(BAR_WIDTH * share))
        table.add_row(
            f"{value:.3g}" if isinstance(value, float) else str(value),
            f"{score:.3f}",
            f"[yellow]{bar} chosen[/yellow]" if is_chosen else f"[dim]{bar}[/dim]",
        )
    console.print(table)


def _show_rehearsal(console: Console, rows: list[list[float]], chosen: tuple[float, float]) -> None:
    """Scores in rehearsals: a row for each temperature, a column for each lam."""
    lams = sorted({lam for _, lam, *_ in rows})
    scores = {(temperature, lam): score for temperature, lam, score, _ in rows}
    table = Table(box=None, padding=(0, 1), show_edge=False)
    table.add_column("found again in rehearsals, %: T \\ λ", justify="right", style="dim")
    for lam in lams:
        table.add_column(f"{lam:.3g}", justify="right")
    for temperature in sorted({temperature for temperature, *_ in rows}):
        cells = []
        for lam in lams:
            setting = (temperature, lam)
            shown = f"{100 * scores[setting]:.1f}" if setting in scores else ""
            cells.append(f"[bold yellow]{shown}[/bold yellow]" if setting == chosen else shown)
        table.add_row(f"{temperature:g}", *cells)
    console.print(table)


def _category_table(categories: list[dict[str, Any]], shown: int) -> Table:
    table = Table(box=None, padding=(0, 1), show_edge=False)
    table.add_column("id", justify="right", style="dim")
    table.add_column("category")
    table.add_column("samples", justify="right")
    table.add_column("labelled", justify="right", style="dim")
    table.add_column("", no_wrap=True, min_width=BAR_WIDTH)
    largest = max((category["size"] for category in categories), default=1) or 1
    for kind, colour, mark in (("known", "blue", ""), ("new", "yellow", " new")):
        members = [category for category in categories if category["kind"] == kind]
        for category in members[:shown]:
            bar = "█" * round(BAR_WIDTH * category["size"] / largest)
            table.add_row(
                str(category["id"]),
                Text.assemble(visible(category["name"]), (mark, colour)),
                f"{category['size']:,}",
                f"{category['labelled']:,}",
                f"[{colour}]{bar}[/{colour}]",
            )
        if rest := members[shown:]:
            samples, labelled = (sum(category[part] for category in rest) for part in ("size", "labelled"))
            table.add_row("", f"… {len(rest)} more {kind} (show --all)", f"{samples:,}", f"{labelled:,}", "")
    return table
