"""RawCollection: what it refuses to hold, and what becomes of its labels."""

from pathlib import Path

import numpy as np
import pytest

from newkinds import InputError
from newkinds.data import RawCollection

TEXTS = ["card lost", "refund?", "card eaten"]
LABELS = np.array([0, -1, 0])
NAMES = ("card", "money")


def tickets(**changed) -> RawCollection:
    given = {"items": TEXTS, "ids": ("a", "b", "c"), "labels": LABELS, "truth": np.array([0, 1, 0]), "names": NAMES}
    return RawCollection("texts", **{**given, **changed})


def test_a_truth_that_contradicts_a_label_is_refused_with_the_sample_and_both_names():
    with pytest.raises(InputError, match=r"'c' is labelled 'card' but its truth is 'money' \(and 0 more"):
        tickets(truth=np.array([0, 1, 1]))


def test_a_class_without_a_name_is_refused():
    with pytest.raises(InputError, match="label 1 has no name; there are 1 names"):
        tickets(names=("card",))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"ids": ("a",)}, "3 samples but 1 ids"),
        ({"labels": [0]}, "3 samples but 1 labels"),
        ({"truth": [0]}, "1 labels"),
    ],
)
def test_as_many_ids_and_labels_as_samples_are_needed(changed, problem):
    with pytest.raises(InputError, match=problem):
        tickets(**changed)


def test_a_part_keeps_its_names_and_says_what_was_left_out():
    part = tickets().only(np.array([True, False, True]), skipped=[("b", "too short")])
    assert part.truth is not None
    assert (part.ids, part.labels.tolist(), part.truth.tolist()) == (("a", "c"), [0, 0], [0, 0])
    assert (part.names, part.skipped) == (NAMES, (("b", "too short"),))


def test_feature_vectors_of_images_have_no_texts():
    photos = RawCollection("images", [Path("a.png")], ("a",), np.array([-1]))
    assert photos.with_features(np.eye(1)).texts is None


def test_feature_vectors_take_everything_over():
    collection = tickets().with_features(np.eye(3))
    assert collection.texts == tuple(TEXTS)
    assert (collection.ids, collection.names) == (("a", "b", "c"), NAMES)
    assert collection.truth is not None
    assert (collection.labels.tolist(), collection.truth.tolist()) == ([0, -1, 0], [0, 1, 0])
