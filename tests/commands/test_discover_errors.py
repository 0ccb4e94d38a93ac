"""`newkinds discover`: what it refuses, in one line, with nothing written."""

import os

import numpy as np
import pytest

from tests.commands.command_line import (
    LABELS,
    SMALL,
    TRUTH,
    WIDTH,
    N,
    X,
    fail,
    invoke,
    write,
)


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"labels": TRUTH}, [], "every sample is labelled"),
        ({"labels": TRUTH.astype(str)}, [], "every sample is labelled"),
        ({}, ["--n-categories", "1"], "n_categories=1 is fewer than the 2"),
        ({}, ["--n-categories", "61"], "n_categories=61 is more than"),
        ({"features": np.where(np.arange(WIDTH) == 2, np.nan, X)}, [], r"birds\.npz: .*finite; row 0"),
        ({"features": np.where(np.arange(WIDTH) == 2, np.inf, X)}, [], r"birds\.npz: .*finite; row 0"),
        ({"features": X * (np.arange(N) != 7)[:, None]}, [], "row 7 is a zero vector"),
        ({"features": X[0]}, [], "two-dimensional"),
        ({"features": np.array(1.0)}, [], "features"),
        ({"features": X[:0], "labels": LABELS[:0]}, [], "no features"),
        ({"labels": LABELS[:-1]}, [], "60 samples but 59 labels"),
        ({"labels": LABELS + 0.5}, [], "integers or names"),
        ({"labels": LABELS - 5}, [], "at least 0"),
        ({"labels": np.eye(N, dtype=int)}, [], r"birds\.npz.*label"),
        ({"labels": np.array(["9" * 30, *[""] * (N - 1)])}, [], "label"),
        ({"truth": TRUTH[::-1]}, [], "differs from its truth"),
        ({"images": np.zeros((N, 2, 2))}, [], "image"),
    ],
    ids=[
        "all labelled",
        "all named",
        "K too small",
        "K too large",
        "NaN",
        "infinity",
        "zero vector",
        "1-d",
        "0-d",
        "empty",
        "lengths",
        "fractions",
        "negative",
        "one-hot",
        "huge label",
        "truth",
        "images",
    ],
)
def test_bad_data_ends_with_one_line_and_nothing_written(tmp_path, arrays, options, says):
    source = write(tmp_path / "birds.npz", **arrays)
    fail("discover", source, "--out", tmp_path / "run", *SMALL, *options, says=says)
    assert os.listdir(tmp_path) == ["birds.npz"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--n-categories", "many"], "n_categories.*'many'"),
        (["--n-categories", "3.5"], r"n_categories.*3\.5"),
        (["--n-categories", "0"], "n_categories.*0"),
        (["--lam", "large"], "lam.*'large'"),
        (["--lam", "-1"], "lam.*-1"),
        (["--lam", "nan"], "lam.*nan"),
        (["--temperature", "0"], "temperature.*0"),
        (["--temperature", "inf"], "temperature.*inf"),
        (["--device", "tpu"], "device.*auto, cpu, cuda, mps.*'tpu'"),
        (["--init", "guess"], "init.*'guess'"),
        (["--init", "nowhere.npy"], r"nowhere\.npy does not exist"),
        (["--max-iter", "0"], "max_iter.*0"),
        (["--n-init", "0"], "n_init.*0"),
        (["--seed", "-1"], "random_state.*-1"),
        (["--method", "kmeans"], "kmeans has no option lam"),
        (["--labels", "nowhere.csv"], r"nowhere\.csv does not exist"),
        (["--labels", "nowhere.doc"], r"nowhere\.doc"),
        (["--truth", "nowhere.csv"], r"nowhere\.csv does not exist"),
    ],
)
def test_options_that_cannot_be_used_end_with_one_line_and_nothing_written(collection, tmp_path, options, says):
    fail("discover", collection, "--out", tmp_path / "run", *SMALL, *options, says=says)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--method", "magic", ["pim", "rim", "tim", "sskm", "kmeans"]),
        ("--recipe", "soup", ["newkinds", "paper", "release"]),
        ("--seed", "x", ["--seed"]),
        ("--consensus", "all", ["--consensus"]),
    ],
)
def test_a_choice_that_is_not_offered_ends_with_those_that_are(collection, tmp_path, option, value, choices):
    result = invoke("discover", collection, "--out", tmp_path / "run", option, value)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert all(choice in result.stderr for choice in choices)
    assert os.listdir(tmp_path) == []


def test_prototypes_of_a_wrong_shape_are_refused(collection, tmp_path):
    np.save(tmp_path / "protos.npy", np.eye(3))
    says = r"init.*\(3, 8\).*\(3, 3\)"
    fail("discover", collection, "--out", tmp_path / "run", *SMALL, "--init", tmp_path / "protos.npy", says=says)


@pytest.mark.parametrize("command", ["discover", "estimate"])
def test_a_missing_source_is_refused(tmp_path, command):
    out = ["--out", tmp_path / "run"] if command == "discover" else []
    fail(command, tmp_path / "nowhere.npz", *out, says=r"nowhere\.npz does not exist")


def test_a_folder_that_cannot_be_made_is_refused(collection, tmp_path):
    (tmp_path / "file").write_text("kept")
    fail("discover", collection, "--out", tmp_path / "file" / "run", *SMALL, says="cannot write to .*file")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_recipe_for_another_method_is_refused(collection, tmp_path):
    options = ["--method", "sskm", "--recipe", "paper"]
    fail("discover", collection, "--out", tmp_path / "run", *options, says="the method sskm has no option recipe")
