"""Reading feature sets: released four-file folders, .npz, .npy (memory-mapped), Parquet, and files of labels.

Nothing is unpickled: an array of Python objects is refused.
"""

import csv
import json
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet, check_shape
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, encode_labels

UNREADABLE = (
    ValueError,
    EOFError,
    OSError,
    KeyError,
    NotImplementedError,
    MemoryError,  # a header that claims more than there is
    OverflowError,
    SyntaxError,  # numpy reads a header as a Python literal
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
)
"""What numpy, pyarrow and the standard library raise over damaged files."""
NPY_MAGIC = b"\x93NUMPY"
ENCODER_METADATA = "newkinds.encoder"
"""Where a Parquet file says what made its features."""
PANDAS_INDEX = "__index_level_"
RELEASED_FILES = ("all_feats.npy", "targets.npy", "mask_lab.npy", "mask_cls.npy")
NUMERIC_TYPES = (
    "halffloat",
    "float",
    "double",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
SOURCES = "a folder with all_feats.npy, an .npz, an .npy or a .parquet file"


def read_features(
    source: str | Path, *, labels: str | Path | None = None, truth: str | Path | None = None
) -> FeatureSet:
    """Read a feature set.

    Parameters
    ----------
    source : path
        - a folder in the layout of the authors' release: `all_feats.npy`, `targets.npy`, `mask_lab.npy`
          (True = labelled) and `mask_cls.npy` (True = sample of a known class);
        - `.npz` with `features` and optionally `labels`, `truth`, `ids`, `texts`, `images`;
        - `.npy`, memory-mapped, with the labels in a file of their own;
        - `.parquet` with a list column `features` or one numeric column a feature, and optionally `label`,
          `truth`, `id`, `text`.
    labels, truth : path, optional
        File of labels (`.npy`, `.txt`, `.csv`, `.parquet`) that takes the place of those in the source: one a
        sample, or an `id` column and a `label` column. Integers or names; blank, missing or -1 = unlabelled.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/birds.npz", features=np.eye(3), labels=np.array(["robin", "", "wren"]))
    ...     birds = read_features(f"{folder}/birds.npz")
    >>> birds.labels, birds.names
    (array([ 0, -1,  1]), ('robin', 'wren'))
    """
    path = Path(source)
    raw = _read_raw(path)
    with _blaming(path):
        check_shape(raw["features"])
    ids = raw.get("ids")
    if labels is not None:
        raw["labels"] = read_labels(labels, len(raw["features"]), ids)
    if truth is not None:
        raw["truth"] = read_labels(truth, len(raw["features"]), ids)
    encoded, names, encoded_truth = _encode(raw, Path(labels or path), Path(truth or path))
    with _blaming(path):
        return FeatureSet(
            features=raw["features"],
            labels=encoded,
            truth=encoded_truth,
            names=names,
            ids=None if ids is None else tuple(map(str, ids)),
            columns=raw.get("columns"),
            texts=None if raw.get("texts") is None else tuple("" if t is None else str(t) for t in raw["texts"]),
            images=raw.get("images"),
            encoder=_encoder_record(raw.get("encoder"), path),
        )


def read_labels(path: str | Path, n_samples: int, ids: Sequence[Any] | None = None) -> list[Any]:
    """One raw label a sample from a file of labels; see `read_features`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        labels = read_array(path)
        if labels.ndim != 1:
            raise InputError(f"{path}: labels must be one-dimensional, one a sample; got shape {labels.shape}")
        columns = {"label": list(labels)}
    elif suffix == ".parquet":
        columns = {name: column.to_pylist() for name, column in _parquet_columns(path).items()}
    elif suffix in {".csv", ".tsv"}:
        columns = _csv_columns(path, "\t" if suffix == ".tsv" else ",")
    elif suffix == ".txt":
        columns = {"label": _guard(path, "a text file", lambda: path.read_text("utf-8").splitlines())}
    else:
        raise InputError(f"{path}: labels are read from .npy, .txt, .csv, .tsv or .parquet files")
    if "label" not in columns:
        if len(columns) != 1:
            raise InputError(f"{path}: a column named 'label' is needed; found {', '.join(columns) or 'none'}")
        columns = {"label": next(iter(columns.values()))}
    if "id" not in columns:
        if len(columns["label"]) != n_samples:
            raise InputError(
                f"{path} has {len(columns['label'])} labels for {n_samples} samples; give one a sample, "
                "or add an 'id' column"
            )
        return list(columns["label"])
    return _by_id(path, [str(name) for name in columns["id"]], columns["label"], n_samples, ids)


def _by_id(path: Path, names: list[str], labels: list[Any], n_samples: int, ids: Sequence[Any] | None) -> list[Any]:
    """Put labels that come with ids in the order of the samples."""
    own = [str(name) for name in (range(n_samples) if ids is None else ids)]
    for where, called in ((str(path), names), ("the features", own)):
        if double := next((name for name, count in Counter(called).items() if count > 1), None):
            raise InputError(f"{path} gives labels by id, but the id {double!r} occurs more than once in {where}")
    row_of = {name: row for row, name in enumerate(own)}
    result: list[Any] = [None] * n_samples
    for name, label in zip(names, labels, strict=True):
        row = row_of.get(name)
        if row is None:
            raise InputError(
                f"{path}: id {name!r} is not in the features (ids there: {', '.join([*row_of][:3])}, …)"
            )
        result[row] = label
    return result


@contextmanager
def _blaming(path: Path) -> Iterator[None]:
    """Put the file's name before an error about what is in it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _encode(
    raw: dict[str, Any], labels_file: Path, truth_file: Path
) -> tuple[IntArray, tuple[str, ...] | None, IntArray | None]:
    """Labels and truth as integers that agree with each other: names known from labels come first."""
    n = len(raw["features"])
    if raw.get("labels") is None:
        labels, names = np.full(n, UNLABELLED), None
    else:
        with _blaming(labels_file):
            labels, names = encode_labels(raw["labels"])
    if raw.get("truth") is None:
        return labels, names, None
    with _blaming(truth_file):
        truth, truth_names = encode_labels(raw["truth"], names or ())
        if names is None and truth_names is not None and (labels != UNLABELLED).any():
            raise InputError("labels are integers but the truth has names; give both in the same form")
    return labels, truth_names, truth


