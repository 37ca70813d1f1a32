"""Baselines: simple models of the expected count mu of a cell, fitted to the training cells.

    one rate            the same expected count in every cell: all counts / all observed cells
    independence        mu_d = prod_m a[m][d_m], the product of margins
    mean over <mode>    (sum of y + one rate) / (number + 1), over the observed cells that differ in the last mode only
    degree product      mu_d = s (out(i) + 1/V) (in(j) + 1/V) prod a[m][d_m]            of a network of V actors, for
    common neighbours   mu_d = s (number of common neighbours of i and j + 1) prod a[m][d_m]          the pair (i, j)

The margins of the second are those of the observed cells: a[m][d] = y[m][d] / the sum over the observed cells of row
d of the product of the other a, mode after mode until nothing changes (iterative proportional fitting, which is maximum
likelihood for the Poisson). One count is spread evenly over the observed rows of each mode, so that no rate is zero; a
row without observed cells is like the average row. The third has one cell of the overall rate added, for the same
reason. It is left out if most cells have no observed neighbour in that mode, as in held-out fibres along it.

The last two score pairs as in link prediction (Liben-Nowell and Kleinberg 2007; the first is preferential attachment).
They need two modes with the same actors. Actors are tied if any training cell between them has a count, whatever its
layer or time, so a held-out fibre of one layer does not hide the ties of a pair in other layers. out and in are the
numbers of actors that i acts on and that act on j; neighbours are tied in either direction. The other modes, such as
layers and times, multiply by the margins of `independence`, and s makes the sum over the observed cells that of the
counts. Common neighbours are left out if a network has too many paths of two ties to count them in seconds.

In a fit with exposures, a cell has the product w of the weights of its labels. The first is then w s with one rate s
per unit; margins have the weights in them anyway, except those of rows without observed cells; and the third is a mean
per unit, w_d (sum of y + w s) / (sum of w_d + w_d), with the weights w_d of the last mode.

Each baseline has the likelihood of the run. For the negative binomial, r = mu (1 - p) / p with one p of the largest
likelihood given the mu of the observed cells, zeros included (likelihood_check.py); those of the third are
leave-one-out means there, or p would be too small. For the Bernoulli likelihood, mu is the probability of a one.

Undirected ties are taken in both directions, with the count of the pair in each.

Non-zeros are read in blocks, so those of a tensor in shards are never all in memory. Sums of counts are enough, except
for the dispersion. It needs the means of the non-zeros, of which a sample is judged, and the sum of the means of the
zeros. That of the third baseline is estimated from a sample of the fibres with counts; for the others, it is the total
less the means of all non-zeros, in a sum that is rounded once. A hash of the coordinates selects what is in a sample,
which is everything if there is not much of it. So no number depends on how the cells are stored.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import Expanded, SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.check import network_modes
from allocore.posterior.likelihood_check import likeliest_log_odds
from allocore.posterior.predict import Mixtures
from allocore.tensor.coordinates import DistinctValues, Integers, column_keys, hashes, locate
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.missing import WILDCARD, Missing, by_fixed_modes, signed_patterns
from allocore.tensor.undirected import directions

Exposures = Sequence[Floats | None]
_Expected = Callable[[Integers], Floats]

_MOST_CYCLES, _CONVERGED = 1000, 1e-10
_MOST_PROBABLE = 0.999
_MOST_PATHS, _PAIRS_AT_ONCE = 200_000_000, 2**16
_CELLS_AT_ONCE, _MOST_NONZEROS, _MOST_FIBRES = 2**20, 100_000, 2_000_000


class Means(NamedTuple):
    """Expected counts: of the N cells to judge, of the non-zeros in a sample, and the sum over the observed zeros."""

    cells_N: Floats
    sample_n: Floats
    zeros: float


class Fibres(NamedTuple):
    """Fibres with counts, or single non-zeros: all of them, or those that a hash selects, one of `step`.

    `coords` are positions in the other modes. `sums` are over the non-zeros: of counts, weights and squared weights.
    """

    coords_Mn: Integers
    sums_3n: Floats
    step: int

    def thinned(self, step: int) -> "Fibres":
        """Return one of `step` fibres."""
        some = np.flatnonzero(hashes(self.coords_Mn) % np.uint64(step) == 0)
        return Fibres(self.coords_Mn[:, some], self.sums_3n[:, some], step)


def baselines(
    tensor: CountTensor, likelihood: Likelihood, coords_MN: Ints, exposures: Exposures = ()
) -> Iterator[tuple[str, Mixtures]]:
    """Return the name of each baseline and what it predicts for some cells; a fit may have `exposures`, by mode."""
    weights = weights_of(tensor, exposures)
    sample = fibres_with_counts(tensor, None, weights, _MOST_NONZEROS) if likelihood.has_dispersion else None
    yield "one rate", _predicted(tensor, likelihood, one_rate(tensor, coords_MN, weights, sample), sample)
    margins = fitted_margins(tensor, weights)
    yield "independence", _predicted(tensor, likelihood, independence(tensor, coords_MN, margins, sample), sample)
    means = mean_over(tensor, coords_MN, tensor.ndim - 1, weights, sample)
    if means is not None:
        yield name_of_mean(tensor), _predicted(tensor, likelihood, means, sample)
    if (modes := network_modes(tensor)) is not None:
        ties = Ties.of(tensor, modes)
        for scores in pair_scores(tensor, ties, coords_MN):
            means = by_pair(tensor, coords_MN, ties, scores, margins, sample)
            yield scores.name, _predicted(tensor, likelihood, means, sample)


def blocks_of(tensor: CountTensor) -> Iterator[tuple[Integers, Ints]]:
    """Yield the non-zeros in short blocks, undirected ties in both directions."""
    for coords_MN, counts_N in tensor.blocks():
        for start in range(0, len(counts_N), _CELLS_AT_ONCE):
            some = slice(start, start + _CELLS_AT_ONCE)
            yield from ((each, counts_N[some]) for each in directions(coords_MN[:, some], tensor.undirected_modes))


def _ways(tensor: CountTensor) -> int:
    """Return how many directions each tie is counted in."""
    return 1 if tensor.undirected_modes is None else 2


def fibres_with_counts(tensor: CountTensor, along: int | None, weights: Sequence[Floats], most: int) -> Fibres:
    """Return the fibres along a mode that have counts, or without a mode the non-zeros: at most `most` of them."""
    others = [m for m in range(tensor.ndim) if m != along]
    lengths = [tensor.shape[m] for m in others]
    found = Fibres(np.empty((len(others), 0), dtype=np.int64), np.empty((3, 0)), 1)
    waiting, number = list[Fibres](), 0
    for cells_MN, counts_N in blocks_of(tensor):
        own_N = np.ones(len(counts_N)) if along is None else weights[along][cells_MN[along]]
        block = Fibres(cells_MN[others], np.stack([counts_N, own_N, own_N**2]), 1)
        waiting.append(block if found.step == 1 else block.thinned(found.step))
        number += waiting[-1].sums_3n.shape[1]
        if number > most:
            found, waiting, number = _added_up([found, *waiting], lengths, found.step, most), [], 0
    return _added_up([found, *waiting], lengths, found.step, most)


def _added_up(parts: Sequence[Fibres], lengths: Sequence[int], step: int, most: int) -> Fibres:
    """Add up the parts of each fibre. While there are more than `most` fibres, keep about half of them."""
    coords_Mn, sums_3n = (np.concatenate(each, axis=1) for each in list(zip(*parts, strict=True))[:2])
    (keys_n,) = column_keys(lengths, coords_Mn)
    _, first, fibre_n = np.unique(keys_n, return_index=True, return_inverse=True)
    found = Fibres(coords_Mn[:, first], np.stack([np.bincount(fibre_n, each, len(first)) for each in sums_3n]), step)
    while found.sums_3n.shape[1] > most:
        found = found.thinned(2 * found.step)
    return found


def weights_of(tensor: CountTensor, exposures: Exposures = ()) -> list[Floats]:
    """The weights of the rows of each mode, which are 1 without exposures."""
    given = exposures or [None] * tensor.ndim
    return [np.ones(size) if each is None else each for size, each in zip(tensor.shape, given, strict=True)]


def name_of_mean(tensor: CountTensor) -> str:
    """Return the name of the mean over the last mode."""
    return f"mean over {tensor.mode_names[-1]}"


def _predicted(tensor: CountTensor, likelihood: Likelihood, means: Means, sample: Fibres | None) -> Mixtures:
    log_odds, rates_N = 0.0, means.cells_N
    if sample is not None:
        counts_n, nonzeros = sample.sums_3n[0].astype(np.int64), tensor.nnz * _ways(tensor)
        log_odds, _ = likeliest_log_odds(counts_n, means.sample_n, nonzeros, means.zeros)
        rates_N = rates_N * np.exp(-log_odds)
    elif likelihood.name == "bernoulli":
        rates_N = -np.log1p(-np.minimum(rates_N, _MOST_PROBABLE))
    return Mixtures(rates_N[:, None], np.zeros(len(rates_N), dtype=np.int64), np.full((1, 1), log_odds))


def _means(tensor: CountTensor, cells_N: Floats, sample: Fibres | None, expected: _Expected) -> Means:
    """The expected counts of some cells, and of the non-zeros by a function whose sum over observed cells is theirs."""
    if sample is None:
        return Means(cells_N, np.empty(0), math.nan)
    of_nonzeros = math.fsum(chain.from_iterable(expected(coords).tolist() for coords, _ in blocks_of(tensor)))
    return Means(cells_N, expected(sample.coords_Mn), tensor.total * _ways(tensor) - of_nonzeros)


def one_rate(tensor: CountTensor, coords_MN: Ints, weights: Sequence[Floats], sample: Fibres | None = None) -> Means:
    """The same expected count per unit everywhere."""
    rate = overall_rate(tensor, weights)

    def expected(coords: Integers) -> Floats:
        return rate * product_of(weights, coords)

    return _means(tensor, expected(coords_MN), sample, expected)


def overall_rate(tensor: CountTensor, weights: Sequence[Floats]) -> float:
    """The sum of all counts by that of the weights of all observed cells."""
    return tensor.total * _ways(tensor) / observed_weight(tensor.missing, weights)


def product_of(rows: Sequence[Floats], coords_MN: Integers) -> Floats:
    """The product over the modes of the numbers of a cell's rows."""
    return np.asarray(np.prod([row_D[place_N] for row_D, place_N in zip(rows, coords_MN, strict=True)], axis=0))


