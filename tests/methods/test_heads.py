"""RankStats+, UNO+, ORCA and SimGCD: their losses against direct formulas, and what they find."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from newkinds import ORCA, UNO, InputError, RankStats, SimGCD, accuracy
from newkinds.methods import METHODS
from newkinds.methods.heads import (
    Batch,
    CudaGraphReplay,
    HeadMethod,
    LinearHead,
    Projection,
    cosine_decay,
    labelled_cross_entropy,
    mean_prediction_entropy,
    project,
)
from newkinds.methods.orca import partners
from newkinds.methods.rankstats import same_ranking
from newkinds.methods.simgcd import simgcd_loss, teacher_temperature
from newkinds.methods.uno import UNOHeads, sinkhorn, uno_targets
from newkinds.runtime import listening
from newkinds.selection.problem import Problem, make_problem

HEADS: dict[str, HeadMethod] = {
    "simgcd": SimGCD(4, noise=0.2, random_state=0),
    "uno": UNO(4, noise=0.2, hidden=64, batch_size=64, random_state=0),
    "orca": ORCA(4, noise=0.2, batch_size=64, random_state=0),
}


def clusters(n: int = 60, width: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four tight clusters of n samples; half of the first two is labelled."""
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(4), n)
    X = np.linalg.qr(generator.normal(size=(width, 4)))[0].T[truth] + 0.06 * generator.normal(size=(4 * n, width))
    y = np.where((truth < 2) & (np.arange(4 * n) % 2 == 0), truth, -1)
    return X, y, truth


def test_the_learning_rate_falls_along_a_cosine() -> None:
    rates = [cosine_decay(0.1, 1e-4, progress) for progress in (0, 0.5, 1)]
    assert rates == pytest.approx([0.1, (0.1 + 1e-4) / 2, 1e-4])


def posed() -> Problem:
    return make_problem(*clusters()[:2], device="cpu", random_state=0)


def random_cosines(seed: int, *shape: int) -> torch.Tensor:
    return 2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed)) - 1


@pytest.mark.parametrize("name", HEADS)
def test_easy_clusters_are_found(name: str) -> None:
    X, y, truth = clusters()
    model = clone(HEADS[name]).fit(X, y)
    unlabelled = y < 0
    assert accuracy(truth[unlabelled], model.labels_[unlabelled], [0, 1]).all > 0.95
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert len(model.loss_curve_) == model.n_iter_ == model.max_iter


def test_rankstats_learns_the_labels_and_parts_pairs_by_their_largest_features() -> None:
    # Each category has two largest features of its own, so that the rule for pairs is never wrong.
    generator = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 60)
    X = np.abs(0.05 * generator.normal(size=(240, 8)))
    X[np.arange(240), 2 * truth] += 1
    X[np.arange(240), 2 * truth + 1] += 1
    y = np.where((truth < 2) & (np.arange(240) % 2 == 0), truth, -1)
    model = RankStats(4, n_ranked=2, noise=0.1, batch_size=64, random_state=0).fit(X, y)
    unlabelled = y < 0
    assert accuracy(truth[unlabelled], model.labels_[unlabelled], [0, 1]).all > 0.95


@pytest.mark.parametrize("name", [*HEADS, "rankstats"])
def test_same_seed_same_result(name: str) -> None:
    X, y, _ = clusters(20)
    model = RankStats(4, max_iter=3) if name == "rankstats" else clone(HEADS[name]).set_params(max_iter=3)
    first, second = (type(model)(**model.get_params() | {"random_state": 5}).fit(X, y) for _ in range(2))
    assert np.array_equal(first.weights_, second.weights_)
    other = type(model)(**model.get_params() | {"random_state": 6}).fit(X, y)
    assert not np.array_equal(first.weights_, other.weights_)


def test_global_randomness_is_left_alone() -> None:
    X, y, _ = clusters(10)
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    SimGCD(4, max_iter=2, random_state=0).fit(X, y)
    assert torch.equal(torch.rand(4), expected)


