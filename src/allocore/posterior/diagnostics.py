"""Convergence diagnostics: R-hat and effective sample sizes of quantities that do not depend on class numbers.

Rank-normalised split R-hat and the effective sample sizes of the bulk and of the tails (5% and 95% quantiles) follow
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021). The package arviz-stats computes them. What the numbers mean is
said in `diagnosis_words`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore.posterior.diagnosis_words import (
    MAXIMUM_LIKELIHOOD,
    Apart,
    Few,
    Findings,
    Level,
    sentences,
    verdict,
)
from allocore.posterior.lagging_chains import LEAST_DRAWS, chains_behind
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
# A chain drifts if its second half is away from its first by more than the spread within halves. Of slow but settled
# chains some do so by chance, each in its own direction. If most do so in one direction, the burn-in was too short.
DRIFT_SPREADS = 1.0
_TAILS = (0.05, 0.95)
_COLUMNS = ["mean", "sd", "r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]
# Sums taken in another order differ by about 1e-15 of their size. A relative range below this counts as constant.
_ROUNDING = 1e-11


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
    level : {"good", "caution", "poor"}
        A traffic light. "good": no problem was found. "caution": chains are in different modes or have few effective
        samples, or there is too little to judge, such as a single chain. "poor": chains still drift, one is far
        behind the others, or nothing changes.
    headline : str
        The diagnosis in one sentence.
    words : tuple of str
        What the table says and what to do, in a few sentences.
    likelihood_words : tuple of str
        How counts are distributed given the fit, in sentences. After a Poisson fit, how dispersed they are, and where
        that is clear, that the negative binomial would likely predict better. Otherwise the dispersion p. In any case
        the concentrations, if they are learned.
    move_rate : float
        Share of classes that changed location in a sweep, averaged over the sweeps after the burn-in. NaN if locations
        are fixed (CP, Tucker).

    Examples
    --------
    >>> found = post.diagnose()
    >>> found.level, found.headline
    ('poor', 'The chains have not settled: run longer.')
    >>> found.words[0]
    'Chains disagree on ... of ... quantities, most of all on ...'
    >>> found.well, 0.0 <= found.move_rate <= 1.0
    (False, True)
    >>> found.likelihood_words[0]
    'Poisson likelihood: given the fit, the variance of a count is 7... times its mean (1 for Poisson counts), so ...'
    """

    table: pd.DataFrame
    level: Level
    headline: str
    words: tuple[str, ...]
    move_rate: float
    likelihood_words: tuple[str, ...]

    @property
    def well(self) -> bool:
        """Whether no problem was found: the level is "good". A single chain, or too few draws, show too little.

        Returns
        -------
        bool

        Examples
        --------
        >>> post.diagnose().well
        False
        """
        return self.level == "good"

    @property
    def _verdict(self) -> str:
        return f"{self.level.capitalize()}: {self.headline}"

    @property
    def _sentences(self) -> tuple[str, ...]:
        return (*self.likelihood_words, *move_rate_sentences(self.move_rate), *self.words)

    def __str__(self) -> str:
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([self._verdict, "", numbers, "", *self._sentences])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in self._sentences)
        numbers = self.table.to_html(float_format=lambda number: f"{number:.4g}")
        return f"<p><strong>{escape(self._verdict)}</strong></p>{numbers}<ul>{items}</ul>"


def judges_draws(record: Record) -> bool:
    """Whether the run has enough draws for R-hat."""
    return record.spec.has_priors and record.core_values.shape[1] >= LEAST_DRAWS


