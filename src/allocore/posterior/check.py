"""Posterior predictive checks: whole tensors simulated from the draws, and how the data compare with them.

A tensor of the posterior predictive distribution, given one draw (Zhou and Carin 2015 for the compound Poisson form):

    N_q ~ Poisson( lambda_q prod_m S_m[k[q,m]] )      latent events of class q, with S_m[k] = sum_d c_d phi[m][d,k]
    rows of an event, mode by mode: d with probability c_d phi[m][d, k[q,m]] / S_m[k[q,m]]
    poisson             the count of a cell is the number of its events                                  c = 1
    negative-binomial   the sum of a Logarithmic(p) variable for each of its events                      c = -ln(1 - p)
    bernoulli           whether it has any                                                               c = 1

Events in missing cells are dropped. With a p for each row of a mode, c and p are those of the row; otherwise c is one
number, which multiplies all N_q. Time grows with the events, never with the number of cells.

Statistics need little of a tensor: the totals of its rows, how many cells have each count, and which actors are tied.
These are added up block by block, so no tensor is in memory as a whole. The data come in the blocks that the tensor has
(the shards of a tensor on disk); a simulated tensor with many events is drawn in ranges of the rows of one mode, whose
events are independent.

Statistics of the data are compared with those of S simulated tensors (Gelman, Meng and Stern 1996). The p-value of one
statistic is two-sided: twice the smaller of (1 + number of simulated values >= observed) / (1 + S) and the same with
<=. Many statistics, and hundreds of totals by label, are judged at once, so findings use adjusted p-values (maxT of
Westfall and Young 1993). Each of the S + 1 tensors, the data included, gets a distance in each statistic,

    |value - median| / (distance from the median to the end of the 90% interval on that side)

and its largest distance T over all statistics. The adjusted p-value of a statistic is the share of the S + 1 tensors
whose T is at least the distance of the data. Totals by label enter twice for each mode: by the share of labels outside
their 90% intervals, and by the label that is furthest off, relative to the 95% quantile of that over all tensors.

So if the data come from the model and one of the draws, they are exchangeable with the simulated tensors, and at least
one finding has a probability of at most 5%, for any number of statistics and labels; 24 of 600 such tensors had one.
A fit that has seen the data is closer to them. Of 100 fits each of simulated networks (14 x 14 x 5 x 12, some 3,000
counts, 100 tensors a check, factors sparser than their prior), 4 had a finding under the Poisson likelihood, always the
clustering coefficient, and none under the negative binomial or Bernoulli.

The *width* of a mode is the factor by which the 90% intervals of its totals would have to be wider for 90% of the
totals to be inside. It is above 1 where cells share shocks that the model takes for independent.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from allocore._text import plain_number
from allocore.errors import Described, InputError
from allocore.findings import Finding, Level, sentences
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.model.likelihood import dispersion_of
from allocore.posterior.predict import number_of_draws
from allocore.progress import watched
from allocore.storage.record import Record
from allocore.tensor.coordinates import (
    DistinctValues,
    Integers,
    canonical,
    coordinate_type,
    run_starts,
    sums_by_row,
)
from allocore.tensor.count_tensor import CountTensor, missing_diagonals
from allocore.tensor.labels import label_kind
from allocore.tensor.missing import WILDCARD, Missing, covered
from allocore.tensor.sharded import stays_on_disk
from allocore.tensor.undirected import as_pairs, directions

LEAST_TENSORS = 40  # with fewer, no adjusted p-value is clearly below 5%
_MOST_EVENTS = 2**30  # of one tensor; a thousand million events take minutes
_EVENTS_AT_ONCE, _EVENTS_OF_A_BLOCK = 2_000_000, 2**22
# A brief check simulates about this many events: some seconds on one processor.
_BRIEF_EVENTS, _BRIEF_TENSORS = 20_000_000, 60
_ENDS = (0.05, 0.5, 0.95)
_INSIDE, _ERROR_RATE = 0.9, 0.05
_TOP_SHARE = 0.01
_MOST_LABELS = 20_000  # of a mode; the heaviest are compared
_WORST_LABELS = 3
_ROWS_AT_ONCE = 1024
# The data are clearly unlike the model if one of these statistics differs from it by more than this share. With many
# counts, smaller differences are significant too: 3% and 9% for fits of ICEWS and of flights that predict well.
_ABOUT_ALL_CELLS, _CLEARLY_OFF = ("total", "non-zero cells"), 0.1
_LARGEST_P = float(np.nextafter(1.0, 0.0))


Block = tuple[Integers, Ints]  # some cells (M, N) and their counts


def simulated_blocks(record: Record, chain: int, draw: int, rng: np.random.Generator) -> Iterator[Block]:
    """Yield the non-zero cells of a tensor simulated from one draw and their counts: one block if it has few events."""
    classes = _Classes.of(record, chain, draw)
    if not classes.events <= _MOST_EVENTS:
        given = Described(f"a run with a draw of {classes.events:.3g} expected events")
        raise InputError("post", given, f"must have at most {_MOST_EVENTS:,} in a draw, each of which is simulated")
    for part in classes.in_parts(record.tensor.undirected_modes or ()):
        yield _simulated(record, chain, draw, part, rng)


def _simulated(record: Record, chain: int, draw: int, classes: "_Classes", rng: np.random.Generator) -> Block:
    """The cells that have events of these classes, sorted, and their counts."""
    cells_MN, latent_N = _latent_counts(classes, record.tensor.shape, rng)
    observed_N = ~covered(cells_MN, record.tensor.missing)
    cells_MN, latent_N = cells_MN[:, observed_N], latent_N[observed_N]
    if (pair := record.tensor.undirected_modes) is not None:
        cells_MN, latent_N = canonical(as_pairs(cells_MN, pair), latent_N, record.tensor.shape)
    if record.spec.likelihood == "bernoulli":
        return cells_MN, np.ones_like(latent_N)
    if record.log_odds is None or not len(latent_N):
        return cells_MN, latent_N
    p_N = np.minimum(dispersion_of(record.log_odds_of(chain, draw, cells_MN.astype(np.int64))), _LARGEST_P)
    sizes = rng.logseries(p_N[0] if record.spec.dispersion_by is None else np.repeat(p_N, latent_N), latent_N.sum())
    return cells_MN, np.add.reduceat(sizes, np.cumsum(latent_N) - latent_N)


def expected_events(record: Record, chain: int, draw: int) -> float:
    """Return the expected number of latent events of a draw, those in missing cells included."""
    return _Classes.of(record, chain, draw).events


class _Classes(NamedTuple):
    """The classes of a draw: expected events, the factor of each in every mode, and factors with their column sums.

    The factors have the rows of a range, which begins with the row `first` of each mode.
    """

    rate_Q: Floats
    subs_QM: Ints
    weights: list[Floats]
    sums: list[Floats]
    first: list[int]

    @classmethod
    def of(cls, record: Record, chain: int, draw: int) -> "_Classes":
        core_Q, subs_QM = record.included_classes(chain, draw)
        weights = [np.asarray(factor[chain, draw], dtype=np.float64) for factor in record.factors]
        rate_Q, mode = np.array(core_Q, dtype=np.float64), record.spec.dispersion_by
        if record.log_odds is not None:
            scale = record.spec.observation.latent_scale(record.log_odds[chain, draw])
            if mode is None:
                rate_Q *= scale
            else:
                weights[mode] = weights[mode] * scale[:, None]
        sums = [each_DK.sum(axis=0) for each_DK in weights]
        for m, sums_K in enumerate(sums):
            rate_Q *= sums_K[subs_QM[:, m]]
        return cls(rate_Q, np.asarray(subs_QM), weights, sums, [0] * len(weights))

    @property
    def events(self) -> float:
        """How many events are expected."""
        return float(self.rate_Q.sum())

    def in_parts(self, whole: Sequence[int]) -> Iterator["_Classes"]:
        """Cut the rows of a mode other than those that stay whole, so that a part has few events, or only one row."""
        modes = [m for m in range(len(self.weights)) if m not in whole]
        if self.events <= _EVENTS_OF_A_BLOCK or not modes:
            yield self
            return
        events = {m: self._events_by_row(m) for m in modes}
        mode = min(modes, key=lambda m: float(events[m].max()))
        block_D = np.floor(np.cumsum(events[mode]) / _EVENTS_OF_A_BLOCK)
        starts = run_starts(block_D.astype(np.int64)).tolist()
        for start, end in pairwise([*starts, len(block_D)]):
            yield self._of_rows(mode, slice(start, end))

    def _events_by_row(self, mode: int) -> Floats:
        used_K = np.bincount(self.subs_QM[:, mode], self.rate_Q, len(self.sums[mode]))
        share_K = np.divide(used_K, self.sums[mode], out=np.zeros_like(used_K), where=used_K > 0.0)
        return np.asarray((self.weights[mode] * share_K).sum(axis=1))

    def _of_rows(self, mode: int, rows: slice) -> "_Classes":
        weights, sums, first = list(self.weights), list(self.sums), list(self.first)
        weights[mode], first[mode] = weights[mode][rows], rows.start
        sums[mode] = weights[mode].sum(axis=0)
        share_K = np.divide(sums[mode], self.sums[mode], out=np.zeros_like(sums[mode]), where=self.sums[mode] > 0.0)
        return _Classes(self.rate_Q * share_K[self.subs_QM[:, mode]], self.subs_QM, weights, sums, first)


def _latent_counts(classes: _Classes, shape: tuple[int, ...], rng: np.random.Generator) -> Block:
    """The cells of all latent events, missing cells included, and the number of events in each."""
    ends_Q = np.concatenate([[0], np.cumsum(rng.poisson(classes.rate_Q))])
    cells_MN: Integers = np.empty((len(shape), 0), dtype=coordinate_type(shape))
    latent_N: Ints = np.empty(0, dtype=np.int64)
    for start in range(0, int(ends_Q[-1]), _EVENTS_AT_ONCE):
        events_Q = np.diff(np.clip(ends_Q, start, start + _EVENTS_AT_ONCE))
        new_ME = np.array([_rows(classes, mode, events_Q, rng) + first for mode, first in enumerate(classes.first)])
        new = canonical(new_ME, np.ones(new_ME.shape[1], dtype=np.int64), shape)
        if not len(latent_N):
            cells_MN, latent_N = new
        else:
            both = np.concatenate([cells_MN, new[0]], axis=1), np.concatenate([latent_N, new[1]])
            cells_MN, latent_N = canonical(*both, shape)
    return cells_MN, latent_N


def _rows(classes: _Classes, mode: int, events_Q: Ints, rng: np.random.Generator) -> Ints:
    """The rows of events in a mode, class after class. Events whose classes share a factor are drawn together."""
    factor_Q, length = classes.subs_QM[:, mode], len(classes.weights[mode])
    order_Q = np.argsort(factor_Q, kind="stable")
    rows_E = np.empty(int(events_Q.sum()), dtype=np.int64)
    events_K = np.bincount(factor_Q, events_Q).astype(np.int64)
    end = 0
    for k in np.flatnonzero(events_K).tolist():
        probability_D = classes.weights[mode][:, k] / classes.sums[mode][k]
        start, end = end, end + int(events_K[k])
        if end - start < length:  # the second way takes as long as the mode has rows
            uniform_E = rng.random(end - start) * probability_D.sum()
            rows_E[start:end] = np.searchsorted(np.cumsum(probability_D), uniform_E, side="right").clip(0, length - 1)
            continue
        rows_E[start:end] = np.repeat(np.arange(length), rng.multinomial(end - start, probability_D))
        rng.shuffle(rows_E[start:end])
    if (np.diff(order_Q) > 0).all():
        return rows_E
    place_Q = np.empty(len(order_Q), dtype=np.int64)  # where the events of a class begin, sorted by factors
    place_Q[order_Q] = np.cumsum(events_Q[order_Q]) - events_Q[order_Q]
    first_Q = np.cumsum(events_Q) - events_Q
    return np.asarray(rows_E[np.arange(len(rows_E)) + np.repeat(place_Q - first_Q, events_Q)])


class _Tally(NamedTuple):
    """What the statistics need of a tensor: the totals of rows by mode, how many cells have each count, the network."""

    totals: list[Ints]
    frequencies: Mapping[int, int]
    network: Mapping[str, float]

    @classmethod
    def of(cls, blocks: Iterable[Block], tensor: CountTensor, pair: tuple[int, int] | None) -> "_Tally":
        """Add up the blocks of a tensor like `tensor`, in which `pair` are the modes of a network, if it has one."""
        totals = [np.zeros(length, dtype=np.int64) for length in tensor.shape]
        frequencies, ties = Counter[int](), DistinctValues()
        for cells_MN, counts_N in blocks:
            for totals_D, row_N in zip(totals, cells_MN, strict=True):
                totals_D += sums_by_row(row_N, counts_N, len(totals_D))
            frequencies.update(dict(zip(*(each.tolist() for each in np.unique_counts(counts_N)), strict=True)))
            if pair is not None:
                ties.add(cells_MN[pair[0]].astype(np.int64) * tensor.shape[pair[0]] + cells_MN[pair[1]])
        if pair is None:
            return cls(totals, frequencies, {})
        ends = np.divmod(ties.sorted(), tensor.shape[pair[0]])
        from_N, to_N = np.concatenate(directions(np.stack(ends), tensor.undirected_modes and (0, 1)), axis=1)
        return cls(totals, frequencies, network_statistics(from_N, to_N, tensor.shape[pair[0]]))


class _Statistic(NamedTuple):
    """A number that describes a tensor: its name, a function of its tally, and the least unit that matters."""

    name: str
    value: Callable[[_Tally], float]
    unit: float = 0.0


def _statistics(record: Record, pair: tuple[int, int] | None) -> Iterator[_Statistic]:
    """The statistics that apply to the tensor of a run, in which `pair` are the modes of a network, if it has one."""
    tensor = record.tensor
    top = math.ceil(_TOP_SHARE * tensor.nnz)
    yield _Statistic("total", lambda tally: float(tally.totals[0].sum()), 1.0)
    if record.spec.likelihood != "bernoulli":  # all counts are 1
        yield _Statistic("non-zero cells", lambda tally: float(sum(tally.frequencies.values())), 1.0)
        yield _Statistic("largest count", lambda tally: float(max(tally.frequencies, default=0)), 1.0)
        yield _Statistic("share of the top 1% of cells", lambda tally: top_share(tally.frequencies, top))
    for mode, labels in enumerate(tensor.labels):
        if label_kind(labels) in ("time", "order"):
            yield _over_time(tensor, mode)
    for name in NETWORK_STATISTICS if pair is not None else ():
        if tensor.undirected_modes is None:
            yield _Statistic(name, _of_network(name))
        elif name in _UNDIRECTED_STATISTICS:
            yield _Statistic(_UNDIRECTED_STATISTICS[name], _of_network(name))


def _of_network(name: str) -> Callable[[_Tally], float]:
    return lambda tally: tally.network[name]


def top_share(frequencies: Mapping[int, int], top: int) -> float:
    """Return the share of all counts that the `top` largest have, given how many cells have each count."""
    taken, left = 0, top
    for count, cells in sorted(frequencies.items(), reverse=True):
        taken += count * min(cells, left)
        left -= min(cells, left)
    return taken / max(1, sum(count * cells for count, cells in frequencies.items()))


def _over_time(tensor: CountTensor, mode: int) -> _Statistic:
    observed_D = tensor.missing.observed_rows(mode)

    def variance(tally: _Tally) -> float:
        totals_D = tally.totals[mode][observed_D].astype(np.float64)
        return float(totals_D.var(ddof=1)) if len(totals_D) > 1 else 0.0

    return _Statistic(f"variance of totals over {tensor.mode_names[mode]}", variance)


def network_modes(tensor: CountTensor) -> tuple[int, int] | None:
    """Return two modes of the same actors: with the same labels, or without labels and with a missing diagonal."""
    if tensor.undirected_modes is not None:
        return tensor.undirected_modes
    pairs = [pair for pair in combinations(range(tensor.ndim), 2) if tensor.labels[pair[0]] == tensor.labels[pair[1]]]
    masked = {group[:2] for group in missing_diagonals(tensor)}
    labelled = [pair for pair in pairs if isinstance(tensor.labels[pair[0]], tuple)]
    known = [pair for pair in labelled if pair in masked] or labelled
    return next(iter(known or [pair for pair in pairs if _without_diagonal(tensor, pair)]), None)


def _without_diagonal(tensor: CountTensor, pair: tuple[int, int]) -> bool:
    diagonal_DM = np.full((tensor.shape[pair[0]], tensor.ndim), WILDCARD)
    diagonal_DM[:, pair] = np.arange(len(diagonal_DM))[:, None]
    return tensor.missing.union(Missing(diagonal_DM, tensor.shape)) == tensor.missing


NETWORK_STATISTICS = (
    "mean degree",
    "standard deviation of out-degrees",
    "standard deviation of in-degrees",
    "reciprocity",
    "clustering coefficient",
)


_UNDIRECTED_STATISTICS = {
    "mean degree": "mean degree",
    "standard deviation of out-degrees": "standard deviation of degrees",
    "clustering coefficient": "clustering coefficient",
}


def network_statistics(from_N: Integers, to_N: Integers, actors: int) -> dict[str, float]:
    """Return degrees, reciprocity and global transitivity of the directed graph with these edges, repeats allowed."""
    loops_N = from_N == to_N
    ones, ends = np.ones(len(from_N) - int(loops_N.sum())), (from_N[~loops_N], to_N[~loops_N])
    directed = sparse.csr_array((ones, ends), (actors, actors))
    directed.data[:] = 1.0  # repeats have been added up
    edges, out_V, in_V = directed.nnz, directed.sum(axis=1), directed.sum(axis=0)
    both = directed.multiply(directed.T).sum()
    joined = sparse.csr_array(directed + directed.T)
    joined.data[:] = 1.0
    degree_V, closed = joined.sum(axis=1), 0.0
    for start in range(0, actors, _ROWS_AT_ONCE):
        some = joined[start : start + _ROWS_AT_ONCE]
        closed += (some @ joined).multiply(some).sum()
    paths = float((degree_V * (degree_V - 1.0)).sum())
    values = edges / actors, out_V.std(), in_V.std(), both / edges if edges else 0.0, closed / paths if paths else 0.0
    return dict(zip(NETWORK_STATISTICS, map(float, values), strict=True))


@dataclass(frozen=True, eq=False)
class Check:
    """Whether the model looks like the data, as `Posterior.check` returns it.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each statistic: `observed`; `expected`, `low` and `high`, the mean and the central 90% interval over
        the simulated tensors; the two-sided predictive `p_value`; and `p_adjusted`, which allows for all statistics
        and labels at once. For each mode, "labels of <mode> outside 90%" is the share of its labels whose totals are
        outside their intervals; only too many count.
    labels : pandas.DataFrame
        The same for the total of each label: `mode`, `label`, `observed`, `expected`, `low`, `high`, `p_value`,
        `p_adjusted`. Of a mode with more than 20,000 labels, the heaviest; labels that never have counts are left out.
    widths : mapping of str to float
        For each mode, the factor by which the 90% intervals of its totals would have to be wider to hold 90% of them.
    findings : tuple of Finding
        The verdict first, then each statistic and mode in which the data differ from the model: those whose adjusted
        p-value is at most 5%.
    simulated : pandas.DataFrame
        The statistics of each simulated tensor, one column for each.

    Examples
    --------
    >>> found = post.check(draws=40)
    >>> found.ok, len(found.simulated)
    (False, 40)
    >>> list(found.table.columns)
    ['observed', 'expected', 'low', 'high', 'p_value', 'p_adjusted']
    """

    table: pd.DataFrame
    labels: pd.DataFrame = field(repr=False)
    widths: Mapping[str, float]
    findings: tuple[Finding, ...]
    simulated: pd.DataFrame = field(repr=False)

    @property
    def level(self) -> Level:
        """The level of the verdict: "good", "caution", or "poor" if the total or the non-zeros differ by over 10%."""
        return self.findings[0].level

    @property
    def ok(self) -> bool:
        """Whether the data look like the simulated tensors: the level is "good"."""
        return self.level == "good"

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words; the first is the verdict."""
        return sentences(self.findings)

    def __str__(self) -> str:
        verdict, *others = self.sentences
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([f"{self.level.capitalize()}: {verdict}", "", numbers, "", *others])

    def _repr_html_(self) -> str:
        verdict, *others = self.sentences
        items = "".join(f"<li>{escape(each)}</li>" for each in others)
        numbers = self.table.to_html(float_format=lambda number: f"{number:.4g}")
        return f"<p><strong>{self.level.capitalize()}: {escape(verdict)}</strong></p>{numbers}<ul>{items}</ul>"


