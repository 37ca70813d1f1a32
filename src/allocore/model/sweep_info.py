"""The statistics of one sweep of the sampler, or of one iteration of EM."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SweepInfo:
    """Diagnostics of one sweep. The next sweep needs none of them.

    A class is in use if it holds counts, and a factor if a class in use is located at it. Classes at the same location
    of the core count once. `moved` is the share of classes whose location changed.
    """

    log_likelihood: float
    classes: int
    factors: tuple[int, ...]
    moved: float
