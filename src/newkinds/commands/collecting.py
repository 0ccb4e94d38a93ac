"""From a source on the command line to features: what several commands share."""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from newkinds.errors import InputError
from newkinds.visible import visible

if TYPE_CHECKING:
    from newkinds.data import FeatureSet, RawCollection
    from newkinds.data.labelling import LabelRules
    from newkinds.encoders import Encoding
    from newkinds.encoders.preparation import Changes


def make_encoding(
    name: str | None,
    device: str,
    cache: Path | None,
    no_cache: bool,
    workers: int | None,
    full_precision: bool,
    changes: "Changes | None" = None,
) -> "Encoding":
    """How photos and texts are to be encoded, from the options that commands share."""
    from newkinds.encoders import Encoding, default_cache

    if no_cache and cache is not None:
        raise InputError("--cache and --no-cache contradict each other")
    place = None if no_cache else cache or default_cache()
    return Encoding(name, device, False if full_precision else None, place, workers, changes)


def read_changes(resize: str | None, crop: int | None) -> "Changes | None":
    """What --resize and --crop ask for.

    Examples
    --------
    >>> read_changes("256", 224), read_changes("224x288", None), read_changes(None, None)
    ({'resize': 256, 'size': (224, 224)}, {'resize': (224, 288)}, None)
    """
    changes: dict[str, Any] = {}
    if resize is not None:
        if not re.fullmatch(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4})?", resize):
            raise InputError(f"--resize must be a length in pixels, or HEIGHTxWIDTH; got {resize!r}")
        sides = tuple(map(int, resize.split("x")))
        changes["resize"] = sides[0] if len(sides) == 1 else sides
    if crop is not None:
        changes["size"] = (crop, crop)
    return changes or None


def collect(
    source: str, encoding: "Encoding", check: "Callable[[FeatureSet | RawCollection], None]", **options: Any
) -> "FeatureSet":
    """Read a source and encode it if need be. Encoding takes long, so `check` looks at what was read before it."""
    from newkinds.data import read_source
    from newkinds.encoders import as_features

    collection = read_source(source, **options)
    check(collection)
    return as_features(collection, encoding)


def label_rules(
    unlabelled: list[str] | None, as_is: bool, min_confidence: float | None, labels: Path | None, quiet: bool
) -> "LabelRules":
    """How labels are taken. On a terminal the user is asked about words such as Unsorted."""
    from newkinds.data.labelling import LabelRules

    if min_confidence is not None and labels is None:
        raise InputError("--min-confidence chooses among the labels of a file; give it with --labels")
    asks = not quiet and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return LabelRules(tuple(unlabelled or ()), as_is, min_confidence, confirm_unlabelled if asks else None)


def confirm_unlabelled(name: str, count: int) -> bool:
    samples = "1 sample is" if count == 1 else f"{count:,} samples are"
    return typer.confirm(f"{samples} called {visible(name)!r}. Does that mean unlabelled?", default=True, err=True)


def check_unlabelled(collection: "FeatureSet | RawCollection") -> None:
    """Refuse a collection of which everything is labelled."""
    if collection.n_labelled == len(collection):
        raise InputError("every sample is labelled: there is nothing to discover; leave out the labels of some")


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {visible(note)}", err=True)
