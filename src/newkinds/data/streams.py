"""Samples that arrive line by line: feature vectors as JSON lines or CSV, texts, or the paths of photos."""

import json
import math
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BufferedReader
from typing import Any, BinaryIO, TypeVar

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

Columns = dict[str, list[str | None]]


class Ids(list[str]):
    """Ids of samples that came in a stream.

    Attributes
    ----------
    given : list of bool
        Which came with the samples; the others are their numbers.
    """

    def __init__(self, names: Iterable[str | None] = (), first: int = 0) -> None:
        names = list(names)
        super().__init__(str(n) if name is None else name for n, name in enumerate(names, start=first))
        self.given = [name is not None for name in names]


Block = tuple[Ids, npt.NDArray[np.float64], Columns]
Sample = TypeVar("Sample")
Parsed = tuple[str | None, Sample, dict[str, str | None]]
"""Id (None if it has none), sample, and further keys of a line."""


class PatientStream:
    """A stream that tells somebody when it has to be waited for.

    Parameters
    ----------
    stream : BufferedReader
    wait : callable
        Asked before each look, and again whenever that time has passed without anything coming: how many seconds
        may be waited; None for as long as it takes. Where a stream cannot be looked at (no pipe, or Windows), it is
        asked only before something is read.
    """

    def __init__(self, stream: BufferedReader, wait: Callable[[], float | None]) -> None:
        self._stream, self._wait = stream, wait
        self._is_buffered = False

    def peek(self, size: int = 0) -> bytes:
        self._is_buffered = True  # so the next reading need not wait for the pipe
        return self._stream.peek(size)

    def read1(self, size: int = -1) -> bytes:
        while not self._is_buffered and not self._has_something(self._wait()):
            pass
        self._is_buffered = False
        return self._stream.read1(size)

    def _has_something(self, seconds: float | None) -> bool:
        """Whether something came within some seconds, or the end of the stream."""
        if seconds is None:
            return True
        try:
            return bool(select.select([self._stream.fileno()], [], [], max(seconds, 0.0))[0])
        except (OSError, ValueError):
            return True


def read_stream(stream: BinaryIO | PatientStream, n_features: int) -> Iterator[Block]:
    """Blocks of (ids, features, further columns) from a stream, as soon as whole lines have arrived.

    A line is a JSON object `{"id": …, "features": […]}`, a JSON list of numbers, or comma-separated numbers,
    optionally with an id before them; a CSV header and blank lines are passed over. Samples without an id get
    their number, from 0. Further keys of objects are columns: those of the first sample, as texts.

    Parameters
    ----------
    stream : binary file
    n_features : int
        How many numbers a sample must have.

    Raises
    ------
    InputError
        For a line that is none of these, longer than `LONGEST_LINE`, or with a key that the first sample lacks,
        after the samples before it were given.

    Examples
    --------
    >>> import io
    >>> lines = io.BytesIO(b'{"id": "a", "features": [1, 2], "site": "pond"}\\n[3, 4]\\n')
    >>> [(ids, features.tolist(), others) for ids, features, others in read_stream(lines, 2)]
    [(['a', '1'], [[1.0, 2.0], [3.0, 4.0]], {'site': ['pond', None]})]
    """
    for ids, rows, others in _read_blocks(stream, partial(_parse, n_features=n_features)):
        yield ids, np.array(rows, dtype=np.float64), others


def read_items(stream: BinaryIO | PatientStream, key: str) -> Iterator[tuple[Ids, list[str], Columns]]:
    """Blocks of (ids, texts, further columns) from a stream, as soon as whole lines have arrived.

    A line is a text as it stands, or a JSON object with the text under `key` and perhaps an `id`; blank lines are
    passed over. Samples without an id get their number, from 0; paths name themselves. Further keys are columns, as
    in `read_stream`.

    Examples
    --------
    >>> import io
    >>> list(read_items(io.BytesIO(b'card lost\\n{"id": 7, "text": "refund?"}\\n'), "text"))
    [(['0', '7'], ['card lost', 'refund?'], {})]
    """
    yield from _read_blocks(stream, partial(_parse_item, key=key))


