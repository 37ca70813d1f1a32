"""The consensus classes as arrays, in memory and in the file beside the draws of a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocore.classes.profiles import HELD
from allocore.kernels.elementary import Flags, Floats, Ints

# Intervals are from the 5% to the 95% quantile.
QUANTILES = (0.05, 0.5, 0.95)


class ProfileBand(NamedTuple):
    """Profiles of C classes in one mode, each (D, C): the mean, whose columns sum to one, and three quantiles."""

    mean: Floats
    low: Floats
    median: Floats
    high: Floats

    def arrays(self, name: str) -> dict[str, Floats]:
        """Return the arrays to write: the mean exactly, so that columns sum to one, and quantiles as float32."""
        rest = {f"{name}_{part}": getattr(self, part).astype(np.float32) for part in ("low", "median", "high")}
        return {f"{name}_mean": self.mean, **rest}

    @classmethod
    def read(cls, name: str, arrays: Mapping[str, NDArray[Any]]) -> "ProfileBand":
        """Return the band that was written by this name."""
        return cls(*(arrays[f"{name}_{part}"].astype(np.float64) for part in cls._fields))


@dataclass(frozen=True)
class Estimates:
    """The consensus classes as arrays, largest first.

    Attributes
    ----------
    draws : ndarray of int
        The draws of each chain that were compared.
    value : ndarray of float, shape (C,)
        Mean expected counts.
    shares : ndarray of float, shape (chain, draw, C)
        The share of the counts in each class in each draw; zero if the draw does not hold it.
    held : ndarray of bool, shape (chain, draw, C)
        Whether each draw holds the class.
    profiles, factors : tuple of ProfileBand
        One band per mode, of the expected counts in the observed cells and of the factors themselves; the same objects
        if no cell is missing.
    sharing : tuple of ndarray of float, shape (C, C)
        For each mode, the probability that two classes have the same factor, given that a draw holds both.
    alike : float
        The mean share of the counts in classes that are similar to a consensus class, but not matched with it, because
        another class of the same draw is.
    """

    draws: Ints
    value: Floats
    shares: Floats
    held: Flags
    profiles: tuple[ProfileBand, ...]
    factors: tuple[ProfileBand, ...]
    sharing: tuple[Floats, ...]
    alike: float

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
    def holding_both(self) -> Floats:
        """The number of draws that hold both of two classes, (C, C)."""
        held = self.held.astype(np.float64)
        return np.asarray(np.einsum("ndc,nde->ce", held, held))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to write to a file."""
        arrays: dict[str, NDArray[Any]] = {
            "draws": self.draws,
            "value": self.value,
            "shares": self.shares,
            "held": self.held,
            "alike": np.array(self.alike),
        }
        for mode, band in enumerate(self.profiles):
            arrays[f"sharing_{mode}"] = self.sharing[mode]
            arrays |= band.arrays(f"profile_{mode}")
            if self.factors is not self.profiles:
                arrays |= self.factors[mode].arrays(f"factor_{mode}")
        return arrays

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> "Estimates":
        """Return the estimates of a file for a tensor of this shape; a ValueError says if the arrays do not fit."""
        modes = range(len(shape))
        profiles = tuple(ProfileBand.read(f"profile_{mode}", arrays) for mode in modes)
        factors = profiles
        if "factor_0_mean" in arrays:
            factors = tuple(ProfileBand.read(f"factor_{mode}", arrays) for mode in modes)
        sharing = tuple(arrays[f"sharing_{mode}"] for mode in modes)
        draws, value, shares, held = (arrays[name] for name in ("draws", "value", "shares", "held"))
        classes = len(value)
        bands = [part.shape for every in (profiles, factors) for band in every for part in band]
        if {shares.shape[-1], held.shape[-1]} != {classes} or bands != [
            (length, classes) for _ in (profiles, factors) for length in shape for _ in ProfileBand._fields
        ]:
            raise ValueError("its arrays do not have the lengths of its classes and of the modes of the run")
        if shares.ndim != 3 or held.shape != shares.shape or draws.shape != shares.shape[1:2]:
            raise ValueError("its shares are not those of chains, draws and classes")
        if any(each.shape != (classes, classes) for each in sharing):
            raise ValueError("what its classes share is not a square table")
        return cls(draws, value, shares, held, profiles, factors, sharing, float(arrays["alike"]))
