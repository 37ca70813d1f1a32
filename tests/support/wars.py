"""Classes with planted motifs: every war has three classes, and other pairs act in other topics at other times."""

import numpy as np

from support.handmade_posterior import posterior, weights

ACTIONS = ("Fight", "Offer", "Protest", "Trade", "Visit", "Sanction")
MONTHS = tuple(f"{year}-{month:02d}" for year in (2003, 2004, 2005) for month in range(1, 13))
CADENCE = (("Fight", False), ("Offer", False), ("Protest", True))  # topic, and whether b acts on a


def wars(number=4, others=8, seed=0, shuffled=False, bystanders=False):
    """A run with so many wars; `shuffled` permutes the topics of its classes.

    The number of the two actors of war n are 2 n and 2 n + 1; senders and receivers have their factors in other orders.
    """
    rng = np.random.default_rng(seed)
    actors = 2 * (number + others)
    labels = tuple(f"country {n:02d}" for n in range(actors))
    ends = [weights(labels, **{name: 0.9}) for name in labels]
    receivers = rng.permutation(actors)
    topics = [weights(ACTIONS, **{name: 0.9}) for name in ACTIONS]
    times = [weights(MONTHS, **{MONTHS[3 * n]: 0.5, MONTHS[3 * n + 1]: 0.4}) for n in range(number + others)]
    rows = []
    for war in range(number):
        for topic, back in CADENCE:
            a, b = (2 * war + 1, 2 * war) if back else (2 * war, 2 * war + 1)
            rows.append((a, b, ACTIONS.index(topic), war))
    for other in range(number, number + others):
        a, b = 2 * other, 2 * other + 1
        first, second = rng.choice(3, 2, replace=False) + 3
        rows += [(a, b, int(first), other), (b, a, int(second), other)]
    if shuffled:
        topic_of = rng.permutation([row[2] for row in rows])
        rows = [(a, b, int(topic), r) for (a, b, _, r), topic in zip(rows, topic_of, strict=True)]
    place = np.argsort(receivers)
    classes = [(a, int(place[b]), topic, r) for a, b, topic, r in rows]
    values = np.linspace(90.0, 30.0, len(classes))
    return posterior(
        (ends, [ends[n] for n in receivers.tolist()], topics, times),
        classes,
        values,
        (labels, labels, ACTIONS, MONTHS),
        chains=2,
    )
