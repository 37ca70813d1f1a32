"""The parts of a count tensor, as read-only properties, and small questions about them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.data import display
from allocore.data.available_memory import require_memory
from allocore.data.coordinates import Int64s, Integers, read_only
from allocore.data.labels import ModeLabels
from allocore.data.missing import Missing
from allocore.errors import InputError

if TYPE_CHECKING:
    from allocore.data.event_report import EventReport

_FEW = 1_000_000  # an array of so many totals is made without thinking


class CanonicalParts(NamedTuple):
    """What a tensor consists of, in canonical form."""

    coords: Integers
    counts: Int64s
    shape: tuple[int, ...]
    mode_names: tuple[str, ...]
    labels: tuple[ModeLabels, ...]
    missing: Missing
    report: EventReport | None = None


class TensorParts:
    """The parts of a tensor, one by one. Nothing is checked here: `CountTensor` does that."""

    __slots__ = ("_nnz", "_observed_cells", "_parts", "_total")

    def _keep(self, parts: CanonicalParts) -> None:
        """Store the parts; the arrays are locked."""
        self._parts = parts._replace(coords=read_only(parts.coords), counts=read_only(parts.counts))
        self._nnz, self._total = parts.counts.size, int(parts.counts.sum())
        # Counted now: patterns that overlap too much are refused here, not in the middle of a fit.
        self._observed_cells = math.prod(parts.shape) - parts.missing.cells

    @property
    def _described(self) -> CanonicalParts:
        """The parts, of which the cells may not be there yet (sharded_tensor.py)."""
        return self._parts

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the modes.

        Returns
        -------
        tuple of int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().shape
        (3, 105, 16, 12, 20)
        """
        return self._described.shape

    @property
    def ndim(self) -> int:
        """The number of modes.

        Returns
        -------
        int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().ndim
        5
        """
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """The number of cells with a positive count.

        Returns
        -------
        int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().nnz
        16914
        """
        return self._nnz

    @property
    def total(self) -> int:
        """The sum of all counts.

        Returns
        -------
        int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().total
        336776
        """
        return self._total

    @property
    def largest(self) -> int:
        """The largest count.

        Returns
        -------
        int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [4, 3]).largest
        4
        """
        return int(self.counts.max())

    @property
    def volume(self) -> int:
        """The number of cells, observed or missing.

        Returns
        -------
        int

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().volume
        1209600
        """
        return math.prod(self.shape)

    @property
    def density(self) -> float:
        """The share of the observed cells that have a positive count.

        Returns
        -------
        float
            From 0 to 1.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [1, 0]], [3, 4]).density
        0.5
        """
        return self.nnz / self._observed_cells

    @property
    def coords(self) -> Integers:
        """The coordinates of the non-zeros: a sorted, read-only array (M, nnz), one column per cell.

        The type is int32, or int64 if a mode is too long for that.

        Returns
        -------
        ndarray of int32 or int64, shape (M, nnz)

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[1, 0], [0, 2]], [3, 4]).coords
        array([[0, 1],
               [2, 0]], dtype=int32)
        """
        return self._parts.coords

    @property
    def counts(self) -> Int64s:
        """The counts of the non-zeros: a read-only int64 array (nnz,), in the order of `coords`.

        Returns
        -------
        ndarray of int64, shape (nnz,)

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[1, 0], [0, 2]], [3, 4]).counts
        array([4, 3])
        """
        return self._parts.counts

    @property
    def labels(self) -> tuple[ModeLabels, ...]:
        """For each mode a tuple of its labels, or the range of its positions if it has no labels.

        Returns
        -------
        tuple of tuple of str, or of range

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[1, 0], [0, 2]], [3, 4], labels=[["Ada", "Max"], None]).labels
        (('Ada', 'Max'), range(0, 3))
        """
        return self._described.labels

    @property
    def mode_names(self) -> tuple[str, ...]:
        """The names of the modes.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().mode_names
        ('origin', 'destination', 'carrier', 'month', 'hour')
        """
        return self._described.mode_names

    @property
    def missing(self) -> Missing:
        """The missing cells.

        Returns
        -------
        Missing

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[1, 0], [0, 1]], [3, 4]).mask_diagonal().missing
        Missing: 2 patterns, 2 of 4 cells
        """
        return self._described.missing

    @property
    def report(self) -> EventReport | None:
        """What `read_events` did with the rows of the table; None for a tensor that was not made from events.

        The report describes the tensor as `read_events` made it. It is kept by all methods that return a tensor, by
        pickles, by `.npz` and `.parquet` files and by runs on disk. Tensors are compared without it.

        Returns
        -------
        EventReport or None

        Examples
        --------
        >>> import allocore as ac, pandas as pd
        >>> sales = pd.DataFrame({"store": ["A", "B", None], "item": ["tea", "rice", "tea"]})
        >>> Y = ac.read_events(sales, modes=["store", "item"])
        >>> Y.report.rows, Y.report.kept, Y.report.dropped
        (3, 2, {'no store': 1})
        """
        return self._described.report

    def mode(self, mode: int | str) -> int:
        """Return the position of a mode.

        Parameters
        ----------
        mode : int or str
            The name of the mode, or its index. Negative indices count from the end.

        Returns
        -------
        int
            The position, from 0 to `ndim` - 1.

        Raises
        ------
        InputError
            If there is no such mode.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.load_flights()
        >>> Y.mode("carrier"), Y.mode(-1)
        (2, 4)
        """
        if isinstance(mode, str) and mode in self.mode_names:
            return self.mode_names.index(mode)
        is_index = isinstance(mode, int | np.integer) and not isinstance(mode, bool)
        if is_index and -self.ndim <= int(mode) < self.ndim:
            return int(mode) % self.ndim
        raise InputError(
            f"mode {mode!r} does not exist: the modes are {', '.join(self.mode_names)} "
            f"(or {-self.ndim}..{self.ndim - 1})"
        )

    def mode_totals(self, mode: int | str) -> Int64s:
        """Return the sum of the counts at each position of a mode.

        Parameters
        ----------
        mode : int or str
            The mode, by name or by index.

        Returns
        -------
        ndarray of int64, shape (length of the mode,)
            The totals, in the order of the positions.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().mode_totals("origin")
        array([120835, 111279, 104662])
        """
        m = self.mode(mode)
        require_memory(8 * self.shape[m], f"an array of the totals of mode {self.mode_names[m]!r}")
        totals = np.zeros(self.shape[m], dtype=np.int64)
        np.add.at(totals, self.coords[m], self.counts)
        return totals

    def heaviest(self, mode: int | str, top: int = 5) -> list[tuple[str | int, int]]:
        """Return the labels of a mode with the largest totals.

        Parameters
        ----------
        mode : int or str
            The mode, by name or by index.
        top : int, default 5
            The largest number of labels to return. Labels without counts are left out.

        Returns
        -------
        list of (str or int, int)
            Labels (positions, if the mode has no labels) and totals, the largest first.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.load_flights().heaviest("origin", top=2)
        [('EWR Newark', 120835), ('JFK New York Kennedy', 111279)]
        """
        if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
            raise InputError(f"top must be a whole number of at least 1; got {top!r}")
        places, totals = self._totals_in_use(self.mode(mode))
        labels, order = self.labels[self.mode(mode)], np.argsort(-totals, kind="stable")[:top]
        return [(labels[int(places[d])], int(totals[d])) for d in order.tolist()]

    def _totals_in_use(self, m: int) -> tuple[Int64s, Int64s]:
        """Return the positions of a mode that have counts, and their totals. The mode itself may be very long."""
        if self.shape[m] <= _FEW + 4 * self.nnz:
            totals = self.mode_totals(m)
            places = np.flatnonzero(totals)
            return places, totals[places]
        places, which = np.unique(self.coords[m], return_inverse=True)
        totals = np.zeros(places.size, dtype=np.int64)
        np.add.at(totals, which, self.counts)
        return places.astype(np.int64), totals

    def __repr__(self) -> str:
        return display.as_text(self)

    def _repr_html_(self) -> str:
        return display.as_html(self)
