"""Lists, annotations and folders of the published sets that are bad: the error names the file."""

import pytest
from scipy.io import savemat

from newkinds.data.published import read_published
from tests.data.published_trees import (
    aircraft,
    cars,
    cifar10_binary,
    cub,
    touch,
)
from tests.data.refusal import refused

# Other lists that are bad


@pytest.mark.parametrize("content", [b"x" * 3072, b"x" * 3075])
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
        (
            "image_class_labels.txt",
            "".join(f"{i} {10**30}\n" for i in range(1, 801)),
            "cannot be read as a list of classes",
        ),
        ("image_class_labels.txt", "".join(f"{i} 201\n" for i in range(1, 801)), "class 200, counted from 0"),
        ("image_class_labels.txt", "".join(f"{i} 0\n" for i in range(1, 801)), "class -1, counted from 0"),
        ("classes.txt", "1 only\n", "has 1 classes; there are 200 in CUB-200-2011"),
    ],
    ids=range(8),
)
def test_lists_of_cub_that_are_bad_are_refused(tmp_path, file, text, problem):
    cub(tmp_path)
    (tmp_path / "CUB_200_2011" / file).write_text(text)
    with refused("CUB_200_2011", problem):
        read_published("cub", tmp_path, check_sizes=False)


def test_an_empty_binary_file_is_refused(tmp_path):
    cifar10_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").write_bytes(b"")
    with refused("data_batch_4.bin is empty; download it again"):
        read_published("cifar10", tmp_path)


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
    says = f"{file} is empty" if bad == "empty" else f"{file} cannot be read as a MATLAB file with"
    with refused(says, "download it again"):
        read_published("stanford-cars", tmp_path)


def test_a_file_in_place_of_the_folder_of_classes_is_refused(tmp_path):
    touch(tmp_path / "small-train")
    with refused("small-train cannot be read as a folder"):
        read_published("herbarium19", tmp_path)
