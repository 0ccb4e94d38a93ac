"""Figures of results: accuracies as dots or over stages, and the paper's figure of lambda.

Drawn with matplotlib's objects, never through pyplot: nothing global changes, and the same numbers give the same
SVG whatever style a user has set up.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from newkinds.errors import InputError
from newkinds.staging import accept_existing, staged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#332288",
    "#CC6677",
    "#117733",
    "#88CCEE",
    "#AA4499",
    "#DDCC77",
    "#44AA99",
    "#882255",
    "#999933",
    "#777777",
)
"""Paul Tol's muted scheme, which the colour-blind can tell apart, and a grey."""
MARKERS = "osD^v"
"""The colours come round again with another marker."""
CURVE, CHOSEN, BEST = "#332288", "#CC6677", "#117733"
KNOWN, NOVEL = "#6699CC", "#EECC66"  # Paul Tol's medium-contrast scheme: they differ in print without colour too
INK, FAINT, GRID = "#222222", "#666666", "#DDDDDD"
PANELS_ACROSS = {5: 3, 6: 3}
"""Panels of a dot chart side by side, for some numbers of data sets; for others up to four."""
PANEL_WIDTH, COLUMN_WIDTH = 2.25, 1.75
"""Inches for each data set in a dot chart and in the figure of lambda."""
SMALLEST, LARGEST = 6.0, 9.0
"""Size of a title's letters in points: what can still be read, and a short title's."""
DPI = 150
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 8.0,
    "axes.titlesize": LARGEST,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.hashsalt": "newkinds",  # names of elements are drawn from it, otherwise by chance
}


@dataclass(frozen=True)
class LambdaPanel:
    """One column of `lambda_figure`: a data set. Accuracies are in percent.

    Parameters
    ----------
    title : str
    lams : sequence of float
        In any order.
    labelled_accuracy : sequence of float
        Accuracy of the unsupervised objective G on the labelled samples, at each lam.
    lam_chosen : float
        The lam that it chooses.
    all_accuracy : sequence of float
        Accuracy of the objective F on all unlabelled samples, at each lam.
    lam_best : float
        The lam that is best by the truth.
    frequencies : sequence of int
        Samples of each class, in any order.
    is_known : sequence of bool
        Whether each class is known.
    labelled_std, all_std : sequence of float, optional
        Standard deviations over seeds, at each lam: drawn as a band.
    """

    title: str
    lams: Sequence[float]
    labelled_accuracy: Sequence[float]
    lam_chosen: float
    all_accuracy: Sequence[float]
    lam_best: float
    frequencies: Sequence[int]
    is_known: Sequence[bool]
    labelled_std: Sequence[float] | None = None
    all_std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        for name in ("labelled_accuracy", "all_accuracy", "labelled_std", "all_std"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.lams):
                raise InputError(f"{self.title}: {name} has {len(values)} values for {len(self.lams)} lams")
        if len(self.frequencies) != len(self.is_known):
            raise InputError(
                f"{self.title}: {len(self.frequencies)} frequencies, but {len(self.is_known)} in is_known"
            )


