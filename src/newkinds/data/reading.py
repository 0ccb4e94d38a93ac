"""Reading feature sets: released four-file folders and, in `READERS`, one entry for each format of a file."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet, check_shape
from newkinds.data.files import UNREADABLE, is_columnar, load_checked, naming_files, read_array
from newkinds.data.labelling import USUAL, LabelRules, check_unique, encode_with_truth, read_labels
from newkinds.data.tables import Table
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, encode_labels, is_missing
from newkinds.names import ENCODER_KEYS, FEATURE_SOURCES, RELEASED_FILES, is_remote
from newkinds.runtime import check_memory, in_bytes
from newkinds.wording import option

ENCODER_METADATA = "newkinds.encoder"
"""The entry of a Parquet file's metadata that says what made its features."""
NPZ_LISTS = ("labels", "truth", "ids", "texts")
"""Arrays of an .npz with one entry for each sample."""
NPZ_ARRAYS = ("features", *NPZ_LISTS, "images", "encoder")
"""All that is read of an .npz; other members are never unpacked."""
NAMED_MEMBERS = 20
"""Members of an .npz without features that the error names."""


def read_features(
    source: str | Path,
    *,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
    id: str | None = None,
    rules: LabelRules = USUAL,
) -> FeatureSet:
    """Read a feature set.

    Parameters
    ----------
    source : path
        - a folder in the layout of the authors' release: `all_feats.npy`, `targets.npy`, `mask_lab.npy`
          (True = labelled) and `mask_cls.npy` (True = sample of a known class);
        - `.npz` with `features` and optionally `labels`, `truth`, `ids`, `texts`, `images`;
        - `.npy`, memory-mapped, with the labels in a file of their own;
        - `.parquet`, or a folder of such files, with a list column `features` or a numeric column for each feature,
          and optionally `label`, `truth`, `id`, `text`; also at an address that pyarrow knows (`s3://…`, `gs://…`).
    labels, truth : path, optional
        File of labels (`.npy`, `.csv`, `.parquet`, … : one of the `newkinds.names.LABEL_ENDINGS`) that takes the
        place of those in the source: one label for each sample, or an `id` column and a `label` column. Integers
        or names; blank, missing or -1 = unlabelled.
    id : str, optional
        The column of Parquet that names each sample; by default `id`.
    rules : LabelRules
        How labels are taken: which names mean that there is none.

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
    raw = _read_parquet(str(source), id) if is_remote(str(source)) else _read_raw(path, id)
    with naming_files(path):
        check_shape(raw["features"])
    ids = raw.get("ids")
    if ids is not None:
        missing = next((row for row, name in enumerate(ids) if is_missing(name)), None)
        if missing is not None:
            raise InputError(f"{source}: row {missing} has no id; give it one")
        check_unique([str(name) for name in ids], f"{source}: its ids")
    if labels is not None:
        raw["labels"] = read_labels(labels, len(raw["features"]), ids, rules, id)
    if rules.ignored:
        raw.pop("labels", None)
    if truth is not None:
        raw["truth"] = read_labels(truth, len(raw["features"]), ids)
    encoded, names, encoded_truth, notes = encode_with_truth(
        len(raw["features"]),
        raw.get("labels"),
        raw.get("truth"),
        labels_from=Path(labels or path),
        truth_from=Path(truth or path),
        rules=rules,
    )
    with naming_files(path):
        return FeatureSet(
            features=raw["features"],
            labels=encoded,
            truth=encoded_truth,
            names=names,
            ids=None if ids is None else tuple(map(str, ids)),
            columns=raw.get("columns"),
            texts=None if raw.get("texts") is None else tuple("" if t is None else str(t) for t in raw["texts"]),
            images=raw.get("images"),
            encoder=read_encoder_record(raw.get("encoder"), path),
            notes=tuple(notes),
        )


def _read_raw(path: Path, id: str | None) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"{path} does not exist; features are read from {FEATURE_SOURCES}")
    if is_columnar(path):
        return _read_parquet(path, id)
    if id is not None:
        raise InputError(f"{path} has no columns; {option('id', '--id')} names one of Parquet or of a table")
    if path.is_dir():
        return _read_released(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: features are read from {FEATURE_SOURCES}")
    return reader(path)


def _read_released(folder: Path) -> dict[str, Any]:
    if missing := [name for name in RELEASED_FILES if not (folder / name).is_file()]:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}; a folder of features has {', '.join(RELEASED_FILES)}"
        )
    features = read_array(folder / RELEASED_FILES[0], memory_map=True)
    with naming_files(folder / RELEASED_FILES[0]):
        check_shape(features)
    targets, is_labelled, is_known = (read_array(folder / name) for name in RELEASED_FILES[1:])
    for name, values in zip(RELEASED_FILES[1:], (targets, is_labelled, is_known), strict=True):
        if values.shape != (len(features),):
            raise InputError(
                f"{folder / name} must hold one entry for each of {len(features)} samples; got shape {values.shape}"
            )
    for name, mask in zip(RELEASED_FILES[2:], (is_labelled, is_known), strict=True):
        if mask.dtype.kind not in "biuf" or not np.isin(mask, (0, 1)).all():
            raise InputError(f"{folder / name} must hold True and False, or 1 and 0; it has others ({mask.dtype})")
    is_labelled, is_known = is_labelled.astype(bool), is_known.astype(bool)
    if (is_labelled & ~is_known).any():
        raise InputError(f"{folder}: mask_lab marks samples as labelled that mask_cls says are of no known class")
    targets_file = folder / RELEASED_FILES[1]
    classes = load_checked(targets_file, "a list of classes", targets.tolist)
    with naming_files(targets_file):
        truth, _ = encode_labels(classes)
    if (truth[is_labelled] == UNLABELLED).any():
        raise InputError(f"{folder}: mask_lab marks a sample as labelled for which targets has no class")
    if np.intersect1d(truth[is_known], truth[~is_known]).size:
        raise InputError(f"{folder}: mask_cls calls some samples of a class known and others not")
    return {"features": features, "labels": np.where(is_labelled, truth, UNLABELLED), "truth": truth}


def _read_npy(path: Path) -> dict[str, Any]:
    return {"features": read_array(path, memory_map=True)}


def _read_npz(path: Path) -> dict[str, Any]:
    def load() -> dict[str, Any]:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not a zip archive")
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if "features" not in archive.files:
                members = ", ".join(archive.files[:NAMED_MEMBERS]) or "none"
                raise InputError(f"{path}: an array named 'features' is needed; found {members}")
            _check_sizes(path, archive.zip.infolist())
            return {name: archive[name] for name in NPZ_ARRAYS if name in archive.files}  # others stay packed

    arrays = load_checked(path, "an .npz archive", load)
    for name in NPZ_ARRAYS:
        if not isinstance(arrays.get(name, arrays["features"]), np.ndarray):
            raise InputError(f"{path}: {name!r} is not an array; write the file with numpy.savez")
    for name in NPZ_LISTS:
        if name in arrays:
            arrays[name] = _entries(path, name, arrays[name])
    return arrays


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse an archive whose arrays do not fit into memory, before any of them is unpacked."""
    sizes = {
        member.filename: member.file_size
        for member in members
        if member.filename.removesuffix(".npy") in NPZ_ARRAYS
    }
    largest = max(sizes, key=lambda name: sizes[name])
    check_memory(
        sum(sizes.values()),
        f"{path}: unpacking it ({largest}: {in_bytes(sizes[largest])})",
        "save the features as .npy, which is read in parts, and the labels in a file of their own",
    )


