"""The methods, all with one contract (`newkinds.methods.base`)."""

from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.infomax import PIM, RIM, TIM
from newkinds.methods.kmeans import KMeans, SemiSupervisedKMeans
from newkinds.methods.n_categories import CategoryCount, estimate_n_categories
from newkinds.methods.orca import ORCA
from newkinds.methods.rankstats import RankStats
from newkinds.methods.simgcd import SimGCD
from newkinds.methods.uno import UNO

METHODS: dict[str, type[CategoryDiscoverer]] = {
    "pim": PIM,
    "rim": RIM,
    "tim": TIM,
    "sskm": SemiSupervisedKMeans,
    "kmeans": KMeans,
    "simgcd": SimGCD,
    "uno": UNO,
    "orca": ORCA,
    "rankstats": RankStats,
}
"""Short name (command line, run folder) → method."""

__all__ = [
    "METHODS",
    "ORCA",
    "PIM",
    "RIM",
    "TIM",
    "UNO",
    "CategoryCount",
    "CategoryDiscoverer",
    "KMeans",
    "RankStats",
    "SemiSupervisedKMeans",
    "SimGCD",
    "estimate_n_categories",
]
