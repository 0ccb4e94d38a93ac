"""Texts from tables: every format, what spreadsheets do to files, and every way in which a file can be bad."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.data.texts import read_texts

TEXTS = ["card lost", "where is my refund?", "card eaten, again"]
LABELS = ["card", None, "card"]


def refused(*parts: str):
    """Expect an InputError that says all of `parts`, in order."""
    return pytest.raises(InputError, match="(?s)" + ".*".join(map(re.escape, parts)))


def written(folder: Path, content: str | bytes, name: str = "tickets.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def saved(folder: Path, ending: str, **columns: list) -> Path:
    path = folder / f"tickets.{ending}"
    table = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})
    if ending == "parquet":
        pq.write_table(pa.table(columns), path)
    elif ending in {"jsonl", "ndjson"}:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    else:
        table.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    return path


ENDINGS = ["csv", "tsv", "jsonl", "ndjson", "parquet"]


# Every format


@pytest.mark.parametrize("ending", ENDINGS)
def test_texts_and_labels_from_every_kind_of_table(tmp_path, ending):
    tickets = read_texts(saved(tmp_path, ending, text=TEXTS, label=LABELS))
    assert tickets.kind == "texts"
    assert list(tickets.items) == TEXTS
    assert tickets.ids == ("0", "1", "2")
    assert tickets.labels.tolist() == [0, -1, 0]
    assert tickets.names == ("card",)
    assert tickets.truth is None
    assert tickets.skipped == ()


def test_one_text_a_line(tmp_path):
    tickets = read_texts(written(tmp_path, "first\r\n\r\nthird\u2028still third\nlast", "tickets.TXT"))
    assert tickets.items == ["first", "third\u2028still third", "last"]
    assert tickets.ids == ("0", "2", "3")
    assert tickets.skipped == (("1", "the text is blank"),)
    assert tickets.labels.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_by_name(tmp_path, ending):
    source = saved(tmp_path, ending, key=["a", "b", "c"], body=TEXTS, text=["x", "y", "z"], intent=LABELS)
    tickets = read_texts(str(source), text="body", label="intent", id="key", truth="intent")
    assert list(tickets.items) == TEXTS
    assert tickets.ids == ("a", "b", "c")
    assert tickets.labels.tolist() == tickets.truth.tolist() == [0, -1, 0]


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_only_column_of_words_is_the_text(tmp_path, ending):
    source = saved(tmp_path, ending, id=["a", "b", "c"], score=[1.5, 2.0, 3.0], query=TEXTS, label=LABELS)
    assert list(read_texts(source).items) == TEXTS


def test_the_column_named_as_truth_is_not_the_text(tmp_path):
    source = saved(tmp_path, "csv", query=TEXTS, kind=["card", "money", "card"])
    tickets = read_texts(source, truth="kind")
    assert list(tickets.items) == TEXTS
    assert tickets.truth.tolist() == [0, 1, 0]
    assert tickets.labels.tolist() == [-1, -1, -1]


def test_capitals_in_the_names_of_columns_do_not_count(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", ID=["a", "b", "c"], Text=TEXTS, LABEL=LABELS))
    assert (tickets.ids, list(tickets.items), tickets.names) == (("a", "b", "c"), TEXTS, ("card",))


@pytest.mark.parametrize("ending", ENDINGS)
def test_several_columns_that_could_be_the_text_are_refused_with_their_names(tmp_path, ending):
    with refused("tickets", "could be any of title, body", "text=", "title, body, n"):
        read_texts(saved(tmp_path, ending, title=TEXTS, body=TEXTS, n=[1, 2, 3]))


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_without_words_is_refused(tmp_path, ending):
    with refused("tickets", "not to be found", "a, label"):
        read_texts(saved(tmp_path, ending, a=[1, 2, 3], label=LABELS))


@pytest.mark.parametrize("role", ["text", "label", "id"])
def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path, role):
    with refused("tickets.csv has no column 'nothing'", "text, label"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), **{role: "nothing"})


def test_the_row_names_of_pandas_are_not_the_text(tmp_path):
    pd.DataFrame({"query": TEXTS}, index=["a", "b", "c"]).to_parquet(tmp_path / "tickets.parquet")
    assert read_texts(tmp_path / "tickets.parquet").items == TEXTS
    pd.DataFrame({"query": TEXTS}, index=["a", "b", "c"]).to_csv(tmp_path / "tickets.csv")
    assert read_texts(tmp_path / "tickets.csv").items == TEXTS


def test_categories_of_pandas(tmp_path):
    table = pd.DataFrame({"query": pd.Categorical(TEXTS), "label": pd.Categorical(["b", None, "a"])})
    table.to_parquet(tmp_path / "tickets.parquet")
    tickets = read_texts(tmp_path / "tickets.parquet")
    assert (tickets.items, tickets.labels.tolist(), tickets.names) == (TEXTS, [1, -1, 0], ("a", "b"))


# Rows without a text


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_rows_without_a_text_are_left_out_and_the_others_keep_their_ids(tmp_path, ending):
    texts = ["a", None, " \t\u3000", "d", ""]
    tickets = read_texts(saved(tmp_path, ending, text=texts, label=["x", "only here", "y", "y", None]))
    assert tickets.items == ["a", "d"]
    assert tickets.ids == ("0", "3")
    assert tickets.labels.tolist() == [0, 1]
    assert tickets.names == ("x", "y")
    assert tickets.skipped == (("1", "there is no text"), ("2", "the text is blank"), ("4", "the text is blank"))


def test_left_out_rows_are_called_by_their_ids(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", id=["a", "b"], text=["x", "  "]))
    assert (tickets.ids, tickets.skipped) == (("a",), (("b", "the text is blank"),))


def test_a_table_of_blank_texts_is_refused(tmp_path):
    with refused("tickets.csv has no texts", "'text'", "2 rows"):
        read_texts(written(tmp_path, "text,label\n,a\n ,b\n"))


def test_numbers_among_texts_are_texts(tmp_path):
    assert read_texts(saved(tmp_path, "jsonl", text=["a", 12, 1.5])).items == ["a", "12", "1.5"]


def test_a_very_long_text_is_kept_and_the_limit_of_csv_left_alone(tmp_path):
    before = csv.field_size_limit()
    long = "word " * 100_000
    assert read_texts(written(tmp_path, f'text,label\n"{long}",a\n')).items == [long]
    assert csv.field_size_limit() == before
    with refused("line 2"):
        read_texts(written(tmp_path, "text,label\na\n"))
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_row_without_an_id_is_refused_with_its_line(tmp_path, ending):
    source = saved(tmp_path, ending, id=["", "b"], text=["x", "y"])
    with refused("tickets", "line 2" if ending == "csv" else "line 1", "'id'"):
        read_texts(source)


# Labels and truth


def test_integers_as_labels(tmp_path):
    tickets = read_texts(saved(tmp_path, "csv", text=TEXTS, label=["3", "", "-1"]))
    assert (tickets.labels.tolist(), tickets.names) == ([3, -1, -1], None)


def test_labels_and_truth_share_their_names(tmp_path):
    truth = ["card", "account", "card"]
    tickets = read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS, kind=truth), truth="kind")
    assert tickets.names == ("card", "account")
    assert tickets.truth.tolist() == [0, 1, 0]


def test_numbers_are_names_where_the_truth_has_names_too(tmp_path):
    source = saved(tmp_path, "csv", text=TEXTS, label=["10", "", "9"], kind=["10", "other", "9"])
    tickets = read_texts(source, truth="kind")
    assert tickets.names == ("9", "10", "other")
    assert tickets.labels.tolist() == [1, -1, 0]
    assert tickets.truth.tolist() == [1, 2, 0]


@pytest.mark.parametrize("ending", ["npy", "txt", "csv", "parquet"])
def test_a_file_of_labels_counts_all_rows_and_takes_the_place_of_the_column(tmp_path, ending):
    source = saved(tmp_path, "parquet", text=["a", "", "c"], label=["other", "other", "other"])
    path = tmp_path / f"labels.{ending}"
    if ending == "npy":
        np.save(path, np.array(["x", "y", ""]))
    elif ending == "parquet":
        pq.write_table(pa.table({"label": ["x", "y", None]}), path)
    else:
        path.write_text(("label\n" if ending == "csv" else "") + "x\ny\n\n")
    tickets = read_texts(source, labels=path, truth=path)
    assert (tickets.ids, tickets.labels.tolist(), tickets.names) == (("0", "2"), [0, -1], ("x",))
    assert tickets.truth.tolist() == [0, -1]


@pytest.mark.parametrize("as_text", [True, False])
def test_files_of_labels_by_id(tmp_path, as_text):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS)
    labels = written(tmp_path, "id,label\nc,x\n", "labels.csv")
    truth = written(tmp_path, "id,label\na,y\nc,x\n", "truth.csv")
    tickets = read_texts(source, labels=labels, truth=str(truth) if as_text else truth)
    assert tickets.labels.tolist() == [-1, -1, 0]
    assert tickets.truth.tolist() == [1, -1, 0]


def test_blanks_around_an_id_do_not_count(tmp_path):
    source = saved(tmp_path, "csv", id=["a ", "b", "c"], text=TEXTS)
    labels = written(tmp_path, "id,label\na ,x\n b,y\n", "labels.csv")
    assert read_texts(source, labels=labels).labels.tolist() == [0, 1, -1]


def test_an_id_that_no_text_has_is_refused_with_its_line(tmp_path):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS)
    labels = written(tmp_path, 'id,label\na,"x\ny"\nd,x\n', "labels.csv")
    with refused("labels.csv: line 4", "'d'", "not in the collection", "a, b, c"):
        read_texts(source, labels=labels)


def test_a_truth_that_is_neither_a_column_nor_a_file_is_refused(tmp_path):
    with refused("truth='intent' is neither a column of", "text, label", ".csv"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), truth="intent")
    with refused("none.csv does not exist"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, label=LABELS), truth="none.csv")


def test_a_column_and_a_file_of_labels_at_once_are_refused(tmp_path):
    with refused("'kind'", "labels.csv", "one of the two"):
        read_texts(saved(tmp_path, "csv", text=TEXTS, kind=LABELS), label="kind", labels="labels.csv")


def test_a_truth_that_contradicts_a_label_is_refused_with_the_text(tmp_path):
    source = saved(tmp_path, "csv", id=["a", "b", "c"], text=TEXTS, label=LABELS, kind=["money"] * 3)
    with refused("tickets.csv: ", "'a' is labelled 'card'", "truth is 'money'", "1 more"):
        read_texts(source, truth="kind")
    truth = written(tmp_path, "id,label\na,money\nc,card\n", "truth.csv")
    with refused("tickets.csv and ", "truth.csv: ", "'a' is labelled 'card'", "truth is 'money'"):
        read_texts(source, truth=truth)


def test_a_labelled_text_without_truth_is_refused_as_it_would_be_later(tmp_path):
    source = saved(tmp_path, "csv", text=TEXTS, label=LABELS, kind=["", "money", "card"])
    with refused("'0' is labelled 'card'", "truth is unknown"):
        read_texts(source, truth="kind")


@pytest.mark.parametrize("label", [[1], {"a": 1}])
def test_labels_that_are_no_labels_are_refused_with_the_file(tmp_path, label):
    with refused("tickets.jsonl", "a label must be an integer or a name"):
        read_texts(saved(tmp_path, "jsonl", text=["a"], label=[label]))


# What spreadsheets and databases write


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("name", ["tickets.csv", "tickets.jsonl", "tickets.txt"])
def test_encodings_that_can_be_told(tmp_path, encoding, name):
    text = "Zoë 🦉 größer"
    content = {
        "csv": f"text,label\n{text},Möwe\n",
        "jsonl": json.dumps({"text": text}, ensure_ascii=False),
        "txt": text,
    }
    source = written(tmp_path, content[name.rpartition(".")[2]].encode(encoding), name)
    assert read_texts(source).items == [text]


@pytest.mark.parametrize("mark", ["utf-16-le", "utf-16-be"])
def test_utf_16_of_either_order_by_its_mark(tmp_path, mark):
    assert read_texts(written(tmp_path, ("\ufefftext\ngrün\n").encode(mark))).items == ["grün"]


@pytest.mark.parametrize(
    ("content", "text", "encoding"),
    [(b"text\nM\xf6we \x80\n", "Möwe €", "cp1252"), (b"text\nM\xf6we \x81\n", "Möwe \x81", "latin-1")],
)
def test_other_encodings_are_guessed_and_said(tmp_path, caplog, content, text, encoding):
    assert read_texts(written(tmp_path, content)).items == [text]
    assert f"tickets.csv is not UTF-8; read as {encoding}" in caplog.text


def test_a_false_mark_is_refused(tmp_path):
    with refused("tickets.csv begins like utf-16 but is not"):
        read_texts(written(tmp_path, b"\xff\xfete\x00\xd8"))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_quotes_with_newlines_and_every_end_of_line(tmp_path, newline):
    lines = ["text,label", '"one', 'two, ""three""",a', "four,b", ""]
    tickets = read_texts(written(tmp_path, newline.join(lines)))
    assert tickets.items == [f'one{newline}two, "three"', "four"]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_another_delimiter_is_found_by_the_header(tmp_path, delimiter):
    rows = [["text", "label", "n"], ["one, two", "a", "1,5"], ["three", "b", "2,5"], [f"x{delimiter}y", "", ""]]
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter).writerows(rows)
    tickets = read_texts(written(tmp_path, buffer.getvalue()))
    assert tickets.items == ["one, two", "three", f"x{delimiter}y"]
    assert tickets.names == ("a", "b")


