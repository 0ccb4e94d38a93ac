"""What people pass as samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from PIL import Image

from newkinds.names import Kind
from newkinds.raw_samples import kind_of_samples

PIXELS = np.zeros((4, 5, 3), dtype=np.uint8)

SAMPLES: dict[str, tuple[Callable[[], Any], Kind | None]] = {
    "a list of texts": (lambda: ["a", "b"], "texts"),
    "a tuple of texts": (lambda: ("a",), "texts"),
    "an array of texts": (lambda: np.array(["a"]), "texts"),
    "an array of objects": (lambda: np.array(["a", None], dtype=object), "texts"),
    "a column of texts": (lambda: pd.Series(["a"], dtype="string"), "texts"),
    "a column that begins with gaps": (lambda: pd.Series([None, float("nan"), "a"], dtype=object), "texts"),
    "a list that begins with NA": (lambda: [pd.NA, pd.NaT, "a"], "texts"),
    "a column that begins with NA": (lambda: pd.Series([pd.NA, "a"], dtype="string"), "texts"),
    "a list that begins with blanks": (lambda: ["", "a"], "texts"),
    "images that begin with a gap": (lambda: [pd.NA, Path("a.png")], "images"),
    "a single text": (lambda: "a", "texts"),
    "paths": (lambda: [Path("a.png")], "images"),
    "a single path": (lambda: Path("a.png"), "images"),
    "contents of files": (lambda: [b"GIF89a"], "images"),
    "pictures": (lambda: [Image.new("L", (2, 2))], "images"),
    "pixels": (lambda: [PIXELS, PIXELS], "images"),
    "grey pixels": (lambda: [PIXELS[:, :, 0]], "images"),
    "an array of pixels": (lambda: np.stack([PIXELS, PIXELS]), "images"),
    "a tensor of pixels": (lambda: torch.zeros((2, 4, 5, 3), dtype=torch.uint8).numpy(), "images"),
    "features": (lambda: np.eye(3), None),
    "features in bytes": (lambda: np.eye(3, dtype=np.uint8), None),
    "rows of bytes": (lambda: [np.zeros(3, dtype=np.uint8)], None),
    "lists of numbers": (lambda: [[1.0, 2.0]], None),
    "a vector": (lambda: np.ones(3), None),
    "a data frame": (lambda: pd.DataFrame({"a": [1.0]}), None),
    "a sparse matrix": (lambda: scipy.sparse.eye_array(3), None),
    "a tensor": (lambda: torch.eye(3), None),
    "four dimensions of numbers": (lambda: np.zeros((1, 2, 2, 3)), None),
    "nothing": (lambda: None, None),
    "no samples": (lambda: [], None),
    "gaps only": (lambda: [None, None], None),
    "a mapping": (lambda: {"a": 1}, None),
}


@pytest.mark.parametrize("case", SAMPLES)
def test_texts_images_and_features_are_told_apart(case: str) -> None:
    make, kind = SAMPLES[case]
    assert kind_of_samples(make()) == kind
