"""Predictions and simulated counts for cells and sums of cells, in blocks of cells, draw by draw.

The count of a box with one term has the likelihood's distribution in every draw, so its interval is exact
(mixture_quantiles.py). Other sums are simulated: at least a thousand times, evenly over the draws. A random number
depends on the seed, on the draw and on the block of cells, never on threads.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.errors import InputError
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.workers import Workers
from allocore.posterior.cell_sums import MOST_BERNOULLI_CELLS, Boxes, Terms, number_of_terms, term_rates, terms_of
from allocore.posterior.mixture_quantiles import Mixtures, mixture_quantiles
from allocore.posterior.prediction import Columns, log_odds_table, number_of_draws
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS_AT_ONCE = 10_000_000
_TERMS_AT_ONCE = 1_000_000
_SIMULATIONS = 1000
_SEED = 20240502


class Predicted(NamedTuple):
    """Expected counts of N boxes, in each draw if they were asked for, and the ends of their intervals."""

    rate_N: Floats
    low_N: Ints
    high_N: Ints
    draws_NS: Floats | None


def predict(record: Record, boxes: Boxes, interval: float, *, missing: bool, draws: bool, threads: int) -> Predicted:
    """Expected counts and predictive intervals of boxes."""
    levels_L, number = np.array([0.5 - interval / 2, 0.5 + interval / 2]), boxes.places_MN.shape[1]
    draws_NS = np.empty((number, number_of_draws(record))) if draws else None
    rate_N, ends_LN = expected_and_quantiles(
        record, boxes, levels_L, missing=missing, threads=threads, draws_NS=draws_NS
    )
    return Predicted(rate_N, ends_LN[0], ends_LN[1], draws_NS)


def expected_and_quantiles(
    record: Record, boxes: Boxes, levels_L: Floats, *, missing: bool, threads: int, draws_NS: Floats | None = None
) -> tuple[Floats, Ints]:
    """Expected counts (N) and quantiles (L, N) of boxes at rising levels; fills `draws_NS` with those of each draw."""
    number = boxes.places_MN.shape[1]
    rate_N, quantiles_LN = np.empty(number), np.empty((len(levels_L), number), dtype=np.int64)
    # Sorted cells share products. Sums stay in their order: their random numbers and errors go by position.
    order_N = np.arange(number) if boxes.summed_N.any() else np.lexsort(boxes.places_MN[::-1])
    boxes = boxes._replace(places_MN=boxes.places_MN[:, order_N])
    for cut in _blocks(record, boxes):
        chosen = order_N[cut]
        own_NS = None if draws_NS is None else np.empty((len(chosen), draws_NS.shape[1]))
        rate_N[chosen], quantiles_LN[:, chosen] = _block(record, boxes, cut, levels_L, missing, threads, own_NS)
        if draws_NS is not None:
            draws_NS[chosen] = own_NS
    return rate_N, quantiles_LN


def simulate(record: Record, boxes: Boxes, draws: int, seed: int, *, missing: bool, threads: int) -> Ints:
    """Simulated counts (draws, N): draw i takes the values of draw i S // draws of the S of the posterior."""
    every, number = _places(record), boxes.places_MN.shape[1]
    source = np.arange(draws) * len(every) // draws
    terms = terms_of(record, boxes, 0, missing)
    used, repeats = np.unique(source, return_counts=True)
    counts_SN, i = np.empty((draws, number), dtype=np.int64), 0
    rates = term_rates(record, boxes, terms, [every[s] for s in used.tolist()], threads)
    for s, times, rates_T in zip(used.tolist(), repeats.tolist(), rates, strict=True):
        log_odds_T = log_odds_table(record)[terms.odds_row_T, s]
        for _ in range(times):
            counts_T = record.spec.observation.draw(rates_T, log_odds_T, np.random.default_rng([seed, i]))
            counts_SN[i] = terms.added_up(counts_T, number)
            i += 1
    return counts_SN


def check_sums(record: Record, boxes: Boxes) -> None:
    """Raise an error if a sum has more cells than are visited under the Bernoulli likelihood."""
    most = number_of_terms(record, boxes).max()
    if record.spec.likelihood == "bernoulli" and most > MOST_BERNOULLI_CELLS:
        raise InputError(
            f"cells has a sum of {most:,.0f} cells, but under the Bernoulli likelihood, where every cell must be "
            f"visited, at most {MOST_BERNOULLI_CELLS:,} can be summed"
        )


