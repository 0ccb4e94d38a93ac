"""The evaluation on an NVIDIA GPU: products in half precision, one kernel for each pass between them, Adam in one.

Logits are `Z (T W)'`, of shape (samples, runs × categories), by the matrix units from float16 numbers with float32
sums. float16 and not bfloat16: features and weights are numbers of ordinary size, for which its three more bits
cost nothing and make the logits eight times as exact. The first kernel reads the logits once and adds up the
marginals; the second reads them once more, puts the gradient in their place (scaled, so that it uses float16 well)
and adds up the objective. The master weights, their moments and every sum are float32. All sums have a fixed order.

One epoch of Adam is seven kernels, whatever the number of runs; they are recorded once and replayed.

Imported only where there is such a GPU, and Triton.
"""

import numpy as np
import numpy.typing as npt
import torch
import triton
import triton.language as tl
from torch import Tensor

from newkinds.engine.evaluation import Batch, through_logits
from newkinds.engine.partitioner import LEAST_LOG_P, scale
from newkinds.engine.samples import Samples, free_memory
from newkinds.objective import TINY, log_marginal
from newkinds.runtime import least_over_processes, n_processes, sum_over_processes

ALIGNED = 8
"""Columns and features are padded to a multiple of this, without which the matrix units are not used well."""
TILE = 1024
"""Logits that a warp, which is a program, works on at a time: one row or several."""
PROGRAMS = 8192
"""Programs wanted, so that every multiprocessor has many."""
MOST_TILES = 64
VARYING = ["n_rows", "of_labels", "n_runs", "tiles"]
"""Arguments that change when runs leave: kernels are not compiled anew for them."""
MOST_COLUMNS = 8192
"""Categories whose logits a program can hold."""
LOG_2 = tl.constexpr(0.6931471805599453)
LOG2_E = tl.constexpr(1.4426950408889634)
"""Logits are multiplied by it, so that exponentials and logarithms are to the base 2: the GPU's own."""
ABSENT = tl.constexpr(-30000.0)
"""Logit of a category that a run lacks: its probability is zero, and no product is NaN."""
RECORDED = 20
"""Epochs replayed at a time."""
LARGEST_GRADIENT = 512.0
"""Size of a scaled gradient where a sample has probability one: far from float16's largest number."""
LOGITS_BYTES = 16 << 30
"""Most that the logits may take. Of more samples they are made in parts, and made again for the second pass."""


def fits(samples: Samples, batch: Batch) -> bool:
    """Whether the kernels can take these features and runs, and PyTorch can add up half-precision products."""
    recent = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    return least_over_processes(int(recent and _possible(samples, batch))) == 1


def _possible(samples: Samples, batch: Batch) -> bool:
    return samples.resident is not None and _aligned(batch.start.shape[1]) <= MOST_COLUMNS


