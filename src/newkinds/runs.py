"""Run folders: writing what was discovered, and the way back to the fitted model.

What the folder holds is described in `newkinds.run_folder`.
"""

import logging
import math
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from newkinds import __version__
from newkinds.advice import record_advice
from newkinds.data import FeatureSet, read_array
from newkinds.data.thumbnails import packed_pictures
from newkinds.data.writing import text_column
from newkinds.encoders import SampleEncoder, given_encoder
from newkinds.engine import normalised
from newkinds.errors import InputError
from newkinds.journal import effective_entries, read_journal, since_version
from newkinds.labels import UNLABELLED, IntArray
from newkinds.methods import METHODS, CategoryDiscoverer
from newkinds.metrics import Accuracy
from newkinds.naming import suggest_names
from newkinds.predictions import predictions_table, table_writer
from newkinds.projection import project
from newkinds.run_folder import (
    FEATURES_FILE,
    MAP_FILE,
    MODEL_FILE,
    PICTURES,
    PREDICTIONS_TABLE,
    PREDICTIONS_TEXT,
    RUN_FILE,
    SCHEMA_VERSION,
    check_file,
    file_checksum,
    read_predictions,
    read_record,
    read_run,
    run_file,
    with_names,
    write_run,
)
from newkinds.runtime import report_progress
from newkinds.selection.n_categories import CategoryCount
from newkinds.selection.problem import as_array
from newkinds.selection.rehearsal import Rehearsed
from newkinds.staging import give_usual_mode
from newkinds.standing import lineage, standing

logger = logging.getLogger(__name__)

WRITTEN_ROWS = 1 << 14
"""Samples written at a time."""
CURVE_POINTS = 200
"""Points kept of a training curve."""
LARGEST_PARAMETER = 1 << 21
"""Numbers of an array (a start, say) that is still written down; a model loaded later has the default instead."""


class Result(Protocol):
    """What a run folder is made of; `newkinds.discovery.Discovery` is one.

    Attributes
    ----------
    collection : FeatureSet
    model : CategoryDiscoverer
        Fitted to the collection.
    keys : dict of int to str
        Name that every category was given by us.
    suggestions : dict of int to str
        Names that we suggest for new ones.
    seconds : dict of str to float
        How long things took.
    """

    @property
    def collection(self) -> FeatureSet: ...
    @property
    def model(self) -> CategoryDiscoverer: ...
    @property
    def keys(self) -> dict[int, str]: ...
    @property
    def suggestions(self) -> dict[int, str]: ...
    @property
    def seconds(self) -> dict[str, float]: ...
    def score(self) -> Accuracy | None: ...


def save_run(
    discovery: Result,
    folder: Path,
    source: str,
    *,
    record: dict[str, Any] | None = None,
    with_map: bool = True,
) -> None:
    """Write everything but the report into an existing folder; see `newkinds.run_folder`.

    `record` is what `make_record` gave, where that was asked already. `run.json`, without which nothing takes the
    folder for a run, comes last. It is read once: a record that could not be read again should be known of while
    the model is still there.
    """
    began = time.perf_counter()
    model = discovery.model
    record = make_record(discovery, source) if record is None else record
    record = {**record, "features": dict(record["features"]), "seconds": dict(record["seconds"])}
    _write_samples(discovery, folder, standing(record, ())["categories"])
    save_file({name: np.ascontiguousarray(a) for name, a in model.fitted_arrays().items()}, folder / MODEL_FILE)
    give_usual_mode(folder / MODEL_FILE)
    record["map"] = _write_map(model, folder) if with_map else None
    record["features"]["sha256"] = file_checksum(folder / FEATURES_FILE)
    record["seconds"]["write"] = round(time.perf_counter() - began, 3)
    write_run(folder, record)
    read_run(folder)


