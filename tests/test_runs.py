"""The run folder: what is in it, and the way back."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pytest
import torch

from newkinds import PIM, FeatureSet, InputError, KMeans, SemiSupervisedKMeans, load
from newkinds.data import digits
from newkinds.discovery import Discovery, discover
from newkinds.report import write_report
from newkinds.run_folder import check_replaceable, read_predictions, read_run
from newkinds.runs import save_run
from newkinds.selection.n_categories import CategoryCount
from tests.report.pages import read_page


def small(labels: np.ndarray | None = None, **extra: Any) -> FeatureSet:
    source = digits()
    assert source.truth is not None
    return FeatureSet(
        features=source.features[:300],
        labels=source.labels[:300] if labels is None else labels,
        truth=source.truth[:300],
        **extra,
    )


@pytest.fixture(scope="module")
def found() -> Discovery:
    return discover(small(), method=PIM(10, lam="labelled", lam_grid=[0.1, 0.3], max_iter=60, random_state=0))


@pytest.fixture(scope="module")
def folder(found: Discovery, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("run")
    save_run(found, target, "digits")
    write_report(target)
    return target


def test_the_folder_holds_what_is_promised(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "model.safetensors",
        "features.npy",
        "predictions.parquet",
        "predictions.csv",
        "map.npy",
        "report.html",
    }


def test_the_record_says_what_was_chosen_and_how(folder: Path, found: Discovery) -> None:
    record = read_run(folder)
    assert record["schema_version"] == 1
    assert record["chosen"]["size_ratio"] == found.model.size_ratio_ == 1.0
    assert not any("as large as" in warning for warning in record["warnings"])
    assert record["chosen"]["lam"] == found.model.lam_
    assert record["chosen"]["n_categories"] == 10
    assert record["curves"]["lam"] == [[lam, score] for lam, score in found.model.lam_curve_.items()]
    assert record["parameters"]["random_state"] == 0
    assert record["parameters"]["lam_grid"] == [0.1, 0.3]
    assert [c["kind"] for c in record["categories"]] == ["known"] * 5 + ["new"] * 5
    assert sum(c["size"] for c in record["categories"]) == 300
    assert [c["name"] for c in record["categories"]][4:7] == ["4", "new-1", "new-2"]
    score = found.score()
    assert score is not None
    assert record["score"]["all"] == pytest.approx(score.all)
    assert record["versions"]["torch"]


def test_lam_at_the_edge_is_warned_of(folder: Path) -> None:
    (warning,) = [text for text in read_run(folder)["warnings"] if "λ" in text]
    assert "is at the edge of the range that was tried (0.1 to 0.3)" in warning


def test_uneven_sizes_and_a_wide_interval_are_warned_of(found: Discovery, tmp_path: Path) -> None:
    model = copy.copy(found.model)
    model.size_ratio_ = 0.25
    model.n_categories_search_ = CategoryCount(10, {}, (5, 50), "rehearsal", interval=(8, 14))
    save_run(Discovery(found.collection, model), tmp_path, "digits")
    record = read_run(tmp_path)
    assert record["chosen"]["size_ratio"] == 0.25
    assert load(tmp_path).size_ratio_ == 0.25
    told = " ".join(record["warnings"])
    assert "there may be between 8 and 14 categories" in told
    assert "new categories seem to be 0.25 times as large as known ones" in told


def test_predictions_agree_with_the_model(folder: Path, found: Discovery) -> None:
    table = read_predictions(folder)
    assert table["id"].to_pylist()[:2] == ["0", "1"]
    assert table["category"].to_numpy().tolist() == found.model.labels_.tolist()
    assert table["given"].to_pylist() == (found.collection.labels >= 0).tolist()
    p = found.model.predict_proba(found.collection.features)
    np.testing.assert_allclose(table["novelty"].to_numpy(), p[:, 5:].sum(axis=1), atol=1e-6)
    columns = np.searchsorted(found.model.categories_, found.model.labels_)
    np.testing.assert_allclose(table["confidence"].to_numpy(), p[np.arange(300), columns], atol=1e-6)
    same = pa_csv.read_csv(folder / "predictions.csv")
    assert same["category"].to_pylist() == table["category"].to_pylist()


def test_features_are_kept_at_unit_length_in_half_precision(folder: Path) -> None:
    features = np.load(folder / "features.npy", allow_pickle=False)
    assert features.dtype == np.float16
    np.testing.assert_allclose(np.linalg.norm(features.astype(float), axis=1), 1, atol=2e-3)


def test_a_loaded_model_predicts_the_same(folder: Path, found: Discovery) -> None:
    model = load(folder)
    X = digits().features[300:600]
    assert np.array_equal(model.predict_proba(X), found.model.predict_proba(X))
    assert np.array_equal(model.labels_, found.model.labels_)
    assert model.get_params()["max_iter"] == 60
    assert model.lam_ == found.model.lam_
    assert model.lam_curve_ == found.model.lam_curve_
    assert model.category_names_ == found.names


def test_a_loaded_model_can_be_saved_again_and_fitted_anew(folder: Path, found: Discovery, tmp_path: Path) -> None:
    model = load(folder)
    save_run(Discovery(found.collection, model), tmp_path, "again")
    assert load(tmp_path).lam_curve_ == found.model.lam_curve_
    model.set_params(n_categories=8, lam=0.2).fit(found.collection.features, found.collection.labels)
    assert model.n_categories_ == 8
    assert list(model.category_names_.values()) == ["0", "1", "2", "3", "4", "new-1", "new-2", "new-3"]
    assert not hasattr(model, "source_columns_")


def test_the_search_for_the_number_of_categories_is_loaded_too(tmp_path: Path) -> None:
    found = discover(small(), method=KMeans("max-acc-kmeans", random_state=0))
    save_run(found, tmp_path, "digits")
    assert load(tmp_path).n_categories_search_ == found.model.n_categories_search_


def test_odd_parameters_are_written_down_and_foreign_methods_refused(tmp_path: Path) -> None:
    grid = [np.float32(0.25), np.float32(0.5)]
    start = torch.rand(10, 64, generator=torch.Generator().manual_seed(0))
    found = discover(small(), method=PIM(init=start, lam_grid=grid, max_iter=3, random_state=0))
    save_run(found, tmp_path, "digits")
    model = load(tmp_path)
    assert model.lam_grid == [0.25, 0.5]
    np.testing.assert_allclose(model.init, start.numpy())

    class Mine(PIM):
        pass

    mine = discover(small(), method=Mine(10, lam=0.3, max_iter=3))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="only the package's own methods can be saved; Mine is not"):
        save_run(mine, tmp_path / "empty", "digits")
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("method", [KMeans, SemiSupervisedKMeans])
def test_methods_without_lam_are_saved_too(tmp_path: Path, method: type[KMeans]) -> None:
    found = discover(small(), method=method(10, random_state=0))
    save_run(found, tmp_path, "digits")
    write_report(tmp_path)
    assert np.array_equal(
        load(tmp_path).predict(found.collection.features), found.model.predict(found.collection.features)
    )


def test_an_array_as_start_survives(tmp_path: Path) -> None:
    prototypes = np.random.default_rng(0).normal(size=(10, 64)).astype(np.float32)
    found = discover(
        small(), method=PIM(init=prototypes, lam=0.3, max_iter=5, random_state=np.random.RandomState(0))
    )
    save_run(found, tmp_path, "digits")
    model = load(tmp_path)
    np.testing.assert_allclose(np.asarray(model.init), prototypes)
    assert model.random_state is None  # a generator's state cannot be written down


def test_names_texts_and_estimated_number(tmp_path: Path) -> None:
    source = small()
    named = FeatureSet(
        features=source.features,
        labels=source.labels,
        names=("zero", "one", "two", "new-ish", "new-1"),
        texts=tuple(f"<b>number {i}</b>" for i in range(300)),
    )
    found = discover(named, method=KMeans("max-acc-kmeans", random_state=0))
    save_run(found, tmp_path, "digits & <co>")
    write_report(tmp_path)
    record = read_run(tmp_path)
    names = [c["name"] for c in record["categories"]]
    assert names[:5] == ["zero", "one", "two", "new-ish", "new-1"]
    assert names[5] == "discovered-1"  # "new-1" is taken
    assert len(set(names)) == len(names)
    assert record["score"] is None
    assert record["curves"]["n_categories"]
    page = read_page(tmp_path / "report.html")
    assert page.texts["texts"][:2] == ["<b>number 0</b>", "<b>number 1</b>"]
    assert page.content["title"] == "digits & <co>"
    assert "<b>number" not in page.html
    assert "<title>digits &amp; &lt;co&gt;: kinds" in page.html


def test_the_report_stands_alone(tmp_path: Path) -> None:
    found = discover(digits(), method=PIM(10, lam="labelled", lam_grid=[0.1, 0.3], max_iter=5, random_state=0))
    save_run(found, tmp_path, "digits")
    page = read_page(write_report(tmp_path))
    assert len(page.pictures["pictures"]) == len(digits())
    assert not re.search(r"(src|href)=|@import|url\(", page.html.split("<script>")[0])
    charts = page.content["how"]["charts"]
    assert [(chart["kind"], chart["y_label"]) for chart in charts] == [
        ("curve", "labelled accuracy"),
        ("curve", "objective"),
    ]


def test_empty_and_single_categories_are_warned_of(tmp_path: Path) -> None:
    X = np.array([[1.0, 0.0]] * 6 + [[0.0, 1.0]])
    found = discover(FeatureSet(X, np.array([0, -1, -1, -1, -1, -1, -1])), method=KMeans(4, random_state=0))
    save_run(found, tmp_path, "few")
    write_report(tmp_path)
    text = " | ".join(read_run(tmp_path)["warnings"])
    assert "2 categories are empty: new-2, new-3" in text
    assert "1 category is of a single sample: new-1" in text


def test_nothing_or_everything_may_be_labelled(tmp_path: Path) -> None:
    """The command line refuses both; from Python they are clusterings and classifiers like others."""
    for labels, kinds in ((np.full(300, -1), ["new"] * 3), (small().truth, ["known"] * 10)):
        discovery = discover(small(labels=labels), method=KMeans(len(kinds), random_state=0))
        folder = tmp_path / kinds[0]
        folder.mkdir()
        save_run(discovery, folder, "digits")
        assert [category["kind"] for category in read_run(folder)["categories"]] == kinds
        assert np.array_equal(load(folder).labels_, discovery.model.labels_)


def test_damage_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run folder: it has no run\.json"):
        load(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        load(tmp_path)
    record = json.loads((folder / "run.json").read_text("utf-8"))
    (tmp_path / "run.json").write_text(json.dumps({**record, "schema_version": 99}))
    with pytest.raises(InputError, match="schema version 99"):
        load(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"model\.safetensors is not the file that run\.json describes"):
        load(tmp_path)
    old = {key: value for key, value in record.items() if key != "checksums"}
    (tmp_path / "run.json").write_text(json.dumps(old))
    with pytest.raises(InputError, match=r"model\.safetensors cannot be read"):
        load(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({**record, "method": "os.system"}))
    with pytest.raises(InputError, match=r"method 'os\.system', which this version does not have"):
        load(tmp_path)


def test_only_an_earlier_run_may_be_replaced(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"already holds a run; .* --force"):
        check_replaceable(folder, force=False)
    check_replaceable(folder, force=True)
    check_replaceable(folder, force=False, source=read_run(folder)["source"]["name"])
    for content in (None, "{}", "[]", '{"schema_version": 1}', '{"schema_version": 1, "versions": {"other": "1"}}'):
        if content is not None:
            (tmp_path / "run.json").write_text(content)
        with pytest.raises(InputError, match="is not a run folder; choose another place"):
            check_replaceable(tmp_path, force=True)
