"""`newkinds encode`."""

import os
import shutil

import numpy as np
import pytest

from newkinds import read_features
from tests.commands.command_line import (
    SMALL,
    fail,
    invoke,
    record_of,
    rows_of,
    succeed,
)


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_encode_then_discover_then_predict_on_photos(birds, model, new_photos, photo_run, ending, tmp_path):
    out = tmp_path / f"features.{ending}"
    result = succeed("encode", birds, "--encoder", model, "--out", out, "--workers", "0")
    assert f"41 samples × 32 features are in {out}" in result.stdout
    assert "Note: " in result.stderr
    assert "unlabelled/broken.jpg" in result.stderr
    features = read_features(out)
    assert features.names == ("owl", "wren")
    assert features.encoder is not None
    assert features.encoder["name"] == str(model.resolve())
    succeed("discover", out, "--out", tmp_path / "run", "-q", *SMALL)
    assert record_of(tmp_path / "run")["encoder"] == record_of(photo_run[0])["encoder"]
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
    options = ["--encoder", model, "--workers", "0"]
    succeed("encode", birds, "--out", tmp_path / "a.npz", *options, "--no-cache")
    assert not list(own_cache.rglob("*.records"))
    succeed("encode", birds, "--out", tmp_path / "b.npz", *options, "--cache", tmp_path / "own")
    assert list((tmp_path / "own").rglob("*.records"))
    assert not list(own_cache.rglob("*.records"))


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
