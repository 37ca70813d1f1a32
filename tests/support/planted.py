"""Records put together class by class and draw by draw, and tensors with planted classes."""

import numpy as np

import allocore as ac
from allocore.classes.matching import directions, match
from allocore.model.spec import Spec
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule


def posterior_of(draws, shape, *, missing=None, labels=None, names=None, folder=None, log_likelihood=None, **spec):
    """A posterior of given draws: `draws[chain][draw]` lists classes, each (value, one factor key per mode).

    A factor key is a tuple of weights. Equal keys of a mode, or of tied modes, in one draw are one factor. All draws
    have the same number of classes.
    """
    lead, budget = (len(draws), len(draws[0])), len(draws[0][0])
    model = Spec(budget, (budget * (1 + ("tied" in spec)),) * len(shape), **spec)
    core, subs = np.zeros((*lead, budget)), np.zeros((*lead, budget, len(shape)), dtype=np.int64)
    factors = tuple(np.zeros((*lead, length, most)) for length, most in zip(shape, model.core_shape, strict=True))
    for chain, of_chain in enumerate(draws):
        for place, classes in enumerate(of_chain):
            for mode in range(len(shape)):
                keys = list(dict.fromkeys(keys[role] for role in model.sharing(mode) for _, keys in classes))
                for number, key in enumerate(keys):
                    factors[mode][chain, place, :, number] = key
                subs[chain, place, :, mode] = [keys.index(each[mode]) for _, each in classes]
            core[chain, place] = [value for value, _ in classes]
    coords = np.unique(np.random.default_rng(0).integers(0, shape, (40, len(shape))), axis=0).T
    tensor = ac.CountTensor(coords, np.arange(1, coords.shape[1] + 1), shape, mode_names=names, labels=labels)
    if missing is not None:
        tensor = tensor.with_missing(missing)
    sweeps = 1 + lead[1]
    likelihood = np.zeros((lead[0], sweeps)) if log_likelihood is None else log_likelihood
    return Posterior(
        Record(
            tensor,
            model,
            Schedule(1, lead[1], 1),
            1,
            core_values=core,
            core_locations=subs,
            factors=factors,
            stats={
                "log_likelihood": likelihood,
                "classes": np.full((lead[0], sweeps), budget),
                "factors": np.full((lead[0], sweeps, len(shape)), budget),
                "moved": np.full((lead[0], sweeps), 0.25),
                "seconds": np.full((lead[0], sweeps), 0.1),
            },
        ),
        folder=folder,
    )


def shuffled(classes, rng):
    """The same classes in another order."""
    return [classes[place] for place in rng.permutation(len(classes))]


SHAPE = (6, 6, 4)


def spike(length, row, height=0.9):
    """A factor with most of its weight in one row."""
    return tuple(height if d == row else (1.0 - height) / (length - 1) for d in range(length))


def a_class(value, i, j, k):
    return value, (spike(6, i), spike(6, j), spike(4, k))


A, B, C, D = a_class(4.0, 0, 1, 0), a_class(3.0, 0, 2, 1), a_class(2.0, 3, 4, 2), a_class(1.0, 5, 5, 3)


def steady_run(*chains, draws=4, seed=0, **more):
    """Chains in which all draws have the same classes, in another order in every draw."""
    rng = np.random.default_rng(seed)
    return posterior_of([[shuffled(list(classes), rng) for _ in range(draws)] for classes in chains], SHAPE, **more)


def planted_tensor(seed, bursts=0.0, shape=(30, 30, 8, 12), factors=(7, 7, 5, 5), classes=12, total=12_000):
    """A tensor of planted classes that share factors, and their profiles; on request with bursts in random cells."""
    rng = np.random.default_rng(seed)
    phi = [rng.dirichlet(np.full(length, 0.12), number).T for length, number in zip(shape, factors, strict=True)]
    cells = np.unique(np.stack([rng.integers(0, number, 3 * classes) for number in factors], axis=1), axis=0)
    locations = cells[rng.permutation(len(cells))[:classes]]
    profiles = [phi_DK[:, locations[:, mode]] for mode, phi_DK in enumerate(phi)]
    coords = [
        np.stack([rng.choice(len(profile), count, p=profile[:, c]) for profile in profiles])
        for c, count in enumerate(rng.multinomial(total, rng.dirichlet(np.full(classes, 3.0))))
    ]
    weights = [np.ones(total, dtype=np.int64)]
    if bursts:
        number = int(bursts * total / 20)
        coords.append(np.stack([rng.integers(0, length, number) for length in shape]))
        weights.append(np.full(number, 20))
    return ac.CountTensor(np.concatenate(coords, axis=1), np.concatenate(weights), shape), profiles


def found_and_false(profiles, planted, least=0.9):
    """How many planted classes are among the profiles, and how many of the profiles were not planted."""
    ours, _ = match(directions(profiles), directions(planted), least)
    return len(ours), profiles[0].shape[1] - len(ours)
