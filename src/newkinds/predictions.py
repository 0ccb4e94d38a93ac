"""A model's answers about samples as a table, written as CSV, JSON lines, Parquet or a workbook, block by block.

A spreadsheet runs a cell of CSV that begins like a formula, whoever chose the name of a sample. So an apostrophe is
written before such texts (`newkinds.data.formulas` has the rule), and our own readers take it away again. Numbers,
JSON lines and Parquet are never changed; in a workbook, texts are marked as such.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from newkinds.data.formulas import FORMULA, NUMBER
from newkinds.data.remote import upload
from newkinds.data.writing import text_column
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import PREDICTION_FORMATS, PredictionFormat
from newkinds.run_folder import find_category, read_predictions, sample_state
from newkinds.staging import Check, refuse_existing, staged
from newkinds.workbooks import Sheet

if TYPE_CHECKING:
    from newkinds.methods import CategoryDiscoverer

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "category": pa.int64(),
        "name": pa.string(),
        "kind": pa.string(),
        "confidence": pa.float32(),
        "novelty": pa.float32(),
        "suggestion": pa.string(),
    }
)
"""Columns of predictions."""

ANSWER_COLUMNS = (*SCHEMA.names[:-1], "strangeness", SCHEMA.names[-1])
"""The same of answers about new samples."""

Write = Callable[[pa.Table], None]
"""Appends a table to what was written before."""


def predictions_table(
    model: "CategoryDiscoverer",
    names: dict[int, str],
    ids: Sequence[str] | pa.Array | pa.ChunkedArray,
    features: npt.NDArray[Any],
    categories: IntArray | None = None,
    *,
    reject: float | None = None,
    first_row: int = 0,
) -> pa.Table:
    """Category, known or new, confidence, novelty and suggested name of each sample.

    Parameters
    ----------
    model : fitted method
        Its `suggestions_`, where there are any, are names that we suggest; a category without one has a blank.
    names : dict of int to str
        Name of each category.
    ids : sequence of str, or a column of pyarrow's
    features : ndarray of shape (samples, features)
    categories : ndarray of shape (samples,), optional
        Categories that are settled already; by default each sample's most probable one.
    reject : float, optional
        A sample is left open (category -1 without a name) if the model is less sure of it than this probability.
    first_row : int
        The row that these features begin with, for errors.
    """
    result = model.assess(features, categories, reject, first_row)
    found, inverse = np.unique(result.categories, return_inverse=True)
    kinds = np.where(np.isin(found, model.known_categories_), "known", "new")
    kinds = np.where(found == UNLABELLED, "open", kinds)
    suggestions: dict[int, str] = getattr(model, "suggestions_", {})
    at = pa.array(inverse)
    return pa.table(
        {
            "id": ids if isinstance(ids, pa.Array | pa.ChunkedArray) else text_column("id", list(ids)),
            "category": result.categories,
            "name": text_column("name", [names.get(category, "") for category in found.tolist()]).take(at),
            "kind": pa.array(kinds.tolist(), pa.string()).take(at),
            "confidence": result.confidence.astype(np.float32),
            "novelty": result.novelty.astype(np.float32),
            "suggestion": text_column("suggestion", [suggestions.get(c, "") for c in found.tolist()]).take(at),
        },
        schema=SCHEMA,
    )


def answers_table(
    model: "CategoryDiscoverer",
    ids: Sequence[str] | pa.Array | pa.ChunkedArray,
    features: npt.NDArray[Any],
    *,
    reject: float | None = None,
    reject_strange: float | None = None,
    first_row: int = 0,
) -> pa.Table:
    """As `predictions_table`, of new samples, with their strangeness.

    With `reject_strange`, samples that are at least as strange are left open too.
    """
    table = predictions_table(model, model.category_names_, ids, features, reject=reject, first_row=first_row)
    strangeness = model.strangeness(features).astype(np.float32)
    if reject_strange is not None:
        table = _left_open(table, strangeness >= reject_strange)
    place = table.column_names.index("suggestion")
    return table.add_column(place, "strangeness", pa.array(strangeness))


def _left_open(table: pa.Table, which: npt.NDArray[np.bool_]) -> pa.Table:
    mask = pa.array(which)
    blanks = {"category": UNLABELLED, "name": "", "kind": "open", "suggestion": ""}
    for name, blank in blanks.items():
        field = table.schema.field(name)
        column = pc.if_else(mask, pa.scalar(blank, field.type), table[name])
        table = table.set_column(table.column_names.index(name), field, column)
    return table


def saved_predictions(
    run: str | Path,
    record: dict[str, Any],
    *,
    kinds: Sequence[str] = (),
    min_confidence: float | None = None,
    only_new: bool = False,
) -> pa.Table:
    """Predictions of a run's own samples, all or some, without pictures.

    Parameters
    ----------
    run : path
        A run folder.
    record : dict
        What `read_run` gives.
    kinds : sequence of str
        Names or ids of categories; by default all.
    min_confidence : float, optional
        Leave out samples that the model is less sure of; labelled ones stay.
    only_new : bool
        Leave out known categories.
    """
    categories = [find_category(record, kind) for kind in kinds] or record["categories"]
    wanted = [category["id"] for category in categories if category["kind"] == "new" or not only_new]
    table = read_predictions(run, record, pictures=False)
    chosen = pc.is_in(table["category"], pa.array(wanted, pa.int64()))
    if min_confidence is not None:
        is_sure = pc.greater_equal(table["confidence"], pa.scalar(min_confidence, pa.float32()))
        if "given" in table.column_names:
            is_sure = pc.or_(is_sure, table["given"])
        chosen = pc.and_(chosen, is_sure)
    return table.filter(chosen)


def labelled_samples(run: str | Path, record: dict[str, Any]) -> pa.Table:
    """All labelled samples of a run, as corrected and with those confirmed since; labels that look wrong first.

    Columns as `saved_predictions` has them. Where labels were judged, two more: `likely`, the kind that a sample
    looks like if its label looks wrong (blank otherwise), and `label_doubt`, the probability that it is.
    """
    table = read_predictions(run, record, pictures=False)
    if "given" not in table.column_names:
        raise InputError("this run does not say which samples were labelled: an earlier version made it")
    labelled = sample_state(table).labelled
    suspects = record.get("suspected_labels")
    first = [row for row, _, _ in suspects or ()]
    others = np.setdiff1d(np.flatnonzero(labelled), first)
    table = table.take(pa.array(np.concatenate([np.array(first, dtype=np.int64), others])))
    if suspects is None:
        return table
    names = {category["id"]: category["name"] for category in record["categories"]}
    likely = [*(names[category] for _, category, _ in suspects), *[""] * len(others)]
    doubts = pa.array([*(doubt for *_, doubt in suspects), *[None] * len(others)], pa.float32())
    return table.append_column("likely", text_column("likely", likely)).append_column("label_doubt", doubts)


def format_of(path: Path | str | None, wanted: str | None) -> PredictionFormat:
    """The format asked for, or that of the file's ending; CSV for standard output."""
    name = wanted or ("csv" if path is None else Path(path).suffix.removeprefix(".").lower())
    for form in PREDICTION_FORMATS:
        if name == form:
            if form in ("parquet", "xlsx") and path is None:
                raise InputError(f"{form} cannot be written to standard output; name a file with --out")
            return form
    raise InputError(
        f"predictions are written as {', '.join(PREDICTION_FORMATS)}; got {name or 'a file without an ending'!r}"
    )


