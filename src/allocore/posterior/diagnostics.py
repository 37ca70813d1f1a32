"""Have the chains settled, and in the same place? R-hat and effective sample sizes of what does not depend on labels.

Rank-normalised split R-hat and effective sample sizes of the bulk and of the tails (5% and 95% quantiles) are those of
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), computed by arviz-stats.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base.array import array_stats
from numpy.typing import NDArray

from allocore.posterior.traces import Trace, traces
from allocore.run.record import Record

_Floats = NDArray[np.float64]

# Vehtari and others (2021) ask for R-hat below 1.01: at 1.1, the older rule, chains are still visibly apart.
R_HAT_SETTLED = 1.01
# Above this, where rstan begins to warn, more than the noise of R-hat itself keeps chains apart.
R_HAT_APART = 1.05
# The same authors ask for 100 effective samples a chain: with fewer, R-hat and the estimate itself are unreliable.
ESS_PER_CHAIN = 100
# R-hat splits every chain in two and compares variances, which takes two draws in either half.
LEAST_DRAWS = 4
_TAILS = (0.05, 0.95)
_COLUMNS = ["mean", "sd", "r_hat", "ess_bulk", "ess_tail", "seconds_per_effective_sample"]
# Sums in another order differ by some 1e-15 of their size: what varies by less than this does not vary.
_ROUNDING = 1e-11

# The functions of arviz-stats have no types.
_arviz: Any = array_stats


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What `Posterior.diagnose` found.

    table
        One row per quantity. `mean` and `sd` over all draws; `r_hat`; `ess_bulk` and `ess_tail`, effective sample
        sizes; `seconds_per_effective_sample`, the seconds that one more costs: those of all sweeps after the burn-in of
        all chains together, divided by `ess_bulk`. NaN where a quantity never changes, infinite `r_hat` where it does
        not within chains but between them.
    words
        What the table says, in sentences.
    well
        Whether nothing speaks against the draws. One chain alone, or fewer than four draws, never are enough to say so.
    move_rate
        Share of the classes that changed their location in a sweep, averaged over the sweeps after the burn-in; NaN if
        locations are fixed (CP, Tucker).
    """

    table: pd.DataFrame
    words: tuple[str, ...]
    well: bool
    move_rate: float

    def __str__(self) -> str:
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([numbers, "", *self._moves(), *self.words])

    def _repr_html_(self) -> str:
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in (*self._moves(), *self.words))
        return f"{self.table.to_html(float_format=lambda number: f'{number:.4g}')}<ul>{sentences}</ul>"

    def _moves(self) -> Iterator[str]:
        if not np.isnan(self.move_rate):
            yield f"{self.move_rate:.2%} of the classes moved in a sweep after the burn-in."


def diagnose(record: Record) -> Diagnosis:
    """Judge the draws of a run."""
    if not record.spec.has_priors:
        nothing = _table([], 0.0).reindex(columns=_COLUMNS)
        told = "Maximum likelihood gives one estimate and no draws: there are no chains to judge."
        return Diagnosis(nothing, (told,), well=False, move_rate=np.nan)
    chains, draws = record.core_values.shape[:2]
    after_burn_in = slice(record.schedule.burn_in, record.draw_sweeps[-1])
    moved, seconds = record.stats["moved"][:, after_burn_in], record.stats["seconds"][:, after_burn_in]
    learned = record.spec.learn_locations
    judged = list(traces(record))
    table = _table(judged, float(seconds.sum()))
    enough = draws >= LEAST_DRAWS
    complaints = [
        *(_on_agreement(judged, table["r_hat"]) if enough else ()),
        *(_on_samples(judged, table, chains, draws) if enough else ()),
        *(_on_moves(moved) if learned else ()),
    ]
    praise = [_praise(table, chains)] if enough and not complaints else []
    return Diagnosis(
        table=table,
        words=(*complaints, *praise, *_on_what_cannot_be_told(chains, draws)),
        well=enough and not complaints and chains > 1,
        move_rate=float(moved.mean()) if learned else np.nan,
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
    """Rank-normalised split R-hat of one quantity (chain, draw); the halves of a single chain stand for two chains.

    NaN if it cannot be told, because draws are too few or the quantity never changes; infinite if it never does within
    a chain and chains differ.
    """
    if _cannot_be_told(values):
        return np.nan
    if len(values) == 1:
        half = values.shape[1] // 2
        return r_hat(np.concatenate([values[:, :half], values[:, -half:]]))
    if all(_constant(of_chain) for of_chain in values):
        return np.inf
    # Where all values are as far from the median, their distances have no variance: the ranks alone then decide.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(_arviz.rhat(values, chain_axis=0, draw_axis=1))


def effective_samples(values: _Floats) -> tuple[float, float]:
    """Effective sample sizes of the bulk and of the tails of one quantity (chain, draw); NaN as `r_hat` is."""
    if _cannot_be_told(values):
        return np.nan, np.nan
    bulk = _arviz.ess(values, chain_axis=0, draw_axis=1, method="bulk")
    tail = _arviz.ess(values, chain_axis=0, draw_axis=1, method="tail", prob=_TAILS)
    return float(bulk), float(tail)


def _cannot_be_told(values: _Floats) -> bool:
    """Too few draws, a statistic that was lost with a damaged file, or nothing that changes."""
    return values.shape[1] < LEAST_DRAWS or not bool(np.isfinite(values).all()) or _constant(values)


def _constant(values: _Floats) -> bool:
    return bool(np.ptp(values) <= _ROUNDING * np.abs(values).max())


def _on_agreement(judged: list[Trace], r_hats: "pd.Series[float]") -> Iterator[str]:
    """A sentence on each quantity whose R-hat is too large; cells have one together."""
    who = "Chains" if len(judged[0].values) > 1 else "Parts of the chain"
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
    """A sentence on the quantity with the fewest effective samples, of those on which chains agree."""
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
        f"Too few effective samples of {words}: {fewest.min():.0f}, where {wanted} are wanted "
        f"({ESS_PER_CHAIN} a chain); {advice}."
    )


def _on_moves(moved: _Floats) -> Iterator[str]:
    """A word where relocation did not happen after the burn-in: then locations are those that the burn-in left."""
    still = [str(chain) for chain, of_chain in enumerate(moved) if not of_chain.any()]
    if still:
        where = "" if len(still) == len(moved) else f" in chain{'s' * (len(still) > 1)} {', '.join(still)}"
        yield (
            f"No class moved after the burn-in{where}. With heavy counts locations move rarely: a smaller core shape "
            "makes classes share factors from the start, and several chains show what is settled."
        )


def _praise(table: pd.DataFrame, chains: int) -> str:
    who = "the chains agree" if chains > 1 else "the parts of the chain agree"
    worst, fewest = table["r_hat"].max(), table[["ess_bulk", "ess_tail"]].min().min()
    return f"All is well: {who} (R-hat at most {worst:.3f}), and there are at least {fewest:.0f} effective samples."


def _on_what_cannot_be_told(chains: int, draws: int) -> Iterator[str]:
    if draws < LEAST_DRAWS:
        yield f"This cannot be judged: it takes at least {LEAST_DRAWS} draws a chain, and there are {draws}."
    elif chains == 1:
        yield (
            "With one chain, R-hat compares its parts and cannot see whether chains settle in different places: run "
            "chains=4."
        )