def check(record: Record, draws: int, seed: int) -> Check:
    """Compare the data of a run with tensors simulated from its draws, taken in turn."""
    second_ends = (record.tensor.undirected_modes or ())[1:]  # whose labels have the totals of the first
    modes = [_Labels.of(record.tensor, m) for m in range(record.tensor.ndim) if m not in second_ends]
    pair = network_modes(record.tensor)
    statistics = list(_statistics(record, pair))
    values_IJ = np.empty((draws + 1, len(statistics)))
    totals = [np.empty((draws + 1, len(each.rows_L)), dtype=np.int64) for each in modes]
    for i, blocks in enumerate(watched(_tensors(record, draws, seed), draws + 1, "simulating tensors")):
        tally = _Tally.of(blocks, record.tensor, pair)
        values_IJ[i] = [each.value(tally) for each in statistics]
        for totals_IL, each in zip(totals, modes, strict=True):
            totals_IL[i] = each.totals(tally)
    return _judged(record, statistics, values_IJ, modes, totals)


def brief_draws(record: Record) -> int | None:
    """Return how many tensors a brief check simulates; None if the tensor stays on disk or even the fewest are slow."""
    if not record.core_values.shape[1] or stays_on_disk(record.tensor):
        return None
    affordable = _BRIEF_EVENTS / max(1.0, expected_events(record, 0, record.core_values.shape[1] - 1))
    return None if affordable < LEAST_TENSORS else int(min(_BRIEF_TENSORS, affordable))


