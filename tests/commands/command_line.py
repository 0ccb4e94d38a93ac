"""The command line as the tests call it, and the small collection that most of them use."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from newkinds.cli import app
from newkinds.run_folder import file_checksum
from newkinds.run_record import format_record

N, WIDTH = 60, 8
TRUTH = np.arange(N) % 3
X = 3 * np.eye(WIDTH)[TRUTH] + 0.2 * np.random.default_rng(0).normal(size=(N, WIDTH))
LABELS = np.where((TRUTH < 2) & (np.arange(N) % 2 == 0), TRUTH, -1)  # 10 zeros and 10 ones of 20 each
NAMES = np.array(["owl", "wren", "ant"])
SMALL = ["--n-categories", "3", "--max-iter", "20", "--lam", "0.3"]
PATIENCE = 300
"""Seconds until a process that does not answer is given up."""

runner = CliRunner(env={"COLUMNS": "300"})


def invoke(*arguments: object, stdin: bytes | None = None) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments], input=stdin)


def succeed(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run a command that should go well."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def printed(*arguments: object, stdin: bytes | None = None) -> str:
    """Standard output of a command that should go well."""
    return str(succeed(*arguments, stdin=stdin).stdout)


def fail(*arguments: object, says: str, stdin: bytes | None = None) -> None:
    """Run a command that should end with exit code 2 and a last line that says what was wrong."""
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 2, (result.output, result.exception)
    assert re.fullmatch(rf"Error: .*{says}.*", result.stderr.strip().splitlines()[-1]), result.stderr
    assert "Traceback" not in result.output


def command(*arguments: object) -> list[str]:
    """A command line for a process of its own."""
    return [sys.executable, "-m", "newkinds", *map(str, arguments)]


def write(path: Path, **arrays: Any) -> Path:
    """The small collection as an .npz, with other arrays in place of its own."""
    np.savez(path, **{"features": X, "labels": LABELS, **arrays})
    return path


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def record_of(run: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((run / "run.json").read_text("utf-8"))
    return record


def write_record(run: Path, record: dict[str, Any]) -> None:
    """`run.json` with another content, as somebody writes it who knows how: with its checksum."""
    checksums = {name: value for name, value in record.pop("checksums").items() if name != "run.json"}
    (run / "run.json").write_text(format_record(record, checksums), "utf-8")


def change_column(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Other values in a column of a run's predictions, with the checksums that go with them."""
    path = run / "predictions.parquet"
    table = pq.read_table(path)
    values = pa.array([change(value) for value in table[name].to_pylist()], table[name].type)
    pq.write_table(table.set_column(table.column_names.index(name), name, values), path)
    record = record_of(run)
    record["checksums"]["predictions.parquet"] = file_checksum(path)
    write_record(run, record)
