"""Which classes are included, given the counts, the locations and the factors, if the budget is inferred.

A class is included with probability rho, rho ~ Beta(c0, d0); otherwise its core value is zero. With rho and the core
value integrated out, and n other classes included, class q is

    included   with weight   (n + c0) * ( b0 / (b0 + X_q / lambda_q) )^a0
    left out   with weight   Q - 1 - n + d0

if it holds no counts. A class with counts is always included. This is a spike-and-slab prior, sampled class by class
(George and McCulloch 1993). Then every included class draws its core value (core_values.py). A class that is left out
keeps a location in every mode, drawn from the prior. Cost: Q.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.elementary import log_of
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seat, uniform
from allocore.model.spec import Spec
from allocore.model.state import State


class _BetaPrior(NamedTuple):
    c0: float
    d0: float


def draw_inclusion(key: Key, spec: Spec, state: State, y_Q: Ints, exposure_Q: Floats) -> Flags:
    """Draw which classes are included (all, unless the budget is inferred); `exposure_Q` is X_q / lambda_q."""
    included_Q = state.included()
    if spec.infer_budget:
        log_empty_Q = spec.a0 * (log(spec.b0) - log_of(spec.b0 + exposure_Q))
        prior, stream = _BetaPrior(spec.c0, spec.d0), key.stream(Step.INCLUSION)
        _include(y_Q, log_empty_Q, prior, stream, scratch(), included_Q)
    return included_Q


@kernel
def _include(y_Q: Ints, log_empty_Q: Floats, prior: _BetaPrior, stream: Words, rng: Words, included_Q: Flags) -> None:
    """Visit the classes in turn; `log_empty_Q` is the log probability that an included class holds no counts."""
    seat(rng, stream, np.int64(0))
    others = 0
    for q in range(included_Q.size):
        others += int(included_Q[q])
    for q in range(included_Q.size):
        others -= int(included_Q[q])
        odds = log(others + prior.c0) - log(included_Q.size - 1 - others + prior.d0) + log_empty_Q[q]
        included_Q[q] = y_Q[q] > 0 or uniform(rng) * (1.0 + exp(-odds)) < 1.0
        others += int(included_Q[q])
