"""What the report shows, as data: read from a run folder, without PyTorch. `web/src/data.ts` describes it.

The page is one file of at most `PAGE_BYTES`: texts are cut, and pictures left out, as far as that takes.
"""

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from newkinds.data.files import read_array
from newkinds.errors import InputError
from newkinds.kinds import exemplars, given_labels, read_run_features
from newkinds.labels import IntArray
from newkinds.metrics import match_categories
from newkinds.middles import blocks, category_middles
from newkinds.names import MEANINGS, UNSURE
from newkinds.projection import Projection, project
from newkinds.report.charts import curve_charts, how_facts
from newkinds.report.doubts import all_advice
from newkinds.report.words import UNITS, summary
from newkinds.run_folder import (
    MAP_FILE,
    category_names,
    check_file,
    has_pictures,
    picture_type,
    read_pictures,
    read_predictions,
    read_run,
    run_file,
)

PAGE_BYTES = 15_000_000
MOST_POINTS = 200_000
"""Samples that a page holds: of a larger run, some."""
FRAME_BYTES = 200_000
"""Of these for script, style and the page around the data."""
SHOWN_PICTURES, SHOWN_OTHERS = (12, 6), (6, 4)
"""Samples of a category that are shown as typical, and as doubtful: pictures take less room than texts and ids."""
NEAREST = 4
DOUBTED = 0.9
"""A sample with at least this confidence is not shown as doubtful, even if all others have more."""
TEXT_LENGTHS = (2_000, 500, 200, 100, 50, 0)
"""Characters to which texts are cut: the first that leaves room for the rest."""
CARD_LENGTH, ID_LENGTH, LEAST_ID = 600, 300, 16
"""The same of texts on cards, and of ids, which are never cut to less than the last."""
TEXT_SHARE = 0.4
"""Of the page that texts may take."""
CONFUSIONS, BINS = 15, 10
MOST_SUSPECTS = 200
SMALL_PICTURE = 1_000
"""Bytes of a picture that has so few pixels that they should stay sharp."""
CARD_MEANINGS = {
    "clear": f"the share of a kind's unlabelled samples with a confidence of at least {UNSURE:.0%}",
    "stability": "how far trainings from different starts found the same samples for a kind, from 0 to 1",
    "typical": "the samples nearest to the middle of a kind",
    "doubtful": "unlabelled samples with the least confidence",
    "suggestion": "a name that we propose; yours takes its place",
    "suspect": "a label that a classifier, which had not seen it, finds hard to believe",
}
MAP_METHODS = {
    "umap": "Each point is a sample; UMAP put samples with similar features near each other.",
    "clouds": (
        "Each point is a sample and each kind a cloud; similar kinds lie near each other, and a sample that is "
        "nearly as much like another kind lies on that side."
    ),
}


@dataclass(frozen=True)
class View:
    """A run folder, opened for looking."""

    folder: Path
    with_map: bool = True
    as_of: int | None = None
    """The entry of the journal after which it is looked at; by default the last."""

    @cached_property
    def record(self) -> dict[str, Any]:
        return read_run(self.folder, self.as_of)

    @cached_property
    def table(self) -> pa.Table:
        return read_predictions(self.folder, self.record, pictures=False)

    @cached_property
    def features(self) -> npt.NDArray[Any]:
        return read_run_features(self.folder, self.record)

    @cached_property
    def columns(self) -> IntArray:
        """The category of every sample, as its place in the record's list."""
        ids = [category["id"] for category in self.record["categories"]]
        return np.asarray(np.searchsorted(ids, self.table["category"].to_numpy()), dtype=np.int64)

    @cached_property
    def confidence(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.table["confidence"].to_numpy(), dtype=np.float64)

    @cached_property
    def given(self) -> npt.NDArray[np.bool_]:
        return given_labels(self.table)

    @cached_property
    def middles(self) -> npt.NDArray[np.float32]:
        return category_middles(self.features, self.columns, len(self.record["categories"]))

    @cached_property
    def projection(self) -> Projection | None:
        """The run's own map; of a run from before there were maps, one that is made now."""
        if not self.with_map:
            return None
        if self.record.get("map") is None:
            is_old = "map" not in self.record
            return project(self.features, self.columns, len(self.record["categories"])) if is_old else None
        path = run_file(self.folder, self.record, MAP_FILE)
        check_file(path, self.record)
        places = read_array(path)
        is_map = places.shape == (len(self.columns), 2) and np.issubdtype(places.dtype, np.floating)
        if not is_map or not np.isfinite(places).all():
            raise InputError(f"{path} does not fit the run: it holds {places.dtype} of shape {places.shape}")
        return Projection(places.astype(np.float32), self.record["map"]["method"])