def observed_weight(missing: Missing, weights: Sequence[Floats]) -> float:
    """The sum over the observed cells of the products of their weights."""
    patterns_PM, signs_P = signed_patterns(missing)
    sums_P = np.ones(len(signs_P))
    for weight_D, place_P in zip(weights, patterns_PM.T, strict=True):
        sums_P *= np.where(place_P == WILDCARD, weight_D.sum(), weight_D[place_P])
    return float(np.prod([weight_D.sum() for weight_D in weights]) - sums_P @ signs_P)


def independence(
    tensor: CountTensor, coords_MN: Ints, margins: Sequence[Floats], sample: Fibres | None = None
) -> Means:
    """The product of margins, as `fitted_margins` returns them."""
    return _means(tensor, product_of(margins, coords_MN), sample, partial(product_of, margins))


def fitted_margins(tensor: CountTensor, weights: Sequence[Floats]) -> list[Floats]:
    """A vector a[m] for each mode, so that the margins of prod_m a[m][d_m] over the observed cells are those given."""
    patterns, total = SignedPatterns.of(tensor.missing), float(tensor.total * _ways(tensor))
    ones = [np.ones(length) for length in tensor.shape]
    seen = [_exposures(patterns, ones, m) > 0.5 for m in range(tensor.ndim)]
    given: list[Floats] = [
        np.where(seen_D, _row_totals(tensor, m) + 1.0 / seen_D.sum(), 0.0) * total / (total + 1.0)
        for m, seen_D in enumerate(seen)
    ]
    margins = [np.where(seen_D, counts_D / total, 1.0 / total) for seen_D, counts_D in zip(seen, given, strict=True)]
    margins[-1] *= total
    for _ in range(_MOST_CYCLES):
        change = 0.0
        for m, (seen_D, counts_D) in enumerate(zip(seen, given, strict=True)):
            exposure_D = _exposures(patterns, margins, m)
            new_D = weights[m] * (total / (weights[m] * exposure_D)[seen_D].sum())
            new_D[seen_D] = counts_D[seen_D] / exposure_D[seen_D]
            change = max(change, float(np.abs(new_D / margins[m] - 1.0).max()))
            margins[m] = new_D
        if change < _CONVERGED:
            break
    return margins


