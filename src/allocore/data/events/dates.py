"""The dates in a column of texts: each text is understood once, however many rows have it.

3/4/2020 is the 4th of March in America and the 3rd of April elsewhere. Which one a column means is decided by those of
its dates that can mean one thing only; the others follow the majority of these, and where there are none, the month
comes first. By majority, since one misspelt date must not turn all others round.
"""

from typing import TYPE_CHECKING

from allocore.data.sql import literal

if TYPE_CHECKING:
    import duckdb

_DATES = (
    *("%Y%m%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d-%B-%Y", "%d %b %Y", "%d-%b-%Y", "%Y-%m", "%Y%m", "%Y"),
    *("%Y%m%d.0", "%Y%m.0", "%Y.0"),  # numbers that were floating-point once
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_MONTH_FIRST = tuple(f"%m{sign}%d{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_DAY_FIRST = tuple(f"%d{sign}%m{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_BEGINS = "^[0-9]{1,2}[/-][0-9]"  # as only such dates do, to which all this applies


def make_dates(connection: "duckdb.DuckDBPyConnection", column: str) -> str | None:
    """Make `dates`, the texts in a column of `loaded` with their days; returns a note if that took a decision."""
    connection.execute(
        f"CREATE OR REPLACE TABLE texts AS SELECT DISTINCT {column} AS text FROM loaded "
        f"WHERE keep AND {column} IS NOT NULL"
    )
    day_first, note = _order(connection)
    connection.execute(
        f"CREATE OR REPLACE TABLE dates AS "
        f"SELECT text, {_date((*_DATES, *(_DAY_FIRST if day_first else _MONTH_FIRST)))} AS day FROM texts"
    )
    return note


def _order(connection: "duckdb.DuckDBPyConnection") -> tuple[bool, str | None]:
    """Whether the day comes first in dates such as 3/4/2020, and a note unless that is plain or makes no difference."""
    by_month, by_day = _date(_MONTH_FIRST), _date(_DAY_FIRST)
    only_month, only_day, example, unclear = connection.execute(
        "SELECT count(*) FILTER (by_day IS NULL), count(*) FILTER (by_month IS NULL), "
        "min(text) FILTER (by_month IS NULL), min(text) FILTER (by_month <> by_day) "
        f"FROM (SELECT text, {by_month} AS by_month, {by_day} AS by_day FROM texts "
        f"WHERE regexp_matches(text, '{_BEGINS}')) "
        "WHERE by_month IS NOT NULL OR by_day IS NOT NULL"
    ).fetchone() or (0, 0, None, None)
    if only_day > only_month:
        others = ", though some can only be month/day/year" if only_month else ""
        return True, f"dates were taken as day/month/year because of those like {example}{others}"
    if only_day:
        return False, f"dates were taken as month/day/year, though some like {example} can only be day/month/year"
    if unclear and not only_month:
        return False, f"dates were taken as month/day/year, though all like {unclear} could be day/month/year"
    return False, None


def _date(formats: tuple[str, ...]) -> str:
    """The date in `text`, as SQL. A year of two digits is taken for one of the first century: that is no date."""
    listed = ", ".join(literal(each) for each in formats)
    day = f"CAST(coalesce(TRY_CAST(text AS TIMESTAMP), try_strptime(text, [{listed}])) AS DATE)"
    return f"CASE WHEN year({day}) BETWEEN 1000 AND 2999 THEN {day} END"
