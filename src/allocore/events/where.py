"""`where`: the rows to keep, as one expression in SQL or as a dict of columns and values.

duckdb itself parses the text, which must be one expression of columns, constants, operators and the functions below. So
it cannot read a file, look up a setting, or close the bracket around it and go on with another statement.

The columns of text files are all texts, which duckdb would refuse to compare to a number. In `weight > 7`,
`weight + bonus > 7` or `abs(weight) BETWEEN 1 AND 2`, numbers are clearly meant, so in these places, and nowhere else,
the column is replaced by its number: in the tree of duckdb's parser, never as text.

If a text is not a number, the comparison is NULL, and so is a condition that depends on it. Such rows are bad rows. In
a row of another kind, `kind = 'sale' AND weight > 7` does not depend on it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import duckdb
import numpy as np
from duckdb import DuckDBPyConnection as Connection

from allocore.errors import InputError
from allocore.tensor.sql import fetched, first_sentence, literal, quoted

Tree = dict[str, Any]

BLANKS = " \t\r\n\u00a0"
NOTHING = ("", "NA", "NULL", "None", "NaN", "nan", "--", "---")


def trimmed(text: str) -> str:
    """Return SQL for a text without blanks around it."""
    return f"trim({text}, {literal(BLANKS)})"


def meaning(text: str, strict: bool) -> str:
    """Return SQL that is NULL where a text means that there is no value; if `strict`, only empty text does."""
    nothing = NOTHING[:1] if strict else NOTHING
    return f"CASE WHEN {text} IN ({', '.join(literal(each) for each in nothing)}) THEN NULL ELSE {text} END"


def as_label(value: object) -> str:
    """Return the text that a value in a column of a frame has in `events`."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.removesuffix(".0") if isinstance(value, float) else text.strip(BLANKS)


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
    """SQL that says whether a row is kept, and what it compares to numbers."""

    sql: str
    texts: dict[str, str] = field(default_factory=dict)  # for each such column, SQL for a text that is not a number
    hides: bool = False  # whether the condition may be decided although a text is not a number

    def columns(self) -> list[str]:
        """Return SQL for `keep`, `bad_column` and `bad_number`."""
        # The condition may end in a comment, so the closing bracket is on the next line.
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
    """The rows to keep: `where` as given, in SQL, and the columns that it names."""

    given: object
    text: str
    columns: tuple[str, ...] = ()
    tree: Any = None
    connection: Connection | None = None

    def within(self, columns: Sequence[str], types: Sequence[str]) -> RowTest:
        """Return the same for a table whose columns have these types: texts are numbers where numbers are meant."""
        if self.tree is None or self.connection is None:
            return RowTest(self.text)
        connection, tree = self.connection, copy.deepcopy(self.tree)
        reader = _NumberReader(
            dict(zip(columns, types, strict=True)), lambda sql: _select(sql, self.text, connection)["select_list"][0]
        )
        for part in list(_expressions(tree)):
            reader.visit(part)
        if tree == self.tree:
            return RowTest(self.text)
        node = _select("true", self.text, connection) | {"select_list": [tree]}
        whole = json.dumps({"error": False, "statements": [{"node": node}]})
        sql = str(fetched(connection, f"SELECT json_deserialize_sql({literal(whole)}::JSON)"))
        hides = any(_hides(part) for part in _expressions(self.tree))
        return RowTest(sql.removeprefix("SELECT "), reader.texts, hides)


def condition(where: object, columns: Sequence[str], connection: Connection) -> Condition | None:
    """Return the condition of the rows to keep; a dict gives for each column the value or values to keep."""
    if where is None:
        return None
    if isinstance(where, str):
        tree = _checked_expression(where, connection)
        known = {name.casefold(): name for name in columns}
        named = [_column_of(part, known) for part in _expressions(tree) if part["class"] == "COLUMN_REF"]
        names = tuple(dict.fromkeys(known.get(name.casefold(), name) for name in named))
        return Condition(where, where, names, tree, connection)
    if not isinstance(where, Mapping):
        raise InputError("where", where, "must be a condition in SQL or a dict of columns and values")
    parts = [_is_one_of(quoted(str(name)), value) for name, value in where.items()]
    return Condition(where, " AND ".join(parts), tuple(map(str, where))) if parts else None


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
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return -_EXACT < float(value) < _EXACT


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


