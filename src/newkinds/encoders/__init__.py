"""Encoders: photos and texts to feature vectors.

Importing this room is light: PyTorch and the rest are imported when an encoder is loaded.
"""

from newkinds.encoders.cache import default_cache
from newkinds.encoders.collecting import (
    Encoding,
    SampleEncoder,
    as_features,
    check_same_encoder,
    encoder_for,
    encoder_record,
    features_for,
    given_encoder,
)
from newkinds.encoders.encoder import Encoder
from newkinds.encoders.encoding import Encoded, encode
from newkinds.encoders.loading import load_encoder
from newkinds.encoders.packaged import DEFAULTS
from newkinds.encoders.preparation import ImagePreparation
from newkinds.encoders.samples import as_collection

__all__ = [
    "DEFAULTS",
    "Encoded",
    "Encoder",
    "Encoding",
    "ImagePreparation",
    "SampleEncoder",
    "as_collection",
    "as_features",
    "check_same_encoder",
    "default_cache",
    "encode",
    "encoder_for",
    "encoder_record",
    "features_for",
    "given_encoder",
    "load_encoder",
]
