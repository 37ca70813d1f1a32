"""The state of an earlier run as a first state of a model with frozen factors: each class goes to the nearest factor.

A factor of the earlier run becomes the frozen one that it is most similar to, if their cosine is at least 0.6.
Otherwise it takes a factor that is learned, as long as there are any. The core values change against the scale of the
factors, so that the expected counts of a class stay much the same. Any first state is a valid one; this one is near.
"""

from dataclasses import replace

import numpy as np

from allocore.kernels.elementary import Floats, exp_of, log_of
from allocore.model.spec import Spec
from allocore.model.state import State

_SIMILAR = 0.6


def at_frozen_factors(spec: Spec, state: State) -> State:
    """Return a state, whose rows are those of the model, with the frozen factors of the model."""
    for modes in spec.groups:
        if spec.known_in(modes[0]).frozen:
            state = _at_frozen(spec, state, modes)
    return state


def _at_frozen(spec: Spec, state: State, modes: tuple[int, ...]) -> State:
    old_DK, known = state.log_phi[modes[0]], spec.known_in(modes[0])
    new_DK = np.full((len(old_DK), spec.core_shape[modes[0]]), -np.inf)
    new_DK[:, : len(known.frozen)] = spec.log_frozen(modes[0])
    if not spec.learn_locations:
        new_DK[:, len(known.frozen) :] = old_DK[:, len(known.frozen) :]
        return state.with_factors(modes, new_DK)
    frozen_DF, free = _directions(new_DK[:, : len(known.frozen)]), list(range(len(known), new_DK.shape[1]))
    subs_QM, log_core_Q = state.subs_QM.copy(), state.log_core_Q.copy()
    for k in np.unique(state.subs_QM[:, modes]).tolist():
        cosine_F = (_directions(old_DK[:, [k]]) * frozen_DF).sum(axis=0)
        place = int(np.argmax(cosine_F))
        if cosine_F[place] < _SIMILAR and free:
            place = free.pop(0)
            new_DK[:, place] = old_DK[:, k]
        at_QR = state.subs_QM[:, modes] == k
        subs_QM[:, modes] = np.where(at_QR, place, subs_QM[:, modes])
        log_core_Q += at_QR.sum(axis=1) * (_log_sum(old_DK[:, k]) - _log_sum(new_DK[:, place]))
    return replace(state.with_factors(modes, new_DK), subs_QM=subs_QM, log_core_Q=log_core_Q)


def _directions(log_phi_DK: Floats) -> Floats:
    """The factors as vectors of length one."""
    phi_DK = exp_of(log_phi_DK - log_phi_DK.max(axis=0))
    return np.asarray(phi_DK / np.sqrt((phi_DK**2).sum(axis=0)))


def _log_sum(log_phi_D: Floats) -> float:
    top = log_phi_D.max()
    return float(top + log_of(exp_of(log_phi_D - top).sum(keepdims=True))[0])