def test_commas_in_a_file_called_tsv(tmp_path):
    assert read_texts(written(tmp_path, "text,label\nhello,a\n", "tickets.tsv")).names == ("a",)


def test_a_single_column_is_left_whole(tmp_path):
    assert read_texts(written(tmp_path, "text\nhello; you\nand; you; too\n")).items == [
        "hello; you",
        "and; you; too",
    ]
    assert read_texts(written(tmp_path, '"text; all of it"\nhello; you\n')).items == ["hello; you"]
    assert read_texts(written(tmp_path, "text; all of it\nhello\nyou\nx;y;z\n")).items == ["hello", "you", "x;y;z"]


def test_a_single_column_with_a_blank_line_keeps_the_row_numbers(tmp_path):
    tickets = read_texts(written(tmp_path, "text\na\n\nc\n"))
    assert (tickets.items, tickets.ids) == (["a", "c"], ("0", "2"))


def test_blank_lines_in_a_table_are_passed_over(tmp_path):
    tickets = read_texts(written(tmp_path, "\n\ntext,label\n\na,x\n\nb,y\n\n"))
    assert (tickets.items, tickets.ids) == (["a", "b"], ("0", "1"))


def test_quotes_that_mean_nothing_in_a_tsv(tmp_path, caplog):
    lines = ["text\tlabel", '"Go" he said\ta', '5" pipe\tb', '"never closed\tb']
    tickets = read_texts(written(tmp_path, "\n".join(lines) + "\n", "tickets.tsv"))
    assert tickets.items == ['"Go" he said', '5" pipe', '"never closed']
    assert "without quoting" in caplog.text


