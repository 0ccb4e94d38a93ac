"""`newkinds show`, and run folders that cannot be read."""

import json
import os
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from newkinds.run_folder import write_run
from tests.commands.command_line import (
    fail,
    printed,
)


def test_show_marks_the_new_and_gives_sizes(made):
    shown = printed("show", made)
    assert "60 samples (20 labelled): 2 known kinds and 1 new one (3 in all, as asked)" in shown
    assert re.search(r"0\s+0\s+20\s+10", shown)
    assert re.search(r"2\s+new-1 new\s+20\s+0", shown)
    assert "λ 0.3" in shown


@pytest.mark.parametrize("name", ["empty", "nowhere", "file"])
@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_folder_that_is_no_run_is_refused(collection, tmp_path, command, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    more = [collection] if command == "predict" else []
    fail(command, tmp_path / name, *more, says=rf"{name} is not a run folder.*run\.json")


def without(text: str, key: str) -> str:
    record = json.loads(text)
    del record[key]
    return json.dumps(record)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "not JSON",
        lambda text: "[]",
        lambda text: "{}",
        lambda text: '{"schema_version": 1}',
        lambda text: text.replace('"schema_version": 1', '"schema_version": 99'),
        lambda text: without(text, "categories"),
        lambda text: without(text, "curves"),
        lambda text: without(text, "chosen"),
    ],
    ids=[
        "empty",
        "cut",
        "text",
        "list",
        "blank",
        "version only",
        "later",
        "no categories",
        "no curves",
        "no chosen",
    ],
)
@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_damaged_record_is_refused_by_its_name(collection, run, command, damage):
    path = run / "run.json"
    path.write_text(damage(path.read_text("utf-8")), "utf-8")
    more = [collection] if command == "predict" else []
    fail(command, run, *more, says=r"run\.json")


@pytest.mark.parametrize(
    ("old", "new"),
    [('"method": "pim"', '"method": "magic"'), ('"parameters": {', '"parameters": {"magic": 1, ')],
)
def test_a_record_that_this_version_cannot_follow_is_refused(collection, run, old, new):
    path = run / "run.json"
    write_run(run, json.loads(path.read_text("utf-8").replace(old, new)))
    fail("predict", run, collection, says=f"{run}.*magic")


def test_a_record_with_another_name_in_it_is_refused(collection, run):
    path = run / "run.json"
    path.write_text(path.read_text("utf-8").replace('"name": "new-1"', '"name": "heron"'), "utf-8")
    for arguments in (["show", run], ["predict", run, collection]):
        fail(*arguments, says=r"run\.json is not as newkinds wrote it: it was changed or damaged")


def test_a_file_in_place_of_the_record_that_never_ends_is_not_opened(collection, run):
    path = run / "run.json"
    path.unlink()
    os.mkfifo(path)
    for arguments in (["show", run], ["predict", run, collection]):
        fail(*arguments, says=r"run is not a run folder: it has no run\.json")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"x" * 300),
        lambda path: save_file({"weights": np.eye(3)}, path),
        lambda path: save_file({**load_file(path), "weights": np.ones(3, np.float32)}, path),
        lambda path: save_file({**load_file(path), "temperature": np.ones(3)}, path),
        lambda path: save_file({**load_file(path), "categories": np.arange(7, 10)}, path),
    ],
    ids=["missing", "empty", "cut", "text", "lacking", "flat weights", "temperatures", "other categories"],
)
def test_a_damaged_model_is_refused_by_its_name(collection, run, damage):
    damage(run / "model.safetensors")
    fail("predict", run, collection, says=r"model\.safetensors")
