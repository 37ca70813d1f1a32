"""Texts, names and paths in duckdb's SQL."""

import glob
from pathlib import Path


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return the name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def as_pattern(file: Path) -> str:
    """Return a path in SQL. duckdb reads paths as patterns, so stars and brackets in a name are escaped."""
    return literal(glob.escape(str(file)))


def first_sentence(error: Exception) -> str:
    """Return the first line of an error of duckdb, without the advice that follows."""
    return (str(error).splitlines() or [type(error).__name__])[0]