def _row_totals(tensor: CountTensor, mode: int) -> Ints:
    """The sum of the counts of each row, with undirected ties in both directions."""
    has_both = mode in (tensor.undirected_modes or ())
    return tensor.mode_totals(mode) * (1 if has_both else _ways(tensor))


def _exposures(patterns: SignedPatterns, margins: Sequence[Floats], mode: int) -> Floats:
    """For each row of a mode, the sum over its observed cells of the product of the other margins."""
    expanded = Expanded(np.concatenate(margins)[:, None], np.array([[each.sum()] for each in margins]))
    return patterns.sums_by_row(expanded, mode, Workers(1))[:, 0]


def mean_over(
    tensor: CountTensor, coords_MN: Ints, mode: int, weights: Sequence[Floats], sample: Fibres | None = None
) -> Means | None:
    """The mean of the observed cells that differ from a cell in one mode only; None if most cells have none."""
    number_N = tensor.shape[mode] - missing_in_fibres(tensor.missing, coords_MN, mode)
    if np.count_nonzero(number_N) * 2 < len(number_N):
        return None
    weight_D, rate = weights[mode], overall_rate(tensor, weights)

    def observed(coords: Ints, power: int) -> Floats:  # the sums of the weights of the observed cells, or of squares
        return np.asarray((weight_D**power).sum() - missing_in_fibres(tensor.missing, coords, mode, weight_D**power))

    # The cell of the overall rate that is added has the weight of the cell that is judged.
    own_N, sums_N = weight_D[coords_MN[mode]], observed(coords_MN, 1)
    with_prior_N = fibre_totals(tensor, coords_MN, mode) + rate * product_of(weights, coords_MN)
    cells_N = own_N * with_prior_N / (np.where(number_N == 0, 0.0, sums_N) + own_N)
    if sample is None:
        return Means(cells_N, np.empty(0), math.nan)
    # Without the cell itself: the sum of y - y + the overall rate, per sum of the weights.
    coords_Mn = sample.coords_Mn.astype(np.int64)
    rest_n = fibre_totals(tensor, coords_Mn, mode) - sample.sums_3n[0] + rate * product_of(weights, coords_Mn)
    left_out_n = weight_D[coords_Mn[mode]] * rest_n / observed(coords_Mn, 1)
    return Means(cells_N, left_out_n, _zeros_of_fibres(tensor, mode, weights, observed))


