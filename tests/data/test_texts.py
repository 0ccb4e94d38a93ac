"""Texts from tables: columns, rows without a text, labels and truth."""

import csv
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds.data.texts import read_texts
from tests.data.refusal import refused
from tests.data.text_tables import saved, written

TEXTS = ["card lost", "where is my refund?", "card eaten, again"]
LABELS = ["card", None, "card"]
ENDINGS = ["csv", "tsv", "json", "jsonl", "ndjson", "parquet", "xlsx", "csv.gz", "jsonl.zst"]


# Every format


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_and_labels_from_every_kind_of_table(tmp_path, ending):
    tickets = read_texts(saved(tmp_path, ending, text=TEXTS, label=LABELS))
    assert tickets.kind == "texts"
    assert list(tickets.items) == TEXTS
    assert tickets.ids == ("0", "1", "2")
    assert tickets.labels.tolist() == [0, -1, 0]
    assert tickets.names == ("card",)
    assert tickets.truth is None
    assert tickets.skipped == ()


def test_one_text_a_line(tmp_path):
    tickets = read_texts(written(tmp_path, "first\r\n\r\nthird\u2028still third\nlast", "tickets.TXT"))
    assert tickets.items == ["first", "third\u2028still third", "last"]
    assert tickets.ids == ("0", "2", "3")
    assert tickets.skipped == (("1", "the text on line 2 is blank"),)
    assert tickets.labels.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_by_name(tmp_path, ending):
    source = saved(tmp_path, ending, key=["a", "b", "c"], body=TEXTS, text=["x", "y", "z"], intent=LABELS)
    tickets = read_texts(str(source), text="body", label="intent", id="key", truth="intent")
    assert list(tickets.items) == TEXTS
    assert tickets.ids == ("a", "b", "c")
    assert tickets.truth is not None
    assert tickets.labels.tolist() == tickets.truth.tolist() == [0, -1, 0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_only_column_of_words_is_the_text(tmp_path, ending):
    source = saved(tmp_path, ending, id=["a", "b", "c"], score=[1.5, 2.0, 3.0], query=TEXTS, label=LABELS)
    assert list(read_texts(source).items) == TEXTS


def test_the_column_named_as_truth_is_not_the_text(tmp_path):
    source = saved(tmp_path, "csv", query=TEXTS, kind=["card", "money", "card"])
    tickets = read_texts(source, truth="kind")
    assert list(tickets.items) == TEXTS
    assert tickets.truth is not None
    assert tickets.truth.tolist() == [0, 1, 0]
    assert tickets.labels.tolist() == [-1, -1, -1]


def test_capitals_in_the_names_of_columns_do_not_count(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", ID=["a", "b", "c"], Text=TEXTS, LABEL=LABELS))
    assert (tickets.ids, list(tickets.items), tickets.names) == (("a", "b", "c"), TEXTS, ("card",))


@pytest.mark.parametrize("ending", ENDINGS)
def test_several_columns_that_could_be_the_text_are_refused_with_their_names(tmp_path, ending):
    with refused("tickets", "could be any of title, body", "text=…", "title, body, n"):
        read_texts(saved(tmp_path, ending, title=TEXTS, body=TEXTS, n=[1, 2, 3]))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_words_is_refused(tmp_path, ending):
    with refused("tickets", "not to be found", "a, label"):
        read_texts(saved(tmp_path, ending, a=[1, 2, 3], label=LABELS))


@pytest.mark.parametrize("role", ["text", "label", "id"])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path, role):
    with refused("tickets.csv has no column 'nothing'", "text, label"):
        columns: dict[str, Any] = {role: "nothing"}
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), **columns)


def test_the_row_names_of_pandas_are_not_the_text(tmp_path):
    pd.DataFrame({"query": TEXTS}, index=["a", "b", "c"]).to_parquet(tmp_path / "tickets.parquet")
    assert read_texts(tmp_path / "tickets.parquet").items == TEXTS
    pd.DataFrame({"query": TEXTS}, index=["a", "b", "c"]).to_csv(tmp_path / "tickets.csv")
    assert read_texts(tmp_path / "tickets.csv").items == TEXTS


def test_categories_of_pandas(tmp_path):
    table = pd.DataFrame({"query": pd.Categorical(TEXTS), "label": pd.Categorical(["b", None, "a"])})
    table.to_parquet(tmp_path / "tickets.parquet")
    tickets = read_texts(tmp_path / "tickets.parquet")
    assert (tickets.items, tickets.labels.tolist(), tickets.names) == (TEXTS, [1, -1, 0], ("a", "b"))


# Rows without a text


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_without_a_text_are_left_out_and_the_others_keep_their_ids(tmp_path, ending):
    texts = ["a", None, " \t\u3000", "d", ""]
    tickets = read_texts(saved(tmp_path, ending, text=texts, label=["x", "only here", "y", "y", None]))
    assert tickets.items == ["a", "d"]
    assert tickets.ids == ("0", "3")
    assert tickets.labels.tolist() == [0, 1]
    assert tickets.names == ("x", "y")
    where = "row {}" if ending == "parquet" else "line {}"
    numbers = (1, 2, 4) if ending == "parquet" else (2, 3, 5)
    states = ("is missing", "is blank", "is blank")
    reasons = [f"the text on {where.format(n)} {state}" for n, state in zip(numbers, states, strict=True)]
    assert tickets.skipped == tuple(zip(("1", "2", "4"), reasons, strict=True))


