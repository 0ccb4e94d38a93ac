"""Collections to features: order, workers, what cannot be read, what is there twice, and going on after a stop."""

import errno
import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from PIL import Image

from newkinds import InputError
from newkinds.data.raw import RawCollection
from newkinds.encoders import ImagePreparation, default_cache, encode
from newkinds.encoders.encoder import Preparation
from newkinds.encoders.modules import ModuleEncoder
from newkinds.encoders.texts import same_text
from newkinds.names import Kind
from newkinds.runtime import listening


class Stop(Exception):
    """What an interrupted encoder raises."""


class Counting:
    """Mean colours of images or lengths of texts; keeps what it was asked for."""

    def __init__(
        self, kind: Kind = "images", *, batch_size=4, stop_at=None, error: type[BaseException] = Stop, bad=None
    ):
        self.name, self.kind, self.batch_size = "counting", kind, batch_size
        self.fingerprint, self.precision = f"counting-{kind}", "float32"
        self.preparation: Preparation = ImagePreparation((8, 8), 8) if kind == "images" else same_text
        self.batches: list[int] = []
        self.stop_at, self.error, self.bad = stop_at, error, bad

    def encode(self, batch):
        if len(self.batches) == self.stop_at:
            raise self.error
        self.batches.append(len(batch))
        if self.kind == "texts":
            features = np.array([[len(text), text.count("e"), sum(map(ord, text)) % 1000] for text in batch])
        else:
            features = np.stack(batch).mean(axis=(1, 2))
        features = features.astype(np.float32)
        if self.bad is not None and len(self.batches) - 1 == self.bad[0]:
            features[self.bad[1]] = np.nan
        return features

    @property
    def n(self) -> int:
        return sum(self.batches)


def images(paths, labels=None) -> RawCollection:
    labels = np.full(len(paths), -1) if labels is None else np.asarray(labels)
    return RawCollection("images", list(paths), tuple(Path(path).name for path in paths), labels)


def texts(items) -> RawCollection:
    return RawCollection("texts", list(items), tuple(f"t{i}" for i in range(len(items))), np.full(len(items), -1))


def expected(paths) -> np.ndarray:
    prepare = ImagePreparation((8, 8), 8)
    return np.stack([prepare(path).mean(axis=(0, 1)) for path in paths]).astype(np.float32)


@pytest.fixture
def broken(tmp_path) -> list[Path]:
    """Files that are no images: cut off, empty, text, missing, a folder."""
    whole = tmp_path / "whole.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 40, 3)).astype(np.uint8)).save(whole)
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:900])
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "folder.png").mkdir()
    return [tmp_path / name for name in ("cut.png", "empty.png", "text.jpg", "missing.png", "folder.png")]


# Features


@pytest.mark.parametrize("workers", [0, 2])
def test_features_come_in_the_order_of_the_samples(photos, workers):
    encoder = Counting()
    encoded = encode(images(photos), encoder, workers=workers)
    assert np.allclose(encoded.features, expected(photos))
    assert encoded.features.dtype == np.float32
    assert encoded.collection.ids == tuple(path.name for path in photos)
    assert encoder.batches == [4] * 5
    assert encoded.n_computed == 20
    assert encoded.seconds > 0
    assert len(encoded.keys) == 20
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("batch_size", [1, 7, 20, 100])
def test_no_batch_is_larger_than_the_encoder_wants(photos, batch_size):
    encoder = Counting(batch_size=batch_size)
    assert np.allclose(encode(images(photos), encoder, workers=0).features, expected(photos))
    assert max(encoder.batches) == min(batch_size, 20)
    assert encoder.n == 20


def test_pixels_in_memory(photos):
    arrays = [np.full((9, 7, 3), 10 * i, dtype=np.uint8) for i in range(10)]
    collection = RawCollection("images", arrays, tuple(map(str, range(10))), np.full(10, -1))
    for workers in (0, 1):
        encoded = encode(collection, Counting(), workers=workers)
        assert encoded.features[:, 0].tolist() == [10.0 * i for i in range(10)]


def test_texts():
    words = ["one", "three", "\N{GRINNING FACE} smile", " ", "one"]
    encoder = Counting("texts")
    encoded = encode(texts(words), encoder)
    assert encoded.features[:, 0].tolist() == [3, 5, 7, 1, 3]
    assert encoder.n == 4


