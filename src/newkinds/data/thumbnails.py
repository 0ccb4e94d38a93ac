"""Small pictures of images, made when they are asked for: a large collection's would not fit into memory."""

import operator
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from newkinds.data.opening import thumbnail
from newkinds.data.pictures import png
from newkinds.data.raw import Item
from newkinds.errors import InputError

Picture = npt.NDArray[np.uint8]
SIZE = 128
QUALITY, METHOD = 72, 2
"""Of WebP: a photo takes three to four kilobytes, and a millisecond or two."""
THREADS = 4
"""Pillow decodes and encodes without holding Python's lock."""


class Thumbnails(Sequence[Picture]):
    """A picture for each item, its longer side of `SIZE` pixels.

    Examples
    --------
    >>> pictures = Thumbnails([np.zeros((10, 20, 3), dtype=np.uint8)] * 3)
    >>> len(pictures), pictures[0].shape, len(pictures[1:])
    (3, (64, 128, 3), 2)
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: SupportsIndex) -> Picture: ...
    @overload
    def __getitem__(self, at: slice) -> list[Picture]: ...
    def __getitem__(self, at: SupportsIndex | slice) -> Picture | list[Picture]:
        if not isinstance(at, slice):
            return _picture(self._items[operator.index(at)])
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(_picture, self._items[at]))

    def packed(self, rows: slice) -> list[bytes]:
        """Some of the pictures as the bytes of WebP files."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(lambda item: webp(_picture(item)), self._items[rows]))


def webp(image: Picture) -> bytes:
    """A colour image as the bytes of a WebP file, a tenth of what PNG takes for a photo."""
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "WEBP", quality=QUALITY, method=METHOD)
    return file.getvalue()


def _picture(item: Item) -> Picture:
    try:
        return thumbnail(item, SIZE)
    except InputError:  # it could be read when it was encoded; a file that has gone since does not undo a result
        return np.full((SIZE, SIZE, 3), 255, dtype=np.uint8)


def packed_pictures(
    images: npt.NDArray[np.uint8] | Sequence[npt.NDArray[np.uint8]] | Thumbnails, rows: slice
) -> list[bytes]:
    """Small pictures of samples, from their images, as a run's predictions have them."""
    return images.packed(rows) if isinstance(images, Thumbnails) else [png(image) for image in images[rows]]
