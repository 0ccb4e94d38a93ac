"""`newkinds benchmark`"""

from pathlib import Path
from typing import Annotated

import typer

from newkinds.commands.options import DeviceOption, Quiet
from newkinds.names import MIXES, BenchmarkName, Mix


def benchmark(
    name: Annotated[BenchmarkName, typer.Argument(help="Which table or figure.")],
    features: Annotated[
        list[Path], typer.Option(help="A feature set with the truth, or a folder of such; may be given again.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and results.")] = Path(
        "newkinds-benchmark"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; tables show mean ± standard deviation.")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The first of them; the others follow.")] = 0,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Rows of the tables, with commas between, such as pim,simgcd,sskm; living: such as update,refit."
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Also the rows that are computed as published, which take several times as long.",
        ),
    ] = False,
    imbalance: Annotated[
        float, typer.Option(help="Of the long-tailed versions of balanced sets in the figure of λ; 0: none.")
    ] = 50.0,
    mix: Annotated[
        Mix | None,
        typer.Option(help="What comes later (living): all other classes, or few; by default both in turn."),
    ] = None,
    parts: Annotated[int, typer.Option(min=1, help="In how many parts the samples of a stage come (living).")] = 1,
    workers: Annotated[
        int | None, typer.Option(help="Processes that compute; on a CPU one for each core, up to 8.", min=1)
    ] = None,
    device: DeviceOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Make the paper's tables and figures, with every rival, on feature sets of your own.

    Repeat an interrupted command to go on where it was.
    """
    from rich.console import Console

    from newkinds.benchmark import run_benchmark
    from newkinds.terminal import progress_bars

    console = Console(stderr=True)
    say = (lambda line: None) if quiet else (lambda line: console.print(line, highlight=False, markup=False))
    with progress_bars(console, quiet):
        written = run_benchmark(
            name,
            features,
            out,
            n_seeds=seeds,
            first_seed=first_seed,
            methods=None if methods is None else [key.strip() for key in methods.split(",")],
            exact=exact,
            imbalance=imbalance,
            mixes=MIXES if mix is None else [mix],
            parts=parts,
            device=device,
            workers=workers,
            say=say,
        )
    typer.echo(f"Read {written}" if not quiet else str(written))
