# The public surface, once. `__init__.py` reads this list: a line here is all that a new public name takes.
# A class from `newkinds.methods.NAME` is also the method NAME of the command line.

from newkinds.data.feature_set import FeatureSet as FeatureSet
from newkinds.data.reading import read_features as read_features
from newkinds.data.writing import write_features as write_features
from newkinds.discovery import Discovery as Discovery
from newkinds.discovery import discover as discover
from newkinds.encoders.encoding import encode as encode
from newkinds.errors import InputError as InputError
from newkinds.labels import UNLABELLED as UNLABELLED
from newkinds.labels import encode_labels as encode_labels
from newkinds.methods.kmeans import KMeans as KMeans
from newkinds.methods.orca import ORCA as ORCA
from newkinds.methods.pim import PIM as PIM
from newkinds.methods.rankstats import RankStats as RankStats
from newkinds.methods.rim import RIM as RIM
from newkinds.methods.simgcd import SimGCD as SimGCD
from newkinds.methods.sskm import SemiSupervisedKMeans as SemiSupervisedKMeans
from newkinds.methods.tim import TIM as TIM
from newkinds.methods.uno import UNO as UNO
from newkinds.metrics import accuracy as accuracy
from newkinds.objective import Objective as Objective
from newkinds.opened_runs import open_run as open_run
from newkinds.runs import load as load
from newkinds.selection.n_categories import estimate_n_categories as estimate_n_categories

__version__: str
METHOD_CLASSES: dict[str, str]
_HOME: dict[str, str]
