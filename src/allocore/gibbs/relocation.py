"""Locations of the classes in one mode, given counts, core values and the other modes; classes one after another.

With pi integrated out, and every factor that no other class uses integrated out (U of them), class q goes to

    a factor k in use     log(n_k + alpha0/D)  +  sum_d y[d, q] log phi[d, k]  -  sum_d phi[d, k] X[d, q]
    a factor of its own   log(U alpha0/D)      +  sum_d lnG(e0 + y) - lnG(e0) + e0 ln f0 - (e0 + y) ln(f0 + X)

where n_k counts the other classes at k. A class that takes an unused factor draws it at once, phi[d, k] ~
Gamma(e0 + y, f0 + X). The paper instead conditions on the prior draw of an unused factor, which can never fit data;
the posterior is the same.

A class that is alone on its factor and chooses "a factor of its own" stays where it is, with the factor it has: labels
are exchangeable and that factor is already a draw from its conditional, so this too leaves the posterior as it is.
Cost: D * Q * (factors in use), and D * Q more for every factor newly taken.
"""

from dataclasses import replace
from functools import partial
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from allocore._jit import kernel
from allocore.gibbs._draws import categorical_from_logs, log_gamma
from allocore.gibbs._random import Key, Step, Words, scratch, seat, uniform
from allocore.gibbs.layout import Ints, Layout
from allocore.model.spec import Spec
from allocore.model.state import State

_Floats = NDArray[np.float64]


def relocate(key: Key, layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats) -> State:
    """A new state with every class relocated in one mode."""
    scores_QK, new_Q = location_scores(layout, spec, state, mode, y_DQ, reach_DQ)
    subs_QM = state.subs_QM.copy()
    subs_Q = np.ascontiguousarray(subs_QM[:, mode])
    log_phi_DK = state.log_phi[mode].copy()
    others_K = np.bincount(subs_Q, minlength=log_phi_DK.shape[1])
    _move_classes(
        scores_QK, new_Q, spec.alpha0 / len(log_phi_DK), spec.e0, spec.f0, y_DQ, reach_DQ, state.core_values(),
        key.stream(Step.RELOCATE, mode), key.stream(Step.NEW_FACTOR, mode), scratch(), subs_Q, others_K, log_phi_DK,
    )  # fmt: skip
    subs_QM[:, mode] = subs_Q
    log_phi = (*state.log_phi[:mode], log_phi_DK, *state.log_phi[mode + 1 :])
    return replace(state, subs_QM=subs_QM, log_phi=log_phi)


def location_scores(
    layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats
) -> tuple[_Floats, _Floats]:
    """The data's part of the scores: `scores_QK` of every factor in use (-inf elsewhere), `new_Q` of an unused one."""
    used_U = np.flatnonzero(state.used(mode))
    log_phi_DU = np.ascontiguousarray(state.log_phi[mode][:, used_U])
    scores_QU = np.zeros((spec.budget, len(used_U)))
    new_Q = np.zeros(spec.budget)
    core_Q, phi_DU = state.core_values(), np.exp(log_phi_DU)
    cuts = layout.workers.ranges(spec.budget, 8)
    used = [partial(_score_used, *cut, y_DQ, reach_DQ, core_Q, log_phi_DU, phi_DU, scores_QU) for cut in cuts]
    new = [partial(_score_new, *cut, y_DQ, reach_DQ, core_Q, spec.e0, spec.f0, new_Q) for cut in cuts]
    layout.workers.run(used + new)
    scores_QK = np.full((spec.budget, spec.core_shape[mode]), -np.inf)
    scores_QK[:, used_U] = scores_QU
    return scores_QK, new_Q


@kernel
def _score_used(
    first: int, last: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, log_phi_DU: _Floats, phi_DU: _Floats,
    scores_QU: _Floats,
) -> None:  # fmt: skip
    """Scores of the factors in use for classes `first` to `last`."""
    for d in range(y_DQ.shape[0]):
        for q in range(first, last):
            y, x = np.float64(y_DQ[d, q]), core_Q[q] * reach_DQ[d, q]
            if y > 0:
                for u in range(phi_DU.shape[1]):
                    scores_QU[q, u] += y * log_phi_DU[d, u] - x * phi_DU[d, u]
            else:
                for u in range(phi_DU.shape[1]):
                    scores_QU[q, u] -= x * phi_DU[d, u]


