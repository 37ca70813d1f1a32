"""The consensus on disk, beside the draws of a run: one file that is replaced as a whole.

It keeps the numbers and names of classes. When a run has grown, its new consensus takes over the numbers and names of
the classes that it finds again, so they do not change. A number is never given twice.
"""

import warnings
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allocore._files import replacing
from allocore.kernels.arrays import Floats, Ints
from allocore.posterior.class_matching import Directions, match
from allocore.posterior.consensus_clusters import HOLDS
from allocore.posterior.consensus_estimates import Estimates, ProfileBand

FILE = "consensus.npz"
_FORMAT = 1


@dataclass(frozen=True)
class Numbered:
    """Consensus classes with their numbers and names. `next_number` is the first that no class has ever had."""

    estimates: Estimates
    number_C: Ints
    names: tuple[str, ...]
    next_number: int


def number_classes(found: Estimates, names: tuple[str, ...], earlier: Numbered | None) -> Numbered:
    """Give numbers: those of an earlier consensus to classes that were in it, new ones to the others."""
    if earlier is None:
        return Numbered(found, np.arange(len(names)), _all_different(names, ()), len(names))
    ours, theirs = match(_directions(found), _directions(earlier.estimates), HOLDS)
    number_C, kept = np.full(len(names), -1), list(names)
    number_C[ours] = earlier.number_C[theirs]
    for one, other in zip(ours.tolist(), theirs.tolist(), strict=True):
        kept[one] = earlier.names[other]
    new = np.flatnonzero(number_C < 0)
    number_C[new] = earlier.next_number + np.arange(len(new))
    told = _all_different(tuple(kept[place] for place in new), tuple(kept[place] for place in ours))
    for place, name in zip(new.tolist(), told, strict=True):
        kept[place] = name
    return Numbered(found, number_C, tuple(kept), earlier.next_number + len(new))


def _directions(found: Estimates) -> Directions:
    return Directions.of([band.mean for band in found.profiles])


def _all_different(names: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...]:
    """The names, with a number behind those that are taken."""
    seen, given = set(taken), []
    for name in names:
        turn, told = 2, name
        while told in seen:
            told, turn = f"{name} ({turn})", turn + 1
        seen.add(told)
        given.append(told)
    return tuple(given)


def write_consensus(folder: Path, numbered: Numbered, draws: int) -> None:
    """Keep a consensus of this many draws with the run; a folder that cannot be written stays as it is."""
    found = numbered.estimates
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "run_draws": np.array(draws),
        "number": numbered.number_C,
        "name": np.array(numbered.names, dtype=np.str_),
        "next_number": np.array(numbered.next_number),
        "draws": found.draws,
        "value": found.value,
        "shares": found.shares,
        "held": found.held,
    }
    whole = found.factors is found.profiles
    for mode in range(len(found.profiles)):
        arrays[f"sharing_{mode}"] = found.sharing[mode]
        arrays |= _band_arrays(f"profile_{mode}", found.profiles[mode])
        arrays |= {} if whole else _band_arrays(f"factor_{mode}", found.factors[mode])
    with suppress(OSError), replacing(folder / FILE) as file:
        np.savez_compressed(file, **arrays)


def read_consensus(folder: Path, modes: int) -> tuple[Numbered, int] | None:
    """The consensus that is kept with a run, and the number of its draws; None if there is none."""
    try:
        # NumPy does not close a file that it cannot read.
        with open(folder / FILE, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            if int(arrays["format"]) != _FORMAT:
                return None
            return _numbered(arrays, modes), int(arrays["run_draws"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zipfile.LargeZipFile) as error:
        warnings.warn(
            f"{folder / FILE} cannot be read ({error}): the consensus is found again, and its classes may get other "
            "numbers",
            stacklevel=3,
        )
        return None


def _numbered(arrays: Any, modes: int) -> Numbered:
    profiles = tuple(_band(f"profile_{mode}", arrays) for mode in range(modes))
    whole = "factor_0_mean" not in arrays
    found = Estimates(
        draws=arrays["draws"],
        value=arrays["value"],
        shares=arrays["shares"],
        held=arrays["held"],
        profiles=profiles,
        factors=profiles if whole else tuple(_band(f"factor_{mode}", arrays) for mode in range(modes)),
        sharing=tuple(arrays[f"sharing_{mode}"] for mode in range(modes)),
    )
    return Numbered(found, arrays["number"], tuple(arrays["name"].tolist()), int(arrays["next_number"]))


def _band_arrays(name: str, band: ProfileBand) -> dict[str, Floats]:
    """The mean exactly, so that its columns sum to one; the quantiles with the precision that people can read."""
    rest = {f"{name}_{part}": getattr(band, part).astype(np.float32) for part in ("low", "median", "high")}
    return {f"{name}_mean": band.mean, **rest}


def _band(name: str, arrays: Any) -> ProfileBand:
    return ProfileBand(*(arrays[f"{name}_{part}"].astype(np.float64) for part in ProfileBand._fields))