def _zeros_of_fibres(
    tensor: CountTensor, mode: int, weights: Sequence[Floats], observed: Callable[[Ints, int], Floats]
) -> float:
    """The sum of the leave-one-out means of the observed zeros."""
    fibres = fibres_with_counts(tensor, mode, weights, _MOST_FIBRES)
    sum_F, own_F, own_squares_F = fibres.sums_3n
    others = [weights[m] for m in range(tensor.ndim) if m != mode]
    rate, product_F = overall_rate(tensor, weights), product_of(others, fibres.coords_Mn)
    coords_MF = np.insert(fibres.coords_Mn.astype(np.int64), mode, 0, axis=0)
    weight_F, squares_F = observed(coords_MF, 1), observed(coords_MF, 2)
    of_zeros_F = sum_F * (weight_F - own_F) + rate * product_F * (squares_F - own_squares_F)
    # Fibres without counts, except those that a pattern covers entirely; as if all had the same observed cells.
    patterns_PM = tensor.missing.patterns
    whole = np.delete(patterns_PM[patterns_PM[:, mode] == WILDCARD], mode, axis=1)
    without = Missing(whole, np.delete(tensor.shape, mode).tolist())
    empty = max(0.0, observed_weight(without, others) - fibres.step * float(product_F.sum()))
    seen_D = weights[mode][tensor.missing.observed_rows(mode)]
    return fibres.step * float((of_zeros_F / weight_F).sum()) + empty * rate * float((seen_D**2).sum() / seen_D.sum())


