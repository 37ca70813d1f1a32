"""Chains: make sweeps, pass them to the store, report progress; and the states from which a refit starts.

All chains advance together, so that an unfinished run has draws of every chain. Each has its own threads; if there are
fewer threads than chains, chains take turns on a thread, sweep by sweep.

A refit starts near the posterior: at the last draws of the chains of a finished run, taken in turn. Rows are matched by
their labels: new rows start at the mean of the old ones, and rows that are gone are dropped.

Numba compiles one kernel at a time. In the first run after an installation, a second process, which runs this module,
meanwhile compiles the steps after thinning, into the same folder. If it fails, this one compiles everything itself.
"""

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from math import inf, isfinite, prod
from pathlib import Path
from queue import SimpleQueue
from time import monotonic, perf_counter
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from allocore.errors import NO_VALUE, InputError, StoreError
from allocore.findings import Finding, warn
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import SamplerState, begin, sweep
from allocore.gibbs.thinning import Allocation, ThinCells, ThinnedCells, thin_here
from allocore.kernels import jit
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers, available_threads
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State, SweepInfo, log_mean_row, per_unit, times_weights
from allocore.progress import Observer, Watch, output_kind
from allocore.run.frozen_start import at_frozen_factors
from allocore.storage.record import Plan, Record, Store
from allocore.tensor.concat import check_same_modes
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import matching_rows
from allocore.tensor.missing import Missing
from allocore.tensor.sharded import ShardedTensor

_MAX_COMPILE_SECONDS = 60.0
# Given the draws of a complete plan: the plan of the next round and its observer, or None to end the run.
NextRound: TypeAlias = Callable[[Record, Plan], "tuple[Plan, Observer | None] | None"]


class Stop:
    """Flags of a run that must stop: `now`, after the current sweep; `asked`, by a signal; `at_once`, without saving.

    As a context manager it catches the first Ctrl-C or SIGTERM and sets `asked` and `now`; a second acts as usual. In
    threads other than the main one, Python delivers no signals, so nothing is caught. A terminal shows `message`. After
    `seconds`, if they are given, `late` and `now` are true.
    """

    def __init__(
        self, message: str = "stopping after this sweep (Ctrl-C again: at once)", seconds: float | None = None
    ) -> None:
        self.asked = self.at_once = self.late = self._now = False
        self._message = message
        self._deadline = inf if seconds is None else monotonic() + seconds
        self._handlers: dict[int, Any] = {}

    @property
    def now(self) -> bool:
        """Whether the run must stop after the current sweep."""
        if not self._now and monotonic() > self._deadline:
            self.late = self._now = True
        return self._now

    @now.setter
    def now(self, stopped: bool) -> None:
        self._now = stopped

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            caught = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
            self._handlers = {number: signal.signal(number, self._on_signal) for number in caught}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}

    def _on_signal(self, *_: object) -> None:
        self.asked = self.now = True
        self.__exit__()
        if self._message and output_kind() == "terminal":
            print(f"\n{self._message}", file=sys.stderr)


