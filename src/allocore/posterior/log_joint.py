"""The log joint density of the draws of a run: which draw is the best?"""

import numpy as np

from allocore.kernels.arrays import Floats
from allocore.model.joint import log_likelihood, log_prior
from allocore.model.state import Dispersion, State
from allocore.run.record import Record


def log_joint_of_draws(record: Record) -> Floats:
    """The log joint density of the counts and all variables at each draw, (chain, draw).

    The log-likelihood is that of the trace; if a damaged run has lost it, it is computed again.
    """
    told = record.stats["log_likelihood"][:, record.draw_sweeps - 1]
    log_joint = np.empty(told.shape)
    for chain, draw in np.ndindex(told.shape):
        state, likelihood = _state(record, chain, draw), float(told[chain, draw])
        if not np.isfinite(likelihood):
            likelihood = log_likelihood(record.tensor, record.spec, state)
        log_joint[chain, draw] = likelihood + (log_prior(record.spec, state) if record.spec.has_priors else 0.0)
    return log_joint


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
