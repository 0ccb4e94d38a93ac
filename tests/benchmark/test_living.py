"""Collections that live on: when samples come, who takes them in, how it is measured, and what is written."""

import csv
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from newkinds import PIM, FeatureSet, InputError, KMeans, write_features
from newkinds.benchmark import run_benchmark
from newkinds.benchmark.figures import StagePanel, stage_figure
from newkinds.benchmark.jobs import Result
from newkinds.benchmark.living import jobs, rows
from newkinds.benchmark.living.jobs import Live
from newkinds.benchmark.living.rows import ROWS, First, NearestCentre, Refit, Update, WarmSimGCD
from newkinds.benchmark.living.scores import State, main_classes, score_births, score_moves, score_stages
from newkinds.benchmark.living.stream import STAGES, Stream, draw_stream
from newkinds.benchmark.subjects import Subject
from newkinds.cli import app
from newkinds.names import MIXES
from tests.blobs import blobs


def collection(kinds: int = 10, size: int = 24, noise: float = 0.16) -> FeatureSet:
    features, truth = blobs(kinds, size, noise=noise)
    labels = np.where((truth < 4) & (np.arange(len(truth)) % 2 == 0), truth, -1)
    return FeatureSet(features, labels, truth)


def subject_of(kinds: int = 10, size: int = 24, noise: float = 0.16) -> Subject:
    return Subject("blobs", collection(kinds, size, noise))


# When samples come


@pytest.mark.parametrize("kinds", [10, 13])
def test_half_of_the_classes_are_there_at_first_and_every_stage_brings_others(kinds: int) -> None:
    stream = draw_stream(subject_of(kinds), seed=1)
    assert len(stream.first) == kinds // 2
    assert len(stream.known) == round(0.8 * len(stream.first))
    assert set(stream.truth[stream.stage == 0].tolist()) == set(stream.first.tolist())
    begins = [int(stream.stage[stream.truth == category].min()) for category in range(kinds)]
    assert set(begins) == set(range(STAGES + 1))
    for category, stage in enumerate(begins):
        share = (stream.stage[stream.truth == category] == stage).mean()
        assert share == pytest.approx(0.6 if stage == 0 else 1 if stage == STAGES else 0.7, abs=0.05)


def test_only_samples_of_the_first_stage_have_labels() -> None:
    stream = draw_stream(subject_of(), seed=1)
    labelled = ~stream.unlabelled
    assert (stream.stage[labelled] == 0).all()
    assert np.array_equal(np.unique(stream.labels[labelled]), stream.known)
    assert np.array_equal(stream.labels[labelled], stream.truth[labelled])


@pytest.mark.parametrize("parts", [1, 3, 1000])
def test_every_sample_comes_once(parts: int) -> None:
    stream = draw_stream(subject_of(), seed=2)
    come = [stream.first_rows, *(part for stage in range(1, STAGES + 1) for part in stream.arrivals(stage, parts))]
    assert np.array_equal(np.sort(np.concatenate(come)), np.arange(len(stream.truth)))
    assert all(len(part) for part in come)
    for stage in range(1, STAGES + 1):  # in the same order, however many parts
        whole = np.concatenate(stream.arrivals(stage, parts))
        assert np.array_equal(whole, stream.arrivals(stage)[0])


def test_one_in_twenty_is_new_where_most_are_old() -> None:
    subject = subject_of(80, 30)
    stream = draw_stream(subject, seed=1, mix="mostly-old")
    comes = stream.stage > 0
    assert (~np.isin(stream.truth[comes], stream.first)).mean() == pytest.approx(0.05, abs=0.01)
    even = draw_stream(subject, seed=1)
    for mine, theirs in zip((stream, even), (even, stream), strict=True):
        assert np.array_equal(mine.features[mine.first_rows], theirs.features[theirs.first_rows])
        assert np.array_equal(mine.labels[mine.first_rows], theirs.labels[theirs.first_rows])


def test_a_seed_is_a_draw() -> None:
    subject = subject_of()
    one, again, other = (draw_stream(subject, seed) for seed in (1, 1, 2))
    assert np.array_equal(one.stage, again.stage)
    assert not np.array_equal(one.stage, other.stage)


