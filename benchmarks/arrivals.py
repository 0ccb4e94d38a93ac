"""How much memory, time and disk a run takes that grows by a stream: a million samples in a hundred arrivals.

    python benchmarks/arrivals.py [FOLDER] [--samples 1000000] [--arrivals 100] [--keep 200] [--kinds 100] [--watch]

Made-up samples of kinds of different sizes; three fifths of the kinds are in the collection that the run begins
with, the others come one after another. Each arrival goes through `newkinds.editing.update`; with `--watch` it is
answered in small blocks and then taken in, as by `newkinds watch`. All is done in one process. After each arrival
it prints the seconds that it took, the memory that the process has and the most that it ever had, the room on the
disk, and the kinds; at the end, by how much the peak grew after the tenth arrival.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import newkinds
from newkinds import FeatureSet
from newkinds.answering import Samples
from newkinds.editing import update
from newkinds.editing.updating import Limits
from newkinds.editing.waiting import waiting_samples
from newkinds.editing.watching import Watch
from newkinds.run_folder import read_run

FIRST, LABELLED = 0.6, 0.4
"""Shares of the kinds that are there from the beginning, and that have labels."""
SIZE = 50
"""Samples of a kind at the beginning."""
SPREAD = 0.09
"""Standard deviation of a feature around the middle of its kind, which has length 1."""
FROM = 10
"""Arrivals from which on the memory should not grow."""
BLOCK = 500
"""Samples that are answered together with `--watch`."""


class Stream:
    """Samples of kinds, of which some come late."""

    def __init__(self, n_kinds: int, n_features: int, n_arrivals: int) -> None:
        rng = np.random.default_rng(0)
        middles = rng.normal(size=(n_kinds, n_features))
        self.middles = middles / np.linalg.norm(middles, axis=1, keepdims=True)
        self.sizes = 1 / (10 + rng.permutation(n_kinds))  # the largest ten times as large as the smallest
        self.n_first = int(FIRST * n_kinds)
        late = np.linspace(1, 0.8 * n_arrivals, n_kinds - self.n_first)
        self.comes = np.concatenate([np.zeros(self.n_first), late])
        """The arrival with which each kind comes."""

    def samples(self, truth: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float32]:
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((len(truth), self.middles.shape[1]), dtype=np.float32)
        return np.asarray(self.middles[truth] + SPREAD * noise, dtype=np.float32)

    def arrival(self, number: int, n_samples: int) -> FeatureSet:
        there = np.where(self.comes <= number, self.sizes, 0.0)
        truth = np.random.default_rng([1, number]).choice(len(there), n_samples, p=there / there.sum())
        ids = tuple(f"{number}-{row}" for row in range(n_samples))
        return FeatureSet(self.samples(truth, number), np.full(n_samples, -1), ids=ids)


def make_run(folder: Path, stream: Stream) -> Path:
    truth = np.repeat(np.arange(stream.n_first), SIZE)
    n_labelled = int(LABELLED * len(stream.sizes))
    labels = [f"kind {c}" if c < n_labelled and row % 2 else None for row, c in enumerate(truth)]
    discovery = newkinds.discover(
        stream.samples(truth, 0), labels, n_categories=stream.n_first, lam=0.3, temperature=25.0
    )
    return discovery.save(folder / "run", with_map=False)


def resident() -> float:
    """MiB that this process has now; NaN where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * resource.getpagesize() / 2**20


def peak() -> float:
    """MiB that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def on_disk(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--arrivals", type=int, default=100)
    parser.add_argument("--keep", type=int, default=200)
    parser.add_argument("--kinds", type=int, default=100)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--keep-versions", type=int, default=20)
    parser.add_argument("--watch", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        measure(arguments, arguments.folder or Path(temporary))


def grow(run: Path, arrival: FeatureSet, limits: Limits, is_watched: bool) -> None:
    if not is_watched:
        update(run, arrival, keep=limits.keep, keep_versions=limits.keep_versions)
        return
    assert arrival.ids is not None
    starts = range(0, len(arrival), BLOCK)
    blocks = (
        Samples(arrival.ids[first : first + BLOCK], arrival.features[first : first + BLOCK], pa.table({}))
        for first in starts
    )
    with waiting_samples(run) as waiting:
        for _ in Watch(run, waiting, len(arrival), None, lambda _: None, limits).answers(blocks):
            pass


def measure(arguments: argparse.Namespace, folder: Path) -> None:
    stream = Stream(arguments.kinds, arguments.features, arguments.arrivals)
    run = make_run(folder, stream)
    n_samples, limits = (
        arguments.samples // arguments.arrivals,
        Limits(None, arguments.keep, arguments.keep_versions),
    )
    peaks, kept, began = [], [], time.perf_counter()
    print("arrival  seconds  MiB now  MiB at most  MiB on disk  kinds (came)  samples kept    in all", flush=True)
    for number in range(1, arguments.arrivals + 1):
        begun = time.perf_counter()
        grow(run, stream.arrival(number, n_samples), limits, arguments.watch)
        took = time.perf_counter() - begun
        peaks.append(peak())
        categories = read_run(run)["categories"]
        kept.append(sum(category["size"] for category in categories))
        n_ever = kept[-1] + sum(category.get("let_go", 0) for category in categories)
        n_came = int((stream.comes <= number).sum())
        print(
            f"{number:7} {took:8.1f} {resident():8.0f} {peaks[-1]:12.0f} {on_disk(run):12.0f} "
            f"{len(categories):6} ({n_came:4}) {kept[-1]:13,} {n_ever:9,}",
            flush=True,
        )
    seconds = time.perf_counter() - began
    n_all = n_samples * arguments.arrivals
    print(f"{n_all:,} samples in {arguments.arrivals} arrivals: {seconds:.0f} s, {n_all / seconds:,.0f} a second")
    if len(peaks) > FROM:
        growth = peaks[-1] - peaks[FROM - 1]
        print(
            f"peak memory after arrival {FROM}: {peaks[FROM - 1]:.0f} MiB ({kept[FROM - 1]:,} samples kept); "
            f"at the end: {peaks[-1]:.0f} MiB ({kept[-1]:,}); growth: {growth:.0f} MiB "
            f"({growth / peaks[FROM - 1]:.1%})"
        )


if __name__ == "__main__":
    main()
