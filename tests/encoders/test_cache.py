"""The cache: what is found again, what a torn, foreign or unwritable file does, several writers at once."""

import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newkinds import InputError
from newkinds.encoders import default_cache
from newkinds.encoders.cache import CHECKSUM_BYTES, KEY_BYTES, FeatureCache, content_key, content_keys
from newkinds.runtime import listening

WIDTH = 3
RECORD_BYTES = 2 * KEY_BYTES + CHECKSUM_BYTES + 4 * WIDTH


def keys_of(*numbers: int) -> list[bytes]:
    return [number.to_bytes(KEY_BYTES, "big") for number in numbers]


def features_of(*numbers: int) -> np.ndarray:
    return np.array([[number, number + 0.5, -number] for number in numbers], dtype=np.float32)


def remember(folder: Path, *numbers: int, fingerprint: str = "tiny") -> None:
    with FeatureCache(folder, fingerprint) as cache:
        cache.add(keys_of(*numbers), features_of(*numbers))


def remember_one_by_one(folder: Path, *numbers: int) -> None:
    with FeatureCache(folder, "tiny") as cache:
        for number in numbers:
            cache.add(keys_of(number), features_of(number))


def found_in(folder: Path, *numbers: int, fingerprint: str = "tiny") -> list[int]:
    """Which of the numbers are there; their features must be right and in order."""
    there, features = FeatureCache(folder, fingerprint).find(keys_of(*numbers))
    found = [number for number, is_there in zip(numbers, there, strict=True) if is_there]
    assert np.array_equal(
        np.empty((0, WIDTH)) if features is None else features, features_of(*found).reshape(-1, 3)
    )
    return found


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# Finding again


def test_what_was_added_is_found_in_the_order_asked_for(tmp_path):
    remember(tmp_path, 5, 1, 3)
    remember(tmp_path, 2)
    assert found_in(tmp_path, 3, 9, 2, 5, 3, 1) == [3, 2, 5, 3, 1]


def test_what_was_added_is_found_before_the_cache_is_closed(tmp_path):
    with FeatureCache(tmp_path, "tiny") as cache:
        cache.add(keys_of(1), features_of(1))
        assert found_in(tmp_path, 1) == [1]
        cache.add(keys_of(2), features_of(2))
        assert found_in(tmp_path, 1, 2) == [1, 2]


@given(st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)))
def test_any_keys(tmp_path_factory, added, asked):
    folder = tmp_path_factory.mktemp("cache")
    if added:
        remember(folder, *added)
    assert found_in(folder, *asked) == [number for number in asked if number in added]


@pytest.mark.parametrize("number", [0, 1 << 120, 256, (1 << 128) - 1])
def test_keys_with_zero_bytes_at_either_end(tmp_path, number):
    key, other = keys_of(number, number ^ 255)
    with FeatureCache(tmp_path, "tiny") as cache:
        cache.add([key], features_of(7))
    there, features = FeatureCache(tmp_path, "tiny").find([other, key])
    assert there.tolist() == [False, True]
    assert features is not None
    assert np.array_equal(features, features_of(7))


def test_two_encoders_know_nothing_of_each_other(tmp_path):
    remember(tmp_path, 1, fingerprint="a-float32")
    for other in ("a-float16", "b-float32", "a"):
        assert found_in(tmp_path, 1, fingerprint=other) == []
    assert found_in(tmp_path, 1, fingerprint="a-float32") == [1]


def test_nothing_asked_and_nothing_there(tmp_path):
    assert found_in(tmp_path) == []
    assert found_in(tmp_path, 1) == []
    remember(tmp_path, 1)
    assert found_in(tmp_path) == []


def test_no_folder_remembers_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with FeatureCache(None, "tiny") as cache:
        cache.add(keys_of(1), features_of(1))
        assert not cache.find(keys_of(1))[0].any()
    assert files(tmp_path) == []


