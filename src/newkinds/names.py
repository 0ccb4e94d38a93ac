"""Every list of names and of file endings, once.

No PyTorch, no NumPy: the command line offers these names before anything heavy is imported. Where a name stands for
code, one table elsewhere maps it to that code, and its type makes sure that nothing else is in the table:

==================== ==================================================
here                 the table
==================== ==================================================
`LamRule`            `newkinds.selection.rules.LAM_RULES`
`CountRule`          `newkinds.selection.n_categories.COUNT_RULES`
`RecipeName`         `newkinds.selection.recipes.RECIPES`
`EffortName`         `newkinds.selection.efforts.EFFORTS`
`TABLE_ENDINGS`      `newkinds.data.tables.READERS`
`FEATURE_ENDINGS`    `newkinds.data.reading.READERS`
`PredictionFormat`   `newkinds.predictions.WRITERS`
`Transfer`           `newkinds.sorting.TRANSFERS`
`BenchmarkName`      `newkinds.benchmark.reports.REPORTS`
==================== ==================================================

The methods are listed where the package lists all that is public: in `newkinds/__init__.pyi`.
"""

from pathlib import PurePath
from typing import Literal, get_args

DeviceName = Literal["auto", "cpu", "cuda", "mps"]
SolverName = Literal["lbfgs", "adam"]
Seeding = Literal["greedy", "d2", "random"]
Inertia = Literal["squared", "nearest"]
Geometry = Literal["linear", "euclidean"]
Init = Literal["sskm", "sskm++", "ssrandom"]
RecipeName = Literal["newkinds", "paper", "release"]
LamRule = Literal["rehearsal", "labelled", "cautious"]
MetricName = Literal["cosine", "within", "self"]
EffortName = Literal["quick", "normal", "thorough"]
CountRule = Literal["rehearsal", "max-acc-kmeans", "max-acc-pim", "silhouette"]
Classifier = Literal["simgcd", "uno"]
"""Methods whose classification loss can train an encoder."""
Kind = Literal["images", "texts"]
"""What an encoder takes."""
ENCODER_KEYS = ("name", "kind", "fingerprint")
"""What the record of an encoder needs, in run folders and files of features."""
PredictionFormat = Literal["csv", "jsonl", "parquet", "xlsx"]
Transfer = Literal["copy", "link", "move"]
"""How photos get into the folders of their categories."""
BenchmarkName = Literal[
    "datasets", "main", "estimate-k", "estimated-k", "ablation", "init", "lambda", "living", "all"
]
Mix = Literal["even", "mostly-old"]
"""What comes later in `newkinds benchmark living`: all other classes, or few of them."""

SOLVERS: tuple[SolverName, ...] = get_args(SolverName)
SEEDINGS: tuple[Seeding, ...] = get_args(Seeding)
INITS: tuple[Init, ...] = get_args(Init)
LAM_RULES: tuple[LamRule, ...] = get_args(LamRule)
METRICS: tuple[MetricName, ...] = get_args(MetricName)
EFFORTS: tuple[EffortName, ...] = get_args(EffortName)
COUNT_RULES: tuple[CountRule, ...] = get_args(CountRule)
MIXES: tuple[Mix, ...] = get_args(Mix)
PREDICTION_FORMATS: tuple[PredictionFormat, ...] = get_args(PredictionFormat)

MEANINGS = {
    "confidence": "how probable it is that a sample belongs to its kind",
    "novelty": "how probable it is that a sample belongs to a kind without any label",
}
"""Columns of predictions that need a word, wherever they are shown."""
UNSURE = 0.5
"""A sample with less confidence than this is called unsure: it more probably belongs to another kind."""

AUTO = "auto"
"""The recipe's own choice, wherever a rule can be named."""

TABLE_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".txt", ".xlsx")
PACKED_ENDINGS = (".gz", ".zst")
"""What may follow the ending of a table that is plain text: `tickets.csv.gz`."""
PACKABLE_ENDINGS = tuple(name for name in TABLE_ENDINGS if name not in (".parquet", ".xlsx"))
IMAGE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".avif", ".heic", ".heif", ".hif", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm"),
)
PANDAS_INDEX = "__index_level_"
"""Columns of Parquet in which pandas keeps the names of rows begin like this."""
FEATURE_ENDINGS = (".npz", ".npy", ".parquet")
LABEL_ENDINGS = (".npy", *TABLE_ENDINGS)
RELEASED_FILES = ("all_feats.npy", "targets.npy", "mask_lab.npy", "mask_cls.npy")
"""A folder in the layout of the authors' release."""


def ending(path: PurePath) -> str:
    """The ending that says what a file holds, in lower case; a packed table's is the one before.

    Examples
    --------
    >>> ending(PurePath("tickets.CSV")), ending(PurePath("tickets.csv.gz")), ending(PurePath("photos.tar.gz"))
    ('.csv', '.csv', '.gz')
    """
    *_, inner, outer = ("", "", *(suffix.lower() for suffix in path.suffixes))
    return inner if outer in PACKED_ENDINGS and inner in PACKABLE_ENDINGS else outer


def is_remote(source: str) -> bool:
    """Whether a source is an address such as `s3://bucket/features.parquet`, not a path."""
    scheme, mark, _ = source.partition("://")
    return bool(mark) and len(scheme) > 1 and scheme.isalnum()


def listed(names: tuple[str, ...], last: str = "or") -> str:
    """Names as a sentence has them.

    Examples
    --------
    >>> listed((".csv", ".tsv", ".txt"))
    '.csv, .tsv or .txt'
    """
    *first, final = names
    return f"{', '.join(first)} {last} {final}" if first else final


FEATURE_SOURCES = (
    f"a {listed(FEATURE_ENDINGS)} file, a folder of .parquet files, one in the released layout, or s3://… and the "
    "like, of Parquet"
)
"""What features are read from, in words for errors and --help."""
SOURCES = (
    f"a folder of images, or one image ({IMAGE_ENDINGS[0]}, {IMAGE_ENDINGS[4]}, .heic, …); a table of texts "
    f"({listed(TABLE_ENDINGS)}; plain text also packed, .csv.gz or .jsonl.zst) or of images (.parquet); features "
    f"({FEATURE_SOURCES}); a folder that Hugging Face's datasets saved; or NAME:FOLDER, a published set "
    "(cub:downloads)"
)
"""What collections are read from."""