def test_a_quoted_tsv_is_read_with_its_quotes(tmp_path):
    source = written(tmp_path, 'text\tlabel\n"one\ttwo"\ta\n', "tickets.tsv")
    assert read_texts(source).items == ["one\ttwo"]


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@given(
    rows=st.lists(st.tuples(TEXT, st.sampled_from(["card", "refund, fee", 'so "called"', ""])), min_size=1),
    delimiter=st.sampled_from(",;\t|"),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    newline=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_csv_writes_is_read_back(tmp_path_factory, rows, delimiter, quoting, newline, encoding):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator=newline)
    writer.writerows([("text", "label"), *rows])
    source = written(tmp_path_factory.mktemp("csv"), buffer.getvalue().encode(encoding))
    kept = {str(i): row for i, row in enumerate(rows) if row[0].strip()}
    if not kept:
        with refused("has no texts"):
            read_texts(source)
        return
    tickets = read_texts(source)
    assert list(tickets.items) == [text for text, _ in kept.values()]
    assert tickets.ids == tuple(kept)
    assert [name for name, _ in tickets.skipped] == [str(i) for i in range(len(rows)) if str(i) not in kept]
    names = tickets.names or ()
    assert [names[i] if i >= 0 else "" for i in tickets.labels] == [label for _, label in kept.values()]


