"""Samples that are there twice, with a label and without."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds.encoders import duplicates
from newkinds.encoders.duplicates import NEAR, find_duplicates
from newkinds.runtime import listening


def at(degrees: float, length: float = 1.0) -> list[float]:
    return [length * np.cos(np.radians(degrees)), length * np.sin(np.radians(degrees))]


def keys(n: int) -> list[bytes]:
    return [str(i).encode() for i in range(n)]


def test_exact_copies_across_labelled_and_unlabelled():
    labels = np.array([-1, 0, 1, -1, -1])
    found = find_duplicates(labels, [b"a", b"b", b"a", b"b", b"c"], np.eye(5))
    assert sorted(found.exact) == [(1, 3), (2, 0)]
    assert found.near == []
    assert found.conflicting == []


def test_copies_among_the_unlabelled_or_of_one_label_are_nobodys_business():
    found = find_duplicates(np.array([-1, -1, 0, 0]), [b"a", b"a", b"b", b"b"], np.eye(4))
    assert (found.exact, found.near, found.conflicting) == ([], [], [])


def test_the_same_content_with_two_labels():
    found = find_duplicates(np.array([0, 1, 0, -1]), [b"a"] * 4, np.eye(4))
    assert found.conflicting == [(0, 1)]
    assert found.exact == [(0, 3)]


def test_near_ones_are_those_within_ten_degrees_whatever_their_length():
    limit = np.degrees(np.arccos(NEAR))
    features = np.array([at(0, 5), at(90), at(limit - 0.2, 0.01), at(limit + 0.2), at(88, 300)])
    found = find_duplicates(np.array([0, 1, -1, -1, -1]), keys(5), features)
    assert found.near == [(0, 2), (1, 4)]


def test_of_several_near_ones_the_nearest():
    features = np.array([at(0), at(3), at(4)])
    assert find_duplicates(np.array([0, 1, -1]), keys(3), features).near == [(1, 2)]


def test_an_exact_copy_is_not_told_again_as_a_near_one():
    features = np.array([at(0), at(0), at(1)])
    found = find_duplicates(np.array([0, -1, -1]), [b"a", b"a", b"b"], features)
    assert (found.exact, found.near) == ([(0, 1)], [(0, 2)])


@pytest.mark.parametrize("labels", [[-1, -1], [0, 1]])
def test_nothing_to_compare(labels):
    found = find_duplicates(np.array(labels), [b"a", b"b"], np.ones((2, 3)))
    assert (found.exact, found.near) == ([], [])


def test_features_of_zeros_are_near_to_nothing():
    found = find_duplicates(np.array([0, -1, -1]), keys(3), np.array([[0.0, 0], [0, 0], [1, 0]]))
    assert found.near == []


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_features_of_any_size(scale):
    features = (np.array([at(0), at(1), at(50)]) * scale).astype(np.float32)
    assert find_duplicates(np.array([0, -1, -1]), keys(3), features).near == [(0, 1)]


@given(st.lists(st.integers(-1, 2), min_size=1, max_size=12), st.data())
def test_every_pair_is_a_labelled_and_an_unlabelled_sample(labels, data):
    contents = data.draw(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=len(labels), max_size=len(labels)))
    labels = np.array(labels)
    features = np.array([[ord(content) - 96, 1.0, (ord(content) - 98) * 5] for content in contents])
    found = find_duplicates(labels, contents, features)
    for pairs in (found.exact, found.near):
        assert all(labels[known] != -1 and labels[new] == -1 for known, new in pairs)
    assert len({new for _, new in found.exact + found.near}) == len(found.exact + found.near)
    for new in np.flatnonzero(labels == -1):
        twin = any(labels[i] != -1 and contents[i] == contents[new] for i in range(len(labels)))
        assert twin == any(pair[1] == new for pair in found.exact)


def test_many_are_compared_in_parts_and_progress_is_told(monkeypatch):
    monkeypatch.setattr(duplicates, "COMPARED_AT_ONCE", 7)
    features = np.array([at(10 * i) for i in range(30)])
    labels = np.where(np.arange(30) == 4, 0, -1)
    features[29] = features[4]
    said = []
    with listening(lambda *what: said.append(what)):
        assert find_duplicates(labels, keys(30), features).near == [(4, 29)]
    assert said[-1] == ("looking for duplicates", 29, 29)


def test_the_nearest_of_many_labelled_samples_is_found_in_whichever_part(monkeypatch):
    """Also of two that are equally near, in different parts: the first."""
    monkeypatch.setattr(duplicates, "COMPARED_AT_ONCE", 3)
    labelled = [at(20 * i) for i in range(10)]
    new = [at(20 * i + 1) for i in range(10)]
    labels = np.array([0] * 10 + [-1] * 10)
    found = find_duplicates(labels, keys(20), np.array([*labelled, *new]))
    assert found.near == [(i, 10 + i) for i in range(10)]
    twice = np.array([at(50), at(90), at(130), at(170), at(90), at(90)])
    assert find_duplicates(np.array([0] * 5 + [-1]), keys(6), twice).near == [(1, 5)]


def test_notes_name_an_example_of_each_and_nothing_else():
    labels = np.array([0, -1, -1, 1])
    features = np.array([at(0), at(0), at(1), at(90)])
    ids = ["owl/1.png", "new/1.png", "new/2.png", "wren/1.png"]
    notes = find_duplicates(labels, [b"a", b"a", b"b", b"a"], features).notes(ids)
    assert len(notes) == 3
    assert "another label" in notes[0]
    assert "wren/1.png" in notes[0]
    assert "unlabelled samples with the same content as a labelled one: 1," in notes[1]
    assert "new/1.png and owl/1.png" in notes[1]
    assert "new/2.png and owl/1.png" in notes[2]
    assert find_duplicates(labels, keys(4), np.eye(4)).notes(ids) == []
