"""A discovery in Python: from samples to kinds, looking at them, saving them in a run folder.

This joins reading, encoding, fitting, run folders and the report; `newkinds discover` goes through it too.
"""

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from newkinds.answering import Summary, answers, collection_samples
from newkinds.data import FeatureSet, RawCollection
from newkinds.data.labelling import LabelRules
from newkinds.editing import Editable
from newkinds.encoders import (
    Encoder,
    Encoding,
    SampleEncoder,
    as_features,
    default_cache,
    features_for,
    load_encoder,
)
from newkinds.errors import InputError
from newkinds.gathering import gather, row_names
from newkinds.journal import JOURNAL_FILE, read_journal
from newkinds.labels import UNLABELLED, named_labels
from newkinds.methods import METHODS, CategoryDiscoverer, make_method
from newkinds.metrics import Accuracy, accuracy
from newkinds.names import AUTO
from newkinds.raw_samples import kind_of_samples
from newkinds.report import make_report, write_report_if_possible
from newkinds.run_folder import (
    REPORT_FILE,
    RUN_FILE,
    RUN_FILES,
    check_not_of_a_run,
    check_replaceable,
    copy_run,
    file_checksum,
    read_predictions,
    read_run,
    report_is_current,
)
from newkinds.runs import load, make_record, remember_source, samples_table, save_run, suggest
from newkinds.selection.problem import as_array
from newkinds.staging import accept_existing, staged
from newkinds.standing import standing

SHOWN_KINDS = 20
"""Kinds that a notebook shows."""


