"""The methods, all with one contract (`newkinds.methods.base`)."""

from newkinds.methods.base import CategoryDiscoverer
from newkinds.methods.infomax import PIM, RIM, TIM
from newkinds.methods.kmeans import KMeans, SemiSupervisedKMeans
from newkinds.methods.n_categories import CategoryCount, estimate_n_categories

METHODS: dict[str, type[CategoryDiscoverer]] = {
    "pim": PIM,
    "rim": RIM,
    "tim": TIM,
    "sskm": SemiSupervisedKMeans,
    "kmeans": KMeans,
}
"""Short name (command line, run folder) → method."""

__all__ = [
    "METHODS",
    "PIM",
    "RIM",
    "TIM",
    "CategoryCount",
    "CategoryDiscoverer",
    "KMeans",
    "SemiSupervisedKMeans",
    "estimate_n_categories",
]
