"""A slow sampler of the paper's model, in plain NumPy, with switches for how the authors' code differs from the paper.

It is written from the paper and from a description of the differences. Unlike the package, it draws pi, conditions on
factors that no class uses, and moves classes only by the paper's step. Held-out cells are imputed, so the exposures of
all classes are products of sums of factors. Without a switch, it is an exact Gibbs sampler.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln, logsumexp

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
A0, B0, E0, F0, ALPHA0, G0, H0 = 1.0, 1.0, 1.0, 10.0, 0.1, 1.0, 1.0
LOG_ODDS = np.arange(-20.0, 20.0, 0.01)
FLOOR = 1e-5
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Switches:
    """How the authors' code differs from the paper.

    prior_per_row: the log prior of a location is added once per row of the mode. thin_every: sweeps between two draws
    of the allocation. impute_every: sweeps between two imputations of held-out cells; they start as Poisson draws.
    stale_rates: held-out cells are scored with rates that are as old. floor: predictive probabilities of exactly 0
    become 1e-5.
    """

    prior_per_row: bool = False
    thin_every: int = 1
    impute_every: int = 1
    stale_rates: bool = False
    floor: bool = False


@dataclass
class State:
    """core (Q), locations (Q, M), factors per mode (D, K), and the odds p / (1 - p) of the negative binomial."""

    core_Q: Floats
    subs_QM: Ints
    factors: list[Floats]
    log_odds: float | None = None

    @property
    def scale(self) -> float:
        """c: latent counts are Poisson with rate c times the rate of the cell."""
        return 1.0 if self.log_odds is None else float(np.logaddexp(0.0, self.log_odds))

    @property
    def core_rate(self) -> float:
        """The rate of the prior of core values."""
        return B0 if self.log_odds is None else B0 * float(np.exp(self.log_odds))

    def columns(self, mode: int) -> Floats:
        """The factor of each class in a mode, (D, Q)."""
        return self.factors[mode][:, self.subs_QM[:, mode]]

    def sums(self, without: int | None = None) -> Floats:
        """The product over the modes of the sums of the factors of each class, (Q,)."""
        parts = [self.columns(m).sum(axis=0) for m in range(len(self.factors)) if m != without]
        return np.prod(parts, axis=0)

    def class_rates(self, coords_MN: Ints) -> Floats:
        """The rate of every class in some cells, (N, Q)."""
        rate_NQ = np.tile(self.core_Q, (coords_MN.shape[1], 1))
        for mode, rows_N in enumerate(coords_MN):
            rate_NQ *= self.columns(mode)[rows_N]
        return rate_NQ


@dataclass
class Sampler:
    """One chain: the cells with counts, the held-out cells, and the state."""

    coords_MN: Ints
    counts_N: Ints
    shape: tuple[int, ...]
    core_shape: tuple[int, ...]
    budget: int
    rng: np.random.Generator
    held_out_MH: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    switches: Switches = Switches()
    learn_locations: bool = True
    dispersed: bool = False

    def states(self, sweeps: int) -> Iterator[tuple[State, Ints]]:
        """Yield the state after each sweep, and the counts of each class."""
        rng, every = self.rng, self.switches
        factors = [rng.gamma(E0, 1 / F0, size) for size in zip(self.shape, self.core_shape, strict=True)]
        diagonal_QM = np.stack([np.arange(self.budget) % width for width in self.core_shape], axis=1)
        state = State(rng.gamma(A0, 1 / B0, self.budget), diagonal_QM, factors, 0.0 if self.dispersed else None)
        imputed_H = self._imputed(state)
        for sweep in range(sweeps):
            if sweep and sweep % every.impute_every == 0:
                imputed_H = self._imputed(state)
            if sweep % every.thin_every == 0:
                tables = self._allocate(state, imputed_H)
            class_Q = tables[0].sum(axis=0)
            self._draw_dispersion(state, class_Q.sum(), imputed_H)
            rate_Q = state.core_rate + state.scale * state.sums()
            state.core_Q = rng.gamma(A0 + class_Q) / rate_Q
            for mode, table_DQ in enumerate(tables):
                if self.learn_locations:
                    self._relocate(state, mode, table_DQ)
            for mode, table_DQ in enumerate(tables):
                self._draw_factors(state, mode, table_DQ)
            yield state, class_Q

    def _imputed(self, state: State) -> Ints:
        if not self.held_out_MH.size:
            return np.zeros(0, dtype=np.int64)
        rate_H = state.class_rates(self.held_out_MH).sum(axis=1)
        if state.log_odds is not None:
            rate_H = self.rng.gamma(np.maximum(rate_H, TINY)) * np.exp(state.log_odds)
        return self.rng.poisson(rate_H)

    def _allocate(self, state: State, imputed_H: Ints) -> list[Ints]:
        """Thinning: the counts of each class in each row, (D, Q) per mode."""
        positive = np.flatnonzero(imputed_H)
        coords_MN, counts_N = self.coords_MN, self.counts_N
        if len(positive):
            coords_MN = np.concatenate([coords_MN, self.held_out_MH[:, positive]], axis=1)
            counts_N = np.concatenate([counts_N, imputed_H[positive]])
        rate_NQ = np.maximum(state.class_rates(coords_MN), TINY)
        whole_N = rate_NQ.sum(axis=1)
        if state.log_odds is not None:
            counts_N = self._tables(counts_N, whole_N)
        alloc_NQ = self.rng.multinomial(counts_N, rate_NQ / whole_N[:, None])
        number = np.arange(len(counts_N))
        ones = np.ones(len(counts_N), dtype=np.int64)
        return [
            np.asarray(csr_array((ones, (rows_N, number)), shape=(length, len(counts_N))) @ alloc_NQ)
            for rows_N, length in zip(coords_MN, self.shape, strict=True)
        ]

    def _tables(self, counts_N: Ints, rate_N: Floats) -> Ints:
        """CRT: the sum over i = 0 .. y - 1 of Bernoulli(r / (r + i))."""
        cell_E = np.repeat(np.arange(len(counts_N)), counts_N)
        order_E = np.arange(len(cell_E)) - np.repeat(np.cumsum(counts_N) - counts_N, counts_N)
        opens_E = self.rng.random(len(cell_E)) < rate_N[cell_E] / (rate_N[cell_E] + order_E)
        return np.bincount(cell_E[opens_E], minlength=len(counts_N))

    def _draw_dispersion(self, state: State, latent: int, imputed_H: Ints) -> None:
        """Shift the log odds against the log core values given the latent counts; p then has a prior Beta(1, 1)."""
        if state.log_odds is None:
            return
        total = self.counts_N.sum() + imputed_H.sum()
        rate = float(state.core_Q @ state.sums())
        shifts = LOG_ODDS - state.log_odds
        log_p, log_rest = -np.logaddexp(0.0, -LOG_ODDS), -np.logaddexp(0.0, LOG_ODDS)
        log_weight = (G0 + total) * log_p + (H0 + rate * np.exp(-shifts)) * log_rest - latent * shifts
        shift = float(self._choose(shifts, log_weight)) + 0.01 * (self.rng.random() - 0.5)
        state.core_Q, state.log_odds = state.core_Q * np.exp(-shift), state.log_odds + shift

    def _choose(self, values: Floats, log_weight: Floats) -> float:
        return float(values[np.argmax(log_weight + self.rng.gumbel(size=len(values)))])

    def _relocate(self, state: State, mode: int, table_DQ: Ints) -> None:
        """The paper's step: every class of a mode, given pi and all factors, used or not."""
        phi_DK, rows = state.factors[mode], self.shape[mode]
        n_K = np.bincount(state.subs_QM[:, mode], minlength=phi_DK.shape[1])
        log_pi_K = _log_gamma(ALPHA0 / rows + n_K, self.rng)
        log_pi_K -= logsumexp(log_pi_K)
        exposure_Q = state.scale * state.core_Q * state.sums(without=mode)
        log_QK = table_DQ.T @ np.log(np.maximum(phi_DK, TINY)) - np.outer(exposure_Q, phi_DK.sum(axis=0))
        log_QK += log_pi_K * (rows if self.switches.prior_per_row else 1)
        state.subs_QM[:, mode] = np.argmax(log_QK + self.rng.gumbel(size=log_QK.shape), axis=1)

    def _draw_factors(self, state: State, mode: int, table_DQ: Ints) -> None:
        place_Q, width = state.subs_QM[:, mode], self.core_shape[mode]
        shape_DK = np.full((self.shape[mode], width), E0)
        np.add.at(shape_DK.T, place_Q, table_DQ.T)
        exposure_Q = state.scale * state.core_Q * state.sums(without=mode)
        state.factors[mode] = self.rng.gamma(shape_DK) / (F0 + np.bincount(place_Q, exposure_Q, width))


