"""The features as the engine reads them: of unit length, float32, on the device, block by block.

Results do not depend on where the features lie: in a tensor, in an array in memory, or in a memory map larger than
memory (only the block at work is ever copied). Under `torchrun` every process holds a part.

The samples are cut into lanes: contiguous ranges that depend only on the number of samples. A process owns whole
lanes. Sums over the samples are taken within each lane first, then over the lanes in a fixed order, so two
processes find what one finds, to the last bit if their processors round alike.
"""

import copy
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.linear_map import LinearMap
from newkinds.engine.partitioner import Committee, Partitioner, blocks
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.runtime import least_over_processes, n_processes, rank, report_progress, sum_over_processes
from newkinds.workers import share_out

LANE_SAMPLES = 2048
"""A lane has at least this many samples, so that adding up the lanes costs little beside their products."""
MOST_LANES = 64
RESIDENT_BYTES = 256 << 20
"""Features that take no more are held in memory as float32; others are read from their place in every pass.

A GPU holds them if they take no more than half of its free memory."""
CHECKED_ROWS = 1 << 14
LOADED_ROWS = 1 << 12
"""Samples read from the source at a time, and held until others are asked for."""
ADDED_ROWS = 256
"""Samples whose products a CPU adds up at a time. Longer sums would be split among the threads, and the rounding
would then depend on the number of threads."""
SAFE_NORMS = (1e-15, 1e15)
"""Lengths whose squares and inverses are ordinary float32 numbers."""


class _Held(threading.local):
    """What was read last; each thread works on samples of its own."""

    rows = slice(0, 0)
    features = torch.empty(0)


