"""What simple models predict, fitted to the same observed cells as the model that they are beside.

    one rate            the same expected count in every cell: all counts / all observed cells
    independence        mu_d = prod_m a[m][d_m], the product of margins
    mean over <mode>    (sum of y + one rate) / (number + 1), over the observed cells that differ in the last mode only

The margins of the second are those of the observed cells: a[m][d] = y[m][d] / the sum over the observed cells of row
d of the product of the other a, mode after mode until nothing changes (iterative proportional fitting, which is maximum
likelihood for the Poisson). Without missing cells that is the product of margins at once. One count is spread evenly
over the observed rows of each mode, so that no rate is zero; a row without observed cells is like the average row. The
third has one cell of the overall rate added, for the same reason. It says nothing of a cell with no observed neighbour
in that mode, as in held-out fibres along it: there it has the overall rate, and if that is so for most cells, there is
no such baseline.

Missing cells are taken out by their patterns: no array has the size of the tensor. Each baseline has the likelihood of
the run. For the negative binomial, r = mu (1 - p) / p with one p of the largest likelihood given the mu of the observed
cells, zeros included (count_dispersion.py); those of the third are leave-one-out means there, or p would be too small.
For the Bernoulli likelihood, mu is the probability of a one, at most 0.999.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from allocore.data.coordinates import column_keys, locate
from allocore.data.missing import WILDCARD, Missing
from allocore.data.tensor import CountTensor
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.signed_patterns import Expanded, SignedPatterns
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.count_dispersion import likeliest_log_odds
from allocore.posterior.mixture_quantiles import Mixtures

_MOST_CYCLES, _SETTLED = 1000, 1e-10
_MOST_PROBABLE = 0.999


class Means(NamedTuple):
    """Expected counts: of the N cells to judge, of the training tensor's non-zeros, and of all its observed cells."""

    cells_N: Floats
    nonzeros: Floats
    total: float


def baselines(tensor: CountTensor, likelihood: Likelihood, coords_MN: Ints) -> Iterator[tuple[str, Mixtures]]:
    """The name of each baseline and what it predicts for some cells."""
    yield "one rate", _predicted(tensor, likelihood, one_rate(tensor, coords_MN))
    yield "independence", _predicted(tensor, likelihood, independence(tensor, coords_MN))
    means = mean_over(tensor, coords_MN, tensor.ndim - 1)
    if means is not None:
        yield name_of_mean(tensor), _predicted(tensor, likelihood, means)


def name_of_mean(tensor: CountTensor) -> str:
    """The name of the mean over the last mode."""
    return f"mean over {tensor.mode_names[-1]}"


def _predicted(tensor: CountTensor, likelihood: Likelihood, means: Means) -> Mixtures:
    """One draw with these expected counts."""
    log_odds, rates_N = 0.0, means.cells_N
    if likelihood.has_dispersion:
        log_odds, _ = likeliest_log_odds(tensor.counts, means.nonzeros, means.total)
        rates_N = rates_N * np.exp(-log_odds)
    elif likelihood.name == "bernoulli":
        rates_N = -np.log1p(-np.minimum(rates_N, _MOST_PROBABLE))
    return Mixtures(rates_N[:, None], np.zeros(len(rates_N), dtype=np.int64), np.full((1, 1), log_odds))


def one_rate(tensor: CountTensor, coords_MN: Ints) -> Means:
    """The same expected count everywhere."""
    rate = tensor.total / (tensor.volume - tensor.missing.cells)
    return Means(np.full(coords_MN.shape[1], rate), np.full(tensor.nnz, rate), float(tensor.total))


def independence(tensor: CountTensor, coords_MN: Ints) -> Means:
    """The product of margins."""
    margins = fitted_margins(tensor)
    return Means(_product(margins, coords_MN), _product(margins, tensor.coords.astype(np.int64)), float(tensor.total))


def _product(margins: Sequence[Floats], coords_MN: Ints) -> Floats:
    mean_N = np.ones(coords_MN.shape[1])
    for margin_D, place_N in zip(margins, coords_MN, strict=True):
        mean_N *= margin_D[place_N]
    return mean_N


