"""Encoders by name."""

import json
from pathlib import Path
from typing import Any, get_args

from newkinds.encoders.encoder import Encoder, Trainable
from newkinds.encoders.packaged import DEFAULTS, PACKAGED
from newkinds.errors import InputError
from newkinds.names import Kind
from newkinds.runtime import resolve_device

ENCODER_FILE, TRAINED_FILE = "encoder.json", "trained.safetensors"
"""What a folder made by `newkinds finetune` holds: which encoder was trained, and the tensors that changed."""
RECORD_KEYS = ("kind", "base", "base_fingerprint")
"""What loading needs of an `encoder.json`."""


def load_encoder(
    name: str | None = None, kind: Kind = "images", *, device: str = "auto", half: bool | None = None
) -> Encoder:
    """An encoder by its name.

    Parameters
    ----------
    name : str, optional
        - an `.onnx` file;
        - for images, a vision model of Hugging Face: `facebook/dino-vitb16` is the paper's, `facebook/dinov2-small`
          the default;
        - for texts, a model of sentence-transformers; the default, `all-MiniLM-L6-v2`, needs no network if the
          extra `text` is installed;
        - a folder in which such a model was saved, or one that `newkinds finetune` made;
        - one that comes as a package with its weights (`newkinds.encoders.packaged`), such as `efficientnet-lite0`.
    kind : {"images", "texts"}
    device : {"auto", "cpu", "cuda", "mps"}
    half : bool, optional
        Compute in half precision; by default on CUDA only. An ONNX file has its own precision.
    """
    if kind not in get_args(Kind):
        raise InputError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}")
    name = name or DEFAULTS[kind]
    path = Path(name)
    if path.exists():
        name = str(path.resolve())  # so that a run finds it again from elsewhere
    if (path / ENCODER_FILE).is_file():
        return _load_finetuned(path, kind, device=device, half=half)
    device_type = resolve_device(device).type
    if (load_packaged := PACKAGED[kind].get(name)) is not None:
        return load_packaged(name, device_type, half)
    if kind == "images":
        from newkinds.encoders.images import OnnxImageEncoder, huggingface_encoder

        if name.lower().endswith(".onnx"):
            return OnnxImageEncoder(Path(name), device=device_type)
        return huggingface_encoder(name, device=device_type, half=half)
    from newkinds.encoders.texts import OnnxTextEncoder, SentenceEncoder

    if name.lower().endswith(".onnx"):
        return OnnxTextEncoder(Path(name), device=device_type)
    return SentenceEncoder(name, device=device_type, half=half)


def _load_finetuned(folder: Path, kind: Kind, *, device: str, half: bool | None) -> Encoder:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    record = _read_record(folder)
    try:
        tensors = load_file(folder / TRAINED_FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder} is not a whole encoder: {error}") from error
    if record["kind"] != kind:
        raise InputError(f"{folder} encodes {record['kind']}; this is a collection of {kind}")
    base, trained = record["base"], {folder.resolve()}
    while (Path(base) / ENCODER_FILE).is_file():
        if Path(base).resolve() in trained:
            raise InputError(f"{folder} is not a whole encoder: {ENCODER_FILE} says it was trained from itself")
        trained.add(Path(base).resolve())
        base = _read_record(Path(base))["base"]
    encoder = load_encoder(record["base"], kind, device=device, half=half)
    if encoder.fingerprint != record["base_fingerprint"] or not isinstance(encoder, Trainable):
        raise InputError(f"{folder} was trained from another {record['base']!r} than the one that is there now")
    return encoder.with_tensors(tensors, str(folder.resolve()))


def _read_record(folder: Path) -> dict[str, Any]:
    """The `encoder.json` of a folder that `newkinds finetune` made, checked to have what loading needs."""
    try:
        record = json.loads((folder / ENCODER_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder} is not a whole encoder: {error}") from error
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in RECORD_KEYS):
        raise InputError(f"{folder} is not a whole encoder: {ENCODER_FILE} must name its {', '.join(RECORD_KEYS)}")
    return record
