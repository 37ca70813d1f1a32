"""A run on disk, written while it runs: a Zarr folder that xarray can open as a DataTree at any time.

    run.zarr/  posterior/ sample_stats/ sweep_stats/ observed_data/ constant_data/ held_out/     as in schema.py
               .zmetadata          Zarr's consolidated metadata, the only record of the number of draws
               checkpoints/0/      the newest states of chain 0
               slices/             while chains run on an executor: draws on their way home (slice_files.py)
               lock                held by the process that writes

Draws and statistics are collected in memory until it is time to save. A save writes first chunks, then the checkpoint,
then the new sizes in `.zmetadata`. So at any instant a reader sees whole draws, and no checkpoint is ahead of the draws
on the disk. All files are replaced as a whole. What a killed process had not saved is drawn again.
"""

import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from allocore._files import new_folder, remove_unfinished
from allocore._locks import ProcessLock
from allocore.data.sharded_tensor import ShardedTensor
from allocore.errors import InputError, StoreError
from allocore.gibbs.version import SAMPLER_VERSION
from allocore.model.state import State
from allocore.run.attributes import is_run, read_attributes
from allocore.run.checkpoint import read_checkpoint, write_checkpoint
from allocore.run.chunks import GrowingChunks
from allocore.run.cluster.slice_files import remove_slices
from allocore.run.damage import Damage, OnError
from allocore.run.datatree import plan_of, variables_of
from allocore.run.plan import Plan, other_packages, other_rounding, with_checksum
from allocore.run.record import Record
from allocore.run.run_reader import read_plan, read_record
from allocore.run.schema import DRAWS, SWEEPS, draw_values, draw_variables, stat_variables
from allocore.run.skeleton import Sizes, write_skeleton
from allocore.run.store import stats_of

if TYPE_CHECKING:
    from allocore.model.sweep_info import SweepInfo

CHECKPOINTS = "checkpoints"
SECONDS = 5.0  # between the saves of a chain, at least
TIMES = 50.0  # the time between saves, at least, relative to the last save: saving takes at most a fiftieth of the time


class ZarrStore:
    """Keeps a run on disk. `create` starts a run, `reopen` continues one. Only one process at a time can write it."""

    def __init__(self, path: Path, plan: Plan, lock: ProcessLock, on_error: OnError = "raise") -> None:
        self.path, self.plan = path, plan
        self._lock, self._on_error = lock, on_error
        self._sizes = Sizes(path, plan)
        self._commits = Lock()
        with self._telling():
            self._chains = [_ChainFiles(path, chain, plan, self._sizes.now, on_error) for chain in range(plan.chains)]

    @classmethod
    def create(cls, path: Path, plan: Plan, start: Sequence[State] | None = None) -> Self:
        """Start a run at a path that does not exist yet; the states in which chains begin, if given, are kept in it."""
        check_free("store", path)
        with new_folder(path) as folder:
            write_skeleton(folder, plan)
            (folder / CHECKPOINTS).mkdir()
            for chain, state in enumerate(start or ()):
                write_checkpoint(folder / CHECKPOINTS / str(chain), 0, state)
        return cls(path, plan, _locked(path))

    @classmethod
    def reopen(cls, path: Path, draws: int | None = None, on_error: OnError = "raise") -> Self:
        """Continue a run, to `draws` draws if given."""
        attributes = read_attributes(path)
        lock = _locked(path)
        try:
            plan = _continued(path, read_plan(path, on_error), attributes, draws)
            remove_unfinished(path)
            remove_slices(path)
            store = cls(path, plan, lock, on_error)
            with store._telling():
                store._sizes.set_attributes(with_checksum({**attributes, "settings": plan.settings()}))
                store._show_what_is_saved()
            return store
        except BaseException:
            lock.release()
            raise

    def record_sweep(self, chain: int, sweep: int, info: "SweepInfo", seconds: float) -> None:
        """Keep the statistics of sweep 1, 2, .. of a chain."""
        with self._telling():
            self._chains[chain].record_sweep(sweep, stats_of(info, seconds))

    def record_draw(self, chain: int, draw: int, state: State) -> None:
        """Keep draw 0, 1, .. of a chain; the last recorded sweep gave it."""
        with self._telling():
            self._chains[chain].record_draw(draw, draw_values(state))

    def save(self, chain: int, sweep: int, state: State, *, now: bool) -> None:
        """Write the chain's collected draws and its state, if it is time or must be `now`."""
        files = self._chains[chain]
        if not now and monotonic() < files.next_save:
            return
        with self._telling():
            files.save(sweep, state)
            self._show_what_is_saved()

    def resume_point(self, chain: int) -> tuple[int, State] | None:
        """The sweep and the state of a chain's newest checkpoint, or None if it must start."""
        return self._chains[chain].point

    def finish(self) -> Record:
        """Return the draws and sweeps that all chains have, read from the disk."""
        return read_record(self.path, self.plan, self._on_error)

    def how_to_resume(self) -> str:
        """A sentence on how to continue the run."""
        path = str(self.path)
        return f"continue with {self.plan.spec.model}.resume({path!r}) or: allocore resume {shlex.quote(path)}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with self._telling():
                self._sizes.settle()
        except StoreError:
            if error is None:
                raise
        finally:
            self._lock.release()

    def _show_what_is_saved(self) -> None:
        """Let readers see the draws and sweeps that every chain has on the disk."""
        with self._commits:
            self._sizes.grow({along: min(each.saved[along] for each in self._chains) for along in self._sizes.now})

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn an error of the disk into one that says what it means for the run."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written: {error.strerror or error}. The {self._sizes.now['draw']} draws in it "
                f"are safe; once the cause is fixed, {self.how_to_resume()}"
            ) from error


