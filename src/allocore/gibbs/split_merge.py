"""Classes divided in two, and two joined to one, in one mode and with their counts: what no class can do alone.

A class at a factor that is a mixture of others, say of two communities, explains the data as well as two classes at the
factors of these would, and relocation cannot tell it to part. In turn are proposed, core values integrated out, and
accepted as Metropolis and Hastings have it, for a class q that holds counts:

    divide   with a class r that holds none: q takes a factor k and r a factor l, both in use by other classes, and r
             takes the location of q in the other modes. A count of q in row d goes to r with odds w_l phi[d, l] / S_l :
             w_k phi[d, k] / S_k, where S = sum_d phi[d] R[d], and w are fitted to the counts (mixtures.py)
    join     with a class r that holds counts and differs from q in this mode alone: q takes all counts and chooses a
             factor as in relocation; r, without counts, takes the factor of another class, a random one in each mode

The two states have the posterior probabilities, up to a common factor and n counting the other classes (q among them in
the other modes, and for r, when joined, in this one),

    divided  (n_k + alpha) (n_l + alpha) F(y_q, k) F(y_r, l)         * prod over other modes of (n + alpha) where q is
    joined   (n_k + alpha) F(y_q + y_r, k), or as alone.py has it,   * prod over all modes of (n + alpha) where r is
                                                                     * F(0, where r is)
    F(y, k) = b0^a0 / G(a0) * prod_d phi[d, k]^y[d] * G(a0 + y) / (b0 + S_k)^(a0 + y)

This comes last before thinning, which allocates all counts anew: of an allocation, only the sums over the rows of one
mode are known, and they are known for q and r afterwards as well. The mode is that which the sweep visits last.
Cost of a proposal: D * (factors in use).
"""

from dataclasses import dataclass
from math import inf, log, nan

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.collapsed_factor import FIT_SIZE, LOG_INTEGRAL, Priors, draw_alone, excess_alone, fit_alone
from allocore.gibbs.layout import Ints, Layout
from allocore.gibbs.relocation import by_class, log_core_integral
from allocore.gibbs.split_proposal import explain, log_odds_of_two, share_counts
from allocore.kernels.distributions import categorical_from_logs, log_gamma
from allocore.kernels.expansion import Rows
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State

_LEAST_CLASSES = 4  # two that take part, and one at each of two factors
_MOST_PROPOSALS = 16
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Chain:
    """The mode, and what is known in it. Arrays follow what is accepted; `reach_QD` is for classes with counts."""

    mode: int
    layout: Layout
    alpha_M: _Floats
    priors: Priors
    rows: Rows
    y_QD: Ints
    y_Q: Ints
    reach_QD: _Floats
    reach_Q: _Floats
    subs_QM: Ints
    log_core_Q: _Floats
    log_phi_DK: _Floats
    phi_DK: _Floats
    classes_MK: Ints  # how many classes are at each factor


@dataclass(frozen=True)
class _Pair:
    """Classes q and r, how many others are at each factor of each mode, and the counts of both together.

    The factors that others use in this mode explain these counts with `weights_U`; each S is in `reach_U`. `scores` are
    of one class that has them all: at each of these factors and, last, at a factor of its own, fitted as in alone.py.
    """

    q: int
    r: int
    others_MK: Ints
    y_D: Ints
    used_U: Ints
    weights_U: _Floats
    reach_U: _Floats
    scores: _Floats
    fitted: _Floats


@dataclass(frozen=True)
class _Divided:
    """Two factors, by their places among those in use, the counts that q keeps, and the log odds of a count to go."""

    first: int
    second: int
    kept_D: Ints
    odds_D: _Floats


@dataclass(frozen=True)
class _Joined:
    """The factor of q and, if it is alone there, its log core value; for each mode a class whose factor r has; and how
    much r reaches there.
    """

    factor: int
    log_core: float
    away_M: Ints
    reach_r: float


