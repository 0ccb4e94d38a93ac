"""A path or an address, and what it holds: feature vectors, photos, texts, or one of the published data sets."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from newkinds.data.feature_set import FeatureSet
from newkinds.data.files import is_columnar, is_saved_dataset
from newkinds.data.images import read_images
from newkinds.data.labelling import USUAL, LabelRules
from newkinds.data.published import read_published
from newkinds.data.raw import RawCollection
from newkinds.data.reading import read_features
from newkinds.data.texts import image_column, read_image_table, read_texts
from newkinds.errors import InputError
from newkinds.names import (
    FEATURE_ENDINGS,
    IMAGE_ENDINGS,
    RELEASED_FILES,
    SOURCES,
    TABLE_ENDINGS,
    Kind,
    ending,
    is_remote,
)
from newkinds.run_record import PREDICTIONS_TABLE, RUN_FILE
from newkinds.wording import option

TEXT_ENDINGS = tuple(ending for ending in TABLE_ENDINGS if ending not in FEATURE_ENDINGS)
"""Tables that hold texts and never features."""


def read_source(
    source: str,
    *,
    labels: Path | None = None,
    truth: str | None = None,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    rules: LabelRules = USUAL,
) -> FeatureSet | RawCollection:
    """Read a collection, whatever it is.

    Parameters
    ----------
    source : str
        - features: see `read_features`;
        - images: a folder or a single image, see `newkinds.data.images.read_images`;
        - texts: a table (.csv, .xlsx, .jsonl, .txt, …: one of the `newkinds.names.TABLE_ENDINGS`; Parquet needs a
          column of texts), see `newkinds.data.texts.read_texts`;
        - a folder that Hugging Face's `datasets` saved, of any of these;
        - `NAME:FOLDER`, one of the published data sets in its official layout: `cub:downloads`, see
          `newkinds.data.published.read_published`;
        - an address: `file://…` of any of these, `s3://…` and others that pyarrow knows of Parquet with features.
    labels : path, optional
        File of labels that takes the place of those in the source.
    truth : str, optional
        File of true labels, for scoring; for texts also the name of a column, for images also "folders".
    text, label, id : str, optional
        Columns of a table.
    rules : LabelRules
        How labels are taken: which names mean that there is none.
    """
    place = place_of(source)
    if isinstance(place, str):
        _refuse(source, "a remote set of features", text=text, label=label)
        return read_features(place, labels=labels, truth=truth, id=id, rules=rules)
    source = str(place) if is_remote(source) else source
    name, colon, rest = source.partition(":")
    if colon and len(name) > 1 and not Path(source).exists():
        _refuse(source, "a published data set", labels=labels, truth=truth, text=text, label=label, id=id)
        return read_published(name, rest)
    path = Path(source)
    if not path.exists():
        raise InputError(f"{source} does not exist; a source is {SOURCES}")
    kind = kind_of(path, text if label is None else text or "")
    if kind == "texts":
        return read_texts(path, text=text, label=label, id=id, labels=labels, truth=truth, rules=rules)
    if kind == "images":
        if is_columnar(path):
            return read_image_table(path, label=label, id=id, labels=labels, truth=truth, rules=rules)
        _refuse(source, "a folder of images", text=text, label=label, id=id)
        return read_images(path, labels=labels, truth=truth, rules=rules)
    _refuse(source, "a set of features", text=text, label=label)
    return read_features(path, labels=labels, truth=truth, id=id, rules=rules)


def place_of(source: str) -> Path | str:
    """The path that a source means, also by a `file://` address; other addresses stay what they are."""
    if not is_remote(source):
        return Path(source)
    parts = urlsplit(source)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else source


def kind_of(path: Path, text: str | None = None) -> Kind | None:
    """Whether a path holds images or texts; None if it holds features, or if there is nothing."""
    if path.is_dir() and (path / RUN_FILE).is_file() and (path / PREDICTIONS_TABLE).is_file():
        raise InputError(f"{path} is a run folder, which has no new samples; give a collection: {SOURCES}")
    if path.is_dir() and any((path / name).is_file() for name in RELEASED_FILES):
        return None
    if is_columnar(path):
        return _columnar_kind(path, text)
    if path.is_dir() or path.suffix.lower() in IMAGE_ENDINGS:
        return "images"
    if ending(path) in TEXT_ENDINGS:
        return "texts"
    if path.suffix.lower() in FEATURE_ENDINGS:
        return None
    if not path.exists():
        return None
    what = f"a {path.suffix} file" if path.suffix else "a file without an ending"
    raise InputError(f"{path} is {what}, which is not read; a source is {SOURCES}")


def _columnar_kind(path: Path, text: str | None) -> Kind | None:
    from newkinds.data.parquet import ParquetFiles

    if text:
        return "texts"
    try:
        files = ParquetFiles.open(path)
    except InputError:
        if is_saved_dataset(path):
            raise
        return None  # reading it will say what is wrong
    if (
        image_column({field.name: field for field in files.schema}) is not None
        and "features" not in files.schema.names
    ):
        return "images"
    return "texts" if text is not None or not files.has_features else None


def _refuse(source: str, what: str, **options: object) -> None:
    """Say which options make no sense for a source."""
    if unusable := [option(name, f"--{name}") for name, value in options.items() if value is not None]:
        raise InputError(f"{source} is {what}: {', '.join(unusable)} cannot be used with it")
