"""Reading feature sets: released four-file folders, .npz, .npy (memory-mapped), Parquet, and files of labels.

Nothing is unpickled: an array of Python objects is refused.
"""

import csv
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, encode_labels

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
    ids = raw.get("ids")
    if labels is not None:
        raw["labels"] = read_labels(labels, len(raw["features"]), ids)
    if truth is not None:
        raw["truth"] = read_labels(truth, len(raw["features"]), ids)
    encoded, names, encoded_truth = _encode(raw)
    try:
        return FeatureSet(
            features=raw["features"],
            labels=encoded,
            truth=encoded_truth,
            names=names,
            ids=None if ids is None else tuple(map(str, ids)),
            texts=None if raw.get("texts") is None else tuple(map(str, raw["texts"])),
            images=raw.get("images"),
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_labels(path: str | Path, n_samples: int, ids: Sequence[Any] | None = None) -> list[Any]:
    """One raw label a sample from a file of labels; see `read_features`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        columns = {"label": list(read_array(path))}
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
    row_of = {str(name): row for row, name in enumerate(range(n_samples) if ids is None else ids)}
    result: list[Any] = [None] * n_samples
    for name, label in zip(columns["id"], columns["label"], strict=True):
        row = row_of.get(str(name))
        if row is None:
            raise InputError(
                f"{path}: id {name!r} is not in the features (ids there: {', '.join([*row_of][:3])}, …)"
            )
        result[row] = label
    return result


def _encode(raw: dict[str, Any]) -> tuple[IntArray, tuple[str, ...] | None, IntArray | None]:
    """Labels and truth as integers that agree with each other: names known from labels come first."""
    n = len(raw["features"])
    if raw.get("labels") is None:
        labels, names = np.full(n, UNLABELLED), None
    else:
        labels, names = encode_labels(raw["labels"])
    if raw.get("truth") is None:
        return labels, names, None
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
    targets, is_labelled, is_known = (read_array(folder / name) for name in RELEASED_FILES[1:])
    for name, values in zip(RELEASED_FILES[1:], (targets, is_labelled, is_known), strict=True):
        if values.shape != (len(features),):
            raise InputError(
                f"{folder / name} must hold one entry for each of {len(features)} samples; got shape {values.shape}"
            )
    is_labelled, is_known = is_labelled.astype(bool), is_known.astype(bool)
    if (is_labelled & ~is_known).any():
        raise InputError(f"{folder}: mask_lab marks samples as labelled that mask_cls says are of no known class")
    truth, _ = encode_labels(targets.tolist())
    if np.intersect1d(truth[is_known], truth[~is_known]).size:
        raise InputError(f"{folder}: mask_cls calls some samples of a class known and others not")
    return {"features": features, "labels": np.where(is_labelled, truth, UNLABELLED), "truth": truth}


def _read_npz(path: Path) -> dict[str, Any]:
    def load() -> dict[str, Any]:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    arrays: dict[str, Any] = _guard(path, "an .npz archive", load)
    if "features" not in arrays:
        raise InputError(f"{path}: an array named 'features' is needed; found {', '.join(arrays) or 'none'}")
    return arrays


def read_array(path: Path, *, memory_map: bool = False) -> npt.NDArray[Any]:
    """An array from an .npy file; never a pickle."""
    array: npt.NDArray[Any] = _guard(
        path, "an .npy file", lambda: np.load(path, mmap_mode="r" if memory_map else None, allow_pickle=False)
    )
    return array


def _parquet_columns(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq  # here, not above: arrays and folders are read without waiting for it

    table = _guard(path, "a Parquet file", lambda: pq.read_table(path))
    return dict(zip(table.column_names, table.columns, strict=True))


def _read_parquet(path: Path) -> dict[str, Any]:
    columns = _parquet_columns(path)
    extra = {"id": "ids", "label": "labels", "truth": "truth", "text": "texts"}
    raw: dict[str, Any] = {field: columns.pop(name).to_pylist() for name, field in extra.items() if name in columns}
    if "features" in columns:
        column = columns["features"].combine_chunks()
        lengths = np.unique([-1 if row is None else row for row in column.value_lengths().to_pylist()])
        if len(lengths) != 1 or lengths[0] < 1:
            raise InputError(f"{path}: every row of 'features' must be a list of the same length")
        raw["features"] = _numbers(path, "features", column.flatten()).reshape(-1, lengths[0])
        return raw
    numeric = {name: column for name, column in columns.items() if str(column.type) in NUMERIC_TYPES}
    if not numeric:
        raise InputError(f"{path}: a column 'features' or numeric columns are needed; found {', '.join(columns)}")
    raw["features"] = np.column_stack([_numbers(path, name, column) for name, column in numeric.items()])
    return raw


def _numbers(path: Path, name: str, column: Any) -> npt.NDArray[np.float32]:
    if column.null_count:
        raise InputError(f"{path}: column {name!r} has missing values; features must be finite")
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
    except (ValueError, EOFError, OSError, KeyError, NotImplementedError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"{path} holds pickled Python objects, which are never loaded: they could run any code; "
                "save plain numbers or text"
            ) from error
        raise InputError(f"{path} cannot be read as {kind}: {error}") from error
