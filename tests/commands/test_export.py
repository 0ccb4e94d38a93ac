"""`newkinds export`: the samples of a run as a table."""

import csv
import json
import math
import sys
from datetime import UTC, datetime

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds import workbooks
from tests.commands.command_line import LABELS, NAMES, SMALL, TRUTH, N, X, fail, printed, record_of, succeed, write

COLUMNS = ["id", "category", "name", "kind", "confidence", "novelty", "suggestion", "given", "confirmed"]
COLUMNS += ["truth", "text"]
HOSTILE = ["=1+1", "+1", "-1", "@a", "\tb", "'=1", "#N/A", "plain", "two\nlines", "ends\x07here"]


@pytest.fixture(scope="module")
def texts_run(tmp_path_factory):
    """A run whose samples have names, texts and a truth; some texts look like formulas."""
    folder = tmp_path_factory.mktemp("texts")
    ids = [f"={i}" if i == 7 else f"ticket-{i}" for i in range(N)]
    texts = [HOSTILE[i % len(HOSTILE)] for i in range(N)]
    labels = np.where(LABELS >= 0, NAMES[TRUTH], "")
    columns = {"id": ids, "label": labels.tolist(), "text": texts, "features": X.tolist()}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    np.save(folder / "truth.npy", NAMES[TRUTH])
    out = folder / "run"
    succeed("discover", folder / "a.parquet", "--out", out, "--truth", folder / "truth.npy", "-q", *SMALL)
    return out