class FusedEvaluator:
    """Objectives and gradients by fused kernels; the same results as `BlockEvaluator`'s to about three digits."""

    rounding = 1e-5

    def __init__(self, samples: Samples, batch: Batch) -> None:
        self.samples, self.batch = samples, batch
        runs, categories, width = batch.start.shape
        device = samples.device
        self.shape = (runs, categories, width)
        self.columns, self.width = _aligned(categories), _aligned(width)
        self.features = samples.half(self.width)
        self.rows = len(self.features)
        self.weights = torch.zeros(runs, self.columns, self.width, dtype=torch.float16, device=device)
        most = min(LOGITS_BYTES, free_memory(device) // 2)
        part = max(1, min(self.rows, most // (2 * runs * self.columns)))
        self.parts = [slice(first, min(first + part, self.rows)) for first in range(0, self.rows, part)]
        self.logits = torch.empty(part, runs * self.columns, dtype=torch.float16, device=device)
        self.log_sums = torch.empty(self.rows, runs, device=device)  # log of the sum of exponentials
        self.counts = (batch.padding == 0).sum(1).int()
        self.bias, self.log_shares = torch.zeros(2, runs, self.columns, device=device)
        self.log_shares[:, :categories] = batch.log_shares
        self.any_euclidean = bool(batch.euclidean.any())
        terms = batch.terms
        self.terms = torch.cat(
            [terms.marginal, terms.entropy, terms.cross_entropy], dim=1
        ).contiguous()  # (runs, 6)
        self.scale = LARGEST_GRADIENT / self.terms.amax(1).clamp_min(1e-30)
        self.labels = batch.labels.int().contiguous()
        self.labelled = bool((terms.cross_entropy > 0).any()) and bool((self.labels >= 0).any())
        tile_columns = triton.next_power_of_2(self.columns)
        tile_rows = max(1, TILE // tile_columns)
        tiles = max(1, min(MOST_TILES, self.rows * runs // (tile_rows * PROGRAMS)))
        self.tile = {
            "tiles": tiles,
            "ROWS": tile_rows,
            "COLUMNS": tile_columns,
            "BIAS": self.any_euclidean,
            "num_warps": max(1, tile_columns // TILE),
        }
        programs = triton.cdiv(part, tiles * tile_rows)  # for each part
        self.marginals = torch.zeros(programs, runs, self.columns, device=device)
        self.log_pi = torch.empty(runs, self.columns, device=device)
        self.column_sums = torch.zeros(programs if self.any_euclidean else 1, runs, self.columns, device=device)
        self.values = torch.zeros(len(self.parts) * programs, runs, device=device)
        self.steps = torch.zeros(1, device=device)

    def select(self, runs: Tensor) -> "FusedEvaluator":
        return FusedEvaluator(self.samples, self.batch.select(runs))

    def __call__(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        self.load(weights)
        values, products, column_sums = self.evaluate()
        return values, through_logits(weights, self.batch, products, column_sums)

    def load(self, weights: Tensor) -> None:
        """Take over master weights of shape (runs, categories, features)."""
        _, categories, width = self.shape
        scaled, bias = scale(weights, self.batch.temperature * LOG2_E.value, self.batch.euclidean)
        self.weights[:, :categories, :width] = scaled
        if self.any_euclidean:
            self.bias[:, :categories] = bias

    def evaluate(self) -> tuple[Tensor, Tensor, Tensor]:
        """Objectives (runs,), g'Z (runs, categories, features), the sums of g over samples (runs, categories)."""
        runs, categories, width = self.shape
        padded, sums = self.raw()
        products = padded.view(runs, self.columns, self.width)[:, :categories, :width]
        inverse = (1 / self.scale)[:, None]
        column_sums = torch.zeros_like(self.log_pi) if sums is None else sums
        column_sums = column_sums[:, :categories] * inverse
        return (
            sum_over_processes(self.values.sum(0)),
            sum_over_processes(products * inverse[:, :, None]),
            sum_over_processes(column_sums),
        )

    def raw(self) -> tuple[Tensor, Tensor | None]:
        """Both passes; of this process's samples, scaled and padded, g'Z (runs × columns, width) and the sums of g.

        The latter, (runs, columns), only where a run needs them.
        """
        runs = self.shape[0]
        programs = len(self.values) // len(self.parts)
        weights = self.weights.view(-1, self.width).T

        def logits_of(rows: slice) -> Tensor:
            return torch.mm(self.features[rows], weights, out=self.logits[: rows.stop - rows.start])

        def common(rows: slice) -> tuple[Tensor | int, ...]:
            size, of_labels = rows.stop - rows.start, self.labels.shape[1] if len(self.labels) > 1 else 0
            labels = self.labels[:, rows]
            return (self.bias, labels, self.terms, self.counts, size, of_labels, runs, self.columns)

        pi: Tensor | None = None
        for rows in self.parts:
            logits = logits_of(rows)
            _marginals[(programs, runs)](logits, self.log_sums[rows], self.marginals, *common(rows), **self.tile)
            if len(self.parts) > 1 or n_processes() > 1:
                pi = self.marginals.sum(0) if pi is None else pi.add_(self.marginals.sum(0))
        if pi is None:
            _log_marginals[(triton.cdiv(self.columns, 32), runs)](
                self.marginals, self.log_shares, self.log_pi, self.steps, programs, runs, self.columns, TINY,
                BLOCK=32, PARTS=32, num_warps=4,
            )  # fmt: skip
        else:
            self.log_pi.copy_(log_marginal(sum_over_processes(pi)) - self.log_shares)
            self.steps += 1
        products = column_sums = None
        for number, rows in enumerate(self.parts):
            logits = self.logits if len(self.parts) == 1 else logits_of(rows)
            _gradients[(programs, runs)](
                logits, self.log_sums[rows], self.log_pi, self.values[number * programs :], self.column_sums,
                self.scale, *common(rows), **self.tile, LABELLED=self.labelled, LEAST=LEAST_LOG_P,
            )  # fmt: skip
            added = torch.mm(logits.T, self.features[rows], out_dtype=torch.float32)
            products = added if products is None else products.add_(added)
            if self.any_euclidean:
                sums = self.column_sums.sum(0)
                column_sums = sums if column_sums is None else column_sums.add_(sums)
        assert products is not None
        return products, column_sums


class FusedAdam:
    """The `Adam` of `newkinds.engine.solvers`, whole epochs recorded as a CUDA graph and replayed."""

    def __init__(self, evaluate: FusedEvaluator, start: Tensor, learning_rate: float, weight_decay: float) -> None:
        self.evaluate, self.learning_rate, self.weight_decay = evaluate, learning_rate, weight_decay
        self.point = start.clone()
        self.mean, self.square = torch.zeros_like(start), torch.zeros_like(start)
        self.steps = evaluate.steps.zero_()  # it counts its evaluations
        self.unscaled = evaluate.batch.temperature / evaluate.scale
        self.ones = torch.ones_like(self.unscaled)
        evaluate.load(self.point)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.values = torch.empty(RECORDED, len(start), device=start.device)

    def step(self, most: int = 1) -> Tensor:
        if n_processes() > 1 or most < RECORDED:
            return self._epoch()[None].clone()
        if self.graph is None:
            self._record()
        assert self.graph is not None
        self.graph.replay()
        return self.values.clone()

    def _record(self) -> None:
        """Run an epoch's kernels once, so that all are compiled, undo it, and record some epochs."""
        before = [part.clone() for part in self._parts().values()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._epoch()
        torch.cuda.current_stream().wait_stream(side)
        for part, old in zip(self._parts().values(), before, strict=True):
            part.copy_(old)
        self.evaluate.load(self.point)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=side):  # the default one may be of another GPU
            for epoch in range(RECORDED):
                self.values[epoch] = self._epoch()

    def _epoch(self) -> Tensor:
        evaluate = self.evaluate
        runs, categories, width = evaluate.shape
        if evaluate.any_euclidean or n_processes() > 1:
            evaluate.load(self.point)
            values, products, column_sums = evaluate.evaluate()
            gradient = through_logits(self.point, evaluate.batch, products, column_sums).contiguous()
            unscaled, of_run, of_row = self.ones, categories * width, width
        else:
            gradient, values = evaluate.raw()[0], evaluate.values.sum(0)
            unscaled, of_run, of_row = self.unscaled, evaluate.columns * evaluate.width, evaluate.width
        size = categories * width
        _adam[(triton.cdiv(size, 1024), runs)](
            self.point, self.mean, self.square, gradient, evaluate.weights, unscaled, evaluate.batch.temperature,
            self.steps, self.learning_rate, self.weight_decay, size, width, of_run, of_row,
            evaluate.columns * evaluate.width, evaluate.width, BLOCK=1024, num_warps=4,
        )  # fmt: skip
        return values

    @property
    def n_active(self) -> int:
        return len(self.point)

    def weights(self) -> Tensor:
        return self.point

    def converged(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self.point), dtype=np.bool_)

    def _parts(self) -> dict[str, Tensor]:
        return {"point": self.point, "exp_avg": self.mean, "exp_avg_sq": self.square, "step": self.steps}

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        return {name: part.cpu().numpy() for name, part in self._parts().items()}

    def restore(self, state: dict[str, npt.NDArray[np.generic]]) -> None:
        for name, part in self._parts().items():
            part.copy_(torch.from_numpy(state[name]))
        self.evaluate.load(self.point)


def _aligned(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


@triton.jit(do_not_specialize=VARYING)
def _marginals(
    logits, log_sums, marginals, bias, labels, terms, counts, n_rows, of_labels, n_runs, columns,
    tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BIAS: tl.constexpr,
):  # fmt: skip
    """Sum of a_i p_i over a program's rows of one run, and log2 of each row's sum of exponentials."""
    program, run = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, COLUMNS)
    real = k < tl.load(counts + run)
    if_labelled, if_not = tl.load(terms + run * 6), tl.load(terms + run * 6 + 1)
    own_labels = labels + run.to(tl.int64) * of_labels
    if BIAS:
        bias_k = tl.load(bias + run * columns + k, mask=real, other=0.0)[None, :]
    added = tl.zeros([COLUMNS], dtype=tl.float32)
    for tile in range(tiles):
        rows = (program * tiles + tile) * ROWS + tl.arange(0, ROWS)
        in_range = rows < n_rows
        at = (rows.to(tl.int64) * n_runs + run)[:, None] * columns + k[None, :]
        s = tl.load(logits + at, mask=in_range[:, None] & real[None, :], other=ABSENT).to(tl.float32)
        if BIAS:
            s += bias_k
        top = tl.max(s, axis=1)
        e = tl.exp2(s - top[:, None])
        e_sum = tl.sum(e, axis=1)
        tl.store(log_sums + rows.to(tl.int64) * n_runs + run, top + tl.log2(e_sum), mask=in_range)
        label = tl.load(own_labels + rows, mask=in_range, other=-1)
        weight = tl.where(in_range, tl.where(label >= 0, if_labelled, if_not), 0.0)
        added += tl.sum(e * (weight / e_sum)[:, None], axis=0)
    tl.store(marginals + (program.to(tl.int64) * n_runs + run) * columns + k, added, mask=k < columns)


@triton.jit(do_not_specialize=VARYING)
def _gradients(
    logits, log_sums, log_pi, values, column_sums, scales, bias, labels, terms, counts, n_rows, of_labels, n_runs,
    columns, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BIAS: tl.constexpr,
    LABELLED: tl.constexpr, LEAST: tl.constexpr,
):  # fmt: skip
    """The gradient by the logits in the place of the logits, and the objective of a program's rows of one run.

    The formulas are those of `newkinds.objective.value_and_gradient`. Everything in them is linear in the weights
    of the samples, so the scale of the result is put into those; so is log 2 where logarithms are to the base 2.
    """
    program, run = tl.program_id(0), tl.program_id(1)
    k = tl.arange(0, COLUMNS)
    real = k < tl.load(counts + run)
    scale = tl.load(scales + run)
    a_labelled, a_not = tl.load(terms + run * 6) * scale, tl.load(terms + run * 6 + 1) * scale
    c_labelled, c_not = tl.load(terms + run * 6 + 2) * scale * LOG_2, tl.load(terms + run * 6 + 3) * scale * LOG_2
    l_labelled = tl.load(terms + run * 6 + 4) * scale
    own_labels = labels + run.to(tl.int64) * of_labels
    log_pi_k = tl.load(log_pi + run * columns + k, mask=real, other=0.0)[None, :]
    if BIAS:
        bias_k = tl.load(bias + run * columns + k, mask=real, other=0.0)[None, :]
        added = tl.zeros([COLUMNS], dtype=tl.float32)
    value = tl.zeros([ROWS], dtype=tl.float32)
    for tile in range(tiles):
        rows = (program * tiles + tile) * ROWS + tl.arange(0, ROWS)
        in_range = rows < n_rows
        at = (rows.to(tl.int64) * n_runs + run)[:, None] * columns + k[None, :]
        s = tl.load(logits + at, mask=in_range[:, None] & real[None, :], other=ABSENT).to(tl.float32)
        if BIAS:
            s += bias_k
        log_sum = tl.load(log_sums + rows.to(tl.int64) * n_runs + run, mask=in_range, other=0.0)
        label = tl.load(own_labels + rows, mask=in_range, other=-1)
        a = tl.where(label >= 0, a_labelled, a_not)
        c = tl.where(label >= 0, c_labelled, c_not)
        log_p = s - log_sum[:, None]
        p = tl.exp2(log_p)
        u = a[:, None] * log_pi_k - c[:, None] * log_p
        q = tl.sum(p * u, axis=1)
        if LABELLED:
            weight = tl.where(label >= 0, l_labelled, 0.0)
            is_label = k[None, :] == label[:, None]
            g = p * (u + (weight - q)[:, None]) - tl.where(is_label, weight[:, None], 0.0)
            log_p_own = tl.maximum(LOG_2 * tl.sum(tl.where(is_label, log_p, 0.0), axis=1), LEAST)
            value += tl.where(in_range, q - weight * log_p_own, 0.0)
        else:
            g = p * (u - q[:, None])
            value += tl.where(in_range, q, 0.0)
        tl.store(logits + at, g.to(tl.float16), mask=in_range[:, None] & (k < columns)[None, :])
        if BIAS:
            added += tl.sum(tl.where(in_range[:, None], g, 0.0), axis=0)
    tl.store(values + program * n_runs + run, tl.sum(value, axis=0) / scale)
    if BIAS:
        tl.store(column_sums + (program.to(tl.int64) * n_runs + run) * columns + k, added, mask=k < columns)


@triton.jit(do_not_specialize=["n_programs", "n_runs"])
def _log_marginals(
    marginals, log_shares, log_pi, steps, n_programs, n_runs, columns, tiny,
    BLOCK: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """Logarithm of the sum of all programs' marginals, less that of the shares; counts the step by the way."""
    run = tl.program_id(1)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = k < columns
    added = tl.zeros([PARTS, BLOCK], dtype=tl.float32)
    for first in range(0, n_programs, PARTS):
        program = first + tl.arange(0, PARTS)
        at = (program.to(tl.int64) * n_runs + run)[:, None] * columns + k[None, :]
        added += tl.load(marginals + at, mask=(program < n_programs)[:, None] & in_range[None, :], other=0.0)
    pi = tl.sum(added, axis=0)
    expected = tl.load(log_shares + run * columns + k, mask=in_range, other=0.0)
    tl.store(log_pi + run * columns + k, tl.log(tl.maximum(pi, tiny)) - expected, mask=in_range)
    if (run == 0) & (tl.program_id(0) == 0):
        tl.store(steps, tl.load(steps) + 1)


@triton.jit
def _adam(
    point, mean, square, gradient, half, scales, temperatures, steps, learning_rate, weight_decay, size, width,
    gradient_run, gradient_row, half_run, half_row, BLOCK: tl.constexpr,
):  # fmt: skip
    """A step of Adam with coupled decay, and the new weights, scaled as the logits are, in half precision."""
    run = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    in_range = i < size
    category, feature = i // width, i % width
    at = run.to(tl.int64) * size + i
    w = tl.load(point + at, mask=in_range, other=0.0)
    g = tl.load(
        gradient + run.to(tl.int64) * gradient_run + category * gradient_row + feature, mask=in_range, other=0.0
    )
    g = g * tl.load(scales + run) + weight_decay * w
    m = 0.9 * tl.load(mean + at, mask=in_range, other=0.0) + 0.1 * g
    v = 0.999 * tl.load(square + at, mask=in_range, other=0.0) + 0.001 * g * g
    t = tl.load(steps)
    m_hat = m / (1 - tl.exp(t * -0.10536051565782628))  # log 0.9
    v_hat = v / (1 - tl.exp(t * -0.0010005003335835344))  # log 0.999
    w -= learning_rate * m_hat / (tl.sqrt(v_hat) + 1e-8)
    tl.store(point + at, w, mask=in_range)
    tl.store(mean + at, m, mask=in_range)
    tl.store(square + at, v, mask=in_range)
    scaled = (w * tl.load(temperatures + run) * LOG2_E).to(tl.float16)
    tl.store(half + run.to(tl.int64) * half_run + category * half_row + feature, scaled, mask=in_range)
