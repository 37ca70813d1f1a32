"""Small runs with a mode of time, and their future rates by plain sums."""

from dataclasses import replace

import numpy as np

import allocore as ac
from allocore.tensor.count_tensor import with_parts

MONTHS = [f"2017-{month:02d}" for month in range(7, 13)] + [f"2018-{month:02d}" for month in range(1, 7)]
NAMES = ("who", "whom", "month")


def tensor(periods=12, seed=0, labels=None, loops=True):
    rng = np.random.default_rng(seed)
    level = np.exp(np.cumsum(rng.normal(0.0, 0.3, periods)))
    rates = rng.gamma(0.7, 2.0, (4, 4))[:, :, None] * level
    coords = np.indices(rates.shape).reshape(3, -1)
    actors = ["A", "B", "C", "D"]
    Y = ac.CountTensor(
        coords, rng.poisson(rates).ravel(), mode_names=NAMES, labels=[actors, actors, labels or MONTHS[:periods]]
    )
    return Y if loops else Y.mask_diagonal()


def fitted(Y, **how):
    model = ac.CP(
        2, burn_in=30, draws=5, thin=2, chains=2, seed=3, threads=1, progress=False, **{"likelihood": "poisson"} | how
    )
    return model.fit(Y).posterior_


def with_incomplete(post, periods):
    """The posterior, as if some periods of its table had been observed in part only."""
    report = ac.EventReport("custom", files=0, rows=9, kept=9, incomplete=periods)
    return ac.Posterior(replace(post.record, tensor=with_parts(post.tensor, report=report)))


def dense_rates(record):
    """Rates of all future cells in every path, (paths, 4, 4, periods), by plain sums over classes."""
    found = []
    for place in np.ndindex(record.core_values.shape[:2]):
        core, subs = record.core_values[place], record.core_locations[place]
        phi = [factor[place] for factor in record.factors]
        found.append(
            sum(core[q] * np.einsum("i,j,t->ijt", *(phi[m][:, subs[q, m]] for m in range(3))) for q in range(len(core)))
        )
    return np.array(found)
