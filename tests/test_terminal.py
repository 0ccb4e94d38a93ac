"""What the terminal shows: runs, estimates, progress."""

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from newkinds.kinds import Kind, Neighbour, Sample, Sureness
from newkinds.runtime import report_progress
from newkinds.selection.n_categories import CategoryCount
from newkinds.standing import standing
from newkinds.terminal import BAR_WIDTH, SHOWN_CATEGORIES, progress_bars, show_estimate, show_kind, show_run

HEADER = "id kind samples labelled confidence"


def record(**changes: Any) -> dict[str, Any]:
    made = {
        "source": {"name": "tickets", "samples": 12345, "labelled": 1000},
        "method": "pim",
        "chosen": {"lam": 0.2, "temperature": 40.0, "n_categories": 3, "n_categories_rule": None},
        "curves": {"lam": None, "n_categories": None, "rehearsal": None, "objective": None},
        "categories": [
            {"id": 0, "name": "billing", "kind": "known", "size": 5000, "labelled": 1000},
            {"id": 1, "name": "new-1", "kind": "new", "size": 2500, "labelled": 0},
            {"id": 2, "name": "new-2", "kind": "new", "size": 0, "labelled": 0},
        ],
        "score": None,
        "warnings": [],
        "seconds": {"fit": 2.0},
        "versions": {"newkinds": "1.2.3"},
        **changes,
    }
    return standing(made, ())


def shown(show: Any, *arguments: Any, **options: Any) -> list[str]:
    """The lines that a function prints, their words one blank apart."""
    console = Console(file=io.StringIO(), width=160, color_system=None)
    show(console, *arguments, **options)
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def bar(share: float) -> str:
    return "█" * round(BAR_WIDTH * share)


def run_lines(made: dict[str, Any], sureness: Sureness | None = None, **options: Any) -> list[str]:
    return shown(show_run, made, Path("runs/my run"), sureness, **options)


def after(lines: list[str], line: str) -> list[str]:
    return lines[lines.index(line) + 1 :]


def test_a_run_is_summed_up_the_kinds_first_and_the_settings_last() -> None:
    sureness = Sureness({0: 0.914, 1: 0.5}, n_unsure=1234, n_unlabelled=11345)
    assert run_lines(record(warnings=["one is empty"]), sureness) == [
        "tickets",
        "12,345 samples (1,000 labelled): 1 known kind and 2 new ones (3 in all, as asked)",
        "",
        HEADER,
        f"0 billing 5,000 1,000 91 % {bar(1)}",
        f"1 new-1 new 2,500 0 50 % {bar(0.5)}",
        "2 new-2 new 0 0",
        "",
        "confidence: how probable it is that a sample belongs to its kind",
        "Unsure: 1,234 of 11,345 unlabelled samples, with a confidence below 50 %",
        "Warning: one is empty",
        "",
        "Next:",
        "newkinds studio 'runs/my run' look and correct, in the browser",
        "newkinds show 'runs/my run' new-1 one kind: typical, doubtful, alike",
        "newkinds rename 'runs/my run' new-1 \"…\" a name for a new kind",
        "newkinds export 'runs/my run' kinds.csv a table of the samples; kinds.xlsx for Excel",
        "newkinds predict 'runs/my run' more.npy the same kinds for new samples",
        "",
        "PIM, λ 0.2, temperature 40, fitted in 2.0 s by newkinds 1.2.3; more with show --details",
    ]


@pytest.mark.parametrize(
    ("kinds", "says"),
    [
        (["known", "new"], "1 known kind and 1 new one (2 in all, as asked)"),
        (["known", "known"], "2 known kinds and 0 new ones (2 in all, as asked)"),
        (["new"], "1 new kind (1 in all, as asked)"),
        (["new"] * 3, "3 new kinds (3 in all, as asked)"),
    ],
)
def test_kinds_are_counted_in_words(kinds: list[str], says: str) -> None:
    categories = [{**record()["categories"][0], "kind": kind} for kind in kinds]
    assert run_lines(record(categories=categories))[1].endswith(f": {says}")


