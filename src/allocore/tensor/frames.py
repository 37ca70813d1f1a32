"""Small tables in files, as pandas frames: CSV, TSV and Parquet by suffix. Text stays text: "NA" may be a label."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allocore._io import existing_file, replacing
from allocore.errors import InputError
from allocore.tensor.sql import as_pattern, connect, first_sentence, write_parquet_file

if TYPE_CHECKING:
    import pandas as pd

_SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_suffix(path: Path, argument: str) -> None:
    """Raise an InputError unless the suffix of a file is one of those that can be read and written."""
    if path.suffix.lower() not in (*_SEPARATORS, ".parquet"):
        raise InputError(argument, str(path), "must end in .csv, .tsv or .parquet")


def read_frame(path: Path, argument: str) -> pd.DataFrame:
    """Read a table. Cells of CSV and TSV files are text, or None if they are empty."""
    check_suffix(path, argument)
    path = existing_file(path, argument)
    return _read_parquet(path, argument) if path.suffix.lower() == ".parquet" else _read_text(path, argument)


def _read_text(path: Path, argument: str) -> pd.DataFrame:
    import pandas as pd

    separator = _SEPARATORS[path.suffix.lower()]
    try:
        return pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig")
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(argument, str(path), f"cannot be read as a table: {first_sentence(error)}") from None


def _read_parquet(path: Path, argument: str) -> pd.DataFrame:
    import duckdb

    with connect([path]) as connection:
        try:
            return connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").df()
        except duckdb.Error as error:
            rule = f"is damaged or not a Parquet file: {first_sentence(error)}"
            raise InputError(argument, str(path), rule) from error


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a table without its index, completely or not at all."""
    with replacing(path) as file:
        if path.suffix.lower() != ".parquet":
            frame.to_csv(file, sep=_SEPARATORS[path.suffix.lower()], index=False)
        else:
            write_parquet_file(frame, [str(name) for name in frame], file.name)