def _write_samples(discovery: Result, folder: Path, categories: list[dict[str, Any]]) -> None:
    """Features and predictions of every sample, block by block: a collection may be larger than memory."""
    collection, n = discovery.collection, len(discovery.collection)
    with (
        (folder / FEATURES_FILE).open("wb") as features_file,
        table_writer(folder / PREDICTIONS_TEXT, "csv") as write_text,
        table_writer(folder / PREDICTIONS_TABLE, "parquet") as write_table,
    ):
        header = {"descr": "<f2", "fortran_order": False, "shape": collection.features.shape}
        np.lib.format.write_array_header_1_0(features_file, header)
        for first in range(0, n, WRITTEN_ROWS):
            rows = slice(first, min(first + WRITTEN_ROWS, n))
            features = normalised(np.asarray(collection.features[rows]), first)
            features_file.write(features.astype("<f2").tobytes())
            table = _samples_table(discovery, rows, features, categories)
            write_text(table)
            write_table(_with_pictures(table, collection, rows))
            report_progress("writing the samples", rows.stop, n)


def _write_map(model: CategoryDiscoverer, folder: Path) -> dict[str, Any]:
    """Write `map.npy`, and return what the record says of it."""
    features = read_array(folder / FEATURES_FILE, memory_map=True)
    projection = project(features, np.searchsorted(model.categories_, model.labels_), model.n_categories_)
    np.save(folder / MAP_FILE, projection.places)
    return {"method": projection.method}


def samples_table(discovery: Result, categories: list[dict[str, Any]]) -> pa.Table:
    """Predictions of every sample, as `predictions.parquet` has them, without pictures.

    `categories` are those of a record as it stands; their names are used.
    """
    collection, n = discovery.collection, len(discovery.collection)
    tables = []
    for first in range(0, n, WRITTEN_ROWS):
        rows = slice(first, min(first + WRITTEN_ROWS, n))
        features = normalised(np.asarray(collection.features[rows]), first)
        tables.append(_samples_table(discovery, rows, features, categories))
    return pa.concat_tables(tables)


def _with_pictures(table: pa.Table, collection: FeatureSet, rows: slice) -> pa.Table:
    return (
        table
        if collection.images is None
        else table.append_column(PICTURES, pa.array(packed_pictures(collection.images, rows), type=pa.binary()))
    )


def _samples_table(
    discovery: Result, rows: slice, features: npt.NDArray[Any], categories: list[dict[str, Any]]
) -> pa.Table:
    """Some rows of the predictions, without pictures."""
    collection, model = discovery.collection, discovery.model
    ids = collection.sample_ids(rows)
    table = predictions_table(model, discovery.keys, ids, features, model.labels_[rows])
    table = with_names(table, categories)
    table = table.append_column("given", pa.array(collection.labels[rows] != UNLABELLED))
    table = table.append_column("confirmed", pa.array(np.zeros(len(table), dtype=bool)))
    if collection.truth is not None:
        truth = [None if t == UNLABELLED else collection.name_of(int(t)) for t in collection.truth[rows]]
        table = table.append_column("truth", text_column("truth", truth))
    if collection.texts is not None:
        table = table.append_column("text", text_column("text", collection.texts[rows]))
    return table


def make_record(discovery: Result, source: str) -> dict[str, Any]:
    """What `run.json` says of a discovery, without the checksums of files."""
    record: dict[str, Any] = _strict(_record(discovery, source))
    record["warnings"] += [advice.title for advice in record_advice(record)]
    return record


