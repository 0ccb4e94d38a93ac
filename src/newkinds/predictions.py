"""What a model says of samples, as a table, and that table as CSV, JSON lines or Parquet, block by block."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from newkinds.data import staged
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods import CategoryDiscoverer

Format = Literal["csv", "jsonl", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "category": pa.int64(),
        "name": pa.string(),
        "kind": pa.string(),
        "confidence": pa.float32(),
        "novelty": pa.float32(),
    }
)
"""Columns of predictions."""


def predictions_table(
    model: CategoryDiscoverer,
    names: dict[int, str],
    ids: Sequence[str],
    features: npt.NDArray[Any],
    categories: IntArray | None = None,
    *,
    reject: float | None = None,
) -> pa.Table:
    """Category, known or new, confidence and novelty of each sample.

    Parameters
    ----------
    model : fitted method
    names : dict of int to str
        Name of each category.
    ids : sequence of str
    features : ndarray of shape (samples, features)
    categories : ndarray of shape (samples,), optional
        Categories that are settled already; by default each sample's most probable one.
    reject : float, optional
        Samples of which the model is less sure than this probability are left open: category -1 without a name.
    """
    result = model.assess(features, categories, reject)
    kinds = np.where(np.isin(result.categories, model.known_categories_), "known", "new")
    return pa.table(
        {
            "id": list(ids),
            "category": result.categories,
            "name": [names.get(int(c), "") for c in result.categories],
            "kind": np.where(result.categories == UNLABELLED, "open", kinds).tolist(),
            "confidence": result.confidence.astype(np.float32),
            "novelty": result.novelty.astype(np.float32),
        },
        schema=SCHEMA,
    )


def format_of(path: Path | None, wanted: str | None) -> Format:
    """The format asked for, or that of the file's ending; CSV for standard output."""
    name = wanted or ("csv" if path is None else path.suffix.removeprefix(".").lower())
    for known in FORMATS:
        if name == known:
            if known == "parquet" and path is None:
                raise InputError("Parquet cannot be written to standard output; name a file with --out")
            return known
    raise InputError(f"predictions are written as {', '.join(FORMATS)}; got {name or 'a file without an ending'!r}")


@contextmanager
def table_writer(path: Path | None, form: Format) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends tables to a file (put in place when all went well) or to standard output."""
    if path is None:
        with _appending(sys.stdout.buffer, form) as write:
            yield write
        return
    with staged(path) as stage, stage.open("wb") as file, _appending(file, form) as write:
        yield write


@contextmanager
def _appending(file: BinaryIO, form: Format) -> Iterator[Callable[[pa.Table], None]]:
    if form == "parquet":
        writers: list[pq.ParquetWriter] = []

        def write_parquet(table: pa.Table) -> None:
            if not writers:
                writers.append(pq.ParquetWriter(file, table.schema))
            writers[0].write_table(table)

        try:
            yield write_parquet
            if not writers:  # no sample at all: a table of no rows, not a file of no bytes
                write_parquet(SCHEMA.empty_table())
        finally:
            for writer in writers:
                writer.close()
        return

    started = False

    def write(table: pa.Table) -> None:
        nonlocal started
        if form == "csv":
            pa_csv.write_csv(table, file, pa_csv.WriteOptions(include_header=not started))
        else:
            for row in table.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        started = True
        file.flush()

    yield write
