"""ONNX files: opening, running and identifying them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.encoders.encoder import FloatArray, encoding_errors, reason
from newkinds.errors import InputError
from newkinds.names import Kind


def open_onnx(path: Path, device: str) -> Any:
    """An ONNX file, ready to run: an `onnxruntime.InferenceSession`."""
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(f'{path} needs onnxruntime: pip install "newkinds[onnx]"') from error
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    available = onnxruntime.get_available_providers()
    wanted = ["CUDAExecutionProvider"] if device == "cuda" else []
    providers = [*(name for name in wanted if name in available), "CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # onnxruntime raises types of its own that share no base
        raise InputError(f"{path} cannot be read as an ONNX model: {reason(error)}") from error


def run_onnx(session: Any, name: str, kind: Kind, inputs: Mapping[str, npt.NDArray[Any]]) -> FloatArray:
    """The first output of a model for some inputs."""
    with encoding_errors(name, kind):
        (output,) = session.run([session.get_outputs()[0].name], dict(inputs))
        return np.asarray(output, dtype=np.float32)


def feed_onnx(checksum: Any, path: Path) -> None:
    """Add an ONNX file to a checksum, and the files beside it that it names: large weights may lie there."""
    content = path.read_bytes()
    checksum.update(content)
    for beside in sorted(path.parent.iterdir()):
        if beside != path and beside.is_file() and os.fsencode(beside.name) in content:
            checksum.update(beside.read_bytes())
