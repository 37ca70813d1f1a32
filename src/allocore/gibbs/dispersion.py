"""The dispersion p of the negative binomial as log odds, t = ln p - ln(1 - p): one, or one t_d for each row of a mode.

The core values have the prior Gamma(a0, rate b0 e^s), where s is the mean of the t_d, so lambda_q e^s has the prior
Gamma(a0, b0) whatever p is. This step makes two moves. The first shifts all t_d by v and all ln lambda_q by -v, which
leaves the expected counts and the density of the core values as they are. Given the latent counts, whose sum is L, and
the sums y_d and r_d over the observed cells of each t_d, the log density of v is, up to a constant,

    sum_d [ (g0 + y_d)(t_d + v) - (g0 + h0 + y_d + r_d e^-v) ln(1 + e^(t_d + v)) ]  -  L v.

The second draws each t_d given the core values, with the latent counts integrated out. With D rows, Q included classes
and the sum C of their core values, the log density of t_d is concave and, up to a constant,

    (g0 + y_d + a0 Q / D) t_d  -  (g0 + h0 + y_d + r_d) ln(1 + e^t_d)  -  b0 C e^s.

Both use slice sampling with stepping out and shrinkage (Neal 2003), which is exact. Together they interweave a
sufficient and an ancillary parametrisation (Yu and Meng 2011): with the second move alone, p changes little in a sweep,
and takes long to become small on Poisson data.

This step comes directly before latent counts and thinning, which draw again what it has integrated out. Cost: the
exposure of one mode if p differs by row, else Q; and a few dozen evaluations for each row.

Rows that are folded in (run/fold_in.py) leave the core values as they are, so each has p ~ Beta(g0 + y_d, h0 + r_d).
"""

from dataclasses import replace
from math import exp, log, log1p
from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout, Workspace
from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import Floats, exp_of
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Key, Step, Words, scratch, seek, uniform
from allocore.model.likelihood import log_dispersion_of
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State

_WIDTH = 1.0  # of the first interval of the slice; any width is exact
_ALL_ROWS = -1  # in place of a row
_MOST_LOG_ODDS = 600.0  # beyond this, products of odds and rates would overflow


class DispersionInfo(NamedTuple):
    """The part of the log-likelihood that depends on p: the sum of y ln p + r ln(1 - p)."""

    log_part: float


class SliceTerms(NamedTuple):
    """What the two densities read: sums by row, L, the parameters g0 and h0, a0 Q / D, and b0 C."""

    counts_D: Floats
    rates_D: Floats
    latent: float
    g0: float
    h0: float
    shape: float
    rate: float


def draw_dispersion(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace, latent: float
) -> tuple[State, DispersionInfo]:
    """Draw p, and shift the core values with it; `latent` is the sum of the latent counts.

    `workspace` and `exposure_Q`, X_q / lambda_q with the present c, belong to the given state.
    """
    mode = spec.dispersion_by
    counts_D, rates_D = counts_and_rates(layout, mode, state, exposure_Q, workspace)
    shape = spec.a0 * np.count_nonzero(state.included()) / len(counts_D)
    rate = spec.b0 * float(state.core_values().sum())
    terms = SliceTerms(counts_D, rates_D, float(latent), spec.g0, spec.h0, shape, rate)
    log_odds_D, stream = _log_odds(state), key.stream(Step.DISPERSION)

    shift = _draw_shift(terms, stream, scratch(), log_odds_D)
    log_odds_D, shrink = log_odds_D + shift, float(exp_of(-shift))
    terms = terms._replace(rates_D=rates_D * shrink, rate=rate * shrink)
    _draw_rows(terms, stream, scratch(), log_odds_D)
    state = replace(state, log_core_Q=state.log_core_Q - shift, dispersion=Dispersion(log_odds_D, mode))
    return state, DispersionInfo(log_part(counts_D, terms.rates_D, log_odds_D))


def draw_dispersion_of_new_rows(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace
) -> State:
    """Draw p of every row of the mode `dispersion_by`, given core values that do not depend on these rows."""
    counts_D, rates_D = counts_and_rates(layout, spec.dispersion_by, state, exposure_Q, workspace)
    log_odds_D = np.empty(len(counts_D))
    _draw_beta(spec.g0 + counts_D, spec.h0 + rates_D, key.stream(Step.DISPERSION), scratch(), log_odds_D)
    return replace(state, dispersion=Dispersion(log_odds_D, spec.dispersion_by))


