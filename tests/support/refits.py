"""Runs put together month by month, as if each had started from the one before."""

import numpy as np

from allocore.classes.numbering import carried_over
from allocore.results import Posterior
from allocore.tensor.labels import matching_rows
from support.planted import posterior_of, shuffled, spike

COUNTRIES = ("France", "Iraq", "Mali", "Peru", "Spain", "Yemen")


def months(number, first=1):
    """The labels of some months, from one of 2018 on."""
    return tuple(f"{2018 + (month - 1) // 12}-{(month - 1) % 12 + 1:02d}" for month in range(first, first + number))


FOUR = months(4)


def month_run(*classes, labels=COUNTRIES, times=FOUR, chains=2, draws=4, start=None, wobble=0.0):
    """A posterior in which all draws have the same classes (value, sender, receiver, weights of the months).

    The values of the draws differ by a random factor of standard deviation `wobble`.
    """
    rng = np.random.default_rng(0)
    places = {label: place for place, label in enumerate(labels)}
    whole = [
        (value, (spike(len(labels), places[sender]), spike(len(labels), places[receiver]), tuple(weights)))
        for value, sender, receiver, weights in classes
    ]

    def draw():
        return shuffled([(value * rng.lognormal(0.0, wobble), factors) for value, factors in whole], rng)

    shape, names = (len(labels), len(labels), len(times)), ("sender", "receiver", "month")
    given = [[draw() for _ in range(draws)] for _ in range(chains)]
    post = posterior_of(given, shape, labels=(labels, labels, times), names=names)
    return post if start is None else started(post, start)


def started(post, start, folder=None):
    """The same run, as if its chains had started from another run."""
    rows = matching_rows(post.tensor.labels, start.tensor.labels)
    return Posterior(post.record, folder=folder, start=carried_over(start.consensus().numbering, rows))


def by_sender(post):
    """The number of the largest class of each sender."""
    found = post.consensus()
    heaviest = [post.tensor.labels[0][row] for row in found.profiles[0].argmax(axis=0).tolist()]
    return dict(zip(reversed(heaviest), reversed(found.numbers.tolist()), strict=True))
