"""Factors of one mode given counts, core values, locations and the other modes (the paper's conditional for phi):

    phi[d, k] ~ Gamma( e0 + sum_{q at k} y[d, q],  f0 / w[d] + sum_{q at k} X[d, q] )

for the factors that some class uses, where w[d] is the known weight of the row, or 1 (model/spec.py). The others are
integrated out and have no value. In a seeded factor, e0 is e0 u[d]; a frozen one stays as it is (model/known.py).
Cost: D * (Q + factors in use).

X is the exposure: how many latent counts to expect from class q in row d per unit of its factor entry,

    X[m][d, q] / lambda_q  =  prod_{m' != m} colsum[m'][k[q, m']]  -  the same over the missing cells with d_m = d

for a Poisson likelihood. For the negative binomial every cell of the sum has the factor c (model/likelihood.py).
kernels/exposure_sums.py computes the sums. The code keeps `exposure_DQ` = X / lambda, because lambda may be too small
for a float. It does not depend on the locations or factors of mode m. Cost: (D_m + patterns * M) * Q.
"""

from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from allocore.gibbs.layout import Layout, Workspace
from allocore.kernels.distributions import log_gammas
from allocore.kernels.elementary import Floats, Ints, log_of
from allocore.kernels.jit import kernel
from allocore.kernels.random import Key, Step, Words, scratch, seek
from allocore.model.spec import Spec
from allocore.model.state import State


class ModeView(NamedTuple):
    """What the steps read about one mode: the counts of each class in its rows, and X / lambda."""

    mode: int
    y_DQ: Ints
    exposure_DQ: Floats

    def exposure_Q(self, phi_DQ: Floats) -> Floats:
        """X_q / lambda_q of the classes, given the expanded factors of the mode."""
        return np.asarray(np.einsum("dq,dq->q", self.exposure_DQ, phi_DQ))


def exposure(layout: Layout, workspace: Workspace, mode: int) -> Floats:
    """X / lambda of one mode as `exposure_DQ`."""
    return layout.missing.sums_by_row(workspace.expanded, mode, layout.workers, workspace.scale)


_TABULATED = 1024  # counts whose log rising factorials are in a table
_ROWS_PER_THREAD = 8


class Priors(NamedTuple):
    """Priors of core values (a0, b0) and factors (e0, f0_D, the rate of each row, whose geometric mean is `f0`).

    `log_rising_Y` tabulates ln G(e0 + y) - ln G(e0). For the factors of each kind from 0 (model/known.py), `more_GD` is
    what the shape of the prior has beyond e0: nothing for kind 0, and e0 (u - 1) for a seed.
    """

    a0: float
    b0: float
    e0: float
    f0: float
    f0_D: Floats
    log_rising_Y: Floats
    more_GD: Floats

    @classmethod
    def of(cls, spec: Spec, state: State, mode: int) -> "Priors":
        """The priors of a model in one mode; the state has e0 if it is learned, and p, which scales b0."""
        rows, e0 = len(state.log_phi[mode]), spec.concentration(mode, state.concentrations_M)
        b0, f0, f0_D = spec.core_rate(state.dispersion), spec.mean_factor_rate(mode), spec.factor_rates(mode, rows)
        return cls(spec.a0, b0, e0, f0, f0_D, _log_rising(e0), e0 * spec.known_in(mode).seeded(rows))


@lru_cache(maxsize=64)
def _log_rising(e0: float) -> Floats:
    """ln G(e0 + y) - ln G(e0) for small y; most models have the same e0 in all modes and sweeps."""
    log_rising_Y = np.zeros(_TABULATED)
    np.cumsum(log_of(e0 + np.arange(_TABULATED - 1)), out=log_rising_Y[1:])
    return log_rising_Y


class ClassesOfMode(NamedTuple):
    """What the conditional reads about the classes: core values, their places among the factors in use, and these."""

    core_Q: Floats
    place_Q: Ints
    used_U: Ints

    @classmethod
    def of(cls, state: State, mode: int) -> "ClassesOfMode":
        """The classes of a state, seen from one mode."""
        used_K = state.used(mode)
        return cls(state.core_values(), (np.cumsum(used_K) - 1)[state.subs_QM[:, mode]], np.flatnonzero(used_K))


class FactorInfo(NamedTuple):
    """How many factors of the mode are in use."""

    used: int


def draw_factors(key: Key, layout: Layout, spec: Spec, state: State, view: ModeView) -> tuple[State, FactorInfo]:
    """Draw every factor in use of one mode."""
    mode, y_DQ, exposure_DQ = view
    log_phi_DK, classes = np.empty_like(state.log_phi[mode]), ClassesOfMode.of(state, mode)
    priors, stream = Priors.of(spec, state, mode), key.stream(Step.FACTOR, mode)
    kinds_U = spec.known_in(mode).kinds(spec.core_shape[mode])[classes.used_U]
    layout.workers.run(
        [
            partial(_draw_rows, *cut, priors, kinds_U, y_DQ, exposure_DQ, classes, stream, scratch(), log_phi_DK)
            for cut in layout.workers.ranges(len(log_phi_DK), _ROWS_PER_THREAD)
        ]
    )
    frozen = len(spec.known_in(mode).frozen)
    log_phi_DK[:, :frozen] = state.log_phi[mode][:, :frozen]
    return state.with_factors(mode, log_phi_DK), FactorInfo(len(classes.used_U))


@kernel
def _draw_rows(
    first: int, last: int, priors: Priors, kinds_U: Ints, y_DQ: Ints, exposure_DQ: Floats, classes: ClassesOfMode,
    stream: Words, rng: Words, log_phi_DK: Floats,
) -> None:  # fmt: skip
    core_Q, place_Q, used_U = classes
    e0, f0_D, more_GD = priors.e0, priors.f0_D, priors.more_GD
    shape_U, rate_U, log_U = np.empty(used_U.size), np.empty(used_U.size), np.empty(used_U.size)
    work_2U = np.empty((2, used_U.size))
    for d in range(first, last):
        conditional_of_row(e0, f0_D[d], y_DQ[d], exposure_DQ[d], core_Q, place_Q, shape_U, rate_U)
        for u in range(used_U.size):
            shape_U[u] += more_GD[max(kinds_U[u], 0), d]
        seek(rng, stream, d)
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
