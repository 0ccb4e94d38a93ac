"""`newkinds encoders`"""

from typing import TYPE_CHECKING, Annotated

import typer

from newkinds.names import Kind
from newkinds.visible import visible

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 110
"""Columns of a terminal on which there is room to say what an encoder was trained on."""


def encoders(json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False) -> None:
    """List the encoders of images and texts: what is installed, what a name downloads, quality and speed."""
    from json import dumps
    from typing import get_args

    from newkinds.encoders.catalogue import MEASURED_ON, OFFERS, used_before
    from newkinds.terminal import Screen

    used = list(used_before())
    if json:
        content = {
            "encoders": [offer.describe() for offer in OFFERS],
            "measured_on": MEASURED_ON,
            "used_before": [{"name": name, "available": is_here} for name, is_here in used],
        }
        typer.echo(dumps(content))
        return
    screen = Screen()
    for kind in get_args(Kind):
        screen.print(table_of(kind, screen.width >= WIDE), "")
    measured = " and ".join(f"{kind} on {name}" for kind, name in MEASURED_ON.items())
    screen.print(
        f"Quality is All in per cent, the number of categories given: {measured}. Speed is in samples a second "
        "on two CPU cores. –: not measured. --encoder takes a name; nothing is downloaded that was not named.",
        style="dim",
        highlight=False,
    )
    for name, is_here in used:
        typer.echo(f"Used before: {visible(name)}{'' if is_here else ' (not there now)'}")


def table_of(kind: Kind, wide: bool) -> "Table":
    """The offers for a kind of sample."""
    from rich.markup import escape
    from rich.table import Table

    from newkinds.encoders.catalogue import OFFERS

    table = Table(
        box=None, title=f"Encoders of {kind}", title_justify="left", pad_edge=False, collapse_padding=True
    )
    table.add_column("name", no_wrap=True)
    for heading in ("features", "quality", "speed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("how to get it")
    if wide:
        table.add_column("trained on")
    for offer in OFFERS:
        if offer.kind == kind:
            figures = ("–" if figure is None else f"{figure:g}" for figure in (offer.quality, offer.speed))
            how = escape(f"default, {offer.how}" if offer.is_default else offer.how)
            table.add_row(offer.name, str(offer.n_features), *figures, how, *([offer.about] if wide else []))
    return table
