"""How well predictions tell cells with counts from zeros: the area under the ROC curve, and average precision.

With a score s for each of N cells, of which m have counts (P) and n do not:

    AUC                  1 / (m n) sum_{i in P} sum_{j not in P} ( 1{s_j < s_i} + 1/2 1{s_j = s_i} )
    average precision    1 / m sum_{i in P} T_i / N_i,   T_i and N_i the cells of P and all cells with s_j >= s_i

The AUC is the probability that a cell with a count has a higher score than a zero; chance has 0.5. Average precision is
the area under the curve of precision against recall, as in information retrieval; chance has m / N.

Both are smooth functions of the weights of cells. The *influence* of a cell is the derivative by its weight at 1:

    AUC                  (v_j - AUC) / m in P, otherwise / n, with v_j its mean over the cells of the other kind
    average precision    ( 1{j in P} (T_j / N_j - AP)  +  sum_{i in P, s_i <= s_j} (1{j in P} / N_i - T_i / N_i^2) ) / m

Influences sum to 0, and their sums over fibres give standard errors (the infinitesimal jackknife, Efron 1982; for the
AUC these are the structural components of DeLong et al. 1988 and, for clusters, Obuchowski 1997).
"""

import numpy as np

from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.posterior.scores import MixtureScores


def ranks(scores: MixtureScores) -> Ints:
    """Return the rank of each cell by P(y > 0), with equal ranks for equal cells.

    Where P(0) rounds to 1, the expected count decides.
    """
    order_N = np.lexsort([scores.mean_N, -scores.zero_N])
    changes_N = np.diff(scores.zero_N[order_N]) != 0.0
    changes_N |= np.diff(scores.mean_N[order_N]) != 0.0
    rank_N = np.empty(len(order_N), dtype=np.int64)
    rank_N[order_N] = np.append(0, np.cumsum(changes_N))
    return rank_N


def auc(rank_N: Ints, positive_N: Flags) -> tuple[float, Floats]:
    """Return the AUC and the influence of each cell; NaN if all cells have counts, or none has."""
    positive_G, zero_G = _by_rank(rank_N, positive_N)
    positive, zero = positive_G.sum(), zero_G.sum()
    if not positive or not zero:
        return np.nan, np.full(len(rank_N), np.nan)
    below_G = (np.cumsum(zero_G) - 0.5 * zero_G) / zero
    above_G = 1.0 - (np.cumsum(positive_G) - 0.5 * positive_G) / positive
    area = float((positive_G * below_G).sum() / positive)
    return area, np.where(positive_N, (below_G[rank_N] - area) / positive, (above_G[rank_N] - area) / zero)


def average_precision(rank_N: Ints, positive_N: Flags) -> tuple[float, Floats]:
    """Return the average precision and the influence of each cell; NaN if all cells have counts, or none has."""
    positive_G, zero_G = _by_rank(rank_N, positive_N)
    positive = positive_G.sum()
    if not positive or not zero_G.sum():
        return np.nan, np.full(len(rank_N), np.nan)
    found_G, all_G = (np.cumsum(each[::-1])[::-1] for each in (positive_G, positive_G + zero_G))
    precision_G = found_G / all_G
    average = float((positive_G * precision_G).sum() / positive)
    gained_G, lost_G = np.cumsum(positive_G / all_G), np.cumsum(positive_G * precision_G / all_G)
    own_N = np.where(positive_N, (precision_G + gained_G)[rank_N] - average, 0.0)
    return average, (own_N - lost_G[rank_N]) / positive


def _by_rank(rank_N: Ints, positive_N: Flags) -> tuple[Floats, Floats]:
    """The number of cells with counts and of zeros, by rank."""
    all_G = np.bincount(rank_N).astype(np.float64)
    positive_G = np.bincount(rank_N, positive_N, len(all_G)).astype(np.float64)
    return positive_G, all_G - positive_G
