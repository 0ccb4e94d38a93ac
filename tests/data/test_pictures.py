"""Small pictures: the bytes written are a PNG file that holds the image's pixels."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from newkinds import InputError
from newkinds.data.pictures import png

sides = st.integers(1, 12)
shapes = st.one_of(st.tuples(sides, sides), st.tuples(sides, sides, st.just(3)))


def decode(data: bytes) -> np.ndarray:
    """A PNG decoder for 8-bit images without interlacing whose rows are not filtered."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = [], 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks.append((kind, body))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colour, compression, filtering, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, compression, filtering, interlace) == (8, 0, 0, 0)
    channels = {0: 1, 2: 3}[colour]
    rows = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8).reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape((height, width) if colour == 0 else (height, width, 3))


@given(shapes.flatmap(lambda shape: arrays(np.uint8, shape)))
def test_the_pixels_of_grey_and_colour_images_come_back(image):
    assert np.array_equal(decode(png(image)), image)


def test_the_pixels_of_a_view_come_back():
    image = np.arange(24, dtype=np.uint8).reshape(4, 6)
    assert np.array_equal(decode(png(image.T[::-1, 1:])), image.T[::-1, 1:])


@pytest.mark.parametrize(
    "image",
    [np.zeros((2, 2)), np.zeros((2, 2), np.int64), np.zeros(4, np.uint8), np.zeros((2, 2, 4), np.uint8)],
    ids=["floats", "integers", "a row", "four channels"],
)
def test_what_is_no_image_is_refused_with_its_type_and_shape(image):
    with pytest.raises(InputError, match=rf"uint8.*{image.dtype} of shape \({image.shape[0]},"):
        png(image)