class _ChainFiles:
    """The files of one chain: its draws, the statistics of its sweeps, its checkpoints."""

    def __init__(self, path: Path, chain: int, plan: Plan, sizes: dict[str, int], on_error: OnError) -> None:
        self._folder, damage = path / CHECKPOINTS / str(chain), Damage(path, on_error)
        self._draws = [GrowingChunks(path, chain, each) for each in draw_variables(plan.tensor, plan.spec)]
        self._of_draws = {each.name: GrowingChunks(path, chain, each) for each in stat_variables(plan.tensor, DRAWS)}
        self._of_sweeps = {each.name: GrowingChunks(path, chain, each) for each in stat_variables(plan.tensor, SWEEPS)}
        self._schedule, self._last = plan.schedule, dict[str, Any]()
        self.point = _newest(self._folder, plan)
        sweep = 0 if self.point is None else self.point[0]
        self.saved = {"draw": max(sizes["draw"], plan.schedule.draws_after(sweep)), "sweep": max(sizes["sweep"], sweep)}
        for chunks in (*self._draws, *self._of_draws.values()):
            chunks.take_up(self.saved["draw"], damage.of_draws)
        for chunks in self._of_sweeps.values():
            chunks.take_up(self.saved["sweep"], damage.of_sweeps)
        self.next_save = monotonic() + SECONDS

    def record_sweep(self, sweep: int, stats: dict[str, Any]) -> None:
        for name, value in stats.items():
            self._of_sweeps[name].put(sweep - 1, value)
        self._last = stats

    def record_draw(self, draw: int, values: list[Any]) -> None:
        for chunks, value in zip(self._draws, values, strict=True):
            chunks.put(draw, value)
        for name, value in self._last.items():
            self._of_draws[name].put(draw, value)

    def save(self, sweep: int, state: State) -> None:
        """Write the chunks that have changed, then the checkpoint that relies on them."""
        start = monotonic()
        for chunks in (*self._draws, *self._of_draws.values(), *self._of_sweeps.values()):
            chunks.flush()
        write_checkpoint(self._folder, sweep, state)
        self.saved = {
            "draw": max(self.saved["draw"], self._schedule.draws_after(sweep)),
            "sweep": max(self.saved["sweep"], sweep),
        }
        now = monotonic()
        self.next_save = now + max(SECONDS, TIMES * (now - start))


