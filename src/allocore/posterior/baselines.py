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
"""

from collections.abc import Iterator, Sequence
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
from allocore.tensor.coordinates import Integers, column_keys, locate
from allocore.tensor.count_tensor import CountTensor, both_directions
from allocore.tensor.missing import WILDCARD, Missing, by_fixed_modes, signed_patterns

Exposures = Sequence[Floats | None]

_MOST_CYCLES, _CONVERGED = 1000, 1e-10
_MOST_PROBABLE = 0.999
_MOST_PATHS, _PAIRS_AT_ONCE = 200_000_000, 2**16


class Means(NamedTuple):
    """Expected counts: of the N cells to judge, of the training tensor's non-zeros, and of all its observed cells."""

    cells_N: Floats
    nonzeros: Floats
    total: float


def baselines(
    tensor: CountTensor, likelihood: Likelihood, coords_MN: Ints, exposures: Exposures = ()
) -> Iterator[tuple[str, Mixtures]]:
    """Return the name of each baseline and what it predicts for some cells; a fit may have `exposures`, by mode."""
    tensor = both_directions(tensor)
    weights = weights_of(tensor, exposures)
    yield "one rate", _predicted(tensor, likelihood, one_rate(tensor, coords_MN, weights))
    margins = fitted_margins(tensor, weights)
    yield "independence", _predicted(tensor, likelihood, independence(tensor, coords_MN, margins))
    means = mean_over(tensor, coords_MN, tensor.ndim - 1, weights)
    if means is not None:
        yield name_of_mean(tensor), _predicted(tensor, likelihood, means)
    if (modes := network_modes(tensor)) is not None:
        for scores in pair_scores(tensor, modes, coords_MN):
            yield scores.name, _predicted(tensor, likelihood, by_pair(tensor, coords_MN, modes, scores, margins))


def weights_of(tensor: CountTensor, exposures: Exposures = ()) -> list[Floats]:
    """The weights of the rows of each mode, which are 1 without exposures."""
    given = exposures or [None] * tensor.ndim
    return [np.ones(size) if each is None else each for size, each in zip(tensor.shape, given, strict=True)]


def name_of_mean(tensor: CountTensor) -> str:
    """Return the name of the mean over the last mode."""
    return f"mean over {tensor.mode_names[-1]}"


def _predicted(tensor: CountTensor, likelihood: Likelihood, means: Means) -> Mixtures:
    log_odds, rates_N = 0.0, means.cells_N
    if likelihood.has_dispersion:
        log_odds, _ = likeliest_log_odds(tensor.counts, means.nonzeros, means.total)
        rates_N = rates_N * np.exp(-log_odds)
    elif likelihood.name == "bernoulli":
        rates_N = -np.log1p(-np.minimum(rates_N, _MOST_PROBABLE))
    return Mixtures(rates_N[:, None], np.zeros(len(rates_N), dtype=np.int64), np.full((1, 1), log_odds))


def one_rate(tensor: CountTensor, coords_MN: Ints, weights: Sequence[Floats]) -> Means:
    """The same expected count per unit everywhere."""
    rate = tensor.total / observed_weight(tensor.missing, weights)
    cells_N, nonzeros = (rate * product_of(weights, coords) for coords in (coords_MN, tensor.coords))
    return Means(cells_N, nonzeros, float(tensor.total))


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


def independence(tensor: CountTensor, coords_MN: Ints, margins: Sequence[Floats]) -> Means:
    """The product of margins, as `fitted_margins` returns them."""
    cells_N, nonzeros = (product_of(margins, coords) for coords in (coords_MN, tensor.coords))
    return Means(cells_N, nonzeros, float(tensor.total))