def test_a_stored_second_view_takes_the_place_of_noise() -> None:
    X, y, _ = clusters(20)
    generator = np.random.default_rng(1)
    other = X + 0.3 * generator.normal(size=X.shape)
    quiet, noisy = (SimGCD(4, noise=noise, max_iter=5, random_state=0) for noise in (0.0, 0.5))
    alone = quiet.fit(X, y).weights_
    assert np.array_equal(alone, noisy.fit(X, y, second_view=X).weights_)
    assert not np.allclose(alone, noisy.fit(X, y).weights_)
    assert not np.allclose(alone, noisy.fit(X, y, second_view=other).weights_)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: X[:5], r"second_view must be of X's shape, \(80, 12\); got \(5, 12\)"),
        (lambda X: X[:, :5], r"shape, \(80, 12\); got \(80, 5\)"),
        (lambda X: 3, r"shape, \(80, 12\); got \(\)"),
        (lambda X: np.where(np.arange(80)[:, None] == 3, np.nan, X), "second_view: features must be finite; row 3"),
    ],
)
def test_an_unfit_second_view_is_refused_before_anything_is_searched(
    change: Callable[[np.ndarray], object], message: str
) -> None:
    X, y, _ = clusters(20)
    model = SimGCD("auto", random_state=0)
    with (
        pytest.raises(InputError, match=message),
        listening(lambda stage, *_: pytest.fail(f"{stage} has begun")),
    ):
        model.fit(X, y, second_view=change(X))


@pytest.mark.parametrize("name", [*HEADS, "rankstats"])
def test_a_training_that_diverges_is_told(name: str) -> None:
    X, y, _ = clusters(20)
    model = RankStats(4) if name == "rankstats" else clone(HEADS[name])
    with pytest.raises(
        InputError, match=r"training diverged in epoch \d+ of 5: lower learning_rate, which is 1e\+30"
    ):
        model.set_params(learning_rate=1e30, max_iter=5, random_state=0).fit(X, y)


def test_generators_of_pytorch_are_left_as_they_were() -> None:
    X, y, _ = clusters(10)
    before = torch.get_rng_state()
    SimGCD(4, max_iter=2, device="cpu", random_state=0).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)


def test_uno_predicts_through_its_projection_and_is_restored_with_it() -> None:
    X, y, _ = clusters()
    model = UNO(4, hidden=32, max_iter=5, random_state=0).fit(X, y)
    assert model.weights_.shape == (4, 256)
    assert model.n_features_in_ == 12
    unlabelled = y < 0
    assert np.array_equal(model.predict(X)[unlabelled], model.labels_[unlabelled])
    again = UNO().restore(model.fitted_arrays())
    assert again.n_features_in_ == 12
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    arrays = model.fitted_arrays()
    del arrays["output_bias"]
    with pytest.raises(InputError, match="a part of its projection"):
        UNO().restore(arrays)


def test_a_projection_as_arrays_is_the_network_at_rest() -> None:
    torch.manual_seed(0)
    network = Projection(6, 10, 4)
    features = torch.nn.functional.normalize(torch.randn(50, 6), dim=1)
    for _ in range(3):
        network(features)  # the batch norm learns
    with torch.no_grad():
        expected = network.eval()(features).numpy()
    np.testing.assert_allclose(project(features.numpy(), network.arrays()), expected, atol=1e-6)


def test_simgcd_loss_is_its_definition() -> None:
    cosines, labels = random_cosines(0, 2, 5, 3), torch.tensor([2, -1, 0, -1, -1])
    for epoch, teacher in ((0, 0.07), (1, 0.055), (10, 0.04)):
        p = [[torch.softmax(cosines[v, i] / 0.1, 0) for i in range(5)] for v in range(2)]
        q = [[torch.softmax(cosines[v, i] / teacher, 0) for i in range(5)] for v in range(2)]
        distilled = sum(-(q[1 - v][i] * p[v][i].log()).sum() for v in range(2) for i in range(5)) / 10
        mean = torch.stack([p[v][i] for v in range(2) for i in range(5)]).mean(0)
        entropy = -(mean * mean.log()).sum()
        supervised = sum(-p[v][i][labels[i]].log() for v in range(2) for i in (0, 2)) / 4
        expected = 0.65 * (distilled - 2 * entropy) + 0.35 * supervised
        assert simgcd_loss(cosines, labels, teacher_temperature(epoch, 20), 2.0).item() == pytest.approx(
            expected.item(), rel=1e-5
        )


def test_simgcd_targets_carry_no_gradient() -> None:
    cosines = random_cosines(1, 2, 4, 3).requires_grad_()
    simgcd_loss(cosines, torch.full((4,), -1), 0.04, 0.0).backward()
    with torch.no_grad():
        p, q = torch.softmax(cosines / 0.1, -1), torch.softmax(cosines / 0.04, -1).flip(0)
    assert cosines.grad is not None
    torch.testing.assert_close(cosines.grad, 0.65 * (p - q) / 0.1 / 8, rtol=1e-4, atol=1e-6)