def _checked_expression(where: str, connection: Connection) -> Any:
    """Return what duckdb's parser makes of a text, which must be one expression of what is allowed."""
    select, bare = _select(where, where, connection), _select("true", where, connection)
    chosen = select.get("select_list", [])
    # "a FROM b", "a LIMIT 1": all but the expression must be as in SELECT true.
    if len(chosen) != 1 or select | {"select_list": bare["select_list"]} != bare or chosen[0]["alias"]:
        raise _refused(where, _NOT_ONE)
    for part in _expressions(chosen):
        name = str(part.get("function_name", ""))
        if part["class"] == "FUNCTION":
            if part.get("schema") or part.get("catalog") or name.lower() not in _FUNCTIONS:
                raise _refused(where, f"the function {name} is not allowed")
        elif part["class"] not in _PARTS:
            raise _refused(where, f"a {part['class'].lower()} is not allowed")
    return chosen[0]


def _select(text: str, where: str, connection: Connection) -> Any:
    """Return what duckdb's parser makes of one statement, SELECT with this text."""
    try:
        answer = json.loads(fetched(connection, f"SELECT json_serialize_sql({literal(f'SELECT {text}')})"))
    except (duckdb.Error, ValueError, RecursionError) as error:
        raise _refused(where, first_sentence(error)) from error
    if answer["error"]:
        raise _refused(where, str(answer.get("error_message", "it cannot be parsed")))
    if len(answer["statements"]) != 1:
        raise _refused(where, _NOT_ONE)
    return answer["statements"][0]["node"]


def _refused(where: str, reason: str) -> InputError:
    allowed = "columns, constants, operators and plain functions"
    return InputError("where", where, f"must be a condition on the columns ({allowed}): {reason}")


