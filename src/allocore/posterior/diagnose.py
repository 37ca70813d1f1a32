"""Convergence diagnostics: R-hat and effective sample sizes of quantities that do not depend on class numbers.

The trace of a single class means nothing, because numbers change from draw to draw. For the Bernoulli likelihood the
total rate, which needs only sums, replaces the expected total, which needs every cell. Rank-normalised split R-hat and
the effective sample sizes of bulk and tails follow Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021).

Chains of this model often settle in different modes of the posterior. More chains then make predictions better, because
predictions average over all of them (Yao, Vehtari and Gelman 2022), and longer chains do not. Longer chains are the
advice only if chains drift, or have too few effective samples within.

The best draw has the highest log joint density: that of the logarithms of core values, factors and concentrations, and
of the log odds of the dispersion, as in Stan. The density of a factor itself has no bound where e0 is below one and an
entry is near zero. Draws are compared even if they use different numbers of factors, so that dimensions differ. For new
rows that were folded in, it is the density of their counts, their factors and their p.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from allocore.findings import Finding, Level, sentences
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns, rates_of_cells
from allocore.kernels.workers import Workers
from allocore.model.joint import log_likelihood, log_prior, log_prior_dispersion, log_prior_factors
from allocore.model.likelihood import dispersion_of, log_dispersion_of
from allocore.model.state import State
from allocore.posterior.cells import weighted_expansion
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.sharded import stays_on_disk

LEAST_DRAWS = 4  # R-hat splits every chain in two and compares variances, so each half needs two draws
R_HAT_SETTLED = 1.01  # Vehtari et al. (2021): at 1.1, the older rule, chains still differ visibly
R_HAT_APART = 1.05  # rstan warns above it: such a difference is larger than the noise of R-hat itself
ESS_PER_CHAIN = 100  # Vehtari et al. (2021): with fewer effective samples, R-hat itself is unreliable
# A chain drifts if its halves differ by more than the spread within them. Some slow but settled chains do so by chance,
# each in its own direction. If most do so in one direction, the burn-in was too short.
DRIFT_SPREADS = 1.0
# A chain is far behind if it fits worse than the best by more than noise and by more than modes differ, and is further
# from the next chain above it than that is from the best. Of four settled chains on ICEWS the worst was up to 0.09 nats
# a non-zero cell behind (50 times the spread); chains of 40 sweeps were 0.12 and more behind.
BEHIND_SPREADS = 10.0
BEHIND_PER_NONZERO = 0.1
LOG_COUNT = "log expected count of"
_CELLS = 12
_CLASSES = 8
_CELL_SEED = 20240502
_CANDIDATES = 4096  # includes six observed zeros if one cell in a few hundred is one
_TAILS = (0.05, 0.95)
_COLUMNS = ["mean", "sd", "r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]
_ROUNDING = 1e-11  # a smaller relative range counts as constant: sums in another order differ by about 1e-15


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Convergence diagnostics of a run, as `Posterior.diagnose` returns them: a table, and what it means.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per quantity: `mean` and `sd` over all draws, `r_hat`, the effective sample sizes `ess_bulk` and
        `ess_tail`, and `seconds_per_effective_sample`: the time of all sweeps after the burn-in, summed over chains,
        divided by `ess_bulk`. NaN if a quantity never changes. `r_hat` is infinite if a quantity is constant within
        every chain but differs between chains.
    verdict : Finding
        The diagnosis in one finding.
    likelihood : tuple of Finding
        How counts are distributed given the fit: after a Poisson fit, how dispersed they are and whether the negative
        binomial would likely predict better; otherwise the dispersion p. Then the concentrations, if learned.
    details : tuple of Finding
        What the table shows, and what to do.
    move_rate : float
        Share of classes that changed location in a sweep, averaged over the sweeps after the burn-in. NaN if locations
        are fixed (CP, Tucker).

    Examples
    --------
    >>> found = post.diagnose()
    >>> found.level, found.ok, 0.0 <= found.move_rate <= 1.0
    ('poor', False, True)
    >>> found.sentences[0]
    'The chains have not settled: run longer.'
    """

    table: pd.DataFrame
    verdict: Finding
    likelihood: tuple[Finding, ...]
    details: tuple[Finding, ...]
    move_rate: float

    @property
    def level(self) -> Level:
        """A traffic light: "good" if no problem was found, "caution", or "poor".

        "caution": chains are in different modes or have few effective samples, or there is too little to judge, such as
        a single chain. "poor": chains still drift, one is far behind the others, or nothing changes.
        """
        return self.verdict.level

    @property
    def ok(self) -> bool:
        """Whether no problem was found: the level is "good". A single chain, or too few draws, show too little."""
        return self.level == "good"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdict first, then what is known of the likelihood and of moves, then the details."""
        moves = () if np.isnan(self.move_rate) else (Finding("move-rate", values={"rate": self.move_rate}),)
        return (self.verdict, *self.likelihood, *moves, *self.details)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words; the first is the verdict."""
        return sentences(self.findings)

    def __str__(self) -> str:
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        verdict, *others = self.sentences
        return "\n".join([f"{self.level.capitalize()}: {verdict}", "", numbers, "", *others])

    def _repr_html_(self) -> str:
        verdict, *others = self.sentences
        items = "".join(f"<li>{escape(each)}</li>" for each in others)
        numbers = self.table.to_html(float_format=lambda number: f"{number:.4g}")
        return f"<p><strong>{self.level.capitalize()}: {escape(verdict)}</strong></p>{numbers}<ul>{items}</ul>"


