"""Nobody's files are lost: what stands where a command wants to write, before its work and after it."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from newkinds import FeatureSet, discovery, write_features
from newkinds.run_folder import read_run
from tests.commands.command_line import LABELS, SMALL, TRUTH, X, fail, invoke, succeed


def test_a_folder_that_appears_during_the_work_stays(collection, tmp_path, monkeypatch):
    out, discover = tmp_path / "run", discovery.discover

    def discover_while_somebody_writes(*arguments, **options):
        out.mkdir()
        (out / "thesis.txt").write_text("years of work")
        return discover(*arguments, **options)

    monkeypatch.setattr(discovery, "discover", discover_while_somebody_writes)
    fail(
        "discover",
        collection,
        "--out",
        out,
        *SMALL,
        says=r"run already exists and is not a run.*result is in .*run-2",
    )
    assert os.listdir(out) == ["thesis.txt"]
    assert read_run(tmp_path / "run-2")["chosen"]["n_categories"] == 3
    assert sorted(os.listdir(tmp_path)) == ["run", "run-2"]


@pytest.mark.parametrize("command", ["discover", "demo", "encode"])
def test_two_commands_into_one_place_do_not_both_go_on(collection, birds, model, tmp_path, command):
    out = tmp_path / "out.npz"
    code = "import sys; from pathlib import Path; from newkinds.staging import claimed\n"
    code += "with claimed(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    line = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        arguments = {
            "discover": ["discover", collection, *SMALL],
            "demo": ["demo"],
            "encode": ["encode", birds, "--encoder", model, "--workers", 0],
        }
        fail(*arguments[command], "--out", out, "-q", says=f"another command is writing to .*process {other.pid}")
    assert os.listdir(tmp_path) == []


def test_force_spares_a_project_that_has_a_run_json_of_its_own(collection, tmp_path):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (project / "run.json").write_text('{"name": "my runner", "version": 1}')
    for place in (project, tmp_path):
        fail(
            "discover", collection, "--out", place, *SMALL, "--force", says="already exists and is not a run folder"
        )
    assert (project / ".git" / "HEAD").read_text() == "ref: refs/heads/main"
    assert json.loads((project / "run.json").read_text())["name"] == "my runner"


def test_the_folder_one_is_in_is_never_replaced(collection, run, monkeypatch):
    monkeypatch.chdir(run)
    before = sorted(os.listdir(run))
    fail("discover", collection, "--out", ".", *SMALL, "--force", says="the folder you are in")
    assert sorted(os.listdir(run)) == before


def test_the_demo_replaces_only_a_demo(collection, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    succeed("discover", collection, "--out", "newkinds-demo", *SMALL, "-q")
    fail("demo", "-q", says="newkinds-demo already holds a run")
    assert read_run("newkinds-demo")["source"]["name"] == "birds.npz"


def test_predictions_never_take_the_place_of_what_is_read(made, run, tmp_path):
    write_features(FeatureSet(X, LABELS), tmp_path / "d.parquet")
    before = (tmp_path / "d.parquet").read_bytes()
    fail(
        "predict", made, tmp_path / "d.parquet", "--out", tmp_path / "d.parquet", "--force", says="is what is read"
    )
    assert (tmp_path / "d.parquet").read_bytes() == before
    out = run / "predictions.csv"
    before = out.read_bytes()
    fail("predict", run, tmp_path / "d.parquet", "--out", out, "--force", says="belongs to the run")
    assert out.read_bytes() == before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_nothing_is_written_through_links_or_into_pipes(made, collection, birds, model, tmp_path, force):
    (tmp_path / "real.csv").write_text("kept")
    (tmp_path / "link.csv").symlink_to("real.csv")
    (tmp_path / "link.npz").symlink_to("real.csv")
    (tmp_path / "linked").symlink_to(made)
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npz")
    encode = ["encode", birds, "--encoder", model, "--workers", 0]
    for name, says in (("link", "is a link"), ("pipe", "is neither a file nor a folder")):
        fail("predict", made, collection, "--out", tmp_path / f"{name}.csv", *force, says=says)
        fail(*encode, "--out", tmp_path / f"{name}.npz", *force, says=says)
    fail("discover", collection, "--out", tmp_path / "linked", *SMALL, *force, says="is a link")
    assert (tmp_path / "real.csv").read_text() == "kept"
    assert (tmp_path / "pipe.csv").is_fifo()


def test_encoded_features_are_replaced_only_by_force(birds, model, tmp_path):
    arguments = ["encode", birds, "--encoder", model, "--workers", 0, "--out", tmp_path / "a.npz", "-q"]
    (tmp_path / "a.npz").write_text("earlier")
    fail(*arguments, says=r"a\.npz already exists.*--force")
    assert (tmp_path / "a.npz").read_text() == "earlier"
    succeed(*arguments, "--force")
    assert os.listdir(tmp_path) == ["a.npz"]


def test_a_benchmark_writes_only_into_a_folder_of_its_own(tmp_path):
    write_features(FeatureSet(X, LABELS, TRUTH), tmp_path / "three.npz")
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "main.md").write_text("years of work")
    line = ["benchmark", "main", "--features", tmp_path / "three.npz", "--seeds", 1, "--methods", "kmeans", "-q"]
    fail(*line, "--out", thesis, says="thesis holds other files; give the results a folder of their own")
    (thesis / "cells").mkdir()
    (thesis / "cells" / "mine.json").write_text("{}")
    fail(*line, "--out", thesis, says="holds other files")
    assert (thesis / "main.md").read_text() == "years of work"
    succeed(*line, "--out", tmp_path / "own")
    again = shutil.copytree(tmp_path / "own", tmp_path / "again")
    succeed(*line, "--out", again)
    assert (again / "main.csv").read_bytes() == (tmp_path / "own" / "main.csv").read_bytes()
    (again / "main.md").unlink()
    (again / "main.md").symlink_to(thesis / "main.md")
    assert invoke(*line, "--out", again).exit_code == 2
    assert (thesis / "main.md").read_text() == "years of work"
