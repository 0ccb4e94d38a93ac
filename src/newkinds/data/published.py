"""The data sets of the field's tables, read from their official layouts and split as for the published figures.

The split is that of GCD (Vaze et al., CVPR 2022), checked against its published code; PIM's tables follow it. Half
of the training images of the known classes, drawn without regard to class, are labelled; all others are unlabelled.
Classes are numbered anew, known ones first, in the order of the lists in `class_splits.json`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.cifar import BATCHES, read_cifar10, read_cifar10_binary, read_cifar100, read_cifar100_binary
from newkinds.data.layouts import Listing, read_aircraft, read_cars, read_cub, read_folders
from newkinds.data.raw import RawCollection
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray

SEED = 0
LABELLED_PART = 0.5
"""The published splits are this draw of numpy's legacy generator and no other."""


@dataclass(frozen=True)
class ClassSplit:
    """Which classes of a data set are known, and how large its parts are.

    Attributes
    ----------
    known, novel : tuple of int
        Indices, from 0, in the data set's own numbering, in the order in which they are numbered anew.
    n_numbered : int
        How many classes that numbering has: 1000 for ImageNet-100, which takes 100 of ImageNet's.
    n_labelled, n_unlabelled : int
        Training samples.
    """

    known: tuple[int, ...]
    novel: tuple[int, ...]
    n_numbered: int
    n_labelled: int
    n_unlabelled: int

    @property
    def order(self) -> tuple[int, ...]:
        """Every class that is used, known ones first: its position here is its new number."""
        return self.known + self.novel


@dataclass(frozen=True)
class Layout:
    """How a data set lies on disk: `needs`, below one of `tops` in the user's folder ("" = that folder itself).

    The first of `tops` is what unpacking the official archive gives.
    """

    tops: tuple[str, ...]
    needs: tuple[str, ...]
    read: Callable[[Path], Listing]


@dataclass(frozen=True)
class PublishedSet:
    """A data set: what it is called, where it comes from, how it lies on disk."""

    title: str
    aliases: tuple[str, ...]
    archive: str
    site: str
    layouts: tuple[Layout, ...]


def read_published(name: str, folder: str | Path, *, check_sizes: bool = True) -> RawCollection:
    """Read one of the published data sets with the split of generalized category discovery.

    Parameters
    ----------
    name : str
        `cifar10`, `cifar100`, `cub`, `stanford-cars`, `herbarium19`, `imagenet100` or `fgvc-aircraft`, or a usual
        other name of these.
    folder : path
        Where the official archive was unpacked, or the folder that came out of it.
    check_sizes : bool
        Whether to insist on the published numbers of classes, labelled and unlabelled samples. A single missing
        image changes which images are labelled, so leave this on for figures that are to be compared; off, a
        part of a data set can be read.

    Returns
    -------
    RawCollection
        All training images in the data set's own order. `labels`: the class of the labelled half of the known
        classes' images, -1 elsewhere; `truth`: the class of every image; `names`: the official name of each class.
        `ids`: each file's path within the data set, or the row number in CIFAR.

    Examples
    --------
    A CIFAR10 of ten black images, one a class, in the layout of the binary version:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(5):
    ...         _ = Path(folder, f"data_batch_{i + 1}.bin").write_bytes(bytes([i, *[0] * 3072, i + 5, *[0] * 3072]))
    ...     _ = Path(folder, "batches.meta.txt").write_text("\\n".join("abcdefghij"))
    ...     read_published("cifar10", folder, check_sizes=False)
    RawCollection(10 images, 2 labelled, 0 skipped)
    """
    key = official_name(name)
    published, split = PUBLISHED[key], class_split(key)
    layout, top = _find(published, Path(folder))
    listing = layout.read(top)
    if len(listing.names) != split.n_numbered:
        raise InputError(
            f"{top} has {len(listing.names)} classes; there are {split.n_numbered} in {published.title}: "
            f"{_mend(published)}"
        )
    wrong = (listing.classes < 0) | (listing.classes >= split.n_numbered)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"{top}: sample {listing.ids[row]} is given class {listing.classes[row]}, counted from 0; "
            f"{published.title} has {split.n_numbered} classes: {_mend(published)}"
        )
    labels, truth = gcd_split(listing.classes, split)
    if check_sizes:
        _check_sizes(published, split, top, labels, truth)
    names = tuple(listing.names[i] for i in split.order)
    return RawCollection("images", listing.items, listing.ids, labels, truth, names)