class Discovery(Editable):
    """The kinds of a collection: what `discover` found, or `newkinds.open_run` opened.

    Attributes
    ----------
    collection : FeatureSet
        The samples and their labels.
    model : CategoryDiscoverer
        The fitted method.
    seconds : dict of str to float
        How long things took.
    source : str
        What the collection is called in the run folder and the report.
    folder : Path or None
        The run folder, once there is one.

    Examples
    --------
    >>> from newkinds.data import digits
    >>> discovery = discover(digits(), n_categories=10, lam=0.3, max_iter=100)
    >>> discovery
    Discovery(1797 samples; kinds: 5 known, 5 new)
    >>> discovery.names[9]
    'new-5'
    >>> discovery.predictions.column_names
    ['id', 'category', 'name', 'kind', 'confidence', 'novelty', 'suggestion', 'given', 'confirmed', 'truth']
    """

    def __init__(
        self,
        collection: FeatureSet,
        model: CategoryDiscoverer,
        seconds: Mapping[str, float] | None = None,
        source: str = "features",
    ) -> None:
        if not hasattr(model, "source_columns_"):
            remember_source(model, collection.columns, collection.encoder)
        known = model.known_categories_.tolist()
        if collection.names is not None and all(model.category_names_[i] == str(i) for i in known):
            model._name_categories(collection.names)  # it was fitted to the collection's ids
        if not hasattr(model, "suggestions_"):
            suggest(model, collection)
        self.keys: dict[int, str] = dict(model.category_names_)
        self.suggestions: dict[int, str] = dict(model.suggestions_)
        self._collection, self._model = collection, model
        self.seconds = dict(seconds or {})
        self.source = source
        self.folder: Path | None = None
        self._saved: str | None = None
        self._edited_model: CategoryDiscoverer | None = None
        self._edited_collection: FeatureSet | None = None

    @property
    def collection(self) -> FeatureSet:
        return self._collection if self._edited_collection is None else self._edited_collection

    @property
    def model(self) -> CategoryDiscoverer:
        return self._model if self._edited_model is None else self._edited_model

    @property
    def names(self) -> dict[int, str]:
        """Name of every category: the label for known ones, new-1, new-2, … for discovered ones."""
        names: dict[int, str] = self.model.category_names_
        return names

    @cached_property
    def _made_record(self) -> dict[str, Any]:
        return make_record(self, self.source)

    @property
    def record(self) -> dict[str, Any]:
        """What `run.json` says: everything chosen and measured, with the categories as they are now."""
        return standing(self._made_record, ()) if self._edited_folder is None else read_run(self._edited_folder)

    @property
    def _own_folder(self) -> Path | None:
        """The run folder, if this discovery is still what it holds."""
        folder = self.folder
        if folder is None or not (folder / RUN_FILE).is_file():
            return None
        return folder if file_checksum(folder / RUN_FILE) == self._saved else None

    @property
    def _edited_folder(self) -> Path | None:
        """The run folder, if it holds more than this discovery: something was edited."""
        folder = self._own_folder
        return folder if folder is not None and (folder / JOURNAL_FILE).is_file() else None

    @property
    def warnings(self) -> list[str]:
        """What you should know before you trust the result."""
        return list(self.record["warnings"])

    @cached_property
    def predictions(self) -> pa.Table:
        """What was found of each sample; `.to_pandas()` makes a data frame of it.

        Columns: id, category, name, kind (known or new), confidence, novelty, given (whether its label was),
        confirmed (whether a person said since that it belongs there), and truth and text where there are any.
        """
        if self._edited_folder is not None:
            return read_predictions(self._edited_folder, pictures=False)
        return samples_table(self, self.record["categories"])

    def score(self) -> Accuracy | None:
        """All / Old / New accuracy of the unlabelled samples whose truth is known; None without any."""
        if self.collection.truth is None:
            return None
        scored = (self.collection.labels == UNLABELLED) & (self.collection.truth != UNLABELLED)
        if not scored.any():
            return None
        return accuracy(self.collection.truth[scored], self.model.labels_[scored], self.collection.known)

    def predict(
        self,
        samples: Any,
        *,
        reject: float | None = None,
        reject_strange: float | None = None,
        text: str | None = None,
        id: str | None = None,
    ) -> pa.Table:
        """What the model says of new samples, as `newkinds predict` writes it, and the columns they came with.

        Parameters
        ----------
        samples : array-like, list, path, FeatureSet or RawCollection
            Features; or, where the collection was of texts or photos, those: a list of texts, or of paths, pictures
            of Pillow or arrays of pixels. Of these each sample has its row in the result. Or a path, as for
            `discover`: samples there that cannot be read are left out.
        reject : float, optional
            Samples whose confidence is less are left open: their category is -1, and their kind "open".
        reject_strange : float, optional
            Samples that are at least as strange are left open likewise.
        text, id : str, optional
            The columns of texts and of ids, where `samples` is a data frame or the path of a table.
        """
        collection = self._new_collection(samples, text, id)
        blocks = collection_samples(self.model, collection)
        return pa.concat_tables(
            answers(self.model, blocks, Summary(), reject=reject, reject_strange=reject_strange)
        )

    def _arrivals(
        self, samples: Any, labels: Any, text: str | None, label: str | None, id: str | None
    ) -> FeatureSet:
        if label is not None:
            collection = gather(samples, labels, text=text, label=label, id=id)
            return self._new_collection(collection, None, None)
        collection = self._new_collection(samples, text, id)
        if labels is None:
            return collection
        found, names = named_labels(as_array(labels), len(collection))
        return replace(collection, labels=found, names=None if names is None else tuple(names), truth=None)

    def _new_collection(self, samples: Any, text: str | None, id: str | None) -> FeatureSet:
        sample_encoder: SampleEncoder | None = getattr(self.model, "sample_encoder_", None)
        is_listed = not isinstance(samples, str | os.PathLike | FeatureSet | RawCollection)
        if is_listed and sample_encoder is not None and kind_of_samples(samples) is not None:
            raw = sample_encoder.collection(samples)
            raw = replace(raw, ids=row_names(samples) or raw.ids)
            return raw.with_features(sample_encoder(samples))
        collection = gather(samples, text=text, id=id)
        if isinstance(collection, RawCollection) and sample_encoder is not None:
            return sample_encoder.features(collection)
        record = None if sample_encoder is None else sample_encoder.record
        return features_for(record, collection, Encoding())

    def _check_own_folder(self) -> None:
        check_unchanged(self.folder or Path(), self._saved)

    def _take_edits(self) -> None:
        folder = self.folder or Path()
        self.__dict__.pop("predictions", None)
        self._edited_collection = None if read_run(folder).get("samples") is None else _saved_collection(folder)
        if any(entry.op not in ("rename", "undo", "redo") for entry in read_journal(folder)):
            self._edited_model = load(folder)
            for name in ("source_columns_", "encoder_", "sample_encoder_"):
                if hasattr(self._model, name):
                    setattr(self._edited_model, name, getattr(self._model, name))
            return
        categories = read_run(folder)["categories"]
        self._model.category_names_ = {category["id"]: category["name"] for category in categories}
        named = {category["id"] for category in categories if category["named"]}
        self._model.suggestions_ = {i: text for i, text in self.suggestions.items() if i not in named}

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False, with_map: bool = True) -> Path:
        """Write the run folder, with its report: whole or not at all. `open_run` opens it again.

        With `overwrite` it may take the place of another run folder, but of nothing else. The map of the samples,
        in `map.npy` and the report, takes some seconds; it can be left out.
        """

        def check(place: Path) -> None:
            if not overwrite:
                raise InputError(f"{place} already exists; choose another place, or give overwrite=True")
            check_replaceable(place, force=True)

        place = Path(folder)
        with staged(place, folder=True, replace=check, ours=RUN_FILES) as stage:
            self.write(stage, with_map=with_map)
        self.folder, self._saved = place, file_checksum(place / RUN_FILE)
        return place

    def write(self, folder: Path, *, with_map: bool = True) -> None:
        """Write the files of a run into an existing, empty folder; `save` takes care of the folder too."""
        if self._edited_folder is None:
            save_run(self, folder, self.source, record=self._made_record, with_map=with_map)
        else:
            copy_run(self._edited_folder, folder)
        write_report_if_possible(folder)

    def report(self, path: str | os.PathLike[str] | None = None, *, overwrite: bool = False) -> Path:
        """Write the report, one HTML page, and return its path.

        Without a path it is that of the run folder, or a temporary file where there is none.
        """
        if path is None and self.folder is not None and report_is_current(self.folder):
            check_unchanged(self.folder, self._saved)
            return self.folder / REPORT_FILE

        def check(place: Path) -> None:
            if not overwrite:
                raise InputError(f"{place} already exists; choose another place, or give overwrite=True")

        place = Path(tempfile.mkdtemp(prefix="newkinds-"), REPORT_FILE) if path is None else Path(path)
        if place.name != REPORT_FILE:
            check_not_of_a_run(place)
        with staged(place, replace=accept_existing if overwrite else check) as stage:
            stage.write_bytes(self._page().encode())
        return place

    def _page(self) -> str:
        if self._edited_folder is not None:
            return make_report(self._edited_folder)
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder, "run")
            run.mkdir()
            save_run(self, run, self.source, record=self._made_record)
            return make_report(run)

    def __repr__(self) -> str:
        kinds = [category["kind"] for category in self.record["categories"]]
        return (
            f"Discovery({self.record['source']['samples']} samples; kinds: {kinds.count('known')} known, "
            f"{kinds.count('new')} new)"
        )

    def _repr_html_(self) -> str:
        categories = self.record["categories"]
        rows = "".join(
            f"<tr><td>{escape(category['name'])}</td><td>{category['kind']}</td><td>{category['size']:,}</td>"
            f"<td>{category['labelled']:,}</td></tr>"
            for category in categories[:SHOWN_KINDS]
        )
        more = len(categories) - SHOWN_KINDS
        rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
        head = "<tr><th>name</th><th>kind</th><th>samples</th><th>labelled</th></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>{rest}"


