"""`where`: the rows to keep, as one expression in SQL or as a dict of columns and values.

The text is parsed by duckdb itself and must be one expression of columns, constants, operators and the functions below.
So it can compare and transform what is in a row, and nothing else: it cannot read a file, look up a setting, or close
the bracket around it and go on with another statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from allocore.data.events.number_columns import column_of, expressions, with_numbers
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


@dataclass(frozen=True)
class RowTest:
    """SQL that says whether a row is kept, and for each column that must have numbers its text if that is none."""

    sql: str
    texts: dict[str, str] = field(default_factory=dict)
    hides: bool = False

    def selection(self) -> list[str]:
        """Return SQL for `keep`, and for the column and the text because of which it cannot be said."""
        # The condition may end in a comment, so the bracket is on a line of its own.
        passes = f"({self.sql}\n)"
        if not self.texts:
            nothing = "CAST(NULL AS VARCHAR)"
            return [f"{passes} IS TRUE AS keep", f"{nothing} AS bad_column", f"{nothing} AS bad_number"]
        text = f"coalesce({', '.join(self.texts.values())})"
        column = " ".join(f"WHEN {each} IS NOT NULL THEN {literal(name)}" for name, each in self.texts.items())
        undecided = f"{text} IS NOT NULL" if self.hides else f"{passes} IS NULL"
        return [
            f"({passes} AND NOT ({undecided})) IS TRUE AS keep",
            f"CASE WHEN {undecided} THEN CASE {column} END END AS bad_column",
            f"CASE WHEN {undecided} THEN {text} END AS bad_number",
        ]


EVERY_ROW = RowTest("true")


@dataclass(frozen=True)
class Condition:
    """The rows to keep, in SQL, and the columns that this names."""

    text: str
    columns: tuple[str, ...] = ()
    tree: Any = None
    connection: duckdb.DuckDBPyConnection | None = None

    @property
    def subject(self) -> str:
        """How an error on it begins; a dict is not repeated there."""
        return "" if self.tree is None else f"where is {self.text!r}, but "

    def within(self, columns: Sequence[str], types: Sequence[str]) -> RowTest:
        """Return the same for a table whose columns have these types: texts are numbers where numbers are meant."""
        if self.tree is None or self.connection is None:
            return RowTest(self.text)
        connection = self.connection
        known = dict(zip(columns, types, strict=True))
        found = with_numbers(self.tree, known, lambda sql: _select_list(sql, self.text, connection)[0])
        if found.tree == self.tree:
            return RowTest(self.text)
        whole = {"error": False, "statements": [{"node": _select(found.tree, self.text, connection)}]}
        query = f"SELECT json_deserialize_sql({literal(json.dumps(whole))}::JSON)"
        return RowTest(str(fetched(connection, query)).removeprefix("SELECT "), found.texts, found.hides)


def condition(where: object, columns: Sequence[str], connection: duckdb.DuckDBPyConnection) -> Condition | None:
    """Return the condition of the rows to keep; a dict gives for each column the value or values to keep."""
    if where is None:
        return None
    if isinstance(where, str):
        tree = _checked_expression(where, connection)
        known = {name.casefold(): name for name in columns}
        named = [column_of(part, known) for part in expressions(tree) if part["class"] == "COLUMN_REF"]
        return Condition(
            where, tuple(dict.fromkeys(known.get(name.casefold(), name) for name in named)), tree, connection
        )
    if not isinstance(where, Mapping):
        raise InputError(f"where is {where!r}, but it must be a condition in SQL or a dict of columns and values")
    parts = [_is_one_of(quoted(str(name)), value) for name, value in where.items()]
    return Condition(" AND ".join(parts), tuple(map(str, where))) if parts else None


def _is_one_of(column: str, value: object) -> str:
    """Return SQL that says whether a column has a value, or one of several; numbers are compared as numbers."""
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    text = trimmed(f"CAST({column} AS VARCHAR)")
    texts = ", ".join(literal(spelling) for each in values for spelling in _spellings(each))
    numbers = ", ".join(repr(float(each)) for each in values if _is_number(each))
    parts = [f"{text} IN ({texts})"] if texts else []
    parts += [f"coalesce(TRY_CAST({text} AS DOUBLE) IN ({numbers}), false)"] if numbers else []
    parts += [f"coalesce({text}, '') IN ('', 'nan')"] if None in values else []  # nan: in a column of numbers
    return f"({' OR '.join(parts) or 'false'})"


def _is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number that floating point holds exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return -(2**53) < float(value) < 2**53


def _spellings(value: object) -> list[str]:
    """Return how a value may be written in a column: 1 also as 1.0, True also as true."""
    if value is None:
        return []
    if isinstance(value, bool | np.bool_):
        return [str(value), str(value).lower()]
    text = str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return [text.removesuffix(".0"), f"{text.removesuffix('.0')}.0"]
    return [text.strip(BLANKS)]


def _checked_expression(where: str, connection: duckdb.DuckDBPyConnection) -> Any:
    """Return what duckdb's parser makes of a text, which must be one expression of what is allowed."""
    statements, plain = _statements(where, where, connection), _statements("true", where, connection)
    select, bare = statements[0]["node"], plain[0]["node"]
    chosen = select.get("select_list", [])
    # "a FROM b", "a LIMIT 1": all but the expression must be as in SELECT true.
    alone = len(statements) == len(chosen) == 1 and select | {"select_list": bare["select_list"]} == bare
    if not alone or chosen[0]["alias"]:
        raise _refused(where, "it must be one expression")
    for part in expressions(chosen):
        name = str(part.get("function_name", ""))
        if part["class"] == "FUNCTION":
            if part.get("schema") or part.get("catalog") or name.lower() not in _FUNCTIONS:
                raise _refused(where, f"the function {name} is not allowed")
        elif part["class"] not in _PARTS:
            raise _refused(where, f"a {part['class'].lower()} is not allowed")
    return chosen[0]


def _select(expression: Any, where: str, connection: duckdb.DuckDBPyConnection) -> Any:
    """Return the tree of a SELECT with one expression."""
    return _statements("true", where, connection)[0]["node"] | {"select_list": [expression]}


def _select_list(sql: str, where: str, connection: duckdb.DuckDBPyConnection) -> Any:
    return _statements(sql, where, connection)[0]["node"]["select_list"]


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


def _refused(where: str, why: str) -> InputError:
    return InputError(
        f"where is {where!r}, but it must be a condition on the columns (columns, constants, operators and plain "
        f"functions): {why}"
    )
