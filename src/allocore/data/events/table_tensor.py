"""The tensor of a table of cells (event_cells.py), which is still in duckdb: then in memory, or in shards on disk.

Both ways have everything in common but where the cells go. Into shards they go in batches, in the order that a sharded
tensor has (fibre_order.py), so Python never holds all of them; duckdb sorts them, on disk if need be.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore.data.canonical import check_total, nothing_left
from allocore.data.coordinates import Int64s
from allocore.data.event_report import EventReport
from allocore.data.events.event_cells import EventCells, on_diagonal
from allocore.data.fibre_order import fibre_order
from allocore.data.labels import check_labels, check_mode_names, fit_labels
from allocore.data.missing import WILDCARD, Missing
from allocore.data.sharded_tensor import ShardedTensor, write_shards
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import CanonicalParts, TensorParts
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_VECTORS = 512  # of 2,048 cells each: a batch
_NO_CELLS = np.empty((0, 0), dtype=np.int32), np.empty(0, dtype=np.int64)


class TableTensor(TensorParts):
    """A tensor whose cells are in a table of duckdb. `heaviest` asks the table; `coords` and `counts` are empty.

    Cells on the diagonal of the modes `diagonal`, and at the positions `unobserved` of the mode `time`, are missing.
    """

    __slots__ = ("_connection", "_observed")

    def __init__(
        self,
        cells: EventCells,
        mode_names: Sequence[str],
        labels: Sequence[Sequence[str]],
        *,
        diagonal: Sequence[int],
        time: int | None,
        unobserved: Int64s,
    ) -> None:
        names = check_mode_names(mode_names, cells.modes)
        shape = tuple(len(each) for each in labels)
        fitted = fit_labels(check_labels(labels, names), shape, names)
        patterns = [_diagonal_patterns(diagonal, shape), _period_patterns(time, unobserved, shape)]
        missing = Missing(np.concatenate(patterns), shape)
        self._connection = cells.connection
        self._observed = _observed(diagonal, time, unobserved)
        self._keep(CanonicalParts(*_NO_CELLS, shape, names, fitted, missing))
        self._count_cells()

    def _count_cells(self) -> None:
        """Count the cells and add up their counts; raise an InputError if no count is left, or if they are too many."""
        found = self._connection.execute(
            f"SELECT coalesce(sum(total), 0), count(*) FILTER (total > 0), count(*) FILTER ({self._observed}), "
            f"coalesce(sum(total) FILTER ({self._observed}), 0) FROM cells"
        ).fetchall()
        everything, positive, self._nnz, self._total = (int(number) for number in found[0])
        if not positive:
            raise InputError("no positive counts: there is nothing to fit")
        check_total(everything)
        if not self._nnz:
            raise nothing_left(positive, self.missing)

    def _totals_in_use(self, m: int) -> tuple[Int64s, Int64s]:
        found = self._connection.execute(
            f"SELECT c{m} AS place, CAST(sum(total) AS BIGINT) AS counts FROM cells WHERE {self._observed} "
            "GROUP BY ALL ORDER BY place"
        ).fetchnumpy()
        return np.asarray(found["place"], dtype=np.int64), np.asarray(found["counts"])

    def reported(self, report: EventReport) -> TableTensor:
        """Return the tensor with a report on its rows."""
        tensor = copy.copy(self)
        tensor._parts = self._parts._replace(report=report)
        return tensor

    def in_memory(self) -> CountTensor:
        """Return the tensor with its cells in memory."""
        found = self._query().fetchnumpy()
        coords = np.stack([np.asarray(found[f"c{mode}"]) for mode in range(self.ndim)])
        counts = np.asarray(found["total"])
        del found
        tensor = CountTensor(
            coords, counts, self.shape, mode_names=self.mode_names, labels=self.labels, missing=self.missing
        )
        return tensor._replaced(report=self.report)

    def in_shards(self, path: Path, shards: int) -> ShardedTensor:
        """Write the tensor to a new folder, batch by batch, and return it."""
        order = fibre_order((coords for coords, _ in self._batches()), self.shape, self.nnz)
        write_shards(path, self, order, self._batches(order), shards)
        return ShardedTensor(path)

    def _batches(self, order: Sequence[int] = ()) -> Iterator[tuple[NDArray[Any], Int64s]]:
        """Yield the coordinates and counts of all cells, sorted by the modes in `order`."""
        result = self._query(f"ORDER BY {', '.join(f'c{mode}' for mode in order)}" if order else "")
        # Not record batches: these would need pyarrow.
        while len(batch := result.fetch_df_chunk(_VECTORS)):
            coords = np.stack([batch[f"c{mode}"].to_numpy() for mode in range(self.ndim)])
            yield coords, batch["total"].to_numpy()

    def _query(self, order: str = "") -> duckdb.DuckDBPyConnection:
        columns = ", ".join(f"c{mode}" for mode in range(self.ndim))
        return self._connection.execute(f"SELECT {columns}, total FROM cells WHERE {self._observed} {order}")


def _diagonal_patterns(modes: Sequence[int], shape: Sequence[int]) -> Int64s:
    length = shape[modes[0]] if modes else 0
    patterns = np.full((length, len(shape)), WILDCARD, dtype=np.int64)
    patterns[:, list(modes)] = np.arange(length)[:, None]
    return patterns


def _period_patterns(time: int | None, unobserved: Int64s, shape: Sequence[int]) -> Int64s:
    patterns = np.full((unobserved.size, len(shape)), WILDCARD, dtype=np.int64)
    if time is not None:
        patterns[:, time] = unobserved
    return patterns


def _observed(diagonal: Sequence[int], time: int | None, unobserved: Int64s) -> str:
    """Return SQL that says whether a cell has a count and is not missing."""
    conditions = ["total > 0", f"NOT ({on_diagonal(diagonal)})"]
    if time is not None and unobserved.size:
        conditions.append(f"c{time} NOT IN ({', '.join(map(str, unobserved.tolist()))})")
    return " AND ".join(conditions)