def diagnose(record: Record, likelihood_words: tuple[str, ...], more: Sequence[Trace] = ()) -> Diagnosis:
    """Judge the draws of a run: see `Posterior.diagnose`. What is said of the likelihood is passed on.

    `more` are further quantities to judge beside those of `traces`.
    """
    if not record.spec.has_priors:
        nothing = _table([], 0.0).reindex(columns=_COLUMNS)
        return Diagnosis(nothing, "caution", MAXIMUM_LIKELIHOOD, (MAXIMUM_LIKELIHOOD,), np.nan, likelihood_words)
    seconds = record.stats["seconds"][:, record.schedule.burn_in : record.draw_sweeps[-1]]
    judged = [*traces(record), *more]
    table = _table(judged, float(seconds.sum()))
    found = _findings(record, judged, table)
    level, headline = verdict(found)
    return Diagnosis(
        table=table,
        level=level,
        headline=headline,
        words=tuple(sentences(found)),
        move_rate=float(moved_after_burn_in(record).mean()) if record.spec.learn_locations else np.nan,
        likelihood_words=likelihood_words,
    )


def _findings(record: Record, judged: list[Trace], table: pd.DataFrame) -> Findings:
    """What the table shows. With too few draws its R-hat and effective samples are NaN and show nothing."""
    chains, draws = record.core_values.shape[:2]
    r_hats, samples = table["r_hat"].to_numpy(), _effective_within(judged, table)
    apart = [_apart(trace, large) for trace, large in zip(judged, r_hats, strict=True) if large > R_HAT_SETTLED]
    log_likelihood = judged[0].values
    return Findings(
        chains=chains,
        draws=draws,
        least_draws=LEAST_DRAWS,
        judged=len(judged),
        apart=sorted(apart, key=lambda each: -each.r_hat),
        far=bool((r_hats > R_HAT_APART).any()),
        drift=_drift(log_likelihood),
        behind=chains_behind(record),
        few=_few(judged, samples, ESS_PER_CHAIN * chains),
        unchanging=draws >= LEAST_DRAWS and bool(table["ess_bulk"].isna().all()),
        no_move=no_move_warning(record),
        largest_r_hat=float(table["r_hat"].max()),
        fewest_samples=_least(samples),
    )


def _apart(trace: Trace, r_hat: float) -> Apart:
    return Apart(trace.words, float(r_hat), float(trace.values.min()), float(trace.values.max()))


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
        return float(_arviz().rhat(values, chain_axis=0, draw_axis=1))


def effective_samples(values: _Floats) -> tuple[float, float]:
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


def _undefined(values: _Floats) -> bool:
    """Whether there are too few draws, a value was lost with a damaged file, or nothing changes."""
    return values.shape[1] < LEAST_DRAWS or not bool(np.isfinite(values).all()) or _constant(values)


def _constant(values: _Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _drift(values: _Floats) -> float | None:
    """Return by how much the log-likelihood rises from first to second halves of chains, if it drifts in most."""
    half = values.shape[1] // 2
    if values.shape[1] < LEAST_DRAWS:
        return None
    first, second = values[:, :half], values[:, -half:]
    rise = second.mean(axis=1) - first.mean(axis=1)
    spread = np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / 2)
    upward, downward = (int((sign * rise > DRIFT_SPREADS * spread).sum()) for sign in (1, -1))
    return float(np.median(rise)) if 2 * max(upward, downward) > len(values) else None


def _effective_within(judged: list[Trace], table: pd.DataFrame) -> _Floats:
    """Return the fewer of bulk and tail effective samples of each quantity; where chains disagree, those within chains.

    Between modes that chains do not leave, the number of effective samples is the number of chains, however long they
    run. For intervals within modes, what counts is how many each chain has for itself; they are added up.
    """
    samples = table[["ess_bulk", "ess_tail"]].min(axis=1).to_numpy(copy=True)
    for place, large in enumerate(table["r_hat"].to_numpy() > R_HAT_SETTLED):
        if large and len(judged[place].values) > 1:
            samples[place] = (
                np.nansum([min(effective_samples(alone[None])) for alone in judged[place].values]) or np.nan
            )
    return np.asarray(samples, dtype=np.float64)


def _few(judged: list[Trace], samples: _Floats, wanted: int) -> Few | None:
    fewest = _least(samples)
    return Few(judged[int(np.nanargmin(samples))].words, fewest, wanted) if fewest < wanted else None


def _least(samples: _Floats) -> float:
    """The least number, NaN if none is known."""
    known = samples[~np.isnan(samples)]
    return float(known.min()) if len(known) else np.nan
