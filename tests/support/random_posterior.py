"""Posteriors of random draws with a random trace, put together without a sampler."""

import numpy as np

import allocore as ac
from allocore.model.spec import Spec
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule

SHAPE, CORE_SHAPE, BUDGET = (5, 4, 3), (3, 2, 4), 4
# Patterns of several kinds that overlap.
MISSING = [(0, 0, None), (1, 1, None), (None, 3, 2), (0, None, 2), (4, 2, 1)]


def random_posterior(chains=2, draws=8, burn_in=3, thin=2, missing=MISSING, learned=True, stats=None, **changes):
    """Random draws, independent of one another; `stats` and `changes` replace parts of the record."""
    rng = np.random.default_rng(0)
    lead, sweeps = (chains, draws), (chains, burn_in + draws * thin)
    trace = {
        "log_likelihood": rng.normal(-1e3, 5.0, sweeps),
        "classes": rng.integers(2, 5, sweeps),
        "factors": rng.integers(1, 4, (*sweeps, len(SHAPE))),
        "moved": rng.uniform(0.0, 0.2, sweeps),
        "seconds": rng.uniform(0.01, 0.02, sweeps),
    }
    record = {
        "tensor": ac.as_tensor(np.random.default_rng(1).poisson(0.7, SHAPE)).with_missing(missing),
        "spec": Spec(BUDGET, CORE_SHAPE, model="AlloCore" if learned else "CP"),
        "schedule": Schedule(burn_in, draws, thin),
        "seed": 0,
        "core_values": rng.gamma(5.0, 1.0, (*lead, BUDGET)),
        "core_locations": np.stack([rng.integers(0, k, (*lead, BUDGET)) for k in CORE_SHAPE], axis=-1),
        "factors": tuple(rng.gamma(2.0, 1.0, (*lead, d, k)) for d, k in zip(SHAPE, CORE_SHAPE, strict=True)),
        "stats": {**trace, **(stats or {})},
    }
    return Posterior(Record(**{**record, **changes}))


def settled(**changes):
    """Four chains of independent draws, long enough to be judged well."""
    return random_posterior(chains=4, draws=250, burn_in=0, thin=1, **changes)


def over_and_over(chains, draws):
    """The arrays of one draw, repeated."""
    one = random_posterior(chains=1, draws=1)
    values, locations, *factors = (
        np.tile(array, (chains, draws) + (1,) * (array.ndim - 2))
        for array in (one.core_values, one.core_locations, *one.factors)
    )
    return {"core_values": values, "core_locations": locations, "factors": tuple(factors)}