def test_mean_prediction_entropy() -> None:
    log_p = torch.tensor([[[0.5, 0.5], [1.0, 0.0]]]).log()
    assert mean_prediction_entropy(log_p).item() == pytest.approx(
        -0.75 * math.log(0.75) - 0.25 * math.log(0.25), rel=1e-6
    )


def test_orca_loss_is_its_definition() -> None:
    model = ORCA(4, random_state=0, mean_entropy=0.7)
    torch.manual_seed(0)
    views = torch.nn.functional.normalize(torch.randn(2, 6, 5), dim=-1)
    features = torch.nn.functional.normalize(torch.randn(6, 5), dim=-1)
    labels = torch.tensor([0, 1, -1, 0, -1, -1])

    class Head:
        weights = torch.nn.functional.normalize(torch.randn(4, 5), dim=-1)

        def __call__(self, given: torch.Tensor) -> torch.Tensor:
            return 10 * given @ self.weights.T

    head: Any = Head()
    for margin in (2.0, 5.0):
        found = model._loss(head, Batch(views, features, labels, margin / 10))
        logits = head(views)
        p = logits.softmax(-1)
        partner = partners(features, labels)
        pairs = -sum(math.log((p[0, i] * p[1, partner[i]]).sum()) for i in range(6)) / 6
        mean = p[0].mean(0)
        expected = pairs + 0.7 * (mean * mean.log()).sum().item()
        supervised = []
        for i in (0, 1, 3):
            favoured = logits[0, i].clone()
            favoured[labels[i]] += margin
            supervised.append(-favoured.log_softmax(0)[labels[i]].item())
        assert found.item() == pytest.approx(expected + np.mean(supervised), rel=1e-4)


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 20), st.integers(0, 1000))
def test_partners_are_of_the_same_label_or_nearest(n: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = torch.nn.functional.normalize(torch.from_numpy(generator.normal(size=(n, 4))), dim=1)
    labels = torch.from_numpy(generator.integers(-1, 3, n))
    found = partners(features, labels)
    for i, partner in enumerate(found.tolist()):
        if labels[i] != -1:
            assert partner in ([j for j in range(n) if j != i and labels[j] == labels[i]] or [i])
        else:
            assert partner != i
            similarity = features @ features[i]
            similarity[i] = -2
            assert similarity[partner] == similarity.max()


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 6), st.integers(0, 1000))
def test_same_ranking_compares_sets(n_ranked: int, seed: int) -> None:
    features = np.random.default_rng(seed).normal(size=(12, 6))
    top = [set(np.argsort(-row)[:n_ranked]) for row in features]
    expected = [[a == b for b in top] for a in top]
    assert same_ranking(torch.from_numpy(features), n_ranked).tolist() == expected


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 30), st.integers(2, 8), st.integers(0, 1000))
def test_sinkhorn_gives_every_sample_one_and_every_category_an_equal_share(n: int, k: int, seed: int) -> None:
    shares = sinkhorn(random_cosines(seed, n, k).double(), iterations=2000)
    torch.testing.assert_close(shares.sum(1), torch.ones(n, dtype=torch.float64))
    torch.testing.assert_close(shares.sum(0), torch.full((k,), n / k, dtype=torch.float64), rtol=0.05, atol=0.02)


def test_sinkhorn_is_three_rounds_of_scaling() -> None:
    cosines = random_cosines(3, 6, 3).double()
    shares = np.exp(cosines.numpy() / 0.05)
    for _ in range(3):
        shares = shares / shares.sum(0)
        shares = shares / shares.sum(1, keepdims=True)
    np.testing.assert_allclose(sinkhorn(cosines).numpy(), shares)


def test_sinkhorn_leaves_others_out() -> None:
    cosines, among = random_cosines(4, 2, 6, 3), torch.tensor([True, False, True, True, False, False])
    shares = sinkhorn(cosines, among)
    torch.testing.assert_close(shares[:, among], sinkhorn(cosines[:, among]))
    assert not shares[:, ~among].any()
    assert not sinkhorn(cosines, torch.zeros_like(among)).any()


def test_cross_entropy_of_what_is_labelled() -> None:
    log_p = random_cosines(5, 2, 3, 4).log_softmax(-1)
    expected = -(log_p[:, 0, 2] + log_p[:, 2, 1]).sum() / 4
    torch.testing.assert_close(labelled_cross_entropy(log_p, torch.tensor([2, -1, 1])), expected)
    assert labelled_cross_entropy(log_p, torch.full((3,), -1)) == 0
    alone = labelled_cross_entropy(log_p[:1], torch.tensor([2, -1, 1]))
    torch.testing.assert_close(alone, -(log_p[0, 0, 2] + log_p[0, 2, 1]) / 2)


