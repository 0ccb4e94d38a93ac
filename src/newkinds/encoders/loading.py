"""Encoders by name."""

from pathlib import Path

from newkinds.data.raw import Kind
from newkinds.encoders.encoder import Encoder
from newkinds.runtime import resolve_device

DEFAULTS: dict[Kind, str] = {"images": "facebook/dinov2-small", "texts": "all-MiniLM-L6-v2"}


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
        - a folder in which such a model was saved.
    kind : {"images", "texts"}
    device : {"auto", "cpu", "cuda", "mps"}
    half : bool, optional
        Compute in half precision; by default on CUDA only. An ONNX file has its own precision.
    """
    from newkinds.encoders.images import OnnxImageEncoder, huggingface_encoder
    from newkinds.encoders.texts import OnnxTextEncoder, SentenceEncoder

    name = name or DEFAULTS[kind]
    if Path(name).exists():
        name = str(Path(name).resolve())  # so that a run finds it again from elsewhere
    own_device = resolve_device(device).type
    if name.lower().endswith(".onnx"):
        path = Path(name)
        return (
            OnnxImageEncoder(path, device=own_device)
            if kind == "images"
            else OnnxTextEncoder(path, device=own_device)
        )
    if kind == "images":
        return huggingface_encoder(name, device=own_device, half=half)
    return SentenceEncoder(name, device=own_device, half=half)
