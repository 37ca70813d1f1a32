"""Files and data frames as relations of duckdb, whose columns are text: no leading zero is lost on the way in.

Files are read out of core, and those that are laid out alike (same columns, separator, quoting, encoding) in one go.
"""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from allocore.data.events.formats import FORMATS, Format, detect
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb

_COMPRESSED = (".gz", ".zst")
_TEXT = (".csv", ".tsv", ".tab", ".txt")
_JSON = (".json", ".jsonl", ".ndjson")
_SEPARATORS = "\t,;|"
_BOM = "\ufeff"


@dataclass(frozen=True)
class Layout:
    """How files are written: `kind` is text, parquet or json; the rest is about text."""

    kind: str
    columns: tuple[str, ...] = ()
    separator: str = ","
    quote: str = '"'
    has_header: bool = True
    encoding: str = "utf-8"

    def scan(self, files: Sequence[Path]) -> str:
        """The SQL that reads files of this layout, every column as text, with the file's name."""
        paths = f"[{', '.join(literal(str(file)) for file in files)}]"
        if self.kind == "parquet":
            return f"read_parquet({paths}, filename = 'allocore_file')"
        if self.kind == "json":
            columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
            return (
                f"read_json({paths}, format = 'newline_delimited', columns = {{{columns}}}, filename = 'allocore_file')"
            )
        columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in self.columns)
        return (
            f"read_csv({paths}, auto_detect = false, header = {str(self.has_header).lower()}, "
            f"delim = {literal(self.separator)}, quote = {literal(self.quote)}, escape = {literal(self.quote)}, "
            f"columns = {{{columns}}}, encoding = {literal(self.encoding)}, filename = 'allocore_file', "
            f"store_rejects = true, rejects_limit = 0, max_line_size = 16777216)"
        )


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """The name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def find_files(source: object) -> list[Path]:
    """The files that a path, a pattern, a folder or a list of them names, in order."""
    given = [source] if isinstance(source, str | os.PathLike) else list(source)  # type: ignore[call-overload]
    files: list[Path] = []
    for each in given:
        if not isinstance(each, str | os.PathLike):
            raise InputError(f"source has {each!r} in it, but every entry must be a path")
        files += _matching(str(each))
    if not files:
        raise InputError(f"source is {source!r}, but it names no file")
    for file in files:
        _kind(file)
    return list(dict.fromkeys(files))


def _matching(text: str) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
        if not found:
            raise InputError(f"source is {text!r}, but that folder has no files")
        return found
    if path.exists():
        return [path]
    found = [Path(name) for name in sorted(glob.glob(text, recursive=True)) if Path(name).is_file()]
    if not found:
        what = "no file matches that pattern" if glob.has_magic(text) else "no such file exists"
        raise InputError(f"source is {text!r}, but {what}")
    return found


def _kind(file: Path) -> str:
    name = file.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith(_TEXT):
        return "text"
    if name.endswith(_JSON):
        return "json"
    if name.endswith((".parquet", ".pq")):
        return "parquet"
    raise InputError(
        f"{file} has an unknown suffix; it must be one of {', '.join((*_TEXT, *_JSON, '.parquet'))}, "
        f"perhaps with .gz or .zst"
    )


def layout_of(connection: "duckdb.DuckDBPyConnection", file: Path, wanted: str) -> tuple[Layout, Format | None]:
    """How a file is written, by its first line, and its format: the `wanted` one, or with "auto" what it looks like."""
    kind = _kind(file)
    if kind == "parquet":
        columns = _described(connection, file, f"read_parquet({literal(str(file))})")
        return Layout("parquet", columns), _format(wanted, columns)
    if kind == "json":
        scan = f"read_json({literal(str(file))}, format = 'newline_delimited', sample_size = 2000)"
        columns = _described(connection, file, scan)
        if columns == ("json",):
            raise InputError(f"{file} is empty or not JSON lines: one object a line")
        return Layout("json", columns), _format(wanted, columns)
    return _text_layout(_first_line(connection, file), file, wanted)


def _format(wanted: str, columns: tuple[str, ...]) -> Format | None:
    return detect(columns) if wanted == "auto" else FORMATS.get(wanted)


def _described(connection: "duckdb.DuckDBPyConnection", file: Path, scan: str) -> tuple[str, ...]:
    import duckdb

    try:
        return tuple(row[0] for row in connection.sql(f"DESCRIBE SELECT * FROM {scan}").fetchall())
    except duckdb.Error as error:
        raise InputError(f"{file} cannot be read: {first_sentence(error)}") from error


def _first_line(connection: "duckdb.DuckDBPyConnection", file: Path) -> str:
    """The first line of a text file, compressed or not, in whatever encoding."""
    import duckdb

    for encoding in ("utf-8", "latin-1"):
        scan = (
            f"read_csv({literal(str(file))}, auto_detect = false, header = false, delim = '\x01', quote = '', "
            f"escape = '', columns = {{'line': 'VARCHAR'}}, encoding = '{encoding}', max_line_size = 16777216)"
        )
        try:
            rows = connection.sql(f"SELECT line FROM {scan} LIMIT 1").fetchall()
        except duckdb.InvalidInputException:
            continue
        except duckdb.Error as error:
            raise InputError(f"{file} cannot be read: {first_sentence(error)}") from error
        if rows and rows[0][0]:
            return str(rows[0][0]).removeprefix(_BOM)
        break
    raise InputError(f"{file} is empty, or its first line is: it must hold a table of events")


def _text_layout(line: str, file: Path, wanted: str) -> tuple[Layout, Format | None]:
    separator = max(_SEPARATORS, key=line.count)
    quote = '"' if line.startswith('"') or f'{separator}"' in line else ""
    fields = tuple(part.strip('"') if quote else part for part in _split(line, separator, quote))
    found = _format(wanted, fields)
    if found is None:
        return Layout("text", _unique(fields, file), separator), None
    if not found.marks <= set(fields) and found.columns:
        if len(fields) not in found.columns:
            numbers = " or ".join(str(number) for number in found.columns)
            raise InputError(f"{file} has {len(fields)} columns in its first line, but {found.name} has {numbers}")
        return Layout("text", found.columns[len(fields)], separator, "", has_header=False), found
    return Layout("text", _unique(fields, file), separator, '"' if quote or found.quoted else ""), found


def _split(line: str, separator: str, quote: str) -> list[str]:
    import csv

    return next(csv.reader([line], delimiter=separator, quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE))


def _unique(fields: tuple[str, ...], file: Path) -> tuple[str, ...]:
    """The names of columns; a name that comes twice gets a number, an empty one its place."""
    names: list[str] = []
    for place, part in enumerate(fields):
        name = part.strip() or f"column_{place + 1}"
        number, free = 1, name
        while free in names:
            number += 1
            free = f"{name}_{number}"
        names.append(free)
    return tuple(names)


def first_sentence(error: Exception) -> str:
    """What duckdb says, without the advice that follows."""
    return str(error).splitlines()[0]


def in_latin_1(layout: Layout) -> Layout:
    """The same layout for files that are not UTF-8."""
    return replace(layout, encoding="latin-1")


def is_files(source: object) -> bool:
    """Whether a source is a path, or a list of paths."""
    return isinstance(source, str | os.PathLike | list | tuple | set)
