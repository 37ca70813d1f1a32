"""Which classes are on, given the counts, the locations and the factors; where the budget is inferred.

A class is on with probability rho, rho ~ Beta(c0, d0), and else its core value is zero: with rho and the value of the
class integrated out, and n other classes on, class q is

    on    with weight   (n + c0) * ( b0 / (b0 + X_q / lambda_q) )^a0
    off   with weight   Q - 1 - n + d0

if it holds no counts, and on if it holds any. Classes take their turns, then every class that is on draws its value
(core_values.py). A class that is off keeps a location in every mode, from the prior: where it would be, were it on.
Cost: Q.
"""

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State


def switch(
    key: Key, spec: Spec, state: State, y_Q: NDArray[np.int64], reach_Q: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which classes are on now; `reach_Q` is X_q / lambda_q."""
    on_Q = state.on()
    log_empty_Q = spec.a0 * (log(spec.b0) - np.log(spec.b0 + reach_Q))
    _switch(y_Q, log_empty_Q, spec.c0, spec.d0, key.stream(Step.SWITCH), scratch(), on_Q)
    return on_Q


@kernel
def _switch(
    y_Q: NDArray[np.int64],
    log_empty_Q: NDArray[np.float64],
    c0: float,
    d0: float,
    stream: Words,
    rng: Words,
    on_Q: NDArray[np.bool_],
) -> None:
    """Switch the classes in turn; `log_empty_Q` is how likely a class that is on would hold no counts."""
    seat(rng, stream, 0)
    others = 0
    for q in range(on_Q.size):
        others += int(on_Q[q])
    for q in range(on_Q.size):
        others -= int(on_Q[q])
        odds = log(others + c0) - log(on_Q.size - 1 - others + d0) + log_empty_Q[q]
        on_Q[q] = y_Q[q] > 0 or uniform(rng) * (1.0 + exp(-odds)) < 1.0
        others += int(on_Q[q])
