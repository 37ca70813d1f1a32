"""The dates in a column of texts. Each distinct text is read once, however many rows have it.

3/4/2020 is the 4th of March in America and the 3rd of April elsewhere. The dates that can be read in one way only, such
as 13/4/2020, decide for the whole column. The majority of them counts, since one misspelt date must not change the
meaning of all others. If there are none, the month comes first.
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
_AMBIGUOUS = "^[0-9]{1,2}[/-][0-9]"  # only dates that begin like this may have the day or the month first


def make_dates(connection: "duckdb.DuckDBPyConnection", column: str) -> str | None:
    """Make the table `dates`: the texts in a column of `loaded`, and their days.

    Returns a note if it had to be decided whether the day or the month comes first.
    """
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
    """Return whether the day comes first in dates such as 3/4/2020, and a note unless the answer is obvious."""
    by_month, by_day = _date(_MONTH_FIRST), _date(_DAY_FIRST)
    only_month, only_day, example, unclear = connection.execute(
        "SELECT count(*) FILTER (by_day IS NULL), count(*) FILTER (by_month IS NULL), "
        "min(text) FILTER (by_month IS NULL), min(text) FILTER (by_month <> by_day) "
        f"FROM (SELECT text, {by_month} AS by_month, {by_day} AS by_day FROM texts "
        f"WHERE regexp_matches(text, '{_AMBIGUOUS}')) "
        "WHERE by_month IS NOT NULL OR by_day IS NOT NULL"
    ).fetchone() or (0, 0, None, None)
    if only_day > only_month:
        others = ", though some can only be month/day/year" if only_month else ""
        return True, f"dates were read as day/month/year because of dates like {example}{others}"
    if only_day:
        return False, f"dates were read as month/day/year, though some like {example} can only be day/month/year"
    if unclear and not only_month:
        return False, f"dates were read as month/day/year, though all dates like {unclear} could be day/month/year"
    return False, None


def _date(formats: tuple[str, ...]) -> str:
    """Return SQL for the date in `text`. duckdb reads a two-digit year as a year before 100, which is no date here."""
    listed = ", ".join(literal(each) for each in formats)
    day = f"CAST(coalesce(TRY_CAST(text AS TIMESTAMP), try_strptime(text, [{listed}])) AS DATE)"
    return f"CASE WHEN year({day}) BETWEEN 1000 AND 2999 THEN {day} END"
