"""`newkinds longtail`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import print_notes
from newkinds.commands.options import FeatureSource, ForceFile, Labels, Quiet, Seed
from newkinds.errors import InputError


def longtail(
    source: FeatureSource,
    imbalance: Annotated[float, typer.Option(help="Size of the largest class over that of the smallest.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Features to write: .npz, .parquet, or a folder.")],
    labels: Labels = None,
    truth: Annotated[
        str | None, typer.Option(help="True class of every sample, if the source has none: a file as for --labels.")
    ] = None,
    seed: Seed = 0,
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Make a long-tailed version of a feature set: the sizes of its true classes fall exponentially."""
    from rich.console import Console

    from newkinds.data import FeatureSet, check_features_target, read_source, write_features
    from newkinds.data.long_tail import long_tailed
    from newkinds.data.sources import kind_of, place_of
    from newkinds.staging import check_not_read
    from newkinds.terminal import progress_bars

    if out.suffix.lower() == ".npy":
        raise InputError(f"{out}: an .npy file has no place for the truth; write an .npz, a .parquet or a folder")
    check_not_read(out, place_of(source), labels, truth)
    with progress_bars(Console(stderr=True), quiet):
        collection = None if kind_of(Path(source)) else read_source(source, labels=labels, truth=truth)
        if not isinstance(collection, FeatureSet):
            raise InputError(f"{source} is not a set of features; photos and texts become one by `newkinds encode`")
        tailed = long_tailed(collection, imbalance, seed=seed)
        check_features_target(out, tailed, overwrite=force)
        write_features(tailed, out, overwrite=force)
    if not quiet:
        print_notes(tailed.notes)
        typer.echo(
            f"{len(tailed):,} samples, {tailed.n_labelled:,} labelled of {tailed.n_known} known classes, are in "
            f"{out}."
        )
