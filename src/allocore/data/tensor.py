"""The sparse count tensor: immutable, and in one canonical form from construction on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.canonical import canonical, check_entries, drop_missing
from allocore.data.coordinates import check_coordinates, check_shape
from allocore.data.labels import ModeLabels, check_labels, check_mode_names, fit_labels, resolve_patterns
from allocore.data.missing import WILDCARD, Missing
from allocore.data.select_rows import chosen_rows, patterns_of, restricted
from allocore.data.tensor_exports import TensorExports
from allocore.data.tensor_parts import CanonicalParts
from allocore.errors import InputError

Labels = Sequence[Sequence[object] | None] | Mapping[str, Sequence[object] | None]
Patterns = Missing | NDArray[Any] | Sequence[Sequence[int | str | None]]


class CountTensor(TensorExports):
    """A sparse tensor of counts with named modes, labels and missing cells.

    The constructor brings the entries into canonical form: cells are sorted with mode 0 slowest, duplicates are
    summed, zeros and missing cells are dropped. A tensor cannot be changed; methods return new tensors.

    Parameters
    ----------
    coords : array-like of int, shape (M, n)
        Coordinates, counted from 0: one row per mode, one column per entry.
    counts : array-like of int, shape (n,)
        Non-negative whole numbers.
    shape : sequence of int, optional
        Lengths of the modes. By default each mode is as long as its labels, or just long enough for the coordinates.
    mode_names : sequence of str, optional
        One name per mode; mode_0, mode_1, ... by default.
    labels : sequence or dict, optional
        The labels of each mode, or None for a mode without labels: a sequence with one entry per mode, or a dict from
        mode names to labels.
    missing : Missing or patterns, optional
        Missing cells: a `Missing`, or patterns as for `with_missing`.

    Raises
    ------
    InputError
        If an argument breaks one of these rules, or if no positive count is left.

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

    __slots__ = ()

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
        names = check_mode_names(mode_names, len(given))
        checked_labels = check_labels(labels, names)
        if shape is None:
            reached = [max(1, int(column.max()) + 1) for column in given]
            sizes = zip(checked_labels, reached, strict=True)
            shape = [length if each is None else max(length, len(each)) for each, length in sizes]
        lengths = check_shape(shape, modes=len(given))
        fitted = fit_labels(checked_labels, lengths, names)
        check_coordinates(given, lengths, names)
        masked = _as_missing([] if missing is None else missing, lengths, names, fitted)
        cells, totals = drop_missing(*canonical(given, values, lengths), masked, masked)
        self._keep(CanonicalParts(cells, totals, lengths, names, fitted, masked))

    @staticmethod
    def _trusted(parts: CanonicalParts) -> CountTensor:
        """Return a tensor of parts that are canonical already: nothing is checked, sorted or copied.

        Only for parts of another CountTensor. The arrays are locked. It is in memory, wherever the parts are from.
        """
        tensor = CountTensor.__new__(CountTensor)
        tensor._keep(parts)
        return tensor

    def _replaced(self, **changes: Any) -> CountTensor:
        """Return the tensor with other parts, which must fit the rest: they are not checked."""
        return self._trusted(self._parts._replace(**changes))

    def binary(self) -> CountTensor:
        """Return the tensor with every count above 0 set to 1: which cells had events, not how many.

        Returns
        -------
        CountTensor

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [1, 0]], [9, 2]).binary().counts
        array([1, 1])
        """
        return self._replaced(counts=np.ones_like(self.counts))

    def mask_diagonal(self, modes: Sequence[int | str] = (0, 1)) -> CountTensor:
        """Return the tensor with the diagonal of two or more modes missing.

        Parameters
        ----------
        modes : sequence of int or str, default (0, 1)
            The modes, by name or by index. They must have the same length and the same labels.

        Returns
        -------
        CountTensor
            The tensor in which all cells with the same position in these modes are missing.

        Raises
        ------
        InputError
            If the modes do not share a diagonal, or if no positive count is left.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 0, 1], [0, 1, 0]], [9, 1, 2]).mask_diagonal()
        CountTensor: 2 x 2 (mode_0, mode_1), 2 non-zeros, 3 counts, 100% dense, 2 missing patterns
        """
        places = [modes] if isinstance(modes, str) else list(modes)
        chosen = [self.mode(mode) for mode in places]
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise InputError(f"modes must be two or more different modes; got {modes!r}")
        lengths = [self.shape[m] for m in chosen]
        if len(set(lengths)) > 1:
            raise InputError(f"modes {modes!r} have lengths {lengths}; a diagonal needs equal lengths")
        if len({self.labels[m] for m in chosen}) > 1:
            raise InputError(
                f"modes {modes!r} have different labels, so equal positions are not the same thing: "
                "a diagonal needs equal labels in equal order"
            )
        patterns = np.full((lengths[0], self.ndim), WILDCARD, dtype=np.int64)
        patterns[:, chosen] = np.arange(lengths[0])[:, None]
        return self.with_missing(patterns)

    def with_missing(self, patterns: Patterns) -> CountTensor:
        """Return the tensor with more cells missing. Counts in missing cells are dropped.

        Parameters
        ----------
        patterns : Missing, or sequence of patterns, or array of int, shape (P, M)
            A pattern has for each mode a position, a label, or None for all positions of that mode. In an integer
            array, -1 stands for None.

        Returns
        -------
        CountTensor
            The tensor in which these cells are missing too.

        Raises
        ------
        InputError
            If a pattern does not fit the tensor, or if no positive count is left.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1, 1], [2, 0, 1]], [5, 1, 2], labels=[["Ada", "Max"], None])
        >>> Y.with_missing([("Max", None), (0, 0)])
        CountTensor: 2 x 3 (mode_0, mode_1), 1 non-zero, 5 counts, 50% dense, 2 missing patterns
        """
        added = _as_missing(patterns, self.shape, self.mode_names, self.labels)
        missing = self.missing.union(added)
        # No non-zero lies in a cell that was missing before: only the new patterns can take some away.
        coords, counts = drop_missing(self.coords, self.counts, added, missing)
        return self._replaced(coords=coords, counts=counts, missing=missing)

    def with_labels(self, labels: Labels | None = None, mode_names: Sequence[str] | None = None) -> CountTensor:
        """Return the tensor with other labels or mode names. What is not given stays.

        Parameters
        ----------
        labels : sequence or dict, optional
            As for `CountTensor`. A dict goes by the new mode names, and modes that it does not name keep their labels.
        mode_names : sequence of str, optional
            One name per mode.

        Returns
        -------
        CountTensor
            The same cells with the new labels and names.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1], [1, 0]], [5, 1])
        >>> Y.with_labels({"buyer": ["Ada", "Max"]}, mode_names=["buyer", "month"])
        CountTensor: 2 x 2 (buyer, month), 2 non-zeros, 6 counts, 50% dense
        """
        names = self.mode_names if mode_names is None else check_mode_names(mode_names, self.ndim)
        if labels is None:
            return self._replaced(mode_names=names)
        if isinstance(labels, Mapping):
            labels = {**dict(zip(names, self.labels, strict=True)), **labels}
        return self._replaced(labels=fit_labels(check_labels(labels, names), self.shape, names), mode_names=names)

    def select(self, rows: Mapping[Any, Any] | None = None, /, **modes: Any) -> CountTensor:
        """Return the tensor of some rows of some modes, chosen by their labels.

        Parameters
        ----------
        rows : dict from mode to labels, optional
            For modes whose names cannot be keywords: `Y.select({"sold in": "2018"})`. Modes may also be indices.
        **modes
            For each mode that is named: a label, a slice of labels with both ends included, a list of labels, or a mask
            (one bool per row). If the labels are periods of time in order, a longer period stands for all of its
            periods ("2018" for the months of 2018), and the ends of a slice need not be labels themselves. A mode
            without labels takes positions instead, with slices as in Python: the end is excluded.

        Returns
        -------
        CountTensor
            The chosen rows in the order of this tensor, whatever the order of a list. A mode of which one label is
            chosen stays, with length 1. Missing cells stay missing. Positions without labels are counted from 0 again.

        Raises
        ------
        InputError
            If a mode or a label does not exist (the error names those that are near), or if no positive count is left.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.load_flights()
        >>> Y.select(month=slice("Jun", "Aug"), carrier=["United Air Lines", "Delta Air Lines"])
        CountTensor: 3 x 105 x 2 x 3 x 20 (origin, destination, carrier, month, hour), 1,351 non-zeros, ...
        >>> Y.select(origin="EWR Newark").shape
        (1, 105, 16, 12, 20)
        >>> Y.select(destination=Y.mode_totals("destination") >= 1000).shape
        (3, 58, 16, 12, 20)
        >>> Y.select(month=Y.labels[3][-2:]).labels[3]
        ('Nov', 'Dec')
        """
        return self._trusted(restricted(self._parts, chosen_rows(self, rows, modes, "select")))

    def mask_labels(self, rows: Mapping[Any, Any] | None = None, /, **modes: Any) -> CountTensor:
        """Return the tensor with some rows missing: periods or places that were not observed, and so are not zeros.

        Parameters
        ----------
        rows : dict from mode to labels, optional
            As for `select`.
        **modes
            As for `select`. If several modes are named, only the cells that are in the rows of all of them are missing:
            those that `select` would return.

        Returns
        -------
        CountTensor
            The tensor in which these cells are missing too. Their counts are dropped.

        Raises
        ------
        InputError
            If a mode or a label does not exist, or if no positive count is left.

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.load_flights()
        >>> list(Y.mask_labels(month="Feb", origin=["EWR Newark", "LGA New York LaGuardia"]).missing)
        [(0, None, None, 1, None), (2, None, None, 1, None)]
        """
        return self.with_missing(patterns_of(chosen_rows(self, rows, modes, "mask_labels"), self.shape))

    # Defining __eq__ alone makes the class unhashable, as intended: tensors are compared by content.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountTensor):
            return NotImplemented
        return (
            self.shape == other.shape
            and self.mode_names == other.mode_names
            and self.labels == other.labels
            and self.missing == other.missing
            and np.array_equal(self.coords, other.coords)
            and np.array_equal(self.counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return CountTensor._trusted, (self._parts,)


def _as_missing(
    patterns: Patterns, shape: tuple[int, ...], mode_names: tuple[str, ...], labels: tuple[ModeLabels, ...]
) -> Missing:
    if isinstance(patterns, Missing):
        return Missing.none(shape).union(patterns)
    if isinstance(patterns, np.ndarray):
        return Missing(patterns, shape)
    return Missing(resolve_patterns(patterns, labels, mode_names), shape)
