"""Fold-in: new rows of one mode given all else of a state: core values, locations, the other modes' factors, e0.

With D new rows of mode m, one sweep draws

    factors        phi[m][d, k] ~ Gamma( e0 + sum_{q at k} y[d, q],  f0 + sum_{q at k} X[d, q] )        factors.py
    dispersion     p_d ~ Beta( g0 + sum of y,  h0 + sum of r ), if each row of mode m has its own       dispersion.py
    latent counts  and their allocation to the classes                                    latent_counts.py, thinning.py

Given the rest of the state, the new rows are independent of each other and of all data but their own. The exposure X of
mode m does not depend on them, so it is made once, unless their p is drawn. The chain targets the exact conditional;
how many sweeps it takes from its start to there was measured (docs/howto/fold-in.md). Cost of a sweep: that of
thinning.
"""

from allocore.gibbs.dispersion import counts_and_rates, draw_dispersion, log_part
from allocore.gibbs.exposure import ModeView, exposure
from allocore.gibbs.factors import draw_factors
from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import info_of
from allocore.gibbs.thinning import thin
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.model.sweep_info import SweepInfo


def draw_new_rows(
    key: Key, layout: Layout, spec: Spec, state: State, mode: int, sweeps: int
) -> tuple[State, SweepInfo]:
    """The state with the rows of one mode drawn, and its statistics for the data of these rows.

    `layout` holds the data of the new rows. The chain starts at the values that the rows have in `state`.
    """
    before, workspace = state, Workspace.of(layout, state)
    exposure_DQ = exposure(layout, workspace, mode)
    allocation = thin(key.at(0), layout, spec, state, workspace)
    for number in range(1, sweeps + 1):
        here, view = key.at(number), ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure_DQ)
        state = draw_factors(here, layout, spec, state, view)
        workspace.renew(state, mode)
        if state.dispersion is not None and state.dispersion.mode == mode:
            exposure_Q = view.exposure_Q(workspace.rows(mode))
            state, _ = draw_dispersion(here, layout, spec, state, exposure_Q, workspace)
            workspace.rescale(state)
            exposure_DQ = exposure(layout, workspace, mode)
        allocation = thin(here, layout, spec, state, workspace)
    view = ModeView(mode, allocation.y_RQ[layout.rows(mode)], exposure_DQ)
    log_rest = _log_rest(layout, state, view.exposure_Q(workspace.rows(mode)), workspace)
    return state, info_of(layout, before, state, allocation, allocation.log_fit - layout.log_factorials + log_rest)


def _log_rest(layout: Layout, state: State, exposure_Q: Floats, workspace: Workspace) -> float:
    """The log-likelihood without the part of the non-zero cells: the sum of the rates or, with p, the part of p."""
    if state.dispersion is None:
        return -float((state.core_values() * exposure_Q).sum())
    by, log_odds_D = state.dispersion.mode, state.dispersion.log_odds_D
    return log_part(*counts_and_rates(layout, by, state, exposure_Q, workspace), log_odds_D)
