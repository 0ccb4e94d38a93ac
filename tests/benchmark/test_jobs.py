"""What a benchmark computes, and by which methods."""

from pathlib import Path
from typing import Any

import pytest

from newkinds import PIM, InputError, KMeans, SemiSupervisedKMeans
from newkinds.benchmark import jobs
from newkinds.benchmark.jobs import (
    BY_KEY,
    COUNTER_BY_KEY,
    COUNTERS,
    METHODS,
    SHOWN_LAMS,
    Ablation,
    Count,
    Counter,
    Fit,
    Lambdas,
    Method,
    Starts,
    counters_for,
    methods_named,
    with_every_method,
)
from newkinds.benchmark.partitions import partitions
from newkinds.benchmark.runner import run_jobs
from newkinds.benchmark.subjects import Subject
from newkinds.methods import METHODS as ESTIMATORS
from newkinds.objective import PARTITION
from newkinds.selection.n_categories import CategoryCount


def test_the_rows_of_the_tables_stand_in_this_order() -> None:
    first = [
        "kmeans",
        "rankstats",
        "uno",
        "orca",
        "simgcd",
        "sskm",
        "gcd",
        "rim",
        "tim",
        "pim-rule",
        "pim-paper",
        "pim-release",
        "pim-cosine",
        "pim",
    ]
    keys = [method.key for method in METHODS]
    assert keys[: len(first)] == first
    assert set(ESTIMATORS) <= set(keys)
    for key in ESTIMATORS:
        assert type(BY_KEY[key].estimator) is ESTIMATORS[key]


def test_a_method_without_a_row_gets_one_after_the_others_under_its_own_name() -> None:
    rows = (Method("kmeans", "k-means", KMeans()),)
    every = with_every_method(rows, {"sskm": SemiSupervisedKMeans, "kmeans": KMeans})
    assert [(method.key, method.label) for method in every] == [
        ("kmeans", "k-means"),
        ("sskm", "SemiSupervisedKMeans"),
    ]
    assert type(every[1].estimator) is SemiSupervisedKMeans
    assert every[1].when == "usual"
    assert every[1].published is None


def test_methods_are_chosen_by_key_in_the_order_of_the_tables() -> None:
    assert [method.key for method in methods_named(["pim", "kmeans"])] == ["kmeans", "pim"]
    assert [method.key for method in METHODS if method not in methods_named(None)] == [
        "gcd",
        "pim-paper",
        "pim-release",
    ]
    assert [method.key for method in METHODS if method not in methods_named(None, exact=True)] == ["pim-release"]
    with pytest.raises(InputError, match="there is no method 'a', 'b'; choose from kmeans, rankstats"):
        methods_named(["a", "kmeans", "b"])


def test_the_papers_methods_have_the_papers_settings() -> None:
    for key in ("rim", "tim", "pim-rule"):
        assert BY_KEY[key].settings["temperature"] == 25.0
    rule = BY_KEY["pim-rule"].settings
    assert (rule["method"], rule["lam"], rule["consensus"]) == ("PIM", "labelled", 1)
    for key, same in (("pim-paper", PIM.paper()), ("pim-release", PIM.release())):
        assert BY_KEY[key].estimator.get_params() == same.get_params()
    gcd = BY_KEY["gcd"].settings
    assert (gcd["seeding"], gcd["n_init"], gcd["max_iter"]) == ("d2", 100, 200)
    assert not {"n_categories", "device", "random_state"} & set(rule)  # those a job sets


def test_only_exact_rows_are_called_published() -> None:
    rows: list[Method | Counter] = [*METHODS, *COUNTERS]
    for row in rows:
        assert ("published" in row.label) <= (row.when == "exact")
        assert row.cost > 0


def test_estimates_go_with_the_methods() -> None:
    def keys(*methods: str, exact: bool = False) -> list[str]:
        return [counter.key for counter in counters_for(methods_named(methods), exact)]

    usual = ["max-acc-kmeans", "max-acc-pim", "rehearsal"]
    assert keys("kmeans") == keys("pim", "pim-rule") == usual
    assert keys("pim-paper") == ["max-acc-kmeans", "max-acc-pim", "max-acc-paper", "rehearsal"]
    assert keys("gcd") == ["max-acc-kmeans", "max-acc-gcd", "max-acc-pim", "rehearsal"]
    assert keys("kmeans", exact=True) == [counter.key for counter in COUNTERS]
    assert [method.key for method in methods_named(["kmeans"], exact=True)] == ["kmeans", "gcd", "pim-paper"]
    assert COUNTER_BY_KEY["max-acc-paper"].settings == {"count": "max-acc-pim", "recipe": "paper", "n_init": 3}


