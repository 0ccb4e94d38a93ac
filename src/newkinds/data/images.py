"""Images: finding them, in folders that are their labels; none is opened (`newkinds.data.opening` does that)."""

import os
import posixpath
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from newkinds.data.files import writable_name
from newkinds.data.labelling import USUAL, LabelRules, label_column_of, sure_enough
from newkinds.data.raw import RawCollection
from newkinds.data.tables import read_table
from newkinds.errors import InputError
from newkinds.labels import is_missing
from newkinds.names import IMAGE_ENDINGS

NOT_READ = (".svg", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw")
"""Images for which more than Pillow is needed; they are reported, not passed over in silence."""
UNLABELLED_FOLDERS = ("unlabelled", "unlabeled")
PARTS = ("train", "training", "val", "valid", "validation", "dev", "test", "testing")
"""First-level folders that are parts of a data set, not categories."""
PASSED_OVER = ("__macosx", "@eadir")
"""What macOS and network drives add beside the images."""


def read_images(
    folder: str | Path,
    *,
    labels: str | Path | None = None,
    truth: str | Path | None = None,
    rules: LabelRules = USUAL,
) -> RawCollection:
    """Find the images in a folder, with their labels; none is opened yet.

    Parameters
    ----------
    folder : path
        Searched with all its sub-folders, hidden ones excepted. An image is labelled with the name of the
        first-level folder it is in; those at the top, or in a folder called `unlabelled`, are unlabelled. Or a
        single image.
    labels : path, optional
        Table (`.csv`, `.jsonl`, `.parquet`, …) with a column `path` or `id` and a column `label`, which takes the
        place of the folders' names; blank or without a row = unlabelled. A path is within the folder, absolute, or
        a bare file name that occurs once.
    truth : path or "folders", optional
        True classes, for scoring only: a table of the same form, or the folders' names.
    rules : LabelRules
        How labels are taken: which names mean that there is none.

    Returns
    -------
    RawCollection
        In the order of the paths within the folder, which are the ids; `skipped` names files that are empty or of a
        kind that is not read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
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
    if folder.is_file() and folder.suffix.lower() in IMAGE_ENDINGS:
        files = iter([(writable_name(folder.name), folder, None if folder.stat().st_size else "the file is empty")])
        folder = folder.parent
    elif folder.is_dir():
        files = _search(folder)
    else:
        problem = "is no image" if folder.exists() else "does not exist"
        raise InputError(
            f"{folder} {problem}; give a folder of images, or one that ends in {', '.join(IMAGE_ENDINGS)}"
        )
    images: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    for name, path, reason in files:
        if reason is None:
            images[name] = path
        else:
            skipped[name] = reason
    ids = sorted(images)
    if not ids:
        left_out = f" ({len(skipped)} were left out; {min(skipped)}: {skipped[min(skipped)]})" if skipped else ""
        raise InputError(
            f"there are no images in {folder}{left_out}; looked for files ending in {', '.join(IMAGE_ENDINGS)}"
        )

    def raw_labels(source: str | Path | None, rules: LabelRules = USUAL) -> list[Any] | None:
        if source is None:
            return None
        if source == "folders":
            return _folder_labels(folder, ids)
        label_of = _file_labels(Path(source), folder, [*ids, *skipped], rules)
        return [label_of.get(name) for name in ids]

    return RawCollection.gathered(
        "images",
        [images[name] for name in ids],
        ids,
        None if rules.ignored else raw_labels("folders" if labels is None else labels, rules),
        raw_labels(truth),
        sorted(skipped.items()),
        labels_from=folder if labels is None else Path(labels),
        truth_from=folder if truth is None or truth == "folders" else Path(truth),
        rules=rules,
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
            elif suffix in IMAGE_ENDINGS:
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


def _file_labels(file: Path, folder: Path, ids: Sequence[str], rules: LabelRules) -> dict[str, Any]:
    """The label of each image that a table names."""
    table = read_table(file)
    path_column, label_column = table.find("path") or table.find("id"), label_column_of(table, has_ids=True)
    if path_column is None or label_column is None:
        raise InputError(
            f"{file}: a column 'path' (or 'id') and a column 'label' are needed; found {table.listed()}"
        )
    table = sure_enough(table, label_column, rules)
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