def fitted_margins(tensor: CountTensor) -> list[Floats]:
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
            new_D = np.full(len(seen_D), total / exposure_D[seen_D].sum())
            new_D[seen_D] = counts_D[seen_D] / exposure_D[seen_D]
            change = max(change, float(np.abs(new_D / margins[m] - 1.0).max()))
            margins[m] = new_D
        if change < _SETTLED:
            break
    return margins


def _exposures(patterns: SignedPatterns, margins: Sequence[Floats], mode: int) -> Floats:
    """For each row of a mode, the sum over its observed cells of the product of the other margins."""
    expanded = Expanded(np.concatenate(margins)[:, None], np.array([[each.sum()] for each in margins]))
    return patterns.sums_by_row(expanded, mode, Workers(1))[:, 0]


def mean_over(tensor: CountTensor, coords_MN: Ints, mode: int) -> Means | None:
    """The mean of the observed cells that differ from a cell in one mode only; None if most cells have none."""
    others, length = [m for m in range(tensor.ndim) if m != mode], tensor.shape[mode]
    keys_N, keys_n = column_keys([tensor.shape[m] for m in others], coords_MN[others], tensor.coords[others])
    known_F, fibre_n, nonzeros_F = np.unique(keys_n, return_inverse=True, return_counts=True)
    sum_F = np.bincount(fibre_n, tensor.counts)
    number_N = length - missing_in_fibres(tensor.missing, coords_MN, mode)
    if np.count_nonzero(number_N) * 2 < len(number_N):
        return None
    place_N, rate = locate(keys_N, known_F), tensor.total / (tensor.volume - tensor.missing.cells)
    sum_N = np.where(place_N < 0, 0.0, sum_F[place_N])
    first_F = np.unique(fibre_n, return_index=True)[1]
    number_F = length - missing_in_fibres(tensor.missing, tensor.coords[:, first_F].astype(np.int64), mode)
    # Without the cell itself: (sum - y + rate) / (number - 1 + 1).
    left_out_n = (sum_F[fibre_n] - tensor.counts + rate) / number_F[fibre_n]
    zeros = float(((number_F - nonzeros_F) * (sum_F + rate) / number_F).sum())
    empty = _observed_fibres(tensor, mode) - len(known_F)
    return Means((sum_N + rate) / (number_N + 1.0), left_out_n, float(left_out_n.sum()) + zeros + empty * rate)


def _observed_fibres(tensor: CountTensor, mode: int) -> int:
    """The number of fibres along a mode that no pattern covers whole."""
    patterns_PM, shape = tensor.missing.patterns, np.delete(tensor.shape, mode).tolist()
    whole = np.delete(patterns_PM[patterns_PM[:, mode] == WILDCARD], mode, axis=1)
    return tensor.volume // tensor.shape[mode] - Missing(whole, shape).cells


def missing_in_fibres(missing: Missing, coords_MN: Ints, mode: int) -> Ints:
    """The number of missing cells in the fibre along a mode through each cell: signed patterns, joined to the cells."""
    patterns_PM, signs_P = missing.signed
    weights_P = np.where(patterns_PM[:, mode] == WILDCARD, missing.shape[mode], 1) * signs_P
    others_PM = np.array(patterns_PM)
    others_PM[:, mode] = WILDCARD
    kinds, kind_P = np.unique(others_PM != WILDCARD, axis=0, return_inverse=True)
    number_N = np.zeros(coords_MN.shape[1], dtype=np.int64)
    for kind, fixed_M in enumerate(kinds):
        chosen, modes = np.flatnonzero(kind_P.ravel() == kind), np.flatnonzero(fixed_M)
        lengths = [missing.shape[m] for m in modes.tolist()]
        keys_N, keys_P = column_keys(lengths, coords_MN[modes], others_PM[chosen][:, modes].T)
        known, place_P = np.unique(keys_P, return_inverse=True)
        sums = np.bincount(place_P, weights_P[chosen]).astype(np.int64)
        place_N = locate(keys_N, known)
        number_N += np.where(place_N < 0, 0, sums[place_N])
    return number_N
