"""How many categories there are, counted by rehearsal."""

from typing import Any

import numpy as np
import pytest
import torch

from newkinds import InputError, estimate_n_categories
from newkinds.engine import seed_centroids
from newkinds.labels import UNLABELLED
from newkinds.selection import training
from newkinds.selection.counting import (
    EVEN,
    RATIO,
    RESOLUTION,
    Count,
    _even_density,
    _peak,
    _quantiles,
    _Search,
    _uneven_density,
    count_categories,
)
from newkinds.selection.pairs import SizeRatio
from newkinds.selection.problem import Problem, make_problem
from newkinds.selection.rehearsal import Recovery, draw_rehearsals

NOTHING = np.zeros(0, dtype=np.int64)
RECOVERY = Recovery(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING.astype(bool))


def blobs(sizes: list[int], n_known: int, share: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Well separated categories of so many samples; a share of the known ones' samples is labelled."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    X = np.eye(len(sizes), 16)[truth] + 0.1 * rng.normal(size=(len(truth), 16))
    return X, np.where((truth < n_known) & (rng.random(len(truth)) < share), truth, UNLABELLED)


def posed(X: np.ndarray, y: np.ndarray, seed: int = 0) -> Problem:
    return make_problem(X, y, device="cpu", random_state=seed)


def counted(X: np.ndarray, y: np.ndarray, lower: int, upper: int, seed: int = 0) -> Count:
    problem = posed(X, y, seed)
    return count_categories(problem, lower, upper)


@pytest.fixture(scope="module")
def twelve() -> tuple[np.ndarray, np.ndarray]:
    return blobs([40] * 12, 8)


@pytest.fixture(scope="module")
def found(twelve: tuple[np.ndarray, np.ndarray]) -> Count:
    return counted(*twelve, 8, 200)


def test_twelve_categories_are_counted(found: Count) -> None:
    assert abs(found.n_categories - 12) <= 1
    assert found.interval[0] <= 12 <= found.interval[1]
    assert found.interval[0] <= found.n_categories <= found.interval[1]


def test_both_estimates_are_near(found: Count) -> None:
    assert abs(np.log(found.by_peak / 12)) < np.log(RATIO)
    assert abs(np.log(found.by_size / 12)) < np.log(RATIO)


def test_the_curve_holds_what_was_tried_within_the_bounds(found: Count) -> None:
    assert list(found.curve) == sorted(found.curve)
    assert len(found.curve) >= 3
    assert all(8 <= k <= 200 for k in found.curve)
    assert all(0 <= score <= 1 for score in found.curve.values())
    nearest = min(found.curve, key=lambda k: abs(k - 12))
    assert found.curve[nearest] > found.curve[min(found.curve)]


@pytest.mark.slow
def test_counting_is_repeatable(twelve: tuple[np.ndarray, np.ndarray], found: Count) -> None:
    assert counted(*twelve, 8, 200) == found


@pytest.mark.parametrize(("lower", "upper"), [(8, 10), (15, 40)])
def test_the_bounds_hold_even_where_they_are_wrong(
    twelve: tuple[np.ndarray, np.ndarray], lower: int, upper: int
) -> None:
    count = counted(*twelve, lower, upper)
    assert lower <= count.interval[0] <= count.n_categories <= count.interval[1] <= upper
    assert all(lower <= k <= upper for k in count.curve)


@pytest.mark.parametrize("only", [8, 13])
def test_bounds_that_leave_no_choice_are_the_answer(twelve: tuple[np.ndarray, np.ndarray], only: int) -> None:
    count = counted(*twelve, only, only)
    assert (count.n_categories, count.interval, list(count.curve)) == (only, (only, only), [only])


@pytest.mark.slow
def test_no_new_category_is_counted_where_there_is_none() -> None:
    count = counted(*blobs([40] * 8, 8), 8, 100)
    assert count.n_categories <= 9
    assert count.interval[0] == 8


@pytest.mark.slow
def test_the_estimate_is_reached_by_its_name(twelve: tuple[np.ndarray, np.ndarray]) -> None:
    found = estimate_n_categories(*twelve, method="rehearsal", bounds=(8, 40), random_state=0, device="cpu")
    assert found.method == "rehearsal"
    assert found.bounds == (8, 40)
    assert abs(found.n_categories - 12) <= 1
    assert found.interval is not None
    assert found.interval[0] <= 12 <= found.interval[1]


@pytest.mark.parametrize(("known", "message"), [(0, "there are none"), (1, "needs two")])
def test_fewer_than_two_known_categories_cannot_be_counted_by(
    twelve: tuple[np.ndarray, np.ndarray], known: int, message: str
) -> None:
    X, y = twelve
    with pytest.raises(InputError, match=message):
        estimate_n_categories(X, np.where(y < known, y, UNLABELLED), method="rehearsal", random_state=0)


def test_a_collection_that_is_labelled_throughout_has_no_more_categories() -> None:
    X, y = blobs([20] * 4, 4, share=2.0)
    assert estimate_n_categories(X, y, method="rehearsal", random_state=0).n_categories == 4


@pytest.mark.parametrize("top", [30, 37, 45])
def test_the_peak_of_a_parabola_is_its_top(top: int) -> None:
    numbers = np.unique(np.round(15 * RATIO ** np.arange(11)).astype(int))
    peak = _peak(numbers, 0.8 - np.log(numbers / top) ** 2)
    assert abs(np.log(peak / top)) < np.log(RATIO) / 2


def test_the_peak_of_a_slope_is_its_end() -> None:
    numbers = np.array([10, 12, 14, 17, 20])
    assert _peak(numbers, np.linspace(0, 1, 5)) == pytest.approx(20)
    assert _peak(numbers, np.linspace(1, 0, 5)) == pytest.approx(10)
    assert _peak(np.array([10]), np.array([0.3])) == 10


def test_a_broad_top_counts_more_than_a_lone_spike() -> None:
    numbers = np.round(20 * 1.02 ** np.arange(60)).astype(int)
    numbers = np.unique(numbers)
    broad = 0.8 - np.log(numbers / 30) ** 2
    spiked = broad.copy()
    spiked[-3] = 0.81
    assert abs(np.log(_peak(numbers, spiked) / 30)) < 0.1


@pytest.mark.parametrize("n_new", [0, 2, 6, 24])
def test_sizes_tell_the_number_where_all_categories_are_equal(n_new: int) -> None:
    """6 known categories of 40, half labelled: of the unlabelled samples 120 are of known ones, 40 of each new."""
    y = np.concatenate([np.repeat(np.arange(6), 20), np.full(120 + 40 * n_new, UNLABELLED)])
    problem = posed(np.random.default_rng(0).normal(size=(len(y), 4)), y)
    search = _Search(problem, draw_rehearsals(problem, 4), 0.01)
    assert search._by_size(120 / (120 + 40 * n_new)) == pytest.approx(6 + n_new)


def log_peaks(*peaks: float) -> np.ndarray:
    return np.log(np.repeat(np.array(peaks), 50))


def grid(lower: float, upper: float) -> np.ndarray:
    return np.linspace(np.log(lower - 0.5), np.log(upper + 0.5), RESOLUTION)


def even(size: float, deviation: float, peaks: np.ndarray, lower: int, upper: int) -> np.ndarray:
    at = grid(lower, upper)
    return _quantiles(at, _even_density(at, np.log(size), deviation, peaks))


def test_sizes_and_peak_that_agree_make_a_narrow_interval_about_both() -> None:
    low, middle, high = even(100, 0.03, log_peaks(98, 100, 102), 50, 400)
    assert middle == pytest.approx(100, abs=1)
    assert 92 < low < 97
    assert 103 < high < 108


def test_an_interval_holds_both_of_two_sure_answers_that_disagree() -> None:
    low, middle, high = even(180, 0.035, log_peaks(211, 216, 221), 100, 400)
    assert low < 180 < high
    assert low < middle < high
    assert high > 211


def test_a_peak_that_may_be_anywhere_leaves_the_word_to_the_sizes() -> None:
    _, middle, _ = even(90, 0.1, log_peaks(*np.geomspace(50, 200, 40)), 50, 400)
    assert middle == pytest.approx(90, rel=0.03)


def test_a_bound_can_be_the_answer() -> None:
    low, middle, _ = even(8, 0.03, log_peaks(8), 8, 100)
    assert round(middle) == round(low) == 8


@pytest.mark.parametrize("ratio", [0.25, 0.5, 2.0, 4.0])
def test_sure_pairs_tell_the_number_whatever_the_sizes(ratio: float) -> None:
    """50 known categories, and as many samples of new ones as 40 such categories have."""
    at = grid(50, 1000)
    low, middle, high = _quantiles(at, _uneven_density(at, SizeRatio(np.log(ratio), 0.05), 40.0, 50))
    assert middle == pytest.approx(50 + 40 / ratio, rel=0.03)
    assert low < 50 + 40 / ratio < high
    assert high - low < 0.5 * 40 / ratio


def test_the_less_sure_the_pairs_the_wider_the_interval() -> None:
    at, widths = grid(50, 1000), []
    for deviation in (0.1, 0.3, 1.0):
        low, _, high = _quantiles(at, _uneven_density(at, SizeRatio(0.0, deviation), 40.0, 50))
        widths.append(high / low)
    assert widths == sorted(widths)


def test_pairs_decide_whether_sizes_are_even() -> None:
    search = _Search(posed(*blobs([10] * 4, 2)), [], 0.01)

    def evenness(log: float, deviation: float) -> float:
        search.pairs = SizeRatio(log, deviation)
        return search.evenness

    assert evenness(0.0, 0.1) > 0.75
    assert evenness(np.log(4), 0.2) < 0.01
    assert evenness(np.log(1 / 4), 0.2) < 0.01
    assert evenness(np.log(4), 5.0) == pytest.approx(EVEN, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("known", "new"), [(40, 10), (12, 40)])
def test_categories_of_uneven_sizes_are_counted(known: int, new: int, seed: int) -> None:
    """Were they thought to be even, there would be 11 to 13 and 30."""
    count = counted(*blobs([known] * 10 + [new] * 6, 10, seed=seed), 10, 200)
    assert count.interval[0] <= 16 <= count.interval[1]
    assert count.by_pairs.log == pytest.approx(np.log(new / known), abs=0.4)
    assert 14 <= count.n_categories <= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_further_correct_labels_do_not_mislead(seed: int) -> None:
    """14 of 24 categories are known, each with another share of labels; then more of all, then of four new ones."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(24), 30)
    X = rng.normal(size=(24, 32))[truth] / np.sqrt(32) + 0.15 * rng.normal(size=(len(truth), 32))
    order, shares = rng.random(len(truth)), rng.uniform(0.1, 0.5, 24)
    order[np.unique(truth, return_index=True)[1]] = 0.0  # one of each is labelled first
    for growth, named in ((1.0, 14), (1.8, 14), (1.8, 16), (1.8, 18)):
        y = np.where((truth < named) & (order < growth * shares[truth]), truth, UNLABELLED)
        count = counted(X, y, named, 200)
        assert abs(count.n_categories - 24) <= (6 if growth == 1 else 2)
        assert count.interval[0] <= 24 <= count.interval[1]


def test_unequal_known_categories_say_less_about_the_others() -> None:
    def variance(counts: list[int], number: float) -> float:
        y = np.repeat([*range(len(counts)), UNLABELLED], [*counts, 100])
        problem = posed(np.random.default_rng(0).normal(size=(len(y), 4)), y)
        return _Search(problem, draw_rehearsals(problem, 4), 0.01)._size_variance(number)

    assert variance([30, 30, 30, 30], 8) == 0
    assert variance([8, 10, 12, 10], 8) == 0  # what chance alone makes
    assert 0 < variance([20, 25, 35, 40], 8) < variance([5, 10, 35, 70], 8)


@pytest.mark.slow
def test_one_label_for_each_known_category_does_not_hide_the_new_ones() -> None:
    """No category that keeps labels has one to hide: nothing was seen of how many samples stay, or are lost."""
    X, y = blobs([40] * 12, 8)
    first = np.isin(np.arange(len(y)), [np.flatnonzero(y == c)[0] for c in range(8)])
    count = counted(X, np.where(first, y, UNLABELLED), 8, 14)
    assert abs(np.log(count.by_size / 12)) < 2 * np.log(RATIO)


class Says:
    """In place of `Stays`."""

    def __init__(self, share: float) -> None:
        self.share = share

    def known_share(self, generator: np.random.Generator | None = None) -> float:
        return self.share


def test_sizes_are_read_where_there_are_more_categories() -> None:
    """With few, samples of new categories have none but a known one to go to. Uneven shares know better."""
    search = _Search(posed(*blobs([10] * 4, 2)), [], 0.01)
    search.stays = {4: Says(0.9), 8: Says(0.8), 16: Says(0.4), 32: Says(0.2)}  # type: ignore[dict-item]  # in place of Stays
    assert search.known_share() == pytest.approx(0.3)
    search.measured = Says(0.7)  # type: ignore[assignment]  # likewise
    assert search.known_share() == 0.7


@pytest.mark.parametrize(("peak", "least", "most"), [(30, 7, 42), (10, 7, 14), (6, 5, 14)])
def test_the_search_goes_on_while_the_peak_is_at_its_end(
    monkeypatch: pytest.MonkeyPatch, peak: int, least: int, most: int
) -> None:
    """From a first guess of 10, numbers a fifth apart, at least two on either side of the peak."""

    def visit(self: _Search, numbers: list[int]) -> None:
        self.observations |= {k: [] for k in numbers}

    def estimates(self: _Search) -> tuple[float, float]:
        return float(np.clip(peak, min(self.observations), max(self.observations))), 10.0

    visited: set[int] = set()
    monkeypatch.setattr(_Search, "visit", visit)
    monkeypatch.setattr(_Search, "look_around", lambda self, number: self.visit([number]))
    monkeypatch.setattr(_Search, "estimates", estimates)
    monkeypatch.setattr(_Search, "conclude", lambda self, *_: visited.update(self.observations))
    count_categories(posed(*blobs([10] * 8, 5)), 5, 100)
    assert (min(visited), max(visited)) == (least, most)


def test_numbers_that_are_tried_together_have_the_same_seeds_and_later_ones_others(
    twelve: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[torch.Tensor] = []

    def remembering(*arguments: Any, **options: Any) -> torch.Tensor:
        drawn.append(seed_centroids(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(training, "seed_centroids", remembering)
    problem = posed(*twelve)
    search = _Search(problem, draw_rehearsals(problem, 2), 0.01)
    search.visit([12])
    search.visit([10, 14])
    assert [len(seeds[0]) for seeds in drawn] == [12, 14]  # once for 10 and 14
    assert not torch.equal(drawn[0], drawn[1][:, :12])
