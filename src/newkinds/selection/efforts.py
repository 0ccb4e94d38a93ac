"""How much a fit may cost: a first look, the usual, or all that still gains something."""

from dataclasses import dataclass

from newkinds.names import EffortName


@dataclass(frozen=True)
class Effort:
    """What is spent on rehearsals and consensus.

    Attributes
    ----------
    precision : float
        Standard error, of the difference between two settings' scores, with which rehearsals end.
    rehearsals : tuple of int
        Least and most of one search for settings.
    counting_rehearsals : int
        In which every number of categories is tried.
    counting_reach : int
        Numbers of categories tried on either side of the first guess.
    consensus : float
        Trainings that are joined, as a part of the recipe's; one at least.
    step : int
        Of our own candidates every one, every second, … is tried.
    counts_on : bool
        Whether further numbers of categories are tried while the best is at the end.
    """

    precision: float
    rehearsals: tuple[int, int]
    counting_rehearsals: int
    counting_reach: int
    consensus: float
    step: int = 1
    counts_on: bool = True

    def members(self, of_recipe: int) -> int:
        """Trainings that are joined.

        Examples
        --------
        >>> [effort.members(8) for effort in EFFORTS.values()], EFFORTS["thorough"].members(1)
        ([1, 8, 16], 1)
        """
        return max(1, int(self.consensus * of_recipe)) if of_recipe > 1 else 1


EFFORTS: dict[EffortName, Effort] = {
    "quick": Effort(0.03, (1, 2), counting_rehearsals=2, counting_reach=1, consensus=0.0, step=2, counts_on=False),
    "normal": Effort(0.015, (2, 8), counting_rehearsals=4, counting_reach=2, consensus=1.0),
    "thorough": Effort(0.0075, (6, 16), counting_rehearsals=8, counting_reach=3, consensus=2.0),
}
NORMAL = EFFORTS["normal"]
