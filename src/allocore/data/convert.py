"""Turn arrays, sparse tensors of other libraries and files into a CountTensor.

Types of other libraries are recognised by the name of the module that defines them, so no library has to be imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from allocore.data.data_arrays import array_of, is_data_array, labels_of, names_of, refuse_nan
from allocore.data.export import KEY, from_frame
from allocore.data.tensor import CountTensor, Labels
from allocore.errors import InputError

# Libraries of tables, by the modules that define their types.
_FRAMES = frozenset(("pandas", "polars", "pyarrow", "duckdb", "_duckdb", "narwhals", "modin", "cudf", "ibis"))


def as_tensor(x: Any, *, mode_names: Sequence[str] | None = None, labels: Labels | None = None) -> CountTensor:
    """Return `x` as a CountTensor.

    Parameters
    ----------
    x : CountTensor, array, data frame or path-like
        A CountTensor; a NumPy array (masked cells become missing); a SciPy sparse matrix or array; a pydata `sparse`
        array; a pyttb `sptensor` or `tensor`; an xarray `DataArray`, whose dimensions become the names of the modes and
        whose coordinates become labels; a data frame of `CountTensor.to_frame`; or a path. NaN is refused, since it may
        mean zero or missing. Files may be those of
        `CountTensor.save`, `.npz` files of SciPy or pydata sparse or with arrays `coords` and `counts`, `.npy` files
        with a dense array, or FROSTT `.tns` and `.tns.gz` files.
    mode_names : sequence of str, optional
        One name per mode. By default the names of `x` are kept.
    labels : sequence or dict, optional
        As for `CountTensor`. By default the labels of `x` are kept.

    Returns
    -------
    CountTensor
        `x` itself, if it is a CountTensor and nothing else is given.

    Raises
    ------
    InputError
        If `x` is of another type, or does not hold counts.

    Examples
    --------
    >>> import allocore as ac
    >>> import numpy as np
    >>> ac.as_tensor(np.array([[0, 2], [3, 0]]), mode_names=["buyer", "month"])
    CountTensor: 2 x 2 (buyer, month), 2 non-zeros, 5 counts, 50% dense
    """
    if isinstance(x, str | os.PathLike):
        from allocore.data.files import read

        x = read(x)
    if KEY in getattr(x, "attrs", ()):
        x = from_frame(x)
    if isinstance(x, CountTensor):
        return x if mode_names is None and labels is None else x.with_labels(labels, mode_names)
    if is_data_array(x):
        mode_names = names_of(x) if mode_names is None else mode_names
        labels = labels_of(x) if labels is None else labels
        x = array_of(x)
    coords, counts, shape, missing = _parts(x)
    return CountTensor(coords, counts, shape, mode_names=mode_names, labels=labels, missing=missing)


def _parts(x: Any) -> tuple[Any, Any, Sequence[int], Any]:
    """Return coordinates, counts, shape and missing patterns (or None)."""
    libraries = _libraries(x)
    if libraries & {"numpy", "scipy", "sparse", "pyttb"} and len(getattr(x, "shape", "??")) < 2:
        raise InputError(f"x must have at least 2 modes; got shape {tuple(x.shape)}")
    if isinstance(x, np.ndarray):
        return _from_array(x)
    if "scipy" in libraries and hasattr(x, "tocoo"):
        coo = x.tocoo()
        return np.stack(coo.coords), coo.data, coo.shape, None
    if "sparse" in libraries and hasattr(x, "fill_value"):
        return _from_sparse(x)
    if "pyttb" in libraries and hasattr(x, "subs"):
        return np.asarray(x.subs).reshape(-1, len(x.shape)).T, np.ravel(x.vals), x.shape, None
    if "pyttb" in libraries and isinstance(getattr(x, "data", None), np.ndarray):
        return _from_array(x.data)
    if libraries & _FRAMES:
        library = type(x).__module__.partition(".")[0]
        raise InputError(
            f"x is a {type(x).__qualname__} of {library}: read_events(x, modes=[...]) counts the rows of a table, with "
            "count= for a column of counts; if each cell of the table is a count, give x.to_numpy()"
        )
    raise InputError(
        f"x has the type {type(x).__module__}.{type(x).__qualname__}; it must be a CountTensor, "
        "a NumPy array, a SciPy sparse array or matrix, a pydata sparse array, "
        f"a pyttb sptensor or tensor, an xarray DataArray, or a path{_hint(libraries)}"
    )


def _libraries(x: Any) -> set[str]:
    """Return the libraries that define the type of `x`."""
    return {base.__module__.partition(".")[0] for base in type(x).__mro__}


def _hint(libraries: set[str]) -> str:
    if "xarray" in libraries:
        return ": choose one variable of a Dataset, as in x['counts']"
    return ": x.compute() gives an array in memory" if "dask" in libraries else ""


def _from_array(x: np.ndarray[Any, Any]) -> tuple[Any, Any, Sequence[int], Any]:
    if x.dtype.kind not in "biuf":
        raise InputError(f"x must be an array of whole numbers; got an array of type {x.dtype}")
    missing = None
    if isinstance(x, np.ma.MaskedArray):
        missing = np.argwhere(np.ma.getmaskarray(x))
        x = x.filled(0)
    x = np.asarray(x)
    refuse_nan(x, "np.nan_to_num(x)", "np.ma.masked_invalid(x)")
    where = np.nonzero(x)
    return np.stack(where), x[where], x.shape, missing


def _from_sparse(x: Any) -> tuple[Any, Any, Sequence[int], Any]:
    if x.fill_value != 0:
        raise InputError(f"x must have the fill value 0; got {x.fill_value}")
    coo = x.asformat("coo")
    return coo.coords, coo.data, coo.shape, None
