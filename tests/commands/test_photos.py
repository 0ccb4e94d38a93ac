"""Photos on the command line, from end to end, with a tiny encoder in a folder."""

import io
import json
import os
import re
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from newkinds import read_features
from tests.commands.command_line import (
    SMALL,
    fail,
    invoke,
    record_of,
    rows_of,
    succeed,
)
from tests.report.pages import read_page


def test_discover_on_a_folder_of_photos(photo_run, model):
    run, result = photo_run
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


def test_the_report_shows_the_photos(photo_run):
    run, _ = photo_run
    page = read_page(run / "report.html")
    assert len(page.pictures["pictures"]) >= 10
    assert page.pictures["type"] == "image/webp"
    assert str(run.parent) not in page.html
    table = pq.read_table(run / "predictions.parquet")
    assert max(Image.open(io.BytesIO(table["thumbnail"][0].as_py())).size) == 128
    assert table["id"][0].as_py() == "owl/0.png"


def test_truth_of_folders_is_scored(birds, model, tmp_path):
    (tmp_path / "labels.csv").write_text("path,label\n" + "".join(f"owl/{i}.png,owl\n" for i in range(4)))
    options = ["--labels", tmp_path / "labels.csv", "--truth", "folders", "--encoder", model, "--workers", "0"]
    succeed("discover", birds, "--out", tmp_path / "run", *options, *SMALL, "--quiet")
    assert record_of(tmp_path / "run")["score"]["all"] > 0.9


def test_a_quiet_predict_says_nothing_but_its_results(photo_run, birds, tmp_path):
    result = invoke("predict", photo_run[0], birds, "--out", tmp_path / "a.csv", "--workers", "0", "--quiet")
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


def test_predict_on_new_photos(photo_run, new_photos):
    result = succeed("predict", photo_run[0], new_photos, "--workers", "0")
    rows = rows_of(result.stdout)
    assert [row["id"] for row in rows] == ["0.png", "1.png", "2.png"]
    assert [row["name"] for row in rows] == ["owl", "wren", "new-1"]


def test_predict_leaves_broken_photos_out_and_says_so(photo_run, new_photos, tmp_path):
    folder = shutil.copytree(new_photos, tmp_path / "new")
    (folder / "bad.png").write_bytes(b"nothing")
    result = succeed("predict", photo_run[0], folder, "--workers", "0")
    assert len(rows_of(result.stdout)) == 3
    assert "bad.png" in result.stderr


def test_predict_where_nothing_can_be_read_leaves_no_file(photo_run, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "bad.png").write_bytes(b"nothing")
    fail(
        "predict",
        photo_run[0],
        tmp_path / "new",
        "--out",
        tmp_path / "p.csv",
        says=r"no sample could be read.*bad\.png",
    )
    assert not (tmp_path / "p.csv").exists()
    assert sorted(os.listdir(tmp_path)) == ["new"]


def test_predict_with_the_encoder_at_another_place(photo_run, new_photos, model, tmp_path):
    moved = shutil.copytree(model, tmp_path / "moved")
    before = succeed("predict", photo_run[0], new_photos, "--workers", "0").stdout
    assert succeed("predict", photo_run[0], new_photos, "--workers", "0", "--encoder", moved).stdout == before


def test_what_is_resized_and_cropped_is_so_for_new_photos_too(birds, new_photos, model, tmp_path):
    options = ["--encoder", model, "--workers", "0", "-q", "--cache", tmp_path / "cache", *SMALL]
    succeed("discover", birds, "--out", tmp_path / "usual", *options)
    succeed("discover", birds, "--out", tmp_path / "cropped", "--resize", "40", "--crop", "32", *options)
    usual, cropped = (
        json.loads((tmp_path / name / "run.json").read_text())["encoder"] for name in ("usual", "cropped")
    )
    assert (usual["preparation"]["resize"], cropped["preparation"]["resize"]) == ([32, 32], 40)
    assert usual["fingerprint"] != cropped["fingerprint"]
    cached = " ".join(str(path) for path in (tmp_path / "cache").rglob("*"))
    assert all(record["fingerprint"] in cached for record in (usual, cropped))
    features = {}
    for name, record in (("usual", usual), ("cropped", cropped)):
        succeed("predict", tmp_path / name, new_photos, "--workers", "0", "-q", "--out", tmp_path / f"{name}.csv")
        extra = [] if name == "usual" else ["--resize", "40", "--crop", "32"]
        out = tmp_path / f"{name}.npz"
        succeed("encode", new_photos, "--encoder", model, "--out", out, "--workers", "0", "-q", *extra)
        features[name] = np.load(out)["features"]
        made_with = read_features(out).encoder
        assert made_with is not None
        assert made_with["fingerprint"] == record["fingerprint"]
    assert not np.allclose(features["usual"], features["cropped"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--resize", "big"], "--resize must be a length in pixels, or HEIGHTxWIDTH; got 'big'"),
        (["--resize", "20"], "images resized to 20 are smaller than the crop"),
        (["--crop", "64"], "smaller than the crop of"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(birds, model, tmp_path, options, says):
    fail("encode", birds, "--out", tmp_path / "x.npz", "--encoder", model, *options, says=says)


def test_features_are_not_cropped(tmp_path, collection):
    fail("estimate", collection, "--crop", "20", says="only images are resized and cropped")


def test_predict_with_another_encoder_is_refused(photo_run, new_photos, other_model):
    fail("predict", photo_run[0], new_photos, "--encoder", other_model, says="not the one the run was made with")


def test_predict_with_the_encoder_gone_says_so(birds, new_photos, model, tmp_path):
    own = shutil.copytree(model, tmp_path / "own")
    succeed("discover", birds, "--out", tmp_path / "run", "--encoder", own, "--workers", "0", "-q", *SMALL)
    shutil.rmtree(own)
    fail("predict", tmp_path / "run", new_photos, says="not on this machine any more; say where it is now")


def test_predict_on_features_of_another_encoder_is_refused(photo_run, new_photos, other_model, tmp_path):
    out = tmp_path / "other.npz"
    succeed("encode", new_photos, "--encoder", other_model, "--out", out, "--workers", "0")
    fail("predict", photo_run[0], out, says="these features are of .*other, the run was made with .*tiny")


def test_predict_on_texts_with_a_run_of_photos_is_refused(photo_run, tmp_path):
    (tmp_path / "a.txt").write_text("card lost\n")
    fail("predict", photo_run[0], tmp_path / "a.txt", says="made of images, this is a collection of texts")


def test_predict_on_photos_with_a_run_of_features_is_refused(new_photos, tmp_path):
    features = np.eye(6)[np.arange(30) % 3]
    np.savez(tmp_path / "a.npz", features=features, labels=np.where(np.arange(30) < 10, np.arange(30) % 3, -1))
    succeed("discover", tmp_path / "a.npz", "--out", tmp_path / "run", "-q", *SMALL)
    fail("predict", tmp_path / "run", new_photos, says="made of features: give it features, not images")


def test_estimate_on_photos(birds, model):
    result = succeed("estimate", birds, "--encoder", model, "--bounds", "2", "4", "--quiet")
    assert int(result.stdout) in {2, 3, 4}