@given(st.lists(TEXT.filter(str.strip), min_size=1))
def test_what_json_writes_is_read_back(tmp_path_factory, texts):
    for ascii_only in (True, False):
        lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) for text in texts]
        source = written(tmp_path_factory.mktemp("json"), "\n\n".join(lines), "tickets.jsonl")
        assert read_texts(source).items == texts


# Files that are bad


def test_a_missing_file_is_refused(tmp_path):
    with refused("nowhere.csv does not exist"):
        read_texts(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("name", ["tickets.xlsx", "tickets.json", "tickets"])
def test_an_ending_that_is_not_read_is_refused_with_those_that_are(tmp_path, name):
    with refused(name, ".csv, .tsv, .jsonl, .ndjson, .parquet or .txt"):
        read_texts(written(tmp_path, "x", name))


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "tickets.csv").mkdir()
    with refused("tickets.csv", "cannot be read"):
        read_texts(tmp_path / "tickets.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.txt"])
def test_an_empty_file_is_refused(tmp_path, name):
    with refused(name, "is empty"):
        read_texts(written(tmp_path, "", name))


@pytest.mark.parametrize("content", ["text,label\n", "text\n"])
def test_a_header_alone_is_refused(tmp_path, content):
    with refused("tickets.csv has no rows", "text"):
        read_texts(written(tmp_path, content))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt", "a.tsv"])
