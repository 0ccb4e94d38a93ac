"""Files as people have them: photos of phones, spreadsheets, packed exports, folders of Parquet, data sets saved by
Hugging Face's library, addresses."""

import datetime
import json
import logging
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest
from PIL import Image

from newkinds import read_features
from newkinds.data import opening as opening_module
from newkinds.data import parquet as parquet_module
from newkinds.data import read_source
from newkinds.data.feature_set import FeatureSet
from newkinds.data.opening import open_image
from newkinds.data.raw import RawCollection
from newkinds.data.texts import read_texts
from tests.data.refusal import refused

RED = (200, 30, 30)
X = np.arange(12, dtype=np.float32).reshape(6, 2) + 1


# Photos


@pytest.mark.parametrize("name", ["a.heic", "a.HEIF", "a.avif", "a.webp", "a.tiff", "a.jpg"])
def test_photos_of_phones_and_cameras_are_opened(tmp_path, name):
    import pillow_heif

    pillow_heif.register_heif_opener()
    Image.new("RGB", (40, 20), RED).save(tmp_path / name, format="HEIF" if "hei" in name.lower() else None)
    collection = read_source(str(tmp_path))
    assert isinstance(collection, RawCollection)
    image = open_image(collection.items[0])
    assert image.size == (40, 20)
    assert np.abs(np.asarray(image).mean(axis=(0, 1)) - RED).max() < 12
    (content,) = (open_image((tmp_path / name).read_bytes()),)
    assert content.size == (40, 20)


def test_a_photo_that_needs_a_package_says_which(tmp_path, monkeypatch):
    content = b"\0\0\0\x18ftypheic" + bytes(60)
    (tmp_path / "a.heic").write_bytes(content)
    known = {name: opener for name, opener in Image.OPEN.items() if name != "HEIF"}
    monkeypatch.setattr(Image, "OPEN", known)
    monkeypatch.setattr(opening_module, "_register_formats", lambda: None)
    with refused("a.heic is HEIF", "pip install pillow-heif"):
        open_image(tmp_path / "a.heic")
    with refused("an image is HEIF"):
        open_image(content)


# Spreadsheets


def workbook(path: Path, *rows: tuple, sheets: int = 1) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for _ in range(sheets - 1):
        book.create_sheet()
    book.save(path)
    return path


def test_a_spreadsheet_with_dates_numbers_and_gaps(tmp_path):
    path = workbook(
        tmp_path / "tickets.xlsx",
        (None, None, None),
        ("ticket", "text", "label", "when"),
        (101, "card lost", "card", datetime.datetime(2026, 3, 1)),
        (),
        (102, 2026, None, datetime.datetime(2026, 3, 1, 9, 30)),
        (103, None, "card", None),
    )
    tickets = read_texts(path)
    assert tickets.items == ["card lost", "2026"]
    assert tickets.ids == ("101", "102")
    assert tickets.others["when"] == ["2026-03-01", "2026-03-01T09:30:00"]
    assert tickets.skipped == (("103", "the text on row 6 is missing"),)
    assert tickets.notes == ("samples are named by the column 'ticket' (id=COLUMN for another)",)


def test_the_first_sheet_is_read_and_that_is_said(tmp_path, caplog):
    path = workbook(tmp_path / "tickets.xlsx", ("text",), ("card lost",), sheets=3)
    with caplog.at_level(logging.WARNING):
        assert read_texts(path).items == ["card lost"]
    assert "has 3 sheets; only the first, 'Sheet', is read" in caplog.text


def test_spreadsheets_that_are_none(tmp_path, monkeypatch):
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an .xls under another name")
    with refused("old.xlsx", "Excel workbook (.xlsx) or .csv"):
        read_texts(tmp_path / "old.xlsx")
    with refused("empty.xlsx", "first sheet is empty"):
        read_texts(workbook(tmp_path / "empty.xlsx"))
    with refused("two.xlsx", "several columns called 'text'"):
        read_texts(workbook(tmp_path / "two.xlsx", ("text", "text"), ("a", "b")))
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with refused("old.xlsx", 'pip install "newkinds[excel]"'):
        read_texts(tmp_path / "old.xlsx")


