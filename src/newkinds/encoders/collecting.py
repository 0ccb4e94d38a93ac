"""Collections as feature vectors: photos and texts are encoded, features are taken as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from newkinds.data.feature_set import FeatureSet
from newkinds.data.raw import RawCollection
from newkinds.data.thumbnails import Thumbnails
from newkinds.encoders.duplicates import find_duplicates
from newkinds.encoders.encoder import Encoder
from newkinds.encoders.encoding import Encoded, encode
from newkinds.encoders.loading import check_fingerprint, load_encoder, load_trusted
from newkinds.encoders.preparation import Changes
from newkinds.encoders.samples import as_collection
from newkinds.errors import InputError
from newkinds.names import ENCODER_KEYS, Kind
from newkinds.raw_samples import kind_of_samples
from newkinds.runtime import n_processes

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
    if n_processes() > 1:
        raise InputError(
            "photos and texts are encoded by one process: `newkinds encode` first, then share the result"
        )
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
    _check_kind(record, kind)
    options: dict[str, Any] = {
        "device": encoding.device,
        "half": encoding.half,
        "changes": _recorded_changes(record),
    }
    if encoding.name is None:
        return load_trusted(record["name"], record["fingerprint"], kind, **options)
    encoder = load_encoder(encoding.name, kind, **options)
    check_fingerprint(encoder, encoding.name, record["fingerprint"])
    return encoder


class SampleEncoder:
    """Makes features of raw samples for the model of a run: the encoder is loaded when the first ones come.

    Parameters
    ----------
    record : mapping
        The run's record of its encoder.
    encoder : Encoder, optional
        The encoder itself, if it is loaded already. It is not pickled.
    """

    def __init__(self, record: Mapping[str, Any], encoder: Encoder | None = None) -> None:
        self.record = dict(record)
        self._encoder = encoder
        self._loading = Lock()

    def __call__(self, samples: Any) -> Any:
        """Features of texts or images; what is neither comes back as it is."""
        if kind_of_samples(samples) is None:
            return samples
        collection = self.collection(samples)
        return encode(collection.items, self.encoder)

    def collection(self, samples: Any) -> RawCollection:
        """Samples as a collection of what the run was made of, or InputError."""
        _check_record(self.record, "the run")
        return as_collection(samples, self.record["kind"])

    def features(self, collection: RawCollection) -> FeatureSet:
        """A collection as features; samples that cannot be read are left out."""
        _check_kind(self.record, collection.kind)
        return as_features(collection, Encoding(), self.encoder)

    @property
    def encoder(self) -> Encoder:
        with self._loading:
            if self._encoder is None:
                self._encoder = encoder_for(self.record, self.record["kind"], Encoding())
            return self._encoder

    def __getstate__(self) -> dict[str, Any]:
        return {"record": self.record}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["record"])  # type: ignore[misc]  # as new: neither the encoder nor the lock travels


def given_encoder(record: Mapping[str, Any] | None, name: str) -> SampleEncoder:
    """A run's encoder from the place where the user has it; InputError if that is another one."""
    if record is None:
        raise InputError(f"the run was made of features; the encoder {name!r} has nothing to do")
    _check_record(record, "the run")
    encoder = encoder_for(record, record["kind"], Encoding(name))
    return SampleEncoder({**record, "name": encoder.name}, encoder)


def _recorded_changes(record: Mapping[str, Any]) -> Changes | None:
    """How the encoder of a run prepared images."""
    preparation = record.get("preparation") if record["kind"] == "images" else None
    if not isinstance(preparation, dict | None):
        raise InputError(f"the run: the record of the encoder is damaged, its preparation is {preparation!r}")
    return preparation


def _check_kind(record: Mapping[str, Any], kind: Kind) -> None:
    _check_record(record, "the run")
    if record["kind"] != kind:
        raise InputError(f"the run was made of {record['kind']}, this is a collection of {kind}")


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