def test_uno_targets_are_labels_or_pseudo_labels() -> None:
    cosines, labels = random_cosines(2, 2, 5, 3), torch.tensor([2, -1, 0, -1, -1])
    targets = uno_targets(cosines, labels)
    assert targets[:, 0].tolist() == [[0, 0, 1]] * 2
    assert targets[:, 2].tolist() == [[1, 0, 0]] * 2
    free = labels < 0
    torch.testing.assert_close(targets[0, free], sinkhorn(cosines[0, free]))
    torch.testing.assert_close(targets[1, free], sinkhorn(cosines[1, free]))


def test_uno_loss_is_its_definition_and_the_views_are_swapped() -> None:
    torch.manual_seed(0)
    heads = UNOHeads(6, n_categories=4, n_known=2, n_heads=2, overclustering=3, hidden=8).eval()
    assert [len(each) for each in heads.prototypes] == [4, 4, 8, 8]  # 2 known and three times 2 new
    views = torch.nn.functional.normalize(torch.randn(2, 5, 6), dim=-1)
    labels = torch.tensor([1, -1, -1, 0, -1])
    with torch.no_grad():
        found = heads.loss(views, labels)
        embedded = heads.projection(views.flatten(0, 1)).unflatten(0, (2, -1))
        losses = []
        for prototypes in heads.prototypes:
            cosines = embedded @ torch.nn.functional.normalize(prototypes, dim=1).T
            log_p, targets = (cosines / 0.1).log_softmax(-1), uno_targets(cosines, labels)
            losses.append(-((targets[1] * log_p[0]).sum() + (targets[0] * log_p[1]).sum()).item() / 10)
    assert found.item() == pytest.approx(np.mean(losses), rel=1e-5)
    np.testing.assert_allclose(heads.losses.numpy(), losses[:2], rtol=1e-5)


def test_uno_keeps_the_prototypes_that_lost_least() -> None:
    heads = UNOHeads(6, n_categories=4, n_known=2, n_heads=3, overclustering=0, hidden=8)
    heads.losses.copy_(torch.tensor([3.0, 1.0, 2.0]))
    partitioner, arrays = UNO()._trained(heads)
    expected = torch.nn.functional.normalize(heads.prototypes[1], dim=1).detach().numpy()
    np.testing.assert_array_equal(partitioner.weights, expected)
    assert partitioner.temperature == pytest.approx(10)
    assert arrays.keys() == heads.projection.arrays().keys()


def test_rankstats_loss_is_its_definition() -> None:
    torch.manual_seed(0)
    head = LinearHead(5, n_categories=4, n_known=2)
    views = torch.nn.functional.normalize(torch.randn(2, 6, 5), dim=-1)
    features = torch.nn.functional.normalize(torch.randn(6, 5), dim=-1)
    labels, model = torch.tensor([0, 1, -1, -1, -1, -1]), RankStats(4, n_ranked=1)
    with torch.no_grad():
        weight = model._begin_epoch(head, posed(), 0.4)
        found = model._loss(head, Batch(views, features, labels, weight))
        p = head(views).softmax(-1)
        known = head(views)[..., :2].log_softmax(-1)
        of_known = known.exp()
        agreement = ((p[0] - p[1]) ** 2).mean() + ((of_known[0] - of_known[1]) ** 2).mean()
        consistency = 5 * math.exp(-5 * 0.6**2) * agreement.item()
        supervised = -np.mean([known[0, i, i].item() for i in range(2)])
        top = features.argmax(1)
        pairs = []
        for i in range(2, 6):
            for j in range(2, 6):
                alike = (p[0, i] * p[1, j]).sum().item()
                pairs.append(-math.log(alike if top[i] == top[j] else 1 - alike))
    assert found.item() == pytest.approx(consistency + supervised + np.mean(pairs), rel=1e-5)


def test_orcas_margin_is_the_uncertainty_of_the_unlabelled_up_to_a_half() -> None:
    X, y, _ = clusters(20)
    model = ORCA(4, batch_size=7)
    problem = make_problem(X, y, device="cpu", random_state=0)
    torch.manual_seed(0)
    head = model._head(problem, 4)
    with torch.no_grad():
        p = head(problem.samples.take(np.flatnonzero(y < 0))).softmax(-1)
    expected = (1 - p.amax(1)).mean().item()
    assert expected < 0.5
    assert model._begin_epoch(head, problem, 0.0) == pytest.approx(expected, rel=1e-5)
    head.temperature = 100.0
    assert model._begin_epoch(head, problem, 0.0) == 0.5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*HEADS, "rankstats"])
