"""Small pictures of samples as PNG, without an imaging library."""

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.errors import InputError


def check_image(image: npt.NDArray[Any], n_axes: int = 0) -> None:
    """Refuse what is not a greyscale or colour image, or (`n_axes` = 1) a stack of them."""
    shape = image.shape[n_axes:]
    if image.dtype != np.uint8 or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        raise InputError(f"images must be uint8, height × width (× 3); got {image.dtype} of shape {image.shape}")


def png(image: npt.NDArray[Any]) -> bytes:
    """A greyscale (height, width) or colour (height, width, 3) uint8 image as the bytes of a PNG file.

    Examples
    --------
    >>> png(np.zeros((8, 8), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    check_image(image)
    height, width = image.shape[:2]
    colour_type = 0 if image.ndim == 2 else 2
    rows = image.reshape(height, -1)
    scanlines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), rows], axis=1)  # filter type 0 a row

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    pixels = zlib.compress(scanlines.tobytes(), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
