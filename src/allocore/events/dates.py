"""The moments in a column of texts. Each distinct text is read once, even if many rows have it.

3/4/2020 is the 4th of March in America and the 3rd of April in most other countries. Dates that can be read in only one
way, such as 13/4/2020, decide for the whole column. The majority of them counts, since one misspelt date must not
change the meaning of all others. If there are none, the month comes first.

A text with an offset or a time zone (23:30+02:00) is dated in UTC, whatever the source: Parquet files do not say in
which zone their times were written, so under any other rule a frame and the file it was saved to would have different
periods. A text without either is taken as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allocore.findings import Finding, Level
from allocore.tensor.sql import literal

if TYPE_CHECKING:
    import duckdb

_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = ("%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d-%B-%Y", "%d %b %Y", "%d-%b-%Y")
_DATES = (
    *("%Y%m%d", *(f"{day}{time}" for day in _DAYS for time in _TIMES), "%Y-%m", "%Y%m", "%Y"),
    *("%Y%m%d.0", "%Y%m.0", "%Y.0"),  # numbers that were once floating-point
    *("%Y-%m-%d %I:%M %p", "%Y-%m-%d %I:%M:%S %p", "%Y%m%d%H%M%S", "%Y%m%dT%H%M%S", "%Y-%m-%d %H", "%Y-%m-%dT%H"),
)
_MONTH_FIRST = tuple(f"%m{sign}%d{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_DAY_FIRST = tuple(f"%d{sign}%m{sign}%Y{time}" for sign in "/-" for time in _TIMES)
_AMBIGUOUS = "^[0-9]{1,2}[/-][0-9]"  # only dates that begin like this may have the day or the month first
_HALF_OF_DAY = "(?i)[0-9] ?[ap][.]?m[.]?$"
_ZONE = "[+-][0-9]{2}(?::?[0-9]{2}){0,2}|[A-Za-z_]+(?:[/+-][A-Za-z0-9_]+)*"
_ZONED = f"[0-9]:[0-9]{{2}}(?:[.][0-9]+)? *(?:{_ZONE})$"
_IS_ZONED = f"(regexp_matches(text, {literal(_ZONED)}) AND NOT regexp_matches(text, {literal(_HALF_OF_DAY)}))"


def make_moments(connection: duckdb.DuckDBPyConnection, column: str, hours: bool) -> list[Finding]:
    """Make the table `moments`: the texts in a column of `loaded`, and their days or, if `hours`, their hours.

    Returns whether the day or the month comes first, if that had to be decided, and what is known of the time zone.
    """
    connection.execute(
        f"CREATE OR REPLACE TABLE texts AS SELECT DISTINCT {column} AS text FROM loaded "
        f"WHERE keep AND {column} IS NOT NULL"
    )
    day_first, findings = _order(connection)
    moment = _moment((*_DATES, *(_DAY_FIRST if day_first else _MONTH_FIRST)))
    unit = f"date_trunc('hour', {moment})" if hours else f"CAST({moment} AS DATE)"
    connection.execute(
        f"CREATE OR REPLACE TABLE moments AS SELECT text, {unit} AS moment, {_IS_ZONED} AS zoned FROM texts"
    )
    zoned, naive, midnights = connection.execute(
        "SELECT count(*) FILTER (zoned), count(*) FILTER (NOT zoned), coalesce(bool_and(moment = moment::DATE), false) "
        "FROM moments WHERE moment IS NOT NULL"
    ).fetchall()[0]
    if zoned:
        findings.append(Finding("periods-in-utc", "note", {"exceptions": naive > 0}))
    if hours and midnights:
        findings.append(Finding("no-hours", "caution", {"argument": "freq"}))
    return findings


def _order(connection: duckdb.DuckDBPyConnection) -> tuple[bool, list[Finding]]:
    """Return whether the day comes first in dates such as 3/4/2020, and a finding unless the answer is obvious."""
    by_month, by_day = _moment(_MONTH_FIRST), _moment(_DAY_FIRST)
    only_month, only_day, example, unclear = connection.execute(
        "SELECT count(*) FILTER (by_day IS NULL), count(*) FILTER (by_month IS NULL), "
        "min(text) FILTER (by_month IS NULL), min(text) FILTER (by_month <> by_day) "
        f"FROM (SELECT text, {by_month} AS by_month, {by_day} AS by_day FROM texts "
        f"WHERE regexp_matches(text, '{_AMBIGUOUS}')) "
        "WHERE by_month IS NOT NULL OR by_day IS NOT NULL"
    ).fetchall()[0]
    if only_day > only_month:
        level: Level = "caution" if only_month else "note"
        return True, [Finding("day-first", level, {"example": example, "exceptions": only_month > 0})]
    if only_day:
        return False, [Finding("month-first", "caution", {"example": example, "exceptions": True})]
    if unclear and not only_month:
        return False, [Finding("month-first", "caution", {"example": unclear, "exceptions": False})]
    return False, []


def _moment(formats: tuple[str, ...]) -> str:
    """Return SQL for the moment in `text`. duckdb reads a two-digit year as a year before 100, which is no date here.

    A cast to TIMESTAMP would ignore zones, and AM and PM; a cast to TIMESTAMPTZ allows no blank before an offset.
    """
    by_format = f"try_strptime(text, [{', '.join(literal(each) for each in formats)}])"
    joined = "regexp_replace(text, ' +([+-][0-9:]+)$', '\\1')"
    moment = (
        f"CASE WHEN {_IS_ZONED} THEN TRY_CAST({joined} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' "
        f"WHEN regexp_matches(text, {literal(_HALF_OF_DAY)}) THEN {by_format} "
        f"ELSE coalesce(TRY_CAST(text AS TIMESTAMP), {by_format}) END"
    )
    return f"CASE WHEN year({moment}) BETWEEN 1000 AND 2999 THEN {moment} END"
