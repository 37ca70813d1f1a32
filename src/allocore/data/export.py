"""Tensors for other programs: SciPy, pydata sparse, a pandas table with one row a cell, Parquet; and back.

Tables carry what their rows cannot say (shape, labels that do not occur, missing cells) beside them: in the `attrs` of
a pandas frame, in the metadata of a Parquet file. So a round trip gives the same tensor. SciPy and pydata sparse have
no place for it: labels are lost there, and tensors with missing cells are refused, since they would come back as zeros.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from allocore._files import replacing
from allocore.data.events.sources import as_pattern, first_sentence, literal
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import scipy.sparse
    import sparse

KEY, COUNT = "allocore.CountTensor/1", "count"


def to_scipy(tensor: CountTensor) -> scipy.sparse.coo_array:
    """The counts as a SciPy array of as many dimensions."""
    import scipy.sparse

    _refuse_missing(tensor, "an array of SciPy")
    return scipy.sparse.coo_array((tensor.counts.copy(), tuple(np.array(tensor.coords))), tensor.shape)


def to_sparse(tensor: CountTensor) -> sparse.COO:
    """The counts as an array of pydata sparse, which must be installed."""
    try:
        import sparse
    except ImportError:
        raise InputError("to_sparse needs the package sparse, which is not installed: pip install sparse") from None
    _refuse_missing(tensor, "an array of pydata sparse")
    return sparse.COO(np.array(tensor.coords), tensor.counts.copy(), tensor.shape)


def _refuse_missing(tensor: CountTensor, what: str) -> None:
    if len(tensor.missing):
        raise InputError(
            f"tensor has {len(tensor.missing):,} missing patterns, which {what} cannot hold; use to_frame, or save"
        )


def to_frame(tensor: CountTensor) -> pd.DataFrame:
    """The non-zero cells as a pandas table: the label of each mode, and the count."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, labels, coords in zip(tensor.mode_names, tensor.labels, tensor.coords, strict=True):
        places = coords.astype(np.int64)
        columns[name] = places if isinstance(labels, range) else np.array(labels, dtype=object)[places]
    frame = pd.DataFrame(columns | {_count_name(tensor.mode_names): tensor.counts})
    frame.attrs[KEY] = _beside(tensor)
    return frame


def from_frame(frame: pd.DataFrame) -> CountTensor:
    """The tensor that `to_frame` made a table of; rows may have been taken out since, not the frame's attrs."""
    return _from_columns({str(name): frame[name].to_numpy() for name in frame}, frame.attrs[KEY])


def write_parquet(tensor: CountTensor, path: Path) -> None:
    """Write the table of `to_frame` as Parquet."""
    import duckdb

    frame = to_frame(tensor)
    beside = json.dumps(frame.attrs[KEY])
    with replacing(path) as file, duckdb.connect(":memory:") as connection:
        connection.register("frame", frame)
        connection.execute(
            f"COPY frame TO {literal(file.name)} "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{literal(KEY)}: {literal(beside)}}})"
        )


def is_tensor(path: Path) -> bool:
    """Whether a Parquet file was written by `write_parquet`."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            return _stored_beside(connection, path) is not None
        except duckdb.Error:
            return False


def read_parquet(path: Path) -> CountTensor:
    """Read a Parquet file that `write_parquet` made."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        try:
            beside = _stored_beside(connection, path)
            if beside is None:
                raise InputError(f"{path} was not written by allocore; read_events reads any table of events")
            columns = connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").fetchnumpy()
        except duckdb.Error as error:
            raise InputError(f"{path} is damaged or not a Parquet file: {first_sentence(error)}") from error
    return _from_columns({str(name): np.asarray(values) for name, values in columns.items()}, json.loads(beside))


def _stored_beside(connection: duckdb.DuckDBPyConnection, path: Path) -> str | None:
    """What `write_parquet` left in the metadata of a file, if it was the writer."""
    rows = connection.execute(f"SELECT key, value FROM parquet_kv_metadata({as_pattern(path)})").fetchall()
    return {bytes(key).decode(): bytes(value).decode() for key, value in rows}.get(KEY)


def _count_name(mode_names: tuple[str, ...]) -> str:
    """The column of counts: "count", or more underscores if a mode has that name."""
    name = COUNT
    while name in mode_names:
        name += "_"
    return name


def _beside(tensor: CountTensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "mode_names": list(tensor.mode_names),
        "labels": [list(each) if isinstance(each, tuple) else None for each in tensor.labels],
        "missing": tensor.missing.patterns.tolist(),
    }


def _from_columns(columns: dict[str, Any], beside: dict[str, Any]) -> CountTensor:
    names, coords = tuple(beside["mode_names"]), []
    for name, labels in zip(names, beside["labels"], strict=True):
        if name not in columns:
            raise InputError(f"the table has no column {name!r}, which is a mode of the tensor it was made of")
        if labels is None:
            coords.append(np.asarray(columns[name], dtype=np.int64))
        else:
            places = {label: place for place, label in enumerate(labels)}
            coords.append(np.array([places[label] for label in columns[name].tolist()], dtype=np.int64))
    return CountTensor(
        np.stack(coords),
        np.asarray(columns[_count_name(names)]),
        beside["shape"],
        mode_names=names,
        labels=beside["labels"],
        missing=np.array(beside["missing"], dtype=np.int64).reshape(-1, len(names)),
    )
