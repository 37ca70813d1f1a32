"""The cells that have rows: a table that duckdb keeps on disk, however many there are.

    c0, c1, ..    the position of the cell in each mode
    total         the sum of the counts of its rows; it may be 0
    number        how many rows it has

Python asks for sums and for labels. The cells leave the table only when the tensor is made (table_tensor.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from allocore.data.coordinates import Int64s
from allocore.data.sql import fetched

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class EventCells:
    """The table `cells` of a connection. Dropping and relabelling change the table."""

    connection: "duckdb.DuckDBPyConnection"
    modes: int

    @classmethod
    def sum_up(cls, connection: "duckdb.DuckDBPyConnection", rows: str, places: Sequence[str]) -> "EventCells":
        """Make the table from rows (SQL that follows FROM), whose positions and `n` are SQL expressions."""
        columns = ", ".join(f"CAST({place} AS INTEGER) AS c{mode}" for mode, place in enumerate(places))
        connection.execute(
            f"CREATE TABLE cells AS SELECT {columns}, CAST(sum(n) AS BIGINT) AS total, count(*) AS number "
            f"FROM {rows} GROUP BY ALL"
        )
        return cls(connection, len(places))

    def rows(self, condition: str = "true") -> int:
        """Return the number of rows of the cells that meet a condition."""
        return int(fetched(self.connection, f"SELECT coalesce(sum(number), 0) FROM cells WHERE {condition}"))

    def rows_by_label(self, mode: int, length: int, condition: str = "true") -> Int64s:
        """Return the number of rows of each label of a mode, in the cells that meet a condition."""
        found = self.connection.execute(
            f"SELECT c{mode} AS place, CAST(sum(number) AS BIGINT) AS rows FROM cells WHERE {condition} GROUP BY ALL"
        ).fetchnumpy()
        rows = np.zeros(length, dtype=np.int64)
        rows[found["place"]] = found["rows"]
        return rows

    def drop(self, condition: str) -> int:
        """Drop the cells that meet a condition, and return how many rows they had."""
        if rows := self.rows(condition):
            self.connection.execute(f"DELETE FROM cells WHERE {condition}")
        return rows

    def drop_rare(self, groups: list[list[int]], least: int, blind: str) -> int:
        """Drop the cells of labels with fewer than `least` counts, and return how many rows they had.

        The modes of a group share their labels. Dropping a label takes counts from other labels, so this is repeated
        until all labels have enough. Cells that are `blind`, because they will be missing, add nothing to any label.
        """
        dropped, before = 0, -1
        while least and dropped != before:
            before = dropped
            for group in groups:
                each = [f"SELECT c{mode} AS place, if({blind}, 0, total) AS counted FROM cells" for mode in group]
                self.connection.execute(
                    f"CREATE OR REPLACE TEMP TABLE rare AS SELECT place FROM ({' UNION ALL '.join(each)}) "
                    f"GROUP BY place HAVING sum(counted) < {least}"
                )
                dropped += self.drop(" OR ".join(f"c{mode} IN (SELECT place FROM rare)" for mode in group))
        return dropped

    def relabel(
        self, labels: list[list[str]], groups: list[list[int]], keep: list[int] | None = None
    ) -> list[list[str]]:
        """Leave out those labels of the grouped modes that no cell has, and return the others.

        For each group, the first `keep` labels stay in any case.
        """
        labels = list(labels)
        moved: dict[int, str] = {}
        for number, (group, first) in enumerate(zip(groups, keep or [0] * len(groups), strict=True)):
            used = self._make_places(f"places{number}", group, first)
            if used.size < len(labels[group[0]]):
                moved |= dict.fromkeys(group, f"places{number}")
                for mode in group:
                    labels[mode] = [labels[mode][place] for place in used.tolist()]
        if moved:
            self._move(moved)
        return labels

    def _make_places(self, table: str, group: list[int], first: int) -> Int64s:
        """Make a table of the positions that stay, old and new; return the old ones, in order."""
        each = [f"SELECT c{mode} AS old FROM cells" for mode in group]
        each.append(f"SELECT CAST(range AS INTEGER) AS old FROM range({first})")
        self.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS "
            "SELECT old, CAST(row_number() OVER (ORDER BY old) - 1 AS INTEGER) AS new "
            f"FROM (SELECT DISTINCT old FROM ({' UNION ALL '.join(each)}))"
        )
        return np.asarray(self.connection.execute(f"SELECT old FROM {table} ORDER BY old").fetchnumpy()["old"])

    def _move(self, moved: dict[int, str]) -> None:
        """Give the cells their new positions; `moved` has for each mode that changes the table of its positions."""
        columns = [f"new{mode}.new AS c{mode}" if mode in moved else f"c{mode}" for mode in range(self.modes)]
        joins = [f"JOIN {table} AS new{mode} ON new{mode}.old = cells.c{mode}" for mode, table in moved.items()]
        self.connection.execute(
            f"CREATE OR REPLACE TABLE cells AS SELECT {', '.join(columns)}, total, number FROM cells {' '.join(joins)}"
        )


def on_diagonal(modes: Sequence[int]) -> str:
    """Return SQL that says whether a cell has the same position in all of these modes; never, if there are none."""
    return " AND ".join(f"c{mode} = c{modes[0]}" for mode in modes[1:]) or "false"