def fibre_totals(tensor: CountTensor, coords_MN: Ints, mode: int) -> Floats:
    """The sum of the counts in the fibre along a mode through each cell."""
    others = [m for m in range(tensor.ndim) if m != mode]
    lengths = [tensor.shape[m] for m in others]
    (keys_N,) = column_keys(lengths, coords_MN[others])
    _, first, fibre_N = np.unique(keys_N, return_index=True, return_inverse=True)
    fibres_MF, total_F = coords_MN[others][:, first], np.zeros(len(first))
    for cells_Mn, counts_n in blocks_of(tensor):
        keys_F, keys_n = column_keys(lengths, fibres_MF, cells_Mn[others])
        place_n = locate(keys_n, keys_F)
        known = place_n >= 0
        total_F += np.bincount(place_n[known], counts_n[known], len(total_F))
    return np.asarray(total_F[fibre_N])


def missing_in_fibres(missing: Missing, coords_MN: Ints, mode: int, weight_D: Ints | Floats | None = None) -> Any:
    """The number of missing cells in the fibre along a mode through each cell, or the sum of their weights.

    Signed patterns, joined to the cells.
    """
    weight_D = np.ones(missing.shape[mode], dtype=np.int64) if weight_D is None else weight_D
    patterns_PM, signs_P = signed_patterns(missing)
    weights_P = np.where(patterns_PM[:, mode] == WILDCARD, weight_D.sum(), weight_D[patterns_PM[:, mode]]) * signs_P
    others_PM = np.array(patterns_PM)
    others_PM[:, mode] = WILDCARD
    number_N = np.zeros(coords_MN.shape[1], dtype=weight_D.dtype)
    for fixed, chosen in by_fixed_modes(others_PM):
        modes, lengths = list(fixed), [missing.shape[m] for m in fixed]
        keys_N, keys_P = column_keys(lengths, coords_MN[modes], others_PM[chosen][:, modes].T)
        known, place_P = np.unique(keys_P, return_inverse=True)
        sums = np.bincount(place_P, weights_P[chosen]).astype(weight_D.dtype)
        place_N = locate(keys_N, known)
        number_N += np.where(place_N < 0, 0, sums[place_N])
    return number_N


class PairScores(Protocol):
    """A score of pairs of actors; where an actor is a WILDCARD, its sum over all actors."""

    name: str

    def __call__(self, from_P: Ints, to_P: Ints) -> Floats:
        """Return the scores of pairs, or their sums."""


class DegreeProduct:
    """The product of the number of actors that one acts on, and of those that act on the other."""

    name = "degree product"

    def __init__(self, ties_VV: "sparse.csr_array") -> None:
        actors = ties_VV.shape[0]
        self._out_V, self._in_V = (ties_VV.sum(axis=axis) + 1.0 / actors for axis in (1, 0))

    def __call__(self, from_P: Ints, to_P: Ints) -> Floats:
        """Return the scores of pairs, or their sums."""
        parts = zip((self._out_V, self._in_V), (from_P, to_P), strict=True)
        out_P, in_P = (np.where(row_P == WILDCARD, each_V.sum(), each_V[row_P]) for each_V, row_P in parts)
        return np.asarray(out_P * in_P)


class CommonNeighbours:
    """The number of actors that are tied to both, in either direction, and one."""

    name = "common neighbours"

    def __init__(self, ties_VV: "sparse.csr_array") -> None:
        self._tied_VV = sparse.csr_array(ties_VV + ties_VV.T)
        self._tied_VV.data[:] = 1.0
        self._degree_V = self._tied_VV.sum(axis=1)
        self._paths_V = self._tied_VV @ self._degree_V  # of two ties, from each actor

    def paths(self, from_P: Ints, to_P: Ints) -> int:
        """Return how many ties have to be visited to score these pairs."""
        return int(self._degree_V[from_P].sum() + self._degree_V[to_P].sum())

    def __call__(self, from_P: Ints, to_P: Ints) -> Floats:
        """Return the scores of pairs, or their sums."""
        actors, (anyone_P, to_anyone_P) = len(self._degree_V), (from_P == WILDCARD, to_P == WILDCARD)
        sum_P = np.where(anyone_P, self._paths_V[to_P], self._paths_V[from_P]) + actors
        sum_P[anyone_P & to_anyone_P] = self._paths_V.sum() + actors**2
        single = np.flatnonzero(~anyone_P & ~to_anyone_P)
        for start in range(0, len(single), _PAIRS_AT_ONCE):
            some = single[start : start + _PAIRS_AT_ONCE]
            shared = self._tied_VV[from_P[some]].multiply(self._tied_VV[to_P[some]])
            sum_P[some] = shared.sum(axis=1) + 1.0
        return np.asarray(sum_P)


