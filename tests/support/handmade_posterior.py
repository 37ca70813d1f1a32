"""Small posteriors put together without a sampler, so that every share on the page is known."""

from dataclasses import replace

import numpy as np

import allocore as ac
from allocore.model.spec import Spec
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule

COUNTRIES = ("France", "Iraq", "Singapore", "United States", "Zambia")
ACTIONS = ("Consult", "Fight", "Yield")
MONTHS = tuple(f"2003-{month:02d}" for month in range(1, 13))
NAMES = ("sender", "receiver", "action", "time")


def weights(labels, **shares):
    """A factor: what is named gets its share, what is left over is spread evenly."""
    named = {label.replace("_", " "): share for label, share in shares.items()}
    rest = (1.0 - sum(named.values())) / max(1, len(labels) - len(named))
    return [named.get(label, rest) for label in labels]


def months(**shares):
    return weights(MONTHS, **{f"2003-{name[1:]}": share for name, share in shares.items()})


# Each mode's factors; a class names one of each. Classes 0, 1 and 3 share the sender, 0 and 1 the time as well.
FACTORS = (
    [weights(COUNTRIES, United_States=0.9, Singapore=0.1), weights(COUNTRIES, France=0.6, Zambia=0.4)],
    [weights(COUNTRIES, Iraq=0.8, France=0.2), weights(COUNTRIES, United_States=1.0), weights(COUNTRIES)],
    [weights(ACTIONS, Fight=0.7, Consult=0.3), weights(ACTIONS, Consult=1.0)],
    [months(m03=0.5, m04=0.4), months(m11=0.6, m12=0.2), months()],
)
CLASSES = [(0, 0, 0, 0), (0, 1, 1, 0), (1, 0, 1, 1), (0, 2, 1, 2)]
VALUES = (40.0, 30.0, 20.0, 10.0)


def posterior(
    factors=FACTORS,
    classes=CLASSES,
    values=VALUES,
    labels=(COUNTRIES, COUNTRIES, ACTIONS, MONTHS),
    names=NAMES,
    draws=3,
    chains=1,
    burn_in=2,
):
    """A run whose draws are all the same."""
    lead, budget = (chains, draws), len(classes)
    shape = tuple(len(each[0]) for each in factors)
    sweeps = burn_in + draws
    tensor = ac.CountTensor(
        np.array([[0] * 3, [0] * 3, *([[0, 1, 1]] * (len(shape) - 2))][: len(shape)]),
        [5, 2, 1],
        shape,
        mode_names=names,
        labels=labels,
    )
    return Posterior(
        Record(
            tensor,
            Spec(budget, tuple(max(1, len(each)) for each in factors)),
            Schedule(burn_in, max(1, draws), 1),
            1,
            core_values=np.broadcast_to(np.array(values, dtype=float), (*lead, budget)).copy(),
            core_locations=np.broadcast_to(np.array(classes), (*lead, budget, len(shape))).copy(),
            factors=tuple(
                np.broadcast_to(np.array(each, dtype=float).T, (*lead, len(each[0]), len(each))).copy()
                for each in factors
            ),
            stats={
                "log_likelihood": np.linspace(-90.0, -50.0, chains * sweeps).reshape(chains, sweeps),
                "classes": np.full((chains, sweeps), budget),
                "factors": np.broadcast_to(
                    [len(set(each)) for each in zip(*classes, strict=True)], (chains, sweeps, len(shape))
                ),
                "moved": np.full((chains, sweeps), 0.25),
                "seconds": np.full((chains, sweeps), 0.1),
            },
        )
    )


def with_likelihood(post, likelihood):
    """The same draws under another likelihood, with p = 1/2 and learned concentrations where it is not Poisson."""
    record, lead = post.record, post.core_values.shape[:2]
    e0 = 1.0 if likelihood == "poisson" else "infer"
    return Posterior(
        replace(
            record,
            tensor=record.tensor.binarize() if likelihood == "bernoulli" else record.tensor,
            spec=replace(record.spec, likelihood=likelihood, e0=e0),
            log_odds=np.zeros(lead) if likelihood == "negative-binomial" else None,
            concentrations=None if e0 == 1.0 else np.full((*lead, record.tensor.ndim), 0.5),
        )
    )


def large_posterior(shape=(225, 225, 20, 64), budget=400, seed=0, labels=None, names=None):
    """As large as the largest that people fit: random factors, every class with its own."""
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(0.1, 1.0, (budget, length)) + 1e-12 for length in shape]
    classes = [(q,) * len(shape) for q in range(budget)]
    return posterior(factors, classes, rng.gamma(1.0, 9.0, budget), labels, names, draws=1)
