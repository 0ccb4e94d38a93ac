"""The state of a fine-tuning after an epoch, as it lies on disk until the training has ended.

A folder of two files: the tensors, and `state.json` with the description of the training, its losses and checksums.
A damaged state is set aside with a warning, and the training begins anew.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from newkinds.encoders.encoder import file_sha256, fingerprint
from newkinds.encoders.loading import TRAINED_FILE
from newkinds.errors import InputError
from newkinds.runtime import rank
from newkinds.staging import accept_existing, staged

STATE_FILE = "state.json"
DAMAGED = ".damaged"

WRITING_ERRORS = (OSError, InputError, SafetensorError)
"""What a full disk, or a place that cannot be written to, leads to."""


def save_state(
    folder: Path, description: Mapping[str, Any], losses: list[float], tensors: dict[str, Tensor]
) -> None:
    """Replace the state in a folder by this one."""
    with staged(folder, folder=True, replace=accept_existing, ours=(TRAINED_FILE, STATE_FILE)) as stage:
        save_file(tensors, stage / TRAINED_FILE)
        state = {**description, "losses": losses, "tensors": file_sha256(stage / TRAINED_FILE)}
        (stage / STATE_FILE).write_text(json.dumps({**state, "checksum": fingerprint(state)}), "utf-8")


def load_state(
    folder: Path, description: Mapping[str, Any], shapes: Mapping[str, torch.Size]
) -> tuple[list[float], dict[str, Tensor]] | None:
    """The losses and tensors of a training, if a whole state of exactly this training is there."""
    try:
        state = json.loads((folder / STATE_FILE).read_text("utf-8"))
        if not isinstance(state, dict) or state.pop("checksum", None) != fingerprint(state):
            raise ValueError(f"the checksum of {STATE_FILE} differs")
        if {name: value for name, value in state.items() if name not in ("losses", "tensors")} != description:
            return None
        content = (folder / TRAINED_FILE).read_bytes()
        if hashlib.sha256(content).hexdigest() != state["tensors"]:
            raise ValueError(f"the checksum of {TRAINED_FILE} differs")
        tensors = load(content)
        if shapes != {name: value.shape for name, value in tensors.items()}:
            raise ValueError(f"{TRAINED_FILE} holds tensors of other shapes")
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        if folder.is_dir():
            _set_aside(folder, error)
        return None
    return state["losses"], tensors


def _set_aside(folder: Path, error: Exception) -> None:
    if rank() != 0:
        return
    aside = folder.with_name(f"{folder.name}.{uuid4().hex[:8]}{DAMAGED}")
    with suppress(OSError):  # it is not read, wherever it is
        folder.rename(aside)
    warnings.warn(
        f"the saved state {folder} is damaged, or of an earlier version ({error}). It is set aside as "
        f"{aside.name}, and the training begins anew",
        stacklevel=4,
    )