def can_judge(record: Record) -> bool:
    """Return whether the run has enough draws for R-hat."""
    return record.spec.has_priors and record.core_values.shape[1] >= LEAST_DRAWS


def diagnose(record: Record, likelihood: tuple[Finding, ...], shares: Sequence["Trace"] = ()) -> Diagnosis:
    """Judge the draws of a run, with findings on its likelihood and traces of the shares of consensus classes."""
    if not record.spec.has_priors:
        return Diagnosis(_table([], 0.0), Finding("diagnosis-no-draws", "caution"), likelihood, (), np.nan)
    seconds = record.stats["seconds"][:, record.schedule.burn_in : record.draw_sweeps[-1]]
    judged = [*traces(record), *shares]
    table = _table(judged, float(seconds.sum()))
    verdict, details = _judge(record, judged, table)
    move_rate = float(moved_after_burn_in(record).mean()) if record.spec.learn_locations else np.nan
    return Diagnosis(table, verdict, likelihood, details, move_rate)


def _judge(record: Record, judged: list["Trace"], table: pd.DataFrame) -> tuple[Finding, tuple[Finding, ...]]:
    chains, draws = record.core_values.shape[:2]
    r_hats, samples = table["r_hat"].to_numpy(), _effective_within(judged, table)
    enough_draws, far = draws >= LEAST_DRAWS, bool((r_hats > R_HAT_APART).any())
    unchanging = enough_draws and bool(table["ess_bulk"].isna().all())
    drift, behind, no_moves = _drift(judged[0].values), chains_behind(record), chains_without_moves(record)
    disagree = _disagreement(judged, r_hats, far, drift)
    few_samples = _few_samples(judged, samples, disagree, drift)
    verdicts: list[tuple[object, str, Level, dict[str, Any]]] = [  # the worst first
        (unchanging, "diagnosis-unchanging", "poor", {}),
        (drift, "diagnosis-drift", "poor", {"chains": chains}),
        (behind, "diagnosis-behind", "poor", {"chains": behind.values["chains"]} if behind else {}),
        (not enough_draws, "diagnosis-few-draws", "caution", {"draws": draws}),
        (chains == 1, "diagnosis-one-chain", "caution", {}),
        (far, "diagnosis-modes", "caution", {}),
        (disagree, "diagnosis-disagree", "caution", {}),
        (few_samples, "diagnosis-few-samples", "caution", {}),
        (no_moves, "diagnosis-no-moves", "caution", {}),
        (True, "diagnosis-good", "good", {}),
    ]
    verdict = next(Finding(kind, level, values) for holds, kind, level, values in verdicts if holds)
    modes = Finding("different-modes", "caution") if far and chains > 1 and drift is None else None
    details = [each for each in (disagree, drift, modes, behind, few_samples, no_moves) if each is not None]
    if not enough_draws:
        details.insert(0, Finding("few-draws", "caution", {"least": LEAST_DRAWS}))
    elif unchanging:
        details.insert(0, Finding("equal-draws", "poor"))
    elif not details:
        values = {"chains": chains, "r_hat": float(table["r_hat"].max()), "samples": float(pd.Series(samples).min())}
        details.append(Finding("no-problem", "good", values))
    if enough_draws and chains == 1:
        details.append(Finding("one-chain", "caution"))
    return verdict, tuple(details)


def _disagreement(judged: list["Trace"], r_hats: Floats, far: bool, drift: Finding | None) -> Finding | None:
    number, chains = int((r_hats > R_HAT_SETTLED).sum()), len(judged[0].values)
    if not number:
        return None
    worst = int(np.nanargmax(r_hats))
    values = {
        "chains": chains,
        "far": far,
        "number": number,
        "judged": len(judged),
        "quantity": judged[worst].phrase,
        "r_hat": float(r_hats[worst]),
        "low": float(judged[worst].values.min()),
        "high": float(judged[worst].values.max()),
        # In a single chain, and if chains almost agree, the remedy is time. The finding on drift says so itself.
        "run_longer": not (far and chains > 1) and drift is None,
    }
    return Finding("chains-disagree", "caution", values)