class Ties(NamedTuple):
    """The pairs of actors with a count in any cell, self-loops included, as keys; and the modes of the actors."""

    keys_P: Ints
    modes: tuple[int, int]
    actors: int

    @classmethod
    def of(cls, tensor: CountTensor, modes: tuple[int, int]) -> "Ties":
        """Find the pairs of a tensor."""
        found, actors = DistinctValues(), tensor.shape[modes[0]]
        for coords_MN, _ in blocks_of(tensor):
            found.add(_pair_keys(actors, coords_MN[list(modes)]))
        return cls(found.sorted(), modes, actors)

    @property
    def ends(self) -> Ints:
        """The actors, (2, P)."""
        return np.stack(np.divmod(self.keys_P, self.actors))


def pair_scores(tensor: CountTensor, ties: Ties, coords_MN: Ints) -> Iterator[PairScores]:
    """Return the scores of the pairs of a network, by the ties of the tensor; self-loops are no ties."""
    from_P, to_P = ties.ends
    tied = from_P != to_P
    ties_VV = sparse.csr_array((np.ones(tied.sum()), (from_P[tied], to_P[tied])), (ties.actors, ties.actors))
    yield DegreeProduct(ties_VV)
    by_neighbours = CommonNeighbours(ties_VV)
    fixed_PM = np.array([pattern for pattern in tensor.missing.patterns[:, ties.modes] if WILDCARD not in pattern])
    given = [_distinct_pairs(ties.actors, coords_MN[list(ties.modes)])[0], ties.ends, fixed_PM.reshape(-1, 2).T]
    if sum(by_neighbours.paths(from_P, to_P) for from_P, to_P in given) <= _MOST_PATHS:
        yield by_neighbours


def _pair_keys(actors: int, pairs_2N: Integers) -> Ints:
    return np.asarray(pairs_2N[0].astype(np.int64) * actors + pairs_2N[1])


def _distinct_pairs(actors: int, pairs_2N: Integers) -> tuple[Ints, Ints]:
    """The distinct pairs, (2, P), and which of them each one is."""
    keys, pair_N = np.unique(_pair_keys(actors, pairs_2N), return_inverse=True)
    return np.stack(np.divmod(keys, actors)), pair_N


def by_pair(
    tensor: CountTensor, coords_MN: Ints, ties: Ties, scores: PairScores, margins: Sequence[Floats],
    sample: Fibres | None = None,
) -> Means:  # fmt: skip
    """Scores of pairs times the margins of the other modes, scaled to the sum of the observed counts."""
    modes, others = list(ties.modes), [m for m in range(tensor.ndim) if m not in ties.modes]
    patterns_PM, signs_P = signed_patterns(tensor.missing)
    boxes_PM = np.vstack([np.full((1, tensor.ndim), WILDCARD), patterns_PM])
    sums = [np.where(boxes_PM[:, m] == WILDCARD, margins[m].sum(), margins[m][boxes_PM[:, m]]) for m in others]
    sum_P = np.prod(sums, axis=0) * scores(boxes_PM[:, modes[0]], boxes_PM[:, modes[1]])
    scale = tensor.total * _ways(tensor) / float(sum_P @ np.append(1.0, -signs_P))
    of_others = [margins[m] for m in others]
    pairs_2P, pair_N = _distinct_pairs(ties.actors, coords_MN[modes])
    cells_N = scale * (product_of(of_others, coords_MN[others]) * scores(*pairs_2P)[pair_N])
    score_P = np.empty(0) if sample is None else scores(*ties.ends)  # each pair is scored once

    def expected(coords: Integers) -> Floats:
        score_N = score_P[locate(_pair_keys(ties.actors, coords[modes]), ties.keys_P)]
        return np.asarray(scale * (product_of(of_others, coords[others]) * score_N))

    return _means(tensor, cells_N, sample, expected)
