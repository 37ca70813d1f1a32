"""The log joint density of the draws of a run: which draw is the best?

It is the density of the logarithms of core values, factors and concentrations, and of the log odds of the dispersion,
as Stan takes it: the density of a factor itself has no bound where e0 is below one and an entry is near zero. Draws
with different numbers of factors in use are compared all the same, though their densities have different dimensions.
"""

import numpy as np

from allocore.kernels.arrays import Floats
from allocore.model.joint import log_likelihood, log_prior
from allocore.model.likelihood import log_dispersion_of
from allocore.model.state import Dispersion, State
from allocore.run.record import Record


def log_joint_of_draws(record: Record) -> Floats:
    """The log joint density of the counts and all variables, on their unconstrained scales, at each draw (chain, draw).

    The log-likelihood is that of the trace; if a damaged run has lost it, it is computed again.
    """
    told = record.stats["log_likelihood"][:, record.draw_sweeps - 1]
    log_joint = np.empty(told.shape)
    for chain, draw in np.ndindex(told.shape):
        state, likelihood = _state(record, chain, draw), float(told[chain, draw])
        if not np.isfinite(likelihood):
            likelihood = log_likelihood(record.tensor, record.spec, state)
        prior = log_prior(record.spec, state) + _log_jacobian(state) if record.spec.has_priors else 0.0
        log_joint[chain, draw] = likelihood + prior
    return log_joint


def _log_jacobian(state: State) -> float:
    """The log Jacobian of exp for positive variables and of the logistic function for the dispersion."""
    total = state.log_core_Q[state.included()].sum() + np.log(state.concentrations_M).sum()
    for mode, log_phi_DK in enumerate(state.log_phi):
        total += log_phi_DK[:, state.used(mode)].sum()
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        total += (log_dispersion_of(log_odds_D) + log_dispersion_of(-log_odds_D)).sum()
    return float(total)


def _state(record: Record, chain: int, draw: int) -> State:
    tiny = np.finfo(float).tiny
    core_Q, subs_QM = record.core_values[chain, draw], record.core_locations[chain, draw]
    with np.errstate(divide="ignore"):  # a class that is not included has the core value zero
        log_core_Q = np.log(core_Q if record.spec.infer_budget else np.maximum(core_Q, tiny))
    # A stored weight may have underflowed to zero. The smallest normal float stands in for it.
    log_phi = tuple(np.log(np.maximum(factor[chain, draw], tiny)) for factor in record.factors)
    concentrations_M = np.empty(0) if record.concentrations is None else record.concentrations[chain, draw]
    dispersion = None
    if record.log_odds is not None:
        dispersion = Dispersion(np.atleast_1d(record.log_odds[chain, draw]), record.spec.dispersion_by)
    return State(log_core_Q, subs_QM, log_phi, concentrations_M, dispersion)
