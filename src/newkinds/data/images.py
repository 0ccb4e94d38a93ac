"""Images: folders of them, labelled by sub-folder, and opening one as a person would see it.

Finding images needs no imaging library and opens nothing; opening one needs Pillow (the extra `images`).
"""

import os
import posixpath
import re
import threading
import unicodedata
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from newkinds.data.files import writable_name
from newkinds.data.pictures import check_image
from newkinds.data.raw import Item, RawCollection
from newkinds.data.tables import read_table
from newkinds.errors import InputError
from newkinds.labels import is_missing

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".webp", ".bmp", ".gif", ".tif", ".tiff"),
    *(".avif", ".jp2", ".ppm", ".pgm", ".pbm", ".pnm"),
)
NOT_READ = (".heic", ".heif", ".svg", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")
"""Images for which more than Pillow is needed; they are reported, not passed over in silence."""
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "AVIF", "JPEG2000", "PPM")
"""What Pillow may take a file for: some of its other readers start programs (EPS) or accept nearly anything."""
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
UNLABELLED_FOLDERS = ("unlabelled", "unlabeled")
PARTS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")
"""First-level folders that are parts of a data set, not categories."""
PASSED_OVER = ("__macosx", "@eadir")
"""What macOS and network drives add beside the images."""


# Opening


def open_image(item: Item, *, at_least: int | None = None) -> "Image.Image":
    """An image in RGB as a person would see it: upright, the first frame, transparency on white.

    Parameters
    ----------
    item : path, or ndarray of uint8 of shape (height, width) or (height, width, 3)
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
    path = Path(item)
    try:
        with _pillows_warnings_muted:
            Image.init()  # so that all formats are known that this build of Pillow has
            with Image.open(path, formats=[name for name in FORMATS if name in Image.OPEN]) as file:
                if file.width * file.height > MOST_PIXELS:
                    raise Image.DecompressionBombError(f"{file.width * file.height} pixels")
                if at_least is not None:
                    file.draft(None, (MARGIN * at_least, MARGIN * at_least))
                file.load()
                return _upright(file, _rgb(file))
    except Exception as error:  # over damaged files Pillow's readers raise nearly anything
        raise InputError(f"{path} {_problem(path, error)}") from error


def thumbnail(item: Item, size: int = 96) -> npt.NDArray[np.uint8]:
    """The whole image, fit into a square with white around it.

    Examples
    --------
    >>> thumbnail(np.zeros((10, 20, 3), dtype=np.uint8), size=4)[:, 0, 0]
    array([255,   0,   0, 255], dtype=uint8)
    """
    image = open_image(item, at_least=size)
    from PIL import Image

    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    small = image.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    square = np.full((size, size, 3), 255, dtype=np.uint8)
    top, left = (size - height) // 2, (size - width) // 2
    square[top : top + height, left : left + width] = np.asarray(small)
    return square


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


def _problem(path: Path, error: Exception) -> str:
    """What is wrong with a file that could not be opened as an image."""
    from PIL import Image, UnidentifiedImageError

    if not path.exists():
        return "does not exist"
    if path.is_dir():
        return "is a folder, not an image"
    if isinstance(error, PermissionError):
        return "may not be read: permission denied"
    if path.stat().st_size == 0:
        return "is empty (0 bytes)"
    if isinstance(error, Image.DecompressionBombError):
        count = re.search(r"\d+", str(error))
        pixels = f"{int(count[0]):,}" if count else "too many"
        return f"has {pixels} pixels, too many to be decoded safely; shrink it to at most {MOST_PIXELS:,}"
    if isinstance(error, UnidentifiedImageError):
        with path.open("rb") as file:
            return f"is not an image that can be read, or damaged at its start: it begins with {file.read(12)!r}"
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "is cut off: the end of the image is missing"
    return f"is damaged or of an unusual kind: {error or type(error).__name__}"


# Folders


def read_images(
    folder: str | Path, *, labels: str | Path | None = None, truth: str | Path | None = None
) -> RawCollection:
    """Find the images in a folder, with their labels; none is opened yet.

    Parameters
    ----------
    folder : path
        Searched with all its sub-folders, hidden ones excepted. An image is labelled with the name of the
        first-level folder it is in; those at the top, or in a folder called `unlabelled`, are unlabelled.
    labels : path, optional
        Table (`.csv`, `.jsonl`, `.parquet`, …) with a column `path` or `id` and a column `label`, which takes the
        place of the folders' names; blank or without a row = unlabelled. A path is within the folder, absolute, or
        a bare file name that occurs once.
    truth : path or "folders", optional
        True classes, for scoring only: a table of the same form, or the folders' names.

    Returns
    -------
    RawCollection
        In the order of the paths within the folder, which are the ids; `skipped` names files that are empty or of a
        kind that is not read.

    Examples
    --------
    >>> import tempfile
    >>> from newkinds.data.pictures import png
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("owl/1.png", "wren/1.png", "unlabelled/7.png"):
    ...         Path(folder, name).parent.mkdir()
    ...         _ = Path(folder, name).write_bytes(png(np.zeros((8, 8), dtype=np.uint8)))
    ...     birds = read_images(folder)
    >>> birds.ids, birds.labels, birds.names
    (('owl/1.png', 'unlabelled/7.png', 'wren/1.png'), array([ 0, -1,  1]), ('owl', 'wren'))
    """
    folder = Path(folder)
    if not folder.is_dir():
        problem = "is a file" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {problem}; give a folder of images")
    images: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    for name, path, reason in _search(folder):
        if reason is None:
            images[name] = path
        else:
            skipped[name] = reason
    ids = sorted(images)
    if not ids:
        left_out = f" ({len(skipped)} were left out; {min(skipped)}: {skipped[min(skipped)]})" if skipped else ""
        raise InputError(
            f"there are no images in {folder}{left_out}; looked for files ending in {', '.join(SUFFIXES)}"
        )

    def raw_labels(source: str | Path | None) -> list[Any] | None:
        if source is None:
            return None
        if source == "folders":
            return _folder_labels(folder, ids)
        label_of = _file_labels(Path(source), folder, [*ids, *skipped])
        return [label_of.get(name) for name in ids]

    return RawCollection.gathered(
        "images",
        [images[name] for name in ids],
        ids,
        raw_labels("folders" if labels is None else labels),
        raw_labels(truth),
        sorted(skipped.items()),
        labels_from=folder if labels is None else Path(labels),
        truth_from=folder if truth is None or truth == "folders" else Path(truth),
    )


def _search(folder: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Id and path of every image below a folder, and for each one that has to be left out the reason.

    Links to folders are followed, unless they lead to a folder that holds them.
    """
    # Each folder with the resolved paths of itself and of all folders above it.
    waiting: list[tuple[str, tuple[Path, ...]]] = [("", (folder.resolve(),))]
    while waiting:
        inside, ancestors = waiting.pop()
        try:
            entries = list(os.scandir(folder / inside))
        except OSError as error:
            yield writable_name(inside), folder / inside, f"the folder cannot be read: {error.strerror}"
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name.lower() in PASSED_OVER:
                continue
            name, suffix = posixpath.join(inside, entry.name), os.path.splitext(entry.name)[1].lower()
            if _is_folder(entry):
                place = (folder / name).resolve() if entry.is_symlink() else ancestors[-1] / entry.name
                if not (entry.is_symlink() and any(ancestor.is_relative_to(place) for ancestor in ancestors)):
                    waiting.append((name, (*ancestors, place)))
            elif suffix in SUFFIXES:
                yield writable_name(name), folder / name, _left_out(entry)
            elif suffix in NOT_READ:
                yield writable_name(name), folder / name, f"{suffix} files are not read; convert it to JPEG or PNG"


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or to where one may not look
        return False