def _read_raw(path: Path) -> dict[str, Any]:
    if path.is_dir():
        return _read_released(path)
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        ".npz": _read_npz,
        ".npy": lambda file: {"features": read_array(file, memory_map=True)},
        ".parquet": _read_parquet,
    }
    if not path.exists():
        raise InputError(f"{path} does not exist; features are read from {SOURCES}")
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: features are read from {SOURCES}")
    return reader(path)


def _read_released(folder: Path) -> dict[str, Any]:
    if missing := [name for name in RELEASED_FILES if not (folder / name).is_file()]:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}; a folder of features has {', '.join(RELEASED_FILES)}"
        )
    features = read_array(folder / RELEASED_FILES[0], memory_map=True)
    with _blaming(folder / RELEASED_FILES[0]):
        check_shape(features)
    targets, is_labelled, is_known = (read_array(folder / name) for name in RELEASED_FILES[1:])
    for name, values in zip(RELEASED_FILES[1:], (targets, is_labelled, is_known), strict=True):
        if values.shape != (len(features),):
            raise InputError(
                f"{folder / name} must hold one entry for each of {len(features)} samples; got shape {values.shape}"
            )
    is_labelled, is_known = is_labelled.astype(bool), is_known.astype(bool)
    if (is_labelled & ~is_known).any():
        raise InputError(f"{folder}: mask_lab marks samples as labelled that mask_cls says are of no known class")
    with _blaming(folder / "targets.npy"):
        truth, _ = encode_labels(targets.tolist())
    if (truth[is_labelled] == UNLABELLED).any():
        raise InputError(f"{folder}: mask_lab marks a sample as labelled for which targets has no class")
    if np.intersect1d(truth[is_known], truth[~is_known]).size:
        raise InputError(f"{folder}: mask_cls calls some samples of a class known and others not")
    return {"features": features, "labels": np.where(is_labelled, truth, UNLABELLED), "truth": truth}


def _read_npz(path: Path) -> dict[str, Any]:
    def load() -> dict[str, Any]:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a zip archive")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    arrays: dict[str, Any] = _guard(path, "an .npz archive", load)
    if "features" not in arrays:
        raise InputError(f"{path}: an array named 'features' is needed; found {', '.join(arrays) or 'none'}")
    return arrays


