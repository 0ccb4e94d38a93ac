"""`newkinds finetune`"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.collecting import read_changes
from newkinds.commands.options import (
    Crop,
    DeviceOption,
    EncoderName,
    FullPrecision,
    LabelColumn,
    Labels,
    Quiet,
    Resize,
    Seed,
    Source,
    TextColumn,
    Threads,
    Workers,
    number_or_name,
)
from newkinds.errors import InputError
from newkinds.names import Classifier
from newkinds.visible import visible


def finetune(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Encoder to make: a folder, to be used as --encoder.")],
    encoder: EncoderName = None,
    resize: Resize = None,
    crop: Crop = None,
    labels: Labels = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    epochs: Annotated[int, typer.Option(help="Times the collection is gone through.", min=1)] = 50,
    batch_size: Annotated[int, typer.Option(help="Samples that are compared with each other.", min=4)] = 128,
    blocks: Annotated[
        str, typer.Option(help="What is trained: so many of the last blocks, or names separated by commas.")
    ] = "1",
    learning_rate: Annotated[
        float, typer.Option(help="Of the encoder, at the beginning; it falls along a cosine.", min=0)
    ] = 0.1,
    head_learning_rate: Annotated[
        float, typer.Option(help="Of the projection and the classifier, which begin at random.", min=0)
    ] = 0.1,
    classifier: Annotated[
        Classifier | None, typer.Option(help="Also learn to classify, as the method of that name does.")
    ] = None,
    n_categories: Annotated[
        int | None, typer.Option("--n-categories", "-k", help="Of the classifier: known and new together.", min=2)
    ] = None,
    accumulate: Annotated[int, typer.Option(help="Parts of a batch, where memory is short.", min=1)] = 1,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    seed: Seed = 0,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    quiet: Quiet = False,
) -> None:
    """Fit the last blocks of an encoder to a collection, with GCD's contrastive losses.

    After an interruption the same command goes on from the last epoch that was finished. Under torchrun several
    processes share every batch.
    """
    from rich.console import Console

    from newkinds.data import RawCollection, read_source
    from newkinds.encoders.finetune import Finetuning, check_finetune_target
    from newkinds.encoders.finetune import finetune as train
    from newkinds.runtime import processes, rank
    from newkinds.terminal import progress_bars

    check_finetune_target(out)
    changes = read_changes(resize, crop)
    n_blocks = number_or_name(blocks, int)
    settings = Finetuning(
        epochs=epochs,
        batch_size=batch_size,
        blocks=n_blocks if isinstance(n_blocks, int) else tuple(blocks.split(",")),
        learning_rate=learning_rate,
        head_learning_rate=head_learning_rate,
        accumulate=accumulate,
        classifier=classifier,
        n_categories=n_categories,
        half=False if full_precision else None,
        workers=workers,
        seed=seed,
    )
    collection = read_source(source, labels=labels, text=text, label=label)
    if not isinstance(collection, RawCollection):
        raise InputError(f"{source} holds features: an encoder is trained on images or texts")
    with processes(device) as process_device, progress_bars(Console(stderr=True), quiet or rank() > 0):
        losses = train(collection, encoder, out, settings, device=process_device, changes=changes)
    if not quiet and rank() == 0:
        typer.echo(f"{describe_losses(losses)} Use the encoder by --encoder {visible(out)}")


def describe_losses(losses: Sequence[float]) -> str:
    """How the loss went, from the first epoch to the last, as a sentence.

    Examples
    --------
    >>> describe_losses([2.5, 1.75, 1.25]), describe_losses([1.25, 2.5])
    ('The loss fell from 2.500 to 1.250.', 'The loss rose from 1.250 to 2.500: try a smaller --learning-rate.')
    """
    first, last = (f"{loss:.3f}" for loss in (losses[0], losses[-1]))
    if len(losses) == 1:
        return f"The loss is {last}."
    if first == last:
        return f"The loss stayed at {last}."
    if losses[-1] < losses[0]:
        return f"The loss fell from {first} to {last}."
    return f"The loss rose from {first} to {last}: try a smaller --learning-rate."
