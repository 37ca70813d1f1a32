"""Factors of one mode given counts, core values, locations and the other modes (the paper's conditional for phi):

    phi[d, k] ~ Gamma( e0 + sum_{q at k} y[d, q],  f0 + sum_{q at k} X[d, q] )

for the factors that some class uses; the others are integrated out and hold no value. Cost: D * (Q + factors in use).
"""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.layout import Ints, Layout
from allocore.kernels.distributions import log_gamma
from allocore.kernels.expansion import Rows, expand_row
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State

_ROWS_PER_THREAD = 8
_Floats = NDArray[np.float64]


def draw_factors(
    key: Key, layout: Layout, spec: Spec, state: State, mode: int, y_DQ: Ints, reach_DQ: _Floats, rows: Rows
) -> State:
    """A new state with every factor in use of one mode drawn; `rows` follows it."""
    log_phi_DK = np.full_like(state.log_phi[mode], -np.inf)
    subs_Q = np.ascontiguousarray(state.subs_QM[:, mode])
    used_U = np.flatnonzero(state.used(mode))
    core_Q, phi_DQ = state.core_values(), rows.phi_RQ[layout.rows(mode)]
    layout.workers.run(
        [
            partial(
                _draw_rows, first, last, spec.e0, spec.f0, y_DQ, reach_DQ, core_Q, subs_Q, used_U,
                key.stream(Step.FACTOR, mode), scratch(), log_phi_DK, phi_DQ,
            )
            for first, last in layout.workers.ranges(len(log_phi_DK), _ROWS_PER_THREAD)
        ]
    )  # fmt: skip
    rows.add_up(layout, mode)
    return replace(state, log_phi=(*state.log_phi[:mode], log_phi_DK, *state.log_phi[mode + 1 :]))


@kernel
def _draw_rows(
    first: int, last: int, e0: float, f0: float, y_DQ: Ints, reach_DQ: _Floats, core_Q: _Floats, subs_Q: Ints,
    used_U: Ints, stream: Words, rng: Words, log_phi_DK: _Floats, phi_DQ: _Floats,
) -> None:  # fmt: skip
    width = log_phi_DK.shape[1]
    shape_K, rate_K, phi_K = np.empty(width), np.empty(width), np.empty(width)
    for d in range(first, last):
        conditional_of_row(e0, f0, y_DQ[d], reach_DQ[d], core_Q, subs_Q, shape_K, rate_K)
        seat(rng, stream, d)
        for k in used_U:
            log_phi_DK[d, k] = log_gamma(rng, shape_K[k], rate_K[k])
        expand_row(d, log_phi_DK, subs_Q, used_U, phi_K, phi_DQ)


@kernel
def conditional_of_row(
    e0: float, f0: float, y_Q: Ints, reach_Q: _Floats, core_Q: _Floats, subs_Q: Ints, shape_K: _Floats, rate_K: _Floats
) -> None:
    """Shape and rate of the factor entries of one row, for every factor of the mode."""
    for k in range(shape_K.size):
        shape_K[k], rate_K[k] = e0, f0
    for q in range(subs_Q.size):
        shape_K[subs_Q[q]] += y_Q[q]
        rate_K[subs_Q[q]] += core_Q[q] * reach_Q[q]
