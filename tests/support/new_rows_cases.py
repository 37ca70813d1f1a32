"""Small cases of fold-in: a state whose other factors are known, and many rows that are independent given it."""

import numpy as np

from allocore.model.simulate import draw_dispersion
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.missing import Missing

PRIORS = {"e0": 1.3, "f0": 1.1, "alpha0": 1.0}
BURSTS = {"likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
LIKELIHOODS = {
    "poisson": {},
    "bursts": BURSTS,
    "bursts-by-new-row": {**BURSTS, "dispersion_by": "mode"},
    "bursts-by-other-row": {**BURSTS, "dispersion_by": "other"},
    "binary": {"likelihood": "bernoulli"},
}
# Two other modes. Three classes with two factors in the mode of the new rows, whose third factor is not used.
OTHERS, CORE_SHAPE = (3, 2), (2, 2, 3)
CORE = np.array([1.0, 1.6, 0.7])
LOCATIONS = np.array([[0, 0, 2], [1, 1, 0], [1, 0, 0]])
FACTORS = (np.array([[0.9, 0.2], [0.3, 1.1], [0.5, 0.4]]), np.array([[1.2, 0.3], [0.2, 0.8]]))
MISSING = [(0, 0), (2, 1)]


def moved(items, mode):
    """The items of the two other modes and of the mode of the new rows, with the latter at place `mode`."""
    *others, new = items
    return (*others[:mode], new, *others[mode:])


def make_spec(name, mode):
    """The specification of a model with one of the likelihoods."""
    given = dict(LIKELIHOODS[name])
    if "dispersion_by" in given:
        given["dispersion_by"] = mode if given["dispersion_by"] == "mode" else (mode + 1) % 3
    return Spec(3, moved(CORE_SHAPE, mode), **PRIORS, **given)


def make_missing(rows, mode):
    """The same cells are missing in every new row, as one pattern each."""
    patterns = [moved((*cell, None), mode) for cell in MISSING]
    return Missing(patterns, moved((*OTHERS, rows), mode))


def make_state(spec, rows, mode, rng):
    """A state with rows of the mode that are drawn from the prior, and p if there is one."""
    log_phi_DK = np.full((rows, 3), -np.inf)
    log_phi_DK[:, [0, 2]] = np.log(rng.gamma(spec.e0, 1.0 / spec.f0, (rows, 2)))
    log_phi = moved((*map(np.log, FACTORS), log_phi_DK), mode)
    shape = tuple(len(each) for each in log_phi)
    subs_QM = np.array([moved(row, mode) for row in LOCATIONS.tolist()])
    return State(np.log(CORE), subs_QM, log_phi, dispersion=draw_dispersion(spec, shape, rng))


def per_factor(state, mode):
    """What one unit of each factor in use of the mode adds to the rate of the cells of a row: (2, cells)."""
    others = [np.exp(each) for m, each in enumerate(state.log_phi) if m != mode]
    subs_QM = np.delete(state.subs_QM, mode, axis=1)
    rates_QC = [
        core * np.outer(others[0][:, subs[0]], others[1][:, subs[1]]).ravel()
        for core, subs in zip(state.core_values(), subs_QM, strict=True)
    ]
    return np.array([sum(rates_QC[q] for q in np.flatnonzero(state.subs_QM[:, mode] == k)) for k in (0, 2)])


def cells_of(rows, mode):
    """Coordinates of all observed cells of all rows (3, n), row by row, the cells of a row as in `per_factor`."""
    other = np.indices(OTHERS).reshape(2, -1)
    kept = [c for c in range(other.shape[1]) if tuple(other[:, c]) not in MISSING]
    row_N, cell_N = (each.ravel() for each in np.meshgrid(np.arange(rows), kept, indexing="ij"))
    return np.array(moved((*other[:, cell_N], row_N), mode)), np.array(kept)


def tensor_of(coords, counts, rows, mode):
    """A tensor of counts at these cells."""
    return CountTensor(coords, counts, moved((*OTHERS, rows), mode), missing=make_missing(rows, mode))
