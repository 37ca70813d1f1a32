"""Small tables in files, as pandas frames: CSV, TSV and Parquet by suffix. Text stays text: "NA" is a label too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allocore._files import existing_file, replacing
from allocore.data.sql import as_pattern, connect, first_sentence, write_parquet_file
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = ".csv, .tsv or .parquet"


def check_suffix(path: Path, argument: str) -> None:
    """Raise an error unless the suffix of a file is one of those that can be read and written."""
    if path.suffix.lower() not in (*_SEPARATORS, ".parquet"):
        raise InputError(f"{argument} is {str(path)!r}, but it must end in {_SUFFIXES}")


def read_frame(path: Path, argument: str) -> pd.DataFrame:
    """Read a table. Cells of CSV and TSV files are text, or None if they are empty."""
    check_suffix(path, argument)
    if not path.exists():
        raise InputError(f"{argument} is {str(path)!r}, but there is no such file")
    path = existing_file(path, argument)
    return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path)


def _read_text(path: Path) -> pd.DataFrame:
    import pandas as pd

    separator = _SEPARATORS[path.suffix.lower()]
    try:
        return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig")
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(f"{path} cannot be read as a table: {first_sentence(error)}") from None


def _read_parquet(path: Path) -> pd.DataFrame:
    import duckdb

    with connect([path]) as connection:
        try:
            return connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").df()
        except duckdb.Error as error:
            raise InputError(f"{path} is damaged or not a Parquet file: {first_sentence(error)}") from error


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a table, all of it or nothing; the index is left out."""
    with replacing(path) as file:
        if path.suffix.lower() != ".parquet":
            frame.to_csv(file, sep=_SEPARATORS[path.suffix.lower()], index=False)
        else:
            write_parquet_file(frame, [str(name) for name in frame], file.name)
