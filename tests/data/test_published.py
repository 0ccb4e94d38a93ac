"""The published data sets: every official layout, the numbering and the split, and what is said when files are bad.

The trees here are small, so their images are files of one byte: lists are read, images are not opened.
"""

import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from newkinds.data.published import PUBLISHED, class_split, gcd_split, official_name, read_published
from newkinds.errors import InputError

FACTS = json.loads((Path(sys.modules["newkinds.data.published"].__file__).parent / "class_splits.json").read_text())
SIZES = {  # classes known, classes, labelled, unlabelled
    "cifar10": (5, 10, 12500, 37500),
    "cifar100": (80, 100, 20000, 30000),
    "cub": (100, 200, 1498, 4496),
    "stanford-cars": (98, 196, 2000, 6144),
    "herbarium19": (341, 683, 8869, 25356),
    "imagenet100": (50, 100, 31860, 95255),
    "fgvc-aircraft": (50, 100, 1666, 5001),
}


@dataclass
class Tree:
    """What a builder wrote: the classes of its training images in the data set's order, their ids, all names."""

    classes: list[int]
    ids: list[str]
    names: list[str]


class Trap:
    """An object that, when unpickled, makes a folder."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def refused(*parts: str):
    """Expect an InputError that says all of `parts`, in order."""
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, parts)))


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


def dump(content: dict, path: Path, protocol: int = 2) -> None:
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
    lists = {
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


def aircraft(folder: Path) -> Tree:
    data = folder / "fgvc-aircraft-2013b" / "data"
    names = sorted(["ATR-42", "An-12", "F/A-18", "Boeing 717", *(f"7{i:02}-{i}00" for i in range(96))])
    classes = shuffled(100, 3)
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
every_layout = pytest.mark.parametrize(("name", "build"), BUILDERS.values(), ids=BUILDERS)


# The split in every layout


@every_layout
def test_samples_come_in_the_official_order_with_their_ids(tmp_path, name, build):
    tree = build(tmp_path)
    collection = read_published(name, tmp_path, check_sizes=False)
    assert collection.kind == "images"
    assert collection.ids == tuple(tree.ids)
    if not name.startswith("cifar"):
        assert all(Path(item).is_file() for item in collection.items)
        assert all(
            Path(item).as_posix().endswith(own) for item, own in zip(collection.items, tree.ids, strict=True)
        )


@every_layout
def test_classes_are_numbered_known_first_and_keep_their_names(tmp_path, name, build):
    tree = build(tmp_path)
    collection = read_published(name, tmp_path, check_sizes=False)
    known, novel = FACTS[name]["known"], FACTS[name]["novel"]
    assert collection.names == tuple(tree.names[i] for i in known + novel)
    assert [collection.names[i] for i in collection.truth] == [tree.names[i] for i in tree.classes]
    assert [(t < len(known)) for t in collection.truth] == [c in known for c in tree.classes]


@every_layout
def test_the_labelled_half_is_the_published_draw(tmp_path, name, build):
    tree = build(tmp_path)
    collection = read_published(name, tmp_path, check_sizes=False)
    rows = [row for row, c in enumerate(tree.classes) if c in FACTS[name]["known"]]
    drawn = np.random.RandomState(0).choice(range(len(rows)), replace=False, size=(int(0.5 * len(rows)),))
    labelled = {rows[i] for i in drawn}
    assert set(np.flatnonzero(collection.labels >= 0)) == labelled
    assert all(collection.labels[row] == collection.truth[row] for row in labelled)


def test_an_odd_number_of_known_samples_is_rounded_down():
    labels, truth = gcd_split(np.array([0] * 7 + [9]), class_split("cifar10"))
    assert (labels >= 0).sum() == 3
    assert truth.tolist() == [0] * 7 + [9]


def test_the_draw_does_not_touch_the_global_generator():
    np.random.seed(5)  # noqa: NPY002 - the legacy global state is what must not move
    first = np.random.random()  # noqa: NPY002 - likewise
    np.random.seed(5)  # noqa: NPY002 - likewise
    gcd_split(np.array([0, 1, 2, 3]), class_split("cifar10"))
    assert np.random.random() == first  # noqa: NPY002 - likewise


def test_herbarium_classes_are_numbered_as_sorted_text(tmp_path):
    herbarium(tmp_path)
    collection = read_published("herbarium19", tmp_path, check_sizes=False)
    assert FACTS["herbarium19"]["known"][0] == 113
    assert collection.names[0] == sorted(map(str, range(683)))[113] != "113"


def test_aircraft_variants_are_numbered_as_sorted_text_not_as_listed(tmp_path):
    tree = aircraft(tmp_path)
    collection = read_published("aircraft", tmp_path, check_sizes=False)
    assert collection.names[:3] == tuple(tree.names[:3])  # the first three are known
    assert tree.names.index("ATR-42") < tree.names.index("An-12")


@pytest.mark.parametrize(("name", "build"), [("cifar10", cifar10), ("cifar10", cifar10_binary)])
def test_cifar_images_are_views_of_one_array_of_height_width_colour(tmp_path, name, build):
    build(tmp_path)
    items = read_published(name, tmp_path, check_sizes=False).items
    planes = cifar_rows(50).reshape(50, 3, 32, 32)
    assert items[13].shape == (32, 32, 3)
    assert items[13].dtype == np.uint8
    assert items[13][4, 9].tolist() == planes[13, :, 4, 9].tolist()
    assert items[0].base is items[49].base is not None


def test_both_versions_of_cifar_give_the_same(tmp_path):
    cifar100(tmp_path / "a")
    cifar100_binary(tmp_path / "b")
    pickled = read_published("cifar100", tmp_path / "a", check_sizes=False)
    binary = read_published("cifar100", tmp_path / "b", check_sizes=False)
    assert np.array_equal(pickled.labels, binary.labels)
    assert np.array_equal(pickled.truth, binary.truth)
    assert np.array_equal(np.stack(pickled.items), np.stack(binary.items))
    assert pickled.names == binary.names


# Where a set may lie


@pytest.mark.parametrize(
    ("name", "build", "inner"),
    [
        ("cifar10", cifar10, "cifar-10-batches-py"),
        ("cifar100", cifar100_binary, "cifar-100-binary"),
        ("cub", cub, "CUB_200_2011"),
        ("fgvc-aircraft", aircraft, "fgvc-aircraft-2013b"),
    ],
)
def test_the_unpacked_folder_itself_may_be_given(tmp_path, name, build, inner):
    tree = build(tmp_path)
    assert read_published(name, tmp_path / inner, check_sizes=False).ids == tuple(tree.ids)


@pytest.mark.parametrize(
    ("name", "build", "outer"),
    [
        ("stanford-cars", cars, "stanford_cars"),
        ("imagenet100", imagenet, "ILSVRC/Data/CLS-LOC"),
        ("herbarium19", herbarium, "herbarium-2019-fgvc6"),
    ],
)
def test_a_usual_folder_around_it_is_seen_through(tmp_path, name, build, outer):
    (tmp_path / outer).mkdir(parents=True)
    tree = build(tmp_path / outer)
    assert read_published(name, tmp_path, check_sizes=False).ids == tuple(tree.ids)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("CIFAR-10", "cifar10"),
        ("cifar_100", "cifar100"),
        ("CUB-200-2011", "cub"),
        ("cub_200", "cub"),
        ("scars", "stanford-cars"),
        ("Stanford Cars", "stanford-cars"),
        ("herbarium_19", "herbarium19"),
        ("ImageNet-100", "imagenet100"),
        ("aircraft", "fgvc-aircraft"),
    ],
)
def test_usual_ways_of_writing_a_name_are_understood(written, meant):
    assert official_name(written) == meant


def test_an_unknown_name_is_refused_with_those_there_are(tmp_path):
    with refused("'mnist'", "cifar10, cifar100, cub, stanford-cars, herbarium19, imagenet100, fgvc-aircraft"):
        read_published("mnist", tmp_path)


# Files that are missing


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_empty_folder_is_refused_with_what_to_download_and_what_is_expected(tmp_path, name):
    published = PUBLISHED[name]
    first = (Path(published.layouts[0].tops[0]) / published.layouts[0].needs[0]).as_posix()
    with refused(str(tmp_path), published.title, "missing is", first, published.archive, published.site, first):
        read_published(name, tmp_path)


def test_a_folder_that_is_not_there_is_said_not_to_be(tmp_path):
    with refused("nowhere does not exist", "CUB_200_2011.tgz"):
        read_published("cub", tmp_path / "nowhere")


def test_only_what_is_missing_is_listed_as_missing(tmp_path):
    cub(tmp_path)
    (tmp_path / "CUB_200_2011" / "train_test_split.txt").unlink()
    with refused("missing is CUB_200_2011/train_test_split.txt. Download CUB_200_2011.tgz"):
        read_published("cub", tmp_path)


def test_of_two_versions_the_one_that_is_nearly_there_is_talked_about(tmp_path):
    cifar10_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with refused("missing is cifar-10-batches-bin/data_batch_3.bin. Download cifar-10-python.tar.gz (or"):
        read_published("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("name", "build"),
    [("cub", cub), ("stanford-cars", cars), ("fgvc-aircraft", aircraft)],
    ids=["cub", "cars", "aircraft"],
)
def test_images_that_a_list_names_but_are_not_there_are_counted_and_one_is_named(tmp_path, name, build):
    tree = build(tmp_path)
    for gone in tree.ids[5:7]:
        next(path for path in tmp_path.rglob("*.jpg") if path.as_posix().endswith(gone)).unlink()
    with refused(f"lacks 2 of the {len(tree.ids)} training images, such as {tree.ids[5]}", "incomplete"):
        read_published(name, tmp_path, check_sizes=False)


# Sizes


@every_layout
def test_sizes_that_are_not_the_published_ones_are_refused_with_both_figures(tmp_path, name, build):
    build(tmp_path)
    part = read_published(name, tmp_path, check_sizes=False)
    n_labelled = int((part.labels >= 0).sum())
    _, n_classes, labelled, unlabelled = SIZES[name]
    with refused(
        f"{labelled} labelled and {unlabelled} unlabelled training samples of {n_classes} classes",
        f"{n_labelled} labelled and {len(part) - n_labelled} unlabelled training samples of",
        "incomplete",
        PUBLISHED[name].site,
        "check_sizes=False",
    ):
        read_published(name, tmp_path)


def test_a_set_of_the_published_sizes_passes(tmp_path):
    """CIFAR100 in full: 500 black images a class."""
    top = tmp_path / "cifar-100-binary"
    top.mkdir()
    records = np.zeros((50_000, 3074), np.uint8)
    records[:, 1] = shuffled(100, 500)
    (top / "train.bin").write_bytes(records.tobytes())
    (top / "fine_label_names.txt").write_text("\n".join(f"kind {i}" for i in range(100)))
    collection = read_published("cifar100", tmp_path)
    assert (collection.labels >= 0).sum() == 20_000
    assert len(collection) == 50_000


@pytest.mark.parametrize(("name", "build", "n"), [("herbarium19", herbarium, 683), ("imagenet100", imagenet, 1000)])
def test_a_class_folder_too_few_or_too_many_is_refused_even_unchecked(tmp_path, name, build, n):
    """The numbering of all other classes would shift."""
    build(tmp_path)
    inside = PUBLISHED[name].layouts[0].needs[0]
    (tmp_path / inside / "zzz").mkdir()
    with refused(f"has {n + 1} classes", f"there are {n} in", "files were added"):
        read_published(name, tmp_path, check_sizes=False)
    (tmp_path / inside / "zzz").rmdir()
    last = max(path for path in (tmp_path / inside).iterdir() if path.is_dir())
    for file in last.iterdir():
        file.unlink()
    last.rmdir()
    with refused(f"has {n - 1} classes", f"there are {n} in", "incomplete"):
        read_published(name, tmp_path, check_sizes=False)


# Pickles


def test_the_trap_would_spring(tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("place", ["alone", "data", "labels", "key beside"])
def test_a_pickle_that_would_run_code_is_refused_and_never_run(tmp_path, protocol, place):
    cifar10(tmp_path)
    trap, batch = Trap(tmp_path / "sprung"), tmp_path / "cifar-10-batches-py" / "data_batch_2"
    content = {"data": cifar_rows(2), "labels": [0, 1]}
    changed = {
        "alone": trap,
        "data": {**content, "data": trap},
        "labels": {**content, "labels": [0, trap]},
        "key beside": {**content, "filenames": trap},
    }
    dump(changed[place], batch, protocol)
    with refused(str(batch), "it asks for", "mkdir", "nothing was run"):
        read_published("cifar10", tmp_path, check_sizes=False)
    assert not (tmp_path / "sprung").exists()


def test_a_trap_among_the_names_is_refused_and_never_run(tmp_path):
    cifar100(tmp_path)
    dump({"fine_label_names": Trap(tmp_path / "sprung")}, tmp_path / "cifar-100-python" / "meta")
    with refused("meta", "mkdir"):
        read_published("cifar100", tmp_path, check_sizes=False)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["eval", "exec", "getattr", "__import__", "dict", "list"])
def test_no_builtin_is_handed_out(tmp_path, name):
    cifar10(tmp_path)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    batch.write_bytes(f"cbuiltins\n{name}\n.".encode())
    with refused(str(batch), f"builtins.{name}"):
        read_published("cifar10", tmp_path, check_sizes=False)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_copies_saved_again_by_a_newer_python_are_read(tmp_path, protocol):
    tree = cifar10(tmp_path, protocol)
    collection = read_published("cifar10", tmp_path, check_sizes=False)
    assert [collection.names[t] for t in collection.truth] == [tree.names[c] for c in tree.classes]
    assert np.array_equal(np.stack(collection.items), cifar_rows(50).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def test_pickles_as_python_2_wrote_them_are_read(tmp_path):
    """The official files: text and bytes are both Python 2's str, and numpy is an old one."""
    tree = cifar10(tmp_path)
    rows = cifar_rows(50)
    for i in range(5):
        part = slice(10 * i, 10 * i + 10)
        raw, labels = rows[part].tobytes(), "".join(f"I{c}\n" for c in tree.classes[part])
        stream = (
            b"(dU\x04datacnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01btR"
            b"(I1\n(I10\nI3072\ntcnumpy\ndtype\n(U\x02u1I0\nI1\ntR(I3\nU\x01|NNNI-1\nI-1\nI0\ntbI00\n"
            + b"T"
            + len(raw).to_bytes(4, "little")
            + raw
            + b"tbsU\x06labels("
            + labels.encode()
            + b"ls."
        )
        (tmp_path / "cifar-10-batches-py" / f"data_batch_{i + 1}").write_bytes(stream)
    collection = read_published("cifar10", tmp_path, check_sizes=False)
    assert [collection.names[t] for t in collection.truth] == [tree.names[c] for c in tree.classes]
    assert np.array_equal(np.stack(collection.items), rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def test_bytes_as_keys_and_names_are_read(tmp_path):
    tree = cifar100(tmp_path)
    top = tmp_path / "cifar-100-python"
    dump({b"data": cifar_rows(200), b"fine_labels": tree.classes}, top / "train")
    dump({b"fine_label_names": [name.encode() for name in tree.names]}, top / "meta")
    assert set(read_published("cifar100", tmp_path, check_sizes=False).names) == set(tree.names)


def test_an_array_in_fortran_order_is_read(tmp_path):
    tree = cifar100(tmp_path)
    rows = np.asfortranarray(cifar_rows(200))
    dump({"data": rows, "fine_labels": tree.classes}, tmp_path / "cifar-100-python" / "train")
    items = read_published("cifar100", tmp_path, check_sizes=False).items
    assert np.array_equal(items[150], cifar_rows(200)[150].reshape(3, 32, 32).transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([1, 2], "holds a list, not a dict"),
        ({"labels": [0]}, "has no 'data', only labels"),
        ({"data": cifar_rows(1)}, "has no 'labels', only data"),
        ({"data": cifar_rows(2), "labels": [0]}, "has 2 images but 1 labels"),
        ({"data": cifar_rows(1).astype(np.float32), "labels": [0]}, "not stored as bytes"),
        ({"data": cifar_rows(1)[:, :9], "labels": [0]}, "3072 bytes an image; the array has shape (1, 9)"),
        ({"data": "text", "labels": [0]}, "data_batch_1 cannot be read"),
        ({"data": cifar_rows(1), "labels": ["owl"]}, "str where there should be the number of a class"),
        ({"data": cifar_rows(1), "labels": [10]}, "sample 0 is given class 10"),
        ({"data": cifar_rows(1), "labels": [-1]}, "sample 0 is given class -1"),
        ({"data": cifar_rows(1), "labels": [2**70]}, "data_batch_1 cannot be read"),
        ({"data": cifar_rows(1), 3: 4}, "int where there should be text"),
    ],
    ids=range(12),
)
def test_a_batch_that_is_none_is_refused_with_the_problem(tmp_path, content, problem):
    cifar10(tmp_path)
    dump(content, tmp_path / "cifar-10-batches-py" / "data_batch_1")
    with refused(problem):
        read_published("cifar10", tmp_path, check_sizes=False)


