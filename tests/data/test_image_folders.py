"""Folders of images: what is found there, and labels and truth from folders and files."""

import os
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from newkinds.data.images import read_images
from newkinds.data.opening import open_image, thumbnail
from newkinds.data.pictures import png
from newkinds.names import IMAGE_ENDINGS, TABLE_ENDINGS, listed
from tests.data.refusal import refused

# Folders


def place(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(np.zeros((2, 2), dtype=np.uint8)))
    return folder


def test_the_first_folder_is_the_label_and_the_path_is_the_id(tmp_path):
    birds = read_images(place(tmp_path, "wren/2.png", "owl/deep/er/1.png", "owl/1.png", "top.png"))
    assert birds.kind == "images"
    assert birds.ids == ("owl/1.png", "owl/deep/er/1.png", "top.png", "wren/2.png")
    assert list(birds.items) == [tmp_path / name for name in birds.ids]
    assert birds.labels.tolist() == [0, 0, -1, 1]
    assert birds.names == ("owl", "wren")
    assert birds.truth is None
    assert birds.skipped == ()


@pytest.mark.parametrize("name", ["unlabelled", "unlabeled", "Unlabelled", "UNLABELED"])
def test_a_folder_of_unlabelled_images(tmp_path, name):
    birds = read_images(place(tmp_path, f"{name}/1.png", f"{name}/owl/1.png", f"owl/{name}/1.png", "owl/1.png"))
    assert dict(zip(birds.ids, birds.labels.tolist(), strict=True)) == {
        f"{name}/1.png": -1,
        f"{name}/owl/1.png": -1,
        f"owl/{name}/1.png": -1,
        "owl/1.png": 0,
    }


def test_folders_called_by_numbers(tmp_path):
    birds = read_images(place(tmp_path, "3/1.png", "12/1.png"))
    assert (birds.ids, birds.labels.tolist(), birds.names) == (("12/1.png", "3/1.png"), [12, 3], None)


def test_folders_called_by_numbers_with_zeros_before_them_are_names(tmp_path):
    birds = read_images(place(tmp_path, "007/1.png", "012/1.png"))
    assert (birds.labels.tolist(), birds.names) == ([0, 1], ("007", "012"))


def test_every_ending_in_small_letters_and_capitals(tmp_path):
    names = [f"owl/{i}{ending}" for i, ending in enumerate([*IMAGE_ENDINGS, *map(str.upper, IMAGE_ENDINGS)])]
    assert set(read_images(place(tmp_path, *names, "owl/notes.txt", "owl/jpg")).ids) == set(names)


def test_names_with_blanks_and_letters_of_any_script(tmp_path):
    names = ("大 鸟/фото 1.png", "oiseau é/a b'c\"d.png", "owl/line\nbreak.png", "owl/semi;colon,.png")
    birds = read_images(place(tmp_path, *names))
    assert birds.ids == tuple(sorted(names))
    assert thumbnail(birds.items[0]).shape == (96, 96, 3)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text_gets_an_id_that_can_be_written(tmp_path):
    path = os.fsencode(place(tmp_path, "owl/1.png") / "owl") + b"/\xff.png"
    with open(path, "wb") as file:
        file.write(png(np.zeros((2, 2), dtype=np.uint8)))
    birds = read_images(tmp_path)
    assert birds.ids == ("owl/1.png", "owl/\\udcff.png")
    assert open_image(birds.items[1]).size == (2, 2)


def test_what_systems_leave_behind_is_passed_over(tmp_path):
    place(
        tmp_path, "owl/1.png", ".git/2.png", "owl/.hidden.png", "owl/._1.png", "__MACOSX/owl/1.png", "@eaDir/1.png"
    )
    place(tmp_path, ".DS_Store", "owl/Thumbs.db")
    birds = read_images(tmp_path)
    assert (birds.ids, birds.skipped) == (("owl/1.png",), ())


def test_a_folder_within_a_hidden_one_is_read(tmp_path):
    assert len(read_images(place(tmp_path / ".cache" / "birds", "owl/1.png"))) == 1


def test_empty_files_and_kinds_that_are_not_read_are_reported(tmp_path):
    place(tmp_path, "owl/1.png", "owl/3.PSD")
    (tmp_path / "owl" / "2.png").touch()
    (tmp_path / "owl" / "4.png").symlink_to(tmp_path / "nowhere.png")
    birds = read_images(tmp_path)
    assert birds.ids == ("owl/1.png",)
    reasons = dict(birds.skipped)
    assert list(reasons) == ["owl/2.png", "owl/3.PSD", "owl/4.png"]
    assert "empty" in reasons["owl/2.png"]
    assert ".psd" in reasons["owl/3.PSD"]
    assert "link" in reasons["owl/4.png"]


