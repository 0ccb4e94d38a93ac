"""`newkinds encode`"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import collect, label_rules, make_encoding, print_notes, read_changes
from newkinds.commands.options import (
    AsIs,
    Cache,
    Crop,
    DeviceOption,
    EncoderName,
    ForceFile,
    FullPrecision,
    IdColumn,
    LabelColumn,
    Labels,
    MinConfidence,
    NoCache,
    Quiet,
    Resize,
    Source,
    TextColumn,
    Threads,
    Truth,
    UnlabelledNames,
    Workers,
)


def encode(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Features to write: .npz, .parquet, .npy, or a folder.")],
    encoder: EncoderName = None,
    resize: Resize = None,
    crop: Crop = None,
    labels: Labels = None,
    truth: Truth = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    unlabelled: UnlabelledNames = None,
    as_is: AsIs = False,
    min_confidence: MinConfidence = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    force: ForceFile = False,
    quiet: Quiet = False,
) -> None:
    """Turn images or texts into feature vectors. After an interruption the same command goes on where it was."""
    from rich.console import Console

    from newkinds.data import check_features_target, write_features
    from newkinds.data.sources import place_of
    from newkinds.staging import check_not_read, claimed
    from newkinds.terminal import progress_bars

    check_not_read(out, place_of(source), labels, truth)
    rules = label_rules(unlabelled, as_is, min_confidence, labels, quiet)
    with progress_bars(Console(stderr=True), quiet), claimed(out):
        encoding = make_encoding(
            encoder, device, cache, no_cache, workers, full_precision, read_changes(resize, crop)
        )
        check = partial(check_features_target, out, overwrite=force)
        collection = collect(
            source, encoding, check, labels=labels, truth=truth, text=text, label=label, id=id, rules=rules
        )
        write_features(collection, out, overwrite=force)
    if not quiet:
        print_notes(collection.notes)
        typer.echo(f"{len(collection):,} samples × {collection.features.shape[1]} features are in {out}.")