def test_damaged_pickles_are_refused_with_the_file(tmp_path):
    cifar10(tmp_path)
    batch = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    dump({"data": cifar_rows(1), "labels": [0]}, batch)
    whole = batch.read_bytes()
    pieces = [whole[:end] for end in range(0, len(whole) - 1, 97)]
    pieces += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(160)]
    errors = []
    for piece in pieces:
        batch.write_bytes(piece)
        try:
            read_published("cifar10", tmp_path, check_sizes=False)
        except InputError as error:
            errors.append(str(error))
    assert len(errors) > len(pieces) // 2
    assert all("cifar-10-batches-py" in error for error in errors)


# Other lists that are bad


@pytest.mark.parametrize("content", [b"", b"x" * 3072, b"x" * 3075])
def test_a_binary_file_of_a_wrong_length_is_refused(tmp_path, content):
    cifar10_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").write_bytes(content)
    with refused("data_batch_4.bin", f"has {len(content)} bytes, no multiple of the 3073"):
        read_published("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("images.txt", "1\n", "the line '1' should be a number and a text"),
        ("image_class_labels.txt", "1 1\n", "no line for image 2"),
        ("train_test_split.txt", "1 1\n", "no line for image 2"),
        (
            "image_class_labels.txt",
            "".join(f"{i} owl\n" for i in range(1, 801)),
            "cannot be read as a list of classes",
        ),
        ("image_class_labels.txt", "".join(f"{i} 201\n" for i in range(1, 801)), "class 200, counted from 0"),
        ("image_class_labels.txt", "".join(f"{i} 0\n" for i in range(1, 801)), "class -1, counted from 0"),
        ("classes.txt", "1 only\n", "has 1 classes; there are 200 in CUB-200-2011"),
    ],
    ids=range(7),
)
def test_lists_of_cub_that_are_bad_are_refused(tmp_path, file, text, problem):
    cub(tmp_path)
    (tmp_path / "CUB_200_2011" / file).write_text(text)
    with refused("CUB_200_2011", problem):
        read_published("cub", tmp_path, check_sizes=False)


