"""Quantiles of forecasts and their CRPS, against counts that NumPy draws from the rates of the paths.

Error rate: 1e-3 for the smallest of the corrected p-values of a likelihood. Quantiles and scores of the mean rate in
place of the paths, which leave out what is not known about the rates, are found at 1e-6.
"""

import numpy as np
import pytest
from scipy import stats

from allocore.forecast.scores import PATHS_FOR_CELLS
from allocore.model.likelihood import dispersion_of
from allocore.posterior.predict import sampled
from support.evidence import corrected
from support.forecast_cases import dense_rates, fitted, tensor

pytestmark = [pytest.mark.statistical, pytest.mark.slow]
LEVELS, DRAWS = (0.05, 0.5, 0.95), 200_000


@pytest.fixture(scope="module", params=["poisson", "negative-binomial", "bernoulli"])
def case(request):
    """A forecast, and the observed future."""
    whole = tensor(loops=False)
    whole = whole.binarize() if request.param == "bernoulli" else whole
    return fitted(whole.select(month=slice("2017-07", "2018-04")), likelihood=request.param).forecast(2), whole


def simulated(record, rng, alike=False):
    """Counts of all cells off the diagonal, (draws, cells); `alike` gives every path the mean of the rates."""
    rates_SC = dense_rates(record)[:, ~np.eye(4, dtype=bool)].reshape(len(dense_rates(record)), -1)
    rates_SC = np.broadcast_to(rates_SC.mean(axis=0), rates_SC.shape) if alike else rates_SC
    path_N = rng.integers(len(rates_SC), size=DRAWS)
    likelihood = record.spec.likelihood
    if likelihood == "poisson":
        return rng.poisson(rates_SC[path_N])
    if likelihood == "bernoulli":
        return rng.random((DRAWS, rates_SC.shape[1])) < -np.expm1(-rates_SC[path_N])
    p_S = dispersion_of(record.log_odds).ravel()
    return rng.negative_binomial(rates_SC[path_N], 1.0 - p_S[path_N][:, None])


def evidence_of_quantiles(forecast, counts_NC):
    """At most a share of the level is below a quantile, and at least this share is not above it."""
    cells = np.indices((4, 4, 2)).reshape(3, -1)
    cells = cells[:, cells[0] != cells[1]]
    found = forecast.quantiles(cells, LEVELS)
    p_values = []
    for level in LEVELS:
        quantile_C = found[str(level)].to_numpy()
        below_C, up_to_C = (counts_NC < quantile_C).sum(axis=0), (counts_NC <= quantile_C).sum(axis=0)
        p_values += [stats.binom.sf(below_C - 1, DRAWS, level), stats.binom.cdf(up_to_C, DRAWS, level)]
    return corrected(np.ravel(p_values))


def evidence_of_crps(crps, counts_NC, happened_C):
    """The CRPS is E|X - y| - E|X - X'| / 2, of independent X and X'."""
    first, second = counts_NC[::2].astype(float), counts_NC[1::2].astype(float)
    values = (np.abs(first - happened_C) - np.abs(first - second) / 2).mean(axis=1)
    return stats.ttest_1samp(values, crps).pvalue


def test_quantiles_of_cells_are_those_of_simulated_counts(case):
    forecast, _ = case
    rng = np.random.default_rng(1)
    assert evidence_of_quantiles(forecast, simulated(forecast.record, rng)) > 1e-3
    if forecast.record.spec.likelihood != "bernoulli":  # a probability is all that there is to know of a bit
        assert evidence_of_quantiles(forecast, simulated(forecast.record, rng, alike=True)) < 1e-6


def test_the_crps_of_cells_is_that_of_simulated_counts(case):
    forecast, whole = case
    record, rng = sampled(forecast.record, PATHS_FOR_CELLS), np.random.default_rng(2)
    happened_C = whole.to_dense()[:, :, 10:][~np.eye(4, dtype=bool)].ravel()
    crps = forecast.evaluate(whole).table.loc[("cells", "forecast"), "crps"]
    assert evidence_of_crps(crps, simulated(record, rng), happened_C) > 1e-3
    if record.spec.likelihood != "bernoulli":
        assert evidence_of_crps(crps, simulated(record, rng, alike=True), happened_C) < 1e-6
