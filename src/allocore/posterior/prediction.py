"""Expected counts of cells, and the predictive density of counts. Memory grows with the cells, not the draws."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.cell_rates import rates_of_cells
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
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
