"""Factors of one mode given counts, core values, locations and the other modes (the paper's conditional for phi):

    phi[d, k] ~ Gamma( e0 + sum_{q at k} y[d, q],  f0 + sum_{q at k} X[d, q] )

for the factors that some class uses. The others are integrated out and have no value. Cost: D * (Q + factors in use).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from allocore.gibbs.exposure import ModeView
from allocore.gibbs.layout import Layout
from allocore.gibbs.priors import Priors
from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.distributions import log_gammas
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State

_ROWS_PER_THREAD = 8


class ClassesOfMode(NamedTuple):
    """What the conditional reads about the classes: core values, their places among the factors in use, and these."""

    core_Q: Floats
    place_Q: Ints
    used_U: Ints


def draw_factors(key: Key, layout: Layout, spec: Spec, state: State, view: ModeView) -> State:
    """A new state in which every factor in use of one mode is drawn."""
    mode, y_DQ, exposure_DQ = view
    log_phi_DK, used_K = np.empty_like(state.log_phi[mode]), state.used(mode)
    place_Q = (np.cumsum(used_K) - 1)[state.subs_QM[:, mode]]
    priors = Priors.of(spec, state, mode)
    classes, stream = ClassesOfMode(state.core_values(), place_Q, np.flatnonzero(used_K)), key.stream(Step.FACTOR, mode)
    layout.workers.run(
        [
            partial(_draw_rows, *cut, priors.e0, priors.f0, y_DQ, exposure_DQ, classes, stream, scratch(), log_phi_DK)
            for cut in layout.workers.ranges(len(log_phi_DK), _ROWS_PER_THREAD)
        ]
    )
    return state.with_factors(mode, log_phi_DK)


@kernel
def _draw_rows(
    first: int, last: int, e0: float, f0: float, y_DQ: Ints, exposure_DQ: Floats, classes: ClassesOfMode, stream: Words,
    rng: Words, log_phi_DK: Floats,
) -> None:  # fmt: skip
    """Fill rows `first` to `last` of `log_phi_DK`."""
    core_Q, place_Q, used_U = classes
    shape_U, rate_U, log_U = np.empty(used_U.size), np.empty(used_U.size), np.empty(used_U.size)
    work_2U = np.empty((2, used_U.size))
    for d in range(first, last):
        conditional_of_row(e0, f0, y_DQ[d], exposure_DQ[d], core_Q, place_Q, shape_U, rate_U)
        seat(rng, stream, d)
        log_gammas(rng, shape_U, rate_U, work_2U, log_U)
        for k in range(log_phi_DK.shape[1]):
            log_phi_DK[d, k] = -np.inf
        for u in range(used_U.size):
            log_phi_DK[d, used_U[u]] = log_U[u]


@kernel
def conditional_of_row(
    e0: float, f0: float, y_Q: Ints, exposure_Q: Floats, core_Q: Floats, place_Q: Ints, shape_U: Floats, rate_U: Floats
) -> None:
    """Fill `shape_U` and `rate_U` of the gamma conditionals of one row, for every factor in use."""
    for u in range(shape_U.size):
        shape_U[u], rate_U[u] = e0, f0
    for q in range(place_Q.size):
        shape_U[place_Q[q]] += y_Q[q]
        rate_U[place_Q[q]] += core_Q[q] * exposure_Q[q]
