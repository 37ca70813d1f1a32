"""Convergence diagnostics: R-hat and effective sample sizes of quantities that do not depend on class numbers.

Rank-normalised split R-hat and the effective sample sizes of the bulk and of the tails (5% and 95% quantiles) follow
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021). The package arviz-stats computes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray

from allocore.posterior.moves import move_rate_sentences, moved_after_burn_in, no_move_warning
from allocore.posterior.traces import Trace, traces
from allocore.run.record import Record

_Floats = NDArray[np.float64]

# Vehtari et al. (2021) ask for R-hat below 1.01: at 1.1, the older rule, chains still differ visibly.
R_HAT_SETTLED = 1.01
# rstan warns above 1.05: such a difference is larger than the noise of R-hat itself.
R_HAT_APART = 1.05
# Vehtari et al. (2021) ask for 100 effective samples per chain: with fewer, R-hat itself is unreliable.
ESS_PER_CHAIN = 100
# R-hat splits every chain in two and compares variances, so each half needs two draws.
LEAST_DRAWS = 4
_TAILS = (0.05, 0.95)
_COLUMNS = ["mean", "sd", "r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]
# Sums taken in another order differ by about 1e-15 of their size. A relative range below this counts as constant.
_ROUNDING = 1e-11

# arviz-stats has no type annotations.
_arviz: Any = array_stats


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Convergence diagnostics of a run: a table, and what it means in sentences.

    `Posterior.diagnose` returns it. `print` shows the table and the sentences, and so does a notebook.

    Attributes
    ----------
    table : pandas.DataFrame
        One row per quantity. The columns are `mean` and `sd` over all draws, `r_hat`, the effective sample sizes
        `ess_bulk` and `ess_tail`, and `seconds_per_effective_sample`: the time of all sweeps after the burn-in, summed
        over chains, divided by `ess_bulk`. Entries are NaN if a quantity never changes. `r_hat` is infinite if a
        quantity is constant within every chain but differs between chains.
    words : tuple of str
        What the table says, in sentences.
    likelihood_words : tuple of str
        How counts are distributed given the fit, in sentences. After a Poisson fit, how dispersed they are, and where
        that is clear, that the negative binomial would likely predict better. Otherwise the dispersion p. In any case
        the concentrations, if they are learned.
    well : bool
        Whether no problem was found. It is False with a single chain or fewer than four draws, which show too little.
    move_rate : float
        Share of classes that changed location in a sweep, averaged over the sweeps after the burn-in. NaN if locations
        are fixed (CP, Tucker).

    Examples
    --------
    >>> found = post.diagnose()
    >>> found.well, 0.0 <= found.move_rate <= 1.0
    (False, True)
    >>> found.words[0]
    'Chains disagree on the log-likelihood: R-hat ...; run longer.'
    >>> found.likelihood_words[0]
    'Poisson likelihood: given the fit, the variance of a count is 7... times its mean (1 for Poisson counts), so ...'
    """

    table: pd.DataFrame
    words: tuple[str, ...]
    well: bool
    move_rate: float
    likelihood_words: tuple[str, ...]

    def __str__(self) -> str:
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([numbers, "", *self.likelihood_words, *move_rate_sentences(self.move_rate), *self.words])

    def _repr_html_(self) -> str:
        sentences = (*self.likelihood_words, *move_rate_sentences(self.move_rate), *self.words)
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        return f"{self.table.to_html(float_format=lambda number: f'{number:.4g}')}<ul>{items}</ul>"


def diagnose(record: Record, likelihood_words: tuple[str, ...]) -> Diagnosis:
    """Judge the draws of a run: see `Posterior.diagnose`. What is said of the likelihood is passed on."""
    if not record.spec.has_priors:
        nothing = _table([], 0.0).reindex(columns=_COLUMNS)
        why = "Maximum likelihood gives one estimate and no draws: there are no chains to judge."
        return Diagnosis(nothing, (why,), False, np.nan, likelihood_words)
    chains, draws = record.core_values.shape[:2]
    seconds = record.stats["seconds"][:, record.schedule.burn_in : record.draw_sweeps[-1]]
    judged = list(traces(record))
    table = _table(judged, float(seconds.sum()))
    enough = draws >= LEAST_DRAWS
    no_move = no_move_warning(record)
    complaints = [
        *(_on_agreement(judged, table["r_hat"]) if enough else ()),
        *(_on_samples(judged, table, chains, draws) if enough else ()),
        *([no_move] if no_move else ()),
    ]
    praise = [_praise(table, chains)] if enough and not complaints else []
    return Diagnosis(
        table=table,
        words=(*complaints, *praise, *_on_what_is_unknown(chains, draws)),
        well=enough and not complaints and chains > 1,
        move_rate=float(moved_after_burn_in(record).mean()) if record.spec.learn_locations else np.nan,
        likelihood_words=likelihood_words,
    )