def test_left_out_rows_are_called_by_their_ids(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", id=["a", "b"], text=["x", "  "]))
    assert (tickets.ids, tickets.skipped) == (("a",), (("b", "the text on line 3 is blank"),))


def test_a_table_of_blank_texts_is_refused(tmp_path):
    with refused("tickets.csv has no texts", "'text'", "2 rows"):
        read_texts(written(tmp_path, "text,label\n,a\n ,b\n"))


def test_numbers_among_texts_are_texts(tmp_path):
    assert read_texts(saved(tmp_path, "jsonl", text=["a", 12, 1.5])).items == ["a", "12", "1.5"]


def test_a_very_long_text_is_kept_and_the_limit_of_csv_left_alone(tmp_path):
    before = csv.field_size_limit()
    long = "word " * 100_000
    assert read_texts(written(tmp_path, f'text,label\n"{long}",a\n')).items == [long]
    assert csv.field_size_limit() == before
    with refused("line 2"):
        read_texts(written(tmp_path, "text,label\na\n"))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_row_without_an_id_is_refused_with_its_line(tmp_path, ending):
    source = saved(tmp_path, ending, id=["", "b"], text=["x", "y"])
    with refused("tickets", "line 2" if ending == "csv" else "line 1", "'id'"):
        read_texts(source)


# Labels and truth


def test_integers_as_labels(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", text=TEXTS, label=["3", "", "-1"]))
    assert (tickets.labels.tolist(), tickets.names) == ([3, -1, -1], None)


def test_labels_and_truth_share_their_names(tmp_path):
    truth = ["card", "account", "card"]
    tickets = read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS, kind=truth), truth="kind")
    assert tickets.names == ("card", "account")
    assert tickets.truth is not None
    assert tickets.truth.tolist() == [0, 1, 0]


def test_numbers_are_names_where_the_truth_has_names_too(tmp_path):
    source = saved(tmp_path, "csv", text=TEXTS, label=["10", "", "9"], kind=["10", "other", "9"])
    tickets = read_texts(source, truth="kind")
    assert tickets.names == ("9", "10", "other")
    assert tickets.labels.tolist() == [1, -1, 0]
    assert tickets.truth is not None
    assert tickets.truth.tolist() == [1, 2, 0]


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
def test_a_file_of_labels_counts_all_rows_and_takes_the_place_of_the_column(tmp_path, ending):
    source = saved(tmp_path, "parquet", text=["a", "", "c"], label=["other", "other", "other"])
    path = tmp_path / f"labels.{ending}"
    if ending == "npy":
        np.save(path, np.array(["x", "y", ""]))
    elif ending == "parquet":
        pq.write_table(pa.table({"label": ["x", "y", None]}), path)
    else:
        path.write_text(("label\n" if ending == "csv" else "") + "x\ny\n\n")
    tickets = read_texts(source, labels=path, truth=path)
    assert (tickets.ids, tickets.labels.tolist(), tickets.names) == (("0", "2"), [0, -1], ("x",))
    assert tickets.truth is not None
    assert tickets.truth.tolist() == [0, -1]


@pytest.mark.parametrize("as_text", [True, False])
def test_files_of_labels_by_id(tmp_path, as_text):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS)
    labels = written(tmp_path, "id,label\nc,x\n", "labels.csv")
    truth = written(tmp_path, "id,label\na,y\nc,x\n", "truth.csv")
    tickets = read_texts(source, labels=labels, truth=str(truth) if as_text else truth)
    assert tickets.labels.tolist() == [-1, -1, 0]
    assert tickets.truth is not None
    assert tickets.truth.tolist() == [1, -1, 0]


def test_blanks_around_an_id_do_not_count(tmp_path):
    source = saved(tmp_path, "csv", id=["a ", "b", "c"], text=TEXTS)
    labels = written(tmp_path, "id,label\na ,x\n b,y\n", "labels.csv")
    assert read_texts(source, labels=labels).labels.tolist() == [0, 1, -1]


def test_an_id_that_no_text_has_is_refused_with_its_line(tmp_path):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS)
    labels = written(tmp_path, 'id,label\na,"x\ny"\nd,x\n', "labels.csv")
    with refused("labels.csv: line 4", "'d'", "not in the collection", "a, b, c"):
        read_texts(source, labels=labels)


def test_a_truth_that_is_neither_a_column_nor_a_file_is_refused(tmp_path):
    with refused("truth='intent' is neither a column of", "text, label", ".csv"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), truth="intent")
    with refused("none.csv does not exist"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), truth="none.csv")


def test_a_column_and_a_file_of_labels_at_once_are_refused(tmp_path):
    with refused("'kind'", "labels.csv", "one of the two"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, kind=LABELS), label="kind", labels="labels.csv")


def test_a_truth_that_contradicts_a_label_is_refused_with_the_text(tmp_path):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS, label=LABELS, kind=["money"] * 3)
    with refused("tickets.csv: ", "'a' is labelled 'card'", "truth is 'money'", "1 more") as refusal:
        read_texts(source, truth="kind")
    assert str(refusal.value).count("tickets.csv") == 1
    truth = written(tmp_path, "id,label\na,money\nc,card\n", "truth.csv")
    with refused("tickets.csv and ", "truth.csv: ", "'a' is labelled 'card'", "truth is 'money'"):
        read_texts(source, truth=truth)


def test_a_labelled_text_without_truth_is_refused_as_it_would_be_later(tmp_path):
    source = saved(tmp_path, "csv", text=TEXTS, label=LABELS, kind=["", "money", "card"])
    with refused("'0' is labelled 'card'", "truth is unknown"):
        read_texts(source, truth="kind")


@pytest.mark.parametrize("label", [[1], {"a": 1}])
def test_labels_that_are_no_labels_are_refused_with_the_file(tmp_path, label):
    with refused("tickets.jsonl", "a label must be an integer or a name"):
        read_texts(saved(tmp_path, "jsonl", text=["a"], label=[label]))
