"""New samples for a model, whatever they come as, in blocks; and its answers beside the samples' own columns."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from newkinds.data import FeatureSet, RawCollection, read_source
from newkinds.data.feature_set import in_order
from newkinds.data.files import checked, is_columnar
from newkinds.data.labelling import LabelRules
from newkinds.data.parquet import ID, NUMERIC_TYPES, ParquetFiles
from newkinds.data.reading import ENCODER_METADATA, read_encoder_record
from newkinds.data.sources import kind_of, place_of
from newkinds.data.streams import Ids, PatientStream, holds_features, read_items, read_stream
from newkinds.data.tables import repair_surrogates
from newkinds.encoders import Encoding, as_features, check_same_encoder, encoder_for, features_for
from newkinds.errors import InputError
from newkinds.labels import UNLABELLED
from newkinds.methods import CategoryDiscoverer
from newkinds.names import UNSURE
from newkinds.predictions import ANSWER_COLUMNS, answers_table
from newkinds.runtime import report_progress
from newkinds.visible import visible
from newkinds.wording import option
from newkinds.workers import by_threads, one_ahead

BLOCK_ROWS = 1 << 14
"""Samples answered at a time."""
PLAIN_TYPES = ("string", "large_string", "bool", *(name for name in NUMERIC_TYPES if name != "halffloat"))
"""Columns that CSV, JSON lines, workbooks and Parquet all take."""
STRANGE = 0.5
"""A sample that is stranger counts as a stranger in summaries."""
STRANGE_SHARE = 0.1
"""Share of strangers from which a batch is unlike the collection."""
LEAST_DRIFT = 50
"""Samples of a batch that anything is said of."""
SHIFTED, LEAST_SHIFT = 5.0, 0.2
"""A share has shifted if it changed by so many standard deviations, and all shares together by so much."""
LISTED = 12
"""Kinds that a summary names."""


@dataclass(frozen=True)
class Samples:
    """Some new samples.

    Attributes
    ----------
    ids : pyarrow array of str, or list of str
    features : ndarray of shape (samples, features)
    others : pyarrow.Table
        Their own columns.
    first_row : int
        The row that they begin with, for errors.
    given : sequence of bool, optional
        Which ids came with the samples; the others are their numbers in a stream. By default all did.
    """

    ids: Any
    features: npt.NDArray[Any]
    others: pa.Table
    first_row: int = 0
    given: Sequence[bool] | None = None


@dataclass
class Summary:
    """What was answered: samples by kind, those that are unsure, and notes on the source."""

    counts: Counter[int] = field(default_factory=Counter)
    n_unsure: int = 0
    n_strange: int = 0
    strangeness: float = 0.0
    notes: list[str] = field(default_factory=list)

    def add(self, table: pa.Table) -> None:
        categories = table["category"].to_numpy()
        ids, counts = np.unique(categories, return_counts=True)
        self.counts.update(dict(zip(ids.tolist(), counts.tolist(), strict=True)))
        unsure = pc.less(table["confidence"], UNSURE).to_numpy() | (categories == UNLABELLED)
        self.n_unsure += int(unsure.sum())
        strangeness = table["strangeness"].to_numpy()
        self.n_strange += int((strangeness > STRANGE).sum())
        self.strangeness += float(strangeness.sum())

    @property
    def n_samples(self) -> int:
        return self.counts.total()

    def described(self, model: CategoryDiscoverer) -> str:
        """How many samples are of which kind, in words."""
        known = set(model.known_categories_.tolist())
        n_open = self.counts[UNLABELLED]
        n_known = sum(count for category, count in self.counts.items() if category in known)
        n_new = self.n_samples - n_known - n_open
        parts = [f"{n_known:,} of known kinds", f"{n_new:,} of new kinds"]
        if n_open:
            parts.append(f"{n_open:,} left open")
        largest = [(category, count) for category, count in self.counts.most_common() if category != UNLABELLED]
        shown = ", ".join(f"{visible(model.category_names_[c])} {n:,}" for c, n in largest[:LISTED])
        more = f", and {len(largest) - LISTED} more kinds" if len(largest) > LISTED else ""
        unsure = f"{self.n_unsure:,} are unsure (confidence below {UNSURE:.0%})"
        answered = f"{self.n_samples:,} samples: {', '.join(parts)}; {unsure}.\nKinds: {shown or 'none'}{more}."
        return "\n".join([answered, *self.drift(model)])

    def drift(self, model: CategoryDiscoverer) -> list[str]:
        """In which way the samples are unlike the collection that the model was fitted to, with the figures."""
        notes = []
        share = self.strangeness / max(self.n_samples, 1)
        if self.n_samples >= LEAST_DRIFT and share > STRANGE_SHARE:
            notes.append(
                f"About {share:.0%} of these samples are like nothing that the model has seen ({self.n_strange:,} "
                "of them more probably than not); `newkinds update` looks for new kinds among them."
            )
        answered = self.n_samples - self.counts[UNLABELLED]
        if answered >= LEAST_DRIFT and (shift := _shift(self.counts, _sizes(model), answered)) is not None:
            category, now, before = shift
            name = visible(model.category_names_[category])
            notes.append(f"Sizes have shifted: {name} has {now:.0%} of these samples and {before:.0%} before.")
        return notes


def _sizes(model: CategoryDiscoverer) -> Mapping[int, int]:
    """Samples of each category, also those that its run no longer keeps."""
    sizes: Mapping[int, int] = getattr(model, "sizes_", None) or Counter(model.labels_.tolist())
    return sizes


def _shift(counts: Counter[int], earlier: Mapping[int, int], n: int) -> tuple[int, float, float] | None:
    """The category whose share of samples changed most, if sizes differ by far more than chance would make them."""
    categories, sizes = (np.array(values) for values in zip(*earlier.items(), strict=True))
    before = sizes / sizes.sum()
    now = np.array([counts[category] for category in categories.tolist()]) / n
    expected = n * before
    chance = np.sqrt(expected * (1 - before) * (1 + n / sizes.sum())) + 1
    far = np.abs(n * now - expected) > SHIFTED * chance
    if 0.5 * np.abs(now - before).sum() < LEAST_SHIFT or not far.any():
        return None
    place = int(np.where(far, np.abs(now - before), 0).argmax())
    return int(categories[place]), float(now[place]), float(before[place])


def answers(
    model: CategoryDiscoverer,
    samples: Iterator[Samples],
    summary: Summary,
    *,
    reject: float | None = None,
    reject_strange: float | None = None,
    threads: int = 1,
) -> Iterator[pa.Table]:
    """The predictions of a loaded model, with the samples' own columns beside them.

    By one thread, samples are answered as soon as they come; several are faster where they are there already.

    With `reject`, samples of which the model is less sure are left open; with `reject_strange`, those that are at
    least as strange.

    A column that has a name of ours, or begins with `input_`, gets the prefix `input_`.
    """

    if reject_strange is not None and not 0 <= reject_strange <= 1:
        raise InputError(f"reject_strange is a probability, from 0 to 1; got {reject_strange}")
    model.learnt_strangers()  # before several threads ask for it

    def answer(block: Samples) -> pa.Table:
        table = answers_table(
            model,
            block.ids,
            block.features,
            reject=reject,
            reject_strange=reject_strange,
            first_row=block.first_row,
        )
        for name in block.others.column_names:
            taken = name in ANSWER_COLUMNS or name.startswith("input_")
            cells = writable(block.others[name])
            if cells is not None:
                table = table.append_column(f"input_{name}" if taken else name, cells)
        return table

    for table in by_threads(answer, samples, threads):
        summary.add(table)
        yield table
    if not summary.n_samples:
        raise InputError("there are no samples to answer; the input is empty")


def new_samples(
    model: CategoryDiscoverer,
    source: str,
    encoding: Encoding,
    summary: Summary,
    *,
    text: str | None = None,
    id: str | None = None,
) -> Iterator[Samples]:
    """The samples of a source. Parquet is read in a stream, so that it may be larger than memory."""
    place = place_of(source)
    if isinstance(place, str) and text is not None:
        raise InputError(f"{source} is a remote set of features: {option('text', '--text')} cannot be used with it")
    if isinstance(place, str) or (is_columnar(place) and kind_of(place, text) is None):
        yield from _parquet_samples(model, place, id)
        return
    collection = features_for(
        model.encoder_, read_source(source, text=text, id=id, rules=LabelRules(ignored=True)), encoding
    )
    summary.notes.extend(collection.notes)
    yield from collection_samples(model, collection)


def streamed_samples(
    model: CategoryDiscoverer, stream: BufferedReader | PatientStream, encoding: Encoding, summary: Summary
) -> Iterator[Samples]:
    """Samples that arrive line by line: features; for a run made of texts also texts, of photos also paths.

    Further keys of JSON objects are their own columns.
    """
    record = model.encoder_
    if record is None or holds_features(stream, model.n_features_in_):
        for ids, features, others in read_stream(stream, model.n_features_in_):
            yield Samples(ids, features, _texts_table(others), given=ids.given)
        return
    kind, key = record["kind"], "text" if record["kind"] == "texts" else "path"
    encoder = encoder_for(record, kind, encoding)
    for names, texts, others in read_items(stream, key):
        items: Sequence[Any] = texts if kind == "texts" else [Path(name) for name in texts]
        unlabelled = np.full(len(names), UNLABELLED)
        collection = RawCollection(kind, items, tuple(names), unlabelled, others={key: texts, **others})
        encoded = as_features(collection, encoding, encoder)
        summary.notes += [f"{name} was left out: {why}" for name, why in encoded.skipped]
        remaining, others_table = encoded.sample_ids(), _texts_table(encoded.others)
        yield Samples(remaining, encoded.features, others_table, given=_given(names, remaining))


def _given(names: Ids, remaining: Sequence[str]) -> list[bool]:
    """Which of the ids that remain, in their order, came with the samples."""
    pairs = zip(names, names.given, strict=True)
    return [next(is_given for name, is_given in pairs if name == wanted) for wanted in remaining]


def _texts_table(columns: Mapping[str, Sequence[str | None]]) -> pa.Table:
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})


def collection_samples(model: CategoryDiscoverer, collection: FeatureSet) -> Iterator[Samples]:
    """The samples of a collection, with their own columns; texts count as one."""
    features = collection.arranged(model.source_columns_)
    others = dict(collection.others)
    if collection.texts is not None and not others:
        others["text"] = collection.texts
    table = pa.table({name: column_of(cells) for name, cells in others.items()})
    for first in range(0, len(collection), BLOCK_ROWS):
        rows = slice(first, first + BLOCK_ROWS)
        yield Samples(collection.sample_ids(rows), features[rows], table[rows] if others else table)
        report_progress("predicting", min(rows.stop, len(collection)), len(collection))


def _parquet_samples(model: CategoryDiscoverer, source: str | Path, id: str | None) -> Iterator[Samples]:
    files = ParquetFiles.open(source, id)
    check_same_encoder(model.encoder_, read_encoder_record(files.metadata(ENCODER_METADATA), Path(files.name)))
    named_by = files.id_column
    first = 0
    for others, features in one_ahead(files.feature_blocks()):
        last = first + len(features)
        if named_by is None:
            ids = pa.array(np.arange(first, last)).cast(pa.string())
        else:
            ids = checked(files.name, f"ids (column {named_by!r})", partial(_as_ids, others[named_by]))
        columns = others if named_by is None or named_by.casefold() != ID else others.drop_columns([named_by])
        yield Samples(ids, in_order(features, files.feature_columns, model.source_columns_), columns, first)
        first = last
        report_progress("predicting", first, files.n_rows)


def _as_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.null_count:
        raise InputError(f"a sample has no id; give it one, or name another column with {option('id=…', '--id')}")
    return column.cast(pa.string())


def writable(column: Any) -> Any:
    """A column of the input as every format can write it; None for bytes, which are left out."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = str(column.type)
    if kind in PLAIN_TYPES:
        return column
    if "binary" in kind:  # images, or lists of them
        return None
    if pa.types.is_nested(column.type):
        return pa.array([None if cell is None else _as_text(cell) for cell in column.to_pylist()], pa.string())
    return column.cast(pa.string())


def column_of(cells: Sequence[Any]) -> pa.Array:
    """Cells as a column: numbers, truth values and texts as they are, other things and mixtures as text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) > 1 or not kinds <= {int, float, bool, str}:
        cells = [cell if cell is None or isinstance(cell, str) else _as_text(cell) for cell in cells]
    try:
        return pa.array(cells)
    except (OverflowError, pa.ArrowException):  # whole numbers beyond 64 bits
        return pa.array([None if cell is None else str(cell) for cell in cells])


def _as_text(cell: Any) -> str:
    text = json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, list | dict) else str(cell)
    return str(repair_surrogates(text))
