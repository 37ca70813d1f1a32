"""Tensors in files: our own `.npz`, and those that other programs write.

Our format holds plain arrays, never pickled objects: `format` (name and version), `coords`, `counts`, `shape`,
`missing` (patterns, -1 for a wildcard) and `header` (UTF-8 JSON with the mode names, the labels, and the report on
events if there is one). What is read is checked like any other input: a file may have been edited.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from allocore._files import existing_file, replacing
from allocore.data.event_report import EventReport
from allocore.data.json_text import parsed_json
from allocore.data.numpy_files import UNREADABLE, Arrays, read_npy, read_npz
from allocore.data.tensor import CountTensor
from allocore.data.tensor_parts import TensorParts
from allocore.data.tns import read_tns, write_entries
from allocore.errors import InputError

FORMAT = "allocore.CountTensor"
VERSION = 1

_SUFFIXES = (".npz", ".parquet", ".tns", ".tns.gz")
_SUFFIXES_IN_WORDS = ".npz, .parquet, .tns, .tns.gz or .zarr"


def save_tensor(tensor: TensorParts, path: str | os.PathLike[str]) -> None:
    """Write all of a tensor to an `.npz` file, or nothing.

    Examples
    --------
    >>> import allocore as ac, tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ac.load_flights().save(pathlib.Path(folder) / "flights.npz")
    ...     ac.load_tensor(pathlib.Path(folder) / "flights.npz") == ac.load_flights()
    True
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InputError(f"path must end in .npz; got {str(target)!r}")
    header: dict[str, Any] = {
        "mode_names": tensor.mode_names,
        "labels": [list(each) if isinstance(each, tuple) else None for each in tensor.labels],
    }
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


def save(tensor: TensorParts, path: str | os.PathLike[str], shards: int | None = None) -> None:
    """Write a tensor in the format that the suffix names: `.npz`, `.parquet`, `.tns`, `.tns.gz` or `.zarr`."""
    target = Path(path)
    if target.suffix == ".zarr":
        from allocore.data.sharded_tensor import SHARDS, save_sharded

        save_sharded(tensor, target, SHARDS if shards is None else shards)
    elif shards is not None:
        raise InputError(f"shards is {shards}, but only a folder that ends in .zarr has shards; path is {str(path)!r}")
    elif target.suffix == ".parquet":
        from allocore.data.export import write_parquet

        try:
            write_parquet(tensor, target)
        except OSError as error:
            raise InputError(f"{target} cannot be written: {error.strerror or error}") from error
    elif target.name.endswith((".tns", ".tns.gz")):
        write_tns(tensor, target)
    elif target.suffix == ".npz":
        save_tensor(tensor, target)
    else:
        raise InputError(f"path must end in {_SUFFIXES_IN_WORDS}; got {str(target)!r}")


def load_tensor(path: str | os.PathLike[str]) -> CountTensor:
    """Read a tensor from a file that `CountTensor.save` wrote.

    Parameters
    ----------
    path : str or path-like
        A file that ends in `.npz`, `.parquet`, `.tns` or `.tns.gz`, or a folder of shards that ends in `.zarr`.
        `as_tensor` also reads files of other programs.

    Returns
    -------
    CountTensor
        The tensor that was saved. A `.tns` file keeps the counts alone: labels and mode names are lost, and each mode
        ends with its last non-zero. Of a folder of shards, a `ShardedTensor`, whose cells stay on disk.

    Raises
    ------
    InputError
        If the file does not exist, is damaged, or was not written by `CountTensor.save`.

    Examples
    --------
    >>> import allocore as ac, pathlib, tempfile
    >>> Y = ac.load_flights()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Y.save(pathlib.Path(folder) / "flights.npz")
    ...     ac.load_tensor(pathlib.Path(folder) / "flights.npz") == Y
    True
    """
    if Path(path).suffix == ".zarr":
        return _sharded(path)
    target = existing_file(path)
    if not target.name.endswith(_SUFFIXES):
        raise InputError(f"{target} has an unknown suffix; it must be {_SUFFIXES_IN_WORDS}")
    if target.suffix != ".npz":
        return read(target)
    arrays = read_npz(target)
    if not _is_ours(arrays):
        raise InputError(f"{target} is not a saved CountTensor; as_tensor reads files of other programs")
    return _from_own(target, arrays)


def read(path: str | os.PathLike[str]) -> CountTensor:
    """Read a tensor from any file that is understood.

    These are `.npz` files of `save_tensor`, of pydata sparse or of scipy.sparse, or with arrays `coords`, `counts` (or
    `data`) and perhaps `shape`; `.npy` files with a dense array; `.parquet` files of `CountTensor.save`; and FROSTT
    `.tns` and `.tns.gz` files; and folders of shards (`.zarr`).
    """
    if Path(path).suffix == ".zarr":
        return _sharded(path)
    target = existing_file(path)
    if target.suffix == ".npz":
        return _read_npz(target)
    if target.suffix == ".parquet":
        from allocore.data.export import read_parquet

        return read_parquet(target)
    try:
        if target.name.endswith((".tns", ".tns.gz")):
            return CountTensor(*read_tns(target))
        if target.suffix == ".npy":
            return _as_tensor(read_npy(target))
    except InputError as error:
        raise _about(target, error) from None
    raise InputError(f"{target} has an unknown suffix; it must be .npz, .npy, .parquet, .tns, .tns.gz or .zarr")


