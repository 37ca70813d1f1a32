"""The concentration e of one mode, the shape of the prior of its factors, with the factors integrated out:

    l[d, k] ~ CRT( y[d, k], e ),     e ~ Gamma( s0 + sum of l,  t0 + sum of ln(1 + w[d] X[d, k] / f0) )

over the rows d and the factors k in use, where y[d, k] and X[d, k] are sums over the classes at k, and w[d] is the
known weight of the row, or 1. With its factor integrated out, a count is negative binomial with the shape e, and l
makes its conditional a gamma: Zhou and Carin (2015), after Escobar and West (1995). The draw comes directly before that
of the factors (factors.py), which brings back what is integrated out here.

In a seeded factor (model/known.py), e is e u[d] in the first line, and the logarithm in the second is multiplied by
u[d]. Frozen factors, which have no prior, are left out of both sums.

Only the sum of l matters, and kernels/chinese_restaurant.py draws it directly: customer i of all restaurants at once.
Cost: D * (Q + factors in use), and sorting the counts.
"""

from dataclasses import replace
from functools import partial
from math import log
from typing import NamedTuple

import numpy as np

from allocore.gibbs.factors import ClassesOfMode, ModeView
from allocore.gibbs.layout import Layout
from allocore.kernels.chinese_restaurant import SCRATCH, crt_sum
from allocore.kernels.distributions import log_gamma
from allocore.kernels.elementary import Floats, Ints, exp_of
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, scratch, seek
from allocore.model.spec import Spec
from allocore.model.state import State

_ROWS_PER_THREAD = 16
_SMALL = 256
_LEAST = 1e-290  # below this, the products of e and of counts would not be floats any more


class ConcentrationInfo(NamedTuple):
    """The sum of l over the rows and factors of the mode: the number of restaurant tables."""

    tables: int


def draw_concentration(
    key: Key, layout: Layout, spec: Spec, state: State, view: ModeView
) -> tuple[State, ConcentrationInfo]:
    """Draw the concentration of one mode."""
    mode, y_DQ, exposure_DQ = view
    classes = ClassesOfMode.of(state, mode)
    y_DU, log_D = np.empty((len(y_DQ), len(classes.used_U)), dtype=np.int64), np.empty(len(y_DQ))
    f0_D, known = spec.factor_rates(mode, len(y_DQ)), spec.known_in(mode)
    u_DU = known.multipliers(len(y_DQ), known.kinds(spec.core_shape[mode])[classes.used_U])
    layout.workers.run(
        [
            partial(_sum_rows, *cut, f0_D, u_DU, y_DQ, exposure_DQ, classes, y_DU, log_D)
            for cut in layout.workers.ranges(len(y_DQ), _ROWS_PER_THREAD)
        ]
    )
    rng, present, tables = scratch(), float(state.concentrations_M[mode]), 0
    seek(rng, key.stream(Step.CONCENTRATION, mode), 0)
    for u in (1.0, 1.0 + known.seed_weight) if known.seeds else (1.0,):
        counts_J = _in_order(y_DU[u_DU == u])
        tables += crt_sum(rng, counts_J, np.cumsum(counts_J), u * present, np.empty(SCRATCH, dtype=np.int64))
    concentrations_M = state.concentrations_M.copy()
    drawn = exp_of(log_gamma(rng, spec.s0 + tables, spec.t0 + float(log_D.sum())))
    concentrations_M[mode] = max(float(drawn), _LEAST)
    return replace(state, concentrations_M=concentrations_M), ConcentrationInfo(int(tables))


def _in_order(y_J: Ints) -> Ints:
    """The counts above zero, smallest first. Most are small, and counting them is quicker than sorting."""
    how_many = np.bincount(np.minimum(y_J, _SMALL), minlength=_SMALL + 1)
    small_J = np.repeat(np.arange(1, _SMALL), how_many[1:_SMALL])
    return np.concatenate([small_J, np.sort(y_J[y_J >= _SMALL])])


@kernel
def _sum_rows(
    first: int, last: int, f0_D: Floats, u_DU: Floats, y_DQ: Ints, exposure_DQ: Floats, classes: ClassesOfMode,
    y_DU: Ints, log_D: Floats,
) -> None:  # fmt: skip
    """Fill rows `first` to `last` of `y_DU`, and of `log_D`, the sums of u ln(1 + X / f0_D)."""
    core_Q, place_Q, _ = classes
    exposure_U = np.empty(y_DU.shape[1])
    for d in range(first, last):
        for k in range(exposure_U.size):
            exposure_U[k] = 0.0
            y_DU[d, k] = 0
        for q in range(place_Q.size):
            y_DU[d, place_Q[q]] += y_DQ[d, q]
            exposure_U[place_Q[q]] += core_Q[q] * exposure_DQ[d, q]
        total, product = 0.0, 1.0
        for k in range(exposure_U.size):
            if u_DU[d, k] != 1.0:
                total += u_DU[d, k] * log(1.0 + exposure_U[k] / f0_D[d])
                continue
            product *= 1.0 + exposure_U[k] / f0_D[d]
            if product > 1e150:  # one logarithm for many factors
                total += log(product)
                product = 1.0
        log_D[d] = total + log(product)