def _log_odds(state: State) -> Floats:
    if state.dispersion is None:
        raise ValueError("the likelihood has no dispersion")
    return state.dispersion.log_odds_D


def log_part(counts_D: Floats, rates_D: Floats, log_odds_D: Floats) -> float:
    """The part of the log-likelihood that depends on p, given the sums of y and of r over the cells of each p."""
    log_p_D = counts_D * log_dispersion_of(log_odds_D) + rates_D * log_dispersion_of(-log_odds_D)
    return float(log_p_D.sum())


def counts_and_rates(
    layout: Layout, mode: int | None, state: State, exposure_Q: Floats, workspace: Workspace
) -> tuple[Floats, Floats]:
    """The sums of y and of r over the observed cells: one each (1), or one for each row of a mode (D)."""
    if mode is not None:
        exposure_DQ = layout.missing.sums_by_row(workspace.expanded, mode, layout.workers)
        rates_D = np.einsum("dq,q->d", exposure_DQ * workspace.rows(mode), state.core_values())
        return layout.row_totals_R[layout.rows(mode)], rates_D
    # X_q already has c, the same in all rows.
    scale = 1.0 if workspace.scale is None else workspace.scale.scale_D[0]
    return np.array([float(layout.total)]), np.array([(state.core_values() * exposure_Q).sum() / scale])


@kernel
def _draw_shift(terms: SliceTerms, stream: Words, rng: Words, log_odds_D: Floats) -> float:
    """Draw the shift v of all log odds."""
    seek(rng, stream, log_odds_D.size)
    return _slice(_ALL_ROWS, 0.0, 0.0, terms, log_odds_D, rng)


@kernel
def _draw_rows(terms: SliceTerms, stream: Words, rng: Words, log_odds_D: Floats) -> None:
    """Draw the log odds of each row given those of the others."""
    total = 0.0
    for d in range(log_odds_D.size):
        total += log_odds_D[d]
    for d in range(log_odds_D.size):
        seek(rng, stream, d)
        others = total - log_odds_D[d]
        log_odds_D[d] = _slice(d, log_odds_D[d], others, terms, log_odds_D, rng)
        total = others + log_odds_D[d]


@part
def _slice(row: int, x: float, others: float, terms: SliceTerms, log_odds_D: Floats, rng: Words) -> float:
    """One step of slice sampling from x: of the log odds of a row, or of the shift of all."""
    level = _log_density(row, x, others, terms, log_odds_D) + log(uniform(rng))
    low = x - _WIDTH * uniform(rng)
    high = low + _WIDTH
    while _log_density(row, low, others, terms, log_odds_D) > level:
        low -= _WIDTH
    while _log_density(row, high, others, terms, log_odds_D) > level:
        high += _WIDTH
    while True:
        new = low + (high - low) * uniform(rng)
        if new == x or _log_density(row, new, others, terms, log_odds_D) >= level:
            return new
        if new < x:
            low = new
        else:
            high = new


@part
def _log_density(row: int, x: float, others: float, terms: SliceTerms, log_odds_D: Floats) -> float:
    """The density of the log odds x of a row, given the sum of the others, or of the shift x of all rows."""
    counts_D, rates_D, latent, g0, h0, shape, rate = terms
    if row != _ALL_ROWS:
        density = (g0 + counts_D[row] + shape) * x - rate * exp((others + x) / log_odds_D.size)
        return float(density - (g0 + h0 + counts_D[row] + rates_D[row]) * _softplus(x))
    scale, density = exp(-x), -latent * x
    for d in range(log_odds_D.size):
        t = log_odds_D[d] + x
        density += (g0 + counts_D[d]) * t - (g0 + h0 + counts_D[d] + rates_D[d] * scale) * _softplus(t)
    return float(density)


@part
def _softplus(t: float) -> float:
    """ln(1 + e^t); infinite for log odds beyond the limit, to which the density then gives no weight."""
    return max(t, 0.0) + log1p(exp(-abs(t))) if abs(t) <= _MOST_LOG_ODDS else np.inf


@kernel
def _draw_beta(first_D: Floats, second_D: Floats, stream: Words, rng: Words, log_odds_D: Floats) -> None:
    """Fill `log_odds_D` with the log odds of Beta(first, second) variates."""
    for d in range(log_odds_D.size):
        seek(rng, stream, d)
        log_odds_D[d] = log_gamma(rng, first_D[d], 1.0) - log_gamma(rng, second_D[d], 1.0)