def _sharded(path: str | os.PathLike[str]) -> CountTensor:
    from allocore.data.shard_files import is_sharded
    from allocore.data.sharded_tensor import ShardedTensor

    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise InputError(f"{folder} {'is not a folder' if folder.exists() else 'does not exist'}")
    if not is_sharded(folder) and (folder / "posterior").is_dir():
        raise InputError(f"{folder} is a run, not a tensor: ac.open_run reads it")
    return ShardedTensor(folder)


def write_tns(tensor: TensorParts, path: str | os.PathLike[str]) -> None:
    """Write the non-zeros as FROSTT text (`.tns`, or compressed `.tns.gz`), with indices counted from 1.

    The format has no place for labels, mode names or empty positions at the end of a mode: these are lost. Tensors with
    missing cells are refused, because these cells would be read back as zeros.
    """
    target = Path(path)
    if not target.name.endswith((".tns", ".tns.gz")):
        raise InputError(f"path must end in .tns or .tns.gz; got {str(target)!r}")
    if len(tensor.missing):
        raise InputError(
            f"tensor has missing cells ({len(tensor.missing):,} patterns), which a .tns file cannot hold; write .npz, "
            ".parquet or .zarr instead"
        )
    with _replacing(target) as file:
        write_entries(file, tensor.coords, tensor.counts, compress=target.suffix == ".gz")


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `target` once it is complete; an error of the disk becomes an InputError."""
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from error


def _about(path: Path, error: InputError) -> InputError:
    """Return the error with the path in front, unless it is there already."""
    text = str(error)
    return InputError(text if text.startswith(str(path)) else f"{path}: {text}")


def _read_npz(path: Path) -> CountTensor:
    arrays = read_npz(path)
    if _is_ours(arrays):
        return _from_own(path, arrays)
    try:
        if "format" in arrays and arrays["format"].dtype.kind == "S":
            return _from_scipy(path)
        return _from_plain(arrays)
    except InputError as error:
        raise _about(path, error) from None


def _is_ours(arrays: Arrays) -> bool:
    mark = arrays.get("format")
    return mark is not None and mark.dtype.kind == "U" and str(mark).startswith(f"{FORMAT}/")


def _from_own(path: Path, arrays: Arrays) -> CountTensor:
    version = str(arrays["format"]).removeprefix(f"{FORMAT}/")
    if version != str(VERSION):
        raise InputError(f"{path} has format version {version}; this allocore reads version {VERSION}")
    try:
        header = parsed_json(arrays["header"].tobytes())
        tensor = CountTensor(
            arrays["coords"],
            arrays["counts"],
            _listed_shape(arrays["shape"]),
            mode_names=header["mode_names"],
            labels=header["labels"],
            missing=arrays["missing"],
        )
        return tensor._replaced(report=EventReport.from_json(header["report"])) if "report" in header else tensor
    except InputError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged: it lacks a part, or a part is of another kind: {error}") from error


def _from_scipy(path: Path) -> CountTensor:
    """Return the tensor of a file of scipy.sparse.save_npz."""
    import scipy.sparse

    try:
        matrix = scipy.sparse.load_npz(path)
        if hasattr(matrix, "check_format"):
            matrix.check_format(
                full_check=True
            )  # SciPy trusts indices, and those of a damaged file reach beyond arrays
        return _as_tensor(matrix)
    except InputError:
        raise
    except UNREADABLE as error:
        raise InputError(f"not a file of scipy.sparse.save_npz: {error}") from error


def _from_plain(arrays: Arrays) -> CountTensor:
    counts = arrays.get("counts", arrays.get("data"))
    if "coords" not in arrays or counts is None:
        raise InputError(f"must have the arrays coords and counts (or data); got {', '.join(arrays) or 'none'}")
    fill = arrays.get("fill_value")
    if fill is not None and np.any(fill != 0):
        raise InputError(f"fill_value must be 0; got {fill}")
    return CountTensor(arrays["coords"], counts, _listed_shape(arrays["shape"]) if "shape" in arrays else None)


def _listed_shape(shape: np.ndarray[Any, Any]) -> list[Any]:
    if shape.ndim != 1:
        raise InputError(f"shape must be a list of lengths; got an array with {shape.ndim} dimensions")
    return list(shape.tolist())


def _as_tensor(x: object) -> CountTensor:
    # convert reads paths through this module.
    from allocore.data.convert import as_tensor

    return as_tensor(x)
