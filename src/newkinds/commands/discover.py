"""`newkinds discover`"""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from newkinds.commands.collecting import check_unlabelled, collect, label_rules, make_encoding, read_changes
from newkinds.commands.fitting import fit_and_save
from newkinds.commands.options import (
    AsIs,
    Cache,
    Checkpoint,
    Crop,
    DeviceOption,
    EffortOption,
    EncoderName,
    Force,
    FullPrecision,
    IdColumn,
    InitName,
    LabelColumn,
    Labels,
    Lam,
    MethodOption,
    MetricOption,
    MinConfidence,
    NCategories,
    NoCache,
    NoMap,
    Quiet,
    Resize,
    Seed,
    Source,
    Temperature,
    TextColumn,
    Threads,
    Truth,
    UnlabelledNames,
    Workers,
    number_or_name,
)
from newkinds.names import AUTO, RecipeName, SolverName


def discover(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder to make.")],
    labels: Labels = None,
    truth: Truth = None,
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
    n_categories: NCategories = AUTO,
    method: MethodOption = "pim",
    recipe: Annotated[
        RecipeName | None, typer.Option(help="PIM's settings: ours (newkinds), the paper's, the release's.")
    ] = None,
    lam: Lam = None,
    temperature: Temperature = None,
    metric: MetricOption = None,
    effort: EffortOption = None,
    consensus: Annotated[
        int | None, typer.Option(help="Trainings from different starts that are joined (PIM).")
    ] = None,
    init: InitName = None,
    n_init: Annotated[int | None, typer.Option(help="Restarts of k-means.")] = None,
    solver: Annotated[SolverName | None, typer.Option(help="How to train; by default the recipe's.")] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Evaluations of one training (epochs of adam, iterations of k-means).")
    ] = None,
    seed: Seed = 0,
    device: DeviceOption = "auto",
    threads: Threads = None,  # heeded by its callback
    checkpoint: Checkpoint = 20.0,
    no_map: NoMap = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Classify the known, discover the new, and write a run folder with a report.

    Under torchrun several processes share the samples: torchrun --nproc-per-node 2 -m newkinds discover …
    """
    from rich.console import Console

    from newkinds.data.sources import place_of
    from newkinds.methods import make_method
    from newkinds.run_folder import check_replaceable
    from newkinds.runtime import n_processes, processes, rank
    from newkinds.staging import check_not_read, check_target, claimed
    from newkinds.terminal import progress_bars

    options = {
        "n_categories": number_or_name(n_categories, int),
        "recipe": recipe,
        "lam": None if lam is None else number_or_name(lam, float),
        "temperature": None if temperature is None else number_or_name(temperature, float),
        "metric": metric,
        "effort": effort,
        "consensus": consensus,
        "init": None if init is None else read_init(init),
        "n_init": n_init,
        "solver": solver,
        "max_iter": max_iter,
        "random_state": seed,
    }
    parameters = {name: value for name, value in options.items() if value is not None}
    make_method(method, **parameters)  # to know at once of one that it does not take
    replace = partial(check_replaceable, force=force)
    check_not_read(out, place_of(source), labels, truth)
    check_target(out, folder=True, replace=replace)
    with processes(device) as process_device, claimed(out) if rank() == 0 else nullcontext():
        model = make_method(method, **parameters, device=process_device)
        rules = label_rules(unlabelled, as_is, min_confidence, labels, quiet or n_processes() > 1)
        with progress_bars(Console(stderr=True), quiet or rank() > 0):
            encoding = make_encoding(
                encoder, process_device, cache, no_cache, workers, full_precision, read_changes(resize, crop)
            )
            collection = collect(
                source,
                encoding,
                check_unlabelled,
                labels=labels,
                truth=truth,
                text=text,
                label=label,
                id=id,
                rules=rules,
            )
        fit_and_save(
            collection,
            model,
            Path(source).name or Path(source).resolve().name,
            out,
            quiet,
            checkpoint,
            replace,
            with_map=not no_map,
        )


def read_init(text: str) -> Any:
    """The --init option: a name, or prototypes from an .npy file."""
    if not text.endswith(".npy"):
        return text
    from newkinds.data import read_array

    return read_array(Path(text))
