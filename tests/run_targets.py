"""The files of a run folder as targets of `tests.fuzzing`."""

import functools
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from safetensors.numpy import load, save

from newkinds import PIM, FeatureSet
from newkinds.discovery import discover
from newkinds.report import write_report
from newkinds.run_folder import verify_run
from newkinds.runs import save_run
from tests.commands.command_line import LABELS, TRUTH, WIDTH, X
from tests.fuzzing import Target, command_answer, damaged_bytes, damaged_json

MODEL, PREDICTIONS, FEATURES = "model.safetensors", "predictions.parquet", "features.npy"


@functools.cache
def tiny_run() -> dict[str, bytes]:
    """The files of a run with pictures, texts, columns, a truth, and everything chosen by a rule."""
    collection = FeatureSet(
        features=X,
        labels=LABELS,
        truth=TRUTH,
        names=("owl", "wren", "ant"),
        columns=tuple(f"x{i}" for i in range(WIDTH)),
        texts=tuple(f"sample {i}" for i in range(len(X))),
        images=(np.arange(16 * len(X)) % 256).astype(np.uint8).reshape(-1, 4, 4),
        encoder={"name": "tiny", "kind": "images", "fingerprint": "0" * 8},
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_run(discover(collection, method=PIM(random_state=1)), folder, "birds.npz")
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def make(folder: Path, has_checksums: bool = True) -> None:
    for name, content in tiny_run().items():
        (folder / name).write_bytes(content)
    if not has_checksums:
        record = json.loads((folder / "run.json").read_bytes())
        del record["checksums"]
        (folder / "run.json").write_text(json.dumps(record))


def make_old(folder: Path) -> None:
    make(folder, has_checksums=False)


def show(folder: Path) -> Any:
    return command_answer("show", folder, "--all")


def predict(folder: Path) -> Any:
    return command_answer("predict", folder, new_samples())


@functools.cache
def new_samples() -> Path:
    path = Path(tempfile.mkdtemp(prefix="newkinds-fuzz-")) / "new.npy"
    np.save(path, X[:9])
    return path


def report(folder: Path) -> Any:
    return write_report(folder).read_text("utf-8")


def damaged_model(content: bytes) -> st.SearchStrategy[bytes]:
    """Arrays changed, cut, retyped or taken away; the header edited; or bytes damaged."""
    arrays = load(content)
    size = int.from_bytes(content[:8], "little")

    def changed(name: str, edit: Callable[[Any], Any]) -> bytes:
        new = edit(arrays[name].copy())
        others = {key: array for key, array in arrays.items() if key != name}
        return bytes(save(others if new is None else {**others, name: np.ascontiguousarray(new)}))

    def one_value(value: float, at: int) -> Callable[[Any], Any]:
        def edit(array: Any) -> Any:
            is_integer = array.dtype.kind in "iu"
            array.flat[at % array.size] = int(np.clip(np.nan_to_num(value), -7, 7)) if is_integer else value
            return array

        return edit

    edits: list[Callable[[Any], Any]] = [
        *(
            lambda a: None,
            lambda a: a[:-1],
            lambda a: a[..., :-1],
            lambda a: np.concatenate([a, a]),
            lambda a: a[None],
        ),
        *(lambda a: a[::-1], lambda a: a.astype(np.float16), lambda a: a.astype(np.uint8), lambda a: a * 0),
        *(lambda a: a.astype(np.int64), lambda a: a > 0, lambda a: a.reshape(-1), lambda a: -a, lambda a: a + 1),
    ]
    values = st.builds(
        one_value,
        st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 0.0, 1e30, 7.0]),
        st.integers(0, 10**4),
    )
    header = damaged_json(content[8 : 8 + size])
    return st.one_of(
        st.builds(changed, st.sampled_from(sorted(arrays)), st.sampled_from(edits) | values),
        st.builds(lambda new: len(new).to_bytes(8, "little") + new + content[8 + size :], header),
        damaged_bytes(content),
    )


def damaged_table(content: bytes) -> st.SearchStrategy[bytes]:
    """Columns taken away, retyped, changed in one place, rows taken away; or bytes damaged."""
    table = pq.read_table(io.BytesIO(content))

    def written(new: pa.Table) -> bytes:
        file = io.BytesIO()
        pq.write_table(new, file)
        return file.getvalue()

    def with_values(name: str, values: Any) -> bytes:
        place = table.column_names.index(name)
        return written(table.set_column(place, name, pa.array(values)))

    def one_value(name: str, at: int, value: Any) -> bytes:
        values = table[name].to_pylist()
        values[at % len(values)] = value
        kinds = {type(item) for item in values if item is not None}
        return with_values(name, values if len(kinds) == 1 else [None if v is None else str(v) for v in values])

    odd = [
        None,
        -1,
        7,
        2**40,
        0.5,
        float("nan"),
        -0.5,
        2.0,
        "",
        "x",
        "<b>",
        b"",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        True,
    ]
    name = st.sampled_from(table.column_names)
    return st.one_of(
        st.builds(lambda n: written(table.drop_columns([n])), name),
        st.builds(lambda n, m: written(table.append_column(n, table[m])), name, name),
        st.builds(lambda n: written(table.slice(0, n)), st.integers(0, len(table))),
        st.builds(lambda n: written(pa.concat_tables([table, table.slice(0, n)])), st.integers(1, 3)),
        st.builds(one_value, name, st.integers(0, len(table) - 1), st.sampled_from(odd)),
        st.builds(lambda n, v: with_values(n, [v] * len(table)), name, st.sampled_from(odd)),
        damaged_bytes(content),
    )


RUN_TARGETS = [
    Target("run.json, show", make, "run.json", damaged_json, show),
    Target("run.json, predict", make, "run.json", damaged_json, predict),
    Target("run.json, report", make, "run.json", damaged_json, report),
    Target("model, predict", make, MODEL, damaged_model, predict),
    Target("predictions, report", make, PREDICTIONS, damaged_table, report),
    Target("features, verify_run", make, FEATURES, damaged_bytes, verify_run),
    Target("run.json of old, show", make_old, "run.json", damaged_json, show, must_agree=False),
    Target("run.json of old, predict", make_old, "run.json", damaged_json, predict, must_agree=False),
    Target("run.json of old, report", make_old, "run.json", damaged_json, report, must_agree=False),
    Target("model of old, predict", make_old, MODEL, damaged_model, predict, must_agree=False),
    Target("predictions of old, report", make_old, PREDICTIONS, damaged_table, report, must_agree=False),
    Target("features of old, verify_run", make_old, FEATURES, damaged_bytes, verify_run),
]
"""With checksums no answer may differ. Without, as in runs of older versions, one may."""
