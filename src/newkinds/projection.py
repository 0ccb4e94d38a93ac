"""A map of the samples: a place in the plane for each, so that a person can look over a collection.

With `umap-learn` installed the places are UMAP's: they show how the features lie by themselves, whatever we made of
them. Without, they are our own, which take no package and a few seconds: every category is a cloud whose area
follows its size, alike categories lie near each other, and a sample that is nearly as much like another category
lies on that category's side. (The first two principal components of the class means would be simpler, but there
hundreds of categories lie upon one another.)

Both are computed on at most `PROJECTED` samples; UMAP's others are placed among the nearest of those.
"""

import logging
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from newkinds.labels import IntArray
from newkinds.middles import blocks, category_middles
from newkinds.runtime import report_progress

logger = logging.getLogger(__name__)

PROJECTED = 20_000
WIDTH = 50
"""Principal components that UMAP gets to see."""
NEIGHBOURS = 5
"""Projected samples among which another one is placed."""
RESIDUAL_WIDTH = 16
"""Directions within categories that are looked at."""
ELEMENTS = 1 << 24
"""Numbers of samples times categories, or times other samples, at a time: 128 MiB."""
RIVALS = 4
"""Categories towards which a sample may lean."""
MOST_LAID_OUT = 1500
"""Categories that are moved apart, in time and memory that grow with their square; of more, the map is plainer."""
CLEAR = 4.0
"""By how many times a small difference a typical sample is more like its own category than like the next."""
SETTLING = 400
"""Steps in which clouds that lie upon one another move apart."""
FILLED = 0.32
"""Share of the map's area that the clouds take."""
STAGE = "drawing the map"

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Projection:
    """Places of samples.

    Attributes
    ----------
    places : ndarray of shape (samples, 2), float32
        The larger side goes from 0 to 1.
    method : {"umap", "clouds"}
    """

    places: npt.NDArray[np.float32]
    method: str


def project(features: npt.NDArray[Any], columns: IntArray, n_categories: int, seed: int = 0) -> Projection:
    """Find a place for every sample.

    Parameters
    ----------
    features : ndarray of shape (samples, features)
        Of unit length; they may lie in a memory map.
    columns : ndarray of shape (samples,)
        The category of each sample, from 0 on.
    n_categories : int
    seed : int
    """
    report_progress(STAGE, 0, 2)
    places = _umap_if_it_works(features, seed)
    method = "clouds" if places is None else "umap"
    places = _clouds(features, columns, n_categories) if places is None else places
    report_progress(STAGE, 2, 2)
    return Projection(_scaled(places), method)


def _umap_if_it_works(features: npt.NDArray[Any], seed: int) -> FloatArray | None:
    """UMAP's places; None where it is not installed, or fails: its parts must fit each other and NumPy."""
    if find_spec("umap") is None or len(features) <= NEIGHBOURS * WIDTH:
        return None
    try:
        return _umap(features, seed)
    except Exception as error:
        logger.warning("the map is drawn without UMAP, which failed: %s", error)
        return None


def _scaled(places: FloatArray) -> npt.NDArray[np.float32]:
    low = places.min(axis=0)
    side = float((places.max(axis=0) - low).max())
    return np.asarray((places - low) / (side or 1.0), dtype=np.float32)