def official_name(name: str) -> str:
    """The key of a data set in `PUBLISHED`, from any usual way of writing its name.

    Examples
    --------
    >>> official_name("CUB-200-2011"), official_name("ImageNet-100"), official_name("scars")
    ('cub', 'imagenet100', 'stanford-cars')
    """
    plain = _letters(name)
    for key, published in PUBLISHED.items():
        if plain in map(_letters, (key, published.title, *published.aliases)):
            return key
    raise InputError(f"there is no published data set called {name!r}; choose from {', '.join(PUBLISHED)}")


def class_split(key: str) -> ClassSplit:
    """The known and novel classes of a data set and its sizes, as published.

    Examples
    --------
    >>> cifar10 = class_split("cifar10")
    >>> cifar10.known, cifar10.n_labelled
    ((0, 1, 2, 3, 4), 12500)
    """
    facts = _facts()[key]
    return ClassSplit(
        known=tuple(facts["known"]),
        novel=tuple(facts["novel"]),
        n_numbered=facts["numbered"],
        n_labelled=facts["sizes"]["labelled"],
        n_unlabelled=facts["sizes"]["unlabelled"],
    )


@cache
def _facts() -> dict[str, Any]:
    text = resources.files("newkinds.data").joinpath("class_splits.json").read_text("utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def gcd_split(classes: IntArray, split: ClassSplit) -> tuple[IntArray, IntArray]:
    """Labels and truth in the new numbering, from the classes in a data set's own.

    Examples
    --------
    >>> split = ClassSplit(known=(2, 0), novel=(1,), n_numbered=3, n_labelled=1, n_unlabelled=2)
    >>> gcd_split(np.array([0, 1, 2]), split)
    (array([-1, -1,  0]), array([1, 2, 0]))
    """
    new_number = np.full(split.n_numbered, UNLABELLED, dtype=np.int64)
    new_number[list(split.order)] = np.arange(len(split.order))
    truth = new_number[classes]
    of_known = np.flatnonzero(np.isin(classes, split.known))
    size = int(LABELLED_PART * len(of_known))
    drawn = np.random.RandomState(SEED).choice(len(of_known), size=size, replace=False)
    labels = np.full_like(truth, UNLABELLED)
    labels[of_known[drawn]] = truth[of_known[drawn]]
    return labels, truth


def _check_sizes(published: PublishedSet, split: ClassSplit, top: Path, labels: IntArray, truth: IntArray) -> None:
    n_labelled = int((labels != UNLABELLED).sum())
    counts = (n_labelled, len(labels) - n_labelled, len(np.unique(truth)))
    expected = (split.n_labelled, split.n_unlabelled, len(split.order))
    if counts != expected:
        sentence = "{} labelled and {} unlabelled training samples of {} classes"
        raise InputError(
            f"{published.title} should give {sentence.format(*expected)}; {top} gives {sentence.format(*counts)}: "
            f"{_mend(published)}, or pass check_sizes=False to read what is there as it is"
        )


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _mend(published: PublishedSet) -> str:
    return (
        "probably the download or its unpacking is incomplete, or files were added; "
        f"unpack {published.archive} from {published.site} again"
    )


def _find(published: PublishedSet, folder: Path) -> tuple[Layout, Path]:
    """The layout that is complete and its folder; if none is, the error is about the one that comes closest."""
    places = [(layout, top) for layout in published.layouts for top in layout.tops]
    missing = [[need for need in layout.needs if not (folder / top / need).exists()] for layout, top in places]
    best = min(range(len(places)), key=lambda i: len(missing[i]) / len(places[i][0].needs))
    layout, top = places[best]
    if not missing[best]:
        return layout, folder / top
    state = "does not exist" if not folder.is_dir() else f"has no complete {published.title}"
    lacking = ", ".join((Path(top) / need).as_posix() for need in missing[best])
    expected = " or ".join(
        ", ".join((Path(layout.tops[0]) / need).as_posix() for need in layout.needs) for layout in published.layouts
    )
    raise InputError(
        f"{folder} {state}: missing is {lacking}. Download {published.archive} from {published.site} and unpack it "
        f"there; expected below the folder: {expected}"
    )


PUBLISHED: dict[str, PublishedSet] = {
    "cifar10": PublishedSet(
        "CIFAR10",
        (),
        "cifar-10-python.tar.gz (or cifar-10-binary.tar.gz)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Layout(("cifar-10-batches-py", ""), (*BATCHES, "batches.meta"), read_cifar10),
            Layout(
                ("cifar-10-batches-bin", ""),
                (*(f"{name}.bin" for name in BATCHES), "batches.meta.txt"),
                read_cifar10_binary,
            ),
        ),
    ),
    "cifar100": PublishedSet(
        "CIFAR100",
        (),
        "cifar-100-python.tar.gz (or cifar-100-binary.tar.gz)",
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            Layout(("cifar-100-python", ""), ("train", "meta"), read_cifar100),
            Layout(("cifar-100-binary", ""), ("train.bin", "fine_label_names.txt"), read_cifar100_binary),
        ),
    ),
    "cub": PublishedSet(
        "CUB-200-2011",
        ("cub200",),
        "CUB_200_2011.tgz",
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        (
            Layout(
                ("CUB_200_2011", ""),
                ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt", "images"),
                read_cub,
            ),
        ),
    ),
    "stanford-cars": PublishedSet(
        "Stanford Cars",
        ("cars", "scars", "cars196"),
        "cars_train.tgz and car_devkit.tgz",
        "https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
        (
            Layout(
                ("", "stanford_cars", "stanford_car", "StanfordCars"),
                ("cars_train", "devkit/cars_train_annos.mat", "devkit/cars_meta.mat"),
                read_cars,
            ),
        ),
    ),
    "herbarium19": PublishedSet(
        "Herbarium19",
        ("herbarium", "herbarium2019", "herbarium-2019-fgvc6"),
        "small-train.tar.gz",
        "https://www.kaggle.com/c/herbarium-2019-fgvc6 (or https://github.com/visipedia/herbarium_comp)",
        (
            Layout(
                ("", "herbarium-2019-fgvc6", "herbarium_19"),
                ("small-train",),
                lambda top: read_folders(top, "small-train", class_split("herbarium19").order),
            ),
        ),
    ),
    "imagenet100": PublishedSet(
        "ImageNet-100",
        (),
        "ILSVRC2012_img_train.tar (one folder a class, all 1000)",
        "https://image-net.org/download.php",
        (
            Layout(
                ("", "ILSVRC/Data/CLS-LOC", "ILSVRC2012", "imagenet"),
                ("train",),
                lambda top: read_folders(top, "train", class_split("imagenet100").order),
            ),
        ),
    ),
    "fgvc-aircraft": PublishedSet(
        "FGVC-Aircraft",
        ("aircraft", "fgvc-aircraft-2013b"),
        "fgvc-aircraft-2013b.tar.gz",
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        (
            Layout(
                ("fgvc-aircraft-2013b", ""),
                ("data/images_variant_trainval.txt", "data/variants.txt", "data/images"),
                read_aircraft,
            ),
        ),
    ),
}
"""Every data set that `read_published` knows, by its name there."""
