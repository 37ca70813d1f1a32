"""Judging samplers: do draws fit their distribution, and do two sets of draws have the same means?"""

import numpy as np
from scipy import stats

BATCHES = 40
LEAST = 10.0


def fit_to(draws, first, probabilities):
    """p-value of a chi-square test: do integer draws have these probabilities, of `first`, `first` + 1, ..?

    Neighbours are pooled until a cell expects ten draws. A draw outside these values has the p-value 0.
    """
    if draws.min() < first or draws.max() >= first + len(probabilities):
        return 0.0
    observed, expected = [0], [0.0]
    for seen, share in zip(np.bincount(draws - first, minlength=len(probabilities)), probabilities, strict=True):
        if expected[-1] >= LEAST:
            observed.append(0)
            expected.append(0.0)
        observed[-1] += seen
        expected[-1] += share * draws.size
    if len(expected) > 1 and expected[-1] < LEAST:
        observed[-2:], expected[-2:] = [sum(observed[-2:])], [sum(expected[-2:])]
    if len(expected) == 1:
        return 1.0
    return float(stats.chisquare(observed, np.array(expected) * (draws.size / sum(expected))).pvalue)


def mean_and_variance(draws, mean, variance, fourth_cumulant):
    """p-values of two-sided z-tests that independent draws have this mean and this variance."""
    error = (draws - mean).mean() / np.sqrt(variance / draws.size)
    spread = ((draws - mean) ** 2).mean() - variance
    spread /= np.sqrt((fourth_cumulant + 2 * variance**2) / draws.size)
    return 2 * stats.norm.sf(np.abs([error, spread]))


def same_means(first, second):
    """p-value of every column: two-sided test that the columns of two (draws, quantities) arrays have equal means.

    The variance of a mean comes from batch means (40 batches), which holds for draws of a chain whose correlations die
    out within a batch. Welch's degrees of freedom.
    """
    means, errors = [], []
    for draws in (first, second):
        batches = np.array([batch.mean(axis=0) for batch in np.array_split(draws, BATCHES)])
        means.append(batches.mean(axis=0))
        errors.append(batches.var(axis=0, ddof=1) / BATCHES)
    error = errors[0] + errors[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (means[0] - means[1]) / np.sqrt(error)
        freedom = error**2 / (errors[0] ** 2 + errors[1] ** 2) * (BATCHES - 1)
    p = 2 * stats.t.sf(np.abs(t), freedom)
    return np.where(error > 0, p, (means[0] == means[1]).astype(float))


def zero_means(differences):
    """p-value of every column of independent rows: two-sided t-test that its mean is zero (certain if all are zero)."""
    varied = differences.std(axis=0) > 0
    p = (differences == 0).all(axis=0).astype(float)
    p[varied] = stats.ttest_1samp(differences[:, varied], 0.0).pvalue
    return p


def corrected(p_values):
    """The smallest p-value after Bonferroni's correction: the level at which any of the tests rejects."""
    p_values = np.asarray(p_values)
    return float(min(1.0, p_values.min() * p_values.size))


def summaries(states):
    """Quantities of naive states that do not depend on labels and have light tails: (states, quantities).

    Core values and their logarithms, how many factors and locations are in use, how often classes share them, entries
    and column sums of the factors as the classes use them, and the rates of all cells (through log1p, for their tails).
    Where there are any, the log odds of every p, alone, squared and times the logarithm of the rates that it meets, and
    the logarithm of every concentration, alone, squared and times that of the factors of its mode.
    """
    core_TQ = np.array([state.core for state in states])
    locations_TQM = np.array([state.locations for state in states])
    rate, same_place, columns = core_TQ, True, []
    log_e_TM = np.array([[] if each.concentrations is None else np.log(each.concentrations) for each in states])
    for m in range(locations_TQM.shape[2]):
        phi_TDK = np.array([state.factors[m] for state in states])
        used_TDQ = np.take_along_axis(phi_TDK, locations_TQM[:, None, :, m], axis=2)
        same = locations_TQM[:, :, None, m] == locations_TQM[:, None, :, m]
        same_place = same & same_place
        columns += [distinct(same), same.mean(axis=(1, 2)), used_TDQ.mean(axis=(1, 2)), (used_TDQ**2).mean(axis=(1, 2))]
        columns += [np.log(used_TDQ).mean(axis=(1, 2)), (np.log1p(used_TDQ.sum(axis=1)) * core_TQ).mean(axis=1)]
        columns += list(np.log1p(used_TDQ).mean(axis=2).T)
        columns += [log_e_TM[:, m] * np.log(used_TDQ).mean(axis=(1, 2))] if log_e_TM.size else []
        rate = np.einsum("t...q,tdq->t...dq", rate, used_TDQ)
    columns += [*log_e_TM.T, *(log_e_TM**2).T, *_of_dispersion(states, rate.sum(axis=-1))]
    rate_TC = rate.sum(axis=-1).reshape(len(states), -1)
    on_TQ = core_TQ > 0  # all of them, unless the budget is inferred
    log_core_TQ = np.log(np.where(on_TQ, core_TQ, 1.0))
    columns += [distinct(same_place), core_TQ.mean(axis=1), log_core_TQ.mean(axis=1), (core_TQ**2).mean(axis=1)]
    columns += [on_TQ.sum(axis=1), on_TQ.all(axis=1), on_TQ.any(axis=1)]
    columns += [np.log1p(rate_TC.sum(axis=1)), np.log1p((rate**2).reshape(len(states), -1).sum(axis=1))]
    return np.column_stack([*columns, np.log1p(rate_TC)])


def _of_dispersion(states, rate):
    """The quantities of every p, if there are any: `rate` has the rates of all cells, (states, *shape)."""
    if states[0].p is None:
        return []
    p = np.array([state.p for state in states])
    log_odds = np.log(p) - np.log1p(-p)
    shared = tuple(axis for axis in range(1, p.ndim) if p.shape[axis] == 1)
    meets = log_odds * np.log1p(rate).mean(axis=shared, keepdims=True)
    return [column for each in (log_odds, log_odds**2, meets) for column in each.reshape(len(states), -1).T]


def distinct(same_TQQ):
    """How many different items there are, from which pairs are the same."""
    return (1.0 / same_TQQ.sum(axis=2)).sum(axis=1)