@pytest.mark.skipif(not hasattr(os, "mkfifo") or sys.platform == "win32", reason="needs a pipe in the file system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(place(tmp_path, "owl/1.png") / "owl" / "2.png")
    assert [name for name, _ in read_images(tmp_path).skipped] == ["owl/2.png"]


def test_bad_images_are_not_opened_here(tmp_path):
    (tmp_path / "a.jpg").write_text("no image")
    assert read_images(tmp_path).ids == ("a.jpg",)


def test_links_to_folders_are_followed_but_not_into_loops(tmp_path):
    outside = place(tmp_path / "outside", "1.png")
    folder = place(tmp_path / "birds", "owl/1.png")
    (folder / "wren").symlink_to(outside, target_is_directory=True)
    (folder / "owl" / "again").symlink_to(folder, target_is_directory=True)
    (folder / "owl" / "self").symlink_to(folder / "owl", target_is_directory=True)
    (folder / "owl" / "up").symlink_to(tmp_path, target_is_directory=True)
    (outside / "back").symlink_to(folder, target_is_directory=True)
    (folder / "a.png").symlink_to(outside / "1.png")
    for name in ("endless", "endless.png"):
        (folder / name).symlink_to(folder / name)
    birds = read_images(folder)
    assert birds.ids == ("a.png", "owl/1.png", "wren/1.png")
    assert [name for name, _ in birds.skipped] == ["endless.png"]


def test_a_folder_that_is_itself_a_link_is_read(tmp_path):
    place(tmp_path / "birds", "owl/1.png")
    (tmp_path / "link").symlink_to(tmp_path / "birds", target_is_directory=True)
    assert read_images(tmp_path / "link").ids == ("owl/1.png",)


def test_a_folder_that_may_not_be_entered_is_reported(tmp_path, monkeypatch):
    place(tmp_path, "owl/1.png", "wren/1.png")
    scandir = os.scandir

    def closed(path):  # not by chmod: nothing is closed to the administrator, as whom tests often run
        if Path(path).name == "wren":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    birds = read_images(tmp_path)
    assert birds.ids == ("owl/1.png",)
    assert birds.skipped == (("wren", "the folder cannot be read: Permission denied"),)


def test_without_images_the_error_says_what_was_looked_for(tmp_path):
    (tmp_path / "notes.txt").write_text("none")
    with refused("there are no images in", str(tmp_path), ".jpg, .jpeg"):
        read_images(tmp_path)
    place(tmp_path, "owl/1.svg")
    with refused("there are no images in", "owl/1.svg", ".svg files are not read"):
        read_images(tmp_path)


def test_a_missing_folder_and_a_file_that_is_no_image_are_refused(tmp_path):
    with refused("nowhere does not exist", "folder of images"):
        read_images(tmp_path / "nowhere")
    (tmp_path / "1.pdf").write_text("a")
    with refused("1.pdf is no image", "folder of images", ".heic"):
        read_images(tmp_path / "1.pdf")


def test_a_single_image_is_a_collection_of_one(tmp_path):
    birds = read_images(place(tmp_path, "owl/1.png", "owl/2.png") / "owl" / "2.png")
    assert (birds.ids, birds.labels.tolist(), birds.items) == (("2.png",), [-1], [tmp_path / "owl" / "2.png"])
    (tmp_path / "3.png").touch()
    with refused("there are no images", "3.png", "empty"):
        read_images(tmp_path / "3.png")


def test_parts_of_a_data_set_are_not_taken_for_categories(tmp_path):
    place(tmp_path, "train/owl/1.png", "Test/owl/2.png", "loose.png")
    with refused("parts of a data set", "Test, train"):
        read_images(tmp_path)
    assert read_images(tmp_path / "train").names == ("owl",)


def test_a_category_may_be_called_train(tmp_path):
    assert read_images(place(tmp_path, "train/1.png", "bus/1.png")).names == ("bus", "train")
    assert read_images(place(tmp_path / "only", "train/1.png")).names == ("train",)
    assert read_images(place(tmp_path / "deep", "train/steam/1.png", "bus/red/1.png")).names == ("bus", "train")


@pytest.mark.parametrize("name", ["nan", "None", "Unsorted", "to_sort", "N.A.", "TODO", "-", "misc"])
def test_a_folder_called_like_a_missing_label_has_none(tmp_path, name):
    place(tmp_path, f"{name}/1.png", f"{name}/2.png", "owl/3.png")
    birds = read_images(tmp_path)
    assert dict(zip(birds.ids, birds.labels.tolist(), strict=True))[f"{name}/1.png"] == -1
    assert birds.names == ("owl",)
    assert birds.notes == (f"2 samples called {name!r} count as unlabelled (as_is=True keeps such names)",)


# Files of labels


@pytest.fixture
def birds(tmp_path):
    return place(tmp_path / "birds", "owl/1.png", "owl/2.png", "wren/1.png", "wren/x y.png", "z.png")


def labels_file(folder: Path, rows: list[tuple], ending: str = "csv", key: str = "path") -> Path:
    path = folder.parent / f"labels.{ending}"
    table = pd.DataFrame(rows, columns=[key, "label"])
    if ending == "parquet":
        table.to_parquet(path)
    elif ending in {"jsonl", "ndjson"}:
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "ndjson", "parquet"])
@pytest.mark.parametrize("key", ["path", "id", "Path"])
def test_labels_from_a_file_take_the_place_of_folders(birds, ending, key):
    file = labels_file(birds, [("wren/x y.png", "b"), ("owl/1.png", "a"), ("owl/2.png", None)], ending, key)
    collection = read_images(birds, labels=file)
    assert collection.labels.tolist() == [0, -1, -1, 1, -1]
    assert collection.names == ("a", "b")
    assert collection.truth is None


