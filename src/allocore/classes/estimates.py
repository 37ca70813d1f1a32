"""The consensus classes as arrays, in memory and in the file next to the draws of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.classes.profiles import HELD
from allocore.kernels.elementary import Flags, Floats, Ints, Singles

_ROUNDING = 1e-3
QUANTILES = (0.05, 0.5, 0.95)  # the low end of intervals, the median, the high end
# Classes with a smaller share are shown after the others, and so are those that fewer chains hold (draws of one chain).
_SMALL, _WEAK = 0.002, 0.75


class ProfileBand(NamedTuple):
    """Profiles of C classes in one mode, each (D, C): the mean, whose columns sum to one, and quantiles as float32."""

    mean: Floats
    low: Singles
    high: Singles
    median: Singles

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays to write."""
        return {f"{name}_{part}": getattr(self, part) for part in self._fields}

    @classmethod
    def read(cls, name: str, arrays: Mapping[str, NDArray[Any]]) -> "ProfileBand":
        """Return the band that was written by this name."""
        mean, *quantiles = (arrays[f"{name}_{part}"] for part in cls._fields)
        return cls(mean.astype(np.float64, copy=False), *(each.astype(np.float32, copy=False) for each in quantiles))


@dataclass(frozen=True)
class Estimates:
    """The C consensus classes as arrays, largest first.

    draws: the draws of each chain that were compared. value (C): mean expected counts. shares (chain, draw, C): zero if
    the draw does not hold the class. profiles, factors: one band per mode; the same objects if no cell is missing.
    sharing: for each mode (C, C), the probability that two classes have the same factor, given that a draw holds both.
    roles: the same for a class in the first of two tied modes and a class in the second; None without tied modes.
    known (C, M): the seeded or frozen factor that a class has in most draws that hold it, or -1; None without any.
    alike: the mean share of the counts in classes that are similar to a consensus class, but not matched with it.
    """

    draws: Ints
    value: Floats
    shares: Floats
    held: Flags
    profiles: tuple[ProfileBand, ...]
    factors: tuple[ProfileBand, ...]
    sharing: tuple[Floats, ...]
    alike: float
    roles: Floats | None = None
    known: Ints | None = None

    @property
    def mean_profiles(self) -> tuple[Floats, ...]:
        """The mean profiles, one (D, C) per mode."""
        return tuple(band.mean for band in self.profiles)

    @property
    def share(self) -> Floats:
        """The mean share of the counts, (C,)."""
        return np.asarray(self.shares.mean(axis=(0, 1)))

    @property
    def share_interval(self) -> Floats:
        """The ends of the interval of the share, (C, 2)."""
        draws_NC = self.shares.reshape(-1, self.shares.shape[2]) if self.shares.size else np.zeros((1, 0))
        return np.asarray(np.quantile(draws_NC, (QUANTILES[0], QUANTILES[2]), axis=0).T, dtype=np.float64)

    @property
    def support_draws(self) -> Floats:
        """The share of draws that hold each class, (C,)."""
        return np.asarray(self.held.mean(axis=(0, 1)))

    @property
    def support_chains(self) -> Floats:
        """The share of chains that hold each class, (C,): at least half of their draws do."""
        return np.asarray((self.held.mean(axis=1) >= HELD).mean(axis=0))

    @property
    def support(self) -> Floats:
        """The share of chains that hold each class, (C,). With one chain, the share of draws."""
        return self.support_chains if len(self.held) > 1 else self.support_draws

    @property
    def apart(self) -> Flags:
        """Which classes are small or weakly supported, (C,): they are shown, and numbered, after the others."""
        return (self.share < _SMALL) | (self.support < _WEAK)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to write to a file."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in ("draws", "value", "shares", "held")}
        arrays["alike"] = np.array(self.alike)
        if self.roles is not None:
            arrays["sharing_roles"] = self.roles
        if self.known is not None:
            arrays["known"] = self.known
        for mode, band in enumerate(self.profiles):
            arrays[f"sharing_{mode}"] = self.sharing[mode]
            arrays |= band.arrays(f"profile_{mode}")
            if self.factors is not self.profiles:
                arrays |= self.factors[mode].arrays(f"factor_{mode}")
        return arrays

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> "Estimates":
        """Return the estimates of a file for a tensor of this shape. Raises a ValueError if the arrays do not fit."""
        modes = range(len(shape))
        factors = profiles = tuple(ProfileBand.read(f"profile_{mode}", arrays) for mode in modes)
        if "factor_0_mean" in arrays:
            factors = tuple(ProfileBand.read(f"factor_{mode}", arrays) for mode in modes)
        sharing = tuple(arrays[f"sharing_{mode}"] for mode in modes)
        draws, value, shares, held = (arrays[name] for name in ("draws", "value", "shares", "held"))
        fit = [
            part.shape == (length, len(value))
            for bands in (profiles, factors)
            for band, length in zip(bands, shape, strict=True)
            for part in band
        ]
        if {shares.shape[-1], held.shape[-1]} != {len(value)} or not all(fit):
            raise ValueError("its arrays do not have the lengths of its classes and of the modes of the run")
        if shares.ndim != 3 or held.shape != shares.shape or draws.shape != shares.shape[1:2]:
            raise ValueError("its shares are not those of chains, draws and classes")
        roles = arrays.get("sharing_roles")
        tables = sharing if roles is None else (*sharing, roles)
        if any(each.shape != (len(value), len(value)) for each in tables):
            raise ValueError("what its classes share is not a square table")
        known = arrays.get("known")
        if known is not None and (known.shape != (len(value), len(shape)) or known.dtype.kind not in "iu"):
            raise ValueError("its known factors are not numbers of one factor for each class and mode")
        found = cls(draws, value, shares, held, profiles, factors, sharing, float(arrays["alike"]), roles, known)
        found._check_values()
        return found

    def _check_values(self) -> None:
        """Raise a ValueError if a value is impossible: the file may be damaged, or come from anyone."""
        bands = {"profiles": self.profiles, "factors": self.factors}
        shares: dict[str, NDArray[Any]] = {
            "shares": self.shares,
            "alike": np.array(self.alike),
            **{f"sharing of mode {mode}": each for mode, each in enumerate(self.sharing)},
            **({} if self.roles is None else {"sharing between roles": self.roles}),
            **{
                f"{name} of mode {m}, {part}": getattr(band, part)
                for name, each in bands.items()
                for m, band in enumerate(each)
                for part in band._fields
            },
        }
        for name, values in shares.items():
            if values.size and not (values.min() >= 0 and values.max() <= 1 + _ROUNDING):  # NaN is neither
                raise ValueError(f"its {name} must be between 0 and 1")
        means = [band.mean.sum(axis=0) for each in bands.values() for band in each]
        sums = [self.shares.sum(axis=2).ravel() - 1, *(np.abs(each - 1) for each in means)]
        if any((each > _ROUNDING).any() for each in sums):
            raise ValueError("its shares must add up to at most 1, and each of its profiles to 1")
        if not (np.isfinite(self.value) & (self.value >= 0)).all():
            raise ValueError("the values of its classes must be finite and not negative")
        if self.held.dtype != np.bool_ or self.draws.dtype.kind not in "iu" or (self.draws < 0).any():
            raise ValueError("its draws must be numbers, and held or not")