def test_that_nothing_is_unsure_is_said() -> None:
    lines = run_lines(record(), Sureness({0: 0.9}, n_unsure=0, n_unlabelled=3))
    assert "Unsure: none; every unlabelled sample has a confidence of at least 50 %" in lines


def test_what_can_be_done_next_depends_on_what_the_run_was_made_of() -> None:
    photos = run_lines(record(encoder={"name": "a", "kind": "images", "fingerprint": "b"}))
    assert "newkinds sort 'runs/my run' --into sorted the photos in folders, one for each kind" in photos
    assert any(line.startswith("newkinds predict 'runs/my run' more-photos ") for line in photos)
    texts = run_lines(record(encoder={"name": "a", "kind": "texts", "fingerprint": "b"}))
    assert any(line.startswith("newkinds predict 'runs/my run' more.csv ") for line in texts)
    assert not any("newkinds sort" in line for line in texts)


@pytest.mark.parametrize(
    ("name", "argument"),
    [("-x", "-- -x"), ("- y", "-- '- y'"), ("a'b", """'a'"'"'b'"""), ("a\x1b", "7"), (" a", "7"), ("", "7")],
)
def test_the_kind_of_a_suggested_command_can_be_typed(name: str, argument: str) -> None:
    category = {"id": 7, "name": name, "kind": "new", "size": 3, "labelled": 0}
    lines = run_lines(record(categories=[category]))
    assert f"newkinds show 'runs/my run' {argument} one kind: typical, doubtful, alike" in lines


def test_a_report_is_suggested_where_there_is_one(tmp_path: Path) -> None:
    assert not any(line.startswith("Report") for line in shown(show_run, record(), tmp_path))
    (tmp_path / "report.html").write_text("a")
    assert f"Report: {(tmp_path / 'report.html').as_uri()}" in shown(show_run, record(), tmp_path)


def test_a_command_is_never_broken_into_lines() -> None:
    console = Console(file=io.StringIO(), width=40, color_system=None)
    show_run(console, record(), Path("a-long-folder/" * 5))
    assert isinstance(console.file, io.StringIO)
    assert f"newkinds predict {'a-long-folder/' * 4}a-long-folder more.npy" in console.file.getvalue()


def test_a_method_without_lam_shows_none() -> None:
    lines = run_lines(record(chosen={**record()["chosen"], "lam": None}, method="kmeans"))
    assert lines[-1].startswith("KMEANS, temperature 40,")


def test_the_score_and_the_warnings_are_shown() -> None:
    score = {"all": 0.5, "old": None, "new": 0.123, "protocol": "v2"}
    lines = run_lines(record(score=score, warnings=["one is empty", "two are alike"]))
    assert after(lines, "Accuracy All / Old / New (v2): 50.0 / – / 12.3")[:2] == [
        "Warning: one is empty",
        "Warning: two are alike",
    ]
    assert not any("Warning" in line or "Accuracy" in line for line in run_lines(record()))


def test_markup_in_names_is_shown_as_it_is() -> None:
    warning = "see [1], [/] and :car: in C:\\"
    made = record(source={**record()["source"], "name": "[red]a[/red] :car: \\"}, warnings=[warning])
    made["categories"][0]["name"] = "[bold]b[/bold] :car:"
    made["categories"][1]["name"] = "[/c]\\"
    lines = run_lines(made)
    assert lines[0] == "[red]a[/red] :car: \\"
    assert lines[4].startswith("0 [bold]b[/bold] :car: 5,000")
    assert lines[5].startswith("1 [/c]\\ new 2,500")
    assert f"Warning: {warning}" in lines
    assert any("newkinds show 'runs/my run' '[/c]\\' one kind" in line for line in lines)


def table_of(lines: list[str]) -> list[str]:
    """The rows of the table of kinds."""
    rows = after(lines, HEADER.removesuffix(" confidence"))
    return rows[: rows.index("")]


