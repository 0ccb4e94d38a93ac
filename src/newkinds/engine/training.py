"""Training of many partitioners that share their features, full batch, without autograd: the project's one loop.

Each run has its own start, objective (so its own lam), temperature, geometry, labels and number of categories.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.checkpoints import Arrays, Checkpoint
from newkinds.engine.evaluation import Batch, BlockEvaluator, Run
from newkinds.engine.memory import VECTORS, check_fits, training_bytes
from newkinds.engine.moments import second_moment
from newkinds.engine.partitioner import Partitioner
from newkinds.engine.samples import Samples
from newkinds.engine.solvers import LBFGS, Adam, Solver
from newkinds.errors import InputError
from newkinds.labels import IntArray
from newkinds.names import SOLVERS, SolverName
from newkinds.progress import evaluation_work, report_work
from newkinds.runtime import on_device, report_progress

STATE_BYTES = {"cpu": 256 << 20, "cuda": 16 << 30, "mps": 1 << 30}
"""What solvers may hold at a time; runs that need more are trained one part after the other."""
REPORTS = 100
"""Progress reports in one training."""


@dataclass(frozen=True)
class Trained:
    """The partitioners in the order of their runs, and how they were reached.

    Attributes
    ----------
    partitioners : tuple of Partitioner
    values : ndarray of shape (evaluations, runs)
        The objective in each evaluation; NaN after a run has converged.
    converged : ndarray of shape (runs,)
        Whether a run ended because it no longer improved; otherwise it used all evaluations.
    """

    partitioners: tuple[Partitioner, ...]
    values: npt.NDArray[np.float32]
    converged: npt.NDArray[np.bool_]

    def curve(self, run: int) -> npt.NDArray[np.float32]:
        """The objective in each evaluation of one run."""
        values = self.values[:, run]
        return values[~np.isnan(values)]


def optimise(
    features: Samples | Tensor,
    runs: Sequence[Run],
    *,
    labels: IntArray | None = None,
    solver: SolverName = "adam",
    max_iter: int = 1000,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.01,
    tolerance: float = 2e-5,
    stage: str = "training",
) -> Trained:
    """Train a batch of partitioners.

    Parameters
    ----------
    features : Samples, or Tensor of shape (samples, features)
        A tensor must be L2-normalised, float32, on the device to work on; it is read there and never copied.
    runs : sequence of Run
    labels : ndarray of shape (samples,), optional
        Column of each sample's known category, -1 = unlabelled, for runs without labels of their own.
    solver : {"adam", "lbfgs"}
        "adam" is the paper's, with a fixed number of epochs; "lbfgs" gets at least as far in about a tenth of the
        evaluations and stops when it has converged. See `newkinds.engine.solvers`.
    max_iter : int
        Evaluations of the objective and its gradient; for Adam, epochs.
    learning_rate : float
        Of Adam; L-BFGS finds its own.
    weight_decay : float
        Added to the gradient, as in the paper (not decoupled as in AdamW).
    tolerance : float
        Of L-BFGS: a run has converged when five evaluations lowered its objective by a smaller part than this.
    stage : str
        What to call this training in progress reports.

    Examples
    --------
    >>> from newkinds.objective import Objective
    >>> features = torch.nn.functional.normalize(torch.tensor([[1.0, 0.1], [1.0, 0.0], [0.0, 1.0]]), dim=1)
    >>> run = Run(start=np.eye(2, dtype=np.float32), objective=Objective(lam=0.5))
    >>> trained = optimise(features, [run], labels=np.array([0, -1, -1]), max_iter=5)
    >>> trained.partitioners[0].log_probabilities(features.numpy()).argmax(axis=1)
    array([0, 0, 1])
    """
    if solver not in SOLVERS:
        raise InputError(f"solver must be one of {', '.join(SOLVERS)}; got {solver!r}")
    samples = Samples.of(features)
    categories = max(len(run.start) for run in runs)
    run_bytes = VECTORS[solver] * categories * samples.width * 4
    at_once = max(1, min(len(runs), STATE_BYTES[samples.device.type] // run_bytes))
    check_fits(training_bytes(samples, categories, at_once, solver), samples, categories, "training")
    settings = (solver, max_iter, learning_rate, weight_decay, tolerance)
    parts: list[tuple[list[int], Trained]] = []
    with on_device(samples.device):
        moment = second_moment(samples) if solver == "lbfgs" else None
        for places in _batches(runs, at_once, samples.device.type):
            part = [runs[place] for place in places]
            batch = Batch.of(samples, part, labels)
            checkpoint = Checkpoint(samples.fingerprint, labels, settings, *_decides(part))
            evaluate, adam = _backend(samples, batch)
            algorithm: Solver
            if moment is None:
                algorithm = adam(evaluate, batch.start, learning_rate, weight_decay)
            else:
                algorithm = LBFGS(evaluate, batch.start, weight_decay, moment, tolerance)
            work = evaluation_work(len(samples), batch.start.shape[1], samples.width)
            n_done = sum(len(earlier) for earlier, _ in parts)
            parts.append((places, _train(algorithm, part, checkpoint, max_iter, stage, (n_done, len(runs)), work)))
    report_progress(stage, max_iter, max_iter)
    return _in_order(parts)


def _in_order(parts: Sequence[tuple[list[int], Trained]]) -> Trained:
    """Runs that were trained in parts, in their own order; `places` say where those of a part belong."""
    n_runs = sum(len(places) for places, _ in parts)
    values = np.full((max(len(part.values) for _, part in parts), n_runs), np.nan, dtype=np.float32)
    converged = np.zeros(n_runs, dtype=np.bool_)
    partitioners: dict[int, Partitioner] = {}
    for places, part in parts:
        values[: len(part.values), places] = part.values
        converged[places] = part.converged
        partitioners |= dict(zip(places, part.partitioners, strict=True))
    return Trained(tuple(partitioners[place] for place in range(n_runs)), values, converged)


def _batches(runs: Sequence[Run], at_once: int, device: str) -> list[list[int]]:
    """Which runs are trained together: so many at most.

    Runs with fewer categories than others are padded, which a GPU hardly notices; a CPU takes them apart.
    """
    sizes = [len(run.start) if device == "cpu" else 0 for run in runs]
    alike = [np.flatnonzero(np.array(sizes) == size).tolist() for size in dict.fromkeys(sizes)]
    return [group[first : first + at_once] for group in alike for first in range(0, len(group), at_once)]


def _train(
    solver: Solver,
    runs: Sequence[Run],
    checkpoint: Checkpoint,
    max_iter: int,
    stage: str,
    done: tuple[int, int],
    work: float,
) -> Trained:
    """Step until the last evaluation or until no run moves any more.

    `done` says how many runs were trained before these, and how many there are in all; `work` is that of one
    evaluation of one run.
    """
    values: list[Tensor] = []
    n_done = 0
    n_before, n_all = done
    every = max(1, max_iter // REPORTS)

    def curve() -> npt.NDArray[np.float32]:
        return torch.cat([step.cpu() for step in values]).numpy()

    def snapshot(finished: bool) -> Arrays:
        return {**solver.state(), "_values": curve(), "_finished": np.array(finished)}

    if (saved := checkpoint.load()) is not None:
        values = [torch.from_numpy(saved.pop("_values"))]
        n_done = len(values[0])
        finished = bool(saved.pop("_finished"))
        solver.restore(saved)
    else:
        finished = False
    try:
        while not finished and n_done < max_iter and solver.n_active:
            n_active = solver.n_active
            values.append(solver.step(max_iter - n_done))
            report_work(work * len(values[-1]) * n_active)
            reported, n_done = n_done // every, n_done + len(values[-1])
            if n_done // every > reported:
                share = (n_before + len(runs) * n_done / max_iter) / n_all
                report_progress(stage, round(share * max_iter), max_iter)
            if checkpoint.due:
                checkpoint.save(snapshot(finished=False))
    except FloatingPointError:
        raise InputError("the objective is not finite at the start; is the temperature too high?") from None
    if not finished:
        checkpoint.finish(lambda: snapshot(finished=True))
    trained = solver.weights().cpu().numpy()
    if not np.isfinite(trained).all():
        raise InputError("the training diverged; choose a smaller learning_rate, or a lower temperature")
    partitioners = tuple(
        Partitioner(trained[r, : len(run.start)], run.temperature, run.geometry) for r, run in enumerate(runs)
    )
    return Trained(partitioners, curve(), solver.converged())


def _backend(samples: Samples, batch: Batch) -> tuple[Any, Any]:
    """An evaluator and the Adam that goes with it: the fused ones where a GPU can run them."""
    if samples.device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        from newkinds.engine import fused

        if fused.fits(samples, batch):
            return fused.FusedEvaluator(samples, batch), fused.FusedAdam
    return BlockEvaluator(samples, batch), Adam


def _decides(runs: Sequence[Run]) -> Iterator[Any]:
    """Everything that decides the result of these runs, for a checkpoint."""
    for run in runs:
        yield from (run.start, run.labels, run.shares, (run.objective, run.temperature, run.geometry))
