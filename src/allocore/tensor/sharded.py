"""Count tensors whose cells stay on disk, in shards or in a table, until something needs all of them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from allocore._io import path_of
from allocore.errors import InputError, StoreError
from allocore.tensor.coordinates import Int64s, Integers, canonical, check_shape, coordinate_type, fibre_order
from allocore.tensor.count_tensor import CanonicalParts, CountTensor, trusted_tensor
from allocore.tensor.event_report import EventReport
from allocore.tensor.labels import check_labels, check_mode_names, fit_labels
from allocore.tensor.missing import Missing
from allocore.tensor.shards import ShardFiles, damage_as_input_error, is_sharded, sizes_of
from allocore.tensor.sql import connect, first_sentence
from allocore.tensor.undirected import Pair

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

_VECTORS = 512  # of 2,048 cells each: a batch of a table
_SORTING = {"memory_limit": "'1GB'", "preserve_insertion_order": "false"}
_MAX_CELLS_TO_DESCRIBE = 2**25  # they take a gigabyte or two
NO_CELLS = np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.int64)


class ShardedTensor(CountTensor):
    """A count tensor on disk, in shards: as large as the disk allows, and fitted shard by shard.

    `Y.save("y.zarr", shards=16)` writes one, and so do `read_events(..., out="y.zarr")` and `allocore tensor`, without
    all cells in memory. `load_tensor` opens it. A fit streams its cells from disk; with `executor=`, every worker loads
    its shards once. `blocks` reads one shard after another; `coords` and `counts`, and everything that needs them, read
    all cells into memory.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import allocore as ac
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> ac.load_flights().save(folder / "flights.zarr", shards=4)
    >>> Y = ac.load_tensor(folder / "flights.zarr")
    >>> Y
    ShardedTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), 16,914 non-zeros, ... in 4 shards
    >>> Y == ac.load_flights()
    True
    """

    __slots__ = ("files",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        files = ShardFiles.open(path_of(path).resolve())
        with damage_as_input_error(files.path):
            report = EventReport.from_json(files.report) if files.report else None
            self._describe(files, files.labels(), files.missing_patterns(), report)

    def _describe(self, files: ShardFiles, labels: Any, patterns: Int64s, report: EventReport | None) -> None:
        self.files, shape, names = files, files.shape, files.mode_names
        fitted = fit_labels(check_labels(labels, names), shape, names)
        missing = Missing(patterns, shape)
        parts = CanonicalParts(*NO_CELLS, shape, names, fitted, missing, report, files.undirected)
        self._set_parts(parts, files.sizes.nnz, files.sizes.total)

    def _whole(self) -> CanonicalParts:
        """Return all parts; the cells are read at the first call, and stay in memory."""
        if not self._parts.counts.size:
            self.check_there()
            coords, counts = self.files.cells(0, self.shards)
            whole = CountTensor(coords, counts, self.shape, missing=self.missing)
            self._parts = self._parts._replace(coords=whole.coords, counts=whole.counts)
        return self._parts

    def _fibre_parts(self) -> tuple[tuple[int, ...], Iterator[tuple[Integers, Int64s]]]:
        self.check_there()
        return self.files.sizes.order, self.files.parts()

    def blocks(self) -> Iterator[tuple[Integers, Int64s]]:
        """Return the non-zeros shard by shard; a shard is read when it is asked for.

        Returns
        -------
        iterator of tuples of two ndarrays
            Coordinates, shape (M, n), and counts, shape (n,), of the cells of a shard. The order may be another than
            that of `coords` and `counts`.

        Examples
        --------
        >>> [len(counts) for coords, counts in sharded.blocks()]
        [5120, 5120, 5120, 1554]
        """
        self.check_there()
        narrow = coordinate_type(self.shape)
        return ((coords.astype(narrow), counts) for coords, counts in self.files.parts())

    def check_there(self) -> None:
        """Raise an InputError if the folder of the tensor, to which a run may refer, is missing or has changed.

        Examples
        --------
        >>> sharded.check_there()
        """
        if not is_sharded(self.files.path):
            rule = "does not exist, but it has the cells of this tensor: put it back, or next to the run"
            raise InputError("path", str(self.files.path), rule)
        if not self.is_there():
            _reopened(self.files.path, self.files.fingerprint)  # says what is wrong
            raise InputError("path", str(self.files.path), "is available again: open the run again")

    def is_there(self) -> bool:
        """Return whether the cells can be read: the folder exists and is the one that was opened, undamaged.

        Returns
        -------
        bool

        Examples
        --------
        >>> sharded.is_there()
        True
        """
        with suppress(InputError):
            return bool(self.files.hashes) and ShardFiles.open(self.files.path).fingerprint == self.files.fingerprint
        return False

    @property
    def path(self) -> Path:
        """The folder of the tensor."""
        return self.files.path

    @property
    def scratch(self) -> Path:
        """The folder for temporary files as large as the tensor: its own, or that of the system if it is read-only."""
        return self.path.parent if os.access(self.path.parent, os.W_OK) else Path(tempfile.gettempdir())

    @property
    def shards(self) -> int:
        """The number of shards."""
        return self.files.sizes.shards

    @property
    def max(self) -> int:
        """The largest count."""
        return self.files.sizes.largest

    def load(self) -> CountTensor:
        """Read all cells. Raises an InputError if memory cannot hold them, or if they are damaged.

        Returns
        -------
        CountTensor
            The tensor in memory.

        Examples
        --------
        >>> sharded.load()
        CountTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), 16,914 non-zeros, ...
        """
        return trusted_tensor(self._whole())

    def _row_totals(self, m: int) -> Int64s:
        if not is_sharded(self.path):
            self.check_there()  # says where it should be
        totals = np.split(self.files.row_totals(), np.cumsum(self.shape)[:-1])
        return np.asarray(np.sum([totals[end] for end in self._ends(m)], axis=0))

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.path, self.files.fingerprint)


class TableTensor(CountTensor):
    """A tensor whose cells are in the table `cells` of duckdb; `observed` is SQL for those that are not missing."""

    __slots__ = ("_connection", "_observed")

    def __init__(self, connection: Connection, observed: str, parts: CanonicalParts, nnz: int, total: int) -> None:
        self._connection, self._observed = connection, observed
        self._set_parts(parts, nnz, total)

    def set_report(self, report: EventReport) -> None:
        """Add the report, which describes the tensor itself."""
        self._parts = self._parts._replace(report=report)

    def positive_totals(self, mode: int | str) -> tuple[Int64s, Int64s]:
        """Return the positions of a mode that have counts, and their totals."""
        ends = [
            f"SELECT c{end} AS place, total FROM cells WHERE {self._observed}" for end in self._ends(self.mode(mode))
        ]
        found = self._connection.execute(
            f"SELECT place, CAST(sum(total) AS BIGINT) AS counts FROM ({' UNION ALL '.join(ends)}) "
            "GROUP BY ALL ORDER BY place"
        ).fetchnumpy()
        return np.asarray(found["place"], dtype=np.int64), np.asarray(found["counts"])

    def _whole(self) -> CanonicalParts:
        found = self._query().fetchnumpy()
        coords = np.stack([np.asarray(found[f"c{mode}"]) for mode in range(self.ndim)])
        counts = np.asarray(found["total"])
        del found
        coords, counts = canonical(coords, counts, self.shape)
        return self._parts._replace(coords=coords, counts=counts)

    def _fibre_parts(self) -> tuple[tuple[int, ...], Iterator[tuple[NDArray[Any], Int64s]]]:
        order = fibre_order((coords for coords, _ in self._batches()), self.shape, self.nnz)
        return order, self._batches(order)

    def _batches(self, order: Sequence[int] = ()) -> Iterator[tuple[NDArray[Any], Int64s]]:
        result = self._query(f"ORDER BY {', '.join(f'c{mode}' for mode in order)}" if order else "")
        # Not record batches: these would need pyarrow.
        while len(batch := result.fetch_df_chunk(_VECTORS)):
            coords = np.stack([batch[f"c{mode}"].to_numpy() for mode in range(self.ndim)])
            yield coords, batch["total"].to_numpy()

    def _query(self, order: str = "") -> Connection:
        columns = ", ".join(f"c{mode}" for mode in range(self.ndim))
        return self._connection.execute(f"SELECT {columns}, total FROM cells WHERE {self._observed} {order}")


@contextmanager
def table_of(
    folder: Path, about: CanonicalParts, nnz: int, total: int, blocks: Iterable[tuple[Integers, Int64s]]
) -> Iterator[TableTensor]:
    """Yield a tensor with these cells in a table of duckdb in an empty folder: it sorts them on disk."""
    import duckdb
    import pandas as pd

    columns = [*(f"c{mode}" for mode in range(len(about.shape))), "total"]
    try:
        with connect(folder=folder, settings=_SORTING) as connection:
            connection.execute(f"CREATE TABLE cells ({', '.join(f'{name} BIGINT' for name in columns)})")
            for coords, counts in blocks:
                connection.register("block", pd.DataFrame(dict(zip(columns, [*coords, counts], strict=True))))
                connection.execute("INSERT INTO cells SELECT * FROM block")
            yield TableTensor(connection, "true", about, nnz, total)
    except duckdb.Error as error:
        raise StoreError(folder, f"cannot be written: {first_sentence(error)}") from error


def _reopened(path: Path, fingerprint: str) -> ShardedTensor:
    tensor = ShardedTensor(path)
    if tensor.files.fingerprint != fingerprint:
        raise InputError("path", str(path), "has another tensor now, or the same one in other shards")
    return tensor


def stays_on_disk(tensor: CountTensor) -> TypeGuard[ShardedTensor]:
    """Return whether a tensor has too many cells to read them only to describe a fit, or its cells are missing."""
    return isinstance(tensor, ShardedTensor) and (tensor.nnz > _MAX_CELLS_TO_DESCRIBE or not tensor.is_there())


def sharded_reference(tensor: ShardedTensor) -> dict[str, Any]:
    """Return where a sharded tensor is, and what a run must know of its cells."""
    sizes = tensor.files.sizes
    numbers = {**sizes._asdict(), "log_factorials": sizes.log_factorials.hex()}
    hashes = {"fingerprint": tensor.files.fingerprint, "row_totals_hash": tensor.files.row_totals_hash}
    return {**numbers, "path": str(tensor.path), **hashes}


def referred(
    reference: dict[str, Any],
    run: Path,
    names: Sequence[str],
    shape: Sequence[int],
    labels: Any,
    patterns: Int64s,
    report: Any,
    undirected: Pair | None,
) -> ShardedTensor:
    """Return the sharded tensor of a run, from where it was or next to the run; without cells if it is in neither."""
    path = Path(str(reference["path"]))
    for folder in (path, run.resolve().parent / path.name):
        with suppress(InputError):  # a damaged folder is an error only when its cells are needed
            if is_sharded(folder):
                return _reopened(folder, str(reference["fingerprint"]))
    lengths, mode_names = check_shape(shape), check_mode_names(names, len(shape))
    sizes = sizes_of(reference, len(lengths))
    hashes = str(reference["fingerprint"]), str(reference["row_totals_hash"])
    tensor = ShardedTensor.__new__(ShardedTensor)
    tensor._describe(
        ShardFiles(path, lengths, mode_names, sizes, (), *hashes, "", undirected), labels, patterns, report
    )
    return tensor
