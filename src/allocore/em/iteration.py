"""One iteration of EM for Poisson Tucker by maximum likelihood: the whole algorithm.

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
observed cells have less than _FAINT of the exposure of the whole tensor, the difference is mostly rounding. The entry
is then kept, which does not lower the likelihood either. The reported log-likelihood contains T as a difference too:
its error is 1e-16 of the rate of the whole tensor, to which missing cells may contribute much. The columns of the
factors sum to 1, and the core has the scale; this changes no rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from allocore.data.tensor import CountTensor
from allocore.em.contraction import CellTree, Slopes, contract
from allocore.kernels.arrays import Floats
from allocore.kernels.signed_patterns import SignedPatterns
from allocore.kernels.workers import Workers

_FAINT = 1e-10


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
        core = self.core * _along(mode, scale_K, self.core.ndim)
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
    """T, the rate of all observed cells, and its derivatives."""
    return contract(problem.observed, estimate.core, _with_sums(estimate), problem.workers, in_logs=False)


def _ratio(y: Floats, exposure: Floats, whole: Floats, before: Floats) -> Floats:
    """y / exposure; 0 where there are no counts, and `before` where too little of the `whole` is observed."""
    known = (exposure > _FAINT * whole) & (y > 0.0)
    kept = np.where(y > 0.0, before, 0.0)
    return np.where(known, y / np.where(known, exposure, 1.0), kept)


def _with_sums(estimate: Estimate) -> list[Floats]:
    """The factor matrices with one more row, the column sums, for the wildcards of patterns."""
    return [np.vstack([phi_DK, phi_DK.sum(axis=0)]) for phi_DK in estimate.phi]


def _along(mode: int, numbers_K: Floats, modes: int) -> Floats:
    return numbers_K.reshape([-1 if other == mode else 1 for other in range(modes)])