def _read_blocks(
    stream: BinaryIO | PatientStream, parse: Callable[[str, int], Parsed[Sample] | None]
) -> Iterator[tuple[Ids, list[Sample], Columns]]:
    """Blocks of (ids, samples, further columns); `parse` gets the text of a line and its number.

    The first sample decides on the columns, not the first block: how a stream is cut into blocks is chance. They
    are texts, since nobody knows what the next line holds, and all tables of an output must be alike.
    """
    line_number, count = 0, 0
    columns: list[str] | None = None
    for lines in _arriving_lines(stream):
        names: list[str | None] = []
        samples: list[Sample] = []
        further: list[dict[str, str | None]] = []
        problem: InputError | None = None
        for line in lines:
            line_number += 1
            try:
                text = _decoded(line, line_number)
                parsed = parse(text, line_number) if text else None
                if parsed is None:
                    continue
                name, sample, keys = parsed
                columns = list(keys) if columns is None else columns
                _check_keys(keys, columns, line_number)
            except InputError as error:  # samples before the bad line are still answered
                problem = error
                break
            names.append(name)
            samples.append(sample)
            further.append(keys)
        if samples:
            yield Ids(names, count), samples, {key: [keys.get(key) for keys in further] for key in columns or ()}
        count += len(samples)
        if problem is not None:
            raise problem


def _check_keys(keys: Iterable[str], columns: list[str], number: int) -> None:
    if unknown := [key for key in keys if key not in columns]:
        raise InputError(
            f"line {number} has the key {unknown[0]!r}, which the first sample lacks: its keys are the columns of "
            "all answers; give it the key too (null), or name a file instead of -"
        )


def holds_features(stream: BufferedReader | PatientStream, n_features: int) -> bool:
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


def _arriving_lines(stream: BinaryIO | PatientStream) -> Iterator[list[bytes]]:
    """The lines that each part of a stream has finished; at a line beyond `LONGEST_LINE` reading ends with it."""
    # A pipe's read1 returns what has arrived instead of waiting for a full buffer: slow streams are served at once.
    read = stream.read1 if hasattr(stream, "read1") else stream.read
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


def _parse_item(text: str, number: int, key: str) -> Parsed[str]:
    """A text or the path of a photo. What only begins like a JSON object is a text."""
    try:
        name, item, further = _parts(json.loads(text), key) if text[0] == "{" else (None, text, {})
    except (ValueError, RecursionError):
        name, item, further = None, text, {}
    if not isinstance(item, str) or not item.strip():
        raise InputError(
            f'line {number} must be a text, or an object {{"id": …, "{key}": …}} that has one: {text[:60]!r}'
        )
    item = str(repair_surrogates(item))
    return (item if key == "path" and name is None else name), item, further


def _parts(value: dict[str, Any], key: str) -> Parsed[Any]:
    """Id, sample and further keys of an object."""
    name = value.get("id")
    further = {
        str(repair_surrogates(other)): _as_text(cell) for other, cell in value.items() if other not in ("id", key)
    }
    return (None if name is None else str(repair_surrogates(str(name)))), value.get(key), further


def _as_text(cell: Any) -> str | None:
    if cell is None:
        return None
    return str(repair_surrogates(cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)))


def _parse(text: str, number: int, n_features: int) -> Parsed[list[float]] | None:
    """Features; None for a CSV header."""
    is_json = text[0] in "[{"
    try:
        name, values, further = _parse_json(text) if is_json else _parse_csv(text, n_features)
        row = [float(value) for value in values]
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        if number == 1 and not is_json and not any(map(is_number, text.split(","))):
            return None
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
    return name, row, further


def _parse_json(text: str) -> Parsed[Any]:
    value = json.loads(text)
    name, values, further = (None, value, {}) if isinstance(value, list) else _parts(value, "features")
    if not isinstance(values, list):
        raise TypeError
    return name, values, further


def _parse_csv(text: str, n_features: int) -> Parsed[list[str]]:
    fields = text.split(",")
    if len(fields) == n_features + 1:
        return fields[0].strip().strip('"'), fields[1:], {}
    return None, fields, {}
