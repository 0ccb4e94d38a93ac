"""Tables as spreadsheets write them, in every encoding, and every way in which a table can be bad."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.data.tables import read_table
from newkinds.data.texts import read_texts
from newkinds.names import TABLE_ENDINGS, listed
from tests.data.refusal import refused
from tests.data.text_tables import saved, written

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


@pytest.mark.parametrize("name", ["tickets.xls", "tickets.doc", "tickets"])
def test_an_ending_that_is_not_read_is_refused_with_those_that_are(tmp_path, name):
    with refused(name, listed(TABLE_ENDINGS)):
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
    assert tickets.skipped == (("2", "the text on line 4 is missing"),)


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


# Tables that are made to be a burden


def test_a_header_of_very_many_columns_is_read_or_refused_in_a_short_line(tmp_path):
    path = written(tmp_path, ",".join(f"c{i}" for i in range(100_000)) + "\n")
    with refused("tickets.csv has no rows; its columns are c0, c1,", "c49, … (100,000 in all)") as caught:
        read_table(path)
    assert len(str(caught.value)) < 1000


def test_json_lines_without_keys_in_common_are_refused_before_they_fill_the_memory(tmp_path):
    path = written(tmp_path, "".join(f'{{"k{i}": 1}}\n' for i in range(5000)), "tickets.jsonl")
    with refused("its 5,000 lines have 5,000 different keys", "the same keys"):
        read_table(path)


def test_json_lines_that_have_most_keys_in_common_may_be_many(tmp_path, monkeypatch):
    monkeypatch.setattr("newkinds.data.tables.MOST_GAPS", 1)
    lines = [f'{{"text": "a", "label": "b", "k{i}": 1}}\n' for i in range(10)]
    table = read_table(written(tmp_path, "".join(lines), "tickets.jsonl"))
    assert table.values("k9") == [None] * 9 + [1]
