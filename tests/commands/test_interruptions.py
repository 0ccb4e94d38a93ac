"""Commands that are ended by a signal, and begun again: processes of their own, so all of it is slow."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from newkinds import read_features
from newkinds.encoders.cache import CHECKSUM_BYTES, KEY_BYTES
from tests.commands.command_line import (
    PATIENCE,
    command,
    succeed,
)
from tests.commands.photos import save_model, save_photo

pytestmark = pytest.mark.slow

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.fixture(scope="module")
def ended(collection, tmp_path_factory):
    """What became of a `discover` that was sent a signal in the midst of a training that takes hours."""
    options = ["--n-categories", "3", "--lam", "0.3", "--solver", "adam", "--max-iter", "5000000", "--quiet"]
    folders = {number: tmp_path_factory.mktemp(number.name) for number in SIGNALS}
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes, outcomes = {}, {}
    with contextlib.ExitStack() as stack:
        for number, folder in folders.items():  # all at once, since most of the time goes into the start
            line = command("discover", collection, "--out", folder / "run", *options)
            pipe = subprocess.PIPE
            started = subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=one_thread)
            processes[number] = stack.enter_context(started)
            stack.callback(processes[number].kill)
        deadline = time.monotonic() + PATIENCE
        for number, process in processes.items():
            while not list(folders[number].glob(".*partial-*")):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
        time.sleep(0.5)  # into the training
        for number, process in processes.items():
            assert process.poll() is None, process.communicate()
            process.send_signal(number)
            output = process.communicate(timeout=PATIENCE)
            outcomes[number] = (folders[number], process.returncode, *output)
    return outcomes


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupted_run_clears_up_after_itself(ended, number):
    folder, code, output, errors = ended[number]
    assert code == 130
    assert output == ""
    assert errors == "Interrupted.\n"
    assert os.listdir(folder) == []


def test_a_killed_run_leaves_nothing_that_looks_finished(ended):
    folder, code, _, _ = ended[signal.SIGKILL]
    assert code == -signal.SIGKILL
    assert not (folder / "run").exists()
    assert list(folder.rglob("run.json")) == []
    assert all(name.startswith(".") for name in os.listdir(folder))


def test_an_interrupted_discovery_goes_on_where_it_was(collection, tmp_path):
    """The same command again: the same model as without the interruption, and its saved state is gone."""
    options = ["--n-categories", "3", "--lam", "0.3", "--solver", "adam", "--max-iter", "2000", "--quiet"]
    line = command("discover", collection, "--out", tmp_path / "run", *options, "--checkpoint", "0.01")
    states = tmp_path / ".run.checkpoint"
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(states.glob("*.safetensors")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert not (tmp_path / "run").exists()
    succeed("discover", collection, "--out", tmp_path / "run", *options, "--checkpoint", "0.01")
    assert not states.exists()
    succeed("discover", collection, "--out", tmp_path / "plain", *options)
    models = [load_file(tmp_path / name / "model.safetensors") for name in ("run", "plain")]
    assert all(np.array_equal(models[0][name], models[1][name]) for name in models[1])


def start(*arguments, **environment) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "newkinds", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **environment},
    )


def n_records(cache: Path, width: int) -> int:
    record_bytes = 2 * KEY_BYTES + CHECKSUM_BYTES + 4 * width
    return sum(path.stat().st_size // record_bytes for path in cache.rglob("*.records"))


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


N_MANY = 160


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Photos for five batches, and a model that takes a while over each."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(N_MANY):
        save_photo(folder / "photos" / f"{i:03}.png", (100, 120, 140), i, side=24)
    return folder / "photos", save_model(folder / "slow", 0, image_size=192, hidden=64)


def wait_for(what, process: subprocess.Popen) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)


def test_killed_and_repeated_encode_computes_only_the_rest(many, tmp_path):
    photos, model = many
    out, cache = tmp_path / "a.npz", tmp_path / "cache"
    arguments = ["encode", photos, "--encoder", model, "--out", out, "--cache", cache, "--workers", "0"]
    process = start(*arguments)
    wait_for(lambda: n_records(cache, 64) >= 32, process)
    process.kill()
    process.communicate()
    kept = n_records(cache, 64)
    assert 32 <= kept < N_MANY
    assert not out.exists()
    assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["cache"]
    succeed(*arguments)
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "cache"]
    assert n_records(cache, 64) == N_MANY  # each photo was computed once: nothing that was kept was done again
    succeed("encode", photos, "--encoder", model, "--out", tmp_path / "b.npz", "--no-cache", "--workers", "0")
    ours, fresh = read_features(out), read_features(tmp_path / "b.npz")
    assert ours.ids == fresh.ids
    assert np.allclose(ours.features, fresh.features, atol=1e-5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGKILL,
    ],
)
def test_no_worker_outlives_its_parent(many, tmp_path, number):
    photos, model = many
    arguments = ["encode", photos, "--encoder", model, "--out", tmp_path / "a.npz", "--cache", tmp_path / "cache"]
    process = start(*arguments, "--workers", "2")
    wait_for(lambda: n_records(tmp_path / "cache", 64) >= 32, process)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    try:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as the terminal does
        else:
            os.kill(process.pid, number)
        process.wait(PATIENCE)
        until = time.monotonic() + PATIENCE
        while any(map(is_alive, workers)) and time.monotonic() < until:
            time.sleep(0.02)
        left = [pid for pid in workers if is_alive(pid)]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever is left
        _, said = process.communicate()
    assert left == []
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert said.endswith("Interrupted.\n")
        assert "Traceback" not in said