def fitted_margins(tensor: CountTensor, weights: Sequence[Floats]) -> list[Floats]:
    """A vector a[m] for each mode, so that the margins of prod_m a[m][d_m] over the observed cells are those given."""
    patterns, total = SignedPatterns.of(tensor.missing), float(tensor.total)
    ones = [np.ones(length) for length in tensor.shape]
    seen = [_exposures(patterns, ones, m) > 0.5 for m in range(tensor.ndim)]
    given: list[Floats] = [
        np.where(seen_D, tensor.mode_totals(m) + 1.0 / seen_D.sum(), 0.0) * total / (total + 1.0)
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


def _exposures(patterns: SignedPatterns, margins: Sequence[Floats], mode: int) -> Floats:
    """For each row of a mode, the sum over its observed cells of the product of the other margins."""
    expanded = Expanded(np.concatenate(margins)[:, None], np.array([[each.sum()] for each in margins]))
    return patterns.sums_by_row(expanded, mode, Workers(1))[:, 0]


def mean_over(tensor: CountTensor, coords_MN: Ints, mode: int, weights: Sequence[Floats]) -> Means | None:
    """The mean of the observed cells that differ from a cell in one mode only; None if most cells have none."""
    others, weight_D = [m for m in range(tensor.ndim) if m != mode], weights[mode]
    keys_N, keys_n = column_keys([tensor.shape[m] for m in others], coords_MN[others], tensor.coords[others])
    known_F, first_F, fibre_n = np.unique(keys_n, return_index=True, return_inverse=True)
    sum_F = np.bincount(fibre_n, tensor.counts)
    number_N = tensor.shape[mode] - missing_in_fibres(tensor.missing, coords_MN, mode)
    if np.count_nonzero(number_N) * 2 < len(number_N):
        return None
    place_N, rate = locate(keys_N, known_F), tensor.total / observed_weight(tensor.missing, weights)
    sum_N = np.where(place_N < 0, 0.0, sum_F[place_N])

    def observed(coords: Ints, power: int) -> Floats:  # the sums of the weights of the observed cells, or of squares
        return np.asarray((weight_D**power).sum() - missing_in_fibres(tensor.missing, coords, mode, weight_D**power))

    # The cell of the overall rate that is added has the weight of the cell that is judged.
    other = [weights[m] for m in others]
    prior_N = rate * product_of(weights, coords_MN)
    own_N, sums_N = weight_D[coords_MN[mode]], observed(coords_MN, 1)
    cells_N = own_N * (sum_N + prior_N) / (np.where(number_N == 0, 0.0, sums_N) + own_N)
    # Without the cell itself: the sum of y - y + the overall rate, per sum of the weights.
    fibres = tensor.coords[:, first_F].astype(np.int64)
    sum_of_F, squares_F = observed(fibres, 1), observed(fibres, 2)
    own_n = weight_D[tensor.coords[mode]]
    left_out_n = (
        own_n * (sum_F[fibre_n] - tensor.counts + rate * product_of(weights, tensor.coords)) / sum_of_F[fibre_n]
    )
    zeros_F, zero_squares_F = (
        all_F - np.bincount(fibre_n, own_n**power) for all_F, power in ((sum_of_F, 1), (squares_F, 2))
    )
    rest_F = rate * product_of(other, fibres[others])
    zeros = float(((sum_F * zeros_F + rest_F * zero_squares_F) / sum_of_F).sum())
    # Fibres without counts, except those that a pattern covers entirely; as if all had the same observed cells.
    patterns_PM = tensor.missing.patterns
    whole = np.delete(patterns_PM[patterns_PM[:, mode] == WILDCARD], mode, axis=1)
    without = Missing(whole, np.delete(tensor.shape, mode).tolist())
    empty = observed_weight(without, other) - product_of(other, fibres[others]).sum()
    seen_D = weight_D[tensor.missing.observed_rows(mode)]
    empty *= float((seen_D**2).sum() / seen_D.sum())
    return Means(cells_N, left_out_n, float(left_out_n.sum()) + zeros + empty * rate)


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


def pair_scores(tensor: CountTensor, modes: tuple[int, int], coords_MN: Ints) -> Iterator[PairScores]:
    """Return the scores of the pairs of a network, by the ties of the tensor; self-loops are no ties."""
    ties_VV = _ties(tensor, modes)
    yield DegreeProduct(ties_VV)
    by_neighbours = CommonNeighbours(ties_VV)
    pairs = [_distinct_pairs(tensor.shape[modes[0]], coords[list(modes)])[0] for coords in (coords_MN, tensor.coords)]
    fixed_PM = np.array([pattern for pattern in tensor.missing.patterns[:, modes] if WILDCARD not in pattern])
    given = [*pairs, fixed_PM.reshape(-1, 2).T]
    if sum(by_neighbours.paths(from_P, to_P) for from_P, to_P in given) <= _MOST_PATHS:
        yield by_neighbours


def _ties(tensor: CountTensor, modes: tuple[int, int]) -> "sparse.csr_array":
    (from_P, to_P), _ = _distinct_pairs(tensor.shape[modes[0]], tensor.coords[list(modes)])
    tied, actors = from_P != to_P, tensor.shape[modes[0]]
    return sparse.csr_array((np.ones(tied.sum()), (from_P[tied], to_P[tied])), (actors, actors))


def _distinct_pairs(actors: int, pairs_2N: Integers) -> tuple[Ints, Ints]:
    """The distinct pairs, (2, P), and which of them each one is."""
    keys, pair_N = np.unique(pairs_2N[0].astype(np.int64) * actors + pairs_2N[1], return_inverse=True)
    return np.stack(np.divmod(keys, actors)), pair_N


def by_pair(
    tensor: CountTensor, coords_MN: Ints, modes: tuple[int, int], scores: PairScores, margins: Sequence[Floats]
) -> Means:
    """Scores of pairs times the margins of the other modes, scaled to the sum of the observed counts."""
    others = [m for m in range(tensor.ndim) if m not in modes]

    def products(coords: Integers) -> Floats:
        pairs_2P, pair_N = _distinct_pairs(tensor.shape[modes[0]], coords[list(modes)])
        return np.asarray(np.prod([margins[m][coords[m]] for m in others], axis=0) * scores(*pairs_2P)[pair_N])

    patterns_PM, signs_P = signed_patterns(tensor.missing)
    boxes_PM = np.vstack([np.full((1, tensor.ndim), WILDCARD), patterns_PM])
    sums = [np.where(boxes_PM[:, m] == WILDCARD, margins[m].sum(), margins[m][boxes_PM[:, m]]) for m in others]
    sum_P = np.prod(sums, axis=0) * scores(boxes_PM[:, modes[0]], boxes_PM[:, modes[1]])
    scale = tensor.total / float(sum_P @ np.append(1.0, -signs_P))
    return Means(scale * products(coords_MN), scale * products(tensor.coords), float(tensor.total))
