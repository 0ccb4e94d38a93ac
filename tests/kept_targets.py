"""What is kept between commands, and tables that people give, as targets of `tests.fuzzing`.

Damaged features are computed again and damaged checkpoints set aside: the answer has to stay the same. A table that
was changed may say something else, but never brings about anything but an `InputError`.
"""

import shutil
import tempfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newkinds.data import RawCollection, read_features
from newkinds.data.texts import read_texts
from newkinds.encoders import encode
from newkinds.engine import Run, checkpointing, optimise
from newkinds.names import Kind
from newkinds.objective import PARTITION
from tests.commands.command_line import LABELS, NAMES, X
from tests.fuzzing import Target, damaged_bytes

WIDTH = 5
TEXTS = [f"text {i}" for i in range(8)]


class ChecksumEncoder:
    """Features made of a checksum of the text: an encoder that needs no model."""

    name, fingerprint, precision, batch_size = "checksum", "0" * 8, "float32", 3
    kind: Kind = "texts"

    @property
    def preparation(self) -> Callable[[Any], Any]:
        return str

    def encode(self, batch: Sequence[Any]) -> Any:
        seeds = [zlib.crc32(text.encode()) for text in batch]
        return np.array([np.random.default_rng(seed).normal(size=WIDTH) for seed in seeds], dtype=np.float32)


def encoded(cache: Path) -> bytes:
    collection = RawCollection("texts", TEXTS, tuple(TEXTS), np.full(len(TEXTS), -1))
    return bytes(encode(collection, ChecksumEncoder(), cache=cache).features.tobytes())


RECORDS = f"features/{'0' * 8}-float32/checked-{WIDTH}-0.records"


def make_cache(folder: Path) -> None:
    encoded(folder)
    (records,) = folder.rglob("*.records")
    records.rename(folder / RECORDS)


FEATURES = torch.nn.functional.normalize(torch.from_numpy(X).float(), dim=1)
STARTS = [Run(np.eye(3, X.shape[1], dtype=np.float32), PARTITION.at(lam)) for lam in (0.1, 0.6)]


def trained(folder: Path) -> bytes:
    with checkpointing(folder, seconds=0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a state was set aside
        result = optimise(FEATURES, STARTS, labels=LABELS, solver="adam", max_iter=4)
    return b"".join(partitioner.weights.tobytes() for partitioner in result.partitioners)


def make_checkpoint(folder: Path) -> None:
    trained(folder)


def state_name() -> str:
    """Of the state that the training leaves; a hash of all that decides it."""
    with tempfile.TemporaryDirectory() as folder:
        trained(Path(folder))
        (state,) = Path(folder).iterdir()
        return state.name


def in_a_copy(use: Callable[[Path], Any], folder: Path) -> Any:
    """Use a copy of the folder: what is kept is written to."""
    with tempfile.TemporaryDirectory() as other:
        return use(Path(shutil.copytree(folder, Path(other) / "copy")))


def make_csv(folder: Path) -> None:
    rows = [f'{i};"text; {i}";{"" if label < 0 else NAMES[label]}\r\n' for i, label in enumerate(LABELS[:12])]
    (folder / "tickets.csv").write_text("id;text;label\r\n" + "".join(rows), "utf-8")


def make_json_lines(folder: Path) -> None:
    rows = [f'{{"id": {i}, "text": "text \\u00e9 {i}", "label": null}}\n' for i in range(8)]
    (folder / "tickets.jsonl").write_text("".join(rows), "utf-8")


def make_npz(folder: Path) -> None:
    np.savez_compressed(folder / "birds.npz", features=X[:9], labels=LABELS[:9], ids=np.arange(9).astype(str))


def texts(name: str, folder: Path) -> Any:
    collection = read_texts(folder / name)
    return list(collection.items), collection.ids, collection.labels.tolist(), collection.names


def features(name: str, folder: Path) -> Any:
    collection = read_features(folder / name)
    return collection.features.tobytes(), collection.labels.tolist(), collection.ids


KEPT_TARGETS = [
    Target("cache records, encode", make_cache, RECORDS, damaged_bytes, partial(in_a_copy, encoded)),
    Target("checkpoint, train", make_checkpoint, state_name(), damaged_bytes, partial(in_a_copy, trained)),
    Target("csv, texts", make_csv, "tickets.csv", damaged_bytes, partial(texts, "tickets.csv"), must_agree=False),
    Target(
        "jsonl, texts",
        make_json_lines,
        "tickets.jsonl",
        damaged_bytes,
        partial(texts, "tickets.jsonl"),
        must_agree=False,
    ),
    Target("npz, features", make_npz, "birds.npz", damaged_bytes, partial(features, "birds.npz"), must_agree=False),
]
