"""Solvers for many objectives at once: the paper's Adam, and a preconditioned L-BFGS that needs far fewer steps.

A solver holds one point for each run of an evaluator and moves them all by one evaluation a step. `state` holds
everything it needs to go on later, so a long training can resume where it stopped.

The L-BFGS (Nocedal & Wright, *Numerical Optimization*, ch. 7) works in coordinates in which the features have
nearly the identity for their second moment: encoders put most of the variance into a few directions, and without
this the other directions, which carry the fine distinctions, are learned last. The inverse Hessian is applied in
its compact form (Byrd, Nocedal & Schnabel 1994): two products with the history, the rest on small matrices. Each
run has its own step length; a run whose step is refused tries a shorter one while the others move on. Converged
runs leave.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.evaluation import Evaluator
from newkinds.engine.samples import precise
from newkinds.workers import share_out

HISTORY = 8
"""Pairs of steps and gradient changes that stand for the Hessian."""
DAMPING = 0.3
"""Added to the eigenvalues of the second moment, in units of their mean, before it is inverted."""
FIRST_STEP = 0.05
"""Length of the first step along the gradient, relative to the weights."""
SUFFICIENT = 1e-4
"""Share of the decrease promised by the slope that a step must bring (Armijo's condition)."""
LEAST_CURVATURE = 1e-8
"""If the cosine between a step and its gradient change is smaller, the pair tells nothing useful of the Hessian."""
WINDOW = 5
"""Evaluations over which the decrease is measured to see whether a run has converged."""
MOST_REFUSALS = 8
"""Shorter steps tried along a direction. After that the history is forgotten; if the gradient does not lead down
either, the run has come to rest."""

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]
Take = slice | Tensor


