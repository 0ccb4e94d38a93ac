"""Labels and truth: reading them from files, and turning both into integers of one numbering."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newkinds.data.files import load_checked, naming_files, read_array
from newkinds.data.tables import Table, read_table
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray, encode_labels, known_categories, to_columns
from newkinds.names import LABEL_ENDINGS, listed


def read_labels(path: str | Path, n_samples: int, ids: Sequence[Any] | None = None) -> list[Any]:
    """Read the label of each sample from a file, as it stands there.

    Parameters
    ----------
    path : path
        One of the `newkinds.names.LABEL_ENDINGS`. `.npy` or `.txt`: one label for each sample. Any other table: a
        column `label`, or a single column of any name, with one label for each sample; if there is a column `id`
        too, rows come in any order and samples without a row are unlabelled.
    n_samples : int
    ids : sequence, optional
        The names of the samples; by default their row numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "labels.csv").write_text("id,label\\nc,wren\\na,owl\\n")
    ...     read_labels(f"{folder}/labels.csv", 3, ["a", "b", "c"])
    ['owl', None, 'wren']
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in LABEL_ENDINGS:
        raise InputError(f"{path}: labels are read from {listed(LABEL_ENDINGS)} files")
    table = _read_vector(path) if suffix == ".npy" else read_table(path)
    label_column = table.find("label")
    if label_column is None:
        if len(table.columns) != 1:
            raise InputError(f"{path}: a column named 'label' is needed; found {table.listed()}")
        (label_column,) = table.columns
    id_column = table.find("id")
    if id_column is not None and id_column != label_column:
        return _by_id(table, id_column, label_column, n_samples, ids)
    if len(table) != n_samples:
        raise InputError(
            f"{path} has {len(table)} labels for {n_samples} samples; give one a sample, or add an 'id' column"
        )
    return table.values(label_column)


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
) -> tuple[IntArray, tuple[str, ...] | None, IntArray | None]:
    """Turn labels and truth, as they were read, into integers of one numbering; names of labels come first.

    Parameters
    ----------
    n_samples : int
        How many labels there are if `labels` is None, which means that no sample is labelled.
    labels, truth : iterable, optional
        Integers or names, see `newkinds.encode_labels`. If either has names, integers are names too.
    labels_from, truth_from : path
        The files to name in an error.

    Returns
    -------
    labels : ndarray of int64
    names : tuple of str, or None
    truth : ndarray of int64, or None

    Examples
    --------
    >>> file = Path("birds.csv")
    >>> encode_with_truth(3, [2, None, 1], ["2", "other", "1"], labels_from=file, truth_from=file)
    (array([ 1, -1,  0]), ('1', '2', 'other'), array([1, 2, 0]))
    """
    encoded, names = np.full(n_samples, UNLABELLED), None
    if labels is not None:
        with naming_files(labels_from):
            encoded, names = encode_labels(labels)
    if truth is None:
        return encoded, names, None
    with naming_files(truth_from):
        encoded_truth, all_names = encode_labels(truth, names or ())
        if names is None and all_names is not None:
            known = known_categories(encoded)
            encoded, names = to_columns(encoded, known), tuple(map(str, known))
            if absent := [name for name in names if name not in all_names]:
                raise InputError(
                    f"labels are integers but the truth has names, and {absent[0]} is none of them; give both in "
                    "the same form"
                )
            encoded_truth, all_names = encode_labels(truth, names)
    return encoded, all_names, encoded_truth
