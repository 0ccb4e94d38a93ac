"""Folders that Hugging Face's `datasets` saved (`save_to_disk`), read without that package."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from newkinds.data.files import INFO, SPLITS, STATE, load_checked
from newkinds.errors import InputError


def read_saved_dataset(folder: Path) -> dict[str, Any]:
    """The columns of a saved data set; classes by their names."""
    if (folder / SPLITS).is_file():
        parts = load_checked(folder / SPLITS, "a list of parts", lambda: _json(folder / SPLITS)["splits"])
        example = folder / str(parts[0]) if parts else folder
        raise InputError(f"{folder} holds parts of a data set: {', '.join(map(str, parts))}; read one: {example}")
    import pyarrow as pa

    def load() -> pa.Table:
        if _json(folder / STATE).get("_indices_data_files"):
            raise ValueError("it is a selection of rows; save it again after flatten_indices()")
        files = [str(entry["filename"]) for entry in _json(folder / STATE)["_data_files"]]
        if any(Path(name).name != name for name in files):
            raise ValueError("it names files outside of its folder")
        return pa.concat_tables([_read_arrow(folder / name) for name in files]) if files else pa.table({})

    table = load_checked(folder, "a saved data set", load)
    features = load_checked(folder / INFO, "a description of a data set", lambda: _json(folder / INFO)["features"])
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for name, column in columns.items():
        described = features.get(name) if isinstance(features, dict) else None
        names = described.get("names") if isinstance(described, dict) else None
        if isinstance(names, list) and pa.types.is_integer(column.type):
            columns[name] = load_checked(folder, "a saved data set", partial(_class_names, names, column))
    return columns


def _class_names(names: list[str], column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pa.array(names).take(pc.if_else(pc.greater_equal(column, 0), column, None))  # -1: no class


def _read_arrow(path: Path) -> Any:
    import pyarrow as pa

    source = pa.memory_map(str(path))
    try:
        return pa.ipc.open_stream(source).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_file(source).read_all()


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))
