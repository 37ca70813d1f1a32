"""Texts, names and paths as duckdb writes them."""

import glob
from pathlib import Path


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def as_pattern(file: Path) -> str:
    """A path in SQL; duckdb takes paths for patterns, so that stars and brackets in a name must be escaped."""
    return literal(glob.escape(str(file)))


def first_sentence(error: Exception) -> str:
    """What duckdb says, without the advice that follows."""
    return (str(error).splitlines() or [type(error).__name__])[0]
