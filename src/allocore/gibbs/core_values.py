"""Core values given the allocated counts, the locations and the factors (the paper's conditional for lambda_q):

    lambda_q ~ Gamma( a0 + y_q,  b0 + X_q / lambda_q ),      X_q = sum_d phi[m][d, k[q, m]] X[m][d, q]   for any one m.

For the negative binomial with one p, b0 is multiplied by the odds of p, here and in all other steps (dispersion.py).

X / lambda of mode m depends neither on lambda nor on the factors of mode m, so the one of the mode drawn last is used.

If the budget is inferred, only included classes have a value above zero. A class is included with probability rho,
rho ~ Beta(c0, d0). With rho and the core value integrated out, and n other classes included, class q is

    included   with weight   (n + c0) * ( b0 / (b0 + X_q / lambda_q) )^a0
    left out   with weight   Q - 1 - n + d0

if it holds no counts. A class with counts is always included. This is a spike-and-slab prior, sampled class by class
(George and McCulloch 1993). A class that is left out keeps a location in every mode, drawn from the prior. Cost: Q.
"""

from dataclasses import replace
from math import exp, log
from typing import NamedTuple

import numpy as np

from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import Flags, Floats, Ints, log_of
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seek, uniform
from allocore.model.spec import Spec
from allocore.model.state import State


class CoreInfo(NamedTuple):
    """How many classes are included: all, unless the budget is inferred."""

    included: int


def draw_core_values(key: Key, spec: Spec, state: State, y_Q: Ints, exposure_Q: Floats) -> tuple[State, CoreInfo]:
    """Draw which classes are included, and their core values; `exposure_Q` is X_q / lambda_q."""
    included_Q = draw_inclusion(key, spec, state, y_Q, exposure_Q)
    shape_Q, rate_Q = core_conditional(spec, state, y_Q, exposure_Q)
    log_core_Q = np.empty(spec.budget)
    _draw(shape_Q, rate_Q, key.stream(Step.CORE), scratch(), log_core_Q)
    state = replace(state, log_core_Q=np.where(included_Q, log_core_Q, -np.inf))
    return state, CoreInfo(int(np.count_nonzero(included_Q)))


def draw_inclusion(key: Key, spec: Spec, state: State, y_Q: Ints, exposure_Q: Floats) -> Flags:
    """Draw which classes are included (all, unless the budget is inferred)."""
    included_Q = state.included()
    if spec.infer_budget:
        b0 = spec.core_rate(state.dispersion)
        log_empty_Q = spec.a0 * (log(b0) - log_of(b0 + exposure_Q))
        _include(y_Q, log_empty_Q, spec.c0, spec.d0, key.stream(Step.INCLUSION), scratch(), included_Q)
    return included_Q


def core_conditional(spec: Spec, state: State, y_Q: Ints, exposure_Q: Floats) -> tuple[Floats, Floats]:
    """Shape and rate of every lambda_q."""
    return np.asarray(spec.a0 + y_Q, dtype=np.float64), spec.core_rate(state.dispersion) + exposure_Q


@kernel
def _draw(shape_Q: Floats, rate_Q: Floats, stream: Words, rng: Words, log_core_Q: Floats) -> None:
    seek(rng, stream, np.int64(0))
    for q in range(log_core_Q.size):
        log_core_Q[q] = log_gamma(rng, shape_Q[q], rate_Q[q])


@kernel
def _include(
    y_Q: Ints, log_empty_Q: Floats, c0: float, d0: float, stream: Words, rng: Words, included_Q: Flags
) -> None:
    """Visit the classes in turn; `log_empty_Q` is the log probability that an included class holds no counts."""
    seek(rng, stream, np.int64(0))
    others = 0
    for q in range(included_Q.size):
        others += int(included_Q[q])
    for q in range(included_Q.size):
        others -= int(included_Q[q])
        odds = log(others + c0) - log(included_Q.size - 1 - others + d0) + log_empty_Q[q]
        included_Q[q] = y_Q[q] > 0 or uniform(rng) * (1.0 + exp(-odds)) < 1.0
        others += int(included_Q[q])