def _tensors(record: Record, draws: int, seed: int) -> Iterator[Iterable[Block]]:
    """The data, then simulated tensors. Tensor i takes the values of draw i S // draws of the S of the posterior."""
    yield record.tensor.blocks()
    every, per_chain = number_of_draws(record), record.core_values.shape[1]
    for i in range(draws):
        chain, draw = divmod(i * every // draws, per_chain)
        yield simulated_blocks(record, chain, draw, np.random.default_rng([record.seed, seed, chain, draw, i]))


class _Labels(NamedTuple):
    """The labels of a mode that are compared. Undirected ties are counted at both ends."""

    mode: str
    ends: tuple[int, ...]
    rows_L: Ints
    names: list[str]

    @classmethod
    def of(cls, tensor: CountTensor, mode: int) -> "_Labels":
        rows_L = np.arange(tensor.shape[mode])
        if len(rows_L) > _MOST_LABELS:
            rows_L = np.sort(np.argsort(-tensor.mode_totals(mode), kind="stable")[:_MOST_LABELS])
        names = [str(tensor.labels[mode][row]) for row in rows_L.tolist()]
        pair = tensor.undirected_modes or ()
        return cls(tensor.mode_names[mode], pair if mode in pair else (mode,), rows_L, names)

    def totals(self, tally: _Tally) -> Ints:
        """The sum of the counts of each label."""
        return np.asarray(sum(tally.totals[end][self.rows_L] for end in self.ends))

    def taken(self, chosen_L: Flags) -> "_Labels":
        names = [self.names[n] for n in np.flatnonzero(chosen_L).tolist()]
        return self._replace(rows_L=self.rows_L[chosen_L], names=names)


def distances(values_IJ: Floats | Ints, unit_J: Floats | float) -> Floats:
    """Return how far each value is from the median of its column, in distances from there to the 5% or 95% quantile."""
    low_J, median_J, high_J = np.quantile(values_IJ, _ENDS, axis=0)
    least_J = np.maximum(unit_J, np.maximum(1e-9 * np.abs(median_J), np.finfo(float).tiny))
    scale_IJ = np.maximum(np.where(values_IJ >= median_J, high_J - median_J, median_J - low_J), least_J)
    return np.asarray((values_IJ - median_J) / scale_IJ)


def _judged(
    record: Record, statistics: Sequence[_Statistic], values_IJ: Floats, modes: Sequence[_Labels], totals: list[Ints]
) -> Check:
    active = [np.asarray(totals_IL.any(axis=0)) for totals_IL in totals]
    modes = [each.taken(chosen_L) for each, chosen_L in zip(modes, active, strict=True)]
    totals = [totals_IL[:, chosen_L] for totals_IL, chosen_L in zip(totals, active, strict=True)]
    off = [distances(totals_IL, 1.0) for totals_IL in totals]
    outside_IM = np.stack([(np.abs(off_IL) > 1.0).mean(axis=1) for off_IL in off], axis=1)
    furthest_IM = np.stack([np.abs(off_IL).max(axis=1) for off_IL in off], axis=1)
    far_M = np.maximum(np.quantile(furthest_IM, _ENDS[-1], axis=0), 1.0)
    units_J, labels_M = np.array([each.unit for each in statistics]), np.array([len(each.names) for each in modes])
    of_values_IJ = np.abs(distances(values_IJ, units_J))
    of_shares_IM = np.maximum(distances(outside_IM, 1.0 / labels_M), 0.0)
    largest_I = np.concatenate([of_values_IJ, of_shares_IM, furthest_IM / far_M], axis=1).max(axis=1)

    def adjusted(distance_J: Floats) -> Floats:
        return np.asarray((largest_I[1:, None] >= distance_J).sum(axis=0) + 1.0) / len(largest_I)

    table = pd.concat(
        [
            _compared(values_IJ, adjusted(of_values_IJ[0])),
            _compared(outside_IM, adjusted(of_shares_IM[0]), upper_only=True),
        ]
    )
    names = [*(each.name for each in statistics), *(f"labels of {each.mode} outside 90%" for each in modes)]
    table.index = pd.Index(names, name="statistic")
    labels = pd.concat(
        [
            _compared(totals_IL, adjusted(np.abs(off_IL[0]) / far)).assign(mode=each.mode, label=each.names)
            for totals_IL, off_IL, far, each in zip(totals, off, far_M, modes, strict=True)
        ],
        ignore_index=True,
    )
    labels = labels[["mode", "label", *table.columns]].astype({"observed": np.int64})
    widths = {each.mode: _width(labels[labels["mode"] == each.mode]) for each in modes}
    simulated = pd.DataFrame(np.concatenate([values_IJ, outside_IM], axis=1)[1:], columns=table.index)
    findings = tuple(_findings(record, table, labels, widths, len(simulated)))
    return Check(table, labels, widths, findings, simulated)


def _width(rows: pd.DataFrame) -> float:
    """The factor by which the intervals of totals must be wider, from the mean to each end, to hold 90% of them."""
    off = rows["observed"] - rows["expected"]
    side = np.where(off >= 0, rows["high"] - rows["expected"], rows["expected"] - rows["low"])
    return float(np.quantile(np.abs(off) / np.maximum(side, 1.0), _INSIDE, method="inverted_cdf"))


def _compared(values_IJ: Floats | Ints, adjusted_J: Floats, *, upper_only: bool = False) -> pd.DataFrame:
    """A row for each column of values: the first value, the others, and p-values."""
    observed_J, simulated_SJ = values_IJ[0], values_IJ[1:]
    low_J, high_J = np.quantile(simulated_SJ, _ENDS[::2], axis=0, method="inverted_cdf")
    more_J, fewer_J = (1.0 + (simulated_SJ >= observed_J).sum(axis=0)), (1.0 + (simulated_SJ <= observed_J).sum(axis=0))
    p_J = more_J if upper_only else np.minimum(2.0 * np.minimum(more_J, fewer_J), len(values_IJ))
    return pd.DataFrame(
        {
            "observed": observed_J,
            "expected": simulated_SJ.mean(axis=0),
            "low": low_J,
            "high": high_J,
            "p_value": p_J / len(values_IJ),
            "p_adjusted": adjusted_J,
        }
    )


def _findings(
    record: Record, table: pd.DataFrame, labels: pd.DataFrame, widths: Mapping[str, float], tensors: int
) -> Iterator[Finding]:
    numbers = table.iloc[: len(table) - len(widths)]
    off = numbers[numbers["p_adjusted"] <= _ERROR_RATE]
    modes = [
        mode
        for mode, share in zip(widths, table["p_adjusted"].iloc[len(numbers) :], strict=True)
        if min(share, labels["p_adjusted"][labels["mode"] == mode].min()) <= _ERROR_RATE
    ]
    known = {"statistics": len(numbers), "labels": len(labels), "tensors": tensors}
    if not len(off) and not modes:
        yield Finding("check-good", "good", known)
        return
    level: Level = "poor" if _clearly_unlike(off) else "caution"
    yield Finding("check-off", level, {**known, "off": tuple(map(str, off.index)), "modes": tuple(modes)})
    for name, row in off.iterrows():
        yield Finding("statistic-off", "caution", {"name": str(name), **_interval(row)})
    for mode in modes:
        yield _totals_off(
            mode, labels[labels["mode"] == mode], float(table["expected"][f"labels of {mode} outside 90%"])
        )
    wide = {mode: widths[mode] for mode in modes if widths[mode] > 1.0}
    if wide:
        yield Finding("narrow-sums", "caution", {"widths": wide})
    if record.spec.likelihood == "poisson" and _bursts(off):
        yield Finding("check-bursts", values={"has_priors": record.spec.has_priors})
    elif record.spec.likelihood == "negative-binomial" and modes:
        yield Finding("check-negative-binomial-sums")


def _clearly_unlike(off: pd.DataFrame) -> bool:
    rows = off[off.index.isin(_ABOUT_ALL_CELLS)]
    return bool(((rows["observed"] - rows["expected"]).abs() > _CLEARLY_OFF * rows["expected"]).any())


def _interval(row: "pd.Series[float]") -> dict[str, float]:
    return {name: float(row[name]) for name in ("observed", "expected", "low", "high")}


def _totals_off(mode: str, labels: pd.DataFrame, chance: float) -> Finding:
    outside = labels[(labels["observed"] < labels["low"]) | (labels["observed"] > labels["high"])]
    far = (labels["observed"] - labels["expected"]).abs().loc[outside.index].sort_values(ascending=False, kind="stable")
    worst = [
        {"label": str(row["label"]), **_interval(row[["observed", "expected", "low", "high"]].astype(float))}
        for _, row in labels.loc[far.index[:_WORST_LABELS]].iterrows()
    ]
    values = {"mode": mode, "labels": len(labels), "outside": len(outside), "chance": chance * len(labels)}
    return Finding("totals-off", "caution", {**values, "worst": worst})


def _bursts(off: pd.DataFrame) -> bool:
    """Whether the data have fewer non-zero cells, or larger counts, than the model simulates."""
    fewer = "non-zero cells" in off.index and off["observed"]["non-zero cells"] < off["low"]["non-zero cells"]
    larger = [name for name in ("largest count", "share of the top 1% of cells") if name in off.index]
    return bool(fewer or any(off["observed"][name] > off["high"][name] for name in larger))


HEADINGS = ("", "data", "simulated", "90% interval", "p", "adjusted p")
COLUMNS = (
    "Simulated: the mean over the simulated tensors. p: how often a simulated tensor is as far from the middle as the "
    "data. Adjusted p: the same for all statistics and labels at once; findings need at most 0.05."
)


def check_rows(table: pd.DataFrame) -> list[list[str]]:
    """The table as text, a list for each row: the name, the data, the mean, the interval and p-values."""
    rows = []
    for name, row in table.iterrows():
        share = "outside 90%" in str(name) or str(name).startswith("share")
        observed, expected, low, high = (
            f"{row[each]:.1%}" if share else plain_number(row[each]) for each in ("observed", "expected", "low", "high")
        )
        p_values = (f"{row[each]:.3f}" for each in ("p_value", "p_adjusted"))
        rows.append([str(name), observed, expected, f"{low} to {high}", *p_values])
    return rows


def sum_findings(found: Check) -> tuple[Finding, ...]:
    """Return what a check says about the intervals of sums: whether they are too narrow, and by how much."""
    return tuple(each for each in found.findings if each.kind == "narrow-sums")
