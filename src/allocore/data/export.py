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
from allocore.data.event_report import EventReport
from allocore.data.sql import as_pattern, first_sentence, literal
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
    """Write the frame of `to_frame` as Parquet."""
    import duckdb

    frame = to_frame(tensor)
    metadata = json.dumps(frame.attrs[KEY])
    with replacing(path) as file, duckdb.connect(":memory:") as connection:
        connection.register("frame", frame)
        connection.execute(
            f"COPY frame TO {literal(file.name)} "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{literal(KEY)}: {literal(metadata)}}})"
        )


def is_tensor(path: Path) -> bool:
    """Return whether a Parquet file was written by `write_parquet`."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            return _stored_metadata(connection, path) is not None
        except duckdb.Error:
            return False


def read_parquet(path: Path) -> CountTensor:
    """Read a Parquet file that `write_parquet` made."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            metadata = _stored_metadata(connection, path)
            if metadata is None:
                raise InputError(f"{path} was not written by allocore; read_events reads any table of events")
            columns = connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").fetchnumpy()
        except duckdb.Error as error:
            raise InputError(f"{path} is damaged or not a Parquet file: {first_sentence(error)}") from error
    return _from_columns({str(name): np.asarray(values) for name, values in columns.items()}, json.loads(metadata))


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


def _metadata(tensor: TensorParts) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "mode_names": list(tensor.mode_names),
        "labels": [list(each) if isinstance(each, tuple) else None for each in tensor.labels],
        "missing": tensor.missing.patterns.tolist(),
        "report": None if tensor.report is None else tensor.report.to_json(),
    }


def _from_columns(columns: dict[str, Any], metadata: dict[str, Any]) -> CountTensor:
    names, coords = tuple(metadata["mode_names"]), []
    for name, labels in zip(names, metadata["labels"], strict=True):
        if name not in columns:
            raise InputError(f"the table has no column {name!r}, which is a mode of the tensor it was made from")
        if labels is None:
            coords.append(np.asarray(columns[name], dtype=np.int64))
        else:
            places = {label: place for place, label in enumerate(labels)}
            coords.append(np.array([places[label] for label in columns[name].tolist()], dtype=np.int64))
    tensor = CountTensor(
        np.stack(coords),
        np.asarray(columns[_count_name(names)]),
        metadata["shape"],
        mode_names=names,
        labels=metadata["labels"],
        missing=np.array(metadata["missing"], dtype=np.int64).reshape(-1, len(names)),
    )
    report = metadata.get("report")  # files of earlier versions have none
    return tensor if report is None else tensor._replaced(report=EventReport.from_json(report))
