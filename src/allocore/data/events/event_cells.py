"""The cells that have rows, and which of them are left when rare labels are dropped."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.data.coordinates import Int64s

Booleans = NDArray[np.bool_]


class EventCells(NamedTuple):
    """Cells that have rows: their positions (modes, cells), counts and numbers of rows."""

    places: Int64s
    counts: Int64s
    rows: Int64s

    def on_diagonal(self, modes: list[int]) -> Booleans:
        """Return which cells have the same position in all of these modes; no cell, if there are no modes."""
        if not modes:
            return np.zeros(self.counts.size, dtype=bool)
        same: Booleans = (self.places[modes] == self.places[modes[0]]).all(axis=0)
        return same

    def where(self, chosen: Booleans) -> "EventCells":
        """Return the chosen cells."""
        return EventCells(self.places[:, chosen], self.counts[chosen], self.rows[chosen])


def frequent(cells: EventCells, groups: list[list[int]], least: int, *, blind: Booleans) -> Booleans:
    """Return which cells are left when labels of the grouped modes with fewer than `least` counts are dropped.

    The modes of a group share their labels. Dropping a label takes counts from other labels, so this is repeated until
    all labels have enough. Cells that are `blind`, because they will be missing, add nothing to any label.
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


def relabelled(
    cells: EventCells, labels: list[list[str]], groups: list[list[int]], keep: list[int] | None = None
) -> tuple[EventCells, list[list[str]]]:
    """Return the cells and labels without those labels of the grouped modes that no cell has.

    For each group, the first `keep` labels stay in any case.
    """
    places, labels = cells.places.copy(), list(labels)
    for group, number in zip(groups, keep or [0] * len(groups), strict=True):
        used = np.union1d(np.arange(number), cells.places[group])
        for place in group:
            places[place] = np.searchsorted(used, cells.places[place])
            labels[place] = [labels[place][number] for number in used.tolist()]
    return cells._replace(places=places), labels