def dot_chart(
    title: str,
    groups: Mapping[str, Mapping[str, tuple[float, float | None]]],
    *,
    x_label: str,
    path: str | Path,
    digits: int = 1,
) -> tuple[Path, Path]:
    """A panel for each data set, all on one scale: a dot for each method, with the standard deviation as a bar.

    Parameters
    ----------
    title : str
    groups : mapping: data set → method → (mean, std or None)
        Methods stand below one another in the order in which they first appear, and keep their colour in all
        panels; a method that a data set lacks leaves its line empty.
    x_label : str
        What is measured.
    path : path
        Of the files, with or without an ending.
    digits : int
        Places after the point in the numbers beside the dots.

    Returns
    -------
    (Path, Path)
        The PNG and the SVG.
    """
    methods = list(dict.fromkeys(method for rows in groups.values() for method in rows))
    if not methods:
        raise InputError(f"there is nothing to draw in the chart {title!r}: no data set has a method")
    across = PANELS_ACROSS.get(len(groups), min(len(groups), 4))
    down = -(-len(groups) // across)
    n_characters = max(map(len, methods))
    width = 0.3 + 0.065 * n_characters + PANEL_WIDTH * across
    with _drawing(width, 0.8 + down * (0.45 + 0.19 * len(methods))) as figure:
        panels = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        flat = list(panels.flat)
        for axes, (name, rows) in zip(flat, groups.items(), strict=False):
            _dots(axes, name, rows, methods, digits)
        for axes in flat[len(groups) :]:
            axes.remove()
        for i, axes in enumerate(flat[: len(groups)]):
            axes.tick_params(labelbottom=i + across >= len(groups))
        flat[0].set_ylim(len(methods) - 0.5, -0.5)
        flat[0].set_yticks(range(len(methods)), methods, parse_math=False)
        # At 10 points a character is about 0.085 inches wide.
        wrapped = "\n".join(textwrap.wrap(title, int(width / 0.085)))
        figure.suptitle(wrapped, fontsize=10, color=INK, parse_math=False)
        figure.supxlabel(x_label, fontsize=8, color=INK, parse_math=False)
        return _write(figure, path, title)


def _dots(
    axes: "Axes",
    name: str,
    rows: Mapping[str, tuple[float, float | None]],
    methods: Sequence[str],
    digits: int,
) -> None:
    _head(axes, name, PANEL_WIDTH - 0.1, loc="left")
    axes.grid(axis="x", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.spines["left"].set_visible(False)
    for at, method in enumerate(methods):
        axes.axhline(at, color=GRID, linewidth=0.5, zorder=0)
        mean, std = rows.get(method, (math.nan, None))
        if math.isnan(mean):
            continue
        axes.errorbar(
            mean,
            at,
            xerr=std,
            color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at // len(COLOURS) % len(MARKERS)],
            markersize=4.5,
            markeredgewidth=0,
            elinewidth=1.2,
        )
        # The number itself stands in a column at the right edge, outside the axes.
        number = f"{mean:.{digits}f}" if std is None or math.isnan(std) else f"{mean:.{digits}f} ± {std:.{digits}f}"
        axes.annotate(
            number, (1.03, at), xycoords=("axes fraction", "data"), va="center", fontsize=6.5, color=FAINT
        )


def lambda_figure(panels: Sequence[LambdaPanel], path: str | Path) -> tuple[Path, Path]:
    """The paper's figure of lambda: a column for each data set, three rows.

    Above, the labelled accuracy of the unsupervised objective G over lambda, by which lambda is chosen; in the
    middle, the accuracy of the objective F on all unlabelled samples, and the lambda that is best by the truth;
    below, how frequent the classes are, the most frequent first.

    Parameters
    ----------
    panels : sequence of LambdaPanel
    path : path
        Of the files, with or without an ending.

    Returns
    -------
    (Path, Path)
        The PNG and the SVG.
    """
    if not panels:
        raise InputError("there is nothing to draw: the figure of lambda needs a data set")
    width = max(3.6, 0.7 + COLUMN_WIDTH * len(panels))
    with _drawing(width, 5.4) as figure:
        rows = figure.subplots(3, len(panels), squeeze=False, height_ratios=(1, 1, 0.8))
        for panel, (above, middle, below) in zip(panels, rows.T, strict=True):
            _head(above, panel.title, COLUMN_WIDTH - 0.1, pad=18)
            above.sharex(middle)
            _curve(above, panel.lams, panel.labelled_accuracy, panel.labelled_std)
            _curve(middle, panel.lams, panel.all_accuracy, panel.all_std)
            _mark(above, panel.lam_chosen, r"$\hat{\lambda}$", CHOSEN)
            middle.axvline(panel.lam_chosen, color=CHOSEN, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
            _mark(middle, panel.lam_best, r"$\lambda_{\mathrm{GT}}$", BEST)
            above.tick_params(labelbottom=False)
            middle.set_xlabel(r"$\lambda$", color=INK)
            _classes(below, panel)
        for axes, label in zip(
            rows[:, 0], ("labelled acc. of $G$ (%)", "All acc. of $F$ (%)", "samples"), strict=True
        ):
            axes.set_ylabel(label, color=INK)
        has_bands = any(std is not None for panel in panels for std in (panel.labelled_std, panel.all_std))
        _legend(figure, has_bands, across=int(width / 1.6))
        return _write(figure, path, "Accuracy over lambda, and how frequent the classes are")


@dataclass(frozen=True)
class StagePanel:
    """One column of `stage_figure`: a set, with a curve for each row of its table.

    Parameters
    ----------
    title : str
    curves : sequence of mapping: row → (means, standard deviations or None)
        Of each measure, from above to below: a number in percent for each stage.
    """

    title: str
    curves: Sequence[Mapping[str, tuple[Sequence[float], Sequence[float] | None]]]


def stage_figure(
    title: str, panels: Sequence[StagePanel], measures: Sequence[str], path: str | Path
) -> tuple[Path, Path]:
    """Accuracy over stages: a column for each set, a line of panels for each measure, a curve for each row.

    Parameters
    ----------
    title : str
    panels : sequence of StagePanel
    measures : sequence of str
        What is measured.
    path : path
        Of the files, with or without an ending.

    Returns
    -------
    (Path, Path)
        The PNG and the SVG.
    """
    if not panels or any(len(panel.curves) != len(measures) for panel in panels):
        raise InputError(f"there is nothing to draw in {title!r}: it needs sets, with curves of every measure")
    rows = list(dict.fromkeys(row for panel in panels for curves in panel.curves for row in curves))
    across = max(1, int(max(3.6, 0.7 + PANEL_WIDTH * len(panels)) / (0.5 + 0.065 * max(map(len, rows)))))
    width = max(3.6, 0.7 + PANEL_WIDTH * len(panels))
    height = 0.9 + 1.7 * len(measures) + 0.17 * -(-len(rows) // across)
    with _drawing(width, height) as figure:
        grid = figure.subplots(len(measures), len(panels), squeeze=False, sharex=True, sharey=True)
        for panel, column in zip(panels, grid.T, strict=True):
            _head(column[0], panel.title, PANEL_WIDTH - 0.1)
            for axes, curves in zip(column, panel.curves, strict=True):
                for row, (means, spread) in curves.items():
                    place = rows.index(row)
                    axes.errorbar(
                        range(len(means)),
                        means,
                        yerr=spread,
                        label=row,
                        color=COLOURS[place % len(COLOURS)],
                        marker=MARKERS[place % len(MARKERS)],
                        markersize=3.5,
                        linewidth=1.2,
                        elinewidth=0.8,
                    )
                axes.grid(axis="y", color=GRID, linewidth=0.5)
                axes.set_axisbelow(True)
                axes.locator_params(axis="x", integer=True)
            column[-1].set_xlabel("stage", color=INK)
        for axes, measure in zip(grid[:, 0], measures, strict=True):
            axes.set_ylabel(measure, color=INK)
        handles = {
            label: handle
            for axes in grid.flat
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles=[handles[row] for row in rows],
            loc="outside lower center",
            ncols=min(across, len(rows)),
            frameon=False,
            fontsize=7.5,
        )
        return _write(figure, path, title)


def _curve(axes: "Axes", lams: Sequence[float], mean: Sequence[float], std: Sequence[float] | None) -> None:
    order = np.argsort(lams)
    x, y = np.asarray(lams, dtype=float)[order], np.asarray(mean, dtype=float)[order]
    if std is not None:
        spread = np.asarray(std, dtype=float)[order]
        axes.fill_between(x, y - spread, y + spread, color=CURVE, alpha=0.15, linewidth=0)
    axes.plot(x, y, color=CURVE, linewidth=1.2, marker="o", markersize=2.2)
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.margins(y=0.12)
    axes.locator_params(axis="y", nbins=5)


def _mark(axes: "Axes", lam: float, symbol: str, colour: str) -> None:
    """A line at lam, and its name above the axes, where no curve is in the way."""
    axes.axvline(lam, color=colour, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1)
    low, high = axes.get_xlim()
    place = (lam - low) / (high - low)
    axes.annotate(
        f"{symbol} = {lam:.3g}",
        (lam, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="left" if place < 0.3 else "right" if place > 0.7 else "center",
        color=colour,
    )


def _classes(axes: "Axes", panel: LambdaPanel) -> None:
    frequencies, is_known = np.asarray(panel.frequencies), np.asarray(panel.is_known, dtype=bool)
    order = np.argsort(-frequencies, kind="stable")
    frequencies, is_known = frequencies[order], is_known[order]
    edges = np.arange(len(frequencies) + 1) + 0.5
    for members, colour in ((is_known, KNOWN), (~is_known, NOVEL)):
        axes.stairs(np.where(members, frequencies, 0), edges, fill=True, color=colour, linewidth=0)
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, None)
    axes.locator_params(axis="y", nbins=4)
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("class, by size", color=INK)


def _head(
    axes: "Axes", title: str, inches: float, *, loc: Literal["left", "center"] = "center", pad: float = 6
) -> None:
    """A panel's title, kept clear of its neighbour's.

    A long title has a line for each part between commas; long lines get smaller letters, and the longest are cut.
    """
    letters = 72 * inches / 0.68  # what fits at one point: a bold letter is about 0.68 of its size wide
    most = int(letters / SMALLEST)
    lines = title.replace(", ", ",\n").split("\n") if len(title) > letters / LARGEST else [title]
    lines = [line if len(line) <= most else line[: most - 1] + "…" for line in lines]
    size = min(LARGEST, *(letters / max(len(line), 1) for line in lines))
    text = "\n".join(lines)
    axes.set_title(text, loc=loc, pad=pad, color=INK, fontweight="bold", fontsize=size, parse_math=False)


def _legend(figure: "Figure", has_bands: bool, across: int) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries = [
        Line2D([], [], color=CHOSEN, linestyle=(0, (4, 2)), label=r"$\hat{\lambda}$, chosen by $G$"),
        Line2D([], [], color=BEST, linestyle=(0, (4, 2)), label=r"$\lambda_{\mathrm{GT}}$, best by the truth"),
        *([Patch(color=CURVE, alpha=0.15, linewidth=0, label="± std over seeds")] if has_bands else []),
        Patch(color=KNOWN, label="known class"),
        Patch(color=NOVEL, label="novel class"),
    ]
    figure.legend(
        handles=entries, loc="outside lower center", ncols=min(across, len(entries)), frameon=False, fontsize=7.5
    )


def check_matplotlib() -> None:
    """Say how to get matplotlib where it is missing."""
    try:
        import matplotlib.figure  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise InputError(
            'figures are drawn with matplotlib, which is missing: pip install "newkinds[benchmark]"'
        ) from error


@contextmanager
def _drawing(width: float, height: float) -> "Iterator[Figure]":
    """An empty figure, in inches, while matplotlib has its own defaults and our style."""
    check_matplotlib()
    import matplotlib.style
    from matplotlib.figure import Figure

    with matplotlib.style.context(STYLE, after_reset=True):
        yield Figure(figsize=(width, height), layout="constrained")


def _write(figure: "Figure", path: str | Path, title: str) -> tuple[Path, Path]:
    """Write NAME.png and NAME.svg, each of them whole or not at all."""
    path = Path(path)
    stem = path.name.removesuffix(".png").removesuffix(".svg")
    png, svg = path.with_name(f"{stem}.png"), path.with_name(f"{stem}.svg")
    with staged(png, replace=accept_existing) as stage:
        figure.savefig(stage, format="png", dpi=DPI, metadata={"Title": title})
    with staged(svg, replace=accept_existing) as stage:
        figure.savefig(stage, format="svg", metadata={"Title": title, "Date": None})
    return png, svg