def test_blank_lines_alone_are_refused(tmp_path, name):
    with refused(name):
        read_texts(written(tmp_path, "\n\n  \n", name))


def test_rows_of_uneven_length_are_refused_by_the_line_on_which_they_begin(tmp_path):
    content = 'text,label\n"one\ntwo",a\n\nthree,b,c\n'
    with refused("tickets.csv: line 5 has 3 fields where the header has 2", "quotes"):
        read_texts(written(tmp_path, content))
    with refused("tickets.csv: line 3 has 1 fields where the header has 2", "';'"):
        read_texts(written(tmp_path, "text;label\na;b\nc\n"))


def test_a_text_with_commas_and_no_quotes_is_refused_by_its_line(tmp_path):
    with refused("line 3 has 2 fields where the header has 1", "quotes"):
        read_texts(written(tmp_path, "text\nhello\nwell, hello\n"))


@pytest.mark.parametrize("row", ['"never closed,b\nc,d\n', '"he said "hi" to me",b\n', '"a\\"b",c\n'])
def test_quotes_that_do_not_match_are_refused_by_their_line(tmp_path, row):
    with refused("tickets.csv", "quotes of the row at line 3", "twice"):
        read_texts(written(tmp_path, "text,label\nfine,a\n" + row))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.txt"])
