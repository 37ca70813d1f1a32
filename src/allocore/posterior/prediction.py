"""Expected counts of cells, and the predictive density of counts. Memory grows with the cells, not the draws."""

from collections.abc import Iterator

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.cell_rates import rates_of_cells
from allocore.kernels.workers import Workers
from allocore.run.record import Record


def expected_counts(record: Record, coords_MN: Ints, threads: int) -> Floats:
    """The mean count of each cell under the likelihood, averaged over all draws of all chains."""
    total_N = np.zeros(coords_MN.shape[1])
    for rates_N, log_odds_N in rates_by_draw(record, coords_MN, threads):
        total_N += record.spec.observation.mean(rates_N, log_odds_N)
    return total_N / number_of_draws(record)


def log_predictive(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> Floats:
    """The log of the probability of each cell's count averaged over all draws, by logsumexp."""
    log_total_N = np.full(coords_MN.shape[1], -np.inf)
    for rates_N, log_odds_N in rates_by_draw(record, coords_MN, threads):
        log_density_N = record.spec.observation.log_density(counts_N, rates_N, log_odds_N)
        np.logaddexp(log_total_N, log_density_N, out=log_total_N)
    return np.asarray(log_total_N - np.log(number_of_draws(record)))


def rates_by_draw(record: Record, coords_MN: Ints, threads: int) -> Iterator[tuple[Floats, Floats]]:
    """The rates of the cells and their log odds of the dispersion, draw after draw, chain after chain."""
    with Workers(threads) as workers:
        for place in np.ndindex(record.core_values.shape[:2]):
            core, factors = record.core_values[place], [factor[place] for factor in record.factors]
            rates_N = rates_of_cells(core, record.core_locations[place], factors, coords_MN, workers)
            yield rates_N, record.log_odds_of(place[0], place[1], coords_MN)


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
