"""The dispersion p of the negative binomial given the counts and the rates, with the latent counts integrated out:

    p ~ Beta( g0 + sum of y,  h0 + sum of r )          the sums over the observed cells

or, if each row d of one mode has its own p_d, with the sums over the cells of row d. The sum of r is known from the
exposure. p is drawn as log odds, the difference of two log gamma variates, so it may be arbitrarily near to 0 or 1.

This step comes directly before latent counts and thinning, which draw again what it has integrated out. Cost: the
exposure of one mode if p differs by row, else Q.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout, Workspace
from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import Floats
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seek
from allocore.model.likelihood import log_dispersion_of
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State


class DispersionInfo(NamedTuple):
    """The part of the log-likelihood that depends on p: the sum of y ln p + r ln(1 - p)."""

    log_part: float


def draw_dispersion(
    key: Key, layout: Layout, spec: Spec, state: State, exposure_Q: Floats, workspace: Workspace
) -> tuple[State, DispersionInfo]:
    """Draw p; `workspace` and `exposure_Q`, X_q / lambda_q with the present c, belong to the given state."""
    mode = spec.dispersion_by
    counts_D, rates_D = counts_and_rates(layout, mode, state, exposure_Q, workspace)
    log_odds_D = np.empty(len(counts_D))
    _draw(spec.g0 + counts_D, spec.h0 + rates_D, key.stream(Step.DISPERSION), scratch(), log_odds_D)
    info = DispersionInfo(log_part(counts_D, rates_D, log_odds_D))
    return replace(state, dispersion=Dispersion(log_odds_D, mode)), info


def log_part(counts_D: Floats, rates_D: Floats, log_odds_D: Floats) -> float:
    """The part of the log-likelihood that depends on p, given the sums of y and of r over the cells of each p."""
    log_p_D = counts_D * log_dispersion_of(log_odds_D) + rates_D * log_dispersion_of(-log_odds_D)
    return float(log_p_D.sum())


def counts_and_rates(
    layout: Layout, mode: int | None, state: State, exposure_Q: Floats, workspace: Workspace
) -> tuple[Floats, Floats]:
    """The sums of y and of r over the observed cells: one each (1), or one for each row of a mode (D)."""
    if mode is not None:
        exposure_DQ = layout.missing.sums_by_row(workspace.expanded, mode, layout.workers)
        rates_D = np.einsum("dq,q->d", exposure_DQ * workspace.rows(mode), state.core_values())
        return layout.row_totals_R[layout.rows(mode)], rates_D
    # X_q already has c, the same in all rows.
    scale = 1.0 if workspace.scale is None else workspace.scale.scale_D[0]
    return np.array([float(layout.total)]), np.array([(state.core_values() * exposure_Q).sum() / scale])


@kernel
def _draw(first_D: Floats, second_D: Floats, stream: Words, rng: Words, log_odds_D: Floats) -> None:
    """Fill `log_odds_D` with the log odds of Beta(first, second) variates."""
    for d in range(log_odds_D.size):
        seek(rng, stream, d)
        log_odds_D[d] = log_gamma(rng, first_D[d], 1.0) - log_gamma(rng, second_D[d], 1.0)
