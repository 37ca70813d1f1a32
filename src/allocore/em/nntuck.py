"""EM for Poisson Tucker by maximum likelihood, from several random starts:

    y_d ~ Poisson(rate_d),      rate_d = sum_k core[k] prod_m phi[m][d_m, k_m]      over all locations k of the core

E-step: the expected allocation of a count is y_d times the share of each location in the rate. Its sums are values
times derivatives of  L = sum_d y_d log(rate_d):

    y[k] = core[k] dL/dcore[k]                   y[m][d, k_m] = phi[m][d, k_m] dL/dphi[m][d, k_m]

M-step: given these sums, the core and then one mode after another get their best values given the rest,

    core[k] <- y[k] / dT/dcore[k]                phi[m][d, k_m] <- y[m][d, k_m] / dT/dphi[m][d, k_m]

where T, the sum of the rates of all observed cells, is computed again each time. No step lowers the expected
log-likelihood of the complete data, so the log-likelihood never falls, except by rounding (ECM: Meng and Rubin 1993).

T is a sum over signed patterns: the whole tensor minus the missing patterns. For a wildcard, the factor matrix has one
more row, the column sums; the derivative of this row belongs to every row of the mode.

An entry without counts becomes 0, even if all its cells are missing (0/0), and an entry of 0 never changes. If the
observed cells have less than _FAINT of the exposure of the whole tensor, the difference is mostly rounding, and the
entry stays as it is, which does not lower the likelihood either. The log-likelihood contains T as a difference too: its
error is 1e-16 of the rate of the whole tensor. The columns of factors sum to 1; the core has the scale.

The start of restart r depends only on the seed and r, so more restarts never change the earlier ones. The best is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from allocore.em.contraction import CellTree, Slopes, contract
from allocore.errors import NO_VALUE, InputError
from allocore.findings import Finding, warn
from allocore.kernels.elementary import Floats
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.state import SweepInfo
from allocore.progress import Observer, Watch
from allocore.run.chains import Stop
from allocore.storage.record import Record, Schedule
from allocore.tensor.count_tensor import CountTensor

_FAINT = 1e-10
_HALF_A_COUNT = 0.5  # the least expected count of a location in use: it rounds to one


@dataclass(frozen=True)
class Estimate:
    """A core (K_1, .., K_M), and for each mode a factor matrix (D_m, K_m) whose columns sum to 1 (or are 0)."""

    core: Floats
    phi: tuple[Floats, ...]

    @classmethod
    def of(cls, core: Floats, phi: Sequence[Floats]) -> "Estimate":
        """Bring any core and factors into this form, without changing a rate."""
        estimate = cls(core, tuple(phi))
        for mode in range(len(estimate.phi)):
            estimate = estimate.with_mode(mode, estimate.phi[mode])
        return estimate

    def with_mode(self, mode: int, phi_DK: Floats) -> "Estimate":
        """The same estimate with other factors in one mode; their scale goes into the core."""
        scale_K = phi_DK.sum(axis=0)
        shares_DK = phi_DK / np.where(scale_K > 0.0, scale_K, 1.0)
        core = self.core * scale_K.reshape([-1 if other == mode else 1 for other in range(self.core.ndim)])
        return Estimate(core, (*self.phi[:mode], shares_DK, *self.phi[mode + 1 :]))


@dataclass(frozen=True)
class Problem:
    """The data in the form that EM reads: non-zero cells, observed cells as signed patterns, and the threads."""

    counts: CellTree
    observed: CellTree
    log_factorials: float
    total: int
    shape: tuple[int, ...]
    workers: Workers

    @classmethod
    def of(cls, tensor: CountTensor, core_shape: tuple[int, ...], workers: Workers) -> "Problem":
        """Lay out a tensor for a core of this shape."""
        lengths = [length + 1 for length in tensor.shape]
        return cls(
            CellTree.of(tensor.coords, tensor.counts, lengths, core_shape),
            CellTree.of(*SignedPatterns.of(tensor.missing).observed_cells(), lengths, core_shape),
            float(gammaln(tensor.counts + 1.0).sum()),
            tensor.total,
            tensor.shape,
            workers,
        )


@dataclass(frozen=True)
class Expected:
    """The expected allocation of the counts, the exposure of each core entry, and the log-likelihood of an estimate."""

    core: Floats
    phi: tuple[Floats, ...]
    exposure: Floats
    log_likelihood: float


def random_start(problem: Problem, rng: np.random.Generator) -> Estimate:
    """A uniformly drawn core and factors, none of them 0, scaled so that the expected total is the observed one."""
    core = 1.0 - rng.random(problem.counts.core_shape)
    phi = [
        1.0 - rng.random((length, width))
        for length, width in zip(problem.shape, problem.counts.core_shape, strict=True)
    ]
    estimate = Estimate.of(core, phi)
    return Estimate(estimate.core * (problem.total / estimate.core.sum()), estimate.phi)


def expectation(problem: Problem, estimate: Estimate) -> Expected:
    """The E-step."""
    slopes = contract(problem.counts, estimate.core, _with_sums(estimate), problem.workers, in_logs=True)
    observed = _observed_rate(problem, estimate)
    phi = tuple(phi_DK * slope_DK[:-1] for phi_DK, slope_DK in zip(estimate.phi, slopes.phi, strict=True))
    log_likelihood = slopes.total - problem.log_factorials - observed.total
    return Expected(estimate.core * slopes.core, phi, observed.core, log_likelihood)


def maximisation(problem: Problem, estimate: Estimate, expected: Expected) -> Estimate:
    """The M-step."""
    whole = np.ones_like(estimate.core)
    estimate = Estimate(_ratio(expected.core, expected.exposure, whole, estimate.core), estimate.phi)
    for mode, y_DK in enumerate(expected.phi):
        slope_DK = _observed_rate(problem, estimate).phi[mode]
        exposure_DK = slope_DK[:-1] + slope_DK[-1]
        whole_K = estimate.core.sum(axis=tuple(other for other in range(estimate.core.ndim) if other != mode))
        estimate = estimate.with_mode(mode, _ratio(y_DK, exposure_DK, whole_K, estimate.phi[mode]))
    return estimate


def _observed_rate(problem: Problem, estimate: Estimate) -> Slopes:
    return contract(problem.observed, estimate.core, _with_sums(estimate), problem.workers, in_logs=False)


def _ratio(y: Floats, exposure: Floats, whole: Floats, before: Floats) -> Floats:
    """y / exposure; 0 where there are no counts, and `before` where too little of the `whole` is observed."""
    known = (exposure > _FAINT * whole) & (y > 0.0)
    kept = np.where(y > 0.0, before, 0.0)
    return np.where(known, y / np.where(known, exposure, 1.0), kept)


def _with_sums(estimate: Estimate) -> list[Floats]:
    return [np.vstack([phi_DK, phi_DK.sum(axis=0)]) for phi_DK in estimate.phi]


class RestartSummary(NamedTuple):
    """How one restart ended: it `converged`, reached the most iterations, or was stopped by the user."""

    restart: int
    log_likelihood: float
    iterations: int
    converged: bool
    seconds: float


@dataclass(frozen=True)
class Restart:
    """The result of one restart, and the statistics and seconds of each iteration."""

    number: int
    estimate: Estimate
    infos: tuple[SweepInfo, ...]
    seconds: tuple[float, ...]
    converged: bool

    @property
    def log_likelihood(self) -> float:
        """The log-likelihood of the estimate."""
        return self.infos[-1].log_likelihood

    def summary(self) -> RestartSummary:
        """The restart without its estimate."""
        return RestartSummary(self.number, self.log_likelihood, len(self.infos), self.converged, sum(self.seconds))


def run_restarts(
    tensor: CountTensor,
    core_shape: tuple[int, ...],
    seed: int,
    *,
    restarts: int,
    max_iter: int,
    tol: float,
    threads: int,
    observer: Observer | None = None,
) -> tuple[Restart, list[RestartSummary]]:
    """Run all restarts to `tol` or `max_iter`, or until the user stops; returns the best one and summaries of all."""
    watch, stop, best, summaries = Watch(observer), Stop(), None, list[RestartSummary]()
    try:
        with stop, Workers(threads) as workers:
            problem = Problem.of(tensor, core_shape, workers)
            while len(summaries) < restarts and not stop.now:
                restart = _run_one(problem, seed, len(summaries), max_iter, tol, watch, stop)
                if restart is None:
                    break
                summaries.append(restart.summary())
                best = max(best or restart, restart, key=lambda each: each.log_likelihood)
    finally:
        watch.close()
    if best is None:
        raise KeyboardInterrupt("stopped before the first iteration: there is no estimate yet")
    ended = sum(summary.converged or summary.iterations == max_iter for summary in summaries)
    if ended < restarts:
        warn(Finding("restarts-stopped", "caution", {"ended": ended, "restarts": restarts}), stacklevel=4)
    return best, summaries


def _run_one(
    problem: Problem, seed: int, number: int, max_iter: int, tol: float, watch: Watch, stop: Stop
) -> Restart | None:
    """Run one restart, to its end or until it is stopped; None if that is before its first iteration."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(number,))))
    estimate = random_start(problem, rng)
    expected, infos, seconds, settled = expectation(problem, estimate), list[SweepInfo](), list[float](), False
    while len(infos) < max_iter and not settled and not stop.now:
        start, before = perf_counter(), expected.log_likelihood
        estimate = maximisation(problem, estimate, expected)
        expected = expectation(problem, estimate)
        now = expected.log_likelihood
        if not np.isfinite(now):
            rule = f"has counts that lead beyond 64-bit floats: the log-likelihood of restart {number} is {now}"
            raise InputError("Y", NO_VALUE, rule)
        settled = abs(now - before) < tol * abs(now)
        locations = np.argwhere(expected.core >= _HALF_A_COUNT)
        factors = tuple(len(np.unique(column)) for column in locations.T)
        infos.append(SweepInfo(now, classes=len(locations), factors=factors, moved=0.0))
        seconds.append(perf_counter() - start)
        watch.sweep_done(number, len(infos), infos[-1], last=settled or len(infos) == max_iter)
    return Restart(number, estimate, tuple(infos), tuple(seconds), settled) if infos else None


def record_of(tensor: CountTensor, spec: Spec, seed: int, restart: Restart) -> Record:
    """A restart as a run of one chain: its iterations are the sweeps, and its estimate is the only draw."""
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
