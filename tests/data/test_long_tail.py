"""Long-tailed versions: sizes as the profile says, labels in their share, every sample with what belongs to it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds import UNLABELLED, FeatureSet, InputError
from newkinds.data import digits
from newkinds.data.long_tail import exponential_profile, long_tailed


def build(sizes, n_labelled, *, shuffled_by: int = 0, **fields) -> FeatureSet:
    """So many samples and labelled ones of class 0, 1, …, in random order; the row stands in the features."""
    truth = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(len(truth)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    labels = np.where(place < np.repeat(n_labelled, sizes), truth, UNLABELLED)
    order = np.random.default_rng(shuffled_by).permutation(len(truth))
    return FeatureSet(np.arange(len(truth))[:, None] + 0.5, labels[order], truth[order], **fields)


def balanced(n_classes: int = 6, size: int = 100, n_labelled: int = 40) -> FeatureSet:
    """Half of the classes are known."""
    return build([size] * n_classes, [n_labelled] * (n_classes // 2) + [0] * (n_classes - n_classes // 2))


def sizes_of(collection: FeatureSet, n_classes: int | None = None) -> np.ndarray:
    assert collection.truth is not None
    return np.bincount(collection.truth, minlength=n_classes or 0)


def labelled_of(collection: FeatureSet, n_classes: int) -> np.ndarray:
    return np.bincount(collection.labels[collection.labels != UNLABELLED], minlength=n_classes)


def rows_of(collection: FeatureSet) -> list[int]:
    """Which rows of what `build` made are there."""
    return (collection.features[:, 0] - 0.5).astype(int).tolist()


def asked_of(largest: int, imbalance: float, n_classes: int) -> list[float]:
    return [largest * imbalance ** (-rank / (n_classes - 1)) for rank in range(n_classes)]


@st.composite
def collections(draw):
    classes = draw(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=2, max_size=8))
    sizes = [size for size, _ in classes]
    return build(sizes, [min(pair) for pair in classes], shuffled_by=draw(st.integers(0, 9)))


imbalances = st.floats(1, 200) | st.sampled_from([1.0, 2.0, 8.0, 27.0, 100.0, 1e300])
seeds = st.integers(0, 2**32)


# Sizes


@given(collections(), imbalances, seeds)
def test_the_sizes_follow_the_profile(collection, imbalance, seed):
    there = sizes_of(collection)
    kept = sizes_of(long_tailed(collection, imbalance, seed=seed), len(there))
    assert (kept >= 1).all()
    assert (kept <= there).all()
    asked = asked_of(int(kept.max()), imbalance, len(there))
    for size, wanted in zip(sorted(kept.tolist(), reverse=True), asked, strict=True):
        assert abs(size - max(wanted, 1)) <= 0.5 + 1e-9


@given(collections(), imbalances)
def test_no_larger_profile_would_fit(collection, imbalance):
    there = sorted(sizes_of(collection).tolist(), reverse=True)
    largest = int(exponential_profile(np.array(there), imbalance)[0])
    asked = asked_of(largest + 1, imbalance, len(there))
    too_much = [wanted > size + 0.499999 for wanted, size in zip(asked, there, strict=True)]
    assert any(too_much) or asked[-1] > there[-1]


@given(collections(), imbalances, seeds)
def test_the_imbalance_is_that_asked_for_but_for_rounding(collection, imbalance, seed):
    kept = sizes_of(long_tailed(collection, imbalance, seed=seed))
    assert kept.min() == max(1, round(kept.max() / imbalance))


def test_equal_classes_keep_the_size_of_the_largest():
    tailed = long_tailed(balanced(), 50)
    assert sorted(sizes_of(tailed).tolist(), reverse=True) == [100, 46, 21, 10, 4, 2]


def test_the_long_tailed_cifar100_of_the_field_has_these_sizes():
    kept = exponential_profile(np.full(100, 500), 100)
    assert kept[:3].tolist() == [500, 477, 456]
    assert kept[-1] == 5


def test_one_huge_class_does_not_spoil_the_profile():
    kept = exponential_profile(np.array([30, 30, 10_000, 30, 30]), 10)
    assert kept.tolist() == [54, 30, 17, 10, 5]


def test_one_small_class_does_not_spoil_the_imbalance():
    assert exponential_profile(np.array([1000, 2, 1000]), 50).tolist() == [100, 14, 2]


def test_classes_smaller_than_the_imbalance_end_at_one_sample():
    collection = build([30] * 5, [10] * 5)
    tailed = long_tailed(collection, 1000)
    assert sorted(sizes_of(tailed, 5).tolist()) == [1, 1, 1, 5, 30]


def test_a_set_that_has_the_profile_already_stays_as_it_is():
    collection = build([4, 200, 28, 75, 11], [2, 0, 14, 0, 5])
    assert rows_of(long_tailed(collection, 50)) == list(range(len(collection)))


def test_imbalance_one_makes_classes_equally_large():
    tailed = long_tailed(build([30, 12, 50], [10, 0, 0]), 1)
    assert sizes_of(tailed).tolist() == [12, 12, 12]


@given(seeds)
def test_imbalance_one_leaves_a_balanced_set_as_it_is(seed):
    collection = balanced()
    same = long_tailed(collection, 1, seed=seed)
    assert np.array_equal(same.features, collection.features)
    assert np.array_equal(same.labels, collection.labels)
    assert same.truth is not None
    assert collection.truth is not None
    assert np.array_equal(same.truth, collection.truth)


def test_classes_whose_numbers_have_gaps():
    truth = np.array([7, 7, 7, 7, 2**40, 2**40, 2**40, 2**40])
    tailed = long_tailed(FeatureSet(np.eye(8), np.full(8, -1), truth), 4)
    assert tailed.truth is not None
    assert sorted(np.unique(tailed.truth, return_counts=True)[1].tolist()) == [1, 4]
    assert np.unique(tailed.truth).tolist() == [7, 2**40]


# Which classes are large


def test_every_class_comes_to_every_rank():
    orders = [np.argsort(-sizes_of(long_tailed(balanced(), 50, seed=seed))) for seed in range(300)]
    counts = np.array([np.bincount(at, minlength=6) for at in np.transpose(orders)])  # (ranks, classes)
    assert counts.min() >= 30  # 50 in the mean, 6.5 the standard deviation
    assert counts.max() <= 75


def test_known_and_novel_classes_are_spread_alike():
    sizes = [sizes_of(long_tailed(balanced(), 50, seed=seed), 6) for seed in range(300)]
    known = [size[:3].sum() / size.sum() for size in sizes]
    assert 0.45 < np.mean(known) < 0.55
    assert np.std(known) > 0.1


def test_of_unequal_classes_every_order_that_they_can_fill_is_equally_likely():
    collection = build([9, 9, 4, 4], [0, 0, 0, 0])  # 9, 5, 3 and 2 are asked for
    found = [tuple(sizes_of(long_tailed(collection, 5, seed=seed)).tolist()) for seed in range(400)]
    orders = {order: found.count(order) for order in found}
    assert len(orders) == 4  # the first two have the head, the others the tail
    assert min(orders.values()) >= 70
    assert max(orders.values()) <= 130


# Which samples


def test_the_same_seed_gives_the_same_samples_and_another_others():
    collection = balanced()
    first, again, other = (rows_of(long_tailed(collection, 20, seed=seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


@given(st.integers(0, 100), st.floats(1, 100), st.floats(1, 100))
def test_a_greater_imbalance_keeps_a_part_of_what_a_smaller_one_keeps(seed, one, other):
    smaller, greater = sorted([one, other])
    kept = [set(rows_of(long_tailed(balanced(), imbalance, seed=seed))) for imbalance in (smaller, greater)]
    assert kept[1] <= kept[0]


def test_every_sample_may_be_kept():
    times = np.zeros(60)
    for seed in range(200):
        times[rows_of(long_tailed(balanced(size=10, n_labelled=4), 5, seed=seed))] += 1
    # 45 % of a class in the mean; of the labelled and of the unlabelled ones about the same
    assert times.min() >= 50
    assert times.max() <= 140


@given(collections(), imbalances, seeds)
def test_the_order_stays_and_all_that_belongs_to_a_sample_follows(collection, imbalance, seed):
    tailed = long_tailed(collection, imbalance, seed=seed)
    rows = rows_of(tailed)
    assert rows == sorted(set(rows))
    assert tailed.labels.tolist() == collection.labels[rows].tolist()
    assert tailed.truth is not None
    assert collection.truth is not None
    assert tailed.truth.tolist() == collection.truth[rows].tolist()
    assert tailed.sample_ids() == [str(row) for row in rows]  # what they were called before


def test_everything_a_collection_has_is_kept():
    n = 24
    pixels = np.random.default_rng(0).integers(0, 255, size=(n, 4, 4, 3)).astype(np.uint8)
    collection = build(
        [8, 8, 8],
        [4, 4, 0],
        names=("owl", "wren", "ant"),
        ids=tuple(f"bird-{i}" for i in range(n)),
        columns=("height",),
        texts=tuple(f"text {i}" for i in range(n)),
        images=pixels,
        encoder={"name": "tiny", "kind": "images", "fingerprint": "1"},
        skipped=(("x.jpg", "it is empty"),),
        notes=("a note",),
    )
    tailed = long_tailed(collection, 4, seed=1)
    rows = rows_of(tailed)
    assert len(rows) == 14
    assert tailed.ids == tuple(f"bird-{row}" for row in rows)
    assert tailed.texts == tuple(f"text {row}" for row in rows)
    assert isinstance(tailed.images, np.ndarray)
    assert np.array_equal(tailed.images, pixels[rows])
    for field in ("names", "columns", "encoder", "skipped"):
        assert getattr(tailed, field) == getattr(collection, field)
    assert tailed.notes == (
        "a note",
        "made long-tailed (imbalance 4, seed 1): 24 → 14 samples; the largest class has 8, the smallest 2",
    )


def test_pictures_that_are_made_when_asked_for_are_not_asked_for():
    class Pictures(list):
        def __getitem__(self, at):
            assert isinstance(at, int)
            asked.append(at)
            return np.full((2, 2), at, dtype=np.uint8)

    asked: list[int] = []
    collection = build([8, 8], [4, 0], images=Pictures(range(16)))
    tailed = long_tailed(collection, 4)
    rows = rows_of(tailed)
    images: Any = tailed.images
    assert len(images) == len(rows) == 10
    assert asked == []
    assert images[1][0, 0] == rows[1]
    assert images[np.int64(-1)][0, 0] == rows[-1]
    assert [picture[0, 0] for picture in images[2:5]] == rows[2:5]
    assert [picture[0, 0] for picture in images] == rows
    with pytest.raises(IndexError):
        images[10]


def test_of_a_memory_map_only_what_is_kept_is_in_memory(tmp_path):
    there = balanced()
    np.save(tmp_path / "features.npy", there.features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    tailed = long_tailed(FeatureSet(mapped, there.labels, there.truth), 10, seed=2)
    assert type(tailed.features) is np.ndarray
    assert not np.shares_memory(tailed.features, mapped)
    assert np.array_equal(tailed.features, long_tailed(there, 10, seed=2).features)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int64"])
def test_features_keep_their_type(dtype):
    collection = FeatureSet(np.ones((8, 2), dtype), np.full(8, -1), np.arange(8) % 2)
    assert long_tailed(collection, 2).features.dtype == dtype


# Labels


@given(collections(), imbalances, seeds)
def test_the_labelled_share_of_every_class_stays(collection, imbalance, seed):
    there, labelled = sizes_of(collection), labelled_of(collection, 8)[: collection.truth.max() + 1]
    tailed = long_tailed(collection, imbalance, seed=seed)
    kept, still = sizes_of(tailed, len(there)), labelled_of(tailed, len(there))
    assert np.array_equal(tailed.known, collection.known)
    wanted = kept * labelled / there
    assert (still[labelled == 0] == 0).all()
    assert (kept - still)[labelled == there].tolist() == [0] * int((labelled == there).sum())
    partly = (labelled > 0) & (labelled < there)
    assert (still[partly] >= 1).all()
    assert ((kept - still)[partly & (kept > 1)] >= 1).all()
    off = np.abs(still - wanted)
    free = (wanted >= 1) & (kept - wanted >= 1)  # where neither bound is in the way
    assert (off[free] <= 0.5).all()
    assert (off < 1).all()


def test_a_known_class_of_which_one_sample_is_left_keeps_its_label():
    collection = build([40, 40, 40], [1, 1, 1])
    tailed = long_tailed(collection, 1000)
    assert labelled_of(tailed, 3).tolist() == [1, 1, 1]
    assert sorted(sizes_of(tailed, 3).tolist()) == [1, 1, 40]


def test_of_two_samples_of_a_known_class_one_stays_unlabelled():
    collection = build([10, 10], [9, 9])
    tailed = long_tailed(collection, 5)
    small = int(np.argmin(sizes_of(tailed)))
    assert sizes_of(tailed)[small] == 2
    assert labelled_of(tailed, 2)[small] == 1


def test_a_collection_without_labels_stays_without():
    assert long_tailed(build([20, 20], [0, 0]), 10).n_labelled == 0


# What is refused


@pytest.mark.parametrize("imbalance", [0.99, 0, -5, float("nan"), float("inf"), float("-inf")])
def test_an_imbalance_that_is_none_is_refused(imbalance):
    with pytest.raises(InputError, match=f"imbalance must be a number of at least 1.*got {imbalance}"):
        long_tailed(balanced(), imbalance)


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match="seed must be a whole number of at least 0; got -1"):
        long_tailed(balanced(), 10, seed=-1)


def test_without_a_truth_there_is_no_profile():
    with pytest.raises(
        InputError, match=r"every sample must have one; 1797 of 1797 have none: give them as the truth$"
    ):
        long_tailed(FeatureSet(digits().features, digits().labels), 10)


def test_the_truth_of_every_sample_is_needed():
    truth = np.array([0, 1, -1, 1, -1])
    with pytest.raises(InputError, match="2 of 5 have none"):
        long_tailed(FeatureSet(np.eye(5), np.full(5, -1), truth), 10)


def test_a_single_class_has_no_tail():
    with pytest.raises(InputError, match="two classes or more; all 20 samples are of one"):
        long_tailed(build([20], [5]), 10)
