"""A discount model for the counts of one factor over time, defined by its one-step-ahead predictions.

The count y of a period is negative binomial given its level, with gamma noise of shape nu (bursts that last one period)
around the Poisson noise. The odds of the level have a beta prime distribution. So the prediction is a beta negative
binomial, in closed form:

    y[t+1] | past  ~  integral of NegBin(y; shape n, odds theta) BetaPrime(theta; b, a) over theta,  n = nu e[t+1]
                   =  G(n+y) / (y! G(n))  B(a+n, b+y) / B(a, b)

    a = 1 + d A[t]                                    A[t] = d A[t-1] + nu e[t]
    b = i[t+1] (d A[t] / nu) level[t]                 B[t] = d B[t-1] + nu y[t] / i[t]
    level[t] = (1 - w) B[t] / A[t] + w mean[t]        the expected count of the next period is e[t+1] i[t+1] level[t]
    mean[t] = (h + sum of y / i) / sum of e           h is half a count, or less if the exposures sum to less than 1

d is the discount: what is known of the level loses the share 1 - d of its weight every period (Smith 1979; Smith and
Miller 1986; Harvey and Fernandes 1989). B / A is the discounted mean of the counts: the mean of all periods with d = 1,
the last value as d goes to 0. w is the pull: the share of the way to the mean of all periods so far that the level goes
back in each period.

e is the exposure relative to a fully observed period. A part e of a period has noise of shape nu e, as the parts of a
gamma process have, so its count adds y and nu e to what is known of the level: a period weighs as much as was observed
of it, and one that was not observed only ages what is known. However long it ages, no less is known than d = 0.03
leaves of one period: a level that was seen long ago is uncertain, not zero.

i is the index of the season, the ratio of its counts to what the level alone predicted, both with the mean count of s
periods added: s = infinity is no season, and i = 1.

A future path draws one period after another from these predictions, so that it widens with the horizon. All functions
take arrays of any shape that broadcasts, for many factors and many settings at once.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from allocore.kernels.arrays import Floats, Ints

# Half a count before the first period: a factor without counts is not dead for ever.
_HALF = 0.5
_LEAST_KNOWN = 0.03
_TINY = 1e-100  # a weight that ages for ever stays above zero, so that its ratio to the sum is not lost


class Settings(NamedTuple):
    """Settings of the model: discount d, noise nu, pull w, season s; arrays of one shape."""

    discount: Floats
    noise: Floats
    pull: Floats
    season: Floats

    def taken(self, places: Ints) -> "Settings":
        """The settings at some places."""
        return Settings(*(each[places] for each in self))


class Level:
    """What is known of the levels of factors after some periods; `shape` is that of factors and settings together."""

    def __init__(self, settings: Settings, shape: tuple[int, ...], cycle: int | None = None) -> None:
        self._settings = settings
        self._weight, self._sum, self._total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._periods = np.zeros(shape)
        self._seen = np.zeros((cycle, *shape)) if cycle else None
        self._predicted = np.zeros((cycle, *shape)) if cycle else None

    @property
    def begun(self) -> Floats:
        """How much of one period has been observed at all, from 0 to 1: what predictions from it are worth."""
        return np.minimum(self._periods, 1.0)

    def parameters(self, phase: int) -> tuple[Floats, Floats]:
        """a and b of the next period, which has this phase of the season."""
        d, noise, _, _ = self._settings
        known = np.maximum(d * self._weight, np.maximum(_LEAST_KNOWN * self.begun, _TINY) * noise)
        return 1.0 + known, self._index(phase) * known / noise * self._level()

    def add(self, counts: Floats, phase: int, exposure: Floats | float = 1.0) -> None:
        """Observe a period, or the part `exposure` of it."""
        noise, relative = self._settings.noise, counts / self._index(phase)
        if self._seen is not None and self._predicted is not None:
            self._seen[phase] += self.begun * counts
            self._predicted[phase] += self.begun * exposure * self._level()
        self.skip(1)
        self._weight, self._sum = self._weight + noise * exposure, self._sum + noise * relative
        self._total, self._periods = self._total + relative, self._periods + exposure

    def skip(self, periods: int) -> None:
        """Let periods go by that were not observed."""
        if periods:
            least = np.minimum(_TINY / np.maximum(self._weight, _TINY), 1.0)
            kept = np.maximum(self._settings.discount**periods, least)
            self._weight, self._sum = kept * self._weight, kept * self._sum

    def _level(self) -> Floats:
        """The expected count of the next period, if it is fully observed and there is no season."""
        pull, mean = self._settings.pull, self._mean()
        recent = np.divide(self._sum, self._weight, out=mean.copy(), where=self._weight > 0.0)
        return np.asarray((1.0 - pull) * recent + pull * mean)

    def _mean(self) -> Floats:
        """The mean count of the periods so far."""
        half = np.full(self._periods.shape, _HALF)
        begun, total = self._periods > 0.0, self._total + _HALF * self.begun
        return np.asarray(np.divide(total, self._periods, out=half, where=begun))

    def _index(self, phase: int) -> Floats | float:
        """The index of a phase of the season."""
        if self._seen is None or self._predicted is None:
            return 1.0
        has_season = np.isfinite(self._settings.season)
        added = np.where(has_season, self._settings.season, 1.0) * self._mean()
        return np.where(has_season, (self._seen[phase] + added) / (self._predicted[phase] + added), 1.0)


def log_probability(counts: Floats, noise: Floats, a: Floats, b: Floats) -> Floats:
    """The log of the beta negative binomial probability; by gamma functions for counts that are not whole."""
    rising = -np.log(noise + counts) - betaln(noise, counts + 1.0)
    return np.asarray(rising + betaln(a + noise, b + counts) - betaln(a, b))


def draw_rates(noise: Floats, a: Floats, b: Floats, rng: np.random.Generator, times: int) -> Floats:
    """Draw the Poisson rates of a period, (times, ...): gamma noise of shape nu times the odds of the level."""
    gammas = [rng.standard_gamma(shape, (times, *np.shape(shape))) for shape in np.broadcast_arrays(noise, b, a)]
    return np.asarray(gammas[0] * gammas[1] / gammas[2])
