"""The photos of a run in folders, one for each category; and taking that back.

Everything is planned first. Then the plan is written as `newkinds-sorted.csv` into the new folder: where each photo
was, where it goes, how. Only then is it done. So the list is there whenever the work was interrupted, and `undo`
takes back what had been done. Nothing is ever overwritten.
"""

import contextlib
import csv
import errno
import filecmp
import io
import os
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from newkinds.data.formulas import FORMULA, restore
from newkinds.errors import InputError
from newkinds.file_names import free_name, name_key, safe_name
from newkinds.names import Transfer
from newkinds.run_folder import read_predictions, read_run
from newkinds.runtime import report_progress
from newkinds.staging import (
    accept_existing,
    bring_to_disk,
    check_place,
    claimed,
    refuse_existing,
    rename_to_free,
    staged,
)

LIST_FILE = "newkinds-sorted.csv"
LIST_COLUMNS = ["from", "to", "how", "root"]
"""Of the list: a photo, its place, how it got there, and the folder that all photos are in."""
UNSURE_FOLDER = "unsure"
PARTIAL_FILE = ".newkinds-partial"
"""A photo that is being copied; one at a time in a folder."""
ESCAPED_BYTE = re.compile(r"\\udc([89a-f][0-9a-f])")
"""A byte of a file's name that is no text, as ids have it."""
Row = tuple[str, str, Transfer, str]
"""Of the list."""
SHOWN = 5
"""Photos that a message names."""


@dataclass(frozen=True)
class Placement:
    """A photo, and its place within the new folder: `owl/1.jpg`."""

    photo: Path
    place: str

    @property
    def folder(self) -> str:
        return self.place.partition("/")[0]


@dataclass(frozen=True)
class Plan:
    """Which photos go where.

    Attributes
    ----------
    into : path
        The new folder.
    root : path
        The folder that the photos are in.
    how : {"copy", "link", "move"}
    placements : tuple of Placement
    kinds : dict of str to str
        "known", "new" or "unsure" for each folder that gets photos, in the order of the categories.
    missing : tuple of str
        Ids of photos that are no longer there.
    elsewhere : tuple of str
        Ids of photos that were left out because a link leads out of `root`, or would have to be moved.
    repeated : tuple of str
        Ids of photos that another id names, too.
    """

    into: Path
    root: Path
    how: Transfer
    placements: tuple[Placement, ...]
    kinds: dict[str, str]
    missing: tuple[str, ...]
    elsewhere: tuple[str, ...]
    repeated: tuple[str, ...]

    @property
    def sizes(self) -> Counter[str]:
        """How many photos each folder gets."""
        return Counter(placement.folder for placement in self.placements)

    def notes(self) -> list[str]:
        """What is left out, in words."""
        gone = f"no longer in {self.root}"
        behind = "behind a link, which is not moved" if self.how == "move" else f"a link leads out of {self.root}"
        again = "the same file as another"
        reasons = ((gone, self.missing), (behind, self.elsewhere), (again, self.repeated))
        return [f"{_photos(len(ids))} left out ({why}): {_some(ids)}" for why, ids in reasons if ids]


