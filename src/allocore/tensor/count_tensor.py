"""The sparse count tensor: immutable, and in one canonical form from construction on; and the files it writes.

Our `.npz` format has plain arrays, never pickled objects: `format` (name and version), `coords`, `counts`, `shape`,
`missing` (patterns, -1 for a wildcard) and `header` (JSON with the mode names, the labels, and any report on events).
Data frames and Parquet files have the same in their `attrs` and metadata, so a round trip gives the same tensor. Arrays
of SciPy and pydata sparse, and FROSTT text (`.tns`: one entry per line, indices from 1, the value last), have no place
for it: labels are lost, and tensors with missing cells are refused, because these cells would come back as zeros.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from html import escape
from itertools import combinations
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore._io import no_file, path_of, remove_abandoned, replacing
from allocore._memory import require_memory
from allocore._text import plural, visible
from allocore.errors import NO_VALUE, Described, InputError, as_list, check_choice, reason_of, whole_number
from allocore.findings import Finding
from allocore.tensor.coordinates import (
    NOTHING_TO_FIT,
    Int64s,
    Integers,
    canonical,
    cell_ranges,
    check_coordinates,
    check_entries,
    check_shape,
    coordinate_type,
    fibre_order,
    locate,
    read_only,
    sums_by_row,
)
from allocore.tensor.labels import (
    ModeLabels,
    Rows,
    check_labels,
    check_mode_names,
    fit_labels,
    free_name,
    resolve_patterns,
    rows_of,
)
from allocore.tensor.missing import MAX_SIGNED_PATTERNS, WILDCARD, Missing, drop_missing
from allocore.tensor.shards import SHARDS, write_shards
from allocore.tensor.sql import write_parquet_file
from allocore.tensor.undirected import (
    Pair,
    as_pairs,
    diagonal,
    fold,
    in_both_directions,
    looks_undirected,
    mirrored,
)

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse
    import sparse

    from allocore.tensor.event_report import EventReport

FORMAT, VERSION = "allocore.CountTensor", 1
FRAME_KEY = f"{FORMAT}/{VERSION}"
COUNT = "count"
Labels = Sequence[Sequence[object] | None] | Mapping[str, Sequence[object] | None]
Patterns = Missing | NDArray[Any] | Sequence[Sequence[int | str | None]]
MAX_DENSE_CELLS = 10**8
_ROWS_PER_BLOCK = 100_000
_SMALL_MODE = 1_000_000  # rows; an array of that many totals is cheap
_LABELS_SHOWN, _HEAVIEST = 3, 5


class CanonicalParts(NamedTuple):
    """The parts of a tensor, in canonical form."""

    coords: Integers
    counts: Int64s
    shape: tuple[int, ...]
    mode_names: tuple[str, ...]
    labels: tuple[ModeLabels, ...]
    missing: Missing
    report: EventReport | None = None
    undirected: Pair | None = None


class CountTensor:
    """A sparse tensor of counts with named modes, labels and missing cells.

    The constructor brings the entries into canonical form: cells are sorted with mode 0 slowest, duplicates are
    summed, zeros and missing cells are dropped. A tensor has at least one positive count, and cannot be changed:
    methods return new tensors, or raise an `InputError` if no positive count is left.

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

    __slots__ = ("_nnz", "_parts", "_total")

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
        masked = _as_missing([] if missing is None else missing, lengths, names, fitted, "missing")
        cells, totals = drop_missing(*canonical(given, values, lengths), masked, masked)
        self._set_parts(CanonicalParts(cells, totals, lengths, names, fitted, masked))

    def _set_parts(self, parts: CanonicalParts, nnz: int | None = None, total: int | None = None) -> None:
        """Store the parts and make the arrays read-only. Sizes are given if the cells are not in the parts yet."""
        self._parts = parts._replace(coords=read_only(parts.coords), counts=read_only(parts.counts))
        self._nnz = parts.counts.size if nnz is None else nnz
        self._total = int(parts.counts.sum()) if total is None else total
        # Counted now, so that patterns that overlap too much raise an error here and not in the middle of a fit.
        _ = parts.missing.cells

    def _whole(self) -> CanonicalParts:
        return self._parts  # a tensor on disk reads its cells first

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the modes."""
        return self._parts.shape

    @property
    def ndim(self) -> int:
        """The number of modes."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """The number of cells with a positive count."""
        return self._nnz

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return self._total

    @property
    def max(self) -> int:
        """The largest count."""
        return int(self.counts.max())

    @property
    def volume(self) -> int:
        """The number of cells, observed or missing."""
        return math.prod(self.shape)

    @property
    def density(self) -> float:
        """The share of the observed cells that have a positive count."""
        return self.nnz / self.observed

    @property
    def observed(self) -> int:
        """The number of cells that are not missing. If ties are undirected, both directions of a pair are one cell."""
        return (self.volume - self.missing.cells) // (1 if self.undirected_modes is None else 2)

    @property
    def undirected_modes(self) -> tuple[int, int] | None:
        """The two modes, by index, between which ties are undirected; None if there are none (see `undirected`)."""
        return self._parts.undirected

    @property
    def coords(self) -> Integers:
        """The coordinates of the non-zeros: a sorted, read-only array (M, nnz) of int32, or int64 if a mode is long."""
        return self._whole().coords

    @property
    def counts(self) -> Int64s:
        """The counts of the non-zeros: a read-only int64 array (nnz,), in the order of `coords`."""
        return self._whole().counts

    def blocks(self) -> Iterator[tuple[Integers, Int64s]]:
        """Return the non-zeros block by block: of a tensor in shards, one shard after the other.

        Returns
        -------
        iterator of tuples of two ndarrays
            Coordinates, shape (M, n), and counts, shape (n,), of some cells. Each cell is in one block. The order is
            that of `coords` and `counts`, unless the tensor is in shards.

        Examples
        --------
        >>> max(int(counts.max()) for coords, counts in Y.blocks()) == Y.max
        True
        """
        return ((self.coords[:, cells], self.counts[cells]) for cells in cell_ranges(self.nnz))

    @property
    def labels(self) -> tuple[ModeLabels, ...]:
        """For each mode a tuple of its labels, or the range of its positions if it has no labels."""
        return self._parts.labels

    @property
    def mode_names(self) -> tuple[str, ...]:
        """The names of the modes."""
        return self._parts.mode_names

    @property
    def missing(self) -> Missing:
        """The missing cells."""
        return self._parts.missing

    @property
    def report(self) -> EventReport | None:
        """What `read_events` did with the rows of the table; None for a tensor that was not made from events.

        Tensors made from this one, pickles, runs and files (except `.tns`) keep it. Comparing tensors ignores it.
        """
        return self._parts.report

    @property
    def incomplete(self) -> dict[str, tuple[int, int]]:
        """The periods that may be incomplete, each with the number of its observed days and of all its days."""
        found = {} if self.report is None else self.report.incomplete
        labels = {label for each in self.labels if found and isinstance(each, tuple) for label in each}
        return {label: days for label, days in found.items() if label in labels}

    @property
    def exposures(self) -> dict[str, dict[str, float]]:
        """The weights of periods that `read_events` was asked for, by mode and label. Fits use them unless told not to.

        See `exposure` and `incomplete` of `read_events`. A period that was added without a weight has the weight 1.
        """
        known = {} if self.report is None else self.report.exposures
        modes = dict(zip(self.mode_names, self.labels, strict=True)) if known else {}
        found = {name: labels for name, labels in modes.items() if not known.keys().isdisjoint(labels)}
        return {name: {str(label): known.get(str(label), 1.0) for label in labels} for name, labels in found.items()}

    def mode(self, mode: int | str) -> int:
        """Return the position of a mode.

        Parameters
        ----------
        mode : int or str
            The name of the mode, or its index. Negative indices count from the end.

        Returns
        -------
        int

        Examples
        --------
        >>> Y.mode("carrier"), Y.mode(-1)
        (2, 4)
        """
        return mode_index(self, mode)

    def mode_totals(self, mode: int | str) -> Int64s:
        """Return the sum of the counts at each position of a mode. An undirected tie counts at both of its ends.

        Parameters
        ----------
        mode : int or str
            The mode, by name or by index.

        Returns
        -------
        ndarray of int64, shape (length of the mode,)

        Examples
        --------
        >>> Y.mode_totals("origin")
        array([120835, 111279, 104662])
        """
        return self._row_totals(self.mode(mode))

    def _row_totals(self, m: int) -> Int64s:
        require_memory(16 * self.shape[m], f"an array of the totals of mode {self.mode_names[m]!r}")
        ends = [sums_by_row(self.coords[end], self.counts, self.shape[m]) for end in self._ends(m)]
        return ends[0] if len(ends) == 1 else ends[0] + ends[1]

    def _ends(self, m: int) -> tuple[int, ...]:
        """The modes in which a row of mode m occurs: both ends of undirected ties, or only the mode itself."""
        pair = self.undirected_modes or ()
        return pair if m in pair else (m,)

    def top_labels(self, mode: int | str, top: int = 5) -> list[tuple[str | int, int]]:
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
        >>> Y.top_labels("origin", top=2)
        [('EWR Newark', 120835), ('JFK New York Kennedy', 111279)]
        """
        m = self.mode(mode)
        positions, totals = self.positive_totals(m)
        order = np.argsort(-totals, kind="stable")[: whole_number("top", top)]
        return [(self.labels[m][int(positions[d])], int(totals[d])) for d in order.tolist()]

    def positive_totals(self, mode: int | str) -> tuple[Int64s, Int64s]:
        """Return the positions of a mode that have counts, and their totals. The mode itself may be very long.

        Parameters
        ----------
        mode : int or str
            The mode, by name or by index.

        Returns
        -------
        tuple of two ndarrays of int64
            The positions, rising, and the sum of the counts at each.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 2], [1, 0]], [3, 4]).positive_totals(0)
        (array([0, 2]), array([3, 4]))
        """
        m = self.mode(mode)
        if self.shape[m] <= _SMALL_MODE + 4 * self.nnz or not self._parts.counts.size:  # a shard's totals are on disk
            totals = self._row_totals(m)
            positions = np.flatnonzero(totals)
            return positions, totals[positions]
        ends = self._ends(m)
        positions, which = np.unique(self.coords[list(ends)].ravel(), return_inverse=True)
        return positions.astype(np.int64), sums_by_row(which, np.tile(self.counts, len(ends)), positions.size)

    def binarize(self) -> CountTensor:
        """Return the tensor with every count above 0 set to 1: which cells had events, not how many.

        Returns
        -------
        CountTensor

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [1, 0]], [9, 2]).binarize().counts
        array([1, 1])
        """
        return with_parts(self, counts=np.ones_like(self.counts))

    def mask_diagonal(self, modes: Sequence[int | str] = (0, 1)) -> CountTensor:
        """Return the tensor with the diagonal missing: the cells with the same position in two or more modes.

        Parameters
        ----------
        modes : sequence of int or str, default (0, 1)
            The modes, by name or by index. They must have the same length and the same labels.

        Returns
        -------
        CountTensor

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 0, 1], [0, 1, 0]], [9, 1, 2]).mask_diagonal()
        CountTensor: 2 x 2 (mode_0, mode_1), 2 non-zeros, 3 counts, 100% dense, 2 missing patterns
        """
        return self.with_missing(diagonal(self.shape, self._alike(modes)))

    def _alike(self, modes: Sequence[int | str]) -> tuple[int, ...]:
        """Return two or more modes with equal labels, which have a diagonal, by index."""
        rule = "must be two or more different modes"
        given = [modes] if isinstance(modes, str) else as_list("modes", modes, rule)
        chosen = [mode_index(self, mode, "modes") for mode in given]
        if len(chosen) < 2 or len(set(chosen)) < len(chosen):
            raise InputError("modes", modes, rule)
        lengths = [self.shape[m] for m in chosen]
        if len(set(lengths)) > 1:
            raise InputError("modes", modes, f"must have the same labels, but they have the lengths {lengths}")
        if len({self.labels[m] for m in chosen}) > 1:
            raise InputError("modes", modes, "must have the same labels in the same order")
        return tuple(chosen)

    def undirected(
        self, modes: Sequence[int | str] = (0, 1), *, asymmetric: Literal["error", "sum"] = "error"
    ) -> CountTensor:
        """Return the tensor with undirected ties between two modes: the pair {i, j} is one cell, in either order.

        Cells are kept with i before j, and the diagonal is missing. The rate of a pair is the sum of the rates of both
        directions. Hold-outs, missing cells, predictions and scores are those of pairs.

        Parameters
        ----------
        modes : pair of int or str, default (0, 1)
            The modes, by name or by index. They must have the same labels.
        asymmetric : {"error", "sum"}, default "error"
            Every pair may be given in one direction, all with i before j (or all with j before i), or in both
            directions with equal counts, which are taken once. "sum" adds up the two directions of other counts.

        Returns
        -------
        CountTensor
            Missing cells are missing in both directions. If the diagonal has counts, drop them with `mask_diagonal`
            first. `select` takes the chosen labels of either mode in both, and `mask` all ties of the chosen labels.

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1, 2, 0], [1, 0, 0, 2]], [5, 5, 1, 1]).undirected()
        CountTensor: 3 x 3 (mode_0, mode_1), undirected between mode_0 and mode_1, 2 non-zeros, 6 counts, 67% dense, ...
        """
        check_choice("asymmetric", asymmetric, ("error", "sum"))
        if not isinstance(modes, str) and isinstance(modes, Sequence) and len(modes) > 2:
            raise InputError("modes", modes, "must be two: an undirected tie has two ends")
        first, second = sorted(self._alike(modes))
        pair: Pair = (first, second)
        if self.undirected_modes is not None:
            if pair == self.undirected_modes:
                return self
            one, other = (self.mode_names[m] for m in self.undirected_modes)
            raise InputError("modes", modes, f"must be {one} and {other}, between which ties are undirected already")
        if loops := int(self.counts[self.coords[pair[0]] == self.coords[pair[1]]].sum()):
            given = Described(f"modes with {plural(loops, 'count')} on the diagonal")
            rule = "must have none there, because a tie has two ends: mask_diagonal drops them"
            raise InputError("modes", given, rule)
        missing = in_both_directions(self.missing, pair)
        coords, counts = drop_missing(self.coords, self.counts, missing, missing)
        coords, counts = fold(coords, counts, self.shape, pair, asymmetric)
        return with_parts(self, coords=coords, counts=counts, missing=missing, undirected=pair)

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

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1, 1], [2, 0, 1]], [5, 1, 2], labels=[["Ada", "Max"], None])
        >>> Y.with_missing([("Max", None), (0, 0)])
        CountTensor: 2 x 3 (mode_0, mode_1), 1 non-zero, 5 counts, 50% dense, 2 missing patterns
        """
        added = _as_missing(patterns, self.shape, self.mode_names, self.labels)
        if self.undirected_modes is not None:
            added = in_both_directions(added, self.undirected_modes)
        missing = self.missing.union(added)
        # No non-zero lies in a cell that was missing before: only the new patterns can take some away.
        coords, counts = drop_missing(self.coords, self.counts, added, missing)
        return with_parts(self, coords=coords, counts=counts, missing=missing)

    def with_labels(self, labels: Labels | None = None, mode_names: Sequence[str] | None = None) -> CountTensor:
        """Return the tensor with other labels or mode names. What is not given stays.

        Parameters
        ----------
        labels : sequence or dict, optional
            As for `CountTensor`. A dict goes by the new mode names, and modes that it does not name keep their labels.
            Labels of one end of undirected ties are those of both.
        mode_names : sequence of str, optional
            One name per mode.

        Returns
        -------
        CountTensor

        Examples
        --------
        >>> import allocore as ac
        >>> Y = ac.CountTensor([[0, 1], [1, 0]], [5, 1])
        >>> Y.with_labels({"buyer": ["Ada", "Max"]}, mode_names=["buyer", "month"])
        CountTensor: 2 x 2 (buyer, month), 2 non-zeros, 6 counts, 50% dense
        """
        names = self.mode_names if mode_names is None else check_mode_names(mode_names, self.ndim)
        if labels is None:
            return with_parts(self, mode_names=names)
        if isinstance(labels, Mapping):
            ends = [names[m] for m in self.undirected_modes or ()]
            given = [labels[end] for end in ends if end in labels]
            both = dict.fromkeys(ends, given[0]) if given else {}
            labels = {**dict(zip(names, self.labels, strict=True)), **both, **labels}
        changed = fit_labels(check_labels(labels, names), self.shape, names)
        if len({changed[m] for m in self.undirected_modes or ()}) > 1:
            raise InputError("labels", NO_VALUE, "must be the same for both ends of undirected ties")
        return with_parts(self, labels=changed, mode_names=names, report=_renamed(self.report, self.labels, changed))

    def select(self, rows: Mapping[Any, Any] | None = None, /, **modes: Any) -> CountTensor:
        """Return the tensor of some rows of some modes, chosen by their labels.

        Parameters
        ----------
        rows : dict from mode to labels, optional
            For modes whose names cannot be keywords: `Y.select({"sold in": "2018"})`. Modes may also be indices.
        **modes
            For each mode that is named: a label, a slice of labels with both ends included, a list of labels, or a mask
            (one bool per row). If the labels are periods of time in order, a longer period means all of its periods
            ("2018" the months of 2018), and the ends of a slice need not be labels. A mode without labels takes
            positions, with slices as in Python.

        Returns
        -------
        CountTensor
            The chosen rows in the order of this tensor, whatever the order of a list. A mode of which one label is
            chosen stays, with length 1. Missing cells stay missing. Positions without labels are counted from 0 again.

        Examples
        --------
        >>> Y.select(month=slice("Jun", "Aug"), carrier=["United Air Lines", "Delta Air Lines"])
        CountTensor: 3 x 105 x 2 x 3 x 20 (origin, destination, carrier, month, hour), 1,351 non-zeros, ...
        >>> Y.select(origin="EWR Newark").shape
        (1, 105, 16, 12, 20)
        >>> Y.select(destination=Y.mode_totals("destination") >= 1000).shape
        (3, 58, 16, 12, 20)
        >>> Y.select(month=Y.labels[3][-2:]).labels[3]
        ('Nov', 'Dec')
        """
        chosen = _at_both_ends(_chosen_rows(self, rows, modes), self.undirected_modes)
        return trusted_tensor(_restricted(self._whole(), chosen))

    def mask(self, rows: Mapping[Any, Any] | None = None, /, **modes: Any) -> CountTensor:
        """Return the tensor with some rows missing: periods or places that were not observed, and so are not zeros.

        Parameters
        ----------
        rows, modes : as for `select`
            The cells that `select` would return: if several modes are named, those in the rows of all of them.

        Returns
        -------
        CountTensor
            The tensor in which these cells are missing too. Their counts are dropped.

        Examples
        --------
        >>> list(Y.mask(month="Feb", origin=["EWR Newark", "LGA New York LaGuardia"]).missing)
        [(0, None, None, 1, None), (2, None, None, 1, None)]
        """
        return self.with_missing(_patterns_of(_chosen_rows(self, rows, modes), self.shape))

    def save(self, path: str | os.PathLike[str], *, shards: int | None = None) -> None:
        """Write the tensor to a file, or to a folder of shards, completely or not at all; `load_tensor` reads it back.

        Parameters
        ----------
        path : str or path-like
            The suffix names the format. `.npz` and `.parquet` store everything. `.tns` and `.tns.gz` store only the
            counts, and raise an error if cells are missing. `.zarr` is a folder that stores everything in shards
            (`ShardedTensor`), for fits on a cluster.
        shards : int, optional
            Only for `.zarr`: the number of shards, of at least 1,024 cells each; 16 by default. A few times the number
            of workers is a good choice if workers differ in speed.

        Examples
        --------
        >>> import pathlib
        >>> import tempfile
        >>> import allocore as ac
        >>> Y = ac.load_flights()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Y.save(pathlib.Path(folder) / "flights.parquet")
        ...     ac.load_tensor(pathlib.Path(folder) / "flights.parquet") == Y
        True
        """
        target = path_of(path)
        if target.suffix == ".zarr":
            write_shards(target, self, *self._fibre_parts(), SHARDS if shards is None else shards)
        elif shards is not None:
            raise InputError("shards", shards, f"must be None unless `path` ends in .zarr; the path is {str(path)!r}")
        elif not target.name.endswith((".npz", ".parquet", ".tns", ".tns.gz")):
            raise InputError("path", str(target), "must end in .npz, .parquet, .tns, .tns.gz or .zarr")
        elif kind := no_file(target):
            raise InputError("path", str(target), f"must be a file, and this is {kind}")
        else:
            remove_abandoned(target)
            write = {".npz": _write_npz, ".parquet": _write_parquet}.get(target.suffix, _write_tns)
            try:
                write(self, target)
            except OSError as error:
                raise InputError("path", str(target), f"cannot be written: {reason_of(error)}") from error

    def to_scipy(self) -> scipy.sparse.coo_array:
        """Return the counts as a SciPy array. Labels are lost; missing cells raise an `InputError`: they are not zeros.

        Returns
        -------
        scipy.sparse.coo_array

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_scipy().toarray()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        import scipy.sparse

        _refuse_missing(self, "an array of SciPy", "use to_frame or save")
        return scipy.sparse.coo_array((self.counts.copy(), tuple(np.array(self.coords))), self.shape)

    def to_sparse(self) -> sparse.COO:
        """Return the counts as an array of pydata sparse, which must be installed. The rest is as for `to_scipy`.

        Returns
        -------
        sparse.COO

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_sparse().todense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        try:
            import sparse
        except ImportError:
            raise InputError("to_sparse", NO_VALUE, "needs the package sparse: pip install sparse") from None
        _refuse_missing(self, "an array of pydata sparse", "use to_frame or save")
        return sparse.COO(np.array(self.coords), self.counts.copy(), self.shape)

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
        import pandas as pd

        columns: dict[str, Any] = {}
        for name, labels, coords in zip(self.mode_names, self.labels, self.coords, strict=True):
            positions = coords.astype(np.int64)
            columns[name] = positions if isinstance(labels, range) else np.array(labels, dtype=object)[positions]
        frame = pd.DataFrame(columns | {count_column(self.mode_names): self.counts})
        frame.attrs[FRAME_KEY] = {
            "shape": list(self.shape),
            "mode_names": list(self.mode_names),
            "labels": _given_labels(self),
            "missing": self.missing.patterns.tolist(),
            "report": None if self.report is None else self.report.to_json(),
            **_undirected(self),
        }
        return frame

    def to_dense(self) -> Int64s:
        """Return the counts as a dense array, with zeros in missing cells. At most 10^8 cells are allowed.

        Undirected ties are in both directions, so that the array is symmetric.

        Returns
        -------
        ndarray of int64

        Examples
        --------
        >>> import allocore as ac
        >>> ac.CountTensor([[0, 1], [2, 0]], [5, 1]).to_dense()
        array([[0, 0, 5],
               [1, 0, 0]])
        """
        if self.volume > MAX_DENSE_CELLS:
            given = Described(f"a tensor of {self.volume:,} cells")
            raise InputError("tensor", given, f"must have at most {MAX_DENSE_CELLS:,} cells to become a dense array")
        dense = np.zeros(self.shape, dtype=np.int64)
        dense[tuple(self.coords)] = self.counts
        if self.undirected_modes is not None:
            dense[tuple(mirrored(self.coords, self.undirected_modes))] = self.counts
        return dense

    def _fibre_parts(self) -> tuple[tuple[int, ...], Iterator[tuple[Integers, Int64s]]]:
        """Return the order of the modes by which cells are sorted into fibres, and the sorted cells in parts."""
        order = fibre_order([self.coords], self.shape, self.nnz)
        place = np.lexsort([self.coords[m] for m in reversed(order)]) if order != tuple(range(self.ndim)) else None

        def parts() -> Iterator[tuple[Integers, Int64s]]:
            for cells in cell_ranges(self.nnz):
                which: Any = cells if place is None else place[cells]
                yield self.coords[:, which], self.counts[which]

        return order, parts()

    # Defining only __eq__ makes the class unhashable, as intended: tensors are compared by content.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountTensor):
            return NotImplemented
        return (
            self.shape == other.shape
            and self.mode_names == other.mode_names
            and self.labels == other.labels
            and self.undirected_modes == other.undirected_modes
            and self.missing == other.missing
            and np.array_equal(self.coords, other.coords)
            and np.array_equal(self.counts, other.counts)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return trusted_tensor, (self._whole(),)

    def __repr__(self) -> str:
        return summary_line(self, type(self).__name__)

    def _repr_html_(self) -> str:
        rows = []
        for m, (name, length) in enumerate(zip(self.mode_names, self.shape, strict=True)):
            top = "; ".join(f"{label} ({count:,})" for label, count in self.top_labels(m, top=_LABELS_SHOWN))
            rows.append(f"<tr><td>{escape(name)}</td><td>{length:,}</td><td>{escape(top)}</td></tr>")
        return (
            f"<table><caption>{type(self).__name__}: {', '.join(_facts(self))}</caption>"
            "<thead><tr><th>mode</th><th>length</th><th>top labels (counts)</th></tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )


def trusted_tensor(parts: CanonicalParts, nnz: int | None = None, total: int | None = None) -> CountTensor:
    """Return a tensor of canonical parts of another: nothing is checked or copied, and the arrays become read-only.

    Its sizes are given if its cells are not in the parts.
    """
    tensor = CountTensor.__new__(CountTensor)
    tensor._set_parts(parts, nnz, total)
    return tensor


def with_parts(tensor: CountTensor, **changes: Any) -> CountTensor:
    """Return the tensor with other parts, such as `report`, which must fit the rest: they are not checked."""
    return trusted_tensor(tensor._whole()._replace(**changes))


def both_directions(tensor: CountTensor) -> CountTensor:
    """Return a tensor of directed ties that has every undirected tie in both directions, with its count in each."""
    pair = tensor.undirected_modes
    if pair is None:
        return tensor
    cells = np.concatenate([tensor.coords, mirrored(tensor.coords, pair)], axis=1), np.tile(tensor.counts, 2)
    coords, counts = canonical(*cells, tensor.shape)
    return with_parts(tensor, coords=coords, counts=counts, undirected=None)


def undirected_finding(tensor: CountTensor) -> Finding | None:
    """Return a finding that asks whether ties are undirected, if all are in one direction, or equal in both."""
    if tensor.undirected_modes is not None:
        return None
    for pair in combinations(range(tensor.ndim), 2):
        if isinstance(tensor.labels[pair[0]], tuple) and tensor.labels[pair[0]] == tensor.labels[pair[1]]:
            kind = looks_undirected(tensor.coords, tensor.counts, tensor.shape, pair)
            if kind is not None:
                names = [tensor.mode_names[mode] for mode in pair]
                return Finding(kind, "caution", {"modes": names, "argument": "undirected"})
    return None


def cells_of(tensor: CountTensor, coords: NDArray[Any]) -> NDArray[Any]:
    """Return cells (M, n) as the tensor keeps them: pairs of undirected ties may be given in either direction."""
    return coords if tensor.undirected_modes is None else as_pairs(coords, tensor.undirected_modes)


def mode_index(tensor: CountTensor, mode: int | str, argument: str = "mode") -> int:
    """Return the position of a mode, given by name or by index; an error names the argument."""
    if isinstance(mode, str) and mode in tensor.mode_names:
        return tensor.mode_names.index(mode)
    is_index = isinstance(mode, int | np.integer) and not isinstance(mode, bool)
    if is_index and -tensor.ndim <= int(mode) < tensor.ndim:
        return int(mode) % tensor.ndim
    names = ", ".join(tensor.mode_names)
    rule = f"must be one of the modes {names}, or an index from {-tensor.ndim} to {tensor.ndim - 1}"
    raise InputError(argument, mode, rule)


def _as_missing(
    patterns: Patterns,
    shape: tuple[int, ...],
    mode_names: tuple[str, ...],
    labels: tuple[ModeLabels, ...],
    argument: str = "patterns",
) -> Missing:
    try:
        if isinstance(patterns, Missing):
            return Missing.none(shape).union(patterns)
        if isinstance(patterns, np.ndarray):
            return Missing(patterns, shape)
        return Missing(resolve_patterns(patterns, labels, mode_names), shape)
    except InputError as error:
        raise InputError(argument, error.value, error.rule) from None


def _chosen_rows(
    tensor: CountTensor, by_dict: Mapping[Any, object] | None, by_name: Mapping[str, object]
) -> dict[int, Rows]:
    if by_dict is not None and not isinstance(by_dict, Mapping):
        raise InputError("rows", by_dict, "must be a dict from modes to labels, or modes must be given by name")
    chosen: dict[int, Rows] = {}
    for given, wanted in [*(by_dict or {}).items(), *by_name.items()]:
        mode = tensor.mode(given)
        name = tensor.mode_names[mode]
        if mode in chosen:
            raise InputError("rows", Described("a dict"), f"must name mode {name!r} only once")
        chosen[mode] = rows_of(tensor.labels[mode], wanted, name, name)
    return chosen


def _at_both_ends(chosen: dict[int, Rows], pair: Pair | None) -> dict[int, Rows]:
    """Return the chosen rows, which undirected ties have at both ends."""
    given = [chosen[mode] for mode in pair or () if mode in chosen]
    if len(given) > 1 and not np.array_equal(given[0], given[1]):
        raise InputError("rows", NO_VALUE, "must be the same for both ends of undirected ties")
    return chosen | dict.fromkeys(pair, given[0]) if pair is not None and given else chosen


def _restricted(parts: CanonicalParts, chosen: Mapping[int, Rows]) -> CanonicalParts:
    """Return the parts with only the chosen rows, renumbered. That keeps the order, so they stay in canonical form."""
    inside = np.ones(parts.counts.size, dtype=bool)
    for mode, rows in chosen.items():
        inside &= _renumbered(parts.coords[mode], rows) >= 0
    if not inside.any():
        raise InputError("rows", rule=NOTHING_TO_FIT)
    lengths, labels = list(parts.shape), list(parts.labels)
    coords, patterns = parts.coords[:, inside].astype(np.int64), parts.missing.patterns.copy()
    left = np.ones(len(patterns), dtype=bool)
    for mode, rows in chosen.items():
        lengths[mode], own = len(rows), labels[mode]
        labels[mode] = range(len(rows)) if isinstance(own, range) else tuple(own[place] for place in rows)
        coords[mode] = _renumbered(coords[mode], rows)
        is_wild = patterns[:, mode] == WILDCARD
        patterns[:, mode] = _renumbered(patterns[:, mode], rows)  # -1 again for a wildcard, which is no row
        left &= is_wild | (patterns[:, mode] >= 0)
    shape = tuple(lengths)
    return parts._replace(
        coords=coords.astype(coordinate_type(shape)),
        counts=parts.counts[inside],
        shape=shape,
        labels=tuple(labels),
        missing=Missing._trusted(patterns[left], shape),
    )


def _renumbered(positions: NDArray[Any], rows: Rows) -> Int64s:
    """Return the place of each position among the rows, or -1 if it is not one of them."""
    values = positions.astype(np.int64)
    if not isinstance(rows, range):
        return locate(values, rows)
    place, remainder = np.divmod(values - rows.start, rows.step)
    return np.where((remainder == 0) & (place >= 0) & (place < len(rows)), place, -1)


def _patterns_of(chosen: Mapping[int, Rows], shape: tuple[int, ...]) -> Int64s:
    """Return patterns that cover the cells in which every mode has one of its chosen rows."""
    part = {mode: rows for mode, rows in chosen.items() if len(rows) < shape[mode]}
    number = math.prod(len(rows) for rows in part.values())
    if number > MAX_SIGNED_PATTERNS:
        given = Described(f"a selection of {number:,} patterns")
        raise InputError("rows", given, f"must be at most {MAX_SIGNED_PATTERNS:,} patterns")
    patterns = np.full((number, len(shape)), WILDCARD, dtype=np.int64)
    if part:
        grid = np.meshgrid(*(np.asarray(rows, dtype=np.int64) for rows in part.values()), indexing="ij")
        for mode, column in zip(part, grid, strict=True):
            patterns[:, mode] = column.ravel()
    return patterns


def missing_diagonals(tensor: CountTensor) -> list[tuple[int, ...]]:
    """Return the groups of modes with the same labels whose whole diagonal is missing, as `mask_diagonal` makes it."""
    labelled = [mode for mode, labels in enumerate(tensor.labels) if isinstance(labels, tuple)]
    groups = [group for size in range(2, len(labelled) + 1) for group in combinations(labelled, size)]
    same = [group for group in groups if len({tensor.labels[mode] for mode in group}) == 1]
    return [group for group in same if _is_missing(tensor, group)]


def _is_missing(tensor: CountTensor, modes: tuple[int, ...]) -> bool:
    """Return whether patterns that fix only these modes cover their diagonal; one may cover all cells of an actor."""
    patterns = tensor.missing.patterns
    fixed = patterns != WILDCARD
    inside = fixed.sum(axis=1) == fixed[:, modes].sum(axis=1)
    rows = patterns[inside][:, modes]
    place = rows.max(axis=1, initial=WILDCARD)
    on_diagonal = ((rows == place[:, None]) | (rows == WILDCARD)).all(axis=1)
    is_whole = np.unique(place[on_diagonal]).size == tensor.shape[modes[0]]
    return is_whole and bool((fixed[inside][on_diagonal].sum(axis=1) == len(modes)).any())


def _facts(tensor: CountTensor) -> list[str]:
    percent = 100 * tensor.density
    ends = [tensor.mode_names[mode] for mode in tensor.undirected_modes or ()]
    facts = [f"undirected between {' and '.join(ends)}"] if ends else []
    facts += [
        plural(tensor.nnz, "non-zero"),
        plural(tensor.total, "count"),
        f"{percent:.0f}% dense" if percent >= 10 else f"{percent:.2g}% dense",
    ]
    if len(tensor.missing):
        facts.append(plural(len(tensor.missing), "missing pattern"))
    shards = getattr(tensor, "shards", None)
    return facts if shards is None else [*facts, f"in {plural(shards, 'shard')}"]


def summary_line(tensor: CountTensor, kind: str = "CountTensor") -> str:
    """Return the line that `repr` shows; it begins with the kind of the tensor."""
    lengths = " x ".join(str(length) for length in tensor.shape)
    return visible(", ".join([f"{kind}: {lengths} ({', '.join(tensor.mode_names)})", *_facts(tensor)]))


def _renamed(
    report: EventReport | None, before: tuple[ModeLabels, ...], after: tuple[ModeLabels, ...]
) -> EventReport | None:
    """Return the report with the new labels of the periods whose observed days it knows."""
    if report is None or not report.incomplete | report.exposures:
        return report
    pairs = (zip(old, new, strict=True) for old, new in zip(before, after, strict=True) if old != new)
    name_of = {str(old): str(new) for each in pairs for old, new in each}
    incomplete = {name_of.get(label, label): days for label, days in report.incomplete.items()}
    exposures = {name_of.get(label, label): weight for label, weight in report.exposures.items()}
    return replace(report, incomplete=incomplete, exposures=exposures)


def heaviest_labels(tensor: CountTensor) -> dict[str, list[tuple[str | int, int]]]:
    """Return for each mode the labels with the largest counts, as the report on events has them."""
    return {name: tensor.top_labels(mode, _HEAVIEST) for mode, name in enumerate(tensor.mode_names)}


def _write_npz(tensor: CountTensor, target: Path) -> None:
    header: dict[str, Any] = {"mode_names": tensor.mode_names, "labels": _given_labels(tensor), **_undirected(tensor)}
    if tensor.report is not None:
        header["report"] = tensor.report.to_json()
    with replacing(target) as file:
        np.savez_compressed(
            file,
            format=np.array(FRAME_KEY),
            coords=tensor.coords,
            counts=tensor.counts,
            shape=np.array(tensor.shape, dtype=np.int64),
            missing=tensor.missing.patterns,
            header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
        )


def _given_labels(tensor: CountTensor) -> list[list[str] | None]:
    return [list(each) if isinstance(each, tuple) else None for each in tensor.labels]


def _undirected(tensor: CountTensor) -> dict[str, list[int]]:
    """What files say about undirected ties; nothing if there are none."""
    return {} if tensor.undirected_modes is None else {"undirected": list(tensor.undirected_modes)}


def _write_parquet(tensor: CountTensor, target: Path) -> None:
    frame, names = tensor.to_frame(), list[str]()
    for name in (*tensor.mode_names, COUNT):
        while name.casefold() in [other.casefold() for other in names]:  # duckdb takes these for the same
            name += "_"
        names.append(name)
    metadata = json.dumps(frame.attrs[FRAME_KEY] | {"columns": names})
    with replacing(target) as file:
        write_parquet_file(frame, names, file.name, {FRAME_KEY: metadata})


def count_column(mode_names: tuple[str, ...]) -> str:
    """Return the name of the column of counts: "count", unless a mode has that name."""
    return free_name(COUNT, mode_names)


def _write_tns(tensor: CountTensor, target: Path) -> None:
    _refuse_missing(tensor, "a .tns file", "save it as .npz, .parquet or .zarr")
    line = " ".join(["%d"] * (tensor.ndim + 1)) + "\n"
    with replacing(target) as file, ExitStack() as stack:
        out: IO[bytes] | gzip.GzipFile = file
        if target.suffix == ".gz":
            # No name and no time in the header, so that equal tensors give equal files.
            out = stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0))
        for start in range(0, tensor.nnz, _ROWS_PER_BLOCK):
            block = slice(start, start + _ROWS_PER_BLOCK)
            rows = np.vstack([tensor.coords[:, block].astype(np.int64) + 1, tensor.counts[block]]).T
            # One format string for the whole block is many times faster than one per line.
            out.write((line * len(rows) % tuple(rows.ravel().tolist())).encode())


def _refuse_missing(tensor: CountTensor, what: str, advice: str) -> None:
    if len(tensor.missing):
        patterns = plural(len(tensor.missing), "missing pattern")
        rule = f"must have no missing cells, which {what} cannot hold; {advice}"
        raise InputError("tensor", Described(f"a tensor with {patterns}"), rule)
