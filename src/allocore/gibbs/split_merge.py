"""Split-merge: split one class in two, or merge two classes, in one mode and together with their counts.

A class at a factor that is a mixture of two others, say of two communities, can explain the data as well as two classes
at these two factors. A move of a single class cannot leave such a state. So a split or a merge is proposed, with core
values integrated out, and accepted by Metropolis-Hastings (Jain and Neal 2004; Green and Richardson 2001). For a class
q that holds counts,

    split   takes a class r without counts: q moves to a factor k and r to a factor l, both used by other classes, and r
            to the location of q in the other modes. A count of q in row d goes to r with odds w_l phi[d, l] / S_l :
            w_k phi[d, k] / S_k, where S = sum_d phi[d] R[d], and w are fitted to the counts (split_proposal.py)
    merge   takes a class r with counts that differs from q in this mode alone: q gets all counts and chooses a factor
            as in relocation; r, now without counts, moves in each mode to the factor of a random other class

The two states have these posterior probabilities, up to a common factor. n counts the other classes (including q in the
other modes, and for r, in the merged state, in this mode too):

    split    (n_k + alpha) (n_l + alpha) F(y_q, k) F(y_r, l)                * prod over other modes of (n + alpha) at q
    merged   (n_k + alpha) F(y_q + y_r, k), or as in collapsed_factor.py,   * prod over all modes of (n + alpha) at r
                                                                            * F(0, location of r)
    F(y, k) = b0^a0 / G(a0) * prod_d phi[d, k]^y[d] * G(a0 + y) / (b0 + S_k)^(a0 + y)

This step comes directly before thinning, which allocates all counts again: a split knows the counts of the two classes
only as sums over the rows of one mode, which is enough here. The mode is the one that the sweep visits last.
Cost of a proposal: D * (factors in use).
"""

from dataclasses import dataclass
from math import inf, log, nan

import numpy as np

from allocore.gibbs.collapsed_factor import FIT_SIZE, LOG_INTEGRAL, draw_collapsed, fit_collapsed, log_correction
from allocore.gibbs.exposure import ModeView
from allocore.gibbs.layout import Layout
from allocore.gibbs.relocation import log_core_integral
from allocore.gibbs.split_merge_draft import Draft
from allocore.gibbs.split_proposal import (
    Explained,
    FactorsInUse,
    explain,
    log_odds_of_two,
    log_weight_of_shares,
    share_counts,
)
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.distributions import categorical_from_logs, log_gamma
from allocore.kernels.elementary import exp_of, log_of
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State

_LEAST_CLASSES = 4  # two that take part, and one at each of two factors
_MOST_PROPOSALS = 16


@dataclass(frozen=True)
class Pair:
    """Classes q and r, the number of other classes at each factor of each mode, and the joint counts of q and r.

    The factors that other classes use in this mode explain these counts with `weights_U`; `exposure_U` has their S.
    `scores` are those of one class with all these counts, at each of these factors and, last, at a factor of its own,
    fitted as in collapsed_factor.py.
    """

    q: int
    r: int
    others_MK: Ints
    y_D: Floats
    used_U: Ints
    weights_U: Floats
    exposure_U: Floats
    scores: Floats
    fitted: Floats


@dataclass(frozen=True)
class SplitState:
    """Two factors, by their places in `used_U`, and their logarithms; the counts that q keeps, and r gets.

    A count goes to r with the log odds `odds_D`.
    """

    first: int
    second: int
    log_phi_2D: Floats
    kept_D: Floats
    given_D: Floats
    odds_D: Floats


@dataclass(frozen=True)
class MergedState:
    """The factor of q, its log core value if no other class uses the factor, and the location and exposure of r.

    In mode m, r is at the factor of class `away_M[m]`.
    """

    factor: int
    log_core: float
    away_M: Ints
    exposure_r: float


