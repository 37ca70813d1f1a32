"""Writing a run to disk while it runs: the skeleton, the sizes that readers see, and the store of the draws.

The skeleton has all arrays before the first sweep. Only the consolidated metadata say to which size they have grown;
the metadata of the single arrays are updated when writing ends. The package's docstring describes the folder.
"""

import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Self

import numpy as np
import xarray as xr
import zarr

from allocore._io import ProcessLock, new_folder, remove_unfinished, replacing, settle
from allocore._zarr import ArrayInfo, compressor, encode, read_json, write_json
from allocore.errors import InputError, StoreError
from allocore.findings import Finding, warn
from allocore.gibbs import SAMPLER_VERSION
from allocore.model.state import State, SweepInfo
from allocore.storage.record import (
    Plan,
    Record,
    check_extension,
    keeps_draws,
    other_arithmetic,
    shown_chains,
    stats_of,
)
from allocore.storage.run_reader import (
    check_arrays,
    frame,
    plan_of,
    read_plan,
    read_record,
    stored_sizes,
    variables_of,
)
from allocore.storage.state_files import read_checkpoint, remove_slices, write_checkpoint
from allocore.storage.zarr_format import (
    FLOAT,
    METADATA,
    WHOLE,
    Damage,
    GrowingChunks,
    OnError,
    chunk_shape,
    draw_values,
    draw_variables,
    growing_variables,
    is_run,
    read_attributes,
    reporting_damage,
    stat_variables,
    with_checksum,
)
from allocore.tensor.sharded import ShardedTensor

CHECKPOINTS = "checkpoints"
SAVE_INTERVAL = 5.0  # seconds between the saves of a chain, at least
SAVE_INTERVAL_FACTOR = 50.0  # and at least this many times as long as the last save took: saving takes 2% of the time
_NUMBERS_IN_CHUNK = 4096  # of the coordinates chain, draw and sweep
# The coordinates chain, draw and sweep of the groups: what they number, and their first values.
_NUMBERED = {
    **{f"{group}/chain": ("chain", 0) for group in ("posterior", "sample_stats", "sweep_stats")},
    "posterior/draw": ("draw", 0),
    "sample_stats/draw": ("draw", 0),
    "sweep_stats/sweep": ("sweep", 1),
}


def write_skeleton(folder: Path, plan: Plan) -> None:
    """Write the tensor, the coordinates, the settings, and empty arrays for the draws."""
    groups = frame(plan, on_disk=True)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(plan.attributes())
    encoding = {
        f"/{name}": {variable: {"compressors": (compressor(),)} for variable in group.variables}
        for name, group in groups.items()
    }
    # Zarr format 2: format 3 has no stable specification of text or of consolidated metadata, and warns about both.
    tree.to_zarr(folder, mode="w", zarr_format=2, consolidated=False, encoding=encoding)
    run = zarr.open_group(folder, mode="r+", zarr_format=2, use_consolidated=False)
    options: dict[str, Any] = {"compressors": (compressor(),), "filters": None}
    for variable in growing_variables(plan.tensor, plan.spec):
        run.create_array(
            variable.path,
            shape=(plan.chains, 0, *variable.shape),
            chunks=chunk_shape(variable),
            dtype=variable.dtype,
            order="F",
            # What a reader finds if a chunk is absent. Integers have none, or xarray would make them floats.
            fill_value=float("nan") if variable.dtype == FLOAT else None,
            attributes={"_ARRAY_DIMENSIONS": ["chain", variable.along, *variable.dims]},
            **options,
        )
    for name, (along, _) in _NUMBERED.items():
        options["attributes"] = {"_ARRAY_DIMENSIONS": [along]}
        size = plan.chains if along == "chain" else 0
        run.create_array(name, shape=(size,), chunks=(_NUMBERS_IN_CHUNK,), dtype=WHOLE, fill_value=None, **options)
        _write_numbers(folder, name, size)
    write_json(folder / METADATA, _collect_metadata(folder))