def many(n_known: int, n_new: int) -> list[dict[str, Any]]:
    kinds = ["known"] * n_known + ["new"] * n_new
    return [
        {"id": i, "name": f"{kind}-{i}", "kind": kind, "size": 1000 - i, "labelled": 7 if kind == "known" else 0}
        for i, kind in enumerate(kinds)
    ]


def test_of_many_categories_the_first_are_listed_and_the_rest_is_summed_up() -> None:
    n_known, n_new = SHOWN_CATEGORIES + 2, SHOWN_CATEGORIES + 1
    categories = many(n_known, n_new)
    lines = table_of(run_lines(record(categories=categories)))
    assert len(lines) == 2 * SHOWN_CATEGORIES + 2
    names = [category["name"] for category in categories]
    first_new = SHOWN_CATEGORIES + 1
    assert [line.split()[1] for line in lines[:SHOWN_CATEGORIES]] == names[:SHOWN_CATEGORIES]
    assert lines[SHOWN_CATEGORIES] == "… 2 more known (show --all) 1,959 14"
    assert [line.split()[1] for line in lines[first_new:-1]] == names[n_known : n_known + SHOWN_CATEGORIES]
    assert lines[-1] == f"… 1 more new (show --all) {1000 - (n_known + n_new - 1)} 0"


def test_all_categories_are_listed_on_request_and_where_they_are_few() -> None:
    n = SHOWN_CATEGORIES
    lines = run_lines(record(categories=many(n + 5, n + 5)), everything=True)
    assert len(table_of(lines)) == 2 * (n + 5)
    assert not any("… " in line for line in run_lines(record(categories=many(n, n))))


def test_a_run_without_categories_or_samples_can_be_shown() -> None:
    lines = run_lines(record(categories=[]))
    assert table_of(lines) == []
    assert not any("newkinds show" in line for line in lines)
    assert table_of(run_lines(record(categories=record()["categories"][2:]))) == ["2 new-2 new 0 0"]


def test_the_curve_of_lam_marks_the_chosen_one_and_the_longest_bar_is_the_best() -> None:
    curves = {**record()["curves"], "lam": [[0.1, 0.5], [0.2, 0.7], [0.3, 0.6]]}
    lines = run_lines(record(curves=curves), details=True)
    assert lines[lines.index("λ score") :][:4] == [
        "λ score",
        f"0.1 0.500 {bar(0.2)}",
        f"0.2 0.700 {bar(1)} chosen",
        f"0.3 0.600 {bar(0.6)}",
    ]


def test_equal_scores_have_full_bars() -> None:
    curves = {**record()["curves"], "lam": [[0.1, 0.5], [0.2, 0.5]]}
    assert after(run_lines(record(curves=curves), details=True), "λ score")[0] == f"0.1 0.500 {bar(1)}"


def test_the_number_of_categories_is_shown_with_its_interval_and_curve() -> None:
    curves = {**record()["curves"], "n_categories": [[2, 0.5], [3, 0.75]]}
    chosen = {**record()["chosen"], "n_categories_interval": [2, 6]}
    lines = run_lines(record(curves=curves, chosen=chosen), details=True)
    assert lines[1].endswith("(3 in all, 90 % sure between 2 and 6)")
    assert after(lines, "categories score")[1] == f"3 0.750 {bar(1)} chosen"
    chosen = {**record()["chosen"], "n_categories_rule": "max-acc-kmeans"}
    assert run_lines(record(curves=curves, chosen=chosen))[1].endswith("(3 in all)")


def test_how_settings_were_chosen_is_for_those_who_ask() -> None:
    rehearsal = [[40.0, 0.2, 0.5, 8]]
    curves = {"lam": [[0.2, 0.5]], "n_categories": [[3, 0.75]], "rehearsal": rehearsal, "objective": None}
    lines = run_lines(record(curves=curves))
    assert not any("score" in line or "rehearsals" in line for line in lines)
    assert "seconds: fit 2.0" in run_lines(record(curves=curves), details=True)