class Solver(Protocol):
    """Moves one point for each run."""

    def step(self, most: int = 1) -> Tensor:
        """One evaluation of every run still active, or as many as are done in one go, but not more than `most`.

        Gives the objectives: (evaluations, runs), NaN where a run has left.
        """

    @property
    def n_active(self) -> int:
        """How many runs still move."""

    def weights(self) -> Tensor:
        """The points reached: (runs, categories, features)."""

    def converged(self) -> npt.NDArray[np.bool_]:
        """Which runs have left because they no longer improved."""

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything needed to go on."""

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        """Go on from a `state`."""


class Adam:
    """Full-batch Adam with coupled weight decay, as in the paper; no run ever leaves."""

    def __init__(self, evaluate: Evaluator, start: Tensor, learning_rate: float, weight_decay: float) -> None:
        self.evaluate = evaluate
        self.point = start.clone()
        self.optimiser = torch.optim.Adam([self.point], lr=learning_rate, weight_decay=weight_decay, fused=True)

    def step(self, most: int = 1) -> Tensor:
        values, self.point.grad = self.evaluate(self.point)
        self.optimiser.step()
        return values[None]

    @property
    def n_active(self) -> int:
        return len(self.point)

    def weights(self) -> Tensor:
        return self.point

    def converged(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.point), dtype=np.bool_)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        moments = self.optimiser.state[self.point]
        return {name: part.cpu().numpy() for name, part in ({"point": self.point} | moments).items()}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        self.point.copy_(torch.from_numpy(state["point"]))
        self.optimiser.state[self.point] = {
            name: torch.from_numpy(values).to(self.point.device)
            for name, values in state.items()
            if name != "point"
        }


class LBFGS:
    """L-BFGS on `F + weight_decay / 2 |W|²`, of which the paper's coupled decay is the gradient.

    Parameters
    ----------
    evaluate : Evaluator
    start : Tensor of shape (runs, categories, features)
    weight_decay : float
    moment : Tensor of shape (features, features)
        Second moment of the features.
    tolerance : float
        A run leaves when `WINDOW` evaluations have lowered its objective by less than this, relative to it.
    """

    def __init__(
        self, evaluate: Evaluator, start: Tensor, weight_decay: float, moment: Tensor, tolerance: float
    ) -> None:
        self.evaluate, self.weight_decay, self.tolerance = evaluate, weight_decay, tolerance
        self.final = start.clone()
        self.device = start.device
        root = _root(moment)
        self.to_weights = torch.linalg.inv(root).float().to(self.device)
        runs = len(start)
        self.runs = np.arange(runs)  # which run each row below is
        self.left = np.zeros(runs, dtype=np.bool_)
        _, categories, width = start.shape
        self.x = torch.matmul(start, root.float().to(self.device))
        # Each category by itself, so that sums over all weights consist of sums of fixed length in a fixed order.
        self.history = torch.zeros(runs, categories, 2 * HISTORY, width, device=self.device)
        self.steps_changes = np.zeros((runs, HISTORY, HISTORY))  # s_i . y_j
        self.changes = np.zeros((runs, HISTORY, HISTORY))  # y_i . y_j
        self.by_gradient = np.zeros((runs, 2 * HISTORY))  # s_i . g and y_i . g
        self.next = np.zeros(runs, dtype=np.int64)
        self.kept = np.zeros(runs, dtype=np.int64)
        self.value = np.full(runs, np.nan)  # of the penalised objective, at x
        self.slope = np.zeros(runs)
        self.length = np.zeros(runs)
        self.refusals = np.zeros(runs, dtype=np.int64)
        self.recent = np.full((runs, WINDOW), np.inf)
        self.gradient = torch.zeros_like(self.x)
        self.direction = torch.zeros_like(self.x)

    @property
    def n_active(self) -> int:
        return len(self.runs)

    def weights(self) -> Tensor:
        self.final[torch.from_numpy(self.runs).to(self.device)] = self._weights(self.x)
        return self.final

    def converged(self) -> npt.NDArray[np.bool_]:
        return self.left

    def step(self, most: int = 1) -> Tensor:
        first = bool(np.isnan(self.value).any())
        trial = self.x if first else torch.addcmul(self.x, self._of_run(self.length), self.direction)
        plain, penalised, gradient = self._evaluate(trial)
        if first:
            if not np.isfinite(penalised).all():
                raise FloatingPointError
            accepted = np.ones(len(self.runs), dtype=np.bool_)
            self.value, self.gradient = penalised, gradient
        else:
            allowed = (
                self.value + SUFFICIENT * self.length * self.slope + self.evaluate.rounding * np.abs(self.value)
            )
            accepted = penalised <= allowed  # not where it is NaN
            self._accept(accepted, trial, penalised, gradient)
            self._shorten(~accepted, penalised)
        lost = (self.refusals >= MOST_REFUSALS) & (self.kept > 0)
        self.kept[lost] = self.refusals[lost] = 0
        self._turn(np.flatnonzero(accepted | lost))
        values = torch.full((1, len(self.left)), torch.nan)
        values[0, torch.from_numpy(self.runs)] = torch.from_numpy(plain).float()
        self._leave()
        return values

    def _in_parts(self, rows: Rows, work: Callable[[Rows, Take], None]) -> None:
        """Work on some rows, given as numbers and as an index: on a CPU one by one, so that a history fits the
        cache, and by several threads."""
        if self.device.type == "cpu":
            parts = [np.array([row]) for row in rows]
            for _ in share_out(lambda part: work(part, slice(int(part[0]), int(part[0]) + 1)), parts):
                pass
        elif len(rows):
            work(rows, torch.from_numpy(rows).to(self.device))

    def _accept(self, accepted: npt.NDArray[np.bool_], trial: Tensor, values: Array, gradient: Tensor) -> None:
        """Move, and remember the step and how the gradient changed."""
        self.value = np.where(accepted, values, self.value)
        self.refusals[accepted] = 0

        def move(rows: Rows, take: Take) -> None:
            new = gradient[take]
            step, change = trial[take] - self.x[take], new - self.gradient[take]  # (rows, categories, width)
            self.x[take], self.gradient[take] = trial[take], new
            vectors = torch.stack([step, change, new], dim=2)
            products: Array = _summed(torch.matmul(vectors, self.history[take].mT))  # (rows, 3, 2 HISTORY)
            self.by_gradient[rows] = products[:, 2]
            curvature, steps, changes, step_slope, change_slope = _inner(
                (step, change), (step, step), (change, change), (step, new), (change, new)
            )
            useful = curvature > LEAST_CURVATURE * np.sqrt(steps * changes)
            if not useful.any():
                return
            at, slot = rows[useful], self.next[rows[useful]]
            self._remember(at, slot, step[torch.from_numpy(useful)], change[torch.from_numpy(useful)])
            products = products[useful]
            self.steps_changes[at, :, slot] = products[:, 1, :HISTORY]  # y . s_i
            self.steps_changes[at, slot] = products[:, 0, HISTORY:]  # s . y_i
            self.changes[at, :, slot] = self.changes[at, slot] = products[:, 1, HISTORY:]  # y . y_i
            self.steps_changes[at, slot, slot], self.changes[at, slot, slot] = curvature[useful], changes[useful]
            self.by_gradient[at, slot] = step_slope[useful]
            self.by_gradient[at, slot + HISTORY] = change_slope[useful]
            self.next[at] = (slot + 1) % HISTORY
            self.kept[at] = np.minimum(self.kept[at] + 1, HISTORY)

        self._in_parts(np.flatnonzero(accepted), move)

    def _remember(self, rows: Rows, slots: Rows, steps: Tensor, changes: Tensor) -> None:
        at, into = (torch.from_numpy(numbers).to(self.device) for numbers in (rows, slots))
        self.history[at, :, into] = steps
        self.history[at, :, into + HISTORY] = changes

    def _shorten(self, refused: npt.NDArray[np.bool_], values: Array) -> None:
        """A shorter step where the objective fell too little: the minimum of a parabola, within bounds."""
        with np.errstate(all="ignore"):
            minimum = -self.slope * self.length**2 / (2 * (values - self.value - self.length * self.slope))
        minimum = np.where(np.isfinite(minimum), minimum, 0.0)
        shorter = np.clip(minimum, 0.1 * self.length, 0.5 * self.length)
        self.length = np.where(refused, shorter, self.length)
        self.refusals += refused

    def _turn(self, rows: Rows) -> None:
        """New directions for some rows."""
        scale, coefficients = (np.zeros((len(self.runs), *shape)) for shape in ((), (2 * HISTORY,)))
        scale[rows], coefficients[rows] = self._inverse_hessian(rows)

        def turn(some: Rows, take: Take) -> None:
            gradient = self.gradient[take]
            combination = torch.from_numpy(coefficients[some]).float().to(self.device)[:, None, None]
            along = torch.matmul(combination, self.history[take]).squeeze(2)
            direction = along.add_(gradient * self._of_run(scale[some])).neg_()
            slope, steepness, size = _inner(
                (direction, gradient), (gradient, gradient), (self.x[take], self.x[take])
            )
            fresh = (self.kept[some] == 0) | ~(slope < 0)
            if fresh.any():  # no history, or a misleading one: go along the gradient
                self.kept[some[fresh]] = 0
                along_gradient = torch.from_numpy(fresh).to(self.device)[:, None, None]
                direction = torch.where(along_gradient, -gradient, direction)
            self.direction[take] = direction
            self.slope[some] = np.where(fresh, -steepness, slope)
            first = FIRST_STEP * np.sqrt(np.where(size > 0, size, 1.0) / np.maximum(steepness, 1e-24))
            self.length[some] = np.where(fresh, first, 1.0)

        self._in_parts(rows, turn)

    def _inverse_hessian(self, rows: Rows) -> tuple[Array, Array]:
        """The inverse Hessian times the gradient: factors of the gradient, and of the steps and changes."""
        slots = (self.next[rows, None] + np.arange(HISTORY)) % HISTORY  # oldest first; before them those not in use
        at = np.arange(len(rows))[:, None]
        grid = (rows[:, None, None], slots[:, :, None], slots[:, None, :])
        unused = np.arange(HISTORY) < HISTORY - self.kept[rows, None]
        both_used = ~unused[:, :, None] & ~unused[:, None, :]
        triangle = np.triu(np.where(both_used, self.steps_changes[grid], 0.0))
        changes = np.where(both_used, self.changes[grid], 0.0)
        curvature = np.einsum("rii->ri", triangle).copy()
        triangle += unused[:, :, None] * np.eye(HISTORY)
        by_step = np.where(unused, 0.0, self.by_gradient[rows[:, None], slots])
        by_change = np.where(unused, 0.0, self.by_gradient[rows[:, None], slots + HISTORY])
        newest = changes[:, -1, -1]
        scale = np.where(newest > 0, curvature[:, -1] / np.where(newest > 0, newest, 1.0), 1.0)
        inner = np.linalg.solve(triangle, by_step[:, :, None])
        right = curvature[:, :, None] * inner + scale[:, None, None] * (changes @ inner - by_change[:, :, None])
        factors = np.zeros((len(rows), 2 * HISTORY))
        factors[at, slots] = np.linalg.solve(triangle.transpose(0, 2, 1), right)[:, :, 0]
        factors[at, slots + HISTORY] = -scale[:, None] * inner[:, :, 0]
        return scale, factors

    def _leave(self) -> None:
        """Let go the runs that have converged."""
        stalled = self.refusals >= MOST_REFUSALS
        fell = self.recent[:, 0] - self.value  # over the window; infinite before it is full
        settled = (self.refusals == 0) & (fell < self.tolerance * np.maximum(np.abs(self.value), 1e-3))
        self.recent = np.concatenate([self.recent[:, 1:], self.value[:, None]], axis=1)
        done = stalled | settled
        if not done.any():
            return
        self.weights()
        self.left[self.runs[done]] = True
        self._keep(~done)

    def _keep(self, stay: npt.NDArray[np.bool_]) -> None:
        rows = torch.from_numpy(np.flatnonzero(stay)).to(self.device)
        for name in _VECTORS:
            setattr(self, name, getattr(self, name)[rows])
        for name in _OF_EACH_RUN:
            setattr(self, name, getattr(self, name)[stay])
        if len(rows):
            self.evaluate = self.evaluate.select(rows)

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        tensors = {name: getattr(self, name).cpu().numpy() for name in (*_VECTORS, "final")}
        return {**tensors, **{name: getattr(self, name) for name in (*_OF_EACH_RUN, "left")}}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        still = np.isin(self.runs, state["runs"])
        if not still.all() and still.any():
            self.evaluate = self.evaluate.select(torch.from_numpy(np.flatnonzero(still)).to(self.device))
        for name in (*_VECTORS, "final"):
            setattr(self, name, torch.from_numpy(state[name]).to(self.device))
        for name in (*_OF_EACH_RUN, "left"):
            setattr(self, name, state[name])

    def _weights(self, x: Tensor) -> Tensor:
        return torch.matmul(x, self.to_weights)

    def _evaluate(self, x: Tensor) -> tuple[Array, Array, Tensor]:
        """The objective without and with the penalty, and the gradient of the latter by x."""
        weights = self._weights(x)
        values, gradient = self.evaluate(weights)
        (squares,) = _inner((weights, weights))
        plain = values.cpu().double().numpy()
        by_x = torch.matmul(torch.add(gradient, weights, alpha=self.weight_decay), self.to_weights.T)
        return plain, plain + 0.5 * self.weight_decay * squares, by_x

    def _of_run(self, values: Array) -> Tensor:
        return torch.from_numpy(values).float().to(self.device)[:, None, None]


_VECTORS = ("x", "gradient", "direction", "history")
_OF_EACH_RUN = (
    "runs",
    "steps_changes",
    "changes",
    "by_gradient",
    "next",
    "kept",
    "value",
    "slope",
    "length",
    "refusals",
    "recent",
)


def _summed(products: Tensor) -> Array:
    """Sum over the categories, the second axis, in double precision."""
    summed: Array = products.sum(1, dtype=precise(products.device)).cpu().double().numpy()
    return summed


def _inner(*pairs: tuple[Tensor, Tensor]) -> Array:
    """Inner products of pairs of tensors of shape (rows, categories, width): (pairs, rows)."""
    return _summed(torch.stack([torch.linalg.vecdot(one, other) for one, other in pairs], dim=2)).T


def _root(moment: Tensor) -> Tensor:
    """L with L L' = moment + damping, in double precision on the CPU."""
    precise = moment.cpu().double()
    damping = DAMPING * precise.diagonal().mean()
    root: Tensor = torch.linalg.cholesky(precise + damping * torch.eye(len(precise), dtype=torch.float64))
    return root
