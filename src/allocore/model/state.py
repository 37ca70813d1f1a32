"""The state of a chain: the values of the model's variables at one sweep.

Shape suffixes, used throughout the package:

    M  modes                           D  rows of one mode (its labels), D_m
    Q  classes (the budget)            K  factors of one mode, K_m
    N  non-zero cells                  R  rows of all modes, stacked (R = sum of D_m)
    P  signed missing patterns         U  factors of one mode that some class uses

    log_core_Q   log lambda            subs_QM   location of each class in the core, k[q, m]
    log_phi_DK   log phi of one mode   y_RQ      counts allocated to class q in the cells of row r
    exposure_DQ  exposure of each class per unit of core value, X[m][d, q] / lambda_q

Core values and factors are kept as logarithms: a gamma variate of small shape underflows, its logarithm does not.
If the budget is inferred, a class that is not included has the core value zero, with the logarithm -inf.
A factor that no class uses is integrated out. It has no value in the chain, and its column holds -inf. A frozen factor
(known.py) always has its value.
Two modes that are tied have the same factors: those that some class uses in either mode.
Concentrations are in the state only if they are learned, and the dispersion only if the likelihood has one.
"""

from dataclasses import dataclass, field, replace
from math import nan

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dispersion:
    """The dispersion p of the negative binomial as log odds: one, or one for each row of a mode."""

    log_odds_D: NDArray[np.float64]
    mode: int | None = None

    def odds(self) -> float:
        """p / (1 - p), if there is one p."""
        return float(_exp_of(self.log_odds_D)[0])

    def at(self, coords_MN: NDArray[np.int64]) -> NDArray[np.float64]:
        """The log odds that hold in each cell."""
        if self.mode is None:
            return np.full(coords_MN.shape[1], self.log_odds_D[0])
        return np.asarray(self.log_odds_D[coords_MN[self.mode]])


@dataclass(frozen=True)
class State:
    """Core values, locations, factors and, if any, concentrations (M) and dispersion. Steps never write to a state."""

    log_core_Q: NDArray[np.float64]
    subs_QM: NDArray[np.int64]
    log_phi: tuple[NDArray[np.float64], ...]
    concentrations_M: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    dispersion: Dispersion | None = None

    def core_values(self) -> NDArray[np.float64]:
        """The values lambda_q."""
        return _exp_of(self.log_core_Q)

    def included(self) -> NDArray[np.bool_]:
        """Which classes are included, (Q): all of them, unless the budget is inferred."""
        return self.log_core_Q > -np.inf

    def with_factors(self, modes: int | tuple[int, ...], log_phi_DK: NDArray[np.float64]) -> "State":
        """The same state with other factors in one mode, or in modes that share them."""
        those = modes if isinstance(modes, tuple) else (modes,)
        return replace(self, log_phi=tuple(log_phi_DK if m in those else own for m, own in enumerate(self.log_phi)))

    def factors(self, mode: int) -> NDArray[np.float64]:
        """The factor matrix of one mode, (D, K); zero in the columns that no class uses, unless they are frozen."""
        return _exp_of(self.log_phi[mode])

    def used(self, modes: int | tuple[int, ...]) -> NDArray[np.bool_]:
        """Which factors of the mode, or of modes that share them, are used by some class, (K)."""
        those = modes if isinstance(modes, tuple) else (modes,)
        return np.bincount(self.subs_QM[:, those].ravel(), minlength=self.log_phi[those[0]].shape[1]) > 0


def log_mean_row(log_phi_DK: NDArray[np.float64]) -> NDArray[np.float64]:
    """The logarithm of the mean over the rows of factors, (K): a start for rows of which nothing is known."""
    from allocore.kernels.elementary import log_of

    return log_of(_exp_of(log_phi_DK).mean(axis=0))


def per_unit(log_phi_DK: NDArray[np.float64], weights_D: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The logarithms of factors per unit of the known weights of their rows, which those of a state have in them."""
    from allocore.kernels.elementary import log_of

    return log_phi_DK if weights_D is None else log_phi_DK - log_of(weights_D)[:, None]


def times_weights(log_phi_DK: NDArray[np.float64], weights_D: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The logarithms of factors times the weights of their rows, from those per unit."""
    from allocore.kernels.elementary import log_of

    return log_phi_DK if weights_D is None else log_phi_DK + log_of(weights_D)[:, None]


def _exp_of(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    from allocore.kernels.elementary import exp_of

    return exp_of(logs)


@dataclass(frozen=True)
class SweepInfo:
    """Diagnostics of one sweep of the sampler, or of one iteration of EM. The next sweep needs none of them.

    A class is in use if it holds counts, a factor if a class in use is at it; classes at the same location count once.
    `moved` is the share of classes that changed location; acceptance rates of proposals are NaN without a proposal.
    """

    log_likelihood: float
    classes: int
    factors: tuple[int, ...]
    moved: float
    relocation_accepted: float = nan
    split_merge_accepted: float = nan