def read_array(path: Path, *, memory_map: bool = False) -> npt.NDArray[Any]:
    """An array from an .npy file; never a pickle."""

    def load() -> npt.NDArray[Any]:
        with path.open("rb") as file:
            if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
                raise ValueError("it does not begin like one")
        loaded: npt.NDArray[Any] = np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
        return loaded

    array: npt.NDArray[Any] = _guard(path, "an .npy file", load)
    return array


def _parquet_columns(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq  # here, not above: arrays and folders are read without waiting for it

    table = _guard(path, "a Parquet file", lambda: pq.read_table(path))
    return dict(zip(table.column_names, table.columns, strict=True))


def _parquet_metadata(path: Path, key: str) -> str | None:
    import pyarrow.parquet as pq

    found = (pq.read_schema(path).metadata or {}).get(key.encode())
    return None if found is None else found.decode("utf-8", "replace")


def _encoder_record(written: Any, path: Path) -> dict[str, Any] | None:
    """What a file of features says of the encoder that made them."""
    if written is None:
        return None
    try:
        record = json.loads(str(written))
    except ValueError as error:
        raise InputError(f"{path}: what it says of its encoder is damaged: {error}") from error
    if not isinstance(record, dict) or not {"name", "kind", "fingerprint"} <= set(record):
        raise InputError(f"{path}: what it says of its encoder must have a name, a kind and a fingerprint")
    return record


def _read_parquet(path: Path) -> dict[str, Any]:
    columns = _parquet_columns(path)
    extra = {"id": "ids", "label": "labels", "truth": "truth", "text": "texts"}
    raw: dict[str, Any] = {field: columns.pop(name).to_pylist() for name, field in extra.items() if name in columns}
    raw["encoder"] = _parquet_metadata(path, ENCODER_METADATA)
    if "features" in columns:
        column = columns["features"].combine_chunks()
        if not hasattr(column, "value_lengths") or str(column.type.value_type) not in NUMERIC_TYPES:
            raise InputError(f"{path}: 'features' must be a column of lists of numbers; it is {column.type}")
        lengths = np.unique([-1 if row is None else row for row in column.value_lengths().to_pylist()])
        if len(lengths) != 1 or lengths[0] < 1:
            raise InputError(f"{path}: every row of 'features' must be a list of the same length")
        raw["features"] = _numbers(path, "features", column.flatten()).reshape(-1, lengths[0])
        return raw
    if confused := [field for field in extra.values() if field in columns and field not in extra]:
        raise InputError(f"{path}: is the column {confused[0]!r} a feature? Call it by its singular if it is not")
    numeric = {
        name: column
        for name, column in columns.items()
        if str(column.type) in NUMERIC_TYPES and not name.startswith(PANDAS_INDEX)
    }
    if not numeric:
        raise InputError(f"{path}: a column 'features' or numeric columns are needed; found {', '.join(columns)}")
    raw["features"] = np.column_stack([_numbers(path, name, column) for name, column in numeric.items()])
    raw["columns"] = tuple(numeric)
    return raw


def _numbers(path: Path, name: str, column: Any) -> npt.NDArray[np.float32]:
    if column.null_count:
        raise InputError(f"{path}: column {name!r} has missing values; features must be finite")
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused in words later
        return np.asarray(column).astype(np.float32)


def _csv_columns(path: Path, delimiter: str) -> dict[str, list[Any]]:
    def load() -> list[list[str]]:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.reader(file, delimiter=delimiter))

    rows = _guard(path, "a CSV file", load)
    if not rows:
        raise InputError(f"{path} is empty")
    header, body = rows[0], [row or [""] for row in rows[1:]]  # csv gives [] for a blank line: a blank label
    if any(len(row) != len(header) for row in body):
        bad = next(i for i, row in enumerate(body) if len(row) != len(header))
        raise InputError(f"{path}: line {bad + 2} has {len(body[bad])} fields where the header has {len(header)}")
    return {name.strip(): [row[i] for row in body] for i, name in enumerate(header)}


def _guard(path: Path, kind: str, load: Callable[[], Any]) -> Any:
    """Run `load`, turning every way a file can be bad into one clear error."""
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path} is empty")
    try:
        return load()
    except UNREADABLE as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            raise InputError(
                f"{path} holds pickled Python objects, which are never loaded: they could run any code; "
                "save plain numbers or text"
            ) from error
        raise InputError(f"{path} cannot be read as {kind}: {error}") from error
