"""Expected counts, densities, quantiles and simulated counts of cells and sums of cells, under all draws.

The posterior predictive is a mixture: the likelihood averaged over S draws. The quantile of level q is the smallest
count y with

    1/S sum_s P(Y <= y | r_s, p_s)  >=  q.

Probabilities are added up from zero on, each from the one before: P(y + 1) / P(y) = (a r + b y) / (y + 1), with a = 1,
b = 0 for the Poisson and a = b = p for the negative binomial (Panjer 1981). If P(0) underflows in some draw, or the
walk is long, the count is found by bisection with the incomplete gamma or beta function, between bounds by Cantelli's
inequality. A Bernoulli count needs only P(0).

The count of a box with one term has the likelihood's distribution in every draw, so its interval is exact. Other sums
are simulated: at least a thousand times, evenly over the draws. A random number depends on the seed, on the draw and on
the block of cells, never on threads.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from allocore.errors import NO_VALUE, Described, InputError, whole_number
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import fill_rates, rates_at_rows, rows_of_cells
from allocore.kernels.jit import kernel
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.cells import (
    MOST_BERNOULLI_CELLS,
    Boxes,
    CellCounts,
    DrawTables,
    Terms,
    blocks_to_score,
    boxes_of_cells,
    checked_coords,
    draw_tables,
    named_cells,
    number_of_terms,
    rows_of_terms,
    term_rates,
    terms_of,
)
from allocore.storage.record import Record
from allocore.tensor.labels import with_results
from allocore.tensor.undirected import directions

_CELLS_PER_THREAD, _QUANTILES_PER_THREAD, _DRAWS_AT_ONCE = 4096, 256, 8
_LONGEST_WALK = 1000  # a bisection takes about as long
_FAR_FROM_ZERO = 600.0  # above this latent rate P(0) comes near the smallest floats
_MOST_COUNT = 2.0**62
# The cells of a block have at most this many rates in all draws, and this many terms in one draw.
_NUMBERS_AT_ONCE, _TERMS_AT_ONCE = 10_000_000, 1_000_000
_SIMULATIONS, _SEED = 1000, 20240502


class Mixtures(NamedTuple):
    """The rates of N sums of cells in S draws, and their log odds of the dispersion: row `odds_row_N` of a table."""

    rates_NS: Floats
    odds_row_N: Ints
    log_odds_RS: Floats

    def taken(self, places: NDArray[np.intp]) -> "Mixtures":
        """Return some of the sums."""
        return Mixtures(self.rates_NS[places], self.odds_row_N[places], self.log_odds_RS)


class Recursions(NamedTuple):
    """c, a and b of the likelihood, and the expected count per unit of the rate, by row of log odds, (R, S)."""

    scale_RS: Floats
    slope_RS: Floats
    step_RS: Floats
    mean_RS: Floats

    @classmethod
    def of(cls, likelihood: Likelihood, log_odds_RS: Floats) -> "Recursions":
        """Return those of a likelihood at some log odds of the dispersion."""
        mean_RS = likelihood.mean(np.ones_like(log_odds_RS), log_odds_RS)
        return cls(likelihood.latent_scale(log_odds_RS), *likelihood.recursion(log_odds_RS), mean_RS)


def mixture_quantiles(likelihood: Likelihood, mixtures: Mixtures, levels_L: Floats, workers: Workers) -> Ints:
    """Return the quantiles (L, N) of the counts; the levels must increase."""
    if likelihood.name == "bernoulli":
        zero_N = np.exp(-mixtures.rates_NS).mean(axis=1)
        return np.asarray(zero_N[None, :] < levels_L[:, None], dtype=np.int64)
    given = Recursions.of(likelihood, mixtures.log_odds_RS)
    found_LN = np.full((len(levels_L), len(mixtures.rates_NS)), -1, dtype=np.int64)
    cuts = workers.ranges(found_LN.shape[1], _QUANTILES_PER_THREAD)
    workers.run([partial(_walk, *cut, *mixtures[:2], given, levels_L, _LONGEST_WALK, found_LN) for cut in cuts])
    hard = np.flatnonzero(found_LN[-1] < 0)
    pieces = [hard[slice(*cut)] for cut in workers.ranges(len(hard), 16)]
    workers.run([partial(_bisect, likelihood, mixtures, piece, levels_L, found_LN) for piece in pieces])
    return found_LN


@kernel
def _walk(
    first: int, last: int, rates_NS: Floats, odds_row_N: Ints, given: Recursions, levels_L: Floats, longest: int,
    found_LN: Ints,
) -> None:  # fmt: skip
    """Fill `found_LN` for cells `first` to `last` if a walk from zero of at most `longest` steps finds them."""
    scale_RS, slope_RS, step_RS, _ = given
    draws = rates_NS.shape[1]
    density_S = np.empty(draws)
    for n in range(first, last):
        row, total, near = odds_row_N[n], 0.0, True
        for s in range(draws):
            latent = scale_RS[row, s] * rates_NS[n, s]
            near = near and latent <= _FAR_FROM_ZERO
            density_S[s] = np.exp(-latent)
            total += density_S[s]
        if not near:
            continue
        level = 0
        for count in range(longest):
            while level < levels_L.size and total >= levels_L[level] * draws:
                found_LN[level, n] = count
                level += 1
            if level == levels_L.size:
                break
            for s in range(draws):
                ratio = slope_RS[row, s] * rates_NS[n, s] + step_RS[row, s] * count
                density_S[s] *= ratio / (count + 1.0)
                total += density_S[s]


def _bisect(
    likelihood: Likelihood, mixtures: Mixtures, places: NDArray[np.intp], levels_L: Floats, found_LN: Ints
) -> None:
    rates_HS, odds_row_H, log_odds_RS = mixtures.taken(places)
    log_odds_HS = log_odds_RS[odds_row_H]
    mean_HS, spread_HS = likelihood.mean(rates_HS, log_odds_HS), np.sqrt(likelihood.variance(rates_HS, log_odds_HS))
    for found_N, level in zip(found_LN, levels_L.tolist(), strict=True):
        least_H = (mean_HS - spread_HS * np.sqrt((1.0 - level) / level)).min(axis=1, initial=_MOST_COUNT)
        most_H = (mean_HS + spread_HS * np.sqrt(level / (1.0 - level))).max(axis=1, initial=0.0)
        low_H = np.clip(np.floor(least_H), 0.0, _MOST_COUNT).astype(np.int64)
        high_H = np.clip(np.ceil(most_H), 0.0, _MOST_COUNT).astype(np.int64)
        while (low_H < high_H).any():
            middle_H = (low_H + high_H) // 2
            enough_H = likelihood.cdf(middle_H[:, None], rates_HS, log_odds_HS).mean(axis=1) >= level
            low_H, high_H = np.where(enough_H, low_H, middle_H + 1), np.where(enough_H, middle_H, high_H)
        found_N[places] = high_H


def expected_counts(record: Record, coords_MN: Ints, threads: int) -> Floats:
    """Return the mean count of each cell under the likelihood, averaged over all draws of all chains."""
    total_N = np.zeros(coords_MN.shape[1])
    for rates_N, log_odds_N in rates_by_draw(record, coords_MN, threads):
        total_N += record.spec.observation.mean(rates_N, log_odds_N)
    return total_N / number_of_draws(record)


def log_predictive(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> Floats:
    """Return the log of the probability of each cell's count averaged over all draws, by logsumexp."""
    log_total_N, log_density = np.full(coords_MN.shape[1], -np.inf), record.spec.observation.log_density
    with Workers(threads) as workers:
        for given in rates_by_draw(record, coords_MN, threads):
            add_logs(lambda *of: (log_density(*of),), (counts_N, *given), (log_total_N,), workers, _CELLS_PER_THREAD)
    return np.asarray(log_total_N - np.log(number_of_draws(record)))


