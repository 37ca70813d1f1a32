"""Posteriors for the page: weeks and numbers, draws that differ, missing cells, chains that disagree, any summary."""

from dataclasses import replace

import numpy as np

import allocore as ac
from allocore.results import Posterior
from support.handmade_posterior import NAMES, posterior, weights

STORES = tuple(str(number) for number in range(1, 15))
THINGS = ("tea", "rice", "salt")
WEEKS = ("2018-12-10", "2018-12-17", "2018-12-24", "2018-12-31", "2019-01-07", "2019-01-14")


def retail_posterior():
    """A run of stores that are numbers, things, and weeks."""
    factors = (
        [weights(STORES, **{"12": 0.6, "7": 0.3}), weights(STORES, **{"3": 0.9})],
        [weights(THINGS, tea=0.9), weights(THINGS, rice=0.5, salt=0.4)],
        [weights(WEEKS, **{"2018-12-24": 0.4, "2018-12-31": 0.5}), weights(WEEKS, **{"2019-01-07": 0.9})],
    )
    return posterior(factors, [(0, 0, 0), (1, 1, 1)], (60.0, 40.0), (STORES, THINGS, WEEKS), ("store", "thing", "week"))


def iso_week_posterior():
    """A run of things and ISO weeks, of which 2021-W01 begins on 2021-01-04."""
    weeks = ("2020-W52", "2020-W53", "2021-W01", "2021-W02", "2021-W03")
    factors = (
        [weights(THINGS, tea=0.9), weights(THINGS, rice=0.9)],
        [weights(weeks, **{"2021-W01": 0.9}), weights(weeks, **{"2020-W52": 0.9})],
    )
    return posterior(factors, [(0, 0), (1, 1)], (60.0, 40.0), (THINGS, weeks), ("thing", "week"))


def varied_posterior(masked=False, names=NAMES):
    """Two chains of four draws that differ a little, so that intervals have a width; with or without a diagonal."""
    record = posterior(draws=4, chains=2, names=names).record
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
