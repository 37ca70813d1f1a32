"""Judging samplers: do two sets of draws have the same means, in Monte Carlo standard errors?"""

import numpy as np
from naive import class_rates
from scipy import stats

BATCHES = 40


def same_means(first, second, first_is_iid=False):
    """p-value of every column: two-sided test that the columns of two (draws, quantities) arrays have equal means.

    The variance of a mean comes from batch means (40 batches), which holds for correlated draws, or from the plain
    variance where the draws are independent. Welch's degrees of freedom.
    """
    means, errors, freedoms = [], [], []
    for draws, iid in ((np.asarray(first), first_is_iid), (np.asarray(second), False)):
        units = draws if iid else np.array([batch.mean(axis=0) for batch in np.array_split(draws, BATCHES)])
        means.append(units.mean(axis=0))
        errors.append(units.var(axis=0, ddof=1) / len(units))
        freedoms.append(len(units) - 1)
    error = errors[0] + errors[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (means[0] - means[1]) / np.sqrt(error)
        freedom = error**2 / (errors[0] ** 2 / freedoms[0] + errors[1] ** 2 / freedoms[1])
    p = 2 * stats.t.sf(np.abs(t), freedom)
    return np.where(error > 0, p, (means[0] == means[1]).astype(float))


def corrected(p_values):
    """The smallest p-value after Bonferroni's correction: the level at which any of the tests rejects."""
    p_values = np.asarray(p_values)
    return float(min(1.0, p_values.min() * p_values.size))


def summary(state):
    """Quantities of a naive state that do not depend on labels and have light tails, as a vector.

    Core values and their logarithms, how many factors are in use, how often classes share them, entries and column
    sums of the factors as the classes use them, and rates of all cells (through log1p, for their tails).
    """
    rate = class_rates(state)
    parts = [np.log1p(rate.sum(axis=0)).ravel(), [np.log1p(rate.sum()), np.log1p((rate**2).sum())]]
    parts.append([state.core.mean(), np.log(state.core).mean(), (state.core**2).mean()])
    for m, phi_DK in enumerate(state.factors):
        used_DQ = phi_DK[:, state.locations[:, m]]
        column = state.locations[:, m]
        parts.append([len(np.unique(column)), np.mean(column[:, None] == column[None, :])])
        parts.append([used_DQ.mean(), (used_DQ**2).mean(), np.log(used_DQ).mean()])
        parts.append(np.log1p(used_DQ).mean(axis=1))
        parts.append([(np.log1p(used_DQ.sum(axis=0)) * state.core).mean()])
    parts.append([len(np.unique(state.locations, axis=0))])
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])
