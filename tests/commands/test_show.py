"""`newkinds show`, and run folders that cannot be read."""

import json
import os
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file, save_file

from newkinds.run_folder import write_run
from tests.commands.command_line import (
    LABELS,
    SMALL,
    X,
    change_column,
    fail,
    printed,
    record_of,
    succeed,
    write_record,
)


def test_show_marks_the_new_and_gives_sizes(made):
    shown = printed("show", made)
    assert "60 samples (20 labelled): 2 known kinds and 1 new one (3 in all, as asked)" in shown
    assert re.search(r"0\s+0\s+20\s+10", shown)
    assert re.search(r"2\s+new-1 new\s+near \d, \d\?\s+20\s+0", shown)
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


# One kind


def test_show_one_kind(made):
    shown = printed("show", made, "new-1")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] in ("new-1 near 0, 1? (new)", "new-1 near 1, 0? (new)")
    assert lines[1].startswith("20 samples, mean confidence ")
    assert "typical: nearest to the middle of the kind confidence novelty" in lines
    assert "doubtful: unlabelled, with the least confidence confidence novelty" in lines
    assert "confidence: how probable it is that a sample belongs to its kind" in lines
    assert "novelty: how probable it is that a sample belongs to a kind without any label" in lines
    assert {line.split()[0] for line in lines[lines.index("nearest kinds similarity second choice") + 1 :][:2]} == {
        "0",
        "1",
    }


def kind_of(run, kind):
    return json.loads(printed("show", run, kind, "--json"))


def test_typical_samples_are_nearest_to_the_middle_and_doubtful_ones_least_sure(made):
    kind = kind_of(made, "new-1")
    features = np.load(made / "features.npy").astype(float)
    table = pq.read_table(made / "predictions.parquet")
    members = np.flatnonzero(table["category"].to_numpy() == 2)
    middle = features[members].mean(axis=0)
    nearest = members[np.argsort(-features[members] @ middle)][:5]
    assert [sample["id"] for sample in kind["typical"]] == [str(row) for row in nearest]
    confidence = dict(zip(table["id"].to_pylist(), table["confidence"].to_pylist(), strict=True))
    others = sorted((i for i in map(str, members) if i not in map(str, nearest)), key=confidence.__getitem__)
    assert [sample["id"] for sample in kind["doubtful"]] == others[:5]
    assert kind["confidence"] == pytest.approx(np.mean([confidence[str(row)] for row in members]), abs=1e-6)
    assert {name: kind[name] for name in ("id", "name", "kind", "size", "labelled")} == {
        "id": 2,
        "name": "new-1",
        "kind": "new",
        "size": 20,
        "labelled": 0,
    }


def test_neighbours_are_ranked_by_the_middles_and_say_how_often_they_are_second(made):
    kind = kind_of(made, "0")
    assert {other["name"] for other in kind["nearest"]} == {"1", "new-1"}
    assert [other["similarity"] for other in kind["nearest"]] == sorted(
        (other["similarity"] for other in kind["nearest"]), reverse=True
    )
    assert sum(other["second_choice"] for other in kind["nearest"]) == pytest.approx(1)


def test_doubtful_samples_are_never_labelled_ones(made):
    kind = kind_of(made, "1")
    assert kind["labelled"] == 10
    assert not any(sample["given"] for sample in kind["doubtful"])


def test_texts_are_shown_by_their_beginning(tmp_path):
    texts = [f"ticket {i}:  my\tcard " + "and so on " * 20 for i in range(len(X))]
    columns = {"features": X.tolist(), "label": [str(i) if i >= 0 else "" for i in LABELS], "text": texts}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    succeed("discover", tmp_path / "a.parquet", "--out", tmp_path / "run", "-q", *SMALL)
    shown = printed("show", tmp_path / "run", "new-1")
    assert re.search(r"ticket \d+: my card and so on .*…", shown)
    assert max(map(len, shown.splitlines())) < 160


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("new1", r"the run has no category 'new1'; did you mean new-1\?"),
        ("7", "the run has no category '7'; there are 0, 1, new-1"),
    ],
)
def test_a_kind_that_is_not_there_is_refused_with_near_ones(made, kind, says):
    fail("show", made, kind, says=says)


def test_a_name_goes_before_an_id_and_case_does_not_matter(run):
    record = record_of(run)
    for category, name in zip(record["categories"], ("2", "Wren", "new-1"), strict=True):
        category["name"] = name
    write_record(run, record)
    assert kind_of(run, "2")["id"] == 0
    assert kind_of(run, "wren")["id"] == 1
    assert kind_of(run, "1")["id"] == 1
    assert kind_of(run, "NEW-1")["id"] == 2


def test_a_run_as_json(made):
    shown = json.loads(printed("show", made, "--json"))
    assert [category["name"] for category in shown["categories"]] == ["0", "1", "new-1"]
    assert shown["sureness"]["n_unlabelled"] == 40
    assert set(shown["sureness"]["means"]) == {"0", "1", "2"}


def test_the_unsure_are_counted_without_the_labelled(run):
    change_column(run, "confidence", lambda _: 0.499)
    shown = json.loads(printed("show", run, "--json"))["sureness"]
    assert (shown["n_unsure"], shown["n_unlabelled"]) == (40, 40)
    assert shown["means"]["2"] == pytest.approx(0.499)
    assert "Unsure: 40 of 40 unlabelled samples" in printed("show", run)
    assert kind_of(run, "0")["n_unsure"] == 10


def test_features_that_were_changed_are_refused(run):
    path = run / "features.npy"
    path.write_bytes(path.read_bytes()[:-2] + b"\x00\x01")
    fail("show", run, "new-1", says=r"features\.npy is not the file that run\.json describes")


def test_a_kind_whose_name_begins_with_a_dash_is_shown_as_suggested(run):
    record = record_of(run)
    for category in record["categories"]:
        category["name"] = f"-x{category['id']}"
    write_record(run, record)
    suggested = next(line for line in printed("show", run).splitlines() if "newkinds show" in line)
    arguments = shlex.split(suggested.partition("  one kind")[0])
    assert "samples" in printed(*arguments[1:])
