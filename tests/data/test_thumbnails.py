"""Small pictures that are made when they are asked for."""

import numpy as np
import pytest
from PIL import Image

from newkinds import FeatureSet, InputError
from newkinds.data.thumbnails import SIZE, Thumbnails


@pytest.fixture
def files(tmp_path):
    paths = []
    for i in range(5):
        paths.append(tmp_path / f"{i}.png")
        Image.new("RGB", (30 + 10 * i, 20), (50 * i, 0, 0)).save(paths[-1])
    return paths


def red(picture: np.ndarray) -> int:
    return int(picture[picture.shape[0] // 2, picture.shape[1] // 2, 0])


def test_pictures_in_order(files):
    pictures = Thumbnails(files)
    assert len(pictures) == 5
    assert [red(picture) for picture in pictures] == [0, 50, 100, 150, 200]
    assert [red(picture) for picture in pictures[1:4]] == [50, 100, 150]
    assert [red(picture) for picture in pictures[::-2]] == [200, 100, 0]
    assert red(pictures[-1]) == 200
    assert all(max(picture.shape) == SIZE and picture.dtype == np.uint8 for picture in pictures)
    assert pictures[1].shape == (SIZE // 2, SIZE, 3)


def test_a_number_of_numpy_is_a_place_too(files):
    assert red(Thumbnails(files)[np.int64(2)]) == 100


def test_beyond_the_end(files):
    pictures = Thumbnails(files)
    with pytest.raises(IndexError):
        pictures[5]
    assert pictures[5:] == []
    assert list(Thumbnails([])) == []


def test_nothing_is_opened_before_it_is_asked_for(files, tmp_path):
    pictures = Thumbnails([*files, tmp_path / "missing.png"])
    assert len(pictures[:5]) == 5
    assert (pictures[5] == 255).all()  # what has gone since is white: it undoes no result
    assert [bool((picture == 255).all()) for picture in pictures[3:]] == [False, False, True]


def test_pixels_in_memory():
    assert red(Thumbnails([np.full((100, 200, 3), 7, dtype=np.uint8)])[0]) == 7


def test_a_feature_set_holds_them_and_checks_their_number(files):
    images = FeatureSet(np.eye(5), np.full(5, -1), images=Thumbnails(files)).images
    assert images is not None
    assert images[1].shape == (SIZE // 2, SIZE, 3)
    with pytest.raises(InputError, match="there are 4 samples but 5 images"):
        FeatureSet(np.eye(4), np.full(4, -1), images=Thumbnails(files))
