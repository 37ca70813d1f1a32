"""A run as an xarray DataTree in the ArviZ schema (schema.py): labels as coordinates, settings as attributes."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from allocore.data.holdout import HeldOut
from allocore.data.sharded_tensor import ShardedTensor, sharded_reference
from allocore.data.tensor import CountTensor
from allocore.run.plan import Plan
from allocore.run.record import DrawArray, Record
from allocore.run.schema import (
    DRAWS,
    EVENT_REPORT,
    HELD_OUT,
    SHARDED,
    SWEEPS,
    Growing,
    dimension_names,
    draw_variables,
    stat_variables,
)
from allocore.run.stored_labels import coordinate, stored_coordinate, wide_labels


def to_datatree(record: Record) -> xr.DataTree:
    """Make a DataTree of a run."""
    chains, sweeps = record.stats["moved"].shape
    groups = frame(plan_of(record))
    for variable, values in variables_of(record).items():
        group = groups[variable.group]
        counted = record.draw_numbers if variable.along == "draw" else np.arange(1, sweeps + 1)
        group.coords["chain"], group.coords[variable.along] = np.arange(chains), counted
        group[variable.name] = (("chain", variable.along, *variable.dims), np.asarray(values))
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attributes_of(record))
    return tree


def variables_of(record: Record) -> dict[Growing, DrawArray]:
    """The values of all growing variables of a run."""
    tensor, kept = record.tensor, record.draw_sweeps - 1
    named = zip(draw_variables(tensor, record.spec), record.draw_arrays, strict=True)
    variables: dict[Growing, DrawArray] = dict(named)
    variables |= {each: record.stats[each.name][:, kept] for each in stat_variables(tensor, DRAWS)}
    return variables | {each: record.stats[each.name] for each in stat_variables(tensor, SWEEPS)}


def attributes_of(record: Record) -> Mapping[str, str]:
    """The attributes of a run: the stored ones if it was read from disk, otherwise new ones."""
    if record.attributes is not None:
        return record.attributes
    return plan_of(record).attributes()


def plan_of(record: Record) -> Plan:
    """The plan of a run that is complete as it is."""
    given, chains = (record.tensor, record.spec, record.schedule), len(record.core_values)
    return Plan(*given, chains, record.seed, record.held_out, folded_mode=record.folded_mode)


def frame(plan: Plan, on_disk: bool = False) -> dict[str, xr.Dataset]:
    """The groups with what is known before the first sweep: the data and the coordinates, as on disk or in memory."""
    tensor, labels_of = plan.tensor, stored_coordinate if on_disk else coordinate
    mode: dict[str, Any] = {"mode": np.array(tensor.mode_names)}
    coords: dict[str, Any] = {**mode, "q": np.arange(plan.spec.budget)}
    for names, labels, width in zip(
        dimension_names(tensor.mode_names), tensor.labels, plan.spec.core_shape, strict=True
    ):
        coords[names.row], coords[names.column] = labels_of(labels), np.arange(width)
    groups = {
        "posterior": xr.Dataset(coords=coords),
        DRAWS: xr.Dataset(coords=mode),
        SWEEPS: xr.Dataset(coords=mode),
        "observed_data": _observed(tensor, mode),
        "constant_data": _constant(tensor, mode).assign(wide_labels(tensor.labels) if on_disk else {}),
    }
    return groups if plan.held_out is None else {**groups, HELD_OUT: _kept_for_testing(plan.held_out, mode)}


def _observed(tensor: CountTensor, mode: dict[str, Any]) -> xr.Dataset:
    """The non-zero cells. Every other cell that is not missing is zero. A sharded tensor is not copied into the run."""
    if isinstance(tensor, ShardedTensor):
        return xr.Dataset({SHARDED: ((), np.array(json.dumps(sharded_reference(tensor))))}, mode)
    return xr.Dataset({"counts": ("cell", tensor.counts), "coords": (("mode", "cell"), tensor.coords)}, mode)


def _kept_for_testing(held_out: HeldOut, mode: dict[str, Any]) -> xr.Dataset:
    """The held-out cells, zeros included, and the mode that their fibres run along: -1 if they are no fibres."""
    along = -1 if held_out.along is None else held_out.along
    variables = {
        "counts": ("cell", held_out.counts),
        "coords": (("mode", "cell"), held_out.coords),
        "along": ((), np.array(along)),
    }
    return xr.Dataset(variables, mode)


def _constant(tensor: CountTensor, mode: dict[str, Any]) -> xr.Dataset:
    """The tensor's shape, its missing patterns (-1 for a wildcard) and, as JSON, the report on its events if any."""
    variables: dict[str, Any] = {
        "shape": ("mode", np.array(tensor.shape)),
        "missing_patterns": (("pattern", "mode"), tensor.missing.patterns),
    }
    if tensor.report is not None:
        variables[EVENT_REPORT] = ((), np.array(tensor.report.to_json()))
    return xr.Dataset(variables, mode)
