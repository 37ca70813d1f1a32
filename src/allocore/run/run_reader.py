"""Reading a run from disk, finished or not: its settings, its tensor, its draws."""

import json
import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from allocore.data.event_report import EventReport
from allocore.data.tensor import CountTensor
from allocore.errors import InputError, StoreError
from allocore.run.chunks import OnDamage, read_values
from allocore.run.plan import RUN_FORMAT, Plan, fingerprint, planned
from allocore.run.record import Record, draw_fields
from allocore.run.schema import EVENT_REPORT, SWEEPS, Growing, dimension_names, draw_variables, stat_variables

METADATA = ".zmetadata"
_ATTRIBUTES = ("inference_library_version", "packages", "settings", "seed", "tensor")
OnError = Literal["raise", "drop"]


def is_run(path: Path) -> bool:
    """Whether a folder is a run, finished or not."""
    return (path / "posterior").is_dir() and (path / ".zgroup").is_file()


def read_attributes(path: Path) -> dict[str, Any]:
    """The attributes of a run, after a check that this version can read it."""
    if not path.exists():
        raise InputError(f"path is {str(path)!r}, but nothing of that name exists: it must be the folder of a run")
    if not is_run(path):
        kind = "a folder that holds no run of allocore" if path.is_dir() else "a file, and no run of allocore"
        raise InputError(f"path is {str(path)!r}, but that is {kind}")
    try:
        attributes: dict[str, Any] = json.loads((path / ".zattrs").read_bytes())
        form = attributes["run_format"]
        absent = [name for name in _ATTRIBUTES if form == RUN_FORMAT and name not in attributes]
        if absent:
            raise ValueError(f"{absent[0]} is missing")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged: its attributes (.zattrs) cannot be read: {error}") from error
    if form != RUN_FORMAT:
        raise StoreError(f"{path} is a run of format {form}; this version of allocore reads format {RUN_FORMAT}")
    return attributes


def stored_sizes(path: Path) -> dict[str, int]:
    """The number of draws and of sweeps that can be read of every chain."""
    try:
        metadata = json.loads((path / METADATA).read_bytes())["metadata"]
        shapes = {"draw": "posterior/core_values", "sweep": f"{SWEEPS}/moved"}
        return {along: int(metadata[f"{name}/.zarray"]["shape"][1]) for along, name in shapes.items()}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(f"{path} is damaged: {METADATA} cannot be read ({error}); resume makes it again") from error


def read_plan(path: Path) -> Plan:
    """The tensor and the settings of a run."""
    attributes = read_attributes(path)
    try:
        tensor = _read_tensor(zarr.open_group(path, mode="r", zarr_format=2, use_consolidated=False))
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged: its tensor cannot be read: {error}") from error
    if fingerprint(tensor) != attributes["tensor"]:
        raise StoreError(f"{path} is damaged: the tensor in it is not the one that the run was begun with")
    return planned(tensor, attributes)


def _read_tensor(run: zarr.Group) -> CountTensor:
    def read(name: str) -> NDArray[Any]:
        array = run[name]
        return np.asarray(array[...])  # type: ignore[index]

    names = read("constant_data/mode").tolist()
    labels = [read(f"posterior/{each.row}") for each in dimension_names(names)]
    tensor = CountTensor(
        read("observed_data/coords"),
        read("observed_data/counts"),
        read("constant_data/shape").tolist(),
        mode_names=names,
        labels=[each.tolist() if each.dtype.kind == "U" else None for each in labels],
        missing=read("constant_data/missing_patterns"),
    )
    stored = f"constant_data/{EVENT_REPORT}"
    if stored not in run:
        return tensor
    return tensor._replaced(report=EventReport.from_json(str(read(stored))))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


class Damage:
    """Collects what cannot be read: raises at once, or notes the draws to leave out."""

    def __init__(self, path: Path, on_error: OnError) -> None:
        if on_error not in ("raise", "drop"):
            raise InputError(f"on_error is {on_error!r}, but it must be 'raise' or 'drop'")
        self._path, self._on_error = path, on_error
        self._draws: set[int] = set()
        self.lost_stats: set[str] = set()

    def of_draws(self, file: Path, draws: range, error: Exception) -> None:
        """Some draws cannot be read."""
        if self._on_error == "raise":
            which = f"draw {draws[0]}" if len(draws) == 1 else f"draws {draws[0]} to {draws[-1]}"
            raise StoreError(
                f"{self._path} is damaged: {which} cannot be read from {file.relative_to(self._path)} "
                f"({_reason(error)}); on_error='drop' leaves them out and reads the others"
            ) from error
        self._draws.update(draws)

    def of_sweeps(self, file: Path, sweeps: range, error: Exception) -> None:
        """The statistics of some sweeps cannot be read."""
        if self._on_error == "raise":
            raise StoreError(
                f"{self._path} is damaged: the statistics of sweeps {sweeps[0] + 1} to {sweeps[-1] + 1} cannot be read "
                f"from {file.relative_to(self._path)} ({_reason(error)}); on_error='drop' reads the others"
            ) from error
        self.lost_stats.add(file.parent.name)

    def kept(self, draws: int) -> NDArray[np.int64] | None:
        """The undamaged draws, or None if all are; warns about the others."""
        if not self._draws:
            return None
        warnings.warn(f"{self._path} is damaged: {len(self._draws)} of {draws} draws are left out", stacklevel=4)
        return np.setdiff1d(np.arange(draws), sorted(self._draws))


def read_record(path: Path, plan: Plan | None = None, on_error: OnError = "raise") -> Record:
    """The draws and statistics of a run, as far as they are saved.

    A damaged draw is an error. With `on_error="drop"` it is left out in all chains, with a warning.
    """
    plan = plan or read_plan(path)
    sizes, damage = stored_sizes(path), Damage(path, on_error)

    def read(variable: Growing, on_damage: OnDamage) -> NDArray[Any]:
        size = sizes[variable.along]
        values = np.empty((plan.chains, size, *variable.shape), dtype=variable.dtype)
        for chain in range(plan.chains):
            values[chain] = read_values(path / variable.path, variable, chain, 0, size, on_damage)
        return values

    stats = {each.name: read(each, damage.of_sweeps) for each in stat_variables(plan.tensor, SWEEPS)}
    for name in sorted(damage.lost_stats):
        warnings.warn(f"{path} is damaged: some statistics ({name}) are lost", stacklevel=3)
        stats[name] = np.where(stats[name] < 0, np.nan, stats[name]) if stats[name].dtype.kind == "i" else stats[name]
    draws = [read(each, damage.of_draws) for each in draw_variables(plan.tensor, plan.spec)]
    chosen = damage.kept(sizes["draw"])
    kept = slice(None) if chosen is None else chosen
    return Record(
        plan.tensor,
        plan.spec,
        plan.schedule,
        plan.seed,
        **draw_fields(plan.spec, [each[:, kept] for each in draws]),
        stats=stats,
        attributes=read_attributes(path),
        chosen=chosen,
    )