def test_an_empty_batch_makes_no_file(tmp_path):
    with FeatureCache(tmp_path, "tiny") as cache:
        cache.add([], np.empty((0, WIDTH), dtype=np.float32))
    assert files(tmp_path) == []


# Damage


@pytest.mark.parametrize("cut", [1, 4, 4 * WIDTH, RECORD_BYTES - 1, RECORD_BYTES])
def test_a_torn_last_record_is_passed_over_and_added_again(tmp_path, cut):
    remember(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    assert found_in(tmp_path, 1, 2, 3) == [1, 2]
    remember(tmp_path, 3)
    assert found_in(tmp_path, 1, 2, 3) == [1, 2, 3]


def test_a_file_of_which_nothing_is_left(tmp_path):
    remember(tmp_path, 1)
    (path,) = files(tmp_path)
    path.write_bytes(b"")
    assert found_in(tmp_path, 1) == []


def test_other_files_in_the_folder_do_not_matter(tmp_path):
    remember(tmp_path, 1)
    (path,) = files(tmp_path)
    (path.parent / ".DS_Store").write_bytes(b"x")
    (path.parent / "notes.txt").write_bytes(b"x" * 100)
    (path.parent / "3d-model.records").write_bytes(b"x" * 100)
    assert found_in(tmp_path, 1) == [1]


def test_a_cache_that_cannot_be_written_is_an_input_error_that_names_it(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(InputError, match=r"cannot write to the cache .*file"),
        FeatureCache(tmp_path / "file", "tiny") as cache,
    ):
        cache.prepare()


def test_a_cache_whose_name_cannot_be_is_an_input_error():
    with pytest.raises(InputError, match="cannot write to the cache"):
        FeatureCache(Path("a\0b"), "tiny").prepare()


def test_a_cache_that_nobody_asked_for_and_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with FeatureCache(tmp_path / "file", "tiny") as cache:
        cache.prepare(required=False)
        cache.add(keys_of(1), features_of(1))
    (note,) = cache.notes
    assert f"cannot write to the cache {tmp_path / 'file'}" in note


def test_on_a_full_disk_the_work_goes_on_and_what_was_whole_before_stays(tmp_path):
    resource = pytest.importorskip("resource", reason="limits are set by the system")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    cache = FeatureCache(tmp_path, "tiny")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (80, before[1]))  # a record and a half
        with cache:
            for number in (1, 2, 3):
                cache.add(keys_of(number), features_of(number))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    (note,) = cache.notes
    assert str(tmp_path) in note
    assert "nothing is remembered: File too large" in note
    assert found_in(tmp_path, 1, 2, 3) == [1]


@pytest.mark.parametrize("byte", range(RECORD_BYTES))
def test_a_record_with_a_flipped_byte_is_ignored_and_counted(tmp_path, byte):
    remember(tmp_path, 1, 2, 3)
    (path,) = files(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3 + byte] ^= 0x10
    path.write_bytes(content)
    cache = FeatureCache(tmp_path, "tiny")
    is_known, features = cache.find(keys_of(1, 2, 3))
    assert is_known.tolist() == [True, False, True]
    assert features is not None
    assert np.array_equal(features, features_of(1, 3))
    assert cache.notes == ["remembered samples that were damaged and computed again: 1"]
    remember(tmp_path, 2)
    again = FeatureCache(tmp_path, "tiny")
    assert again.find(keys_of(1, 2, 3))[0].all()
    assert again.notes == []  # a whole record of it is there as well


@settings(max_examples=250)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=40))
def test_no_edit_of_the_records_gives_other_features(tmp_path_factory, edits):
    folder = tmp_path_factory.mktemp("cache")
    remember(folder, *range(8))
    (path,) = files(folder)
    content = bytearray(path.read_bytes())
    for at, change in edits:
        content[at % len(content)] ^= change
    path.write_bytes(content)
    found_in(folder, *range(8))  # which are there, with the right features


