"""Data sets as they lie on disk: lists of files, folders of classes, MATLAB annotations, a function for each.

Images are listed, not opened. Samples come in the data set's own order, classes in its own numbering (from 0).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.files import load_checked, writable_name
from newkinds.data.raw import Item
from newkinds.errors import InputError
from newkinds.labels import IntArray

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""What counts as an image in a folder of classes; the split depends on counting the same files as GCD."""
DOWNLOAD_AGAIN = "download it again from the official site"


@dataclass(frozen=True, eq=False)
class Listing:
    """The training samples of a data set in its own order and numbering of classes, before any split."""

    items: Sequence[Item]
    ids: tuple[str, ...]
    classes: IntArray
    names: tuple[str, ...]


def read_cub(top: Path) -> Listing:
    """CUB-200-2011: numbered lists of images, their classes and which of them are for training."""
    files, classes, in_training, names = (
        _numbered_lines(top / name)
        for name in ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
    )
    for name, column in (("image_class_labels.txt", classes), ("train_test_split.txt", in_training)):
        if without := next((image for image in files if image not in column), None):
            raise InputError(
                f"{top / name} has no line for image {without} of images.txt; unpack the archive again"
            )
    images = [image for image in files if in_training[image] == "1"]
    numbers = load_checked(
        top / "image_class_labels.txt",
        "a list of classes",
        lambda: np.array([int(classes[image]) - 1 for image in images], dtype=np.int64),
        DOWNLOAD_AGAIN,
    )
    return _files(top, [f"images/{files[image]}" for image in images], numbers, names.values())


def read_cars(top: Path) -> Listing:
    """Stanford Cars: a folder of images and MATLAB annotations, classes numbered from 1."""
    devkit = top / "devkit"
    names = _matlab(devkit / "cars_meta.mat", "class_names", lambda cells: [str(cell) for cell in cells])
    files, numbers = _matlab(
        devkit / "cars_train_annos.mat",
        "annotations",
        lambda rows: (
            [f"cars_train/{file}" for file in rows["fname"]],
            np.array([int(i) - 1 for i in rows["class"]], dtype=np.int64),
        ),
    )
    return _files(top, files, numbers, names)


def read_aircraft(top: Path) -> Listing:
    """FGVC-Aircraft: images for training and validation with their variants, as GCD uses them."""
    images_file = top / "data" / "images_variant_trainval.txt"
    names = sorted(_lines(top / "data" / "variants.txt"))  # GCD numbers the variants in this order
    number_of = {name: number for number, name in enumerate(names)}
    files, numbers = [], []
    for line in _lines(images_file):
        image, variant = (*line.split(" ", 1), "")[:2]
        if variant not in number_of:
            raise InputError(f"{images_file}: the variant {variant!r} of image {image} is not in variants.txt")
        files.append(f"data/images/{image}.jpg")
        numbers.append(number_of[variant])
    return _files(top, files, np.array(numbers, dtype=np.int64), names)


def read_folders(top: Path, inside: str, wanted: Iterable[int]) -> Listing:
    """Herbarium19, ImageNet: a folder for each class, some of which are wanted.

    GCD numbers the folders as sorted text: 0, 1, 10, 100, 101, … in Herbarium19.
    """
    names = [entry.name for entry in _entries(top / inside) if entry.is_dir()]
    files, numbers = [], []
    for number in sorted(wanted):
        if number >= len(names):
            break  # the caller refuses too few folders
        entries = _entries(top / inside / names[number])
        images = [entry.name for entry in entries if entry.name.lower().endswith(IMAGE_ENDINGS)]
        files += [f"{inside}/{names[number]}/{name}" for name in images]
        numbers += [number] * len(images)
    return Listing(
        [top / file for file in files],
        tuple(map(writable_name, files)),
        np.array(numbers, dtype=np.int64),
        tuple(map(writable_name, names)),
    )


def _entries(folder: Path) -> list[Path]:
    return load_checked(
        folder, "a folder", lambda: sorted(folder.iterdir(), key=lambda entry: entry.name), DOWNLOAD_AGAIN
    )


def _files(top: Path, files: Sequence[str], classes: IntArray, names: Iterable[str]) -> Listing:
    """Files that a list names; all of them must be there."""
    items = [top / file for file in files]
    absent = [file for file, item in zip(files, items, strict=True) if not item.is_file()]
    if absent:
        raise InputError(
            f"{top} lacks {len(absent)} of the {len(files)} training images, such as {absent[0]}; "
            "probably the download or its unpacking is incomplete: unpack the archive again"
        )
    return Listing(items, tuple(files), classes, tuple(names))


def _lines(path: Path) -> list[str]:
    text = load_checked(path, "a text file", lambda: path.read_text("utf-8"), DOWNLOAD_AGAIN)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _numbered_lines(path: Path) -> dict[str, str]:
    """Lines that hold a number and a text."""
    pairs = [line.partition(" ") for line in _lines(path)]
    if incomplete := next((number for number, _, text in pairs if not text), None):
        raise InputError(f"{path}: the line {incomplete!r} should be a number and a text; download it again")
    return {number: text for number, _, text in pairs}


def _matlab(path: Path, variable: str, convert: Callable[[Any], Any]) -> Any:
    from scipy.io import loadmat  # here, not above: the other sets are read without waiting for it
    from scipy.io.matlab import MatReadError

    def load() -> Any:
        try:
            content = loadmat(path, squeeze_me=True)
        except MatReadError as error:
            raise ValueError(str(error)) from error
        return convert(np.atleast_1d(content[variable]))

    return load_checked(path, f"a MATLAB file with {variable!r}", load, DOWNLOAD_AGAIN)
