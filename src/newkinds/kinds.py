"""The categories of a run, looked at one by one: how sure they are, typical samples, doubtful ones, neighbours.

All of it comes from the run folder. PyTorch is needed only where the model is asked.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.data.files import read_array
from newkinds.errors import InputError
from newkinds.middles import blocks, category_middles
from newkinds.names import UNSURE
from newkinds.run_folder import FEATURES_FILE, check_file, find_category, read_predictions, read_run, run_file

N_SAMPLES, N_NEIGHBOURS = 5, 4
"""How many typical and doubtful samples, and how many neighbours, are listed."""


@dataclass(frozen=True)
class Sureness:
    """How sure a run is of its samples.

    Attributes
    ----------
    means : dict of int to float
        Mean confidence of each category that has samples.
    n_unsure : int
        Unlabelled samples with a confidence below `newkinds.names.UNSURE`.
    n_unlabelled : int
    """

    means: dict[int, float]
    n_unsure: int
    n_unlabelled: int


@dataclass(frozen=True)
class Sample:
    """A sample of a category; `given` says whether it came with that label."""

    id: str
    text: str | None
    confidence: float
    novelty: float
    given: bool


@dataclass(frozen=True)
class Neighbour:
    """A category that is like another.

    Attributes
    ----------
    id, name, kind
        Of the neighbour.
    similarity : float
        Cosine between the middles of the two.
    second_choice : float
        Share of the other's samples for which this category is the second choice of the model.
    """

    id: int
    name: str
    kind: str
    similarity: float
    second_choice: float


@dataclass(frozen=True)
class Kind:
    """One category of a run.

    Attributes
    ----------
    id, key, name, kind, size, labelled
        As `run.json` and the journal have them; `kind` is "known" or "new".
    suggestion : str or None
        A name that we suggest.
    stability : float or None
        How far trainings from different starts found it again, from 0 to 1, where that was measured.
    confidence : float or None
        The mean of its samples; None without any.
    n_unsure : int
        Its unlabelled samples with a confidence below `newkinds.names.UNSURE`.
    typical : tuple of Sample
        Those nearest to the middle of the category.
    doubtful : tuple of Sample
        Unlabelled ones with the least confidence.
    nearest : tuple of Neighbour
        The categories whose middles are nearest.
    let_go : int
        Samples that it had and that are no longer kept.
    """

    id: int
    key: str
    name: str
    kind: str
    size: int
    labelled: int
    suggestion: str | None
    stability: float | None
    confidence: float | None
    n_unsure: int
    typical: tuple[Sample, ...]
    doubtful: tuple[Sample, ...]
    nearest: tuple[Neighbour, ...]
    let_go: int = 0


def read_sureness(run: str | Path, record: dict[str, Any]) -> Sureness:
    """How sure a run is of its samples, from its predictions."""
    table = read_predictions(run, record, pictures=False)
    categories, confidence, is_unsure = _columns(table)
    ids = [category["id"] for category in record["categories"]]
    rows = np.searchsorted(ids, categories)
    counts = np.bincount(rows, minlength=len(ids))
    sums = np.bincount(rows, weights=confidence, minlength=len(ids))
    means = {i: float(total / n) for i, total, n in zip(ids, sums, counts, strict=True) if n}
    return Sureness(means, int(is_unsure.sum()), record["source"]["samples"] - record["source"]["labelled"])


def read_kind(run: str | Path, text: str, as_of: int | None = None) -> Kind:
    """One category of a run, by its name or id; with `as_of`, as it was after that entry of the journal.

    Examples
    --------
    >>> import tempfile
    >>> from newkinds import PIM, discover
    >>> from newkinds.data import digits
    >>> discovery = discover(digits(), method=PIM(n_categories=10, lam=0.3, max_iter=100, random_state=0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kind = read_kind(discovery.save(f"{folder}/run"), "new-1")
    >>> kind.kind, kind.labelled, len(kind.typical), len(kind.nearest)
    ('new', 0, 5, 4)
    """
    record = read_run(run, as_of)
    category = find_category(record, text)
    table = read_predictions(run, record, pictures=False)
    categories, confidence, is_unsure = _columns(table)
    members = np.flatnonzero(categories == category["id"])
    facts = {name: category[name] for name in ("id", "key", "name", "kind", "size", "labelled")}
    facts |= {name: category.get(name) for name in ("suggestion", "stability")}
    facts["let_go"] = category.get("let_go", 0)
    if not len(members):
        return Kind(**facts, confidence=None, n_unsure=0, typical=(), doubtful=(), nearest=())
    features = read_run_features(run, record)
    ids = [other["id"] for other in record["categories"]]
    middles = category_middles(features, np.searchsorted(ids, categories), len(ids))
    own = ids.index(category["id"])
    closeness = np.concatenate([features[rows] @ middles[own] for rows in blocks(members)])
    typical, doubtful = exemplars(members, closeness, confidence[members], given_labels(table)[members], N_SAMPLES)
    return Kind(
        **facts,
        confidence=float(confidence[members].mean()),
        n_unsure=int(is_unsure[members].sum()),
        typical=_samples(table, typical),
        doubtful=_samples(table, doubtful),
        nearest=_nearest(run, record["categories"], own, middles, features, members, as_of),
    )


def exemplars(
    members: npt.NDArray[np.intp],
    closeness: npt.NDArray[Any],
    confidence: npt.NDArray[Any],
    given: npt.NDArray[np.bool_],
    n_samples: int,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Typical members of a category, nearest to its middle; and doubtful ones, unlabelled, with least confidence.

    Parameters
    ----------
    members : ndarray of int
        Rows of the samples.
    closeness, confidence, given : ndarray of shape (members,)
        How near each is to the middle, how sure it is, whether it is labelled.
    n_samples : int
        At most so many of each.
    """
    nearest_first = np.argsort(-closeness, kind="stable")
    typical, others = nearest_first[:n_samples], np.sort(nearest_first[n_samples:])
    unlabelled = others[~given[others]]
    doubtful = unlabelled[np.argsort(confidence[unlabelled], kind="stable")[:n_samples]]
    return members[typical], members[doubtful]


def given_labels(table: pa.Table) -> npt.NDArray[np.bool_]:
    """Which samples came with their label; older runs do not say, and then none did."""
    if "given" not in table.column_names:
        return np.zeros(len(table), dtype=bool)
    return np.asarray(table["given"].to_numpy(), dtype=bool)


def _columns(
    table: pa.Table,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Category, confidence, and whether it is unsure, of every sample."""
    confidence = table["confidence"].to_numpy().astype(np.float64)
    is_unsure = (confidence < UNSURE) & ~given_labels(table)
    return table["category"].to_numpy(), confidence, is_unsure


def read_run_features(run: str | Path, record: dict[str, Any]) -> npt.NDArray[Any]:
    """`features.npy` of a run, or of the version whose samples it has: a memory map, checked against the record."""
    path = run_file(run, record, FEATURES_FILE)
    check_file(path, record)
    features = read_array(path, memory_map=True)
    if features.ndim != 2 or len(features) != record["source"]["samples"]:
        raise InputError(f"{path} does not fit the run: its shape is {features.shape}")
    return features


def _samples(table: pa.Table, rows: npt.NDArray[np.intp]) -> tuple[Sample, ...]:
    return tuple(
        Sample(row["id"], row.get("text"), row["confidence"], row["novelty"], row.get("given", False))
        for row in table.take(pa.array(rows)).to_pylist()
    )


def _nearest(
    run: str | Path,
    categories: list[dict[str, Any]],
    own: int,
    middles: npt.NDArray[np.float32],
    features: npt.NDArray[Any],
    members: npt.NDArray[np.intp],
    as_of: int | None,
) -> tuple[Neighbour, ...]:
    if len(categories) == 1:
        return ()
    from newkinds.runs import load

    model = load(run, as_of=as_of)
    second = np.zeros(len(categories), dtype=np.int64)
    for rows in blocks(members):
        shares = model.predict_proba(features[rows].astype(np.float32))
        shares[:, own] = -1
        second += np.bincount(shares.argmax(axis=1), minlength=len(categories))
    similarity = middles @ middles[own]
    order = [i for i in np.argsort(-similarity, kind="stable") if i != own and middles[i].any()][:N_NEIGHBOURS]
    return tuple(
        Neighbour(
            categories[i]["id"],
            categories[i]["name"],
            categories[i]["kind"],
            float(similarity[i]),
            float(second[i] / len(members)),
        )
        for i in order
    )