class Samples:
    """Features of all processes' samples, read in blocks.

    Parameters
    ----------
    source : Tensor or ndarray of shape (samples, features)
        A tensor is taken as it is: float32, of unit length, on the device to work on. An array (also a memory map)
        is checked, and scaled to unit length on the way.
    device : torch.device, optional
        For an array; the CPU by default.

    Attributes
    ----------
    width : int
        Features of a sample.
    own : slice
        The samples of this process.
    lanes : tuple of slice
        The same, cut into lanes.

    Examples
    --------
    >>> samples = Samples(np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]]))
    >>> len(samples), samples.read(slice(0, 2))
    (3, tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]]))
    """

    def __init__(self, source: Tensor | npt.NDArray[Any], device: torch.device | None = None) -> None:
        self._n, self.width = (int(size) for size in source.shape)
        if self._n < n_processes():
            raise InputError(f"{self._n} samples cannot be shared by {n_processes()} processes; start fewer")
        self.lanes = _own_lanes(self._n)
        self.own = slice(self.lanes[0].start, self.lanes[-1].stop)
        self._resident: Tensor | None = None
        self._half: Tensor | None = None
        self._held = _Held()
        self._fingerprint: IntArray | None = None
        self._origin: tuple[Samples, LinearMap] | None = None
        if isinstance(source, Tensor):
            self.device = source.device
            self._resident = source[self.own]
            return
        self.device = torch.device("cpu") if device is None else device
        self._source = source
        self._inverse = self._inverse_lengths()
        if self._fits():
            resident = torch.empty(self.own.stop - self.own.start, self.width, device=self.device)
            for rows in _rows(self.own, CHECKED_ROWS):
                resident[self.within(rows)] = self._load(rows)
            self._resident = resident

    @classmethod
    def of(cls, features: "Samples | Tensor") -> "Samples":
        return features if isinstance(features, Samples) else cls(features)

    def mapped(self, linear: LinearMap) -> "Samples":
        """The same samples after a linear map; those that are not held in memory are mapped as they are read."""
        mapped = copy.copy(self)
        mapped.width, mapped._origin = linear.width, (self, linear)
        mapped._resident = mapped._half = mapped._fingerprint = None
        mapped._held = _Held()
        if mapped._fits():
            resident = torch.empty(self.own.stop - self.own.start, linear.width, device=self.device)

            def fill(rows: slice) -> None:
                resident[self.within(rows)] = linear.apply(self.read(rows))

            self._in_pieces(fill)
            mapped._resident = resident
        return mapped

    def _fits(self) -> bool:
        """Whether every process can hold its features ready."""
        needed = (self.own.stop - self.own.start) * self.width * 4
        return bool(least_over_processes(int(needed <= _most_resident(self.device))))

    def __len__(self) -> int:
        return self._n

    @property
    def resident(self) -> Tensor | None:
        """This process's features as one tensor, where they are held ready."""
        return self._resident

    def half(self, width: int) -> Tensor:
        """This process's features in half precision, padded with zeros to `width`; made once."""
        assert self._resident is not None
        if self._half is None or self._half.shape[1] != width:
            self._half = torch.nn.functional.pad(self._resident.half(), (0, width - self.width))
        return self._half

    def within(self, rows: slice) -> slice:
        """Positions among all samples as positions among this process's."""
        return slice(rows.start - self.own.start, rows.stop - self.own.start)

    def read(self, rows: slice) -> Tensor:
        """The features of some of this process's samples."""
        if self._resident is not None:
            return self._resident[self.within(rows)]
        held = self._held
        if not held.rows.start <= rows.start <= rows.stop <= held.rows.stop:
            wanted = slice(rows.start, min(max(rows.stop, rows.start + LOADED_ROWS), self.own.stop))
            held.features = self._load(wanted)  # which may fail
            held.rows = wanted
        return held.features[rows.start - held.rows.start : rows.stop - held.rows.start]

    def take(self, indices: IntArray) -> Tensor:
        """The features of any samples, whichever process holds them."""
        if self._resident is not None and n_processes() == 1:
            return self._resident[torch.from_numpy(indices).to(self.device)]
        taken = torch.zeros(len(indices), self.width, device=self.device)
        local = np.flatnonzero((indices >= self.own.start) & (indices < self.own.stop))
        for positions in np.array_split(local, max(1, len(local) // CHECKED_ROWS)):
            taken[torch.from_numpy(positions).to(self.device)] = self._load(indices[positions])
        return sum_over_processes(taken)

    def gather(self, own_values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Put together the values that each process has for its own samples."""
        values = np.zeros((self._n, *own_values.shape[1:]), dtype=own_values.dtype)
        values[self.own] = own_values
        if n_processes() == 1:
            return values
        return sum_over_processes(torch.from_numpy(values).to(self.device)).cpu().numpy()

    def assign(
        self,
        partitioner: Partitioner | Committee,
        among: npt.NDArray[np.bool_] | None = None,
        least: float = 0.0,
    ) -> IntArray:
        """Most probable category of each sample, or only of the samples that the mask `among` marks.

        -1 where its probability is below `least`.
        """
        own_columns = np.zeros(self.own.stop - self.own.start, dtype=np.int64)

        def fill(rows: slice) -> None:
            marked = np.arange(rows.stop - rows.start) if among is None else np.flatnonzero(among[rows])
            if len(marked):
                features = self.read(rows)
                if among is not None:
                    features = features[torch.from_numpy(marked).to(features.device)]
                own_columns[self.within(rows)][marked] = partitioner.assign(features, least)

        self._in_pieces(fill)
        columns: IntArray = self.gather(own_columns)
        return columns if among is None else columns[among]

    def margins(self, partitioner: Partitioner, n_first: int) -> npt.NDArray[np.float64]:
        """See `Partitioner.margins`."""
        own_margins = np.zeros(self.own.stop - self.own.start)

        def fill(rows: slice) -> None:
            own_margins[self.within(rows)] = partitioner.margins(self.read(rows), n_first)

        self._in_pieces(fill)
        margins: npt.NDArray[np.float64] = self.gather(own_margins)
        return margins

    def _in_pieces(self, work: Callable[[slice], None]) -> None:
        """Do something with all of this process's samples, a piece of a lane at a time."""

        def in_lane(lane: slice) -> None:
            for rows in _rows(lane, CHECKED_ROWS):
                work(rows)

        over_lanes(self, in_lane)

    def fingerprint(self) -> IntArray:
        """A checksum of each lane, over all processes, that identifies the features."""
        if self._fingerprint is None:
            sums = np.zeros(_n_lanes(self._n), dtype=np.int64)
            first = sums.size * rank() // n_processes()
            for number, lane in enumerate(self.lanes, start=first):
                for rows in _rows(lane, CHECKED_ROWS):
                    content = self.read(rows).cpu().contiguous().numpy().data
                    sums[number] = zlib.crc32(content, int(sums[number]))
            self._fingerprint = sum_over_processes(torch.from_numpy(sums).to(self.device)).cpu().numpy()
        return self._fingerprint

    def _load(self, rows: slice | IntArray) -> Tensor:
        """The features of some of this process's samples, from where they come from."""
        if self._resident is not None:
            return self._resident[self.within(rows) if isinstance(rows, slice) else rows - self.own.start]
        if self._origin is not None:
            origin, linear = self._origin
            return linear.apply(origin.read(rows) if isinstance(rows, slice) else origin._load(rows))
        block = np.array(self._source[rows], order="C")  # a copy: nothing else of a memory map stays in memory
        if self._inverse is None:
            return torch.from_numpy(normalised(block).astype(np.float32, copy=False)).to(self.device)
        inverse = self._inverse[self.within(rows) if isinstance(rows, slice) else rows - self.own.start]
        return torch.from_numpy(block).to(self.device).float().mul_(inverse.to(self.device)[:, None])

    def _inverse_lengths(self) -> Tensor | None:
        """1 / |z| of this process's samples, all checked; None if that is not an ordinary float32 number."""
        ordinary = self._source.dtype in (np.float16, np.float32)
        lengths = torch.empty(self.own.stop - self.own.start)
        for rows in _rows(self.own, CHECKED_ROWS):
            block = np.array(self._source[rows], order="C")
            if not ordinary:
                # The largest entry instead, whose square need not fit: only zero and NaN matter here.
                sizes = torch.from_numpy(np.abs(block).max(axis=1).astype(np.float64))
            else:
                sizes = torch.from_numpy(block).double().norm(dim=1)
            _check_sizes(sizes.numpy(), rows.start)
            lengths[self.within(rows)] = sizes.float()
            report_progress("reading the features", rows.stop - self.own.start, self.own.stop - self.own.start)
        shortest, longest = SAFE_NORMS
        ordinary = ordinary and bool((lengths > shortest).all()) and bool((lengths < longest).all())
        return lengths.reciprocal_() if least_over_processes(int(ordinary)) else None


def over_lanes(samples: Samples, work: Callable[[slice], None]) -> None:
    """Do something with each lane; several threads may work at a time."""
    for _ in share_out(work, samples.lanes):
        pass


def sum_over_lanes(samples: Samples, lane_sum: Callable[[slice], Tensor]) -> Tensor:
    """Sum of `lane_sum` over the lanes in a fixed order, neighbours first, and then over all processes.

    Two sums of equally many lanes are added as soon as both exist, so that only a few exist at a time.
    """
    sums: list[tuple[int, Tensor]] = []  # lanes added up, and their sum
    for added in share_out(lane_sum, samples.lanes):
        count = 1
        while sums and sums[-1][0] == count:
            added = sums.pop()[1].add_(added)
            count *= 2
        sums.append((count, added))
    whole = sums.pop()[1]
    while sums:
        whole = sums.pop()[1].add_(whole)
    return sum_over_processes(whole)


def add_product(sums: Tensor, left: Tensor, features: Tensor) -> None:
    """Add `left @ features` to `sums`: left (rows, samples), features (samples, width)."""
    step = ADDED_ROWS if sums.device.type == "cpu" else len(features)
    for first in range(0, len(features), max(1, step)):
        sums.addmm_(left[:, first : first + step], features[first : first + step])


def lane_blocks(lane: slice, columns: int, device: str) -> list[slice]:
    """A lane in blocks that fit the cache (or a GPU's share of memory), as positions among all samples."""
    cut = blocks(lane.stop - lane.start, columns, device)
    return [slice(lane.start + rows.start, lane.start + rows.stop) for rows in cut]


def _rows(rows: slice, size: int) -> Iterator[slice]:
    for first in range(rows.start, rows.stop, size):
        yield slice(first, min(first + size, rows.stop))


def _n_lanes(n: int) -> int:
    count = 2
    while count < MOST_LANES and 2 * count * LANE_SAMPLES <= n:
        count *= 2
    while count < n_processes():
        count *= 2
    return count


def _own_lanes(n: int) -> tuple[slice, ...]:
    count = _n_lanes(n)
    edges = [n * lane // count for lane in range(count + 1)]
    first, after = (count * process // n_processes() for process in (rank(), rank() + 1))
    return tuple(slice(edges[lane], edges[lane + 1]) for lane in range(first, after))


def _most_resident(device: torch.device) -> int:
    if device.type == "cuda":
        return free_memory(device) // 2
    return RESIDENT_BYTES


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that are free, or held by PyTorch for later use."""
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + held)


def precise(device: torch.device) -> torch.dtype:
    """The type for long sums: double precision, except on Apple's devices, which lack it."""
    return torch.float32 if device.type == "mps" else torch.float64


def normalised(features: npt.NDArray[Any], first_row: int = 0) -> npt.NDArray[np.floating[Any]]:
    """Features scaled to unit length, float32 or float64 as they came (float16 becomes float32).

    A zero vector has no direction, so it cannot be compared with anything: it is refused. `first_row` is the row
    that these features begin with, for the message.

    Examples
    --------
    >>> normalised(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    kind = np.float64 if features.dtype == np.float64 else np.float32
    values: npt.NDArray[Any] = features.astype(kind)
    largest = np.maximum(values.max(axis=1, keepdims=True), -values.min(axis=1, keepdims=True))
    _check_sizes(largest[:, 0], first_row)
    values /= largest  # so that squares neither overflow nor vanish
    values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    return values


def _check_sizes(sizes: npt.NDArray[np.floating[Any]], first_row: int) -> None:
    """Refuse samples whose length, or largest entry, is not finite or zero."""
    if (bad := np.flatnonzero(~np.isfinite(sizes))).size:
        raise InputError(
            f"features must be finite; row {first_row + bad[0]} has NaN or infinity (and perhaps others); "
            "remove such samples or encode them again"
        )
    if (zero := np.flatnonzero(sizes == 0)).size:
        raise InputError(
            f"row {first_row + zero[0]} is a zero vector (and perhaps others): it has no direction and cannot be "
            "normalised; remove such samples or encode them again"
        )
