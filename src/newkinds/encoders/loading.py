"""Encoders by name."""

import hashlib
import json
from pathlib import Path
from typing import Any, get_args

from newkinds.encoders.encoder import Encoder, Trainable
from newkinds.encoders.hub import was_fetched
from newkinds.encoders.packaged import DEFAULTS, PACKAGED
from newkinds.encoders.preparation import PUBLISHED, Changes, ImagePreparation
from newkinds.encoders.trust import check_trusted, located, remember_encoder
from newkinds.errors import InputError
from newkinds.names import Kind
from newkinds.runtime import resolve_device
from newkinds.wording import option

ENCODER_FILE, TRAINED_FILE = "encoder.json", "trained.safetensors"
"""What a folder made by `newkinds finetune` holds: which encoder was trained, and the tensors that changed."""
RECORD_KEYS = ("kind", "base", "base_fingerprint")
"""What loading needs of an `encoder.json`."""
PREPARATION_KEY = "base_preparation"
"""In `encoder.json`, of an encoder of images: how that encoder prepared them. Earlier versions wrote none, and
prepared them as the model's files say."""
CHECKSUM_KEY = "tensors_sha256"
"""In `encoder.json`; earlier versions wrote none."""


def load_encoder(
    name: str | None = None,
    kind: Kind = "images",
    *,
    device: str = "auto",
    half: bool | None = None,
    changes: Changes | None = None,
) -> Encoder:
    """An encoder by its name, which is remembered: runs made with this encoder may name it from now on.

    No code that comes with a model is run: a folder that names some is refused.

    Parameters
    ----------
    name : str, optional
        - one that comes as a package with its weights (`newkinds.encoders.packaged`). So do the defaults,
          `efficientnet-lite1` (extra `images`) and `all-MiniLM-L6-v2` (extra `text`);
        - an `.onnx` file;
        - for images, a vision model of Hugging Face: `facebook/dino-vitb16` is the paper's;
        - for texts, a model of sentence-transformers;
        - a folder in which such a model was saved, or one that `newkinds finetune` made.

        Only a model that is named and not on this machine is fetched, from huggingface.co.
    kind : {"images", "texts"}
    device : {"auto", "cpu", "cuda", "mps"}
    half : bool, optional
        Compute in half precision; by default on CUDA only. An ONNX file has its own precision.
    changes : mapping, optional
        How images are prepared in another way than the encoder's own, by attributes of
        `newkinds.encoders.preparation.ImagePreparation`: {"resize": 256, "size": (224, 224)}.
    """
    encoder = load_named(name, kind, device=device, half=half, changes=changes)
    if name:
        remember_encoder(encoder.name, encoder.fingerprint)
    return encoder


def load_trusted(
    name: str,
    fingerprint: str,
    kind: Kind = "images",
    *,
    device: str = "auto",
    half: bool | None = None,
    changes: Changes | None = None,
) -> Encoder:
    """The encoder that a run names, if the user has given it before or it is one of the package's own.

    It is not downloaded: for that a person has to name it.
    """
    giving = option(f"newkinds.load(run, encoder={name!r})", f"--encoder {name!r}")
    untrusted = (
        f"the run was made with the encoder {name!r}, which was never used on this machine; if you trust it, give "
        f"it: {giving}"
    )
    check_trusted(name, fingerprint, untrusted, _another(name))
    is_packaged = any(name in packaged for packaged in PACKAGED.values())
    if not is_packaged and not Path(name).exists() and not was_fetched(name):
        gone = f"the run was made with the encoder {name!r}, which is not on this machine"
        if Path(name).is_absolute():
            raise InputError(f"{gone} any more; say where it is now: {option('encoder=PLACE', '--encoder PLACE')}")
        raise InputError(f"{gone}; to have it downloaded, give it: {giving}")
    encoder = load_named(name, kind, device=device, half=half, changes=changes)
    check_fingerprint(encoder, name, fingerprint)
    return encoder


def check_fingerprint(encoder: Encoder, name: str, fingerprint: str) -> None:
    """Refuse an encoder that is not the one that a run was made with."""
    if encoder.fingerprint != fingerprint:
        raise InputError(_another(name))


def _another(name: str) -> str:
    return (
        f"the encoder {name!r} is not the one the run was made with: weights or preprocessing differ; give the "
        f"right one with {option('encoder=…', '--encoder')}"
    )