@dataclass(frozen=True)
class Blocks:
    """The blocks of data in a page, as the texts of script elements; and the result in words.

    Blocks that a page does without are empty.
    """

    summary: list[str]
    content: str
    points: str = ""
    texts: str = ""
    pictures: str = "{}"


def report_blocks(folder: Path, *, with_map: bool = True) -> Blocks:
    """Everything that the report of a run shows."""
    view = View(folder, with_map)
    content = _content(view)
    rows = _rows_on_the_page(content)
    _renumber(content, rows)
    points = _packed(_points(view, rows))
    room = PAGE_BYTES - FRAME_BYTES - len(points)
    texts = _texts(view, rows, int(room * TEXT_SHARE))
    described = as_script(content)
    room -= len(texts) + len(described.encode())
    return Blocks(content["summary"], described, points, texts, as_script(_pictures(view, content, rows, room)))


def _rows_on_the_page(content: dict[str, Any]) -> IntArray:
    """All samples, or, where they are too many, those that cards show and others at random, in order."""
    n_samples = content["n_samples"]
    if n_samples <= MOST_POINTS:
        return np.arange(n_samples)
    shown = np.array([int(row) for row in content["samples"]], dtype=np.int64)
    others = np.random.default_rng(0).choice(n_samples, MOST_POINTS, replace=False)
    return np.unique(np.concatenate([shown, others]))


def _renumber(content: dict[str, Any], rows: IntArray) -> None:
    """Count the samples on the page, no longer those of the run."""

    def place(row: int) -> int:
        return int(np.searchsorted(rows, row))

    content["n_points"] = len(rows)
    if len(rows) == content["n_samples"]:
        return
    for category in content["categories"]:
        category |= {part: [place(row) for row in category[part]] for part in ("typical", "doubtful")}
    for suspect in content["suspects"]:
        suspect["row"] = place(suspect["row"])
    content["samples"] = {str(place(int(row))): sample for row, sample in content["samples"].items()}


