"""Whatever people pass as a collection in Python: a path, arrays, a data frame, texts or photos in memory."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data import FeatureSet, RawCollection, read_source
from newkinds.data.labelling import USUAL, LabelRules, check_unique, encode_with_truth
from newkinds.encoders import as_collection
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, is_missing, named_labels
from newkinds.raw_samples import kind_of_samples, refuse_odd
from newkinds.selection.problem import as_array, checked_features

LABELS, TRUTH = Path("labels"), Path("truth")
"""What errors call labels and truth that come from no file."""


def gather(
    source: Any,
    labels: Any = None,
    *,
    truth: Any = None,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    rules: LabelRules = USUAL,
) -> FeatureSet | RawCollection:
    """A collection, from whatever it is passed as; see `newkinds.discover`.

    `rules` say how labels in files are taken. In memory a name is a name, but for those that `rules` list.

    Examples
    --------
    >>> gather([[1.0, 0.0], [0.0, 1.0]], ["owl", None])
    FeatureSet(2 samples × 2, 1 labelled, 1 known categories)
    >>> gather(["card lost", "refund?"], ["card", ""])
    RawCollection(2 texts, 1 labelled, 0 skipped)
    """
    if isinstance(source, str | os.PathLike):
        return _read(source, labels, truth, text=text, label=label, id=id, rules=rules)
    if isinstance(source, FeatureSet | RawCollection):
        _refuse("a collection, which has its labels", labels=labels, truth=truth, text=text, label=label, id=id)
        return _relabelled(source, _meant(_written(source, source.labels), rules)) if rules.unlabelled else source
    refuse_odd(source)
    frame = source if hasattr(source, "columns") and hasattr(source, "drop") else None
    if frame is not None:
        source, labels, truth = _columns(source, labels, truth, text, label, id)
    else:
        _refuse("no table", text=text, label=label, id=id)
    for name, value in (("labels", labels), ("truth", truth)):
        if isinstance(value, str | os.PathLike):
            raise InputError(f"{name} must be a list or an array with one entry a sample; got {os.fspath(value)!r}")
    labels = _meant(labels, rules)
    kind = kind_of_samples(source)
    if kind is None:
        return _features(source, labels, truth)
    collection = as_collection(["" if is_missing(text) else text for text in source] if kind == "texts" else source)
    encoded, names, encoded_truth = _labelling(len(collection), labels, truth)
    ids = row_names(source) or collection.ids
    others = {} if frame is None else {str(name): _cells(frame[name]) for name in frame.columns if name != id}
    collection = replace(collection, ids=ids, labels=encoded, truth=encoded_truth, names=names, others=others)
    blank = np.array([isinstance(item, str) and not item.strip() for item in collection.items])
    return collection.only(~blank, [(ids[row], "the text is blank") for row in np.flatnonzero(blank)])


def _cells(column: Any) -> list[Any]:
    return [None if not isinstance(cell, str) and is_missing(cell) else cell for cell in column]


def _meant(labels: Any, rules: LabelRules) -> Any:
    """Labels in memory, without those that `rules` list."""
    return replace(rules, as_is=True).taken(labels)[0] if labels is not None and rules.unlabelled else labels


def _read(
    source: str | os.PathLike[str], labels: Any, truth: Any, *, rules: LabelRules, **options: Any
) -> FeatureSet | RawCollection:
    files = {
        name: value
        for name, value in (("labels", labels), ("truth", truth))
        if isinstance(value, str | os.PathLike)
    }
    in_memory = labels is not None and "labels" not in files
    collection = read_source(
        os.fspath(source),
        labels=Path(files["labels"]) if "labels" in files else None,
        truth=os.fspath(files["truth"]) if "truth" in files else None,
        rules=replace(rules, unlabelled=()) if in_memory else rules,
        **options,
    )
    labels, truth = (None if name in files else value for name, value in (("labels", labels), ("truth", truth)))
    if labels is None and truth is None:
        return collection
    return _relabelled(collection, _meant(labels, rules), truth)


def _written(collection: FeatureSet | RawCollection, ids: IntArray) -> list[Any]:
    """Labels or truth of a collection as people write them."""
    names = collection.names
    return [i if names is None else None if i == UNLABELLED else names[i] for i in ids.tolist()]


def _relabelled(
    collection: FeatureSet | RawCollection, labels: Any, truth: Any = None
) -> FeatureSet | RawCollection:
    """A collection with other labels or another truth, or both; what is None stays."""
    labels = _written(collection, collection.labels) if labels is None else labels
    if truth is None and collection.truth is not None:
        truth = _written(collection, collection.truth)
    encoded, names, encoded_truth = _labelling(len(collection), labels, truth)
    return replace(collection, labels=encoded, truth=encoded_truth, names=names)


def _columns(
    frame: Any, labels: Any, truth: Any, text: str | None, label: str | None, id: str | None
) -> tuple[Any, Any, Any]:
    """Samples, labels and truth from the columns of a data frame; without texts, all other columns are features."""
    truth_column = truth if isinstance(truth, str) else None
    named = [name for name in (text, label, truth_column, id) if name is not None]
    if missing := [name for name in named if name not in frame.columns]:
        present = ", ".join(map(str, frame.columns[:5]))
        raise InputError(f"there is no column {missing[0]!r}; the columns are {present}, …")
    if label is not None and labels is not None:
        raise InputError("labels and label contradict each other: give one of them")
    if label is not None:
        labels = frame[label]
    if truth_column is not None:
        truth = frame[truth_column]
    if id is not None:
        check_unique([str(name) for name in frame[id]], f"the column {id!r}")
        frame = frame.set_index(id, drop=False)
    return (frame.drop(columns=named) if text is None else frame[text]), labels, truth


def _features(source: Any, labels: Any, truth: Any) -> FeatureSet:
    features = checked_features(source, least=1)
    encoded, names, encoded_truth = _labelling(len(features), labels, truth)
    columns = getattr(source, "columns", None)
    return FeatureSet(
        features,
        encoded,
        encoded_truth,
        names,
        ids=row_names(source),
        columns=None if columns is None else tuple(map(str, columns)),
    )


def _labelling(n_samples: int, labels: Any, truth: Any) -> tuple[IntArray, tuple[str, ...] | None, IntArray | None]:
    labels, truth = as_array(labels), as_array(truth)
    encoded, names = named_labels(labels, n_samples)
    if truth is None:
        return encoded, names, None
    encoded_truth, truth_names = named_labels(truth, n_samples)
    if names is None and truth_names is None:
        return encoded, None, encoded_truth
    as_is = LabelRules(as_is=True)
    files = {"labels_from": LABELS, "truth_from": TRUTH}
    return encode_with_truth(n_samples, labels, truth, **files, rules=as_is)[:3]


def row_names(source: Any) -> tuple[str, ...] | None:
    """The index of a data frame or series, unless it only counts rows or is not unique."""
    index: Any = getattr(source, "index", None)
    counts_rows = getattr(index, "start", None) == 0 and getattr(index, "step", None) == 1
    if counts_rows or not getattr(index, "is_unique", False):
        return None
    return tuple(map(str, index))


def _refuse(what: str, **options: Any) -> None:
    if unusable := [name for name, value in options.items() if value is not None]:
        raise InputError(f"the source is {what}: {', '.join(unusable)} cannot be used with it")
