"""`newkinds estimate`"""

import time
from typing import Annotated

import typer

from newkinds.commands.collecting import (
    check_unlabelled,
    collect,
    label_rules,
    make_encoding,
    print_notes,
    read_changes,
)
from newkinds.commands.options import (
    AsIs,
    Cache,
    Crop,
    DeviceOption,
    EncoderName,
    FullPrecision,
    IdColumn,
    LabelColumn,
    Labels,
    MinConfidence,
    NoCache,
    Quiet,
    Resize,
    Seed,
    Source,
    TextColumn,
    Threads,
    UnlabelledNames,
    Workers,
)
from newkinds.names import CountRule, RecipeName, SolverName


def estimate(
    source: Source,
    labels: Labels = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    unlabelled: UnlabelledNames = None,
    as_is: AsIs = False,
    min_confidence: MinConfidence = None,
    encoder: EncoderName = None,
    resize: Resize = None,
    crop: Crop = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    method: Annotated[
        CountRule | None, typer.Option(help="What to count by; by default what the recipe does.")
    ] = None,
    recipe: Annotated[RecipeName, typer.Option(help="Start and solver of max-acc-pim.")] = "newkinds",
    solver: Annotated[
        SolverName | None, typer.Option(help="How max-acc-pim trains; by default as the recipe does.")
    ] = None,
    bounds: Annotated[tuple[int, int] | None, typer.Option(help="Least and most categories.")] = None,
    seed: Seed = 0,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how many categories there are, known and new."""
    from dataclasses import asdict
    from json import dumps

    from rich.console import Console

    from newkinds.selection.n_categories import estimate_n_categories
    from newkinds.terminal import Screen, progress_bars, show_estimate

    began = time.perf_counter()
    rules = label_rules(unlabelled, as_is, min_confidence, labels, quiet)
    with progress_bars(Console(stderr=True), quiet):
        encoding = make_encoding(
            encoder, device, cache, no_cache, workers, full_precision, read_changes(resize, crop)
        )
        collection = collect(
            source, encoding, check_unlabelled, labels=labels, text=text, label=label, id=id, rules=rules
        )
        count = estimate_n_categories(
            collection.features,
            collection.labels,
            method,
            bounds,
            recipe=recipe,
            solver=solver,
            device=device,
            random_state=seed,
        )
    if not quiet:
        print_notes(collection.notes)
    if json:
        typer.echo(dumps({**asdict(count), "seconds": round(time.perf_counter() - began, 3)}))
    elif quiet:
        typer.echo(count.n_categories)
    else:
        show_estimate(Screen(), count, collection.n_known)
