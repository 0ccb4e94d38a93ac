"""What the report shows, as data."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from newkinds import FeatureSet, InputError, discover
from newkinds.editing import EditedRun
from newkinds.report import content as content_module
from newkinds.report import make_report, write_report
from newkinds.report.content import as_script, cut
from newkinds.run_folder import read_run
from tests.arrivals import N_NEW, arrive
from tests.commands.command_line import fail, printed, succeed
from tests.report.conftest import HOSTILE, grouped, half_labelled, save
from tests.report.pages import parse_page, read_page

OLD_RUN = Path(__file__).parents[1] / "old_runs" / "pim"


@pytest.fixture
def page(digits_run: Path):
    return read_page(digits_run / "report.html")


def test_categories_are_described(page, digits_run):
    record = read_run(digits_run)
    table = pq.read_table(digits_run / "predictions.parquet")
    categories = table["category"].to_numpy()
    confidence, given = table["confidence"].to_numpy(), table["given"].to_numpy()
    for shown, category in zip(page.content["categories"], record["categories"], strict=True):
        members = categories == category["id"]
        assert (shown["key"], shown["name"], shown["size"]) == (category["name"], None, members.sum())
        assert shown["confidence"] == pytest.approx(confidence[members].mean(), abs=1e-3)
        unlabelled = members & ~given
        assert shown["clear"] == pytest.approx((confidence[unlabelled] >= 0.5).mean(), abs=1e-3)
        assert 0.5 < shown["stability"] <= 1
        assert set(categories[shown["typical"]]) == {category["id"]}
        assert len(shown["typical"]) == 12
        assert len(shown["doubtful"]) == min(6, (confidence[unlabelled] < 0.9).sum())
        assert (confidence[shown["doubtful"]] < 0.9).all()
        assert not given[shown["doubtful"]].any()
        assert not set(shown["typical"]) & set(shown["doubtful"])
        assert len(shown["nearest"]) == 4
        similarity = [other["similarity"] for other in shown["nearest"]]
        assert similarity == sorted(similarity, reverse=True)
        assert shown["id"] not in [other["id"] for other in shown["nearest"]]


def test_points_are_the_samples(page, digits_run):
    n = 1797
    assert len(page.points) == n * (2 + 2 + 2 + 1 + 1 + 1)
    category, x, y = (np.frombuffer(page.points, "<u2", n, 2 * n * i) for i in range(3))
    confidence, novelty, given = (np.frombuffer(page.points, np.uint8, n, 6 * n + n * i) for i in range(3))
    table = pq.read_table(digits_run / "predictions.parquet")
    assert np.array_equal(category, table["category"].to_numpy())
    assert np.array_equal(given, table["given"].to_numpy())
    np.testing.assert_allclose(confidence / 255, table["confidence"].to_numpy(), atol=0.003)
    np.testing.assert_allclose(novelty / 255, table["novelty"].to_numpy(), atol=0.003)
    places = np.load(digits_run / "map.npy")
    np.testing.assert_allclose(np.stack([x, y], axis=1) / 65535, places, atol=1e-4)
    assert max(x.max(), y.max()) == 65535


def test_truth_is_shown_as_it_was_scored(page, digits_run):
    truth, score = page.content["truth"], read_run(digits_run)["score"]
    assert [truth[part] for part in ("all", "old", "new")] == [score[part] for part in ("all", "old", "new")]
    sizes = np.array([entry["n"] for entry in truth["reliability"]])
    right = np.array([entry["accuracy"] for entry in truth["reliability"]])
    assert sizes.sum() == 1347
    assert (sizes * right).sum() / sizes.sum() == pytest.approx(score["all"], abs=1e-3)
    wrong = [entry["n"] for entry in truth["confusions"]]
    assert wrong == sorted(wrong, reverse=True)
    assert sum(wrong) <= round((1 - score["all"]) * 1347)
    assert 0 <= truth["calibration_error"] < 0.5
    assert all(0 <= category["accuracy"] <= 1 for category in page.content["categories"])


def test_how_it_was_found_comes_with_sentences(page):
    how = page.content["how"]
    assert ["λ", "0.3"] in [fact[:2] for fact in how["facts"]]
    assert all(fact[2].endswith(".") for fact in how["facts"])
    assert all(chart["text"].endswith(".") for chart in how["charts"])


def test_texts_and_their_names(texts_run):
    page = read_page(texts_run / "report.html")
    assert page.content["unit"] == ["text", "texts"]
    assert page.texts["texts"][0] == "my card is lost, number 0"
    suggestions = {category["suggestion"] for key, category in page.categories.items() if key.startswith("new")}
    assert any("PIN" in suggestion for suggestion in suggestions)
    assert any("fee" in suggestion for suggestion in suggestions)
    assert page.pictures["pictures"] == {}


def test_only_the_page_s_own_script_and_style_may_run(page):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page.html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", page.html, flags=re.S)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy[1]


def test_hostile_texts_stay_in_their_blocks(hostile_run):
    page = read_page(hostile_run / "report.html")
    assert page.html.count("<script") == 5
    assert page.html.count("</script") == 5
    assert "<img" not in page.html.split("<script>")[0]
    assert page.texts["texts"][0].startswith(HOSTILE)
    assert page.content["title"] == HOSTILE


@pytest.mark.parametrize("text", [HOSTILE, "<!--", "]]>", "&amp;", "\ud800", "\u2028", "ü"])
def test_json_cannot_end_its_script(text: str) -> None:
    script = as_script({"a": [text]})
    assert not re.search("[<>&\u2028\u2029]", script)
    assert json.loads(script)["a"][0] in (text, "?")


# Fitting into the page


def with_texts(folder: Path, length: int, n: int = 400) -> Path:
    rng = np.random.default_rng(0)
    features, truth = grouped(4, n)
    texts = tuple("".join(map(chr, rng.integers(97, 123, length))) for _ in range(n))
    return save(FeatureSet(features, half_labelled(truth, 2), texts=texts), 4, folder, "long", with_map=False)


@pytest.mark.parametrize("limit", [200_000, 100_000])
def test_long_texts_are_cut_until_they_fit(tmp_path, monkeypatch, limit):
    run = with_texts(tmp_path / "run", 1500)
    whole = read_page(run / "report.html")
    assert {len(text) for text in whole.texts["texts"]} == {1500}
    monkeypatch.setattr(content_module, "PAGE_BYTES", limit + content_module.FRAME_BYTES)
    page = parse_page(make_report(run))
    assert {len(text) for text in page.texts["texts"]} < {500, 200, 100, 50, 0}
    blocks = re.findall(r"<script type=.*?</script>", page.html, flags=re.S)
    assert sum(len(block) for block in blocks) < limit + 1000


def test_samples_that_came_are_shown_with_their_pictures(photos_run, tmp_path):
    run = Path(shutil.copytree(photos_run, tmp_path / "run"))
    before = parse_page(make_report(run))
    arrive(run, let_go=2)
    page = parse_page(make_report(run))
    n = 90 - 2 + N_NEW
    assert (page.content["n_samples"], len(page.texts["ids"])) == (n, n)
    assert len(page.pictures["pictures"]) == n
    assert page.pictures["pictures"]["0"] == before.pictures["pictures"]["2"]
    assert page.content["map"] is None
    EditedRun(run).undo()
    assert parse_page(make_report(run)).pictures == before.pictures
    assert parse_page(make_report(run)).content["map"] == before.content["map"]


def test_pictures_are_left_out_where_they_do_not_fit(photos_run, monkeypatch):
    whole = read_page(photos_run / "report.html")
    assert len(whole.pictures["pictures"]) == 90
    blocks = re.findall(r"<script type=.*?</script>", whole.html, flags=re.S)
    room = sum(map(len, blocks)) - len(json.dumps(whole.pictures)) // 2
    monkeypatch.setattr(content_module, "PAGE_BYTES", room + content_module.FRAME_BYTES)
    page = parse_page(make_report(photos_run))
    shown = set(page.pictures["pictures"])
    assert 0 < len(shown) < 90
    new = page.categories["new-1"]
    assert {str(row) for row in new["typical"][:3]} <= shown


def test_long_ids_are_cut_too(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    features, truth = grouped(3, 600)
    ids = tuple("".join(map(chr, rng.integers(97, 123, 250))) for _ in range(600))
    run = save(FeatureSet(features, half_labelled(truth, 2), ids=ids), 3, tmp_path / "run", "long", with_map=False)
    assert read_page(run / "report.html").texts["ids"][0] == ids[0]
    monkeypatch.setattr(content_module, "PAGE_BYTES", content_module.FRAME_BYTES + 60_000)
    html = make_report(run)
    assert len(html.encode()) <= content_module.PAGE_BYTES
    assert {len(name) for name in parse_page(html).texts["ids"]} < {50, 16, 100}


def test_categories_with_huge_ids_are_told_apart(tmp_path):
    features, truth = grouped(3, 90)
    labels = np.where(half_labelled(truth, 2) >= 0, 2**60 + truth, -1)
    page = read_page(save(FeatureSet(features, labels), 3, tmp_path / "run", "huge") / "report.html")
    assert [category["id"] for category in page.content["categories"]] == [0, 1, 2]
    assert list(page.categories)[:2] == [str(2**60), str(2**60 + 1)]


def test_the_path_of_an_encoder_is_not_on_the_page(tmp_path):
    features, truth = grouped(3, 60)
    encoder = {"name": "/home/alice/secret/encoder", "kind": "texts", "fingerprint": "0" * 64}
    collection = FeatureSet(features, half_labelled(truth, 2), texts=("a",) * 60, encoder=encoder)
    page = read_page(save(collection, 3, tmp_path / "run", "few") / "report.html")
    assert "alice" not in page.html
    assert ["encoder", "encoder"] in [fact[:2] for fact in page.content["how"]["facts"]]


def test_a_page_that_cannot_be_made_does_not_cost_the_run(tmp_path, monkeypatch, caplog):
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("a fault of the page")

    monkeypatch.setattr("newkinds.report.page.make_report", broken)
    features, truth = grouped(3, 60)
    run = save(FeatureSet(features, half_labelled(truth, 2)), 3, tmp_path / "run", "few")
    assert read_run(run)["source"]["samples"] == 60
    assert not (run / "report.html").exists()
    assert "the run is whole" in caplog.text


def test_a_very_large_run_shows_some_of_its_samples(texts_run, monkeypatch):
    whole = read_page(texts_run / "report.html")
    monkeypatch.setattr(content_module, "MOST_POINTS", 50)
    page = parse_page(make_report(texts_run))
    n = page.content["n_points"]
    assert 50 <= n < 240 == page.content["n_samples"]
    assert len(page.texts["ids"]) == n
    assert len(page.points) == 9 * n
    for key, category in page.categories.items():
        for part in ("typical", "doubtful"):
            before = [whole.texts["ids"][row] for row in whole.categories[key][part]]
            assert [page.texts["ids"][row] for row in category[part]] == before
            assert [page.content["samples"][str(row)][0] for row in category[part]] == before


# Odd runs


def test_an_old_run_has_a_page_with_a_map_of_its_own(tmp_path):
    run = Path(shutil.copytree(OLD_RUN, tmp_path / "run"))
    before = sorted(path.name for path in run.iterdir())
    page = read_page(write_report(run))
    assert page.content["map"]["method"] in ("clouds", "umap")
    assert [c["suggestion"] for c in page.content["categories"]] == [None] * 3
    assert [c["stability"] for c in page.content["categories"]] == [None] * 3
    assert sorted(path.name for path in run.iterdir()) == sorted([*before, "report.html"])


def test_a_run_that_was_made_without_a_map_stays_without(tmp_path):
    features, truth = grouped(3, 60)
    run = save(FeatureSet(features, half_labelled(truth, 2)), 3, tmp_path / "run", "few", with_map=False)
    assert not (run / "map.npy").exists()
    assert read_run(run)["map"] is None
    assert read_page(run / "report.html").content["map"] is None


@pytest.mark.parametrize(
    ("X", "labels", "n_categories"),
    [
        (np.eye(4), [0, -1, -1, -1], 2),
        (np.ones((6, 2)), [0, -1, -1, -1, -1, -1], 3),
        (np.eye(5), [0, 1, 2, 3, 4], 5),
        (np.repeat(np.eye(3), 20, axis=0), [-1] * 60, 3),
    ],
    ids=["tiny", "all the same", "all labelled", "nothing labelled"],
)
@pytest.mark.filterwarnings("ignore:.*no sample is labelled")
def test_odd_collections_have_a_page(tmp_path, X, labels, n_categories):
    discovery = discover(X, labels, method="sskm", n_categories=n_categories)
    page = read_page(discovery.save(tmp_path / "run") / "report.html")
    assert page.content["n_samples"] == len(X)
    assert sum(category["size"] for category in page.content["categories"]) == len(X)


def test_a_map_that_was_changed_is_refused(digits_run, tmp_path):
    run = Path(shutil.copytree(digits_run, tmp_path / "run"))
    np.save(run / "map.npy", np.zeros((3, 2), dtype=np.float32))
    with pytest.raises(InputError, match=r"map\.npy is not the file that run\.json describes"):
        make_report(run)


# Words


def sentences(page: Any) -> str:
    return " ".join(page.content["summary"])


def test_the_summary_counts_in_words(page, photos_run, texts_run):
    assert sentences(page).startswith("1,797 samples. Five kinds were known; five more were found. ")
    assert "90 photos. Two kinds were known; one more was found." in sentences(
        read_page(photos_run / "report.html")
    )
    assert "240 texts." in sentences(read_page(texts_run / "report.html"))


def test_small_helpers() -> None:
    assert (cut("abcdef", 4), cut("abcd", 4), cut("abc", 0)) == ("abc…", "abcd", "…")


# The command


def test_the_report_is_written_anew(digits_run, tmp_path):
    run = Path(shutil.copytree(digits_run, tmp_path / "run"))
    (run / "report.html").unlink()
    said = printed("report", run)
    assert said.strip() == (run / "report.html").as_uri()
    assert read_page(run / "report.html").content["map"] is not None
    succeed("report", run, "--no-map", "-q")
    assert read_page(run / "report.html").content["map"] is None
    succeed("report", run, "--out", tmp_path / "page.html", "-q")
    fail("report", run, "--out", tmp_path / "page.html", says="already exists")
    fail("report", run, "--out", run / "run.json", says="belongs to the run")
    fail("report", tmp_path / "typo" / "run", says="is not a run folder")
    assert not (tmp_path / "typo").exists()


def test_the_browser_is_opened_on_request(digits_run, tmp_path, monkeypatch):
    opened: list[str] = []

    def open_page(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("webbrowser.open", open_page)
    succeed("report", digits_run, "--out", tmp_path / "page.html", "--open", "-q")
    assert opened == [(tmp_path / "page.html").as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    said = printed("report", digits_run, "--out", tmp_path / "other.html", "--open")
    assert "open that address yourself" in said
