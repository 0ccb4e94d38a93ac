"""Arguments and options that commands share: their types, and what --help says of them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Method(StrEnum):
    pim = "pim"
    rim = "rim"
    tim = "tim"
    sskm = "sskm"
    kmeans = "kmeans"
    simgcd = "simgcd"
    uno = "uno"
    orca = "orca"
    rankstats = "rankstats"


class BenchmarkName(StrEnum):
    datasets = "datasets"
    main = "main"
    estimate_k = "estimate-k"
    estimated_k = "estimated-k"
    ablation = "ablation"
    init = "init"
    lambda_ = "lambda"
    all = "all"


class ClassifierName(StrEnum):
    simgcd = "simgcd"
    uno = "uno"


class RecipeName(StrEnum):
    newkinds = "newkinds"
    paper = "paper"
    release = "release"


class SolverOption(StrEnum):
    lbfgs = "lbfgs"
    adam = "adam"


class SearchRule(StrEnum):
    rehearsal = "rehearsal"
    max_acc_pim = "max-acc-pim"
    max_acc_kmeans = "max-acc-kmeans"


class OutputFormat(StrEnum):
    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"


Source = Annotated[
    str,
    typer.Argument(
        help="Features (a folder with all_feats.npy …, an .npz, .npy or .parquet file), a folder of images, "
        "a table of texts (.csv, .tsv, .jsonl, .parquet), or NAME:FOLDER, a published set (cub:downloads)."
    ),
]
FeatureSource = Annotated[
    str, typer.Argument(help="Features (a folder with all_feats.npy …, an .npz, .npy or .parquet file).")
]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of the texts in a table.")]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of the labels in a table of texts.")]
EncoderName = Annotated[
    str | None,
    typer.Option("--encoder", help="For images or texts: a model on huggingface.co, a folder, or an .onnx file."),
]
Cache = Annotated[
    Path | None, typer.Option(help="Where encoded samples are remembered; by default in the user's cache folder.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither look for encoded samples nor remember them.")]
Workers = Annotated[int | None, typer.Option(help="Processes that decode images.", min=0)]
FullPrecision = Annotated[
    bool, typer.Option("--full-precision", help="Encode in float32 on a GPU too, at half the speed.")
]
RunFolder = Annotated[Path, typer.Argument(help="A folder made by `newkinds discover`.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Labels, one a sample or with an id column (.npy, .txt, .csv, .tsv, .parquet); blank, -1: unlabelled."
    ),
]
Truth = Annotated[
    str | None,
    typer.Option(
        help="True labels, only for scoring All / Old / New: a file, a table's column, or `folders` of images."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
DeviceName = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and results asked for.")]
Checkpoint = Annotated[
    float,
    typer.Option(
        help="Seconds between saved states of long work, beside the run folder; after an interruption the same "
        "command goes on from there. 0: never."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier run at the same place.")]
