"""A slow, obvious EM of Poisson Tucker on dense arrays: the oracle that judges the sparse one.

`Y` is an array of counts and `observed` a boolean array of the same shape, False where a cell is missing. The textbook
multiplicative updates of the generalised Kullback-Leibler divergence, by einsum; nothing is shared with the package.
"""

from string import ascii_lowercase, ascii_uppercase

import numpy as np
from scipy.special import gammaln, xlogy


def rates(core, phi):
    """The rate of every cell."""
    return _einsum(core, phi, np.ones([len(phi_DK) for phi_DK in phi]), out="cells")


def log_likelihood(Y, observed, core, phi):
    """The log probability of the observed counts."""
    rate = rates(core, phi)
    return float(np.where(observed, xlogy(Y, rate) - rate - gammaln(Y + 1.0), 0.0).sum())


def iterate(Y, observed, core, phi):
    """One iteration: the counts are allocated once, then the core and each mode take their best values in turn."""
    rate = rates(core, phi)
    ratio = np.divide(Y, rate, out=np.zeros(Y.shape), where=observed & (Y > 0))
    seen, modes = observed.astype(float), range(len(phi))
    y_core = core * _einsum(core, phi, ratio, out="core")
    y_phi = [phi[m] * _einsum(core, phi, ratio, out=m) for m in modes]
    core = _divide(y_core, _einsum(core, phi, seen, out="core"))
    for m in modes:
        phi = [*phi[:m], _divide(y_phi[m], _einsum(core, phi, seen, out=m)), *phi[m + 1 :]]
        core, phi = rescale(core, phi, m)
    return core, phi


def rescale(core, phi, m):
    """Let the columns of mode m add up to 1, and the core take their scale."""
    scale_K = phi[m].sum(axis=0)
    shares_DK = phi[m] / np.where(scale_K > 0, scale_K, 1.0)
    scale = scale_K.reshape([-1 if axis == m else 1 for axis in range(core.ndim)])
    return core * scale, [*phi[:m], shares_DK, *phi[m + 1 :]]


def _einsum(core, phi, cells, out):
    """The product of the core, all factors and an array over the cells, with what is asked for left out and kept."""
    d, k = ascii_lowercase[: len(phi)], ascii_uppercase[: len(phi)]
    terms, arrays = [d], [cells]
    if out != "core":
        terms, arrays = [*terms, k], [*arrays, core]
    for m, phi_DK in enumerate(phi):
        if m != out:
            terms, arrays = [*terms, d[m] + k[m]], [*arrays, phi_DK]
    target = {"cells": d, "core": k}.get(out) or d[out] + k[out]
    return np.einsum(f"{','.join(terms)}->{target}", *arrays)


def _divide(y, exposure):
    return np.divide(y, exposure, out=np.zeros_like(y), where=y > 0)
