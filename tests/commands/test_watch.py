"""`newkinds watch`: every line is answered, nothing that was answered is lost, ids that come again are no error."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import newkinds
from newkinds.editing.waiting import Waiting
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions
from tests.blobs import blobs
from tests.commands.command_line import PATIENCE, command, fail, invoke, rows_of, succeed
from tests.editing.living import KINDS, LABELS, X


@pytest.fixture(scope="module")
def living(tmp_path_factory):
    discovery = newkinds.discover(X, LABELS, n_categories=KINDS, lam=0.1, temperature=25.0)
    return discovery.save(tmp_path_factory.mktemp("living") / "run", with_map=False)


@pytest.fixture
def run(living, tmp_path):
    return Path(shutil.copytree(living, tmp_path / "run"))


def lines(ids, seed=1):
    features = blobs(KINDS, 12, seed=seed)[0]
    return b"".join(
        json.dumps({"id": name, "features": sample.tolist()}).encode() + b"\n"
        for name, sample in zip(ids, features, strict=False)
    )


def watching(run, *options):
    return subprocess.Popen(
        command("watch", run, "-", *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def read_lines(stream, n):
    return [stream.readline().decode() for _ in range(n)]


def test_ids_that_come_again_are_answered_and_not_taken_in(run):
    there = read_predictions(run)["id"].to_pylist()[:2]
    ids = [*there, "a", "b", "a", "c"]
    result = invoke("watch", run, "-", stdin=lines(ids))
    assert result.exit_code == 0
    assert [row["id"] for row in rows_of(result.stdout)] == ids
    assert (
        "3 samples have ids that the run has already; they were answered, but not taken in again." in result.stderr
    )
    assert read_predictions(run)["id"].to_pylist()[len(X) :] == ["a", "b", "c"]
    result = invoke("watch", run, "-", "--every", "2", stdin=lines(ids))
    assert result.exit_code == 0
    assert len(rows_of(result.stdout)) == len(ids)
    assert len(read_predictions(run)) == len(X) + 3
    assert len(read_journal(run)) == 1


def test_samples_without_an_id_get_one(run):
    text = b"[" + b"]\n[".join(",".join(map(str, row)).encode() for row in blobs(3, 1)[0].tolist()) + b"]\n"
    result = invoke("watch", run, "-", stdin=text + lines(["x", ""], seed=2))
    assert [row["id"] for row in rows_of(result.stdout)] == ["0", "1", "2", "x", ""]
    assert read_predictions(run)["id"].to_pylist()[len(X) :] == [*(f"0002/{n}" for n in range(3)), "x", "0002/4"]


def test_what_was_answered_before_a_bad_line_waits(run):
    result = invoke("watch", run, "-", stdin=lines(["a", "b"]) + b"nonsense\n")
    assert result.exit_code == 2
    assert len(rows_of(result.stdout)) == 2
    assert "2 samples will be taken in by the next `newkinds watch` or `newkinds update`." in result.stderr
    assert Waiting(run, ()).n_samples == 2
    np.save(run.parent / "more.npy", blobs(2, 3)[0])
    said = succeed("update", run, run.parent / "more.npy").stdout
    assert said.startswith("2 samples waited since the run was watched:\n2 samples arrived: ")
    assert "6 samples arrived" in said
    assert len(read_journal(run)) == 2


def test_a_run_that_cannot_grow_is_refused_at_once(tmp_path):
    made = newkinds.discover(X, LABELS, method="sskm", n_categories=KINDS).save(tmp_path / "run", with_map=False)
    fail("watch", made, stdin=lines(["a"]), says="a run by sskm cannot be updated; discover again")


@pytest.mark.slow
def test_a_sample_waits_no_longer_than_asked(run):
    with watching(run, "--minutes", "0.01") as program:
        program.stdin.write(lines(["a", "b"]))
        program.stdin.flush()
        assert len(read_lines(program.stdout, 3)) == 3  # and the header
        ready, _, _ = select.select([program.stderr], [], [], PATIENCE)
        assert ready
        assert program.stderr.readline().startswith(b"2 samples arrived")
        assert len(read_journal(run)) == 1
        program.stdin.write(lines(["c"]))
        program.stdin.close()
        assert program.wait(PATIENCE) == 0
        assert read_predictions(run)["id"].to_pylist()[len(X) :] == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_answered_outlives_the_program(run, number):
    with watching(run) as program:
        program.stdin.write(lines(["a", "b", "c"]))
        program.stdin.flush()
        assert len(read_lines(program.stdout, 4)) == 4
        fail("watch", run, says="another program watches .*; end that one first")
        np.save(run.parent / "more.npy", blobs(2, 3)[0])
        succeed("update", run, run.parent / "more.npy")  # leaves what waits to the other
        program.send_signal(number)
        program.wait(PATIENCE)
        if number != signal.SIGKILL:
            assert b"3 samples will be taken in by the next `newkinds watch`" in program.stderr.read()
        result = invoke("watch", run, "-", stdin=lines(["d"]))
        assert "3 samples waited since the last time; they are taken in first." in result.stderr
        ids = read_predictions(run)["id"].to_pylist()[len(X) :]
        assert ids == [*(f"0002/{row}" for row in range(6)), "a", "b", "c", "d"]


@pytest.mark.slow
def test_ended_while_it_waits_it_ends_at_once(run):
    with watching(run, "--minutes", "60") as program:
        program.stdin.write(lines(["a"]))
        program.stdin.flush()
        read_lines(program.stdout, 2)
        began = time.monotonic()
        program.send_signal(signal.SIGTERM)
        program.wait(PATIENCE)
        assert time.monotonic() - began < 60
