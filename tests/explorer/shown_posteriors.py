"""Posteriors for the page: draws that differ, cells that are missing, chains that disagree, and any summary."""

from dataclasses import replace

import numpy as np

import allocore as ac
from allocore.posterior.posterior import Posterior
from handmade_posterior import NAMES, posterior


def varied_posterior(masked=False):
    """Two chains of four draws that differ a little, so that intervals have a width; with or without a diagonal."""
    record = posterior(draws=4, chains=2).record
    rng = np.random.default_rng(0)
    factors = tuple(factor * rng.gamma(40.0, 1.0 / 40.0, factor.shape) for factor in record.factors)
    if not masked:
        return Posterior(replace(record, factors=factors))
    coords = np.array([[3, 3, 0], [1, 0, 1], [1, 0, 0], [2, 2, 10]])
    tensor = ac.CountTensor(coords, [5, 2, 1], record.tensor.shape, mode_names=NAMES, labels=record.tensor.labels)
    return Posterior(replace(record, tensor=tensor.mask_diagonal((0, 1)), factors=factors))


def chains_apart():
    """Two chains that have no class in common."""
    record = posterior(draws=2, chains=2).record
    factors = tuple(np.stack([factor[0], np.roll(factor[1], 1, axis=1)]) for factor in record.factors)
    return Posterior(replace(record, factors=factors))


def showing(post, **changes):
    """The same posterior, whose summary has other values."""

    class Changed(Posterior):
        def class_summary(self, draw=None, *, chain=None):
            return replace(super().class_summary(draw, chain=chain), **changes)

    return Changed(post.record)
