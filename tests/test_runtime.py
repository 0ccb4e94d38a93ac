"""Devices, randomness, progress, and processes before they have joined. Several are in tests/engine."""

from pathlib import Path

import pytest
import torch

from newkinds import InputError, runtime
from newkinds.runtime import (
    available_memory,
    check_memory,
    least_over_processes,
    listening,
    n_processes,
    n_started,
    processes,
    rank,
    report_progress,
    resolve_device,
    seeded,
    sum_over_processes,
)


def test_auto_takes_a_device_that_is_there() -> None:
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="device must be one of auto, cpu, cuda, mps; got 'tpu'"):
        resolve_device("tpu")


@pytest.mark.parametrize("device", ["cpu:x", "cpu:7", "cpu:-1", "cpu:99999999999999999999"])
def test_a_device_that_cannot_be_is_refused(device: str) -> None:
    with pytest.raises(InputError, match=f"device='{device}'"):
        resolve_device(device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(InputError, match="this machine has none; try device='auto'"):
        resolve_device("cuda")


def test_progress_reaches_the_listener_only_inside_the_block() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *event: heard.append(event)):
        report_progress("training", 1, 2)
    report_progress("training", 2, 2)
    assert heard == [("training", 1, 2)]


def test_the_global_generator_is_seeded_in_the_block_and_put_back_after_it() -> None:
    before = torch.get_rng_state()
    drawn = []
    for seed in (0, 0, 1):
        with seeded(seed, torch.device("cpu")):
            drawn.append(float(torch.rand(1)))
        assert torch.equal(torch.get_rng_state(), before)
    assert drawn[0] == drawn[1] != drawn[2]

    def interrupted() -> None:
        with seeded(3, torch.device("cpu")):
            torch.rand(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.equal(torch.get_rng_state(), before)


def test_one_process_is_the_first_and_sums_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with processes("cpu") as device:
        assert device == "cpu"
        assert (n_started(), n_processes(), rank()) == (1, 1, 0)
        assert sum_over_processes(torch.tensor([1.0, 2.0])).tolist() == [1.0, 2.0]
        assert least_over_processes(5) == 5


@pytest.mark.parametrize("count", ["many", "0", "-2", "", "1.5"])
def test_a_number_of_processes_that_cannot_be_is_refused(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", count)
    with pytest.raises(InputError, match=f"WORLD_SIZE must be the number of processes; got '{count}'"):
        n_started()


def test_processes_that_torchrun_did_not_start_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a cluster sets WORLD_SIZE and nothing else."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match=r"WORLD_SIZE=2 asks for 2 processes: start them by torchrun \(.*RANK"):
        processes("cpu").__enter__()
    assert n_processes() == 1


# Memory


def test_there_is_some_memory_left() -> None:
    available = available_memory()
    assert available is None or 1 << 20 < available < 1 << 50


NEW = ("memory.max", "memory.current")
OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes")


@pytest.mark.parametrize(
    ("place", "line", "limit", "names", "left"),
    [
        ("", "0::/", "1000", NEW, 430),  # a container: its own group is the outermost
        ("system/job", "0::/system/job", "1000", NEW, 430),
        ("", "0::/not/to/be/seen", "1000", NEW, 430),
        ("", "0::/", "max", NEW, None),
        ("", "0::/", "100", NEW, 0),
        ("memory/job", "4:memory:/job\n1:cpu:/", "1000", OLD, 440),
        ("memory", "4:memory:/not/to/be/seen", "1000", OLD, 440),
        ("elsewhere", "0::/", "1000", NEW, None),
    ],
)
def test_the_limit_of_a_control_group_counts(
    tmp_path: Path, place: str, line: str, limit: str, names: tuple[str, str], left: int | None
) -> None:
    folder = tmp_path / "groups" / place
    folder.mkdir(parents=True)
    (folder / "memory.stat").write_text("anon 5\ninactive_file 30\ntotal_inactive_file 40\n")
    for name, content in zip(names, (limit, "600"), strict=True):
        (folder / name).write_text(f"{content}\n")
    (tmp_path / "process").write_text(f"{line}\n")
    assert runtime._group_memory(tmp_path / "groups", tmp_path / "process") == left


def test_a_machine_without_control_groups_has_no_such_limit(tmp_path: Path) -> None:
    assert runtime._group_memory(tmp_path, tmp_path / "nothing") is None


@pytest.mark.parametrize(
    ("free", "group_left", "available"), [(10, None, 10), (10, 7, 7), (5, 7, 5), (None, None, None)]
)
def test_the_tighter_limit_holds(
    monkeypatch: pytest.MonkeyPatch, free: int | None, group_left: int | None, available: int | None
) -> None:
    monkeypatch.setattr("newkinds.runtime._free_memory", lambda: free)
    monkeypatch.setattr("newkinds.runtime._group_memory", lambda: group_left)
    assert available_memory() == available


def test_work_that_takes_more_memory_than_there_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 24_000_000_000)
    check_memory(24_000_000_000, "this", "that")
    with pytest.raises(InputError, match=r"^it takes about 40\.0 GB of memory, and 24\.0 GB are free; do less$"):
        check_memory(40_000_000_000, "it", "do less")
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: None)
    check_memory(1 << 60, "this", "that")
