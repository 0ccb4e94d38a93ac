"""Labels as people write them: what means "no label", what is kept, predictions that become labels."""

import pytest

from newkinds.data.images import read_images
from newkinds.data.labelling import LabelRules, read_labels
from newkinds.data.texts import read_texts
from tests.data.refusal import refused
from tests.data.text_tables import saved

WRITTEN = ["Unsorted", "to sort", "TO-SORT", "misc", "unknown", "N/A", "-", "?", "none", "todo", "<NA>", "nan"]


@pytest.mark.parametrize("word", WRITTEN)
def test_what_people_write_where_there_is_no_label(tmp_path, word):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b", "c"], label=["card", word, f" {word} "]))
    assert (tickets.labels.tolist(), tickets.names) == ([0, -1, -1], ("card",))
    assert tickets.notes == (f"2 samples called {word!r} count as unlabelled (--as-is keeps such names)",)


@pytest.mark.parametrize("word", ["Unsorted mail", "unknown soldier", "nano", "other", "A-", "misc. items"])
def test_names_that_only_resemble_them_are_names(word):
    assert LabelRules().taken(["card", word]) == (["card", word], [])


def test_as_is_keeps_every_name(tmp_path):
    source = saved(tmp_path, "csv", text=["a", "b"], label=["card", "misc"])
    tickets = read_texts(source, rules=LabelRules(as_is=True))
    assert (tickets.names, tickets.notes) == (("card", "misc"), ())


def test_names_that_a_person_calls_unlabelled(tmp_path):
    source = saved(tmp_path, "csv", text=["a", "b", "c"], label=["card", "Zu sortieren", "misc"])
    rules = LabelRules(unlabelled=("Zu sortieren",))
    tickets = read_texts(source, rules=rules)
    assert tickets.labels.tolist() == [0, -1, -1]
    assert len(tickets.notes) == 1  # on misc: what was asked for needs no note
    tickets = read_texts(source, rules=LabelRules(unlabelled=("Zu sortieren",), as_is=True))
    assert tickets.names == ("card", "misc")
    with refused("tickets.csv", "no label is called 'Zu Sortieren'", "Zu sortieren"):
        read_texts(source, rules=LabelRules(unlabelled=("Zu Sortieren",)))


def test_a_person_is_asked_about_each_name():
    asked: list[tuple[str, int]] = []

    def confirm(name: str, count: int) -> bool:
        asked.append((name, count))
        return name == "?"

    labels, notes = LabelRules(confirm=confirm).taken(["misc", "?", "misc", None, "card"])
    assert labels == ["misc", None, "misc", None, "card"]
    assert asked == [("misc", 2), ("?", 1)]
    assert notes == ["1 sample called '?' counts as unlabelled (--as-is keeps such names)"]


def test_numbers_with_a_mark_for_no_label_stay_numbers(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b", "c"], label=["3", "-", "7"]))
    assert (tickets.labels.tolist(), tickets.names) == ([3, -1, 7], None)


PREDICTIONS = (
    "id,category,name,kind,confidence,novelty\na,0,card,known,0.9,0.1\nb,1,new-1,new,0.6,0.9\nc,-1,,open,0.3,0.5\n"
)


def test_predictions_are_labels(tmp_path):
    path = tmp_path / "predictions.csv"
    path.write_text(PREDICTIONS)
    ids = ["b", "a", "c", "d"]
    assert read_labels(path, 4, ids) == ["new-1", "card", "", None]
    assert read_labels(path, 4, ids, LabelRules(min_confidence=0.7)) == [None, "card", None, None]


def test_predictions_are_labels_of_photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for name in "abc":
        (tmp_path / "photos" / f"{name}.png").write_bytes(b"x")
    path = tmp_path / "predictions.csv"
    path.write_text(PREDICTIONS.replace("\na,", "\na.png,").replace("\nb,", "\nb.png,").replace("\nc,", "\nc.png,"))
    photos = read_images(tmp_path / "photos", labels=path, rules=LabelRules(min_confidence=0.5))
    assert (photos.labels.tolist(), photos.names) == ([0, 1, -1], ("card", "new-1"))


def test_labels_without_a_confidence_to_choose_by(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\na,card\n")
    with refused("labels.csv has no column 'confidence'", "id, label"):
        read_labels(tmp_path / "labels.csv", 1, ["a"], LabelRules(min_confidence=0.5))
    (tmp_path / "labels.csv").write_text("id,label,confidence\na,card,high\n")
    with refused("labels.csv: line 2 has the confidence 'high'"):
        read_labels(tmp_path / "labels.csv", 1, ["a"], LabelRules(min_confidence=0.5))


# Ids


@pytest.mark.parametrize("name", ["ticket", "Ticket ID", "case_id", "UUID", "Key", "Nr"])
def test_a_column_that_names_every_row_is_taken_for_the_ids(tmp_path, name):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b"], **{name: ["x1", "x2"]}), text="text")
    assert tickets.ids == ("x1", "x2")
    assert tickets.notes == (f"samples are named by the column {name!r} (--id COLUMN for another)",)
    assert tickets.others[name] == ["x1", "x2"]


@pytest.mark.parametrize("cells", [["x", "x"], ["x", None]])
def test_a_column_that_does_not_is_not(tmp_path, cells):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b"], customer_id=cells), text="text")
    assert (tickets.ids, tickets.notes) == (("0", "1"), ())


def test_the_column_of_texts_or_labels_is_never_the_ids(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b"], case=["x", "y"]), text="text", label="case")
    assert tickets.ids == ("0", "1")
