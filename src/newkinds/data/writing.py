"""Writing feature sets in the layouts that `read_features` reads, atomically.

`WRITERS` has one entry for each format of a file.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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


def write_features(
    collection: FeatureSet, target: str | Path, *, dtype: Literal["float16", "float32"] = "float32"
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
    write(path, features, collection)


def check_features_target(target: Path, collection: FeatureSet | RawCollection) -> None:
    """Refuse, before features are computed, a target to which `write_features` could not write them.

    A folder that exists is refused too, unless it is one of features.
    """
    _check_name(target)
    if target.suffix.lower() in WRITERS:
        if target.is_dir():
            raise InputError(f"{target} is a folder; give the name of a file")
        return
    content = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    if target.exists() and content != sorted(RELEASED_FILES):
        raise InputError(f"{target} already exists and is not a folder of features; choose another place")
    _check_truth(collection)


def _check_name(target: Path) -> None:
    """Refuse a name that no file can have: one with a NUL or half a surrogate pair."""
    try:
        os.fsencode(target)
        if "\0" in str(target):
            raise ValueError("it holds a NUL character")
    except ValueError as error:
        raise InputError(f"no file can be called {str(target)!r}: {error}") from error


def _check_truth(collection: FeatureSet | RawCollection) -> None:
    if collection.truth is None or (collection.truth == UNLABELLED).any():
        raise InputError(
            f"the released layout ({', '.join(RELEASED_FILES)}) needs the true class of every sample; for other "
            f"collections let the name end in {listed(FEATURE_ENDINGS)}"
        )


@contextmanager
def staged(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """Give a place beside `target` to write to, and put it in `target`'s place when the block has ended well.

    Nobody ever sees a part: until the end there is the old file or folder, or nothing; then the whole new one. If
    the block fails, what was written is removed and the old one stays.
    """
    target = target.absolute()
    _check_name(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=target.parent))
    except OSError as error:
        raise InputError(f"cannot write to {target.parent}: {error.strerror or error}") from error
    stage = workshop / target.name
    try:
        if folder:
            stage.mkdir()
        yield stage
        replaced = workshop / "replaced"
        if folder and target.exists():
            target.rename(replaced)
        try:
            os.replace(stage, target)
        except BaseException:
            if replaced.exists():
                replaced.rename(target)
            raise
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


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


def _write_npz(path: Path, features: npt.NDArray[Any], collection: FeatureSet) -> None:
    arrays: dict[str, Any] = {"features": features, **_fields(collection)}
    if collection.encoder is not None:
        arrays["encoder"] = np.array(json.dumps(dict(collection.encoder)))
    with staged(path) as stage, stage.open("wb") as file:
        np.savez(file, **arrays)


def _write_npy(path: Path, features: npt.NDArray[Any], collection: FeatureSet) -> None:
    with staged(path) as stage, stage.open("wb") as file:
        np.save(file, features)
    with staged(path.with_suffix(".labels.npy")) as stage, stage.open("wb") as file:
        np.save(file, _fields(collection)["labels"])


def _write_parquet(path: Path, features: npt.NDArray[Any], collection: FeatureSet) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(collection.images, np.ndarray):
        raise InputError("a Parquet feature set has no place for images; write an .npz")
    columns = {"features": pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), features.shape[1])}
    names = {"ids": "id", "labels": "label", "truth": "truth", "texts": "text"}
    for field, values in _fields(collection).items():
        is_text = values.dtype.kind == "U"
        columns[names[field]] = text_column(names[field], values.tolist()) if is_text else pa.array(values)
    with staged(path) as stage:
        table = pa.table(columns)
        if collection.encoder is not None:
            table = table.replace_schema_metadata({ENCODER_METADATA: json.dumps(dict(collection.encoder))})
        pq.write_table(table, stage)


def _write_released(path: Path, features: npt.NDArray[Any], collection: FeatureSet) -> None:
    check_features_target(path, collection)
    assert collection.truth is not None
    is_known = np.isin(collection.truth, collection.known)
    classes = np.concatenate([collection.known, np.setdiff1d(collection.truth, collection.known)])
    order = np.argsort(classes)
    targets = order[np.searchsorted(classes, collection.truth, sorter=order)]
    arrays = (features, targets, collection.labels != UNLABELLED, is_known)
    with staged(path, folder=True) as stage:
        for name, array in zip(RELEASED_FILES, arrays, strict=True):
            np.save(stage / name, array)


WRITERS: dict[str, Callable[[Path, npt.NDArray[Any], FeatureSet], None]] = {
    ".npz": _write_npz,
    ".npy": _write_npy,
    ".parquet": _write_parquet,
}
"""A writer for each of the `FEATURE_ENDINGS`; any other target is a folder in the released layout."""
