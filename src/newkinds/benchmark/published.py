"""The figures of the PIM paper (Chiaroni et al., ICCV 2023), as data.

`published.json` has every figure of its tables; accuracies are in percent, over all, old and new classes, under the
protocol "v2". The tables are called by what they show: their numbers in print are not recorded here.

Examples
--------
>>> MAIN["PIM"]["CUB"]
Accuracies(all=62.7, old=75.7, new=56.2)
>>> ESTIMATED_K["Max-ACC (PIM)"]["CUB"], DATASETS["CUB"].n_categories
(227, 200)
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, NamedTuple

from newkinds.data.published import PUBLISHED, class_split
from newkinds.errors import InputError


class Accuracies(NamedTuple):
    """Accuracy on the unlabelled samples in percent: of all classes, of the known ones, of the novel ones."""

    all: float
    old: float
    new: float


@dataclass(frozen=True)
class Dataset:
    """A data set of the paper and its training set.

    Attributes
    ----------
    key : str
        Its name for `newkinds.data.published.read_published`.
    kind : {"fine-grained", "generic"}
    n_known, n_categories : int
        Classes with labels, and all.
    n_labelled, n_unlabelled : int
        Samples.
    labelled_as_printed, unlabelled_as_printed : int
        The same as the paper prints them, rounded.
    """

    key: str
    kind: Literal["fine-grained", "generic"]
    n_known: int
    n_categories: int
    n_labelled: int
    n_unlabelled: int
    labelled_as_printed: int
    unlabelled_as_printed: int


Scores = Mapping[str, Mapping[str, Accuracies]]
"""Row → data set → accuracies."""


def _dataset(facts: Mapping[str, Any]) -> Dataset:
    split = class_split(facts["key"])
    return Dataset(
        n_known=len(split.known),
        n_categories=len(split.order),
        n_labelled=split.n_labelled,
        n_unlabelled=split.n_unlabelled,
        **facts,
    )


def _scores(table: Mapping[str, Mapping[str, list[float]]]) -> Scores:
    return {row: {name: Accuracies(*cell) for name, cell in cells.items()} for row, cells in table.items()}


_FACTS: dict[str, Any] = json.loads(
    resources.files("newkinds.benchmark").joinpath("published.json").read_text("utf-8")
)

CITATION: str = _FACTS["citation"]
TITLES: Mapping[str, str] = _FACTS["titles"]
"""What each table shows: "main", "std", "estimated_k", "partition_estimated_k", "init", "loss_terms"."""
DATASETS: Mapping[str, Dataset] = {name: _dataset(facts) for name, facts in _FACTS["datasets"].items()}
"""The six data sets, in the order of the main table."""
MAIN: Scores = _scores(_FACTS["main"])
"""Nine methods, the number of classes known. How a row was obtained differs: see `source_note`."""
MAIN_STD: Scores = _scores(_FACTS["std"])
"""Standard deviation of PIM over five trainings."""
ESTIMATED_K: Mapping[str, Mapping[str, int]] = _FACTS["estimated_k"]
"""Rule → data set → estimated number of classes."""
K_ERROR_PRINTED: Mapping[str, Mapping[str, int]] = _FACTS["k_error_as_printed"]
"""Rule → data set, "mean fine-grained" or "mean generic" → error of that estimate, in percent."""
K_ERROR_NOTE: str = _FACTS["k_error_note"]
"""Where the printed errors are not those of the formula."""
PARTITION_ESTIMATED_K: Scores = _scores(_FACTS["partition_estimated_k"])
"""GCD and PIM, each with the number of classes it estimated."""
INIT: Scores = _scores(_FACTS["init"])
"""PIM from three starts: class means with random samples, with k-means++ seeds, and semi-supervised k-means."""
LOSS_TERMS: Scores = _scores(_FACTS["loss_terms"])
"""The ablation's six rows, in the order of `newkinds.objective.ABLATION`."""

_SOURCES: dict[str, str] = {row: each["source"] for each in _FACTS["sources"] for row in each["rows"]}
_SOURCES |= dict.fromkeys((*INIT, *LOSS_TERMS), _SOURCES["PIM"])


def source_note(*rows: str) -> str:
    """How published rows were obtained, in one sentence for under a table.

    Parameters
    ----------
    rows : str
        Rows of `MAIN`, `PARTITION_ESTIMATED_K`, `INIT` or `LOSS_TERMS`.

    Examples
    --------
    >>> source_note("RankStats+", "PIM", "UNO+")
    'RankStats+, UNO+: trained end to end; PIM: features of DINO ViT-B/16 fine-tuned on the data set.'
    """
    together: dict[str, list[str]] = {}
    for row in rows:
        if row not in _SOURCES:
            raise InputError(f"there is no published row {row!r}; choose from {', '.join(_SOURCES)}")
        together.setdefault(_SOURCES[row], []).append(row)
    return "; ".join(f"{', '.join(same)}: {source}" for source, same in together.items()) + "."


SHORT_NAMES = {"herbarium19": ("herb19",)}
"""Names of feature sets that are no names of the data set."""
EVERYDAY_WORDS = {("cars",), ("herbarium",)}
"""Say which data set is meant only in first place: a folder `used_cars` is somebody's own."""
LONG_TAILED = {"lt", "longtail", "longtailed", "tail", "tailed", "imbalanced", "unbalanced"}


def dataset_of(name: str) -> str | None:
    """The data set of the paper that a feature set comes from, judged by the name of its folder or file.

    Parameters
    ----------
    name : str
        Such as `cub_tinyvit`: a usual name of the data set, and perhaps more.

    Returns
    -------
    str or None
        A key of `DATASETS`. None for other data sets, for a long-tailed variant, and where two data sets are named.

    Examples
    --------
    >>> dataset_of("cub_tinyvit"), dataset_of("scars"), dataset_of("CIFAR-100"), dataset_of("cifar100lt_tinyvit")
    ('CUB', 'Stanford Cars', 'CIFAR100', None)
    """
    words = _words(name)
    if LONG_TAILED.intersection(words):
        return None
    parts = set(_parts(words))
    found = [title for title, dataset in DATASETS.items() if parts & _names(dataset.key)]
    return found[0] if len(found) == 1 else None


def _words(name: str) -> list[str]:
    """Words and numbers, in lower case: "CIFAR100_tinyViT" → cifar, 100, tiny, vi, t."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def _parts(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Every run of adjoining words, as `_joined` writes it; everyday words only where they come first."""
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            part = _joined(words[start:end])
            if start == 0 or part not in EVERYDAY_WORDS:
                yield part


def _joined(words: list[str]) -> tuple[str, ...]:
    """Words written together, numbers apart: "Image", "Net", "100" are ImageNet100, but "10", "0" are not 100."""
    spaced = "".join(f" {word} " if word.isdigit() else word for word in words)
    return tuple(spaced.split())


def _names(key: str) -> set[tuple[str, ...]]:
    published = PUBLISHED[key]
    names = (key, published.title, *published.aliases, *SHORT_NAMES.get(key, ()))
    return {_joined(_words(name)) for name in names}