def check_free(name: str, path: Path) -> None:
    """Refuse a path that already exists, or whose parent folder does not exist."""
    if is_run(path):
        again = f"`allocore resume {shlex.quote(str(path))}` continues it, or resume in Python; "
        can_continue = again if (path / CHECKPOINTS).is_dir() else ""
        raise InputError(
            f"{name} is {str(path)!r}, but a run is there already: {can_continue}a new run needs another path"
        )
    if path.exists():
        raise InputError(f"{name} is {str(path)!r}, but that exists already: name a path that does not")
    if not path.resolve().parent.is_dir():
        raise InputError(f"{name} is {str(path)!r}, but the folder {str(path.resolve().parent)!r} does not exist")


def write_record(record: Record, path: Path) -> None:
    """Write a finished run to a new folder, without the checkpoints that would let it continue."""
    check_free("path", path)
    if record.chosen is not None:
        raise InputError("some draws of this run are left out because they are damaged: only whole runs can be saved")
    plan = plan_of(record)
    with new_folder(path) as folder:
        write_skeleton(folder, plan)
        for variable, values in variables_of(record).items():
            for chain in range(plan.chains):
                chunks = GrowingChunks(folder, chain, variable)
                for place in range(values.shape[1]):
                    chunks.put(place, values[chain, place])
                chunks.flush()
        sizes = Sizes(folder, plan)
        sizes.grow({"draw": record.core_values.shape[1], "sweep": record.stats["moved"].shape[1]})
        sizes.settle()


def is_being_written(path: Path) -> bool:
    """Whether some process holds the lock of a run."""
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
        raise StoreError(
            f"{path} is being written by another process: wait for it to end, or stop it{error.strerror}"
        ) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _newest(folder: Path, plan: Plan) -> tuple[int, State] | None:
    try:
        sweep, state, damaged = read_checkpoint(folder, plan.tensor.shape, plan.spec)
    except FileNotFoundError:
        if plan.started:
            raise StoreError(
                f"no checkpoint in {folder} can be read, not even the state of another run that the chain began with: "
                "its draws can be read, but it cannot continue"
            ) from None
        if folder.is_dir() and any(folder.iterdir()):
            warnings.warn(f"no checkpoint in {folder} can be read: the chain starts again", stacklevel=6)
        return None
    for path in damaged:
        warnings.warn(
            f"the checkpoint {path} is damaged: continuing from the previous one, of sweep {sweep}", stacklevel=6
        )
    return sweep, state


def _continued(path: Path, plan: Plan, attributes: dict[str, Any], draws: int | None) -> Plan:
    """The plan of the continued run, if this sampler can promise the same draws."""
    begun_with = attributes.get("sampler_version", "0")  # runs older than the number do not have it
    if begun_with != str(SAMPLER_VERSION):
        raise StoreError(
            f"{path} was begun by sampler version {begun_with} (allocore {attributes['inference_library_version']}), "
            f"but this is sampler version {SAMPLER_VERSION}: its draws can be read, but only the same sampler version "
            "continues a run"
        )
    if plan.folded_mode is not None:
        raise StoreError(
            f"{path} holds new rows that were folded into the draws of another run: it has no chains to continue; "
            "resume that run, and fold the rows in again"
        )
    if not (path / CHECKPOINTS).is_dir():
        raise StoreError(f"{path} has no checkpoints: it was saved from memory. A run made with store= can continue")
    if changed := other_packages(attributes) + other_rounding(attributes):
        warnings.warn(f"{path} was begun with {', '.join(changed)}: draws may differ in their last bits", stacklevel=4)
    if isinstance(plan.tensor, ShardedTensor):
        plan.tensor.check_there()
    if draws is None:
        return plan
    if draws < plan.schedule.draws:
        raise InputError(f"draws is {draws}, but {plan.schedule.draws} are planned already: it must be at least that")
    return replace(plan, schedule=replace(plan.schedule, draws=draws))
