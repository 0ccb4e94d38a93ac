"""Six birds as files of features, one function for each format."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N, WIDTH = 6, 3
X = np.arange(1.0, N * WIDTH + 1, dtype=np.float32).reshape(N, WIDTH)
TRUTH = np.array([0, 0, 1, 1, 2, 2])
LABELS = np.array([0, -1, 1, -1, -1, -1])
NAMES = np.array(["owl", "", "wren", "", "", ""])


def npz(folder: Path, **arrays) -> Path:
    np.savez(folder / "birds.npz", **{"features": X, **arrays})
    return folder / "birds.npz"


def parquet(folder: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), folder / "birds.parquet")
    return folder / "birds.parquet"


def released(folder: Path, dtype: str = "float32", **changed: Any) -> Path:
    arrays = {
        "all_feats": X.astype(dtype),
        "targets": TRUTH,
        "mask_lab": LABELS >= 0,
        "mask_cls": TRUTH < 2,
        **changed,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder
