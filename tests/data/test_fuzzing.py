"""Tables and features with bytes changed at random: they are read, or refused by an InputError that names them."""

import io
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from newkinds import InputError, read_features
from newkinds.data.labelling import read_labels
from newkinds.data.tables import read_table
from newkinds.data.texts import read_texts
from tests.data.feature_files import LABELS, NAMES, N, X

ROWS = [("a", "lost card, urgent", "card"), ("b", 'where is my "refund"?', ""), ("c", "first line\nsecond", "-1")]
HOSTILE = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"\'=", b"\r", b"\n", b",", b"\t", b";", b"{", b"[" * 3000, b"1e999",
    b"9" * 5000, b"NaN", b"\\ud83e", b"PK\x01\x02", b"\x93NUMPY", b"(-1, 3)", b"'|O'", b"'<U9999999'", b"\x80" * 9,
)  # fmt: skip


@cache
def whole(ending: str) -> bytes:
    """A good file of each format."""
    if ending == "npz":
        file = io.BytesIO()
        np.savez(file, features=X, labels=LABELS, ids=NAMES, texts=NAMES, encoder=np.array('{"name": "a"}'))
        return file.getvalue()
    if ending == "npy":
        file = io.BytesIO()
        np.save(file, X)
        return file.getvalue()
    if ending == "jsonl":
        return "".join(
            json.dumps(dict(zip(("id", "text", "label"), row, strict=True))) + "\n" for row in ROWS
        ).encode()
    if ending == "txt":
        return "\n".join(text for _, text, _ in ROWS).encode()
    delimiter = "," if ending == "csv" else "\t"
    lines = [delimiter.join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row) for row in ROWS]
    return "\n".join([delimiter.join(("id", "text", "label")), *lines]).encode()


changes = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(["flip", "insert", "delete", "repeat", "cut"]),
        st.one_of(st.binary(min_size=1, max_size=4), st.sampled_from(HOSTILE)),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=5,
)


def changed(content: bytes, edits: list[tuple[float, str, bytes, int]]) -> bytes:
    for place, kind, piece, length in edits:
        at = int(place * len(content))
        before, after = content[:at], content[at:]
        if kind == "flip":
            content = before + bytes(b ^ piece[0] for b in after[:1]) + after[1:]
        elif kind == "insert":
            content = before + piece + after
        elif kind == "delete":
            content = before + after[length:]
        elif kind == "repeat":
            content = before + after[:length] + after
        else:
            content = before
    return content


def refusals(path: Path) -> list[str]:
    """What the readers that take such a file say against it; other errors are let through."""
    readers: list[Callable[[Path], object]] = [read_features, lambda file: read_labels(file, N)]
    if path.suffix not in {".npz", ".npy"}:
        readers = [read_table, read_texts, lambda file: read_labels(file, len(ROWS), ["a", "b", "c"])]
    texts = []
    for reader in readers:
        try:
            reader(path)
        except InputError as error:
            texts.append(str(error))
    return texts


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # readers may warn of what they read all the same
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "txt", "npz", "npy"])
def test_a_changed_file_is_read_or_refused(ending):
    @given(changes)
    @settings(
        max_examples=int(os.environ.get("NEWKINDS_FUZZ", 400)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(edits):
        with TemporaryDirectory() as folder:
            path = Path(folder, f"table.{ending}")
            path.write_bytes(changed(whole(ending), edits))
            assert all(path.name in text for text in refusals(path))

    check()
