"""The consensus on disk, beside the draws of a run: one file that is replaced as a whole.

It keeps the numbers and names of classes. When a run has grown, its new consensus takes over the numbers and names of
the classes that it finds again, also of those that were not in every consensus between, so they do not change. A number
is never given twice. Numbers are given and written under a lock, because several processes may look at one run.
"""

import warnings
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from allocore._files import replacing
from allocore._locks import ProcessLock
from allocore.data.numpy_files import read_npz
from allocore.kernels.arrays import Floats, Ints
from allocore.posterior.class_matching import Directions, match
from allocore.posterior.consensus_clusters import HOLDS
from allocore.posterior.consensus_estimates import Estimates, ProfileBand
from allocore.run.record import Record

FILE = "consensus.npz"
_LOCK = "consensus.lock"
_SECONDS = 10.0  # to wait for another process that writes the file
_FORMAT = 1
_FEW_BYTES = 2**24


class Known(NamedTuple):
    """All classes that ever had a number: the number and name of each, and per mode its last profile (D, K)."""

    number_K: Ints
    names: tuple[str, ...]
    profiles: tuple[Floats, ...]


@dataclass(frozen=True)
class Numbered:
    """Consensus classes with their numbers and names, and all classes that ever had a number."""

    estimates: Estimates
    number_C: Ints
    names: tuple[str, ...]
    known: Known


class Kept(NamedTuple):
    """The consensus in a run's folder, and the numbers of chains and draws that it is of."""

    numbered: Numbered
    chains: int
    draws: int

    def is_of(self, record: Record) -> bool:
        """Whether it is the consensus of all draws of the run."""
        return (self.chains, self.draws) == record.core_values.shape[:2] and record.chosen is None


def number_classes(found: Estimates, names: tuple[str, ...], known: Known | None) -> Numbered:
    """Give numbers: known ones to classes that were in an earlier consensus, new ones to the others."""
    means = tuple(band.mean for band in found.profiles)
    if known is None:
        known = Known(np.zeros(0, dtype=np.int64), (), tuple(mean_DC[:, :0] for mean_DC in means))
    ours, theirs = match(Directions.of(means), Directions.of(known.profiles), HOLDS)
    number_C, told = np.full(len(names), -1), list(names)
    number_C[ours] = known.number_K[theirs]
    for one, other in zip(ours.tolist(), theirs.tolist(), strict=True):
        told[one] = known.names[other]
    new = np.flatnonzero(number_C < 0)
    number_C[new] = known.number_K.max(initial=-1) + 1 + np.arange(len(new))
    for place, name in zip(new.tolist(), _all_different([told[place] for place in new], known.names), strict=True):
        told[place] = name
    return Numbered(found, number_C, tuple(told), _added(known, theirs, number_C, tuple(told), means))


def _added(known: Known, again: Ints, number_C: Ints, names: tuple[str, ...], means: tuple[Floats, ...]) -> Known:
    """The known classes, with those of now as they are now."""
    gone = np.setdiff1d(np.arange(len(known.names)), again)
    return Known(
        np.concatenate([number_C, known.number_K[gone]]),
        (*names, *(known.names[place] for place in gone)),
        tuple(
            np.concatenate([mean_DC, profile_DK[:, gone]], axis=1)
            for mean_DC, profile_DK in zip(means, known.profiles, strict=True)
        ),
    )


def _all_different(names: list[str], taken: tuple[str, ...]) -> list[str]:
    """The names, with a number behind those that are taken."""
    seen, given = set(taken), []
    for name in names:
        turn, told = 2, name
        while told in seen:
            told, turn = f"{name} ({turn})", turn + 1
        seen.add(told)
        given.append(told)
    return given


def number_and_keep(folder: Path, record: Record, found: Estimates, names: tuple[str, ...]) -> Numbered:
    """Give numbers that agree with the file, and write it, unless it is of more draws or cannot be written."""
    with suppress(OSError), ProcessLock(folder / _LOCK, timeout=_SECONDS):
        kept = _read_again(folder, record)
        numbered = number_classes(found, names, kept.numbered.known if kept else None)
        if kept is None or kept.draws <= record.core_values.shape[1]:
            write_consensus(folder, record, numbered)
        return numbered
    kept = _read_again(folder, record)
    return number_classes(found, names, kept.numbered.known if kept else None)


def _read_again(folder: Path, record: Record) -> Kept | None:
    """The file, which another process may have written meanwhile. That it cannot be read was said before."""
    with warnings.catch_warnings(action="ignore"):
        return read_consensus(folder, record)