def plan_sorting(
    run: str | Path,
    into: str | Path,
    *,
    how: Transfer = "copy",
    source: str | Path | None = None,
    min_confidence: float | None = None,
    only_new: bool = False,
) -> Plan:
    """Which photos of a run go where; nothing is changed yet.

    Parameters
    ----------
    run : path
        A run folder.
    into : path
        Folder to make; an empty one may be there.
    how : {"copy", "link", "move"}
    source : path, optional
        Where the photos are; by default where they were when the run was made.
    min_confidence : float, optional
        Photos that the model is less sure of go into a folder `unsure`; labelled ones stay with their category.
    only_new : bool
        Leave the photos of known categories where they are.
    """
    run, into = Path(run), Path(into)
    record = read_run(run)
    root = _find_root(run, record, source)
    _check_into(into, run, root)
    table = read_predictions(run, record, pictures=False)
    was_given = table["given"].to_pylist() if "given" in table.column_names else [False] * len(table)
    folders = _folder_names(record, [LIST_FILE] if min_confidence is None else [LIST_FILE, UNSURE_FOLDER])
    wanted = {c["id"] for c in record["categories"] if c["kind"] == "new" or not only_new}
    taken_files: dict[str, dict[str, int]] = {}
    placements, missing, elsewhere, repeated = [], [], [], []
    seen: set[Path] = set()
    columns = (table["id"].to_pylist(), table["category"].to_pylist(), table["confidence"].to_pylist(), was_given)
    for name, category, confidence, is_given in zip(*columns, strict=True):
        if category not in wanted:
            continue
        photo = _find_photo(root, name)
        if photo is None:
            missing.append(name)
            continue
        real = photo.resolve()
        if not real.is_relative_to(root) or (how == "move" and real != photo):
            elsewhere.append(name)
            continue
        if real in seen:
            repeated.append(name)
            continue
        seen.add(real)
        is_unsure = min_confidence is not None and confidence < min_confidence and not is_given
        folder = UNSURE_FOLDER if is_unsure else folders[category]
        own_name = free_name(photo.stem, photo.suffix, taken_files.setdefault(folder, {}))
        placements.append(Placement(photo, f"{folder}/{own_name}"))
    used = {placement.folder for placement in placements}
    kinds = {folders[category["id"]]: category["kind"] for category in record["categories"]}
    if min_confidence is not None:
        kinds[UNSURE_FOLDER] = "unsure"
    plan = Plan(
        into,
        root,
        how,
        tuple(placements),
        {folder: kind for folder, kind in kinds.items() if folder in used},
        tuple(missing),
        tuple(elsewhere),
        tuple(repeated),
    )
    if not placements:
        reason = "; ".join(plan.notes()) or "no sample is of a new category"
        advice = "; if the photos are elsewhere now, say where with --source" if missing else ""
        raise InputError(f"there is nothing to sort: {reason}{advice}")
    return plan


def sort_photos(plan: Plan) -> None:
    """Do what was planned. If that fails halfway, `undo` takes back what was done."""
    into, n, done = plan.into, len(plan.placements), 0
    try:
        with claimed(into):
            _check_free(into)
            into.mkdir(exist_ok=True)
            rows = [(str(p.photo), p.place, plan.how, str(plan.root)) for p in plan.placements]
            _write_list(into / LIST_FILE, rows, refuse_existing)
            for placement in plan.placements:
                target = into.resolve() / placement.place
                target.parent.mkdir(exist_ok=True)
                TRANSFERS[plan.how](placement.photo, target)
                done += 1
                report_progress("sorting the photos", done, n)
    except OSError as error:
        problem = f"cannot {plan.how} photos into {into}: {error.strerror or error}"
        if plan.how == "link":
            problem += "; where links cannot be made, use --copy"
        if done:
            problem += f"; {done} of {n} were sorted before, `{undo_command(into)}` takes that back"
        elif (into / LIST_FILE).is_file():
            undo(into)
        raise InputError(problem) from error


def undo_command(folder: Path) -> str:
    """What to type to take back what was sorted into a folder."""
    return f"newkinds sort --undo {shlex.quote(str(folder))}"


@dataclass(frozen=True)
class Undone:
    """What `undo` did.

    Attributes
    ----------
    n_back : int
        Photos that it took back.
    left : tuple of (str, str)
        Those that it did not, each with the reason.
    absent : tuple of str
        Copies and links from the end of the list that are not there. Whether they ever were cannot be known.
    """

    n_back: int
    left: tuple[tuple[str, str], ...]
    absent: tuple[str, ...]

    def notes(self) -> list[str]:
        """What was not there, in words."""
        if not self.absent:
            return []
        why = "sorting was interrupted before it came to them, or they were removed since"
        return [f"{_photos(len(self.absent))} from the end of the list not there ({why}): {_some(self.absent)}"]


