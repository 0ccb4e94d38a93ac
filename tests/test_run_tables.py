"""Predictions of run folders: tables that were changed or damaged are refused by what is wrong with them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds.report import write_report
from newkinds.run_folder import read_predictions, write_run
from tests.commands.command_line import record_of
from tests.test_run_folder import refused
from tests.test_run_folder import run as run


def edit_table(run: Path, edit: Callable[[pa.Table], pa.Table]) -> None:
    path = run / "predictions.parquet"
    pq.write_table(edit(pq.read_table(path)), path)
    write_run(run, record_of(run))


def with_column(name: str, values: Callable[[list[Any]], Any]) -> Callable[[pa.Table], pa.Table]:
    def edit(table: pa.Table) -> pa.Table:
        new = pa.array(values(table[name].to_pylist()))
        return table.set_column(table.column_names.index(name), name, new)

    return edit


def with_more(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.append_column(name, pa.array(values))


def test_a_labelled_sample_is_neither_strange_nor_held(run: Path) -> None:
    edit_table(run, with_more("strangeness", [0.5] * 60))
    edit_table(run, with_more("held", [True] * 60))
    table = read_predictions(run)
    given = np.array(table["given"].to_pylist())
    assert given.any()
    assert np.array_equal(table["held"].to_numpy(), ~given)
    assert np.array_equal(table["strangeness"].to_numpy(), np.where(given, 0, np.float32(0.5)))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda table: table.drop_columns(["category"]), "it lacks the column category"),
        (lambda table: table.drop_columns(["id", "novelty"]), "it lacks the column id, novelty"),
        (lambda table: table.slice(1), r"does not fit run\.json: it has 59 samples instead of 60"),
        (lambda table: pa.concat_tables([table, table]), r"it has 120 samples instead of 60"),
        (lambda table: table.append_column("id", table["name"]), "it has the column id 2 times"),
        (with_column("id", lambda ids: list(range(60))), r"the column id has other values .* \(int64\)"),
        (with_column("text", lambda texts: [None, *texts[1:]]), "the column text has other values"),
        (with_column("category", lambda ids: [7, *ids[1:]]), r"it has categories that run\.json does not have"),
        (with_column("confidence", lambda p: [float("nan"), *p[1:]]), "confidence has values that are no prob"),
        (with_column("novelty", lambda p: [*p[1:], -0.5]), "novelty has values that are no probabilities"),
        (with_column("novelty", lambda p: [*p[1:], 1.5]), "novelty has values that are no probabilities"),
        (with_column("thumbnail", lambda p: [*p[1:], b"GIF89a"]), "thumbnail .* neither PNG nor WebP"),
        (with_more("strangeness", [0.5] * 59 + [1.5]), "strangeness has values that are no probabilities"),
        (with_more("strangeness", [0] * 60), r"the column strangeness has other values .* \(int64\)"),
        (with_more("held", [0.5] * 60), r"the column held has other values .* \(double\)"),
        (with_more("held", [None] + [True] * 59), "the column held has other values"),
    ],
)
def test_a_table_that_the_report_cannot_show_is_refused(
    run: Path, edit: Callable[[pa.Table], pa.Table], says: str
) -> None:
    assert read_predictions(run).num_rows == 60
    edit_table(run, edit)
    refused(write_report, run, rf"predictions\.parquet.*{says}")


def test_text_that_is_not_utf8_is_refused(run: Path) -> None:
    def with_odd_bytes(table: pa.Table) -> pa.Table:
        texts = pa.array([b"\xff"] * 60, pa.binary()).view(pa.string())
        return table.set_column(table.column_names.index("text"), "text", texts)

    edit_table(run, with_odd_bytes)
    refused(write_report, run, r"predictions\.parquet cannot be read: .*UTF8")


def test_a_table_that_is_none_is_refused(run: Path) -> None:
    (run / "predictions.parquet").write_bytes(b"PAR1 nothing PAR1")
    write_run(run, record_of(run))
    refused(write_report, run, r"predictions\.parquet cannot be read")
