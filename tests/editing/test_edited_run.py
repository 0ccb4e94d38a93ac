"""Operations on a run: what they do to categories and samples, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import newkinds
from newkinds import InputError
from newkinds.editing import EditedRun, create, dissolve, merge, move, preview_split, redo, split, undo
from newkinds.journal import read_journal
from newkinds.run_folder import read_predictions, read_run
from tests.editing.conftest import X


def names(run: Path) -> list[str]:
    return [category["name"] for category in read_run(run)["categories"]]


def ids(run: Path) -> list[int]:
    return [category["id"] for category in read_run(run)["categories"]]


def sizes(run: Path) -> list[int]:
    return [category["size"] for category in read_run(run)["categories"]]


def category_of(run: Path, row: int) -> str:
    name: str = read_predictions(run)["name"][row].as_py()
    return name


def rows_of(run: Path, category: str) -> list[int]:
    return EditedRun(run).members(category).tolist()


# Merge


def test_a_merge_keeps_one_id_and_retires_the_other(run: Path) -> None:
    entry = merge(run, ["new-1", "new-2"])
    assert names(run) == ["ant", "owl", "wren", "new-1", "new-3"]
    assert ids(run) == [0, 1, 2, 3, 5]
    assert sizes(run) == [20, 20, 20, 40, 20]
    assert entry.outcome["retired"] == [[4, 3]]
    with pytest.raises(InputError, match="the run has no category 'new-2'"):
        merge(run, ["new-2", "new-3"])


def test_a_known_category_stays_when_a_new_one_is_merged_with_it(run: Path) -> None:
    merge(run, ["new-1", "owl"])
    assert names(run) == ["ant", "owl", "wren", "new-2", "new-3"]
    assert sizes(run)[1] == 40
    with pytest.raises(InputError, match="'owl' is known, so it is the one that stays"):
        merge(run, ["new-2", "owl"], into="new-2")


def test_two_known_categories_are_merged_only_if_that_is_said(run: Path) -> None:
    with pytest.raises(InputError, match=r"'owl' and 'wren' are known.*give known=True"):
        merge(run, ["owl", "wren"])
    merge(run, ["owl", "wren"], known=True)
    assert names(run) == ["ant", "owl", "new-1", "new-2", "new-3"]
    assert read_run(run)["categories"][1]["labelled"] == 20


def test_a_name_given_by_a_person_survives_a_merge(run: Path) -> None:
    edited = EditedRun(run)
    edited.rename("new-2", "bee")
    edited.merge(["new-1", "new-2"], into="new-1")
    assert names(run)[3] == "bee"
    assert read_run(run)["categories"][3]["key"] == "new-1"
    edited.rename("new-3", "cat")
    edited.merge(["bee", "cat"], into="cat")
    assert names(run)[-1] == "cat"
    edited.merge(["cat", "owl"])
    assert names(run) == ["ant", "owl", "wren"]


def test_new_samples_of_a_merged_category_go_to_the_one_that_stays(run: Path) -> None:
    before = newkinds.load(run).predict_proba(X)
    merge(run, ["new-1", "new-3"])
    model = newkinds.load(run)
    assert model.categories_.tolist() == [0, 1, 2, 3, 4]
    expected = before[:, [0, 1, 2, 3, 4]] + np.eye(5)[3] * before[:, [5]]
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    assert set(model.predict_names(X)) == {"ant", "owl", "wren", "new-1", "new-2"}
    table = read_predictions(run)
    members = table["category"].to_numpy() == 3
    np.testing.assert_allclose(table["confidence"].to_numpy()[members], expected[members, 3], atol=2e-3)


# Split


def test_a_split_gives_the_parts_of_its_preview_and_the_largest_keeps_the_id(run: Path) -> None:
    merge(run, ["new-1", "new-2"])
    preview = preview_split(run, "new-1")
    assert len(preview.parts) == 2
    assert preview.separation > 0.3
    assert read_journal(run)[-1].op == "merge"
    split(run, "new-1", 2)
    assert names(run) == ["ant", "owl", "wren", "new-1", "new-3", "new-4"]
    assert ids(run) == [0, 1, 2, 3, 5, 6]
    assert sorted(map(sorted, (rows_of(run, "new-1"), rows_of(run, "new-4")))) == sorted(
        part.tolist() for part in preview.parts
    )
    # New samples go to the parent until a refit.
    assert set(newkinds.load(run).predict(X).tolist()) == {0, 1, 2, 3, 5}


def test_parts_can_be_given_and_have_to_be_the_whole(run: Path) -> None:
    members = rows_of(run, "new-1")
    with pytest.raises(InputError, match="hold each of the 20 samples of 'new-1' once"):
        split(run, "new-1", parts=[members[:5], members[6:]])
    split(run, "new-1", parts=[members[:5], members[5:]])
    assert rows_of(run, "new-4") == members[:5]


@pytest.mark.parametrize("k", [1, 21])
def test_a_split_into_too_few_or_too_many_is_refused(run: Path, k: int) -> None:
    with pytest.raises(InputError, match="can be split into 2 to 20 parts"):
        split(run, "new-1", k)


# Samples


def test_a_moved_sample_is_certain(run: Path) -> None:
    row = rows_of(run, "new-1")[0]
    move(run, [row], "owl")
    sample = read_predictions(run).slice(row, 1).to_pylist()[0]
    assert (sample["name"], sample["kind"], sample["confirmed"]) == ("owl", "known", True)
    assert (sample["confidence"], sample["novelty"]) == (1.0, 0.0)
    owl = read_run(run)["categories"][1]
    assert (owl["size"], owl["labelled"]) == (21, 11)
    assert read_run(run)["source"]["labelled"] == 31


def test_a_labelled_sample_can_be_moved(run: Path) -> None:
    move(run, ["0"], "new-2")  # by its id
    table = read_predictions(run)
    assert (table["name"][0].as_py(), table["given"][0].as_py()) == ("new-2", True)
    assert [category["labelled"] for category in read_run(run)["categories"]] == [9, 10, 10, 0, 1, 0]
    assert read_run(run)["categories"][4]["labelled"] == 1


def test_confirmed_samples_are_labelled(run: Path) -> None:
    edited = EditedRun(run)
    members = edited.members("new-1")[:3]
    edited.confirm(members)
    assert read_run(run)["categories"][3]["labelled"] == 3
    assert edited.samples.confirmed[members].all()
    with pytest.raises(InputError, match="confirmed already"):
        edited.confirm(members)
    edited.move(members[:1], "new-2")
    assert edited.category("new-2")["labelled"] == 1


def test_a_category_is_created_of_samples(run: Path) -> None:
    create(run, np.arange(120) < 4, "bee")
    assert names(run)[-1] == "bee"
    assert read_run(run)["categories"][-1]["key"] == "new-4"
    assert rows_of(run, "bee") == [0, 1, 2, 3]
    with pytest.raises(InputError, match="another category is called 'bee' already"):
        create(run, [5], "BEE")


@pytest.mark.parametrize(
    ("samples", "says"),
    [
        ([], "no samples were given"),
        ([120], "rows should be from 0 to 119"),
        ([-1], "rows should be from 0 to 119"),
        (["nobody"], "the run has no sample 'nobody'"),
        ([0.5], "by their ids, their rows or a mask"),
        (np.ones(3, dtype=bool), r"should have the shape \(120,\)"),
    ],
)
def test_samples_that_are_not_there_are_refused(run: Path, samples: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        move(run, samples, "owl")
    assert not (run / "journal.jsonl").exists()


# Dissolve


def test_the_samples_of_a_dissolved_category_go_to_their_next(run: Path) -> None:
    members = rows_of(run, "new-2")
    probabilities = newkinds.load(run).predict_proba(X)[members]
    probabilities[:, 4] = -1
    dissolve(run, "new-2")
    assert names(run) == ["ant", "owl", "wren", "new-1", "new-3"]
    table = read_predictions(run)
    expected = np.array([0, 1, 2, 3, 4, 5])[probabilities.argmax(axis=1)]
    np.testing.assert_array_equal(table["category"].to_numpy()[members], expected)
    assert 4 not in newkinds.load(run).predict(X)


def test_a_known_category_is_dissolved_only_if_that_is_said(run: Path) -> None:
    with pytest.raises(InputError, match=r"'owl' is known, by its labels.*give known=True"):
        dissolve(run, "owl")
    dissolve(run, "owl", known=True)
    assert read_run(run)["source"]["labelled"] == 20
    assert read_predictions(run)["given"].to_numpy().sum() == 20


def test_the_last_category_stays(run: Path) -> None:
    edited = EditedRun(run)
    edited.merge(["ant", "owl", "wren", "new-1", "new-2", "new-3"], known=True)
    with pytest.raises(InputError, match="the last category"):
        edited.dissolve("ant", known=True)


# Undo and redo


def test_undo_and_redo(run: Path) -> None:
    with pytest.raises(InputError, match="there is nothing to undo"):
        undo(run)
    first = read_predictions(run)
    merge(run, ["new-1", "new-2"])
    second = read_predictions(run)
    undo(run)
    assert read_predictions(run).equals(first)
    redo(run)
    assert read_predictions(run).equals(second)
    with pytest.raises(InputError, match="there is nothing to redo"):
        redo(run)
    undo(run)
    move(run, [0], "ant")
    with pytest.raises(InputError, match="there is nothing to redo"):
        redo(run)
    assert [entry.op for entry in read_journal(run)] == ["merge", "undo", "redo", "undo", "move"]


def test_ids_and_keys_are_never_used_again(run: Path) -> None:
    for _ in range(3):
        create(run, [0])
        undo(run)
    create(run, [0])
    assert (ids(run)[-1], read_run(run)["categories"][-1]["key"]) == (9, "new-7")


# Others at work


def test_an_open_run_sees_what_others_do(run: Path) -> None:
    edited = EditedRun(run)
    assert edited.samples.categories[0] == 0
    move(run, [0], "wren")
    assert edited.samples.categories[0] == 0
    assert [entry.op for entry in edited.refresh()] == ["move"]
    assert edited.samples.categories[0] == 2
    merge(run, ["new-1", "new-2"])
    edited.create([5], "bee")  # reads on by itself
    assert [entry.n for entry in read_journal(run)] == [1, 2, 3]
    assert edited.predictions.equals(read_predictions(run))
    assert edited.record == read_run(run)


def test_an_earlier_state_can_be_read(run: Path) -> None:
    move(run, [0], "wren")
    merge(run, ["new-1", "new-2"])
    assert len(read_run(run, as_of=0)["categories"]) == 6
    record = read_run(run, as_of=1)
    assert len(record["categories"]) == 6
    assert read_predictions(run, record)["name"][0].as_py() == "wren"
    with pytest.raises(InputError, match="the journal has 2 entries; got 3"):
        read_run(run, as_of=3)


GOOD = {"n": 1, "time": "", "by": "person", "arguments": {}, "reason": ""}


@pytest.mark.parametrize(
    ("op", "outcome", "says"),
    [
        ("move", {"flows": [[0, 9, [1]]]}, "a category that the run does not have"),
        ("move", {"flows": [[1, 0, [0]]]}, "samples that it takes from category 1 are not there"),
        ("move", {"flows": [[0, 1, [5000]]]}, "row 5000 is beyond the last of 120"),
        ("move", {"flows": [[0, 1, [[0, 10**12]]]]}, "is beyond the last of 120"),
        ("move", {"flows": [[0, 1, [3, 2]]]}, "should be rows of samples that ascend"),
        ("move", {"sizes": [[0, 7, 0]]}, "the sizes of categories do not add up"),
        ("create", {"born": [{"id": 0, "key": "x", "name": None}]}, "category 0 is there already"),
        ("merge", {"retired": [[9, 0]]}, "a category that the run does not have"),
        ("merge", {"shares": {"rows": [1], "confidence": [], "novelty": []}}, "more or fewer shares than rows"),
        ("undo", {"entry": 1}, "entry 1 cannot undo entry 1"),
        ("refit", {"version": "../x"}, "should be a number such as 0002"),
        ("refit", {"version": "0002"}, "is not there"),
    ],
)
def test_a_journal_that_does_not_fit_is_refused(run: Path, op: str, outcome: dict[str, Any], says: str) -> None:
    (run / "journal.jsonl").write_text(json.dumps({**GOOD, "op": op, "outcome": outcome}) + "\n")
    with pytest.raises(InputError, match=says):
        read_predictions(run)


def test_labels_of_an_opened_run_are_as_they_stand(run: Path) -> None:
    edited = EditedRun(run)
    edited.confirm(edited.members("new-1")[:2])
    edited.create([0], "bee")
    collection = newkinds.open_run(run).collection
    assert collection.n_labelled == 32
    assert collection.name_of(int(collection.labels[0])) == "bee"


# Beside others

BATCHES: dict[str, list[str]] = {
    "undone at once": ["move", "undo"],
    "done again twice": ["move", "rename", "undo", "undo", "redo", "redo"],
    "after a refit": ["refit", "move", "create"],
    "across a refit": ["move", "refit", "undo", "redo", "rename"],
}


@pytest.mark.parametrize("with_samples", [True, False])
@pytest.mark.parametrize("batch", BATCHES)
def test_a_reader_that_catches_up_with_several_entries_sees_what_a_new_one_sees(
    run: Path, batch: str, with_samples: bool
) -> None:
    reader, writer = EditedRun(run), EditedRun(run)
    if with_samples:
        assert len(reader.samples.categories)
    for op in BATCHES[batch]:
        if op == "refit":
            newkinds.editing.refit(writer)
        else:
            arguments = {"move": ([3, 4], "new-1"), "rename": ("new-2", "bee"), "create": ([5, 6],)}
            getattr(writer, op)(*arguments.get(op, ()))
    reader.refresh()
    fresh = EditedRun(run)
    assert reader.record == fresh.record
    for name, array in vars(fresh.samples).items():
        np.testing.assert_array_equal(getattr(reader.samples, name), array)
    born = reader.create([7, 8])  # an id of its own, and a journal that can still be read
    assert EditedRun(run).record == reader.record
    assert born.outcome["born"][0]["id"] not in ids_used(read_journal(run)[:-1])


def ids_used(entries: Any) -> set[int]:
    return {new["id"] for entry in entries for new in entry.outcome.get("born", ())} | set(range(6))


def test_a_new_key_is_no_name_that_a_person_gave(run: Path) -> None:
    edited = EditedRun(run)
    edited.rename("new-1", "new-4")
    edited.split("new-2", 3)
    shown = [category["name"] for category in edited.record["categories"]]
    assert len(set(shown)) == len(shown)
    assert {"new-5", "new-6"} <= set(shown)


def test_numbers_of_numpy_name_categories_too(run: Path) -> None:
    edited = EditedRun(run)
    category = edited.samples.categories[edited.members("new-1")][0]
    assert isinstance(category, np.int64)
    edited.rename(category, "bee")  # type: ignore[arg-type]  # as people who use NumPy will
    assert names(run)[3:] == ["bee", "new-2", "new-3"]


def test_a_split_into_nothing_or_into_too_many_is_refused(run: Path) -> None:
    with pytest.raises(InputError, match="two or more"):
        EditedRun(run).split("new-1", parts=[])
    with pytest.raises(InputError, match="2 to 20 parts; got 21"):
        EditedRun(run).split("new-1", 21)


def test_rows_that_no_run_has_are_refused_in_a_journal(run: Path) -> None:
    move(run, [3], "new-1")
    path = run / "journal.jsonl"
    path.write_text(path.read_text().replace("[3]", f"[{10**20}]"))
    with pytest.raises(InputError, match="damaged"):
        read_run(run)
