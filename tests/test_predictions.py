"""Predictions as tables: what a row says, blocks in every format, and results without any sample."""

import csv
import io
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook

from newkinds import InputError
from newkinds.data import FeatureSet
from newkinds.data.formulas import NUMBERS, PREDICTION_COLUMNS
from newkinds.data.tables import read_table
from newkinds.names import PREDICTION_FORMATS
from newkinds.predictions import SCHEMA, WRITERS, format_of, predictions_table, table_writer

NAMES = {0: "owl", 3: "wren, winter", 4: "new-1"}
every_format = pytest.mark.parametrize("form", PREDICTION_FORMATS)


@dataclass
class Answers:
    categories: npt.NDArray[np.int64]
    confidence: npt.NDArray[np.float64]
    novelty: npt.NDArray[np.float64]


class Model:
    """A fitted method whose answers stand in the features: category, confidence, novelty."""

    known_categories_ = np.array([0, 3])
    suggestions_: ClassVar = {4: "owl, eagle"}

    def assess(self, features: Any, categories: Any, reject: float | None, first_row: int = 0) -> Answers:
        chosen = features[:, 0].astype(np.int64) if categories is None else categories
        if reject is not None:
            chosen = np.where(features[:, 1] < reject, -1, chosen)
        return Answers(chosen, features[:, 1], features[:, 2])