def test_a_fit_is_that_of_the_estimator(subject: Subject, tmp_path: Path) -> None:
    job = Fit(subject, BY_KEY["pim-rule"])
    results = run_jobs([job], [0, 3], tmp_path, "cpu").of(job)
    for seed, result in zip([0, 3], results, strict=True):
        model = PIM(6, lam="labelled", temperature=25.0, consensus=1, random_state=seed)
        model.fit(subject.collection.features, subject.labels)
        assert result["score"] == subject.score(model.labels_)
        assert result["lam"] == model.lam_
        assert [tuple(point) for point in result["lam_curve"]] == list(model.lam_curve_.items())


def test_a_count_is_that_of_the_rule_with_its_interval(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def estimate(features: Any, labels: Any, rule: str, **options: Any) -> CategoryCount:
        assert features is subject.collection.features
        assert labels is subject.labels
        asked.append((rule, options))
        return CategoryCount(7, {}, (3, 20), rule, interval=(5, 9))

    monkeypatch.setattr(jobs, "estimate_n_categories", estimate)
    results = Count(subject, COUNTER_BY_KEY["max-acc-paper"]).compute([0, 4], [[], []], "cpu")
    assert [(result["k"], result["interval"]) for result in results] == [(7, (5, 9))] * 2
    options = {"n_init": 3, "recipe": "paper", "device": "cpu"}
    assert asked == [("max-acc-pim", options | {"random_state": seed}) for seed in (0, 4)]


def test_a_fit_without_the_true_number_takes_the_estimated_one(subject: Subject, tmp_path: Path) -> None:
    counter = COUNTER_BY_KEY["max-acc-kmeans"]
    count, fit = Count(subject, counter), Fit(subject, BY_KEY["sskm"], counter)
    results = run_jobs([fit], [0, 5], tmp_path, "cpu")
    assert [result["k"] for result in results.of(fit)] == [result["k"] for result in results.of(count)]
    for i, result in enumerate(results.of(count)):
        assert fit.settings(results.needed(fit, i))["fit"]["n_categories"] == result["k"]
    assert Fit(subject, BY_KEY["sskm"]).settings([])["fit"]["n_categories"] == 6


def test_tables_of_terms_and_starts_end_with_pims_own_row(subject: Subject, tmp_path: Path) -> None:
    pim, ablation, starts = Fit(subject, BY_KEY["pim-rule"]), Ablation(subject), Starts(subject)
    results = run_jobs([ablation, starts], [0, 1], tmp_path, "cpu")
    for i, fit in enumerate(results.of(pim)):
        assert len(results.of(ablation)[i]["scores"]) == 6
        assert results.of(ablation)[i]["scores"][-1] == pytest.approx(fit["score"])
        assert len(results.of(starts)[i]["scores"]) == 3
        assert results.of(starts)[i]["scores"][-1] == pytest.approx(fit["score"])


def test_settings_name_every_training(subject: Subject) -> None:
    """The key of a result holds them: other starts, terms or lams must not be taken for these."""
    ablation, starts = (kind(subject).settings([{"lam": 0.25}])["partitions"] for kind in (Ablation, Starts))
    assert [init for init, _ in starts] == ["ssrandom", "sskm++", "sskm"]
    assert [init for init, _ in ablation] == ["sskm"] * 6
    assert len({objective for _, objective in ablation}) == 6
    assert all("lam=0.25" in objective for _, objective in (*ablation, *starts))
    assert Lambdas(subject).settings([{"lam": 0.1}]) == Lambdas(subject).settings([{"lam": 0.2}])
    lambdas = Lambdas(subject).settings([{"lam": 0.1}])["partitions"]
    assert lambdas == [["sskm", repr(PARTITION.at(lam))] for lam in SHOWN_LAMS]
    assert SHOWN_LAMS[:3] == (0.0, 0.01, 0.02)
    assert SHOWN_LAMS[-1] == 1.0


def test_partitions_are_those_of_single_fits(subject: Subject) -> None:
    features, labels = subject.collection.features, subject.labels
    runs = [(0, "sskm", 0.1), (4, "sskm++", 0.1), (4, "ssrandom", 0.5)]
    assignments = partitions(
        features,
        labels,
        [(0, "sskm", PARTITION.at(0.1)), (4, "sskm++", PARTITION.at(0.1)), (4, "ssrandom", PARTITION.at(0.5))],
        6,
    )
    for columns, (seed, init, lam) in zip(assignments, runs, strict=True):
        model = PIM(6, lam=lam, temperature=25.0, init=init, consensus=1, random_state=seed).fit(features, labels)
        assert subject.score(columns) == pytest.approx(subject.score(model.labels_))