def _few_samples(
    judged: list["Trace"], samples: Floats, disagree: Finding | None, drift: Finding | None
) -> Finding | None:
    (chains, draws), fewest = judged[0].values.shape, float(pd.Series(samples).min())
    if not fewest < ESS_PER_CHAIN * chains:
        return None
    # Draws that are almost independent could have been saved more often; others come from chains that move slowly.
    advice = "keep more draws" if fewest > draws * chains / 2 else "run longer"
    values = {
        "quantity": judged[int(np.nanargmin(samples))].phrase,
        "samples": fewest,
        "wanted": ESS_PER_CHAIN * chains,
        "chains": chains,
        "within": disagree is not None and chains > 1,
        # The finding on drift says to run longer.
        "advice": None if drift is not None and advice == "run longer" else advice,
    }
    return Finding("few-samples", "caution", values)


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
            return Finding("chains-behind", "poor", where)
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
    return Finding("no-moves", "caution", {"still": still, "chains": len(moved)}) if still else None


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
    candidates_MN = np.array([rng.integers(0, length, _CANDIDATES) for length in tensor.shape])
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
            few = [factor[rows_C] for factor, rows_C in zip(factors, cells_MC, strict=True)]
            rates_C = rates_of_cells(core_Q, subs_QM, few, places_MC, workers)
            cells[chain, draw] = likelihood.mean(rates_C, record.log_odds_of(chain, draw, cells_MC))
    # An expected count that underflows becomes the smallest normal float, so its logarithm is finite.
    return total, np.log(np.maximum(cells, np.finfo(float).tiny))


def _table(judged: list[Trace], seconds: float) -> pd.DataFrame:
    rows = {}
    for name, _, values in judged:
        bulk, tail = effective_samples(values)
        spread = values.std(ddof=1) if values.size > 1 else np.nan
        rows[name] = [values.mean(), spread, r_hat(values), bulk, tail, seconds / bulk]
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

    return array_stats


def _undefined(values: Floats) -> bool:
    lost = not np.isfinite(values).all()  # with a damaged file
    return values.shape[1] < LEAST_DRAWS or lost or _constant(values)


def _constant(values: Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _drift(values: Floats) -> Finding | None:
    """By how much the log-likelihood rises from first to second halves of chains, if it drifts in most."""
    half = values.shape[1] // 2
    if values.shape[1] < LEAST_DRAWS:
        return None
    first, second = values[:, :half], values[:, -half:]
    rise = second.mean(axis=1) - first.mean(axis=1)
    spread = np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / 2)
    upward, downward = (int((sign * rise > DRIFT_SPREADS * spread).sum()) for sign in (1, -1))
    drifts = 2 * max(upward, downward) > len(values)
    return Finding("drift", "poor", {"nats": float(np.median(rise))}) if drifts else None


def _effective_within(judged: list[Trace], table: pd.DataFrame) -> Floats:
    """The fewer of bulk and tail effective samples of each quantity; where chains disagree, the sum of those within."""
    samples = table[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy(copy=True)
    # Between modes that chains do not leave, effective samples are as many as chains, however long they run.
    for place, large in enumerate(table["r_hat"].to_numpy() > R_HAT_SETTLED):
        if large and len(judged[place].values) > 1:
            within = [min(effective_samples(of_chain[None])) for of_chain in judged[place].values]
            samples[place] = np.nansum(within) or np.nan
    return np.asarray(samples, dtype=np.float64)


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
    spec, mode = record.spec, record.folded_mode
    if not spec.has_priors:
        return 0.0
    if mode is None:
        return log_prior(spec, state) + _log_jacobian(state)
    own_p = state.dispersion is not None and state.dispersion.mode == mode
    rows = [log_phi_DK if m == mode else log_phi_DK[:0] for m, log_phi_DK in enumerate(state.log_phi)]
    new = State(np.empty(0), state.subs_QM, tuple(rows), np.empty(0), state.dispersion if own_p else None)
    factors = log_prior_factors(spec, replace(new, concentrations_M=state.concentrations_M))
    return factors + log_prior_dispersion(spec, new) + _log_jacobian(new)


def _log_jacobian(state: State) -> float:
    """The log Jacobian of exp for positive variables and of the logistic function for the dispersion."""
    total = state.log_core_Q[state.included()].sum() + np.log(state.concentrations_M).sum()
    for mode, log_phi_DK in enumerate(state.log_phi):
        total += log_phi_DK[:, state.used(mode)].sum()
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        total += (log_dispersion_of(log_odds_D) + log_dispersion_of(-log_odds_D)).sum()
    return float(total)