def test_formulas_without_values_are_refused_where_they_are_needed(tmp_path):
    header = ("ticket", "text", "label", "length")
    rows = [(str(n), f"card {n}", "card", "=LEN(B2)") for n in range(8)]
    tickets = read_texts(workbook(tmp_path / "length.xlsx", header, *rows))
    assert tickets.items == [f"card {n}" for n in range(8)]
    assert "length" not in tickets.others
    (_, note) = tickets.notes
    assert note.startswith(
        "the column 'length' is left out: there are formulas without values (D2, D3, D4, D5, D6, …"
    )
    computed = [(str(n), f'="card "&A{n + 2}', "card") for n in range(8)]
    with refused("in the column 'text'", "(B2, B3, B4, B5, B6, … 8 in all)", "and save it again"):
        read_texts(workbook(tmp_path / "text.xlsx", header[:3], *computed))
    with refused("in the column 'comment'", "(B2)"):
        read_texts(workbook(tmp_path / "guessed.xlsx", ("when", "comment"), (2026, "=A2")))
    with refused("in the column 'label'", "(B3)"):
        read_texts(workbook(tmp_path / "label.xlsx", ("text", "label"), ("a", "card"), ("b", "=B2")))
    with refused("in the column 'id'", "(A2)"):
        read_texts(workbook(tmp_path / "id.xlsx", ("id", "text"), ("=1+1", "a")))
    with refused("all.xlsx: there are formulas", "(A2, A3)"):
        read_texts(workbook(tmp_path / "all.xlsx", ("text",), ("=B1",), ("=B2",)))
    with refused("a column has no name", "(B1)"):
        read_texts(workbook(tmp_path / "name.xlsx", ("text", '="la"&"bel"'), ("a", "card")))
    labels = workbook(tmp_path / "labels.xlsx", ("id", "label"), ("0", "=C1"), ("1", "card"))
    with refused("labels.xlsx", "in the column 'label'", "(B2)"):
        read_texts(workbook(tmp_path / "texts.xlsx", ("text",), ("a",), ("b",)), labels=labels)


def test_formulas_that_a_spreadsheet_program_has_computed_are_read(tmp_path):
    """As Excel writes them, also those that give an empty text."""
    path = workbook(tmp_path / "tickets.xlsx", ("text", "label"), ("=C2", "=D2"), ("refund?", "=D3"))
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = members["xl/worksheets/sheet1.xml"].decode()
    for cell, formula, value in (("A2", "C2", "card lost"), ("B2", "D2", "card"), ("B3", "D3", "")):
        empty = re.search(rf'<c r="{cell}"[^>]*><f>{formula}</f><v ?/?>(</v>)?</c>', sheet)
        assert empty, sheet
        sheet = sheet.replace(empty[0], f'<c r="{cell}" t="str"><f>{formula}</f><v>{value}</v></c>')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {**members, "xl/worksheets/sheet1.xml": sheet.encode()}.items():
            archive.writestr(name, content)
    tickets = read_texts(path)
    assert (tickets.items, tickets.labels.tolist(), tickets.notes) == (["card lost", "refund?"], [0, -1], ())


def test_a_label_in_merged_cells_is_that_of_all_their_rows(tmp_path, caplog):
    book = openpyxl.Workbook()
    for row in (
        ("label", "text", "note"),
        ("card", "card lost"),
        (None, "stolen"),
        ("rate", "how much?"),
        (None, "?"),
    ):
        book.active.append(row)
    for cells in ("A2:A3", "B4:C4", "H1:H9"):
        book.active.merge_cells(cells)
    book.save(tmp_path / "tickets.xlsx")
    with caplog.at_level(logging.WARNING):
        tickets = read_texts(tmp_path / "tickets.xlsx")
    assert tickets.labels.tolist() == [0, 0, 1, -1]
    assert tickets.others["note"] == [None] * 4
    assert "has merged cells (A2:A3, B4:C4, H1:H9): each row takes the value of the top one" in caplog.text


def test_names_of_columns_in_merged_cells_are_no_samples(tmp_path):
    book = openpyxl.Workbook()
    for row in (("text", "label"), (None, "(if known)"), ("card lost", "card")):
        book.active.append(row)
    book.active.merge_cells("A1:A2")
    book.save(tmp_path / "tickets.xlsx")
    tickets = read_texts(tmp_path / "tickets.xlsx")
    assert tickets.items == ["card lost"]
    assert tickets.skipped == (("0", "the text on row 2 is missing"),)