def test_labels_truth_and_names_stay_with_their_samples(photos, broken):
    paths = [photos[0], broken[0], photos[1], photos[2]]
    collection = RawCollection(
        "images",
        paths,
        ("a", "b", "c", "d"),
        np.array([0, 1, -1, 1]),
        np.array([0, 1, 2, 1]),
        ("owl", "wren", "ant"),
        (("e", "known before"),),
    )
    left = encode(collection, Counting(), workers=0).collection
    assert left.ids == ("a", "c", "d")
    assert left.labels.tolist() == [0, -1, 1]
    assert left.truth is not None
    assert left.truth.tolist() == [0, 2, 1]
    assert left.names == ("owl", "wren", "ant")
    assert [name for name, _ in left.skipped] == ["e", "b"]


def test_progress_is_told_and_ends_at_the_end(photos, broken):
    said = []
    with listening(lambda *what: said.append(what)):
        encode(images([*photos, *broken]), Counting(), workers=0)
    done = [at for stage, at, _ in said if stage == "encoding"]
    assert done == sorted(done)
    assert said[-1] == ("encoding", 25, 25)


# Twice the same


def test_the_same_content_is_computed_once(photos, tmp_path):
    copy = tmp_path / "copy.png"
    copy.write_bytes(photos[3].read_bytes())
    paths = [copy, *photos, photos[5]]
    encoder = Counting()
    encoded = encode(images(paths), encoder, workers=0)
    assert np.allclose(encoded.features, expected(paths))
    assert encoder.n == 20
    assert encoded.n_computed == 20
    assert encoded.keys[0] == encoded.keys[4]


def test_the_same_broken_content_twice_is_named_twice(broken, photos, tmp_path):
    (tmp_path / "again.png").write_bytes(broken[0].read_bytes())
    encoded = encode(images([broken[0], photos[0], tmp_path / "again.png"]), Counting(), workers=0)
    assert [name for name, _ in encoded.collection.skipped] == ["cut.png", "again.png"]
    assert len(encoded.features) == 1


# What cannot be read


@pytest.mark.parametrize("workers", [0, 2])
def test_broken_images_are_left_out_by_name_with_the_reason(photos, broken, workers):
    paths = [broken[0], *photos[:6], *broken[1:], *photos[6:]]
    encoded = encode(images(paths), Counting(), workers=workers)
    assert np.allclose(encoded.features, expected(photos))
    assert encoded.collection.ids == tuple(path.name for path in photos)
    skipped = dict(encoded.collection.skipped)
    assert list(skipped) == [path.name for path in broken]
    assert skipped["cut.png"].startswith("is cut off")
    assert skipped["empty.png"].startswith("is empty")
    assert "not an image" in skipped["text.jpg"]
    assert skipped["missing.png"] == "does not exist"
    assert "folder" in skipped["folder.png"]


def test_all_broken_is_an_input_error_with_reasons(broken):
    with pytest.raises(InputError, match=r"no sample could be read \(cut\.png: is cut off"):
        encode(images(broken), Counting(), workers=0)


def test_no_samples_is_an_input_error():
    with pytest.raises(InputError, match="there are no samples"):
        encode(images([]), Counting())


def test_fewer_than_no_workers_are_an_input_error(photos):
    with pytest.raises(InputError, match="workers must be at least 0; got -1"):
        encode(images(photos), Counting(), workers=-1)


def test_a_path_that_cannot_be_is_left_out(photos):
    """As a table may name it."""
    encoded = encode(images([photos[0], Path("a\0b.png")]), Counting(), workers=0)
    assert [name for name, _ in encoded.collection.skipped] == ["a\0b.png"]


def test_the_wrong_kind_of_encoder_is_an_input_error():
    with pytest.raises(InputError, match="counting encodes texts; this is a collection of images"):
        encode(images(["a.png"]), Counting("texts"))


def test_features_that_are_not_numbers_are_refused_by_the_samples_name(photos, tmp_path):
    encoder = Counting(bad=(1, 2))
    with pytest.raises(InputError, match=r"counting gives NaN or infinity for 06\.png.*precision"):
        encode(images(photos), encoder, cache=tmp_path, workers=0)
    again = Counting()
    encode(images(photos), again, cache=tmp_path, workers=0)
    assert again.n == 16  # the first batch was good


# The cache


def test_a_second_time_nothing_is_computed(photos, tmp_path):
    first = encode(images(photos), Counting(), cache=tmp_path, workers=0)
    again = Counting()
    second = encode(images(photos), again, cache=tmp_path, workers=0)
    assert again.batches == []
    assert second.n_computed == 0
    assert np.array_equal(second.features, first.features)


