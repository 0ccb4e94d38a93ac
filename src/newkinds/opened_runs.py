"""Run folders opened in Python: a `Discovery` of which everything is read when it is asked for."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from newkinds.data import FeatureSet
from newkinds.discovery import Discovery, check_unchanged
from newkinds.errors import InputError
from newkinds.kinds import read_run_features
from newkinds.labels import UNLABELLED, IntArray, encode_labels
from newkinds.methods import CategoryDiscoverer
from newkinds.metrics import Accuracy
from newkinds.report import make_report, write_report_if_possible
from newkinds.run_folder import (
    PICTURES,
    RUN_FILE,
    copy_run,
    file_checksum,
    read_predictions,
    read_run,
    sample_state,
)
from newkinds.runs import load

MOST_NAMES = 1 << 20
"""Largest id of a category with a name: names are listed from id 0 on."""


class SavedDiscovery(Discovery):
    """A discovery in a run folder; everything but `run.json` is read when it is asked for."""

    def __init__(self, folder: Path, encoder: str | None = None) -> None:
        self._record = read_run(folder)
        self._opened = self._saved = file_checksum(folder / RUN_FILE)
        self._place, self._encoder = folder, encoder
        self.seconds = self.record["seconds"]
        self.source = self.record["source"]["name"]
        self.folder = folder

    @property
    def record(self) -> dict[str, Any]:
        return self._record

    @property
    def names(self) -> dict[int, str]:
        return {category["id"]: category["name"] for category in self.record["categories"]}

    @cached_property
    def model(self) -> CategoryDiscoverer:
        check_unchanged(self._place, self._opened)
        return load(self._place, self._encoder)

    @cached_property
    def _table(self) -> pa.Table:
        check_unchanged(self._place, self._opened)
        return read_predictions(self._place, self.record)

    @cached_property
    def predictions(self) -> pa.Table:
        columns = [name for name in self._table.column_names if name != PICTURES]
        return self._table.select(columns)

    @cached_property
    def collection(self) -> FeatureSet:
        """As it was, except that features have unit length and half precision, and there are no pictures.

        Labels are as they stand: those that came with the samples, as corrected, and confirmed samples.
        """
        check_unchanged(self._place, self._opened)
        features = read_run_features(self._place, self.record)
        shown = [name for name in ("id", "truth", "text") if name in self.predictions.column_names]
        cells = {name: self.predictions[name].to_pylist() for name in shown}
        categories = self.predictions["category"].to_numpy()
        labelled = sample_state(self.predictions).labelled
        names, truth = self._names_and_truth(cells.get("truth"))
        columns = self.record["source"].get("columns")
        return FeatureSet(
            features,
            np.where(labelled, categories, UNLABELLED),
            truth,
            names,
            tuple(cells["id"]),
            None if columns is None else tuple(columns),
            tuple(cells["text"]) if "text" in cells else None,
            encoder=self.record.get("encoder"),
            skipped=tuple((name, why) for name, why in self.record.get("skipped", [])),
        )

    def _names_and_truth(self, truth: list[str | None] | None) -> tuple[tuple[str, ...] | None, IntArray | None]:
        """Name of id 0, 1, … (None if categories are called by their ids), and the truth as such ids."""
        categories = self.record["categories"]
        known = {c["id"]: c["key"] for c in categories if c["kind"] == "known"}
        known |= {c["id"]: c["name"] for c in categories if c["kind"] == "new" and c["labelled"]}
        if all(name == str(i) for i, name in known.items()):
            encoded, classes = encode_labels(truth or [])
            if classes is None:
                return None, None if truth is None else encoded
        if max(known, default=0) > MOST_NAMES:
            raise InputError(f"{self._place} is damaged: the category {max(known)} has a name, and so large an id")
        others = iter(sorted({name for name in truth or [] if name is not None} - set(known.values())))
        listed = [known[i] if i in known else next(others, "") for i in range(max(known, default=-1) + 1)]
        names = (*listed, *others)
        ids = {name: i for i, name in enumerate(names)}
        if truth is None:
            return names, None
        return names, np.array([UNLABELLED if name is None else ids[name] for name in truth], dtype=np.int64)

    def _take_edits(self) -> None:
        self._record = read_run(self._place)
        for name in ("predictions", "_table", "model", "collection"):
            self.__dict__.pop(name, None)

    def score(self) -> Accuracy | None:
        score = self.record["score"]
        if score is None:
            return None
        return Accuracy(*(np.nan if score[part] is None else score[part] for part in ("all", "old", "new")))

    def write(self, folder: Path, *, with_map: bool = True) -> None:
        check_unchanged(self._place, self._opened)
        copy_run(self._place, folder)
        write_report_if_possible(folder, with_map=with_map)

    def _page(self) -> str:
        check_unchanged(self._place, self._opened)
        return make_report(self._place)


def open_run(folder: str | os.PathLike[str], encoder: str | None = None) -> Discovery:
    """Open a run folder. Nothing is changed in it; `newkinds.load` gives only the fitted model.

    Parameters
    ----------
    folder : path
        What `newkinds discover` or `Discovery.save` wrote.
    encoder : str, optional
        Where you have the encoder of the run, see `newkinds.load`.

    Examples
    --------
    >>> import tempfile
    >>> from newkinds import discover
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     discovery = discover(np.eye(4), ["owl", None, None, None], method="sskm", n_categories=2)
    ...     open_run(discovery.save(f"{folder}/run"))
    Discovery(4 samples; kinds: 1 known, 1 new)
    """
    return SavedDiscovery(Path(folder), encoder)