def as_script(content: Any) -> str:
    """JSON that cannot end the script element that it stands in."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode("utf-8", "replace").decode()


def _content(view: View) -> dict[str, Any]:
    record = view.record
    encoder = record.get("encoder")
    categories = _categories(view)
    place_of = {category["id"]: place for place, category in enumerate(record["categories"])}
    suspected = record.get("suspected_labels") or []
    suspects = [
        {"row": row, "given": int(view.columns[row]), "likely": place_of[likely], "probability": probability}
        for row, likely, probability in suspected[:MOST_SUSPECTS]
    ]
    truth = _truth(view, categories)
    unit = UNITS.get(encoder["kind"] if encoder else "features", UNITS["features"])
    advice = all_advice(record, view.features, view.columns, unit, view.folder.name)
    rows = {row for category in categories for row in (*category["typical"], *category["doubtful"])}
    rows |= {suspect["row"] for suspect in suspects}
    return {
        "page": "report",
        "title": record["source"]["name"],
        "run": view.folder.name,
        "unit": unit,
        "newkinds": record["versions"]["newkinds"],
        "created": record["created"],
        "summary": summary(record, view.columns, view.given, view.confidence, advice, unit),
        "n_samples": record["source"]["samples"],
        "n_labelled": record["source"]["labelled"],
        "categories": categories,
        "advice": [{**asdict(item), "categories": [place_of[i] for i in item.categories]} for item in advice],
        "suspects": suspects,
        "n_suspects": len(suspected),
        "samples": _samples(view, sorted(rows)),
        "truth": truth,
        "how": {
            "facts": how_facts(record),
            "charts": curve_charts(record),
            "versions": [list(item) for item in record["versions"].items()],
        },
        "map": None
        if view.projection is None
        else {"method": view.projection.method, "explanation": MAP_METHODS.get(view.projection.method, "")},
        "meanings": {**MEANINGS, **CARD_MEANINGS},
    }


def _categories(view: View) -> list[dict[str, Any]]:
    categories = view.record["categories"]
    used = np.asarray(view.middles.any(axis=1))
    order = np.argsort(view.columns, kind="stable")
    sizes = np.bincount(view.columns, minlength=len(categories))
    members_of = np.split(order, np.cumsum(sizes)[:-1])
    most = SHOWN_PICTURES if has_pictures(view.folder, view.record) else SHOWN_OTHERS
    entries = []
    for column, (category, members) in enumerate(zip(categories, members_of, strict=True)):
        closeness = np.concatenate(
            [view.features[rows].astype(np.float32) @ view.middles[column] for rows in blocks(members)]
            or [np.empty(0)]
        )
        confidence, given = view.confidence[members], view.given[members]
        typical, doubtful = exemplars(members, closeness, confidence, given, most[0])
        similarity = view.middles @ view.middles[column]
        nearest = [i for i in np.argsort(-similarity, kind="stable").tolist() if i != column and used[i]]
        unlabelled = confidence[~given]
        entries.append(
            {
                "id": column,
                **category_names(category),
                "kind": category["kind"],
                "size": category["size"],
                "labelled": category["labelled"],
                "confidence": rounded(confidence.mean()) if len(members) else None,
                "clear": rounded((unlabelled >= UNSURE).mean()) if len(unlabelled) else None,
                "stability": rounded(category.get("stability")),
                "typical": typical.tolist(),
                "doubtful": [row for row in doubtful[: most[1]].tolist() if view.confidence[row] < DOUBTED],
                "nearest": [
                    {"id": i, "similarity": rounded(similarity[i])} for i in nearest[:NEAREST] if used[column]
                ],
                "accuracy": None,
            }
        )
    return entries


def _samples(view: View, rows: list[int]) -> dict[str, list[str | None]]:
    """Id and text of some samples, so that cards need not wait for all."""
    some = view.table.take(pa.array(rows, pa.int64()))
    ids = some["id"].to_pylist()
    texts = some["text"].to_pylist() if "text" in some.column_names else [None] * len(rows)
    return {
        str(row): [cut(name, ID_LENGTH), None if text is None else cut(text, CARD_LENGTH)]
        for row, name, text in zip(rows, ids, texts, strict=True)
    }


def rounded(value: Any) -> float | None:
    """A number as the page shows it."""
    return None if value is None else round(float(value), 4)


def _truth(view: View, categories: list[dict[str, Any]]) -> dict[str, Any] | None:
    """How right the run is, where the truth of unlabelled samples is known; fills in each category's accuracy."""
    score = view.record["score"]
    if score is None or "truth" not in view.table.column_names:
        return None
    names = np.array([name or "" for name in view.table["truth"].to_pylist()], dtype=object)
    scored = np.flatnonzero((names != "") & ~view.given)
    if not len(scored):
        return None
    classes, truth = np.unique(names[scored].astype(str), return_inverse=True)
    columns = view.columns[scored]
    matched = match_categories(truth, columns)
    expected = np.array([matched.get(column, -1) for column in range(len(categories))])
    is_right = expected[columns] == truth
    for column, category in enumerate(categories):
        members = columns == column
        category["accuracy"] = rounded(is_right[members].mean()) if members.any() else None
    pairs = truth * len(categories) + columns
    kinds, counts = np.unique(pairs[~is_right], return_counts=True)
    class_sizes = np.bincount(truth)
    worst = [int(i) for i in np.lexsort((kinds, -counts))[:CONFUSIONS]]
    confidence = view.confidence[scored]
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = [(places == i) for i in range(BINS) if (places == i).any()]
    reliability = [
        {"confidence": rounded(confidence[m].mean()), "accuracy": rounded(is_right[m].mean()), "n": int(m.sum())}
        for m in bins
    ]
    gaps = [abs(confidence[m].mean() - is_right[m].mean()) * m.mean() for m in bins]
    return {
        "protocol": score["protocol"],
        **{part: score[part] for part in ("all", "old", "new")},
        "confusions": [
            {
                "truth": str(classes[kinds[i] // len(categories)]),
                "category": int(kinds[i] % len(categories)),
                "n": int(counts[i]),
                "share": rounded(counts[i] / class_sizes[kinds[i] // len(categories)]),
            }
            for i in worst
        ],
        "reliability": reliability,
        "calibration_error": rounded(sum(gaps)),
    }


def _points(view: View, rows: IntArray) -> bytes:
    """See `Points` in web/src/data.ts."""
    arrays: list[npt.NDArray[Any]] = [np.minimum(view.columns, 65_535).astype("<u2")]
    if view.projection is not None:
        places = np.clip(view.projection.places, 0, 1)
        arrays += [np.round(65_535 * places[:, axis]).astype("<u2") for axis in (0, 1)]
    novelty = np.asarray(view.table["novelty"].to_numpy(), dtype=np.float64)
    arrays += [np.round(255 * np.clip(share, 0, 1)).astype(np.uint8) for share in (view.confidence, novelty)]
    arrays.append(view.given.astype(np.uint8))
    return b"".join(array[rows].tobytes() for array in arrays)


def _texts(view: View, rows: IntArray, most: int) -> str:
    """Ids and texts of samples, cut so that they take at most so many bytes, if that is possible at all."""
    table = view.table.select([name for name in ("id", "text") if name in view.table.column_names])
    table = table if len(rows) == len(table) else table.take(pa.array(rows))
    ids = table["id"].to_pylist()
    texts = table["text"].to_pylist() if "text" in table.column_names else None
    packed = ""
    for length in TEXT_LENGTHS:
        short = [cut(text, length) for text in texts] if texts is not None and length else None
        content = {"ids": [cut(name, max(LEAST_ID, min(length, ID_LENGTH))) for name in ids], "texts": short}
        packed = _packed(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
        if len(packed) <= most:
            break
    return packed


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: max(length - 1, 0)] + "…"


def _pictures(view: View, content: dict[str, Any], shown: IntArray, room: int) -> dict[str, Any]:
    """Pictures of samples, as many as fit: those that are shown, most important first, then others of the map."""
    pictures: dict[str, str] = {}
    order = list(dict.fromkeys(_picture_order(content, len(shown))))
    kind, largest = "image/png", 0
    for first in range(0, len(order), 4096):
        rows = order[first : first + 4096]
        pictures_found = read_pictures(view.folder, view.record, shown[rows].tolist())
        for row, picture in zip(rows, pictures_found, strict=False):
            encoded = base64.b64encode(picture).decode()
            room -= len(encoded) + len(str(row)) + 6
            if room < 0:
                break
            pictures[str(row)] = encoded
            kind, largest = picture_type(picture) or kind, max(largest, len(picture))
        if room < 0 or len(pictures) < first + len(rows):
            break
    return {"type": kind, "pixelated": largest < SMALL_PICTURE, "pictures": pictures}


def _picture_order(content: dict[str, Any], n_samples: int) -> Iterable[int]:
    new_first = sorted(content["categories"], key=lambda category: category["kind"] == "known")
    for part in ("typical", "doubtful"):
        rows: list[Sequence[int]] = [category[part] for category in new_first]
        if part == "doubtful":
            yield from (suspect["row"] for suspect in content["suspects"])
        for place in range(max(map(len, rows), default=0)):
            yield from (row[place] for row in rows if place < len(row))
    # The rest in an order that looks random and is the same every time, so that pictures are all over the map.
    yield from np.random.default_rng(0).permutation(n_samples).tolist()


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode()
