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
    assert tickets.notes == (f"2 samples called {word!r} count as unlabelled (as_is=True keeps such names)",)


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
    assert notes == ["1 sample called '?' counts as unlabelled (as_is=True keeps such names)"]


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
    assert tickets.notes == (f"samples are named by the column {name!r} (id=COLUMN for another)",)
    assert tickets.others[name] == ["x1", "x2"]


@pytest.mark.parametrize("cells", [["x", "x"], ["x", None]])
def test_a_column_that_does_not_is_not(tmp_path, cells):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b"], customer_id=cells), text="text")
    assert (tickets.ids, tickets.notes) == (("0", "1"), ())


def test_the_column_of_texts_or_labels_is_never_the_ids(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", text=["a", "b"], case=["x", "y"]), text="text", label="case")
    assert tickets.ids == ("0", "1")


# What a review found


def test_labels_are_joined_by_the_column_that_names_the_samples(tmp_path):
    tickets = saved(tmp_path, "csv", ticket=["A", "B", "C"], text=["a", "b", "c"])
    (tmp_path / "labels.csv").write_text("ticket,label\nC,gamma\nA,alpha\nB,\n")
    collection = read_texts(tickets, labels=tmp_path / "labels.csv")
    assert collection.ids == ("A", "B", "C")
    assert (collection.names, collection.labels.tolist()) == (("alpha", "gamma"), [0, -1, 1])
    (tmp_path / "labels.csv").write_text("case,label\nC,gamma\nA,alpha\nB,\n")
    with refused("labels.csv names its rows by 'case'", "id=…"):
        read_texts(tickets, labels=tmp_path / "labels.csv")


def test_the_name_in_predictions_comes_before_a_label_that_was_carried_along(tmp_path):
    header = "id,category,name,kind,confidence,novelty,label\n"
    (tmp_path / "p.csv").write_text(header + "a,0,card,known,0.9,0,old\nb,1,new-1,new,0.9,1,\n")
    assert read_labels(tmp_path / "p.csv", 2, ["a", "b"]) == ["card", "new-1"]


def test_labels_that_a_person_gave_are_sure(tmp_path):
    (tmp_path / "p.csv").write_text("id,name,confidence,given\na,card,0.3,true\nb,rate,0.3,false\n")
    assert read_labels(tmp_path / "p.csv", 2, ["a", "b"], LabelRules(min_confidence=0.9)) == ["card", None]


def test_words_for_no_label_are_no_classes_of_the_truth(tmp_path):
    source = saved(tmp_path, "csv", text=["a", "b", "c"], label=["card", "", ""], true=["card", "Unknown", "rate"])
    collection = read_texts(source, text="text", truth="true")
    assert collection.truth is not None
    assert (collection.truth.tolist(), collection.names) == ([0, -1, 1], ("card", "rate"))


def test_as_is_takes_even_the_names_that_missing_labels_turn_into(tmp_path):
    source = saved(tmp_path, "csv", text=["a", "b"], label=["None", "card"])
    assert read_texts(source, rules=LabelRules(as_is=True)).names == ("None", "card")


def test_a_number_may_mean_unlabelled(tmp_path):
    source = saved(tmp_path, "jsonl", text=["a", "b"], label=[99, 3])
    assert read_texts(source, rules=LabelRules(unlabelled=("99",))).labels.tolist() == [-1, 3]


def test_the_ids_are_not_the_text_and_the_best_name_wins(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", ticket=["x1", "x2"], message=["hello", "world"]))
    assert (tickets.ids, tickets.items) == (("x1", "x2"), ["hello", "world"])
    columns = {"customer_id": ["c1", "c2"], "TicketID": ["t1", "t2"], "ticket": ["x1", "x2"], "text": ["a", "b"]}
    assert read_texts(saved(tmp_path, "csv", **columns)).ids == ("x1", "x2")


def test_a_users_own_id_is_kept_beside_another(tmp_path):
    source = saved(tmp_path, "csv", id=["1", "1"], ticket=["x1", "x2"], text=["a", "b"])
    assert read_texts(source, id="ticket").others["id"] == ["1", "1"]
