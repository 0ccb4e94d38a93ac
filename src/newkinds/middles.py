"""The middles of categories: the means of their samples at unit length, in blocks, without PyTorch."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from newkinds.labels import IntArray

ROWS = 1 << 14
"""Samples looked at at a time."""


def blocks(rows: npt.NDArray[np.intp], most: int = ROWS) -> list[npt.NDArray[np.intp]]:
    """Rows in parts that are looked at at a time, of at most `ROWS` and `most`, but at least one."""
    n = max(1, min(most, ROWS))
    return [rows[first : first + n] for first in range(0, len(rows), n)]


def category_middles(
    features: npt.NDArray[Any], columns: IntArray, n_categories: int, rows: npt.NDArray[np.intp] | None = None
) -> npt.NDArray[np.float32]:
    """The mean of each category's features at unit length; zero for an empty category.

    Parameters
    ----------
    features : ndarray of shape (samples, features)
        They may lie in a memory map. Their lengths do not matter, except that zeros stay zeros.
    columns : ndarray of shape (samples,)
        The category of each sample, from 0 on.
    n_categories : int
    rows : ndarray of int, optional
        The samples that count; by default all.

    Examples
    --------
    >>> category_middles(np.array([[2.0, 0], [0, 1], [0, 3]]), np.array([0, 1, 1]), 3)
    array([[1., 0.],
           [0., 1.],
           [0., 0.]], dtype=float32)
    """
    sums = np.zeros((n_categories, features.shape[1]), dtype=np.float32)
    for block in blocks(np.arange(len(features)) if rows is None else rows):
        part = features[block].astype(np.float32)
        lengths = np.linalg.norm(part, axis=1)
        ones = 1 / np.where(lengths > 0, lengths, 1)
        membership = csr_array((ones, (columns[block], np.arange(len(block)))), shape=(n_categories, len(block)))
        sums += membership @ part
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), dtype=np.float32)