def undo(folder: str | Path) -> Undone:
    """Take back what was sorted into a folder: moved photos to where they were, copies and links removed.

    Whatever was changed since, or would have to be overwritten, is left; so is a copy whose original is gone. The
    list then names what is left, and `undo` can be called again.
    """
    folder = Path(folder)
    path = folder / LIST_FILE
    if not path.is_file():
        raise InputError(f"{folder} holds no {LIST_FILE}: nothing was sorted into it, or it was taken back already")
    rows = _read_list(path)
    home = folder.resolve()
    remaining, left, absent, n_back = [], [], [], 0
    with claimed(folder):
        n_made = max((n for n, row in enumerate(rows, start=1) if os.path.lexists(home / row[1])), default=0)
        for done, row in enumerate(rows, start=1):
            photo, target, how = Path(row[0]), home / row[1], row[2]
            is_there, reason = os.path.lexists(target), None
            try:
                if target.parent.is_symlink():
                    reason = "its folder is a link now"
                elif is_there:
                    reason = UNDO[how](photo, target)
                elif how == "move" and not os.path.lexists(photo):
                    reason = "it is gone"
                elif how != "move" and done < n_made:  # photos are sorted in the order of the list
                    left.append((row[1], "it is no longer there"))
                elif how != "move":
                    absent.append(row[1])
            except OSError as error:
                reason = str(error.strerror or error)
            if reason is not None:
                remaining.append(row)
                left.append((row[1], reason))
            elif is_there:
                n_back += 1
            report_progress("taking back", done, len(rows))
        for name in sorted({row[1].partition("/")[0] for row in rows}):
            if (folder / name).is_symlink():
                continue
            with contextlib.suppress(OSError):
                (folder / name / PARTIAL_FILE).unlink()
            with contextlib.suppress(OSError):  # something is in it
                (folder / name).rmdir()
        if remaining:
            _write_list(path, remaining, accept_existing)
        else:
            path.unlink()
    if not remaining:
        with contextlib.suppress(OSError):
            folder.rmdir()
    return Undone(n_back, tuple(left), tuple(absent))


def _folder_names(record: dict[str, Any], reserved: list[str]) -> dict[int, str]:
    """The name of each category's folder."""
    taken = {name_key(name): 1 for name in reserved}
    return {
        category["id"]: free_name(safe_name(category["name"]) or f"kind-{category['id']}", "", taken)
        for category in record["categories"]
    }


def _find_root(run: Path, record: dict[str, Any], source: str | Path | None) -> Path:
    """The resolved folder of a run's photos."""
    encoder = record.get("encoder")
    kind = encoder["kind"] if encoder else "features"
    if kind == "texts" or (kind == "features" and source is None):
        raise InputError(
            f"{run} is a run of {kind}, and only photos can be sorted; "
            f"`newkinds export {shlex.quote(str(run))} kinds.csv` writes a table of its samples"
        )
    root = record["source"].get("root") if source is None else source
    if root is None:
        raise InputError(f"{run} does not say where its photos are; give their folder with --source")
    if not Path(root).is_dir():
        was = "there is no folder" if source is not None else "the photos were in"
        raise InputError(f"{was} {root}; say with --source where they are now")
    return Path(root).resolve()


def _find_photo(root: Path, name: str) -> Path | None:
    """The file of an id; None if it is gone. An id that would lead out of the folder is refused."""
    photos = []
    for spelling in dict.fromkeys((name, ESCAPED_BYTE.sub(lambda byte: chr(0xDC00 + int(byte[1], 16)), name))):
        photo = root / spelling  # or the id itself, if it is a whole path
        if not photo.is_relative_to(root):
            photo = Path(os.path.realpath(photo.parent)) / photo.name
        if not photo.is_relative_to(root) or name.startswith("\\") or ".." in re.split(r"[/\\]", name):
            raise InputError(f"the id {name!r} leads out of the photos' folder {root}: nothing was sorted")
        photos.append(photo)
    return next((photo for photo in photos if photo.is_file()), None)


def _check_into(into: Path, run: Path, root: Path) -> None:
    check_place(into)
    place = into.resolve()
    for folder, what in ((root, "the photos' folder"), (run.resolve(), "the run folder")):
        if place.is_relative_to(folder):
            raise InputError(f"{into} is in {what} {folder}; choose a place outside of it")
    _check_free(into)


def _check_free(into: Path) -> None:
    """Refuse a place with something in it."""
    if not os.path.lexists(into):
        return
    if not into.is_dir():
        raise InputError(f"{into} is a file; give the name of a folder to make")
    if (into / LIST_FILE).exists():
        raise InputError(
            f"photos were sorted into {into} before; `{undo_command(into)}` takes that back, or choose "
            "another place"
        )
    if any(into.iterdir()):
        raise InputError(f"{into} is not empty; give the name of a new folder")


def _write_list(path: Path, rows: Iterable[Row], replace: Callable[[Path], None]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LIST_COLUMNS)
    writer.writerows([re.sub(FORMULA, r"'\1", cell) for cell in row] for row in rows)
    with staged(path, replace=replace) as stage:
        stage.write_bytes(text.getvalue().encode("utf-8", "surrogateescape"))