# JSON and packed files


def test_json_that_is_no_list_of_objects(tmp_path):
    path = tmp_path / "tickets.json"
    for content, problem in (('{"text": "a"}', "an object"), ("[1, 2]", "other things"), ("[{", "is not JSON")):
        path.write_text(content)
        with refused("tickets.json", problem, "list of objects"):
            read_texts(path)
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    assert read_texts(path).items == ["a", "b"]  # JSON lines under another name
    path.write_text('[{"text": "\\ud83d"}, {"text": ["a"]}]')
    with refused("object 2 has a list"):
        read_texts(path)


def test_a_packed_file_that_is_damaged(tmp_path):
    for ending in ("gz", "zst"):
        (tmp_path / f"tickets.csv.{ending}").write_bytes(b"not packed at all")
        with refused(f"tickets.csv.{ending} cannot be read as text"):
            read_texts(tmp_path / f"tickets.csv.{ending}")


# Folders of Parquet


def dataset(folder: Path, **columns: list) -> Path:
    """Two files of three rows, the second in a folder of its own."""
    table = pa.table({"features": X.tolist(), **columns})
    (folder / "part=2").mkdir(parents=True)
    pq.write_table(table[:3], folder / "1.parquet")
    pq.write_table(table[3:], folder / "part=2" / "2.parquet")
    (folder / "_SUCCESS").touch()
    (folder / "notes.txt").write_text("not a part")
    return folder


def test_a_folder_of_parquet_files_is_one_set_of_features(tmp_path):
    birds = read_source(
        str(dataset(tmp_path / "birds", id=list("abcdef"), label=["owl", None, "?", "wren", "", None]))
    )
    assert isinstance(birds, FeatureSet)
    np.testing.assert_array_equal(birds.features, X)
    assert birds.ids == tuple("abcdef")
    assert birds.labels.tolist() == [0, -1, -1, 1, -1, -1]
    assert birds.notes == ("1 sample called '?' counts as unlabelled (as_is=True keeps such names)",)


def test_a_folder_of_parquet_files_with_texts(tmp_path):
    for part in (1, 2):
        pq.write_table(pa.table({"text": [f"ticket {part}"], "label": ["card"]}), tmp_path / f"{part}.parquet")
    tickets = read_source(str(tmp_path))
    assert isinstance(tickets, RawCollection)
    assert (tickets.kind, tickets.items) == ("texts", ["ticket 1", "ticket 2"])


def test_files_that_differ_are_refused_by_name(tmp_path):
    folder = dataset(tmp_path / "birds")
    pq.write_table(pa.table({"features": X.tolist(), "more": [1] * 6}), folder / "3.parquet")
    with refused("birds", "3.parquet has other columns", "more"):
        read_features(folder)
    pq.write_table(pa.table({"features": X[:, :1].tolist()}), folder / "3.parquet")
    with refused("birds", "list of the same length"):
        read_features(folder)
    (folder / "3.parquet").write_bytes(b"PAR1 damaged")
    with refused("birds", "cannot be read"):
        read_features(folder)


def test_ids_of_parquet_by_another_column(tmp_path):
    folder = dataset(tmp_path / "birds", ring=list("uvwxyz"))
    assert read_features(folder, id="ring").ids == tuple("uvwxyz")
    with refused("has no column 'rings'", "ring"):
        read_features(folder, id="rings")
    np.save(tmp_path / "a.npy", X)
    with refused("a.npy has no columns", "id names"):
        read_features(tmp_path / "a.npy", id="ring")


def test_ids_that_occur_twice_are_refused_with_the_first_five(tmp_path):
    pq.write_table(pa.table({"features": X.tolist(), "id": ["a", "b", "a", "b", "c", "d"]}), tmp_path / "a.parquet")
    with refused("a.parquet", "2 ids occur more than once: 'a', 'b'"):
        read_features(tmp_path / "a.parquet")
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"{n % 7},text {n}\n" for n in range(14)))
    with refused("t.csv", "7 ids occur more than once: '0', '1', '2', '3', '4', …"):
        read_texts(tmp_path / "t.csv")


def test_a_run_folder_is_no_collection(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "predictions.parquet")
    with refused("is a run folder"):
        read_source(str(tmp_path))


# Data sets of Hugging Face


