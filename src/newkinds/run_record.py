"""`run.json`, the record of a run: what it holds, as data, and reading it strictly.

A record is checked against `RECORD` and `AGREEMENTS`, then against the checksum of its own that it holds. Errors
name the key that is wrong. Checksums notice damage and careless edits; they are no signature. Records of before
there were checksums are read without. No PyTorch, no NumPy.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

from newkinds import METHOD_CLASSES, __version__
from newkinds.errors import InputError
from newkinds.names import ENCODER_KEYS

SCHEMA_VERSION = 1
RUN_FILE, MODEL_FILE, FEATURES_FILE, PREDICTIONS_TABLE, MAP_FILE, PAST_FILE = (
    "run.json",
    "model.safetensors",
    "features.npy",
    "predictions.parquet",
    "map.npy",
    "past.safetensors",
)
CHECKED_FILES = (MODEL_FILE, FEATURES_FILE, PREDICTIONS_TABLE)
"""Files whose checksums a record holds, beside its own."""
OPTIONAL_FILES = (MAP_FILE, PAST_FILE)
"""The same of files that not every run has."""
LARGEST_NUMBER = 1e100
"""Numbers in a record are smaller; sums and differences of larger ones might no longer be finite."""
SHOWN_VALUE = 60
"""Characters of a wrong value that an error shows."""
VERSION_DIGITS = 4
"""Of the names of versions; more where there are more of them."""


class Misfit(ValueError):
    """A record that is not as it should be; the text names the key and what is wrong with it."""


@dataclass(frozen=True)
class Value:
    """A single value: what it should be, in words and as a test."""

    expected: str
    fits: Callable[[Any], bool]

    def check(self, key: str, value: Any) -> None:
        if not self.fits(value):
            raise Misfit(f"{key} should be {self.expected}; got {_shown(value)}")


@dataclass(frozen=True)
class OrNull:
    """A value that may be null."""

    shape: "Shape"

    def check(self, key: str, value: Any) -> None:
        if value is not None:
            self.shape.check(key, value)


@dataclass(frozen=True)
class Items:
    """A list of any length whose items have one shape."""

    shape: "Shape"

    def check(self, key: str, value: Any) -> None:
        LIST.check(key, value)
        for place, item in enumerate(value):
            self.shape.check(f"{key}[{place}]", item)


@dataclass(frozen=True)
class Row:
    """A list with one shape for each of its places."""

    shapes: "tuple[Shape, ...]"

    def check(self, key: str, value: Any) -> None:
        LIST.check(key, value)
        if len(value) != len(self.shapes):
            raise Misfit(f"{key} should have {len(self.shapes)} items; got {len(value)}")
        for place, (shape, item) in enumerate(zip(self.shapes, value, strict=True)):
            shape.check(f"{key}[{place}]", item)


@dataclass(frozen=True)
class Keys:
    """An object: keys that it must have, keys that it may have; others are not looked at.

    With `others`, any other key has that shape.
    """

    needed: "dict[str, Shape]" = field(default_factory=dict)
    optional: "dict[str, Shape]" = field(default_factory=dict)
    others: "Shape | None" = None

    def check(self, key: str, value: Any) -> None:
        OBJECT.check(key or "the record", value)
        if missing := [name for name in self.needed if name not in value]:
            raise Misfit(f"{key} lacks {', '.join(missing)}" if key else f"it lacks {', '.join(missing)}")
        shapes = {**self.optional, **self.needed}
        for name, item in value.items():
            shape = shapes.get(name, self.others)
            if shape is not None:
                shown = name if name in shapes else _shown(name)
                shape.check(f"{key}.{shown}" if key else shown, item)


Shape = Value | OrNull | Items | Row | Keys


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER


def _whole(least: int) -> Value:
    return Value(
        f"a whole number of at least {least}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least,
    )


def one_of(*texts: str) -> Value:
    return Value(" or ".join(map(repr, texts)), lambda value: isinstance(value, str) and value in texts)


def is_version(name: Any) -> bool:
    """Whether something is the name of a version's folder, such as 0002."""
    return isinstance(name, str) and VERSION_DIGITS <= len(name) <= 9 and name.isascii() and name.isdigit()


