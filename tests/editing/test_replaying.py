"""Whatever is done to a run, its journal tells the same: replayed and incremental states agree bit for bit."""

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.editing import EditedRun
from newkinds.run_folder import read_predictions, read_run
from tests.arrivals import arrive

OPERATIONS = ("rename", "merge", "split", "move", "confirm", "create", "dissolve", "undo", "redo", "arrive")
steps = st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 2**32 - 1)), min_size=1, max_size=14)


def do(run: EditedRun, op: str, seed: int) -> None:
    """Some operation of a kind; one that cannot be is refused."""
    generator = np.random.default_rng(seed)
    ids = [category["id"] for category in run.record["categories"]]
    some = [int(i) for i in generator.permutation(ids)]
    rows = np.flatnonzero(generator.random(len(run.samples.categories)) < generator.choice([0.01, 0.1, 0.6]))
    arguments: dict[str, tuple[Any, ...]] = {
        "rename": (some[0], f"name {generator.integers(5)}"),
        "merge": (some[: generator.integers(2, 4)],),
        "split": (some[0], int(generator.integers(2, 4))),
        "move": (rows, some[0]),
        "confirm": (rows,),
        "create": (rows,),
        "dissolve": (some[0],),
    }
    options = {"known": bool(generator.integers(2))} if op in ("merge", "dissolve") else {}
    if op == "arrive":
        arrive(run, let_go=int(generator.integers(3)))
        return
    with contextlib.suppress(InputError):
        getattr(run, op)(*arguments.get(op, ()), **options)


@settings(max_examples=25)
@given(steps)
def test_replaying_gives_the_state_bit_for_bit(made: Path, steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(shutil.copytree(made, Path(folder, "run")))
        run = EditedRun(place)
        states = {0: (run.record, run.predictions)}
        for op, seed in steps:
            do(run, op, seed)
            states[len(run.entries)] = (run.record, run.predictions)
        for n, (record, table) in states.items():
            again = read_run(place, as_of=n)
            assert again == record
            assert read_predictions(place, again).equals(table)
            check_sense(again, read_predictions(place, again))
        born = [new for entry in run.entries for new in entry.born]
        for part in ("id", "key"):
            assert len({new[part] for new in born}) == len(born)


def check_sense(record: dict[str, Any], table: Any) -> None:
    """A record counts what the table has, and says of samples what their category is."""
    categories, labelled = table["category"].to_numpy(), sample_labels(table)
    for category in record["categories"]:
        members = categories == category["id"]
        assert (category["size"], category["labelled"]) == (members.sum(), (members & labelled).sum())
    assert sum(category["size"] for category in record["categories"]) == len(table)
    names = [category["name"].casefold() for category in record["categories"]]
    assert len(set(names)) == len(names)
    confirmed = table["confirmed"].to_numpy()
    assert (table["confidence"].to_numpy()[confirmed] == 1).all()


def sample_labels(table: Any) -> Any:
    return table["given"].to_numpy() | table["confirmed"].to_numpy()


@pytest.mark.parametrize("name", ["<b>x</b>", "=1+1", "../../etc", "née 🐝", "a" * 200, "new-77"])
def test_odd_names_are_kept_as_they_are(run: Path, name: str) -> None:
    edited = EditedRun(run)
    edited.create([0, 1], name)
    assert read_run(run)["categories"][-1]["name"] == name
    assert read_predictions(run)["name"][0].as_py() == name