@kernel
def _score_new(
    first: int, last: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, e0: float, f0: float, new_Q: _Floats
) -> None:
    """Scores of an unused factor, integrated out, for classes `first` to `last`."""
    constant, log_gamma_e0 = e0 * log(f0), lgamma(e0)
    for d in range(y_DQ.shape[0]):
        for q in range(first, last):
            y = y_DQ[d, q]
            new_Q[q] += constant - (e0 + y) * log(f0 + core_Q[q] * reach_DQ[d, q])
            if y > 0:
                new_Q[q] += lgamma(e0 + y) - log_gamma_e0


@kernel
def _move_classes(
    scores_QK: _Floats, new_Q: _Floats, alpha: float, e0: float, f0: float, y_DQ: Ints, reach_DQ: _Floats,
    core_Q: _Floats, choices: Words, draws: Words, rng: Words, subs_Q: Ints, others_K: Ints, log_phi_DK: _Floats,
) -> None:  # fmt: skip
    """Move the classes in turn; `others_K` counts the classes at each factor, and the one that moves is taken out."""
    width = others_K.size
    weights = np.empty(width + 1)
    cumulative = np.empty(width + 1)
    log_prior = np.empty(subs_Q.size + 1)
    for n in range(log_prior.size):
        log_prior[n] = log(n + alpha)
    for q in range(subs_Q.size):
        home = subs_Q[q]
        others_K[home] -= 1
        alone = others_K[home] == 0
        free = 0
        for k in range(width):
            weights[k] = -np.inf
            if others_K[k] > 0:
                weights[k] = log_prior[others_K[k]] + scores_QK[q, k]
            else:
                free += 1
        weights[width] = log(free * alpha) + new_Q[q] if free > 0 else -np.inf
        seat(rng, choices, q)
        choice = categorical_from_logs(rng, weights, cumulative)
        if choice == width:
            choice = home
            if not alone:
                choice = _nth_free(others_K, int(uniform(rng) * free))
                _draw_column(q, choice, e0, f0, y_DQ, reach_DQ, core_Q, draws, rng, log_phi_DK)
                _score_column(q + 1, choice, y_DQ, reach_DQ, core_Q, log_phi_DK, scores_QK)
        elif alone:
            for d in range(log_phi_DK.shape[0]):
                log_phi_DK[d, home] = -np.inf
        others_K[choice] += 1
        subs_Q[q] = choice


@kernel
def _nth_free(others_K: Ints, n: int) -> int:
    for k in range(others_K.size):
        if others_K[k] == 0:
            if n == 0:
                return k
            n -= 1
    return -1


@kernel
def _draw_column(
    q: int, k: int, e0: float, f0: float, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, draws: Words, rng: Words,
    log_phi_DK: _Floats,
) -> None:  # fmt: skip
    """Draw the factor that class q alone now uses."""
    seat(rng, draws, q)
    for d in range(y_DQ.shape[0]):
        log_phi_DK[d, k] = log_gamma(rng, e0 + y_DQ[d, q], f0 + core_Q[q] * reach_DQ[d, q])


@kernel
def _score_column(
    first: int, k: int, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, log_phi_DK: _Floats, scores_QK: _Floats
) -> None:
    """Score a factor that has just been drawn for the classes that are still to move."""
    for q in range(first, scores_QK.shape[0]):
        scores_QK[q, k] = 0.0
    for d in range(y_DQ.shape[0]):
        log_phi = log_phi_DK[d, k]
        phi = exp(log_phi)
        for q in range(first, scores_QK.shape[0]):
            scores_QK[q, k] -= core_Q[q] * reach_DQ[d, q] * phi
            if y_DQ[d, q] > 0:
                scores_QK[q, k] += y_DQ[d, q] * log_phi
