"""A path, and what it holds: feature vectors, photos, texts, or one of the published data sets."""

from pathlib import Path

from newkinds.data.feature_set import FeatureSet
from newkinds.data.files import UNREADABLE
from newkinds.data.images import read_images
from newkinds.data.published import read_published
from newkinds.data.raw import RawCollection
from newkinds.data.reading import read_features
from newkinds.data.tables import PANDAS_INDEX
from newkinds.data.texts import read_texts
from newkinds.errors import InputError
from newkinds.names import FEATURE_ENDINGS, RELEASED_FILES, TABLE_ENDINGS, Kind

OTHER_COLUMNS = ("id", "label", "truth")
TEXT_ENDINGS = tuple(ending for ending in TABLE_ENDINGS if ending not in FEATURE_ENDINGS)
"""Tables that hold texts and never features."""
SOURCES = "a file or folder of features, a folder of images, a table of texts, or NAME:FOLDER, a published set"
MOST_NUMBERS = 8
"""Columns of numbers that a table of texts may have; with more, it holds features, each with a text to show."""


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
        - texts: a table (.csv, .jsonl, .txt, …: one of the `newkinds.names.TABLE_ENDINGS`; a .parquet file needs a
          column of texts), see `newkinds.data.texts.read_texts`;
        - `NAME:FOLDER`, one of the published data sets in its official layout: `cub:downloads`, see
          `newkinds.data.published.read_published`.
    labels : path, optional
        File of labels that takes the place of those in the source.
    truth : str, optional
        File of true labels, for scoring; for texts also the name of a column, for images also "folders".
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
    """Whether a path holds images or texts; None if it holds features, or if there is nothing."""
    if path.is_dir():
        return None if any((path / name).is_file() for name in RELEASED_FILES) else "images"
    suffix = path.suffix.lower()
    if suffix == ".parquet" and path.is_file():
        return "texts" if text is not None or not _has_features(path) else None
    return "texts" if suffix in TEXT_ENDINGS else None


def _has_features(path: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = {field.name: field.type for field in pq.read_schema(path)}
    except UNREADABLE:
        return True  # reading it will say what is wrong
    if "features" in columns:
        return True
    n_numbers, has_texts = 0, False
    for name, column_type in columns.items():
        if name not in OTHER_COLUMNS and not name.startswith(PANDAS_INDEX):
            n_numbers += int(pa.types.is_floating(column_type) or pa.types.is_integer(column_type))
            has_texts |= bool(pa.types.is_string(column_type) or pa.types.is_large_string(column_type))
    return n_numbers > (MOST_NUMBERS if has_texts else 0)


def _refuse(source: str, what: str, **options: object) -> None:
    """Say which options make no sense for a source."""
    if unusable := [f"--{name}" for name, value in options.items() if value is not None]:
        raise InputError(f"{source} is {what}: {', '.join(unusable)} cannot be used with it")
