"""Tensors for files and for other libraries; `files.py` reads them back.

Our `.npz` format has plain arrays, never pickled objects: `format` (name and version), `coords`, `counts`, `shape`,
`missing` (patterns, -1 for a wildcard) and `header` (UTF-8 JSON with the mode names, the labels, and the report on
events if there is one).

Data frames and Parquet files also carry what their rows cannot: shape, labels that do not occur, missing cells, the
report on events. It is in the `attrs` of a frame and in the metadata of a Parquet file, so a round trip gives the same
tensor. Arrays of SciPy and pydata sparse, and FROSTT text (`.tns`: one entry per line, indices from 1, the value last),
have no place for it: labels are lost, and tensors with missing cells are refused, because these cells would come back
as zeros.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from allocore._io import replacing
from allocore._text import plural
from allocore.errors import NO_VALUE, Described, InputError, reason_of
from allocore.tensor.coordinates import Int64s, Integers
from allocore.tensor.shards import SHARDS, save_sharded
from allocore.tensor.sql import write_parquet_file

if TYPE_CHECKING:
    import pandas as pd
    import scipy.sparse
    import sparse

    from allocore.tensor.count_tensor import CountTensor

FORMAT, VERSION = "allocore.CountTensor", 1
FRAME_KEY = f"{FORMAT}/{VERSION}"
COUNT = "count"
_ROWS_PER_BLOCK = 100_000


def save(tensor: CountTensor, path: str | os.PathLike[str], shards: int | None = None) -> None:
    """Write a tensor in the format that the suffix names: `.npz`, `.parquet`, `.tns`, `.tns.gz` or `.zarr`."""
    target = Path(path)
    if target.suffix == ".zarr":
        save_sharded(tensor, target, SHARDS if shards is None else shards)
    elif shards is not None:
        raise InputError("shards", shards, f"must be None unless `path` ends in .zarr; the path is {str(path)!r}")
    elif target.suffix == ".npz":
        _write_npz(tensor, target)
    elif target.suffix == ".parquet":
        _write_parquet(tensor, target)
    elif target.name.endswith((".tns", ".tns.gz")):
        _write_tns(tensor, target)
    else:
        raise InputError("path", str(target), "must end in .npz, .parquet, .tns, .tns.gz or .zarr")


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `target` once it is complete; an error of the disk becomes an InputError."""
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise InputError("path", str(target), f"cannot be written: {reason_of(error)}") from error


def _write_npz(tensor: CountTensor, target: Path) -> None:
    header: dict[str, Any] = {"mode_names": tensor.mode_names, "labels": _given_labels(tensor)}
    if tensor.report is not None:
        header["report"] = tensor.report.to_json()
    with _replacing(target) as file:
        np.savez_compressed(
            file,
            format=np.array(f"{FORMAT}/{VERSION}"),
            coords=tensor.coords,
            counts=tensor.counts,
            shape=np.array(tensor.shape, dtype=np.int64),
            missing=tensor.missing.patterns,
            header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
        )


def _given_labels(tensor: CountTensor) -> list[list[str] | None]:
    return [list(each) if isinstance(each, tuple) else None for each in tensor.labels]


def _write_parquet(tensor: CountTensor, target: Path) -> None:
    """Write the frame of `to_frame` as Parquet."""
    frame = to_frame(tensor)
    names = _column_names(tensor.mode_names)
    metadata = json.dumps(frame.attrs[FRAME_KEY] | {"columns": names})
    with _replacing(target) as file:
        write_parquet_file(frame, names, file.name, {FRAME_KEY: metadata})


def _column_names(mode_names: tuple[str, ...]) -> list[str]:
    """Return the names of modes and counts, with underscores added where they would differ only by case."""
    names: list[str] = []
    for name in (*mode_names, COUNT):
        while name.casefold() in [other.casefold() for other in names]:
            name += "_"
        names.append(name)
    return names


def _write_tns(tensor: CountTensor, target: Path) -> None:
    _refuse_missing(tensor, "a .tns file", "save it as .npz, .parquet or .zarr")
    with _replacing(target) as file:
        if target.suffix != ".gz":
            _write_entries(file, tensor.coords, tensor.counts)
            return
        # No name and no time in the header, so that equal tensors give equal files.
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as compressed:
            _write_entries(compressed, tensor.coords, tensor.counts)


def _write_entries(file: IO[bytes] | gzip.GzipFile, coords: Integers, counts: Int64s) -> None:
    line = " ".join(["%d"] * (len(coords) + 1)) + "\n"
    for start in range(0, counts.size, _ROWS_PER_BLOCK):
        block = slice(start, start + _ROWS_PER_BLOCK)
        rows = np.vstack([coords[:, block].astype(np.int64) + 1, counts[block]]).T
        # One format string for the whole block is many times faster than one per line.
        file.write((line * len(rows) % tuple(rows.ravel().tolist())).encode())


def _refuse_missing(tensor: CountTensor, what: str, advice: str) -> None:
    if len(tensor.missing):
        patterns = plural(len(tensor.missing), "missing pattern")
        rule = f"must have no missing cells, which {what} cannot hold; {advice}"
        raise InputError("tensor", Described(f"a tensor with {patterns}"), rule)


def to_scipy(tensor: CountTensor) -> scipy.sparse.coo_array:
    """Return the counts as a SciPy array with the same number of dimensions."""
    import scipy.sparse

    _refuse_missing(tensor, "an array of SciPy", "use to_frame or save")
    return scipy.sparse.coo_array((tensor.counts.copy(), tuple(np.array(tensor.coords))), tensor.shape)


def to_sparse(tensor: CountTensor) -> sparse.COO:
    """Return the counts as an array of pydata sparse, which must be installed."""
    try:
        import sparse
    except ImportError:
        raise InputError("to_sparse", NO_VALUE, "needs the package sparse: pip install sparse") from None
    _refuse_missing(tensor, "an array of pydata sparse", "use to_frame or save")
    return sparse.COO(np.array(tensor.coords), tensor.counts.copy(), tensor.shape)


def to_frame(tensor: CountTensor) -> pd.DataFrame:
    """Return the non-zeros as a pandas data frame: the label of each mode, and the count."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name, labels, coords in zip(tensor.mode_names, tensor.labels, tensor.coords, strict=True):
        positions = coords.astype(np.int64)
        columns[name] = positions if isinstance(labels, range) else np.array(labels, dtype=object)[positions]
    frame = pd.DataFrame(columns | {count_column(tensor.mode_names): tensor.counts})
    frame.attrs[FRAME_KEY] = {
        "shape": list(tensor.shape),
        "mode_names": list(tensor.mode_names),
        "labels": _given_labels(tensor),
        "missing": tensor.missing.patterns.tolist(),
        "report": None if tensor.report is None else tensor.report.to_json(),
    }
    return frame


def count_column(mode_names: tuple[str, ...]) -> str:
    """Return the name of the column of counts: "count", with underscores added if a mode has that name."""
    name = COUNT
    while name in mode_names:
        name += "_"
    return name
