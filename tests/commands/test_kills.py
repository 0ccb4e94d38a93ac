"""Commands killed at any call that brings something onto the disk: the next command comes to the same result.

By default a sample of those moments; `pytest tests/commands/test_kills.py --exhaustive` tries every one.
"""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from newkinds import FeatureSet, cli, staging, write_features
from tests.commands.command_line import LABELS, SMALL, TRUTH, X

pytestmark = pytest.mark.slow

SYSTEM_CALLS = ("rename", "replace", "link", "fsync")
MOST_STEPS = 400
TIMES = ("created", "seconds")
"""What differs between two runs of one command."""


def run_command(arguments: list[str], step: int | None) -> None:
    """In a process of its own: run a command, and die at the n-th call."""
    calls = iter(range(MOST_STEPS))

    def dying(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            if next(calls) == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*positional, **named)

        return call

    if step is not None:
        for name in SYSTEM_CALLS:
            setattr(os, name, dying(getattr(os, name)))
        staging._renameat2 = dying(staging._renameat2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    cli.app(arguments)


def exit_code(arguments: list[str], step: int | None = None) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=run_command, args=(arguments, step))
    process.start()
    process.join()
    return process.exitcode


def content(folder: Path) -> dict[str, Any]:
    """Every file below a folder, without the times that run.json and its like tell."""
    files: dict[str, Any] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        if path.name in ("report.html", "main.json") or "cells" in path.parts:
            files[name] = "there"  # they tell times too
        elif path.suffix == ".json":
            record = json.loads(path.read_bytes())
            record.get("checksums", {}).pop(path.name, None)  # its own, which covers the times
            files[name] = {key: value for key, value in record.items() if key not in TIMES}
        elif path.suffix not in (".png", ".svg"):
            files[name] = path.read_bytes()
    return files


def commands(collection: Path, made: Path, birds: Path, model: Path, folder: Path) -> dict[str, list[str]]:
    write_features(FeatureSet(X, LABELS, TRUTH), folder / "three.npz")
    cache = ["--cache", folder / "cache"]
    lines: dict[str, list[object]] = {
        "discover": ["discover", collection, *SMALL, "--force", "-q", "--out"],
        "predict": ["predict", made, collection, "--format", "csv", "--force", "-q", "--out"],
        "encode": ["encode", birds, "--encoder", model, "--workers", 0, *cache, "--force", "-q", "--out"],
        "benchmark": [
            *("benchmark", "main", "--features", folder / "three.npz", "--seeds", 1, "--methods", "kmeans"),
            *("--workers", 1, "-q", "--out"),
        ],
        "finetune": [
            *(
                "finetune",
                birds,
                "--encoder",
                model,
                "--epochs",
                2,
                "--batch-size",
                8,
                "--workers",
                0,
                "-q",
                "--out",
            ),
        ],
    }
    return {name: [str(part) for part in line] for name, line in lines.items()}


@pytest.mark.parametrize("command", ["discover", "predict", "encode", "benchmark", "finetune"])
def test_killed_and_repeated_it_gives_the_same_and_leaves_nothing(
    command, collection, made, birds, model, tmp_path, request
):
    line = commands(collection, made, birds, model, tmp_path)[command]
    out = "out.npz" if command == "encode" else "out"
    whole = tmp_path / "whole"
    assert exit_code([*line, str(whole / out)]) == 0
    expected, listed = content(whole), sorted(os.listdir(whole))
    every = 1 if request.config.getoption("--exhaustive") else 9
    for step in range(0, MOST_STEPS, every):
        place = tmp_path / f"step-{step}"
        code = exit_code([*line, str(place / out)], step)
        if code == -signal.SIGKILL:
            repeated = exit_code([*line, str(place / out)])
            is_there = command == "finetune" and repeated == 2  # it never replaces an encoder that is there
            assert repeated == 0 or is_there, f"killed at call {step}, then exit code {repeated}"
        assert content(place) == expected, f"killed at call {step}"
        assert sorted(os.listdir(place)) == listed, f"killed at call {step}"
        if code == 0:
            break
    assert code == 0
    assert step > 2
