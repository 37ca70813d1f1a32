"""Core values given the allocated counts, the locations and the factors (the paper's conditional for lambda_q):

    lambda_q ~ Gamma( a0 + y_q,  b0 + X_q / lambda_q ),      X_q = sum_d phi[m][d, k[q, m]] X[m][d, q]   for any one m.

If the budget is inferred, only included classes draw a value (inclusion.py); the others have the value zero.
X / lambda of mode m depends neither on lambda nor on the factors of mode m, so the one of the mode drawn last can be
used. Cost: D_m * Q.
"""

from dataclasses import replace

import numpy as np

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.distributions import log_gamma
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State


def draw_core_values(key: Key, spec: Spec, state: State, included_Q: Flags, y_Q: Ints, exposure_Q: Floats) -> State:
    """A new state with all core values drawn; `exposure_Q` is X_q / lambda_q."""
    shape_Q, rate_Q = core_conditional(spec, y_Q, exposure_Q)
    log_core_Q = np.empty(spec.budget)
    _draw(shape_Q, rate_Q, key.stream(Step.CORE), scratch(), log_core_Q)
    return replace(state, log_core_Q=np.where(included_Q, log_core_Q, -np.inf))


def core_conditional(spec: Spec, y_Q: Ints, exposure_Q: Floats) -> tuple[Floats, Floats]:
    """Shape and rate of every lambda_q."""
    return np.asarray(spec.a0 + y_Q, dtype=np.float64), spec.b0 + exposure_Q


@kernel
def _draw(shape_Q: Floats, rate_Q: Floats, stream: Words, rng: Words, log_core_Q: Floats) -> None:
    """Fill `log_core_Q`."""
    seat(rng, stream, np.int64(0))
    for q in range(log_core_Q.size):
        log_core_Q[q] = log_gamma(rng, shape_Q[q], rate_Q[q])
