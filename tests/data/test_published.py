"""The published data sets: every official layout, the numbering, the split and the sizes."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds.data.published import PUBLISHED, class_split, gcd_split, official_name, read_published
from tests.data.published_trees import (
    BUILDERS,
    FACTS,
    aircraft,
    cars,
    cifar10,
    cifar10_binary,
    cifar100,
    cifar100_binary,
    cifar_rows,
    cub,
    herbarium,
    imagenet,
    pixels,
)
from tests.data.refusal import refused

SIZES = {  # classes known, classes, labelled, unlabelled
    "cifar10": (5, 10, 12500, 37500),
    "cifar100": (80, 100, 20000, 30000),
    "cub": (100, 200, 1498, 4496),
    "stanford-cars": (98, 196, 2000, 6144),
    "herbarium19": (341, 683, 8869, 25356),
    "imagenet100": (50, 100, 31860, 95255),
    "fgvc-aircraft": (50, 100, 1666, 5001),
}


# The split in every layout


@pytest.fixture(scope="module", params=list(BUILDERS.values()), ids=list(BUILDERS))
def copy(request, tmp_path_factory):
    """A small copy of a data set, to be left as it is: its name, its folder, what was written there."""
    name, build = request.param
    folder = tmp_path_factory.mktemp(name)
    return name, folder, build(folder)


def test_samples_come_in_the_official_order_with_their_ids(copy):
    name, folder, tree = copy
    collection = read_published(name, folder, check_sizes=False)
    assert collection.kind == "images"
    assert collection.ids == tuple(tree.ids)
    if not name.startswith("cifar"):
        files = [Path(str(item)) for item in collection.items]
        assert all(file.is_file() for file in files)
        assert all(file.as_posix().endswith(name) for file, name in zip(files, tree.ids, strict=True))


def test_classes_are_numbered_known_first_and_keep_their_names(copy):
    name, folder, tree = copy
    collection = read_published(name, folder, check_sizes=False)
    known, novel = FACTS[name]["known"], FACTS[name]["novel"]
    assert collection.names == tuple(tree.names[i] for i in known + novel)
    assert collection.names is not None
    assert collection.truth is not None
    assert [collection.names[i] for i in collection.truth] == [tree.names[i] for i in tree.classes]
    assert [(t < len(known)) for t in collection.truth] == [c in known for c in tree.classes]


def test_the_labelled_half_is_the_published_draw(copy):
    name, folder, tree = copy
    collection = read_published(name, folder, check_sizes=False)
    rows = [row for row, c in enumerate(tree.classes) if c in FACTS[name]["known"]]
    drawn = np.random.RandomState(0).choice(range(len(rows)), replace=False, size=(int(0.5 * len(rows)),))
    labelled = {rows[i] for i in drawn}
    assert set(np.flatnonzero(collection.labels >= 0)) == labelled
    assert collection.truth is not None
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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text_gets_an_id_that_can_be_written(tmp_path):
    herbarium(tmp_path)
    with open(os.fsencode(tmp_path) + b"/small-train/0/\xff.jpg", "wb") as file:
        file.write(b".")
    ids = read_published("herbarium19", tmp_path, check_sizes=False).ids
    assert ids[:2] == ("small-train/0/00000.jpg", "small-train/0/\\udcff.jpg")


def test_herbarium_classes_are_numbered_as_sorted_text(tmp_path):
    herbarium(tmp_path)
    collection = read_published("herbarium19", tmp_path, check_sizes=False)
    assert FACTS["herbarium19"]["known"][0] == 113
    assert collection.names is not None
    assert collection.names[0] == sorted(map(str, range(683)))[113] != "113"


def test_aircraft_variants_are_numbered_as_sorted_text_not_as_listed(tmp_path):
    tree = aircraft(tmp_path)
    collection = read_published("aircraft", tmp_path, check_sizes=False)
    assert collection.names is not None
    assert collection.names[:3] == tuple(tree.names[:3])  # the first three are known
    assert tree.names.index("ATR-42") < tree.names.index("An-12")


@pytest.mark.parametrize(("name", "build"), [("cifar10", cifar10), ("cifar10", cifar10_binary)])
def test_cifar_images_are_views_of_one_array_of_height_width_colour(tmp_path, name, build):
    build(tmp_path)
    items: Any = read_published(name, tmp_path, check_sizes=False).items
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
    assert pickled.truth is not None
    assert binary.truth is not None
    assert np.array_equal(pickled.truth, binary.truth)
    assert np.array_equal(pixels(pickled), pixels(binary))
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


def test_sizes_that_are_not_the_published_ones_are_refused_with_both_figures(copy):
    name, folder, _ = copy
    part = read_published(name, folder, check_sizes=False)
    n_labelled = int((part.labels >= 0).sum())
    _, n_classes, labelled, unlabelled = SIZES[name]
    with refused(
        f"{labelled} labelled and {unlabelled} unlabelled training samples of {n_classes} classes",
        f"{n_labelled} labelled and {len(part) - n_labelled} unlabelled training samples of",
        "incomplete",
        PUBLISHED[name].site,
        "check_sizes=False",
    ):
        read_published(name, folder)


def test_a_set_of_the_published_sizes_passes(tmp_path):
    """FGVC-Aircraft in full: 3,333 images of 50 known variants and 3,334 of 50 others."""
    known, novel = FACTS["fgvc-aircraft"]["known"], FACTS["fgvc-aircraft"]["novel"]
    classes = [*(known[i % 50] for i in range(3333)), *(novel[i % 50] for i in range(3334))]
    aircraft(tmp_path, classes)
    collection = read_published("fgvc-aircraft", tmp_path)
    assert (collection.labels >= 0).sum() == 1666
    assert len(collection) == 6667


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
