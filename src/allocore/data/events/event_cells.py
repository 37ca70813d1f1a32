"""The cells that rows fell into, without the labels that too few of them have."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class Cells(NamedTuple):
    """Cells that have rows: their places (modes, cells), counts and numbers of rows."""

    places: Integers
    counts: Integers
    rows: Integers

    def on_diagonal(self, modes: list[int]) -> Booleans:
        """Which cells have the same place in all of these modes; none, if there are no such modes."""
        if not modes:
            return np.zeros(self.counts.size, dtype=bool)
        same: Booleans = (self.places[modes] == self.places[modes[0]]).all(axis=0)
        return same

    def where(self, chosen: Booleans) -> "Cells":
        """The cells that are chosen."""
        return Cells(self.places[:, chosen], self.counts[chosen], self.rows[chosen])


def frequent(cells: Cells, groups: list[list[int]], least: int, *, blind: Booleans) -> Booleans:
    """Which cells are left when every label of the grouped modes has at least so many counts.

    Modes of a group share their labels. Leaving out a label takes counts from others, so it is done until all have
    enough; cells that are `blind`, because they will be missing, count for nobody.
    """
    counts = np.where(blind, 0, cells.counts)
    left = np.ones(counts.size, dtype=bool)
    while True:
        enough = left.copy()
        for group in groups:
            totals = np.zeros(int(cells.places[group].max(initial=-1)) + 1, dtype=np.int64)
            for place in group:
                np.add.at(totals, cells.places[place, left], counts[left])
            enough &= (totals[cells.places[group]] >= least).all(axis=0)
        if np.array_equal(enough, left):
            return left
        left = enough


def relabelled(cells: Cells, labels: list[list[str]], groups: list[list[int]]) -> tuple[Cells, list[list[str]]]:
    """The cells and labels without the labels of the grouped modes that no cell has."""
    places, labels = cells.places.copy(), list(labels)
    for group in groups:
        used = np.unique(cells.places[group])
        for place in group:
            places[place] = np.searchsorted(used, cells.places[place])
            labels[place] = [labels[place][number] for number in used.tolist()]
    return cells._replace(places=places), labels
