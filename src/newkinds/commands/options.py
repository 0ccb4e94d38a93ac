"""Arguments and options that commands share: their types, and what --help says of them."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from newkinds import METHOD_CLASSES
from newkinds.names import (
    AUTO,
    COUNT_RULES,
    FEATURE_SOURCES,
    INITS,
    LABEL_ENDINGS,
    LAM_RULES,
    METRICS,
    SOURCES,
    EffortName,
    listed,
)


def use_threads(n: int | None) -> None:
    """Let PyTorch, and what else computes, use so many threads; by default one for each core."""
    if n is None:
        return
    os.environ["OMP_NUM_THREADS"] = str(n)  # read when they are imported
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(n)


Source = Annotated[str, typer.Argument(help=f"The collection: {SOURCES}.")]
NewSource = Annotated[str, typer.Argument(help=f"New samples: - for lines on standard input, or {SOURCES}.")]
FeatureSource = Annotated[str, typer.Argument(help=f"Features: {FEATURE_SOURCES}.")]
TextColumn = Annotated[str | None, typer.Option("--text", help="Column of the texts in a table.")]
IdColumn = Annotated[
    str | None,
    typer.Option("--id", help="Column that names each sample; by default id, or one called like it (ticket, …)."),
]
UnlabelledNames = Annotated[
    list[str] | None,
    typer.Option(
        "--unlabelled", help="A label (or folder) that means unlabelled here; may be given several times."
    ),
]
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Take labels such as Unsorted, misc, N/A or ? as names of categories.")
]
MinConfidence = Annotated[
    float | None,
    typer.Option(help="Of --labels that are predictions, take those that are at least as sure.", min=0, max=1),
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of the labels in a table of texts.")]
EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder", help="For images or texts: a name (see `newkinds encoders`), a folder, or an .onnx file."
    ),
]
Resize = Annotated[
    str | None,
    typer.Option(
        help="Of images: length of the shorter side, or HEIGHTxWIDTH, before the crop; by default the encoder's."
    ),
]
Crop = Annotated[
    int | None, typer.Option(help="Of images: side of the square in the middle that the encoder sees.", min=1)
]
Cache = Annotated[
    Path | None, typer.Option(help="Where encoded samples are remembered; by default in the user's cache folder.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Neither look for encoded samples nor remember them.")]
Workers = Annotated[int | None, typer.Option(help="Processes that decode images.", min=0)]
FullPrecision = Annotated[
    bool, typer.Option("--full-precision", help="Encode in float32 on a GPU too, at half the speed.")
]
Reason = Annotated[str, typer.Option(help="Why; written down with it.")]
SampleIds = Annotated[list[str], typer.Argument(help="Ids of samples, as `newkinds export` has them.")]
RunFolder = Annotated[Path, typer.Argument(help="A folder made by `newkinds discover`.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        help=f"Labels, one a sample or with an id column ({listed(LABEL_ENDINGS)}); blank, -1: unlabelled."
    ),
]
Truth = Annotated[
    str | None,
    typer.Option(
        help="True labels, only for scoring All / Old / New: a file, a table's column, or `folders` of images."
    ),
]
if TYPE_CHECKING:
    MethodName = str
else:
    MethodName = Literal[*sorted(METHOD_CLASSES)]
MethodOption = Annotated[MethodName, typer.Option("--method", help="How to partition.")]
NCategories = Annotated[
    str, typer.Option(help=f"Known and new together: a number, {listed((AUTO, *COUNT_RULES))}.", metavar="K")
]
Lam = Annotated[
    str | None, typer.Option(help=f"Weight of confidence: a number, or {listed((AUTO, *LAM_RULES))} (PIM).")
]
Temperature = Annotated[str | None, typer.Option(help="Scale of the logits: a number, or auto or rehearsal (PIM).")]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", help=f"How samples are compared: {listed((AUTO, *METRICS))} (PIM)."),
]
EffortOption = Annotated[
    EffortName | None, typer.Option("--effort", help="A first look, the usual, or all that still gains (PIM).")
]
InitName = Annotated[
    str | None, typer.Option("--init", help=f"Start: {', '.join(INITS)}, or an .npy file of prototypes.")
]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Threads = Annotated[
    int | None,
    typer.Option(help="Threads to compute with; by default one for each core.", min=1, callback=use_threads),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and results asked for.")]
Checkpoint = Annotated[
    float,
    typer.Option(
        help="Seconds between saved states of long work, beside the run folder; after an interruption the same "
        "command goes on from there. 0: never."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier run at the same place.")]
ForceFile = Annotated[bool, typer.Option("--force", help="Replace what an earlier command wrote there.")]
NoMap = Annotated[bool, typer.Option("--no-map", help="Without the map of all samples, which takes some seconds.")]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
OnlyNew = Annotated[bool, typer.Option("--only-new", help="Only samples of new kinds.")]


def number_or_name(text: str, kind: type[int] | type[float]) -> int | float | str:
    """An option that takes a number or the name of a rule; the estimator checks the name."""
    try:
        return kind(text)
    except ValueError:
        return text
