"""The log joint density of the draws of a run: which draw is the best?

It is the density of the logarithms of core values, factors and concentrations, and of the log odds of the dispersion,
as in Stan: the density of a factor itself has no bound where e0 is below one and an entry is near zero. Draws with
different numbers of factors in use are compared even though their densities have different dimensions.

For new rows that were folded in, it is the density of their counts and of what was drawn for them: their factors and p.
"""

from dataclasses import replace

import numpy as np

from allocore.kernels.elementary import Floats
from allocore.model.joint import log_likelihood, log_prior, log_prior_dispersion, log_prior_factors
from allocore.model.likelihood import log_dispersion_of
from allocore.model.state import State
from allocore.storage.record import Record


def log_joint_of_draws(record: Record) -> Floats:
    """The log joint density of the counts and all variables, on their unconstrained scales, at each draw (chain, draw).

    The log-likelihood comes from the trace; where a damaged run has lost it, it is computed again.
    """
    traced = record.stats["log_likelihood"][:, record.draw_sweeps - 1]
    log_joint = np.empty(traced.shape)
    for chain, draw in np.ndindex(traced.shape):
        state, likelihood = record.state_of(chain, draw), float(traced[chain, draw])
        if not np.isfinite(likelihood):
            likelihood = log_likelihood(record.tensor, record.spec, state)
        log_joint[chain, draw] = likelihood + _log_prior(record, state)
    return log_joint


def _log_prior(record: Record, state: State) -> float:
    """The log prior density of all variables, or of those of new rows, on their unconstrained scales."""
    spec, mode = record.spec, record.folded_mode
    if not spec.has_priors:
        return 0.0
    if mode is None:
        return log_prior(spec, state) + _log_jacobian(state)
    own_p = state.dispersion is not None and state.dispersion.mode == mode
    rows = [log_phi_DK if m == mode else log_phi_DK[:0] for m, log_phi_DK in enumerate(state.log_phi)]
    new = State(np.empty(0), state.subs_QM, tuple(rows), np.empty(0), state.dispersion if own_p else None)
    factors = log_prior_factors(spec, replace(new, concentrations_M=state.concentrations_M))
    return factors + log_prior_dispersion(spec, new) + _log_jacobian(new)


def _log_jacobian(state: State) -> float:
    """The log Jacobian of exp for positive variables and of the logistic function for the dispersion."""
    total = state.log_core_Q[state.included()].sum() + np.log(state.concentrations_M).sum()
    for mode, log_phi_DK in enumerate(state.log_phi):
        total += log_phi_DK[:, state.used(mode)].sum()
    if state.dispersion is not None:
        log_odds_D = state.dispersion.log_odds_D
        total += (log_dispersion_of(log_odds_D) + log_dispersion_of(-log_odds_D)).sum()
    return float(total)
