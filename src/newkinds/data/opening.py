"""Opening an image as a person would see it; needs Pillow (the extra `images`), and for HEIC pillow-heif."""

import io
import os
import re
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newkinds.data.pictures import check_image
from newkinds.data.raw import Item
from newkinds.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "HEIF", "JPEG2000", "PPM")
"""What Pillow may take a file for: some of its other readers start programs (EPS) or accept nearly anything."""
NEEDING_MORE = (
    ("HEIF", (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1"), "pillow-heif"),
    ("AVIF", (b"avif", b"avis"), "'pillow>=11.3'"),
)
"""Formats that not every installation reads: how Pillow calls them, how their files begin after `ftyp`, what to
install."""
MOST_PIXELS = 178_956_970
"""More than this is refused before anything is decoded: where Pillow itself draws the line by default."""
MARGIN = 2
"""A JPEG is decoded at no less than this times the size needed, so that the final resizing still averages."""
UPRIGHT = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What undoes each orientation of a camera (EXIF tag 274)."""
ORIENTATION = 274


def open_image(item: Item, *, at_least: int | None = None) -> "Image.Image":
    """An image in RGB as a person would see it: upright, the first frame, transparency on white.

    Parameters
    ----------
    item : path, bytes of a file, or ndarray of uint8 of shape (height, width) or (height, width, 3)
    at_least : int, optional
        How long the shorter side has to be. A larger JPEG may then come out reduced, which is much faster, but
        never below twice this.

    Raises
    ------
    InputError
        If there is no image in the file, or a damaged one, or one of more than `MOST_PIXELS` pixels.

    Examples
    --------
    >>> open_image(np.zeros((2, 3), dtype=np.uint8)).size
    (3, 2)
    """
    _need_pillow()
    from PIL import Image

    if at_least is not None and at_least < 1:
        raise InputError(f"at_least must be at least 1 pixel, got {at_least}")
    if isinstance(item, np.ndarray):
        check_image(item)
        if not item.size:
            raise InputError(f"an image must have pixels; got shape {item.shape}")
        return Image.fromarray(item).convert("RGB")
    place = item if isinstance(item, bytes) else Path(item)
    try:
        with _pillows_warnings_muted:
            _register_formats()
            with Image.open(
                io.BytesIO(place) if isinstance(place, bytes) else place,
                formats=[name for name in FORMATS if name in Image.OPEN],
            ) as file:
                if file.width * file.height > MOST_PIXELS:
                    raise Image.DecompressionBombError(f"{file.width * file.height} pixels")
                if at_least is not None:
                    file.draft(None, (MARGIN * at_least, MARGIN * at_least))
                file.load()
                return _upright(file, _rgb(file))
    except Exception as error:  # over damaged files Pillow's readers raise nearly anything
        name = "an image" if isinstance(place, bytes) else place
        raise InputError(f"{name} {_problem(place, error)}") from error


@cache
def _register_formats() -> None:
    """Make all formats known that this build of Pillow has, and HEIF where pillow-heif is installed."""
    from PIL import Image

    Image.init()
    try:
        import pillow_heif
    except ImportError:
        return
    pillow_heif.register_heif_opener()


def pixels(picture: "Image.Image") -> npt.NDArray[np.uint8]:
    """The pixels of a picture that Pillow has opened, as `open_image` shows it."""
    return np.asarray(_upright(picture, _rgb(picture)))


def thumbnail(item: Item, size: int = 96) -> npt.NDArray[np.uint8]:
    """The whole image, made so small (or large) that its longer side is `size`.

    Examples
    --------
    >>> thumbnail(np.zeros((10, 20, 3), dtype=np.uint8), size=4).shape
    (2, 4, 3)
    """
    image = open_image(item, at_least=size)
    from PIL import Image

    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    return np.asarray(small, dtype=np.uint8)


class _Muted:
    """Mutes Pillow's warnings (about large images, about odd metadata) while a thread is inside.

    The filters of warnings belong to the whole process: the first thread in changes them and the last one out
    restores them. If every thread did both, one would restore what another had changed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters = warnings.catch_warnings()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()  # a lock that another thread held at the fork would stay locked

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                # What Pillow warns of and we do not refuse is no matter for the user.
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)


_pillows_warnings_muted = _Muted()


def _need_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401 - only to see whether it is there
    except ImportError as error:
        raise InputError(
            'images are opened with Pillow, which is missing: pip install "newkinds[images]"'
        ) from error


def _rgb(image: "Image.Image") -> "Image.Image":
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in {"I", "F"}:
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        return white.convert("RGB")
    return image.convert("RGB")


def _eight_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Grey levels of any range as 0-255: the usual ranges keep their meaning, others are stretched."""
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(values.shape, dtype=np.uint8)
    low, high = float(values[finite].min()), float(values[finite].max())
    usual = (1.0, 255.0) if values.dtype.kind == "f" else (255.0, 65535.0)
    full = next((full for full in usual if low >= 0 and high <= full), None)
    if full == 65535.0:
        return (values >> 8).astype(np.uint8)
    start, span = (low, high - low) if full is None else (0.0, full)
    levels = (np.where(finite, values, start).astype(np.float64) - start) * (255 / (span or 1.0))
    return np.rint(levels).astype(np.uint8)


def _upright(file: "Image.Image", image: "Image.Image") -> "Image.Image":
    """Turn the image as the camera noted, and drop the note so that nobody turns it again."""
    from PIL import Image

    try:
        turn = UPRIGHT.get(file.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged metadata; the image itself is whole
        turn = None
    if turn is not None:
        image = image.transpose(Image.Transpose[turn])
    image.info.clear()
    return image


def _problem(place: Path | bytes, error: Exception) -> str:
    """What is wrong with a file that could not be opened as an image."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(place, Path):
        if not place.exists():
            return "does not exist"
        if place.is_dir():
            return "is a folder, not an image"
        if isinstance(error, PermissionError):
            return "may not be read: permission denied"
    start = _start(place)
    if not start:
        return "is empty (0 bytes)"
    if isinstance(error, Image.DecompressionBombError):
        count = re.search(r"\d+", str(error))
        pixels = f"{int(count[0]):,}" if count else "too many"
        return f"has {pixels} pixels, too many to be decoded safely; shrink it to at most {MOST_PIXELS:,}"
    if isinstance(error, UnidentifiedImageError):
        for name, brands, package in NEEDING_MORE:
            if start[4:8] == b"ftyp" and start[8:12] in brands and name not in Image.OPEN:
                return f"is {name}, for which {package} is needed: pip install {package}"
        return f"is not an image that can be read, or damaged at its start: it begins with {start!r}"
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "is cut off: the end of the image is missing"
    return f"is damaged or of an unusual kind: {error or type(error).__name__}"


def _start(place: Path | bytes) -> bytes:
    if isinstance(place, bytes):
        return place[:12]
    with place.open("rb") as file:
        return file.read(12)
