"""The moments in a column of texts. Each distinct text is read once, however many rows have it.

3/4/2020 is the 4th of March in America and the 3rd of April elsewhere. The dates that can be read in one way only, such
as 13/4/2020, decide for the whole column. The majority of them counts, since one misspelt date must not change the
meaning of all others. If there are none, the month comes first.

A text with an offset or a time zone (23:30+02:00) names a moment that is the same everywhere. Moments are dated in UTC,
whatever the source: Parquet files do not say in which zone their times were written, so any other rule would make other
periods of a frame than of the file it was saved to. A text without either is taken as it is.
"""

from typing import TYPE_CHECKING

from allocore.data.sql import fetched, literal

if TYPE_CHECKING:
    import duckdb

_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d-%B-%Y", "%d %b %Y", "%d-%b-%Y")
_DATES = (
    *("%Y%m%d", *(f"{day}{time}" for day in _DAYS for time in _TIMES), "%Y-%m", "%Y%m", "%Y"),
    *("%Y%m%d.0", "%Y%m.0", "%Y.0"),  # numbers that were floating-point once
    *("%Y-%m-%d %I:%M %p", "%Y-%m-%d %I:%M:%S %p", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y-%m-%d %H", "%Y-%m-%dT%H"),
)
_MONTH_FIRST = tuple(f"%m{sign}%d{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_DAY_FIRST = tuple(f"%d{sign}%m{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_AMBIGUOUS = "^[0-9]{1,2}[/-][0-9]"  # only dates that begin like this may have the day or the month first
_HALF_OF_DAY = "(?i)[0-9] ?[ap][.]?m[.]?$"
_ZONE = "[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z_]+(?:[/+-][A-Za-z0-9_]+)*"
_ZONED = f"[0-9]:[0-9]{{2}}(?:[.][0-9]+)? *(?:{_ZONE})$"


def make_moments(connection: "duckdb.DuckDBPyConnection", column: str, hours: bool) -> list[str]:
    """Make the table `moments`: the texts in a column of `loaded`, and their days or, if `hours`, their hours.

    Returns notes: whether the day or the month comes first, if that had to be decided, and the time zone.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE texts AS SELECT DISTINCT {column} AS text FROM loaded "
        f"WHERE keep AND {column} IS NOT NULL"
    )
    day_first, note = _order(connection)
    moment = _moment((*_DATES, *(_DAY_FIRST if day_first else _MONTH_FIRST)))
    unit = f"date_trunc('hour', {moment})" if hours else f"CAST({moment} AS DATE)"
    connection.execute(
        f"CREATE OR REPLACE TABLE moments AS SELECT text, {unit} AS moment, {_is_zoned()} AS zoned FROM texts"
    )
    notes = [note] if note else []
    return notes + _on_zones(connection) + (_on_hours(connection) if hours else [])


def _on_zones(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    """Return a note on the time zone of the periods, if times have one."""
    query = "SELECT count(*) FILTER (zoned) || ' ' || count(*) FILTER (NOT zoned) FROM moments WHERE moment IS NOT NULL"
    zoned, naive = map(int, fetched(connection, query).split())
    if not zoned:
        return []
    others = "; times without either were taken as they are" if naive else ""
    return [f"periods are in UTC, because times have a time zone or an offset{others}"]


def _on_hours(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    query = "SELECT count(*) > 0 AND bool_and(moment = CAST(moment AS DATE)) FROM moments WHERE moment IS NOT NULL"
    return ["freq is 'hour', but all times are in the first hour of a day"] if fetched(connection, query) else []


def _order(connection: "duckdb.DuckDBPyConnection") -> tuple[bool, str | None]:
    """Return whether the day comes first in dates such as 3/4/2020, and a note unless the answer is obvious."""
    by_month, by_day = _moment(_MONTH_FIRST), _moment(_DAY_FIRST)
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


def _is_zoned() -> str:
    """Return SQL that says whether `text` has an offset or a time zone."""
    return f"(regexp_matches(text, {literal(_ZONED)}) AND NOT regexp_matches(text, {literal(_HALF_OF_DAY)}))"


def _moment(formats: tuple[str, ...]) -> str:
    """Return SQL for the moment in `text`. duckdb reads a two-digit year as a year before 100, which is no date here.

    A cast to TIMESTAMP would ignore zones, and AM and PM; a cast to TIMESTAMPTZ allows no blank before an offset.
    """
    listed = ", ".join(literal(each) for each in formats)
    by_format = f"try_strptime(text, [{listed}])"
    joined = "regexp_replace(text, ' +([+-][0-9:]+)$', '\\1')"
    moment = (
        f"CASE WHEN {_is_zoned()} THEN TRY_CAST({joined} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' "
        f"WHEN regexp_matches(text, {literal(_HALF_OF_DAY)}) THEN {by_format} "
        f"ELSE coalesce(TRY_CAST(text AS TIMESTAMP), {by_format}) END"
    )
    return f"CASE WHEN year({moment}) BETWEEN 1000 AND 2999 THEN {moment} END"