def read_sheet(path):
    header, *rows = openpyxl.load_workbook(path)["predictions"].iter_rows(values_only=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


def predictions(run):
    return pq.read_table(run / "predictions.parquet").to_pylist()


def test_a_workbook_holds_every_sample_as_it_is(texts_run, tmp_path):
    result = succeed("export", texts_run, tmp_path / "a.xlsx")
    assert "60 of 60 samples in" in result.stdout
    assert "2 known kinds and 1 new" in result.stdout
    rows, saved = read_sheet(tmp_path / "a.xlsx"), predictions(texts_run)
    assert list(rows[0]) == COLUMNS
    for row, sample in zip(rows, saved, strict=True):
        assert row["text"] == sample["text"].replace("\x07", "\N{REPLACEMENT CHARACTER}")
        for name in ("id", "category", "name", "kind", "given", "truth"):
            assert row[name] == sample[name]
        for name in ("confidence", "novelty"):
            assert row[name] == pytest.approx(sample[name], abs=1e-5)


def test_nothing_in_a_workbook_is_a_formula(texts_run, tmp_path):
    succeed("export", texts_run, tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["predictions"]
    cells = [cell for row in sheet.iter_rows() for cell in row]
    assert {cell.data_type for cell in cells} <= {"s", "inlineStr", "n", "b"}
    assert all(cell.quotePrefix for cell in cells if str(cell.value).startswith(("=", "+", "@")))


def test_the_header_of_a_workbook_stays_in_sight_and_odd_columns_are_explained(texts_run, tmp_path):
    succeed("export", texts_run, tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["predictions"]
    assert sheet.freeze_panes == "A2"
    assert sheet.auto_filter.ref == f"A1:K{N + 1}"
    comments = [cell.comment.text for cell in sheet[1] if cell.comment]
    assert comments[0] == "confidence: how probable it is that a sample belongs to its kind"
    assert comments[1].startswith("novelty: ")


def test_csv_jsonl_and_parquet_say_the_same(texts_run, tmp_path):
    for ending in ("csv", "jsonl", "parquet"):
        succeed("export", texts_run, tmp_path / f"a.{ending}", "-q")
    saved = predictions(texts_run)
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == saved
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()] == saved
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == COLUMNS
    assert rows[0]["text"] == "'=1+1"
    assert rows[7]["id"] == "'=7"
    assert [row["name"] for row in rows] == [sample["name"] for sample in saved]


def test_pictures_are_left_out(photo_run, tmp_path):
    succeed("export", photo_run[0], tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").names == COLUMNS[:9]


def test_only_some_kinds_on_request(texts_run, tmp_path):
    succeed("export", texts_run, tmp_path / "new.jsonl", "--only-new")
    succeed("export", texts_run, tmp_path / "two.jsonl", "--kind", "OWL", "--kind", 2)
    names = {
        name: {json.loads(line)["name"] for line in (tmp_path / f"{name}.jsonl").read_text("utf-8").splitlines()}
        for name in ("new", "two")
    }
    assert names == {"new": {"new-1"}, "two": {"owl", "new-1"}}
    fail(
        "export", texts_run, tmp_path / "b.csv", "--kind", "wrenn", says=r"no category 'wrenn'; did you mean wren\?"
    )
    assert not (tmp_path / "b.csv").exists()


def test_samples_that_are_less_sure_are_left_out_and_labelled_ones_never(texts_run, tmp_path):
    confidence = sorted(row["confidence"] for row in predictions(texts_run) if not row["given"])
    limit = (confidence[9] + confidence[10]) / 2
    assert "50 of 60 samples" in printed("export", texts_run, tmp_path / "a.jsonl", "--min-confidence", limit)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    assert sum(row["given"] for row in rows) == 20
    assert all(row["given"] or row["confidence"] >= limit for row in rows)


def test_where_nothing_is_left_nothing_is_written(made, tmp_path):
    options = ["--only-new", "--min-confidence", 1]
    fail("export", made, tmp_path / "a.csv", *options, says="no sample is left to write")
    fail("export", made, tmp_path / "a.csv", "--kind", "0", "--only-new", says="no sample is left to write")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_without_force(made, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    fail("export", made, tmp_path / "a.csv", says=r"a\.csv already exists.*--force")
    assert (tmp_path / "a.csv").read_text() == "mine"
    succeed("export", made, tmp_path / "a.csv", "--force", "-q")
    assert (tmp_path / "a.csv").read_text().startswith("id,category,name,kind,confidence,novelty,suggestion,given")


def test_the_files_of_the_run_are_never_replaced(run):
    before = (run / "predictions.csv").read_bytes()
    fail("export", run, run / "predictions.csv", "--force", says=r"predictions\.csv is what is read")
    assert (run / "predictions.csv").read_bytes() == before


def test_nor_are_the_files_of_another_run(made, run, tmp_path):
    for name in ("predictions.parquet", "predictions.csv"):
        before = (run / name).read_bytes()
        fail(
            "export", made, run / name, "--force", says=f"{name} belongs to the run in .*run; choose another place"
        )
        assert (run / name).read_bytes() == before
    succeed("export", made, run / "mine.csv")
    succeed("export", made, tmp_path / "predictions.csv")


@pytest.mark.parametrize("name", ["a.xls", "a", "a.docx"])
def test_a_file_of_another_kind_is_refused(made, tmp_path, name):
    fail("export", made, tmp_path / name, says="written as csv, jsonl, parquet, xlsx; got")


def test_without_openpyxl_the_error_names_the_extra(made, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    fail("export", made, tmp_path / "a.xlsx", says=r'openpyxl, which is missing: pip install "newkinds\[excel\]"')
    assert not list(tmp_path.iterdir())


def test_more_rows_than_a_sheet_holds_are_refused_before_anything_is_written(made, tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "MOST_ROWS", N)
    fail("export", made, tmp_path / "a.xlsx", says=r"holds 59 samples, these are 60; write a \.csv or \.parquet")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(workbooks, "MOST_ROWS", N + 1)
    succeed("export", made, tmp_path / "a.xlsx")


def test_texts_longer_than_a_cell_are_cut_and_that_is_said(tmp_path, caplog):
    sheet = workbooks.Sheet("predictions")
    sheet.begin(["text"])
    sheet.add(pa.table({"text": ["a" * 32_767, "b" * 32_768, "🦉" * 16_384]}))
    with (tmp_path / "a.xlsx").open("wb") as file:
        sheet.save(file)
    rows = [row["text"] for row in read_sheet(tmp_path / "a.xlsx")]
    assert rows == ["a" * 32_767, "b" * 32_766 + "…", "🦉" * 16_383 + "…"]
    assert "cell of Excel holds 32,767 characters: 2" in caplog.text


@pytest.mark.parametrize("ending", ["csv", "xlsx", "jsonl", "parquet"])
def test_an_exported_table_can_be_fed_back_as_labels(texts_run, tmp_path, ending):
    """The less sure half is left out, and so unlabelled in the next run."""
    confidence = sorted(row["confidence"] for row in predictions(texts_run) if not row["given"])
    path = tmp_path / f"a.{ending}"
    succeed("export", texts_run, path, "--min-confidence", confidence[20], "-q")
    source = texts_run.parent / "a.parquet"
    result = succeed("discover", source, "--labels", path, "--out", tmp_path / "again", *SMALL)
    record = record_of(tmp_path / "again")
    assert [category["name"] for category in record["categories"]] == ["new-1", "owl", "wren"]
    assert record["source"]["labelled"] == 40
    assert "sheets" not in result.stderr


def test_predict_writes_workbooks_too(made, collection, tmp_path):
    succeed("predict", made, collection, "--out", tmp_path / "a.xlsx")
    rows = read_sheet(tmp_path / "a.xlsx")
    assert len(rows) == N
    assert {row["name"] for row in rows} == {category["name"] for category in record_of(made)["categories"]}


def test_a_collection_that_cannot_be_read_leaves_no_workbook(made, tmp_path):
    other = write(tmp_path / "other.npz", features=X[:, :3])
    fail("predict", made, other, "--out", tmp_path / "a.xlsx", says="features")
    assert not (tmp_path / "a.xlsx").exists()


def test_what_a_cell_cannot_be_is_written_as_text(tmp_path):
    values = {
        "when": [datetime(2026, 3, 1, 12, 30), datetime(1066, 10, 14)],
        "where": [datetime(2026, 3, 1, tzinfo=UTC), None],
        "number": [12345678901234567, 7],
        "share": [math.nan, math.inf],
        "parts": [[1, 2], None],
        "given": [True, False],
    }
    sheet = workbooks.Sheet("predictions")
    sheet.begin(list(values))
    sheet.add(pa.table(values))
    with (tmp_path / "a.xlsx").open("wb") as file:
        sheet.save(file)
    assert [list(row.values()) for row in read_sheet(tmp_path / "a.xlsx")] == [
        [datetime(2026, 3, 1, 12, 30), "2026-03-01 00:00:00+00:00", "12345678901234567", "nan", "[1, 2]", True],
        ["1066-10-14 00:00:00", None, 7, "inf", None, False],
    ]


def test_names_of_columns_are_texts_too(tmp_path, caplog):
    columns = {'=HYPERLINK("http://a.b", "c")': ["x"], "bad\x07col": ["y"], "@d": ["z"], "plain": ["=1"]}
    sheet = workbooks.Sheet("predictions")
    sheet.begin(list(columns))
    sheet.add(pa.table(columns))
    with (tmp_path / "a.xlsx").open("wb") as file:
        sheet.save(file)
    header = openpyxl.load_workbook(tmp_path / "a.xlsx")["predictions"][1]
    assert [cell.value for cell in header] == ['=HYPERLINK("http://a.b", "c")', "bad\ufffdcol", "@d", "plain"]
    assert {cell.data_type for cell in header} == {"s"}
    assert [cell.quotePrefix for cell in header] == [True, False, True, False]
    assert "control characters, which Excel cannot hold, were changed: 1" in caplog.text


def test_only_numbers_in_single_precision_are_rounded(tmp_path):
    single, double = pa.array([0.1, math.nan, None], pa.float32()), pa.array([1.23456789e-9, None, 2.0])
    sheet = workbooks.Sheet("predictions")
    sheet.begin(["single", "double"])
    sheet.add(pa.table({"single": single, "double": double}))
    with (tmp_path / "a.xlsx").open("wb") as file:
        sheet.save(file)
    rows = [tuple(row.values()) for row in read_sheet(tmp_path / "a.xlsx")]
    assert rows == [(0.1, 1.23456789e-9), ("nan", None), (None, 2)]