def test_half_of_the_samples_in_the_cache(photos, tmp_path):
    encode(images(photos[::2]), Counting(), cache=tmp_path, workers=0)
    encoder = Counting()
    encoded = encode(images(photos), encoder, cache=tmp_path, workers=0)
    assert encoder.n == encoded.n_computed == 10
    assert np.allclose(encoded.features, expected(photos))


def test_cached_and_new_and_broken_and_doubled_samples_mixed(photos, broken, tmp_path):
    encode(images(photos[5:12]), Counting(), cache=tmp_path / "cache", workers=0)
    paths = [photos[11], broken[0], photos[0], photos[6], photos[0], broken[2], photos[19], photos[5]]
    encoder = Counting()
    encoded = encode(images(paths), encoder, cache=tmp_path / "cache", workers=0)
    good = [path for path in paths if path not in broken]
    assert np.allclose(encoded.features, expected(good))
    assert encoder.n == encoded.n_computed == 2
    assert encoded.collection.ids == tuple(path.name for path in good)


def test_a_changed_file_is_computed_anew(photos, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(photos[0].read_bytes())
    encode(images([path]), Counting(), cache=tmp_path / "cache")
    path.write_bytes(photos[1].read_bytes())
    assert np.allclose(encode(images([path]), Counting(), cache=tmp_path / "cache").features, expected(photos[1:2]))


def test_two_encoders_of_the_same_width_never_share_features(photos, tmp_path):
    """Their weights differ, and nothing else."""

    def network(seed: int) -> ModuleEncoder:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return ModuleEncoder(torch.nn.Conv2d(3, 5, 8), ImagePreparation((8, 8), 8), "network")

    collection = images(photos)
    expected = [encode(collection, network(seed), workers=0).features for seed in (0, 1)]
    for _ in range(2):
        for seed in (0, 1):
            encoded = encode(collection, network(seed), cache=tmp_path, workers=0)
            assert np.array_equal(encoded.features, expected[seed])
    assert encoded.n_computed == 0
    assert not np.allclose(expected[0], expected[1])


def test_another_precision_is_not_found(photos, tmp_path):
    encode(images(photos), Counting(), cache=tmp_path, workers=0)
    half = Counting()
    half.precision = "float16"
    encode(images(photos), half, cache=tmp_path, workers=0)
    assert half.n == 20


def test_without_a_cache_nothing_is_written(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path))
    encode(images(photos[:3]), Counting(), cache=None)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_input_error(photos, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot write to the cache"):
        encode(images(photos), Counting(), cache=tmp_path / "file", workers=0)


def test_a_cache_that_cannot_be_written_is_refused_before_anything_is_computed(photos, tmp_path):
    (tmp_path / "file").write_text("in the way")
    encoder = Counting()
    with pytest.raises(InputError, match="cannot write to the cache"):
        encode(images(photos), encoder, cache=tmp_path / "file", workers=0)
    assert encoder.n == 0


def test_the_default_cache_is_done_without_if_it_cannot_be_written(photos, tmp_path, monkeypatch):
    """A home folder may be read-only; nobody asked for a cache there."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "file"))
    encoded = encode(images(photos), Counting(), cache=default_cache(), workers=0)
    assert np.allclose(encoded.features, expected(photos))
    (note,) = encoded.notes
    assert f"cannot write to the cache {tmp_path / 'file'}" in note


def test_a_disk_that_becomes_full_is_a_note_and_the_work_goes_on(photos, tmp_path, monkeypatch):
    class FullAfterOne:
        """A file on a disk with room for one batch."""

        def __init__(self, file):
            self.file, self.n = file, 0

        def write(self, content):
            self.n += 1
            if self.n > 1:
                self.file.write(content[:20])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.file.write(content)

        def __getattr__(self, name):
            return getattr(self.file, name)

    real = Path.open

    def open_file(self, mode="r", *args, **kwargs):
        file = real(self, mode, *args, **kwargs)
        return FullAfterOne(file) if mode == "xb" else file

    monkeypatch.setattr(Path, "open", open_file)
    encoded = encode(images(photos), Counting(), cache=tmp_path, workers=0)
    assert np.allclose(encoded.features, expected(photos))
    (note,) = encoded.notes
    assert "cannot write to the cache" in note
    assert str(tmp_path) in note
    assert "No space left" in note
    monkeypatch.undo()
    encoder = Counting()
    assert np.allclose(encode(images(photos), encoder, cache=tmp_path, workers=0).features, expected(photos))
    assert encoder.n == 16  # the first batch of four was remembered


def test_damaged_records_are_computed_again_and_said(photos, tmp_path):
    encode(images(photos), Counting(), cache=tmp_path, workers=0)
    (path,) = tmp_path.rglob("*.records")
    content = bytearray(path.read_bytes())
    for sample in (0, 7, 19):
        content[sample * len(content) // 20 + 50] ^= 4
    path.write_bytes(content)
    encoder = Counting()
    encoded = encode(images(photos), encoder, cache=tmp_path, workers=0)
    assert encoder.n == encoded.n_computed == 3
    assert np.allclose(encoded.features, expected(photos))
    assert encoded.notes == ("remembered samples that were damaged and computed again: 3",)
    assert encode(images(photos), Counting(), cache=tmp_path, workers=0).notes == ()


# Interruptions


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_after_an_interruption_only_the_rest_is_computed(photos, tmp_path, at, error):
    with pytest.raises(error):
        encode(images(photos), Counting(stop_at=at, error=error), cache=tmp_path, workers=0)
    encoder = Counting()
    encoded = encode(images(photos), encoder, cache=tmp_path, workers=0)
    assert encoder.n == 20 - 4 * at
    assert np.allclose(encoded.features, expected(photos))


def test_a_torn_record_costs_one_sample(photos, tmp_path):
    encode(images(photos), Counting(), cache=tmp_path, workers=0)
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    os.truncate(file, file.stat().st_size - 5)
    encoder = Counting()
    assert np.allclose(encode(images(photos), encoder, cache=tmp_path, workers=0).features, expected(photos))
    assert encoder.n == 1


def test_an_interruption_leaves_no_worker_processes(photos, tmp_path):
    with pytest.raises(KeyboardInterrupt) as caught:
        encode(images(photos), Counting(stop_at=1, error=KeyboardInterrupt), cache=tmp_path, workers=2)
    left = multiprocessing.active_children()
    del caught
    for process in left:  # lest they stay for other tests
        process.terminate()
        process.join()
    assert left == []


def test_an_encoder_that_gives_too_few_rows_is_not_believed(photos, tmp_path):
    class Short(Counting):
        def encode(self, batch):
            return super().encode(batch)[:1]

    encoder = Counting()
    with pytest.raises(InputError, match=r"counting gives an array \(1, 3\) for 4 samples"):
        encode(images(photos), Short(), cache=tmp_path, workers=0)
    assert np.allclose(encode(images(photos), encoder, cache=tmp_path, workers=0).features, expected(photos))


def test_a_worker_that_is_killed_is_an_input_error():
    encoder = Counting("texts")
    # A text that ends the process that prepares it, as the kernel does if memory is short.
    encoder.preparation = cast(Preparation, eval)
    with pytest.raises(InputError, match="worker process ended"):
        encode(texts([f"__import__('os')._exit({i})" for i in range(1, 21)]), encoder, workers=1)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("preparation", ["ImagePreparation((8, 8), 8)", "prepare"])
def test_a_plain_script_may_have_worker_processes(photos, tmp_path, preparation):
    """They do not run it anew. What only the script knows they cannot do: then threads do it."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            from pathlib import Path
            import multiprocessing
            import numpy as np
            from newkinds.data import RawCollection
            from newkinds.encoders import ImagePreparation, encode

            def prepare(path):
                return ImagePreparation((8, 8), 8)(path)

            class Mean:
                name = fingerprint = "mean"
                kind, precision, batch_size = "images", "float32", 4
                preparation = staticmethod({preparation})
                def encode(self, batch):
                    print(len(multiprocessing.active_children()))
                    return np.stack(batch).mean(axis=(1, 2))

            print("begun")
            paths = sorted(Path({str(photos[0].parent)!r}).iterdir())
            photos = RawCollection("images", paths, tuple(map(str, paths)), np.full(len(paths), -1))
            print(encode(photos, Mean(), workers=1).features.shape)
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    n_processes = "0" if preparation == "prepare" else "1"
    assert done.stdout.split("\n")[:2] == ["begun", n_processes]
    assert done.stdout.endswith(f"({len(photos)}, 3)\n")


def test_two_calls_at_once_share_a_cache(photos, tmp_path):
    """One begins while the other is half done; both give the right features."""

    class Slow(Counting):
        def encode(self, batch):
            if len(self.batches) == 2:
                inner = encode(images(photos), Counting(), cache=tmp_path, workers=0)
                assert inner.n_computed == 12
            time.sleep(0.001)
            return super().encode(batch)

    assert np.allclose(encode(images(photos), Slow(), cache=tmp_path, workers=0).features, expected(photos))
    assert encode(images(photos), Counting(), cache=tmp_path, workers=0).n_computed == 0
