"""The command line: arguments in, calls to the package, nothing else.

Exit codes: 0 all went well; 1 out of memory, or a fault of the program; 2 input or options that cannot be used;
130 interrupted.
"""

import functools
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from newkinds import __version__
from newkinds.errors import InputError
from newkinds.options import (
    BenchmarkName,
    Cache,
    Checkpoint,
    ClassifierName,
    DeviceName,
    EncoderName,
    FeatureSource,
    Force,
    FullPrecision,
    LabelColumn,
    Labels,
    Method,
    NoCache,
    OutputFormat,
    Quiet,
    RecipeName,
    RunFolder,
    SearchRule,
    Seed,
    SolverOption,
    Source,
    TextColumn,
    Truth,
    Workers,
)

if TYPE_CHECKING:
    from newkinds.data import FeatureSet, RawCollection
    from newkinds.encoders import Encoding
    from newkinds.methods import CategoryDiscoverer

# PyTorch and the rest are imported inside the commands, so that --help answers at once.

OUT_OF_MEMORY, BAD_INPUT, INTERRUPTED = 1, 2, 130
DEMO_FOLDER = Path("newkinds-demo")
PREDICTED_ROWS = 1 << 14

app = typer.Typer(
    name="newkinds",
    help="Finds the kinds in a collection: the ones you know and the ones you don't.",
    epilog="Start with: newkinds demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Interrupted(BaseException):
    """SIGINT or SIGTERM. Not a KeyboardInterrupt: Python turns that into a death by signal if it strikes a module
    that is just being imported, even where it is caught."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Bad input and interruption end a command with a line and an exit code, never with a traceback."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (Interrupted, KeyboardInterrupt):
            typer.secho("Interrupted.", fg="red", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read our output has closed it, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (InputError, ValueError, OSError) as error:
            typer.secho(f"Error: {error}", fg="red", err=True)
            raise typer.Exit(BAD_INPUT) from None
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
                raise
            typer.secho(f"Error: there is not enough memory ({error})", fg="red", err=True)
            raise typer.Exit(OUT_OF_MEMORY) from None

    return run


def version(value: bool) -> None:
    if value:
        typer.echo(f"newkinds {__version__}")
        raise typer.Exit


@app.callback()
def common(
    _: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Finds the kinds in a collection: the ones you know and the ones you don't."""


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option(help="Where to put the run folder.")] = DEMO_FOLDER,
    seed: Seed = 0,
    device: DeviceName = "auto",
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Handwritten digits, of which only 0 to 4 are known: find 5 to 9."""
    from newkinds.data import digits
    from newkinds.methods import PIM
    from newkinds.run_folder import check_target

    check_target(out, force or out == DEMO_FOLDER)  # an earlier demo may go
    collection = digits(seed)
    if not quiet:
        typer.echo(
            f"{len(collection):,} images of handwritten digits. {collection.n_labelled} zeros to fours carry a "
            "label, nothing else does.\nLooking for 10 categories: the 5 known ones and 5 that nobody named."
        )
    model = PIM(n_categories=10, device=device, random_state=seed)
    _discover(collection, model, "handwritten digits", out, quiet, checkpoint=0)


@app.command()
@guarded
def discover(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder to make.")],
    labels: Labels = None,
    truth: Truth = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    encoder: EncoderName = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    n_categories: Annotated[
        str,
        typer.Option(help="Known and new together: a number, auto, rehearsal, max-acc-pim or max-acc-kmeans."),
    ] = "auto",
    method: Annotated[Method, typer.Option(help="How to partition.")] = Method.pim,
    recipe: Annotated[
        RecipeName | None, typer.Option(help="PIM's settings: ours (newkinds), the paper's, the release's.")
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(help="Weight of confidence: a number, or auto, rehearsal, labelled or cautious (PIM)."),
    ] = None,
    temperature: Annotated[
        str | None, typer.Option(help="Scale of the logits: a number, or auto or rehearsal (PIM).")
    ] = None,
    consensus: Annotated[
        int | None, typer.Option(help="Trainings from different starts that are joined (PIM).")
    ] = None,
    init: Annotated[
        str | None, typer.Option(help="Start: sskm, sskm++, ssrandom, or an .npy file of prototypes.")
    ] = None,
    n_init: Annotated[int | None, typer.Option(help="Restarts of k-means.")] = None,
    solver: Annotated[SolverOption | None, typer.Option(help="How to train; by default the recipe's.")] = None,
    max_iter: Annotated[
        int | None, typer.Option(help="Evaluations of one training (epochs of adam, iterations of k-means).")
    ] = None,
    seed: Seed = 0,
    device: DeviceName = "auto",
    checkpoint: Checkpoint = 20.0,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Classify the known, discover the new, and write a run folder with a report.

    Under torchrun several processes share the samples: torchrun --nproc-per-node 2 -m newkinds discover …
    """
    from rich.console import Console

    from newkinds.methods import METHODS
    from newkinds.run_folder import check_target
    from newkinds.runs import check_partly_labelled
    from newkinds.runtime import processes, rank
    from newkinds.terminal import progress_bars

    given = {
        "n_categories": number_or_name(n_categories, int),
        "recipe": None if recipe is None else recipe.value,
        "lam": None if lam is None else number_or_name(lam, float),
        "temperature": None if temperature is None else number_or_name(temperature, float),
        "consensus": consensus,
        "init": None if init is None else start(init),
        "n_init": n_init,
        "solver": None if solver is None else solver.value,
        "max_iter": max_iter,
        "random_state": seed,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    accepted = METHODS[method.value]().get_params()
    if foreign := [name for name in parameters if name not in accepted]:
        raise InputError(f"the method {method.value} has no option {', '.join(foreign)}")
    check_target(out, force)
    with processes(device) as own_device:
        model = METHODS[method.value](**parameters, device=own_device)
        with progress_bars(Console(stderr=True), quiet or rank() > 0):
            encoding = _encoding(encoder, own_device, cache, no_cache, workers, full_precision)
            options = {"labels": labels, "truth": truth, "text": text, "label": label}
            collection = _collect(source, encoding, check_partly_labelled, **options)
        _discover(collection, model, Path(source).name, out, quiet, checkpoint)


def _encoding(
    name: str | None, device: str, cache: Path | None, no_cache: bool, workers: int | None, full_precision: bool
) -> "Encoding":
    from newkinds.encoders import Encoding, default_cache

    if no_cache and cache is not None:
        raise InputError("--cache and --no-cache contradict each other")
    place = None if no_cache else cache or default_cache()
    return Encoding(name, device, False if full_precision else None, place, workers)


def _say(notes: Iterable[str]) -> None:
    for note in notes:
        typer.secho(f"Note: {note}", err=True)


def _collect(
    source: str, encoding: "Encoding", check: "Callable[[FeatureSet | RawCollection], None]", **options: Any
) -> "FeatureSet":
    """Read a source and encode it if need be, which is begun only if what was read passes a check."""
    from newkinds.data import RawCollection, read_source
    from newkinds.encoders import as_features
    from newkinds.runtime import n_processes

    collection = read_source(source, **options)
    check(collection)
    if isinstance(collection, RawCollection) and n_processes() > 1:
        raise InputError(
            "photos and texts are encoded by one process: `newkinds encode` first, then share the result"
        )
    return as_features(collection, encoding)


def _discover(
    collection: "FeatureSet", model: "CategoryDiscoverer", name: str, out: Path, quiet: bool, checkpoint: float
) -> None:
    """Fit and save; of several processes the first one saves, and speaks."""
    from contextlib import nullcontext

    from rich.console import Console

    from newkinds.data import staged
    from newkinds.engine import checkpointing
    from newkinds.report import write_report
    from newkinds.run_folder import read_run
    from newkinds.runs import discover, save_run
    from newkinds.runtime import rank
    from newkinds.terminal import progress_bars, show_run

    states = out.absolute().with_name(f".{out.name}.checkpoint")
    saving = checkpointing(states, checkpoint) if checkpoint > 0 else nullcontext()
    if rank() > 0:
        with saving:
            discover(collection, model)
        return
    with staged(out, folder=True) as folder, progress_bars(Console(stderr=True), quiet):
        with saving:
            found = discover(collection, model)
        save_run(found, folder, name)
        write_report(folder)
    shutil.rmtree(states, ignore_errors=True)
    if not quiet:
        show_run(Console(), read_run(out))
        typer.echo(f"\nResults are in {out}; open {out / 'report.html'} to look at them.")


@app.command()
@guarded
def predict(
    run: RunFolder,
    source: Annotated[
        str, typer.Argument(help="New samples (as for discover), or - for features on standard input.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write; standard output if not given.")
    ] = (None),
    form: Annotated[OutputFormat | None, typer.Option("--format", help="By default the ending of --out.")] = None,
    reject: Annotated[
        float | None, typer.Option(help="Leave samples open that are less sure than this probability.")
    ] = None,
    text: TextColumn = None,
    encoder: EncoderName = None,
    device: DeviceName = "auto",
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    quiet: Quiet = False,
) -> None:
    """Give new samples a category, a confidence and a novelty, with the model of a run.

    Photos and texts go through the encoder that the run was made with.

    From standard input, samples are read and answered line by line: {"id": …, "features": […]}, a list, or
    numbers separated by commas.
    """
    from rich.console import Console

    from newkinds.data import read_source, read_stream
    from newkinds.encoders import features_for
    from newkinds.predictions import format_of, predictions_table, table_writer
    from newkinds.runs import load
    from newkinds.runtime import report_progress
    from newkinds.terminal import progress_bars

    model = load(run)
    with table_writer(out, format_of(out, form)) as write:
        if source == "-":
            for ids, features in read_stream(sys.stdin.buffer, model.n_features_in_):
                write(predictions_table(model, model.category_names_, ids, features, reject=reject))
            return
        with progress_bars(Console(stderr=True), quiet):
            encoding = _encoding(encoder, device, cache, no_cache, workers, full_precision)
            collection = features_for(model.encoder_, read_source(source, text=text), encoding)
            features = collection.arranged(model.source_columns_)
            for first in range(0, len(collection), PREDICTED_ROWS):
                rows = slice(first, first + PREDICTED_ROWS)
                ids = collection.sample_ids(rows)
                write(predictions_table(model, model.category_names_, ids, features[rows], reject=reject))
                report_progress("predicting", min(rows.stop, len(collection)), len(collection))
    if not quiet:
        _say(collection.notes)


@app.command()
@guarded
def encode(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Features to write: .npz, .parquet, .npy, or a folder.")],
    encoder: EncoderName = None,
    labels: Labels = None,
    truth: Truth = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    device: DeviceName = "auto",
    quiet: Quiet = False,
) -> None:
    """Turn images or texts into feature vectors. After an interruption the same command goes on where it was."""
    from rich.console import Console

    from newkinds.data import check_features_target, write_features
    from newkinds.terminal import progress_bars

    with progress_bars(Console(stderr=True), quiet):
        encoding = _encoding(encoder, device, cache, no_cache, workers, full_precision)
        options = {"labels": labels, "truth": truth, "text": text, "label": label}
        collection = _collect(source, encoding, functools.partial(check_features_target, out), **options)
        write_features(collection, out)
    if not quiet:
        _say(collection.notes)
        typer.echo(f"{len(collection):,} samples × {collection.features.shape[1]} features are in {out}.")


@app.command()
@guarded
def longtail(
    source: FeatureSource,
    imbalance: Annotated[float, typer.Option(help="Size of the largest class over that of the smallest.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Features to write: .npz, .parquet, or a folder.")],
    labels: Labels = None,
    truth: Annotated[
        str | None, typer.Option(help="True class of every sample, if the source has none: a file as for --labels.")
    ] = None,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Make a long-tailed version of a feature set: the sizes of its true classes fall exponentially."""
    from rich.console import Console

    from newkinds.data import FeatureSet, check_features_target, read_source, write_features
    from newkinds.data.long_tail import long_tailed
    from newkinds.data.sources import kind_of
    from newkinds.terminal import progress_bars

    if out.suffix.lower() == ".npy":
        raise InputError(f"{out}: an .npy file has no place for the truth; write an .npz, a .parquet or a folder")
    if out.resolve() in [Path(given).resolve() for given in (source, labels, truth) if given is not None]:
        raise InputError(f"{out} is what is read; choose another place")
    with progress_bars(Console(stderr=True), quiet):
        collection = None if kind_of(Path(source)) else read_source(source, labels=labels, truth=truth)
        if not isinstance(collection, FeatureSet):
            raise InputError(f"{source} is not a set of features; photos and texts become one by `newkinds encode`")
        made = long_tailed(collection, imbalance, seed=seed)
        check_features_target(out, made)
        write_features(made, out)
    if not quiet:
        _say(made.notes)
        typer.echo(
            f"{len(made):,} samples, {made.n_labelled:,} labelled of {made.n_known} known classes, are in {out}."
        )


@app.command()
@guarded
def finetune(
    source: Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="Encoder to make: a folder, to be used as --encoder.")],
    encoder: EncoderName = None,
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
        ClassifierName | None, typer.Option(help="Also learn to classify, as the method of that name does.")
    ] = None,
    n_categories: Annotated[
        int | None, typer.Option("--n-categories", "-k", help="Of the classifier: known and new together.", min=2)
    ] = None,
    accumulate: Annotated[int, typer.Option(help="Parts of a batch, where memory is short.", min=1)] = 1,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    seed: Seed = 0,
    device: DeviceName = "auto",
    quiet: Quiet = False,
) -> None:
    """Fit the last blocks of an encoder to a collection, with GCD's contrastive losses.

    After an interruption the same command goes on from the last epoch that was finished. Under torchrun several
    processes share every batch.
    """
    from rich.console import Console

    from newkinds.data import RawCollection, read_source
    from newkinds.encoders.finetune import Finetuning
    from newkinds.encoders.finetune import finetune as train
    from newkinds.runtime import processes, rank
    from newkinds.terminal import progress_bars

    if out.exists():
        raise InputError(f"{out} already exists; choose another place")
    chosen = number_or_name(blocks, int)
    settings = Finetuning(
        epochs=epochs,
        batch_size=batch_size,
        blocks=chosen if isinstance(chosen, int) else tuple(blocks.split(",")),
        learning_rate=learning_rate,
        head_learning_rate=head_learning_rate,
        accumulate=accumulate,
        classifier=None if classifier is None else classifier.value,
        n_categories=n_categories,
        half=False if full_precision else None,
        workers=workers,
        seed=seed,
    )
    collection = read_source(source, labels=labels, text=text, label=label)
    if not isinstance(collection, RawCollection):
        raise InputError(f"{source} holds features: an encoder is trained on images or texts")
    with processes(device) as own_device, progress_bars(Console(stderr=True), quiet or rank() > 0):
        losses = train(collection, encoder, out, settings, device=own_device)
    if not quiet and rank() == 0:
        typer.echo(f"The loss fell from {losses[0]:.3f} to {losses[-1]:.3f}. Use the encoder by --encoder {out}")


@app.command()
@guarded
def benchmark(
    name: Annotated[BenchmarkName, typer.Argument(help="Which table or figure.", show_choices=True)],
    features: Annotated[
        list[Path], typer.Option(help="A feature set with the truth, or a folder of such; may be given again.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for tables, figures and results.")] = Path(
        "newkinds-benchmark"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; tables show mean ± standard deviation.")] = 5,
    methods: Annotated[
        str | None, typer.Option(help="Rows of the tables, with commas between, such as pim,simgcd,sskm.")
    ] = None,
    imbalance: Annotated[
        float, typer.Option(help="Of the long-tailed versions of balanced sets in the figure of λ; 0: none.")
    ] = 50.0,
    workers: Annotated[
        int | None, typer.Option(help="Processes that compute; on a CPU one for each core, up to 8.", min=1)
    ] = None,
    device: DeviceName = "auto",
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
            name.value,
            features,
            out,
            n_seeds=seeds,
            methods=None if methods is None else [each.strip() for each in methods.split(",")],
            imbalance=imbalance,
            device=device,
            workers=workers,
            say=say,
        )
    typer.echo(f"Read {written}" if not quiet else str(written))


@app.command()
@guarded
def estimate(
    source: Source,
    labels: Labels = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    encoder: EncoderName = None,
    cache: Cache = None,
    no_cache: NoCache = False,
    workers: Workers = None,
    full_precision: FullPrecision = False,
    method: Annotated[SearchRule, typer.Option(help="What to cluster by.")] = SearchRule.rehearsal,
    bounds: Annotated[tuple[int, int] | None, typer.Option(help="Least and most categories.")] = None,
    seed: Seed = 0,
    device: DeviceName = "auto",
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how many categories there are, known and new."""
    from dataclasses import asdict
    from json import dumps

    from rich.console import Console

    from newkinds.methods import estimate_n_categories
    from newkinds.runs import check_partly_labelled
    from newkinds.terminal import progress_bars, show_estimate

    began = time.perf_counter()
    with progress_bars(Console(stderr=True), quiet):
        encoding = _encoding(encoder, device, cache, no_cache, workers, full_precision)
        collection = _collect(source, encoding, check_partly_labelled, labels=labels, text=text, label=label)
        found = estimate_n_categories(
            collection.features, collection.labels, method.value, bounds, device=device, random_state=seed
        )
    if json:
        typer.echo(dumps({**asdict(found), "seconds": round(time.perf_counter() - began, 3)}))
    elif quiet:
        typer.echo(found.n_categories)
    else:
        show_estimate(Console(), found, collection.n_known)


@app.command()
@guarded
def show(
    run: RunFolder,
    everything: Annotated[bool, typer.Option("--all", help="List every category.")] = False,
) -> None:
    """A summary of a run: categories, sizes, how λ and their number were chosen, warnings."""
    from rich.console import Console

    from newkinds.run_folder import read_run
    from newkinds.terminal import show_run

    show_run(Console(), read_run(run), everything=everything)


def number_or_name(text: str, kind: type[int] | type[float]) -> int | float | str:
    """An option that takes a number or the name of a rule; the estimator checks the name."""
    try:
        return kind(text)
    except ValueError:
        return text


def start(text: str) -> Any:
    """The --init option: a name, or prototypes from an .npy file."""
    if not text.endswith(".npy"):
        return text
    from newkinds.data import read_array

    return read_array(Path(text))


def main() -> None:
    """Entry point of the `newkinds` command."""

    def interrupt(*_: object) -> None:
        raise Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):  # so that a run that is ended clears up after itself
        signal.signal(number, interrupt)
    try:
        app()
    except Interrupted:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
