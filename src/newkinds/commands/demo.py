"""`newkinds demo`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.fitting import fit_and_save
from newkinds.commands.options import DeviceOption, Force, Quiet, Seed

DEMO_FOLDER = Path("newkinds-demo")


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
    from newkinds.run_folder import check_target

    check_target(out, force or out == DEMO_FOLDER)  # an earlier demo may go
    collection = digits(seed)
    if not quiet:
        typer.echo(
            f"{len(collection):,} images of handwritten digits. {collection.n_labelled} zeros to fours carry a "
            "label, nothing else does.\nLooking for 10 categories: the 5 known ones and 5 that nobody named."
        )
    model = PIM(n_categories=10, device=device, random_state=seed)
    fit_and_save(collection, model, "handwritten digits", out, quiet, checkpoint=0)
