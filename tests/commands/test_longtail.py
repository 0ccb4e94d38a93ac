"""`newkinds longtail`: what is written, what is said, what is refused."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from newkinds import FeatureSet, read_features, write_features
from newkinds.cli import app
from newkinds.data import RawCollection
from newkinds.data.long_tail import long_tailed

N = 80
TRUTH = np.arange(N) % 4
X = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
LABELS = np.where((TRUTH < 2) & (np.arange(N) % 8 < 4), TRUTH, -1)  # 10 zeros and 10 ones of 20 each
SAID = (
    r"Note: made long-tailed \(imbalance 10, seed 0\): 80 → 35 samples; the largest class has 20, the smallest 2\n"
)

runner = CliRunner(env={"COLUMNS": "300"})


def invoke(*arguments):
    return runner.invoke(app, ["longtail", *map(str, arguments)])


def succeed(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fail(*arguments, says: str) -> None:
    """Run the command, which should end with exit code 2 and one line that says what was wrong."""
    result = invoke(*arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert re.fullmatch(rf"Error: .*{says}.*\n", result.stderr), result.stderr
    assert result.stdout == ""


@pytest.fixture
def birds(tmp_path) -> Path:
    """Four classes of 20, of which two are known and half of their samples labelled."""
    collection = FeatureSet(
        X,
        LABELS,
        TRUTH,
        names=("owl", "wren", "ant", "bee"),
        ids=tuple(f"bird-{i}" for i in range(N)),
        texts=tuple(f"text {i}" for i in range(N)),
        encoder={"name": "tiny", "kind": "texts", "fingerprint": "1"},
    )
    write_features(collection, tmp_path / "birds.npz")
    return tmp_path / "birds.npz"


@pytest.fixture
def released(birds, tmp_path) -> Path:
    write_features(read_features(birds), tmp_path / "released")
    return tmp_path / "released"


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
def test_what_is_written_is_what_the_function_makes(birds, tmp_path, ending):
    out = tmp_path / f"tailed{ending}"
    result = succeed(birds, "--imbalance", 10, "--out", out)
    written, expected = read_features(out), long_tailed(read_features(birds), 10)
    assert np.array_equal(written.features, expected.features)
    for field in ("labels", "truth", "names", "ids", "texts", "encoder"):
        assert np.array_equal(getattr(written, field), getattr(expected, field)), field
    assert re.fullmatch(SAID, result.stderr)
    assert result.stdout == f"35 samples, {expected.n_labelled} labelled of 2 known classes, are in {out}.\n"


def test_from_one_folder_in_the_released_layout_to_another(released, tmp_path):
    succeed(released, "--imbalance", 10, "--out", tmp_path / "tailed")
    assert len(os.listdir(tmp_path / "tailed")) == 4
    written, expected = read_features(tmp_path / "tailed"), long_tailed(read_features(released), 10)
    assert np.array_equal(written.features, expected.features)
    assert np.array_equal(written.labels, expected.labels)
    assert written.truth is not None
    assert expected.truth is not None
    assert np.array_equal(written.truth, expected.truth)
    assert len(read_features(released)) == N


def test_labels_and_truth_from_files(tmp_path):
    np.save(tmp_path / "features.npy", X)
    np.save(tmp_path / "labels.npy", LABELS)
    np.save(tmp_path / "truth.npy", TRUTH)
    given = [tmp_path / "features.npy", "--labels", tmp_path / "labels.npy"]
    out = tmp_path / "tailed.npz"
    fail(*given, "--imbalance", 10, "--out", out, says="80 of 80 have none: give them as the truth .--truth.")
    assert not out.exists()
    succeed(*given, "--truth", tmp_path / "truth.npy", "--imbalance", 10, "--out", out)
    assert read_features(out).known.tolist() == [0, 1]
    rows = [int(name) for name in read_features(out).sample_ids()]
    assert np.array_equal(read_features(out).features, X[rows])


def test_the_seed_decides(birds, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        succeed(birds, "--imbalance", 10, "--out", tmp_path / f"{name}.npz", "--seed", seed)
    a, b, c = (read_features(tmp_path / f"{name}.npz").ids for name in "abc")
    assert a == b
    assert a != c


def test_nothing_is_printed_when_nothing_should_be(birds, tmp_path):
    assert succeed(birds, "--imbalance", 10, "--out", tmp_path / "tailed.npz", "--quiet").output == ""


def test_an_earlier_version_is_replaced_by_force(released, tmp_path):
    for imbalance, size in ((5, 20), (20, 20)):
        if (tmp_path / "tailed").exists():
            fail(released, "--imbalance", imbalance, "--out", tmp_path / "tailed", says="already exists.*--force")
        succeed(released, "--imbalance", imbalance, "--out", tmp_path / "tailed", "--force")
        truth = read_features(tmp_path / "tailed").truth
        assert truth is not None
        sizes = np.bincount(truth)
        assert (sizes.max(), sizes.min()) == (size, size // imbalance)


# What is refused


@pytest.mark.parametrize("imbalance", ["0.5", "-3", "nan", "inf"])
def test_an_imbalance_that_is_none(birds, tmp_path, imbalance):
    says = "imbalance must be a number of at least 1"
    fail(birds, f"--imbalance={imbalance}", "--out", tmp_path / "tailed.npz", says=says)
    assert sorted(os.listdir(tmp_path)) == ["birds.npz"]


def test_a_negative_seed(birds, tmp_path):
    fail(birds, "--imbalance", 10, "--seed=-1", "--out", tmp_path / "tailed.npz", says="seed must be.*got -1")


def test_the_source_is_never_replaced_by_a_part_of_it(birds, released, tmp_path):
    (tmp_path / "link").symlink_to(released)
    for source, out in ((birds, birds), (released, released), (released, tmp_path / "link")):
        fail(source, "--imbalance", 10, "--out", out, says="is what is read; choose another place")
    assert len(read_features(birds)) == len(read_features(released)) == N


def test_a_folder_of_something_else_is_never_replaced(birds, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("one")
    fail(birds, "--imbalance", 10, "--out", tmp_path / "thesis", says="already exists")
    fail(birds, "--imbalance", 10, "--out", tmp_path / "thesis", "--force", says="not a folder of features")
    assert os.listdir(tmp_path / "thesis") == ["chapter.txt"]


def test_a_file_that_has_no_place_for_the_truth(birds, tmp_path):
    fail(birds, "--imbalance", 10, "--out", tmp_path / "tailed.npy", says=r"no place for the truth; write an \.npz")
    assert sorted(os.listdir(tmp_path)) == ["birds.npz"]


def test_photos_and_texts_are_to_be_encoded_first(tmp_path):
    (tmp_path / "photos" / "owl").mkdir(parents=True)
    (tmp_path / "tickets.csv").write_text("words,intent\nmy card was stolen,card\n")
    for source in (tmp_path / "photos", tmp_path / "tickets.csv"):
        says = r"is not a set of features; photos and texts become one by `newkinds encode`"
        fail(source, "--imbalance", 10, "--out", tmp_path / "tailed.npz", says=says)


def test_a_published_set_is_to_be_encoded_first(tmp_path, monkeypatch):
    photos = RawCollection("images", [Path("1.jpg")], ("0",), np.array([0]))
    monkeypatch.setattr("newkinds.data.sources.read_published", lambda name, folder: photos)
    says = "cub:downloads is not a set of features.*`newkinds encode`"
    fail("cub:downloads", "--imbalance", 10, "--out", tmp_path / "tailed.npz", says=says)


def test_a_source_that_is_not_there(tmp_path):
    fail(tmp_path / "none.npz", "--imbalance", 10, "--out", tmp_path / "tailed.npz", says="does not exist")
    assert os.listdir(tmp_path) == []
