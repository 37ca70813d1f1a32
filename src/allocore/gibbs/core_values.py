"""Core values given the allocated counts, the locations and the factors (the paper's conditional for lambda_q):

    lambda_q ~ Gamma( a0 + y_q,  b0 + X_q / lambda_q ),      X_q = sum_d phi[m][d, k[q, m]] X[m][d, q]   for any one m.

Where the budget is inferred, that is for the classes that are on (switches.py); the others have the value zero.
X / lambda of mode m depends neither on lambda nor on the factors of mode m, so that of the mode drawn last serves.
Cost: D_m * Q.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from allocore.gibbs.inclusion import switch
from allocore.kernels.distributions import log_gamma
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat
from allocore.model.spec import Spec
from allocore.model.state import State


def draw_core_values(key: Key, spec: Spec, state: State, y_Q: NDArray[np.int64], reach_Q: NDArray[np.float64]) -> State:
    """A new state with all core values drawn; `reach_Q` is X_q / lambda_q."""
    shape_Q, rate_Q = core_conditional(spec, y_Q, reach_Q)
    log_core_Q = np.empty(spec.budget)
    _draw(shape_Q, rate_Q, key.stream(Step.CORE), scratch(), log_core_Q)
    if spec.infer_budget:
        log_core_Q[~switch(key, spec, state, y_Q, reach_Q)] = -np.inf
    return replace(state, log_core_Q=log_core_Q)


def core_conditional(
    spec: Spec, y_Q: NDArray[np.int64], reach_Q: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shape and rate of every lambda_q."""
    return np.asarray(spec.a0 + y_Q, dtype=np.float64), spec.b0 + reach_Q


@kernel
def _draw(
    shape_Q: NDArray[np.float64],
    rate_Q: NDArray[np.float64],
    stream: Words,
    rng: Words,
    log_core_Q: NDArray[np.float64],
) -> None:
    seat(rng, stream, 0)
    for q in range(log_core_Q.size):
        log_core_Q[q] = log_gamma(rng, shape_Q[q], rate_Q[q])