def _left_out(entry: "os.DirEntry[str]") -> str | None:
    try:
        if not entry.is_file():
            return "it is not a file, or a link to nothing"
        return None if entry.stat().st_size else "the file is empty"
    except OSError as error:
        return f"the file cannot be read: {error.strerror}"


def _folder_labels(folder: Path, ids: Sequence[str]) -> list[str | None]:
    places = [name.split("/")[:-1] for name in ids]
    labels = [
        None
        if not place or any(part.lower() in UNLABELLED_FOLDERS for part in place)
        else unicodedata.normalize("NFC", place[0])  # macOS writes letters and accents apart
        for place in places
    ]
    labelled = [place for place, label in zip(places, labels, strict=True) if label is not None]
    if labelled and all(len(place) > 1 and place[0].lower() in PARTS for place in labelled):
        parts = sorted({place[0] for place in labelled})
        raise InputError(
            f"the folders in {folder} are parts of a data set, not categories: {', '.join(parts)}; read one of "
            f"them ({folder / parts[0]}), or give labels in a file"
        )
    return labels


# Files of labels


def _file_labels(file: Path, folder: Path, ids: Sequence[str]) -> dict[str, Any]:
    """The label of each image that a table names."""
    table = read_table(file)
    path_column, label_column = table.find("path") or table.find("id"), table.find("label")
    if path_column is None or label_column is None:
        raise InputError(
            f"{file}: a column 'path' (or 'id') and a column 'label' are needed; found {table.listed()}"
        )
    images_at = _path_lookup(folder, ids)
    labels: dict[str, Any] = {}
    absent: list[str] = []
    for row, (cell, label) in enumerate(zip(table.values(path_column), table.values(label_column), strict=True)):
        if is_missing(cell):
            raise InputError(f"{file}: {table.where(row)} has no {path_column}")
        names = images_at(str(cell).strip())
        if not names:
            absent.append(str(cell))
            continue
        if len(names) > 1:
            raise InputError(
                f"{file}: {table.where(row)} names {cell!r}, of which there are {len(names)}: "
                f"{', '.join(names[:3])}{', …' if len(names) > 3 else ''}; write the path within the folder"
            )
        name = names[0]
        label = None if is_missing(label) else label
        if name in labels and labels[name] != label:
            raise InputError(
                f"{file}: {name!r} has two labels, {labels[name]!r} and (on {table.where(row)}) {label!r}; keep one"
            )
        labels[name] = label
    if absent:
        raise InputError(
            f"{file} names {len(absent)} images that are not in {folder}: {', '.join(map(repr, absent[:3]))}"
            f"{', …' if len(absent) > 3 else ''}; write paths as they are within the folder, such as {ids[0]!r}"
        )
    return labels


def _path_lookup(folder: Path, ids: Sequence[str]) -> Callable[[str], list[str]]:
    """A function that gives the images a path may mean: several if a bare name occurs in several places."""
    known = set(ids)
    composed = defaultdict(list)  # macOS writes letters and accents apart, a spreadsheet writes them as one
    by_name = defaultdict(list)
    for name in ids:
        composed[unicodedata.normalize("NFC", name)].append(name)
        by_name[unicodedata.normalize("NFC", posixpath.basename(name))].append(name)
    bases = dict.fromkeys((Path(os.path.abspath(folder)).as_posix(), folder.resolve().as_posix()))

    def images_at(path: str) -> list[str]:
        if path in known:
            return [path]
        path = posixpath.normpath(path.replace("\\", "/"))
        for base in bases:
            path = path.removeprefix(f"{base.rstrip('/')}/")
        if path in known:
            return [path]
        path = unicodedata.normalize("NFC", path)
        return composed.get(path) or by_name.get(path) or []

    return images_at
