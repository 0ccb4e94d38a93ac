"""`run_benchmark`: its tables, figures, pages and records, on results made up at once."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from newkinds import FeatureSet, InputError, write_features
from newkinds.benchmark import NAMES, reports, run_benchmark
from newkinds.benchmark.figures import LambdaPanel
from newkinds.benchmark.jobs import SHOWN_LAMS, Fit
from newkinds.benchmark.published import LOSS_TERMS
from newkinds.benchmark.reports import REPORTS, START_LABELS
from newkinds.names import BenchmarkName

MakeSet = Callable[..., FeatureSet]


def read_record(folder: Path, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return record


def results(folder: Path, job: str, name: str = "all") -> list[dict[str, Any]]:
    """The results of a job, in the order of the seeds."""
    return [result for result in read_record(folder, name)["results"] if result["job"] == job]


def read_cells(path: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    """The cells of a table by row, group and column, in their order."""
    with path.open(newline="", encoding="utf-8") as file:
        return {(cell["row"], cell["group"], cell["column"]): cell for cell in csv.DictReader(file)}


def test_the_benchmarks_are_those_with_a_name() -> None:
    assert (*REPORTS, "all") == get_args(BenchmarkName) == NAMES
    assert all(report.name == name for name, report in REPORTS.items())


def test_all_writes_every_table_and_figure(everything: Path) -> None:
    together = [name for name, report in REPORTS.items() if not report.alone]
    assert set(REPORTS) - set(together) == {"living"}
    assert not list(everything.glob("living*"))
    for name in together:
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
    for name in together:
        assert f"({name}.svg)" in report


def test_the_record_says_how_it_came_about(everything: Path) -> None:
    record = read_record(everything, "all")
    assert record["seeds"] == [0, 1, 2]
    assert record["device"] == "cpu"
    assert set(record["versions"]) >= {"newkinds", "torch", "numpy", "scikit-learn", "python"}
    assert set(record["sets"]) == {"small", "small, long-tailed 50"}
    assert record["sets"]["small"] | {"fingerprint": ""} == {
        **{"fingerprint": "", "samples": 360, "features": 10, "known": 3, "categories": 6},
    }
    assert all(len(facts["fingerprint"]) == 16 for facts in record["sets"].values())
    assert record["methods"]["pim-rule"]["lam"] == "labelled"
    assert record["seconds_of_results"] == sum(result["seconds"] for result in record["results"])
    fits = results(everything, "small: kmeans")
    assert [fit["seed"] for fit in fits] == [0, 1, 2]
    assert [fit["settings"]["fit"]["n_categories"] for fit in fits] == [6, 6, 6]
    assert all("settings" in result for result in record["results"])


def test_the_table_of_data_sets_counts_classes_and_samples(everything: Path) -> None:
    cells = read_cells(everything / "datasets.csv")
    small = [float(cell["mean"]) for (row, _, _), cell in cells.items() if row == "small"]
    assert small == [3, 6, 90, 270, 60, 60, 10]
    cub = [cell["mean"] for (row, _, _), cell in cells.items() if row == "CUB"]
    assert cub == ["100.0", "200.0", "1498.0", "4496.0", "", "", ""]
    assert "small, long-tailed 50" in {row for row, _, _ in cells}


def test_tables_show_mean_and_deviation_over_seeds_in_the_order_of_the_methods(everything: Path) -> None:
    cells = read_cells(everything / "main.csv")
    assert list(dict.fromkeys(row for row, _, _ in cells)) == [
        "k-means",
        "semi-supervised k-means, 10 restarts",
        "RIM",
        "PIM, λ by labelled accuracy",
        "PIM, Newkinds",
    ]
    scores = np.array([result["score"] for result in results(everything, "small: rim")])
    for i, part in enumerate(("All", "Old", "New")):
        cell = cells["RIM", "small", part]
        assert float(cell["mean"]) == pytest.approx(scores[:, i].mean())
        assert float(cell["std"]) == pytest.approx(scores[:, i].std(ddof=1))


@pytest.mark.parametrize(("table", "column", "choose"), [("main", "All", max), ("estimate-k", "error %", min)])
def test_the_best_of_a_column_is_bold(
    table: str, column: str, choose: Callable[..., float], everything: Path
) -> None:
    cells = read_cells(everything / f"{table}.csv")
    means = [float(cell["mean"]) for key, cell in cells.items() if key[1:] == ("small", column) and cell["mean"]]
    text = (everything / f"{table}.md").read_text("utf-8")
    assert [f"**{mean:.1f}**±" in text for mean in means] == [mean == choose(means) for mean in means]


def test_one_seed_has_no_deviation_and_one_set_no_mean(made_up_results: None, source: Path, tmp_path: Path) -> None:
    run_benchmark("main", [source], tmp_path / "out", n_seeds=1, methods=["kmeans"])
    cells = read_cells(tmp_path / "out" / "main.csv")
    assert [group for _, group, _ in cells] == ["", *["small"] * 3]
    assert [cell["std"] for cell in cells.values()] == [""] * 4


def test_the_mean_over_sets_has_the_deviation_over_seeds(
    made_up_results: None, feature_set: MakeSet, tmp_path: Path
) -> None:
    for seed, name in enumerate("ab"):
        write_features(feature_set(seed=seed), tmp_path / f"{name}.npz")
    run_benchmark("main", [tmp_path / "a.npz", tmp_path / "b.npz"], tmp_path / "out", n_seeds=3, methods=["kmeans"])
    scores = np.array(
        [[result["score"] for result in results(tmp_path / "out", f"{name}: kmeans", "main")] for name in "ab"]
    )
    cells = read_cells(tmp_path / "out" / "main.csv")
    for i, part in enumerate(("All", "Old", "New")):
        cell = cells["k-means", "mean", part]
        assert float(cell["mean"]) == pytest.approx(scores[..., i].mean())
        assert float(cell["std"]) == pytest.approx(scores[..., i].mean(axis=0).std(ddof=1))


@pytest.mark.parametrize(
    ("table", "job", "labels"),
    [
        ("ablation", "small: loss terms", list(LOSS_TERMS)),
        ("init", "small: starts", [START_LABELS[start] for start in ("ssrandom", "sskm++", "sskm")]),
    ],
)
def test_the_rows_of_a_table_are_the_trainings_in_their_order(
    table: str, job: str, labels: list[str], everything: Path
) -> None:
    cells = read_cells(everything / f"{table}.csv")
    scores = np.array([result["scores"] for result in results(everything, job)])  # seed, row, part
    assert scores.shape[1] == len(labels)
    for i, label in enumerate(labels):
        assert float(cells[label, "small", "New"]["mean"]) == pytest.approx(scores[:, i, 2].mean())


def test_methods_without_the_true_number_get_the_estimated_one(everything: Path) -> None:
    cells = read_cells(everything / "estimated-k.csv")
    for method, rule, label in (
        ("sskm", "max-acc-kmeans", "semi-supervised k-means, 10 restarts; K̂ by Max-ACC, k-means"),
        ("pim-rule", "max-acc-pim", "PIM, λ by labelled accuracy; K̂ by Max-ACC, PIM by our solver and start"),
        ("pim", "rehearsal", "PIM, Newkinds; K̂ by rehearsal, Newkinds"),
    ):
        fits = results(everything, f"small: {method} at estimated K")
        counts = results(everything, f"small: number of categories, {rule}")
        assert [fit["k"] for fit in fits] == [count["k"] for count in counts]
        mean = np.mean([fit["score"][0] for fit in fits])
        assert float(cells[label, "small", "All"]["mean"]) == pytest.approx(mean)


def test_estimates_stand_beside_the_truth(everything: Path) -> None:
    cells = read_cells(everything / "estimate-k.csv")
    for label, rule in (
        ("Max-ACC, k-means", "max-acc-kmeans"),
        ("Max-ACC, PIM by our solver and start", "max-acc-pim"),
        ("rehearsal, Newkinds", "rehearsal"),
    ):
        counts = results(everything, f"small: number of categories, {rule}")
        estimates = [count["k"] for count in counts]
        assert float(cells[label, "small", "K̂"]["mean"]) == np.mean(estimates)
        errors = [100 * abs(k - 6) / 6 for k in estimates]
        assert float(cells[label, "small", "error %"]["mean"]) == pytest.approx(np.mean(errors))
        assert float(cells[label, "", "mean error %"]["mean"]) == pytest.approx(np.mean(errors))
        assert (cells[label, "small", "90 %"]["text"] == "") == (rule != "rehearsal")
    assert float(cells["true", "small", "K̂"]["mean"]) == 6
    low, high = counts[0]["interval"]
    assert cells["rehearsal, Newkinds", "small", "90 %"]["text"] == f"{low}–{high}"


def test_exact_rows_stand_beside_the_quick_ones(made_up_results: None, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark("all", [source], out, n_seeds=1, exact=True, imbalance=0)
    main = list(dict.fromkeys(row for row, _, _ in read_cells(out / "main.csv")))
    quick, exact = (main.index(label) for label in ("PIM, λ by labelled accuracy", "PIM as published"))
    assert exact == quick + 1
    assert "GCD (semi-supervised k-means)" in main
    counted = [row for row, _, _ in read_cells(out / "estimate-k.csv")]
    assert "Max-ACC, PIM as published" in counted
    text = (out / "estimated-k.md").read_text("utf-8")
    assert "| PIM as published; K̂ by Max-ACC, PIM as published " in text
    assert "- Max-ACC, PIM as published: G at λ 1, from k-means++ seeds, 500 epochs of Adam." in text


def test_every_table_says_which_start_and_solver(everything: Path) -> None:
    for name in ("main", "estimate-k", "estimated-k", "ablation", "init", "lambda"):
        text = (everything / f"{name}.md").read_text("utf-8")
        assert "from k-means" in text, name
        assert "L-BFGS" in text, name
        assert "restarts" in text, name


def test_what_is_to_come_is_said_first(made_up_results: None, source: Path, tmp_path: Path) -> None:
    said: list[str] = []
    run_benchmark("main", [source], tmp_path / "out", n_seeds=2, methods=["kmeans", "pim"], say=said.append)
    assert re.fullmatch(r"4 results; if none is there yet, about \d+ min with \d+ cores, by experience", said[0])


def test_a_note_counts_the_intervals_that_hold_the_true_number(everything: Path) -> None:
    intervals = [count["interval"] for count in results(everything, "small: number of categories, rehearsal")]
    assert intervals == [[6, 8], [4, 6], [8, 10]]
    text = (everything / "estimate-k.md").read_text("utf-8")
    assert "The true number is in 2 of the 3 intervals (rehearsal, Newkinds)." in text
    assert text.count("The true number is in") == 1  # the others give no intervals


def test_lambda_says_what_was_chosen_and_what_is_best(everything: Path) -> None:
    cells = {(row, column): cell for (row, _, column), cell in read_cells(everything / "lambda.csv").items()}
    for name in ("small", "small, long-tailed 50"):
        curves = [result["scores"] for result in results(everything, f"{name}: accuracy over lambda")]
        means = np.mean([[score[0] for score in curve] for curve in curves], axis=0)
        fits = results(everything, f"{name}: pim-rule")
        expected = {
            "λ": SHOWN_LAMS[int(np.argmax(means))],
            "best All": means.max(),
            "All at λ 0": means[0],
            "All at λ 1": means[-1],
            "λ̂": np.mean([fit["lam"] for fit in fits]),
            "All": np.mean([fit["score"][0] for fit in fits]),
        }
        for column, value in expected.items():
            assert float(cells[name, column]["mean"]) == pytest.approx(value), column
    assert float(cells["small", "largest / smallest class"]["mean"]) == 1
    assert float(cells["small, long-tailed 50", "largest / smallest class"]["mean"]) > 20


def test_the_figure_of_lambda_draws_the_papers_candidates(
    made_up_results: None, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panels: list[LambdaPanel] = []
    monkeypatch.setattr(reports, "lambda_figure", lambda drawn, path: panels.extend(drawn))
    run_benchmark("lambda", [source], tmp_path / "out", n_seeds=3, imbalance=0)
    (panel,) = panels
    fits, curves = (
        results(tmp_path / "out", f"small: {job}", "lambda") for job in ("pim-rule", "accuracy over lambda")
    )
    labelled = 100 * np.array([[score for _, score in fit["lam_curve"]] for fit in fits])
    accuracies = np.array([[score[0] for score in curve["scores"]] for curve in curves])[:, 3:]
    assert panel.title == "small"
    assert list(panel.lams) == list(SHOWN_LAMS[3:])
    np.testing.assert_allclose(panel.labelled_accuracy, labelled.mean(axis=0))
    np.testing.assert_allclose(panel.all_accuracy, accuracies.mean(axis=0))
    assert panel.labelled_std is not None
    assert panel.all_std is not None
    np.testing.assert_allclose(panel.labelled_std, labelled.std(axis=0, ddof=1))
    np.testing.assert_allclose(panel.all_std, accuracies.std(axis=0, ddof=1))
    assert panel.lam_chosen == panel.lams[int(labelled.mean(axis=0).argmax())]
    assert panel.lam_best == panel.lams[int(accuracies.mean(axis=0).argmax())]
    assert list(panel.frequencies) == [60] * 6
    assert list(panel.is_known) == [True] * 3 + [False] * 3


def test_without_imbalance_there_are_no_long_tailed_versions(
    made_up_results: None, source: Path, tmp_path: Path
) -> None:
    run_benchmark("datasets", [source], tmp_path / "out", imbalance=0)
    assert list(read_record(tmp_path / "out", "datasets")["sets"]) == ["small"]
    run_benchmark("datasets", [source], tmp_path / "out", imbalance=10)
    assert list(read_record(tmp_path / "out", "datasets")["sets"]) == ["small", "small, long-tailed 10"]


# The paper's figures


def test_the_published_figures_stand_in_columns_of_their_own(
    made_up_results: None, feature_set: MakeSet, tmp_path: Path
) -> None:
    """Two sets of one data set share them."""
    for name, seed in (("cub_mine", 0), ("cub_yours", 1)):
        write_features(feature_set(n_classes=200, n=4, width=8, seed=seed), tmp_path / "sets" / f"{name}.npz")
    written = run_benchmark(
        "main", [tmp_path / "sets"], tmp_path / "out", n_seeds=1, methods=["kmeans", "rim", "pim-rule"]
    )
    text = written.read_text("utf-8").replace("*", "").replace("\\", "")  # the best is bold
    assert text.count("CUB, published") == 1
    assert "cub_mine" in text
    assert "cub_yours" in text
    assert "34.3 / 38.9 / 32.1" in text  # k-means
    assert "52.3 / 51.8 / 52.5" in text  # RIM
    assert "62.7±0.5 / 75.7±0.8 / 56.2±0.7" in text  # PIM
    assert "They are on other features" in text
    assert "Unless" not in text  # neither has the sizes of the released features
    assert "k-means: raw" in text


def test_published_estimates_stand_beside_ours(made_up_results: None, feature_set: MakeSet, tmp_path: Path) -> None:
    write_features(feature_set(n_classes=200, n=4, width=8), tmp_path / "cub.npz")
    run_benchmark("estimate-k", [tmp_path / "cub.npz"], tmp_path / "out", n_seeds=1)
    cells = read_cells(tmp_path / "out" / "estimate-k.csv")
    for label, k, error in (("Max-ACC, k-means", 231, 16), ("Max-ACC, PIM by our solver and start", 227, 14)):
        assert float(cells[label, "CUB, published", "K̂"]["mean"]) == k
        assert float(cells[label, "CUB, published", "error %"]["mean"]) == error
    assert cells["rehearsal, Newkinds", "CUB, published", "K̂"]["mean"] == ""
    text = (tmp_path / "out" / "estimate-k.md").read_text("utf-8")
    assert "For Stanford Cars the paper prints" in text
    assert "Max-ACC (GCD) 18 % and 6 %; Max-ACC (PIM) 15 % and 2 %." in text


def test_figures_of_trained_encoders_have_rows_of_their_own(
    made_up_results: None, feature_set: MakeSet, tmp_path: Path
) -> None:
    write_features(feature_set(n_classes=200, n=4, width=8), tmp_path / "cub.npz")
    run_benchmark("main", [tmp_path / "cub.npz"], tmp_path / "out", n_seeds=1, methods=["orca", "uno", "pim"])
    cells = read_cells(tmp_path / "out" / "main.csv")
    for label in ("ORCA, head on frozen features", "UNO+, head on frozen features"):
        assert cells[label, "CUB, published", "All"]["mean"] == ""
        assert cells[label, "cub", "All"]["mean"] != ""
    for label, figure in (
        ("ORCA (ResNet50)", 27.5),
        ("ORCA (ViT-B/16)", 38.0),
        ("UNO+", 35.1),
        ("RankStats+", 33.3),
    ):
        assert float(cells[label, "CUB, published", "All"]["mean"]) == figure
        assert cells[label, "cub", "All"]["mean"] == ""
        assert cells[label, "", "InfoMax"]["text"] == "no"
    assert cells["PIM, Newkinds", "", "InfoMax"]["text"] == "yes"
    assert cells["UNO+, head on frozen features", "", "InfoMax"]["text"] == "no"
    assert "ORCA (ResNet50)" not in (tmp_path / "out" / "main.md").read_text("utf-8").split("published, with")[0]


# From the first result to the last, and what is refused


def test_a_table_is_computed_from_end_to_end(source: Path, tmp_path: Path) -> None:
    """With computed results: they have what the tables take from those made up."""
    out = tmp_path / "out"
    run_benchmark("lambda", [source], out, n_seeds=1, imbalance=0)
    assert all(result["seconds"] > 0 for result in read_record(out, "lambda")["results"])
    (fit,), (curve,) = (results(out, f"small: {job}", "lambda") for job in ("pim-rule", "accuracy over lambda"))
    assert curve["scores"][SHOWN_LAMS.index(fit["lam"])] == pytest.approx(fit["score"])
    assert float(read_cells(out / "lambda.csv")["small", "chosen by labels", "All"]["mean"]) == fit["score"][0]


def test_an_interrupted_benchmark_goes_on(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    original = Fit.compute

    def compute(self: Fit, *task: Any) -> list[dict[str, Any]]:
        if len(computed) == 1:
            computed.append("interrupted")
            raise KeyboardInterrupt
        computed.append(self.method.key)
        return original(self, *task)

    monkeypatch.setattr(Fit, "compute", compute)
    methods = ["kmeans", "sskm", "rim"]
    with pytest.raises(KeyboardInterrupt):
        run_benchmark("main", [source], tmp_path / "out", n_seeds=1, methods=methods)
    assert not (tmp_path / "out" / "main.md").exists()
    written = run_benchmark("main", [source], tmp_path / "out", n_seeds=1, methods=methods)
    assert written == tmp_path / "out" / "main.md"
    assert computed == ["kmeans", "interrupted", "sskm", "rim"]


def test_all_leaves_out_what_the_methods_cannot_show(made_up_results: None, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run_benchmark("all", [source], out, n_seeds=1, methods=["kmeans"], imbalance=0)
    assert not (out / "estimated-k.md").exists()
    assert (out / "lambda.md").exists()
    assert "estimated number" not in (out / "report.md").read_text("utf-8")
    with pytest.raises(
        InputError, match="estimated-k needs one of the methods sskm, gcd, pim-rule, pim-paper, pim"
    ):
        run_benchmark("estimated-k", [source], out, methods=["kmeans"])


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
    arguments: dict[str, Any], message: str, source: Path, tmp_path: Path
) -> None:
    usable: dict[str, Any] = {"name": "main", "sources": [source], "out": tmp_path / "out"}
    with pytest.raises(InputError, match=message):
        run_benchmark(**usable | arguments)
    assert not (tmp_path / "out").exists()


def test_several_processes_and_a_file_for_a_folder_are_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="is a file; choose another place"):
        run_benchmark("main", [source], source)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="without torchrun"):
        run_benchmark("main", [source], tmp_path / "out")
    assert not (tmp_path / "out").exists()
