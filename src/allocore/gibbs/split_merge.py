"""Split-merge: split one class in two, or merge two classes, in one mode and together with their counts.

The two states have these posterior probabilities, up to a common factor. n counts the other classes (including q in the
other modes, and for r, in the merged state, in this mode too):

    split    (n_k + alpha) (n_l + alpha) F(y_q, k) F(y_r, l)                * prod over other modes of (n + alpha) at q
    merged   (n_k + alpha) F(y_q + y_r, k), or as in relocation.py          * prod over all modes of (n + alpha) at r
                                                                            * F(0, location of r)
    F(y, k) = b0^a0 / G(a0) * prod_d phi[d, k]^y[d] * G(a0 + y) / (b0 + S_k)^(a0 + y),      S_k = sum_d phi[d, k] R[d]

given the counts and the factors, with core values integrated out; a Metropolis-Hastings step accepts or rejects (Jain
and Neal 2004; Green and Richardson 2001). For a class q that holds counts,

    split   takes a class r without counts: q moves to a factor k and r to a factor l, both used by other classes, and r
            to the location of q in the other modes. A count of q in row d goes to r with odds w_l phi[d, l] / S_l :
            w_k phi[d, k] / S_k
    merge   takes a class r with counts that differs from q only in this mode: q gets all counts and chooses a factor
            as in relocation; r, now without counts, moves in each mode to the factor of a random other class

Why: a class at a factor that is a mixture of two others, say of two communities, can explain the data as well as two
classes at these two factors. A move of a single class cannot leave such a state.

A known factor (model/known.py) that no other class uses takes no part: a class at one is not split, and a merged class
does not choose one. Neither step has a way back that is proposed, so both are left to relocation.py, and what remains
is exact.

If the mode is tied to another (tied.py), n counts the locations in both, also that of q and of r in the other one, and
a factor is in use if any class uses it in either mode. Nothing else changes: as the diagonal is missing, R[d] does not
depend on row d, and a factor of its own is not in R at all. In the way back, r still moves to the factor that a random
other class has in the same mode.

The weights w are those of a mixture of the factors in use that explains the counts: a count in row d comes from factor
k with weight w_k, in shares phi[d, k] R[d] / S_k. A few steps of EM fit them. They only make a proposal, so they need
not be exact, but they must be a function of only the counts, the exposure and the factors.

The step comes directly before thinning, which allocates all counts again: a split knows the counts of the two classes
only as sums over the rows of the mode that the sweep visits last. Cost of a proposal: D * (factors in use).

Three layers: the step (`split_merge`), the proposals, which write to a `Draft` of the state, and serial leaves.
"""

from dataclasses import dataclass, replace
from math import exp, inf, log, log1p, nan
from typing import NamedTuple

import numpy as np

from allocore.gibbs.factors import ModeView, Priors
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.relocation import (
    ByClass,
    CollapsedFit,
    draw_collapsed,
    fit_collapsed,
    log_core_integral,
    log_correction,
)
from allocore.kernels.distributions import binomial, categorical_from_logs, log_gamma
from allocore.kernels.elementary import Flags, Floats, Ints, exp_of, log_of
from allocore.kernels.exposure_sums import Expanded, RowScale, SignedPatterns, scaled_sums
from allocore.kernels.jit import kernel, part
from allocore.kernels.random import Key, Step, Words, scratch, seek, uniform
from allocore.model.spec import Spec
from allocore.model.state import State

_LEAST_CLASSES = 4  # two that take part, and one at each of two factors
_MOST_PROPOSALS = 16
_STEPS = 12  # of EM
_LEAK = 0.05  # the share of proposals that ignore the counts, so that every factor can be proposed
_TINY = 1e-280
_MOST = 700.0  # exp of anything larger may overflow


class SplitMergeInfo(NamedTuple):
    """How many splits and merges were proposed and accepted. A proposal without a possible move is rejected."""

    proposed: int
    accepted: int