def test_the_table_of_rehearsals_marks_the_chosen_setting() -> None:
    rehearsal = [[40.0, 0.2, 0.5, 8], [40.0, 0.1, 0.755, 8], [10.0, 0.2, 0.25, 8]]
    made = record(curves={**record()["curves"], "rehearsal": rehearsal})
    lines = run_lines(made, details=True)
    assert after(lines, "rehearsed by the cosine, %: T \\ λ 0.1 0.2")[:2] == [
        "10 25.0",
        "40 75.5 50.0",
    ]
    console = Console(file=io.StringIO(), width=160, force_terminal=True, color_system="standard")
    show_run(console, made, Path("run"), details=True)
    assert isinstance(console.file, io.StringIO)
    table = console.file.getvalue().split("rehearsed")[1]
    marked = re.findall(r"\x1b\[1;33m(.*?)\x1b", table)
    assert [text.strip() for text in marked] == ["50.0"]


def test_the_tables_of_a_refined_run_mark_the_first_setting_and_the_last() -> None:
    curves = {
        **record()["curves"],
        "rehearsal": [[40.0, 0.1, 0.755, 8], [10.0, 0.2, 0.25, 8]],
        "refinement": [[40.0, 0.2, 0.8, 8], [15.0, 1.0, 0.625, 8]],
    }
    made = record(curves=curves, chosen={**record()["chosen"], "metric": "self", "first": [40.0, 0.1]})
    lines = run_lines(made, details=True)
    assert after(lines, "rehearsed in the metric, %: T \\ λ 0.2 1")[:2] == [
        "15 62.5",
        "40 80.0",
    ]
    assert any("metric self, λ 0.2, temperature 40" in line for line in lines)
    console = Console(file=io.StringIO(), width=160, force_terminal=True, color_system="standard")
    show_run(console, made, Path("run"), details=True)
    assert isinstance(console.file, io.StringIO)
    marked = re.findall(r"\x1b\[1;33m(.*?)\x1b", console.file.getvalue().split("rehearsed", 1)[1])
    assert [text.strip() for text in marked] == ["75.5", "80.0"]


def count(**changes: Any) -> CategoryCount:
    made: dict[str, Any] = {"n_categories": 12, "curve": {}, "bounds": (5, 40), "method": "rehearsal"}
    return CategoryCount(**made | changes)


def test_an_estimate_is_shown_with_its_interval_and_curve() -> None:
    curve = {11: 0.25, 12: 0.5}
    assert shown(show_estimate, count(curve=curve, interval=(10, 15)), 5) == [
        "12 categories, 5 known and 7 new (rehearsal, searched 5 to 40)",
        "from 10 to 15 with a probability of 90 %",
        "categories score",
        f"11 0.250 {bar(0.2)}",
        f"12 0.500 {bar(1)} chosen",
    ]
    assert len(shown(show_estimate, count(), 5)) == 1


@pytest.mark.parametrize("bound", [5, 40])
def test_an_estimate_at_its_bound_is_warned_of(bound: int) -> None:
    lines = shown(show_estimate, count(n_categories=bound, method="max-acc-kmeans"), 5)
    assert lines[-1] == "Warning: the estimate is at the bound of its search; give wider --bounds"


@pytest.mark.parametrize(("quiet", "is_terminal"), [(True, True), (False, False)])
def test_progress_is_shown_neither_when_quiet_nor_where_there_is_no_terminal(
    quiet: bool, is_terminal: bool
) -> None:
    console = Console(file=io.StringIO(), force_terminal=is_terminal)
    with progress_bars(console, quiet):
        report_progress("training", 1, 2)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


