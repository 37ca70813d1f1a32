"""Tensors for other programs (SciPy, pydata sparse, a pandas data frame with one row per cell, Parquet) and back.

Data frames and Parquet files also carry what their rows cannot say: shape, labels that do not occur, missing cells, the
report on events. It is in the `attrs` of a frame and in the metadata of a Parquet file, so a round trip gives the same
tensor. Arrays of SciPy and pydata sparse have no place for it: labels are lost, and tensors with missing cells are
refused, since these cells would come back as zeros.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore._files import replacing
from allocore.data.coordinates import Integers, as_integers
from allocore.data.event_report import EventReport
from allocore.data.json_text import parsed_json
from allocore.data.sql import as_pattern, connect, first_sentence, write_parquet_file
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import TensorParts
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import scipy.sparse
    import sparse

KEY, COUNT = "allocore.CountTensor/1", "count"


def to_scipy(tensor: TensorParts) -> scipy.sparse.coo_array:
    """Return the counts as a SciPy array with the same number of dimensions."""
    import scipy.sparse

    _refuse_missing(tensor, "an array of SciPy")
    return scipy.sparse.coo_array((tensor.counts.copy(), tuple(np.array(tensor.coords))), tensor.shape)


def to_sparse(tensor: TensorParts) -> sparse.COO:
    """Return the counts as an array of pydata sparse, which must be installed."""
    try:
        import sparse
    except ImportError:
        raise InputError("to_sparse needs the package sparse, which is not installed: pip install sparse") from None
    _refuse_missing(tensor, "an array of pydata sparse")
    return sparse.COO(np.array(tensor.coords), tensor.counts.copy(), tensor.shape)


def _refuse_missing(tensor: TensorParts, what: str) -> None:
    if len(tensor.missing):
        raise InputError(
            f"tensor has {len(tensor.missing):,} missing patterns, which {what} cannot hold; use to_frame, or save"
        )


def to_frame(tensor: TensorParts) -> pd.DataFrame:
    """Return the non-zeros as a pandas data frame: the label of each mode, and the count."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, labels, coords in zip(tensor.mode_names, tensor.labels, tensor.coords, strict=True):
        places = coords.astype(np.int64)
        columns[name] = places if isinstance(labels, range) else np.array(labels, dtype=object)[places]
    frame = pd.DataFrame(columns | {_count_name(tensor.mode_names): tensor.counts})
    frame.attrs[KEY] = _metadata(tensor)
    return frame


def from_frame(frame: pd.DataFrame) -> CountTensor:
    """Return the tensor of a frame that `to_frame` made. Rows may have been removed since, but not the attrs."""
    return _from_columns({str(name): frame[name].to_numpy() for name in frame}, frame.attrs[KEY])


def write_parquet(tensor: TensorParts, path: Path) -> None:
    """Write the frame of `to_frame` as Parquet, all of it or nothing."""
    frame = to_frame(tensor)
    names = _column_names(tensor.mode_names)
    metadata = json.dumps(frame.attrs[KEY] | {"columns": names})
    with replacing(path) as file:
        write_parquet_file(frame, names, file.name, {KEY: metadata})


def is_tensor(path: Path) -> bool:
    """Return whether a Parquet file was written by `write_parquet`."""
    import duckdb

    with connect([path]) as connection:
        try:
            return _stored_metadata(connection, path) is not None
        except (duckdb.Error, ValueError):
            return False


def read_parquet(path: Path) -> CountTensor:
    """Read a Parquet file that `write_parquet` made."""
    import duckdb

    with connect([path]) as connection:
        try:
            metadata = _stored_metadata(connection, path)
            if metadata is None:
                raise InputError(f"{path} was not written by allocore; read_events reads any table of events")
            columns = connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").fetchnumpy()
        except duckdb.Error as error:
            raise InputError(f"{path} is damaged or not a Parquet file: {first_sentence(error)}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is damaged: its metadata are not UTF-8") from error
    try:
        return _from_columns(dict(columns), parsed_json(metadata))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _stored_metadata(connection: duckdb.DuckDBPyConnection, path: Path) -> str | None:
    """Return the metadata that `write_parquet` added to a file, or None if the file is from another program."""
    rows = connection.execute(f"SELECT key, value FROM parquet_kv_metadata({as_pattern(path)})").fetchall()
    return {bytes(key).decode(): bytes(value).decode() for key, value in rows}.get(KEY)


def _count_name(mode_names: tuple[str, ...]) -> str:
    """Return the name of the column of counts: "count", with underscores added if a mode has that name."""
    name = COUNT
    while name in mode_names:
        name += "_"
    return name


def _column_names(mode_names: tuple[str, ...]) -> list[str]:
    """Return the names of modes and counts with underscores added where they would differ only by case."""
    names: list[str] = []
    for name in (*mode_names, COUNT):
        while name.casefold() in [other.casefold() for other in names]:
            name += "_"
        names.append(name)
    return names


def _metadata(tensor: TensorParts) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "mode_names": list(tensor.mode_names),
        "labels": [list(each) if isinstance(each, tuple) else None for each in tensor.labels],
        "missing": tensor.missing.patterns.tolist(),
        "report": None if tensor.report is None else tensor.report.to_json(),
    }


def _from_columns(columns: dict[str, Any], metadata: Any) -> CountTensor:
    """Return the tensor of columns and metadata, of which any may have been changed or damaged."""
    try:
        names, shape, labels = tuple(metadata["mode_names"]), metadata["shape"], metadata["labels"]
        missing, report = metadata["missing"], metadata.get("report")  # files of earlier versions have no report
        stored = metadata.get("columns") or [*names, _count_name(names)]
        *mode_columns, counts = [_complete(columns, name) for name in stored]
        coords = [_places(*each) for each in zip(stored, mode_columns, labels, strict=False)]
        if len(names) != len(coords):
            raise ValueError(f"{len(names)} modes, but {len(coords)} columns")
        patterns = as_integers(missing, "missing").reshape(-1, len(names))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the metadata of the table are damaged: {type(error).__name__}: {error}") from error
    tensor = CountTensor(np.stack(coords), counts, shape, mode_names=names, labels=labels, missing=patterns)
    return tensor if report is None else tensor._replaced(report=EventReport.from_json(report))


def _complete(columns: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    """Return a column, which must be there and have a value in every row."""
    if name not in columns:
        raise InputError(f"the table has no column {name!r}, which the tensor it was made from had")
    column = columns[name]
    values = np.asarray(column)
    gaps = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else np.zeros(values.shape, dtype=bool)
    if values.dtype.kind in "Of":
        gaps = gaps | np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    if gaps.any():
        raise InputError(f"column {name!r} has no value in row {int(np.argmax(gaps)) + 1}; every cell needs one")
    return values


def _places(name: str, values: np.ndarray[Any, Any], labels: list[str] | None) -> Integers:
    """Return the positions that a column gives, by label or, in a mode without labels, by number."""
    if labels is None:
        return as_integers(values, f"column {name!r}")
    places = {label: place for place, label in enumerate(labels)}
    try:
        return np.array([places[label] for label in values.tolist()], dtype=np.int64)
    except KeyError as error:
        raise InputError(f"column {name!r} has {error.args[0]!r}, which is not a label of that mode") from None