def test_a_list_that_is_not_text_is_refused(tmp_path):
    cub(tmp_path)
    (tmp_path / "CUB_200_2011" / "images.txt").write_bytes(b"1 \xff\xfe\n")
    with refused("images.txt cannot be read as a text file"):
        read_published("cub", tmp_path)


def test_a_variant_that_is_not_in_the_list_of_variants_is_refused(tmp_path):
    aircraft(tmp_path)
    listed = tmp_path / "fgvc-aircraft-2013b" / "data" / "images_variant_trainval.txt"
    listed.write_text(listed.read_text() + "1234567 Zeppelin NT\n")
    with refused("images_variant_trainval.txt", "'Zeppelin NT'", "1234567", "variants.txt"):
        read_published("fgvc-aircraft", tmp_path)


@pytest.mark.parametrize("file", ["cars_train_annos.mat", "cars_meta.mat"])
@pytest.mark.parametrize("bad", ["empty", "text", "cut", "other"])
def test_matlab_files_that_are_bad_are_refused(tmp_path, file, bad):
    cars(tmp_path)
    path = tmp_path / "devkit" / file
    whole = path.read_bytes()
    if bad == "other":
        savemat(path, {"something": 1})
    else:
        path.write_bytes({"empty": b"", "text": b"hello\n" * 50, "cut": whole[: len(whole) // 2]}[bad])
    with refused(f"{file} cannot be read as a MATLAB file with"):
        read_published("stanford-cars", tmp_path)


def test_a_file_in_place_of_the_folder_of_classes_is_refused(tmp_path):
    touch(tmp_path / "small-train")
    with refused("small-train cannot be read as a folder"):
        read_published("herbarium19", tmp_path)


# The facts that are shipped


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_class_lists_are_consistent(name):
    facts = FACTS[name]
    known, novel = facts["known"], facts["novel"]
    assert not set(known) & set(novel)
    assert len(set(known + novel)) == len(known + novel)
    if name == "imagenet100":
        assert set(known + novel) <= set(range(1000))
    else:
        assert set(known + novel) == set(range(facts["numbered"]))
    n_known, n_all, labelled, unlabelled = SIZES[name]
    assert facts["sizes"] == {"known": n_known, "all": n_all, "labelled": labelled, "unlabelled": unlabelled}
    assert (len(known), len(known + novel)) == (n_known, n_all)


def test_the_facts_hold_the_sets_that_can_be_read_and_no_others():
    assert set(FACTS) - {"note"} == set(PUBLISHED) == set(SIZES)


def test_the_classes_of_imagenet100_are_the_published_draw():
    drawn = np.sort(np.random.RandomState(0).choice(range(1000), size=(100,), replace=False)).tolist()
    assert class_split("imagenet100").known == tuple(drawn[:50])
    assert class_split("imagenet100").novel == tuple(drawn[50:])


def test_the_classes_of_herbarium19_are_the_published_draw():
    drawn = np.random.RandomState(0).choice(range(683), size=(341,), replace=False).tolist()
    assert class_split("herbarium19").known == tuple(drawn)
    assert class_split("herbarium19").novel == tuple(sorted(set(range(683)) - set(drawn)))


def test_reading_needs_neither_pytorch_nor_pillow():
    code = "import sys, newkinds.data.published; print([m for m in ('torch', 'PIL') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
