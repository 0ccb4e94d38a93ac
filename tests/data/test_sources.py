"""A path, and what is there: which reader it goes to, and which options make sense."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from newkinds import FeatureSet, InputError
from newkinds.data import RawCollection, read_source
from newkinds.data.pictures import png
from newkinds.data.sources import kind_of

X = np.arange(12, dtype=np.float32).reshape(4, 3)
ROWS = {"text": ["card lost", "refund?", "card gone", "hello"], "label": ["card", "", "card", ""]}


def table(path, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture
def folder(tmp_path):
    for name in ("owl/1.png", "owl/2.png", "unlabelled/1.png"):
        (tmp_path / "birds" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "birds" / name).write_bytes(png(np.full((8, 8), 9, dtype=np.uint8)))
    return tmp_path / "birds"


# Which is which


def test_a_folder_of_images(folder):
    collection = read_source(str(folder))
    assert isinstance(collection, RawCollection)
    assert collection.kind == "images"
    assert collection.labels.tolist() == [0, 0, -1]


def test_a_folder_of_images_with_labels_and_truth(folder, tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\nowl/1.png,owl\n")
    collection = read_source(str(folder), labels=tmp_path / "labels.csv", truth="folders")
    assert collection.labels.tolist() == [0, -1, -1]
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, -1]


def test_a_released_folder(tmp_path):
    for name, array in (
        ("all_feats", X),
        ("targets", np.array([0, 0, 1, 1])),
        ("mask_lab", np.array([True, False, False, False])),
        ("mask_cls", np.array([True, True, False, False])),
    ):
        np.save(tmp_path / f"{name}.npy", array)
    collection = read_source(str(tmp_path))
    assert isinstance(collection, FeatureSet)
    (tmp_path / "targets.npy").unlink()
    with pytest.raises(InputError, match=r"lacks targets\.npy"):
        read_source(str(tmp_path))


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "ndjson", "CSV"])
def test_tables_of_texts(tmp_path, ending):
    path = tmp_path / f"tickets.{ending}"
    frame = pd.DataFrame(ROWS)
    if ending in {"jsonl", "ndjson"}:
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    collection = read_source(str(path))
    assert isinstance(collection, RawCollection)
    assert collection.kind == "texts"
    assert list(collection.items) == ROWS["text"]
    assert collection.labels.tolist() == [0, -1, 0, -1]


def test_lines_of_text(tmp_path):
    (tmp_path / "lines.txt").write_text("one\ntwo\n")
    collection = read_source(str(tmp_path / "lines.txt"))
    assert isinstance(collection, RawCollection)
    assert list(collection.items) == ["one", "two"]


def test_columns_by_name(tmp_path):
    frame = pd.DataFrame({"words": ROWS["text"], "intent": ROWS["label"], "true": list("aabb")})
    frame.loc[:, "intent"] = ["a", "", "", ""]
    frame.to_csv(tmp_path / "t.csv", index=False)
    collection = read_source(str(tmp_path / "t.csv"), text="words", label="intent", truth="true")
    assert isinstance(collection, RawCollection)
    assert list(collection.items) == ROWS["text"]
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, 1, 1]


def test_features_in_every_format(tmp_path):
    np.savez(tmp_path / "a.npz", features=X)
    np.save(tmp_path / "a.npy", X)
    for name in ("a.npz", "a.npy"):
        assert isinstance(read_source(str(tmp_path / name)), FeatureSet)


def test_parquet_of_features(tmp_path):
    source = table(tmp_path / "a.parquet", features=X.tolist(), label=ROWS["label"], text=ROWS["text"])
    collection = read_source(source)
    assert isinstance(collection, FeatureSet)
    assert collection.texts == tuple(ROWS["text"])
    assert isinstance(read_source(table(tmp_path / "b.parquet", a=[0.1, 0.2], b=[1, 2])), FeatureSet)


def test_parquet_of_texts(tmp_path):
    collection = read_source(table(tmp_path / "a.parquet", **ROWS))
    assert isinstance(collection, RawCollection)
    assert collection.labels.tolist() == [0, -1, 0, -1]
    by_number = table(tmp_path / "b.parquet", id=[5, 6, 7, 8], text=ROWS["text"], label=[0, -1, 0, -1])
    assert read_source(by_number).ids == ("5", "6", "7", "8")


def test_parquet_of_features_read_for_its_texts(tmp_path):
    source = table(tmp_path / "a.parquet", features=X.tolist(), text=ROWS["text"])
    assert isinstance(read_source(source, text="text"), RawCollection)


def test_parquet_of_texts_as_pandas_writes_it_after_a_selection(tmp_path):
    """The index is kept as a column of integers, __index_level_0__."""
    frame = pd.DataFrame(ROWS)
    frame[[True, False, True, True]].to_parquet(tmp_path / "a.parquet")
    assert len(read_source(str(tmp_path / "a.parquet"))) == 3


def test_parquet_of_texts_whose_labels_are_numbers_in_a_column_of_another_name(tmp_path):
    source = table(tmp_path / "a.parquet", text=ROWS["text"], intent=[0, -1, 0, -1])
    collection = read_source(source, label="intent")
    assert isinstance(collection, RawCollection)
    assert collection.labels.tolist() == [0, -1, 0, -1]


def test_parquet_of_texts_with_a_column_of_numbers_is_not_taken_for_features(tmp_path):
    """Stars that customers gave are no embedding: a silent wrong answer."""
    source = table(tmp_path / "a.parquet", **ROWS, stars=[1, 5, 2, 3])
    collection = read_source(source)
    assert isinstance(collection, RawCollection)
    assert list(collection.items) == ROWS["text"]


@pytest.mark.parametrize(("n_numbers", "kind"), [(8, "texts"), (9, None)])
def test_with_more_than_eight_columns_of_numbers_a_parquet_of_texts_is_features(tmp_path, n_numbers, kind):
    numbers = {f"n{i}": [1.0, 2.0, 3.0, 4.0] for i in range(n_numbers)}
    source = table(tmp_path / "a.parquet", **ROWS, id=[1, 2, 3, 4], **numbers)
    assert kind_of(Path(source)) == kind


def test_a_column_of_labels_makes_a_parquet_of_many_numbers_texts(tmp_path):
    numbers = {f"n{i}": [1.0, 2.0, 3.0, 4.0] for i in range(20)}
    source = table(tmp_path / "a.parquet", text=ROWS["text"], intent=ROWS["label"], **numbers)
    assert isinstance(read_source(source), FeatureSet)
    collection = read_source(source, label="intent")
    assert isinstance(collection, RawCollection)
    assert collection.names == ("card",)


# Options that make no sense


@pytest.mark.parametrize("option", ["text", "label"])
def test_columns_make_no_sense_of_images_or_features(folder, tmp_path, option):
    columns: dict[str, Any] = {option: "a"}
    with pytest.raises(InputError, match=f"is a folder of images: {option} cannot be used with it"):
        read_source(str(folder), **columns)
    np.savez(tmp_path / "a.npz", features=X)
    with pytest.raises(InputError, match=rf"a\.npz is a set of features: {option} cannot be used with it"):
        read_source(str(tmp_path / "a.npz"), **columns)


def test_options_of_a_published_set():
    with pytest.raises(InputError, match="is a published data set: labels, truth cannot be used"):
        read_source("cub:somewhere", labels=Path("a.csv"), truth="b.csv")


# What is not there


@pytest.mark.parametrize("name", ["missing", "missing.npz", "missing.csv", "missing.parquet", "missing/"])
def test_what_is_not_there(tmp_path, name):
    with pytest.raises(InputError, match="does not exist"):
        read_source(str(tmp_path / name))


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize("ending", ["", ".npz", ".csv", ".parquet"])
def test_a_name_that_no_file_can_have(tmp_path, name, ending):
    with pytest.raises(InputError, match="does not exist"):
        read_source(f"{name}{ending}")
    with pytest.raises(InputError, match="does not exist"):
        read_source(f"cub:{name}")
    np.save(tmp_path / "a.npy", X)
    for labels in (f"{name}.npy", f"{name}.csv"):
        with pytest.raises(InputError, match="does not exist"):
            read_source(str(tmp_path / "a.npy"), labels=Path(labels))
        with pytest.raises(InputError, match="does not exist"):
            read_source(str(tmp_path / "a.npy"), truth=labels)


def test_a_drive_is_not_taken_for_a_published_set():
    with pytest.raises(InputError, match=r"C:/birds does not exist; a source is"):
        read_source("C:/birds")


def test_an_unknown_published_set_is_named():
    with pytest.raises(InputError, match="nonsense"):
        read_source("nonsense:somewhere")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx", "a"])
def test_a_file_of_another_kind(tmp_path, name):
    (tmp_path / name).write_bytes(b"something")
    with pytest.raises(InputError, match=rf"{name} is a .*not read; a source is a folder of images") as refusal:
        read_source(str(tmp_path / name))
    assert "all_feats.npy" not in str(refusal.value)


def test_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match="there are no images"):
        read_source(str(tmp_path))


def test_a_damaged_parquet(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"a\.parquet"):
        read_source(str(tmp_path / "a.parquet"))


def test_a_path_with_a_colon_that_is_there(tmp_path):
    (tmp_path / "at 10:30.txt").write_text("one\ntwo\n")
    assert kind_of(tmp_path / "at 10:30.txt") == "texts"
    assert len(read_source(str(tmp_path / "at 10:30.txt"))) == 2
