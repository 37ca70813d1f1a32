"""Columns that a condition compares to numbers: where these are texts, they are read as numbers.

The columns of text files are all texts, as those of a frame may be. duckdb would refuse to compare them to a number.
`weight > 7`, `weight + bonus > 7` or `abs(weight) BETWEEN 1 AND 2` leave no doubt that numbers are meant, so in these
places, and in no other, the column is replaced by its number. The condition is changed in the form that duckdb's parser
gives it, never as text.

A text that is no number cannot be compared. In SQL such a comparison is NULL, and so is a condition that depends on it;
`kind = 'sale' AND weight > 7` does not, in a row whose kind is another. Rows for which the condition is NULL because of
such a text are bad rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from allocore.data.events.row_texts import NOTHING, trimmed
from allocore.data.sql import literal, quoted

Tree = dict[str, Any]

_NUMERIC_NAMES = "abs ceil ceiling exp floor ln log log10 log2 mod pow power round sign sqrt trunc"
_NAMES_OF_OTHERS = """
    date_diff date_part datediff datepart day dayofmonth dayofweek dayofyear hour instr isodow isoyear len length
    levenshtein minute month position quarter second strlen strpos week weekday weekofyear year
"""
_TYPE_NAMES = """
    TINYINT SMALLINT INTEGER INT BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT FLOAT REAL DOUBLE DECIMAL
    NUMERIC INT1 INT2 INT4 INT8 SHORT LONG FLOAT4 FLOAT8
