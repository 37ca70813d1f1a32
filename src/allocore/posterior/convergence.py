"""Whether chains have converged, without looking at classes: R-hat, effective samples, drift, the error of predictions.

Quantities that are judged do not depend on class numbers: the trace of a single class means nothing, because numbers
change from draw to draw. For the Bernoulli likelihood the total rate, which needs only sums, replaces the expected
total, which needs every cell. Rank-normalised split R-hat and the effective sample sizes of bulk and tails follow
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).

Chains of this model find different solutions, so R-hat of single chains is large however long they run. Predictions
pool all chains (Yao, Vehtari and Gelman 2022), so what matters is whether the pool is reproducible:

    nested R-hat = sqrt(1 + B / W)   B: variance of the means of groups of chains; W: mean variance within groups, that
                                     of the means of their chains plus that within chains (Margossian et al. 2024)
    error of predictions             sqrt( (C - 1) / C sum_c (S_c - mean S)^2 ), the jackknife over C chains: S_c is the
                                     mean over cells of the log predictive probability of their counts without chain c

The best draw has the highest log joint density: that of the logarithms of core values, factors and concentrations, and
of the log odds of the dispersion, as in Stan. The density of a factor itself has no bound where e0 is below one and an
entry is near zero. Draws are compared even if they use different numbers of factors, so that dimensions differ. For new
rows that were folded in, it is the density of their counts, their factors and their p.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from allocore.findings import Finding
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns, rates_of_cells
from allocore.kernels.kinds import FROZEN
from allocore.kernels.workers import Workers
from allocore.model.joint import log_likelihood, log_prior, log_prior_dispersion, log_prior_factors
from allocore.model.likelihood import dispersion_of, log_dispersion_of
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.posterior.cells import weighted_expansion
from allocore.posterior.predict import log_predictive
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor, cells_of
from allocore.tensor.sharded import stays_on_disk
from allocore.tensor.undirected import directions

LEAST_DRAWS = 4  # R-hat splits every chain in two and compares variances, so each half needs two draws
R_HAT_SETTLED = 1.01  # Vehtari et al. (2021): at 1.1, the older rule, chains still differ visibly
# Chains have settled if their mean rise from first to second halves is below any of these: standard errors of the mean;
# standard deviations between the means of chains; and spreads of draws within halves, over the root of the number of
# chains. The last is the only one for a single chain. Without it, one in seven runs of four settled chains would drift.
DRIFT_ERRORS, DRIFT_BETWEEN, DRIFT_SPREADS = 2.0, 0.25, 1.0
# A chain is far behind if it fits worse than the best by more than noise and by more than modes differ, and is further
# from the next chain above it than that is from the best. Of four settled chains on ICEWS the worst was up to 0.09 nats
# a non-zero cell behind (50 times the spread); chains of 40 sweeps were 0.12 and more behind.
BEHIND_SPREADS = 10.0
BEHIND_PER_NONZERO = 0.1
LOG_COUNT = "log expected count of"
_CELLS = 12
_CLASSES = 8
_CELL_SEED = 20240502
_SCORED_CELLS = 1000  # the error of predictions of more cells is about the same
_CANDIDATES = 4096  # includes six observed zeros if one cell in a few hundred is one
_TAILS = (0.05, 0.95)
_COLUMNS = ["mean", "sd", "r_hat", "nested_r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]
_ROUNDING = 1e-11  # a smaller relative range counts as constant: sums in another order differ by about 1e-15


def can_judge(record: Record) -> bool:
    """Return whether the run has enough draws for R-hat."""
    return record.spec.has_priors and record.core_values.shape[1] >= LEAST_DRAWS


def expert_findings(record: Record, judged: Sequence["Trace"], table: pd.DataFrame) -> tuple[Finding, ...]:
    """Return what experts want to know of the chains. No finding decides whether predictions can be used."""
    chains, draws = record.core_values.shape[:2]
    if draws < LEAST_DRAWS:
        found = [Finding("few-draws", values={"least": LEAST_DRAWS})]
    else:
        found = [*_r_hats(judged, table), *([Finding("one-chain")] if chains == 1 else [])]
    rate = float(moved_after_burn_in(record).mean()) if record.spec.learn_locations else 0.0
    moves = Finding("move-rate", values={"rate": rate}) if rate else None
    others = chains_behind(record), moves, chains_without_moves(record)
    return (*found, *(each for each in others if each is not None))


def _r_hats(judged: Sequence["Trace"], table: pd.DataFrame) -> Iterator[Finding]:
    r_hats, samples = table["r_hat"].to_numpy(), table[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy()
    if np.isnan(r_hats).all():  # nothing changes
        return
    worst, fewest = judged[int(np.nanargmax(r_hats))], judged[int(np.nanargmin(samples))]
    values = {
        "chains": len(worst.values),
        "above": int((r_hats > R_HAT_SETTLED).sum()),
        "judged": len(judged),
        "quantity": worst.phrase,
        "r_hat": float(np.nanmax(r_hats)),
        "low": float(worst.values.min()),
        "high": float(worst.values.max()),
    }
    yield Finding("r-hat", values=values)
    nested = table["nested_r_hat"][table.index.str.startswith(LOG_COUNT)]
    if np.isfinite(nested).any():
        groups, size = groups_of_chains(len(worst.values))
        numbers = {"r_hat": float(nested.max()), "cells": len(nested), "groups": groups, "size": size}
        yield Finding("nested-r-hat", values=numbers)
    yield Finding("effective-samples", values={"quantity": fewest.phrase, "samples": float(np.nanmin(samples))})


def all_equal(table: pd.DataFrame, draws: int) -> bool:
    """Return whether nothing that was judged changes from draw to draw, and there are enough draws to say so."""
    return draws >= LEAST_DRAWS and bool(table["ess_bulk"].isna().all())


def chains_behind(record: Record) -> Finding | None:
    """Return the chains that fit far worse than all others, if any, and by how many nats and spreads within chains."""
    values = record.stats["log_likelihood"][:, record.draw_sweeps - 1].astype(float)
    if values.shape[1] < LEAST_DRAWS or len(values) < 2:
        return None
    means, spread = values.mean(axis=1), float(np.sqrt(values.var(axis=1, ddof=1).mean()))
    order = np.argsort(-means, kind="stable")
    least = max(BEHIND_SPREADS * spread, BEHIND_PER_NONZERO * record.tensor.nnz)
    # Most chains are not behind, except that of two chains one may be.
    for first in range(len(values) // 2 + 1 if len(values) > 2 else 1, len(values)):
        best, last, behind = means[order[[0, first - 1, first]]]
        if best - behind > least and last - behind > best - last:
            nats = float(best - behind)
            chains, spreads = tuple(sorted(order[first:].tolist())), nats / spread if spread else np.inf
            where = {"chains": chains, "best": int(order[0]), "nats": nats, "spreads": spreads}
            return Finding("chains-behind", "caution", where)
    return None


def moved_after_burn_in(record: Record) -> Floats:
    """Return the share of classes that moved, (chain, sweep), from the end of the burn-in to the last draw."""
    return np.asarray(record.stats["moved"][:, record.schedule.burn_in : record.draw_sweeps[-1]], dtype=np.float64)


def chains_without_moves(record: Record) -> Finding | None:
    """Return the chains in which no class moved after the burn-in, if any. Classes of CP and Tucker never move."""
    if not record.spec.learn_locations:
        return None
    moved = moved_after_burn_in(record)
    still = tuple(chain for chain, of_chain in enumerate(moved) if not of_chain.any())
    return Finding("no-moves", values={"still": still, "chains": len(moved)}) if still else None


class Trace(NamedTuple):
    """One quantity over all draws, `values` (chain, draw). `phrase` names it, and others of its kind, in a sentence."""

    name: str
    phrase: str
    values: Floats


def traces(record: Record) -> Iterator[Trace]:
    """Return all quantities that are judged, except for the shares of consensus classes."""
    sweeps = record.draw_sweeps - 1
    at_draws = {name: record.stats[name][:, sweeps].astype(float) for name in ("log_likelihood", "classes", "factors")}
    cells_MC = judged_cells(record.tensor)
    total, cells = expected(record, cells_MC)
    yield Trace("log-likelihood", "the log-likelihood", at_draws["log_likelihood"])
    name = record.spec.observation.total
    yield Trace(name, f"the {name}", total)
    yield Trace("classes", "the number of classes in use", at_draws["classes"])
    if record.spec.infer_budget:
        included = (record.core_values > 0.0).sum(axis=2).astype(float)
        yield Trace("classes included", "the number of classes included", included)
    for mode, name in enumerate(record.tensor.mode_names):
        yield Trace(f"{name} factors", f"the number of {name} factors in use", at_draws["factors"][..., mode])
    yield from _learned(record)
    for place, cell in enumerate(cells_MC.T.tolist()):
        labels = ", ".join(str(names[d]) for names, d in zip(record.tensor.labels, cell, strict=True))
        yield Trace(f"{LOG_COUNT} {labels}", "the expected counts of cells", cells[..., place])


def share_traces(number_C: Ints, shares: Floats) -> list[Trace]:
    """Return the shares of the largest consensus classes, given their numbers and shares (chain, draw, C)."""
    return [
        Trace(f"share of class {number}", "the shares of consensus classes", shares[..., place])
        for place, number in enumerate(number_C[:_CLASSES].tolist())
    ]


def judged_cells(tensor: CountTensor) -> Ints:
    """Return at most twelve observed cells (M, C), half of them zeros if possible; always the same for a tensor."""
    rng = np.random.Generator(np.random.PCG64(_CELL_SEED))
    candidates_MN = cells_of(tensor, np.array([rng.integers(0, length, _CANDIDATES) for length in tensor.shape]))
    if stays_on_disk(tensor):  # then any observed cells are judged, whatever their counts
        return candidates_MN[:, ~tensor.missing.contains(candidates_MN)][:, :_CELLS].astype(np.int64)
    drawn_N, taken_N = column_keys(tensor.shape, candidates_MN, tensor.coords)
    first = np.zeros(_CANDIDATES, dtype=bool)
    first[np.unique(drawn_N, return_index=True)[1]] = True
    zero = first & (locate(drawn_N, taken_N) < 0) & ~tensor.missing.contains(candidates_MN)
    zeros = np.flatnonzero(zero)[: _CELLS // 2]
    positive = np.sort(rng.choice(tensor.nnz, min(tensor.nnz, _CELLS - len(zeros)), replace=False))
    return np.concatenate([tensor.coords[:, positive], candidates_MN[:, zeros]], axis=1).astype(np.int64)


def _learned(record: Record) -> Iterator[Trace]:
    if record.log_odds is not None:
        p, mode = dispersion_of(record.log_odds), record.spec.dispersion_by
        if mode is None:
            yield Trace("dispersion p", "the dispersion p", p)
        else:
            name, rows = record.tensor.mode_names[mode], p[..., record.tensor.mode_totals(mode) > 0]
            yield Trace(f"dispersion p, mean over {name}", "the dispersion p", rows.mean(axis=2))
            yield Trace(f"dispersion p, sd over {name}", "the dispersion p", rows.std(axis=2))
    if record.concentrations is not None:
        for mode, name in enumerate(record.tensor.mode_names):
            yield Trace(f"{name} concentration", "the concentrations", record.concentrations[..., mode])


def expected(record: Record, cells_MC: Ints) -> tuple[Floats, Floats]:
    """Return the expected total count (chain, draw), and the logs of expected counts of cells (chain, draw, C)."""
    lead = record.core_values.shape[:2]
    missing, likelihood = SignedPatterns.of(record.tensor.missing), record.spec.observation
    total, cells = np.empty(lead), np.empty((*lead, cells_MC.shape[1]))
    # Only the rows of these cells are expanded for their rates.
    places_MC = np.broadcast_to(np.arange(cells_MC.shape[1]), cells_MC.shape)
    with Workers(1) as workers:
        for chain, draw in np.ndindex(lead):
            # In order of value: rounding that depends on class numbers would decide ties when R-hat ranks draws.
            order_Q = np.argsort(record.core_values[chain, draw])
            core_Q, subs_QM = record.core_values[chain, draw][order_Q], record.core_locations[chain, draw][order_Q]
            factors = [factor[chain, draw] for factor in record.factors]
            expanded, scale, odds = weighted_expansion(record, chain, draw, subs_QM, missing)
            total[chain, draw] = core_Q @ (odds * missing.sums(expanded, workers, scale))
            rates_C = np.zeros(cells_MC.shape[1])
            for each_MC in directions(cells_MC, record.tensor.undirected_modes):
                few = [factor[rows_C] for factor, rows_C in zip(factors, each_MC, strict=True)]
                rates_C += rates_of_cells(core_Q, subs_QM, few, places_MC, workers)
            cells[chain, draw] = likelihood.mean(rates_C, record.log_odds_of(chain, draw, cells_MC))
    # An expected count that underflows becomes the smallest normal float, so its logarithm is finite.
    return total, np.log(np.maximum(cells, np.finfo(float).tiny))


def convergence_table(judged: Sequence[Trace], seconds: float) -> pd.DataFrame:
    """Return a row of numbers for each quantity; `seconds` is the time of all sweeps after the burn-in."""
    rows = {}
    for name, _, values in judged:
        bulk, tail = effective_samples(values)
        spread = values.std(ddof=1) if values.size > 1 else np.nan
        rows[name] = [values.mean(), spread, r_hat(values), nested_r_hat(values), bulk, tail, seconds / bulk]
    return pd.DataFrame.from_dict(rows, orient="index", dtype=float, columns=_COLUMNS).rename_axis("quantity")


def r_hat(values: Floats) -> float:
    """Return the split R-hat of one quantity (chain, draw); NaN if there are too few draws or it never changes."""
    if _undefined(values):
        return np.nan
    if len(values) == 1:
        half = values.shape[1] // 2
        return r_hat(np.concatenate([values[:, :half], values[:, -half:]]))
    if all(_constant(of_chain) for of_chain in values):
        return np.inf
    # If all values are equally far from the median, the folded values have no variance: only the ranks decide.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(_arviz().rhat(values, chain_axis=0, draw_axis=1))


def groups_of_chains(chains: int) -> tuple[int, int]:
    """Return the number of groups of chains for nested R-hat, and the chains in each; a remainder is left out."""
    groups = 4 if chains >= 8 else 2
    return groups, chains // groups


def nested_r_hat(values: Floats) -> float:
    """Return the nested R-hat of one quantity (chain, draw); NaN for one chain, or if the quantity never changes."""
    chains, draws = values.shape
    if chains < 2 or not np.isfinite(values).all() or _constant(values):
        return np.nan
    groups, size = groups_of_chains(chains)
    grouped = values[: groups * size].reshape(groups, size, draws)
    within = grouped.var(axis=2, ddof=1).mean() if draws > 1 else 0.0
    within += grouped.mean(axis=2).var(axis=1, ddof=1).mean() if size > 1 else 0.0
    between = grouped.mean(axis=(1, 2)).var(ddof=1)
    if within <= 0.0:
        return np.inf if between > 0.0 else np.nan
    return float(np.sqrt(1.0 + between / within))


def effective_samples(values: Floats) -> tuple[float, float]:
    """Return the effective sample sizes of bulk and tails of one quantity (chain, draw); NaN where `r_hat` is NaN."""
    if _undefined(values):
        return np.nan, np.nan
    bulk = _arviz().ess(values, chain_axis=0, draw_axis=1, method="bulk")
    tail = _arviz().ess(values, chain_axis=0, draw_axis=1, method="tail", prob=_TAILS)
    return float(bulk), float(tail)


def _arviz() -> Any:
    """arviz-stats, which has no type annotations; importing it takes a second, which most commands can save."""
    from arviz_stats.base.array import array_stats

    if sys.flags.optimize > 1:  # arviz-stats appends to docstrings, of which `python -OO` leaves none
        from arviz_stats.base import stats_utils

        stats_utils.update_docstring = lambda *_: None
    return array_stats


def _undefined(values: Floats) -> bool:
    lost = not np.isfinite(values).all()  # with a damaged file
    return values.shape[1] < LEAST_DRAWS or lost or _constant(values)


def _constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def drift(values: Floats) -> Finding | None:
    """Return by how many nats the log-likelihood (chain, draw) of all chains rises or falls, if they have not settled.

    A chain rises by the mean of its second half less that of its first. The chains have settled if their mean rise is
    within two standard errors, or small beside the differences between chains, or beside those between draws.
    """
    chains, draws = values.shape
    if draws < LEAST_DRAWS or not np.isfinite(values).all():
        return None
    first, second = values[:, : draws // 2], values[:, -(draws // 2) :]
    rise_C = second.mean(axis=1) - first.mean(axis=1)
    spread = float(np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)).mean() / 2))
    noise = [DRIFT_SPREADS * spread / np.sqrt(chains), _ROUNDING * float(np.abs(values).max())]
    if chains > 1:
        noise.append(DRIFT_ERRORS * float(rise_C.std(ddof=1)) / np.sqrt(chains))
        noise.append(DRIFT_BETWEEN * float(values.mean(axis=1).std(ddof=1)))
    nats = float(rise_C.mean())
    return None if abs(nats) <= max(noise) else Finding("drift", "poor", {"nats": nats})


def drift_of(record: Record) -> Finding | None:
    """Return the drift of the log-likelihood at the draws of a run."""
    return drift(record.stats["log_likelihood"][:, record.draw_sweeps - 1].astype(float))


class PredictiveError(NamedTuple):
    """The standard error of the mean log predictive probability of some cells, in nats a cell, and which cells."""

    nats: float
    cells: int
    held_out: bool


def scored_cells(record: Record) -> tuple[Ints, Ints, bool] | None:
    """Return cells with counts, (M, N) and (N): of those held out, or if there are none, of the tensor.

    At most a thousand, always the same. The flag says whether they were held out. None if the tensor stays on disk.
    """
    test = record.held_out
    if test is not None and np.any(test.counts > 0):
        coords_MN, counts_N, held_out = test.coords[:, test.counts > 0], test.counts[test.counts > 0], True
    elif stays_on_disk(record.tensor):
        return None
    else:
        coords_MN, counts_N, held_out = record.tensor.coords, record.tensor.counts, False
    if len(counts_N) > _SCORED_CELLS:
        rng = np.random.Generator(np.random.PCG64(_CELL_SEED))
        chosen = np.sort(rng.choice(len(counts_N), _SCORED_CELLS, replace=False, shuffle=False))
        coords_MN, counts_N = coords_MN[:, chosen], counts_N[chosen]
    return coords_MN.astype(np.int64), counts_N.astype(np.int64), held_out


def predictive_error(record: Record, threads: int) -> PredictiveError | None:
    """Return the error of predictions by leaving out one chain at a time; NaN for one chain; None without cells."""
    given = scored_cells(record)
    if given is None:
        return None
    coords_MN, counts_N, held_out = given
    log_density_CN = np.stack(
        [
            log_predictive(record.with_draws((slice(chain, chain + 1),)), coords_MN, counts_N, threads)
            for chain in range(len(record.core_values))
        ]
    )
    return PredictiveError(jackknife_error(log_density_CN), len(counts_N), held_out)


def jackknife_error(log_density_CN: Floats) -> float:
    """Return the standard error of the mean over cells of the log of mean densities, given those of each chain.

    Counts that are impossible in all chains, as a 2 is under the Bernoulli likelihood, are left out. The error is
    infinite if a count is impossible without one of the chains, and NaN for one chain or without cells.
    """
    log_density_CN = log_density_CN[:, (log_density_CN > -np.inf).any(axis=0)]
    chains, cells = log_density_CN.shape
    if chains == 1 or not cells:
        return np.nan
    with np.errstate(divide="ignore"):  # up to the log of C - 1, which cancels
        score_C = np.array([logsumexp(np.delete(log_density_CN, c, axis=0), axis=0).mean() for c in range(chains)])
    if not np.isfinite(score_C).all():
        return np.inf
    return float(np.sqrt((chains - 1) / chains * ((score_C - score_C.mean()) ** 2).sum()))


def log_joint_of_draws(record: Record) -> Floats:
    """Return the log joint density of the counts and all variables at each draw (chain, draw)."""
    traced = record.stats["log_likelihood"][:, record.draw_sweeps - 1]
    log_joint = np.empty(traced.shape)
    for chain, draw in np.ndindex(traced.shape):
        state, likelihood = record.state_of(chain, draw), float(traced[chain, draw])
        if not np.isfinite(likelihood):  # the trace of a damaged run has lost it
            likelihood = log_likelihood(record.tensor, record.spec, state)
        log_joint[chain, draw] = likelihood + _log_prior(record, state)
    return log_joint


def _log_prior(record: Record, state: State) -> float:
    """The log prior density of all variables, or of those of new rows, on their unconstrained scales."""
    spec, new_rows, p = record.spec, record.new_rows, state.dispersion
    if not spec.has_priors:
        return 0.0
    if new_rows is None:
        return log_prior(spec, state) + _log_jacobian(spec, state)
    modes, first = new_rows.modes, new_rows.first
    rows = [log_phi_DK[first if m in modes else len(log_phi_DK) :] for m, log_phi_DK in enumerate(state.log_phi)]
    own_p = Dispersion(p.log_odds_D[first:], p.mode) if p is not None and p.mode in modes else None
    new = State(np.empty(0), state.subs_QM, tuple(rows), np.empty(0), own_p)
    exposures = tuple(each[first:] if m in modes else () for m, each in enumerate(spec.exposures))
    spec = replace(spec, exposures=exposures, known=())  # of new rows, nothing else is known
    factors = log_prior_factors(spec, replace(new, concentrations_M=state.concentrations_M))
    return factors + log_prior_dispersion(spec, new) + _log_jacobian(spec, new)


def _log_jacobian(spec: Spec, state: State) -> float:
    """The log Jacobian of exp for positive variables and of the logistic function for the dispersion."""
    total = state.log_core_Q[state.included()].sum()
    for modes in spec.groups:
        total += np.log(state.concentrations_M[modes[:1]]).sum() if state.concentrations_M.size else 0.0
        drawn_K = state.used(modes) & (spec.known_in(modes[0]).kinds(spec.core_shape[modes[0]]) != FROZEN)
        total += state.log_phi[modes[0]][:, drawn_K].sum()
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        total += (log_dispersion_of(log_odds_D) + log_dispersion_of(-log_odds_D)).sum()
    return float(total)
