"""Forward simulation: every variable drawn from its prior, and data drawn given all of them. Plain NumPy.

The first state of a chain is a draw from the prior with the locations where the specification starts them.
"""

import numpy as np
from numpy.typing import NDArray

from allocore.model.rates import rates_at
from allocore.model.spec import Spec
from allocore.model.state import State


def first_state(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> State:
    """Where a chain begins."""
    subs_QM = spec.start_locations()
    return State(_log_core_included(spec, rng), subs_QM, draw_log_factors(spec, shape, subs_QM, rng))


def prior_state(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> State:
    """A draw of all variables from the prior (locations as the specification fixes them, if it does)."""
    subs_QM = draw_locations(spec, shape, rng) if spec.learn_locations else spec.start_locations()
    return State(draw_log_core(spec, rng), subs_QM, draw_log_factors(spec, shape, subs_QM, rng))


def draw_log_core(spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
    """log lambda_q ~ log Gamma(a0, rate b0); where the budget is inferred, -inf for classes that are not included."""
    log_core_Q = _log_core_included(spec, rng)
    if spec.infer_budget:
        log_core_Q[rng.random(spec.budget) >= rng.beta(spec.c0, spec.d0)] = -np.inf
    return log_core_Q


def _log_core_included(spec: Spec, rng: np.random.Generator) -> NDArray[np.float64]:
    """The same with every class included, as in the first state: a chain leaves out what it does not need."""
    return _log_gamma(spec.a0, spec.b0, (spec.budget,), rng)


def draw_locations(spec: Spec, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    """k[q, m] with pi[m] integrated out: class after class, P(k) proportional to n_k + alpha0 / D_m."""
    subs_QM = np.empty((spec.budget, len(shape)), dtype=np.int64)
    for m, (length, width) in enumerate(zip(shape, spec.core_shape, strict=True)):
        weights_K = np.full(width, spec.alpha0 / length)
        for q in range(spec.budget):
            subs_QM[q, m] = rng.choice(width, p=weights_K / weights_K.sum())
            weights_K[subs_QM[q, m]] += 1.0
    return subs_QM


def draw_log_factors(
    spec: Spec, shape: tuple[int, ...], subs_QM: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], ...]:
    """log phi[m][d, k] ~ log Gamma(e0, rate f0) for the factors in use, -inf for the others."""
    log_phi = []
    for m, (length, width) in enumerate(zip(shape, spec.core_shape, strict=True)):
        log_phi_DK = np.full((length, width), -np.inf)
        used = np.unique(subs_QM[:, m])
        log_phi_DK[:, used] = _log_gamma(spec.e0, spec.f0, (length, len(used)), rng)
        log_phi.append(log_phi_DK)
    return tuple(log_phi)


def draw_counts(state: State, coords: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Counts of the cells in `coords` (M, n), drawn given the state."""
    return rng.poisson(rates_at(state, coords))


def _log_gamma(shape: float, rate: float, size: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
    """log of Gamma variates; Gamma(s) is Gamma(s + 1) times U^(1/s), which in logarithms cannot underflow."""
    boost = np.log1p(-rng.random(size)) / shape
    return np.asarray(np.log(rng.standard_gamma(shape + 1.0, size)) + boost - np.log(rate))