def _log_gamma(shape: Floats, rng: np.random.Generator) -> Floats:
    """The log of Gamma(shape, 1), which may underflow by itself if the shape is small."""
    return np.log(np.maximum(rng.gamma(shape + 1.0), TINY)) + np.log(rng.random(len(shape))) / shape


class Score:
    """The log PPD of held-out cells, from the rates of draws."""

    def __init__(self, coords_MH: Ints, counts_H: Ints, switches: Switches) -> None:
        self.coords_MH, self.counts_H, self.switches = coords_MH, counts_H, switches
        self.draws: list[Floats] = []
        self.rate_H: Floats | None = None

    def refresh(self, state: State, sweep: int) -> None:
        """Compute the rates anew, if they are due."""
        if not self.switches.stale_rates or sweep % self.switches.impute_every == 0 or self.rate_H is None:
            self.rate_H = np.maximum(state.class_rates(self.coords_MH).sum(axis=1), TINY)

    def add(self) -> None:
        """Add a draw with the present rates."""
        assert self.rate_H is not None
        y_H = self.counts_H
        self.draws.append(y_H * np.log(self.rate_H) - self.rate_H - gammaln(y_H + 1.0))

    def log_ppd(self) -> Floats:
        """The log predictive probability of each cell."""
        log_H = logsumexp(self.draws, axis=0) - np.log(len(self.draws))
        zero_H = np.exp(self.draws).mean(axis=0) == 0.0
        return np.where(zero_H & self.switches.floor, np.log(FLOOR), log_H)