def _table(judged: list[Trace], seconds: float) -> pd.DataFrame:
    rows = {}
    for name, _, values in judged:
        bulk, tail = effective_samples(values)
        rows[name] = {
            "mean": values.mean(),
            "sd": values.std(ddof=1) if values.size > 1 else np.nan,
            "r_hat": r_hat(values),
            "ess_bulk": bulk,
            "ess_tail": tail,
            "seconds_per_effective_sample": seconds / bulk,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")


def r_hat(values: _Floats) -> float:
    """Return the rank-normalised split R-hat of one quantity (chain, draw).

    A single chain is cut into halves that count as two chains. The result is NaN if there are too few draws or the
    quantity never changes. It is infinite if the quantity is constant within every chain but differs between chains.
    """
    if _undefined(values):
        return np.nan
    if len(values) == 1:
        half = values.shape[1] // 2
        return r_hat(np.concatenate([values[:, :half], values[:, -half:]]))
    if all(_constant(of_chain) for of_chain in values):
        return np.inf
    # If all values are equally far from the median, the folded values have no variance: the ranks alone decide.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(_arviz.rhat(values, chain_axis=0, draw_axis=1))


def effective_samples(values: _Floats) -> tuple[float, float]:
    """Return the effective sample sizes of bulk and tails of one quantity (chain, draw); NaN where `r_hat` is NaN."""
    if _undefined(values):
        return np.nan, np.nan
    bulk = _arviz.ess(values, chain_axis=0, draw_axis=1, method="bulk")
    tail = _arviz.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=_TAILS)
    return float(bulk), float(tail)


def _undefined(values: _Floats) -> bool:
    """Whether there are too few draws, a value was lost with a damaged file, or nothing changes."""
    return values.shape[1] < LEAST_DRAWS or not bool(np.isfinite(values).all()) or _constant(values)


def _constant(values: _Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _on_agreement(judged: list[Trace], r_hats: "pd.Series[float]") -> Iterator[str]:
    """Yield a sentence on each quantity whose R-hat is too large; all cells share one sentence."""
    who = "Chains" if len(judged[0].values) > 1 else "The halves of the chain"
    for words in dict.fromkeys(trace.words for trace in judged):
        values = {trace.name: trace.values for trace in judged if trace.words == words}
        large = r_hats[list(values)].loc[lambda each: each > R_HAT_SETTLED]
        if large.empty:
            continue
        what = words if len(values) == 1 else f"{words} ({len(large)} of {len(values)})"
        worst = large.max()
        if np.isinf(worst):
            stuck = values[str(large.idxmax())]
            yield f"{who} are stuck at different values of {what}: {stuck.min():.6g} to {stuck.max():.6g}; run longer."
        elif worst > R_HAT_APART:
            yield f"{who} disagree on {what}: R-hat {worst:.2f}; run longer."
        else:
            yield f"{who} do not quite agree on {what} yet: R-hat {worst:.3f}; run longer."


def _on_samples(judged: list[Trace], table: pd.DataFrame, chains: int, draws: int) -> Iterator[str]:
    """Yield a sentence on the quantity with the fewest effective samples, among those on which chains agree."""
    if table["ess_bulk"].isna().all():
        yield "Nothing changes from draw to draw: these are not draws of a posterior."
    settled = table[~(table["r_hat"] > R_HAT_SETTLED)]
    fewest = settled[["ess_bulk", "ess_tail"]].min(axis=1).dropna()
    wanted = ESS_PER_CHAIN * chains
    if fewest.empty or fewest.min() >= wanted:
        return
    words = {trace.name: trace.words for trace in judged}[str(fewest.idxmin())]
    advice = "run longer" if draws > ESS_PER_CHAIN else "keep more draws"
    yield (
        f"Too few effective samples of {words}: {fewest.min():.0f}, but there should be {wanted} "
        f"({ESS_PER_CHAIN} per chain); {advice}."
    )


def _praise(table: pd.DataFrame, chains: int) -> str:
    who = "the chains agree" if chains > 1 else "the halves of the chain agree"
    worst, fewest = table["r_hat"].max(), table[["ess_bulk", "ess_tail"]].min().min()
    return f"No problem found: {who} (R-hat at most {worst:.3f}), with at least {fewest:.0f} effective samples."


def _on_what_is_unknown(chains: int, draws: int) -> Iterator[str]:
    if draws < LEAST_DRAWS:
        yield f"There are too few draws to judge: {draws} per chain, but at least {LEAST_DRAWS} are needed."
    elif chains == 1:
        yield (
            "With one chain, R-hat compares its two halves and cannot show whether chains settle in different places: "
            "run chains=4."
        )
