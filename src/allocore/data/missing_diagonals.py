"""Which diagonals of a tensor are missing: what was done about the events of actors with themselves."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from allocore.data.missing import WILDCARD
from allocore.data.tensor import CountTensor


def missing_diagonals(tensor: CountTensor) -> list[tuple[int, ...]]:
    """Return the groups of modes with the same labels whose whole diagonal is missing, as `mask_diagonal` makes it.

    >>> Y = CountTensor([[0, 1], [1, 0]], [3, 4], labels=[["A", "B"], ["A", "B"]])
    >>> missing_diagonals(Y), missing_diagonals(Y.mask_diagonal())
    ([], [(0, 1)])
    """
    labelled = [mode for mode, labels in enumerate(tensor.labels) if isinstance(labels, tuple)]
    groups = [group for size in range(2, len(labelled) + 1) for group in combinations(labelled, size)]
    same = [group for group in groups if len({tensor.labels[mode] for mode in group}) == 1]
    return [group for group in same if _is_missing(tensor, group)]


def _is_missing(tensor: CountTensor, modes: tuple[int, ...]) -> bool:
    """Return whether patterns that fix only these modes cover their diagonal.

    Some of them may be wider: if nothing of an actor was observed, one pattern says so, and none is left for its place
    on the diagonal.
    """
    patterns = tensor.missing.patterns
    fixed = patterns != WILDCARD
    inside = fixed.sum(axis=1) == fixed[:, modes].sum(axis=1)
    rows = patterns[inside][:, modes]
    place = rows.max(axis=1, initial=WILDCARD)
    on_diagonal = ((rows == place[:, None]) | (rows == WILDCARD)).all(axis=1)
    is_whole = np.unique(place[on_diagonal]).size == tensor.shape[modes[0]]
    return is_whole and bool((fixed[inside][on_diagonal].sum(axis=1) == len(modes)).any())
