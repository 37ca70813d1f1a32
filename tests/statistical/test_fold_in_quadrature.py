"""Rows that are folded in have the distribution that a quadrature finds.

All new rows have the same counts, so their draws are independent draws of one distribution: of two factors and, where
each row has its own, p. Its density is summed on a grid, with the counts' probabilities by SciPy.

Error rate: 1e-3 for the smallest of the corrected chi-square p-values of a case. Planted bugs are found at 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import PchipInterpolator
from scipy.special import expit, xlogy

from allocore.run import fold_in as fold_in_module
from statistical.test_fold_in_calibration import repeated
from support import new_rows_cases as cases
from support.evidence import corrected

pytestmark = [pytest.mark.statistical, pytest.mark.slow, pytest.mark.jit]
ROWS, BINS, COUNTS = 400, 20, np.array([3, 0, 1, 5])
LOG_PHI, LOG_ODDS = np.linspace(-14.0, 3.5, 140), np.linspace(-9.0, 9.0, 90)


def folded_draws(name, sweeps=60):
    """The logs of the two factors in use and, where each row has its own, the log odds of p: (draws, quantities)."""
    spec = cases.make_spec(name, 2)
    known = cases.make_state(spec, 4, 2, np.random.default_rng(0))
    cells, _ = cases.cells_of(ROWS, 2)
    Y_new = cases.tensor_of(cells, np.tile(COUNTS, ROWS), ROWS, 2)
    fitted = cases.tensor_of(np.zeros((3, 1), dtype=int) + 1, [1], 4, 2)
    folded = repeated(fitted, spec, known).fold_in(Y_new, 2, sweeps=sweeps, progress=False)
    columns = [np.log(folded.factors[2][0][:, :, k]).ravel() for k in (0, 2)]
    if spec.dispersion_by == 2:
        columns.append(folded.record.log_odds[0].ravel())
    return spec, known, np.array(columns).T


def marginals(spec, known):
    """The distribution functions of each quantity, summed on a grid."""
    used = cases.per_factor(known, 2)[:, cases.cells_of(1, 2)[1]]
    phi = np.exp(LOG_PHI)
    rates = phi[:, None, None] * used[0] + phi[None, :, None] * used[1]
    log_prior = spec.e0 * LOG_PHI - spec.f0 * phi
    log_density = log_prior[:, None] + log_prior[None, :]
    axes = [LOG_PHI, LOG_PHI]
    if spec.likelihood == "poisson":
        log_density = log_density + stats.poisson.logpmf(COUNTS, rates).sum(axis=2)
    elif spec.dispersion_by == 2:
        axes.append(LOG_ODDS)
        p = expit(LOG_ODDS)
        fit = sum(stats.nbinom.logpmf(y, rates[:, :, c, None], 1.0 - p) for c, y in enumerate(COUNTS))
        log_density = log_density[:, :, None] + fit + xlogy(spec.g0, p) + xlogy(spec.h0, 1.0 - p)
    else:
        p = expit(known.dispersion.log_odds_D)
        if len(p) > 1:  # of the rows of another mode
            coords = cases.cells_of(1, 2)[0]
            p = p[coords[spec.dispersion_by]]
        log_density = log_density + stats.nbinom.logpmf(COUNTS, rates, 1.0 - p).sum(axis=2)
    density = np.exp(log_density - log_density.max())
    found = []
    for place, axis in enumerate(axes):
        mass = density.sum(axis=tuple(other for other in range(len(axes)) if other != place))
        below = np.concatenate([[0.0], np.cumsum((mass[1:] + mass[:-1]) / 2)])
        found.append(PchipInterpolator(axis, below / below[-1]))
    return found


def evidence(name, **changes):
    spec, known, drawn = folded_draws(name)
    functions = marginals(replace(spec, **changes), known)
    tables = [np.histogram(at(column), BINS, (0.0, 1.0))[0] for at, column in zip(functions, drawn.T, strict=True)]
    return corrected([stats.chisquare(table).pvalue for table in tables])


@pytest.mark.parametrize("name", ["poisson", "bursts", "bursts-by-new-row", "bursts-by-other-row"])
def test_rows_that_are_folded_in_have_their_distribution_by_quadrature(name):
    assert evidence(name) > 1e-3


@pytest.mark.parametrize("name", ["poisson", "bursts", "bursts-by-new-row", "bursts-by-other-row"])
def test_a_prior_that_is_a_tenth_wrong_is_found(name):
    assert evidence(name, e0=1.43) < 1e-6


def test_p_that_is_not_drawn_for_new_rows_is_found(monkeypatch):
    monkeypatch.setattr(fold_in_module, "draw_dispersion_of_new_rows", lambda key, layout, spec, state, *rest: state)
    assert evidence("bursts-by-new-row") < 1e-6