def _read_list(path: Path) -> list[Row]:
    """The rows of a list, checked: nothing outside of its folder and the photos' folder is ever changed."""
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    rows: list[Row] = []
    try:
        header, *lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        if header != LIST_COLUMNS:
            raise ValueError(f"its columns are not {', '.join(LIST_COLUMNS)}")
        for number, cells in enumerate(lines, start=2):
            photo, place, how, root = restore(cells)
            if how not in TRANSFERS or not _is_place(place) or not _is_within(photo, root, path):
                raise ValueError(f"row {number} is none of newkinds'")
            rows.append((photo, place, how, root))
        if len({row[3] for row in rows}) > 1:
            raise ValueError("it names several folders of photos")
    except (ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be used: {error}") from error
    return rows


def _is_place(place: str) -> bool:
    """Whether a text is the name of a folder and that of a file in it."""
    parts = place.split("/")
    return len(parts) == 2 and not {"", ".", ".."} & set(parts) and len(Path(place).parts) == 2


def _is_within(photo: str, root: str, path: Path) -> bool:
    """Whether a photo is in the folder of photos, which a list never is in when it is made."""
    folder = Path(root)
    is_sound = folder.is_absolute() and ".." not in (*folder.parts, *Path(photo).parts)
    return is_sound and Path(photo).is_relative_to(folder) and not path.resolve().is_relative_to(folder)


def _copy(photo: Path, target: Path) -> None:
    partial = target.with_name(PARTIAL_FILE)
    with contextlib.suppress(FileNotFoundError):
        partial.unlink()
    shutil.copyfile(photo, partial)
    with contextlib.suppress(OSError):  # a file system that does not keep times and permissions
        shutil.copystat(photo, partial)
    rename_to_free(partial, target)


def _link(photo: Path, target: Path) -> None:
    try:
        os.symlink(os.path.relpath(photo, target.parent), target)
    except (NotImplementedError, ValueError) as error:  # ValueError: another drive
        raise OSError(errno.ENOTSUP, str(error)) from error


def _move(photo: Path, target: Path) -> None:
    try:
        rename_to_free(photo, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(photo, target)  # another disk
        bring_to_disk(target)
        photo.unlink()


def _remove_copy(photo: Path, target: Path) -> str | None:
    if target.is_symlink() or not target.is_file():
        return "something else is there now"
    if not photo.is_file():
        return "the original is gone, so the copy was kept"
    if Path(os.path.realpath(photo)).is_relative_to(target.parents[1]):
        return "a link is in the original's place, so the copy was kept"
    if not filecmp.cmp(photo, target, shallow=False):
        return "it was changed"
    target.unlink()
    return None


def _remove_link(photo: Path, target: Path) -> str | None:
    if not target.is_symlink():
        return "something else is there now"
    if os.path.normpath(target.parent / os.readlink(target)) != str(photo):
        return "it leads elsewhere now"
    target.unlink()
    return None


def _move_back(photo: Path, target: Path) -> str | None:
    if target.is_symlink() or not target.is_file():
        return "something else is there now"
    if os.path.realpath(photo.parent) != str(photo.parent):
        return f"its old folder {photo.parent} is a link now"
    if photo.is_symlink():
        if os.path.realpath(photo) != str(target):
            return "there is a link at its old place"
        photo.unlink()  # a link to the photo, which comes back in its place
    if os.path.lexists(photo):  # moving to another disk was interrupted, or somebody put something there
        return "there is something at its old place" if _remove_copy(photo, target) else None
    if not photo.parent.is_dir():
        return f"its old folder {photo.parent} is gone"
    _move(target, photo)
    return None


TRANSFERS: dict[Transfer, Callable[[Path, Path], None]] = {"copy": _copy, "link": _link, "move": _move}
UNDO: dict[Transfer, Callable[[Path, Path], str | None]] = {
    "copy": _remove_copy,
    "link": _remove_link,
    "move": _move_back,
}
"""What takes each of them back; gives the reason if it does not."""


def _photos(n: int) -> str:
    return "1 photo" if n == 1 else f"{n:,} photos"


def _some(ids: tuple[str, ...]) -> str:
    return ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")
