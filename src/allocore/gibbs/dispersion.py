"""The dispersion p of the negative binomial given the counts and the rates, with the latent counts integrated out:

    p ~ Beta( g0 + sum of y,  h0 + sum of r )          the sums over the observed cells

or, if p differs by the rows of one mode, p_d with the sums over the cells of row d. The sum of r is known from the
exposure. Drawn as log odds, the difference of two log gamma variates, p may be as near to 0 or 1 as it likes.

This step comes directly before latent counts and thinning, which draw anew what it has integrated out. Cost: the
exposure of one mode if p differs by row, else Q.
"""

from dataclasses import replace

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.gibbs.workspace import Workspace
from allocore.kernels.arrays import Floats
from allocore.kernels.distributions import log_gamma
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.likelihood import log_dispersion_of
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State


def draw_dispersion(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace
) -> tuple[State, Floats]:
    """A new state with p drawn, and the sums of r that p was drawn from, (1) or (D).

    `workspace` and `exposure_Q`, X_q / lambda_q with the present c, belong to the given state.
    """
    if state.dispersion is None or workspace.scale is None:
        raise ValueError("the state has no dispersion")
    mode = state.dispersion.mode
    if mode is None:
        counts_D = np.array([float(layout.total)])
        rates_D = np.array([(state.core_values() * exposure_Q).sum() / workspace.scale.scale_D[0]])
    else:
        counts_D = layout.row_totals_R[layout.rows(mode)]
        exposure_DQ = layout.missing.sums_by_row(workspace.expanded, mode, layout.workers)
        rates_D = np.einsum("dq,q->d", exposure_DQ * workspace.rows(mode), state.core_values())
    log_odds_D = np.empty(len(counts_D))
    _draw(spec.g0 + counts_D, spec.h0 + rates_D, key.stream(Step.DISPERSION), scratch(), log_odds_D)
    return replace(state, dispersion=Dispersion(log_odds_D, mode)), rates_D


def log_of_dispersion(layout: Layout, state: State, rates_D: Floats) -> float:
    """The part of the log-likelihood that depends on p: the sum of y ln p + r ln(1 - p) over the observed cells."""
    if state.dispersion is None:
        raise ValueError("the state has no dispersion")
    mode, log_odds_D = state.dispersion.mode, state.dispersion.log_odds_D
    counts_D = float(layout.total) if mode is None else layout.row_totals_R[layout.rows(mode)]
    return float((counts_D * log_dispersion_of(log_odds_D) + rates_D * log_dispersion_of(-log_odds_D)).sum())


@kernel
def _draw(first_D: Floats, second_D: Floats, stream: Words, rng: Words, log_odds_D: Floats) -> None:
    """Fill `log_odds_D` with the log odds of Beta(first, second) variates."""
    for d in range(log_odds_D.size):
        seat(rng, stream, d)
        log_odds_D[d] = log_gamma(rng, first_D[d], 1.0) - log_gamma(rng, second_D[d], 1.0)
