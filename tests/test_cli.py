"""The command line itself: help, version, exit codes."""

import os
import re
import subprocess
import sys

import pytest
from tests.commands.command_line import (
    PATIENCE,
    TRUTH,
    command,
    write,
)

import newkinds


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


def test_without_arguments_the_commands_are_shown():
    done = subprocess.run(command(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    shown = done.stdout + done.stderr
    assert all(name in shown for name in ("demo", "discover", "predict", "estimate", "show"))
    assert "Traceback" not in shown


def test_bad_input_gives_a_process_exit_code_2_and_one_line(tmp_path):
    source = write(tmp_path / "birds.npz", labels=TRUTH)
    line = command("discover", source, "--out", tmp_path / "run")
    done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert re.fullmatch("Error: every sample is labelled.*\n", done.stderr)
    assert os.listdir(tmp_path) == ["birds.npz"]
