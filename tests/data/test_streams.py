"""Samples that arrive line by line: every form of a line, slow and broken streams."""

import io
import json
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.data import read_stream
from newkinds.data.streams import LONGEST_LINE, read_items

finite = st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(st.tuples(finite, finite, finite).filter(any), min_size=1, max_size=20)


class Dribble(io.RawIOBase):
    """A stream that gives its bytes a few at a time, as a slow pipe does."""

    def __init__(self, data: bytes, size: int):
        self.rest, self.size = data, size

    def readable(self):
        return True

    def readinto(self, buffer):
        piece, self.rest = self.rest[: self.size], self.rest[self.size :]
        buffer[: len(piece)] = piece
        return len(piece)


def read(data: bytes, n_features: int = 2) -> tuple[list[str], list[list[float]]]:
    """All ids and all features of a stream."""
    ids: list[str] = []
    features: list[list[float]] = []
    for block_ids, block, _ in read_stream(io.BytesIO(data), n_features):
        ids += block_ids
        features += block.tolist()
    return ids, features


def test_every_form_of_a_line_can_stand_in_one_stream():
    ids, features = read(
        b'{"id": "a", "features": [1, 2]}\n{"features": [3, 4]}\n[5, 6]\n7,8\nb, 9, 10\n"c",-1,1e2\n'
    )
    assert ids == ["a", "1", "2", "3", "b", "c"]
    assert features == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [-1, 100]]


def test_half_an_emoji_in_an_id_becomes_a_mark_that_can_be_written():
    ids, _ = read(b'{"id": "owl \\ud83e", "features": [1, 2]}\n{"id": "\\ud83e\\udd89", "features": [1, 2]}\n')
    assert ids == ["owl \ufffd", "🦉"]


def test_ids_that_are_numbers_become_text():
    assert read(b'{"id": 17, "features": [1, 2]}\n')[0] == ["17"]


@pytest.mark.parametrize("header", [b"x,y\n", b"id,x,y\n", b'"id","x","y"\n', b"\xef\xbb\xbfx,y\r\n"])
def test_a_csv_header_is_passed_over(header):
    assert read(header + b"1,2\n") == (["0"], [[1.0, 2.0]])


