"""Reading a run from disk, finished or not: its settings, its tensor, its draws.

Nothing of a run is believed. Codecs, types and shapes are checked against the plan before a byte is decoded, and the
plan by its checksum; all draws are read once, to find damage now and not later. The matrices of a large run stay on
the disk (stored_array.py).
"""

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from allocore.data.event_report import EventReport
from allocore.data.holdout import HeldOut
from allocore.data.sharded_tensor import referred
from allocore.data.tensor import CountTensor
from allocore.data.zarr_arrays import read_static
from allocore.data.zarr_metadata import ArrayInfo, parsed_object, read_json
from allocore.errors import StoreError
from allocore.run.attributes import read_attributes, telling
from allocore.run.chunks import OnDamage, chunk_shape
from allocore.run.damage import Damage, OnError
from allocore.run.memory_needs import AT_ONCE
from allocore.run.plan import Plan, fingerprint, fingerprint_of_cells, planned
from allocore.run.record import DrawArray, Record, draw_fields
from allocore.run.schema import (
    EVENT_REPORT,
    HELD_OUT,
    SHARDED,
    SWEEPS,
    Growing,
    dimension_names,
    draw_variables,
    growing_variables,
    stat_variables,
)
from allocore.run.stored_array import StoredArray
from allocore.run.stored_labels import read_labels

METADATA = ".zmetadata"


def stored_sizes(path: Path, plan: Plan | None = None) -> dict[str, int]:
    """The number of draws and of sweeps that can be read of every chain; with the plan, all arrays must agree on it."""
    try:
        metadata = read_json(path / METADATA)["metadata"]
        shapes = {"draw": "posterior/core_values", "sweep": f"{SWEEPS}/moved"}
        sizes = {along: ArrayInfo.of(name, metadata[f"{name}/.zarray"]).shape[1] for along, name in shapes.items()}
        if plan is not None:
            check_arrays(metadata, plan, sizes)
            # A process may have extended the run since the plan was read.
            most = {"draw": plan.schedule.draws, "sweep": plan.schedule.sweeps}
            sizes = {along: min(size, most[along]) for along, size in sizes.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(f"{path} is damaged: {METADATA} cannot be read ({error}); resume makes it again") from error
    return sizes


def check_arrays(metadata: dict[str, Any], plan: Plan, sizes: dict[str, int] | None = None) -> None:
    """Check that the metadata of all growing arrays are those of the plan, and have these `sizes` if given."""
    for each in growing_variables(plan.tensor, plan.spec):
        info = ArrayInfo.of(each.path, metadata[f"{each.path}/.zarray"])
        size = info.shape[1] if sizes is None else sizes[each.along]
        found = info.shape, info.chunks, info.dtype.str, info.order
        expected = (plan.chains, size, *each.shape), chunk_shape(each), each.dtype, "F"
        if found != expected:
            raise ValueError(f"{each.path} has shape, chunks, type and order {found}, but {expected} are expected")


def read_plan(path: Path, on_error: OnError = "raise") -> Plan:
    """The tensor, the settings and the held-out cells of a run; with `on_error="drop"` without them if damaged."""
    attributes = read_attributes(path)
    with telling(path, "its tensor cannot be read"):
        tensor = _read_tensor(path)
    if fingerprint(tensor) != attributes["tensor"]:
        raise StoreError(f"{path} is damaged: the tensor in it is not the one that the run was begun with")
    held_out = _read_held_out(path, tensor, attributes.get(HELD_OUT), on_error)
    with telling(path, "its settings cannot be read"):
        return planned(tensor, attributes, held_out)


def _read_held_out(run: Path, tensor: CountTensor, known: str | None, on_error: OnError) -> HeldOut | None:
    """The cells held out from the tensor, whose fingerprint is `known`; None if the run has none."""
    if known is None:
        return None
    try:
        with telling(run, "its held-out cells cannot be read"):
            counts = read_static(run, f"{HELD_OUT}/counts")
            coords = read_static(run, f"{HELD_OUT}/coords", (tensor.ndim, len(counts)))
            along = int(read_static(run, f"{HELD_OUT}/along", ()))
            mode = None if along < 0 else along
            held_out = HeldOut(coords, counts, tensor.shape, tensor.mode_names, tensor.labels, mode)
            if fingerprint_of_cells(held_out) != known:
                raise ValueError("they are not those that the run was begun with")
    except StoreError as error:
        if on_error == "raise":
            raise StoreError(f"{error}; on_error='drop' reads the run without them") from error
        warnings.warn(f"{error}; they are left out", stacklevel=4)
        return None
    return held_out


def _read_tensor(run: Path) -> CountTensor:
    names = read_static(run, "constant_data/mode").tolist()
    shape = read_static(run, "constant_data/shape", (len(names),)).tolist()
    labels = [read_labels(run, m, each.row, shape[m]) for m, each in enumerate(dimension_names(names))]
    patterns, stored = read_static(run, "constant_data/missing_patterns"), f"constant_data/{EVENT_REPORT}"
    report = EventReport.from_json(str(read_static(run, stored))) if (run / stored).is_dir() else None
    if (run / "observed_data" / SHARDED).is_dir():
        reference = parsed_object(str(read_static(run, f"observed_data/{SHARDED}")), SHARDED)
        return referred(reference, run, names, shape, labels, patterns, report)
    counts = read_static(run, "observed_data/counts")
    coords = read_static(run, "observed_data/coords", (len(names), len(counts)))
    tensor = CountTensor(coords, counts, shape, mode_names=names, labels=labels, missing=patterns)
    return tensor if report is None else tensor._replaced(report=report)


def read_record(path: Path, plan: Plan | None = None, on_error: OnError = "raise") -> Record:
    """The draws and statistics of a run, as far as they are saved.

    A damaged draw is an error. With `on_error="drop"` it is left out in all chains, with a warning.
    """
    plan = plan or read_plan(path, on_error)
    sizes, damage, attributes = stored_sizes(path, plan), Damage(path, on_error), read_attributes(path)
    variables = draw_variables(plan.tensor, plan.spec)
    large = 8 * plan.chains * sizes["draw"] * sum(math.prod(each.shape) for each in variables) > AT_ONCE

    def read(variable: Growing, on_damage: OnDamage) -> DrawArray:
        stored = StoredArray(path, variable, range(plan.chains), range(sizes[variable.along]), attributes)
        if large and len(variable.shape) > 1:
            stored.check(on_damage)
            return stored
        return stored.read(on_damage)

    stats = {each.name: np.asarray(read(each, damage.of_sweeps)) for each in stat_variables(plan.tensor, SWEEPS)}
    for name in sorted(damage.lost_stats):
        warnings.warn(f"{path} is damaged: some statistics ({name}) are lost", stacklevel=3)
        stats[name] = np.where(stats[name] < 0, np.nan, stats[name]) if stats[name].dtype.kind == "i" else stats[name]
    draws = [read(each, damage.of_draws) for each in variables]
    chosen = damage.kept(sizes["draw"])
    kept = slice(None) if chosen is None else chosen
    return Record(
        plan.tensor,
        plan.spec,
        plan.schedule,
        plan.seed,
        **draw_fields(plan.spec, [each[:, kept] for each in draws]),
        stats=stats,
        attributes=attributes,
        chosen=chosen,
        held_out=plan.held_out,
        folded_mode=plan.folded_mode,
    )