def add_logs(
    function: Callable[..., Sequence[Floats]], given: Sequence[Ints | Floats], log_sums: Sequence[Floats],
    workers: Workers, per_thread: int,
) -> None:  # fmt: skip
    """Add what a function of the counts, rates and log odds of cells gives to sums, all as logs."""

    def add(first: int, last: int) -> None:
        log_values = function(*(each_N[first:last] for each_N in given))
        for log_value_N, log_sum_N in zip(log_values, log_sums, strict=True):
            np.logaddexp(log_sum_N[first:last], log_value_N, out=log_sum_N[first:last])

    workers.run([partial(add, *cut) for cut in workers.ranges(len(given[0]), per_thread)])


def rates_by_draw(record: Record, coords_MN: Ints, threads: int) -> Iterator[tuple[Floats, Floats]]:
    """Return the rates of the cells and their log odds of the dispersion, draw after draw, chain after chain.

    The rate of an undirected tie is the sum of those of both directions.
    """
    tensor = record.tensor
    rows = [rows_of_cells(tensor.shape, each_MN) for each_MN in directions(coords_MN, tensor.undirected_modes)]
    with Workers(threads) as workers:
        for place in np.ndindex(record.core_values.shape[:2]):
            core, factors = record.core_values[place], [factor[place] for factor in record.factors]
            rates = (rates_at_rows(core, record.core_locations[place], factors, rows_MN, workers) for rows_MN in rows)
            yield reduce(np.add, rates), record.log_odds_of(place[0], place[1], coords_MN)


