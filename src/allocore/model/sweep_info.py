"""What one sweep of the sampler, or one iteration of EM, reports about itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SweepInfo:
    """Diagnostics of one sweep; nothing that the next sweep needs.

    A class is in use if it holds counts, and a factor if such a class is located at it; classes at the same location
    of the core count once. `moved` is the share of classes whose location changed.
    """

    log_likelihood: float
    classes: int
    factors: tuple[int, ...]
    moved: float
