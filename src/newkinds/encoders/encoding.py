"""Raw collections to feature vectors: batches, workers, the cache, samples that cannot be read.

The features of every batch are in the cache before the next one begins, so that after an interruption the same
call goes on where it stopped. Samples are prepared (decoded, resized) by threads, or by other processes, while the
model computes.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from newkinds.data.raw import RawCollection
from newkinds.encoders.cache import FeatureCache, content_keys, default_cache
from newkinds.encoders.encoder import Encoder, FloatArray
from newkinds.encoders.loading import load_encoder
from newkinds.encoders.samples import as_collection
from newkinds.errors import InputError
from newkinds.names import Kind
from newkinds.runtime import n_cores, report_progress
from newkinds.workers import can_be_sent, worker_processes, worker_threads

AHEAD = 4
"""Batches that are prepared ahead of the model."""
MOST_WORKERS = 16
CHUNK = 8
"""Samples that a worker prepares in one go."""
SHOWN = 3
"""Samples that could not be read and are named in an error."""


@dataclass(frozen=True)
class Encoded:
    """An encoded collection.

    Attributes
    ----------
    collection : RawCollection
        The samples that could be read; its `skipped` names the others.
    features : ndarray of float32, shape (samples, width)
    keys : list of bytes
        Checksum of each sample's content.
    n_computed : int
        Samples that were not in the cache.
    seconds : float
        Time spent on computing them.
    notes : tuple of str
        What a user should know of the cache.
    """

    collection: RawCollection
    features: FloatArray
    keys: list[bytes]
    n_computed: int
    seconds: float
    notes: tuple[str, ...] = ()


@overload
def encode(
    samples: RawCollection,
    encoder: Encoder | str | None = None,
    *,
    device: str = "auto",
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Encoded: ...
@overload
def encode(
    samples: Sequence[Any] | npt.NDArray[Any],
    encoder: Encoder | str | None = None,
    *,
    device: str = "auto",
    cache: str | Path | None = None,
    workers: int | None = None,
) -> FloatArray: ...
def encode(
    samples: Any,
    encoder: Encoder | str | None = None,
    *,
    device: str = "auto",
    cache: str | Path | None = None,
    workers: int | None = None,
) -> Encoded | FloatArray:
    """Features of texts or images; samples with the same content are computed once.

    Parameters
    ----------
    samples : sequence, or RawCollection
        Texts; or images: paths, pictures of Pillow, arrays of pixels. The result is an array with a row for each,
        and a sample that cannot be read is an InputError. Of a `RawCollection` the result is an `Encoded`, and
        samples that cannot be read are left out and named in it.
    encoder : Encoder or str, optional
        An encoder or its name, see `newkinds.encoders.load_encoder`; by default the default for texts or images.
    device : {"auto", "cpu", "cuda", "mps"}
        Where an encoder that is given by name computes.
    cache : path, optional
        Folder in which features are remembered between calls; by default nowhere.
    workers : int, optional
        Processes that prepare samples; 0 prepares them in this one. By default images are prepared by as many
        threads as there are cores, at most 16. These are faster but for many thousands of small images on more than
        eight cores: Python's lock lets threads prepare some 1,200 a second.
    """
    if isinstance(samples, RawCollection):
        collection = samples
    else:
        collection = as_collection(samples, None if isinstance(encoder, str | None) else encoder.kind)
    if isinstance(encoder, str | None):
        encoder = load_encoder(encoder, collection.kind, device=device)
    encoded = _encode_collection(collection, encoder, None if cache is None else Path(cache), workers)
    if isinstance(samples, RawCollection):
        return encoded
    if encoded.collection.skipped:
        raise InputError("; ".join(f"{name}: {why}" for name, why in encoded.collection.skipped[:SHOWN]))
    return encoded.features


def _encode_collection(
    collection: RawCollection, encoder: Encoder, cache: Path | None, workers: int | None
) -> Encoded:
    if collection.kind != encoder.kind:
        raise InputError(f"{encoder.name} encodes {encoder.kind}; this is a collection of {collection.kind}")
    n = len(collection)
    keys = content_keys(collection.items)
    first_with = {key: row for row, key in reversed(list(enumerate(keys)))}
    with FeatureCache(cache, f"{encoder.fingerprint}-{encoder.precision}") as feature_cache:
        unique = sorted(first_with.values())
        is_cached, cached = feature_cache.find([keys[row] for row in unique])
        missing = [unique[at] for at in np.flatnonzero(~is_cached)]
        if missing:  # the default place is nobody's wish: if it cannot be written to, the work goes on
            feature_cache.prepare(required=cache != default_cache())
        computed, failed, seconds = _compute(collection, encoder, missing, keys, feature_cache, workers)
    place = np.full(n, -1)  # where a sample's features are in the table of the cached and the computed ones
    tables = [table for table in (cached, computed) if table is not None and len(table)]
    rows = [*(unique[at] for at in np.flatnonzero(is_cached)), *(row for row in missing if row not in failed)]
    place[rows] = np.arange(len(rows))
    place = place[[first_with[key] for key in keys]]
    readable = place >= 0
    if not readable.any():
        reasons = "; ".join(f"{collection.ids[row]}: {why}" for row, why in list(failed.items())[:3])
        raise InputError(f"no sample could be read ({reasons})" if n else "there are no samples")
    skipped = [(collection.ids[row], failed[first_with[keys[row]]]) for row in np.flatnonzero(~readable).tolist()]
    return Encoded(
        collection.only(readable, skipped),
        np.concatenate(tables)[place[readable]],
        [key for key, is_readable in zip(keys, readable, strict=True) if is_readable],
        len(missing) - len(failed),
        seconds,
        tuple(feature_cache.notes),
    )


def _compute(
    collection: RawCollection,
    encoder: Encoder,
    rows: Sequence[int],
    keys: Sequence[bytes],
    feature_cache: FeatureCache,
    workers: int | None,
) -> tuple[FloatArray | None, dict[int, str], float]:
    """Features of some samples, why others have none, and the seconds it took."""
    results: list[FloatArray] = []
    failed: dict[int, str] = {}
    batch: list[tuple[int, Any]] = []
    began = time.perf_counter()

    def encode_batch() -> None:
        if batch:
            features = np.asarray(encoder.encode([sample for _, sample in batch]), dtype=np.float32)
            if features.ndim != 2 or len(features) != len(batch):
                raise InputError(f"{encoder.name} gives an array {features.shape} for {len(batch)} samples")
            bad = ~np.isfinite(features).all(axis=1)
            if bad.any():
                raise InputError(
                    f"{encoder.name} gives NaN or infinity for {collection.ids[batch[int(np.argmax(bad))][0]]}; "
                    "if it runs in half precision, try full precision"
                )
            feature_cache.add([keys[row] for row, _ in batch], features)
            results.append(features)
            batch.clear()

    items = (collection.items[row] for row in rows)
    n = n_workers(encoder.kind, workers) if len(rows) > CHUNK else 0
    by_threads = workers is None or not can_be_sent(encoder.preparation)
    ahead = AHEAD * encoder.batch_size
    with closing(prepared(items, encoder.preparation, n, ahead, by_threads=by_threads)) as samples:
        for done, (row, sample) in enumerate(zip(rows, samples, strict=True), start=1):
            if isinstance(sample, Unreadable):
                failed[row] = sample.why
            else:
                batch.append((row, sample))
            if len(batch) == encoder.batch_size or done == len(rows):
                encode_batch()
                report_progress("encoding", done, len(rows))
    return (np.concatenate(results) if results else None), failed, time.perf_counter() - began


@dataclass(frozen=True)
class Unreadable:
    """Stands for a sample that could not be prepared."""

    why: str


def n_workers(kind: Kind, asked: int | None) -> int:
    """Who prepares samples: as many workers as asked for, else one per core for images and none for texts."""
    if asked is not None:
        if asked < 0:
            raise InputError(f"workers must be at least 0; got {asked}")
        return asked
    return 0 if kind == "texts" else min(MOST_WORKERS, n_cores())


def prepared(
    samples: Iterable[Any],
    preparation: Callable[[Any], Any],
    workers: int,
    ahead: int,
    *,
    by_threads: bool = False,
) -> Generator[Any, None, None]:
    """Prepared samples in the order of the samples; `Unreadable` in the place of those that cannot be prepared.

    Worker processes, or threads, stay about `ahead` samples ahead of the caller. Without workers it is the caller
    that prepares them.
    """
    remaining = iter(samples)
    chunks = iter(lambda: list(islice(remaining, CHUNK)), [])
    if workers == 0:
        for chunk in chunks:
            yield from _prepare_chunk(preparation, chunk)
        return
    with worker_threads(workers) if by_threads else worker_processes(workers) as pool:
        n_ahead = max(2 * workers, ahead // CHUNK)
        waiting = deque(pool.submit(_prepare_chunk, preparation, chunk) for chunk in islice(chunks, n_ahead))
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(pool.submit(_prepare_chunk, preparation, chunk) for chunk in islice(chunks, 1))


def _prepare_chunk(preparation: Callable[[Any], Any], samples: Sequence[Any]) -> list[Any]:
    results: list[Any] = []
    for sample in samples:
        try:
            results.append(preparation(sample))
        except (InputError, OSError, MemoryError) as error:
            why = str(error).removeprefix(str(sample)).strip()  # the caller names the sample
            results.append(Unreadable(why or type(error).__name__))
    return results
