"""Encoders of texts: models of sentence-transformers and ONNX files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from torch import Tensor

from newkinds.data.raw import Item
from newkinds.encoders.encoder import FloatArray, encoding_errors, fingerprint, reason
from newkinds.encoders.hub import load_from_hub
from newkinds.encoders.images import quiet_transformers
from newkinds.encoders.model_folders import MODULES_FILE, check_model_folder
from newkinds.encoders.modules import BATCH_SIZE, feed_weights, replace_tensors
from newkinds.encoders.onnx import feed_onnx, open_onnx, run_onnx
from newkinds.errors import InputError
from newkinds.names import Kind

TOKENIZER_FILE = "tokenizer.json"
SAFE_VERSION = 6
"""Of sentence-transformers: earlier ones import classes that a model names, whatever they are told."""
MOST_CHARACTERS = 100_000
"""The part of a text that is read: far more than any encoder uses, so that no tokenizer gets a whole book."""


def same_text(item: Item) -> str:
    """The preparation of a text: the text itself, cut after `MOST_CHARACTERS`."""
    return str(item)[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")  # no halves of surrogate pairs


class SentenceEncoder:
    """A model of sentence-transformers, its own pooling and normalisation included.

    Parameters
    ----------
    name : str
        On huggingface.co, or a local folder.
    device : str
    half : bool, optional
        Compute in half precision; by default on CUDA only.
    location : str or path, optional
        Where the model is, if its name does not say.
    """

    kind: Kind = "texts"

    def __init__(
        self, name: str, *, device: str = "cpu", half: bool | None = None, location: str | Path | None = None
    ) -> None:
        if Path(location or name).is_dir():
            check_model_folder(Path(location or name))
        try:
            import sentence_transformers
        except ImportError as error:
            raise InputError(f'{name} needs sentence-transformers: pip install "newkinds[text]"') from error
        version = sentence_transformers.__version__
        if int(version.partition(".")[0]) < SAFE_VERSION:
            raise InputError(
                f"{name} needs sentence-transformers {SAFE_VERSION} or newer, {version} is installed: "
                'pip install --upgrade "newkinds[text]"'
            )

        def load(offline: bool) -> Any:
            with quiet_transformers():
                return sentence_transformers.SentenceTransformer(
                    str(location or name), device=device, trust_remote_code=False, local_files_only=offline
                )

        try:
            self.module = load_from_hub(str(location or name), MODULES_FILE, load)
        except InputError:
            raise
        except Exception as error:  # of the hub, of safetensors, of configurations: they share no base
            raise InputError(
                f"the encoder {name!r} cannot be loaded: {reason(error)} Give the name of a model on "
                "huggingface.co (which must be reachable once) or a folder of sentence-transformers"
            ) from error
        half = device == "cuda" if half is None else half
        self.module.eval()
        facts = {"length": self.module.max_seq_length, "layers": str(self.module)}
        self.fingerprint = fingerprint(facts, lambda checksum: feed_weights(checksum, self.module))
        if half:
            self.module.half()
        self.name, self.precision = name, "float16" if half else "float32"
        self.preparation: Callable[[Item], str] = same_text
        self.batch_size = 8 * BATCH_SIZE[device.partition(":")[0]]

    def with_tensors(self, tensors: Mapping[str, Tensor], name: str) -> Self:
        """Replace the values of some weights, and the name."""
        self.fingerprint = replace_tensors(self.module, tensors, self.fingerprint, name)
        self.name = name
        return self

    def forward(self, batch: Sequence[str]) -> Tensor:
        """Features as a tensor through which gradients flow."""
        with encoding_errors(self.name, self.kind):
            tokens = self.module.tokenize(list(batch))
            tensors = {
                name: value.to(self.module.device) for name, value in tokens.items() if isinstance(value, Tensor)
            }
            features: Tensor = self.module(tensors)["sentence_embedding"]
        return features

    def encode(self, batch: Sequence[str]) -> FloatArray:
        with encoding_errors(self.name, self.kind):
            # It sorts the texts by length, so that little is padded.
            features: Any = self.module.encode(
                list(batch), batch_size=self.batch_size // 8, show_progress_bar=False
            )
            return np.asarray(features, dtype=np.float32)


class OnnxTextEncoder:
    """An ONNX file of a text transformer, with its `tokenizer.json` in the same folder or the one above.

    A two-dimensional output is the features; an output with a vector for each token is averaged over the tokens.
    """

    kind: Kind = "texts"

    def __init__(self, path: Path, *, device: str = "cpu", most_tokens: int = 256) -> None:
        self._session = open_onnx(path, device)
        self._inputs = {value.name for value in self._session.get_inputs()}
        if unknown := self._inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise InputError(
                f"{path} must take input_ids and attention_mask; it takes {', '.join(sorted(unknown))}"
            )
        places = [folder / TOKENIZER_FILE for folder in (path.parent, path.parent.parent)]
        tokenizer_file = next((place for place in places if place.is_file()), None)
        if tokenizer_file is None:
            raise InputError(f"{path} needs its {TOKENIZER_FILE}, beside it or one folder above")
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise InputError(f'{path} needs tokenizers: pip install "newkinds[text]"') from error
        try:
            content = tokenizer_file.read_text("utf-8")
            self._tokenizer = Tokenizer.from_str(content)
            self._tokenizer.enable_truncation(most_tokens)
            self._tokenizer.enable_padding()
        except Exception as error:  # what tokenizers raises has no type of its own
            raise InputError(f"{tokenizer_file} cannot be read: {reason(error)}") from error
        self.name, self.precision = str(path), "float32"
        self.preparation: Callable[[Item], str] = same_text
        self.batch_size = BATCH_SIZE["cuda" if device == "cuda" else "cpu"]
        facts = {"tokens": most_tokens, "vocabulary": content}
        self.fingerprint = fingerprint(facts, lambda checksum: feed_onnx(checksum, path))

    def encode(self, batch: Sequence[str]) -> FloatArray:
        with encoding_errors(self.name, self.kind):
            tokens = self._tokenizer.encode_batch(list(batch))
        mask = np.array([encoding.attention_mask for encoding in tokens], dtype=np.int64)
        tensors = {
            "input_ids": np.array([encoding.ids for encoding in tokens], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([encoding.type_ids for encoding in tokens], dtype=np.int64),
        }
        inputs = {name: tensors[name] for name in self._inputs}
        output = run_onnx(self._session, self.name, self.kind, inputs)
        if output.ndim == 3:
            output = (output * mask[:, :, None]).sum(axis=1) / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return output.astype(np.float32)