def test_a_file_with_semicolons_as_spreadsheets_write_it(birds):
    file = birds.parent / "labels.csv"
    file.write_bytes("path;label;note\r\nowl/1.png;M\xf6we;x\r\n".encode("cp1252"))
    assert read_images(birds, labels=file).names == ("Möwe",)


@pytest.mark.parametrize(
    "form",
    [
        "owl/2.png",
        "owl\\2.png",
        "./owl/2.png",
        ".\\owl\\2.png",
        "owl/../owl//2.png",
        "2.png",
        "{}/owl/2.png",
        " owl/2.png ",
    ],
)
def test_every_form_of_a_path(birds, form):
    collection = read_images(birds, labels=labels_file(birds, [(form.format(birds), "a")]))
    assert collection.labels.tolist() == [-1, 0, -1, -1, -1]


def test_an_absolute_path_in_a_folder_given_by_a_relative_path_or_a_link(birds, monkeypatch):
    monkeypatch.chdir(birds.parent)
    file = labels_file(birds, [(str(birds / "z.png"), 4)])
    assert read_images("birds", labels=file).labels.tolist() == [-1, -1, -1, -1, 4]
    Path("link").symlink_to(birds, target_is_directory=True)
    assert read_images("link", labels=file).labels.tolist() == [-1, -1, -1, -1, 4]


def test_accents_may_be_written_apart_or_as_one(tmp_path):
    apart, as_one = (unicodedata.normalize(form, "é.png") for form in ("NFD", "NFC"))
    assert apart != as_one
    for stored, written in ((apart, as_one), (as_one, apart)):
        folder = place(tmp_path / f"{len(stored)}" / "birds", f"owl/{stored}")
        assert read_images(folder, labels=labels_file(folder, [(f"owl/{written}", "a")])).labels.tolist() == [0]


def test_a_folder_with_accents_written_apart_is_the_category_written_as_one(tmp_path):
    apart, as_one = (unicodedata.normalize(form, "Möwe") for form in ("NFD", "NFC"))
    birds = place(tmp_path / "birds", f"{apart}/1.png")
    collection = read_images(birds, truth=labels_file(birds, [(f"{as_one}/1.png", as_one)]))
    assert collection.names == (as_one,)


def test_a_name_that_is_a_path_means_that_path(tmp_path):
    folder = place(tmp_path / "birds", "1.png", "owl/1.png")
    assert read_images(folder, labels=labels_file(folder, [("1.png", "a")])).labels.tolist() == [0, -1]


@pytest.mark.skipif(os.name == "nt", reason="a backslash cannot be part of a name")
def test_a_name_with_a_backslash_means_that_file(tmp_path):
    folder = place(tmp_path / "birds", "owl\\1.png", "owl/1.png")
    collection = read_images(folder, labels=labels_file(folder, [("owl\\1.png", "a")]))
    assert dict(zip(collection.ids, collection.labels.tolist(), strict=True)) == {"owl\\1.png": 0, "owl/1.png": -1}


def test_a_bare_name_that_occurs_twice_is_refused_with_the_paths(birds):
    with refused("labels.csv", "line 2", "'1.png'", "owl/1.png, wren/1.png"):
        read_images(birds, labels=labels_file(birds, [("1.png", "a")]))


def test_paths_that_are_not_in_the_folder_are_refused_with_three_of_them(birds):
    rows = [("owl/1.png", "a"), *((f"owl/{i}.jpg", "a") for i in range(5)), ("/elsewhere/1.jpg", "a")]
    with refused(
        "labels.csv names 6 images that are not in", "'owl/0.jpg', 'owl/1.jpg', 'owl/2.jpg', …", "owl/1.png"
    ):
        read_images(birds, labels=labels_file(birds, rows))


