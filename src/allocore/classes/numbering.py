"""Numbers and names of consensus classes, and the file that saves them next to the draws of a run.

When a run has grown, its new consensus takes over the numbers of the classes that it finds again, even if they were
absent from a consensus in between. No number is ever given to two classes. A class keeps its name while its profiles
are nearly those that it was named by. Numbers are given and written under a lock, because several processes may open
one run.
"""

import warnings
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from allocore._io import ProcessLock, replacing
from allocore.classes.estimates import Estimates
from allocore.classes.matching import HOLDS, directions, match_similar, similarities
from allocore.classes.names import names_of
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.storage.record import Record
from allocore.tensor.files import read_npz

FILE = "consensus.npz"
_LOCK = "consensus.lock"
_SECONDS = 10.0  # to wait for another process that writes the file
_FORMAT = 1
_WORDING = 1  # raise it when the wording of names changes: classes with names of another wording get new names
_SAME = 0.95  # a class keeps its name if its cosines with the profiles it was named by are at least this in all modes
_FEW_BYTES = 2**24


class Known(NamedTuple):
    """All classes that ever had a number: its number, its name, and per mode the profile it was named by (D, K)."""

    number_K: Ints
    names: tuple[str, ...]
    profiles: tuple[Floats, ...]


class Numbers(NamedTuple):
    """The numbers and names of consensus classes, and all classes that ever had a number."""

    number_C: Ints
    names: tuple[str, ...]
    known: Known


class Saved(NamedTuple):
    """The consensus in a run's folder, and what it was made from: chains, draws, and the sweep of the last draw."""

    estimates: Estimates
    numbers: Numbers
    chains: int
    draws: int
    sweep: int

    def is_of(self, record: Record) -> bool:
        """Whether it was made from all draws of a record."""
        return (self.chains, self.draws, self.sweep) == _made_from(record)


def _made_from(record: Record) -> tuple[int, int, int]:
    chains, draws = record.core_values.shape[:2]
    return chains, draws, int(record.draw_sweeps[-1])


def number_classes(
    profiles: tuple[Floats, ...], names: tuple[str, ...], known: Known | None, last_C: Flags | None = None
) -> Numbers:
    """Give known numbers and names to classes of an earlier consensus, and new ones, from `names`, to the others.

    New classes are numbered in their order, those of `last_C` after the others.
    """
    if known is None:
        known = Known(np.zeros(0, dtype=np.int64), (), tuple(mean_DC[:, :0] for mean_DC in profiles))
    similarity_CK = similarities(directions(profiles), directions(known.profiles), HOLDS)
    ours, theirs = match_similar(similarity_CK, HOLDS)
    number_C = np.full(len(names), -1)
    number_C[ours] = known.number_K[theirs]
    new = np.flatnonzero(number_C < 0)
    if last_C is not None:
        new = new[np.argsort(last_C[new], kind="stable")]
    number_C[new] = known.number_K.max(initial=-1) + 1 + np.arange(len(new))
    same = similarity_CK[ours, theirs] >= _SAME
    own, earlier = ours[same], theirs[same]
    given = _all_different(names, {c: known.names[k] for c, k in zip(own.tolist(), earlier.tolist(), strict=True)})
    # With its name a class keeps the profiles it was named by: changes a little at a time add up to a new name.
    named_by = tuple(mean_DC.copy() for mean_DC in profiles)
    for profile_DC, profile_DK in zip(named_by, known.profiles, strict=True):
        profile_DC[:, own] = profile_DK[:, earlier]
    gone = np.setdiff1d(np.arange(len(known.names)), theirs)
    pairs = zip(named_by, known.profiles, strict=True)
    all_known = Known(
        np.concatenate([number_C, known.number_K[gone]]),
        (*given, *(known.names[place] for place in gone)),
        tuple(np.concatenate([profile_DC, profile_DK[:, gone]], axis=1) for profile_DC, profile_DK in pairs),
    )
    return Numbers(number_C, given, all_known)


def _all_different(names: tuple[str, ...], earlier: Mapping[int, str]) -> tuple[str, ...]:
    """A name for each place, its earlier one if it has one, with a number behind names that another class has."""
    seen: set[str] = set()
    given = list(names)
    for place in sorted(range(len(names)), key=lambda place: place not in earlier):
        name = earlier.get(place, names[place])
        turn, candidate = 2, name
        while candidate in seen:
            candidate, turn = f"{name} ({turn})", turn + 1
        seen.add(candidate)
        given[place] = candidate
    return tuple(given)


