"""`newkinds demo`"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.fitting import fit_and_save
from newkinds.commands.options import DeviceOption, Force, Quiet, Seed

DEMO_FOLDER = Path("newkinds-demo")
NAME = "handwritten digits"


def demo(
    out: Annotated[Path, typer.Option(help="Where to put the run folder.")] = DEMO_FOLDER,
    seed: Seed = 0,
    device: DeviceOption = "auto",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Handwritten digits, of which only 0 to 4 are known: find 5 to 9."""
    from newkinds.data import digits
    from newkinds.methods.pim import PIM
    from newkinds.run_folder import check_replaceable
    from newkinds.staging import check_target

    # An earlier demo at its usual place may go.
    replace = partial(check_replaceable, force=force, source=NAME if out == DEMO_FOLDER else None)
    check_target(out, folder=True, replace=replace)
    collection = digits(seed)
    if not quiet:
        typer.echo(
            f"{len(collection):,} images of handwritten digits. {collection.n_labelled} zeros to fours carry a "
            "label, nothing else does.\nLooking for 10 categories: the 5 known ones and 5 that nobody named."
        )
    model = PIM(n_categories=10, device=device, random_state=seed)
    fit_and_save(collection, model, NAME, out, quiet, 0, replace)
