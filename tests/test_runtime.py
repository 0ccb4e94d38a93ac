"""Devices and progress."""

import pytest
import torch

from newkinds import InputError
from newkinds.runtime import listening, report_progress, resolve_device


def test_auto_takes_a_device_that_is_there() -> None:
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="device must be one of auto, cpu, cuda, mps; got 'tpu'"):
        resolve_device("tpu")


@pytest.mark.parametrize("device", ["cpu:x", "cpu:7"])
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
