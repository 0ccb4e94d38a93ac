"""Jobs, what is kept of them, and the reports made of them, on a small feature set."""

import csv
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from newkinds import PIM, FeatureSet, InputError, KMeans, write_features
from newkinds.benchmark import NAMES, jobs, run_benchmark, runner
from newkinds.benchmark.jobs import BY_KEY, SHOWN_LAMS, Ablation, Fit, Job, Lambdas, Result, Starts, methods_named
from newkinds.benchmark.published import DATASETS
from newkinds.benchmark.reports import REPORTS
from newkinds.benchmark.runner import run_jobs
from newkinds.benchmark.subjects import Subject, read_subjects
from newkinds.objective import PARTITION

METHODS = ["kmeans", "sskm", "rim", "pim-paper"]


def feature_set(n_classes: int = 6, n: int = 60, width: int = 10, seed: int = 0) -> FeatureSet:
    """Overlapping clusters; half of the classes is known, half of their samples labelled."""
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(n_classes), n)
    features = generator.normal(size=(n_classes, width))[truth] + 0.9 * generator.normal(size=(len(truth), width))
    labels = np.where((truth < n_classes // 2) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    return FeatureSet(features.astype(np.float32), labels, truth)


@dataclass(frozen=True)
class Jammed(Job):
    """A job that nobody foresaw to fail."""

    @property
    def label(self) -> str:
        return f"{self.subject.name}: jammed"

    def settings(self, given: Sequence[Result]) -> dict[str, str]:
        return {}

    def compute(self, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        raise OSError("too bad")


@dataclass(frozen=True)
class Needing(Jammed):
    """A job that needs another."""

    other: Job

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.other,)


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject("small", feature_set())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "sets" / "small.npz"
    path.parent.mkdir()
    write_features(feature_set(), path)
    return path


def test_a_fit_is_that_of_the_estimator(subject: Subject, tmp_path: Path) -> None:
    job = Fit(subject, BY_KEY["pim-paper"])
    found = run_jobs([job], [0, 3], tmp_path, "cpu").of(job)
    for seed, result in zip([0, 3], found, strict=True):
        model = PIM(6, lam="labelled", temperature=25.0, consensus=1, random_state=seed)
        model.fit(subject.collection.features, subject.labels)
        assert result["score"] == subject.score(model.labels_)
        assert result["lam"] == model.lam_
        assert [tuple(each) for each in result["lam_curve"]] == list(model.lam_curve_.items())


def test_tables_of_terms_starts_and_lambda_contain_pims_own_row(subject: Subject, tmp_path: Path) -> None:
    pim, ablation, starts, lambdas = (
        Fit(subject, BY_KEY["pim-paper"]),
        Ablation(subject),
        Starts(subject),
        Lambdas(subject),
    )
    seeds = [0, 1, 2]
    results = run_jobs([ablation, starts, lambdas], seeds, tmp_path, "cpu")
    for i in range(len(seeds)):
        own = results.of(pim)[i]
        assert results.of(ablation)[i]["scores"][-1] == pytest.approx(own["score"])
        assert results.of(starts)[i]["scores"][-1] == pytest.approx(own["score"])
        assert results.of(lambdas)[i]["scores"][SHOWN_LAMS.index(own["lam"])] == pytest.approx(own["score"])


def test_partitions_are_those_of_single_fits(subject: Subject) -> None:
    features, labels = subject.collection.features, subject.labels
    found = jobs.partitions(
        features,
        labels,
        [(0, "sskm", PARTITION.at(0.1)), (4, "sskm++", PARTITION.at(0.1)), (4, "ssrandom", PARTITION.at(0.5))],
        6,
    )
    for columns, (seed, init, lam) in zip(
        found, [(0, "sskm", 0.1), (4, "sskm++", 0.1), (4, "ssrandom", 0.5)], strict=True
    ):
        model = PIM(6, lam=lam, temperature=25.0, init=init, consensus=1, random_state=seed).fit(features, labels)
        assert subject.score(columns) == pytest.approx(subject.score(model.labels_))


def test_what_is_there_is_not_computed_again(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    every = [Fit(subject, method) for method in methods_named(["kmeans", "sskm"])]
    first = run_jobs(every, [0], tmp_path, "cpu", said.append)
    assert len(said) == 2
    second = run_jobs(every, [0, 1], tmp_path, "cpu", said.append)
    assert len(said) == 4  # of both methods the new seed only
    assert [second.of(job)[0] for job in every] == [first.of(job)[0] for job in every]  # seconds too
    run_jobs(every, [1], tmp_path, "cpu", said.append)
    assert len(said) == 4


@pytest.mark.slow
def test_workers_find_what_one_process_finds(subject: Subject, tmp_path: Path) -> None:
    every = [Starts(subject), *(Fit(subject, method) for method in methods_named(["kmeans", "sskm"]))]
    said: list[str] = []
    alone = run_jobs(every, [0, 1], tmp_path / "alone", "cpu")
    shared = run_jobs(every, [0, 1], tmp_path / "shared", "cpu", said.append, workers=2)
    assert list(shared.found) == list(alone.found)
    for job in alone.found:
        for one, other in zip(alone.of(job), shared.of(job), strict=True):
            assert one | {"seconds": 0} == other | {"seconds": 0}
    assert len(said) == 7  # three methods (the starts need PIM's lambda) for each seed, the starts for both at once
    run_jobs(every, [0, 1], tmp_path / "shared", "cpu", said.append, workers=2)
    assert len(said) == 7


def test_no_worker_waits_while_a_kept_result_makes_a_job_possible(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ablation needs PIM's lam, which is there: it must not wait for the k-means before it."""
    pim, kmeans, ablation = Fit(subject, BY_KEY["pim-paper"]), Fit(subject, BY_KEY["kmeans"]), Ablation(subject)
    run_jobs([pim], [0], tmp_path, "cpu")
    submitted: list[int] = []

    @contextmanager
    def computers(*_: object) -> Iterator[Callable[..., Future[list[Result]]]]:
        def submit(number: int, *task: object) -> Future[list[Result]]:
            submitted.append(number)
            return Future()

        yield submit

    def waits(*_: object, **options: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(runner, "_computers", computers)
    monkeypatch.setattr(runner, "wait", waits)
    with pytest.raises(InterruptedError):
        run_jobs([pim, kmeans, ablation], [0], tmp_path, "cpu", workers=2)
    assert submitted == [1, 2]


def test_what_cannot_be_computed_is_told_and_the_rest_goes_on(subject: Subject, tmp_path: Path) -> None:
    """PIM fails, and what needs it cannot be computed either; k-means, which comes after, is."""
    impossible = Fit(subject, jobs.Method("pim-paper", "PIM", PIM(lam=-1.0)))
    every = [impossible, Needing(subject, impossible), Fit(subject, BY_KEY["kmeans"])]
    said: list[str] = []
    message = (
        r"^these could not be computed; .*\nsmall: pim-paper, seed 7: .*lam.*\nsmall: pim-paper, seed 8: .*lam"
    )
    with pytest.raises(InputError, match=message):
        run_jobs(every, [7, 8], tmp_path, "cpu", said.append)
    assert [line.startswith("failed: small: pim-paper") for line in said] == [True, True, False, False]
    run_jobs(every[2:], [7, 8], tmp_path, "cpu", said.append)
    assert len(said) == 4


def test_an_unforeseen_error_says_what_was_computed(subject: Subject, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"^too bad\nThis was small: jammed, seed 7\.$"):
        run_jobs([Jammed(subject)], [7], tmp_path, "cpu")


@pytest.mark.slow
def test_an_unforeseen_error_in_a_worker_ends_all_of_them(subject: Subject, tmp_path: Path) -> None:
    forever = jobs.Method("pim", "PIM", PIM(lam=0.1, solver="adam", max_iter=10**9, consensus=1))
    began = time.monotonic()
    with pytest.raises(OSError, match="too bad"):
        run_jobs([Fit(subject, forever), Jammed(subject)], [0], tmp_path, "cpu", workers=2)
    assert time.monotonic() - began < 60
    assert not multiprocessing.active_children()


def test_other_samples_labels_or_settings_are_computed_anew(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    run_jobs([Fit(subject, BY_KEY["kmeans"])], [0], tmp_path, "cpu", said.append)
    labels = subject.labels.copy()
    labels[0] = -1
    other = Subject("small", FeatureSet(subject.collection.features, labels, subject.truth))
    run_jobs([Fit(other, BY_KEY["kmeans"])], [0], tmp_path, "cpu", said.append)
    method = jobs.Method("kmeans", "k-means", KMeans(n_init=3))
    run_jobs([Fit(subject, method)], [0], tmp_path, "cpu", said.append)
    assert len(said) == 3


def test_an_interrupted_benchmark_goes_on(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    original = Fit.compute

    def compute(self: Fit, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        if len(computed) == 2:
            computed.append("interrupted")
            raise KeyboardInterrupt
        computed.append(self.method.key)
        return original(self, seeds, given, device)

    monkeypatch.setattr(Fit, "compute", compute)
    with pytest.raises(KeyboardInterrupt):
        run_benchmark("main", [source], tmp_path / "out", n_seeds=1, methods=METHODS)
    assert not (tmp_path / "out" / "main.md").exists()
    run_benchmark("main", [source], tmp_path / "out", n_seeds=1, methods=METHODS)
    assert computed == ["kmeans", "sskm", "interrupted", "rim", "pim-paper"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all")
    write_features(feature_set(), folder / "small.npz")
    run_benchmark("all", [folder / "small.npz"], folder / "out", n_seeds=2, methods=[*METHODS, "pim"])
    return folder / "out"


def test_all_writes_every_table_and_figure(everything: Path) -> None:
    for name in REPORTS:
        for ending in ("md", "csv", "tex", "png", "svg"):
            assert (everything / f"{name}.{ending}").stat().st_size > 100, f"{name}.{ending}"
    report = (everything / "report.md").read_text("utf-8")
    assert [line[3:] for line in report.splitlines() if line.startswith("## ")] == [
        "Data sets",
        "Accuracy with the true number of categories",
        "Estimated number of categories",
        "Accuracy with the estimated number of categories",
        "Terms of the loss",
        "PIM from different starts",
        "The weight of the conditional entropy",
    ]
    for name in REPORTS:
        assert f"({name}.svg)" in report


def test_the_record_says_how_it_came_about(everything: Path) -> None:
    record = json.loads((everything / "all.json").read_text("utf-8"))
    assert record["seeds"] == [0, 1]
    assert set(record["versions"]) >= {"newkinds", "torch", "numpy", "scikit-learn", "python"}
    assert set(record["sets"]) == {"small", "small, long-tailed 50"}
    assert all(len(each["fingerprint"]) == 16 for each in record["sets"].values())
    assert record["methods"]["pim-paper"]["lam"] == "labelled"
    assert all(result["seconds"] > 0 for result in record["results"])
    fits = [result for result in record["results"] if result["job"] == "small: kmeans"]
    assert [fit["seed"] for fit in fits] == [0, 1]
    assert [fit["settings"]["fit"]["n_categories"] for fit in fits] == [6, 6]
    assert all("settings" in result for result in record["results"])


def test_tables_show_mean_and_deviation_over_seeds(everything: Path) -> None:
    record = json.loads((everything / "all.json").read_text("utf-8"))
    scores = [result["score"] for result in record["results"] if result["job"] == "small: rim"]
    with (everything / "main.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["row"] == "RIM" and row["group"] == "small"]
    assert [row["column"] for row in rows] == ["All", "Old", "New"]
    for i, row in enumerate(rows):
        assert float(row["mean"]) == pytest.approx(np.mean([score[i] for score in scores]))
        assert float(row["std"]) == pytest.approx(np.std([score[i] for score in scores], ddof=1))


def test_the_mean_over_sets_has_the_deviation_over_seeds(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        write_features(feature_set(seed=seed), tmp_path / f"{name}.npz")
    run_benchmark("main", [tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path, n_seeds=3, methods=["kmeans"])
    record = json.loads((tmp_path / "main.json").read_text("utf-8"))
    scores = np.array([result["score"] for result in record["results"]]).reshape(2, 3, 3)  # set, seed, part
    with (tmp_path / "main.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "mean"]
    for part, row in enumerate(rows):
        assert float(row["mean"]) == pytest.approx(scores[..., part].mean())
        assert float(row["std"]) == pytest.approx(scores[..., part].mean(0).std(ddof=1))


def test_methods_without_the_true_number_get_the_estimated_one(everything: Path) -> None:
    record = json.loads((everything / "all.json").read_text("utf-8"))
    by_job = {(result["job"], result["seed"]): result for result in record["results"]}
    for method, rule in (("sskm", "max-acc-kmeans"), ("pim-paper", "max-acc-pim"), ("pim", "rehearsal")):
        for seed in (0, 1):
            counted = by_job[f"small: number of categories, {rule}", seed]["k"]
            assert by_job[f"small: {method} at estimated K", seed]["k"] == counted


def test_the_published_figures_stand_in_columns_of_their_own(tmp_path: Path) -> None:
    write_features(feature_set(n_classes=200, n=4, width=30), tmp_path / "cub_mine.npz")
    written = run_benchmark(
        "main", [tmp_path / "cub_mine.npz"], tmp_path / "out", n_seeds=1, methods=["kmeans", "rim"]
    )
    text = written.read_text("utf-8").replace("*", "")  # the best is bold
    assert "CUB, published" in text
    assert "34.3 / 38.9 / 32.1" in text  # k-means
    assert "52.3 / 51.8 / 52.5" in text  # RIM
    assert "They are on other features" in text
    assert "k-means: raw" in text.replace("\\", "")


def test_two_sets_of_one_published_data_set_share_its_columns(tmp_path: Path) -> None:
    for name, seed in (("cub_mine", 0), ("cub_yours", 1)):
        write_features(feature_set(n_classes=200, n=4, width=30, seed=seed), tmp_path / "sets" / f"{name}.npz")
    written = run_benchmark("main", [tmp_path / "sets"], tmp_path / "out", n_seeds=1, methods=["kmeans"])
    text = written.read_text("utf-8")
    assert text.count("CUB, published") == 1
    assert "cub_yours" in text.replace("\\", "")


def test_estimates_stand_beside_the_truth(everything: Path) -> None:
    record = json.loads((everything / "all.json").read_text("utf-8"))
    with (everything / "estimate-k.csv").open(newline="", encoding="utf-8") as file:
        rows = {(row["row"], row["group"], row["column"]): row for row in csv.DictReader(file)}
    for label, rule in (("Max-ACC, k-means", "max-acc-kmeans"), ("rehearsal, Newkinds", "rehearsal")):
        job = f"small: number of categories, {rule}"
        found = [result for result in record["results"] if result["job"] == job]
        counts = [result["k"] for result in found]
        assert float(rows[label, "small", "K̂"]["mean"]) == np.mean(counts)
        errors = [100 * abs(k - 6) / 6 for k in counts]
        assert float(rows[label, "small", "error %"]["mean"]) == pytest.approx(np.mean(errors))
        assert float(rows[label, "", "mean error %"]["mean"]) == pytest.approx(np.mean(errors))
    inside = sum(result["interval"][0] <= 6 <= result["interval"][1] for result in found)
    note = f"The true number is in {inside} of the 2 intervals (rehearsal, Newkinds)."
    assert note in (everything / "estimate-k.md").read_text("utf-8")
    low, high = found[0]["interval"]
    assert rows["rehearsal, Newkinds", "small", "90 %"]["text"] == f"{low}–{high}"
    assert float(rows["true", "small", "K̂"]["mean"]) == 6


def test_lambda_says_what_was_chosen_and_what_is_best(everything: Path) -> None:
    record = json.loads((everything / "all.json").read_text("utf-8"))
    with (everything / "lambda.csv").open(newline="", encoding="utf-8") as file:
        rows = {(row["row"], row["column"]): float(row["mean"]) for row in csv.DictReader(file)}
    for name in ("small", "small, long-tailed 50"):
        curves = [r["scores"] for r in record["results"] if r["job"] == f"{name}: accuracy over lambda"]
        means = np.mean([[score[0] for score in curve] for curve in curves], axis=0)
        assert rows[name, "λ"] == SHOWN_LAMS[int(np.argmax(means))]
        assert rows[name, "best All"] == pytest.approx(means.max())
        assert rows[name, "All at λ 1"] == pytest.approx(means[-1])
        chosen = [r["lam"] for r in record["results"] if r["job"] == f"{name}: pim-paper"]
        assert rows[name, "λ̂"] == pytest.approx(np.mean(chosen))


def test_all_leaves_out_what_the_methods_cannot_show(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark("all", [source], out, n_seeds=1, methods=["kmeans"], imbalance=0)
    assert not (out / "estimated-k.md").exists()
    assert (out / "lambda.md").exists()
    assert "estimated number" not in (out / "report.md").read_text("utf-8")
    with pytest.raises(InputError, match="estimated-k needs one of the methods sskm, pim-paper, pim"):
        run_benchmark("estimated-k", [source], out, methods=["kmeans"])


def test_a_damaged_result_is_computed_again(subject: Subject, tmp_path: Path) -> None:
    job = Fit(subject, BY_KEY["kmeans"])
    expected = run_jobs([job], [0], tmp_path, "cpu").of(job)[0]["score"]
    (cell,) = (tmp_path / "cells").iterdir()
    for content in ("{", "[]", '{"label": "k-means"}', ""):
        cell.write_text(content, "utf-8")
        assert run_jobs([job], [0], tmp_path, "cpu").of(job)[0]["score"] == expected


def test_other_code_computes_anew(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    job = Fit(subject, BY_KEY["kmeans"])
    run_jobs([job], [0], tmp_path, "cpu", said.append)
    monkeypatch.setattr(runner, "code_fingerprint", lambda: "another")
    run_jobs([job], [0], tmp_path, "cpu", said.append)
    assert len(said) == 2


def test_an_interruption_loses_one_seed_at_most(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = Fit.compute

    def compute(self: Fit, seeds: Sequence[int], given: Sequence[Sequence[Result]], device: str) -> list[Result]:
        seen.extend(seeds)
        if seen == [0, 1]:
            raise KeyboardInterrupt
        return original(self, seeds, given, device)

    monkeypatch.setattr(Fit, "compute", compute)
    with pytest.raises(KeyboardInterrupt):
        run_jobs([Fit(subject, BY_KEY["kmeans"])], [0, 1, 2], tmp_path, "cpu")
    run_jobs([Fit(subject, BY_KEY["kmeans"])], [0, 1, 2], tmp_path, "cpu")
    assert seen == [0, 1, 1, 2]


def test_the_papers_own_features_are_known_by_their_sizes() -> None:
    paper = DATASETS["CUB"]
    n = paper.n_labelled + paper.n_unlabelled
    truth = np.arange(n) % 200
    labels = np.full(n, -1)
    labels[np.flatnonzero(truth < 100)[: paper.n_labelled]] = truth[np.flatnonzero(truth < 100)[: paper.n_labelled]]

    def of_width(width: int) -> Subject:
        features = np.ones((n, width), dtype=np.float16)
        return Subject("cub", FeatureSet(features, labels, truth))

    assert of_width(768).is_as_published
    assert not of_width(320).is_as_published
    assert of_width(320).published == "CUB"
    assert Subject("cub", feature_set()).published is None  # 6 classes are not CUB's


def test_a_folder_of_feature_sets_is_read_whole(tmp_path: Path) -> None:
    write_features(feature_set(), tmp_path / "b.npz")
    write_features(feature_set(seed=1), tmp_path / "a")
    write_features(feature_set(seed=2), tmp_path / "c.parquet")
    (tmp_path / "notes.txt").write_text("not a feature set")
    assert [subject.name for subject in read_subjects([tmp_path])] == ["a", "b", "c"]
    assert [subject.name for subject in read_subjects([tmp_path / "a"])] == ["a"]


def test_long_tailed_versions_only_of_balanced_sets_with_enough_samples() -> None:
    assert Subject("balanced", feature_set()).deserves_a_tail
    assert not Subject("few", feature_set(n=20)).deserves_a_tail
    tail = Subject("balanced", feature_set()).long_tailed(20)
    assert not tail.deserves_a_tail
    assert tail.name == "balanced, long-tailed 20"
    assert tail.class_sizes.max() / tail.class_sizes.min() == pytest.approx(20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tables"}, "there is no benchmark 'tables'; choose from datasets, main"),
        ({"n_seeds": 0}, "at least one seed"),
        ({"methods": ["pimm"]}, "there is no method 'pimm'; choose from kmeans"),
        ({"methods": ["kmeans", ""]}, "there is no method ''; choose"),
        ({"workers": 0}, "at least one worker; got 0"),
        ({"imbalance": 0.5}, "imbalance must be more than 1"),
        ({"sources": []}, "give --features"),
    ],
)
def test_what_cannot_be_run_is_refused(
    arguments: dict[str, object], message: str, source: Path, tmp_path: Path
) -> None:
    given = {"name": "main", "sources": [source], "out": tmp_path / "out", **arguments}
    with pytest.raises(InputError, match=message):
        run_benchmark(**given)  # type: ignore[arg-type]  # of mixed types
    assert not (tmp_path / "out").exists()


def test_several_processes_and_a_file_for_a_folder_are_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="is a file; the results need a folder"):
        run_benchmark("main", [source], source)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="without torchrun"):
        run_benchmark("main", [source], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_sets_that_cannot_be_scored_are_refused(tmp_path: Path) -> None:
    whole = feature_set()
    cases = {
        "no_truth": (FeatureSet(whole.features, whole.labels), "true class of every sample"),
        "no_labels": (FeatureSet(whole.features, np.full(360, -1), whole.truth), "there are 0"),
        "one_known": (
            FeatureSet(whole.features, np.where(whole.labels == 0, 0, -1), whole.truth),
            "two known classes or more; there are 1",
        ),
        "all_labels": (FeatureSet(whole.features, whole.truth, whole.truth), "of known classes and of new ones"),
        "mean": (whole, "as the mean over the sets is"),
    }
    for name, (collection, message) in cases.items():
        write_features(collection, tmp_path / f"{name}.npz")
        with pytest.raises(InputError, match=message):
            read_subjects([tmp_path / f"{name}.npz"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is no feature set, and holds none"):
        read_subjects([tmp_path / "empty"])
    write_features(whole, tmp_path / "a.npz")
    with pytest.raises(InputError, match="two feature sets are called a"):
        read_subjects([tmp_path / "a.npz", tmp_path / "a.npz"])


def test_the_command_knows_every_benchmark() -> None:
    from newkinds.options import BenchmarkName

    assert [each.value for each in BenchmarkName] == list(NAMES)
