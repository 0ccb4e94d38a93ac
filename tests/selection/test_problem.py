"""What of a large collection is looked at to find a start."""

import numpy as np
import pytest

from newkinds import PIM, InputError
from newkinds.selection import problem as problem_module
from newkinds.selection.problem import Problem, make_problem


def posed(n: int, labelled: int, known: int) -> Problem:
    rng = np.random.default_rng(0)
    labels = np.full(n, -1)
    labels[rng.permutation(n)[:labelled]] = np.arange(labelled) % known
    return make_problem(rng.normal(size=(n, 6)), labels, device="cpu", random_state=0)


def test_a_small_collection_is_its_own_excerpt() -> None:
    whole = posed(500, 100, 4)
    assert whole.excerpt(8) is whole


@pytest.mark.parametrize("labelled", [30, 300, 980])
def test_an_excerpt_has_what_a_start_needs(monkeypatch: pytest.MonkeyPatch, labelled: int) -> None:
    """As many samples as asked for, each once, every known category, and enough unlabelled ones."""
    monkeypatch.setattr(problem_module, "EXCERPT", 200)
    monkeypatch.setattr(problem_module, "EXCERPT_CATEGORY", 1)
    whole = posed(1000, labelled, 10)
    part = whole.excerpt(12)
    assert 200 <= len(part.columns) == len(part.samples) <= 200 + 11
    assert set(part.columns[part.labelled]) == set(range(10))
    assert (~part.labelled).sum() >= min(100, 1000 - labelled)
    rows = part.samples.take(np.arange(len(part.samples))).numpy()
    assert len(np.unique(rows, axis=0)) == len(rows)
    among = {tuple(row) for row in whole.samples.take(np.arange(1000)).numpy()}
    assert all(tuple(row) in among for row in rows)


def test_many_categories_get_a_larger_excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problem_module, "EXCERPT", 100)
    assert len(posed(1000, 20, 4).excerpt(10).columns) >= 640


def test_a_fit_from_an_excerpt_finds_the_same_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 6, 3000)
    X = np.eye(6, 12)[truth] * 4 + rng.normal(size=(3000, 12)) * 0.4
    y = np.where((truth < 3) & (rng.random(3000) < 0.5), truth, -1)
    monkeypatch.setattr(problem_module, "EXCERPT", 400)
    monkeypatch.setattr(problem_module, "EXCERPT_CATEGORY", 10)
    model = PIM(6, lam=0.1, random_state=0).fit(X, y)
    assert np.mean(model.labels_[truth < 3] == truth[truth < 3]) > 0.99
    assert all(np.bincount(model.labels_[truth == c]).max() > 0.98 * (truth == c).sum() for c in range(3, 6))


def test_more_categories_than_memory_can_hold_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(size=(100_010, 4)).astype(np.float32)
    labels = np.where(np.arange(len(features)) < 100_000, np.arange(len(features)), -1)
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 8_000_000)
    monkeypatch.setattr("newkinds.engine.clustering.draw_seeds", lambda *_: pytest.fail("it has begun"))
    with pytest.raises(
        InputError,
        match=r"100,005 categories and 4 features takes about 12\.8 MB of memory, and 8\.0 MB are free; give fewer",
    ):
        PIM(n_categories=100_005, lam=0.3, device="cpu").fit(features, labels)
