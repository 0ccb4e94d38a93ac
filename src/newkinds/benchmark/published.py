"""Published figures, as data: those of the PIM paper (Chiaroni et al., ICCV 2023), and of discovery in stages.

`published.json` has the figures of the paper's tables; accuracies are in percent, over all, old and new classes,
under the protocol "v2". `published_continual.json` has those of continual category discovery: see `CONTINUAL`.

Examples
--------
>>> MAIN["PIM"]["CUB"]
Accuracies(all=62.7, old=75.7, new=56.2)
>>> ESTIMATED_K["Max-ACC (PIM)"]["CUB"], DATASETS["CUB"].n_categories
(227, 200)
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from newkinds.data.published import class_split
from newkinds.errors import InputError


class Accuracies(NamedTuple):
    """Accuracy on the unlabelled samples in percent: of all classes, of the known ones, of the new ones."""

    all: float
    old: float
    new: float


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper and its training set.

    Attributes
    ----------
    names : tuple of str
        How the name of a feature set begins that is made of it: see `dataset_of`.
    n_known, n_categories : int
        Classes with labels, and all.
    n_labelled, n_unlabelled : int
        Samples.
    """

    names: tuple[str, ...]
    n_known: int
    n_categories: int
    n_labelled: int
    n_unlabelled: int


Scores = Mapping[str, Mapping[str, Accuracies]]
"""Row → data set → accuracies."""


def _dataset(facts: Mapping[str, Any]) -> Dataset:
    split = class_split(facts["key"])
    return Dataset(
        names=tuple(facts["names"]),
        n_known=len(split.known),
        n_categories=len(split.order),
        n_labelled=split.n_labelled,
        n_unlabelled=split.n_unlabelled,
    )


def _scores(table: Mapping[str, Mapping[str, list[float]]]) -> Scores:
    return {row: {name: Accuracies(*cell) for name, cell in cells.items()} for row, cells in table.items()}


@dataclass(frozen=True)
class Continual:
    """What a method reached in stages, half of the classes at first.

    Attributes
    ----------
    first : float
        Accuracy after the first stage, in percent.
    stages : tuple of Accuracies
        Of the others. Old are classes of earlier stages, new those of this stage.
    """

    first: float
    stages: tuple[Accuracies, ...]

    @property
    def mean(self) -> Accuracies:
        """Over the stages after the first."""
        return Accuracies(*(sum(part) / len(self.stages) for part in zip(*self.stages, strict=True)))


def _read(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(resources.files("newkinds.benchmark").joinpath(name).read_text("utf-8"))
    return facts


_FACTS = _read("published.json")
_CONTINUAL_FACTS = _read("published_continual.json")

CITATION: str = _FACTS["citation"]
DATASETS: Mapping[str, Dataset] = {name: _dataset(facts) for name, facts in _FACTS["datasets"].items()}
"""The six data sets, in the order of the main table."""
MAIN: Scores = _scores(_FACTS["main"])
"""Nine methods, the number of classes known. How a row was obtained differs: see `source_note`."""
INFOMAX: tuple[str, ...] = tuple(_FACTS["infomax"])
"""Those of them that maximise mutual information."""
TRAINED_ALONG: tuple[str, ...] = tuple(_FACTS["trained_along"])
"""Those whose encoder was trained with the classifier: a head on frozen features cannot be held to them."""
MAIN_STD: Scores = _scores(_FACTS["std"])
"""Standard deviation of PIM over five trainings."""
ESTIMATED_K: Mapping[str, Mapping[str, int]] = _FACTS["estimated_k"]
"""Rule → data set → estimated number of classes."""
K_ERROR: Mapping[str, Mapping[str, int]] = _FACTS["k_error"]
"""Rule → data set → error of that estimate in percent, as printed."""
K_ERROR_MEANS: Mapping[str, Mapping[str, int]] = _FACTS["k_error_means"]
"""Rule → "fine-grained" (the first three data sets) or "generic" (the others) → their mean error, as printed."""
K_ERROR_NOTE: str = _FACTS["k_error_note"]
"""Where the printed errors are not those of the formula."""
PARTITION_ESTIMATED_K: Scores = _scores(_FACTS["partition_estimated_k"])
"""GCD and PIM, each with the number of classes it estimated."""
INIT: Scores = _scores(_FACTS["init"])
"""PIM from three starts: class means with random samples, with k-means++ seeds, and semi-supervised k-means."""
LOSS_TERMS: Scores = _scores(_FACTS["loss_terms"])
"""The ablation's six rows, in the order of `newkinds.objective.ABLATION`."""

CONTINUAL_CITATION: str = _CONTINUAL_FACTS["citation"]
CONTINUAL_CONDITIONS: str = _CONTINUAL_FACTS["conditions"]
"""In which the published figures of stages differ from what this package measures."""
CONTINUAL: Mapping[str, Mapping[str, Continual]] = {
    row: {
        name: Continual(cell["first"], tuple(Accuracies(*stage) for stage in cell["stages"]))
        for name, cell in cells.items()
    }
    for row, cells in _CONTINUAL_FACTS["rows"].items()
}
"""Row → data set → what it reached in each stage."""

_SOURCES: dict[str, str] = {row: entry["source"] for entry in _FACTS["sources"] for row in entry["rows"]}
_SOURCES |= dict.fromkeys((*INIT, *LOSS_TERMS), _SOURCES["PIM"])


def source_note(*rows: str) -> str:
    """How published rows were obtained, in one sentence for under a table.

    Parameters
    ----------
    rows : str
        Rows of `MAIN`, `PARTITION_ESTIMATED_K`, `INIT` or `LOSS_TERMS`.

    Examples
    --------
    >>> source_note("RankStats+", "k-means", "UNO+")
    'RankStats+, UNO+: classifier and encoder trained together; k-means: raw features of DINO ViT-B/16.'
    """
    rows_by_source: dict[str, list[str]] = {}
    for row in rows:
        if row not in _SOURCES:
            raise InputError(f"there is no published row {row!r}; choose from {', '.join(_SOURCES)}")
        rows_by_source.setdefault(_SOURCES[row], []).append(row)
    return "; ".join(f"{', '.join(labels)}: {source}" for source, labels in rows_by_source.items()) + "."


def dataset_of(name: str, n_categories: int) -> str | None:
    """The data set of the paper that a feature set is made of, judged by its name and number of classes.

    The name of the folder or file, in lower case and without `-`, `_` and spaces, must begin with a name of the
    data set that is not followed by `lt` or `longtail` (a number may come between), and the number of classes must
    be the data set's.

    Returns
    -------
    str or None
        A key of `DATASETS`.

    Examples
    --------
    >>> dataset_of("cub_tinyvit", 200), dataset_of("CIFAR-100", 100), dataset_of("cifar100lt_tinyvit", 100)
    ('CUB', 'CIFAR100', None)
    """
    squeezed = re.sub(r"[-_ ]", "", name.lower())
    for title, dataset in DATASETS.items():
        is_named = re.match(rf"({'|'.join(dataset.names)})(?!\d*(lt|longtail))", squeezed)
        if is_named and dataset.n_categories == n_categories:
            return title
    return None
