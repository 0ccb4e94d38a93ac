"""What the command line shows: progress, and a run folder as a readable summary."""

import math
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from newkinds.names import MEANINGS, UNSURE
from newkinds.progress import STEPS
from newkinds.run_folder import REPORT_FILE
from newkinds.runtime import listening
from newkinds.visible import visible

if TYPE_CHECKING:
    from newkinds.comparing import Comparison
    from newkinds.journal import Entry
    from newkinds.kinds import Kind, Sample, Sureness
    from newkinds.selection.n_categories import CategoryCount
    from newkinds.sorting import Plan, Undone

BAR_WIDTH, SUGGESTED_WIDTH, WIDE = 24, 24, 110
"""Columns of the terminal: of a bar, of a suggested name, and from which on there is room for both."""
SHOWN_CATEGORIES = 20
"""So many known and so many new categories are listed; the rest is summed up."""
SHOWN_LEFT = 10
SHOWN_CHANGES = 30
SIDES = ("before", "after")
"""Of a comparison."""
TEXT_LENGTH = 80
"""Characters of a sample's text that are shown."""
MORE = {"features": "more.npy", "images": "more-photos", "texts": "more.csv"}
"""What new samples might be called, by what the run was made of."""


class Screen(Console):
    """Standard output as rich prints on it; that nobody reads any more is for the command line to deal with."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich itself would end the program with exit code 1


class _Amount(ProgressColumn):
    """What is done: of countable things how many, of other work the share."""

    def render(self, task: Task) -> Text:
        if task.total == STEPS and ": " in task.description:  # a measure of many parts
            return Text(f"{int(task.percentage)} %")
        return Text(f"{int(task.completed)}/{int(task.total or 0)}")


class _TimeLeft(ProgressColumn):
    """As long again for each share as it took so far."""

    def render(self, task: Task) -> Text:
        if task.finished or not task.completed or not task.elapsed or task.total is None:
            return Text("")
        left = task.elapsed * (task.total - task.completed) / task.completed
        minutes, seconds = divmod(math.ceil(left), 60)
        return Text(f"about {minutes} min {seconds:02d} s left" if minutes else f"about {seconds} s left")


@contextmanager
def progress_bars(console: Console, quiet: bool) -> Iterator[None]:
    """Show the progress of the work inside the block, a bar for each stage, on a terminal only.

    What a stage's name says after a colon changes; the bar is the same.
    """
    if quiet or not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(BAR_WIDTH), _Amount(), TimeElapsedColumn(), _TimeLeft())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def listen(stage: str, done: int, total: int) -> None:
            title = stage.partition(":")[0]
            if title not in tasks:
                for earlier in tasks.values():
                    if progress.tasks[earlier].finished:
                        progress.update(earlier, visible=False)
                tasks[title] = progress.add_task("", total=total)
            progress.update(tasks[title], description=_shown(stage), completed=done, total=total)

        with listening(listen):
            yield


def show_run(
    console: Console,
    record: dict[str, Any],
    run: Path,
    sureness: "Sureness | None" = None,
    *,
    everything: bool = False,
    details: bool = False,
) -> None:
    """A run's summary: the categories (all, or the first few), what is unsure, warnings, what can be done next.

    How λ, the temperature and the number of categories were chosen comes last, and only with `details`.
    """
    source, categories = record["source"], record["categories"]
    console.print(f"[bold]{_shown(source['name'])}[/bold]", emoji=False)
    n_gone = sum(category.get("let_go", 0) for category in categories)
    facts = f"{source['labelled']:,} labelled" + (f"; {n_gone + source['samples']:,} came in all" if n_gone else "")
    console.print(f"{_counted(source['samples'], 'sample')} ({facts}): {_kinds(record)}\n")
    means = {} if sureness is None else sureness.means
    n_shown = len(categories) if everything else SHOWN_CATEGORIES
    console.print(_category_table(categories, means, n_shown, console.width))
    console.print()
    if sureness is not None:
        _show_sureness(console, sureness)
    if record["score"] is not None:
        shares = [record["score"][part] for part in ("all", "old", "new")]
        shown = " / ".join("–" if share is None else f"{100 * share:.1f}" for share in shares)
        console.print(f"Accuracy All / Old / New ({_shown(record['score']['protocol'])}): [bold]{shown}[/bold]")
    for warning in record["warnings"]:
        console.print(Text.assemble(("Warning:", "yellow"), " ", visible(warning)))
    _show_next(console, record, run)
    _show_settings(console, record, details)


def _kinds(record: dict[str, Any]) -> str:
    """How many kinds there are, in words: 18 known kinds and 19 new ones (37 in all, as asked)."""
    chosen, kinds = record["chosen"], [category["kind"] for category in record["categories"]]
    known, new = kinds.count("known"), kinds.count("new")
    if known:
        words = f"{_counted(known, 'known kind')} and [yellow]{new:,} new {'one' if new == 1 else 'ones'}[/yellow]"
    else:
        words = f"[yellow]{_counted(new, 'new kind')}[/yellow]"
    total = f"{len(kinds):,} in all"
    if chosen.get("n_categories_interval"):
        low, high = chosen["n_categories_interval"]
        total += f", 90 % sure between {low} and {high}"
    elif chosen["n_categories_rule"] is None:
        total += ", as asked"
    return f"[bold]{words}[/bold] ({total})"


def _show_sureness(console: Console, sureness: "Sureness") -> None:
    console.print(f"confidence: {MEANINGS['confidence']}", style="dim")
    if sureness.n_unsure:
        unlabelled = _counted(sureness.n_unlabelled, "unlabelled sample")
        below = f"with a confidence below {_percent(UNSURE)}"
        console.print(f"Unsure: [bold]{sureness.n_unsure:,}[/bold] of {unlabelled}, {below}")
    else:
        console.print(f"Unsure: none; every unlabelled sample has a confidence of at least {_percent(UNSURE)}")


def _show_next(console: Console, record: dict[str, Any], run: Path) -> None:
    """What can be done with a run: commands that can be copied, never broken into lines."""
    encoder = record.get("encoder")
    made_of = encoder["kind"] if encoder else "features"
    place = shlex.quote(str(run))
    kinds = sorted((c for c in record["categories"] if c["size"]), key=lambda c: (c["kind"] == "known", -c["size"]))
    steps = [
        (f"newkinds export {place} kinds.csv", "a table of the samples; kinds.xlsx for Excel"),
        (f"newkinds predict {place} {MORE[made_of]}", "the same kinds for new samples"),
    ]
    if made_of == "images":
        steps.insert(0, (f"newkinds sort {place} --into sorted", "the photos in folders, one for each kind"))
    if kinds:
        steps.insert(0, (f"newkinds show {place} {_as_argument(kinds[0])}", "one kind: typical, doubtful, alike"))
    if new := next((c for c in kinds if c["kind"] == "new" and not c["named"]), None):
        steps.insert(1, (f'newkinds rename {place} {_as_argument(new)} "…"', "a name for a new kind"))
    steps.insert(0, (f"newkinds studio {place}", "look and correct, in the browser"))
    width = max(len(command) for command, _ in steps)
    if (run / REPORT_FILE).is_file():
        console.print(f"\nReport: {_shown(page_address(run / REPORT_FILE))}", soft_wrap=True)
    console.print("\nNext:")
    for command, purpose in steps:
        line = Text.assemble("  ", visible(command).ljust(width), "  ", (purpose, "dim"))
        console.print(line, soft_wrap=True)


def page_address(page: Path) -> str:
    """The address of a page on this machine, which terminals make a link of."""
    return page.absolute().as_uri()


def _as_argument(category: dict[str, Any]) -> str:
    """How a category is named in a command: by its id where the name cannot be typed as it is shown."""
    name: str = category["name"]
    if not name or name != visible(name).strip():
        return str(category["id"])
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def _show_settings(console: Console, record: dict[str, Any], details: bool) -> None:
    """Method, λ, temperature and time; with `details`, how they were chosen."""
    chosen, curves = record["chosen"], record["curves"]
    lam = "" if chosen["lam"] is None else f"λ {chosen['lam']:.3g}, "
    metric = "" if chosen.get("metric") in (None, "cosine") else f"metric {_shown(chosen['metric'])}, "
    more = "" if details else "; more with show --details"
    console.print(
        f"\n{_shown(record['method'].upper())}, {metric}{lam}temperature {chosen['temperature']:g}, fitted in "
        f"{record['seconds'].get('fit', 0):.1f} s by newkinds {_shown(record['versions']['newkinds'])}{more}",
        style="dim",
    )
    if not details:
        return
    if curves["lam"]:
        _show_curve(console, "λ", curves["lam"], chosen["lam"])
    final = (chosen["temperature"], chosen["lam"])
    if rehearsal := curves.get("rehearsal"):
        first = final if chosen.get("first") is None else tuple(chosen["first"])
        _show_rehearsal(console, "by the cosine", rehearsal, first)
    if refinement := curves.get("refinement"):
        _show_rehearsal(console, "in the metric", refinement, final)
    if curves["n_categories"]:
        _show_curve(console, "categories", curves["n_categories"], chosen["n_categories"])
    seconds = ", ".join(f"{_shown(stage)} {value:.1f}" for stage, value in record["seconds"].items())
    console.print(f"seconds: {seconds}")


def show_kind(console: Console, kind: "Kind") -> None:
    """One category: how large and how sure it is, typical samples, doubtful ones, categories like it."""
    colour = "yellow" if kind.kind == "new" else "blue"
    labelled = f", {kind.labelled:,} of them labelled" if kind.labelled else ""
    key = f" {kind.key}" if kind.name != kind.key else ""
    suggestion = f" {kind.suggestion}?" if kind.suggestion and kind.name == kind.key else ""
    console.print(
        Text.assemble(
            (visible(kind.name), "bold"),
            (visible(suggestion), "italic"),
            (visible(key), "dim"),
            " ",
            (f"({kind.kind})", colour),
        ),
        soft_wrap=True,
    )
    if kind.confidence is None:
        console.print("no samples")
        return
    labelled += f" ({kind.size + kind.let_go:,} came in all)" if kind.let_go else ""
    unsure = f"; unsure (below {_percent(UNSURE)}): {kind.n_unsure:,}" if kind.n_unsure else ""
    stable = "" if kind.stability is None else f"; stability {_percent(kind.stability)}"
    console.print(
        f"{_counted(kind.size, 'sample')}{labelled}, mean confidence {_percent(kind.confidence)}{unsure}{stable}\n"
    )
    console.print(_sample_table("typical", "nearest to the middle of the kind", kind.typical))
    if kind.doubtful:
        console.print()
        console.print(_sample_table("doubtful", "unlabelled, with the least confidence", kind.doubtful))
    console.print()
    for name, meaning in MEANINGS.items():
        console.print(f"{name}: {meaning}", style="dim")
    if kind.nearest:
        console.print()
        table = _plain_table()
        table.add_column("nearest kinds")
        table.add_column("similarity", justify="right")
        table.add_column("second choice", justify="right")
        for other in kind.nearest:
            mark = (" new", "yellow") if other.kind == "new" else ""
            table.add_row(
                Text.assemble(visible(other.name), mark), f"{other.similarity:.2f}", _percent(other.second_choice)
            )
        console.print(table)
        console.print("similarity: of the middles of the kinds, 1 for the same", style="dim")
        console.print("second choice: for so many samples here that is the next best kind", style="dim")


def show_renamed(console: Console, run: Path, entry: "Entry") -> None:
    """What a category is called from now on."""
    name = entry.outcome["name"]
    kind = _shown(entry.arguments["category"])
    console.print(f"{kind} has its first name again." if name is None else f"{kind} is called {_shown(name)} now.")
    if (run / REPORT_FILE).is_file():
        command = f"newkinds report {shlex.quote(str(run))}"
        console.print(f"The report shows it after: {_shown(command)}", style="dim", soft_wrap=True)


def show_page(console: Console, page: Path, open_it: bool, quiet: bool) -> None:
    """Where a page is; and open it in a browser, if that is wanted."""
    if not quiet:
        console.print(_shown(page_address(page)), soft_wrap=True)
    if open_it:
        import webbrowser

        if not webbrowser.open(page_address(page)):
            console.print("No browser could be opened here; open that address yourself.")


def show_comparison(console: Console, comparison: "Comparison") -> None:
    """What changed between two runs: in words, then change by change, then samples."""
    from newkinds.report.comparison import comparison_summary

    for number, words in enumerate(comparison_summary(comparison)):
        console.print(_shown(words), style="bold" if number == 0 else None)
    if comparison.changes:
        table = _plain_table()
        table.add_column("what")
        table.add_column("", overflow="fold")
        for change in comparison.changes[:SHOWN_CHANGES]:
            table.add_row(change.topic, visible(change.text))
        console.print()
        console.print(table)
        if (more := len(comparison.changes) - SHOWN_CHANGES) > 0:
            console.print(f"… and {more:,} more (--out PAGE shows all)")
    moved = comparison.moved.slice(0, SHOWN_LEFT).to_pylist()
    if moved:
        names = [[c["name"] for c in record["categories"]] for record in (comparison.before, comparison.after)]
        table = _plain_table()
        for column in ("moved, the surest first", "from", "to"):
            table.add_column(column, overflow="fold")
        for row in moved:
            table.add_row(
                _sample_name(row["id"], row.get("text")), *(visible(names[i][row[k]]) for i, k in enumerate(SIDES))
            )
        console.print()
        console.print(table)
        if (more := comparison.n_moved - len(moved)) > 0:
            console.print(f"… and {more:,} more")


def show_sorting(console: Console, plan: "Plan", dry_run: bool) -> None:
    """Which folders get how many photos."""
    from newkinds.sorting import undo_command

    sizes = plan.sizes
    table = _plain_table()
    table.add_column("folder")
    table.add_column("photos", justify="right")
    table.add_column("", style="dim")
    examples = {placement.folder: placement.place for placement in reversed(plan.placements)}
    for folder, kind in plan.kinds.items():
        mark = (" new", "yellow") if kind == "new" else ""
        example = visible(f"{examples[folder]}{', …' if sizes[folder] > 1 else ''}")
        table.add_row(Text.assemble(visible(folder), mark), f"{sizes[folder]:,}", example)
    console.print(table)
    into, n = _shown(plan.into), _counted(len(plan.placements), "photo")
    if dry_run:
        console.print(f"\nTo {plan.how} into {into}: {n}. Nothing was changed.", soft_wrap=True)
        return
    done = {"copy": "copied into", "link": "linked in", "move": "moved to"}[plan.how]
    console.print(f"\n{n} {done} {into}.", soft_wrap=True)
    console.print(f"To take that back: {_shown(undo_command(plan.into))}", soft_wrap=True)


def show_undone(console: Console, undone: "Undone", folder: Path) -> None:
    """What was taken back, and what was left."""
    console.print(f"{_counted(undone.n_back, 'photo')} taken back.")
    for place, reason in undone.left[:SHOWN_LEFT]:
        console.print(
            Text.assemble(("Not taken back:", "yellow"), f" {visible(folder / place)}: {visible(reason)}")
        )
    if (more := len(undone.left) - SHOWN_LEFT) > 0:
        console.print(f"… and {more:,} more")


def show_exported(console: Console, record: dict[str, Any], ids: list[int], n: int, out: Path) -> None:
    """How many samples, of how many kinds, were written."""
    kinds = [category["kind"] for category in record["categories"] if category["id"] in ids]
    known, new = kinds.count("known"), kinds.count("new")
    samples = f"{n:,} of {_counted(record['source']['samples'], 'sample')}"
    console.print(f"{samples} in {_shown(out)}: {_counted(known, 'known kind')} and {new:,} new", soft_wrap=True)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


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
    table = _plain_table()
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


def _show_rehearsal(console: Console, how: str, rows: list[list[float]], chosen: tuple[float, ...]) -> None:
    """Scores in rehearsals: a row for each temperature, a column for each lam."""
    lams = sorted({lam for _, lam, *_ in rows})
    scores = {(temperature, lam): score for temperature, lam, score, _ in rows}
    table = _plain_table()
    table.add_column(f"rehearsed {how}, %: T \\ λ", justify="right", style="dim")
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


def _category_table(categories: list[dict[str, Any]], means: dict[int, float], shown: int, width: int) -> Table:
    table = _plain_table()
    table.add_column("id", justify="right", style="dim")
    table.add_column("kind")
    has_suggestions = any(_suggested(category) for category in categories)
    if has_suggestions:
        table.add_column("suggested", no_wrap=True, overflow="ellipsis", max_width=SUGGESTED_WIDTH)
    table.add_column("samples", justify="right")
    table.add_column("labelled", justify="right", style="dim")
    if means:
        table.add_column("confidence", justify="right")
    if has_bars := not has_suggestions or width >= WIDE:
        table.add_column("", no_wrap=True, min_width=BAR_WIDTH)
    largest = max((category["size"] for category in categories), default=1) or 1
    for kind, colour, mark in (("known", "blue", ""), ("new", "yellow", " new")):
        members = [category for category in categories if category["kind"] == kind]
        for category in members[:shown]:
            bar = "█" * round(BAR_WIDTH * category["size"] / largest)
            mean, gone = means.get(category["id"]), category.get("let_go")
            table.add_row(
                str(category["id"]),
                Text.assemble(visible(category["name"]), (mark, colour)),
                *([Text(_suggested(category), "italic")] if has_suggestions else []),
                f"{category['size']:,}" + (f" of {category['size'] + gone:,}" if gone else ""),
                f"{category['labelled']:,}",
                *(["" if mean is None else _percent(mean)] if means else []),
                *([f"[{colour}]{bar}[/{colour}]"] if has_bars else []),
            )
        if rest := members[shown:]:
            samples, labelled = (sum(category[part] for category in rest) for part in ("size", "labelled"))
            more = f"… {len(rest)} more {kind} (show --all)"
            table.add_row("", more, *([""] if has_suggestions else []), f"{samples:,}", f"{labelled:,}")
    return table


def _suggested(category: dict[str, Any]) -> str:
    """The name that we suggest for a category that has no other, marked as such."""
    suggestion = category.get("suggestion")
    return f"{visible(suggestion)}?" if suggestion and not category["named"] else ""


def _sample_table(title: str, explanation: str, samples: "Sequence[Sample]") -> Table:
    table = _plain_table()
    table.add_column(f"{title}: {explanation}", overflow="fold")
    table.add_column("confidence", justify="right")
    table.add_column("novelty", justify="right")
    for sample in samples:
        name = _sample_name(sample.id, sample.text)
        if sample.given:
            name.append("  labelled", "blue")
        table.add_row(name, _percent(sample.confidence), _percent(sample.novelty))
    return table


def _sample_name(sample_id: str, text: str | None) -> Text:
    """A sample by its id and the beginning of its text."""
    name = Text(visible(sample_id))
    if text is not None:
        beginning = " ".join(text.split())
        short = beginning if len(beginning) <= TEXT_LENGTH else beginning[: TEXT_LENGTH - 1] + "…"
        name.append(f"  {visible(short)}", "dim")
    return name


def _plain_table() -> Table:
    return Table(box=None, padding=(0, 1), show_edge=False)