def test_blank_lines_windows_line_ends_and_a_missing_last_line_end_do_no_harm():
    assert read(b"\n1,2\r\n\r\n  \n[3, 4]") == (["0", "1"], [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_an_empty_stream_has_no_samples(data):
    assert read(data) == ([], [])


def test_a_sample_is_given_before_the_next_has_arrived():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pipe:
        blocks = read_stream(stream, 2)
        pipe.write(b"[1, 2]\n[3,")
        assert next(blocks)[1].tolist() == [[1, 2]]
        pipe.write(b" 4]\n")
        ids, features, _ = next(blocks)
        assert ids == ["1"]
        assert features.tolist() == [[3, 4]]


@given(rows, st.booleans(), st.integers(1, 40))
@settings(max_examples=50)
def test_the_samples_do_not_depend_on_where_the_stream_is_cut(values, as_json, size):
    lines = [json.dumps(row) if as_json else ",".join(map(repr, row)) for row in values]
    stream = io.BufferedReader(Dribble("\n".join(lines).encode(), size))
    blocks = list(read_stream(stream, 3))
    assert [name for ids, *_ in blocks for name in ids] == [str(i) for i in range(len(values))]
    assert np.array_equal(np.concatenate([features for _, features, _ in blocks]), np.array(values))


@given(st.integers(1, 40))
def test_further_keys_are_columns_wherever_the_stream_is_cut(size):
    lines = (
        '{"text": "card lost", "priority": 1, "tags": ["a", "ä"], "done": null, "odd \\ud83e": true}\n'
        'refund?\n{"id": 7, "text": "where?", "tags": "b", "priority": "high \\ud83e"}\n'
    )
    blocks = list(read_items(io.BufferedReader(Dribble(lines.encode(), size)), "text"))
    assert [name for ids, *_ in blocks for name in ids] == ["0", "1", "7"]
    columns = {name: [cell for *_, others in blocks for cell in others[name]] for name in blocks[0][2]}
    assert columns == {
        "priority": ["1", None, "high \ufffd"],
        "tags": ['["a", "ä"]', None, "b"],
        "done": [None, None, None],
        "odd \ufffd": ["true", None, None],
    }


def test_a_key_that_the_first_sample_lacks_is_refused_with_its_line():
    blocks = read_stream(
        io.BytesIO(b'{"features": [1, 2], "site": "pond"}\n[3, 4]\n{"ring": 1, "features": [5, 6]}\n'), 2
    )
    ids, _, others = next(blocks)
    assert (ids, others) == (["0", "1"], {"site": ["pond", None]})
    with pytest.raises(InputError, match=r"line 3 has the key 'ring', which the first sample lacks.*name a file"):
        next(blocks)


def test_a_zero_vector_is_refused_with_its_line():
    with pytest.raises(InputError, match="line 2 is a zero vector"):
        read(b"[1, 2]\n[0, 0]\n")


@pytest.mark.parametrize("line", [b"[1]", b"[1, 2, 3]", b"1,2,3,4", b'{"features": []}'])
def test_a_wrong_number_of_features_is_refused_with_its_line(line):
    with pytest.raises(InputError, match=r"line 3 has \d numbers where the model expects 2"):
        read(b"[1, 2]\n\n" + line + b"\n")


@pytest.mark.parametrize(
    "line",
    [
        b"one,two",
        b"1,",
        b"[1, 2",
        b"[1, null]",
        b'["a", "b"]',
        b"[[1], [2]]",
        b"{}",
        b'{"id": "a"}',
        b'{"features": null}',
        b'{"features": 12}',
        b'{"features": "12"}',
        b'{"features": {"1": 5, "2": 6}}',
        b"[1, 1" + b"0" * 400 + b"]",
        b"[1, 1" + b"0" * 5000 + b"]",
        b'{"id": ' + b"1" * 5000 + b', "features": [1, 2]}',
        b"[" * 100_000,
    ],
    ids=lambda line: line[:20].decode(),
)
def test_a_line_that_is_no_sample_is_refused_with_its_number(line):
    with pytest.raises(InputError, match="line 2"):
        read(b"[1, 2]\n" + line + b"\n")


def test_bytes_that_are_no_text_are_refused_with_their_line():
    with pytest.raises(InputError, match="line 2 is not UTF-8"):
        read(b"[1, 2]\n\xff\xfe1,2\n")


def test_a_first_line_of_numbers_with_a_typing_error_is_not_taken_for_a_header():
    with pytest.raises(InputError, match=r"line 1\b"):
        read(b"1.5,2.o\n3,4\n")


@pytest.mark.parametrize("line", [b"[1, NaN]", b"[Infinity, 2]", b"1,nan", b"-inf,1", b"1,1e999"])
def test_nan_and_infinity_are_refused_with_their_line(line):
    with pytest.raises(InputError, match=r"line 2\b.*finite"):
        read(b"[1, 2]\n" + line + b"\n[3, 4]\n[5, 6]\n")


def test_a_nul_character_is_refused_with_its_line():
    with pytest.raises(InputError, match="line 2 holds a NUL character"):
        read(b"[1, 2]\n=\0x,1,2\n")


# Lines of any length


class Endless(io.RawIOBase):
    """A stream of one line without an end; counts what was read of it."""

    def __init__(self, piece: bytes):
        self.piece, self.given = piece, 0

    def readable(self):
        return True

    def read1(self, size):
        self.given += len(self.piece[:size])
        return self.piece[:size]


def test_a_line_without_an_end_is_refused_once_it_is_too_long(monkeypatch):
    monkeypatch.setattr("newkinds.data.streams.LONGEST_LINE", 3 << 20)
    stream: Any = Endless(b"1," * (1 << 18))
    with pytest.raises(InputError, match="line 1 is longer than 3 MiB; put each sample on a line of its own"):
        list(read_stream(stream, 2))
    assert stream.given <= 4 << 20


def test_samples_before_a_line_that_is_too_long_are_given(monkeypatch):
    monkeypatch.setattr("newkinds.data.streams.LONGEST_LINE", 100)
    for too_long in (b"1" * 101, b"1" * 101 + b"\n[3, 4]\n"):
        blocks = read_stream(io.BytesIO(b"[1, 2]\n" + too_long), 2)
        assert next(blocks)[1].tolist() == [[1, 2]]
        with pytest.raises(InputError, match="line 2 is longer"):
            next(blocks)


def test_the_longest_line_that_is_promised_holds_a_million_features():
    assert 1_000_000 * len("-1.2345678901234567e-300,") <= LONGEST_LINE


def copied(monkeypatch, n_chunks: int) -> int:
    """Bytes that are put together while a line arrives in so many parts."""
    total = 0

    class Counting(bytearray):
        def __iadd__(self, other):
            nonlocal total
            total += len(other)
            return super().__iadd__(other)

        def __add__(self, other):
            nonlocal total
            total += len(self) + len(other)
            return super().__add__(other)

    monkeypatch.setattr("newkinds.data.streams.bytearray", Counting, raising=False)
    stream = io.BufferedReader(Dribble(b"[1, 2" + b" " * 10 * n_chunks + b"]\n", 10), 10)
    assert [features.tolist() for _, features, _ in read_stream(stream, 2)] == [[[1, 2]]]
    return total


def test_a_long_line_takes_time_in_proportion_to_its_length(monkeypatch):
    """Each part is put behind the others once, instead of all of them again for every part."""
    assert 10 * 100 <= copied(monkeypatch, 100) <= 10 * 110
    assert 10 * 1000 <= copied(monkeypatch, 1000) <= 10 * 1010


def test_what_came_before_a_broken_line_has_been_given():
    stream = io.BufferedReader(Dribble(b"[1, 2]\n[oops]\n", 7))
    blocks = read_stream(stream, 2)
    assert next(blocks)[1].tolist() == [[1, 2]]
    with pytest.raises(InputError, match="line 2"):
        next(blocks)