def _entries(path: Path, name: str, array: npt.NDArray[Any]) -> list[Any]:
    if array.ndim != 1:
        raise InputError(f"{path}: {name!r} must be one-dimensional, one entry a sample; got shape {array.shape}")
    return load_checked(path, f"an .npz archive ({name!r})", lambda: list(array))


def read_encoder_record(written: Any, path: Path) -> dict[str, Any] | None:
    """What a file of features says about the encoder that made them."""
    if written is None:
        return None
    try:
        record = json.loads(str(written))
    except UNREADABLE as error:
        raise InputError(f"{path}: what it says about its encoder is damaged: {error}") from error
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in ENCODER_KEYS):
        raise InputError(f"{path}: what it says about its encoder must have a name, a kind and a fingerprint")
    return record


def _read_parquet(source: str | Path, id: str | None = None) -> dict[str, Any]:
    from newkinds.data.parquet import EXTRAS, ParquetFiles

    files = ParquetFiles.open(source, id)
    others, features = files.read_features()
    table = Table(Path(files.name), dict(zip(others.column_names, others.columns, strict=True)))
    raw: dict[str, Any] = {field: table.values(name) for name, field in EXTRAS.items() if name in table.columns}
    if files.id_column is not None:
        raw["ids"] = table.values(files.id_column)
    return {
        **raw,
        "features": features,
        "columns": files.feature_columns,
        "encoder": files.metadata(ENCODER_METADATA),
    }


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".parquet": _read_parquet,
}
"""A reader for each of the `FEATURE_ENDINGS`."""
