"""The run folder as it lies on disk: its files, and reading them.

A folder holds `run.json` (everything chosen, measured and warned of), `model.safetensors`, `features.npy`
(unit length, float16), `predictions.parquet` and `.csv`, and `report.html`. Nothing in it is pickled. Whatever only
looks at a run (the report, `newkinds show`) needs no more than this module, and so does not wait for PyTorch.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newkinds import __version__
from newkinds.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
RUN_FILE, MODEL_FILE, FEATURES_FILE, REPORT_FILE = "run.json", "model.safetensors", "features.npy", "report.html"
PREDICTIONS_TABLE, PREDICTIONS_TEXT = "predictions.parquet", "predictions.csv"
RUN_FILES = (RUN_FILE, MODEL_FILE, FEATURES_FILE, REPORT_FILE, PREDICTIONS_TABLE, PREDICTIONS_TEXT)
"""All that we write into a run folder."""
RUN_KEYS = (
    *("source", "method", "parameters", "chosen", "curves", "categories", "score", "stopped", "n_iter", "warnings"),
    *("seconds", "versions", "created"),
)
"""Parts of `run.json` that are read again."""


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


def read_run(run: str | Path) -> dict[str, Any]:
    """`run.json` of a run folder, checked."""
    folder = Path(run)
    path = folder / RUN_FILE
    if not path.is_file():
        raise InputError(f"{folder} is not a run folder: it has no {RUN_FILE} (`newkinds discover` makes one)")
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("schema_version") != SCHEMA_VERSION:
        version = record.get("schema_version") if isinstance(record, dict) else None
        raise InputError(
            f"{path} has schema version {version}; newkinds {__version__} reads version {SCHEMA_VERSION}"
        )
    if missing := [key for key in RUN_KEYS if key not in record]:
        raise InputError(f"{path} is damaged: it lacks {', '.join(missing)}")
    return record


def read_predictions(run: str | Path) -> "pa.Table":
    """`predictions.parquet` of a run folder."""
    import pyarrow.parquet as pq

    path = Path(run) / PREDICTIONS_TABLE
    try:
        return pq.read_table(path)
    except (OSError, ValueError, NotImplementedError) as error:  # what Arrow's own errors derive from
        raise InputError(f"{path} cannot be read: {error}") from error
