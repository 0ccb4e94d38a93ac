"""Whatever people pass as a collection in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from PIL import Image

from newkinds import FeatureSet, InputError, discover
from newkinds.data import RawCollection
from newkinds.data.labelling import LabelRules
from newkinds.gathering import gather

X = np.array([[1, 0.1], [1, 0], [0.1, 1], [0, 1]])
NAMES = ["owl", None, "wren", None]
TRUTH = ["owl", "owl", "wren", "ant"]
TEXTS = ["card lost", "  ", "rate?", "card gone"]


@pytest.mark.parametrize(
    "form", [np.asarray, np.ndarray.tolist, torch.tensor, scipy.sparse.csr_array, pd.DataFrame]
)
def test_features_in_every_form(form: Any) -> None:
    collection = gather(form(X), NAMES, truth=TRUTH)
    assert isinstance(collection, FeatureSet)
    assert np.allclose(collection.features, X)
    assert collection.labels.tolist() == [0, -1, 1, -1]
    assert collection.names == ("owl", "wren", "ant")
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, 1, 2]


def test_integers_stay_what_they_are() -> None:
    collection = gather(X, torch.tensor([5, -1, 7, -1]), truth=np.array([5, 5, 7, 9]))
    assert collection.labels.tolist() == [5, -1, 7, -1]
    assert collection.names is None
    assert collection.truth is not None
    assert collection.truth.tolist() == [5, 5, 7, 9]


def test_no_labels_at_all() -> None:
    assert gather(X).n_labelled == 0
    assert gather(TEXTS).n_labelled == 0


def test_a_data_frame_of_features_with_its_labels() -> None:
    frame = pd.DataFrame(X, columns=["wing", "beak"], index=["a", "b", "c", "d"]).assign(bird=NAMES, really=TRUTH)
    collection = gather(frame, label="bird", truth="really")
    assert isinstance(collection, FeatureSet)
    assert collection.columns == ("wing", "beak")
    assert collection.ids == ("a", "b", "c", "d")
    assert collection.names == ("owl", "wren", "ant")
    assert np.array_equal(collection.features, X)


def test_a_data_frame_of_texts() -> None:
    frame = pd.DataFrame({"ticket": TEXTS, "intent": NAMES, "cost": [1, 2, 3, 4]}, index=[10, 11, 12, 13])
    collection = gather(frame, text="ticket", label="intent")
    assert isinstance(collection, RawCollection)
    assert list(collection.items) == ["card lost", "rate?", "card gone"]
    assert collection.ids == ("10", "12", "13")
    assert collection.labels.tolist() == [0, 1, -1]
    assert collection.skipped == (("11", "the text is blank"),)


@pytest.mark.parametrize("gap", [pd.NA, pd.NaT, None, float("nan"), "", " "])
@pytest.mark.parametrize(
    "form", [list, pd.Series, lambda cells: pd.DataFrame({"text": cells})], ids=["list", "series", "frame"]
)
def test_a_first_text_that_is_missing_is_left_out(gap: Any, form: Any) -> None:
    samples = form([gap, "card lost", "rate?"])
    collection = gather(samples, ["card", None, None], text="text" if isinstance(samples, pd.DataFrame) else None)
    assert isinstance(collection, RawCollection)
    assert list(collection.items) == ["card lost", "rate?"]
    assert collection.skipped == (("0", "the text is blank"),)
    assert collection.n_labelled == 0


def test_a_column_names_the_samples() -> None:
    frame = pd.DataFrame({"ticket": TEXTS, "case": ["c", "a", "b", "d"], "label": NAMES})
    collection = gather(frame, text="ticket", id="case")
    assert collection.ids == ("c", "b", "d")
    features = pd.DataFrame(X, columns=["wing", "beak"]).assign(nr=[4, 3, 2, 1])
    assert gather(features, id="nr").ids == ("4", "3", "2", "1")
    with pytest.raises(InputError, match=r"the column 'nr': 1 ids occur more than once: '7'"):
        gather(features.assign(nr=[7, 7, 2, 1]), id="nr")


def test_in_memory_a_name_is_a_name_unless_it_is_said_to_be_none(tmp_path: Path) -> None:
    names = ["owl", "?", "Unsorted", "?"]
    assert gather(X, names).n_labelled == 4
    assert gather(X, names, truth=names).n_labelled == 4
    rules = LabelRules(unlabelled=("?",))
    assert gather(X, names, rules=rules).labels.tolist() == [1, -1, 0, -1]
    assert gather(TEXTS, pd.Series(names), rules=rules).n_labelled == 2
    with pytest.raises(InputError, match="no label is called 'x', which was to mean unlabelled"):
        gather(X, names, rules=LabelRules(unlabelled=("x",)))
    pd.DataFrame({"text": ["a b", "b c", "c d", "d e"], "label": names}).to_csv(tmp_path / "t.csv")
    assert gather(tmp_path / "t.csv").n_labelled == 1
    assert gather(tmp_path / "t.csv", rules=LabelRules(as_is=True)).n_labelled == 4


def test_rows_are_counted_where_an_index_says_nothing() -> None:
    assert gather(pd.DataFrame(X)).ids is None
    assert gather(pd.DataFrame(X, index=[0, 0, 1, 1])).ids is None
    assert gather(pd.DataFrame(X).iloc[2:]).ids == ("2", "3")


def test_a_path_is_read_and_a_collection_taken_as_it_is(tmp_path: Path) -> None:
    np.savez(tmp_path / "birds.npz", features=X, labels=np.array([0, -1, 1, -1]))
    for source in (tmp_path / "birds.npz", str(tmp_path / "birds.npz")):
        collection = gather(source)
        assert collection.labels.tolist() == [0, -1, 1, -1]
        assert gather(collection) is collection
    np.save(tmp_path / "labels.npy", np.array([1, -1, -1, 1]))
    assert gather(tmp_path / "birds.npz", tmp_path / "labels.npy").labels.tolist() == [1, -1, -1, 1]


def test_a_file_of_features_with_labels_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "birds.npy", X)
    collection = gather(tmp_path / "birds.npy", NAMES, truth=TRUTH)
    assert collection.labels.tolist() == [0, -1, 1, -1]
    assert collection.names == ("owl", "wren", "ant")
    with pytest.raises(InputError, match="4 samples but 1 labels"):
        gather(tmp_path / "birds.npy", ["owl"])
    np.savez(
        tmp_path / "birds.npz",
        features=X,
        labels=np.array(["wren", "", "owl", ""]),
        truth=np.array(["wren", "ant", "owl", "owl"]),
    )
    other = gather(tmp_path / "birds.npz", ["", "", "", "owl"])
    assert other.names == ("owl", "ant", "wren")
    assert other.labels.tolist() == [-1, -1, -1, 0]
    assert other.truth is not None
    assert other.truth.tolist() == [2, 1, 0, 0]
    scored = gather(tmp_path / "birds.npz", truth=["wren", "wren", "owl", "emu"])
    assert scored.names == ("owl", "wren", "emu")
    assert scored.labels.tolist() == [1, -1, 0, -1]


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "too few labels": (X, {"labels": ["owl"]}, "4 samples but 1 labels"),
    "too few truths": (X, {"truth": ["owl"]}, "4 samples but 1 labels"),
    "too few labels of texts": (TEXTS, {"labels": [0]}, "4 samples but 1 labels"),
    "a contradiction": (
        X,
        {"labels": NAMES, "truth": ["ant", "owl", "wren", "ant"]},
        "a label differs from its truth",
    ),
    "a column of no table": (X, {"label": "bird"}, "the source is no table: label cannot be used"),
    "texts and a column": (TEXTS, {"text": "bird"}, "the source is no table: text cannot be used"),
    "no such column": (
        pd.DataFrame(X, columns=["a", "b"]),
        {"label": "bird"},
        "no column 'bird'; the columns are a, b",
    ),
    "two kinds of labels": (
        pd.DataFrame({"a": [1.0], "b": [2]}),
        {"label": "b", "labels": [1]},
        "contradict each other",
    ),
    "labels of a collection": (FeatureSet(X, np.full(4, -1)), {"labels": NAMES}, "labels cannot be used with it"),
    "no such file": ("birds.npz", {}, "birds.npz does not exist"),
    "texts and features": (pd.DataFrame({"a": ["x"], "b": [2]}), {}, "could not convert string"),
    "a column as labels": (pd.DataFrame(X), {"labels": "bird"}, "labels must be a list or an array.*got 'bird'"),
    "a file as truth": (X, {"truth": Path("truth.npy")}, "truth must be a list or an array.*got 'truth.npy'"),
    "a mapping": ({}, {}, "not 'dict'"),
    "nothing": (None, {}, "Expected 2D array"),
    "NaN": (np.array([[1, np.nan]]), {}, "NaN"),
    "pixels that are not uint8": ([np.zeros((4, 4, 3))] * 3, {}, "pixels must be uint8"),
    "photos that are not uint8": (np.zeros((2, 4, 4, 3)), {}, "pixels must be uint8"),
    "a single picture": (Image.new("RGB", (4, 4)), {}, "a list of pictures, not a single one"),
    "no samples": ([], {}, "there are no samples"),
    "one dimension": (np.ones(3), {}, "Expected 2D array"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_a_reason(case: str) -> None:
    source, options, message = BAD[case]
    with pytest.raises(InputError, match=message):
        gather(source, **options)


def test_unlabelled_counts_wherever_labels_come_from(tmp_path: Path) -> None:
    np.save(tmp_path / "birds.npy", X)
    rules, names = LabelRules(unlabelled=("unknown",)), ["owl", "unknown", "wren", "unknown"]
    read = gather(tmp_path / "birds.npy", names, rules=rules)
    assert (read.labels.tolist(), read.names) == ([0, -1, 1, -1], ("owl", "wren"))
    taken = gather(gather(X, names), rules=rules)
    assert (taken.labels.tolist(), taken.names) == ([0, -1, 1, -1], ("owl", "wren"))
    assert gather(gather(TEXTS, names), rules=rules).n_labelled == 2
    found = discover(X, names, unlabelled="unknown", method="sskm", n_categories=2)
    assert list(found.names.values()) == ["owl", "wren"]


def test_every_other_row_keeps_its_number() -> None:
    assert gather(pd.DataFrame(X).iloc[::2]).ids == ("0", "2")


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, " "])
def test_samples_without_a_text_are_left_out(missing: Any) -> None:
    frame = pd.DataFrame({"words": ["card lost", missing, "refund"], "label": ["card", "card", None]})
    collection = gather(frame, text="words", label="label")
    assert isinstance(collection, RawCollection)
    assert (list(collection.items), collection.skipped) == (["card lost", "refund"], (("1", "the text is blank"),))
    assert gather(["card lost", missing, "refund"]).ids == ("0", "2")
