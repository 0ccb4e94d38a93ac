"""The run folder as it lies on disk: its files, and reading them.

A folder holds `run.json` (everything chosen, measured and warned of), `model.safetensors`, `features.npy`
(unit length, float16), `predictions.parquet` and `.csv`, `map.npy` (a place in the plane for every sample),
`report.html`, `journal.jsonl` once it was edited, `past.safetensors` where samples are no longer kept, and
`waiting.samples` where some wait for the next update. Nothing in it is pickled. Whatever only looks at a run (the
report, `newkinds show`) needs no more than this module, and so does not wait for PyTorch.

A refit or an update adds a version, `versions/0002`, with a `run.json`, a model and predictions of its own. The
samples of a refit are those that were there: features, map and pictures are not written again. An update brings
samples, and so its version has features of its own. `samples` in a version's `run.json` names the version whose
features, map and pictures are used; without it they are the run's. The journal says which version a run is at: one
that it does not name is what was left by a command that was killed.

What is read is checked first: `run.json` by `newkinds.run_record`, the other files against the checksums that it
holds. Runs of before there were checksums are read without them.
"""

import difflib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newkinds.errors import InputError
from newkinds.journal import JOURNAL_FILE, effective_entries, read_journal, since_version
from newkinds.names import listed
from newkinds.run_record import CHECKED_FILES, OPTIONAL_FILES, format_record, is_version, open_file, parse_record
from newkinds.run_record import FEATURES_FILE as FEATURES_FILE
from newkinds.run_record import MAP_FILE as MAP_FILE
from newkinds.run_record import MODEL_FILE as MODEL_FILE
from newkinds.run_record import PAST_FILE as PAST_FILE
from newkinds.run_record import PREDICTIONS_TABLE as PREDICTIONS_TABLE
from newkinds.run_record import RUN_FILE as RUN_FILE
from newkinds.run_record import SCHEMA_VERSION as SCHEMA_VERSION
from newkinds.standing import SampleState, Standing, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

PREDICTIONS_TEXT, REPORT_FILE = "predictions.csv", "report.html"
WAITING_FILE = "waiting.samples"
"""Samples that were answered by `newkinds watch` and wait for the next update, see `newkinds.editing.waiting`."""
LARGEST_RECORD = 1 << 28
"""Bytes of the largest `run.json` that is read."""
PICTURE_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"RIFF": "image/webp"}
"""How pictures begin, and what they are. (A RIFF that is not WebP is shown as a broken picture.)"""
PICTURES = "thumbnail"
"""The column of predictions that holds pictures."""
NEAR, SHOWN_NAMES = 3, 10
"""Names that an error offers: some that are like the one asked for, or else the first ones."""
RUN_FILES = (
    *(RUN_FILE, MODEL_FILE, FEATURES_FILE, PREDICTIONS_TABLE, PREDICTIONS_TEXT, MAP_FILE, PAST_FILE, REPORT_FILE),
    *(JOURNAL_FILE, WAITING_FILE),
)
"""The files that we write into a run folder."""
NOT_COPIED = (REPORT_FILE, WAITING_FILE)
"""Those that a copy of a run does without: the report is made anew, samples that wait wait for the run itself."""
VERSIONS = "versions"
"""The folder of a run's later versions."""
OF_EACH_VERSION = (RUN_FILE, MODEL_FILE, PREDICTIONS_TABLE, PREDICTIONS_TEXT, PAST_FILE)
"""Files that every version has of its own; the last one only where samples are no longer kept."""
OF_SAMPLES = (FEATURES_FILE, MAP_FILE)
"""Files about samples alone: of a run, and of those versions that have samples of their own."""