def split_merge(
    key: Key, layout: Layout, spec: Spec, state: State, view: ModeView, exposure_Q: Floats, workspace: Workspace
) -> tuple[tuple[State, Floats], SplitMergeInfo]:
    """The state after some proposals in one mode, with its X_q / lambda_q, and an info; `workspace` is only read."""
    if spec.budget < _LEAST_CLASSES:
        return (state, exposure_Q), SplitMergeInfo(0, 0)
    draft = Draft.of(layout, spec, state, view, exposure_Q, workspace)
    rng, stream, accepted = scratch(), key.stream(Step.SPLIT_MERGE, view.mode), 0
    proposals = min(spec.budget // 4, _MOST_PROPOSALS)
    for number in range(proposals):
        seek(rng, stream, number)
        accepted += propose(draft, rng)
    changed = (draft.state(state), draft.exposure_Q) if accepted else (state, exposure_Q)
    return changed, SplitMergeInfo(proposals, accepted)


@dataclass
class Draft:
    """Copies of everything that proposals in one mode can change; accepted proposals are written here only.

    `sums_Q` are the sums of the factors of the classes in this mode (with c, if `scale` is of this mode). In others,
    class q has the column holder_MQ[m, q] of `expanded`. `exposure_QD` is only valid for classes that hold counts.
    """

    mode: int
    priors: Priors
    alpha_M: Floats
    missing: SignedPatterns
    scale: RowScale | None
    expanded: Expanded
    holder_MQ: Ints
    sums_Q: Floats
    y_QD: Floats
    y_Q: Floats
    exposure_QD: Floats
    exposure_Q: Floats
    subs_QM: Ints
    log_core_Q: Floats
    log_phi_DK: Floats
    phi_DK: Floats
    classes_MK: Ints  # how many classes are at each factor
    kinds_K: Ints  # of the factors of this mode
    tied: tuple[int, int] | None

    @classmethod
    def of(
        cls, layout: Layout, spec: Spec, state: State, view: ModeView, exposure_Q: Floats, workspace: Workspace
    ) -> "Draft":
        """A draft of a state; `exposure_Q` is X_q / lambda_q."""
        mode, by_rows = view.mode, ByClass.of(view, layout.workers)
        log_phi_DK = state.log_phi[mode].copy()
        phi_DK = np.zeros_like(log_phi_DK)
        for role in spec.sharing(mode):
            used_U, class_U = np.unique(state.subs_QM[:, role], return_index=True)
            phi_DK[:, used_U] = workspace.rows(role)[:, class_U]
        classes_MK = np.array([np.bincount(subs_Q, minlength=max(spec.core_shape)) for subs_Q in state.subs_QM.T])
        return cls(
            mode=mode,
            priors=Priors.of(spec, state, mode),
            alpha_M=spec.alpha0 / np.array(layout.shape),
            missing=layout.missing,
            scale=workspace.scale,
            expanded=workspace.expanded,
            holder_MQ=np.tile(np.arange(spec.budget), (len(layout.shape), 1)),
            sums_Q=workspace.expanded.sums_MQ[mode].copy(),
            y_QD=by_rows.y_QD,
            y_Q=by_rows.y_QD.sum(axis=1),
            exposure_QD=by_rows.exposure_QD,
            exposure_Q=exposure_Q.copy(),
            subs_QM=state.subs_QM.copy(),
            log_core_Q=state.log_core_Q.copy(),
            log_phi_DK=log_phi_DK,
            phi_DK=phi_DK,
            classes_MK=classes_MK,
            kinds_K=spec.known_in(mode).kinds(spec.core_shape[mode]),
            tied=spec.tied,
        )

    def free(self, others_K: Ints) -> Flags:
        """Which factors of this mode are integrated out: those that are not known, and used by no other class."""
        return np.asarray((others_K == 0) & (self.kinds_K == 0))

    def state(self, before: State) -> State:
        """The state of the draft, which was made from `before`."""
        changed = before.with_factors(self.sharing, self.log_phi_DK)
        return replace(changed, log_core_Q=self.log_core_Q, subs_QM=self.subs_QM)

    @property
    def sharing(self) -> tuple[int, ...]:
        """The modes that share the factors of this mode."""
        return self.tied if self.tied is not None and self.mode in self.tied else (self.mode,)

    def column(self, mode: int, q: int) -> tuple[Floats, float]:
        """The factor of a class in a mode, and its sum."""
        if mode == self.mode:
            return self.phi_DK[:, self.subs_QM[q, mode]], float(self.sums_Q[q])
        holder, start = self.holder_MQ[mode, q], sum(self.missing.shape[:mode])
        rows_DQ = self.expanded.phi_RQ[start : start + self.missing.shape[mode]]
        return rows_DQ[:, holder], float(self.expanded.sums_MQ[mode, holder])

    def exposure_at(self, classes_M: Ints) -> float:
        """X / lambda of a class that has, in each mode m, the factor of class classes_M[m]."""
        columns = [self.column(m, c) for m, c in enumerate(classes_M)]
        return self.missing.sum_of_one([phi_D for phi_D, _ in columns], [total for _, total in columns], self.scale)

    def move_to_factors_of(self, r: int, classes_M: Ints) -> None:
        """Move r, in each mode m, to the factor of class classes_M[m]."""
        for m, c in enumerate(classes_M):
            self._put(r, m, self.subs_QM[c, m])
            self.holder_MQ[m, r] = self.holder_MQ[m, c]
        self.sums_Q[r] = self.sums_Q[classes_M[self.mode]]

    def place(self, q: int, counts_D: Floats, factor: int, exposure: float, rng: Words) -> None:
        """Give q these counts, move it to a factor of this mode with this X / lambda, and draw its core value."""
        self.y_QD[q], self.y_Q[q], self.exposure_Q[q] = counts_D, counts_D.sum(), exposure
        self._put(q, self.mode, factor)
        self.sums_Q[q] = scaled_sums(self.phi_DK[:, factor], self.mode, self.scale)
        self.log_core_Q[q] = log_gamma(rng, self.priors.a0 + self.y_Q[q], self.priors.b0 + exposure)

    def set_factor(self, factor: int, log_phi_D: Floats | float) -> None:
        """Set the values of a factor of this mode; -inf if no class uses it any more."""
        self.log_phi_DK[:, factor], self.phi_DK[:, factor] = log_phi_D, exp_of(log_phi_D)

    def _put(self, q: int, mode: int, factor: int) -> None:
        self.classes_MK[mode, self.subs_QM[q, mode]] -= 1
        self.classes_MK[mode, factor] += 1
        self.subs_QM[q, mode] = factor


@dataclass(frozen=True)
class Pair:
    """Classes q and r, the number of other classes at each factor of each mode, and the joint counts of q and r.

    `others_K` has the number of other locations at each factor of this mode, in all modes that share its factors. Those
    in use explain these counts with `weights_U`; `exposure_U` has their S. `scores` are those of one class with all
    counts, at these factors and, last, at one of its own, described by `fit`.
    """

    q: int
    r: int
    others_MK: Ints
    others_K: Ints
    y_D: Floats
    used_U: Ints
    weights_U: Floats
    exposure_U: Floats
    scores: Floats
    fit: CollapsedFit


@dataclass(frozen=True)
class SplitState:
    """Two factors, by places in `used_U`, their logarithms, counts of q and r, and the log odds of r in each row."""

    first: int
    second: int
    log_phi_2D: Floats
    kept_D: Floats
    given_D: Floats
    odds_D: Floats


@dataclass(frozen=True)
class MergedState:
    """The factor of q, its log core value if no other class uses it, and the location (`away_M`) and exposure of r."""

    factor: int
    log_core: float
    away_M: Ints
    exposure_r: float


def propose(draft: Draft, rng: Words) -> bool:
    """Propose a split or a merge and, if it is accepted, write it into the draft; returns whether it was accepted."""
    splits = uniform(rng) < 0.5
    q = _one_of(draft.y_Q > 0, rng)
    r = _one_of(_empty(draft) if splits else _partners(draft, q, draft.subs_QM[q, draft.mode]), rng)
    pair = _pair(draft, q, r) if min(q, r) >= 0 else None
    if pair is None:
        return False
    if splits:
        split, merged = _draw_split(draft, pair, rng), _now_merged(draft, pair)
        accepted = log(uniform(rng)) < _gain(draft, pair, split, merged)
        if accepted:
            _write_split(draft, pair, split, rng)
        return accepted
    if pair.others_K[draft.subs_QM[q, draft.mode]] == 0:  # a split could not go back there
        return False
    split, merged = _now_split(draft, pair), _draw_merged(draft, pair, rng)
    accepted = log(uniform(rng)) < -_gain(draft, pair, split, merged)
    if accepted:
        _write_merged(draft, pair, merged, rng)
    return accepted


def _gain(draft: Draft, pair: Pair, split: SplitState, merged: MergedState) -> float:
    """log(posterior / proposal) of the split state minus that of the merged state; the draft is in one of the two.

    A split, from the merged state, takes q among `holding` classes with counts and r among `empty` ones. A merge, from
    the split state, takes q among `holding` + 1 classes and r among `partners`.
    """
    is_split = int(draft.y_Q[pair.r] > 0)
    holding, empty = int((draft.y_Q > 0).sum()) - is_split, int(_empty(draft).sum()) + is_split
    partners = int(_partners(draft, pair.q, pair.used_U[split.first]).sum()) + 1 - is_split
    log_weights = _log_weight_split(draft, pair, split) - _log_weight_merged(draft, pair, merged)
    return float(log_weights + log(holding * empty) - log((holding + 1) * partners))


def _empty(draft: Draft) -> Flags:
    return np.asarray((draft.y_Q == 0) & (draft.log_core_Q > -inf))


def _one_of(among_Q: Flags, rng: Words) -> int:
    """Draw one of these classes, or -1 if there are none."""
    found = np.flatnonzero(among_Q)
    return int(found[int(uniform(rng) * len(found))]) if len(found) else -1


def _partners(draft: Draft, q: int, factor: int) -> Flags:
    """Which classes with counts would differ from q only in this mode if q were at `factor`."""
    same_QM = draft.subs_QM == draft.subs_QM[q]
    same_QM[:, draft.mode] = draft.subs_QM[:, draft.mode] != factor
    partners_Q: Flags = same_QM.all(axis=1) & (draft.y_Q > 0)
    partners_Q[q] = False
    return partners_Q


def _pair(draft: Draft, q: int, r: int) -> Pair | None:
    """The pair of q and r, or None if a move could not be undone.

    Others must use two factors here, and those of r: if r has no counts, a merge must be able to send it there. If the
    factor of q is known, they must use it, too.
    """
    mode, others_MK = draft.mode, draft.classes_MK.copy()
    at_r = np.arange(len(others_MK)), draft.subs_QM[r]
    others_MK[at_r] -= 1
    home = draft.subs_QM[q, mode]
    others_MK[mode, home] -= 1
    others_K = others_MK[list(draft.sharing)].sum(axis=0)[: draft.phi_DK.shape[1]]
    used_U, free_K, others_of_r = np.flatnonzero(others_K), draft.free(others_K), others_MK[at_r]
    if draft.y_Q[r] > 0:
        others_of_r[mode] = others_K[draft.subs_QM[r, mode]]
    if len(used_U) < 2 or not others_of_r.all() or not (others_K[home] or free_K[home]):
        return None
    y_D, exposure_D, alpha = draft.y_QD[q] + draft.y_QD[r], draft.exposure_QD[q], draft.alpha_M[mode]
    explained = explain(y_D, exposure_D, draft.priors, used_U, draft.phi_DK, draft.log_phi_DK)
    fit, free = fit_collapsed(y_D, exposure_D, draft.priors), int(free_K.sum())
    own = log(free * alpha) + fit.log_integral if free else -inf
    scores = np.append(explained.scores_U + log_of(others_K[used_U] + alpha), own)
    return Pair(q, r, others_MK, others_K, y_D, used_U, explained.weights_U, explained.exposure_U, scores, fit)


def _draw_split(draft: Draft, pair: Pair, rng: Words) -> SplitState:
    log_weights_U = log_of(pair.weights_U)
    first = categorical_from_logs(rng, log_weights_U, len(log_weights_U))
    log_weights_U[first] = -inf
    second = categorical_from_logs(rng, log_weights_U, len(log_weights_U))
    log_phi_2D, odds_D = _log_odds(draft, pair, first, second)
    kept_D = np.empty_like(pair.y_D)
    share_counts(pair.y_D, odds_D, rng, kept_D)
    return SplitState(first, second, log_phi_2D, kept_D, pair.y_D - kept_D, odds_D)


def _now_split(draft: Draft, pair: Pair) -> SplitState:
    first, second = np.searchsorted(pair.used_U, draft.subs_QM[[pair.q, pair.r], draft.mode])
    log_phi_2D, odds_D = _log_odds(draft, pair, first, second)
    return SplitState(first, second, log_phi_2D, draft.y_QD[pair.q], draft.y_QD[pair.r], odds_D)


def _log_odds(draft: Draft, pair: Pair, first: int, second: int) -> tuple[Floats, Floats]:
    log_phi_2D = np.ascontiguousarray(draft.log_phi_DK[:, pair.used_U[[first, second]]].T)
    share = pair.weights_U[second] / (pair.weights_U[first] + pair.weights_U[second])
    odds = log_odds_of_two(pair.y_D, log_phi_2D, pair.exposure_U[[first, second]], share)
    return log_phi_2D, np.asarray(log_phi_2D[1] - log_phi_2D[0] + odds)


def _log_weight_split(draft: Draft, pair: Pair, split: SplitState) -> float:
    """log(posterior / proposal) of the split state; both classes must hold counts."""
    kept, given = float(split.kept_D.sum()), float(split.given_D.sum())
    if kept == 0 or given == 0:
        return -inf
    a0, b0, mode = draft.priors.a0, draft.priors.b0, draft.mode
    log_weight = log_weight_of_shares(split.kept_D, split.given_D, split.odds_D, split.log_phi_2D)
    factor, factors_M = int(pair.used_U[split.first]), draft.subs_QM[pair.q].copy()
    factors_M[mode] = pair.used_U[split.second]
    others_M = _others_at(draft, pair, factor, factors_M)
    for u, counts, others in ((split.first, kept, pair.others_K[factor]), (split.second, given, others_M[mode])):
        log_weight += log(others + draft.alpha_M[mode])
        log_weight += log_core_integral(counts, pair.exposure_U[u], a0, b0)
    for m, others in enumerate(others_M):
        if m != mode:
            log_weight += log(others + draft.alpha_M[m])
    first, second = pair.weights_U[[split.first, split.second]]
    return float(log_weight - log(first * second / (1.0 - first)))


def _draw_merged(draft: Draft, pair: Pair, rng: Words) -> MergedState:
    choice = categorical_from_logs(rng, pair.scores, len(pair.scores))
    if choice < len(pair.used_U):
        factor, log_core = pair.used_U[choice], nan
    else:
        factor = _one_of(draft.free(pair.others_K), rng)
        log_core = draw_collapsed(rng, pair.fit)
    modes, budget = range(len(draft.alpha_M)), len(draft.y_Q)
    excluded = {m: sorted((pair.q, pair.r)) if m == draft.mode else [pair.r] for m in modes}
    away_M = np.array([_other_class(budget, excluded[m], rng) for m in modes])
    return MergedState(factor, log_core, away_M, draft.exposure_at(away_M))


def _now_merged(draft: Draft, pair: Pair) -> MergedState:
    factor, away_M = int(draft.subs_QM[pair.q, draft.mode]), np.full(len(draft.alpha_M), pair.r)
    return MergedState(factor, float(draft.log_core_Q[pair.q]), away_M, float(draft.exposure_Q[pair.r]))


def _log_weight_merged(draft: Draft, pair: Pair, merged: MergedState) -> float:
    log_weight = float(np.logaddexp.reduce(pair.scores))
    log_weight += log_core_integral(0.0, merged.exposure_r, draft.priors.a0, draft.priors.b0)
    if pair.others_K[merged.factor] == 0:
        log_weight += log_correction(merged.log_core, pair.y_D, draft.exposure_QD[pair.q], draft.priors, 0, pair.fit)
    factors_M = draft.subs_QM[merged.away_M, np.arange(len(draft.alpha_M))]
    others_M = _others_at(draft, pair, merged.factor, factors_M)
    for m, factor in enumerate(factors_M):
        drawn_from, choices = pair.others_MK[m, factor], len(draft.y_Q) - (2 if m == draft.mode else 1)
        log_weight += log((others_M[m] + draft.alpha_M[m]) * choices / drawn_from)
    return log_weight


def _others_at(draft: Draft, pair: Pair, factor_q: int, factors_M: Ints) -> list[int]:
    """The locations at each of the factors of r, of other classes, of q, and of r itself in an earlier mode."""
    others_M = [int(pair.others_MK[m, factor]) for m, factor in enumerate(factors_M)]
    for m in draft.sharing:
        others_M[m] += int(factors_M[m] == factor_q)
    if draft.tied is not None:
        first, second = draft.tied
        others_M[first] += int(pair.others_MK[second, factors_M[first]])
        others_M[second] += int(pair.others_MK[first, factors_M[second]] + (factors_M[first] == factors_M[second]))
    return others_M


def _other_class(budget: int, excluded: list[int], rng: Words) -> int:
    drawn = int(uniform(rng) * (budget - len(excluded)))
    for each in excluded:
        drawn += drawn >= each
    return drawn


def _write_split(draft: Draft, pair: Pair, split: SplitState, rng: Words) -> None:
    q, r, left = pair.q, pair.r, draft.subs_QM[pair.q, draft.mode]
    if pair.others_K[left] == 0:
        draft.set_factor(left, -inf)
    draft.move_to_factors_of(r, np.full(len(draft.alpha_M), q))
    draft.exposure_QD[r] = draft.exposure_QD[q]
    for each, counts_D, u in ((q, split.kept_D, split.first), (r, split.given_D, split.second)):
        draft.place(each, counts_D, pair.used_U[u], pair.exposure_U[u], rng)


def _write_merged(draft: Draft, pair: Pair, merged: MergedState, rng: Words) -> None:
    q, r, priors, own = pair.q, pair.r, draft.priors, pair.others_K[merged.factor] == 0
    draft.move_to_factors_of(r, merged.away_M)
    draft.y_QD[r], draft.y_Q[r], draft.exposure_Q[r] = 0, 0, merged.exposure_r
    draft.log_core_Q[r] = log_gamma(rng, priors.a0, priors.b0 + merged.exposure_r)
    if own:
        rates = priors.f0_D + exp_of(merged.log_core) * draft.exposure_QD[q]
        shapes = priors.e0 + pair.y_D
        draft.set_factor(merged.factor, np.array([log_gamma(rng, *each) for each in zip(shapes, rates, strict=True)]))
    exposure = (draft.phi_DK[:, merged.factor] * draft.exposure_QD[q]).sum()
    draft.place(q, pair.y_D, merged.factor, exposure, rng)
    if own:
        draft.log_core_Q[q] = merged.log_core


class Explained(NamedTuple):
    """How the factors in use explain counts: weights w, sums S, and the scores (relocation.py) of a class with them."""

    weights_U: Floats
    exposure_U: Floats
    scores_U: Floats


@kernel
def explain(
    y_D: Floats, exposure_D: Floats, priors: Priors, used_U: Ints, phi_DK: Floats, log_phi_DK: Floats
) -> Explained:
    """Explain the counts of a class by the factors in use."""
    used, total, rows = used_U.size, 0.0, 0
    weights_U, exposure_U, scores_U = np.empty(used), np.empty(used), np.empty(used)
    phi_NU, counts_N = np.empty((y_D.size, used)), np.empty(y_D.size)
    for u in range(used):
        weights_U[u], exposure_U[u], scores_U[u] = 1.0 / used, 0.0, 0.0
    for d in range(y_D.size):
        for u in range(used):
            exposure_U[u] += exposure_D[d] * phi_DK[d, used_U[u]]
        if y_D[d] > 0:
            counts_N[rows] = y_D[d]
            for u in range(used):
                phi_NU[rows, u] = phi_DK[d, used_U[u]]
                scores_U[u] += counts_N[rows] * log_phi_DK[d, used_U[u]]
            total += y_D[d]
            rows += 1
    for u in range(used):
        scores_U[u] += log_core_integral(total, exposure_U[u], priors.a0, priors.b0)
    _climb(counts_N[:rows], phi_NU[:rows], exposure_U, weights_U)
    for u in range(used):
        weights_U[u] = (1.0 - _LEAK) * weights_U[u] + _LEAK / used
    return Explained(weights_U, exposure_U, scores_U)


@part
def _climb(counts_N: Floats, phi_NU: Floats, exposure_U: Floats, weights_U: Floats) -> None:
    """Take the steps of EM, over the rows that have counts."""
    rows, used = phi_NU.shape
    phi_UN, ratio_N, shares_U = np.empty((used, rows)), np.empty(rows), np.empty(used)
    for n in range(rows):
        for u in range(used):
            phi_UN[u, n] = phi_NU[n, u]
    for _ in range(_STEPS):
        # Both sums run over the outer loop, so that the inner loop becomes vector code.
        for n in range(rows):
            ratio_N[n] = _TINY
        for u in range(used):
            weight, shares_U[u] = weights_U[u] / max(exposure_U[u], _TINY), 0.0
            for n in range(rows):
                ratio_N[n] += weight * phi_UN[u, n]
        for n in range(rows):
            ratio = counts_N[n] / ratio_N[n]
            for u in range(used):
                shares_U[u] += ratio * phi_NU[n, u]
        _reweigh(shares_U, exposure_U, weights_U)


@part
def _reweigh(shares_U: Floats, exposure_U: Floats, weights_U: Floats) -> None:
    """New weights, which sum to one even after underflow."""
    total = 0.0
    for u in range(weights_U.size):
        weights_U[u] *= shares_U[u] / max(exposure_U[u], _TINY)
        total += weights_U[u]
    for u in range(weights_U.size):
        weights_U[u] = weights_U[u] / total if total > 0.0 else 1.0 / weights_U.size


@kernel
def log_odds_of_two(y_D: Floats, log_phi_2D: Floats, exposure_2: Floats, share: float) -> float:
    """ln (w' / S') - ln (w / S) of two factors that explain the counts; `share` is a first guess of w' = 1 - w."""
    shift = log(max(exposure_2[0], _TINY)) - log(max(exposure_2[1], _TINY))
    total = 0.0
    for d in range(y_D.size):
        total += y_D[d]
    for _ in range(_STEPS):
        odds, others = log(share) - log(1.0 - share) + shift, 0.0
        for d in range(y_D.size):
            if y_D[d] > 0:
                others += y_D[d] / (1.0 + exp(min(log_phi_2D[0, d] - log_phi_2D[1, d] - odds, _MOST)))
        share = (others + 1.0) / (total + 2.0)  # never 0 or 1
    return log(share) - log(1.0 - share) + shift


@kernel
def share_counts(y_D: Floats, odds_D: Floats, rng: Words, kept_D: Floats) -> None:
    """Draw how many counts of each row stay with q, given the log odds that a count goes to r."""
    for d in range(y_D.size):
        kept_D[d] = binomial(rng, int(y_D[d]), 1.0 / (1.0 + exp(min(odds_D[d], _MOST))))


@kernel
def log_weight_of_shares(kept_D: Floats, given_D: Floats, odds_D: Floats, log_phi_2D: Floats) -> float:
    """ln prod_d of phi[d]^y at the two factors, divided by the probability of sharing the counts in this way.

    Without the number of ways, which is the same in both.
    """
    total = 0.0
    for d in range(kept_D.size):
        log_odds, beyond = odds_D[d], log1p(exp(-abs(odds_D[d])))
        if kept_D[d] > 0:
            total += kept_D[d] * (log_phi_2D[0, d] + max(log_odds, 0.0) + beyond)
        if given_D[d] > 0:
            total += given_D[d] * (log_phi_2D[1, d] + max(-log_odds, 0.0) + beyond)
    return total
