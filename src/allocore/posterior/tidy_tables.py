"""Classes, profiles and factors as tidy tables for other programs, and their files: one row per thing, no lists."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from allocore._files import replacing
from allocore.data.sql import write_parquet_file
from allocore.errors import InputError, whole_number
from allocore.posterior.class_summary import ClassSummary, Factor, Profile, TidyTable
from allocore.posterior.class_tables import class_table

SUFFIXES = (".csv", ".parquet")


def tidy_table(summary: ClassSummary, what: TidyTable, top: int) -> pd.DataFrame:
    """Return one of the tables: see `Consensus.to_frame`. A single draw has no intervals."""
    top = whole_number("top", top)
    if what == "classes":
        return _classes(summary, top)
    if what == "profiles":
        return _profiles(summary)
    if what == "factors":
        return _factors(summary)
    raise InputError(f"what is {what!r}, but it must be one of {list(get_args(TidyTable))}")


def _classes(summary: ClassSummary, top: int) -> pd.DataFrame:
    table = class_table(summary, top)
    if "name" not in table:
        table.insert(0, "name", list(summary.names))
    for name in summary.mode_names:
        shared = [" ".join(map(str, numbers)) for numbers in table[f"{name}_shared"]]
        table[f"{name}_shared"] = pd.Series(shared, index=table.index, dtype=object)
    return table.reset_index()


def _profiles(summary: ClassSummary) -> pd.DataFrame:
    parts = []
    for place, number in enumerate(summary.number_C.tolist()):
        keys = {"class": number, "name": summary.names[place]}
        parts += [(keys, profiles[place]) for profiles in summary.profiles]
    return _long(("class", "name", "mode"), parts, summary)


def _factors(summary: ClassSummary) -> pd.DataFrame:
    numbered: list[tuple[dict[str, Any], Factor]] = [
        ({"factor": number}, factors[number]) for factors in summary.factors for number in sorted(factors)
    ]
    return _long(("mode", "factor"), numbered, summary)


def _long(
    keys: tuple[str, ...], parts: Iterable[tuple[dict[str, Any], Profile]], summary: ClassSummary
) -> pd.DataFrame:
    """One row per label of each part, with the keys of the part and its mode before it."""
    parts = list(parts)
    labels = {mode.name: np.array([str(label) for label in mode.labels], dtype=object) for mode in summary.modes}
    times = [len(shares.share_D) for _, shares in parts]
    columns: dict[str, Any] = {}
    for key in keys:
        values = [shares.mode.name if key == "mode" else given[key] for given, shares in parts]
        kind = np.int64 if key in ("class", "factor") else object
        columns[key] = np.repeat(np.array(values, dtype=kind), times)
    columns["label"] = _joined([labels[shares.mode.name] for _, shares in parts], object)
    numbers = {"share": "share_D", "median": "median_D", "low": "low_D", "high": "high_D"}
    for name, field in numbers.items() if summary.is_consensus else [("share", "share_D")]:
        columns[name] = _joined([getattr(shares, field) for _, shares in parts], np.float64)
    table = pd.DataFrame(columns)
    table.attrs["source"] = summary.source
    return table


def _joined(arrays: list[Any], kind: Any) -> Any:
    """The arrays one after another; there may be none, if the chains have no class in common."""
    return np.concatenate([np.empty(0, dtype=kind), *arrays])


def check_table_path(name: str, path: Path) -> None:
    """Refuse a path at which no table can be written: another suffix, a folder, or a folder that does not exist."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{name} is {str(path)!r}, but it must end in {' or '.join(SUFFIXES)}")
    if path.is_dir():
        raise InputError(f"{name} is {str(path)!r}, but it must be a file, and this is a folder")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{name} is {str(path)!r}, but the folder {str(path.resolve().parent)!r} does not exist")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the suffix; an existing file is replaced as a whole."""
    with replacing(path) as file:
        if path.suffix.lower() == ".csv":
            table.to_csv(file, index=False, encoding="utf-8", lineterminator="\n")
        else:
            try:
                write_parquet_file(table, [str(name) for name in table], file.name)
            except OSError as error:
                raise OSError(f"{path} cannot be written: {error}") from error
