"""The log joint density, variable by variable, in plain NumPy: what judges the sampler.

pi is integrated out of the prior of the locations, and factors that no class uses are integrated out altogether.
"""

import numpy as np
from scipy.special import betaln, gammaln

from allocore.data.tensor import CountTensor
from allocore.model.rates import class_totals, log_rates_at
from allocore.model.spec import Spec
from allocore.model.state import State


def log_likelihood(tensor: CountTensor, state: State) -> float:
    """log P(observed counts | state): only non-zero cells and the total rate are needed."""
    counts = tensor.counts
    fit = counts @ log_rates_at(state, tensor.coords) - gammaln(counts + 1.0).sum()
    return float(fit - class_totals(state, tensor.missing).sum())


def log_prior_core(spec: Spec, state: State) -> float:
    """Gamma(a0, rate b0) on every lambda_q; where the budget is inferred, on those of the included classes."""
    included_Q = state.included()
    density = _log_gamma_density(state.log_core_Q[included_Q], spec.a0, spec.b0)
    if not spec.infer_budget:
        return density
    included, left_out = int(included_Q.sum()), int((~included_Q).sum())
    return density + float(betaln(spec.c0 + included, spec.d0 + left_out) - betaln(spec.c0, spec.d0))


def log_prior_locations(spec: Spec, state: State) -> float:
    """Dirichlet-multinomial on the locations, mode by mode."""
    total = 0.0
    for m, log_phi_DK in enumerate(state.log_phi):
        length, width = log_phi_DK.shape
        alpha = spec.alpha0 / length
        n_K = np.bincount(state.subs_QM[:, m], minlength=width)
        total += gammaln(width * alpha) - gammaln(width * alpha + spec.budget)
        total += (gammaln(n_K + alpha) - gammaln(alpha)).sum()
    return float(total)


def log_prior_factors(spec: Spec, state: State) -> float:
    """Gamma(e0, rate f0) on every entry of a factor in use."""
    used = [log_phi_DK[:, state.used(m)] for m, log_phi_DK in enumerate(state.log_phi)]
    return sum(_log_gamma_density(log_phi_DU, spec.e0, spec.f0) for log_phi_DU in used)


def log_joint(tensor: CountTensor, spec: Spec, state: State) -> float:
    """The log joint density of the observed counts and all variables of the state."""
    prior = log_prior_core(spec, state) + log_prior_factors(spec, state)
    if spec.learn_locations:
        prior += log_prior_locations(spec, state)
    return log_likelihood(tensor, state) + prior


def _log_gamma_density(log_values: np.ndarray, shape: float, rate: float) -> float:
    constant = shape * np.log(rate) - gammaln(shape)
    return float(np.sum(constant + (shape - 1.0) * log_values - rate * np.exp(log_values)))