def check_replaceable(folder: Path, force: bool, source: str | None = None) -> None:
    """Refuse to replace what is at a place, except a run of ours: if that is forced, or of a certain source."""
    try:
        record = json.loads((folder / RUN_FILE).read_bytes())
        is_ours = isinstance(record["schema_version"], int) and isinstance(record["versions"]["newkinds"], str)
        name = record["source"]["name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        is_ours, name = False, None
    if not is_ours:
        raise InputError(f"{folder} already exists and is not a run folder; choose another place")
    if not force and (source is None or name != source):
        raise InputError(f"{folder} already holds a run; choose another place, or replace it with --force")
    if os.path.lexists(folder / JOURNAL_FILE):
        raise InputError(
            f"{folder} holds a run that was edited since ({JOURNAL_FILE}): it is not replaced; choose another place"
        )
    if os.path.lexists(folder / WAITING_FILE):
        raise InputError(
            f"{folder} holds samples that wait for its next update ({WAITING_FILE}): it is not replaced; choose "
            "another place"
        )


def check_not_of_a_run(target: Path) -> None:
    """Refuse to write a file in the place of one that belongs to a run, whichever run that is."""
    if target.name.lower() in RUN_FILES and (target.parent / RUN_FILE).is_file():
        raise InputError(f"{target} belongs to the run in {target.parent}; choose another place")


def read_run(run: str | Path, as_of: int | None = None) -> dict[str, Any]:
    """What `run.json` says, as it stands after the run's journal; InputError names the key that is wrong.

    See `newkinds.standing.Standing` for the names of categories. `journal` says how many entries were read, and
    which version the run is at. With `as_of`, the record as it stood after that entry of the journal.
    """
    folder = Path(run)
    first = read_record(folder)
    entries = read_journal(folder, as_of)
    version, later = since_version(effective_entries(entries)[0])
    base = first if version is None else read_record(folder, version)
    return {**standing(base, later), "journal": {"entries": len(entries), "version": version}}


def read_record(folder: Path, version: str | None = None) -> dict[str, Any]:
    """`run.json` of a run, or of one of its versions, as it was written."""
    path = _place(folder, version) / RUN_FILE
    if version is None and not path.is_file():
        raise InputError(f"{folder} is not a run folder: it has no {RUN_FILE} (`newkinds discover` makes one)")
    if version is not None and not has_version(folder, version):
        raise InputError(f"{path} is not there: the run does not keep its version {version} any more")
    with open_file(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_RECORD:
            raise InputError(f"{path} is damaged: it is larger than {LARGEST_RECORD >> 20} MiB")
        content = file.read(LARGEST_RECORD)
    record = parse_record(content, path)
    samples = record.get("samples")
    if samples is not None and (version is None or int(samples) > int(version)):
        raise InputError(f"{path} is damaged: its samples should be those of an earlier version; got {samples!r}")
    return record


def has_version(folder: Path, version: str | None) -> bool:
    """Whether a run still keeps a version; None is its first, which it always keeps."""
    return version is None or (_place(folder, version) / RUN_FILE).is_file()


def run_file(run: str | Path, record: dict[str, Any], name: str) -> Path:
    """Where a file of a run lies: with the record's version, with the one whose samples it has, or with the run."""
    version = record.get("journal", {}).get("version") if name in OF_EACH_VERSION else None
    if name in OF_SAMPLES:
        version = record.get("samples")
    return _place(run, version) / name


def pictures_file(run: str | Path, record: dict[str, Any]) -> Path:
    """The table that holds the pictures of a run's samples, if there are any."""
    return _place(run, record.get("samples")) / PREDICTIONS_TABLE


def _place(run: str | Path, version: str | None) -> Path:
    """The folder of a run, or of one of its versions. Whatever names it, only a version's name leads anywhere."""
    if version is None:
        return Path(run)
    if not is_version(version):
        raise InputError(f"{run} has no version {version!r}: versions are numbers such as 0002")
    return Path(run, VERSIONS, version)


def write_run(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json` with the checksums of the files it describes, which must be there already, and its own."""
    names = [*CHECKED_FILES, *(name for name in OPTIONAL_FILES if (folder / name).is_file())]
    checksums = {name: file_checksum(folder / name) for name in names}
    (folder / RUN_FILE).write_text(format_record(record, checksums), "utf-8")


def report_is_current(run: Path) -> bool:
    """Whether a run folder has a report, written after the last change of its journal."""
    report, journal = run / REPORT_FILE, run / JOURNAL_FILE
    if not report.is_file():
        return False
    return not journal.is_file() or report.stat().st_mtime_ns >= journal.stat().st_mtime_ns


def verify_run(run: str | Path) -> list[str]:
    """Check every file of a run folder against its checksum; InputError names the first that differs.

    Returns the names of the files that were checked: of a run of before there were checksums, `features.npy` alone.
    """
    record = read_run(run)
    names = [name for name in (*CHECKED_FILES, *OPTIONAL_FILES) if expected_checksum(record, name) is not None]
    for name in names:
        check_file(run_file(run, record, name), record)
    return [*names, RUN_FILE] if "checksums" in record else names


def copy_run(run: Path, folder: Path) -> None:
    """Copy a run, but for its report and samples that wait, into an existing, empty folder, once it is checked."""
    verify_run(run)
    versions = {entry.version for entry in read_journal(run) if entry.version is not None}
    names = [name for name in RUN_FILES if name not in NOT_COPIED]
    of_versions = (*OF_EACH_VERSION, *OF_SAMPLES)
    names += [f"{VERSIONS}/{version}/{name}" for version in sorted(versions) for name in of_versions]
    for name in names:
        if (run / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run / name, folder / name)


def check_if_own(path: str | Path, run: str | Path) -> None:
    """Refuse a file that belongs to the run and was changed or damaged; other files are not looked at."""
    path, folder = Path(path), Path(run).resolve()
    if path.name not in (*CHECKED_FILES, *OPTIONAL_FILES) or not path.is_file():
        return
    place = path.parent.resolve()
    if place == folder:
        check_file(path, read_record(folder))
    elif place.parent == folder / VERSIONS and is_version(place.name):
        check_file(path, read_record(folder, place.name))


def check_file(path: Path, record: dict[str, Any]) -> None:
    """Refuse a file of a run folder that cannot be read, or is not the one that `run.json` describes."""
    open_file(path).close()
    expected = expected_checksum(record, path.name)
    if expected is not None and file_checksum(path) != expected:
        raise InputError(f"{path} is not the file that {RUN_FILE} describes: it was changed or damaged")


def expected_checksum(record: dict[str, Any], name: str) -> str | None:
    """What a record says of a file; None in runs of before there were checksums."""
    earlier = record.get("features", {}).get("sha256") if name == FEATURES_FILE else None
    checksum: str | None = record.get("checksums", {}).get(name, earlier)
    return checksum


def file_checksum(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_category(record: dict[str, Any], text: str) -> dict[str, Any]:
    """The category of a run with this name, or else this key or id; InputError says which ones are like it."""
    categories: list[dict[str, Any]] = record["categories"]
    wanted = text.strip()
    folded = [category for category in categories if category["name"].casefold() == wanted.casefold()]
    matches = [
        [category for category in categories if category["name"] == wanted],
        [category for category in categories if category["key"] == wanted],
        folded if len(folded) == 1 else [],
        [category for category in categories if str(category["id"]) == wanted],
    ]
    for match in filter(None, matches):
        return match[0]
    names = {category["name"].casefold(): category["name"] for category in categories}
    near = [names[name] for name in difflib.get_close_matches(wanted.casefold(), names, n=NEAR, cutoff=0.5)]
    near += [name for key, name in names.items() if wanted.casefold() in key and name not in near][:NEAR]
    advice = f"did you mean {listed(tuple(near[:NEAR]))}?" if near else f"there are {_first_names(categories)}"
    raise InputError(f"the run has no category {text!r}; {advice}")


def shown_name(category: dict[str, Any]) -> str:
    """How a category is called where there is room for one name: by a person, or by its key and our suggestion."""
    suggestion = category.get("suggestion")
    name: str = category["name"]
    return name if category["named"] or not suggestion else f"{name} ({suggestion}?)"


def category_names(category: dict[str, Any]) -> dict[str, str | None]:
    """Its key, the name that a person gave it or None, and the one that we suggest or None."""
    return {
        "key": category["key"],
        "name": category["name"] if category["named"] else None,
        "suggestion": category.get("suggestion"),
    }


def _first_names(categories: list[dict[str, Any]]) -> str:
    more = ", …" if len(categories) > SHOWN_NAMES else ""
    return ", ".join(category["name"] for category in categories[:SHOWN_NAMES]) + more


def read_predictions(run: str | Path, record: dict[str, Any] | None = None, *, pictures: bool = True) -> "pa.Table":
    """The samples of a run as they stand, checked against its record (by default, what `read_run` gives).

    The table is `predictions.parquet`, changed by what the journal says, up to the entry that the record is of.
    Without `pictures` the thumbnails are not read, which take most of the room.
    """
    if record is None:
        record = read_run(run)
    folder, n_entries = Path(run), record.get("journal", {}).get("entries", 0)
    entries = read_journal(folder)[:n_entries] if n_entries else ()
    version, later = since_version(effective_entries(entries)[0])
    base = record if not later and version is None else read_record(folder, version)
    table = read_table(folder, base, version, pictures=pictures)
    if not later:
        return as_standing(table, sample_state(table), record["categories"])
    state = Standing(base, sample_state(table))
    for entry in later:
        state.apply(entry)
    assert state.samples is not None
    return as_standing(table, state.samples, record["categories"])


def read_table(folder: Path, record: dict[str, Any], version: str | None, *, pictures: bool = False) -> "pa.Table":
    """`predictions.parquet` of a run or a version as it was written, checked against that one's record.

    This thread reads it: PyArrow's own, which read an open file, may abort a program that ends soon after.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = run_file(folder, {"journal": {"version": version}}, PREDICTIONS_TABLE)
    n_samples = record["source"]["samples"]
    check_file(path, record)
    try:
        with open_file(path) as file, pq.ParquetFile(file) as table_file:
            n_rows = table_file.metadata.num_rows
            columns = [name for name in table_file.schema_arrow.names if pictures or name != PICTURES]
            table = table_file.read(columns, use_threads=False) if n_rows == n_samples else None
        if table is not None:
            table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if table is None:
        raise InputError(f"{path} does not fit {RUN_FILE}: it has {n_rows} samples instead of {n_samples}")
    if problem := _table_problem(table, [category["id"] for category in record["categories"]]):
        raise InputError(f"{path} is damaged: {problem}")
    return table


def sample_state(table: "pa.Table") -> SampleState:
    """The samples of a table as `newkinds.standing` changes them; older tables lack some columns."""
    import numpy as np

    def flags(name: str) -> Any:
        there = name in table.column_names
        return np.array(table[name].to_numpy(), dtype=bool) if there else np.zeros(len(table), dtype=bool)

    def shares(name: str) -> Any:
        there = name in table.column_names
        return np.array(table[name].to_numpy(), dtype=np.float32) if there else np.zeros(len(table), np.float32)

    samples = SampleState(
        np.array(table["category"].to_numpy(), dtype=np.int64),
        flags("given"),
        flags("confirmed"),
        shares("confidence"),
        shares("novelty"),
        shares("strangeness"),
        flags("held"),
    )
    samples.strangeness[samples.labelled], samples.held[samples.labelled] = 0, False
    return samples


def as_standing(table: "pa.Table", samples: SampleState, categories: list[dict[str, Any]]) -> "pa.Table":
    """A table of predictions with what is known of the samples now, and with the names that categories have."""
    import pyarrow as pa

    values: dict[str, Any] = {
        "category": samples.categories,
        "confidence": samples.confidence,
        "novelty": samples.novelty,
        "given": samples.given,
        "confirmed": samples.confirmed,
        "strangeness": samples.strangeness,
        "held": samples.held,
    }
    for name, array in values.items():
        column = pa.array(array.copy())  # it would change with the samples
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, column)
        elif name == "confirmed" and "given" in table.column_names:
            table = table.add_column(table.column_names.index("given") + 1, name, column)
    return with_names(table, categories)


def with_names(table: "pa.Table", categories: list[dict[str, Any]]) -> "pa.Table":
    """Predictions with the names, kinds and suggestions that categories have now; a named one has no suggestion."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = pc.index_in(table["category"], pa.array([c["id"] for c in categories], pa.int64()))
    columns = {
        "name": [c["name"] for c in categories],
        "kind": [c["kind"] for c in categories],
        "suggestion": [(not c["named"] and c.get("suggestion")) or "" for c in categories],
    }
    for name, cells in columns.items():
        if name in table.column_names:
            column = pa.array(cells, pa.string()).take(places)
            table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    return table


def read_pictures(run: str | Path, record: dict[str, Any], rows: "Sequence[int]") -> list[bytes]:
    """The pictures of some samples, in the order of `rows`; none where the run has no pictures.

    The rest of the table is not read.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = pictures_file(run, record)
    pictures: dict[int, bytes] = {}
    try:
        with open_file(path) as file, pq.ParquetFile(file) as table_file:
            if PICTURES not in table_file.schema_arrow.names:
                return []
            first = 0
            for group in range(table_file.num_row_groups):
                n_rows = table_file.metadata.row_group(group).num_rows
                wanted = [row for row in rows if first <= row < first + n_rows]
                if wanted:
                    column = table_file.read_row_group(group, [PICTURES], use_threads=False)[PICTURES]
                    taken = pc.take(column, pa.array([row - first for row in wanted])).to_pylist()
                    pictures |= dict(zip(wanted, taken, strict=True))
                first += n_rows
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, NotImplementedError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    chosen = [pictures.get(row) for row in rows]
    if any(picture is None or picture_type(picture) is None for picture in chosen):
        raise InputError(f"{path} is damaged: the column {PICTURES} has pictures that are neither PNG nor WebP")
    return [picture for picture in chosen if picture is not None]


def has_pictures(run: str | Path, record: dict[str, Any]) -> bool:
    """Whether the samples of a run, as it stands by its record, have pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = pictures_file(run, record)
    try:
        with open_file(path) as file, pq.ParquetFile(file) as table_file:
            return PICTURES in table_file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def picture_type(picture: bytes) -> str | None:
    """What a picture is, such as "image/png"; None for what we never write."""
    return next((name for beginning, name in PICTURE_TYPES.items() if picture.startswith(beginning)), None)


def _table_problem(table: "pa.Table", ids: list[int]) -> str | None:
    """What is wrong with the columns of predictions that are shown."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types = {
        "id": pa.types.is_string,
        "category": pa.types.is_int64,
        "confidence": pa.types.is_floating,
        "novelty": pa.types.is_floating,
    }
    optional = {
        "name": pa.types.is_string,
        "kind": pa.types.is_string,
        "given": pa.types.is_boolean,
        "confirmed": pa.types.is_boolean,
        "held": pa.types.is_boolean,
        "strangeness": pa.types.is_floating,
        "suggestion": pa.types.is_string,
        "text": pa.types.is_string,
        PICTURES: pa.types.is_binary,
    }
    if missing := [name for name in types if name not in table.column_names]:
        return f"it lacks the column {', '.join(missing)}"
    for name, fits in {**types, **optional}.items():
        places = table.schema.get_all_field_indices(name)
        if len(places) > 1:
            return f"it has the column {name} {len(places)} times"
        if places and (not fits(table[name].type) or table[name].null_count):
            return f"the column {name} has other values than it should ({table[name].type})"
    if not pc.all(pc.is_in(table["category"], pa.array(ids, pa.int64())), min_count=0).as_py():
        return f"it has categories that {RUN_FILE} does not have"
    for name in [share for share in ("confidence", "novelty", "strangeness") if share in table.column_names]:
        share = table[name].cast(pa.float64())
        # NaN is in no range
        inside = pc.and_(pc.greater_equal(share, 0.0), pc.less_equal(share, 1.0 + 1e-6))
        if not pc.all(inside, min_count=0).as_py():
            return f"the column {name} has values that are no probabilities"
    if PICTURES in table.column_names and not any(
        pc.all(pc.starts_with(table[PICTURES], beginning), min_count=0).as_py() for beginning in PICTURE_TYPES
    ):
        return f"the column {PICTURES} has pictures that are neither PNG nor WebP"
    return None
