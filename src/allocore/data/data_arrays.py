"""Arrays of xarray: their dimensions are the names of modes, and their coordinates are labels."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from allocore.data.display import plural
from allocore.errors import InputError

_UNITS: tuple[Literal["D", "m", "s", "ms", "us", "ns"], ...] = ("D", "m", "s", "ms", "us", "ns")


def is_data_array(x: Any) -> bool:
    """Return whether `x` is a DataArray of xarray, which need not be imported for that."""
    return any(
        base.__module__.partition(".")[0] == "xarray" and base.__name__ == "DataArray" for base in type(x).__mro__
    )


def array_of(x: Any) -> Any:
    """Return the counts: a sparse array as it is, any other as an array of NumPy, in which NaN is refused."""
    if hasattr(x.data, "fill_value"):
        return x.data
    values = x.to_numpy()
    places = "as_tensor(x.fillna(0)).with_missing(np.argwhere(x.isnull().to_numpy()))"
    refuse_nan(values, "x.fillna(0)", places)
    return values


def refuse_nan(counts: np.ndarray[Any, Any], zeros: str, missing: str) -> None:
    """Raise an InputError if counts are NaN; it says what to give if they are zeros, and if they are missing."""
    number = int(np.isnan(counts).sum()) if counts.dtype.kind == "f" else 0
    if number:
        raise InputError(
            f"x has NaN in {plural(number, 'cell')}, which may mean zero or missing: give {zeros} if these are zeros, "
            f"or {missing} if they were not observed"
        )


def names_of(x: Any) -> list[str]:
    """Return the names of the dimensions."""
    return [str(name) for name in x.dims]


def labels_of(x: Any) -> list[list[Any] | None]:
    """Return the labels of each dimension, or None where it has no coordinates."""
    return [_labels(x.indexes[name]) if name in x.indexes else None for name in x.dims]


def _labels(index: Any) -> list[Any]:
    """Return the labels in an index of pandas; moments are written as days, or as precisely as they need."""
    values = index.to_numpy()
    if values.dtype.kind != "M" or np.isnat(values).any():
        return list(index)
    unit = next(unit for unit in _UNITS if (values == values.astype(f"datetime64[{unit}]")).all())
    return [str(each).replace("T", " ") for each in np.datetime_as_string(values, unit=unit)]
