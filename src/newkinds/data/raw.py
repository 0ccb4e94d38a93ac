"""A collection before any encoder has seen it: photos or texts, and labels where there are any."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from newkinds.data.feature_set import FeatureSet, check_labelling
from newkinds.data.files import naming_files
from newkinds.data.labelling import USUAL, LabelRules, encode_with_truth
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED, IntArray
from newkinds.names import Kind as Kind  # the encoders import it from here

Item = Path | bytes | npt.NDArray[np.uint8] | str
"""A sample: the file of an image, its content or its pixels (height, width, 3), or a text."""


@dataclass(frozen=True, eq=False)
class RawCollection:
    """A partly labelled collection of images or texts.

    Attributes
    ----------
    kind : {"images", "texts"}
    items : sequence
        A file or an array of pixels for each image; a str for each text.
    ids : tuple of str
        The name of each sample: a file's path within the folder, or else the row number.
    labels : ndarray of int64
        -1 = unlabelled.
    truth : ndarray of int64, optional
        True classes, for scoring only; -1 where unknown.
    names : tuple of str, optional
        Name of class 0, 1, …; None where labels are plain integers.
    skipped : tuple of (str, str)
        The id of each sample that was left out, and why.
    others : mapping of str to list
        Further columns of the table that the samples come from; predictions carry them along.
    notes : tuple of str
        What a user should know about the collection.

    Examples
    --------
    >>> tickets = RawCollection("texts", ["card lost", "refund?"], ("0", "1"), np.array([0, -1]), names=("card",))
    >>> len(tickets), tickets.only(np.array([False, True])).ids
    (2, ('1',))
    """

    kind: Kind
    items: Sequence[Item]
    ids: tuple[str, ...]
    labels: IntArray
    truth: IntArray | None = None
    names: tuple[str, ...] | None = None
    skipped: tuple[tuple[str, str], ...] = ()
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.items)
        if len(self.ids) != n:
            raise InputError(f"there are {n} samples but {len(self.ids)} ids")
        labels, truth = check_labelling(n, self.labels, self.truth, self.names, self.ids)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "truth", truth)

    @classmethod
    def gathered(
        cls,
        kind: Kind,
        items: Sequence[Item],
        ids: Sequence[str],
        labels: Sequence[Any] | None,
        truth: Sequence[Any] | None,
        skipped: Sequence[tuple[str, str]],
        *,
        labels_from: Path,
        truth_from: Path,
        rules: LabelRules = USUAL,
        others: Mapping[str, Sequence[Any]] | None = None,
        notes: Sequence[str] = (),
    ) -> "RawCollection":
        """A collection with labels and truth as they were read; an error names the files they come from."""
        encoded, names, encoded_truth, about_labels = encode_with_truth(
            len(items), labels, truth, labels_from=labels_from, truth_from=truth_from, rules=rules
        )
        with naming_files(labels_from, truth_from):
            return cls(
                kind,
                items,
                tuple(ids),
                encoded,
                encoded_truth,
                names,
                tuple(skipped),
                others or {},
                (*notes, *about_labels),
            )

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_labelled(self) -> int:
        return int((self.labels != UNLABELLED).sum())

    @property
    def root(self) -> str | None:
        """The folder in which the ids are the paths of files; None where samples are no files."""
        files = zip(self.items, self.ids, strict=True) if self.kind == "images" else ()
        for item, name in files:
            path = item.absolute().as_posix() if isinstance(item, Path) else ""
            if path.endswith(f"/{name}"):  # not so for a name that cannot be written as text
                return path.removesuffix(f"/{name}") or "/"
        return None

    def __repr__(self) -> str:
        return f"RawCollection({len(self)} {self.kind}, {self.n_labelled} labelled, {len(self.skipped)} skipped)"

    def only(self, marked: npt.NDArray[np.bool_], skipped: Sequence[tuple[str, str]] = ()) -> "RawCollection":
        """The marked samples; `skipped` gives the reason for others, where there is one."""
        rows = np.flatnonzero(marked).tolist()
        return replace(
            self,
            items=[self.items[row] for row in rows],
            ids=tuple(self.ids[row] for row in rows),
            labels=self.labels[rows],
            truth=None if self.truth is None else self.truth[rows],
            skipped=(*self.skipped, *skipped),
            others={name: [cells[row] for row in rows] for name, cells in self.others.items()},
        )

    def with_features(self, features: npt.NDArray[Any]) -> FeatureSet:
        """The same collection as feature vectors, one for each sample."""
        texts = tuple(map(str, self.items)) if self.kind == "texts" else None
        return FeatureSet(
            features,
            self.labels,
            self.truth,
            self.names,
            self.ids,
            texts=texts,
            skipped=self.skipped,
            others=self.others,
            notes=self.notes,
            root=self.root,
        )