@contextmanager
def table_writer(
    path: Path | str | None, form: PredictionFormat, replace: Check = refuse_existing, *, raw: bool = False
) -> Iterator[Write]:
    """A function that appends tables to a file (put in place when all went well) or to standard output.

    A path that is a str is a remote address; the file is sent there when it is finished.

    All tables must have the same columns, those of predictions and perhaps more. Without any table, the result is
    a table of predictions without rows: a header, nothing in JSON lines. In CSV, texts that a spreadsheet
    would run are defused unless `raw`.
    """
    if path is None:
        if sys.stdout is None:
            raise InputError("standard output is closed; name a file with --out")
        with WRITERS[form](sys.stdout.buffer, raw) as write:
            yield write
        return
    if isinstance(path, str):
        with TemporaryDirectory() as folder:
            finished = Path(folder) / "predictions"
            with finished.open("wb") as file, WRITERS[form](file, raw) as write:
                yield write
            upload(finished, path)
        return
    with staged(path, replace=replace) as stage, stage.open("wb") as file, WRITERS[form](file, raw) as write:
        yield write


def defused(table: pa.Table) -> pa.Table:
    """A table in which no text begins like a formula; see `newkinds.data.formulas`."""
    for i, column in enumerate(table.columns):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            cells = pc.replace_substring_regex(column, FORMULA, r"'\1", max_replacements=1)
            cells = pc.if_else(pc.match_substring_regex(column, NUMBER), column, cells)
            table = table.set_column(i, table.schema.field(i), cells)
    return table.rename_columns([re.sub(FORMULA, r"'\1", name) for name in table.column_names])


@contextmanager
def _csv_writer(file: BinaryIO, raw: bool) -> Iterator[Write]:
    is_first = True

    def write(table: pa.Table) -> None:
        nonlocal is_first
        table = table if raw else defused(table)
        if is_first and not raw:  # without quotes, by which our readers know it
            header = io.StringIO()
            csv.writer(header, lineterminator="\n").writerow(table.column_names)
            file.write(header.getvalue().encode())
        options = pa_csv.WriteOptions(include_header=is_first and raw)
        pa_csv.write_csv(table, file, options)
        file.flush()
        is_first = False

    yield write
    if is_first:
        write(SCHEMA.empty_table())


@contextmanager
def _json_writer(file: BinaryIO, _: bool) -> Iterator[Write]:
    def write(table: pa.Table) -> None:
        for row in table.to_pylist():
            plain = {name: None if cell != cell else cell for name, cell in row.items()}  # JSON has no NaN
            file.write(json.dumps(plain, ensure_ascii=False).encode() + b"\n")
        file.flush()

    yield write


@contextmanager
def _parquet_writer(file: BinaryIO, _: bool) -> Iterator[Write]:
    writers: list[pq.ParquetWriter] = []  # made when the first table shows its columns

    def write(table: pa.Table) -> None:
        if not writers:
            writers.append(stack.enter_context(pq.ParquetWriter(file, table.schema)))
        writers[0].write_table(table)

    with ExitStack() as stack:
        yield write
        if not writers:
            write(SCHEMA.empty_table())


@contextmanager
def _xlsx_writer(file: BinaryIO, _: bool) -> Iterator[Write]:
    is_first = True

    def write(table: pa.Table) -> None:
        nonlocal is_first
        if is_first:
            sheet.begin(table.column_names)
        sheet.add(table)
        is_first = False

    with closing(Sheet("predictions")) as sheet:
        yield write
        if is_first:
            write(SCHEMA.empty_table())
        sheet.save(file)


WRITERS: dict[PredictionFormat, Callable[[BinaryIO, bool], AbstractContextManager[Write]]] = {
    "csv": _csv_writer,
    "jsonl": _json_writer,
    "parquet": _parquet_writer,
    "xlsx": _xlsx_writer,
}
"""A writer for each of the `PREDICTION_FORMATS`; the flag says whether texts stay as they are in CSV."""