def test_progress_has_a_bar_for_each_stage_and_hides_those_that_are_finished() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    assert isinstance(console.file, io.StringIO)
    with progress_bars(console, quiet=False):
        report_progress("reading [a]", 1, 2)
        report_progress("reading [a]", 2, 2)
        report_progress("training", 30, 100)
    last = console.file.getvalue().split("\r")
    frames = [" ".join(re.sub(r"\x1b\[.*?[a-zA-Z]", "", frame).split()) for frame in last]
    final = [frame for frame in frames if frame][-1]
    assert re.match(r"training \S+ +30/100 ", final)
    assert "reading" not in final


def test_a_stage_of_many_parts_has_one_bar_with_the_time_left() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    assert isinstance(console.file, io.StringIO)
    with progress_bars(console, quiet=False):
        report_progress("finding the kinds: counting", 100, 1000)
        time.sleep(0.02)
        report_progress("finding the kinds: training", 505, 1000)
    frames = [re.sub(r"\x1b\[.*?[a-zA-Z]", "", frame).strip() for frame in console.file.getvalue().split("\r")]
    final = [frame for frame in frames if frame][-1]
    assert re.match(r"finding the kinds: training \S+ +50 % \S+ about 1 s left", final)
    assert "counting" not in final


def test_after_the_block_nobody_listens() -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    with progress_bars(console, quiet=False):
        pass
    assert isinstance(console.file, io.StringIO)
    before = console.file.getvalue()
    report_progress("training", 1, 2)
    assert console.file.getvalue() == before


HOSTILE = "\x1b[2Jowl\r\n[red]\x9b31m\u202egpj.exe\u2028ant"
SHOWN = r"\x1b[2Jowl\r\n[red]\x9b31m\u202egpj.exe\u2028ant"


def test_nothing_in_a_run_has_power_over_the_terminal() -> None:
    """Neither control characters, nor line ends, nor rich's own markup."""
    hostile = record(
        source={"name": HOSTILE, "samples": 3, "labelled": 1},
        method=HOSTILE,
        score={"protocol": HOSTILE, "all": 0.5, "old": 0.5, "new": 0.5},
        warnings=[HOSTILE],
        versions={"newkinds": HOSTILE},
    )
    hostile["categories"][0]["name"] = HOSTILE
    hostile["categories"][1] |= {"name": HOSTILE, "suggestion": HOSTILE}
    lines = run_lines(hostile)
    assert lines[0] == SHOWN
    assert any(f"by newkinds {SHOWN}" in line for line in lines)
    assert f"Accuracy All / Old / New ({SHOWN}): 50.0 / 50.0 / 50.0" in lines
    assert f"0 {SHOWN} 5,000 1,000 {bar(1)}" in lines
    assert f"Warning: {SHOWN}" in lines
    assert "newkinds show 'runs/my run' 1 one kind: typical, doubtful, alike" in lines
    assert any(line.startswith(f"1 {SHOWN} new {SHOWN[:10]}") and "… 2,500 0" in line for line in lines)
    assert len(lines) == 20
    assert not any(character in "".join(lines) for character in "\x1b\r\x9b\u202e\u2028")


def test_nothing_in_a_kind_has_power_over_the_terminal() -> None:
    sample = Sample(HOSTILE, HOSTILE, 0.5, 0.5, given=True)
    nearest = (Neighbour(1, HOSTILE, "new", 0.5, 0.5),)
    kind = Kind(0, "new-1", HOSTILE, "new", 1, 0, HOSTILE, 0.5, 0.5, 0, (sample,), (sample,), nearest)
    lines = shown(show_kind, kind)
    assert lines[0] == f"{SHOWN} new-1 (new)"
    unnamed = Kind(0, HOSTILE, HOSTILE, "new", 1, 0, HOSTILE, 0.5, 0.5, 0, (sample,), (sample,), nearest)
    assert shown(show_kind, unnamed)[0] == f"{SHOWN} {SHOWN}? (new)"
    assert sum(line.startswith(SHOWN) and "labelled 50 % 50 %" in line for line in lines) == 2
    assert f"{SHOWN} new 0.50 50 %" in lines
    assert not any(character in "".join(lines) for character in "\x1b\r\x9b\u202e\u2028")
