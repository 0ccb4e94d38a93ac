"""Files of labels: every format, labels by id, and what is refused with the file and the problem."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds import InputError, read_features
from newkinds.names import LABEL_ENDINGS, listed
from tests.data.feature_files import LABELS, TRUTH, N, npz, parquet
from tests.data.refusal import refused

# Files of labels


def write_labels(path: Path, values: list) -> None:
    if path.suffix == ".npy":
        np.save(path, np.array(["" if v is None else v for v in values] if "owl" in values else values))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"label": values}), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps([{"label": value} for value in values]), "utf-8")
    elif path.suffix == ".xlsx":
        pd.DataFrame({"label": values}, dtype=object).to_excel(path, index=False)
    elif path.suffix in {".jsonl", ".ndjson"}:
        path.write_text("".join(json.dumps({"label": value}) + "\n" for value in values), "utf-8")
    else:
        lines = ["" if v is None else str(v) for v in values]
        path.write_text("\n".join([*([] if path.suffix == ".txt" else ["label"]), *lines]) + "\n", "utf-8")


@pytest.mark.parametrize("ending", LABEL_ENDINGS)
def test_integer_labels_from_every_kind_of_file(npy, ending):
    path = npy.parent / f"labels{ending}"
    write_labels(path, LABELS.tolist())
    collection = read_features(npy, labels=path, truth=path)
    assert collection.truth is not None
    assert collection.labels.tolist() == collection.truth.tolist() == LABELS.tolist()
    assert collection.names is None


@pytest.mark.parametrize("ending", [ending for ending in LABEL_ENDINGS if ending != ".xlsx"])
def test_names_and_gaps_from_every_kind_of_file(npy, ending):
    path = npy.parent / f"labels{ending}"
    write_labels(path, ["owl", None, "wren", None, None, None])
    collection = read_features(npy, labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names == ("owl", "wren")


def test_minus_one_means_unlabelled_among_names_too(npy):
    path = npy.parent / "labels.csv"
    write_labels(path, ["owl", -1, "wren", -1, -1, -1])
    collection = read_features(npy, labels=path)
    assert collection.names == ("owl", "wren")
    assert collection.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "ndjson", "parquet"])
def test_labels_by_id_in_any_order_leave_the_others_unlabelled(tmp_path, ending):
    path = tmp_path / f"labels.{ending}"
    table = pd.DataFrame({"label": ["wren", "owl"], "note": ["x", "y"], "id": ["c", "a"]})
    if ending == "parquet":
        table.to_parquet(path)
    elif ending in {"jsonl", "ndjson"}:
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    collection = read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names == ("owl", "wren")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_by_row_number_where_the_samples_have_no_ids(npy, ending):
    path = npy.parent / f"labels.{ending}"
    table = pd.DataFrame({"id": [2, 0], "label": [1, 0]})
    if ending == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False)
    assert read_features(npy, labels=path).labels.tolist() == LABELS.tolist()


def test_a_file_of_labels_takes_the_place_of_those_in_the_source(tmp_path):
    write_labels(tmp_path / "labels.txt", LABELS.tolist())
    source = npz(tmp_path, labels=np.full(N, 5))
    assert read_features(source, labels=tmp_path / "labels.txt").labels.tolist() == LABELS.tolist()


def test_a_single_column_need_not_be_called_label(npy):
    (npy.parent / "labels.csv").write_text("species\nowl\n\nwren\n\n\n\n")
    assert read_features(npy, labels=npy.parent / "labels.csv").labels.tolist() == LABELS.tolist()


def test_csv_from_a_spreadsheet(npy):
    text = '\ufeffid,label\r\n0,"owl, barn"\r\n1,\r\n2,wren\r\n'
    (npy.parent / "labels.csv").write_bytes(text.encode("utf-8"))
    collection = read_features(npy, labels=npy.parent / "labels.csv")
    assert collection.names == ("owl, barn", "wren")
    assert collection.labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("ending", ["csv", "txt"])
def test_labels_in_another_encoding_are_read_and_it_is_said(npy, caplog, ending):
    path = npy.parent / f"labels.{ending}"
    lines = ["m\xf6we", "", "wren", "", "", "", ""]
    path.write_bytes("\n".join(lines if ending == "txt" else ["label", *lines]).encode("cp1252"))
    collection = read_features(npy, labels=path)
    assert collection.names == ("möwe", "wren")
    assert collection.labels.tolist() == LABELS.tolist()
    assert f"labels.{ending} is not UTF-8; read as cp1252" in caplog.text


def test_csv_with_semicolons_capitals_and_blank_lines(npy):
    (npy.parent / "labels.csv").write_text("ID;Label;note\r\n2;wren;\r\n\r\n0;owl;1,5\r\n", newline="")
    assert read_features(npy, labels=npy.parent / "labels.csv").labels.tolist() == LABELS.tolist()


def test_csv_that_pandas_wrote_of_integers_with_gaps(npy):
    path = npy.parent / "labels.csv"
    pd.DataFrame({"id": range(N), "label": pd.Series([0, None, 1, None, None, None])}).to_csv(path, index=False)
    collection = read_features(npy, labels=path)
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.names is None


# Labels that are bad


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (np.array([0.5, 1, 1, 1, 1, 1]), "0.5"),
        (np.array([np.inf, 1, 1, 1, 1, 1]), "inf"),
        (np.array([-4, 1, 1, 1, 1, 1]), "-4 at position 0"),
        (np.array([2**64 - 1, 1, 1, 1, 1, 1], np.uint64), "label"),
        (np.array(3), "label"),
        (np.eye(N, dtype=int), "label"),
        (np.zeros((N, 2, 2), int), "label"),
    ],
    ids=["fraction", "infinity", "negative", "too large", "0-d", "one-hot", "3-d"],
)
@pytest.mark.parametrize("form", ["inside", "labels", "truth"])
def test_labels_that_are_no_labels_are_refused_with_file_and_problem(tmp_path, npy, labels, problem, form):
    if form == "inside":
        source, extra, name = npz(tmp_path, labels=labels), {}, "birds.npz"
    else:
        np.save(tmp_path / "given.npy", labels)
        source, extra, name = npy, {form: tmp_path / "given.npy"}, "given.npy"
    with refused(name, problem):
        read_features(source, **extra)


@pytest.mark.parametrize("label", [[0.5, 1.0], [-4, 1], [[1], [2]]], ids=["fraction", "negative", "lists"])
def test_a_parquet_column_that_holds_no_labels_is_refused_with_its_file(tmp_path, label):
    with refused("birds.parquet", "label"):
        read_features(parquet(tmp_path, features=[[1.0, 2.0], [3.0, 4.0]], label=label))


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
@pytest.mark.parametrize("count", [N - 1, N + 1])
def test_a_file_with_too_few_or_too_many_labels_is_refused_with_both_counts(npy, ending, count):
    path = npy.parent / f"labels.{ending}"
    write_labels(path, [0] * count)
    with refused(f"labels.{ending} has {count} labels for {N} samples"):
        read_features(npy, labels=path)


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
def test_a_missing_and_an_empty_file_of_labels_are_refused(npy, ending):
    path = npy.parent / f"labels.{ending}"
    with refused(f"labels.{ending} does not exist"):
        read_features(npy, labels=path)
    path.touch()
    with refused(f"labels.{ending}", "is empty"):
        read_features(npy, labels=path)


def test_a_file_of_labels_with_an_ending_that_is_not_read_is_refused(npy):
    (npy.parent / "labels.xls").write_text("[]")
    with refused("labels.xls", listed(LABEL_ENDINGS)):
        read_features(npy, labels=npy.parent / "labels.xls")


def test_several_columns_of_which_none_is_called_label_are_refused_with_their_names(npy):
    (npy.parent / "labels.csv").write_text("id,species\n0,owl\n")
    with refused("labels.csv", "'label' is needed", "id, species"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_an_id_that_no_sample_has_is_refused_with_some_that_are_there(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\nz,wren\n")
    with refused("labels.csv: line 3", "'z'", "not in the collection", "a, b, c"):
        read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=tmp_path / "labels.csv")


def test_two_labels_for_one_id_are_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\nb,wren\na,wren\n")
    with refused("labels.csv", "a"):
        read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=tmp_path / "labels.csv")


def test_two_labels_for_a_blank_id_are_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\n,owl\n ,wren\n")
    with refused("labels.csv", "'' occurs more than once"):
        read_features(npz(tmp_path, ids=np.array(list("abcdef"))), labels=tmp_path / "labels.csv")
    with refused("birds.npz", "row 0 has no id"):
        read_features(npz(tmp_path, ids=np.array(["", *"bcdef"])))


def test_a_label_for_an_id_that_two_samples_have_is_refused(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,owl\n")
    with pytest.raises(InputError, match="'a'"):
        read_features(npz(tmp_path, ids=np.array(list("aacdef"))), labels=tmp_path / "labels.csv")


def test_a_csv_line_with_a_field_too_many_is_refused_with_its_number(npy):
    (npy.parent / "labels.csv").write_text("id,label\n0,owl\n1,owl,barn\n")
    with refused("labels.csv", "line 3 has 3 fields", "2"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_csv_quote_that_is_never_closed_is_refused(npy):
    (npy.parent / "labels.csv").write_text('label\n"' + "owl\n" * 50_000)
    with refused("labels.csv"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_csv_line_is_counted_as_an_editor_does_where_quotes_hold_newlines(npy):
    (npy.parent / "labels.csv").write_text('id,label\n0,"owl\nbarn"\n1,owl,barn\n')
    with refused("labels.csv", "line 4 has 3 fields", "2"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_two_columns_of_labels_are_refused(npy):
    (npy.parent / "labels.csv").write_text("id,label,label\n0,owl,wren\n")
    with refused("labels.csv", "several columns called 'label'"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_file_of_labels_that_ends_after_its_header_is_refused(npy):
    (npy.parent / "labels.csv").write_text("id,label\n")
    with refused("labels.csv has no rows", "id, label"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_folder_in_place_of_a_file_of_labels_is_refused(npy):
    (npy.parent / "labels.csv").mkdir()
    with refused("labels.csv"):
        read_features(npy, labels=npy.parent / "labels.csv")


def test_a_truth_that_contradicts_the_labels_is_refused(tmp_path):
    with refused("birds.npz", "differs from its truth", "'0' is labelled 0", "truth is 2", "0 more"):
        read_features(npz(tmp_path, labels=LABELS, truth=TRUTH[::-1].copy()))


def test_integer_labels_with_a_truth_of_other_names_are_refused(tmp_path):
    with refused("birds.npz", "labels are integers but the truth has names", "0 is none of them"):
        read_features(npz(tmp_path, labels=LABELS, truth=np.array(list("aabbcc"))))


def test_integer_labels_are_names_where_the_truth_has_names_too(tmp_path):
    truth = np.array(["0", "0", "1", "1", "other", ""])
    collection = read_features(npz(tmp_path, labels=LABELS, truth=truth))
    assert collection.names == ("0", "1", "other")
    assert collection.labels.tolist() == LABELS.tolist()
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, 1, 1, 2, -1]


def test_a_number_that_differs_from_its_named_truth_is_refused(tmp_path):
    truth = np.array(["other", "0", "1", "1", "other", ""])
    with refused("birds.npz", "'0' is labelled '0'", "truth is 'other'"):
        read_features(npz(tmp_path, labels=LABELS, truth=truth))