def _record(discovery: Result, source: str) -> dict[str, Any]:
    collection, model, names = discovery.collection, discovery.model, discovery.keys
    sizes, labelled = (
        dict(zip(model.categories_.tolist(), _counts(labels, model.categories_), strict=True))
        for labels in (model.labels_, collection.labels)
    )
    known = set(model.known_categories_.tolist())
    search = model.n_categories_search_
    lam_curve = getattr(model, "lam_curve_", None)
    objective = getattr(model, "objective_curve_", None)
    rehearsal = getattr(model, "rehearsal_", None)
    suggestions = discovery.suggestions
    score = discovery.score()
    method = next((name for name, kind in METHODS.items() if type(model) is kind), None)
    if method is None:
        raise InputError(f"only the package's own methods can be saved; {type(model).__name__} is not one of them")
    return {
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": {
            "name": source,
            "samples": len(collection),
            "features": collection.features.shape[1],
            "labelled": collection.n_labelled,
            "columns": None if collection.columns is None else list(collection.columns),
            **({} if collection.root is None else {"root": collection.root}),
        },
        "encoder": None if collection.encoder is None else dict(collection.encoder),
        "skipped": [list(sample) for sample in collection.skipped],
        "preprocessing": {"normalise": "l2"},
        "features": {"file": FEATURES_FILE, "dtype": "float16"},
        "method": method,
        "parameters": {
            name: _plain(value)
            for name, value in model.get_params().items()
            if np.size(as_array(value)) <= LARGEST_PARAMETER
        },
        "chosen": {
            "lam": getattr(model, "lam_", None),
            "temperature": model.temperature_,
            "n_categories": model.n_categories_,
            "n_categories_rule": None if search is None else search.method,
            "n_categories_bounds": None if search is None else list(search.bounds),
            "n_categories_interval": None if search is None or search.interval is None else list(search.interval),
            "size_ratio": getattr(model, "size_ratio_", None),
            "rehearsal_spread": None if rehearsal is None else _number(rehearsal.spread),
            "metric": getattr(model, "metric_", None),
            "first": None if rehearsal is None else [rehearsal.firsts[0].temperature, rehearsal.firsts[0].lam],
            "calibration": asdict(model.calibration_),
        },
        "curves": {
            "lam": None if lam_curve is None else [[x, score] for x, score in lam_curve.items()],
            "n_categories": None if search is None else [[k, score] for k, score in search.curve.items()],
            "rehearsal": None if rehearsal is None else _rehearsal_rows(rehearsal, in_metric=False),
            "refinement": None if rehearsal is None else _rehearsal_rows(rehearsal, in_metric=True),
            "objective": None if objective is None else _thinned(objective),
        },
        "categories": [
            {
                "id": int(c),
                "name": names[int(c)],
                "kind": "known" if int(c) in known else "new",
                "size": sizes[int(c)],
                "labelled": labelled[int(c)],
                "suggestion": suggestions.get(int(c)),
                "stability": None if model.stability_ is None else _number(float(model.stability_[column])),
            }
            for column, c in enumerate(model.categories_)
        ],
        "score": None
        if score is None
        else {"protocol": "v2", **{name: _number(getattr(score, name)) for name in ("all", "old", "new")}},
        "stopped": model.stopped_,
        "n_iter": model.n_iter_,
        "warnings": list(collection.notes),
        "suspected_labels": _suspected_labels(model),
        "seconds": {name: round(value, 3) for name, value in discovery.seconds.items()},
        "versions": {
            "newkinds": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")},
        },
    }