def load_named(
    name: str | None,
    kind: Kind,
    *,
    device: str,
    half: bool | None,
    changes: Changes | None = None,
    as_configured: bool = False,
) -> Encoder:
    """As `load_encoder`, but nothing is remembered.

    `as_configured`: changes come on top of what the model's own files say, whatever is published of it.
    """
    if kind not in get_args(Kind):
        raise InputError(f"kind must be one of {', '.join(get_args(Kind))}; got {kind!r}")
    if changes and kind != "images":
        raise InputError(f"{kind} have no size: only images are resized and cropped")
    name = located(name or DEFAULTS[kind])
    path = Path(name)
    if (path / ENCODER_FILE).is_file():
        return _load_finetuned(path, kind, device=device, half=half, changes=changes)
    device_type = resolve_device(device).type
    load_packaged = PACKAGED[kind].get(name)
    if kind == "images":
        from newkinds.encoders.images import OnnxImageEncoder, huggingface_encoder

        if load_packaged is not None:
            return load_packaged(name, device_type, half, changes)
        if name.lower().endswith(".onnx"):
            return OnnxImageEncoder(path, device=device_type, changes=changes)
        usual = {} if as_configured else PUBLISHED.get(name, {})
        return huggingface_encoder(name, device=device_type, half=half, changes={**usual, **(changes or {})})
    from newkinds.encoders.texts import OnnxTextEncoder, SentenceEncoder

    if load_packaged is not None:
        return load_packaged(name, device_type, half)
    if name.lower().endswith(".onnx"):
        return OnnxTextEncoder(path, device=device_type)
    return SentenceEncoder(name, device=device_type, half=half)


def _load_finetuned(
    folder: Path, kind: Kind, *, device: str, half: bool | None, changes: Changes | None
) -> Encoder:
    from safetensors import SafetensorError
    from safetensors.torch import load

    from newkinds.encoders.modules import ModuleEncoder

    record = _read_record(folder)
    try:
        content = (folder / TRAINED_FILE).read_bytes()
        tensors = load(content)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{folder} is not a whole encoder: {error}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if record.get(CHECKSUM_KEY, sha256) != sha256:
        raise InputError(f"{folder} is not a whole encoder: the checksum of {TRAINED_FILE} differs")
    if record["kind"] != kind:
        raise InputError(f"{folder} encodes {record['kind']}; this is a collection of {kind}")
    base = record["base"]
    _check_ancestors(folder, base)
    preparation = record.get(PREPARATION_KEY)
    options = f" {ImagePreparation().changed(preparation, str(folder)).options}" if preparation else ""
    advice = f"if you trust it, use it once itself: newkinds encode … --encoder {base!r}{options}"
    untrusted = f"{folder} was trained from the encoder {base!r}, which was never used on this machine; {advice}"
    changed = (
        f"{folder} was trained from another {base!r} than was used on this machine, or with another preparation"
    )
    check_trusted(base, record["base_fingerprint"], untrusted, f"{changed}; {advice}")
    encoder = load_named(base, kind, device=device, half=half, changes=preparation, as_configured=True)
    if encoder.fingerprint != record["base_fingerprint"] or not isinstance(encoder, Trainable):
        raise InputError(f"{folder} was trained from another {base!r} than the one that is there now")
    encoder = encoder.with_tensors(tensors, str(folder.resolve()))
    if not isinstance(encoder, ModuleEncoder):
        return encoder
    return encoder.with_preparation(encoder.preparation.changed(changes, str(folder)))


def _check_ancestors(folder: Path, base: str) -> None:
    """Refuse a trained encoder among whose ancestors it is itself."""
    trained = {folder.resolve()}
    while (place := Path(located(base)) / ENCODER_FILE).is_file():
        if place.parent in trained:
            raise InputError(f"{folder} is not a whole encoder: {ENCODER_FILE} says it was trained from itself")
        trained.add(place.parent)
        base = _read_record(place.parent)["base"]


def _read_record(folder: Path) -> dict[str, Any]:
    """The `encoder.json` of a folder that `newkinds finetune` made, checked to have what loading needs."""
    try:
        record = json.loads((folder / ENCODER_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder} is not a whole encoder: {error}") from error
    if not isinstance(record, dict) or not all(isinstance(record.get(key), str) for key in RECORD_KEYS):
        raise InputError(f"{folder} is not a whole encoder: {ENCODER_FILE} must name its {', '.join(RECORD_KEYS)}")
    if not isinstance(record.get(PREPARATION_KEY), dict | None):
        raise InputError(f"{folder} is not a whole encoder: {PREPARATION_KEY} in {ENCODER_FILE} must be an object")
    return record
