"""Calibration of fold-in (Talts et al. 2018): true new rows rank uniformly among those that are folded in.

The other factors are known. Rows and, where each has its own, p are drawn from the prior, and counts given them. A
posterior whose draws are all that one state gives independent draws of each row, among which the truth ranks uniformly.
Rows are independent of one another, so one tensor of hundreds of rows holds as many data sets. Other cells are missing
in every row.

Error rate: 1e-3 for the smallest of the chi-square p-values, corrected for their number. Planted bugs are found at
1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from allocore.gibbs.factors import exposure
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.model.simulate import draw_counts
from allocore.results import Posterior
from allocore.run import fold_in as fold_in_module
from allocore.storage.record import Record, Schedule
from allocore.tensor.missing import Missing
from support import new_rows_cases as cases
from support.evidence import corrected
from support.tiers import by_tier

pytestmark = pytest.mark.statistical
ROWS, DRAWS, BINS = 800, 15, 8


def repeated(tensor, spec, state):
    """A posterior of many draws that are all the same."""
    lead, sweeps = (1, DRAWS), (1, DRAWS)
    stat = {name: np.zeros(sweeps) for name in ("log_likelihood", "classes", "moved", "seconds")}
    p = state.dispersion
    drawn = [state.core_values(), state.subs_QM, *(state.factors(mode) for mode in range(3))]
    core, subs, *factors = [np.broadcast_to(each, (*lead, *each.shape)).copy() for each in drawn]
    log_odds = None if p is None else np.broadcast_to(p.log_odds_D, (*lead, p.log_odds_D.size)).copy()
    record = Record(
        tensor,
        spec,
        Schedule(0, DRAWS, 1),
        0,
        core,
        subs,
        tuple(factors),
        stats={**stat, "factors": np.zeros((*sweeps, 3))},
        log_odds=log_odds if p is None or p.mode is not None else log_odds[..., 0],
    )
    return Posterior(record)


def ranks(name, mode, sweeps, seed=0):
    """The rank of the truth among the draws, (rows, quantities)."""
    spec, rng = cases.make_spec(name, mode), np.random.default_rng(seed)
    known = cases.make_state(spec, 4, mode, rng)
    truth = cases.make_state(spec, ROWS, mode, rng)
    if spec.dispersion_by != mode:
        truth = replace(truth, dispersion=known.dispersion)
    holes = [cases.moved((1, 0, row), mode) for row in range(0, ROWS, 2)]
    cells = np.indices(cases.moved((*cases.OTHERS, ROWS), mode)).reshape(3, -1)
    missing = cases.make_missing(ROWS, mode).union(Missing(holes, cells.max(axis=1) + 1))
    cells = cells[:, ~missing.contains(cells)]
    Y_new = cases.tensor_of(cells, draw_counts(spec, truth, cells, rng), ROWS, mode).with_missing(holes)
    fitted = cases.tensor_of(np.zeros((3, 1), dtype=int) + 1, [1], 4, mode)
    folded = repeated(fitted, spec, known).fold_in(Y_new, mode, sweeps=sweeps)
    used = [0, 2]
    phi, true = folded.factors[mode][0][:, :, used], np.exp(truth.log_phi[mode][:, used])
    drawn, expected = [phi, phi.sum(axis=2, keepdims=True)], [true, true.sum(axis=1, keepdims=True)]
    if spec.dispersion_by == mode:
        drawn.append(folded.record.log_odds[0][:, :, None])
        expected.append(truth.dispersion.log_odds_D[:, None])
    return (np.concatenate(drawn, axis=2) < np.concatenate(expected, axis=1)).sum(axis=0)


def evidence_against_uniformity(rank_table):
    binned = [np.bincount(column * BINS // (DRAWS + 1), minlength=BINS) for column in rank_table.T]
    return corrected([stats.chisquare(observed).pvalue for observed in binned])


@pytest.mark.parametrize(("name", "mode"), by_tier([("bursts-by-new-row", 2)], cases.LIKELIHOODS, [0, 2]))
def test_true_rows_rank_uniformly_among_those_folded_in(name, mode):
    assert evidence_against_uniformity(ranks(name, mode, 40)) > 1e-3


@pytest.mark.slow
def test_an_exposure_that_forgets_missing_cells_spoils_the_ranks(monkeypatch):
    def forgetful(layout, workspace, mode):
        return exposure(replace(layout, missing=SignedPatterns.of(Missing.none(layout.shape))), workspace, mode)

    monkeypatch.setattr(fold_in_module, "exposure", forgetful)
    assert evidence_against_uniformity(ranks("poisson", 2, 40)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bursts", "bursts-by-new-row"])
def test_an_exposure_that_forgets_c_spoils_the_ranks(monkeypatch, name):
    def forgetful(layout, workspace, mode):
        sums_MQ = np.array([workspace.rows(m).sum(axis=0) for m in range(len(layout.shape))])
        return layout.missing.sums_by_row(workspace.expanded._replace(sums_MQ=sums_MQ), mode, layout.workers)

    monkeypatch.setattr(fold_in_module, "exposure", forgetful)
    assert evidence_against_uniformity(ranks(name, 2, 40, seed=1)) < 1e-6


@pytest.mark.slow
def test_p_that_is_not_drawn_for_new_rows_spoils_the_ranks(monkeypatch):
    monkeypatch.setattr(fold_in_module, "draw_dispersion_of_new_rows", lambda key, layout, spec, state, *rest: state)
    assert evidence_against_uniformity(ranks("bursts-by-new-row", 2, 40)) < 1e-6
