"""The log joint density, variable by variable, in plain NumPy; the sampler is tested against it.

pi and the factors that no class uses are integrated out. The rates of cells and of the observed tensor are here too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from allocore.kernels.kinds import FROZEN
from allocore.model.likelihood import log_dispersion_of
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.missing import Missing, signed_patterns
from allocore.tensor.undirected import Pair, mirrored

_CHUNK_NUMBERS = 4_000_000


def rates_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """The rate sum_q lambda_q prod_m phi[m][d_m, k[q, m]] of each cell in `coords` (M, n)."""
    return np.exp(log_rates_at(state, coords))


def log_rates_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """Logarithms of the rates, accurate even where the products underflow."""
    out = np.empty(coords.shape[1])
    step = max(1, _CHUNK_NUMBERS // len(state.log_core_Q))
    for first in range(0, coords.shape[1], step):
        block = coords[:, first : first + step]
        log_nQ = np.broadcast_to(state.log_core_Q, (block.shape[1], len(state.log_core_Q))).copy()
        for m, log_phi_DK in enumerate(state.log_phi):
            log_nQ += log_phi_DK[block[m]][:, state.subs_QM[:, m]]
        out[first : first + step] = np.logaddexp.reduce(log_nQ, axis=1)
    return out


def log_pair_rates_at(state: State, coords: NDArray[Any], pair: Pair | None) -> NDArray[np.float64]:
    """Logarithms of the rates of cells, which are those of both directions if ties between two modes are undirected."""
    log_rates_N = log_rates_at(state, coords)
    return log_rates_N if pair is None else np.logaddexp(log_rates_N, log_rates_at(state, mirrored(coords, pair)))


def log_odds_at(state: State, coords: NDArray[Any]) -> NDArray[np.float64]:
    """The log odds of the dispersion in each cell in `coords` (M, n); zeros if there is no dispersion."""
    return np.zeros(coords.shape[1]) if state.dispersion is None else state.dispersion.at(coords)


def class_totals(
    state: State, missing: Missing, by_row: tuple[int, NDArray[np.float64]] | None = None
) -> NDArray[np.float64]:
    """The rate of each class, times a number per row of a mode if `by_row`, summed over all observed cells, (Q)."""
    expanded = [state.factors(m)[:, state.subs_QM[:, m]] for m in range(len(state.log_phi))]
    if by_row is not None:
        mode, weights_D = by_row
        expanded[mode] = expanded[mode] * weights_D[:, None]
    sums = [rows_DQ.sum(axis=0) for rows_DQ in expanded]
    total_Q = np.prod(sums, axis=0)
    patterns_PM, weights_P = signed_patterns(missing)
    step = max(1, _CHUNK_NUMBERS // len(total_Q))
    for first in range(0, len(weights_P), step):
        block_PM = patterns_PM[first : first + step]
        product_PQ = np.repeat(weights_P[first : first + step, None], len(total_Q), axis=1).astype(np.float64)
        for m, column_P in enumerate(block_PM.T):
            product_PQ *= np.where(column_P[:, None] < 0, sums[m], expanded[m][column_P])
        total_Q = total_Q - product_PQ.sum(axis=0)
    return np.asarray(state.core_values() * np.maximum(total_Q, 0.0))


def log_likelihood(tensor: CountTensor, spec: Spec, state: State) -> float:
    """log P(observed counts | state): the sum of -c r over observed cells, and of log density + c r over non-zeros."""
    latent = latent_totals(spec, state, tensor).sum()
    log_rates_N = log_pair_rates_at(state, tensor.coords, tensor.undirected_modes)
    if spec.likelihood == "poisson":  # in logarithms, because rates may underflow
        return float(tensor.counts @ log_rates_N - gammaln(tensor.counts + 1.0).sum() - latent)
    rates_N, log_odds_N = np.exp(log_rates_N), log_odds_at(state, tensor.coords)
    log_density_N = spec.observation.log_density(tensor.counts, rates_N, log_odds_N)
    return float((log_density_N + spec.observation.latent_scale(log_odds_N) * rates_N).sum() - latent)


def latent_totals(spec: Spec, state: State, tensor: CountTensor) -> np.ndarray:
    """The latent rate c r of each class summed over all observed cells, (Q)."""
    if state.dispersion is None:
        return class_totals(state, tensor.missing)
    scale_D = spec.observation.latent_scale(state.dispersion.log_odds_D)
    if state.dispersion.mode is None:
        return np.asarray(class_totals(state, tensor.missing) * scale_D[0])
    return class_totals(state, tensor.missing, (state.dispersion.mode, scale_D))


def log_prior_core(spec: Spec, state: State) -> float:
    """Gamma(a0, rate `core_rate`) on every lambda_q of an included class, and the Beta-binomial prior of inclusion."""
    included_Q = state.included()
    rate = spec.core_rate(state.dispersion)
    density = _log_gamma_density(state.log_core_Q[included_Q], spec.a0, rate)
    if not spec.infer_budget:
        return density
    included, left_out = int(included_Q.sum()), int((~included_Q).sum())
    return density + float(betaln(spec.c0 + included, spec.d0 + left_out) - betaln(spec.c0, spec.d0))


def log_prior_locations(spec: Spec, state: State) -> float:
    """Dirichlet-multinomial on the locations, mode by mode; tied modes have one for the locations of both."""
    total = 0.0
    for modes in spec.groups:
        length, width = state.log_phi[modes[0]].shape
        alpha = spec.alpha0 / length
        n_K = np.bincount(state.subs_QM[:, modes].ravel(), minlength=width)
        total += gammaln(width * alpha) - gammaln(width * alpha + n_K.sum())
        total += (gammaln(n_K + alpha) - gammaln(alpha)).sum()
    return float(total)


def log_prior_factors(spec: Spec, state: State) -> float:
    """Gamma(e0 u, rate f0 / w) on every entry of a factor in use, where w is the weight of its row; u is of a seed."""
    total = 0.0
    for modes in spec.groups:
        log_phi_DK, known = state.log_phi[modes[0]], spec.known_in(modes[0])
        rates_D1 = spec.factor_rates(modes[0], len(log_phi_DK))[:, None]
        kinds_K = known.kinds(log_phi_DK.shape[1])
        drawn_K = state.used(modes) & (kinds_K != FROZEN)
        u_DU = known.multipliers(len(log_phi_DK), kinds_K[drawn_K])
        shapes_DU = spec.concentration(modes[0], state.concentrations_M) * u_DU
        total += _log_gamma_density(log_phi_DK[:, drawn_K], shapes_DU, rates_D1)
    return total


def log_prior_concentrations(spec: Spec, state: State) -> float:
    """Gamma(s0, rate t0) on the concentration of every mode, if they are learned; tied modes have one."""
    if not state.concentrations_M.size:
        return 0.0
    return _log_gamma_density(np.log(state.concentrations_M[[modes[0] for modes in spec.groups]]), spec.s0, spec.t0)


def log_prior_dispersion(spec: Spec, state: State) -> float:
    """Beta(g0, h0) on every p, if there are any."""
    if state.dispersion is None:
        return 0.0
    log_p_D = log_dispersion_of(state.dispersion.log_odds_D)
    log_rest_D = log_dispersion_of(-state.dispersion.log_odds_D)
    density_D = (spec.g0 - 1.0) * log_p_D + (spec.h0 - 1.0) * log_rest_D - betaln(spec.g0, spec.h0)
    return float(density_D.sum())


def log_prior(spec: Spec, state: State) -> float:
    """The log prior density of all variables of the state."""
    prior = log_prior_core(spec, state) + log_prior_factors(spec, state)
    prior += log_prior_concentrations(spec, state) + log_prior_dispersion(spec, state)
    return prior + log_prior_locations(spec, state) if spec.learn_locations else prior


def log_joint(tensor: CountTensor, spec: Spec, state: State) -> float:
    """The log joint density of the observed counts and all variables of the state."""
    return log_likelihood(tensor, spec, state) + log_prior(spec, state)


def _log_gamma_density(log_values: np.ndarray, shape: float | np.ndarray, rate: float | np.ndarray) -> float:
    constant = shape * np.log(rate) - gammaln(shape)
    return float(np.sum(constant + (shape - 1.0) * log_values - rate * np.exp(log_values)))
