"""Categories cut in two, joined, or filled with copies on purpose are noticed; others are left in peace."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from newkinds import discriminants, separation
from newkinds.labels import IntArray
from newkinds.separation import Separation, crossing, mostly_copies

Features = npt.NDArray[np.float64]


def collection(
    n_categories: int = 20, n_each: int = 40, width: int = 32, spread: float = 0.45, seed: int = 0
) -> tuple[Features, IntArray]:
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_categories), n_each)
    features = generator.normal(size=(n_categories, width))[truth] + spread * generator.normal(
        size=(len(truth), width)
    )
    order = generator.permutation(len(truth))
    features = features[order] / np.linalg.norm(features[order], axis=1, keepdims=True)
    return features, truth[order]


IS_NEW = np.arange(20) >= 10


def test_clear_categories_need_no_advice() -> None:
    features, truth = collection()
    assert Separation(features, truth, IS_NEW).merges() == []
    assert Separation(features, truth, IS_NEW).splits() == []
    assert mostly_copies(features, truth, 20) == []


def test_two_halves_of_a_new_category_may_be_one() -> None:
    features, truth = collection()
    columns = np.where((truth == 19) & (np.arange(len(truth)) % 2 == 0), 20, truth)
    merges = Separation(features, columns, np.append(IS_NEW, True)).merges()
    assert [(merge.first, merge.second) for merge in merges] == [(19, 20)]
    assert merges[0].strength >= separation.ALIKE


def test_halves_of_a_known_category_are_not_ours_to_merge() -> None:
    features, truth = collection()
    columns = np.where((truth == 3) & (np.arange(len(truth)) % 2 == 0), 20, truth)
    assert Separation(features, columns, np.append(IS_NEW, False)).merges() == []


def test_two_kinds_in_a_new_category_may_be_two() -> None:
    features, truth = collection()
    columns = np.where(truth == 19, 18, truth)
    splits = Separation(features, columns, IS_NEW[:19]).splits()
    assert [split.category for split in splits] == [18]
    assert splits[0].strength >= separation.APART


def test_a_category_is_in_one_merge_at_most() -> None:
    features, truth = collection()
    columns = np.where(truth == 19, 19 + np.arange(len(truth)) % 3, truth)
    merges = Separation(features, columns, np.append(IS_NEW, [True, True])).merges()
    assert len(merges) == 1
    assert {merges[0].first, merges[0].second} < {19, 20, 21}


def test_half_precision_and_memory_maps_give_the_same(tmp_path: Path) -> None:
    features, truth = collection()
    columns = np.where(truth == 19, 18, truth)
    np.save(tmp_path / "features.npy", features.astype(np.float16))
    saved = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert [split.category for split in Separation(saved, columns, IS_NEW[:19]).splits()] == [18]


@pytest.mark.parametrize("n_known", [0, 1, separation.LEAST_KNOWN - 1])
def test_with_few_known_categories_there_is_no_advice(n_known: int) -> None:
    features, truth = collection()
    columns = np.where((truth == 19) & (np.arange(len(truth)) % 2 == 0), 20, truth)
    is_new = np.arange(21) >= n_known
    assert Separation(features, columns, is_new).merges() == []
    assert Separation(features, columns, is_new).splits() == []


def test_nothing_new_and_nothing_at_all() -> None:
    features, truth = collection()
    assert Separation(features, truth, np.zeros(20, dtype=bool)).merges() == []
    assert Separation(features, truth, np.zeros(20, dtype=bool)).splits() == []
    one = np.zeros(len(truth), dtype=np.int64)
    assert Separation(features, one, np.ones(1, dtype=bool)).merges() == []
    assert Separation(features, one, np.ones(1, dtype=bool)).splits() == []


def test_empty_and_tiny_categories_are_passed_over() -> None:
    features, truth = collection()
    columns = truth + (truth > 15)  # 16 is empty
    columns[:3] = 21
    is_new = np.arange(23) >= 10  # and so is 22
    assert all(split.category not in (16, 21, 22) for split in Separation(features, columns, is_new).splits())
    assert Separation(features, columns, is_new).merges() == []
    assert mostly_copies(features, columns, 23) == []


def test_samples_that_are_all_the_same_break_nothing() -> None:
    features, columns = np.full((300, 8), 8**-0.5), np.arange(300) % 15
    is_new = np.arange(15) >= 8
    Separation(features, columns, is_new).merges()
    assert Separation(features, columns, is_new).splits() == []


def test_wide_features_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = collection(width=150)
    monkeypatch.setattr(discriminants, "WIDEST", 100)
    monkeypatch.setattr(discriminants, "PROJECTED", 50)
    columns = np.where(truth == 19, 18, truth)
    assert [split.category for split in Separation(features, columns, IS_NEW[:19]).splits()] == [18]


def test_advice_is_always_the_same() -> None:
    features, truth = collection(spread=1.2)
    columns = np.where(truth == 19, 18, truth)
    first, second = (Separation(features, columns, IS_NEW[:19]) for _ in range(2))
    assert first.merges() == second.merges()
    assert first.splits() == second.splits()


def test_crossing_of_mixed_and_of_clear_groups() -> None:
    generator = np.random.default_rng(0)
    mixed = [generator.normal(size=(50, 3)) for _ in range(2)]
    assert crossing(mixed) == pytest.approx(1.0, abs=0.1)
    assert crossing([mixed[0], mixed[1] + 20]) == 0


def test_a_category_of_copies_is_noticed() -> None:
    features, truth = collection()
    rows = np.flatnonzero(truth == 12)
    features[rows[:30]] = features[rows[0]] + 1e-3 * np.random.default_rng(0).normal(size=(30, 32))
    (copies,) = mostly_copies(features, truth, 20)
    assert copies.category == 12
    assert copies.share == pytest.approx(30 / 40)


def test_copies_are_judged_by_what_is_usual() -> None:
    features, truth = collection(spread=0.001)  # everything in a category is nearly the same
    assert mostly_copies(features, truth, 20) == []


def test_many_copies_are_looked_for_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = collection()
    rows = np.flatnonzero(truth == 12)
    features[rows] = features[rows[0]]
    monkeypatch.setattr(separation, "SEARCHED", 20)
    monkeypatch.setattr(separation, "SEARCHED_ROWS", 7)
    assert mostly_copies(features, truth, 20) == [(12, 1.0)]


def test_a_single_category_of_copies() -> None:
    assert mostly_copies(np.ones((30, 4)), np.zeros(30, dtype=np.int64), 1) == [(0, 1.0)]
    assert mostly_copies(np.ones((1, 4)), np.zeros(1, dtype=np.int64), 1) == []
