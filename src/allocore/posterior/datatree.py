"""A run as an xarray DataTree in the ArviZ schema: `posterior`, `sample_stats`, `observed_data`, `constant_data`.

Dimensions chain and draw come first, real labels are the coordinates, settings and seed are attributes. The trace of
all sweeps, burn-in included, is the group `sweep_stats` with dimensions chain and sweep (1, 2, ..). The Q classes are
the dimension `q`: their numbers mean nothing from one draw to the next.
"""

import json
import os
import shutil
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from allocore.errors import InputError
from allocore.run.record import Record


def to_datatree(record: Record) -> xr.DataTree:
    """Lay a run out as a DataTree."""
    kept = [record.schedule.sweep_of(draw) - 1 for draw in range(record.core_values.shape[1])]
    at_draws = {name: values[:, kept] for name, values in record.stats.items()}
    tree = xr.DataTree.from_dict(
        {
            "posterior": _posterior(record),
            "sample_stats": _stats(record, at_draws, "draw"),
            "sweep_stats": _stats(record, dict(record.stats), "sweep"),
            "observed_data": _observed(record),
            "constant_data": _constant(record),
        }
    )
    tree.attrs.update(about(record))
    return tree


def check_free(name: str, path: Path) -> None:
    """Refuse a path that exists already, or whose folder does not."""
    if path.exists():
        raise InputError(f"{name} is {str(path)!r}, but that exists already: name a path that does not")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{name} is {str(path)!r}, but the folder {str(path.resolve().parent)!r} does not exist")


def save(record: Record, path: str | os.PathLike[str]) -> None:
    """Write the DataTree as a Zarr folder that appears under its name only when it is whole."""
    target = Path(path)
    check_free("path", target)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.resolve().parent))
    try:
        # Format 2 of Zarr: format 3 has no settled representation of text yet and warns about it.
        to_datatree(record).to_zarr(unfinished, mode="w", zarr_format=2)
        unfinished.chmod(0o755)
        unfinished.rename(target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def about(record: Record) -> dict[str, Any]:
    """Attributes that say what made a run: library, settings, seed."""
    return {
        "inference_library": "allocore",
        "inference_library_version": version("allocore"),
        "settings": json.dumps({"spec": asdict(record.spec), "schedule": asdict(record.schedule)}),
        "seed": str(record.seed),
    }


def _posterior(record: Record) -> xr.Dataset:
    names = record.tensor.mode_names
    variables: dict[str, Any] = {
        "core_values": (("chain", "draw", "q"), record.core_values),
        "core_locations": (("chain", "draw", "q", "mode"), record.core_locations),
    }
    coords: dict[str, Any] = {"mode": np.array(names), **_indices(record.core_values, "chain", "draw", "q")}
    for name, labels, factor in zip(names, record.tensor.labels, record.factors, strict=True):
        row = _free_name(name, variables, coords)
        coords[row] = np.array(labels)
        column = _free_name(f"{row}_factor", variables, coords)
        coords[column] = np.arange(factor.shape[-1])
        variables[_free_name(f"factors_{name}", variables, coords)] = (("chain", "draw", row, column), factor)
    return xr.Dataset(variables, coords)


def _free_name(wanted: str, *taken: dict[str, Any]) -> str:
    """`wanted`, or the nearest name that xarray allows and nothing else in the data set has."""
    name = wanted.replace("/", "_")
    while any(name in names for names in taken):
        name += "_"
    return name


def _stats(record: Record, stats: dict[str, Any], along: str) -> xr.Dataset:
    variables = {name: (("chain", along, "mode")[: values.ndim], values) for name, values in stats.items()}
    coords = {"mode": np.array(record.tensor.mode_names), **_indices(stats["moved"], "chain", along)}
    if along == "sweep":
        coords["sweep"] = coords["sweep"] + 1
    return xr.Dataset(variables, coords)


def _observed(record: Record) -> xr.Dataset:
    """The non-zero cells; every other cell that is not missing holds a zero."""
    tensor = record.tensor
    return xr.Dataset(
        {"counts": ("cell", tensor.counts), "coords": (("mode", "cell"), tensor.coords)},
        {"mode": np.array(tensor.mode_names)},
    )


def _constant(record: Record) -> xr.Dataset:
    """Shape of the tensor and its missing patterns, -1 where a pattern holds all of a mode."""
    tensor = record.tensor
    return xr.Dataset(
        {
            "shape": ("mode", np.array(tensor.shape)),
            "missing_patterns": (("pattern", "mode"), tensor.missing.patterns),
        },
        {"mode": np.array(tensor.mode_names)},
    )


def _indices(array: Any, *dims: str) -> dict[str, Any]:
    return {dim: np.arange(length) for dim, length in zip(dims, array.shape, strict=True)}
