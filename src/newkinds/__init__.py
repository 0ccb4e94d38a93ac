"""Newkinds finds the kinds in a collection: the ones you know and the ones you don't.

The whole public surface is below. Names are imported on first use, so that `import newkinds` (and the command
line's `--help`) does not wait for PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from newkinds.data import FeatureSet, read_features, write_features
    from newkinds.errors import InputError
    from newkinds.labels import UNLABELLED, encode_labels
    from newkinds.methods import (
        ORCA,
        PIM,
        RIM,
        TIM,
        UNO,
        KMeans,
        RankStats,
        SemiSupervisedKMeans,
        SimGCD,
        estimate_n_categories,
    )
    from newkinds.metrics import accuracy
    from newkinds.objective import Objective
    from newkinds.runs import load

__version__ = "0.1.0"

_HOME = {
    "PIM": "methods",
    "RIM": "methods",
    "TIM": "methods",
    "KMeans": "methods",
    "SemiSupervisedKMeans": "methods",
    "SimGCD": "methods",
    "UNO": "methods",
    "ORCA": "methods",
    "RankStats": "methods",
    "estimate_n_categories": "methods",
    "Objective": "objective",
    "accuracy": "metrics",
    "FeatureSet": "data",
    "read_features": "data",
    "write_features": "data",
    "load": "runs",
    "UNLABELLED": "labels",
    "encode_labels": "labels",
    "InputError": "errors",
}

__all__ = [
    "ORCA",
    "PIM",
    "RIM",
    "TIM",
    "UNLABELLED",
    "UNO",
    "FeatureSet",
    "InputError",
    "KMeans",
    "Objective",
    "RankStats",
    "SemiSupervisedKMeans",
    "SimGCD",
    "accuracy",
    "encode_labels",
    "estimate_n_categories",
    "load",
    "read_features",
    "write_features",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'newkinds' has no attribute {name!r}")
    value = getattr(import_module(f"newkinds.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