def save_to_disk(folder: Path, table: pa.Table, **features: dict) -> Path:
    """What `datasets.Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    with pa.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as writer:
        writer.write_table(table)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_fingerprint": "0", "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


CLASSES = {"names": ["card", "money"], "_type": "ClassLabel"}


def test_a_saved_data_set_of_texts_with_classes(tmp_path):
    table = pa.table({"text": ["card lost", "refund?", "?"], "label": pa.array([0, 1, -1])})
    tickets = read_source(str(save_to_disk(tmp_path / "tickets", table, label=CLASSES)))
    assert isinstance(tickets, RawCollection)
    assert (tickets.items, tickets.labels.tolist()) == (["card lost", "refund?", "?"], [0, 1, -1])
    assert tickets.names == ("card", "money")


def test_a_saved_data_set_of_images(tmp_path):
    Image.new("RGB", (8, 6), RED).save(tmp_path / "a.png")
    cell = {"bytes": (tmp_path / "a.png").read_bytes(), "path": "a.png"}
    image = pa.array([cell, cell, None], pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    folder = save_to_disk(tmp_path / "pets", pa.table({"image": image, "label": [1, -1, 0]}), label=CLASSES)
    pets = read_source(str(folder))
    assert isinstance(pets, RawCollection)
    assert (pets.kind, pets.ids, pets.names) == ("images", ("0", "1"), ("money",))
    assert open_image(pets.items[0]).size == (8, 6)
    assert pets.skipped == (("2", "the image on row 2 is missing"),)


def test_a_saved_data_set_of_features(tmp_path):
    birds = read_source(
        str(save_to_disk(tmp_path / "birds", pa.table({"features": X.tolist(), "id": list("abcdef")})))
    )
    assert isinstance(birds, FeatureSet)
    np.testing.assert_array_equal(birds.features, X)
    assert birds.ids == tuple("abcdef")


def test_saved_data_sets_that_cannot_be_read(tmp_path):
    table = pa.table({"text": ["a"], "label": [5]})
    with refused("many", "cannot be read"):
        read_source(str(save_to_disk(tmp_path / "many", table, label=CLASSES)))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with refused("holds parts of a data set: train, test", "parts/train"):
        read_source(str(tmp_path / "parts"))
    outside = save_to_disk(tmp_path / "outside", table)
    (outside / "state.json").write_text('{"_data_files": [{"filename": "../many/data-00000-of-00001.arrow"}]}')
    with refused("outside", "outside of its folder"):
        read_source(str(outside))


# Addresses


def test_a_file_address_is_a_path(tmp_path):
    (tmp_path / "my tickets.csv").write_text("text\ncard lost\n")
    tickets = read_source((tmp_path / "my tickets.csv").as_uri())
    assert isinstance(tickets, RawCollection)
    assert tickets.items == ["card lost"]


def test_remote_features(tmp_path, monkeypatch):
    dataset(tmp_path / "bucket" / "birds", id=list("abcdef"))

    def from_uri(address: str) -> tuple[pa_fs.FileSystem, str]:
        return pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem()), address.removeprefix("s3://")

    monkeypatch.setattr(parquet_module, "remote_file", from_uri)
    birds = read_source("s3://bucket/birds")
    assert isinstance(birds, FeatureSet)
    np.testing.assert_array_equal(birds.features, X)
    assert birds.ids == tuple("abcdef")
    with refused("s3://bucket/owls does not exist"):
        read_source("s3://bucket/owls")
    with refused("s3://bucket/birds is a remote set of features: text cannot be used"):
        read_source("s3://bucket/birds", text="a")


def test_addresses_that_nothing_knows():
    with refused("ftp://somewhere is not an address that can be read or written"):
        read_source("ftp://somewhere")


def test_a_table_beside_photos_does_not_hide_them(tmp_path):
    for place in ("owl/1.png", "2.png"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.new("RGB", (4, 4), RED).save(tmp_path / place)
    pq.write_table(pa.table({"features": X.tolist()}), tmp_path / "features.parquet")
    photos = read_source(str(tmp_path))
    assert isinstance(photos, RawCollection)
    assert photos.ids == ("2.png", "owl/1.png")
    (tmp_path / "2.png").unlink()
    photos = read_source(str(tmp_path))
    assert isinstance(photos, RawCollection)
    assert photos.ids == ("owl/1.png",)


# What a review found


def test_the_names_of_folders_and_ids_are_no_features(tmp_path):
    for year in (2025, 2026):
        place = tmp_path / f"year={year}" / "month=01"
        place.mkdir(parents=True)
        numbers = pa.table({"ticket": [year * 10, year * 10 + 1], "f0": [1.0, 2.0], "f1": [3.0, 4.0]})
        pq.write_table(numbers, place / "a.parquet")
    birds = read_source(str(tmp_path))
    assert isinstance(birds, FeatureSet)
    assert birds.columns == ("f0", "f1")
    assert birds.ids == ("20250", "20251", "20260", "20261")
    with refused("has no column 'rings'"):
        read_features(tmp_path, id="rings")
    assert read_features(tmp_path, id="TICKET").ids == birds.ids


def test_texts_as_categories_beside_a_number_are_texts(tmp_path):
    table = pa.table({"text": pa.array(["a", "b"]).dictionary_encode(), "amount": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "tickets.parquet")
    tickets = read_source(str(tmp_path / "tickets.parquet"))
    assert isinstance(tickets, RawCollection)
    assert tickets.items == ["a", "b"]


def test_images_that_are_given_by_their_paths(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("photos/1.png", "elsewhere.png"):
        Image.new("RGB", (8, 6), RED).save(tmp_path / name)
    content = (tmp_path / "elsewhere.png").read_bytes()
    cells = [
        {"bytes": None, "path": "photos/1.png"},
        {"bytes": None, "path": str(tmp_path / "elsewhere.png")},
        {"bytes": content, "path": "gone.png"},
        {"bytes": None, "path": "photos/2.png"},
        {"bytes": None, "path": "https://example.org/3.png\0"},
        {"bytes": None, "path": None},
    ]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    table = pa.table({"image": pa.array(cells, kind), "label": [0, 1, 0, 0, -1, -1]})
    pq.write_table(table, tmp_path / "photos.parquet")
    for source in (tmp_path / "photos.parquet", save_to_disk(tmp_path / "saved", table, label=CLASSES)):
        folder = source if source.is_dir() else tmp_path
        if source.is_dir():
            shutil.copytree(tmp_path / "photos", source / "photos")
        pets = read_source(str(source))
        assert isinstance(pets, RawCollection)
        assert pets.items == [folder / "photos/1.png", tmp_path / "elsewhere.png", content]
        assert pets.ids == ("0", "1", "2")
        assert pets.skipped[0] == (
            "3",
            f"the image on row 3 is only a path, and there is no file {folder / 'photos/2.png'}",
        )
        assert [why.partition(", ")[0] for _, why in pets.skipped[1:]] == [
            "the image on row 4 is only a path",
            "the image on row 5 is missing",
        ]


def test_a_table_of_which_no_image_is_there(tmp_path):
    pq.write_table(
        pa.table({"image": [{"bytes": None, "path": f"{n}.png"} for n in range(3)]}), tmp_path / "a.parquet"
    )
    with refused("a.parquet has no images in the column 'image'", "0.png, and so on in all 3 rows"):
        read_source(str(tmp_path / "a.parquet"))


def test_bytes_that_are_no_images_do_not_make_texts_images(tmp_path):
    pq.write_table(pa.table({"hash": [b"\1\2", b"\3\4"], "text": ["a", "b"]}), tmp_path / "tickets.parquet")
    tickets = read_source(str(tmp_path / "tickets.parquet"))
    assert isinstance(tickets, RawCollection)
    assert tickets.kind == "texts"


def test_ids_of_an_npz_are_checked_too(tmp_path):
    np.savez(tmp_path / "a.npz", features=X, ids=np.array(["a"] * 6))
    with refused("a.npz", "1 ids occur more than once: 'a'"):
        read_features(tmp_path / "a.npz")


def test_hidden_sheets_errors_and_blank_ends_of_spreadsheets(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(("secret",))
    book.active.sheet_state = "hidden"
    sheet = book.create_sheet("tickets")
    for row in (("text", "label"), ("a", "card"), ("b", "#N/A"), ("", ""), ("", "")):
        sheet.append(row)
    book.active = 1
    book.save(tmp_path / "tickets.xlsx")
    tickets = read_texts(tmp_path / "tickets.xlsx")
    assert (tickets.items, tickets.labels.tolist(), tickets.skipped) == (["a", "b"], [0, -1], ())
