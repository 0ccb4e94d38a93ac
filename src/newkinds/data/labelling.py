"""Labels and truth: reading them from files, taking them as they are meant, and turning both into integers of one
numbering."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.files import load_checked, naming_files, read_array
from newkinds.data.formulas import PREDICTION_COLUMNS
from newkinds.data.tables import Table, read_table
from newkinds.errors import InputError
from newkinds.labels import (
    UNLABELLED,
    IntArray,
    encode_labels,
    is_missing,
    known_categories,
    label_name,
    to_columns,
)
from newkinds.names import LABEL_ENDINGS, ending, listed
from newkinds.wording import option

PLACEHOLDERS = frozenset(
    (
        *("unsorted", "not sorted", "to sort", "to be sorted", "sort me", "inbox", "misc", "miscellaneous"),
        *(
            "unknown",
            "unlabelled",
            "unlabeled",
            "no label",
            "unclassified",
            "uncategorised",
            "uncategorized",
            "undefined",
            "unsure",
        ),
        *("none", "null", "nil", "nan", "nat", "na", "n/a", "<na>", "n.a."),
        *("todo", "to do", "tbd", "xxx", "-", "--", "–", "—", "?", "??", "???"),
    )
)
"""What people write where they mean that there is no label; in lower case, with single blanks."""
DUPLICATES_SHOWN = 5


@dataclass(frozen=True)
class LabelRules:
    """How labels are taken that people wrote.

    Attributes
    ----------
    unlabelled : tuple of str
        Names that mean "no label" here.
    as_is : bool
        Otherwise names that usually mean it, such as Unsorted, ? and N/A (`PLACEHOLDERS`), do so too, with a note.
    min_confidence : float, optional
        Of a file of labels that has a column `confidence`, such as our predictions, only rows that are as sure.
    confirm : callable, optional
        Asked for each placeholder, with its name and how many samples have it; False keeps it as a name.
    ignored : bool
        Labels are not looked at.

    Examples
    --------
    >>> LabelRules().taken(["owl", "Unsorted", None])
    (['owl', None, None], ["1 sample called 'Unsorted' counts as unlabelled (as_is=True keeps such names)"])
    """

    unlabelled: tuple[str, ...] = ()
    as_is: bool = False
    min_confidence: float | None = None
    confirm: Callable[[str, int], bool] | None = None
    ignored: bool = False

    def taken(self, labels: Iterable[Any]) -> tuple[list[Any], list[str]]:
        """Labels as they are meant, and notes on those that were not taken as they stand."""
        labels = list(labels)
        counts = Counter(label_name(cell) for cell in labels if not is_missing(cell))
        if absent := [name for name in self.unlabelled if name.strip() not in counts]:
            examples = ", ".join(sorted(counts)[:DUPLICATES_SHOWN]) or "none"
            raise InputError(
                f"no label is called {absent[0]!r}, which was to mean unlabelled (labels: {examples}, …)"
            )
        meaningless = {name.strip() for name in self.unlabelled}
        notes = []
        for name, count in counts.items():
            if self.as_is or name in meaningless or not _is_placeholder(name):
                continue
            if self.confirm is None or self.confirm(name, count):
                meaningless.add(name)
                subject = "1 sample" if count == 1 else f"{count:,} samples"
                verb = "counts" if count == 1 else "count"
                as_is = option("as_is=True", "--as-is")
                notes.append(f"{subject} called {name!r} {verb} as unlabelled ({as_is} keeps such names)")
        if not meaningless:
            return labels, notes
        return [None if is_missing(cell) or label_name(cell) in meaningless else cell for cell in labels], notes

    def of_truth(self, truth: Iterable[Any]) -> list[Any]:
        """The truth without what means that there is none, by the same words."""
        truth = list(truth)
        present = {label_name(cell) for cell in truth if not is_missing(cell)}
        words = tuple(name for name in self.unlabelled if name.strip() in present)
        return replace(self, unlabelled=words, confirm=None).taken(truth)[0]


USUAL = LabelRules()


def _is_placeholder(name: str) -> bool:
    return name.casefold() in PLACEHOLDERS or re.sub(r"[\s_-]+", " ", name).strip().casefold() in PLACEHOLDERS


def read_labels(
    path: str | Path,
    n_samples: int,
    ids: Sequence[Any] | None = None,
    rules: LabelRules = USUAL,
    id_name: str | None = None,
) -> list[Any]:
    """Read the label of each sample from a file, as it stands there.

    Parameters
    ----------
    path : path
        One of the `newkinds.names.LABEL_ENDINGS`. `.npy` or `.txt`: one label for each sample. Any other table: a
        column `label`, or a single column of any name, with one label for each sample; if there is a column `id`
        too, rows come in any order, samples without a row are unlabelled, and the column of labels may be called
        `name`, as in our predictions.
    n_samples : int
    ids : sequence, optional
        The names of the samples; by default their row numbers.
    rules : LabelRules
        Of these only `min_confidence` matters here.
    id_name : str, optional
        The column that names the samples in the collection; the file may have it in place of `id`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "labels.csv").write_text("id,label\\nc,wren\\na,owl\\n")
    ...     read_labels(f"{folder}/labels.csv", 3, ["a", "b", "c"])
    ['owl', None, 'wren']
    """
    path = Path(path)
    if ending(path) not in LABEL_ENDINGS:
        raise InputError(f"{path}: labels are read from {listed(LABEL_ENDINGS)} files")
    table = _read_vector(path) if ending(path) == ".npy" else read_table(path)
    id_column = table.find("id") or (None if id_name is None else table.find(id_name))
    label_column = label_column_of(table, id_column is not None)
    if label_column is None:
        if len(table.columns) != 1:
            raise InputError(f"{path}: a column named 'label' is needed; found {table.listed()}")
        (label_column,) = table.columns
    table = sure_enough(table, label_column, rules)
    if id_column is not None and id_column != label_column:
        return _by_id(table, id_column, label_column, n_samples, ids)
    if (other := table.guessed_ids({label_column})) is not None:
        raise InputError(
            f"{path} names its rows by {other!r}, by which the collection does not name its samples; say so with "
            f"{option('id=…', '--id')}, call the column 'id', or leave it out if the labels are in the order of "
            "the samples"
        )
    if len(table) != n_samples:
        raise InputError(
            f"{path} has {len(table)} labels for {n_samples} samples; give one a sample, or add an 'id' column"
        )
    return table.values(label_column)


def label_column_of(table: Table, has_ids: bool) -> str | None:
    """The column of labels; in our predictions, which may carry a column `label` along, it is `name`."""
    if all(name in table.columns for name in PREDICTION_COLUMNS):
        return "name"
    return table.find("label") or (table.find("name") if has_ids else None)


def sure_enough(table: Table, label_column: str, rules: LabelRules) -> Table:
    """A file of labels without those that are less sure than `rules.min_confidence`."""
    if rules.min_confidence is None:
        return table
    column = table.find("confidence")
    if column is None:
        raise InputError(f"{table.path} has no column 'confidence' to choose labels by; it has {table.listed()}")
    was_given = table.values("given") if "given" in table.columns else [False] * len(table)
    labels = []
    for row, (label, cell) in enumerate(zip(table.values(label_column), table.values(column), strict=True)):
        try:
            is_given = str(was_given[row]).casefold() == "true"  # a person said so
            is_sure = is_given or (not is_missing(cell) and float(cell) >= rules.min_confidence)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"{table.path}: {table.where(row)} has the confidence {cell!r}; give a number"
            ) from error
        labels.append(label if is_sure else None)
    return replace(table, columns={**table.columns, label_column: labels})


def check_unique(ids: Sequence[str], where: str) -> None:
    """Refuse ids that occur more than once."""
    if len(set(ids)) == len(ids):
        return
    repeated = [name for name, count in Counter(ids).items() if count > 1]
    shown = ", ".join(map(repr, repeated[:DUPLICATES_SHOWN])) + (", …" if len(repeated) > DUPLICATES_SHOWN else "")
    raise InputError(f"{where}: {len(repeated):,} ids occur more than once: {shown}; give every sample its own")


def _read_vector(path: Path) -> Table:
    labels = read_array(path)
    if labels.ndim != 1:
        raise InputError(f"{path}: labels must be one-dimensional, one a sample; got shape {labels.shape}")
    return Table(path, {"label": load_checked(path, "a list of labels", lambda: list(labels))})


def _by_id(table: Table, id_column: str, label_column: str, n_samples: int, ids: Sequence[Any] | None) -> list[Any]:
    """Put labels that come with ids in the order of the samples; blanks around an id do not count."""
    path = table.path
    sample_ids = [str(name).strip() for name in (range(n_samples) if ids is None else ids)]
    row_ids = [str(name).strip() for name in table.values(id_column)]
    for where, names in ((str(path), row_ids), ("the collection", sample_ids)):
        repeated = next((name for name, count in Counter(names).items() if count > 1), None)
        if repeated is not None:
            raise InputError(f"{path} gives labels by id, but the id {repeated!r} occurs more than once in {where}")
    sample_of = {name: sample for sample, name in enumerate(sample_ids)}
    labels: list[Any] = [None] * n_samples
    for row, (name, label) in enumerate(zip(row_ids, table.values(label_column), strict=True)):
        sample = sample_of.get(name)
        if sample is None:
            raise InputError(
                f"{path}: {table.where(row)} has the id {name!r}, which is not in the collection (ids there: "
                f"{', '.join(sample_ids[:3])}, …)"
            )
        labels[sample] = label
    return labels


def encode_with_truth(
    n_samples: int,
    labels: Iterable[Any] | None,
    truth: Iterable[Any] | None,
    *,
    labels_from: Path,
    truth_from: Path,
    rules: LabelRules = USUAL,
) -> tuple[IntArray, tuple[str, ...] | None, IntArray | None, list[str]]:
    """Turn labels and truth, as they were read, into integers of one numbering; names of labels come first.

    Parameters
    ----------
    n_samples : int
        How many labels there are if `labels` is None, which means that no sample is labelled.
    labels, truth : iterable, optional
        Integers or names, see `newkinds.encode_labels`. If either has names, integers are names too.
    labels_from, truth_from : path
        The files to name in an error.
    rules : LabelRules
        How labels are taken; the truth stays as it is.

    Returns
    -------
    labels : ndarray of int64
    names : tuple of str, or None
    truth : ndarray of int64, or None
    notes : list of str
        What a user should know of how labels were taken.

    Examples
    --------
    >>> file = Path("birds.csv")
    >>> encode_with_truth(3, [2, None, 1], ["2", "other", "1"], labels_from=file, truth_from=file)
    (array([ 1, -1,  0]), ('1', '2', 'other'), array([1, 2, 0]), [])
    """
    encoded, names = np.full(n_samples, UNLABELLED), None
    notes: list[str] = []
    if labels is not None:
        with naming_files(labels_from):
            labels, notes = rules.taken(labels)
            encoded, names = encode_labels(labels, literal=rules.as_is)
    if truth is None:
        return encoded, names, None, notes
    with naming_files(truth_from):
        truth = rules.of_truth(truth)
        encoded_truth, all_names = encode_labels(truth, names or (), literal=rules.as_is)
        if names is None and all_names is not None:
            known = known_categories(encoded)
            encoded, names = to_columns(encoded, known), tuple(map(str, known))
            if absent := [name for name in names if name not in all_names]:
                raise InputError(
                    f"labels are integers but the truth has names, and {absent[0]} is none of them; give both in "
                    "the same form"
                )
            encoded_truth, all_names = encode_labels(truth, names, literal=rules.as_is)
    return encoded, all_names, encoded_truth, notes
