"""The command line itself: help, version, exit codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import newkinds
from newkinds.commands.options import use_threads
from newkinds.names import FEATURE_ENDINGS, TABLE_ENDINGS
from tests.commands.command_line import (
    PATIENCE,
    TRUTH,
    command,
    invoke,
    write,
)


def test_version():
    done = subprocess.run(command("--version"), capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == f"newkinds {newkinds.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["discover", "--help"], ["predict", "--help"]])
def test_help_answers_without_waiting_for_pytorch(arguments):
    line = [sys.executable, "-X", "importtime", "-m", "newkinds", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=True)
    imported = {entry.rpartition("|")[2].strip() for entry in done.stderr.splitlines()}
    assert "newkinds.cli" in imported
    assert not imported & {"torch", "sklearn", "scipy", "pyarrow", "numpy"}
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("name", ["discover", "estimate", "predict", "encode"])
def test_help_names_every_kind_of_source(name):
    shown = " ".join(invoke(name, "--help").output.replace("│", " ").split())
    kinds = [
        "folder of images",
        "one image",
        ".csv.gz",
        ".jsonl.zst",
        "folder of .parquet files",
        "released layout",
    ]
    for kind in (*kinds, *TABLE_ENDINGS, *FEATURE_ENDINGS, "s3://", "datasets saved", "NAME:FOLDER"):
        assert kind in shown
    assert ("standard input" in shown) == (name == "predict")


def test_without_arguments_the_commands_are_shown():
    done = subprocess.run(command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    shown = done.stdout + done.stderr
    assert all(name in shown for name in ("demo", "discover", "predict", "estimate", "show"))
    assert "Traceback" not in shown


@pytest.mark.slow
def test_bad_input_gives_a_process_exit_code_2_and_one_line(tmp_path):
    source = write(tmp_path / "birds.npz", labels=TRUTH)
    line = command("discover", source, "--out", tmp_path / "run")
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch("Error: every sample is labelled.*\n", done.stderr)
    assert os.listdir(tmp_path) == ["birds.npz"]


def test_a_fault_of_the_program_shows_itself_as_one(monkeypatch, tmp_path):
    """Only errors about input become a line; a ValueError from within is not the user's."""

    def broken(*_: object) -> None:
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("newkinds.run_folder.read_run", broken)
    result = invoke("show", tmp_path)
    assert result.exit_code == 1
    assert isinstance(result.exception, ValueError)
    assert "Error:" not in result.output


@pytest.mark.parametrize(
    ("error", "code"), [(OSError(28, "No space left on device"), 2), (MemoryError("40 GiB"), 1)]
)
def test_what_the_machine_cannot_do_is_said_in_a_line(monkeypatch, tmp_path, error, code):
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr("newkinds.run_folder.read_run", failing)
    result = invoke("show", tmp_path)
    assert result.exit_code == code
    assert re.fullmatch("Error: .*(No space left on device|not enough memory).*\n", result.stderr)


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_of_a_command_sleep_soon_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    script = "import newkinds.cli, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    shown = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == expected


def test_threads_are_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    use_threads(None)
    assert os.environ["OMP_NUM_THREADS"] == "1"
    before = torch.get_num_threads()
    try:
        use_threads(3)
        assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"]) == 3
    finally:
        torch.set_num_threads(before)


def test_a_command_needs_one_thread(tmp_path: Path) -> None:
    result = invoke("estimate", tmp_path, "--threads", 0)
    assert result.exit_code == 2
    assert "--threads" in result.stderr
