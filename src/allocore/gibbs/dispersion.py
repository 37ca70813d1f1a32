"""The dispersion p of the negative binomial, as log odds t = ln p - ln(1 - p), given the counts and the rates.

If each row d of a mode has its own p_d, with latent counts integrated out and sums over the observed cells of the row,

    p_d ~ Beta( g0 + y_d,  h0 + r_d ).

With one p for all cells, the core values have the prior Gamma(a0, rate b0 e^t), so lambda_q e^t has the prior
Gamma(a0, b0) whatever p is. This step then makes two moves. The first shifts t by v and all ln lambda_q by -v, which
leaves the expected counts and the density of the core values as they are. Given the latent counts, whose sum is L, and
the sums y and r over the observed cells, the log density of v is, up to a constant,

    (g0 + y)(t + v)  -  (g0 + h0 + y + r e^-v) ln(1 + e^(t + v))  -  L v.

The second draws t given the core values, with the latent counts integrated out. With Q included classes and the sum C
of their core values, the log density of t is concave and, up to a constant,

    (g0 + y + a0 Q) t  -  (g0 + h0 + y + r) ln(1 + e^t)  -  b0 C e^t.

Both use slice sampling with stepping out and shrinkage (Neal 2003), which is exact. Together they interweave a
sufficient and an ancillary parametrisation (Yu and Meng 2011): with the second move alone, p changes little in a sweep,
and takes long to become small on Poisson data.

This step comes directly before latent counts and thinning, which draw again what it has integrated out. Cost: the
exposure of one mode if p differs by row, else Q and a few dozen evaluations. Rows that are folded in (run/fold_in.py)
have a p of their own or that of the fit.
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
_MOST_LOG_ODDS = 600.0  # beyond this, products of odds and rates would overflow


class DispersionInfo(NamedTuple):
    """The part of the log-likelihood that depends on p: the sum of y ln p + r ln(1 - p)."""

    log_part: float


class SliceTerms(NamedTuple):
    """What the two densities read: the sums of y, r and latent counts, the parameters g0 and h0, a0 Q, and b0 C."""

    total: float
    rate: float
    latent: float
    g0: float
    h0: float
    core_shape: float
    core_rate: float


def draw_dispersion(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace, latent: float
) -> tuple[State, DispersionInfo]:
    """Draw p and, if there is one for all cells, shift the core values with it; `latent` is the sum of latent counts.

    `workspace` and `exposure_Q`, X_q / lambda_q with the present c, belong to the given state.
    """
    counts_D, rates_D = counts_and_rates(layout, spec.dispersion_by, state, exposure_Q, workspace)
    if spec.dispersion_by is None:
        state, rates_D = _draw_one(key, spec, state, float(counts_D[0]), float(rates_D[0]), latent)
    else:
        state = _draw_by_row(key, spec, state, counts_D, rates_D)
    return state, DispersionInfo(log_part(counts_D, rates_D, _log_odds(state)))


def draw_dispersion_of_new_rows(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace
) -> State:
    """Draw p of every row of the mode `dispersion_by`."""
    return _draw_by_row(key, spec, state, *counts_and_rates(layout, spec.dispersion_by, state, exposure_Q, workspace))


def _draw_one(key: Key, spec: Spec, state: State, count: float, rate: float, latent: float) -> tuple[State, Floats]:
    """The state after both moves, and the sum of its rates."""
    included, core = np.count_nonzero(state.included()), float(state.core_values().sum())
    terms = SliceTerms(count, rate, latent, spec.g0, spec.h0, spec.a0 * included, spec.b0 * core)
    stream, log_odds = key.stream(Step.DISPERSION), float(_log_odds(state)[0])
    shift = draw_shift(terms, stream, scratch(), log_odds)
    shrink = float(exp_of(-shift))
    terms = terms._replace(rate=rate * shrink, core_rate=terms.core_rate * shrink)
    log_odds = draw_log_odds(terms, stream, scratch(), log_odds + shift)
    dispersion = Dispersion(np.array([log_odds]), None)
    return replace(state, log_core_Q=state.log_core_Q - shift, dispersion=dispersion), np.array([terms.rate])


def _draw_by_row(key: Key, spec: Spec, state: State, counts_D: Floats, rates_D: Floats) -> State:
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
def draw_shift(terms: SliceTerms, stream: Words, rng: Words, log_odds: float) -> float:
    """Draw the shift v of the log odds."""
    seek(rng, stream, np.int64(1))
    return _slice(True, 0.0, log_odds, terms, rng)


@kernel
def draw_log_odds(terms: SliceTerms, stream: Words, rng: Words, log_odds: float) -> float:
    """Draw the log odds given the core values."""
    seek(rng, stream, np.int64(0))
    return _slice(False, log_odds, 0.0, terms, rng)


@part
def _slice(shifts: bool, x: float, log_odds: float, terms: SliceTerms, rng: Words) -> float:
    """One step of slice sampling from x."""
    level = _log_density(shifts, x, log_odds, terms) + log(uniform(rng))
    low = x - _WIDTH * uniform(rng)
    high = low + _WIDTH
    while _log_density(shifts, low, log_odds, terms) > level:
        low -= _WIDTH
    while _log_density(shifts, high, log_odds, terms) > level:
        high += _WIDTH
    while True:
        new = low + (high - low) * uniform(rng)
        if new == x or _log_density(shifts, new, log_odds, terms) >= level:
            return new
        if new < x:
            low = new
        else:
            high = new


@part
def _log_density(shifts: bool, x: float, log_odds: float, terms: SliceTerms) -> float:
    """The density of the shift x of the log odds, or of the log odds x."""
    total, rate, latent, g0, h0, core_shape, core_rate = terms
    if shifts:
        t = log_odds + x
        return (g0 + total) * t - (g0 + h0 + total + rate * exp(-x)) * _softplus(t) - latent * x
    return (g0 + total + core_shape) * x - (g0 + h0 + total + rate) * _softplus(x) - core_rate * exp(x)


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
