"""The sparse count tensor: immutable, and in one canonical form from construction on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.canonical import canonical, check_entries, drop_missing
from allocore.data.coordinates import Int64s, check_coordinates, check_shape
from allocore.data.labels import ModeLabels, check_labels, check_mode_names, fit_labels, resolve_patterns
from allocore.data.missing import WILDCARD, Missing
from allocore.data.tensor_parts import CanonicalParts, TensorParts
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse
    import sparse

MAX_DENSE_CELLS = 10**8

Labels = Sequence[Sequence[object] | None] | Mapping[str, Sequence[object] | None]
Patterns = Missing | NDArray[Any] | Sequence[Sequence[int | str | None]]


class CountTensor(TensorParts):
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

    @classmethod
    def _trusted(cls, parts: CanonicalParts) -> CountTensor:
        """Return a tensor of parts that are canonical already: nothing is checked, sorted or copied.

        Only for parts of another CountTensor. The arrays are locked.
        """
        tensor = cls.__new__(cls)
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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tensor to a file, all of it or nothing; `load_tensor` reads it back.

        Parameters
        ----------
        path : str or path-like
            The suffix names the format. `.npz` and `.parquet` keep everything. `.tns` and `.tns.gz` keep the counts
            alone, and tensors with missing cells are refused.

        Raises
        ------
        InputError
            If the suffix is not one of these, or if the file cannot be written.

        Examples
        --------
        >>> import allocore as ac, pathlib, tempfile
        >>> Y = ac.load_flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Y.save(pathlib.Path(folder) / "flights.parquet")
        ...     ac.load_tensor(pathlib.Path(folder) / "flights.parquet") == Y
        True
        """
        from allocore.data.files import save

        save(self, path)

    def to_scipy(self) -> scipy.sparse.coo_array:
        """Return the counts as a SciPy array with the same number of dimensions. Labels are lost.

        Returns
        -------
        scipy.sparse.coo_array
            The non-zeros.

        Raises
        ------
        InputError
            If the tensor has missing cells, which would become zeros.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_scipy().toarray()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        from allocore.data.export import to_scipy

        return to_scipy(self)

    def to_sparse(self) -> sparse.COO:
        """Return the counts as an array of pydata sparse, which must be installed. Labels are lost.

        Returns
        -------
        sparse.COO
            The non-zeros.

        Raises
        ------
        InputError
            If the tensor has missing cells, which would become zeros, or if `sparse` is not installed.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_sparse().todense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        from allocore.data.export import to_sparse

        return to_sparse(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the non-zeros as a pandas data frame, which `as_tensor` turns back into the same tensor.

        Returns
        -------
        pandas.DataFrame
            One row per non-zero: a column of labels for each mode, and a column of counts.

        Examples
        --------
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
        """Return the counts as a dense array, with zeros in missing cells.

        Returns
        -------
        ndarray of int64
            An array of the tensor's shape.

        Raises
        ------
        InputError
            If the tensor has more than 10^8 cells.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_dense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        if self.volume > MAX_DENSE_CELLS:
            raise InputError(f"to_dense allows at most {MAX_DENSE_CELLS:,} cells; this tensor has {self.volume:,}")
        dense = np.zeros(self.shape, dtype=np.int64)
        dense[tuple(self.coords)] = self.counts
        return dense

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