def table_of(ids: Any, rows: Any, **options: Any) -> pa.Table:
    model: Any = Model()
    return predictions_table(model, NAMES, ids, np.array(rows, dtype=float), **options)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of predictions, every value as text."""
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    elif path.suffix == ".xlsx":
        header, *lines = load_workbook(path)["predictions"].iter_rows(values_only=True)
        rows = [dict(zip(header, line, strict=True)) for line in lines]
    elif path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8"))))
    return [{name: str(value) for name, value in row.items()} for row in rows]


# What a row says


def test_a_row_says_category_name_kind_confidence_and_novelty():
    table = table_of(["a", "b", "c"], [[3, 0.75, 0.25], [4, 0.5, 1.0], [9, 1.0, 0.0]])
    assert table.schema == SCHEMA
    assert table["suggestion"].to_pylist() == ["", "owl, eagle", ""]
    assert table.drop_columns(["suggestion"]).to_pylist() == [
        {"id": "a", "category": 3, "name": "wren, winter", "kind": "known", "confidence": 0.75, "novelty": 0.25},
        {"id": "b", "category": 4, "name": "new-1", "kind": "new", "confidence": 0.5, "novelty": 1.0},
        {"id": "c", "category": 9, "name": "", "kind": "new", "confidence": 1.0, "novelty": 0.0},
    ]


def test_samples_of_which_the_model_is_not_sure_are_open():
    table = table_of(["a", "b"], [[0, 0.4, 0.5], [0, 0.6, 0.5]], reject=0.5)
    assert table["category"].to_pylist() == [-1, 0]
    assert table["kind"].to_pylist() == ["open", "known"]
    assert table["name"].to_pylist() == ["", "owl"]


def test_settled_categories_are_kept():
    table = table_of(["a", "b"], [[0, 0.4, 0.5], [0, 0.6, 0.5]], categories=np.array([4, 3]))
    assert table["category"].to_pylist() == [4, 3]
    assert table["kind"].to_pylist() == ["new", "known"]


def test_an_id_or_a_name_that_is_no_text_is_refused_and_quoted():
    with pytest.raises(InputError, match=r"the id 'b\\ud83e' holds half a surrogate pair"):
        table_of(["a", "b\ud83e"], [[0, 1, 0], [0, 1, 0]])
    model: Any = Model()
    with pytest.raises(InputError, match=r"the name '\\udd89' holds half a surrogate pair"):
        predictions_table(model, {0: "\udd89"}, ["a"], np.array([[0.0, 1, 0]]))


# Blocks


@every_format
def test_blocks_follow_each_other_under_one_header_with_their_own_ids(tmp_path, form):
    features = np.array([[0, 0.5, 0.25], [3, 0.5, 0.25], [4, 0.5, 0.25], [0, 0.5, 0.25], [3, 0.5, 0.25]])
    collection = FeatureSet(features, np.full(5, -1), ids=("a", "b", "ü", '"d"', "e,f"))
    path = tmp_path / f"new.{form}"
    with table_writer(path, form) as write:
        for rows in (slice(0, 2), slice(2, 4), slice(4, 5)):
            write(table_of(collection.sample_ids(rows), features[rows]))
        assert not path.exists()
    written = read(path)
    assert [row["id"] for row in written] == ["a", "b", "ü", '"d"', "e,f"]
    assert [row["category"] for row in written] == ["0", "3", "4", "0", "3"]
    assert [row["name"] for row in written] == ["owl", "wren, winter", "new-1", "owl", "wren, winter"]
    assert [row["kind"] for row in written] == ["known", "known", "new", "known", "known"]
    assert {(row["confidence"], row["novelty"]) for row in written} == {("0.5", "0.25")}
    assert list(written[0]) == SCHEMA.names


@every_format
def test_further_columns_are_written_too(tmp_path, form):
    with table_writer(tmp_path / f"new.{form}", form) as write:
        for name in ("a", "b"):
            write(table_of([name], [[0, 0.5, 0.25]]).append_column("text", pa.array([f"text of {name}"])))
    assert [row["text"] for row in read(tmp_path / f"new.{form}")] == ["text of a", "text of b"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_block_on_standard_output_is_there_before_the_next(form, monkeypatch):
    arrived: Any = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(arrived)))
    with table_writer(None, form) as write:
        assert arrived.getvalue() == b""  # no header before an error about the first sample
        write(table_of(["a"], [[0, 0.5, 0.25]]))
        assert b"owl" in arrived.getvalue()
        write(table_of(["b"], [[3, 0.5, 0.25]]))
        assert arrived.getvalue().count(b"\n") == (3 if form == "csv" else 2)


def test_json_lines_can_be_read_by_a_person(tmp_path):
    with table_writer(tmp_path / "new.jsonl", "jsonl") as write:
        write(table_of(["Möwe 🦉"], [[0, 0.5, 0.25]]))
    assert (tmp_path / "new.jsonl").read_text("utf-8").startswith('{"id": "Möwe 🦉", "category": 0,')


# Formulas


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
formulas = st.tuples(st.text("'=+-@\t\r\n ", max_size=4), texts).map("".join)


def written(path: Path, names: list[str], *, raw: bool = False) -> Path:
    """Predictions whose ids, names of categories and texts are these."""
    model: Any = Model()
    rows = np.array([[i, 0.5, 0.25] for i in range(len(names))])
    table = predictions_table(model, dict(enumerate(names)), names, rows, reject=0.5)
    with table_writer(path, "csv", raw=raw) as write:
        write(table.append_column("text", pa.array(names)))
    return path


@given(st.lists(st.one_of(texts, formulas), min_size=1, max_size=12))
@settings(max_examples=200, deadline=None)
def test_no_cell_is_a_formula_and_every_text_is_read_back_as_it_was(names):
    with TemporaryDirectory() as folder:
        path = written(Path(folder, "new.csv"), names)
        cells = [row[column] for row in csv_rows(path) for column in ("id", "name", "text")]
        table = read_table(path)
    number = re.compile(r"[+-][0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?")
    assert not any(
        cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells if not number.fullmatch(cell)
    )
    assert {column: table.values(column) for column in ("id", "name", "text")} == dict.fromkeys(
        ("id", "name", "text"), names
    )


@given(st.lists(st.one_of(texts, formulas), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_raw_predictions_are_neither_changed_nor_mistaken_for_others(names):
    with TemporaryDirectory() as folder:
        path = written(Path(folder, "new.csv"), names, raw=True)
        assert [row["id"] for row in csv_rows(path)] == names
        assert read_table(path).values("id") == names


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_numbers_stay_numbers(tmp_path):
    with table_writer(tmp_path / "new.csv", "csv") as write:
        write(table_of(["a"], [[0, -0.25, 0.5]], reject=0.5).append_column("far", pa.array([-1.5])))
    assert (tmp_path / "new.csv").read_text() == (
        'id,category,name,kind,confidence,novelty,suggestion,far\n"a",-1,"","open",-0.25,0.5,"",-1.5\n'
    )
    table = read_table(tmp_path / "new.csv")
    assert (table.values("category"), table.values("far")) == (["-1"], ["-1.5"])


def test_a_number_that_is_negative_does_not_hide_that_texts_were_defused(tmp_path):
    with table_writer(tmp_path / "new.csv", "csv") as write:
        write(table_of(["=a"], [[0, 0.25, 0.5]], reject=0.5))
    assert read_table(tmp_path / "new.csv").values("id") == ["=a"]


@pytest.mark.parametrize(
    "content",
    [
        "id,label\n'=a,owl\n",
        "id,category,name,kind,confidence\n'=a,0,owl,known,1\n",
        "id,category,name,kind,confidence,novelty2\n'=a,0,owl,known,1,0\n",
        "id;category;name;kind;confidence;novelty\n'=a;0;owl;known;1;0\n",
        '"id","category","name","kind","confidence","novelty"\n"\'=a",0,"owl","known",1,0\n',
        "id,category,name,kind,confidence,novelty\n'=a,0,owl,known,1,0\n=b,0,owl,known,1,0\n",
    ],
    ids=["labels", "short", "another column", "semicolons", "raw", "with a formula"],
)
def test_apostrophes_of_other_files_are_kept(tmp_path, content):
    (tmp_path / "table.csv").write_text(content)
    assert read_table(tmp_path / "table.csv").values("id")[0] == "'=a"


def test_the_columns_that_readers_know_are_those_that_are_written():
    assert tuple(SCHEMA.names) == (*PREDICTION_COLUMNS, "suggestion")
    assert [field.name for field in SCHEMA if field.type != pa.string()] == list(NUMBERS)


# No samples at all


def test_without_samples_a_csv_file_holds_its_header(tmp_path):
    with table_writer(tmp_path / "new.csv", "csv"):
        pass
    assert (tmp_path / "new.csv").read_text() == "id,category,name,kind,confidence,novelty,suggestion\n"


def test_without_samples_a_file_of_json_lines_holds_nothing(tmp_path):
    with table_writer(tmp_path / "new.jsonl", "jsonl"):
        pass
    assert (tmp_path / "new.jsonl").read_bytes() == b""


def test_without_samples_a_parquet_file_holds_a_table_of_no_rows(tmp_path):
    with table_writer(tmp_path / "new.parquet", "parquet"):
        pass
    table = pq.read_table(tmp_path / "new.parquet")
    assert table.num_rows == 0
    assert table.schema == SCHEMA


# What goes wrong


@every_format
@pytest.mark.parametrize("n_blocks", [0, 1])
def test_a_failure_leaves_no_file(tmp_path, form, n_blocks):
    def fail() -> None:
        with table_writer(tmp_path / f"new.{form}", form) as write:
            for _ in range(n_blocks):
                write(table_of(["a"], [[0, 0.5, 0.25]]))
            raise RuntimeError("the next block cannot be read")

    with pytest.raises(RuntimeError, match="the next block"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_no_file_system_takes_is_refused(tmp_path):
    with pytest.raises(InputError, match="NUL"), table_writer(tmp_path / "a\0.csv", "csv"):
        pytest.fail("there is no such place")


# Formats


def test_every_format_has_a_writer():
    assert tuple(WRITERS) == PREDICTION_FORMATS


@pytest.mark.parametrize(
    ("path", "wanted", "form"),
    [
        (None, None, "csv"),
        (None, "jsonl", "jsonl"),
        ("a.csv", None, "csv"),
        ("a.JSONL", None, "jsonl"),
        ("a.parquet", None, "parquet"),
        ("a.csv", "parquet", "parquet"),
        ("a", "csv", "csv"),
    ],
)
def test_the_format_is_the_one_asked_for_or_that_of_the_ending(path, wanted, form):
    assert format_of(None if path is None else Path(path), wanted) == form


@pytest.mark.parametrize(
    ("path", "wanted", "says"),
    [
        ("a.xls", None, r"written as csv, jsonl, parquet, xlsx; got 'xls'"),
        ("a", None, "got 'a file without an ending'"),
        (None, "xml", "got 'xml'"),
        (None, "parquet", "parquet cannot be written to standard output; name a file with --out"),
        (None, "xlsx", "xlsx cannot be written to standard output; name a file with --out"),
    ],
)
def test_a_format_that_is_not_written_is_refused(path, wanted, says):
    with pytest.raises(InputError, match=says):
        format_of(None if path is None else Path(path), wanted)
