"""A simulated network of states over time, with planted classes and factors that the model should find.

States belong to communities. A class of events has a sending community, a receiving community, a topic (a profile of
actions) and a regime (a profile over time). Many classes share communities, topics and regimes. Wars are classes
between two communities, with the topic of fighting, in a few months. Sizes of classes and weights of states are
heavy-tailed, as in event data.

Real events come in bursts: one strike is reported ten times, one battle is twenty attacks. With `bursts`, that share of
the events is repeated. The planted classes then have the same factors, but no count is Poisson any more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import allocore as ac

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Network:
    """The tensor and the planted truth: core values, locations, and factors as columns that sum to one."""

    tensor: ac.CountTensor
    values_Q: _Floats
    locations_QM: NDArray[np.int64]
    factors: tuple[_Floats, ...]


@dataclass(frozen=True)
class Size:
    """The size of a network."""

    states: int = 206
    actions: int = 20
    months: int = 84
    events: int = 1_170_000
    communities: int = 14
    topics: int = 6
    regimes: int = 8
    classes: int = 90
    wars: int = 12


MEAN_BURST = 8
FULL = Size()
QUICK = Size(states=60, actions=12, months=36, events=80_000, communities=7, topics=4, regimes=5, classes=30, wars=4)


def simulate(size: Size = FULL, seed: int = 0, bursts: float = 0.0) -> Network:
    """Draw a network and its events; a share of them, `bursts`, is repeated. The others are the same with any share."""
    if not 0.0 <= bursts <= 1.0:
        raise ValueError(f"bursts is {bursts}, but it must be from 0 to 1")
    rng = np.random.default_rng(seed)
    actors = communities(size, rng)
    factors = (actors, actors, topics(size, rng), regimes(size, rng))
    locations_QM = locations(size, rng)
    weights_Q = rng.lognormal(0.0, 1.2, len(locations_QM))
    values_Q = size.events * weights_Q / weights_Q.sum()
    coords = events(values_Q, locations_QM, factors, rng)
    repeats = repeated(coords.shape[1], bursts, rng)
    names = [f"{chr(65 + n % size.communities)}{n // size.communities:02d}" for n in range(size.states)]
    months = [f"{2000 + month // 12}-{month % 12 + 1:02d}" for month in range(size.months)]
    tensor = ac.CountTensor(
        coords,
        repeats,
        (size.states, size.states, size.actions, size.months),
        mode_names=("sender", "receiver", "action", "month"),
        labels=(names, names, [f"action {n:02d}" for n in range(size.actions)], months),
    )
    return Network(tensor.mask_diagonal(), values_Q, locations_QM, factors)


def communities(size: Size, rng: np.random.Generator) -> _Floats:
    """Weights of the states in every community: high in their own, low in others; a few states are large in all."""
    power = rng.pareto(1.2, size.states) + 0.1
    home = np.arange(size.states) % size.communities
    apart = np.where(home[:, None] == np.arange(size.communities), 1.0, 0.01)
    return columns(power[:, None] * apart * rng.gamma(2.0, 0.5, (size.states, size.communities)))


def topics(size: Size, rng: np.random.Generator) -> _Floats:
    """Profiles of actions; the last profile is fighting, which consists of the last actions."""
    profiles = rng.dirichlet(np.full(size.actions, 0.15), size.topics - 1).T
    fighting = np.where(np.arange(size.actions) >= size.actions - 3, 1.0, 0.002)
    return columns(np.column_stack([profiles + 1e-4, fighting]))


def regimes(size: Size, rng: np.random.Generator) -> _Floats:
    """Profiles over time: one constant, some periods with a beginning and an end, and a few months for each war."""
    month = np.arange(size.months)
    profiles = [np.ones(size.months)]
    for _ in range(size.regimes - 1):
        first, length = rng.integers(0, size.months), rng.integers(size.months // 6, size.months // 2)
        profiles.append(np.where((month >= first) & (month < first + length), 1.0, 0.03))
    for _ in range(size.wars):
        first = rng.integers(0, size.months - 3)
        profiles.append(np.where((month >= first) & (month < first + 4), 1.0, 0.001))
    return columns(np.column_stack(profiles) * rng.gamma(20.0, 0.05, (size.months, len(profiles))))


def locations(size: Size, rng: np.random.Generator) -> NDArray[np.int64]:
    """The locations of the classes: random communities, topics and regimes, then the wars."""
    peace = [
        rng.integers(0, most, size.classes)
        for most in (size.communities, size.communities, size.topics - 1, size.regimes)
    ]
    war = [
        rng.integers(0, size.communities, size.wars),
        rng.integers(0, size.communities, size.wars),
        np.full(size.wars, size.topics - 1),
        size.regimes + np.arange(size.wars),
    ]
    return np.unique(np.concatenate([np.column_stack(peace), np.column_stack(war)]), axis=0)


def events(
    values_Q: _Floats, locations_QM: NDArray[np.int64], factors: tuple[_Floats, ...], rng: np.random.Generator
) -> NDArray[Any]:
    """The cells of all events (M, n): each event has a class, and a row drawn from each factor of the class."""
    number_Q = rng.poisson(values_Q)
    coords = np.empty((len(factors), number_Q.sum()), dtype=np.int64)
    for q, stop in enumerate(np.cumsum(number_Q)):
        for m, factor in enumerate(factors):
            drawn = rng.choice(len(factor), number_Q[q], p=factor[:, locations_QM[q, m]])
            coords[m, stop - number_Q[q] : stop] = drawn
    return coords[:, coords[0] != coords[1]]


def repeated(number: int, bursts: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each event counts: once or, in a burst, a geometric number, at least 2 and `MEAN_BURST` on average."""
    in_burst = rng.random(number) < bursts
    return np.where(in_burst, 1 + rng.geometric(1 / (MEAN_BURST - 1), number), 1)


def columns(weights: _Floats) -> _Floats:
    """Scale the columns so that they sum to one."""
    return weights / weights.sum(axis=0)