def number_and_save(folder: Path, record: Record, found: Estimates, names: tuple[str, ...]) -> Numbers:
    """Give numbers that agree with the file, and write it, unless it has more draws or cannot be written."""
    with suppress(OSError), ProcessLock(folder / _LOCK, timeout=_SECONDS):
        saved = _read_again(folder, record)
        numbers = number_classes(found.mean_profiles, names, saved.numbers.known if saved else None, found.apart)
        if saved is None or (saved.sweep, saved.chains) <= (_made_from(record)[2], len(record.core_values)):
            write_consensus(folder, record, found, numbers)
        return numbers
    saved = _read_again(folder, record)
    return number_classes(found.mean_profiles, names, saved.numbers.known if saved else None, found.apart)


def _read_again(folder: Path, record: Record) -> Saved | None:
    # Another process may have written the file meanwhile. The first reading has warned if it is damaged.
    with warnings.catch_warnings(action="ignore"):
        return read_consensus(folder, record)


def write_consensus(folder: Path, record: Record, found: Estimates, numbers: Numbers) -> None:
    """Write a consensus into the folder of its run. A file of another version, or a full disk, is left as it is."""
    if _is_foreign(folder):
        return
    known = numbers.known
    arrays: dict[str, Any] = {
        "format": np.array(_FORMAT),
        "wording": np.array(_WORDING),
        "run": np.array(_made_from(record)),
        "number": numbers.number_C,
        "name": np.array(numbers.names, dtype=np.str_),
        "known_number": known.number_K,
        "known_name": np.array(known.names, dtype=np.str_),
        **{f"known_profile_{mode}": each.astype(np.float32) for mode, each in enumerate(known.profiles)},
        **found.arrays(),
    }
    with suppress(OSError), replacing(folder / FILE) as file:
        np.savez_compressed(file, **arrays)


def read_consensus(folder: Path, record: Record) -> Saved | None:
    """Return the consensus that is saved with a run; None if there is none that can be read."""
    if not (folder / FILE).exists():
        return None
    try:
        arrays = read_npz(folder / FILE, _most_bytes(record))
        if int(arrays["format"]) != _FORMAT:
            _warn(folder, f"it has format {int(arrays['format'])}, and this version reads {_FORMAT}")
            return None
        found, numbers = Estimates.read(arrays, record.tensor.shape), _numbers(arrays, record)
        if len(numbers.number_C) != len(found.value):
            raise ValueError("it does not have a number for each class")
        # Older files do not have the sweep; their runs cannot have replaced their draws.
        chains, draws, *sweep = arrays["run"].tolist()
        return Saved(found, numbers, chains, draws, *(sweep or [record.schedule.sweep_of(draws - 1)]))
    except Exception as error:  # a damaged archive raises errors of many kinds
        _warn(folder, str(error) or type(error).__name__)
        return None


def _numbers(arrays: Mapping[str, Any], record: Record) -> Numbers:
    """The numbers and names of a file; names in another wording are made again, except those of new rows."""
    known = Known(
        arrays["known_number"],
        tuple(arrays["known_name"].tolist()),
        tuple(arrays[f"known_profile_{mode}"].astype(np.float64) for mode in range(len(record.factors))),
    )
    numbers = Numbers(arrays["number"], tuple(arrays["name"].tolist()), known)
    if len(numbers.names) != len(numbers.number_C):
        raise ValueError("it does not have a name for each class")
    shapes = [(length, len(known.number_K)) for length in record.tensor.shape]
    if len(known.names) != len(known.number_K) or [each.shape for each in known.profiles] != shapes:
        raise ValueError("its known classes do not have the lengths of the modes of the run")
    if int(arrays.get("wording", 0)) == _WORDING or record.folded_mode is not None:
        return numbers
    names = _all_different(names_of(record.tensor, known.profiles), {})
    by_number = dict(zip(known.number_K.tolist(), names, strict=True))
    given = tuple(by_number[number] for number in numbers.number_C.tolist())
    return Numbers(numbers.number_C, given, known._replace(names=names))


def _most_bytes(record: Record) -> int:
    """More than a consensus of this run can take: four bands a mode and a profile of every class that had a number."""
    chains, draws, budget = record.core_values.shape
    classes = min(chains * budget, 100_000)
    return int(_FEW_BYTES + classes * (100 * sum(record.tensor.shape) + 16 * chains * draws))


def _warn(folder: Path, why: str) -> None:
    text = f"cannot be read ({why}): the consensus is found again, and its classes may get other numbers"
    warnings.warn(f"{folder / FILE} {text}", stacklevel=3)


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
