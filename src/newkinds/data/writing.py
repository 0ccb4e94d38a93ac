"""Writing feature sets in the layouts that `read_features` reads, atomically.

`WRITERS` has one entry for each format of a file.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet
from newkinds.data.raw import RawCollection
from newkinds.data.reading import ENCODER_METADATA
from newkinds.data.tables import repair_surrogates
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import FEATURE_ENDINGS, RELEASED_FILES, listed
from newkinds.staging import Check, check_target, refuse_existing, staged


def write_features(
    collection: FeatureSet,
    target: str | Path,
    *,
    dtype: Literal["float16", "float32"] = "float32",
    overwrite: bool = False,
) -> None:
    """Write a feature set; the ending of `target` names the format.

    Parameters
    ----------
    collection : FeatureSet
    target : path
        `.npz`, `.parquet`, or `.npy` (features only, labels beside it in `NAME.labels.npy`); anything else is
        a folder in the released four-file layout, for which the truth of every sample must be there. Its
        classes are numbered anew, known ones first.
    dtype : {"float32", "float16"}
    overwrite : bool
        Whether features that are there already may be replaced; anything else never is.

    Examples
    --------
    >>> import tempfile
    >>> from newkinds.data import read_features
    >>> collection = FeatureSet(np.eye(3), labels=np.array([7, -1, -1]), truth=np.array([7, 7, 2]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_features(collection, f"{folder}/released")
    ...     read_features(f"{folder}/released").truth
    array([0, 0, 1])
    """
    path = Path(target)
    with np.errstate(over="ignore"):  # said in words below
        features = np.asarray(collection.features).astype(dtype, copy=False)
    may_overflow = not np.can_cast(collection.features.dtype, dtype)
    if may_overflow and not np.isfinite(features).all():
        raise InputError(f"the features do not fit {dtype} (largest {np.abs(collection.features).max():.3g})")
    write = WRITERS.get(path.suffix.lower(), _write_released)
    write(path, features, collection, _replacing(overwrite))


def check_features_target(target: Path, collection: FeatureSet | RawCollection, *, overwrite: bool = False) -> None:
    """Refuse, before features are computed, a target to which `write_features` could not write them."""
    is_file = target.suffix.lower() in WRITERS
    check_target(target, folder=not is_file, replace=_replacing(overwrite))
    if target.suffix.lower() == ".npy":
        check_target(_labels_beside(target), folder=False, replace=_replacing(overwrite))
    if not is_file:
        _check_truth(collection)


def _replacing(overwrite: bool) -> Check:
    return _check_is_features if overwrite else refuse_existing


def _check_is_features(target: Path) -> None:
    """Refuse a folder that holds anything but features."""
    if target.is_dir() and sorted(path.name for path in target.iterdir()) != sorted(RELEASED_FILES):
        raise InputError(f"{target} already exists and is not a folder of features; choose another place")


def _labels_beside(features: Path) -> Path:
    return features.with_suffix(".labels.npy")


def _check_truth(collection: FeatureSet | RawCollection) -> None:
    if collection.truth is None or (collection.truth == UNLABELLED).any():
        raise InputError(
            f"the released layout ({', '.join(RELEASED_FILES)}) needs the true class of every sample; for other "
            f"collections let the name end in {listed(FEATURE_ENDINGS)}"
        )


def _fields(collection: FeatureSet) -> dict[str, npt.NDArray[Any]]:
    """Everything but the features as plain arrays; labels as names if there are names."""
    fields: dict[str, npt.NDArray[Any]] = {"labels": _named(collection, collection.labels)}
    if collection.truth is not None:
        fields["truth"] = _named(collection, collection.truth)
    for name in ("ids", "texts"):
        if (values := getattr(collection, name)) is not None:
            fields[name] = np.array(values, dtype=np.str_)
    if isinstance(collection.images, np.ndarray):  # pictures that are made when asked for are not written
        fields["images"] = collection.images
    return fields


def _named(collection: FeatureSet, values: IntArray) -> npt.NDArray[Any]:
    if collection.names is None:
        return values
    return np.array(["" if v == UNLABELLED else collection.names[v] for v in values], dtype=np.str_)


def text_column(name: str, texts: Sequence[str | None]) -> Any:
    """Texts as an array of pyarrow's, which takes UTF-8 only; `name` says in an error what the texts are."""
    import pyarrow as pa

    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError as error:
        bad = next(text for text in texts if text is not None and text != repair_surrogates(text))
        raise InputError(
            f"the {name} {bad!r} holds half a surrogate pair, which cannot be written as text; change it"
        ) from error


def _write_npz(path: Path, features: npt.NDArray[Any], collection: FeatureSet, replace: Check) -> None:
    arrays: dict[str, Any] = {"features": features, **_fields(collection)}
    if collection.encoder is not None:
        arrays["encoder"] = np.array(json.dumps(dict(collection.encoder)))
    with staged(path, replace=replace) as stage, stage.open("wb") as file:
        np.savez(file, **arrays)


def _write_npy(path: Path, features: npt.NDArray[Any], collection: FeatureSet, replace: Check) -> None:
    labels_path = _labels_beside(path)
    check_target(path, folder=False, replace=replace)
    with staged(labels_path, replace=replace) as stage, stage.open("wb") as file:
        np.save(file, _fields(collection)["labels"])
    with staged(path, replace=replace) as stage, stage.open("wb") as file:
        np.save(file, features)


def _write_parquet(path: Path, features: npt.NDArray[Any], collection: FeatureSet, replace: Check) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(collection.images, np.ndarray):
        raise InputError("a Parquet feature set has no place for images; write an .npz")
    columns = {"features": pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), features.shape[1])}
    names = {"ids": "id", "labels": "label", "truth": "truth", "texts": "text"}
    for field, values in _fields(collection).items():
        is_text = values.dtype.kind == "U"
        columns[names[field]] = text_column(names[field], values.tolist()) if is_text else pa.array(values)
    with staged(path, replace=replace) as stage:
        table = pa.table(columns)
        if collection.encoder is not None:
            table = table.replace_schema_metadata({ENCODER_METADATA: json.dumps(dict(collection.encoder))})
        pq.write_table(table, stage)


def _write_released(path: Path, features: npt.NDArray[Any], collection: FeatureSet, replace: Check) -> None:
    _check_truth(collection)
    assert collection.truth is not None
    is_known = np.isin(collection.truth, collection.known)
    classes = np.concatenate([collection.known, np.setdiff1d(collection.truth, collection.known)])
    order = np.argsort(classes)
    targets = order[np.searchsorted(classes, collection.truth, sorter=order)]
    arrays = (features, targets, collection.labels != UNLABELLED, is_known)
    with staged(path, folder=True, replace=replace, ours=RELEASED_FILES) as stage:
        for name, array in zip(RELEASED_FILES, arrays, strict=True):
            np.save(stage / name, array)


WRITERS: dict[str, Callable[[Path, npt.NDArray[Any], FeatureSet, Check], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".parquet": _write_parquet,
}
"""A writer for each of the `FEATURE_ENDINGS`; any other target is a folder in the released layout."""
