"""What a training costs as its size grows, and how much memory it takes.

    python benchmarks/scaling.py [--device cpu] [--processes 1 2]
    python benchmarks/scaling.py --memory-map 2000000 384 200 [--evaluations 50] [--candidates 19] [--folder DIR]
    python benchmarks/scaling.py --memory-map 1000000 384 100 --default [--device cuda]

The first form times one evaluation (objectives and gradients of R partitioners) while one of samples, categories,
features and runs is varied, and fits the exponents; then the same training in several processes. The second form
writes features of that many samples, dimensions and categories into a file, float16, and fits PIM to its memory map
at a given λ (or at the best of some candidates) with a fixed number of evaluations: time, and the most memory the
process took beside the map. With --default it is the default fit, which also finds the number of categories.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from newkinds import PIM
from newkinds.engine import Run, Samples, optimise
from newkinds.labels import IntArray
from newkinds.metrics import accuracy
from newkinds.objective import PARTITION
from newkinds.runtime import listening, n_processes, processes, rank

BASE = {"samples": 20000, "categories": 100, "features": 384, "runs": 4}
GRIDS = {
    "samples": (5000, 10000, 20000, 40000, 80000),
    "categories": (25, 50, 100, 200, 400),
    "features": (96, 192, 384, 768, 1536),
    "runs": (1, 2, 4, 8, 16),
}
LARGER = {"cuda": 8}
"""How many times as many samples a GPU gets, without which it has too little to do."""
WRITTEN_ROWS = 1 << 16
SPREAD = 2.0
"""Of samples around their centre, in each direction; centres differ by 1."""
WORKER = "NEWKINDS_SCALING_WORKER"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--memory-map", type=int, nargs=3, metavar=("SAMPLES", "FEATURES", "CATEGORIES"))
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--candidates", type=int, default=0, help="candidates for λ; by default it is given")
    parser.add_argument("--default", action="store_true", help="the default fit, the number of categories unknown")
    parser.add_argument("--folder", type=Path, help="where to put the file; by default a temporary folder")
    arguments = parser.parse_args()
    if WORKER in os.environ:
        with processes(arguments.device) as device:
            seconds = evaluation_seconds(device, **base_sizes(arguments.device))
            if rank() == 0:
                print(f"{n_processes():12d} {seconds * 1e3:10.2f} ms", flush=True)
        return
    if arguments.memory_map:
        settings: dict[str, Any] = {}
        if not arguments.default:
            settings = {"n_categories": arguments.memory_map[2], "lam": 0.1}
            if arguments.candidates:
                settings |= {"lam": "labelled", "lam_grid": np.linspace(0.05, 1, arguments.candidates)}
            settings |= {"consensus": 1, "max_iter": arguments.evaluations, "tol": 0}
        model = PIM(**settings, device=arguments.device, random_state=0)
        n, width, n_categories = arguments.memory_map
        fit_memory_map(n, width, n_categories, model, arguments.folder)
        return
    base = base_sizes(arguments.device)
    threads = torch.get_num_threads()
    print(f"{arguments.device}, torch {torch.__version__}, {threads} threads; one evaluation at {base}")
    for name, grid in GRIDS.items():
        factor = base[name] // BASE[name]
        sizes = [factor * size for size in grid]
        spent = [evaluation_seconds(arguments.device, **{**base, name: size}) for size in sizes]
        exponent = np.polyfit(np.log(sizes), np.log(spent), 1)[0]
        shown = "  ".join(f"{size}: {1e3 * each:.2f} ms" for size, each in zip(sizes, spent, strict=True))
        print(f"{name:12s} exponent {exponent:.2f}   {shown}", flush=True)
    print("processes, one thread each")
    for count in arguments.processes:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count), __file__]
        subprocess.run(
            [*command, "--device", arguments.device],
            env={**os.environ, WORKER: "1", "OMP_NUM_THREADS": "1"},
            check=True,
        )


def base_sizes(device: str) -> dict[str, int]:
    return dict(BASE, samples=BASE["samples"] * LARGER.get(device, 1))


def evaluation_seconds(device: str, samples: int, categories: int, features: int, runs: int) -> float:
    """Seconds of one evaluation of all runs: the least of three trainings' means."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.nn.functional.normalize(torch.randn(samples, features, generator=generator), dim=1)
    labels = np.where(np.arange(samples) % 4 == 0, np.arange(samples) % (categories // 2), -1)
    start = drawn[:categories].numpy()
    part = Samples(drawn.to(device))
    many = [Run(start, PARTITION.at(0.05 * (r + 1))) for r in range(runs)]
    evaluations = 400 if device.startswith("cuda") else 4

    def train() -> float:
        began = time.perf_counter()
        optimise(part, many, labels=labels, max_iter=evaluations)
        return (time.perf_counter() - began) / evaluations

    train()
    return min(train() for _ in range(3))


def fit_memory_map(n: int, width: int, n_categories: int, model: PIM, folder: Path | None) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "features.npy"
        truth = write_features(path, n, width, n_categories, model.device)
        rng = np.random.default_rng(0)
        labels = np.where((truth < n_categories // 2) & (rng.random(n) < 0.5), truth, -1)
        features = np.load(path, mmap_mode="r")
        print(f"{n:,} × {width} float16 ({path.stat().st_size / 2**30:.2f} GiB), K {n_categories}", flush=True)
        stages: dict[str, float] = {}
        began = time.perf_counter()

        def hear(stage: str, _done: int, _total: int) -> None:
            stages[stage] = time.perf_counter() - began

        with MemoryWatch() as watch, listening(hear):
            model.fit(features, labels)
        spent = time.perf_counter() - began
        unlabelled = labels < 0
        found = accuracy(truth[unlabelled], model.labels_[unlabelled], np.arange(n_categories // 2))
        print("ended at (s): " + ", ".join(f"{stage} {at:.0f}" for stage, at in stages.items()))
        print(
            f"{spent:.0f} s for {model.n_iter_} evaluations and everything before and after; "
            f"{watch.peak / 2**30:.2f} GiB of memory at most beside the map; {model.n_categories_} categories, "
            f"All {found.all:.1%}, Old {found.old:.1%}, New {found.new:.1%}"
        )


def write_features(path: Path, n: int, width: int, n_categories: int, device: str) -> IntArray:
    """Write features around a centre for each category; gives the category of each sample."""
    generator = torch.Generator(device).manual_seed(0)
    centres = torch.randn(n_categories, width, generator=generator, device=device)
    truth = np.random.default_rng(1).integers(0, n_categories, n)
    written = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(n, width))
    for first in range(0, n, WRITTEN_ROWS):
        of_rows = torch.from_numpy(truth[first : first + WRITTEN_ROWS]).to(device)
        noise = torch.randn(len(of_rows), width, generator=generator, device=device)
        written[first : first + WRITTEN_ROWS] = (centres[of_rows] + SPREAD * noise).half().cpu().numpy()
    return truth


class MemoryWatch:
    """The most memory of its own (not of mapped files) that this process takes beyond what it has at the start."""

    peak = 0

    def __enter__(self) -> "MemoryWatch":
        self._before, self._over = own_memory(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.peak = max(self.peak, own_memory() - self._before)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def own_memory() -> int:
    """Anonymous memory of this process in bytes (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise OSError("memory can be watched on Linux only")


if __name__ == "__main__":
    main()
