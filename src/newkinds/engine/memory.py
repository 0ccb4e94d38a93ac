"""About how much main memory the engine takes beside the features: too much is refused before it is asked for.

Only what grows with the number of categories counts: everything else is worked on in blocks.
"""

from newkinds.engine.samples import Samples
from newkinds.engine.solvers import HISTORY
from newkinds.names import SolverName
from newkinds.runtime import check_memory
from newkinds.wording import option
from newkinds.workers import n_at_work

FLOAT = 4
"""Bytes of a weight."""
VECTORS: dict[SolverName, int] = {"lbfgs": 2 * HISTORY + 8, "adam": 5}
"""Vectors of the size of the weights that a solver holds for a run."""
EXTRA_ARRAYS = 3
"""Further ones of that size that exist for a moment: scaled weights, a gradient, the centroids of the next step."""


def clustering_bytes(samples: Samples, n_categories: int, restarts: int) -> int:
    """Of k-means: the centroids of this step and the last, and their sums in several lanes."""
    return _arrays_of_weights(samples, restarts * n_categories, 2)


def training_bytes(samples: Samples, n_categories: int, runs: int, solver: SolverName) -> int:
    """Of a training: what the solver holds for the runs trained at once, and their gradients in several lanes."""
    return _arrays_of_weights(samples, runs * n_categories, VECTORS[solver])


def _arrays_of_weights(samples: Samples, rows: int, held: int) -> int:
    # See sum_over_lanes: neighbours are added as soon as both exist, and each further thread may have one ready.
    sums = len(samples.lanes).bit_length() + min(n_at_work() - 1, len(samples.lanes))
    return rows * samples.width * FLOAT * (held + max(sums, EXTRA_ARRAYS))


def check_fits(needed: int, samples: Samples, n_categories: int, work: str) -> None:
    """Refuse work on a CPU for which memory does not suffice. GPUs refuse by themselves."""
    if samples.device.type == "cpu":
        check_memory(
            needed,
            f"{work} with {n_categories:,} categories and {samples.width:,} features",
            f"give fewer categories ({option('n_categories', '--n-categories')}), fewer features, or label fewer "
            "categories",
        )