def load(run: str | Path, encoder: str | None = None, *, as_of: int | None = None) -> CategoryDiscoverer:
    """The fitted model of a run folder, ready to predict.

    The model is checked against `run.json`; a run that was changed or damaged is an InputError.

    The model of a run that was made of texts or photos takes both features and raw samples: a list of texts; or of
    paths, pictures of Pillow or arrays of pixels. Its encoder is loaded when the first ones come, if it was used on
    this machine before. `encoder` says where you have it, if that is elsewhere or the run is somebody else's: it is
    loaded at once to see that its fingerprint is the run's, and is trusted from then on.

    Its `category_names_` are those in the run, `source_columns_` are the names of the features where they had any,
    and `encoder_` says what made the features of photos or texts. The objective's curve and the rehearsals are in
    `run.json` only.

    Its categories are as they stand after what was edited; with `as_of`, as they were after that entry of the
    journal.

    Examples
    --------
    >>> import tempfile
    >>> from newkinds import discover
    >>> from newkinds.data import digits
    >>> discovery = discover(digits(), n_categories=10, lam=0.3, max_iter=100)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = discovery.save(f"{folder}/run")
    ...     model = load(f"{folder}/run")
    >>> bool((model.predict(digits().features) == discovery.model.predict(digits().features)).all())
    True
    """
    record = read_run(run, as_of)
    model = load_fitted(Path(run), record["journal"]["version"])
    _take_edits(model, Path(run), record)
    model.n_iter_, model.stopped_ = record["n_iter"], record["stopped"]
    categories = record["categories"]
    model.category_names_ = {category["id"]: category["name"] for category in categories}
    model.suggestions_ = _suggestions(record)
    model.sizes_ = {category["id"]: category["size"] + category.get("let_go", 0) for category in categories}
    if any(category.get("stability") is not None for category in categories):
        model.stability_ = np.array([category.get("stability") for category in categories], dtype=np.float64)
    made_with = record.get("encoder")
    given = None if encoder is None else given_encoder(made_with, encoder)
    remember_source(model, record["source"].get("columns"), made_with, given)
    chosen, curves = record["chosen"], record["curves"]
    if chosen["n_categories_rule"] is not None:
        model.n_categories_search_ = CategoryCount(
            n_categories=chosen["n_categories"],
            curve=dict(map(tuple, curves["n_categories"])),
            bounds=tuple(chosen["n_categories_bounds"]),
            method=chosen["n_categories_rule"],
            interval=None if (between := chosen.get("n_categories_interval")) is None else tuple(between),
        )
    if chosen["lam"] is not None:
        model.lam_ = chosen["lam"]
        model.lam_curve_ = None if curves["lam"] is None else dict(map(tuple, curves["lam"]))
        if (ratio := chosen.get("size_ratio", 1.0)) is not None:  # earlier versions had even sizes only
            model.size_ratio_ = ratio
        if (metric := chosen.get("metric", "cosine")) is not None:  # earlier versions had no other
            model.metric_ = metric
        model.objective_curve_ = model.rehearsal_ = None
    return model


