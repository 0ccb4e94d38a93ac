"""Feature vectors that arrive line by line, as JSON lines or CSV."""

import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from newkinds.data.tables import repair_surrogates
from newkinds.errors import InputError

CHUNK = 1 << 20

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

    Examples
    --------
    >>> import io
    >>> lines = io.BytesIO(b'{"id": "a", "features": [1, 2]}\\n[3, 4]\\n')
    >>> [(ids, features.tolist()) for ids, features in read_stream(lines, 2)]
    [(['a', '1'], [[1.0, 2.0], [3.0, 4.0]])]
    """
    # A pipe's read1 returns what has arrived instead of waiting for a full buffer: slow streams are served at once.
    read = getattr(stream, "read1", stream.read)
    rest, line_number, count = b"", 0, 0
    while True:
        chunk = read(CHUNK)
        *lines, rest = (rest + chunk).split(b"\n")
        if not chunk and rest:
            lines, rest = [rest], b""
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
        if not chunk:
            return


def _parse(line: bytes, number: int, n_features: int) -> tuple[str | None, list[float]] | None:
    try:
        text = line.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"line {number} is not UTF-8 text") from error
    if not text:
        return None
    is_json = text[0] in "[{"
    try:
        name, values = _parse_json(text) if is_json else _parse_csv(text, n_features)
        row = [float(value) for value in values]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        if number == 1 and not is_json and not any(map(_is_number, text.split(","))):
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


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


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
