"""The engine against the loop that everybody writes: time, ratio, accuracy, share of the machine, memory.

    python benchmarks/engine.py FEATURES [--sets cub_tinyvit …] [--seeds 3] [--full] [--device cpu]
    python benchmarks/engine.py --shapes [--device cuda] [--epochs 1000]

The first form fits PIM to real feature sets (19 candidates for λ, then the final training). The plain loop does
what the published one does: one λ after the other, autograd, the features sent to the device in every epoch,
samples picked by boolean masks. The tuned loop is what a good engineer makes of it in an hour: features resident,
lists of indices, log-softmax. Both start where ours does and have the start's time added. Their epochs are timed
in turn with our fits: `--epochs-timed` of them, multiplied up to 20,000; with --full all of them are run and their
accuracy is printed (it is that of our own "adam", which is printed in any case).

The second form trains the 19 candidates and the final partition with the paper's fixed number of epochs on
synthetic features of the six data sets' sizes.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from newkinds import PIM
from newkinds.data import FeatureSet, read_features
from newkinds.engine import Run, Samples, kmeans, optimise, seed_centroids
from newkinds.engine.partitioner import FloatArray
from newkinds.labels import UNLABELLED, IntArray
from newkinds.metrics import accuracy
from newkinds.names import SolverName
from newkinds.objective import PARTITION, SELECTION
from newkinds.selection.problem import make_problem
from newkinds.selection.recipes import PAPER_GRID
from newkinds.selection.training import START_ITERATIONS

EPOCHS, TEMPERATURE = 1000, 25.0
SHAPES = {  # samples, categories, seconds of 20,000 epochs of the published loop on an H200, measured earlier
    "CUB": (5994, 200, 70.0),
    "Stanford Cars": (8144, 196, 95.0),
    "Herbarium19": (34225, 683, 349.0),
    "CIFAR10": (50000, 10, 468.0),
    "CIFAR100": (50000, 100, 506.0),
    "ImageNet-100": (127115, 100, 1090.0),
}
WIDTH = 768


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("features", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=["cub_tinyvit", "banking77_minilm", "clinc150_minilm"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs-timed", type=int, default=40)
    parser.add_argument("--full", action="store_true", help="run the loops to the end")
    parser.add_argument("--no-adam", action="store_true", help="leave out our own fits by Adam")
    parser.add_argument("--shapes", nargs="*", metavar="NAME", help="synthetic features of the paper's sizes")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    arguments = parser.parse_args()
    rate = matrix_rate(arguments.device)
    threads = torch.get_num_threads()
    print(f"torch {torch.__version__}, {arguments.device}, {threads} threads, {rate / 1e12:.2f} TFLOP/s")
    if arguments.shapes is not None:
        for name in arguments.shapes or SHAPES:
            compare_shape(name, arguments.device, arguments.epochs, arguments.epochs_timed, rate)
        return
    if arguments.features is None:
        parser.error("FEATURES is needed, or --shapes")
    for name in arguments.sets:
        compare_fits(name, read_features(arguments.features / name), arguments, rate)


def plain_epochs(
    features: Tensor, labels: IntArray, start: FloatArray, lam: float, supervised: bool, device: str
) -> Callable[[int], Tensor]:
    """The published loop: `run(epochs)` trains on and gives the weights."""
    weights = torch.from_numpy(start.copy()).to(device).requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=1e-3, weight_decay=0.01)
    labelled = torch.from_numpy(labels != UNLABELLED)
    targets = torch.from_numpy(labels)

    def run(epochs: int) -> Tensor:
        for _ in range(epochs):
            z, mask, y = features.to(device), labelled.to(device), targets.to(device)
            p = torch.softmax(TEMPERATURE * z @ weights.T, dim=1)
            pi = p.mean(0)
            loss = (pi * torch.log(pi + 1e-12)).sum()
            unsure = p[~mask] if supervised else p
            loss = loss - lam * (unsure * torch.log(unsure + 2.2e-16)).sum(1).mean()
            if supervised:
                one_hot = torch.nn.functional.one_hot(y[mask], p.shape[1])
                loss = loss - (one_hot * torch.log(p[mask] + 2.2e-16)).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # PyTorch gives it no types
            optimiser.step()
            loss.item()
        return weights.detach()

    return run


def tuned_epochs(
    features: Tensor, labels: IntArray, start: FloatArray, lam: float, supervised: bool, device: str
) -> Callable[[int], Tensor]:
    """The same tuned by hand: everything resident, indices in place of masks, log-softmax."""
    z = features.to(device)
    weights = torch.from_numpy(start.copy()).to(device).requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=1e-3, weight_decay=0.01, fused=True)
    known = torch.from_numpy(np.flatnonzero(labels != UNLABELLED)).to(device)
    unknown = torch.from_numpy(np.flatnonzero(labels == UNLABELLED)).to(device)
    y = torch.from_numpy(labels[labels != UNLABELLED]).to(device)

    def run(epochs: int) -> Tensor:
        for _ in range(epochs):
            log_p = torch.log_softmax(TEMPERATURE * (z @ weights.T), dim=1)
            p = log_p.exp()
            pi = p.mean(0)
            entropy = torch.linalg.vecdot(p, log_p)
            loss = (pi * torch.log(pi + 1e-12)).sum()
            loss = loss - lam * (entropy.index_select(0, unknown).mean() if supervised else entropy.mean())
            if supervised:
                loss = loss + torch.nn.functional.nll_loss(log_p.index_select(0, known), y)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        return weights.detach()

    return run


LOOPS = {"plain": plain_epochs, "tuned": tuned_epochs}


def compare_fits(name: str, collection: FeatureSet, arguments: argparse.Namespace, rate: float) -> None:
    assert collection.truth is not None
    n_categories, device = len(np.unique(collection.truth)), arguments.device
    unlabelled = collection.labels == UNLABELLED
    n, width = collection.features.shape
    print(f"\n{name}: {n} × {width}, K {n_categories}", flush=True)

    truth = collection.truth[unlabelled]

    def all_accuracy(labels: IntArray) -> float:
        return 100 * accuracy(truth, labels[unlabelled], collection.known).all

    seconds: dict[str, list[float]] = {}
    scores: dict[str, list[float]] = {}
    for seed in range(arguments.seeds):
        problem = make_problem(collection.features, collection.labels, device=device, random_state=seed)
        began = time.perf_counter()
        centroids = kmeans(
            problem.samples, n_categories, labels=problem.columns, seeding="d2", max_iter=START_ITERATIONS,
            rng=problem.rng,
        ).centroids  # fmt: skip
        seeds = seed_centroids(problem.samples, n_categories, seeding="d2", rng=problem.rng)[0].cpu().numpy()
        start_seconds = time.perf_counter() - began
        seconds.setdefault("the start alone", []).append(start_seconds)
        features = problem.samples.take(np.arange(n)).cpu()
        for loop, make in LOOPS.items():
            if arguments.full:
                began = time.perf_counter()
                scored = [
                    problem.labelled_accuracy(
                        (features @ make(features, problem.columns, seeds, lam, False, device)(EPOCHS).cpu().T)
                        .argmax(1)
                        .numpy()
                    )
                    for lam in PAPER_GRID
                ]
                chosen = PAPER_GRID[int(np.argmax(scored))]
                weights = make(features, problem.columns, centroids, chosen, True, device)(EPOCHS).cpu()
                whole = time.perf_counter() - began
                scores.setdefault(loop, []).append(all_accuracy((features @ weights.T).argmax(1).numpy()))
            else:
                each = [
                    timed(make(features, problem.columns, seeds, 0.5, kind, device), arguments.epochs_timed, device)
                    for kind in (False, True)
                ]
                whole = EPOCHS * (len(PAPER_GRID) * each[0] + each[1])
            seconds.setdefault(loop, []).append(start_seconds + whole)
        fits = {"ours": PIM(n_categories, lam="cautious", consensus=1, random_state=seed, device=device)}
        if not arguments.no_adam:
            fits["ours, paper (adam)"] = PIM.paper(n_categories, random_state=seed, device=device)
        for title, model in fits.items():
            synchronise(device)
            began = time.perf_counter()
            model.fit(collection.features, collection.labels)
            synchronise(device)
            seconds.setdefault(title, []).append(time.perf_counter() - began)
            scores.setdefault(title, []).append(all_accuracy(model.labels_))
        print("  seed", seed, {title: round(spent[-1], 1) for title, spent in seconds.items()}, flush=True)
    flops = 4 * n * width * n_categories * EPOCHS * (len(PAPER_GRID) + 1)
    for title, spent in seconds.items():
        line = f"  {title:30s} {np.mean(spent):8.1f} s"
        for loop in LOOPS:
            line += f"   {loop} / this {np.mean(seconds[loop]) / np.mean(spent):6.1f}"
        if "adam" in title or title in LOOPS:
            line += f"   {flops / np.mean(spent) / rate:.0%} of the matrix rate"
        if title in scores:
            line += f"   All {np.mean(scores[title]):.2f} ({', '.join(f'{score:.1f}' for score in scores[title])})"
        print(line)
    print(f"  peak memory {peak_memory(device) / 2**20:.0f} MiB")


def compare_shape(name: str, device: str, epochs: int, epochs_timed: int, rate: float) -> None:
    n, n_categories, earlier = SHAPES[name]
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(n_categories, WIDTH, generator=generator)
    truth = torch.randint(n_categories, (n,), generator=generator)
    features = centres[truth] + 2 * torch.randn(n, WIDTH, generator=generator)
    features = torch.nn.functional.normalize(features, dim=1)
    labels = torch.where(
        (truth < n_categories // 2) & (torch.rand(n, generator=generator) < 0.5), truth, -1
    ).numpy()
    start = features[torch.randperm(n, generator=generator)[:n_categories]].numpy()
    samples = Samples(features.to(device))
    searches = [Run(start, SELECTION.at(lam)) for lam in PAPER_GRID]
    final = [Run(start, PARTITION.at(0.1))]

    def train(solver: SolverName, max_iter: int) -> tuple[float, float]:
        spent = []
        for runs in (searches, final):
            synchronise(device)
            began = time.perf_counter()
            optimise(samples, runs, labels=labels, solver=solver, max_iter=max_iter)
            synchronise(device)
            spent.append(time.perf_counter() - began)
        return spent[0], spent[1]

    train("adam", 3)  # kernels are compiled when they are first used
    reset_memory(device)
    searched, finished = train("adam", epochs)
    memory = peak_memory(device)
    train("lbfgs", 3)
    fewer = sum(train("lbfgs", 300))
    each = [
        timed(plain_epochs(features, labels, start, 0.5, kind, device), epochs_timed, device)
        for kind in (False, True)
    ]
    plain = epochs * (len(PAPER_GRID) * each[0] + each[1])
    ours = searched + finished
    reached = len(PAPER_GRID) * 4 * n * WIDTH * n_categories * epochs / searched
    print(
        f"{name:14s} ours {ours:7.3f} s (19 λ {searched:.3f}, final {finished:.3f})  plain loop {plain:7.1f} s "
        f"({plain / ours:.0f}×; of the earlier {earlier:.0f} s {earlier * epochs / EPOCHS / ours:.0f}×)  "
        f"19 λ at {reached / 1e12:.0f} TFLOP/s = {reached / rate:.0%}  L-BFGS {fewer:.2f} s  "
        f"peak {memory / 2**20:.0f} MiB",
        flush=True,
    )


def timed(run: Callable[[int], Tensor], epochs: int, device: str) -> float:
    """Seconds an epoch."""
    run(3)
    synchronise(device)
    began = time.perf_counter()
    run(epochs)
    synchronise(device)
    return (time.perf_counter() - began) / epochs


def matrix_rate(device: str) -> float:
    """FLOP/s of a large product: bfloat16 on a GPU, float32 on a CPU."""
    size, kind = (8192, torch.bfloat16) if device.startswith("cuda") else (2048, torch.float32)
    one, other = torch.randn(2, size, size, device=device).to(kind)
    best = 0.0
    for _ in range(10):
        synchronise(device)
        began = time.perf_counter()
        for _ in range(5):
            one @ other
        synchronise(device)
        best = max(best, 5 * 2 * size**3 / (time.perf_counter() - began))
    return best


def synchronise(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def reset_memory(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> int:
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
