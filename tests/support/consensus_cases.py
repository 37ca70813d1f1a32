"""A consensus whose numbers, intervals, support and sharing are known, put together from a small posterior."""

from dataclasses import replace

import numpy as np

from allocore.classes.summary import Support
from support.handmade_posterior import posterior

# By size: the numbers differ from the places, and the second largest class is set apart.
NUMBERS = (7, 3, 0, 5)
INTERVALS = ((0.35, 0.45), (0.0, 0.5), (0.15, 0.25), (0.05, 0.15))


def with_summary(post, **changes):
    """The same posterior, with changes to what its consensus shows."""
    found = post.consensus()
    found.summary = replace(found.summary, **changes)
    return post


def widened(profile):
    """A profile with intervals from three quarters of each share to one and a quarter times it, at most all."""
    return replace(profile, low_D=0.75 * profile.share_D, high_D=np.minimum(1.25 * profile.share_D, 1.0))


def sharing_of(summary, pairs):
    """The probabilities of sharing: as they are, but for some pairs (mode, place, other)."""
    changed = [together_CC.copy() for together_CC in summary.sharing]
    for (mode, one, other), probability in pairs.items():
        changed[mode][one, other] = changed[mode][other, one] = probability
    return tuple(changed)


def consensus(chains=4, **changes):
    """Four classes; classes 7 and 3 share their sender with probability 0.92, and 3 and 5 theirs with 0.6."""
    post = posterior(chains=chains, **changes)
    summary = post.consensus().summary
    return with_summary(
        post,
        number_C=np.array(NUMBERS),
        interval_C2=np.array(INTERVALS),
        support=Support(
            np.array([0.96, 0.5, 1.0, 0.75]),
            np.array([1.0, 0.5, 1.0, 0.75]) if chains > 1 else np.full(4, np.nan),
            chains,
        ),
        apart_C=np.array([False, True, False, False]),
        profiles=tuple(tuple(widened(profile) for profile in of_mode) for of_mode in summary.profiles),
        sharing=sharing_of(summary, {(0, 0, 1): 0.92, (0, 1, 3): 0.6, (0, 0, 3): 0.0, (0, 0, 2): 0.25}),
    )
