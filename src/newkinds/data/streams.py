"""Samples that arrive line by line: feature vectors as JSON lines or CSV, texts, or the paths of photos."""

import json
import math
import sys
from collections.abc import Iterator
from io import BufferedReader
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from newkinds.data.tables import is_number, repair_surrogates
from newkinds.errors import InputError

PEEKED = 1 << 12
FEWEST = 32
"""Numbers in a row that no text has."""
CHUNK = 1 << 20
LONGEST_LINE = 64 << 20
"""Bytes: room for a sample of a million features. A stream without line ends must not fill the memory."""

Block = tuple[list[str], npt.NDArray[np.float64]]


def read_stream(stream: BinaryIO, n_features: int) -> Iterator[Block]:
    """Blocks of (ids, features) from a stream, as soon as whole lines have arrived.

    A line is a JSON object `{"id": …, "features": […]}`, a JSON list of numbers, or comma-separated numbers,
    optionally with an id before them; a CSV header and blank lines are passed over. Samples without an id get
    their number, from 0.

    Parameters
    ----------
    stream : binary file
    n_features : int
        How many numbers a sample must have.

    Raises
    ------
    InputError
        For a line that is none of these, or longer than `LONGEST_LINE`, after the samples before it were given.

    Examples
    --------
    >>> import io
    >>> lines = io.BytesIO(b'{"id": "a", "features": [1, 2]}\\n[3, 4]\\n')
    >>> [(ids, features.tolist()) for ids, features in read_stream(lines, 2)]
    [(['a', '1'], [[1.0, 2.0], [3.0, 4.0]])]
    """
    line_number, count = 0, 0
    for lines in _arriving_lines(stream):
        ids, rows = [], []
        problem: InputError | None = None
        for line in lines:
            line_number += 1
            try:
                sample = _parse(line, line_number, n_features)
            except InputError as error:  # samples before the bad line are still answered
                problem = error
                break
            if sample is not None:
                name, row = sample
                ids.append(str(count) if name is None else name)
                rows.append(row)
                count += 1
        if rows:
            yield ids, np.array(rows, dtype=np.float64)
        if problem is not None:
            raise problem


def read_items(stream: BinaryIO, key: str) -> Iterator[tuple[list[str], list[str]]]:
    """Blocks of (ids, texts) from a stream, as soon as whole lines have arrived.

    A line is a text as it stands, or a JSON object with the text under `key` and perhaps an `id`; blank lines are
    passed over. Samples without an id get their number, from 0; paths name themselves.

    Examples
    --------
    >>> import io
    >>> list(read_items(io.BytesIO(b'card lost\\n{"id": 7, "text": "refund?"}\\n'), "text"))
    [(['0', '7'], ['card lost', 'refund?'])]
    """
    line_number, count = 0, 0
    for lines in _arriving_lines(stream):
        ids, texts = [], []
        problem: InputError | None = None
        for line in lines:
            line_number += 1
            try:
                parsed = _parse_item(_decoded(line, line_number), line_number, key)
            except InputError as error:  # samples before the bad line are still answered
                problem = error
                break
            if parsed is None:
                continue
            name, item = parsed
            ids.append((item if key == "path" else str(count)) if name is None else name)
            texts.append(item)
            count += 1
        if texts:
            yield ids, texts
        if problem is not None:
            raise problem


def holds_features(stream: BufferedReader, n_features: int) -> bool:
    """Whether a stream begins like feature vectors; waits for its first bytes, and leaves them there."""
    first = stream.peek(PEEKED).lstrip().split(b"\n")[0].decode("utf-8", "replace").strip()
    if first.startswith("{"):
        return '"features"' in first
    fields = first.removeprefix("[").removesuffix("]").split(",")
    if first.startswith("[") or len(fields) in (n_features, n_features + 1):  # the latter may be a header
        return len(fields) > 1
    shown = fields[1:-1]  # the first may be an id, the last cut off
    return len(shown) >= min(n_features, FEWEST) and all(map(is_number, shown))


def standard_input() -> BufferedReader:
    """Standard input as bytes, or an error where it is closed."""
    if sys.stdin is None:
        raise InputError("standard input is closed; pipe samples into the command, or name a file instead of -")
    stream: Any = sys.stdin.buffer
    return stream if hasattr(stream, "peek") else BufferedReader(stream)


def _arriving_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that each part of a stream has finished; at a line beyond `LONGEST_LINE` reading ends with it."""
    # A pipe's read1 returns what has arrived instead of waiting for a full buffer: slow streams are served at once.
    read = getattr(stream, "read1", stream.read)
    unfinished = bytearray()
    while chunk := read(CHUNK):
        first, *others = chunk.split(b"\n")
        unfinished += first  # appended in place: a long line takes time in proportion to its length
        if others:
            *whole, rest = others
            lines = [bytes(unfinished), *whole]
            unfinished = bytearray(rest)
            yield lines
        if len(unfinished) > LONGEST_LINE:
            break
    if unfinished:
        yield [bytes(unfinished)]


def _decoded(line: bytes, number: int) -> str:
    if len(line) > LONGEST_LINE:
        raise InputError(
            f"line {number} is longer than {LONGEST_LINE >> 20} MiB; put each sample on a line of its own"
        )
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"line {number} is not UTF-8 text") from error
    if "\0" in text:
        raise InputError(f"line {number} holds a NUL character, so this is not plain text; send it as UTF-8")
    return text


def _parse_item(text: str, number: int, key: str) -> tuple[str | None, str] | None:
    """Id and text of a line; None if it is blank. What only begins like a JSON object is a text."""
    if not text:
        return None
    try:
        value = json.loads(text) if text[0] == "{" else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return None, text
    item, name = value.get(key), value.get("id")
    if not isinstance(item, str) or not item.strip():
        raise InputError(
            f'line {number} must be a text, or an object {{"id": …, "{key}": …}} that has one: {text[:60]!r}'
        )
    return (None if name is None else repair_surrogates(str(name))), repair_surrogates(item)


def _parse(line: bytes, number: int, n_features: int) -> tuple[str | None, list[float]] | None:
    text = _decoded(line, number)
    if not text:
        return None
    is_json = text[0] in "[{"
    try:
        name, values = _parse_json(text) if is_json else _parse_csv(text, n_features)
        row = [float(value) for value in values]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        if number == 1 and not is_json and not any(map(is_number, text.split(","))):
            return None  # a CSV header
        raise InputError(
            f'line {number} is neither {{"id": …, "features": [numbers]}}, nor [numbers], nor numbers separated by '
            f"commas: {text[:60]!r}"
        ) from error
    if len(row) != n_features:
        raise InputError(f"line {number} has {len(row)} numbers where the model expects {n_features}")
    if not all(map(math.isfinite, row)):
        raise InputError(f"line {number} has NaN or infinity; features must be finite")
    if not any(row):
        raise InputError(f"line {number} is a zero vector, which has no direction and cannot be normalised")
    return name, row


def _parse_json(text: str) -> tuple[str | None, Any]:
    value = json.loads(text)
    if isinstance(value, list):
        return None, value
    if not isinstance(value["features"], list):
        raise TypeError
    name = value.get("id")
    return (None if name is None else repair_surrogates(str(name))), value["features"]


def _parse_csv(text: str, n_features: int) -> tuple[str | None, list[str]]:
    fields = text.split(",")
    if len(fields) == n_features + 1:
        return fields[0].strip().strip('"'), fields[1:]
    return None, fields