@pytest.mark.parametrize(
    ("kinds", "size", "message"),
    [
        (9, 20, "blobs: stages need at least 10 classes, half of them to come later; it has 9"),
        (10, 2, "blobs: too few samples for 5 stages: none would come at 3"),
    ],
)
def test_a_set_without_stages_is_refused(kinds: int, size: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        draw_stream(subject_of(kinds, size), seed=0, mix="mostly-old")


# How it is measured: by hand


def tiny(truth: list[int], stage: list[int], first: list[int]) -> Stream:
    """Without labels, but for the first sample."""
    labels = np.full(len(truth), -1)
    labels[0] = truth[0]
    features = np.zeros((len(truth), 2), dtype=np.float32)
    return Stream(features, np.array(truth), np.array(stage), labels, np.array(truth[:1]), np.array(first))


def states_of(
    stream: Stream, *changes: dict[int, int], born: dict[int, tuple[int, ...]] | None = None
) -> list[State]:
    """Each sample in the category of its class, but for changes: for each stage, row → category, from then on."""
    answers = stream.truth.copy()
    states = []
    for stage in range(STAGES + 1):
        for row, category in (changes[stage] if stage < len(changes) else {}).items():
            answers[row] = category
        categories = np.where(stream.stage <= stage, answers, -1)
        states.append(State(stage, categories, (born or {}).get(stage, ()), seconds=1.0))
    return states


SMALL = tiny(truth=[0, 0, 1, 1, 2, 2, 0, 0, 0, 0], stage=[0, 0, 0, 0, 1, 1, 2, 3, 4, 5], first=[0, 1])


def test_accuracy_of_a_stage_parts_classes_of_before_from_those_it_brings() -> None:
    """One of both samples of class 2 is taken for class 1, for ever."""
    scores = score_stages(SMALL, states_of(SMALL, {}, {5: 1}))
    first, second, third = scores["stages"][:3]
    assert (first["all"], first["old"], first["new"]) == (100, 100, 100)  # class 1 had no label
    assert (second["all"], second["old"], second["new"]) == pytest.approx((80, 100, 50))
    assert (third["all"], third["old"], third["new"]) == (
        pytest.approx(100 * 5 / 6),
        pytest.approx(100 * 5 / 6),
        None,
    )
    assert scores["mean"]["new"] == pytest.approx(50)  # of the only stage that brings a class
    assert scores["mean"]["all"] == pytest.approx(np.mean([80, *(100 * (n - 1) / n for n in (6, 7, 8, 9))]))
    assert scores["final"]["old"] == 100  # class 0, the only one with a label
    assert scores["forgotten"] == scores["forgotten_alone"] == 0


def test_ids_that_change_cost_under_one_matching_only() -> None:
    """At the last stage the categories of classes 0 and 1 change their ids."""
    swapped = {1: 1, 2: 0, 3: 0, 6: 1, 7: 1, 8: 1, 9: 1}
    states = states_of(SMALL, {}, {}, {}, {}, {}, swapped)
    scores = score_stages(SMALL, states)
    assert [stage["all"] for stage in scores["stages"]] == [100] * 6
    assert [stage["one"] for stage in scores["stages"]] == [*[100] * 5, pytest.approx(100 * 2 / 9)]
    assert scores["one"] == pytest.approx(100 * 2 / 9)
    assert scores["forgotten"] == 100
    assert scores["forgotten_alone"] == 0
    moves = score_moves(SMALL, states)
    share = 100 * 6 / 9  # of those that were there before, two of class 2 and one with a label stay
    assert moves["moved_stages"] == [0, 0, 0, 0, pytest.approx(share)]
    assert moves["moved"] == pytest.approx(share / 5)
    assert moves["moved_quiet"] == pytest.approx(share / 4)  # the first stage brings class 2


def test_what_was_forgotten() -> None:
    """At the third stage a sample of class 1 goes to class 0."""
    scores = score_stages(SMALL, states_of(SMALL, {}, {}, {}, {3: 0}))
    assert scores["forgotten"] == scores["forgotten_alone"] == pytest.approx(100 / 3)


CLASSES = np.repeat([0, 3, 1, 2, 2, 0], [30, 10, 20, 5, 20, 4])
BIRTHS = tiny(
    truth=CLASSES.tolist(),
    stage=np.repeat([0, 0, 1, 1, 2, 3, 4, 5], [30, 10, 20, 5, 20, 1, 1, 2]).tolist(),
    first=[0, 3],
)
"""Classes 0 and 3 at first; 20 of class 1 and 5 of class 2 come, then 20 of class 2, then some of class 0."""


def rows_of(category: int) -> Sequence[int]:
    rows: list[int] = np.flatnonzero(category == CLASSES).tolist()
    return rows


def test_births_are_counted_by_what_most_of_their_samples_are() -> None:
    """Class 2 is born at the second stage, class 1 at the first; what comes at the third is part of class 1."""
    ones, twos = rows_of(1), rows_of(2)
    changes = [
        {},
        {**dict.fromkeys(ones, 10), **dict.fromkeys(twos, 0)},
        dict.fromkeys(twos, 11),
        dict.fromkeys(ones[:8], 12),
        dict.fromkeys(rows_of(3)[:4], 13),  # no fewer than six are still in the category of before
    ]
    scores = score_births(BIRTHS, states_of(BIRTHS, *changes, born={1: (10,), 2: (11,), 3: (12,), 4: (13,)}))
    assert scores == {"born": 4, "false": 2, "of_first": 1, "due": 2, "found": 2, "delay": (20 + 25) / 2}


def test_a_late_birth_is_not_found_in_time() -> None:
    changes = [{}, dict.fromkeys(rows_of(1), 0), {}, dict.fromkeys(rows_of(1), 10)]
    states = states_of(BIRTHS, *changes, born={2: (2,), 3: (10,)})
    assert score_births(BIRTHS, states) == {
        **{"born": 2, "false": 1, "of_first": 0, "due": 2, "found": 1, "delay": (20 + 25) / 2}
    }


def test_a_class_that_the_first_model_missed_may_be_born() -> None:
    """It is no false birth, although the class was there at first."""
    threes = rows_of(3)
    states = states_of(BIRTHS, dict.fromkeys(threes, 0), {}, dict.fromkeys(threes, 10), born={2: (10,)})
    scores = score_births(BIRTHS, states)
    assert (scores["born"], scores["false"], scores["of_first"]) == (1, 0, 1)


def test_nothing_born_has_no_delay() -> None:
    scores = score_births(BIRTHS, states_of(BIRTHS))
    assert (scores["born"], scores["delay"], scores["due"], scores["found"]) == (0, None, 2, 0)
    assert main_classes(BIRTHS, states_of(BIRTHS)[0]) == {0: 0, 3: 3}


# Who takes them in


@pytest.fixture(autouse=True)
def quick_fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fits of little effort, none of which a test leaves behind."""
    quick = functools.partial(PIM, effort="quick")
    for module in (jobs, rows):
        monkeypatch.setattr(module, "PIM", quick)
    yield
    jobs._first_model.cache_clear()


class Answers:
    """A first model that knows the classes of the first stage."""

    def __init__(self, stream: Stream) -> None:
        self.labels_ = stream.truth[stream.first_rows]
        self.categories_ = np.unique(self.labels_)
        self.n_categories_ = len(self.categories_)


def begun(row: type[rows.Row], stream: Stream, counts: Sequence[int] = ()) -> Any:
    first: Any = functools.partial(lambda model: First(model, 0.0), Answers(stream))
    return row(stream, first, "cpu", counts)


def test_centres_are_the_means_of_all_they_have_got() -> None:
    stream = draw_stream(subject_of(), seed=0)
    row = begun(NearestCentre, stream)
    row.radius = 3.0  # farther than anything is
    row.take(stream.arrivals(1)[0], 1)
    for column, category in enumerate(row.ids):
        members = row.features[row.categories == category]
        assert len(members) == row.counts_of[column]
        assert np.allclose(row.centres[column], members.mean(0), atol=1e-5)
    assert row.n_held == 0


def test_centres_are_born_of_eight_held_samples_that_lie_together() -> None:
    stream = draw_stream(subject_of(noise=0.08), seed=0)
    row = begun(NearestCentre, stream)
    row.radius *= 1.5
    new = np.flatnonzero((stream.stage == 1) & ~np.isin(stream.truth, stream.first))
    n_before = row.n_categories
    assert row.take(new[:7], 1) == ()
    assert row.n_held == 7
    (born,) = row.take(new[7:], 1)
    assert born == max(stream.first) + 1
    assert row.n_held == 0
    assert (row.categories[new] == born).all()
    assert row.n_categories == n_before + 1


def test_simgcd_goes_on_with_the_ids_of_its_prototypes() -> None:
    stream = draw_stream(subject_of(noise=0.08), seed=0)
    row = begun(WarmSimGCD, stream, counts=(5, 6, 7, 8, 9, 10))
    states = row.run()
    assert [state.n_categories for state in states] == [5, 6, 7, 8, 9, 10]
    assert [len(state.born) for state in states] == [0, 1, 1, 1, 1, 1]
    labelled = ~stream.unlabelled
    assert np.array_equal(states[-1].categories[labelled], stream.labels[labelled])
    scores = score_stages(stream, states)
    assert scores["one"] > 80
    assert scores["forgotten"] < 20


def test_what_is_fitted_again_has_all_samples_and_comes_in_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = draw_stream(subject_of(noise=0.08), seed=0)
    monkeypatch.setattr(rows, "PIM", functools.partial(KMeans, 10))
    states = begun(Refit, stream).run(parts=2)
    assert [state.stage for state in states] == list(range(STAGES + 1))
    assert [state.n_categories for state in states] == [5, *[10] * 5]
    for state in states:
        assert np.array_equal(state.there, stream.stage <= state.stage)
    scores = score_stages(stream, states)
    assert scores["stages"][-1]["all"] > 95
    assert scores["one"] < scores["stages"][-1]["all"]  # its ids are new each time


# What is written


def test_rows_are_chosen_by_their_keys() -> None:
    assert [row.key for row in jobs.rows_named(None)] == ["update", "refit", "assign", "kmeans", "simgcd"]
    assert jobs.rows_named(["kmeans", "update"]) == [Update, NearestCentre]
    subject = subject_of()
    assert Live(subject, WarmSimGCD, "even", 2).needs == (Live(subject, Update, "even", 2),)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["benchmark", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.split())


def cells_of(path: Path) -> dict[tuple[str, str, str], str]:
    with path.open(newline="", encoding="utf-8") as file:
        return {(cell["row"], cell["group"], cell["column"]): cell["mean"] for cell in csv.DictReader(file)}


def test_the_command_makes_tables_and_curves_and_goes_on_where_it_was(tmp_path: Path) -> None:
    write_features(collection(noise=0.08), tmp_path / "blobs.npz")
    out = tmp_path / "out"
    arguments = ["living", "--features", tmp_path / "blobs.npz", "--out", out, "--workers", 1]
    arguments += ["--seeds", 1, "--first-seed", 3, "--mix", "even", "--parts", 2]
    code, said = run(*arguments, "--methods", "update,assign,kmeans")
    assert code == 0, said
    assert "3/3" in said
    for name in ("living.md", "living.csv", "living.tex", "living.png", "living.svg", "living-stages.md"):
        assert (out / name).stat().st_size > 100, name
    cells = cells_of(out / "living.csv")
    assert list(dict.fromkeys(row for row, _, _ in cells)) == [
        ROWS[k].label for k in ("update", "assign", "kmeans")
    ]
    ours = {name: float(mean) for (row, _, name), mean in cells.items() if row == Update.label and mean}
    assert ours["one matching"] > 80
    assert ours["found %"] == 100
    assert ours["false"] == 0
    assert float(cells[ROWS["assign"].label, "at the end", "one matching"]) < 60
    record = json.loads((out / "living.json").read_text("utf-8"))
    assert record["seeds"] == [3]
    assert [result["job"] for result in record["results"]] == [
        f"blobs, even: {key} in 2 parts" for key in ("update", "assign", "kmeans")
    ]
    assert all(len(seconds) == 2 for seconds in record["results"][0]["seconds_of_updates"])
    kept = sorted((out / "cells").iterdir())
    assert len(kept) == 3
    again = run(*arguments, "--methods", "assign,kmeans")
    assert again[0] == 0
    assert "blobs, even" not in again[1]  # nothing was computed
    next(path for path in kept if "assign" in json.loads(path.read_text("utf-8"))["label"]).unlink()
    code, said = run(*arguments, "--methods", "assign,kmeans")
    assert "1/2" not in said
    assert "2/2" in said
    assert "assign in 2 parts" in said


def made_up(job: Live, seeds: Sequence[int], needed: Any, device: str) -> list[Result]:
    """Results of rows in which everything is told by the row's place, and the seed."""
    at = 10 * list(ROWS).index(job.row.key)
    return [
        {
            "stages": [
                {"all": at + seed, "old": at, "new": None, "one": at, "n_categories": 3, "n_held": 0}
                for _ in range(STAGES + 1)
            ],
            "mean": {"all": at + seed, "old": at, "new": at, "one": at},
            "one": at,
            "forgotten": 1.0,
            "forgotten_alone": 0.0,
            **{"born": 4, "false": 1, "of_first": 0, "due": 8, "found": 6, "delay": None},
            **{"moved": 2.0, "moved_quiet": None},
            **{"auroc": 0.9, "auroc_of_confidence": 0.8, "calibration_error": 0.05},
            "seconds_of_updates": [[at + 1.0] for _ in range(STAGES)],
            "seconds": 1.0,
        }
        for seed in seeds
    ]


def test_published_figures_and_shares_of_a_refit_stand_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Live, "compute", made_up)
    write_features(collection(200, 2), tmp_path / "cub.npz")
    run_benchmark("living", [tmp_path / "cub.npz"], tmp_path / "out", n_seeds=2)
    cells = cells_of(tmp_path / "out" / "living.csv")
    assert float(cells["Happy", "mean of stages", "All"]) == pytest.approx(68.88)
    assert float(cells["Happy", "at the end", "All"]) == 59.39
    assert cells["Happy", "births", "born"] == ""
    assert float(cells[Update.label, "an update", "% of refit"]) == pytest.approx(100 / 11)
    assert cells[Refit.label, "an update", "% of refit"] == ""
    assert float(cells[Update.label, "births", "found %"]) == 75
    assert cells[Refit.label, "births", "found %"] == ""  # its ids are new each time
    assert float(cells[Refit.label, "mean of stages", "All"]) == 10.5
    text = (tmp_path / "out" / "living.md").read_text("utf-8")
    assert "*cub, even*" in text
    assert "*cub, mostly old*" in text
    assert "*published, CUB, on other features*" in text
    assert "NeurIPS 2024" in text
    assert (
        "AUROC of the first model's strangeness (of 1 − confidence; calibration error): cub, even 0.900 ± 0.000"
        in text
    )
    assert "(0.800 ± 0.000; 0.050 ± 0.000)" in text
    stages = cells_of(tmp_path / "out" / "living-stages.csv")
    assert float(stages["Happy", "stage 1", "Old"]) == 85.06


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"methods": ["pim"]},
            "no row 'pim' of living collections; choose from update, refit, assign, kmeans, simgcd",
        ),
        ({"parts": 0}, "at least one part; got 0"),
        ({"first_seed": -1}, "the first seed must be 0 or more; got -1"),
        ({"mixes": ["odd"]}, "mixes must be some of even, mostly-old; got odd"),
        ({"mixes": []}, "mixes must be some of even, mostly-old; got none"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_features(collection(), tmp_path / "blobs.npz")
    with pytest.raises(InputError, match=message):
        run_benchmark("living", [tmp_path / "blobs.npz"], tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_figure_of_stages_needs_curves(tmp_path: Path) -> None:
    curves: list[dict[str, tuple[list[float], list[float] | None]]]
    curves = [{"one": ([50.0, 60.0], [1.0, 2.0])}, {"one": ([50.0, 55.0], None), "two": ([40.0, 30.0], None)}]
    png, svg = stage_figure("Title", [StagePanel("a set, even", curves)], ("All", "one"), tmp_path / "figure")
    assert png.stat().st_size > 1000
    assert svg.stat().st_size > 1000
    with pytest.raises(InputError, match="nothing to draw in 'Title'"):
        stage_figure("Title", [], ("All",), tmp_path / "none")


def test_the_mixes_are_those_with_a_name() -> None:
    assert MIXES == ("even", "mostly-old")
