"""Collections as feature vectors: photos and texts are encoded, features are taken as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from newkinds.data.feature_set import FeatureSet
from newkinds.data.raw import RawCollection
from newkinds.data.thumbnails import Thumbnails
from newkinds.encoders.duplicates import find_duplicates
from newkinds.encoders.encoder import Encoder
from newkinds.encoders.encoding import Encoded, encode
from newkinds.encoders.loading import check_fingerprint, load_encoder, load_trusted
from newkinds.encoders.preparation import Changes
from newkinds.errors import InputError
from newkinds.names import ENCODER_KEYS, Kind

SHOWN = 3
"""Samples that were left out and are named in a note."""


@dataclass(frozen=True)
class Encoding:
    """How to encode photos and texts: the arguments of `load_encoder` and `encode`."""

    name: str | None = None
    device: str = "auto"
    half: bool | None = None
    cache: Path | None = None
    workers: int | None = None
    changes: Changes | None = None


def as_features(
    collection: FeatureSet | RawCollection, encoding: Encoding, encoder: Encoder | None = None
) -> FeatureSet:
    """The collection as feature vectors, with a record of the encoder, pictures, and notes on what is odd.

    `encoder` is the encoder that `encoding` names, if it is loaded already.
    """
    if isinstance(collection, FeatureSet):
        if encoding.name is not None:
            raise InputError(f"these are features already; the encoder {encoding.name!r} has nothing to do")
        if encoding.changes:
            raise InputError("these are features already: only images are resized and cropped")
        return collection
    if encoder is None:
        encoder = load_encoder(
            encoding.name, collection.kind, device=encoding.device, half=encoding.half, changes=encoding.changes
        )
    encoded = encode(collection, encoder, cache=encoding.cache, workers=encoding.workers)
    features = encoded.collection.with_features(encoded.features)
    return replace(
        features,
        images=Thumbnails(encoded.collection.items) if collection.kind == "images" else None,
        encoder=encoder_record(encoder),
        notes=(*features.notes, *_notes(encoded)),
    )


def encoder_record(encoder: Encoder) -> dict[str, Any]:
    """What a run records of its encoder, to load the same one again."""
    describe = getattr(encoder.preparation, "describe", None)
    return {
        "name": encoder.name,
        "kind": encoder.kind,
        "fingerprint": encoder.fingerprint,
        "precision": encoder.precision,
        "preparation": None if describe is None else describe(),
    }


def features_for(
    record: Mapping[str, Any] | None, collection: FeatureSet | RawCollection, encoding: Encoding
) -> FeatureSet:
    """New samples as features of the encoder in a run's record, or InputError.

    `encoding` may name another place of the same encoder. Without that, an encoder that was never given on this
    machine is not loaded (`newkinds.encoders.trust`).
    """
    if isinstance(collection, FeatureSet):
        check_same_encoder(record, collection.encoder)
        return as_features(collection, encoding)
    return as_features(collection, encoding, encoder_for(record, collection.kind, encoding))


def check_same_encoder(record: Mapping[str, Any] | None, made_with: Mapping[str, Any] | None) -> None:
    """Refuse features that another encoder made than the run's, where both are known."""
    if record is None or made_with is None:
        return
    _check_record(record, "the run")
    _check_record(made_with, "the features")
    if made_with["fingerprint"] != record["fingerprint"]:
        is_same = made_with["name"] == record["name"]
        difference = " with other weights or another preparation" if is_same else ""
        raise InputError(
            f"these features are of {made_with['name']}, the run was made with {record['name']}{difference}"
        )


def encoder_for(record: Mapping[str, Any] | None, kind: Kind, encoding: Encoding) -> Encoder:
    """The encoder that a run was made with, for new samples of some kind."""
    if record is None:
        raise InputError(f"the run was made of features: give it features, not {kind}")
    _check_record(record, "the run")
    if record["kind"] != kind:
        raise InputError(f"the run was made of {record['kind']}, this is a collection of {kind}")
    options: dict[str, Any] = {
        "device": encoding.device,
        "half": encoding.half,
        "changes": _recorded_changes(record),
    }
    if encoding.name is None:
        return load_trusted(record["name"], record["fingerprint"], kind, **options)
    return _load_given(record, encoding.name, **options)


def given_encoder(record: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """A run's record of its encoder, with the place where the user has it; InputError if that is another one."""
    if record is None:
        raise InputError(f"the run was made of features; the encoder {name!r} has nothing to do")
    _check_record(record, "the run")
    return {**record, "name": _load_given(record, name, device="cpu", changes=_recorded_changes(record)).name}


def _load_given(record: Mapping[str, Any], name: str, **options: Any) -> Encoder:
    encoder = load_encoder(name, record["kind"], **options)
    check_fingerprint(encoder, name, record["fingerprint"])
    return encoder


def _recorded_changes(record: Mapping[str, Any]) -> Changes | None:
    """How the encoder of a run prepared images."""
    preparation = record.get("preparation") if record["kind"] == "images" else None
    if not isinstance(preparation, dict | None):
        raise InputError(f"the run: the record of the encoder is damaged, its preparation is {preparation!r}")
    return preparation


def _check_record(record: Mapping[str, Any], owner: str) -> None:
    if missing := [key for key in ENCODER_KEYS if not isinstance(record.get(key), str)]:
        raise InputError(f"{owner}: the record of the encoder is damaged, it has no {' and no '.join(missing)}")


def _notes(encoded: Encoded) -> list[str]:
    collection = encoded.collection
    notes = find_duplicates(collection.labels, encoded.keys, encoded.features).notes(collection.ids)
    if collection.skipped:
        examples = "; ".join(f"{name}: {why}" for name, why in collection.skipped[:SHOWN])
        more = "; …" if len(collection.skipped) > SHOWN else ""
        notes.insert(0, f"samples that were left out: {len(collection.skipped)} ({examples}{more})")
    return [*notes, *encoded.notes]
