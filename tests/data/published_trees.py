"""Small copies of the published data sets, one builder for each layout.

Their images are files of one byte: lists are read, images are not opened.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.io import savemat

from newkinds.data import RawCollection
from newkinds.data.published import class_split

FACTS = json.loads(resources.files("newkinds.data").joinpath("class_splits.json").read_text("utf-8"))


@dataclass
class Tree:
    """What a builder wrote: the classes of its training images in the data set's order, their ids, all names."""

    classes: list[int]
    ids: list[str]
    names: list[str]


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b".")


def shuffled(n_classes: int, each: int, seed: int = 7) -> list[int]:
    """Every class `each` times, in no order that a split could lean on."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(n_classes), each)).tolist()


# Builders, one a layout


def cifar_rows(n: int) -> np.ndarray:
    """Planes of which every pixel says where it is and in which image."""
    plane, row, column = np.indices((3, 32, 32))
    image = np.arange(n)[:, None, None, None]
    return ((image * 7 + plane * 80 + row * 2 + column) % 256).astype(np.uint8).reshape(n, 3072)


def pixels(collection: RawCollection) -> npt.NDArray[np.uint8]:
    """All images of a collection that holds them in memory."""
    return np.stack([item for item in collection.items if isinstance(item, np.ndarray)])


def dump(content: Any, path: Path, protocol: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, protocol=protocol))


def cifar10(folder: Path, protocol: int = 2) -> Tree:
    classes, rows, names = shuffled(10, 5), cifar_rows(50), [f"kind {i}" for i in range(10)]
    top = folder / "cifar-10-batches-py"
    for i in range(5):
        part = slice(10 * i, 10 * i + 10)
        dump({"data": rows[part], "labels": classes[part]}, top / f"data_batch_{i + 1}", protocol)
    dump({"label_names": names, "num_vis": 3072}, top / "batches.meta", protocol)
    return Tree(classes, [str(i) for i in range(50)], names)


def cifar10_binary(folder: Path) -> Tree:
    tree, rows = (
        Tree(shuffled(10, 5), [str(i) for i in range(50)], [f"kind {i}" for i in range(10)]),
        cifar_rows(50),
    )
    top = folder / "cifar-10-batches-bin"
    top.mkdir(parents=True)
    records = np.column_stack([np.array(tree.classes, np.uint8), rows])
    for i in range(5):
        (top / f"data_batch_{i + 1}.bin").write_bytes(records[10 * i : 10 * i + 10].tobytes())
    (top / "batches.meta.txt").write_text("\n".join(tree.names) + "\n\n")
    return tree


def cifar100(folder: Path) -> Tree:
    classes, names = shuffled(100, 2), [f"kind {i}" for i in range(100)]
    content = {
        "data": cifar_rows(200),
        "fine_labels": classes,
        "coarse_labels": [0] * 200,
        "filenames": ["x.png"] * 200,
    }
    dump(content, folder / "cifar-100-python" / "train")
    dump({"fine_label_names": names, "coarse_label_names": ["all"]}, folder / "cifar-100-python" / "meta")
    return Tree(classes, [str(i) for i in range(200)], names)


def cifar100_binary(folder: Path) -> Tree:
    classes, names = shuffled(100, 2), [f"kind {i}" for i in range(100)]
    top = folder / "cifar-100-binary"
    top.mkdir(parents=True)
    labels = np.column_stack([np.full(200, 19), classes]).astype(np.uint8)  # superclass, class
    (top / "train.bin").write_bytes(np.column_stack([labels, cifar_rows(200)]).tobytes())
    (top / "fine_label_names.txt").write_text("\n".join(names))
    return Tree(classes, [str(i) for i in range(200)], names)


def cub(folder: Path) -> Tree:
    top = folder / "CUB_200_2011"
    names = [f"{i + 1:03}.Bird_{i}" for i in range(200)]
    classes = sorted(shuffled(200, 4))
    files = [f"{names[c]}/photo_{i}.jpg" for i, c in enumerate(classes)]
    training = [i % 4 != 2 for i in range(len(files))]
    for file in files:
        touch(top / "images" / file)
    lists: dict[str, list[Any]] = {
        "images.txt": files,
        "image_class_labels.txt": [c + 1 for c in classes],
        "train_test_split.txt": [int(is_training) for is_training in training],
        "classes.txt": names,
    }
    for name, column in lists.items():
        (top / name).write_text("".join(f"{i + 1} {value}\n" for i, value in enumerate(column)))
    kept = [i for i, is_training in enumerate(training) if is_training]
    return Tree([classes[i] for i in kept], [f"images/{files[i]}" for i in kept], names)


def cars(folder: Path) -> Tree:
    classes, names = shuffled(196, 3), [f"Make Model {i} 2012" for i in range(196)]
    files = [f"{i + 1:05}.jpg" for i in range(len(classes))]
    for file in files:
        touch(folder / "cars_train" / file)
    (folder / "devkit").mkdir()
    fields = [("bbox_x1", object), ("bbox_y1", object), ("bbox_x2", object), ("bbox_y2", object)]
    annotations = np.zeros((1, len(files)), dtype=[*fields, ("class", object), ("fname", object)])
    for i, (c, file) in enumerate(zip(classes, files, strict=True)):
        annotations[0, i] = (1, 1, 9, 9, np.uint8(c + 1), file)
    savemat(folder / "devkit" / "cars_train_annos.mat", {"annotations": annotations})
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": np.array([names], dtype=object)})
    return Tree(classes, [f"cars_train/{file}" for file in files], names)


def aircraft(folder: Path, classes: list[int] | None = None) -> Tree:
    data = folder / "fgvc-aircraft-2013b" / "data"
    names = sorted(["ATR-42", "An-12", "F/A-18", "Boeing 717", *(f"7{i:02}-{i}00" for i in range(96))])
    classes = classes or shuffled(100, 3)
    images = [f"{i:07}" for i in range(len(classes))]
    for image in images:
        touch(data / "images" / f"{image}.jpg")
    (data / "variants.txt").write_text("\n".join(reversed(names)) + "\n")
    lines = [f"{image} {names[c]}\n" for image, c in zip(images, classes, strict=True)]
    (data / "images_variant_trainval.txt").write_text("".join(lines))
    return Tree(classes, [f"data/images/{image}.jpg" for image in images], names)


def folders(folder: Path, inside: str, names: list[str], ending: str, wanted: list[int]) -> Tree:
    for name in names:
        (folder / inside / name).mkdir(parents=True)
    classes, ids = [], []
    for number in sorted(wanted):
        for i in range(1 + number % 3):
            ids.append(f"{inside}/{names[number]}/{i:05}{ending}")
            classes.append(number)
            touch(folder / ids[-1])
    return Tree(classes, ids, names)


def herbarium(folder: Path) -> Tree:
    names = sorted(str(i) for i in range(683))
    assert names[:4] == ["0", "1", "10", "100"]
    tree = folders(folder, "small-train", names, ".jpg", list(range(683)))
    (folder / "small-train" / "10" / "notes.txt").write_text("not an image")
    (folder / "small-train" / "readme.txt").write_text("not a class")
    return tree


def imagenet(folder: Path) -> Tree:
    names = [f"n{i * 17 + 1440764:08}" for i in range(1000)]
    split = class_split("imagenet100")
    tree = folders(folder, "train", names, ".JPEG", list(split.order))
    touch(folder / "train" / names[0] / "00000.JPEG")  # class 0 was not drawn
    return tree


BUILDERS: dict[str, tuple[str, Callable[[Path], Tree]]] = {
    "cifar10 python": ("cifar10", cifar10),
    "cifar10 binary": ("cifar10", cifar10_binary),
    "cifar100 python": ("cifar100", cifar100),
    "cifar100 binary": ("cifar100", cifar100_binary),
    "cub": ("cub", cub),
    "stanford-cars": ("stanford-cars", cars),
    "herbarium19": ("herbarium19", herbarium),
    "imagenet100": ("imagenet100", imagenet),
    "fgvc-aircraft": ("fgvc-aircraft", aircraft),
}
