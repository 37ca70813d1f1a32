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
from allocore.kernels.distributions import log_gamma
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State

_ROWS_PER_THREAD = 8


class ClassesOfMode(NamedTuple):
    """What the conditional reads about the classes: core values, factors, and which factors are in use."""

    core_Q: Floats
    subs_Q: Ints
    used_U: Ints


def draw_factors(key: Key, layout: Layout, spec: Spec, state: State, view: ModeView) -> State:
    """A new state in which every factor in use of one mode is drawn."""
    mode, y_DQ, exposure_DQ = view
    log_phi_DK = np.full_like(state.log_phi[mode], -np.inf)
    subs_Q, used_U = np.ascontiguousarray(state.subs_QM[:, mode]), np.flatnonzero(state.used(mode))
    priors = Priors.of(spec, state, mode)
    classes, stream = ClassesOfMode(state.core_values(), subs_Q, used_U), key.stream(Step.FACTOR, mode)
    layout.workers.run(
        [
            partial(_draw_rows, *cut, priors, y_DQ, exposure_DQ, classes, stream, scratch(), log_phi_DK)
            for cut in layout.workers.ranges(len(log_phi_DK), _ROWS_PER_THREAD)
        ]
    )
    return state.with_factors(mode, log_phi_DK)


@kernel
def _draw_rows(
    first: int, last: int, priors: Priors, y_DQ: Ints, exposure_DQ: Floats, classes: ClassesOfMode, stream: Words,
    rng: Words, log_phi_DK: Floats,
) -> None:  # fmt: skip
    """Fill rows `first` to `last` of `log_phi_DK`."""
    used_U = classes.used_U
    shape_K, rate_K = np.empty(log_phi_DK.shape[1]), np.empty(log_phi_DK.shape[1])
    for d in range(first, last):
        conditional_of_row(priors, y_DQ[d], exposure_DQ[d], classes, shape_K, rate_K)
        seat(rng, stream, d)
        for k in used_U:
            log_phi_DK[d, k] = log_gamma(rng, shape_K[k], rate_K[k])


@kernel
def conditional_of_row(
    priors: Priors, y_Q: Ints, exposure_Q: Floats, classes: ClassesOfMode, shape_K: Floats, rate_K: Floats
) -> None:
    """Fill `shape_K` and `rate_K` of the gamma conditionals of one row, for every factor of the mode."""
    core_Q, subs_Q = classes.core_Q, classes.subs_Q
    for k in range(shape_K.size):
        shape_K[k], rate_K[k] = priors.e0, priors.f0
    for q in range(subs_Q.size):
        shape_K[subs_Q[q]] += y_Q[q]
        rate_K[subs_Q[q]] += core_Q[q] * exposure_Q[q]