def divide(
    key: Key, layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats, rows: Rows,
    reach_Q: _Floats,
) -> State:  # fmt: skip
    """A new state with classes divided and joined in one mode; `rows`, and `reach_Q`, X_q / lambda_q, follow it."""
    if spec.budget < _LEAST_CLASSES:
        return state
    chain = _chain(layout, spec, state, mode, y_DQ, reach_DQ, rows, reach_Q)
    rng, stream, changed = scratch(), key.stream(Step.DIVIDE, mode), False
    for number in range(min(spec.budget // 4, _MOST_PROPOSALS)):
        seat(rng, stream, number)
        changed |= _propose(chain, rng)
    if not changed:
        return state
    log_phi = (*state.log_phi[:mode], chain.log_phi_DK, *state.log_phi[mode + 1 :])
    state = State(chain.log_core_Q, chain.subs_QM, log_phi)
    for m in range(len(layout.shape)):
        rows.refresh(layout, state, m)
    return state


def _chain(
    layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats, rows: Rows, reach_Q: _Floats
) -> _Chain:
    log_phi_DK, used_U, y_QD = state.log_phi[mode].copy(), np.flatnonzero(state.used(mode)), by_class(y_DQ)
    phi_DK = np.zeros_like(log_phi_DK)
    phi_DK[:, used_U] = np.exp(log_phi_DK[:, used_U])
    classes_MK = np.array([np.bincount(subs_Q, minlength=max(spec.core_shape)) for subs_Q in state.subs_QM.T])
    return _Chain(
        mode, layout, spec.alpha0 / np.array(layout.shape), Priors.of(spec), rows, y_QD, y_QD.sum(axis=1),
        by_class(reach_DQ), reach_Q, state.subs_QM.copy(), state.log_core_Q.copy(), log_phi_DK, phi_DK, classes_MK,
    )  # fmt: skip


def _propose(chain: _Chain, rng: Words) -> bool:
    """Propose to divide a class, or to join two, and do it if that is accepted; returns whether it was."""
    divides = uniform(rng) < 0.5
    q = _one_of(chain.y_Q > 0, rng)
    r = _one_of(_empty(chain) if divides else _partners(chain, q, chain.subs_QM[q, chain.mode]), rng)
    if min(q, r) < 0:
        return False
    pair = _pair(chain, q, r)
    if pair is None or not _can_return(chain, pair, divides):
        return False
    divided = _draw_divided(chain, pair, rng) if divides else _now_divided(chain, pair)
    joined = _now_joined(chain, pair) if divides else _draw_joined(chain, pair, rng)
    gain = _gain(chain, pair, divided, joined, divides)
    if not log(uniform(rng)) < (gain if divides else -gain):
        return False
    if divides:
        _do_divide(chain, pair, divided, rng)
    else:
        _do_join(chain, pair, joined, rng)
    return True


def _gain(chain: _Chain, pair: _Pair, divided: _Divided, joined: _Joined, divides: bool) -> float:
    """log(posterior / proposal) of the divided state less that of the joined one, whichever is the present one."""
    log_weights = _log_weight_divided(chain, pair, divided) - _log_weight_joined(chain, pair, joined)
    # How many q and r there are to draw from: if joined, those with counts and those without; if divided, partners.
    holding, empty = (chain.y_Q > 0).sum() - (not divides), _empty(chain).sum() + (not divides)
    partners = _partners(chain, pair.q, pair.used_U[divided.first]).sum() + divides
    return float(log_weights + log(holding * empty) - log((holding + 1) * partners))


def _empty(chain: _Chain) -> NDArray[np.bool_]:
    """Which classes are on and hold no counts."""
    return np.asarray((chain.y_Q == 0) & (chain.log_core_Q > -inf))


def _one_of(among_Q: NDArray[np.bool_], rng: Words) -> int:
    """A class among these, or -1 if there are none."""
    found = np.flatnonzero(among_Q)
    return int(found[int(uniform(rng) * len(found))]) if len(found) else -1


def _partners(chain: _Chain, q: int, factor: int) -> NDArray[np.bool_]:
    """Which classes with counts differ in this mode alone from q, were it at `factor`."""
    same_QM = chain.subs_QM == chain.subs_QM[q]
    same_QM[:, chain.mode] = chain.subs_QM[:, chain.mode] != factor
    partners_Q: NDArray[np.bool_] = same_QM.all(axis=1) & (chain.y_Q > 0)
    partners_Q[q] = False
    return partners_Q


def _pair(chain: _Chain, q: int, r: int) -> _Pair | None:
    """What is to be known of q and r; None if others use fewer than two factors of this mode."""
    mode, others_MK = chain.mode, chain.classes_MK.copy()
    others_MK[np.arange(len(others_MK)), chain.subs_QM[r]] -= 1
    others_MK[mode, chain.subs_QM[q, mode]] -= 1
    used_U = np.flatnonzero(others_MK[mode])
    if len(used_U) < 2:
        return None
    y_D, alpha = chain.y_QD[q] + chain.y_QD[r], chain.alpha_M[mode]
    weights_U, reach_U, scores, fitted = (np.empty(size) for size in (*(len(used_U),) * 2, len(used_U) + 1, FIT_SIZE))
    explain(
        y_D, chain.reach_QD[q], chain.priors, used_U, chain.phi_DK, chain.log_phi_DK, weights_U, reach_U, scores
    )  # fmt: skip
    fit_alone(y_D, chain.reach_QD[q], chain.priors, fitted)
    scores[:-1] += np.log(others_MK[mode, used_U] + alpha)
    free = chain.phi_DK.shape[1] - len(used_U)
    scores[-1] = log(free * alpha) + fitted[LOG_INTEGRAL] if free else -inf
    return _Pair(q, r, others_MK, y_D, used_U, weights_U, reach_U, scores, fitted)


def _can_return(chain: _Chain, pair: _Pair, divides: bool) -> bool:
    """Whether the way back could be proposed: others use the factors that are left behind."""
    left = pair.others_MK[np.arange(len(chain.alpha_M)), chain.subs_QM[pair.r]] > 0
    if divides:
        return bool(left.all())
    return bool(left[chain.mode] and pair.others_MK[chain.mode, chain.subs_QM[pair.q, chain.mode]] > 0)


def _draw_divided(chain: _Chain, pair: _Pair, rng: Words) -> _Divided:
    """Two factors for q and r, and the counts of each."""
    first = _by_weight(pair.weights_U, rng)
    second = _by_weight(np.where(np.arange(len(pair.used_U)) == first, 0.0, pair.weights_U), rng)
    kept_D, odds_D = np.empty_like(pair.y_D), _log_odds(chain, pair, first, second)
    share_counts(pair.y_D, odds_D, rng, kept_D)
    return _Divided(first, second, kept_D, odds_D)


def _now_divided(chain: _Chain, pair: _Pair) -> _Divided:
    """The factors and counts that q and r have now."""
    first, second = np.searchsorted(pair.used_U, chain.subs_QM[[pair.q, pair.r], chain.mode])
    return _Divided(first, second, chain.y_QD[pair.q], _log_odds(chain, pair, first, second))


def _log_odds(chain: _Chain, pair: _Pair, first: int, second: int) -> _Floats:
    """The log odds of a count in each row to go to r."""
    log_phi_2D = by_class(chain.log_phi_DK[:, pair.used_U[[first, second]]])
    share = pair.weights_U[second] / (pair.weights_U[first] + pair.weights_U[second])
    odds = log_odds_of_two(pair.y_D, log_phi_2D, pair.reach_U[[first, second]], share)
    return np.asarray(log_phi_2D[1] - log_phi_2D[0] + odds)


def _log_weight_divided(chain: _Chain, pair: _Pair, divided: _Divided) -> float:
    """log(posterior / proposal) of the divided state; both classes must hold counts."""
    given_D, modes = pair.y_D - divided.kept_D, np.delete(np.arange(len(chain.alpha_M)), chain.mode)
    if not divided.kept_D.any() or not given_D.any():
        return -inf
    log_weight = np.log(pair.others_MK[modes, chain.subs_QM[pair.q, modes]] + chain.alpha_M[modes]).sum()
    for u, counts_D in ((divided.first, divided.kept_D), (divided.second, given_D)):
        some, factor = counts_D > 0, pair.used_U[u]
        log_weight += log(pair.others_MK[chain.mode, factor] + chain.alpha_M[chain.mode])
        log_weight += (counts_D[some] * chain.log_phi_DK[some, factor]).sum()
        log_weight += log_core_integral(counts_D.sum(), pair.reach_U[u], chain.priors)
    log_weight += (divided.kept_D * np.logaddexp(0.0, divided.odds_D)).sum()
    log_weight += (given_D * np.logaddexp(0.0, -divided.odds_D)).sum()
    first, second = pair.weights_U[[divided.first, divided.second]]
    return float(log_weight - log(first * second / (1.0 - first)))


def _by_weight(weights_U: _Floats, rng: Words) -> int:
    with np.errstate(divide="ignore"):
        return int(categorical_from_logs(rng, np.log(weights_U), len(weights_U), np.empty(len(weights_U))))


def _draw_joined(chain: _Chain, pair: _Pair, rng: Words) -> _Joined:
    """A factor for q with the counts of both, and factors for r without."""
    others_K = pair.others_MK[chain.mode, : chain.phi_DK.shape[1]]
    factor, log_core = _choose_factor(pair, others_K, rng)
    modes, budget = range(len(chain.alpha_M)), len(chain.y_Q)
    away_M = np.array([_another(pair, budget, rng, than_q=m == chain.mode) for m in modes])
    return _Joined(factor, log_core, away_M, _reach_at(chain, away_M))


def _now_joined(chain: _Chain, pair: _Pair) -> _Joined:
    """The factors that q and r have now."""
    factor, away_M = int(chain.subs_QM[pair.q, chain.mode]), np.full(len(chain.alpha_M), pair.r)
    return _Joined(factor, float(chain.log_core_Q[pair.q]), away_M, float(chain.reach_Q[pair.r]))


def _log_weight_joined(chain: _Chain, pair: _Pair, joined: _Joined) -> float:
    """log(posterior / proposal) of the joined state."""
    modes = np.arange(len(chain.alpha_M))
    log_weight = np.logaddexp.reduce(pair.scores) + log_core_integral(0, joined.reach_r, chain.priors)
    if pair.others_MK[chain.mode, joined.factor] == 0:
        log_weight += excess_alone(joined.log_core, pair.y_D, chain.reach_QD[pair.q], chain.priors, pair.fitted)
    factors_M = chain.subs_QM[joined.away_M, modes]
    others_M, beside_q = pair.others_MK[modes, factors_M], (modes == chain.mode) & (factors_M == joined.factor)
    choices_M = len(chain.y_Q) - np.where(modes == chain.mode, 2, 1)
    return float(log_weight + (np.log(others_M + beside_q + chain.alpha_M) - np.log(others_M / choices_M)).sum())


def _choose_factor(pair: _Pair, others_K: Ints, rng: Words) -> tuple[int, float]:
    """A factor for q with all counts, and the log core value there if the factor is its own."""
    choice = categorical_from_logs(rng, pair.scores, len(pair.scores), np.empty(len(pair.scores)))
    if choice < len(pair.used_U):
        return pair.used_U[choice], nan
    return _one_of(others_K == 0, rng), draw_alone(rng, pair.fitted)


def _another(pair: _Pair, budget: int, rng: Words, *, than_q: bool) -> int:
    """A class other than r, and than q if so told."""
    among_Q = np.ones(budget, dtype=np.bool_)
    among_Q[pair.r] = False
    among_Q[pair.q] = not than_q
    return _one_of(among_Q, rng)


def _reach_at(chain: _Chain, classes_M: Ints) -> float:
    """X / lambda of a class at the factors that these classes have, one in each mode; see exposure.py."""
    layout, rows = chain.layout, chain.rows
    product_P, whole = layout.weights_P.copy(), 1.0
    for m, c in enumerate(classes_M):
        named_P = layout.patterns_PM[:, m]
        phi_P = rows.phi_RQ[layout.offsets_M[m] + named_P, c]
        product_P *= np.where(named_P < 0, rows.sums_MQ[m, c], phi_P)
        whole *= rows.sums_MQ[m, c]
    return max(float(whole - product_P.sum()), 0.0)


def _do_divide(chain: _Chain, pair: _Pair, divided: _Divided, rng: Words) -> None:
    """r takes the location of q and some of its counts, and both take their factors and core values."""
    q, r, left = pair.q, pair.r, chain.subs_QM[pair.q, chain.mode]
    if pair.others_MK[chain.mode, left] == 0:
        chain.log_phi_DK[:, left], chain.phi_DK[:, left] = -inf, 0.0
    _follow(chain, r, np.full(len(chain.alpha_M), q))
    chain.reach_QD[r] = chain.reach_QD[q]
    for each, counts_D, u in ((q, divided.kept_D, divided.first), (r, pair.y_D - divided.kept_D, divided.second)):
        chain.y_QD[each], chain.y_Q[each] = counts_D, counts_D.sum()
        _settle(chain, each, pair.used_U[u], pair.reach_U[u], rng)


def _do_join(chain: _Chain, pair: _Pair, joined: _Joined, rng: Words) -> None:
    """q takes the counts of r and its factor, and r goes away."""
    q, r, priors, alone = pair.q, pair.r, chain.priors, pair.others_MK[chain.mode, joined.factor] == 0
    _follow(chain, r, joined.away_M)
    chain.y_QD[r], chain.y_Q[r], chain.reach_Q[r] = 0, 0, joined.reach_r
    chain.log_core_Q[r] = log_gamma(rng, priors.a0, priors.b0 + joined.reach_r)
    chain.y_QD[q], chain.y_Q[q] = pair.y_D, pair.y_D.sum()
    if alone:
        rates = priors.f0 + np.exp(joined.log_core) * chain.reach_QD[q]
        shapes = priors.e0 + pair.y_D
        log_phi_D = np.array([log_gamma(rng, *each) for each in zip(shapes, rates, strict=True)])
        chain.log_phi_DK[:, joined.factor], chain.phi_DK[:, joined.factor] = log_phi_D, np.exp(log_phi_D)
    _settle(chain, q, joined.factor, (chain.phi_DK[:, joined.factor] * chain.reach_QD[q]).sum(), rng)
    if alone:
        chain.log_core_Q[q] = joined.log_core


def _follow(chain: _Chain, r: int, classes_M: Ints) -> None:
    """Put r to the factors that these classes have, one in each mode."""
    for m, c in enumerate(classes_M):
        here = chain.layout.rows(m)
        _put(chain, r, m, chain.subs_QM[c, m])
        chain.rows.phi_RQ[here, r], chain.rows.sums_MQ[m, r] = chain.rows.phi_RQ[here, c], chain.rows.sums_MQ[m, c]


def _settle(chain: _Chain, q: int, factor: int, reach: float, rng: Words) -> None:
    """Put q to a factor of this mode, where it reaches so much, and draw its core value."""
    phi_D, chain.reach_Q[q] = chain.phi_DK[:, factor], reach
    _put(chain, q, chain.mode, factor)
    chain.rows.phi_RQ[chain.layout.rows(chain.mode), q] = phi_D
    chain.rows.sums_MQ[chain.mode, q] = phi_D.sum()
    chain.log_core_Q[q] = log_gamma(rng, chain.priors.a0 + chain.y_Q[q], chain.priors.b0 + reach)


def _put(chain: _Chain, q: int, mode: int, factor: int) -> None:
    chain.classes_MK[mode, chain.subs_QM[q, mode]] -= 1
    chain.classes_MK[mode, factor] += 1
    chain.subs_QM[q, mode] = factor
