"""The consensus on disk, beside the draws of a run: one file that is replaced as a whole.

It keeps the numbers and names of classes. When a run has grown, its new consensus takes over the numbers of the
classes that it finds again, also of those that were not in every consensus between. A number is never given twice. A
class keeps its name as long as its profiles are nearly those that it was named by, so that small changes do not rename
it. Once they differ, it is named anew: names of an unsettled run do not stay. Numbers are given and written under a
lock, because several processes may look at one run.
"""

import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from allocore._files import replacing
from allocore._locks import ProcessLock
from allocore.data.numpy_files import read_npz
from allocore.kernels.arrays import Floats, Ints
from allocore.posterior.consensus.class_matching import Directions, match_similar, similarities
from allocore.posterior.consensus.consensus_clusters import HOLDS
from allocore.posterior.consensus.consensus_estimates import Estimates, ProfileBand
from allocore.posterior.consensus.consensus_summary import names_of
from allocore.run.record import Record

FILE = "consensus.npz"
_LOCK = "consensus.lock"
_SECONDS = 10.0  # to wait for another process that writes the file
_FORMAT = 1
# To be raised when names are worded in another way: classes with names of another wording are named anew.
_WORDING = 1
# A class keeps its name if the cosines of its profiles with those that it was named by are at least this, in all modes.
_SAME = 0.95
_FEW_BYTES = 2**24


class Known(NamedTuple):
    """All classes that ever had a number: its number, its name, and per mode the profile it was named by (D, K)."""

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
    """Give numbers and names: known ones to classes that were in an earlier consensus, new ones to the others.

    `names` are those by the present profiles. A known class has its old name if it is the same within `_SAME`.
    """
    means = tuple(band.mean for band in found.profiles)
    if known is None:
        known = Known(np.zeros(0, dtype=np.int64), (), tuple(mean_DC[:, :0] for mean_DC in means))
    similarity_CK = similarities(Directions.of(means), Directions.of(known.profiles), HOLDS)
    ours, theirs = match_similar(similarity_CK, HOLDS)
    number_C = np.full(len(names), -1)
    number_C[ours] = known.number_K[theirs]
    new = np.flatnonzero(number_C < 0)
    number_C[new] = known.number_K.max(initial=-1) + 1 + np.arange(len(new))
    same = similarity_CK[ours, theirs] >= _SAME
    named = dict(zip(ours[same].tolist(), theirs[same].tolist(), strict=True))
    told = _all_different(names, {place: known.names[earlier] for place, earlier in named.items()})
    return Numbered(found, number_C, told, _added(known, theirs, number_C, told, _named_by(means, known, named)))


def _named_by(means: tuple[Floats, ...], known: Known, named: dict[int, int]) -> tuple[Floats, ...]:
    """The profiles that the names are from: the earlier ones of classes that keep their names, those of now of others.

    So a class that changes a little every time is renamed once it has changed much.
    """
    ours, theirs = list(named.keys()), list(named.values())
    earlier = tuple(mean_DC.copy() for mean_DC in means)
    for profile_DC, profile_DK in zip(earlier, known.profiles, strict=True):
        profile_DC[:, ours] = profile_DK[:, theirs]
    return earlier


def _added(known: Known, again: Ints, number_C: Ints, names: tuple[str, ...], named_by: tuple[Floats, ...]) -> Known:
    """The known classes: those of now, and those that are gone."""
    gone = np.setdiff1d(np.arange(len(known.names)), again)
    return Known(
        np.concatenate([number_C, known.number_K[gone]]),
        (*names, *(known.names[place] for place in gone)),
        tuple(
            np.concatenate([profile_DC, profile_DK[:, gone]], axis=1)
            for profile_DC, profile_DK in zip(named_by, known.profiles, strict=True)
        ),
    )


def _all_different(names: tuple[str, ...], earlier: Mapping[int, str]) -> tuple[str, ...]:
    """A name for each place, its earlier one if it has one, with a number behind names that another class has."""
    seen: set[str] = set()
    given = list(names)
    for place in sorted(range(len(names)), key=lambda place: place not in earlier):
        name = earlier.get(place, names[place])
        turn, told = 2, name
        while told in seen:
            told, turn = f"{name} ({turn})", turn + 1
        seen.add(told)
        given[place] = told
    return tuple(given)


def _worded_anew(numbered: Numbered, record: Record) -> Numbered:
    """The same classes and numbers, with names in the present wording. New rows keep the names that their fit gave."""
    known = numbered.known
    if record.folded_mode is not None:
        return numbered
    names = _all_different(names_of(record, known.profiles), {})
    by_number = dict(zip(known.number_K.tolist(), names, strict=True))
    told = tuple(by_number[number] for number in numbered.number_C.tolist())
    return replace(numbered, names=told, known=known._replace(names=names))


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
        "wording": np.array(_WORDING),
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
        if int(arrays.get("wording", 0)) != _WORDING:
            numbered = _worded_anew(numbered, record)
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