LIST = Value("a list", lambda value: isinstance(value, list))
OBJECT = Value("an object", lambda value: isinstance(value, dict))
TEXT = Value("a text", lambda value: isinstance(value, str))
NUMBER = Value("a finite number", _is_number)
POSITIVE = Value("a number greater than 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = Value("a number of at least 0", lambda value: _is_number(value) and value >= 0)
SHARE = Value("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
COUNT = _whole(0)
VERSION = Value("a number such as 0002", is_version)
CHECKSUM = Value(
    "a SHA-256 in hexadecimal digits",
    lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
)
CATEGORY = Keys(
    {"id": COUNT, "name": TEXT, "kind": one_of("known", "new"), "size": COUNT, "labelled": COUNT},
    optional={"suggestion": OrNull(TEXT), "stability": OrNull(SHARE), "called": OrNull(TEXT), "let_go": COUNT},
)
"""`size` counts the samples that there are, `let_go` those that are no longer kept."""
REHEARSAL_ROW = Row((NOT_NEGATIVE, NOT_NEGATIVE, NUMBER, COUNT))
"""Temperature, λ, share found again, rehearsals."""
RECORD = Keys(
    {
        "created": TEXT,
        "source": Keys(
            {"name": TEXT, "samples": COUNT, "labelled": COUNT},
            optional={"features": _whole(1), "columns": OrNull(Items(TEXT)), "root": TEXT},
        ),
        "method": TEXT,
        "parameters": OBJECT,
        "chosen": Keys(
            {
                "lam": OrNull(NOT_NEGATIVE),
                "temperature": POSITIVE,
                "n_categories": _whole(1),
                "n_categories_rule": OrNull(TEXT),
            },
            optional={
                "n_categories_bounds": OrNull(Row((COUNT, COUNT))),
                "n_categories_interval": OrNull(Row((COUNT, COUNT))),
                "size_ratio": OrNull(POSITIVE),
                "rehearsal_spread": OrNull(NUMBER),
                "metric": OrNull(TEXT),
                "first": OrNull(Row((POSITIVE, NOT_NEGATIVE))),
                "calibration": Keys(others=OrNull(NUMBER)),
            },
        ),
        "curves": Keys(
            {
                "lam": OrNull(Items(Row((NOT_NEGATIVE, NUMBER)))),
                "n_categories": OrNull(Items(Row((_whole(1), NUMBER)))),
                "objective": OrNull(Items(Row((COUNT, NUMBER)))),
            },
            optional={"rehearsal": OrNull(Items(REHEARSAL_ROW)), "refinement": OrNull(Items(REHEARSAL_ROW))},
        ),
        "categories": Items(CATEGORY),
        "score": OrNull(
            Keys({"protocol": TEXT, "all": OrNull(SHARE), "old": OrNull(SHARE), "new": OrNull(SHARE)}),
        ),
        "stopped": TEXT,
        "n_iter": COUNT,
        "warnings": Items(TEXT),
        "seconds": Keys(others=NOT_NEGATIVE),
        "versions": Keys({"newkinds": TEXT}, others=TEXT),
    },
    optional={
        "encoder": OrNull(Keys(dict.fromkeys(ENCODER_KEYS, TEXT))),
        "skipped": Items(Row((TEXT, TEXT))),
        "features": Keys(optional={"sha256": CHECKSUM}),
        "checksums": Keys(
            dict.fromkeys((RUN_FILE, *CHECKED_FILES), CHECKSUM), dict.fromkeys(OPTIONAL_FILES, CHECKSUM)
        ),
        "map": OrNull(Keys({"method": TEXT})),
        "suspected_labels": OrNull(Items(Row((COUNT, COUNT, SHARE)))),
        "parent": Keys({"run": TEXT, "entry": COUNT}),
        "last": Keys({"id": COUNT, "key": COUNT}),
        "window": Keys({"recent": COUNT, "born": Items(COUNT)}, {"since": COUNT}),
        "samples": VERSION,
    },
)
"""Every part of `run.json` that is read again. Keys that older versions lack are optional."""


def _ids(record: dict[str, Any]) -> list[int]:
    return [category["id"] for category in record["categories"]]


def _kinds(record: dict[str, Any]) -> list[str]:
    return [category["kind"] for category in record["categories"]]


def _total(record: dict[str, Any], part: str) -> int:
    return sum(category[part] for category in record["categories"])


def _ascends(limits: list[int] | None) -> bool:
    return limits is None or limits[0] <= limits[1]


AGREEMENTS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("the ids of categories should ascend", lambda r: _ids(r) == sorted(set(_ids(r)))),
    ("known categories should come before new ones", lambda r: _kinds(r) == sorted(_kinds(r))),
    (
        "chosen.n_categories should be the number of categories",
        lambda r: r["chosen"]["n_categories"] == len(r["categories"]),
    ),
    (
        "the sizes of categories should add up to source.samples",
        lambda r: _total(r, "size") == r["source"]["samples"],
    ),
    (
        "the labelled samples of categories should add up to source.labelled",
        lambda r: _total(r, "labelled") == r["source"]["labelled"],
    ),
    (
        "a category should not have more labelled samples than samples, nor a new one any before it was edited",
        lambda r: all(
            c["labelled"] <= (c["size"] if c["kind"] == "known" or "parent" in r else 0) for c in r["categories"]
        ),
    ),
    (
        "source.columns should be as many as source.features",
        lambda r: not r["source"].get("columns") or len(r["source"]["columns"]) == r["source"].get("features"),
    ),
    ("chosen.n_categories_bounds should ascend", lambda r: _ascends(r["chosen"].get("n_categories_bounds"))),
    ("chosen.n_categories_interval should ascend", lambda r: _ascends(r["chosen"].get("n_categories_interval"))),
    (
        "curves.n_categories and chosen.n_categories_bounds should go with chosen.n_categories_rule",
        lambda r: (
            {r["chosen"]["n_categories_rule"] is None}
            == {r["curves"]["n_categories"] is None, r["chosen"].get("n_categories_bounds") is None}
        ),
    ),
    (
        "suspected_labels should name samples and categories that there are",
        lambda r: all(
            row < r["source"]["samples"] and likely in _ids(r) for row, likely, _ in r.get("suspected_labels") or ()
        ),
    ),
    (
        "curves.lam and curves.rehearsal should go with chosen.lam",
        lambda r: (
            r["chosen"]["lam"] is not None or (r["curves"]["lam"] is None and not r["curves"].get("rehearsal"))
        ),
    ),
)
"""What parts of a record say of each other: how an error puts it, and whether it holds."""


def parse_record(content: bytes, path: Path) -> dict[str, Any]:
    """A record from the bytes of its file, checked; InputError names the file and the key that is wrong."""
    constants: list[str] = []
    try:
        record = parse_json(content, constants)
    except RecursionError:
        raise InputError(f"{path} is damaged: its lists and objects are nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(record, dict) or record.get("schema_version") != SCHEMA_VERSION:
        version = _shown(record.get("schema_version")) if isinstance(record, dict) else None
        raise InputError(
            f"{path} has schema version {version}; newkinds {__version__} reads version {SCHEMA_VERSION}"
        )
    try:
        RECORD.check("", record)
        for sentence, holds in AGREEMENTS:
            if not holds(record):
                raise Misfit(sentence)
        if constants and "checksums" in record:  # older versions wrote NaN where they should have written null
            raise Misfit(f"{constants[0]} is not JSON")
    except Misfit as misfit:
        raise InputError(f"{path} is damaged: {misfit}") from None
    if record["method"] not in METHOD_CLASSES:
        method = _shown(record["method"])
        raise InputError(f"{path}: the run was made by the method {method}, which this version does not have")
    if "checksums" in record and record["checksums"][RUN_FILE] != _checksum(record):
        raise InputError(f"{path} is not as newkinds wrote it: it was changed or damaged")
    return record


def format_record(record: dict[str, Any], checksums: dict[str, str]) -> str:
    """A record as the text of its file, with the checksums of the files beside it, and its own."""
    sealed = {**record, "checksums": checksums}
    sealed["checksums"] = {**checksums, RUN_FILE: _checksum(sealed)}
    lines = (f" {json.dumps(key)}: {_as_json(value)}" for key, value in sealed.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def open_file(path: Path) -> BufferedReader:
    """Open a plain file for reading, or InputError; never waits, as opening a FIFO would."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{path} cannot be read: it is not a plain file")
    return os.fdopen(descriptor, "rb")


def parse_json(content: bytes, constants: list[str] | None = None) -> Any:
    """Strict JSON: no key twice, no number beyond 64 bits, only text that can be written again; or ValueError.

    NaN and its like become None where `constants` is given, which then names them.
    """

    def constant(name: str) -> None:
        if constants is None:
            raise ValueError(f"{name} is not JSON")
        constants.append(name)

    record = json.loads(
        content.decode("utf-8"),
        object_pairs_hook=_unique_keys,
        parse_constant=constant,
        parse_float=_finite_float,
        parse_int=_short_integer,
    )
    _as_json(record).encode("utf-8")  # half a surrogate pair cannot be
    return record


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, value in pairs:
        if name in keys:
            raise ValueError(f"the key {_shown(name)} is there twice")
        keys[name] = value
    return keys


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:SHOWN_VALUE]} is too large")
    return number


def _short_integer(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (number := int(digits)) < 2**63:
        raise ValueError(f"the number {digits[:SHOWN_VALUE]} is too large")
    return number


def _checksum(record: dict[str, Any]) -> str:
    """Of what a record says, however it is laid out; its own checksum left out."""
    others = {name: checksum for name, checksum in record["checksums"].items() if name != RUN_FILE}
    return hashlib.sha256(_as_json({**record, "checksums": others}, sort_keys=True).encode("utf-8")).hexdigest()


def _as_json(value: Any, sort_keys: bool = False) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=sort_keys)


def _shown(value: Any) -> str:
    """A value as an error shows it: short, on one line."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = repr(value)
    return text if len(text) <= SHOWN_VALUE else text[: SHOWN_VALUE - 1] + "…"