def run_chains(
    store: Store, *, threads: int, observer: Observer | None = None, thin_cells: ThinCells | None = None,
    next_round: NextRound | None = None, max_time: float | None = None,
) -> Record:  # fmt: skip
    """Run the store's chains from their last saved states to the end or a stop; `thin_cells` is for a tensor in shards.

    When all chains are done, `next_round` may extend the plan, and they go on. After `max_time` seconds they stop.
    """
    with ExitStack() as stack:
        stack.enter_context(store)
        stop = stack.enter_context(Stop(seconds=max_time))
        spec, missing = store.plan.spec, bool(len(store.plan.tensor.missing))
        wait = stack.enter_context(compile_in_background(spec, missing, threads))
        laid_out: list[Layout] = []  # once for all rounds

        def run_round(observer: Observer | None) -> None:
            with ExitStack() as round_stack:
                watch = Watch(observer)
                round_stack.callback(watch.close)
                chains = unfinished_chains(store)
                groups = min(len(chains), threads)
                if not groups:
                    return
                threads_G = [threads // groups + (group < threads % groups) for group in range(groups)]
                pools = [round_stack.enter_context(Workers(number)) for number in threads_G]
                if not laid_out:
                    tensor = store.plan.tensor
                    if isinstance(tensor, ShardedTensor):
                        laid_out.append(Layout.without_cells(tensor, pools[0]))
                    else:
                        laid_out.append(Layout.of(tensor, pools[0]))
                layouts = [replace(laid_out[0], workers=pool) for pool in pools]
                thin = thin_cells or thin_here
                _run_groups(
                    [
                        [Chain(store, chain, layouts[g], watch, thin, wait) for chain in chains[g::groups]]
                        for g in range(groups)
                    ],
                    stop,
                )

        record = run_rounds(store, run_round, observer, next_round, stop)
    report_stop(store, record, stop, max_time)
    return record


def unfinished_chains(store: Store) -> list[int]:
    """The chains that have not made all planned sweeps."""
    points = [store.resume_point(chain) for chain in range(store.plan.chains)]
    return [chain for chain, point in enumerate(points) if point is None or point[0] < store.plan.schedule.sweeps]


def run_rounds(
    store: Store,
    run_round: Callable[[Observer | None], None],
    observer: Observer | None,
    next_round: NextRound | None,
    stop: Stop,
) -> Record:
    """Run a round, and another while `next_round` asks for one and nobody has asked to stop."""
    while True:
        run_round(observer)
        record = store.finish()
        following = None if next_round is None or stop.now else next_round(record, store.plan)
        if following is None:
            return record
        plan, observer = following
        store.extend(plan)


class Chain:
    """One chain between two sweeps. It starts from the state in the store, or from a random one."""

    def __init__(
        self, store: Store, number: int, layout: Layout, watch: Watch, thin_cells: ThinCells = thin_here,
        wait_for_kernels: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._store, self._number, self._layout, self._watch = store, number, layout, watch
        self._thin_cells, self._wait_for_kernels = thin_cells, wait_for_kernels
        plan = store.plan
        self._key = Key.of(plan.seed, number, plan.started)
        point = store.resume_point(number)
        if point is None:
            point = 0, first_state(plan.spec, layout.shape, first_values(plan.seed, number))
        self._sweep, self._state = point
        self._work: tuple[Workspace, SamplerState] | None = None

    @property
    def done(self) -> bool:
        """Whether all planned sweeps are done."""
        return self._sweep >= self._store.plan.schedule.sweeps

    def advance(self) -> None:
        """Make one sweep and pass it to the store."""
        plan, number = self._store.plan, self._sweep + 1
        if self._work is None:
            # The last sweep ended with an allocation of the counts. It is drawn again with the same random numbers.
            workspace, key = Workspace.of(self._layout, self._state), self._key.at(self._sweep)
            self._work = workspace, begin(key, self._layout, plan.spec, self._state, workspace, self._thin_cells)
            self._wait_for_kernels()
        workspace, before = self._work
        start = perf_counter()
        after, info = sweep(self._key.at(number), self._layout, plan.spec, before, workspace, self._thin_cells)
        _check(info, self._number, number, plan.spec)
        self._store.record_sweep(self._number, number, info, perf_counter() - start)
        draw = plan.schedule.draw_of(number)
        if draw is not None:
            self._store.record_draw(self._number, draw, after.state)
        self._sweep, self._state, self._work = number, after.state, (workspace, after)
        self._store.save(self._number, number, after.state, now=self.done)
        self._watch.sweep_done(self._number, number, info, last=self.done)

    def save(self) -> None:
        """Save the state of the chain, if it has made a sweep."""
        if self._work is not None and not self.done:
            self._store.save(self._number, self._sweep, self._state, now=True)


def _check(info: SweepInfo, chain: int, sweep: int, spec: Spec) -> None:
    if not isfinite(info.log_likelihood):
        names = ["a0", "b0", "e0", "f0"] + ["s0", "t0"] * spec.infer_concentrations
        names += ["g0", "h0"] * spec.observation.has_dispersion
        priors = ", ".join(f"{name}={getattr(spec, name)}" for name in names)
        raise InputError(
            "a0",
            NO_VALUE,
            f"or another prior ({priors}) is too extreme for 64-bit floats: "
            f"the log-likelihood of chain {chain} is {info.log_likelihood} after sweep {sweep}",
        )


def _run_groups(groups: Sequence[Sequence[Chain]], stop: Stop) -> None:
    """Run groups of chains in parallel, the first in this thread; raise the first error after all have ended."""
    errors: list[BaseException] = []
    ended: SimpleQueue[None] = SimpleQueue()  # not Thread.join: once interrupted, it considers the thread dead

    def run(group: Sequence[Chain]) -> None:
        try:
            _take_turns(group, stop)
        except BaseException as error:
            errors.append(error)
            stop.now = True
            stop.at_once |= isinstance(error, KeyboardInterrupt)
        finally:
            ended.put(None)

    running = 0
    try:
        for group in groups[1:]:
            threading.Thread(target=run, args=(group,), name="allocore-chains", daemon=True).start()
            running += 1
        run(groups[0])
        running += 1
    except BaseException as error:  # a thread could not be started, or Ctrl-C
        stop.now, stop.at_once = True, stop.at_once or isinstance(error, KeyboardInterrupt)
        raise
    finally:
        while running:
            try:
                ended.get()
                running -= 1
            except KeyboardInterrupt as error:
                errors.append(error)
                stop.now = stop.at_once = True
    if errors:
        raise errors[0]


def _take_turns(group: Sequence[Chain], stop: Stop) -> None:
    try:
        while not stop.now and (unfinished := [chain for chain in group if not chain.done]):
            for chain in unfinished:
                if not stop.now:
                    chain.advance()
    except StoreError:  # if the workers that thin shards are gone, the last whole sweeps are safe
        with suppress(StoreError):
            for chain in group:
                chain.save()
        raise
    for chain in group:
        if not stop.at_once:
            chain.save()


def first_values(seed: int, chain: int) -> np.random.Generator:
    """The random generator for a chain's first values."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(chain, 0))))


def report_stop(store: Store, record: Record, stop: Stop, max_time: float | None) -> None:
    """Warn that a run was stopped, unless it is complete. Raises an error if it has no draw at all."""
    plan, (chains, draws), sweeps = store.plan, record.core_values.shape[:2], record.stats["moved"].shape[1]
    if not (stop.asked or stop.late) or (record.complete and record.schedule == plan.schedule):
        return
    how = store.how_to_resume()
    if draws == 0:
        after = f"; {how}" if how else ""
        made = f"after {sweeps} of {plan.schedule.sweeps} sweeps, before the first draw was kept{after}"
        if stop.asked:
            raise KeyboardInterrupt(f"stopped {made}")
        raise InputError("max_time", max_time, f"must be longer: it was over {made}")
    values = {
        "draws": draws,
        "planned_draws": record.schedule.draws,
        "chains": chains,
        "planned_chains": plan.chains,
        "seconds": None if stop.asked else max_time,
        "how_to_resume": how,
    }
    warn(Finding("stopped", "caution", values), stacklevel=5)


def number_of_states(states: list[State]) -> int:
    """A hash of states: a positive number of 32 bits."""
    digest = hashlib.sha256()
    for state in states:
        for array in (state.log_core_Q, state.subs_QM, *state.log_phi):
            digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest()[:4], "little") or 1


def start_states(record: Record, tensor: CountTensor, spec: Spec, chains: int) -> list[State]:
    """The first states of the chains of a new run, of a model `spec` of `tensor`."""
    check_same_modes(tensor, record.tensor, "Y")
    frozen = [bool(spec.known_in(mode).frozen) for mode in range(tensor.ndim)]
    fitted = _settings(record.spec, frozen)
    for name, value in _settings(spec, frozen).items():
        if fitted.get(name) != value:
            was = f"other {name}" if name in ("seeds", "frozen") else f"{name} {fitted.get(name)!r}, not {value!r}"
            rule = f"must agree with this model: it was fitted with {was}"
            raise InputError("start", NO_VALUE, rule)
    places = matching_rows(tensor.labels, record.tensor.labels)
    if not any((place_D >= 0).any() for place_D in places):
        rule = "must be a fit of the same kind of data: it has no label in common with `Y` in any mode"
        raise InputError("start", NO_VALUE, rule)
    given = len(record.core_values)
    states = [_matched_state(record, record.state_of(chain % given, -1), spec, places) for chain in range(chains)]
    return [at_frozen_factors(spec, state) for state in states]


def _settings(spec: Spec, frozen: Sequence[bool]) -> dict[str, object]:
    """The settings in which two models must agree, by the names that users know; not the factors of `frozen` modes."""
    others = [mode for mode, is_frozen in enumerate(frozen) if not is_frozen]
    size = "rank" if spec.model == "CP" else "budget"
    return {
        "model": spec.model,
        "likelihood": spec.likelihood,
        "dispersion_by": spec.dispersion_by,
        size: "infer" if spec.infer_budget else spec.budget,
        "core_shape": tuple(spec.core_shape[mode] for mode in others) if any(frozen) else spec.core_shape,
        "seeds": [spec.known_in(mode).seeds for mode in others],
        "frozen": [spec.known_in(mode).frozen != () for mode in others],
        "tied": spec.tied,
        "max_budget": spec.budget,
    }


def _matched_state(record: Record, state: State, spec: Spec, places: list[NDArray[np.int64]]) -> State:
    log_phi = []
    for mode, place_D in enumerate(places):
        log_unit_DK = per_unit(state.log_phi[mode], record.spec.exposure(mode))
        log_rows_DK = np.where((place_D >= 0)[:, None], log_unit_DK[place_D], log_mean_row(log_unit_DK))
        log_phi.append(times_weights(log_rows_DK, spec.exposure(mode)))
    concentrations_M, dispersion = np.empty(0), state.dispersion
    if spec.infer_concentrations:
        learned_M = state.concentrations_M
        concentrations_M = np.array([record.spec.concentration(mode, learned_M) for mode in range(len(places))])
    if dispersion is not None and dispersion.mode is not None:
        place_D, log_odds_D = places[dispersion.mode], dispersion.log_odds_D
        log_odds_D = np.where(place_D >= 0, log_odds_D[place_D], log_odds_D.mean())
        dispersion = Dispersion(log_odds_D, dispersion.mode)
    return State(state.log_core_Q, state.subs_QM.copy(), tuple(log_phi), concentrations_M, dispersion)


@contextmanager
def compile_in_background(spec: Spec, missing: bool, threads: int) -> Iterator[Callable[[], None]]:
    """Compile the steps of a sweep in a second process, if it saves time; yields a function that waits for it."""
    saves_time = min(threads, available_threads()) > 1
    to_compile = "relocation" if spec.learn_locations else "factors"
    process = _start_compiling(spec, missing) if saves_time and jit.will_be_kept(to_compile) else None

    def wait() -> None:
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_MAX_COMPILE_SECONDS)

    try:
        yield wait
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _start_compiling(spec: Spec, missing: bool) -> "subprocess.Popen[bytes] | None":
    if not Path(sys.executable or "").name.startswith("python"):  # a program with Python inside
        return None
    settings = json.dumps(asdict(replace(spec, exposures=(), known=())), default=int)  # NumPy's integers
    command = [sys.executable, "-P", "-m", __name__, settings, json.dumps(missing)]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    none, environment = subprocess.DEVNULL, {**os.environ, "PYTHONPATH": path}
    try:  # in its own session, so that Ctrl-C does not reach it
        return subprocess.Popen(command, env=environment, stdin=none, stdout=none, stderr=none, start_new_session=True)
    except OSError:
        return None


def compile_steps(spec: Spec, missing: bool) -> None:
    """Make all steps of a sweep on a tiny tensor, except thinning, and split-merge, which needs more classes."""

    def no_thinning(_key: Key, layout: Layout, _likelihood: int, state: State, *_: object) -> ThinnedCells:
        rows, none = sum(layout.shape), np.zeros(0)
        y_RQ = np.zeros((rows, len(state.log_core_Q)), layout.count_type)
        return ThinnedCells(y_RQ, none, none, none, np.zeros(rows))

    core_shape = tuple(min(size, 2) for size in spec.core_shape)
    small = replace(spec, budget=prod(core_shape) if spec.dense_core else 2, core_shape=core_shape, exposures=())
    shape = (3,) * len(core_shape)
    patterns = [(0,) * len(shape)] if missing else []
    with Workers(1) as workers:
        coords = np.ones((len(shape), 1), dtype=np.int64)
        layout = Layout.of_cells(coords, np.ones(1, dtype=np.int64), Missing(patterns, shape), workers)
        state = first_state(small, shape, np.random.default_rng(0))
        allocation = Allocation(np.ones((sum(shape), small.budget), dtype=layout.count_type), 0.0)
        sweep(Key.of(0, 0).at(1), layout, small, SamplerState(state, allocation), thin_cells=no_thinning)


if __name__ == "__main__":
    gc.disable()  # a process of a few seconds; collecting garbage would take a tenth of them
    compile_steps(Spec(**json.loads(sys.argv[1])), json.loads(sys.argv[2]))