def _write_numbers(folder: Path, name: str, size: int) -> None:
    """Write the chunks of a coordinate up to `size`. Of the last chunk, readers see the part up to it."""
    first = _NUMBERED[name][1]
    for chunk in range(-(-size // _NUMBERS_IN_CHUNK)):
        path = folder / name / str(chunk)
        if not path.exists():
            numbers = np.arange(chunk * _NUMBERS_IN_CHUNK, (chunk + 1) * _NUMBERS_IN_CHUNK, dtype=WHOLE) + first
            with replacing(path) as file:
                file.write(encode(numbers))


def _collect_metadata(folder: Path) -> dict[str, Any]:
    """The metadata of all arrays and groups together. Zarr's own function would warn about the checkpoints."""
    files = [*folder.rglob(".zgroup"), *folder.rglob(".zarray"), *folder.rglob(".zattrs")]
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    metadata = {name: read_json(folder, name) for name in names}
    return {"metadata": metadata, "zarr_consolidated_format": 1}


class ConsolidatedMetadata:
    """Zarr's metadata, with the attributes and the sizes that readers see; if damaged, sizes are zero until a save.

    Attributes and sizes are in one file, which is replaced as a whole, so a reader never sees draws of another plan.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        try:
            self.sizes = stored_sizes(folder, plan)
            self._document = read_json(folder, METADATA)
        except StoreError:
            self.sizes = {"chain": plan.chains, "draw": 0, "sweep": 0}
            with reporting_damage(folder, "the metadata of its arrays cannot be read"):
                self._document = _collect_metadata(folder)
                check_arrays(self._document["metadata"], plan, folder)
                for name in _NUMBERED:
                    ArrayInfo.of(name, self._document["metadata"][f"{name}/.zarray"])
        self._along: dict[str, tuple[str, ...]] = {name: (along,) for name, (along, _) in _NUMBERED.items()}
        self._along |= {each.path: ("chain", each.along) for each in growing_variables(plan.tensor, plan.spec, folder)}

    def update(self, sizes: dict[str, int], attributes: dict[str, Any] | None = None) -> None:
        """Let readers see this many chains, draws and sweeps, and other attributes if they are given."""
        for name, (along, _) in _NUMBERED.items():
            _write_numbers(self._folder, name, sizes[along])
        for name, along_axes in self._along.items():
            shape = self._document["metadata"][f"{name}/.zarray"]["shape"]
            shape[: len(along_axes)] = [sizes[along] for along in along_axes]
        if attributes is not None:
            self._document["metadata"][".zattrs"] = attributes
        write_json(self._folder / METADATA, self._document)
        if attributes is not None:
            write_json(self._folder / ".zattrs", attributes)
        settle(self._folder)
        self.sizes = dict(sizes)

    def write_array_metadata(self) -> None:
        """Update the metadata of every array, for readers that do not use the consolidated metadata."""
        for name in self._along:
            write_json(self._folder / name / ".zarray", self._document["metadata"][f"{name}/.zarray"])


class ZarrStore:
    """The store on disk. `create` starts a run, `reopen` continues one. Only one process can write it at a time."""

    def __init__(self, path: Path, plan: Plan, lock: ProcessLock, on_error: OnError = "raise") -> None:
        self.path, self.plan = path, plan
        self._lock, self._on_error = lock, on_error
        self._metadata = ConsolidatedMetadata(path, plan)
        self._commits = Lock()
        self._chains: list[_ChainFiles] = []

    def _open_chains(self, plan: Plan, sizes: dict[str, int]) -> "list[_ChainFiles]":
        """Go on where each chain has been saved; one that readers do not see yet may have nothing on disk."""
        none = dict.fromkeys(sizes, 0)
        with self._reporting_failure():
            return [
                _ChainFiles(self.path, chain, plan, sizes if chain < sizes["chain"] else none, self._on_error)
                for chain in range(plan.chains)
            ]

    @classmethod
    def create(
        cls,
        path: Path,
        plan: Plan,
        start: Sequence[State] | None = None,
        also: Callable[[Path], None] = lambda _folder: None,
    ) -> Self:
        """Start a run at a path that does not exist yet. If chains begin at given states, they are stored with it.

        `also` writes more files into the folder, before it is there for others.
        """
        check_free("store", path)
        with new_folder(path) as folder:
            write_skeleton(folder, plan)
            (folder / CHECKPOINTS).mkdir()
            for chain, state in enumerate(start or ()):
                write_checkpoint(folder / CHECKPOINTS / str(chain), 0, state)
            also(folder)
        store = cls(path, plan, _locked(path))
        store._chains = store._open_chains(plan, store._metadata.sizes)
        return store

    @classmethod
    def reopen(cls, path: Path, on_error: OnError = "raise", resumed: Callable[[Plan], Plan] = Plan.resumed) -> Self:
        """Continue a run; `resumed` returns the plan with which it goes on, or raises an error."""
        attributes = read_attributes(path)
        lock = _locked(path)
        try:
            plan = read_plan(path, on_error)
            _check_resumable(path, plan, attributes)
            remove_slices(path)
            _check_links(path)
            remove_unfinished(path)
            store = cls(path, plan, lock, on_error)
            store.extend(resumed(plan))
            return store
        except BaseException:
            lock.release()
            raise

    def record_sweep(self, chain: int, sweep: int, info: SweepInfo, seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""
        with self._reporting_failure():
            self._chains[chain].record_sweep(sweep, stats_of(info, seconds))

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""
        with self._reporting_failure():
            self._chains[chain].record_draw(draw, draw_values(state))

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Write the chain's collected draws and its state, if it is time or must be `now`."""
        files = self._chains[chain]
        if not now and monotonic() < files.next_save:
            return
        with self._reporting_failure():
            files.save(sweep, state)
            self._publish()

    def extend(self, plan: Plan) -> None:
        """Go on with another plan. What readers see changes at once, with the file of the consolidated metadata."""
        check_extension(self.plan, plan)
        if plan.chains > self.plan.chains and plan.started is not None:
            rule = "cannot be increased: the chains of this run began at the states of another run"
            raise InputError("chains", plan.chains, rule)
        keeps = keeps_draws(self.plan.schedule, plan.schedule)
        sizes = self._metadata.sizes if keeps else {"chain": plan.chains, "draw": 0, "sweep": 0}
        chains = self._open_chains(plan, sizes)  # before anything changes: they may be damaged
        with self._reporting_failure():
            settings = with_checksum({**read_attributes(self.path), "settings": plan.settings()})
            self._metadata.update(sizes, settings)
            self.plan, self._chains = plan, chains
            self._publish()

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state of a chain's newest checkpoint, or None if it must start."""
        return self._chains[chain].point

    def finish(self) -> Record:
        """Return the draws and sweeps that all shown chains have, read from the disk."""
        return read_record(self.path, self.plan, self._on_error)

    def how_to_resume(self) -> str:
        """How to continue the run, in a sentence."""
        path = str(self.path)
        return f"continue with {self.plan.spec.model}.resume({path!r}) or: allocore resume {shlex.quote(path)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            with self._reporting_failure():
                self._metadata.write_array_metadata()
        except StoreError:
            if error is None:
                raise
        finally:
            self._lock.release()

    def _publish(self) -> None:
        """Let readers see the draws and sweeps that all shown chains have on the disk."""
        with self._commits:
            shown = shown_chains([each.saved["sweep"] for each in self._chains], self._metadata.sizes["chain"])
            saved = [each.saved for each in self._chains[:shown]]
            sizes = {along: min(each[along] for each in saved) for along in ("draw", "sweep")}
            self._metadata.update({"chain": shown, **sizes})

    @contextmanager
    def _reporting_failure(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            reason, draws = error.strerror or error, self._metadata.sizes["draw"]
            safe = f"The {draws} draws in it are safe; once the cause is fixed, {self.how_to_resume()}"
            raise StoreError(self.path, f"cannot be written: {reason}. {safe}") from error


class _ChainFiles:
    def __init__(self, path: Path, chain: int, plan: Plan, sizes: dict[str, int], on_error: OnError) -> None:
        self._folder, damage = path / CHECKPOINTS / str(chain), Damage(path, on_error)
        self._draws = [GrowingChunks(path, chain, each) for each in draw_variables(plan.tensor, plan.spec)]
        self._of_draws, self._of_sweeps = (
            {stat: GrowingChunks(path, chain, each) for stat, each in stat_variables(plan.tensor, group, path).items()}
            for group in ("sample_stats", "sweep_stats")
        )
        self._schedule, self._last, self.saved = plan.schedule, dict[str, Any](), sizes
        self.point = _newest_state(self._folder, plan)
        self._count(0 if self.point is None else self.point[0])
        for chunks in (*self._draws, *self._of_draws.values()):
            chunks.resume(self.saved["draw"], damage.of_draws)
        for chunks in self._of_sweeps.values():
            chunks.resume(self.saved["sweep"], damage.of_sweeps)
        self.next_save = monotonic() + SAVE_INTERVAL

    def record_sweep(self, sweep: int, stats: dict[str, Any]) -> None:
        for name, chunks in self._of_sweeps.items():
            chunks.put(sweep - 1, stats[name])
        self._last = stats

    def record_draw(self, draw: int, values: list[Any]) -> None:
        for chunks, value in zip(self._draws, values, strict=True):
            chunks.put(draw, value)
        for name, chunks in self._of_draws.items():
            chunks.put(draw, self._last[name])

    def save(self, sweep: int, state: State) -> None:
        """Write the chunks that have changed, then the checkpoint that relies on them."""
        start = monotonic()
        for chunks in (*self._draws, *self._of_draws.values(), *self._of_sweeps.values()):
            chunks.flush()
        write_checkpoint(self._folder, sweep, state)
        self._count(sweep)
        now = monotonic()
        self.next_save = now + max(SAVE_INTERVAL, SAVE_INTERVAL_FACTOR * (now - start))

    def _count(self, sweep: int) -> None:
        """Everything up to this sweep is on disk, and perhaps more."""
        counts = {"draw": self._schedule.draws_after(sweep), "sweep": sweep}
        self.saved = {along: max(size, self.saved[along]) for along, size in counts.items()}


def check_free(name: str, path: Path) -> None:
    """Refuse a path that already exists, or whose parent folder does not exist."""
    rule = "must be a path that does not exist yet"
    if is_run(path):
        command = f"'allocore resume {shlex.quote(str(path))}' continues it, and so does resume() in Python"
        resumable = f" ({command})" if (path / CHECKPOINTS).is_dir() else ""
        raise InputError(name, str(path), f"{rule}: it is already a run{resumable}")
    if path.exists():
        raise InputError(name, str(path), rule)
    if not path.resolve().parent.is_dir():
        raise InputError(name, str(path), f"must be in a folder that exists: {str(path.resolve().parent)!r} does not")


def write_record(record: Record, path: Path) -> None:
    """Write a finished run to a new folder. Without checkpoints, it cannot be resumed."""
    check_free("path", path)
    if record.chosen is not None:
        rule = "cannot be written: only complete runs can be saved, and damaged draws of this one were left out"
        raise InputError("path", str(path), rule)
    plan = plan_of(record)
    with new_folder(path) as folder:
        write_skeleton(folder, plan)
        for variable, values in variables_of(record).items():
            for chain in range(plan.chains):
                chunks = GrowingChunks(folder, chain, variable)
                for place in range(values.shape[1]):
                    chunks.put(place, values[chain, place])
                chunks.flush()
        metadata = ConsolidatedMetadata(folder, plan)
        draws, sweeps = record.core_values.shape[1], record.stats["moved"].shape[1]
        metadata.update({"chain": plan.chains, "draw": draws, "sweep": sweeps})
        metadata.write_array_metadata()


def is_being_written(path: Path) -> bool:
    """Whether a process has locked the run."""
    try:
        with warnings.catch_warnings(action="ignore"), ProcessLock(path / "lock"):
            return False
    except BlockingIOError:
        return True
    except OSError:  # a read-only disk
        return False


def _locked(path: Path) -> ProcessLock:
    try:
        return ProcessLock(path / "lock").acquire()
    except BlockingIOError as error:
        problem = f"is being written by another process: wait for it to end, or stop it{error.strerror}"
        raise StoreError(path, problem) from None
    except OSError as error:
        raise StoreError(path, f"cannot be written: {error.strerror or error}") from error


def _check_links(path: Path) -> None:
    """Refuse to write into a run with a folder that is a link out of it."""
    for folder, names, _ in os.walk(path):
        for inside in (Path(folder) / name for name in names):
            if inside.is_symlink() and not inside.resolve().is_relative_to(path.resolve()):
                raise StoreError(path, f"has a link out of its folder, and cannot be continued: {inside.name}")


def _newest_state(folder: Path, plan: Plan) -> tuple[int, State] | None:
    try:
        sweep, state, damaged = read_checkpoint(folder, plan.tensor.shape, plan.spec)
    except FileNotFoundError:
        if plan.started:
            raise StoreError(
                folder,
                "has no readable checkpoint, not even the state of another run that the chain started from: "
                "its draws can be read, but it cannot continue",
            ) from None
        if folder.is_dir() and any(folder.iterdir()):
            warn(Finding("chain-starts-again", "caution", {"folder": str(folder)}), stacklevel=6)
        return None
    for path in damaged:
        warn(Finding("checkpoint-damaged", "caution", {"path": str(path), "sweep": sweep}), stacklevel=6)
    return sweep, state


def _check_resumable(path: Path, plan: Plan, attributes: dict[str, Any]) -> None:
    """Check that a run can continue, and that this sampler gives the same draws."""
    sampler, library = attributes.get("sampler_version", "0"), attributes["inference_library_version"]  # 0: very old
    if sampler != str(SAMPLER_VERSION):
        raise StoreError(
            path,
            f"was started with sampler version {sampler} (allocore {library}), and only that version can continue it: "
            f"this is sampler version {SAMPLER_VERSION}. Its draws can be read",
        )
    if plan.new_rows is not None:
        raise StoreError(
            path,
            "cannot be resumed: it has new rows that were folded into the draws of another run. Resume that run, and "
            "fold the rows in again",
        )
    if not (path / CHECKPOINTS).is_dir():
        raise StoreError(path, "was saved from memory and has no checkpoints: only a run made with store= can continue")
    if differences := other_arithmetic(attributes):
        warn(Finding("other-arithmetic", "caution", {"path": str(path), "differences": differences}), stacklevel=4)
    if isinstance(plan.tensor, ShardedTensor):
        plan.tensor.check_there()
