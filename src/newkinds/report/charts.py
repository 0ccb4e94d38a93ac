"""Line charts as inline SVG, and coloured tables: no script, no outside resource."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 40
LEAST_PERCENT = 5.0
"""Least height of an axis in percent, so that small changes look small."""
EQUAL, TINY = 1e-12, 1e-100
"""Differences that are too small to be drawn: as a part of the largest value, and anyway."""


def heat_table(rows: Sequence[Sequence[float]], *, chosen: tuple[float, float]) -> str:
    """Shares over temperature and lam as a table of coloured cells.

    Parameters
    ----------
    rows : sequence of (temperature, lam, share, …)
    chosen : (temperature, lam)
        The cell that stands out.
    """
    shares = {(temperature, lam): share for temperature, lam, share, *_ in rows}
    low, high = min(shares.values()), max(shares.values())
    lams = sorted({lam for _, lam in shares})
    header = "".join(f"<th>{lam:.3g}</th>" for lam in lams)
    lines = [f'<table class="heat"><tr><th>T \\ λ</th>{header}</tr>']
    for temperature in sorted({temperature for temperature, _ in shares}):
        cells = []
        for lam in lams:
            share = shares.get((temperature, lam))
            if share is None:
                cells.append("<td></td>")
                continue
            strength = 1.0 if high == low else (share - low) / (high - low)
            kind = ' class="chosen"' if (temperature, lam) == chosen else ""
            cells.append(f'<td{kind} style="--heat:{strength:.2f}">{100 * share:.1f}</td>')
        lines.append(f"<tr><th>{temperature:g}</th>{''.join(cells)}</tr>")
    return "".join([*lines, "</table>"])


def line_chart(
    points: Sequence[Sequence[float]],
    *,
    x_label: str,
    y_label: str,
    marked: float | None = None,
    percent: bool = False,
) -> str:
    """A curve with its points; the one at x = `marked` stands out.

    Parameters
    ----------
    points : sequence of (x, y)
    x_label, y_label : str
    marked : float, optional
    percent : bool
        Whether y is a share to be shown in percent.
    """
    curve = sorted((float(x), 100 * float(y) if percent else float(y)) for x, y in points)
    xs, ys = [x for x, _ in curve], [y for _, y in curve]
    low_x, high_x = _range(xs)
    low_y, high_y = _range(ys, least=LEAST_PERCENT if percent else 0.0)

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(f"{y_label} over {x_label}")}">']
    for y in _ticks(low_y, high_y):
        _, down = place(low_x, y)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{down + 4}" text-anchor="end">{y:g}</text>')
    for x in _ticks(low_x, high_x):
        across, _ = place(x, low_y)
        parts.append(
            f'<text class="tick" x="{across}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>'
        )
    path = " ".join(f"{across},{down}" for across, down in (place(x, y) for x, y in curve))
    parts.append(f'<polyline class="curve" points="{path}"/>')
    if len(curve) <= 60:
        for x, y in curve:
            across, down = place(x, y)
            chosen = marked is not None and abs(x - marked) < 1e-9
            kind, radius = ("chosen", 6) if chosen else ("point", 3)
            title = f"{x_label} {x:.4g}: {y:.4g}{' %' if percent else ''}{' (chosen)' if chosen else ''}"
            circle = f'<circle class="{kind}" cx="{across}" cy="{down}" r="{radius}">'
            parts.append(f"{circle}<title>{escape(title)}</title></circle>")
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="label" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text class="label" transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text></svg>'
    )
    return "".join(parts)


def _range(values: Sequence[float], least: float = 0.0) -> tuple[float, float]:
    """From the lowest to the highest value, widened about the middle to `least` (or to 1 where all are equal)."""
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    wanted = max(least, high - low)
    if wanted <= max(EQUAL * largest, TINY):
        wanted = max(1.0, 1e-6 * largest)
    missing = (wanted - (high - low)) / 2
    return low - missing, high + missing


def _ticks(low: float, high: float) -> list[float]:
    """Four to eight round numbers in [low, high]."""
    step = 10.0 ** _exponent((high - low) / 4)
    while (high - low) / step > 8:
        step *= 2 if (high - low) / step <= 16 else 2.5
    first = -(-low // step)
    return [round((first + i) * step, 10) for i in range(int((high - first * step) // step) + 1)]


def _exponent(value: float) -> int:
    """floor(log10(value)) without a special case for powers of ten."""
    return int(f"{value:e}".split("e")[1])
