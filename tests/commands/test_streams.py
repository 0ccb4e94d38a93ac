"""Standard input, output and error as others leave them: closed, full, narrow, or a terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from newkinds import InputError
from newkinds.commands.collecting import print_notes
from newkinds.data import standard_input
from newkinds.predictions import table_writer
from tests.commands.command_line import (
    PATIENCE,
    X,
    command,
    fail,
    invoke,
    printed,
    record_of,
    rows_of,
    write,
    write_record,
)

HOSTILE = "\x1b[2Jowl\r\n\x9b31m\u202egpj.exe\u2028ant"
"""A name that clears the screen, begins lines of its own and turns the direction of writing."""
SHOWN = r"\x1b[2Jowl\r\n\x9b31m\u202egpj.exe\u2028ant"


def shell(line: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which `"$@"` is the command."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, "bash", *command(*arguments)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
        check=False,
        env={**os.environ, **environment},
    )


def rename_category(run: Path, name: str) -> None:
    record = record_of(run)
    record["categories"][0]["name"] = record["source"]["name"] = name
    record["warnings"] = [f"{name} is empty"]
    write_record(run, record)


# Closed streams


def test_closed_standard_output_is_no_traceback(made):
    done = shell('"$@" >&-', "show", made)
    assert (done.returncode, done.stderr) == (0, "")


def test_predict_says_that_standard_output_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(InputError, match="standard output is closed; name a file with --out"):
        table_writer(None, "csv").__enter__()


def test_predict_says_that_standard_input_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input is closed; pipe samples into the command"):
        standard_input()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "source", "says"),
    [
        (
            '"$@" <&-',
            "-",
            "Error: standard input is closed; pipe samples into the command, or name a file instead of -\n",
        ),
        ('"$@" >&-', None, "Error: standard output is closed; name a file with --out\n"),
    ],
    ids=["input", "output"],
)
def test_a_stream_that_predict_needs_is_asked_for(made, collection, line, source, says):
    done = shell(line, "predict", made, source or collection)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)


@pytest.mark.slow
def test_nothing_gets_into_a_file_that_is_written_while_all_streams_are_closed(made, collection, tmp_path):
    done = shell('"$@" <&- >&- 2>&-', "predict", made, collection, "--out", tmp_path / "new.csv")
    assert done.returncode == 0
    assert (tmp_path / "new.csv").read_text("utf-8") == printed("predict", made, collection)


# Readers that go away, and full disks


@pytest.mark.parametrize("reader", ["head -1", "true"])
def test_a_reader_that_has_seen_enough_ends_the_command_well(made, reader):
    done = shell(f'"$@" | {reader}', "show", made, "--all")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == (1 if reader == "head -1" else 0)


@pytest.mark.parametrize("arguments", [["show"], ["--version"]])
def test_output_that_only_the_last_flush_can_write_to_nobody_makes_no_noise(made, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    line = command(*arguments, *([made] if arguments == ["show"] else []))
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(line, stdout=pipe, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    assert done.stderr == b""
    if arguments == ["show"]:
        assert done.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("arguments", [["show"], ["--help"], ["--version"]])
def test_output_that_finds_no_space_is_an_error_in_a_line(made, arguments):
    done = shell('"$@" > /dev/full', *arguments, *([made] if arguments == ["show"] else []))
    assert (done.returncode, done.stderr) == (2, "Error: [Errno 28] No space left on device\n")


def test_a_broken_pipe_that_is_not_the_output_is_an_error(made, monkeypatch):
    """Such as that of a worker process; only a reader who has gone is no fault."""
    monkeypatch.setattr("newkinds.cli.reader_has_gone", lambda: False)

    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("newkinds.run_folder.read_run", broken)
    fail("show", made, says="Broken pipe")


# Terminals


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "latin-1:strict"])
def test_a_terminal_without_a_character_shows_a_question_mark(run, encoding):
    rename_category(run, "Möwe 🦉")
    done = shell('"$@"', "show", run, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PIM, ? 0.3" in done.stdout
    assert "we ?\n60 samples" in done.stdout


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_an_error_can_be_said_on_any_terminal(tmp_path, encoding):
    done = shell('"$@"', "show", tmp_path / "🦉", PYTHONIOENCODING=encoding)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("no_color", [True, False])
def test_errors_are_red_unless_nobody_wants_colour(tmp_path, no_color):
    ours, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    if no_color:
        environment["NO_COLOR"] = "1"
    line = command("show", tmp_path / "nothing")
    subprocess.run(line, stdout=subprocess.DEVNULL, stderr=terminal, timeout=PATIENCE, check=False, env=environment)
    os.close(terminal)
    said = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"Error: " in said
    assert (b"\x1b[" in said) != no_color


# What files and names would do to a terminal


def test_control_characters_in_a_run_are_shown_and_do_nothing(run):
    rename_category(run, HOSTILE)
    lines = printed("show", run).splitlines()
    assert lines[0] == SHOWN
    assert lines[1].startswith("60 samples")
    assert len([line for line in lines if SHOWN in line]) == 3  # the source, the category, the warning
    assert not any(character in "".join(lines) for character in HOSTILE if not character.isprintable())


def test_control_characters_in_an_error_are_shown_and_do_nothing(tmp_path):
    result = invoke("show", tmp_path / "a\x1b]0;title\x07\u202eb")
    assert result.exit_code == 2
    assert r"a\x1b]0;title\x07\u202eb" in result.stderr
    assert not any(character in result.stderr for character in "\x1b\x07\u202e")


def test_a_line_within_an_error_does_not_pass_for_another_message(tmp_path):
    said = invoke("show", tmp_path / "a\nError: all is well").stderr
    assert "\n  Error: all is well" in said
    assert "\nError" not in said


def test_control_characters_in_a_warning_are_shown_and_do_nothing(tmp_path):
    table = tmp_path / "\x1b[2Jtexts.csv"
    table.write_bytes(b"text\nna\xefve\n")
    code = "import sys, pathlib, newkinds.cli, newkinds.data.tables as tables"
    code += "; newkinds.cli.prepare_streams(); tables.read_table(pathlib.Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, table], capture_output=True, text=True, check=True)
    assert r"\x1b[2Jtexts.csv is not UTF-8; read as cp1252" in done.stderr
    assert "\x1b" not in done.stderr


def test_control_characters_in_a_note_are_shown_and_do_nothing(capsys):
    print_notes([f"{HOSTILE} was left out"])
    assert capsys.readouterr().err == f"Note: {SHOWN} was left out\n"


# Formulas


def test_predictions_in_csv_are_no_formulas_unless_they_are_wanted_raw(made, tmp_path):
    ids = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'=1", "''", "'tis", "owl"]
    lines = "".join(json.dumps({"id": name, "features": X[0].tolist()}) + "\n" for name in ids).encode()
    written = [row["id"] for row in rows_of(printed("predict", made, "-", stdin=lines))]
    assert written == ["'=1+1", "+1", "-1", "'@SUM(A1)", "'\tx", "'\rx", "''=1", "'''", "'tis", "owl"]
    assert [row["id"] for row in rows_of(printed("predict", made, "-", "--raw", stdin=lines))] == ids
    shown = printed("predict", made, "-", "--format", "jsonl", stdin=lines)
    assert [json.loads(line)["id"] for line in shown.splitlines()] == ids


def test_a_run_defuses_its_table_of_predictions_but_not_its_parquet_file(tmp_path):
    names = [f"=cmd|{i}" for i in range(len(X))]
    source = write(tmp_path / "birds.npz", ids=names)
    printed("discover", source, "--out", tmp_path / "run", "--n-categories", 3, "--max-iter", 5, "--lam", 0.3, "-q")
    rows = rows_of((tmp_path / "run" / "predictions.csv").read_text("utf-8"))
    assert [row["id"] for row in rows] == [f"'{name}" for name in names]
    assert pq.read_table(tmp_path / "run" / "predictions.parquet")["id"].to_pylist() == names
