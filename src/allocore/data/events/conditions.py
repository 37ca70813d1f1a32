"""`where`: the rows to keep, as one expression in SQL or as a dict of columns and values.

The text is parsed by duckdb itself and must be one expression of columns, constants, operators and the functions below.
So it can compare and transform what is in a row, and nothing else: it cannot read a file, look up a setting, or close
the bracket around it and go on with another statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from allocore.data.events.row_texts import BLANKS, trimmed
from allocore.data.sql import fetched, first_sentence, literal, quoted
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_PARTS = frozenset(
    ("COLUMN_REF", "CONSTANT", "COMPARISON", "CONJUNCTION", "BETWEEN", "OPERATOR", "CAST", "TYPE", "CASE", "COLLATE")
)
_SIGNS = "+ - * / // % ^ ** || & | << >> ~~ !~~ ~~* !~~* ~~~ ^@ @>"  # with LIKE, ILIKE and GLOB among them
_NAMES = """
    abs ceil ceiling concat concat_ws contains date date_diff date_part date_trunc datediff datepart datetrunc day
    dayname dayofmonth dayofweek dayofyear ends_with exp floor greatest hour ifnull ilike_escape instr isfinite isinf
    isnan isodow isoyear last_day lcase least left len length levenshtein like_escape list_contains list_value ln log
    log10 log2 lower ltrim make_date minute mod month monthname not_ilike_escape not_like_escape nullif position pow
    power prefix quarter regexp_extract regexp_full_match regexp_matches regexp_replace replace reverse right round row
    rtrim second sign split_part sqrt starts_with strftime strip_accents strlen strpos strptime substr substring suffix
    to_days to_hours to_minutes to_months to_quarters to_seconds to_weeks to_years translate trim trunc try_strptime
    ucase upper week weekday weekofyear year
"""
_FUNCTIONS = frozenset([*_SIGNS.split(), *_NAMES.split()])


def condition(where: object, connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return the condition of the rows to keep as SQL; a dict gives for each column the value or values to keep."""
    if where is None:
        return None
    if isinstance(where, str):
        _check_expression(where, connection)
        return where
    if not isinstance(where, Mapping):
        raise InputError(f"where is {where!r}, but it must be a condition in SQL or a dict of columns and values")
    parts = []
    for name, value in where.items():
        values = value if isinstance(value, list | tuple | set | frozenset) else [value]
        text = trimmed(f"CAST({quoted(str(name))} AS VARCHAR)")
        texts = ", ".join(literal(spelling) for each in values for spelling in _spellings(each))
        empty = f" OR coalesce({text}, '') = ''" if None in values else ""
        parts.append(f"({f'{text} IN ({texts})' if texts else 'false'}{empty})")
    return " AND ".join(parts) or None


def _spellings(value: object) -> list[str]:
    """Return how a value may be written in a column: 1 also as 1.0, True also as true."""
    if value is None:
        return []
    if isinstance(value, bool):
        return [str(value), str(value).lower()]
    text = str(value)
    if isinstance(value, int | float):
        return [text.removesuffix(".0"), f"{text.removesuffix('.0')}.0"]
    return [text.strip(BLANKS)]


def _check_expression(where: str, connection: duckdb.DuckDBPyConnection) -> None:
    """Raise an InputError unless a text is one expression of what is allowed."""
    statements, plain = _statements(where, where, connection), _statements("true", where, connection)
    select, bare = statements[0]["node"], plain[0]["node"]
    chosen = select.get("select_list", [])
    # "a FROM b", "a LIMIT 1": all but the expression must be as in SELECT true.
    alone = len(statements) == len(chosen) == 1 and select | {"select_list": bare["select_list"]} == bare
    if not alone or chosen[0]["alias"]:
        raise _refused(where, "it must be one expression")
    for part in _expressions(chosen):
        name = str(part.get("function_name", ""))
        if part["class"] == "FUNCTION":
            if part.get("schema") or part.get("catalog") or name.lower() not in _FUNCTIONS:
                raise _refused(where, f"the function {name} is not allowed")
        elif part["class"] not in _PARTS:
            raise _refused(where, f"a {part['class'].lower()} is not allowed")


def _statements(text: str, where: str, connection: duckdb.DuckDBPyConnection) -> Any:
    """Return what duckdb's parser makes of an expression after SELECT."""
    import duckdb

    try:
        answer = json.loads(fetched(connection, f"SELECT json_serialize_sql({literal(f'SELECT {text}')})"))
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise _refused(where, first_sentence(error)) from error
    if answer["error"]:
        raise _refused(where, str(answer.get("error_message", "it cannot be parsed")))
    return answer["statements"]


def _expressions(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield all expressions in what duckdb's parser returned."""
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if "class" in part:
                yield part
            left += part.values()
        elif isinstance(part, list):
            left += part


def _refused(where: str, why: str) -> InputError:
    return InputError(
        f"where is {where!r}, but it must be a condition on the columns (columns, constants, operators and plain "
        f"functions): {why}"
    )
