"""EM from several random starts: each runs until its log-likelihood settles, and the best one is kept.

Restart r begins with numbers that depend on the seed and r alone, so more restarts never change the earlier ones.
"""

import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from allocore.data.tensor import CountTensor
from allocore.em.iteration import Estimate, Expected, Problem, expectation, maximisation, random_start
from allocore.errors import InputError
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.sweep_info import SweepInfo
from allocore.run.progress import Observer, Watch
from allocore.run.record import Record
from allocore.run.schedule import Schedule
from allocore.run.stop import Stop

_HALF_A_COUNT = 0.5  # the least expected count of a location in use: it rounds to one


@dataclass(frozen=True)
class Iterations:
    """How long a restart goes on: until the log-likelihood changes by less than `tol`, relative to it, or the most."""

    most: int
    tol: float


class Outcome(NamedTuple):
    """How one restart ended: it has `converged`, made the most iterations, or was stopped by someone (not `ended`)."""

    restart: int
    log_likelihood: float
    iterations: int
    converged: bool
    seconds: float
    ended: bool


@dataclass(frozen=True)
class Restart:
    """Where one restart has come to, what it told after each iteration, and how many seconds each took."""

    number: int
    estimate: Estimate
    infos: tuple[SweepInfo, ...]
    seconds: tuple[float, ...]
    converged: bool

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of its estimate."""
        return self.infos[-1].log_likelihood

    def outcome(self, iterations: Iterations) -> Outcome:
        """What is kept of a restart that is not the best."""
        made, seconds = len(self.infos), sum(self.seconds)
        ended = self.converged or made == iterations.most
        return Outcome(self.number, self.log_likelihood, made, self.converged, seconds, ended)


@dataclass(frozen=True)
class Found:
    """The restart with the highest log-likelihood (of several, the first), and how all of them ended."""

    best: Restart
    outcomes: tuple[Outcome, ...]


def run_restarts(
    tensor: CountTensor,
    core_shape: tuple[int, ...],
    seed: int,
    *,
    restarts: int,
    iterations: Iterations,
    threads: int,
    observer: Observer | None = None,
) -> Found:
    """Make all restarts, or fewer if somebody stops them."""
    watch, stop, best, outcomes = Watch(observer), Stop(), None, list[Outcome]()
    try:
        with stop, Workers(threads) as workers:
            problem = Problem.of(tensor, core_shape, workers)
            while len(outcomes) < restarts and not stop.now:
                restart = _run_one(problem, seed, len(outcomes), iterations, watch, stop)
                if restart is None:
                    break
                outcomes.append(restart.outcome(iterations))
                best = max(best or restart, restart, key=lambda each: each.log_likelihood)
    finally:
        watch.close()
    if best is None:
        raise KeyboardInterrupt("stopped before the first iteration: there is no estimate yet")
    whole = sum(outcome.ended for outcome in outcomes)
    if whole < restarts:
        warnings.warn(f"stopped: {whole} of {restarts} restarts are done; the best estimate is kept", stacklevel=4)
    return Found(best, tuple(outcomes))


def _run_one(
    problem: Problem, seed: int, number: int, iterations: Iterations, watch: Watch, stop: Stop
) -> Restart | None:
    """One restart, to its end or until it has to stop; None if that is before its first iteration."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(number,))))
    estimate = random_start(problem, rng)
    expected, infos, seconds, settled = expectation(problem, estimate), list[SweepInfo](), list[float](), False
    while len(infos) < iterations.most and not settled and not stop.now:
        start, before = perf_counter(), expected.log_likelihood
        estimate = maximisation(problem, estimate, expected)
        expected = expectation(problem, estimate)
        now = expected.log_likelihood
        if not np.isfinite(now):
            raise InputError(f"the log-likelihood of restart {number} is {now}: the counts lead beyond 64-bit floats")
        settled = abs(now - before) < iterations.tol * abs(now)
        infos.append(_info(expected))
        seconds.append(perf_counter() - start)
        watch.sweep_done(number, len(infos), infos[-1], last=settled or len(infos) == iterations.most)
    return Restart(number, estimate, tuple(infos), tuple(seconds), settled) if infos else None


def _info(expected: Expected) -> SweepInfo:
    locations = np.argwhere(expected.core >= _HALF_A_COUNT)
    factors = tuple(len(np.unique(column)) for column in locations.T)
    return SweepInfo(expected.log_likelihood, classes=len(locations), factors=factors, moved=0.0)


def record_of(tensor: CountTensor, spec: Spec, seed: int, restart: Restart) -> Record:
    """A restart as a run of one chain: its iterations are the sweeps, and what the last one gave is the only draw."""
    infos, estimate = restart.infos, restart.estimate
    return Record(
        tensor=tensor,
        spec=spec,
        schedule=Schedule(burn_in=len(infos) - 1, draws=1, thin=1),
        seed=seed,
        core_values=estimate.core.reshape(1, 1, -1).copy(),
        core_locations=spec.start_locations()[None, None],
        factors=tuple(phi_DK[None, None].copy() for phi_DK in estimate.phi),
        stats={
            "log_likelihood": np.array([[info.log_likelihood for info in infos]]),
            "classes": np.array([[info.classes for info in infos]], dtype=np.int64),
            "factors": np.array([[info.factors for info in infos]], dtype=np.int64),
            "moved": np.zeros((1, len(infos))),
            "seconds": np.array([restart.seconds]),
        },
    )
