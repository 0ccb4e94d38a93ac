"""Archives that take more memory than there is are refused before; what is not needed of them stays packed."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from newkinds import read_features
from tests.data.feature_files import LABELS, X, npz
from tests.data.refusal import Trap, refused


def packed_zeros(path: Path, name: str, size: int) -> Path:
    """Add a member of so many bytes to an .npz; it takes next to nothing while it is packed."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (size,)})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as member:
        member.write(header.getvalue())
        for _ in range(0, size, 1 << 20):
            member.write(bytes(1 << 20))
    return path


@pytest.fixture
def unpacked(monkeypatch):
    """The names of the members that are unpacked."""
    names = []
    original = zipfile.ZipFile.open

    def recording(archive, name, *arguments, **options):
        names.append(name)
        return original(archive, name, *arguments, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", recording)
    return names


def test_members_that_are_not_needed_are_never_unpacked(tmp_path, unpacked):
    path = packed_zeros(npz(tmp_path, labels=LABELS), "notes", 1 << 21)
    unpacked.clear()
    assert np.array_equal(read_features(path).features, X)
    assert {str(name).removesuffix(".npy") for name in unpacked} == {"features", "labels"}


def test_members_that_are_not_needed_may_be_of_any_size_and_kind(tmp_path, monkeypatch):
    path = packed_zeros(npz(tmp_path, labels=LABELS, trap=np.array([Trap(tmp_path / "sprung")])), "notes", 1 << 21)
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 1 << 20)
    assert np.array_equal(read_features(path).labels, LABELS)
    assert not (tmp_path / "sprung").exists()


def test_an_archive_that_does_not_fit_into_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch, unpacked):
    path = packed_zeros(npz(tmp_path), "images", 3 << 20)
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: 2_000_000)
    unpacked.clear()
    with refused(
        "birds.npz: unpacking it (images.npy: 3.1 MB) takes about 3.1 MB of memory, and 2.0 MB are free", ".npy"
    ):
        read_features(path)
    assert unpacked == []


def test_where_nobody_knows_how_much_memory_there_is_everything_is_tried(tmp_path, monkeypatch):
    monkeypatch.setattr("newkinds.runtime.available_memory", lambda: None)
    assert len(read_features(npz(tmp_path))) == len(X)


def test_an_archive_without_features_is_refused_with_a_few_of_its_members(tmp_path):
    members: dict[str, Any] = {f"array {i:03}": np.zeros(1) for i in range(200)}
    np.savez(tmp_path / "birds.npz", **members)
    with refused("birds.npz: an array named 'features' is needed; found array 000, array 001") as caught:
        read_features(tmp_path / "birds.npz")
    assert "array 100" not in str(caught.value)
