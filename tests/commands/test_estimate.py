"""`newkinds estimate`."""

import json
import re

import numpy as np
import pytest

from tests.commands.command_line import (
    LABELS,
    TRUTH,
    N,
    fail,
    printed,
    write,
)


def test_estimate_finds_the_number_and_shows_the_curve(collection):
    shown = printed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 2, 8)
    assert "3 categories, 2 known and 1 new (max-acc-kmeans, searched 2 to 8)" in shown
    assert len(re.findall("chosen", shown)) == 1


def test_estimate_as_json(collection):
    found = json.loads(printed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 2, 8, "--json"))
    assert found["n_categories"] == 3
    assert found["bounds"] == [2, 8]
    assert found["method"] == "max-acc-kmeans"
    assert found["curve"]["3"] == 1.0
    assert found["curve"]["3"] == max(found["curve"].values())


def test_estimate_by_pim_tries_the_one_number_that_the_bounds_allow(collection):
    found = json.loads(printed("estimate", collection, "--method", "max-acc-pim", "--bounds", 3, 3, "--json"))
    assert (found["method"], found["n_categories"], found["curve"]) == ("max-acc-pim", 3, {"3": 1.0})


def test_estimate_by_the_recipe_of_the_paper(collection):
    options = ["--recipe", "paper", "--bounds", 3, 3, "--json"]
    found = json.loads(printed("estimate", collection, *options))
    assert (found["method"], found["n_categories"]) == ("max-acc-pim", 3)
    assert json.loads(printed("estimate", collection, *options, "--solver", "lbfgs"))["method"] == "max-acc-pim"


def test_estimate_says_where_there_is_no_solver_to_choose(collection):
    fail("estimate", collection, "--solver", "adam", says="nothing to choose for rehearsal")


def test_estimate_quietly_is_a_number(collection):
    assert printed("estimate", collection, "--method", "max-acc-kmeans", "-q") == "3\n"


def test_an_estimate_at_its_bound_is_warned_of(collection):
    shown = printed("estimate", collection, "--method", "max-acc-kmeans", "--bounds", 5, 6)
    assert re.search(r"Warning:.*bound", shown)


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        (np.full(N, -1), [], "labelled"),
        (TRUTH, [], "every sample is labelled"),
        (LABELS, ["--bounds", "6", "3"], r"bounds.*\(6, 3\)"),
        (LABELS, ["--bounds", "1", "8"], "fewer than the 2"),
        (LABELS, ["--bounds", "3", "999"], "n_categories=999 is more than"),
        (LABELS, ["--device", "tpu"], "device"),
    ],
)
def test_estimate_refuses_what_it_cannot_search(tmp_path, labels, options, says):
    source = write(tmp_path / "birds.npz", labels=labels)
    fail("estimate", source, "--method", "max-acc-kmeans", *options, says=says)
