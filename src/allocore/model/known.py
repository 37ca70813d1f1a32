"""What is known of the factors of a mode: seeded factors expect certain labels, and frozen ones have given values.

    phi[m][d, k] ~ Gamma(e0 u[d, k], rate f0 / w[d]),       u = 1 + seed_weight for the labels of the seed of k, else 1

A frozen factor is given up to its scale, and never drawn. Known factors are the first columns of a mode, the frozen
ones before the seeded ones, and the others are exchangeable. Each has the prior mass alpha0 / D of any other factor.
What this changes in the sampler:

    factors         the shape of the prior is e0 u; frozen factors stay as they are                  factors.py, tied.py
    locations       a seeded factor that no other class uses is integrated out under its own prior:  relocation.py
                    a candidate by itself. A frozen factor has a value, so it is always a
                    candidate, with the score of a factor in use
    concentrations  l ~ CRT(y, e u), and the rate has u ln(1 + w X / f0), without frozen factors     concentrations.py
    split-merge     a known factor that no other class uses takes no part                            split_merge.py
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocore._text import plural
from allocore.errors import Described, InputError
from allocore.kernels.kinds import FROZEN

SEED_WEIGHT = 10.0
LEAST_SHARE = 1e-30  # of a label in a frozen factor


@dataclass(frozen=True)
class KnownFactors:
    """The known factors of one mode: the columns of the frozen ones, the rows of the seeds, and the names of both.

    A frozen column has the shares of all labels, which sum to one.
    """

    frozen: tuple[tuple[float, ...], ...] = ()
    seeds: tuple[tuple[int, ...], ...] = ()
    seed_weight: float = SEED_WEIGHT
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("frozen", "seeds"):
            object.__setattr__(self, name, tuple(tuple(each) for each in getattr(self, name)))
        object.__setattr__(self, "names", tuple(self.names))

    def __bool__(self) -> bool:
        return bool(self.frozen or self.seeds)

    def __len__(self) -> int:
        return len(self.frozen) + len(self.seeds)

    def check(self, columns: int, mode: str) -> None:
        """Check that the mode, which is named in an error, has a factor for each of the known ones."""
        if len(self) > columns:
            name, what = ("seeds", "seed") if self.seeds else ("frozen", "frozen factor")
            both = f" and {len(self.frozen)} frozen factors" if self.seeds and self.frozen else ""
            given = Described(f"{plural(len(self.seeds) or len(self.frozen), what)}{both}")
            raise InputError(name, given, f"must be at most as many as the factors of {mode}, which has {columns}")

    def kinds(self, columns: int) -> NDArray[np.int64]:
        """The kind of each factor, (K): FROZEN, the number of its seed, or 0."""
        kinds_K = np.zeros(columns, dtype=np.int64)
        kinds_K[: len(self.frozen)] = FROZEN
        kinds_K[len(self.frozen) : len(self)] = np.arange(1, len(self.seeds) + 1)
        return kinds_K

    def seeded(self, rows: int) -> NDArray[np.float64]:
        """u - 1 for factors of each kind from 0, (1 + seeds, D)."""
        more_GD = np.zeros((1 + len(self.seeds), rows))
        for seed, labels in enumerate(self.seeds, start=1):
            more_GD[seed, list(labels)] = self.seed_weight
        return more_GD

    def multipliers(self, rows: int, kinds_K: NDArray[np.int64]) -> NDArray[np.float64]:
        """u of factors of these kinds, (D, K); 0 for frozen ones, which have no prior."""
        u_DK = 1.0 + self.seeded(rows)[np.maximum(kinds_K, 0)].T
        u_DK[:, kinds_K == FROZEN] = 0.0
        return u_DK
