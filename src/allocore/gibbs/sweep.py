"""One sweep of the Gibbs sampler: the whole algorithm.

Given the counts allocated to the classes, a sweep draws

    for each mode:   locations   k[q, m] and lambda_q, class after class, unused factors integrated out   relocation.py
                     factors     phi[m][d, k] ~ Gamma, conjugate                                          factors.py
    then             core values lambda_q ~ Gamma, conjugate                                              core_values.py
                     where the budget is inferred, zero for the classes that are off                      switches.py
                     classes divided in two and joined, with counts, in the mode visited last             dividing.py
    and at last      thinning    every count is allocated to a class again                                thinning.py

Locations and factors of a mode share one exposure (exposure.py), which depends on the other modes alone. Sweeps take
turns in which mode they begin with, and so in which they end with. Thinning comes last, so the allocation and the
log-likelihood that a sweep reports belong to the state it returns; a chain begins with a thinning.
CP and Tucker are the same sweep with the locations left where they are.
"""

from dataclasses import dataclass

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.gibbs.core_values import draw_core_values
from allocore.gibbs.exposure import reach
from allocore.gibbs.factors import draw_factors
from allocore.gibbs.layout import Layout
from allocore.gibbs.relocation import relocate
from allocore.gibbs.split_merge import divide
from allocore.gibbs.thinning import Allocation, thin
from allocore.kernels.expansion import Rows
from allocore.kernels.random import Key
from allocore.model.spec import Spec
from allocore.model.state import State


@dataclass(frozen=True)
class Info:
    """What a sweep tells about itself.

    A class is in use if counts are allocated to it, and a factor if such a class is located at it; classes at the same
    location of the core count once. `moved` is the share of classes whose location changed.
    """

    log_likelihood: float
    classes: int
    factors: tuple[int, ...]
    moved: float


def begin(key: Key, layout: Layout, state: State, rows: Rows | None = None) -> Allocation:
    """The allocation that the first sweep from `state` starts with (and, at a later sweep's key, a resumed one)."""
    return thin(key, layout, rows or Rows.of(layout, state), state)


def sweep(
    key: Key, layout: Layout, spec: Spec, state: State, allocation: Allocation, rows: Rows | None = None
) -> tuple[State, Allocation, Info]:
    """Draw every variable once.

    `rows` are the rows of `state`, and afterwards those of the state returned: a chain keeps them from sweep to sweep.
    """
    before = state
    rows = rows or Rows.of(layout, state)
    for turn in range(len(layout.shape)):
        mode = (key.sweep + turn) % len(layout.shape)
        y_DQ = allocation.y_RQ[layout.rows(mode)]
        reach_DQ = reach(layout, rows, mode)
        if spec.learn_locations:
            state = relocate(key, layout, spec, state, mode, y_DQ, reach_DQ)
        state = draw_factors(key, layout, spec, state, mode, y_DQ, reach_DQ, rows)
    reach_Q = np.einsum("dq,dq->q", reach_DQ, rows.phi_RQ[layout.rows(mode)])
    state = draw_core_values(key, spec, state, y_DQ.sum(axis=0), reach_Q)
    if spec.learn_locations:
        state = divide(key, layout, spec, state, mode, y_DQ, reach_DQ, rows, reach_Q)
    allocation = thin(key, layout, rows, state)
    expected = float((state.core_values() * reach_Q).sum())
    log_likelihood = allocation.log_rates - layout.log_factorials - expected
    return state, allocation, _info(layout, before, state, allocation, log_likelihood)


def _info(layout: Layout, before: State, state: State, allocation: Allocation, log_likelihood: float) -> Info:
    holding = allocation.y_RQ[layout.rows(0)].sum(axis=0) > 0
    locations = state.subs_QM[holding]
    (cell_keys,) = column_keys([log_phi_DK.shape[1] for log_phi_DK in state.log_phi], locations.T)
    return Info(
        log_likelihood=log_likelihood,
        classes=len(np.unique(cell_keys)),
        factors=tuple(int((np.bincount(column) > 0).sum()) for column in locations.T),
        moved=float(np.mean(np.any(state.subs_QM != before.subs_QM, axis=1))),
    )
