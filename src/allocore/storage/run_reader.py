"""Reading a run from disk, finished or not: its plan, its draws; and a run as an xarray DataTree.

Nothing is trusted: a checksum checks the plan, and the plan checks codecs, types and shapes before anything is decoded.
All draws are read once, to find damage now and not later. Matrices of a large run stay on disk.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from allocore._zarr import ArrayInfo, array_info, parsed_object, read_json, read_labels, read_static
from allocore.errors import StoreError
from allocore.findings import Finding, warn
from allocore.storage.lazy_array import READ_WHOLE_BYTES, DrawArray, StoredArray
from allocore.storage.record import Plan, Record, fingerprint, fingerprint_of_cells, planned
from allocore.storage.zarr_format import (
    ADDED_STATS,
    METADATA,
    Damage,
    Growing,
    OnDamage,
    OnError,
    chunk_shape,
    coordinate,
    dimension_names,
    draw_variables,
    growing_variables,
    identity_of_draws,
    read_attributes,
    reporting_damage,
    stat_variables,
    wide_labels,
)
from allocore.tensor.count_tensor import CountTensor, with_parts
from allocore.tensor.event_report import EventReport
from allocore.tensor.holdout import HeldOut
from allocore.tensor.sharded import ShardedTensor, referred, sharded_reference
from allocore.tensor.undirected import stored_pair


def stored_tree(record: Record) -> xr.DataTree:
    """Make a DataTree of a run, the same as xarray reads from its folder."""
    chains, sweeps = record.stats["moved"].shape
    groups = frame(plan_of(record))
    for variable, values in variables_of(record).items():
        group = groups[variable.group]
        counted = record.draw_numbers if variable.along == "draw" else np.arange(1, sweeps + 1)
        group.coords["chain"], group.coords[variable.along] = np.arange(chains), counted
        group[variable.name] = (("chain", variable.along, *variable.dims), np.asarray(values))
    tree = xr.DataTree.from_dict(groups)
    # A run that was read from disk keeps the attributes of the process that wrote it.
    tree.attrs.update(plan_of(record).attributes() if record.attributes is None else record.attributes)
    return tree


def variables_of(record: Record) -> dict[Growing, DrawArray]:
    """The values of all growing variables of a run."""
    tensor, places = record.tensor, record.draw_sweeps - 1
    named = zip(draw_variables(tensor, record.spec), record.draw_arrays, strict=True)
    variables: dict[Growing, DrawArray] = dict(named)
    of_draws, of_sweeps = (stat_variables(tensor, group) for group in ("sample_stats", "sweep_stats"))
    variables |= {each: record.stats[stat][:, places] for stat, each in of_draws.items()}
    return variables | {each: record.stats[stat] for stat, each in of_sweeps.items()}


def plan_of(record: Record) -> Plan:
    """The plan of a run that ends with the draws it has."""
    given, chains = (record.tensor, record.spec, record.schedule), len(record.core_values)
    return Plan(*given, chains, record.seed, record.held_out, new_rows=record.new_rows, full=record.full)


def frame(plan: Plan, on_disk: bool = False) -> dict[str, xr.Dataset]:
    """The groups before the first sweep: the data and the coordinates, as on disk or in memory.

    observed_data     the non-zero cells; every other cell that is not missing is zero; or where a sharded tensor is
    constant_data     the tensor's shape, its missing patterns (-1 for a wildcard), its event report as JSON, the
                      modes of undirected ties, and the exposures and frozen factors of mode 0 as exposure_0 and
                      frozen_0 if it has any
    held_out          the held-out cells, zeros included, and the mode of their fibres, or -1 if they are not fibres
    """
    tensor, held_out = plan.tensor, plan.held_out
    mode: dict[str, Any] = {"mode": np.array(tensor.mode_names)}
    coords: dict[str, Any] = {**mode, "q": np.arange(plan.spec.budget)}
    names_M = dimension_names(tensor.mode_names)
    for names, labels, width in zip(names_M, tensor.labels, plan.spec.core_shape, strict=True):
        coords[names.row], coords[names.column] = coordinate(labels, on_disk), np.arange(width)
    if isinstance(tensor, ShardedTensor):
        observed: dict[str, Any] = {"sharded_tensor": ((), np.array(json.dumps(sharded_reference(tensor))))}
    else:
        observed = _cells(tensor)
    constant: dict[str, Any] = wide_labels(tensor.labels) if on_disk else {}
    constant["shape"] = "mode", np.array(tensor.shape)
    constant["missing_patterns"] = ("pattern", "mode"), tensor.missing.patterns
    for number, (names, weights) in enumerate(zip(names_M, plan.spec.exposures, strict=False)):
        if weights:
            constant[f"exposure_{number}"] = names.row, np.array(weights)
    for number, (names, known) in enumerate(zip(names_M, plan.spec.known, strict=False)):
        if known.frozen:
            constant[f"frozen_{number}"] = (names.row, f"frozen_column_{number}"), np.array(known.frozen).T
    if tensor.undirected_modes is not None:
        constant["undirected"] = (), np.array(json.dumps(tensor.undirected_modes))
    if tensor.report is not None:
        constant["event_report"] = (), np.array(tensor.report.to_json())
    groups: dict[str, Any] = {"sample_stats": {}, "sweep_stats": {}}
    groups |= {"observed_data": observed, "constant_data": constant}
    if held_out is not None:
        along = np.array(-1 if held_out.along is None else held_out.along)
        groups["held_out"] = {**_cells(held_out), "along": ((), along)}
    datasets = {name: xr.Dataset(variables, mode) for name, variables in groups.items()}
    return {"posterior": xr.Dataset(coords=coords), **datasets}


def _cells(cells: CountTensor | HeldOut) -> dict[str, Any]:
    return {"counts": ("cell", cells.counts), "coords": (("mode", "cell"), cells.coords)}


def stored_sizes(path: Path, plan: Plan | None = None) -> dict[str, int]:
    """How many chains, and draws and sweeps of each, can be read; given a plan, all arrays must agree with it."""
    try:
        metadata = read_json(path, METADATA)["metadata"]
        shapes = {"draw": "posterior/core_values", "sweep": "sweep_stats/moved"}
        found = {along: ArrayInfo.of(name, metadata[f"{name}/.zarray"]).shape for along, name in shapes.items()}
        sizes = {"chain": found["draw"][0], **{along: shape[1] for along, shape in found.items()}}
        if plan is not None:
            check_arrays(metadata, plan, path, sizes)
            # A process may have extended the run since the plan was read.
            most = {"chain": plan.chains, "draw": plan.schedule.draws, "sweep": plan.schedule.sweeps}
            if sizes["chain"] < 1:
                raise ValueError("there are no chains")
            sizes = {along: min(size, most[along]) for along, size in sizes.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        problem = f"is damaged: {METADATA} cannot be read ({error}); resuming the run makes it again"
        raise StoreError(path, problem) from error
    return sizes


def check_arrays(metadata: dict[str, Any], plan: Plan, run: Path, sizes: dict[str, int] | None = None) -> None:
    """Check that the metadata of all growing arrays agree with the plan, and with `sizes` if given."""
    for each in growing_variables(plan.tensor, plan.spec, run):
        info = ArrayInfo.of(each.path, metadata[f"{each.path}/.zarray"])
        shape = info.shape[:2] if sizes is None else (sizes["chain"], sizes[each.along])
        found = info.shape, info.chunks, info.dtype.str, info.order
        expected = (*shape, *each.shape), chunk_shape(each), each.dtype, "F"
        if found != expected:
            raise ValueError(f"{each.path} has shape, chunks, type and order {found}, not {expected}")


def read_plan(path: Path, on_error: OnError = "raise") -> Plan:
    """The tensor, the settings and the held-out cells of a run; `on_error="drop"` leaves out cells that are damaged."""
    attributes = read_attributes(path)
    with reporting_damage(path, "its tensor cannot be read"):
        tensor = _read_tensor(path)
    if fingerprint(tensor) != attributes["tensor"]:
        raise StoreError(path, "is damaged: its tensor is not the one that the run started with")
    held_out = _read_held_out(path, tensor, attributes.get("held_out"), on_error)
    with reporting_damage(path, "its settings cannot be read"):
        return planned(tensor, attributes, held_out, _read_exposures(path, tensor), _read_frozen(path, tensor))


def _read_held_out(run: Path, tensor: CountTensor, known: str | None, on_error: OnError) -> HeldOut | None:
    """The cells held out from the tensor, whose fingerprint is `known`; None if the run has none."""
    if known is None:
        return None
    try:
        with reporting_damage(run, "its held-out cells cannot be read"):
            counts = read_static(run, "held_out/counts")
            coords = read_static(run, "held_out/coords", (tensor.ndim, len(counts)))
            along = int(read_static(run, "held_out/along", ()))
            mode = None if along < 0 else along
            held_out = HeldOut(coords, counts, tensor.shape, tensor.mode_names, tensor.labels, mode)
            if fingerprint_of_cells(held_out) != known:
                raise ValueError("they are not those that the run started with")
    except StoreError as error:
        if on_error == "raise":
            raise StoreError(run, f"{error.problem}; `on_error='drop'` reads the run without them") from error
        warn(Finding("held-out-left-out", "caution", {"path": error.path, "problem": error.problem}), stacklevel=4)
        return None
    return held_out


def _read_exposures(run: Path, tensor: CountTensor) -> tuple[tuple[float, ...], ...]:
    names = [f"constant_data/exposure_{mode}" for mode in range(tensor.ndim)]
    shapes = zip(names, tensor.shape, strict=True)
    return tuple(
        tuple(read_static(run, name, (rows,)).tolist()) if (run / name).is_dir() else () for name, rows in shapes
    )


def _read_frozen(run: Path, tensor: CountTensor) -> tuple[tuple[tuple[float, ...], ...], ...]:
    """The columns of the frozen factors of every mode."""
    names = [f"constant_data/frozen_{mode}" for mode in range(tensor.ndim)]
    tables = [read_static(run, name) if (run / name).is_dir() else np.empty((0, 0)) for name in names]
    return tuple(tuple(tuple(column) for column in share_DF.T.tolist()) for share_DF in tables)


def _read_tensor(run: Path) -> CountTensor:
    names = read_static(run, "constant_data/mode").tolist()
    shape = read_static(run, "constant_data/shape", (len(names),)).tolist()
    labels = [_read_labels(run, m, each.row, shape[m]) for m, each in enumerate(dimension_names(names))]
    patterns, report, pair = read_static(run, "constant_data/missing_patterns"), None, None
    if (run / "constant_data" / "undirected").is_dir():
        pair = stored_pair(json.loads(str(read_static(run, "constant_data/undirected"))), len(names))
    if (run / "constant_data" / "event_report").is_dir():
        report = EventReport.from_json(str(read_static(run, "constant_data/event_report")))
    if (run / "observed_data" / "sharded_tensor").is_dir():
        reference = parsed_object(str(read_static(run, "observed_data/sharded_tensor")), "sharded_tensor")
        return referred(reference, run, names, shape, labels, patterns, report, pair)
    counts = read_static(run, "observed_data/counts")
    coords = read_static(run, "observed_data/coords", (len(names), len(counts)))
    tensor = CountTensor(coords, counts, shape, mode_names=names, labels=labels, missing=patterns)
    tensor = tensor if pair is None else tensor.undirected(pair)
    return tensor if report is None else with_parts(tensor, report=report)


def _read_labels(run: Path, mode: int, row: str, length: int) -> tuple[str, ...] | None:
    if array_info(run, f"posterior/{row}").dtype.kind == "U":
        return tuple(read_static(run, f"posterior/{row}").tolist())
    return read_labels(run, f"constant_data/labels_{mode}", length)


def read_record(path: Path, plan: Plan | None = None, on_error: OnError = "raise") -> Record:
    """The saved draws and statistics of a run; `on_error="drop"` leaves out damaged draws, in all chains."""
    before = read_attributes(path)
    try:
        record = _read_once(path, plan, on_error)
    except StoreError:
        if identity_of_draws(read_attributes(path)) == identity_of_draws(before):
            raise
    else:
        if identity_of_draws(read_attributes(path)) == identity_of_draws(before):
            return record
    return read_record(path, None, on_error)  # another process has replaced the draws meanwhile


def _read_once(path: Path, plan: Plan | None, on_error: OnError) -> Record:
    plan = plan or read_plan(path, on_error)
    sizes, damage, attributes = stored_sizes(path, plan), Damage(path, on_error), read_attributes(path)
    variables = draw_variables(plan.tensor, plan.spec)
    large = 8 * sizes["chain"] * sizes["draw"] * sum(math.prod(each.shape) for each in variables) > READ_WHOLE_BYTES

    def read(variable: Growing, on_damage: OnDamage) -> DrawArray:
        stored = StoredArray(path, variable, range(sizes["chain"]), range(sizes[variable.along]), attributes)
        if large and len(variable.shape) > 1:
            stored.check(on_damage)
            return stored
        return stored.read(on_damage)

    stored = stat_variables(plan.tensor, "sweep_stats", path)
    stats = {stat: np.asarray(read(each, damage.of_sweeps)) for stat, each in stored.items()}
    for name in sorted(damage.lost_stats):
        warn(Finding("statistics-lost", "caution", {"path": str(path), "name": name}), stacklevel=3)
        if stats[name].dtype.kind == "i" or name in ADDED_STATS:
            stats[name] = np.where(stats[name] < 0, np.nan, stats[name])
    draws = [read(each, damage.of_draws) for each in variables]
    chosen = damage.undamaged(sizes["draw"])
    which = slice(None) if chosen is None else chosen
    return Record.of(plan, [each[:, which] for each in draws], stats=stats, attributes=attributes, chosen=chosen)