"""
_OPERATORS = frozenset(("+", "-", "*", "/", "//", "%", "^", "**"))
_NUMERIC = frozenset(_NUMERIC_NAMES.split())  # functions of numbers
_OF_OTHERS = frozenset(_NAMES_OF_OTHERS.split())  # functions of texts and dates that return numbers
_EITHER = frozenset(("greatest", "least"))
_TYPES = frozenset(_TYPE_NAMES.split())
# What may turn a NULL into something else, so that the condition does not show that a text was no number.
_HIDING_TYPES = frozenset(
    ("OPERATOR_COALESCE", "CASE_EXPR", "COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM", "OPERATOR_NULLIF")
)
_HIDING_FUNCTIONS = _EITHER | {"concat", "concat_ws", "list_contains", "list_value", "nullif", "row"}
_EXACT = 2**53  # from here on, floating-point numbers leave out some whole numbers
_TABLE = "source"  # the name of the table in which the condition is evaluated


class NumberColumns(NamedTuple):
    """A condition whose columns of texts are numbers where they are compared to numbers."""

    tree: Tree
    texts: dict[str, str]  # for each such column, SQL for its text if that is no number, else NULL
    hides: bool  # whether the condition may be decided although a text is no number


def expressions(tree: Any) -> Iterator[Tree]:
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


def column_of(part: Tree, columns: Mapping[str, Any]) -> str:
    """Return the column that a reference names; `columns` has the names that there are, in lower case."""
    names = part["column_names"]
    is_qualified = len(names) > 1 and names[0].casefold() == _TABLE and _TABLE not in columns
    return str(names[1] if is_qualified else names[0])


def with_numbers(tree: Tree, types: Mapping[str, str], parse: Callable[[str], Tree]) -> NumberColumns:
    """Return a condition on columns of these types with numbers in place of texts; `parse` returns the tree of SQL."""
    changed = copy.deepcopy(tree)
    reader = _Reader(types, parse)
    for part in list(expressions(changed)):
        reader.visit(part)
    return NumberColumns(changed, reader.texts, any(_hides(part) for part in expressions(tree)))


def _hides(part: Tree) -> bool:
    if part["type"] in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
        return str(part["children"][0]["class"]) != "COLUMN_REF"
    return part["type"] in _HIDING_TYPES or str(part.get("function_name", "")).lower() in _HIDING_FUNCTIONS


class _Reader:
    """Changes the columns of texts in a tree, in place, and remembers them."""

    def __init__(self, types: Mapping[str, str], parse: Callable[[str], Tree]) -> None:
        self._types = {name.casefold(): kind for name, kind in types.items()}
        self._spelling, self._parse = {name.casefold(): name for name in types}, parse
        self.texts: dict[str, str] = {}

    def visit(self, part: Tree) -> None:
        """Change the columns that one expression uses as numbers."""
        operands = _operands(part)
        if part["class"] == "FUNCTION":
            if _is_number(part):
                self._change(operands, _whole_type(operands))
        elif any(_is_number(each) for each in operands):
            self._change(operands, _whole_type(operands))

    def _change(self, operands: list[Tree], kind: str) -> None:
        for each in operands:
            if each["class"] == "COLUMN_REF":
                self._change_column(each, kind)
            else:
                self._change(_branches(each), kind)

    def _change_column(self, part: Tree, kind: str) -> None:
        column = column_of(part, self._types)
        of_table = part["column_names"][-1] == column  # and not a field of a column
        own = self._types.get(column.casefold(), "") if of_table else ""
        if own in ("DOUBLE", "FLOAT"):
            # NaN means that there is no number. duckdb takes it for the largest of all.
            name = _name(part)
            self._replace(part, f"CASE WHEN NOT isnan({name}) THEN {name} END")
        elif own == "VARCHAR" or own.startswith("ENUM"):
            text = trimmed(f"CAST({_name(part)} AS VARCHAR)")
            nothing = ", ".join(literal(each) for each in NOTHING)
            number = f"CASE WHEN {text} NOT IN ({nothing}) THEN TRY_CAST({text} AS {kind}) END"
            self.texts[self._spelling.get(column.casefold(), column)] = (
                f"CASE WHEN {text} NOT IN ({nothing}) AND ({number}) IS NULL THEN {text} END"
            )
            self._replace(part, number)

    def _replace(self, part: Tree, sql: str) -> None:
        part.clear()
        part.update(self._parse(sql))


def _name(part: Tree) -> str:
    return ".".join(quoted(str(name)) for name in part["column_names"])


def _operands(part: Tree) -> list[Tree]:
    """Return what an expression compares with each other or computes with, if it does either."""
    if part["class"] == "COMPARISON":
        return [part["left"], part["right"]]
    if part["class"] == "BETWEEN":
        return [part["input"], part["lower"], part["upper"]]
    if part["type"] in ("COMPARE_IN", "COMPARE_NOT_IN"):
        first, *others = part["children"]
        return [first, *others] if all(_is_number(each) for each in others) else []
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


def _is_number(part: Tree) -> bool:
    """Return whether an expression is a number, whatever the columns in it are."""
    if part["class"] == "CONSTANT":
        return part["literal"]["kind"] in ("INTEGER", "NUMERIC")
    if part["class"] == "CAST":
        return str(part["type_expr"].get("type_name", "")).upper() in _TYPES
    if part["class"] != "FUNCTION":
        return any(_is_number(each) for each in _branches(part))
    name, operands = _name_of(part), _operands(part)
    if name in _OPERATORS:  # these also compute with dates and intervals
        return all(each["class"] == "COLUMN_REF" or _is_number(each) for each in operands)
    return name in _NUMERIC | _OF_OTHERS or any(_is_number(each) for each in operands)


def _name_of(part: Tree) -> str:
    return str(part["function_name"]).lower()


def _whole_type(operands: list[Tree]) -> str:
    """Return the type in which to compare: floating-point, unless whole numbers are too large to be told apart so."""
    for part in expressions(operands):
        if part["class"] == "CONSTANT" and part["literal"]["kind"] == "INTEGER":
            digits = str(part["literal"]["text"]).replace("_", "")
            if digits.lstrip("-").isdecimal() and abs(int(digits)) >= _EXACT:
                return "HUGEINT"
    return "DOUBLE"
