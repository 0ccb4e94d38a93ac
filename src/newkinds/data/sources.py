"""A path, and what is there: feature vectors, photos, texts, or one of the published data sets."""

from pathlib import Path

from newkinds.data.feature_set import FeatureSet
from newkinds.data.images import read_images
from newkinds.data.published import read_published
from newkinds.data.raw import Kind, RawCollection
from newkinds.data.reading import RELEASED_FILES, read_features
from newkinds.data.tables import PANDAS_INDEX
from newkinds.data.texts import read_texts
from newkinds.errors import InputError

OTHER_COLUMNS = ("id", "label", "truth")
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")
SOURCES = "a file or folder of features, a folder of images, a table of texts, or NAME:FOLDER, a published set"
MOST_NUMBERS = 8
"""Columns of numbers that a table of texts may have; with more, it is features with a text to show of each."""


def read_source(
    source: str,
    *,
    labels: Path | None = None,
    truth: str | None = None,
    text: str | None = None,
    label: str | None = None,
) -> FeatureSet | RawCollection:
    """Read a collection, whatever it is.

    Parameters
    ----------
    source : str
        - features: see `read_features`;
        - images: a folder, see `newkinds.data.images.read_images`;
        - texts: a .csv, .tsv, .jsonl or .txt file, or a .parquet file with a column of texts, see
          `newkinds.data.texts.read_texts`;
        - `NAME:FOLDER`, one of the published data sets in its official layout: `cub:downloads`, see
          `newkinds.data.published.read_published`.
    labels : path, optional
        File of labels that takes the place of those in the source.
    truth : str, optional
        File of true labels, for scoring; of texts also the name of a column, of images also "folders".
    text, label : str, optional
        Columns of a table of texts.
    """
    name, colon, rest = source.partition(":")
    if colon and len(name) > 1 and not Path(source).exists():
        _refuse(source, "a published data set", labels=labels, truth=truth, text=text, label=label)
        return read_published(name, rest)
    path = Path(source)
    if not path.exists():
        raise InputError(f"{source} does not exist; a source is {SOURCES}")
    kind = kind_of(path, text if label is None else text or "")
    if kind == "texts":
        return read_texts(path, text=text, label=label, labels=labels, truth=truth)
    if kind == "images":
        _refuse(source, "a folder of images", text=text, label=label)
        return read_images(path, labels=labels, truth=truth)
    _refuse(source, "a set of features", text=text, label=label)
    return read_features(path, labels=labels, truth=truth)


def kind_of(path: Path, text: str | None = None) -> Kind | None:
    """Whether a path holds images or texts; None for features, and for what is not there."""
    if path.is_dir():
        return None if any((path / name).is_file() for name in RELEASED_FILES) else "images"
    suffix = path.suffix.lower()
    if suffix == ".parquet" and path.is_file():
        return "texts" if text is not None or not _has_features(path) else None
    return "texts" if suffix in TEXT_SUFFIXES else None


def _has_features(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (OSError, ValueError):
        return True  # reading it will say what is wrong
    own = [field for field in schema if field.name not in OTHER_COLUMNS and not field.name.startswith(PANDAS_INDEX)]
    if any(field.name == "features" for field in own):
        return True
    numbers = [field for field in own if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)]
    texts = [field for field in own if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    return len(numbers) > MOST_NUMBERS if texts else bool(numbers)


def _refuse(source: str, what: str, **options: object) -> None:
    """Say which options make no sense for a source."""
    if given := [f"--{name}" for name, value in options.items() if value is not None]:
        raise InputError(f"{source} is {what}: {', '.join(given)} cannot be used with it")
