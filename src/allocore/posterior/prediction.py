"""Expected counts of cells, and the predictive density of counts. Memory grows with the cells, not the draws."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.cell_rates import rates_at_rows, rows_of_cells
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.mixture_quantiles import Mixtures
from allocore.run.record import Record

_CELLS_PER_THREAD = 16_384


def expected_counts(record: Record, coords_MN: Ints, threads: int) -> Floats:
    """The mean count of each cell under the likelihood, averaged over all draws of all chains."""
    total_N = np.zeros(coords_MN.shape[1])
    for rates_N, log_odds_N in rates_by_draw(record, coords_MN, threads):
        total_N += record.spec.observation.mean(rates_N, log_odds_N)
    return total_N / number_of_draws(record)


def log_predictive(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> Floats:
    """The log of the probability of each cell's count averaged over all draws, by logsumexp."""
    log_total_N = np.full(coords_MN.shape[1], -np.inf)
    with Workers(threads) as workers:
        cuts = [slice(*cut) for cut in workers.ranges(len(log_total_N), _CELLS_PER_THREAD)]
        for given in rates_by_draw(record, coords_MN, threads):
            workers.run(
                [partial(_add_density, record.spec.observation, cut, counts_N, given, log_total_N) for cut in cuts]
            )
    return np.asarray(log_total_N - np.log(number_of_draws(record)))


def _add_density(
    likelihood: Likelihood, cut: slice, counts_N: Ints, given: tuple[Floats, Floats], log_total_N: Floats
) -> None:
    """Add the probabilities under one draw to their sums, all as logs; `given` has its rates and log odds."""
    log_density_N = likelihood.log_density(counts_N[cut], *(each_N[cut] for each_N in given))
    np.logaddexp(log_total_N[cut], log_density_N, out=log_total_N[cut])


def rates_by_draw(record: Record, coords_MN: Ints, threads: int) -> Iterator[tuple[Floats, Floats]]:
    """The rates of the cells and their log odds of the dispersion, draw after draw, chain after chain."""
    rows_MN = rows_of_cells(record.tensor.shape, coords_MN)
    with Workers(threads) as workers:
        for place in np.ndindex(record.core_values.shape[:2]):
            core, factors = record.core_values[place], [factor[place] for factor in record.factors]
            rates_N = rates_at_rows(core, record.core_locations[place], factors, rows_MN, workers)
            yield rates_N, record.log_odds_of(place[0], place[1], coords_MN)


def log_odds_table(record: Record) -> Floats:
    """The log odds of the dispersion, (R, S): one row, or one for each row of the mode that they differ by."""
    draws = number_of_draws(record)
    if record.log_odds is None:
        return np.zeros((1, draws))
    return np.ascontiguousarray(record.log_odds.reshape(draws, -1).T)


def cell_mixtures(record: Record, coords_MN: Ints, threads: int) -> Mixtures:
    """The predictive distributions of cells: their rates in all draws, and where their log odds are in a table."""
    by, rates = record.spec.dispersion_by, Columns(coords_MN.shape[1], number_of_draws(record))
    for s, (rates_N, _) in enumerate(rates_by_draw(record, coords_MN, threads)):
        rates.add(s, rates_N)
    row_N = np.zeros(coords_MN.shape[1], dtype=np.int64) if by is None else coords_MN[by].astype(np.int64)
    return Mixtures(rates.table_NS, row_N, log_odds_table(record))


class Columns:
    """A table that is filled column by column, eight at once: a single one would touch a cache line per number."""

    def __init__(self, rows: int, columns: int) -> None:
        self.table_NS, self._held_8N = np.empty((rows, columns)), np.empty((8, rows))

    def add(self, s: int, column_N: Floats) -> None:
        """Fill column s; the columns must come in order."""
        held = s % 8 + 1
        self._held_8N[held - 1] = column_N
        if held == 8 or s == self.table_NS.shape[1] - 1:
            self.table_NS[:, s + 1 - held : s + 1] = self._held_8N[:held].T


def number_of_draws(record: Record) -> int:
    """The draws of all chains together."""
    return record.core_values[..., 0].size


def sampled(record: Record, most: int) -> Record:
    """The record with at most `most` draws, spread evenly over chains and draws. Nothing is copied."""
    chains, draws = record.core_values.shape[:2]
    chain_step = -(-chains // most)
    draw_step = -(-draws // max(1, most // -(-chains // chain_step)))
    every = slice(None, None, chain_step), slice(None, None, draw_step)
    return record.with_draws(every)
