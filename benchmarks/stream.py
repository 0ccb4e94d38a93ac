"""How fast `newkinds predict` answers a data set of Parquet files, and in how much memory.

    python benchmarks/stream.py FOLDER [--rows 1000000] [--categories 200] [--features 384]

Makes the data set and a run in FOLDER if they are not there. The command runs in a process of its own, once
on one file and once on all: the second is the whole command, from the start of Python to the finished file, the
difference the stream alone.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 10


def make_dataset(folder: Path, n_rows: int, centres: np.ndarray) -> None:
    """Float32 features around the centres, with an id and a text of their own."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = n_rows // FILES
    for part in range(FILES):
        truth = rng.integers(0, len(centres), rows)
        features = centres[truth] + 0.5 * rng.standard_normal((rows, centres.shape[1]), dtype=np.float32)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), centres.shape[1])
        ids = pa.array([f"sample-{part * rows + row}" for row in range(rows)])
        table = pa.table({"id": ids, "features": lists, "shop": pa.array(truth % 7)})
        pq.write_table(table, folder / f"{part:02d}.parquet", compression="none", use_dictionary=["shop"])


def make_run(folder: Path, centres: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    truth = np.arange(20 * len(centres)) % len(centres)
    features = centres[truth] + 0.5 * rng.standard_normal((len(truth), centres.shape[1]), dtype=np.float32)
    labels = np.where((truth < len(centres) // 2) & (rng.random(len(truth)) < 0.5), truth, -1)
    np.savez(folder / "known.npz", features=features, labels=labels)
    command = ["discover", folder / "known.npz", "--out", folder / "run", "--lam", "0.3", "--temperature", "25"]
    options = ["--n-categories", len(centres), "--max-iter", "50", "--quiet"]
    subprocess.run([sys.executable, "-m", "newkinds", *map(str, [*command, *options])], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--categories", type=int, default=200)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--format", default="parquet", choices=["parquet", "csv"])
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    centres = np.random.default_rng(2).standard_normal((arguments.categories, arguments.features), dtype=np.float32)
    if not (folder / "week").exists():
        make_dataset(folder / "week", arguments.rows, centres)
    if not (folder / "run").exists():
        make_run(folder, centres)
        print("the run is made; measure in another process, so that its memory does not count")
        return
    out = folder / f"answers.{arguments.format}"
    part, whole = (
        seconds_of(folder / "run", source, out) for source in (folder / "week" / "00.parquet", folder / "week")
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    rows = arguments.rows
    print(f"the whole command: {rows / whole:,.0f} rows a second ({whole:.1f} s), {peak:.2f} GiB at most")
    rate = (rows - rows // FILES) / (whole - part)
    print(f"the stream alone: {rate:,.0f} rows a second (one file of {FILES}: {part:.1f} s)")


def seconds_of(run: Path, source: Path, out: Path) -> float:
    began = time.perf_counter()
    command = ["predict", run, source, "--out", out, "--force", "--quiet"]
    subprocess.run([sys.executable, "-m", "newkinds", *map(str, command)], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