def test_a_nul_is_refused_by_its_line(tmp_path, name):
    with refused(name, "line 2", "NUL"):
        read_texts(written(tmp_path, "text,label\na\0b,c\n", name))


def test_utf_16_without_a_mark_is_refused(tmp_path):
    with refused("NUL", "UTF-16", "export it as UTF-8"):
        read_texts(written(tmp_path, "text\nhello\n".encode("utf-16-le")))


def test_columns_of_one_name_are_refused(tmp_path):
    with refused("tickets.csv", "several columns called 'text'"):
        read_texts(written(tmp_path, "text,text\na,b\n"))


def test_columns_without_a_name_do_not_count(tmp_path):
    assert read_texts(written(tmp_path, ",query,,\n0,hello,x,\n")).items == ["hello"]


@pytest.mark.parametrize("line", ['{"text": "b"', "[1, 2", "{'text': 'b'}", '{"text": ' + "[" * 100_000, "nope"])
def test_a_line_that_is_not_json_is_refused_by_its_number(tmp_path, line):
    with refused("tickets.jsonl: line 3 is not JSON"):
        read_texts(written(tmp_path, f'{{"text": "a"}}\n\n{line}\n', "tickets.jsonl"))


@pytest.mark.parametrize(("line", "kind"), [('"a"', "str"), ('["a"]', "list"), ("1", "int"), ("null", "NoneType")])
def test_a_line_that_is_no_object_is_refused_by_its_number(tmp_path, line, kind):
    with refused(f"tickets.jsonl: line 2 is a {kind}", "object"):
        read_texts(written(tmp_path, f'{{"text": "a"}}\n{line}\n', "tickets.jsonl"))


def test_objects_with_differing_keys(tmp_path):
    lines = '{"text": "a"}\n{"label": "x", "text": "b"}\n\n{"label": "y"}\n'
    tickets = read_texts(written(tmp_path, lines, "tickets.jsonl"))
    assert (tickets.items, tickets.labels.tolist()) == (["a", "b"], [-1, 0])
    assert tickets.skipped == (("2", "there is no text"),)


@pytest.mark.parametrize(("value", "kind"), [(["a"], "list"), ({"a": 1}, "dict"), (True, "bool")])
def test_a_text_that_is_nested_is_refused_by_its_line(tmp_path, value, kind):
    lines = f'{{"text": "a"}}\n\n{json.dumps({"text": value})}\n'
    with refused("tickets.jsonl: line 3", kind, "'text'"):
        read_texts(written(tmp_path, lines, "tickets.jsonl"))


@pytest.mark.parametrize("values", [[["a"], ["b"]], [b"a", b"b"]])
def test_a_parquet_column_that_holds_no_texts_is_refused_by_its_row(tmp_path, values):
    with refused("tickets.parquet: row 0", "'text'"):
        read_texts(saved(tmp_path, "parquet", text=values))


def test_half_an_emoji_becomes_a_mark_that_can_be_written(tmp_path):
    lines = '{"text": "owl \\ud83e", "id": "\\udd89"}\n{"text": "\\ud83e\\udd89", "id": "b"}\n'
    tickets = read_texts(written(tmp_path, lines, "tickets.jsonl"))
    assert tickets.items == ["owl \ufffd", "🦉"]
    assert tickets.ids == ("\ufffd", "b")
    "".join([*tickets.items, *tickets.ids]).encode("utf-8")


@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "jsonl", "txt", "parquet"]))
def test_any_bytes_are_read_or_refused_in_words(tmp_path_factory, content, ending):
    source = written(tmp_path_factory.mktemp("any"), content, f"tickets.{ending}")
    try:
        items = list(read_texts(source).items)
    except InputError as error:
        items = ["refused"] if str(source) in str(error) else []
    assert items
    assert all(isinstance(item, str) and item.strip() for item in items)