def with_predictions(told: "pd.DataFrame", found: Predicted) -> "pd.DataFrame":
    """The frame of what was asked with the columns rate, low and high; a name that is taken gets an underscore."""
    from allocore.posterior.surprises import free_name

    taken = tuple(map(str, told.columns))
    results = {"rate": found.rate_N, "low": found.low_N, "high": found.high_N}
    return told.assign(**{free_name(name, taken): values_N for name, values_N in results.items()})


def _places(record: Record) -> list[tuple[int, int]]:
    """The chain and the draw of every draw."""
    chains, draws = record.core_values.shape[:2]
    return [(chain, draw) for chain in range(chains) for draw in range(draws)]


def _blocks(record: Record, boxes: Boxes) -> Iterator[slice]:
    """Cut the boxes into blocks of limited memory, at least one box each. They depend on nothing but the request."""
    work_N = np.maximum(number_of_terms(record, boxes) / _TERMS_AT_ONCE, number_of_draws(record) / _NUMBERS_AT_ONCE)
    done_N, start = np.cumsum(work_N), 0
    while start < len(done_N):
        before = done_N[start - 1] if start else 0.0
        stop = max(start + 1, int(np.searchsorted(done_N, before + 1.0, side="right")))
        yield slice(start, stop)
        start = stop


def _block(
    record: Record, boxes: Boxes, cut: slice, levels_L: Floats, missing: bool, threads: int, draws_NS: Floats | None
) -> tuple[Floats, Ints]:
    """Expected counts (N) and quantiles (L, N) of some boxes; fills `draws_NS` with those of each draw."""
    boxes, places, likelihood = boxes.taken(cut), _places(record), record.spec.observation
    terms, table_RS = terms_of(record, boxes, cut.start, missing), log_odds_table(record)
    number = boxes.places_MN.shape[1]
    total_N, rates = np.zeros(number), Columns(number, len(places))
    first_N = np.searchsorted(terms.owner_T, np.arange(number))
    simulation = _Simulation(record, terms, number, cut.start)
    for s, rates_T in enumerate(term_rates(record, boxes, terms, places, threads)):
        log_odds_T = table_RS[terms.odds_row_T, s]
        expected_N = terms.added_up(likelihood.mean(rates_T, log_odds_T), number)
        total_N += expected_N
        if draws_NS is not None:
            draws_NS[:, s] = expected_N
        rates.add(s, rates_T[first_N])
        simulation.add(s, rates_T, log_odds_T)
    with Workers(threads) as workers:
        mixtures = Mixtures(rates.table_NS, terms.odds_row_T[first_N], table_RS)
        quantiles_LN = mixture_quantiles(likelihood, mixtures, levels_L, workers)
    quantiles_LN[:, simulation.sums] = simulation.quantiles(levels_L)
    return total_N / len(places), quantiles_LN


class _Simulation:
    """Simulated counts of the boxes with several terms, filled draw by draw."""

    def __init__(self, record: Record, terms: Terms, number: int, start: int) -> None:
        self._likelihood, self._start = record.spec.observation, start
        terms_N = np.bincount(terms.owner_T, minlength=number)
        self.sums = np.flatnonzero(terms_N > 1)
        self._chosen_T = np.flatnonzero(terms_N[terms.owner_T] > 1)
        self._owner_t = np.searchsorted(self.sums, terms.owner_T[self._chosen_T])
        draws = number_of_draws(record)
        self._times = -(-_SIMULATIONS // draws)
        self._counts_UI = np.empty((len(self.sums), draws * self._times))

    def add(self, s: int, rates_T: Floats, log_odds_T: Floats) -> None:
        """Simulate the counts of draw s."""
        if not len(self.sums):
            return
        rng = np.random.default_rng([_SEED, self._start, s])
        rates_t, log_odds_t = rates_T[self._chosen_T], log_odds_T[self._chosen_T]
        for i in range(s * self._times, (s + 1) * self._times):
            counts_t = self._likelihood.draw(rates_t, log_odds_t, rng)
            self._counts_UI[:, i] = np.bincount(self._owner_t, counts_t, len(self.sums))

    def quantiles(self, levels_L: Floats) -> Ints:
        """The quantiles (L, U) of the simulated counts, as the smallest counts that reach the levels."""
        if not len(self.sums):
            return np.empty((len(levels_L), 0), dtype=np.int64)
        return np.quantile(self._counts_UI, levels_L, axis=1, method="inverted_cdf").astype(np.int64)
