"""Factors of two tied modes, such as sender and receiver: one matrix theta for both roles of the same labels.

Class q has the factors k[q, 1] and k[q, 2] of theta, in the roles 1 and 2. Given the counts, core values, locations and
the other modes, the rows are drawn one after another:

    theta[v, k] ~ Gamma( e0 + sum of y,  f0 / w[v] + sum of X )

where both sums are over the classes with k[q, 1] = k, with y1[v, q] and X1[v, q], and over those with k[q, 2] = k, with
y2[v, q] and X2[v, q]: the counts and the exposure of row v in either role, and w is its known weight, or 1. The
diagonal is missing (v never meets v), so the rates of the cells are linear in row v, and its exposure depends only on
the other rows: those before v are new. Rows depend on one another, so theta cannot be integrated out as a whole.

With p the part of a missing pattern that is in the other modes (its weight times, for each of these modes, the row that
it names or the column sum), the exposure in role 1 is

    X1[v] / lambda  =  c1[v] ( (G - H1[v]) S2 - W2 - sum of p theta2[j] over the patterns that name v and j ),

    G      the product of the column sums of the other modes, minus p of the patterns that name no row of the two roles
    H1[v]  the sum of p over the patterns that name row v in role 1, and none in role 2; H2 is the same in role 2
    theta2[j, q] = c2[j] theta[j, k[q, 2]],      S2 = sum_j theta2[j],      W2 = sum_j H2[j] theta2[j]

where c is 1 unless the likelihood scales the rows of a role (factors.py). S and W follow each row: its own part is
taken out before it is drawn, and put back with the new values. So every pattern is visited a fixed number of times.
Cost: (V + patterns) * Q in one thread. Gamma variates of rate 1 are drawn before, by all threads.

The concentration of the two modes, if it is learned, is drawn given theta: with U factors in use, t = ln e has the log
density, up to a constant,

    s0 t - t0 e - U V lnG(e) + e * sum over v, k of ln( theta[v, k] f0 / w[v] ).

Slice sampling with stepping out and shrinkage (Neal 2003) is exact.

In a seeded factor (model/known.py), e0 is e0 u[v], and so is e in the density; a frozen one stays as it is, and has no
part in the density.

Schein et al. (2016) share factors between senders and receivers in Bayesian Poisson Tucker decomposition.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import exp, lgamma, log
from typing import NamedTuple

import numpy as np

from allocore.gibbs.factors import FactorInfo, Priors
from allocore.gibbs.layout import Layout, Workspace
from allocore.kernels.distributions import log_gammas
from allocore.kernels.elementary import Floats, Ints, lane_exp, lane_log, log_of
from allocore.kernels.exposure_sums import PairPatterns
from allocore.kernels.jit import kernel, part
from allocore.kernels.kinds import FROZEN
from allocore.kernels.random import Key, Step, Words, scratch, seek, uniform
from allocore.model.spec import Spec
from allocore.model.state import State

_ROWS_PER_THREAD = 8
_WIDTH = 1.0  # of the first interval of the slice; any width is exact
_LEAST_LOG = -660.0  # of e: below this, the products of e and of counts would not be floats any more


class TiedConcentrationInfo(NamedTuple):
    """The concentration of both modes."""

    concentration: float


def draw_tied_concentration(key: Key, spec: Spec, state: State) -> tuple[State, TiedConcentrationInfo]:
    """Draw the concentration of the tied modes given their factors."""
    first, second = spec.tied or (0, 0)
    log_phi_VK, known, used_K = state.log_phi[first], spec.known_in(first), state.used((first, second))
    used_K[: len(known.frozen)] = False
    log_phi_VU, u_VU = log_phi_VK[:, used_K], known.multipliers(len(log_phi_VK), known.kinds(len(used_K))[used_K])
    of_seeds = int(np.count_nonzero(u_VU != 1.0))
    entries = log_phi_VU.size - of_seeds
    log_f0_V = log_of(spec.factor_rates(first, len(log_phi_VU)))
    total = float((u_VU * (log_phi_VU + log_f0_V[:, None])).sum())

    def log_density(t: float) -> float:
        e = exp(t)
        constants = entries * lgamma(e) + (of_seeds * lgamma(e * (1.0 + known.seed_weight)) if of_seeds else 0.0)
        return spec.s0 * t - spec.t0 * e - constants + e * total

    rng = scratch()
    seek(rng, key.stream(Step.CONCENTRATION, first), 0)
    drawn = exp(max(slice_step(rng, log_density, log(state.concentrations_M[first])), _LEAST_LOG))
    concentrations_M = state.concentrations_M.copy()
    concentrations_M[[first, second]] = drawn
    return replace(state, concentrations_M=concentrations_M), TiedConcentrationInfo(drawn)


def slice_step(rng: Words, log_density: Callable[[float], float], x: float) -> float:
    """One step of slice sampling from x."""
    level = log_density(x) + log(uniform(rng))
    low = x - _WIDTH * uniform(rng)
    high = low + _WIDTH
    while log_density(low) > level:
        low -= _WIDTH
    while log_density(high) > level:
        high += _WIDTH
    while True:
        new = low + (high - low) * uniform(rng)
        if new == x or log_density(new) >= level:
            return new
        low, high = (new, high) if new < x else (low, new)


class TiedClasses(NamedTuple):
    """The classes: core values, the place of their factor in each role among the factors in use, and these."""

    core_Q: Floats
    places_2Q: Ints
    used_U: Ints

    @classmethod
    def of(cls, state: State, tied: tuple[int, int]) -> "TiedClasses":
        """The classes of a state, seen from the two tied modes."""
        used_K = state.used(tied)
        places_2Q = np.ascontiguousarray((np.cumsum(used_K) - 1)[state.subs_QM[:, tied]].T)
        return cls(state.core_values(), places_2Q, np.flatnonzero(used_K))


class OtherModes(NamedTuple):
    """What the missing patterns have in the other modes: expanded factors, their column sums, and the weights."""

    modes_O: Ints
    offsets_M: Ints
    phi_RQ: Floats
    sums_MQ: Floats
    patterns_PM: Ints
    weights_P: Floats


class Roles(NamedTuple):
    """The rows theta1 and theta2 of all classes, their sums S, and the factor c of every row in both roles."""

    rows_2VQ: Floats
    sums_2Q: Floats
    scale_2V: Floats


def draw_tied_factors(
    key: Key, layout: Layout, spec: Spec, state: State, y_RQ: Ints, workspace: Workspace, start: int = 0
) -> tuple[State, FactorInfo]:
    """Draw every factor in use of the tied modes, in the rows from `start` on.

    `workspace`, which is only read, belongs to the given state.
    """
    first, second = spec.tied or (0, 0)
    classes, priors = TiedClasses.of(state, (first, second)), Priors.of(spec, state, first)
    rows, used = layout.shape[first], len(classes.used_U)
    log_unit_VU, log_phi_VK = np.empty((rows, used)), np.full((rows, spec.core_shape[first]), -np.inf)
    frozen, kinds_K = len(spec.known_in(first).frozen), spec.known_in(first).kinds(spec.core_shape[first])
    log_phi_VK[:, :frozen], kinds_U = state.log_phi[first][:, :frozen], kinds_K[classes.used_U]
    log_phi_VK[:start] = state.log_phi[first][:start]
    y_1Q, y_2Q, stream = y_RQ[layout.rows(first)], y_RQ[layout.rows(second)], key.stream(Step.FACTOR, first)
    layout.workers.run(
        [
            partial(
                _draw_units,
                start + cut[0],
                start + cut[1],
                priors,
                kinds_U,
                y_1Q,
                y_2Q,
                classes,
                stream,
                scratch(),
                log_unit_VU,
            )
            for cut in layout.workers.ranges(rows - start, _ROWS_PER_THREAD)
        ]
    )
    patterns = layout.missing.of_pair(first, second)
    roles, others = roles_of(layout, workspace, (first, second)), _other_modes(layout, workspace, (first, second))
    _draw_rows(start, log_unit_VU, priors.f0_D, kinds_U, classes, roles, patterns, others, log_phi_VK)
    return state.with_factors((first, second), log_phi_VK), FactorInfo(used)


def roles_of(layout: Layout, workspace: Workspace, tied: tuple[int, int]) -> Roles:
    """The rows of the classes in both roles."""
    scale, scale_2V = workspace.scale, np.ones((2, layout.shape[tied[0]]))
    if scale is not None and scale.mode in tied:
        scale_2V[tied.index(scale.mode)] = scale.scale_D
    rows_2VQ = np.stack([workspace.rows(mode) for mode in tied]) * scale_2V[:, :, None]
    return Roles(rows_2VQ, rows_2VQ.sum(axis=1), scale_2V)


def _other_modes(layout: Layout, workspace: Workspace, tied: tuple[int, int]) -> OtherModes:
    missing, scale = layout.missing, workspace.scale
    weights_P = missing.weights_P if scale is None or scale.mode in tied else missing.scaled_weights(scale)
    modes_O = np.array([mode for mode in range(len(layout.shape)) if mode not in tied], dtype=np.int64)
    return OtherModes(modes_O, layout.offsets_M, *workspace.expanded, missing.patterns_PM, weights_P)


@kernel
def _draw_units(
    first: int, last: int, priors: Priors, kinds_U: Ints, y_1Q: Ints, y_2Q: Ints, classes: TiedClasses, stream: Words,
    rng: Words, log_unit_VU: Floats,
) -> None:  # fmt: skip
    """Fill rows `first` to `last` with the logarithms of gamma variates of rate 1."""
    _, places_2Q, used_U = classes
    shape_U, rate_U, work_2U = np.empty(used_U.size), np.ones(used_U.size), np.empty((2, used_U.size))
    for v in range(first, last):
        for u in range(used_U.size):
            shape_U[u] = priors.e0 + priors.more_GD[max(kinds_U[u], 0), v]
        for q in range(places_2Q.shape[1]):
            shape_U[places_2Q[0, q]] += y_1Q[v, q]
            shape_U[places_2Q[1, q]] += y_2Q[v, q]
        seek(rng, stream, v)
        log_gammas(rng, shape_U, rate_U, work_2U, log_unit_VU[v])


class _Sums(NamedTuple):
    """G of every class; W, and H of the present row, in both roles; and scratch space."""

    whole_Q: Floats
    outside_2Q: Floats
    named_2Q: Floats
    x_Q: Floats
    product_Q: Floats


@kernel
def _draw_rows(
    start: int, log_unit_VU: Floats, f0_V: Floats, kinds_U: Ints, classes: TiedClasses, roles: Roles,
    patterns: PairPatterns, others: OtherModes, log_phi_VK: Floats,
) -> None:  # fmt: skip
    """Divide the variates by their rates, row by row from `start` on, unless the factor is frozen; `roles` follows."""
    budget, used_U = classes.core_Q.size, classes.used_U
    rate_U, phi_U, none_U = np.empty(used_U.size), np.empty(used_U.size), np.zeros(used_U.size)
    sums = _Sums(
        np.ones(budget), np.zeros((2, budget)), np.zeros((2, budget)), np.empty(budget), np.empty(budget)
    )  # fmt: skip
    _sum_outside(log_phi_VK.shape[0], roles, patterns, others, sums)
    for v in range(start, log_phi_VK.shape[0]):
        for role in range(2):
            _sum_alone(role, v, patterns, others, sums)
            _replace_row(role, v, none_U, classes, roles, sums)
        for u in range(used_U.size):
            rate_U[u] = f0_V[v]
        for role in range(2):
            _add_exposure(role, v, classes, roles, patterns, others, sums, rate_U)
        for u in range(used_U.size):
            if kinds_U[u] != FROZEN:
                log_phi_VK[v, used_U[u]] = log_unit_VU[v, u] - lane_log(rate_U[u])
            phi_U[u] = lane_exp(log_phi_VK[v, used_U[u]])
        for role in range(2):
            _replace_row(role, v, phi_U, classes, roles, sums)


@part
def _sum_outside(rows: int, roles: Roles, patterns: PairPatterns, others: OtherModes, sums: _Sums) -> None:
    """G and W."""
    whole_Q, outside_2Q, named_2Q, _, product_Q = sums
    for m in others.modes_O:
        for q in range(whole_Q.size):
            whole_Q[q] *= others.sums_MQ[m, q]
    for p in patterns.neither_P:
        _multiply(p, others, product_Q)
        for q in range(whole_Q.size):
            whole_Q[q] -= product_Q[q]
    for role in range(2):
        for v in range(rows):
            _sum_alone(role, v, patterns, others, sums)
            for q in range(whole_Q.size):
                outside_2Q[role, q] += named_2Q[role, q] * roles.rows_2VQ[role, v, q]


@part
def _replace_row(role: int, v: int, phi_U: Floats, classes: TiedClasses, roles: Roles, sums: _Sums) -> None:
    """Give one row, in one role, other factors; S and W follow."""
    rows_2VQ, sums_2Q, scale_2V = roles
    for q in range(sums_2Q.shape[1]):
        new = scale_2V[role, v] * phi_U[classes.places_2Q[role, q]]
        more = new - rows_2VQ[role, v, q]
        rows_2VQ[role, v, q] = new
        sums_2Q[role, q] = max(sums_2Q[role, q] + more, 0.0)
        sums.outside_2Q[role, q] += sums.named_2Q[role, q] * more


@part
def _add_exposure(
    role: int, v: int, classes: TiedClasses, roles: Roles, patterns: PairPatterns, others: OtherModes, sums: _Sums,
    rate_U: Floats,
) -> None:  # fmt: skip
    """Add X of one row in one role, which has been taken out itself, to the rates of the factors."""
    whole_Q, outside_2Q, named_2Q, x_Q, product_Q = sums
    rows_2VQ, sums_2Q, scale_2V = roles
    other = 1 - role
    for q in range(x_Q.size):
        x_Q[q] = (whole_Q[q] - named_2Q[role, q]) * sums_2Q[other, q] - outside_2Q[other, q]
    for place in range(patterns.both_2V[role, v], patterns.both_2V[role, v + 1]):
        partner = patterns.partners_P[place]
        _multiply(patterns.both_P[place], others, product_Q)
        for q in range(x_Q.size):
            x_Q[q] -= product_Q[q] * rows_2VQ[other, partner, q]
    for q in range(x_Q.size):
        rate_U[classes.places_2Q[role, q]] += classes.core_Q[q] * scale_2V[role, v] * max(x_Q[q], 0.0)


@part
def _sum_alone(role: int, v: int, patterns: PairPatterns, others: OtherModes, sums: _Sums) -> None:
    """H of one row in one role."""
    named_2Q, product_Q = sums.named_2Q, sums.product_Q
    for q in range(product_Q.size):
        named_2Q[role, q] = 0.0
    for place in range(patterns.alone_2V[role, v], patterns.alone_2V[role, v + 1]):
        _multiply(patterns.alone_P[place], others, product_Q)
        for q in range(product_Q.size):
            named_2Q[role, q] += product_Q[q]


@part
def _multiply(p: int, others: OtherModes, product_Q: Floats) -> None:
    """The part p of a pattern in the other modes."""
    for q in range(product_Q.size):
        product_Q[q] = others.weights_P[p]
    for m in others.modes_O:
        d = others.patterns_PM[p, m]
        for q in range(product_Q.size):
            product_Q[q] *= others.sums_MQ[m, q] if d < 0 else others.phi_RQ[others.offsets_M[m] + d, q]