def log_odds_table(record: Record) -> Floats:
    """Return the log odds of the dispersion, (R, S): one row, or one for each row of the mode that they differ by."""
    draws = number_of_draws(record)
    if record.log_odds is None:
        return np.zeros((1, draws))
    return np.ascontiguousarray(record.log_odds.reshape(draws, -1).T)


def cell_mixtures(record: Record, coords_MN: Ints, threads: int) -> Mixtures:
    """Return the predictive distributions of cells: rates in all draws, and the places of log odds in a table."""
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
    """Return the draws of all chains together."""
    return record.core_values[..., 0].size


def sampled(record: Record, most: int) -> Record:
    """Return the record with at most `most` draws, spread evenly over chains and draws. Nothing is copied."""
    chains, draws = record.core_values.shape[:2]
    chain_step = -(-chains // most)
    draw_step = -(-draws // max(1, most // -(-chains // chain_step)))
    return record.with_draws((slice(None, None, chain_step), slice(None, None, draw_step)))


def expected_and_quantiles(
    record: Record, boxes: Boxes, levels_L: Floats, *, missing: bool, threads: int, draws_NS: Floats | None = None
) -> tuple[Floats, Ints]:
    """Return expected counts (N) and quantiles (L, N) at rising levels; fills `draws_NS` with those of each draw."""
    number = boxes.places_MN.shape[1]
    rate_N, quantiles_LN = np.empty(number), np.empty((len(levels_L), number), dtype=np.int64)
    # Sorted cells share products. Sums stay in their order: their random numbers and errors go by position.
    order_N = np.arange(number) if boxes.summed_N.any() else np.lexsort(boxes.places_MN[::-1])
    boxes = boxes.taken(order_N)
    tables = draw_tables(record, boxes, list(np.ndindex(record.core_values.shape[:2])))
    for cut in _blocks(record, boxes):
        chosen = order_N[cut]
        own_NS = None if draws_NS is None else np.empty((len(chosen), draws_NS.shape[1]))
        rate_N[chosen], quantiles_LN[:, chosen] = _block(
            record, boxes.taken(cut), cut.start, tables, levels_L, missing, threads, own_NS
        )
        if draws_NS is not None:
            draws_NS[chosen] = own_NS
    check_countable(rate_N, quantiles_LN)
    return rate_N, quantiles_LN


def check_countable(*numbers: NDArray[Any]) -> None:
    """Raise an InputError if expected counts or quantiles are infinite, or too large for whole numbers of 64 bits."""
    if not all((each < _MOST_COUNT).all() for each in numbers):
        raise InputError("cells", NO_VALUE, "must have expected counts and quantiles below 2^62 in every draw")


def simulate(record: Record, boxes: Boxes, draws: int, seed: int, *, missing: bool, threads: int) -> Ints:
    """Return simulated counts (draws, N): draw i takes the values of draw i S // draws of the S of the posterior."""
    every, number = list(np.ndindex(record.core_values.shape[:2])), boxes.places_MN.shape[1]
    source = np.arange(draws) * len(every) // draws
    terms = terms_of(record, boxes, 0, missing)
    used, repeats = np.unique(source, return_counts=True)
    counts_SN, i = np.empty((draws, number), dtype=np.int64), 0
    rates = term_rates(boxes, terms, draw_tables(record, boxes, every), used.tolist(), threads)
    for s, times, rates_T in zip(used.tolist(), repeats.tolist(), rates, strict=True):
        log_odds_T = log_odds_table(record)[terms.odds_row_T, s]
        check_countable(terms.added_up(record.spec.observation.mean(rates_T, log_odds_T), number))
        for _ in range(times):
            counts_T = record.spec.observation.draw(rates_T, log_odds_T, np.random.default_rng([seed, i]))
            counts_SN[i] = terms.added_up(counts_T, number)
            i += 1
    return counts_SN


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
    record: Record, boxes: Boxes, start: int, tables: DrawTables, levels_L: Floats, missing: bool, threads: int,
    draws_NS: Floats | None,
) -> tuple[Floats, Ints]:  # fmt: skip
    """Expected counts (N) and quantiles (L, N) of boxes from position `start` on; fills `draws_NS` with each draw's."""
    terms, number = terms_of(record, boxes, start, missing), boxes.places_MN.shape[1]
    if terms.pieces_MJ.shape[1] == len(terms.owner_T) == number:
        return _cells(record, boxes, terms, tables, levels_L, threads, draws_NS)
    likelihood, table_RS, draws = record.spec.observation, log_odds_table(record), number_of_draws(record)
    total_N, rates = np.zeros(number), Columns(number, draws)
    first_N, terms_N = np.searchsorted(terms.owner_T, np.arange(number)), np.bincount(terms.owner_T, minlength=number)
    # Boxes with several terms are simulated.
    sums, chosen_T = np.flatnonzero(terms_N > 1), np.flatnonzero(terms_N[terms.owner_T] > 1)
    sum_t, times = np.searchsorted(sums, terms.owner_T[chosen_T]), -(-_SIMULATIONS // draws)
    simulated_UI = np.empty((len(sums), draws * times))
    for s, rates_T in enumerate(term_rates(boxes, terms, tables, range(draws), threads)):
        log_odds_T = table_RS[terms.odds_row_T, s]
        expected_N = terms.added_up(likelihood.mean(rates_T, log_odds_T), number)
        check_countable(expected_N)
        total_N += expected_N
        if draws_NS is not None:
            draws_NS[:, s] = expected_N
        rates.add(s, rates_T[first_N])
        rng = np.random.default_rng([_SEED, start, s])
        for i in range(s * times, (s + 1) * times) if len(sums) else ():
            counts_t = likelihood.draw(rates_T[chosen_T], log_odds_T[chosen_T], rng)
            simulated_UI[:, i] = np.bincount(sum_t, counts_t, len(sums))
    with Workers(threads) as workers:
        mixtures = Mixtures(rates.table_NS, terms.odds_row_T[first_N], table_RS)
        quantiles_LN = mixture_quantiles(likelihood, mixtures, levels_L, workers)
    if len(sums):
        quantiles_LN[:, sums] = np.quantile(simulated_UI, levels_L, axis=1, method="inverted_cdf")
    return total_N / draws, quantiles_LN


def _cells(
    record: Record, boxes: Boxes, terms: Terms, tables: DrawTables, levels_L: Floats, threads: int,
    draws_NS: Floats | None,
) -> tuple[Floats, Ints]:  # fmt: skip
    """The same for boxes with one term of one piece each: threads share the boxes, some draws at a time."""
    likelihood, table_RS, draws = record.spec.observation, log_odds_table(record), number_of_draws(record)
    rows_MN, row_N = rows_of_terms(boxes, terms), terms.odds_row_T
    total_N, rates_NS = np.zeros(len(row_N)), np.empty((len(row_N), draws))
    held_SN = np.empty((_DRAWS_AT_ONCE, len(row_N)))

    def add(first: int, last: int, start: int, given: list[tuple[Floats, Floats]]) -> None:
        for place, (core_Q, phi_RQ) in enumerate(given):
            fill_rates(first, last, rows_MN, phi_RQ, core_Q, held_SN[place])
            expected_N = likelihood.mean(held_SN[place, first:last], table_RS[row_N[first:last], start + place])
            check_countable(expected_N)
            total_N[first:last] += expected_N
            if draws_NS is not None:
                draws_NS[first:last, start + place] = expected_N
        rates_NS[first:last, start : start + len(given)] = held_SN[: len(given), first:last].T

    with Workers(threads) as workers:
        cuts = workers.ranges(len(row_N), _CELLS_PER_THREAD)
        for start in range(0, draws, _DRAWS_AT_ONCE):
            given = [tables(s) for s in range(start, min(start + _DRAWS_AT_ONCE, draws))]
            workers.run([partial(add, *cut, start, given) for cut in cuts])
        quantiles_LN = mixture_quantiles(likelihood, Mixtures(rates_NS, row_N, table_RS), levels_L, workers)
    return total_N / draws, quantiles_LN


def expected_sums_of_pairs(record: Record, modes: tuple[int, int], pairs_2N: Ints, threads: int) -> Floats:
    """Return the expected counts of pairs of rows of two modes, summed over the observed cells of the other modes."""
    shape, places = record.tensor.shape, list(np.ndindex(record.core_values.shape[:2]))
    places_MN = np.tile(np.array(shape)[:, None], pairs_2N.shape[1])  # the first set of a mode: all of its rows
    places_MN[list(modes)] = pairs_2N
    common_N, pair = None, record.tensor.undirected_modes
    if pair is not None:  # of a row and all rows, or of two rows
        (one_N, other_N), every = places_MN[list(pair)], shape[pair[0]]
        common_N = np.where(one_N == every, other_N, np.where(other_N == every, one_N, -1))
    boxes = Boxes(places_MN, tuple((np.arange(length),) for length in shape), shape, common_N)
    log_odds_RS, mean, total_N = log_odds_table(record), record.spec.observation.mean, np.zeros(pairs_2N.shape[1])
    tables = draw_tables(record, boxes, places)
    for cut in _blocks(record, boxes):
        block = boxes.taken(cut)
        terms = terms_of(record, block, cut.start, missing=False)
        for s, rates_T in enumerate(term_rates(block, terms, tables, range(len(places)), threads)):
            total_N[cut] += terms.added_up(mean(rates_T, log_odds_RS[terms.odds_row_T, s]), cut.stop - cut.start)
    return total_N / len(places)


def drawn(record: Record) -> Record:
    """Return the record after a check that it has draws."""
    if not record.core_values.shape[1]:
        sweeps, burn_in = record.stats["moved"].shape[1], record.schedule.burn_in
        raise InputError("run", NO_VALUE, f"has no draws yet: it is at sweep {sweeps}, and the burn-in takes {burn_in}")
    return record


def checked_interval(interval: object) -> float:
    """Return the probability of an interval after a check that it is above 0 and below 1."""
    if not (isinstance(interval, float | np.floating) and interval > 0.0 and 0.5 + float(interval) / 2 < 1.0):
        raise InputError("interval", interval, "must be a number above 0 and below 1")
    return float(interval)


def boxes_and_labels(record: Record, cells: object) -> tuple[Boxes, pd.DataFrame]:
    """Return the boxes that `cells` names, and a frame with a row of labels for each."""
    if isinstance(cells, np.ndarray) or hasattr(cells, "coords"):
        boxes, asked = boxes_of_cells(checked_coords(cells, record.tensor), record.tensor)
    else:
        boxes, asked = named_cells(cells, record.tensor)
    most = number_of_terms(record, boxes).max(initial=0.0)
    if record.spec.likelihood == "bernoulli" and most > MOST_BERNOULLI_CELLS:
        rule = f"must have at most {MOST_BERNOULLI_CELLS:,} under the Bernoulli likelihood, which visits every cell"
        raise InputError("cells", Described(f"a sum of {most:,.0f} cells"), rule)
    return boxes, asked


def predict_cells(
    record: Record, cells: object, interval: float, *, threads: int, draws: bool = False, missing: bool = False
) -> tuple[pd.DataFrame, Floats | None]:
    """Return the table of `Posterior.predict`, and the expected counts in each draw (n, draws) if asked for."""
    half = checked_interval(interval) / 2
    boxes, asked = boxes_and_labels(drawn(record), cells)
    draws_NS = np.empty((boxes.places_MN.shape[1], number_of_draws(record))) if draws else None
    expected_N, (low_N, high_N) = expected_and_quantiles(
        record, boxes, np.array([0.5 - half, 0.5 + half]), missing=missing, threads=threads, draws_NS=draws_NS
    )
    return with_results(asked, {"expected": expected_N, "low": low_N, "high": high_N}), draws_NS


def cell_quantiles(
    record: Record, cells: object, levels: Sequence[float], *, threads: int, missing: bool = False
) -> pd.DataFrame:
    """Return the expected counts of cells and sums of cells, and a column of quantiles for each level."""
    try:
        levels_L = np.atleast_1d(np.asarray(levels)).astype(np.float64, casting="safe")
    except (TypeError, ValueError):
        levels_L = np.empty(0)
    if levels_L.ndim != 1 or not levels_L.size or not ((levels_L > 0.0) & (levels_L < 1.0)).all():
        raise InputError("levels", levels, "must list numbers above 0 and below 1")
    if (np.diff(levels_L) <= 0.0).any():
        raise InputError("levels", levels, "must be in increasing order")
    boxes, asked = boxes_and_labels(drawn(record), cells)
    expected_N, found_LN = expected_and_quantiles(record, boxes, levels_L, missing=missing, threads=threads)
    columns = {str(level): each_N for level, each_N in zip(levels_L.tolist(), found_LN, strict=True)}
    return with_results(asked, {"expected": expected_N, **columns})


def simulate_cells(
    record: Record, cells: object, draws: int | None, *, seed: int, threads: int, missing: bool = False
) -> Ints:
    """Return simulated counts (draws, n) of cells and sums of cells, as `Posterior.simulate` does."""
    boxes, _ = boxes_and_labels(drawn(record), cells)
    times = number_of_draws(record) if draws is None else whole_number("draws", draws)
    return simulate(record, boxes, times, whole_number("seed", seed, least=0), missing=missing, threads=threads)


def log_ppd(record: Record, test: CellCounts, *, positive_only: bool, allow_training: bool, threads: int) -> float:
    """Return the mean log predictive probability of cells, as `Posterior.log_ppd` does."""
    total, number = 0.0, 0
    for coords_MN, counts_N in blocks_to_score(test, drawn(record).tensor, allow_training, positive_only=positive_only):
        total += float(log_predictive(record, coords_MN, counts_N, threads).sum())
        number += len(counts_N)
    return total / number
