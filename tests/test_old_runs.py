"""Run folders that earlier versions made are still read. The first release, 0.1.0, made `old_runs/pim`."""

import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import newkinds
from newkinds.report import write_report
from newkinds.run_folder import read_run
from tests.commands.command_line import printed, rows_of

OLD_RUN = Path(__file__).parent / "old_runs" / "pim"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return shutil.copytree(OLD_RUN, tmp_path / "run")


def test_its_model_predicts_what_it_did(run: Path) -> None:
    model = newkinds.load(run)
    predictions = pq.read_table(run / "predictions.parquet")
    features = np.load(run / "features.npy")
    result = model.assess(features)
    unlabelled = ~predictions["given"].to_numpy()
    assert np.array_equal(result.categories[unlabelled], predictions["category"].to_numpy()[unlabelled])
    confidence, novelty = (predictions[name].to_numpy() for name in ("confidence", "novelty"))
    np.testing.assert_allclose(result.confidence[unlabelled], confidence[unlabelled], atol=2e-3)  # features.npy is
    np.testing.assert_allclose(result.novelty[unlabelled], novelty[unlabelled], atol=2e-3)  # in half precision
    assert (model.lam_, model.temperature_, model.n_categories_) == (0.1, 10.0, 3)
    assert model.n_categories_search_ is not None
    assert model.n_categories_search_.interval == (2, 4)


def test_the_commands_read_it(run: Path) -> None:
    shown = printed("show", run)
    assert "2 known kinds and 1 new one (3 in all, 90 % sure between 2 and 4)" in shown
    assert re.search(r"nearest kinds.*\n new-1 new", printed("show", run, "owl"))
    rows = rows_of(printed("predict", run, run / "features.npy"))
    assert [row["name"] for row in rows[:3]] == ["owl", "wren", "new-1"]


def test_it_is_opened_as_a_discovery(run: Path) -> None:
    discovery = newkinds.open_run(run)
    assert discovery.names == {0: "owl", 1: "wren", 2: "new-1"}
    assert discovery.collection.n_labelled == 20
    assert discovery.predict(discovery.collection.features[:3])["name"].to_pylist() == ["owl", "wren", "new-1"]
    assert "owl" in discovery.report(run.parent / "page.html").read_text("utf-8")


def test_a_page_is_made_of_it(run: Path) -> None:
    assert not (run / "report.html").exists()
    page = write_report(run).read_text("utf-8")
    assert all(category["name"] in page for category in read_run(run)["categories"])
