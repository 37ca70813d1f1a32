"""Forward simulation in plain NumPy: draw every variable from its prior, then the data given the variables.

The first state of a chain is a draw from the prior, but locations start as the specification says, concentrations and
the dispersion at their prior means (extreme draws would spoil the start), and all classes are included.
"""

from itertools import product
from math import log

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.elementary import exp_of, log_of
from allocore.model.joint import log_odds_at, log_pair_rates_at
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State, times_weights
from allocore.tensor.undirected import Pair


def first_state(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> State:
    """The state in which a chain begins."""
    subs_QM, concentrations_M = spec.start_locations(), np.full(_learned(spec), spec.s0 / spec.t0)
    dispersion = None
    if spec.observation.has_dispersion:
        log_odds_D = np.full(dispersions(spec, shape), log(spec.g0 / spec.h0))
        dispersion = Dispersion(log_odds_D, spec.dispersion_by)
    log_core_Q = _log_gamma(spec.a0, spec.core_rate(dispersion), (spec.budget,), rng)
    log_phi = draw_log_factors(spec, shape, subs_QM, rng, concentrations_M)
    return State(log_core_Q, subs_QM, log_phi, concentrations_M, dispersion)


def prior_state(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> State:
    """A draw of all variables from the prior; locations that the specification fixes stay fixed."""
    subs_QM = draw_locations(spec, shape, rng) if spec.learn_locations else spec.start_locations()
    concentrations_M = exp_of(_log_gamma(spec.s0, spec.t0, (_learned(spec),), rng))
    if spec.tied is not None and spec.infer_concentrations:
        concentrations_M[spec.tied[1]] = concentrations_M[spec.tied[0]]
    dispersion = draw_dispersion(spec, shape, rng)
    log_core_Q = draw_log_core(spec, dispersion, rng)
    log_phi = draw_log_factors(spec, shape, subs_QM, rng, concentrations_M)
    return State(log_core_Q, subs_QM, log_phi, concentrations_M, dispersion)


def _learned(spec: Spec) -> int:
    return len(spec.core_shape) if spec.infer_concentrations else 0


def dispersions(spec: Spec, shape: tuple[int, ...]) -> int:
    """How many dispersions p the model has."""
    if not spec.observation.has_dispersion:
        return 0
    return 1 if spec.dispersion_by is None else shape[spec.dispersion_by]


def draw_dispersion(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> Dispersion | None:
    """p ~ Beta(g0, h0) as log odds, the difference of two log gamma variates; None if the likelihood has none."""
    if not spec.observation.has_dispersion:
        return None
    size = (dispersions(spec, shape),)
    return Dispersion(_log_gamma(spec.g0, 1.0, size, rng) - _log_gamma(spec.h0, 1.0, size, rng), spec.dispersion_by)


def draw_log_core(spec: Spec, dispersion: Dispersion | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """log lambda_q ~ log Gamma(a0, `core_rate`); -inf for classes that are not included, if the budget is inferred."""
    log_core_Q = _log_gamma(spec.a0, spec.core_rate(dispersion), (spec.budget,), rng)
    if spec.infer_budget:
        log_core_Q[rng.random(spec.budget) >= rng.beta(spec.c0, spec.d0)] = -np.inf
    return log_core_Q


def draw_locations(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """k[q, m] with pi[m] integrated out: one class after another, with P(k) proportional to n_k + alpha0 / D_m."""
    subs_QM = np.empty((spec.budget, len(shape)), dtype=np.int64)
    for modes in spec.groups:
        length, width = shape[modes[0]], spec.core_shape[modes[0]]
        weights_K = np.full(width, spec.alpha0 / length)
        for m, q in product(modes, range(spec.budget)):
            subs_QM[q, m] = rng.choice(width, p=weights_K / weights_K.sum())
            weights_K[subs_QM[q, m]] += 1.0
    return subs_QM


def draw_log_factors(
    spec: Spec,
    shape: tuple[int, ...],
    subs_QM: NDArray[np.int64],
    rng: np.random.Generator,
    concentrations_M: NDArray[np.float64],
) -> tuple[NDArray[np.float64], ...]:
    """log phi[m][d, k] ~ log Gamma(e0 u, rate f0), plus the log weight, for the factors in use; -inf for the others.

    Frozen factors have their values, also those that are not in use.
    """
    log_phi = dict[int, NDArray[np.float64]]()
    for modes in spec.groups:
        m, known = modes[0], spec.known_in(modes[0])
        used = np.setdiff1d(subs_QM[:, modes], np.arange(len(known.frozen)))
        log_phi_DK = np.full((shape[m], spec.core_shape[m]), -np.inf)
        e0: float | NDArray[np.float64] = spec.concentration(m, concentrations_M)
        if known.seeds:
            e0 = e0 * known.multipliers(shape[m], known.kinds(spec.core_shape[m])[used])
        log_phi_DK[:, used] = _log_gamma(e0, spec.f0, (shape[m], len(used)), rng)
        log_phi_DK = times_weights(log_phi_DK, spec.exposure(m))
        if known.frozen:
            log_phi_DK[:, : len(known.frozen)] = spec.log_frozen(m)
        log_phi |= dict.fromkeys(modes, log_phi_DK)
    return tuple(log_phi[m] for m in range(len(shape)))


def draw_counts(
    spec: Spec, state: State, coords: NDArray[np.int64], rng: np.random.Generator, undirected: Pair | None = None
) -> NDArray[np.int64]:
    """Counts of the cells in `coords` (M, n), drawn given the state; those of pairs if ties are `undirected`."""
    rates_N = exp_of(log_pair_rates_at(state, coords, undirected))
    return spec.observation.draw(rates_N, log_odds_at(state, coords), rng)


def _log_gamma(
    shape: float | NDArray[np.float64], rate: float, size: tuple[int, ...], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Logarithms of gamma variates. Gamma(s) is Gamma(s + 1) times U^(1/s), a sum of logs that cannot underflow."""
    boost = log_of(1.0 - rng.random(size)) / shape
    return np.asarray(log_of(rng.standard_gamma(shape + 1.0, size)) + boost - log(rate))