def discover(
    source: Any,
    labels: Any = None,
    *,
    truth: Any = None,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    unlabelled: str | Sequence[str] = (),
    as_is: bool = False,
    encoder: str | Encoder | None = None,
    method: str | CategoryDiscoverer = "pim",
    n_categories: int | str = AUTO,
    random_state: int | np.random.RandomState | None = 0,
    device: str = "auto",
    cache: str | os.PathLike[str] | bool | None = True,
    workers: int | None = None,
    **parameters: Any,
) -> Discovery:
    """Find the kinds of a collection: classify the known, discover the new.

    Parameters
    ----------
    source : path, array-like, list, data frame, FeatureSet or RawCollection
        - a path: whatever `newkinds discover` reads, such as a folder of photos, a table of texts, features;
        - features: an array, data frame, tensor or sparse matrix of shape (samples, features);
        - a list of texts, or of images: paths, pictures of Pillow, arrays of pixels;
        - a data frame of which `text` names the column of texts.
    labels : array-like or path, optional
        Of each sample: an integer (-1 = unlabelled) or a name (None, NaN or blank = unlabelled). Where the source
        is a path, it may be the path of a file of labels.
    truth : array-like, path or str, optional
        True labels, for scoring only. For a table it may name a column, for a folder of photos be "folders".
    text, label, id : str, optional
        Columns of a table or a data frame: the texts, their labels, and what names each sample.
    unlabelled : str or sequence of str
        Labels that mean that there is none. In files some do so by themselves, such as "Unsorted", "?" and "N/A".
    as_is : bool
        Take such labels in files for names.
    encoder : str or Encoder, optional
        What makes features of texts and photos, see `newkinds.encoders.load_encoder`.
    method : str or estimator
        "pim", or another method's short name; or an estimator such as `PIM(lam=0.3)`, which is fitted.
    n_categories : int, "auto" or the name of a rule
        Known and new together.
    random_state : int
    device : {"auto", "cpu", "cuda", "mps"}
    cache : bool or path
        Folder in which features of texts and photos are remembered; True is the user's cache folder, None or False
        is nowhere.
    workers : int, optional
        Processes that prepare samples, see `newkinds.encode`; by default threads of this process.
    **parameters
        Further parameters of the method, such as `lam` and `max_iter`.

    Examples
    --------
    >>> X = [[1, 0.1], [1, 0], [0.1, 1], [0, 1], [-1, 0], [-1, 0.1]]
    >>> discovery = discover(X, ["owl", None, None, None, None, None], method="sskm", n_categories=3)
    >>> discovery.predictions["name"].to_pylist()
    ['owl', 'owl', 'new-1', 'new-1', 'new-2', 'new-2']
    """
    options = {"n_categories": n_categories, "random_state": random_state, "device": device, **parameters}
    if isinstance(method, str):
        model = make_method(method, **options)
    else:
        if not isinstance(method, CategoryDiscoverer):
            raise InputError(
                f"method should be one of {', '.join(METHODS)}, or an estimator of this package with its "
                f"parameters, such as PIM(lam=0.3); got {method!r}"
            )
        model = method
        usual = {"n_categories": AUTO, "random_state": 0, "device": "auto"}
        if changed := [name for name, value in options.items() if name not in usual or value != usual[name]]:
            raise InputError(f"method is an estimator: set its parameters there, not here ({', '.join(changed)})")
    rules = LabelRules((unlabelled,) if isinstance(unlabelled, str) else tuple(unlabelled), as_is)
    collection = gather(source, labels, truth=truth, text=text, label=label, id=id, rules=rules)
    name = _source_name(source, collection)
    sample_encoder = None
    if isinstance(collection, RawCollection):
        place = default_cache() if cache is True else None if cache is None or cache is False else Path(cache)
        encoding = Encoding(None, device, None, place, workers)
        if encoder is None or isinstance(encoder, str):
            encoder = load_encoder(encoder, collection.kind, device=device)
        collection = as_features(collection, encoding, encoder)
        sample_encoder = SampleEncoder(collection.encoder or {}, encoder)
    elif encoder is not None:
        raise InputError("these are features already: the encoder has nothing to do")
    began = time.perf_counter()
    model.fit(collection.features, collection.labels)
    seconds = {"fit": time.perf_counter() - began}
    model._name_categories(collection.names)
    remember_source(model, collection.columns, collection.encoder, sample_encoder)
    return Discovery(collection, model, seconds, name)


def check_unchanged(folder: Path, checksum: str | None) -> None:
    """Refuse a run folder whose `run.json` is another one than it was."""
    if file_checksum(folder / RUN_FILE) != checksum:
        raise InputError(f"{folder} was changed since it was opened or saved: open it anew with newkinds.open_run")


def _saved_collection(folder: Path) -> FeatureSet:
    """The samples of a run folder as they stand."""
    from newkinds.opened_runs import open_run  # which is made of this module

    return open_run(folder).collection


def _source_name(source: Any, collection: FeatureSet | RawCollection) -> str:
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    return collection.kind if isinstance(collection, RawCollection) else "features"
