"""Everything that uses duckdb goes through here: connections, and texts, names and paths in SQL.

A connection can use only the files that it was given, loads no extension, and its settings are locked: text injected
into a query could neither read nor write another file.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd


_LOCKED = {
    "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
    "allow_community_extensions": "false", "python_enable_replacements": "false",
    "enable_external_access": "false", "lock_configuration": "true",
}  # fmt: skip


def connect(
    files: Iterable[Path] = (), folder: Path | None = None, settings: Mapping[str, str] | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a connection that can use only these files and this folder, in which its tables are; `settings` in SQL."""
    import duckdb

    names = [spelling for file in files for spelling in (path_text(file), glob.escape(path_text(file)))]
    allowed = {"allowed_paths": f"[{', '.join(literal(name) for name in dict.fromkeys(names))}]"} if names else {}
    if folder is not None:
        allowed |= {"allowed_directories": f"[{literal(path_text(folder))}]", "temp_directory": literal(str(folder))}
    connection = duckdb.connect(":memory:" if folder is None else str(folder / "tables"))
    for name, value in (_progress() | dict(settings or {}) | allowed | _LOCKED).items():
        connection.execute(f"SET {name} = {value}")
    return connection


def _progress() -> dict[str, str]:
    """duckdb draws its bar on standard output, even into a file or a pipe, if it is not told otherwise.

    In a notebook it decides by itself: without ipywidgets it refuses this setting, even "false".
    """
    if "ipykernel" in sys.modules:
        return {}
    return {"enable_progress_bar": "true" if sys.stderr.isatty() and os.isatty(1) else "false"}


def literal(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + _encodable(text).replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return the name of a column in SQL."""
    return '"' + _encodable(name).replace('"', '""') + '"'


def path_text(file: Path) -> str:
    """Return a path as text; duckdb accepts only names in UTF-8."""
    return _encodable(str(file), "path", "must have a name in UTF-8: rename the file")


def _encodable(
    text: str, argument: str = "text", rule: str = "must have no lone surrogate, which UTF-8 cannot express"
) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(argument, text, rule) from None
    return text


def as_pattern(file: Path) -> str:
    """Return a path in SQL. duckdb reads paths as patterns, so stars and brackets in a name are escaped."""
    return literal(glob.escape(path_text(file)))


def first_sentence(error: Exception) -> str:
    """Return the first line of an error of duckdb, without the advice that follows."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def write_parquet_file(
    frame: pd.DataFrame, names: Iterable[str], unfinished: str, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a frame to an open, unfinished file; an error of duckdb, such as a full disk, is an OSError.

    For duckdb, names that differ only by case are the same: in the file, the second of these ends in _1.
    """
    import duckdb
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    plain = frame.set_axis([f"c{place}" for place in range(frame.shape[1])], axis=1)
    # It would guess the type of texts from the first rows, and there may be none.
    texts = {name for name in plain if not (is_numeric_dtype(plain[name]) or is_bool_dtype(plain[name]))}
    columns = ", ".join(
        f"{f'CAST({name} AS VARCHAR)' if name in texts else name} AS {quoted(shown)}"
        for name, shown in zip(plain, names, strict=True)
    )
    pairs = ", ".join(f"{literal(key)}: {literal(value)}" for key, value in (metadata or {}).items())
    options = "FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false" + (f", KV_METADATA {{{pairs}}}" if pairs else "")
    try:
        with connect([Path(unfinished)]) as connection:
            connection.register("plain", plain)
            connection.execute(f"COPY (SELECT {columns} FROM plain) TO {literal(unfinished)} ({options})")
    except duckdb.Error as error:
        raise OSError(first_sentence(error)) from error


def fetched(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """Return the first value that a query gives."""
    return connection.execute(query).fetchall()[0][0]  # fetchone would leave the connection busy