def write_consensus(folder: Path, record: Record, numbered: Numbered) -> None:
    """Write a consensus into the folder of its run. A file of another version, or a full disk, is left as it is."""
    if _is_foreign(folder):
        return
    found, known = numbered.estimates, numbered.known
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "run": np.array(record.core_values.shape[:2]),
        "number": numbered.number_C,
        "name": np.array(numbered.names, dtype=np.str_),
        "known_number": known.number_K,
        "known_name": np.array(known.names, dtype=np.str_),
        "draws": found.draws,
        "value": found.value,
        "shares": found.shares,
        "held": found.held,
        "alike": np.array(found.alike),
    }
    whole = found.factors is found.profiles
    for mode in range(len(found.profiles)):
        arrays[f"sharing_{mode}"] = found.sharing[mode]
        arrays[f"known_profile_{mode}"] = known.profiles[mode].astype(np.float32)
        arrays |= _band_arrays(f"profile_{mode}", found.profiles[mode])
        arrays |= {} if whole else _band_arrays(f"factor_{mode}", found.factors[mode])
    with suppress(OSError), replacing(folder / FILE) as file:
        np.savez_compressed(file, **arrays)


def read_consensus(folder: Path, record: Record) -> Kept | None:
    """The consensus that is kept with a run; None if there is none that can be read."""
    if not (folder / FILE).exists():
        return None
    try:
        arrays = read_npz(folder / FILE, _most_bytes(record))
        if int(arrays["format"]) != _FORMAT:
            _warn(folder, f"it has format {int(arrays['format'])}, and this version reads {_FORMAT}")
            return None
        numbered = _numbered(arrays, len(record.factors))
        _check_shapes(numbered, record.tensor.shape)
        chains, draws = arrays["run"].tolist()
        return Kept(numbered, chains, draws)
    except Exception as error:  # a damaged archive raises errors of many kinds
        _warn(folder, str(error) or type(error).__name__)
        return None


def _most_bytes(record: Record) -> int:
    """More than a consensus of this run can take: four bands a mode and a profile of every class that had a number."""
    chains, draws, budget = record.core_values.shape
    classes = min(chains * budget, 100_000)
    return int(_FEW_BYTES + classes * (100 * sum(record.tensor.shape) + 16 * chains * draws))


def _check_shapes(numbered: Numbered, shape: tuple[int, ...]) -> None:
    """Raise a ValueError unless all arrays are of the same classes, and of the modes of the run."""
    found, known, classes = numbered.estimates, numbered.known, len(numbered.number_C)
    lengths = {len(numbered.names), len(found.value), *(each.shape[-1] for each in (found.shares, found.held))}
    wrong = [
        part
        for bands in (found.profiles, found.factors)
        for band, length in zip(bands, shape, strict=True)
        for part in band
        if part.shape != (length, classes)
    ]
    if lengths != {classes} or wrong:
        raise ValueError("its arrays have other lengths than its classes and the modes of the run")
    if found.shares.ndim != 3 or found.held.shape != found.shares.shape or found.draws.shape != found.shares.shape[1:2]:
        raise ValueError("its shares are not those of chains, draws and classes")
    if any(each.shape != (classes, classes) for each in found.sharing):
        raise ValueError("what its classes share is not a square table")
    if len(known.names) != len(known.number_K) or [each.shape for each in known.profiles] != [
        (length, len(known.number_K)) for length in shape
    ]:
        raise ValueError("the classes that it knows have other lengths")


def _warn(folder: Path, why: str) -> None:
    warnings.warn(
        f"{folder / FILE} cannot be read ({why}): the consensus is found again, and its classes may get other numbers",
        stacklevel=3,
    )


def _is_foreign(folder: Path) -> bool:
    """Whether there is a file of another version, or one that may not be read: neither should be replaced."""
    if not (folder / FILE).exists():
        return False
    try:
        with zipfile.ZipFile(folder / FILE) as archive, archive.open("format.npy") as file:
            return int(npy.read_array(file, allow_pickle=False, max_header_size=1000)) != _FORMAT
    except OSError:
        return True
    except Exception:  # damaged: nothing is lost if it is replaced
        return False


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
        alike=float(arrays["alike"]),
    )
    known = Known(
        arrays["known_number"],
        tuple(arrays["known_name"].tolist()),
        tuple(arrays[f"known_profile_{mode}"].astype(np.float64) for mode in range(modes)),
    )
    return Numbered(found, arrays["number"], tuple(arrays["name"].tolist()), known)


def _band_arrays(name: str, band: ProfileBand) -> dict[str, Floats]:
    """The mean exactly, so that its columns sum to one; the quantiles with the precision that people can read."""
    rest = {f"{name}_{part}": getattr(band, part).astype(np.float32) for part in ("low", "median", "high")}
    return {f"{name}_mean": band.mean, **rest}


def _band(name: str, arrays: Any) -> ProfileBand:
    return ProfileBand(*(arrays[f"{name}_{part}"].astype(np.float64) for part in ProfileBand._fields))