def load_fitted(run: Path, version: str | None) -> CategoryDiscoverer:
    """The model of a run, or of one of its versions, as it was fitted: without names and what was edited since."""
    record = read_record(run, version)
    path = run_file(run, {"journal": {"version": version}}, MODEL_FILE)
    if "checksums" not in record:
        logger.info("%s was made before runs had checksums: damage may go unnoticed", run)
    check_file(path, record)
    try:
        arrays = load_file(path)
    except (OSError, SafetensorError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error  # the last four: types that NumPy lacks
    try:
        model = METHODS[record["method"]](**record["parameters"])
        model._check_parameters()
    except (TypeError, ValueError) as error:
        raise InputError(f"{path.with_name(RUN_FILE)} is damaged: parameters: {error}") from error
    try:
        model.restore(arrays)
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    for what, in_model, in_record in _shared_facts(model, record):
        if in_model != in_record:
            raise InputError(f"{path} does not fit {RUN_FILE}: their {what} differ")
    return model


def _take_edits(model: CategoryDiscoverer, run: Path, record: dict[str, Any]) -> None:
    """Give a model the categories that a person has made of its own, if any were edited."""
    entries = read_journal(run)[: record["journal"]["entries"]]
    _, later = since_version(effective_entries(entries)[0])
    if all(entry.op == "rename" for entry in later):
        return
    known, new = (
        np.array([c["id"] for c in record["categories"] if c["kind"] == kind], dtype=np.int64)
        for kind in ("known", "new")
    )
    labels = read_predictions(run, record, pictures=False)["category"].to_numpy()
    model.regroup(np.concatenate([known, new]), known, labels, lineage(model.categories_.tolist(), later))


def _suspected_labels(model: CategoryDiscoverer) -> list[list[float]] | None:
    """Row, likely category and probability of being wrong of each label that looks so; None if none was judged."""
    doubts = model.label_doubts_
    if doubts is None:
        return None
    rows = zip(doubts.rows.tolist(), doubts.likely.tolist(), doubts.probabilities.tolist(), strict=True)
    return [[row, likely, round(probability, 4)] for row, likely, probability in rows]


def _suggestions(record: dict[str, Any]) -> dict[int, str]:
    """The names that we suggest, of the categories that nobody has named."""
    unnamed = [c for c in record["categories"] if not c["named"] and c.get("suggestion") is not None]
    return {category["id"]: category["suggestion"] for category in unnamed}


def suggest(model: CategoryDiscoverer, collection: FeatureSet) -> None:
    """Give a model names that we suggest for its new categories."""
    columns = np.searchsorted(model.categories_, model.labels_)
    names = [model.category_names_[category] for category in model.categories_.tolist()]
    n_known = len(model.known_categories_)
    suggestions = suggest_names(collection.features, columns, names, n_known, collection.texts)
    model.suggestions_ = {int(model.categories_[column]): name for column, name in suggestions.items()}


def remember_source(
    model: CategoryDiscoverer,
    columns: Sequence[str] | None,
    encoder: Mapping[str, Any] | None,
    sample_encoder: SampleEncoder | None = None,
) -> None:
    """Tell a fitted model what its features are called and what made them, so that it takes raw samples too."""
    if sample_encoder is None and encoder is not None:
        sample_encoder = SampleEncoder(encoder)
    model.source_columns_ = None if columns is None else list(columns)
    model.encoder_ = None if sample_encoder is None else sample_encoder.record
    if sample_encoder is not None:
        model.sample_encoder_ = sample_encoder


def _shared_facts(model: CategoryDiscoverer, record: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """What a restored model and its record both say: its name, the model's word, the record's."""
    categories, source, chosen = record["categories"], record["source"], record["chosen"]
    known = [category["id"] for category in categories if category["kind"] == "known"]
    calibration = {name: _number(value) for name, value in asdict(model.calibration_).items()}
    return [
        ("categories", model.categories_.tolist(), [category["id"] for category in categories]),
        ("known categories", model.known_categories_.tolist(), known),
        ("numbers of features", model.n_features_in_, source.get("features", model.n_features_in_)),
        ("numbers of samples", len(model.labels_), source["samples"]),
        (
            "sizes of categories",
            _counts(model.labels_, model.categories_),
            [category["size"] for category in categories],
        ),
        ("temperatures", model.temperature_, chosen["temperature"]),
        ("calibrations", calibration, chosen.get("calibration", calibration)),
    ]


def _rehearsal_rows(rehearsal: Rehearsed, in_metric: bool) -> list[list[float]]:
    """Temperature, lam, estimated accuracy and rehearsals of each setting, by the cosine or in a metric."""
    tries = (~np.isnan(rehearsal.scores)).sum(axis=0)
    rows = zip(rehearsal.settings, rehearsal.estimates, tries, strict=True)
    return [
        [setting.temperature, setting.lam, float(estimate), int(n)]
        for setting, estimate, n in rows
        if (setting.metric != "cosine") == in_metric
    ]


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it: arrays as lists; a generator, whose state is gone, as null."""
    if isinstance(value, np.random.RandomState):
        return None
    return value if isinstance(value, str | int | float | None) else np.asarray(as_array(value)).tolist()


def _counts(labels: IntArray, categories: IntArray) -> list[int]:
    """How many samples have each category; `categories` ascend."""
    known = labels[labels != UNLABELLED]
    counts: list[int] = np.bincount(np.searchsorted(categories, known), minlength=len(categories)).tolist()
    return counts


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _strict(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite become null, and text is what UTF-8 can write.

    (The names of files need not be; their odd bytes become visible.)
    """
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strict(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return _number(value) if isinstance(value, float) else value


def _thinned(values: npt.NDArray[np.float32]) -> list[list[float]]:
    epochs = np.unique(np.linspace(0, len(values) - 1, CURVE_POINTS).astype(int))
    return [[int(e) + 1, float(values[e])] for e in epochs if math.isfinite(values[e])]
