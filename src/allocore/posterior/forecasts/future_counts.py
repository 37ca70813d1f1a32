"""What happened in the forecast periods, brought into the form of the forecast: modes and labels matched by name."""

from typing import NamedTuple

import numpy as np

from allocore.data.cameo import respelt
from allocore.data.canonical import canonical
from allocore.data.convert import as_tensor
from allocore.data.labels import ModeLabels
from allocore.data.missing import WILDCARD, Missing, covered
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import CanonicalParts
from allocore.errors import InputError
from allocore.kernels.arrays import Ints


class Happened(NamedTuple):
    """The counts of the coming periods; which periods are known; the counts of labels that the fit does not have."""

    tensor: CountTensor
    known: tuple[str, ...]
    unknown_counts: int
    unknown_labels: int


def happened(given: object, future: CountTensor, mode: int) -> Happened:
    """The tensor `given` with the modes, labels and missing cells of the forecast.

    A label that `given` does not have had no events; a coming period that it does not have is missing.
    """
    theirs = as_tensor(given)
    order = _order(theirs, future)
    rows = [_rows(theirs.labels[o], future.labels[m]) for m, o in enumerate(order)]
    if (rows[mode] < 0).all():
        raise InputError(
            f"Y_future has none of the periods {', '.join(map(str, future.labels[mode]))} in mode "
            f"{future.mode_names[mode]!r}: its last is {theirs.labels[order[mode]][-1]}"
        )
    coords_MN = np.array([rows[m][theirs.coords[o]] for m, o in enumerate(order)])
    in_time, known_N = coords_MN[mode] >= 0, (coords_MN >= 0).all(axis=0)
    new_labels = sum(len(np.unique(theirs.coords[o][in_time & (coords_MN[m] < 0)])) for m, o in enumerate(order))
    lost = int(theirs.counts[in_time & ~known_N].sum())
    missing = future.missing.union(_missing(theirs, future, order, rows, mode))
    coords, counts = coords_MN[:, known_N], theirs.counts[known_N]
    observed = ~covered(coords, missing)
    cells, totals = canonical(coords[:, observed], counts[observed], future.shape)
    parts = CanonicalParts(cells, totals, future.shape, future.mode_names, future.labels, missing)
    known = tuple(str(future.labels[mode][row]) for row in np.unique(rows[mode][rows[mode] >= 0]))
    return Happened(CountTensor._trusted(parts), known, lost, new_labels)


def _order(theirs: CountTensor, future: CountTensor) -> list[int]:
    """The position in `theirs` of each mode of the forecast."""
    if sorted(theirs.mode_names) != sorted(future.mode_names):
        raise InputError(
            f"Y_future has the modes {', '.join(theirs.mode_names)}, but it must have those of the fitted tensor, "
            f"{', '.join(future.mode_names)}"
        )
    return [theirs.mode_names.index(name) for name in future.mode_names]


def _rows(theirs: ModeLabels, ours: ModeLabels) -> Ints:
    """The row of the forecast for each of their labels; -1 if it has none."""
    row_of = {str(label): row for row, label in enumerate(ours)}
    spelt = map(str, theirs) if isinstance(theirs, range) else respelt(theirs, row_of)
    return np.array([row_of.get(label, -1) for label in spelt], dtype=np.int64)


def _missing(theirs: CountTensor, future: CountTensor, order: list[int], rows: list[Ints], mode: int) -> Missing:
    """Their missing cells in our rows, and the coming periods that they do not have."""
    given_PM = theirs.missing.patterns[:, order]
    moved_PM = np.stack(
        [np.where(column_P == WILDCARD, WILDCARD, rows[m][column_P]) for m, column_P in enumerate(given_PM.T)], axis=1
    )
    kept_PM = moved_PM[((moved_PM >= 0) | (given_PM == WILDCARD)).all(axis=1)]
    absent = np.setdiff1d(np.arange(future.shape[mode]), rows[mode])
    whole_PM = np.full((len(absent), future.ndim), WILDCARD, dtype=np.int64)
    whole_PM[:, mode] = absent
    return Missing(np.concatenate([kept_PM, whole_PM]), future.shape)
