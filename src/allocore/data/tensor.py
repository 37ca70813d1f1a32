"""The sparse count tensor: immutable, and in one canonical form from construction on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore.data import display
from allocore.data.canonical import canonical, check_entries
from allocore.data.coordinates import (
    Int64s,
    Integers,
    check_coordinates,
    check_shape,
    read_only,
)
from allocore.data.labels import ModeLabels, check_labels, check_mode_names, fit_labels, resolve_patterns
from allocore.data.missing import WILDCARD, Missing
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse
    import sparse

    from allocore.data.events.event_report import EventReport

MAX_DENSE_CELLS = 10**8

Labels = Sequence[Sequence[object] | None] | Mapping[str, Sequence[object] | None]
Patterns = Missing | NDArray[Any] | Sequence[Sequence[int | str | None]]


class CountTensor:
    """A sparse tensor of counts with named modes, labels and missing cells.

    Construction settles the canonical form: cells sorted with mode 0 slowest, duplicates summed, zeros and
    missing cells dropped. Nothing can be changed afterwards; methods return new tensors.

    Parameters
    ----------
    coords
        Whole numbers (M, n): one row per mode, one column per entry, counted from 0.
    counts
        Non-negative whole numbers (n,).
    shape
        Lengths of the modes; by default as long as the labels, or just long enough for the coordinates.
    mode_names
        One name per mode; mode_0, mode_1, ... by default.
    labels
        For each mode its labels or None, as a sequence or as a dict by mode name.
    missing
        Missing cells: a `Missing`, or patterns as for `with_missing`.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.CountTensor(
    ...     [[0, 1, 1], [2, 0, 0]],
    ...     [5, 1, 2],
    ...     mode_names=["buyer", "month"],
    ...     labels={"buyer": ["Ada", "Max"]},
    ... )
    >>> Y
    CountTensor: 2 x 3 (buyer, month), 2 non-zeros, 8 counts, 33% dense
    >>> Y.counts
    array([5, 3])
    >>> Y.labels
    (('Ada', 'Max'), range(0, 3))
    """

    __slots__ = (
        "_coords",
        "_counts",
        "_labels",
        "_missing",
        "_mode_names",
        "_observed_cells",
        "_report",
        "_shape",
        "_total",
    )

    def __init__(
        self,
        coords: object,
        counts: object,
        shape: Sequence[int] | None = None,
        *,
        mode_names: Sequence[str] | None = None,
        labels: Labels | None = None,
        missing: Patterns | None = None,
    ) -> None:
        given, values = check_entries(coords, counts)
        self._mode_names = check_mode_names(mode_names, len(given))
        checked_labels = check_labels(labels, self._mode_names)
        if shape is None:
            reached = [max(1, int(column.max()) + 1) for column in given]
            sizes = zip(checked_labels, reached, strict=True)
            shape = [length if names is None else max(length, len(names)) for names, length in sizes]
        self._shape = check_shape(shape, modes=len(given))
        self._labels = fit_labels(checked_labels, self._shape, self._mode_names)
        check_coordinates(given, self._shape, self._mode_names)
        self._missing = self._as_missing([] if missing is None else missing)
        # Counted now: patterns that overlap beyond use are refused here, not in the middle of a fit.
        self._observed_cells = self.volume - self._missing.cells
        self._coords, self._counts = self._without_missing(*canonical(given, values, self._shape))
        self._total = int(self._counts.sum())
        self._report: EventReport | None = None

    def _as_missing(self, patterns: Patterns) -> Missing:
        if isinstance(patterns, Missing):
            return Missing.none(self._shape).union(patterns)
        if isinstance(patterns, np.ndarray):
            return Missing(patterns, self._shape)
        return Missing(resolve_patterns(patterns, self._labels, self._mode_names), self._shape)

    def _without_missing(self, coords: Integers, counts: Int64s) -> tuple[Integers, Int64s]:
        observed = np.flatnonzero(~self._missing.contains(coords))
        if observed.size == 0:
            reason = (
                f"all {counts.size:,} non-zeros lie in missing cells"
                if self._observed_cells
                else "all cells are missing"
            )
            raise InputError(f"no positive counts: there is nothing to fit, because {reason}")
        if observed.size < counts.size:
            coords, counts = coords.take(observed, axis=1), counts[observed]
        return read_only(coords), read_only(counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the modes."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return len(self._shape)

    @property
    def nnz(self) -> int:
        """Number of cells with a positive count."""
        return self._counts.size

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return self._total

    @property
    def volume(self) -> int:
        """Number of cells, observed or missing."""
        return math.prod(self._shape)

    @property
    def density(self) -> float:
        """Share of the observed cells that have a positive count."""
        return self.nnz / self._observed_cells

    @property
    def coords(self) -> Integers:
        """Coordinates of the non-zeros (M, nnz), sorted; int32, or int64 if a mode needs it; read-only."""
        return self._coords

    @property
    def counts(self) -> Int64s:
        """Counts of the non-zeros (nnz,), int64; read-only."""
        return self._counts

    @property
    def labels(self) -> tuple[ModeLabels, ...]:
        """For each mode its labels, or the range of its positions where none were given."""
        return self._labels

    @property
    def mode_names(self) -> tuple[str, ...]:
        """Names of the modes."""
        return self._mode_names

    @property
    def missing(self) -> Missing:
        """The missing cells."""
        return self._missing

    def mode(self, mode: int | str) -> int:
        """Return the position of a mode given by name or by index, negative ones counted from the end.

        >>> import allocore as ac
        >>> ac.load_flights().mode("carrier")
        2
        """
        if isinstance(mode, str) and mode in self._mode_names:
            return self._mode_names.index(mode)
        is_index = isinstance(mode, int | np.integer) and not isinstance(mode, bool)
        if is_index and -self.ndim <= int(mode) < self.ndim:
            return int(mode) % self.ndim
        raise InputError(
            f"mode {mode!r} does not exist: the modes are {', '.join(self._mode_names)} "
            f"(or {-self.ndim}..{self.ndim - 1})"
        )

    @property
    def report(self) -> EventReport | None:
        """What became of the rows that `read_events` made this tensor of; None for any other tensor."""
        return self._report

    def mode_totals(self, mode: int | str) -> Int64s:
        """Return the sum of the counts at each position of a mode."""
        m = self.mode(mode)
        totals = np.zeros(self._shape[m], dtype=np.int64)
        np.add.at(totals, self._coords[m], self._counts)
        return totals

    def heaviest(self, mode: int | str, top: int = 5) -> list[tuple[str | int, int]]:
        """Return the labels of a mode with the largest totals, largest first.

        >>> import allocore as ac
        >>> ac.load_flights().heaviest("origin", top=2)
        [('EWR Newark', 120835), ('JFK New York Kennedy', 111279)]
        """
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise InputError(f"top must be a whole number of at least 1; got {top!r}")
        totals, labels = self.mode_totals(mode), self._labels[self.mode(mode)]
        order = np.argsort(-totals, kind="stable")[:top]
        return [(labels[d], int(totals[d])) for d in order.tolist() if totals[d] > 0]

    def mask_diagonal(self, modes: Sequence[int | str] = (0, 1)) -> CountTensor:
        """Return the tensor with the cells missing in which the given modes have the same position.

        >>> import allocore as ac
        >>> ac.CountTensor([[0, 0, 1], [0, 1, 0]], [9, 1, 2]).mask_diagonal()
        CountTensor: 2 x 2 (mode_0, mode_1), 2 non-zeros, 3 counts, 100% dense, 2 missing patterns
        """
        places = [modes] if isinstance(modes, str) else list(modes)
        chosen = [self.mode(mode) for mode in places]
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise InputError(f"modes must be two or more different modes; got {modes!r}")
        lengths = [self._shape[m] for m in chosen]
        if len(set(lengths)) > 1:
            raise InputError(f"modes {modes!r} have lengths {lengths}; a diagonal needs equal lengths")
        if len({self._labels[m] for m in chosen}) > 1:
            raise InputError(
                f"modes {modes!r} have different labels, so equal positions are not the same thing: "
                "a diagonal needs equal labels in equal order"
            )
        patterns = np.full((lengths[0], self.ndim), WILDCARD, dtype=np.int64)
        patterns[:, chosen] = np.arange(lengths[0])[:, None]
        return self.with_missing(patterns)

    def with_missing(self, patterns: Patterns) -> CountTensor:
        """Return the tensor with more cells missing.

        A pattern has for each mode a position, a label, or None for all of that mode. In an integer array (P,
        M), -1 stands for None. Counts in missing cells are dropped.

        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1, 1], [2, 0, 1]], [5, 1, 2], labels=[["Ada", "Max"], None])
        >>> Y.with_missing([("Max", None), (0, 0)])
        CountTensor: 2 x 3 (mode_0, mode_1), 1 non-zero, 5 counts, 50% dense, 2 missing patterns
        """
        return self._rebuilt(missing=self._missing.union(self._as_missing(patterns)))

    def with_labels(self, labels: Labels | None = None, mode_names: Sequence[str] | None = None) -> CountTensor:
        """Return the tensor with other labels or mode names; what is not given stays.

        A dict of labels goes by the new mode names.

        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1], [1, 0]], [5, 1])
        >>> Y.with_labels({"buyer": ["Ada", "Max"]}, mode_names=["buyer", "month"])
        CountTensor: 2 x 2 (buyer, month), 2 non-zeros, 6 counts, 50% dense
        """
        names = self._mode_names if mode_names is None else check_mode_names(mode_names, self.ndim)
        if isinstance(labels, Mapping):
            labels = {**dict(zip(names, self._labels, strict=True)), **labels}
        return self._rebuilt(labels=self._labels if labels is None else labels, mode_names=names)

    def _rebuilt(self, **changes: Any) -> CountTensor:
        same = {"mode_names": self._mode_names, "labels": self._labels, "missing": self._missing}
        return CountTensor(self._coords, self._counts, self._shape, **{**same, **changes})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tensor to a file: `.npz`, `.parquet`, or `.tns` (which has no labels and no missing cells).

        `as_tensor` reads it back.
        """
        from allocore.data.files import save

        save(self, path)

    def to_scipy(self) -> scipy.sparse.coo_array:
        """Return the counts as a SciPy array of as many dimensions; labels are lost, missing cells refused."""
        from allocore.data.export import to_scipy

        return to_scipy(self)

    def to_sparse(self) -> sparse.COO:
        """Return the counts as an array of pydata sparse; labels are lost, missing cells refused."""
        from allocore.data.export import to_sparse

        return to_sparse(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the non-zero cells as a pandas table, a label for each mode and the count; `as_tensor` takes it back.

        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1], [2, 0]], [5, 1], mode_names=["who", "when"], labels=[["Ada", "Max"], None])
        >>> Y.to_frame()
           who  when  count
        0  Ada     2      5
        1  Max     0      1
        """
        from allocore.data.export import to_frame

        return to_frame(self)

    def to_dense(self) -> Int64s:
        """Return the counts as a dense array, with zeros in missing cells; refused above 10^8 cells."""
        if self.volume > MAX_DENSE_CELLS:
            raise InputError(f"to_dense allows at most {MAX_DENSE_CELLS:,} cells; this tensor has {self.volume:,}")
        dense = np.zeros(self._shape, dtype=np.int64)
        dense[tuple(self._coords)] = self._counts
        return dense

    # Defining __eq__ alone makes the class unhashable, which is meant: it is compared by content.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountTensor):
            return NotImplemented
        return (
            self._shape == other.shape
            and self._mode_names == other.mode_names
            and self._labels == other.labels
            and self._missing == other.missing
            and np.array_equal(self._coords, other.coords)
            and np.array_equal(self._counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self._coords, self._counts, self._shape, self._mode_names, self._labels, self._missing)
        return _from_parts, parts

    def __repr__(self) -> str:
        return display.as_text(self)

    def _repr_html_(self) -> str:
        return display.as_html(self)


def _from_parts(
    coords: Integers,
    counts: Int64s,
    shape: tuple[int, ...],
    mode_names: tuple[str, ...],
    labels: tuple[ModeLabels, ...],
    missing: Missing,
) -> CountTensor:
    return CountTensor(coords, counts, shape, mode_names=mode_names, labels=labels, missing=missing)