_NOT_ONE = "it must be one expression"
_OPERATORS = frozenset(("+", "-", "*", "/", "//", "%", "^", "**"))
_EITHER = frozenset(("greatest", "least"))  # functions of numbers, texts or dates
_NUMERIC_NAMES = "abs ceil ceiling exp floor ln log log10 log2 mod pow power round sign sqrt trunc"
_NUMERIC = frozenset(_NUMERIC_NAMES.split())  # functions of numbers
_COUNTING = """
    date_diff date_part datediff datepart day dayofmonth dayofweek dayofyear hour instr isodow isoyear len length
    levenshtein minute month position quarter second strlen strpos week weekday weekofyear year
"""
_OF_OTHERS = frozenset(_COUNTING.split())  # functions of texts and dates that return numbers
_TYPE_NAMES = """
    TINYINT SMALLINT INTEGER INT BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT REAL DOUBLE DECIMAL
    NUMERIC INT1 INT2 INT4 INT8 SHORT LONG FLOAT4 FLOAT8
"""
_TYPES = frozenset(_TYPE_NAMES.split())
# What may turn a NULL into something else, so that the condition does not show that a text was not a number.
_HIDING_TYPES = frozenset(
    ("OPERATOR_COALESCE", "CASE_EXPR", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM", "OPERATOR_NULLIF")
)
_HIDING_FUNCTIONS = _EITHER | {"concat", "concat_ws", "list_contains", "list_value", "nullif", "row"}
_EXACT = 2**53  # from here on, floating-point numbers leave out some whole numbers
_TABLE = "source"  # the name of the table in which the condition is evaluated


def _expressions(tree: Any) -> Iterator[Tree]:
    left = [tree]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if "class" in part:
                yield part
            left += part.values()
        elif isinstance(part, list):
            left += part


def _column_of(part: Tree, columns: Mapping[str, Any]) -> str:
    """Return the column that a reference names; `columns` has the names that there are, in lower case."""
    names = part["column_names"]
    is_qualified = len(names) > 1 and names[0].casefold() == _TABLE and _TABLE not in columns
    return str(names[1] if is_qualified else names[0])


def _hides(part: Tree) -> bool:
    if part["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        return str(part["children"][0]["class"]) != "COLUMN_REF"
    return part["type"] in _HIDING_TYPES or str(part.get("function_name", "")).lower() in _HIDING_FUNCTIONS


class _NumberReader:
    """Replaces columns of texts by numbers in a tree, in place. `texts` has SQL for the text of each such column."""

    def __init__(self, types: Mapping[str, str], parse: Callable[[str], Tree]) -> None:
        self._types = {name.casefold(): kind for name, kind in types.items()}
        self._spelling, self._parse = {name.casefold(): name for name in types}, parse
        self.texts: dict[str, str] = {}

    def visit(self, part: Tree) -> None:
        """Change the columns that one expression uses as numbers."""
        operands = _operands(part)
        if _gives_number(part) if part["class"] == "FUNCTION" else any(map(_gives_number, operands)):
            self._change(operands, _whole_type(operands))

    def _change(self, operands: list[Tree], kind: str) -> None:
        for each in operands:
            if each["class"] == "COLUMN_REF":
                self._change_column(each, kind)
            else:
                self._change(_branches(each), kind)

    def _change_column(self, part: Tree, kind: str) -> None:
        column = _column_of(part, self._types)
        of_table = part["column_names"][-1] == column  # and not a field of a column
        own = self._types.get(column.casefold(), "") if of_table else ""
        name = ".".join(quoted(str(each)) for each in part["column_names"])
        if own in ("DOUBLE", "FLOAT"):
            # NaN means that no number is there; for duckdb it is larger than all numbers.
            number = f"CASE WHEN NOT isnan({name}) THEN {name} END"
        elif own == "VARCHAR" or own.startswith("ENUM"):
            text = trimmed(f"CAST({name} AS VARCHAR)")
            is_text = f"{text} NOT IN ({', '.join(map(literal, NOTHING))})"
            number = f"CASE WHEN {is_text} THEN TRY_CAST({text} AS {kind}) END"
            self.texts[self._spelling.get(column.casefold(), column)] = (
                f"CASE WHEN {is_text} AND ({number}) IS NULL THEN {text} END"
            )
        else:
            return
        part.clear()
        part.update(self._parse(number))


def _operands(part: Tree) -> list[Tree]:
    """Return what an expression compares with each other or computes with, if it does either."""
    if part["class"] == "COMPARISON":
        return [part["left"], part["right"]]
    if part["class"] == "BETWEEN":
        return [part["input"], part["lower"], part["upper"]]
    if part["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
        first, *others = part["children"]
        return [first, *others] if all(_gives_number(each) for each in others) else []
    if part["class"] == "FUNCTION" and _name_of(part) in _OPERATORS | _NUMERIC | _EITHER:
        return [each["expression"] for each in part["arguments"]]
    return []


def _branches(part: Tree) -> list[Tree]:
    """Return the expressions one of which is the value of this one."""
    if part["type"] == "OPERATOR_COALESCE":
        return list(part["children"])
    if part["type"] == "CASE_EXPR":
        return [*(check["then_expr"] for check in part["case_checks"]), part["else_expr"]]
    return []


def _gives_number(part: Tree) -> bool:
    """Return whether an expression is a number for columns of any type."""
    if part["class"] == "CONSTANT":
        return part["literal"]["kind"] in ("INTEGER", "NUMERIC")
    if part["class"] == "CAST":
        return str(part["type_expr"].get("type_name", "")).upper() in _TYPES
    if part["class"] != "FUNCTION":
        return any(_gives_number(each) for each in _branches(part))
    name, operands = _name_of(part), _operands(part)
    if name in _OPERATORS:  # these also compute with dates and intervals
        return all(each["class"] == "COLUMN_REF" or _gives_number(each) for each in operands)
    return name in _NUMERIC | _OF_OTHERS or any(_gives_number(each) for each in operands)


def _name_of(part: Tree) -> str:
    return str(part["function_name"]).lower()


def _whole_type(operands: list[Tree]) -> str:
    """Return the type for a comparison: floating-point, unless that would round the whole numbers in it."""
    for part in _expressions(operands):
        if part["class"] == "CONSTANT" and part["literal"]["kind"] == "INTEGER":
            digits = str(part["literal"]["text"]).replace("_", "")
            if digits.lstrip("-").isdecimal() and abs(int(digits)) >= _EXACT:
                return "HUGEINT"
    return "DOUBLE"
