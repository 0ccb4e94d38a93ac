"""A linear map of features, to other directions or fewer of them, after which they have unit length again."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from newkinds.engine.partitioner import FloatArray


@dataclass(frozen=True)
class LinearMap:
    """`(features - centre) @ matrix`, scaled to unit length.

    Attributes
    ----------
    centre : ndarray of shape (features,)
    matrix : ndarray of shape (features, directions)

    Examples
    --------
    >>> stretch = LinearMap(np.zeros(2, dtype=np.float32), np.diag([3.0, 1.0]).astype(np.float32))
    >>> stretch.apply(torch.tensor([[1.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """

    centre: FloatArray
    matrix: FloatArray

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def apply(self, features: Tensor) -> Tensor:
        """The mapped features, on their device and of their type."""
        centre, matrix = (torch.from_numpy(part).to(features) for part in (self.centre, self.matrix))
        return torch.nn.functional.normalize((features - centre) @ matrix)

    def apply_precisely(self, features: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
        """The same of an array, in double precision: a sample's result does not depend on those it comes with."""
        return self.apply(torch.from_numpy(features).double()).numpy()