def test_records_of_an_earlier_version_are_read_and_said_to_have_no_checksums(tmp_path, caplog):
    """A key of 16 bytes, then the features as float32."""
    (tmp_path / "features" / "tiny").mkdir(parents=True)
    records = b"".join(key + row.tobytes() for key, row in zip(keys_of(4, 5), features_of(4, 5), strict=True))
    (tmp_path / "features" / "tiny" / "3-0123.records").write_bytes(records)
    remember(tmp_path, 6)
    with caplog.at_level("INFO"):
        assert found_in(tmp_path, 6, 4, 5) == [6, 4, 5]
    assert "3-0123.records was written by an earlier version: it has no checksums" in caplog.text


def test_files_of_another_width_or_of_no_possible_width_do_not_matter(tmp_path):
    remember(tmp_path, 1)
    (path,) = files(tmp_path)
    for name in ("2-0.records", "checked-2-0.records", f"{10**30}-0.records", f"checked-{10**30}-0.records"):
        (path.parent / name).write_bytes(path.read_bytes() * 3)
    assert found_in(tmp_path, 1) == [1]


# Several at once


def _add_many(folder: Path, first: int) -> None:
    with FeatureCache(folder, "tiny") as cache:
        for number in range(first, first + 60, 3):
            cache.add(keys_of(number, number + 1, number + 2), features_of(number, number + 1, number + 2))


def test_two_processes_add_at_the_same_time(tmp_path):
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    writers = [context.Process(target=_add_many, args=(tmp_path, first)) for first in (0, 40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert found_in(tmp_path, *range(100)) == list(range(100))


# Content


def test_the_key_of_a_file_is_of_its_bytes_not_of_its_name_or_place(tmp_path):
    for name, content in (("a.png", b"one"), ("b.jpg", b"one"), ("c.png", b"two")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (content_key(tmp_path / name) for name in ("a.png", "b.jpg", "c.png"))
    assert a == b != c
    assert len(a) == KEY_BYTES
    (tmp_path / "a.png").write_bytes(b"two")
    assert content_key(tmp_path / "a.png") == c


def test_the_key_of_pixels_is_of_their_shape_too():
    pixels = np.arange(24, dtype=np.uint8)
    keys = {content_key(pixels.reshape(shape)) for shape in ((2, 4, 3), (4, 2, 3), (8, 3), (24, 1))}
    assert len(keys) == 4
    turned = np.asfortranarray(pixels.reshape(2, 4, 3))
    assert content_key(turned) == content_key(pixels.reshape(2, 4, 3))


def test_the_key_of_a_text(tmp_path):
    assert content_key("a\ud800") != content_key("a")
    assert content_key("é") != content_key("e\u0301")
    assert content_key("") == content_key("")


def test_files_that_cannot_be_read_have_keys_of_their_own(tmp_path):
    missing, other = content_key(tmp_path / "missing"), content_key(tmp_path / "other")
    assert missing != other
    assert content_key(tmp_path) not in {missing, other}  # a folder
    impossible = [content_key(Path(name)) for name in ("a\0b", "a\0c", "\udcff")]  # as a table may name them
    assert len({missing, *impossible}) == 4


def test_keys_of_many_come_in_order_and_their_progress_is_told():
    texts = [str(i) for i in range(5000)]
    said = []
    with listening(lambda *what: said.append(what)):
        keys = content_keys(texts)
    assert keys == [content_key(text) for text in texts]
    assert said[-1] == ("looking at the samples", 5000, 5000)


# Where


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.delenv("NEWKINDS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache() == tmp_path / "xdg" / "newkinds"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "newkinds"
    monkeypatch.setenv("NEWKINDS_CACHE", str(tmp_path / "own"))
    assert default_cache() == tmp_path / "own"


@pytest.mark.parametrize("module", ["newkinds", "newkinds.cli", "newkinds.encoders"])
def test_importing_is_light(module):
    heavy = ["torch", "PIL", "transformers", "sentence_transformers", "onnxruntime", "sklearn", "tokenizers"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