def test_a_path_out_of_the_folder_is_refused(birds):
    place(birds.parent, "other/1.png")
    with refused("not in", "../other/1.png"):
        read_images(birds, labels=labels_file(birds, [("../other/1.png", "a")]))


def test_an_image_that_was_left_out_may_have_a_label(birds):
    (birds / "owl" / "empty.png").touch()
    collection = read_images(birds, labels=labels_file(birds, [("owl/empty.png", "a"), ("owl/1.png", "b")]))
    assert collection.labels.tolist() == [0, -1, -1, -1, -1]
    assert collection.names == ("b",)


def test_a_path_may_occur_twice_with_one_label_but_not_with_two(birds):
    rows = [("owl/1.png", "a"), ("./owl/1.png", "a")]
    assert read_images(birds, labels=labels_file(birds, rows)).labels.tolist() == [0, -1, -1, -1, -1]
    with refused("labels.csv", "'owl/1.png' has two labels, 'a' and", "line 4", "'b'"):
        read_images(birds, labels=labels_file(birds, [*rows, ("owl\\1.png", "b")]))


def test_a_row_without_a_path_is_refused_with_its_line(birds):
    with refused("labels.csv", "line 3 has no path"):
        read_images(birds, labels=labels_file(birds, [("owl/1.png", "a"), (None, "b")]))


def test_a_file_without_the_columns_is_refused_with_those_it_has(birds):
    file = birds.parent / "labels.csv"
    file.write_text("file,species\nowl/1.png,a\n")
    with refused("labels.csv", "'path'", "'label'", "found file, species"):
        read_images(birds, labels=file)


@pytest.mark.parametrize("name", ["labels.npy", "labels.xls"])
def test_a_file_of_another_kind_is_refused_with_those_that_are_read(birds, name):
    (birds.parent / name).write_text("a\n")
    with refused(name, "cannot be read as a table", listed(TABLE_ENDINGS)):
        read_images(birds, labels=birds.parent / name)


def test_lines_of_labels_are_refused_because_nothing_says_whose_they_are(birds):
    (birds.parent / "labels.txt").write_text("a\n")
    with refused("labels.txt", "'path'", "'label'", "found text"):
        read_images(birds, labels=birds.parent / "labels.txt")


def test_a_missing_file_of_labels_is_refused(birds):
    with refused("none.csv does not exist"):
        read_images(birds, labels=birds.parent / "none.csv")


# Truth


def test_the_folders_may_be_the_truth(birds):
    file = labels_file(birds, [("owl/1.png", "owl")])
    collection = read_images(birds, labels=file, truth="folders")
    assert collection.labels.tolist() == [0, -1, -1, -1, -1]
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, 0, 1, 1, -1]
    assert collection.names == ("owl", "wren")


def test_known_names_come_first_also_where_the_truth_has_others_before_them(birds):
    collection = read_images(birds, labels=labels_file(birds, [("wren/1.png", "wren")]), truth="folders")
    assert collection.names == ("wren", "owl")
    assert collection.truth is not None
    assert collection.truth.tolist() == [1, 1, 0, 0, -1]


def test_the_truth_may_be_a_file(birds):
    labels = labels_file(birds, [("owl/1.png", "a")])
    truth = labels_file(birds, [("owl/1.png", "a"), ("z.png", "c")], "parquet")
    collection = read_images(birds, labels=labels, truth=truth)
    assert collection.truth is not None
    assert collection.truth.tolist() == [0, -1, -1, -1, 1]
    assert collection.names == ("a", "c")


def test_a_truth_that_contradicts_a_label_is_refused_with_the_image(birds):
    with refused("labels.csv and ", "birds: ", "'owl/1.png' is labelled 'wren'", "truth is 'owl'"):
        read_images(birds, labels=labels_file(birds, [("owl/1.png", "wren")]), truth="folders")


def test_folders_called_by_numbers_are_names_where_the_truth_has_names_too(tmp_path):
    folder = place(tmp_path / "birds", "3/1.png", "12/1.png", "unlabelled/1.png")
    truth = labels_file(folder, [("3/1.png", "3"), ("12/1.png", "12"), ("unlabelled/1.png", "wren")])
    collection = read_images(folder, truth=truth)
    assert collection.names == ("3", "12", "wren")
    assert collection.labels.tolist() == [1, 0, -1]
    assert collection.truth is not None
    assert collection.truth.tolist() == [1, 0, 2]


def test_integer_labels_with_a_truth_of_other_names_are_refused(birds):
    with refused("labels are integers but the truth has names"):
        read_images(birds, labels=labels_file(birds, [("owl/1.png", 0)]), truth="folders")