def _umap(features: npt.NDArray[Any], seed: int) -> FloatArray:
    import warnings

    from umap import UMAP

    rng = np.random.default_rng(seed)
    n = len(features)
    rows = np.sort(rng.choice(n, PROJECTED, replace=False)) if n > PROJECTED else np.arange(n)
    some = features[rows].astype(np.float32)
    mean = some.mean(axis=0)
    directions = _main_directions((some - mean).T @ (some - mean), WIDTH)
    reduced = (some - mean) @ directions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one thread, because of the seed: as it is meant
        mapped = UMAP(random_state=seed, n_jobs=1).fit_transform(reduced).astype(np.float64)
    places = np.empty((n, 2))
    places[rows] = mapped
    others = np.setdiff1d(np.arange(n), rows)
    squares = (reduced**2).sum(axis=1)
    for block in blocks(others, ELEMENTS // len(rows)):
        near = (features[block].astype(np.float32) - mean) @ directions
        distances = squares - 2 * near @ reduced.T  # less a part that is the same for all
        nearest = np.argpartition(distances, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        places[block] = np.median(mapped[nearest], axis=1)
    return places


def _clouds(features: npt.NDArray[Any], columns: IntArray, n_categories: int) -> FloatArray:
    used = np.flatnonzero(np.bincount(columns, minlength=n_categories))
    middles = category_middles(features, columns, n_categories)[used].astype(np.float64)
    columns = np.searchsorted(used, columns)
    sizes = np.bincount(columns, minlength=len(used))
    radii = np.sqrt(sizes / sizes.sum() * FILLED / np.pi) + 1e-3
    anchors = _anchors(middles, radii)
    shapes = _shapes(features, columns, middles)
    places = np.empty((len(features), 2))
    for block in blocks(np.arange(len(features)), ELEMENTS // len(used)):
        unit, own = features[block].astype(np.float64), columns[block]
        similarity = unit @ middles.T
        offsets = np.einsum("nd,ndk->nk", unit @ shapes.directions - shapes.centres[own], shapes.axes[own])
        distance = np.linalg.norm(offsets, axis=1, keepdims=True)
        inside = offsets * (np.tanh(distance / 2) / np.maximum(distance, 1e-12))
        places[block] = anchors[own] + radii[own, None] * inside + _leaning(similarity, own, anchors, shapes.spread)
    return places


def _leaning(similarity: FloatArray, own: IntArray, anchors: FloatArray, spread: float) -> FloatArray:
    """How far samples lie towards other categories: halfway to one that is as similar as their own."""
    if similarity.shape[1] == 1:
        return np.zeros((len(own), 2))
    behind = _behind(similarity, own)
    n_rivals = min(RIVALS, behind.shape[1] - 1)
    rivals = np.argpartition(-behind, n_rivals - 1, axis=1)[:, :n_rivals]
    pull = np.exp(np.minimum(np.take_along_axis(behind, rivals, axis=1) / spread, 0.0))
    pull *= 0.5 * pull.max(axis=1, keepdims=True) / np.maximum(pull.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(np.einsum("nr,nrk->nk", pull, anchors[rivals] - anchors[own][:, None]))


def _behind(similarity: FloatArray, own: IntArray) -> FloatArray:
    """How much less (or more) like other categories samples are than like their own, which counts as -inf."""
    rows = np.arange(len(own))
    behind = similarity - similarity[rows, own][:, None]
    behind[rows, own] = -np.inf
    return behind


@dataclass(frozen=True)
class _Shapes:
    """How samples spread around the middles of their categories.

    Attributes
    ----------
    directions : ndarray of shape (features, r)
        In which they spread most.
    centres : ndarray of shape (categories, r)
        Means of the categories in these directions.
    axes : ndarray of shape (categories, r, 2)
        From those to the two main axes of each category, in units of its deviation.
    spread : float
        A difference of cosines that is small.
    """

    directions: FloatArray
    centres: FloatArray
    axes: FloatArray
    spread: float


def _shapes(features: npt.NDArray[Any], columns: IntArray, middles: FloatArray) -> _Shapes:
    rows = np.arange(0, len(features), -(-len(features) // PROJECTED))
    some, own = features[rows].astype(np.float64), columns[rows]
    residuals = some - middles[own]
    directions = _main_directions(residuals.T @ residuals, RESIDUAL_WIDTH)
    reduced = some @ directions
    centres = middles @ directions
    axes = np.zeros((len(middles), reduced.shape[1], 2))
    overall = np.maximum((residuals @ directions).var(axis=0), 1e-18)
    for column in range(len(middles)):
        members = reduced[own == column]
        if len(members):
            centres[column] = members.mean(axis=0)
        around = members - centres[column]
        values, vectors = np.linalg.eigh((around.T @ around + np.diag(overall)) / (len(members) + 1))
        main = vectors[:, ::-1][:, :2]
        main = main * np.where(main.sum(axis=0) < 0, -1, 1)  # an axis has no sign of its own
        axes[column, :, : main.shape[1]] = main / np.sqrt(np.maximum(values[::-1][:2], 1e-18))
    few = slice(0, None, -(-len(some) * len(middles) // ELEMENTS))
    margins = -_behind(some[few] @ middles.T, own[few]).max(axis=1)
    typical = float(np.median(margins)) if np.isfinite(margins).all() else 1.0
    return _Shapes(directions, centres, axes, max(typical / CLEAR, 1e-6))


def _main_directions(scatter: npt.NDArray[Any], most: int) -> npt.NDArray[Any]:
    """The eigenvectors of the largest eigenvalues as columns, the largest first."""
    width = len(scatter)
    _, vectors = eigh(scatter, subset_by_index=[max(0, width - most), width - 1])
    vectors = vectors[:, ::-1]
    return np.asarray(vectors * np.where(vectors.sum(axis=0) < 0, -1, 1))


def _anchors(middles: FloatArray, radii: FloatArray) -> FloatArray:
    """Where the clouds lie: like categories near each other (t-SNE of the middles), and none upon another."""
    places: FloatArray = _plane(middles)
    extent = np.linalg.norm(places - places.mean(axis=0), axis=1).max()
    places = (places - places.mean(axis=0)) / (extent or 1.0) * 0.5
    if len(places) > MOST_LAID_OUT:
        return places
    apart = 1.15 * (radii[:, None] + radii[None, :])
    for step in range(SETTLING):
        difference = places[:, None] - places[None, :]
        distance = np.linalg.norm(difference, axis=2)
        np.fill_diagonal(distance, np.inf)
        overlap = np.maximum(apart - distance, 0)
        if overlap.max() < 1e-4:
            break
        same = distance < 1e-9
        if same.any():  # two at one place part in some direction, always the same
            angle = np.arange(len(places)) * 2.399963
            difference = difference + same[:, :, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None]
        push = (overlap / np.maximum(distance, 1e-9))[:, :, None] * difference
        places = places + 0.5 * push.sum(axis=1) / np.maximum((overlap > 0).sum(axis=1), 1)[:, None]
        places *= 1 - 0.01 * (1 - step / SETTLING)  # drawn together a little, so that no room is left empty
    return places


def _plane(middles: FloatArray) -> FloatArray:
    """The middles of categories in two dimensions."""
    n = len(middles)
    centred = middles - middles.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((n, 2))
    flat[:, : min(2, len(lengths))] = (left * lengths)[:, :2]
    if not 10 <= n <= MOST_LAID_OUT:
        return flat
    from sklearn.manifold import TSNE

    start = flat / max(flat[:, 0].std(), 1e-12) * 1e-2
    perplexity = float(np.clip(n / 8, 3, 15))
    layout = TSNE(perplexity=perplexity, metric="cosine", init=start, random_state=0, method="exact", max_iter=500)
    return np.asarray(layout.fit_transform(middles), dtype=np.float64)