def test_recorded_steps_are_the_plain_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = clusters(65)
    model = RankStats(4, random_state=0) if name == "rankstats" else clone(HEADS[name])
    model.set_params(batch_size=32, max_iter=8)  # batches of 32 and 33
    other = X + 0.1 * np.random.default_rng(1).normal(size=X.shape)
    recorded = [clone(model).fit(X, y, second_view=second) for second in (None, other)]
    monkeypatch.setattr(CudaGraphReplay, "PLAIN", 10**9)
    plain = [clone(model).fit(X, y, second_view=second) for second in (None, other)]
    for one, another in zip(recorded, plain, strict=True):
        np.testing.assert_array_equal(one.weights_, another.weights_)
        np.testing.assert_array_equal(one.loss_curve_, another.loss_curve_)


def test_labelled_and_unlabelled_samples_are_drawn_equally_often() -> None:
    X, y, _ = clusters(100)
    y[np.flatnonzero(y >= 0)[10:]] = -1  # 10 labelled of 400
    seen = []

    class Watching(SimGCD):
        def _loss(self, head, batch):
            seen.append(batch.labelled.float().mean().item())
            return super()._loss(head, batch)

    Watching(4, max_iter=20, batch_size=100, device="cpu", random_state=0).fit(X, y)
    assert np.mean(seen) == pytest.approx(0.5, abs=0.03)
    seen.clear()
    Watching._balanced = False
    Watching(4, max_iter=20, batch_size=100, device="cpu", random_state=0).fit(X, y)
    assert np.mean(seen) == pytest.approx(10 / 400, abs=1e-6)


@pytest.mark.parametrize("name", [*HEADS, "rankstats"])
def test_without_labels_or_with_only_labels(name: str) -> None:
    X, _, truth = clusters(15)
    model = RankStats(4, max_iter=3) if name == "rankstats" else clone(HEADS[name]).set_params(max_iter=3)
    with pytest.warns(UserWarning, match="no sample is labelled"):
        model.fit(X, None)
    assert len(model.categories_) == 4
    assert np.array_equal(model.fit(X, truth).labels_, truth)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SimGCD(4, noise=-1.0), "'noise' parameter"),
        (SimGCD(4, mean_entropy=-1.0), "'mean_entropy' parameter"),
        (UNO(4, n_heads=0), "'n_heads' parameter"),
        (RankStats(4, n_ranked=0), "'n_ranked' parameter"),
        (ORCA(4, batch_size=1), "'batch_size' parameter"),
    ],
)
def test_parameters_are_checked(model: HeadMethod, message: str) -> None:
    X, y, _ = clusters(5)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


@pytest.mark.parametrize(
    ("name", "grows"), [("simgcd", True), ("orca", True), ("uno", False), ("rankstats", False)]
)
def test_the_learning_rate_of_simgcd_and_orca_is_for_each_category(
    name: str, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prototype gets one of so many parts of a batch: its step must not shrink with their number."""
    rates: list[float] = []
    step = torch.optim.SGD.step

    def watch(self: torch.optim.SGD, *arguments: Any) -> Any:
        rates.append(float(self.param_groups[0]["lr"]))
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", watch)
    X, y, _ = clusters()
    METHODS[name](n_categories=6, max_iter=4, learning_rate=0.01, device="cpu", random_state=0).fit(X, y)
    first = 0.06 if grows else 0.01
    assert rates[0] == pytest.approx(first)
    assert rates[-1] == pytest.approx(cosine_decay(first, first / 1000, 3 / 4))  # it falls in every epoch


def test_unos_heads_are_compared_by_what_they_lost_in_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that was bad at first and is best in the end is the one that is kept."""
    per_epoch: list[list[float]] = []
    begin = UNO._begin_epoch

    def watch(self: UNO, head: UNOHeads, *arguments: Any) -> float:
        per_epoch.append(head.losses.tolist())
        result = begin(self, head, *arguments)
        assert head.losses.tolist() == [0.0] * len(head.losses)
        return result

    monkeypatch.setattr(UNO, "_begin_epoch", watch)
    X, y, _ = clusters()
    UNO(4, max_iter=3, hidden=16, device="cpu", random_state=0).fit(X, y)
    assert per_epoch[0] == [0.0, 0.0]
    assert all(min(losses) > 0 for losses in per_epoch[1:])
    assert max(per_epoch[2]) < 1.5 * max(per_epoch[1])  # of one epoch each, not added up
