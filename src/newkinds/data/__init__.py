"""Collections: reading and writing them, and the embedded example."""

from newkinds.data.digits import digits
from newkinds.data.feature_set import FeatureSet
from newkinds.data.files import read_array
from newkinds.data.raw import RawCollection
from newkinds.data.reading import read_features
from newkinds.data.sources import read_source
from newkinds.data.streams import read_stream, standard_input
from newkinds.data.writing import check_features_target, write_features

__all__ = [
    "FeatureSet",
    "RawCollection",
    "check_features_target",
    "digits",
    "read_array",
    "read_features",
    "read_source",
    "read_stream",
    "standard_input",
    "write_features",
]