def split_merge(
    key: Key, layout: Layout, spec: Spec, state: State, view: ModeView, exposure_Q: Floats, workspace: Workspace
) -> tuple[State, Floats, int]:
    """The state after some proposals in one mode, its X_q / lambda_q, and the number of accepted proposals.

    `workspace` belongs to the given state and is only read.
    """
    if spec.budget < _LEAST_CLASSES:
        return state, exposure_Q, 0
    draft = Draft.of(layout, spec, state, view, exposure_Q, workspace)
    rng, stream, accepted = scratch(), key.stream(Step.SPLIT_MERGE, view.mode), 0
    for number in range(min(spec.budget // 4, _MOST_PROPOSALS)):
        seat(rng, stream, number)
        accepted += propose(draft, rng)
    return (draft.state(state), draft.exposure_Q, accepted) if accepted else (state, exposure_Q, 0)


def propose(draft: Draft, rng: Words) -> bool:
    """Propose a split or a merge and, if it is accepted, write it into the draft; returns whether it was accepted."""
    splits = uniform(rng) < 0.5
    q = _one_of(draft.y_Q > 0, rng)
    r = _one_of(_empty(draft) if splits else _partners(draft, q, draft.subs_QM[q, draft.mode]), rng)
    if min(q, r) < 0:
        return False
    others_MK = _others(draft, q, r)
    if (others_MK[draft.mode] > 0).sum() < 2 or not _can_return(draft, others_MK, q, r, splits):
        return False
    pair = _pair(draft, q, r, others_MK)
    split = _draw_split(draft, pair, rng) if splits else _now_split(draft, pair)
    merged = _now_merged(draft, pair) if splits else _draw_merged(draft, pair, rng)
    gain = _gain(draft, pair, split, merged, splits)
    if not log(uniform(rng)) < (gain if splits else -gain):
        return False
    if splits:
        _write_split(draft, pair, split, rng)
    else:
        _write_merged(draft, pair, merged, rng)
    return True


def _gain(draft: Draft, pair: Pair, split: SplitState, merged: MergedState, splits: bool) -> float:
    """log(posterior / proposal) of the split state minus that of the merged state, whichever is the present one."""
    log_weights = _log_weight_split(draft, pair, split) - _log_weight_merged(draft, pair, merged)
    # The numbers of choices for q and r: from the merged state, classes with and without counts; from the split state,
    # classes with counts and partners.
    holding, empty = (draft.y_Q > 0).sum() - (not splits), _empty(draft).sum() + (not splits)
    partners = _partners(draft, pair.q, pair.used_U[split.first]).sum() + splits
    return float(log_weights + log(holding * empty) - log((holding + 1) * partners))


def _empty(draft: Draft) -> Flags:
    """Which classes are included and hold no counts."""
    return np.asarray((draft.y_Q == 0) & (draft.log_core_Q > -inf))


def _one_of(among_Q: Flags, rng: Words) -> int:
    """Draw one of these classes, or -1 if there are none."""
    found = np.flatnonzero(among_Q)
    return int(found[int(uniform(rng) * len(found))]) if len(found) else -1


def _partners(draft: Draft, q: int, factor: int) -> Flags:
    """Which classes with counts would differ from q in this mode alone if q were at `factor`."""
    same_QM = draft.subs_QM == draft.subs_QM[q]
    same_QM[:, draft.mode] = draft.subs_QM[:, draft.mode] != factor
    partners_Q: Flags = same_QM.all(axis=1) & (draft.y_Q > 0)
    partners_Q[q] = False
    return partners_Q


def _others(draft: Draft, q: int, r: int) -> Ints:
    """How many other classes are at each factor of each mode: without r, and in this mode without q."""
    others_MK = draft.classes_MK.copy()
    others_MK[np.arange(len(others_MK)), draft.subs_QM[r]] -= 1
    others_MK[draft.mode, draft.subs_QM[q, draft.mode]] -= 1
    return others_MK


def _pair(draft: Draft, q: int, r: int, others_MK: Ints) -> Pair:
    """The pair of q and r, if other classes use at least two factors of this mode."""
    mode, used_U = draft.mode, np.flatnonzero(others_MK[draft.mode])
    y_D, alpha = draft.y_QD[q] + draft.y_QD[r], draft.alpha_M[mode]
    weights_U, exposure_U, scores, fitted = (
        np.empty(size) for size in (*(len(used_U),) * 2, len(used_U) + 1, FIT_SIZE)
    )
    factors = FactorsInUse(used_U, draft.phi_DK, draft.log_phi_DK)
    explain(y_D, draft.exposure_QD[q], draft.priors, factors, Explained(weights_U, exposure_U, scores[:-1]))
    fit_collapsed(y_D, draft.exposure_QD[q], draft.priors, fitted)
    scores[:-1] += log_of(others_MK[mode, used_U] + alpha)
    free = draft.phi_DK.shape[1] - len(used_U)
    scores[-1] = log(free * alpha) + fitted[LOG_INTEGRAL] if free else -inf
    return Pair(q, r, others_MK, y_D, used_U, weights_U, exposure_U, scores, fitted)


def _can_return(draft: Draft, others_MK: Ints, q: int, r: int, splits: bool) -> bool:
    """Whether the reverse move could be proposed: other classes use the factors that q and r leave."""
    left = others_MK[np.arange(len(others_MK)), draft.subs_QM[r]] > 0
    if splits:
        return bool(left.all())
    return bool(left[draft.mode] and others_MK[draft.mode, draft.subs_QM[q, draft.mode]] > 0)


def _draw_split(draft: Draft, pair: Pair, rng: Words) -> SplitState:
    """Draw two factors for q and r, and the counts of each."""
    log_weights_U = log_of(pair.weights_U)
    first = _by_weight(log_weights_U, rng)
    log_weights_U[first] = -inf
    second = _by_weight(log_weights_U, rng)
    log_phi_2D = _logs_of_two(draft, pair, first, second)
    kept_D, odds_D = np.empty_like(pair.y_D), _log_odds(pair, first, second, log_phi_2D)
    share_counts(pair.y_D, odds_D, rng, kept_D)
    return SplitState(first, second, log_phi_2D, kept_D, pair.y_D - kept_D, odds_D)


def _now_split(draft: Draft, pair: Pair) -> SplitState:
    """The factors and counts that q and r have now."""
    first, second = np.searchsorted(pair.used_U, draft.subs_QM[[pair.q, pair.r], draft.mode])
    log_phi_2D = _logs_of_two(draft, pair, first, second)
    kept_D, given_D = draft.y_QD[pair.q], draft.y_QD[pair.r]
    return SplitState(first, second, log_phi_2D, kept_D, given_D, _log_odds(pair, first, second, log_phi_2D))


def _logs_of_two(draft: Draft, pair: Pair, first: int, second: int) -> Floats:
    return np.ascontiguousarray(draft.log_phi_DK[:, pair.used_U[[first, second]]].T)


def _log_odds(pair: Pair, first: int, second: int, log_phi_2D: Floats) -> Floats:
    """For each row, the log odds that a count goes to r."""
    share = pair.weights_U[second] / (pair.weights_U[first] + pair.weights_U[second])
    odds = log_odds_of_two(pair.y_D, log_phi_2D, pair.exposure_U[[first, second]], share)
    return np.asarray(log_phi_2D[1] - log_phi_2D[0] + odds)


def _log_weight_split(draft: Draft, pair: Pair, split: SplitState) -> float:
    """log(posterior / proposal) of the split state; both classes must hold counts."""
    kept, given = float(split.kept_D.sum()), float(split.given_D.sum())
    if kept == 0 or given == 0:
        return -inf
    a0, b0, mode = draft.priors.a0, draft.priors.b0, draft.mode
    log_weight = log_weight_of_shares(split.kept_D, split.given_D, split.odds_D, split.log_phi_2D)
    for u, counts in ((split.first, kept), (split.second, given)):
        log_weight += log(pair.others_MK[mode, pair.used_U[u]] + draft.alpha_M[mode])
        log_weight += log_core_integral(counts, pair.exposure_U[u], a0, b0)
    for m, factor in enumerate(draft.subs_QM[pair.q]):
        if m != mode:
            log_weight += log(pair.others_MK[m, factor] + draft.alpha_M[m])
    first, second = pair.weights_U[[split.first, split.second]]
    return float(log_weight - log(first * second / (1.0 - first)))


def _by_weight(log_weights_U: Floats, rng: Words) -> int:
    return int(categorical_from_logs(rng, log_weights_U, len(log_weights_U)))


def _draw_merged(draft: Draft, pair: Pair, rng: Words) -> MergedState:
    """Draw a factor for q, which gets the counts of both, and a location for r, which has none."""
    others_K = pair.others_MK[draft.mode, : draft.phi_DK.shape[1]]
    factor, log_core = _choose_factor(pair, others_K, rng)
    modes, budget = range(len(draft.alpha_M)), len(draft.y_Q)
    away_M = np.array([_another(pair, budget, rng, than_q=m == draft.mode) for m in modes])
    return MergedState(factor, log_core, away_M, draft.exposure_at(away_M))


def _now_merged(draft: Draft, pair: Pair) -> MergedState:
    """The factors that q and r have now."""
    factor, away_M = int(draft.subs_QM[pair.q, draft.mode]), np.full(len(draft.alpha_M), pair.r)
    return MergedState(factor, float(draft.log_core_Q[pair.q]), away_M, float(draft.exposure_Q[pair.r]))


def _log_weight_merged(draft: Draft, pair: Pair, merged: MergedState) -> float:
    """log(posterior / proposal) of the merged state."""
    log_weight = float(np.logaddexp.reduce(pair.scores))
    log_weight += log_core_integral(0.0, merged.exposure_r, draft.priors.a0, draft.priors.b0)
    if pair.others_MK[draft.mode, merged.factor] == 0:
        log_weight += log_correction(merged.log_core, pair.y_D, draft.exposure_QD[pair.q], draft.priors, pair.fitted)
    for m, away in enumerate(merged.away_M):
        factor, here = draft.subs_QM[away, m], m == draft.mode
        others, choices = pair.others_MK[m, factor], len(draft.y_Q) - (2 if here else 1)
        beside_q = here and factor == merged.factor
        log_weight += log((others + beside_q + draft.alpha_M[m]) * choices / others)
    return log_weight


def _choose_factor(pair: Pair, others_K: Ints, rng: Words) -> tuple[int, float]:
    """Draw a factor for q with all counts, and the log core value there if no other class uses it."""
    choice = categorical_from_logs(rng, pair.scores, len(pair.scores))
    if choice < len(pair.used_U):
        return pair.used_U[choice], nan
    return _one_of(others_K == 0, rng), draw_collapsed(rng, pair.fitted)


def _another(pair: Pair, budget: int, rng: Words, *, than_q: bool) -> int:
    """Draw a class other than r and, with `than_q`, other than q."""
    left_out = sorted((pair.q, pair.r)) if than_q else [pair.r]
    drawn = int(uniform(rng) * (budget - len(left_out)))
    for each in left_out:
        drawn += drawn >= each
    return drawn


def _write_split(draft: Draft, pair: Pair, split: SplitState, rng: Words) -> None:
    """r gets the location of q and some of its counts; both get new factors and core values."""
    q, r, left = pair.q, pair.r, draft.subs_QM[pair.q, draft.mode]
    if pair.others_MK[draft.mode, left] == 0:
        draft.set_factor(left, -inf)
    draft.follow(r, np.full(len(draft.alpha_M), q))
    draft.exposure_QD[r] = draft.exposure_QD[q]
    for each, counts_D, u in ((q, split.kept_D, split.first), (r, split.given_D, split.second)):
        draft.settle(each, counts_D, pair.used_U[u], pair.exposure_U[u], rng)


def _write_merged(draft: Draft, pair: Pair, merged: MergedState, rng: Words) -> None:
    """q gets the counts of r and the chosen factor, and r moves away."""
    q, r, priors, own = pair.q, pair.r, draft.priors, pair.others_MK[draft.mode, merged.factor] == 0
    draft.follow(r, merged.away_M)
    draft.y_QD[r], draft.y_Q[r], draft.exposure_Q[r] = 0, 0, merged.exposure_r
    draft.log_core_Q[r] = log_gamma(rng, priors.a0, priors.b0 + merged.exposure_r)
    if own:
        rates = priors.f0 + exp_of(merged.log_core) * draft.exposure_QD[q]
        shapes = priors.e0 + pair.y_D
        draft.set_factor(merged.factor, np.array([log_gamma(rng, *each) for each in zip(shapes, rates, strict=True)]))
    exposure = (draft.phi_DK[:, merged.factor] * draft.exposure_QD[q]).sum()
    draft.settle(q, pair.y_D, merged.factor, exposure, rng)
    if own:
        draft.log_core_Q[q] = merged.log_core
