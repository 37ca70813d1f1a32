"""Numbers and names of consensus classes, and the files that save them next to the draws of a run.

When a run has grown, its new consensus takes over the numbers of the classes that it finds again, even if they were
absent from a consensus in between. No number is ever given to two classes. A class keeps its name while its profiles
are nearly those that it was named by. Numbers are given and written under a lock, because several processes may open
one run.

The numbering of a refit begins with the numbering of the run where it started (`carried_over`), which is saved with the
refit. Rows are matched by label. A class is found again by the rows that both runs have. It keeps its name if it also
looks as before with the new rows, in each of which the average of its earlier rows is expected.
"""

import hashlib
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from allocore._io import ProcessLock, open_inside, replacing
from allocore.classes.estimates import Estimates
from allocore.classes.matching import HOLDS, directions, match_similar, similarities, unit_profiles
from allocore.classes.names import names_of
from allocore.findings import Finding, warn
from allocore.kernels.elementary import Flags, Floats, Ints
from allocore.storage.record import Record
from allocore.tensor.files import read_npz

FILE = "consensus.npz"
START = "numbering.npz"  # of a refit: the numbering of the run where it started
_LOCK = "consensus.lock"
_SECONDS = 10.0  # to wait for another process that writes the file
_FORMAT = 1
_WORDING = 1  # raise it when the wording of names changes: classes with names of another wording get new names
_SAME = 0.95  # a class keeps its name if its cosines with the profiles it was named by are at least this in all modes
_THERE = 0.1  # a class can be compared on some rows if their average is at least this part of that of all its rows
_FEW_BYTES = 2**24


class Known(NamedTuple):
    """All classes that ever had a number: its number, its name, its origin, and per mode its profile (D, K).

    The profile is the one that the class was named by, NaN in rows that its run did not have. The origin is a hash of
    the first profile: classes of two runs with the same origin are one class, found again in a refit.
    """

    number_K: Ints
    names: tuple[str, ...]
    origin_K: Ints
    profiles: tuple[Floats, ...]

    @classmethod
    def none(cls, profiles: tuple[Floats, ...]) -> "Known":
        """No classes yet, in a run with profiles of this length."""
        return cls(*(np.zeros(0, dtype=np.int64), (), np.zeros(0, dtype=np.int64)), tuple(p[:, :0] for p in profiles))


class Numbers(NamedTuple):
    """The numbers and names of consensus classes, and all classes that ever had a number."""

    number_C: Ints
    names: tuple[str, ...]
    known: Known


class Saved(NamedTuple):
    """The consensus in a run's folder, and what it was made from: chains, draws, and the sweep of the last draw."""

    estimates: Estimates
    numbering: Numbers
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
    known = Known.none(profiles) if known is None else known
    ours, theirs = match_similar(similarities_to_known(profiles, known.profiles, HOLDS), HOLDS)
    number_C, origin_C = np.full(len(names), -1), _origins(profiles)
    number_C[ours], origin_C[ours] = known.number_K[theirs], known.origin_K[theirs]
    new = np.flatnonzero(number_C < 0)
    if last_C is not None:
        new = new[np.argsort(last_C[new], kind="stable")]
    number_C[new] = known.number_K.max(initial=-1) + 1 + np.arange(len(new))
    expected = _filled_in(known.profiles)
    pairs = zip(_chosen(profiles, ours), _chosen(expected, theirs), strict=True)
    cosines = [(one * other).sum(axis=1) for one, other in pairs]
    same = np.min(cosines, axis=0) >= _SAME
    own, earlier = ours[same], theirs[same]
    given = _all_different(names, {c: known.names[k] for c, k in zip(own.tolist(), earlier.tolist(), strict=True)})
    # With its name a class keeps the profiles it was named by: changes a little at a time add up to a new name.
    named_by = profiles
    if len(own):
        named_by = tuple(mean_DC.copy() for mean_DC in profiles)
        for profile_DC, profile_DK in zip(named_by, expected, strict=True):
            profile_DC[:, own] = profile_DK[:, earlier]
    gone = np.setdiff1d(np.arange(len(known.names)), theirs)
    all_known = Known(
        np.concatenate([number_C, known.number_K[gone]]),
        (*given, *(known.names[place] for place in gone)),
        np.concatenate([origin_C, known.origin_K[gone]]),
        tuple(
            np.concatenate([own_DC, known_DK[:, gone]], axis=1) if len(gone) else own_DC
            for own_DC, known_DK in zip(named_by, known.profiles, strict=True)
        ),
    )
    return Numbers(number_C, given, all_known)


def similarities_to_known(profiles: tuple[Floats, ...], known: tuple[Floats, ...], least: float) -> Floats:
    """Return the similarities of classes and known classes (C, K), on the rows that the known ones have.

    A class with next to nothing in these rows is similar to none: it was not in the earlier data. A mode of which the
    earlier run has no row does not count.
    """
    similarity_CK = np.zeros((profiles[0].shape[1], known[0].shape[1]))
    for members in _with_the_same_rows(known):
        has_rows = [~np.isnan(profile_DK[:, members[0]]) for profile_DK in known]
        compared = [mode for mode, has_D in enumerate(has_rows) if has_D.any()]
        if not compared:
            continue
        own = [_rows(profiles[mode], has_rows[mode]) for mode in compared]
        theirs = [_rows(known[mode][:, members], has_rows[mode]) for mode in compared]
        pairs = zip(own, (profiles[mode] for mode in compared), strict=True)
        there_C = np.all([part.mean(axis=0) >= _THERE * whole.mean(axis=0) for part, whole in pairs], axis=0)
        similarity_CK[:, members] = there_C[:, None] * similarities(directions(own), directions(theirs), least)
    return similarity_CK


def _with_the_same_rows(known: tuple[Floats, ...]) -> list[list[int]]:
    """The places of the known classes that lack the same rows, for each set of rows."""
    members: dict[bytes, list[int]] = {}
    for place in range(known[0].shape[1]):
        lacking = b"".join(np.packbits(np.isnan(profile_DK[:, place])).tobytes() for profile_DK in known)
        members.setdefault(lacking, []).append(place)
    return list(members.values())


def _rows(profile_DC: Floats, chosen_D: Flags) -> Floats:
    """Chosen rows of profiles; nothing is copied if these are all."""
    return profile_DC if chosen_D.all() else profile_DC[chosen_D]


def _chosen(profiles: tuple[Floats, ...], classes: Ints) -> tuple[Floats, ...]:
    """The profiles of some classes, scaled to length one, (C, D) per mode."""
    return unit_profiles(profile_DC[:, classes] for profile_DC in profiles)


def _filled_in(profiles: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """Profiles with the average of the known rows in the others; even if no row is known."""
    return tuple(
        np.where(np.isnan(each), np.where(np.isnan(each).all(axis=0), 1.0, _average(each)), each) for each in profiles
    )


def _average(profile_DK: Floats) -> Floats:
    """The average of the known rows, (K,); 0 if none is known."""
    return np.asarray(np.nansum(profile_DK, axis=0) / np.maximum((~np.isnan(profile_DK)).sum(axis=0), 1))


def _origins(profiles: tuple[Floats, ...]) -> Ints:
    columns = zip(*(profile_DC.T for profile_DC in profiles), strict=True)
    texts = (np.concatenate(column).astype(np.float32).tobytes() for column in columns)
    digests = [hashlib.blake2b(text, digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def carried_over(numbers: Numbers, places: Sequence[Ints]) -> Numbers:
    """Return a numbering for other rows; `places` says for each mode where each of them was, -1 if it is new."""
    return numbers._replace(known=numbers.known._replace(profiles=in_other_rows(numbers.known.profiles, places)))


def in_other_rows(profiles: tuple[Floats, ...], places: Sequence[Ints]) -> tuple[Floats, ...]:
    """Return profiles in other rows, NaN in new ones. Classes with next to nothing in the others are zero there."""
    moved = []
    for profile_DK, place_D in zip(profiles, places, strict=True):
        moved_DK = np.where((place_D >= 0)[:, None], profile_DK[place_D], np.nan)
        left_K = _average(moved_DK) >= _THERE * _average(profile_DK)
        moved.append(np.where(left_K, moved_DK, 0.0 * moved_DK))
    return tuple(moved)


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


def number_and_save(
    folder: Path, record: Record, found: Estimates, names: tuple[str, ...], known: Known | None = None
) -> Numbers:
    """Give numbers that agree with the file, and write it, unless it has more draws or cannot be written.

    Without a file, the numbers agree with `known`.
    """
    with suppress(OSError), ProcessLock(folder / _LOCK, timeout=_SECONDS):
        saved = _read_again(folder, record)
        numbers = number_classes(found.mean_profiles, names, saved.numbering.known if saved else known, found.apart)
        if saved is None or (saved.sweep, saved.chains) <= (_made_from(record)[2], len(record.core_values)):
            write_consensus(folder, record, found, numbers)
        return numbers
    saved = _read_again(folder, record)
    return number_classes(found.mean_profiles, names, saved.numbering.known if saved else known, found.apart)


def _read_again(folder: Path, record: Record) -> Saved | None:
    # Another process may have written the file meanwhile. The first reading has warned if it is damaged.
    with warnings.catch_warnings(action="ignore"):
        return read_consensus(folder, record)


def write_consensus(folder: Path, record: Record, found: Estimates, numbers: Numbers) -> None:
    """Write a consensus into the folder of its run. A file of another version, or a full disk, is left as it is."""
    if _is_foreign(folder):
        return
    arrays = {"run": np.array(_made_from(record)), **_arrays(numbers), **found.arrays()}
    with suppress(OSError), replacing(folder / FILE) as file:
        np.savez(file, **arrays)  # profiles can hardly be compressed


def write_start(folder: Path, numbers: Numbers) -> None:
    """Write the numbering with which a refit begins into its folder."""
    with replacing(folder / START) as file:
        np.savez(file, **_arrays(numbers))


def _arrays(numbers: Numbers) -> dict[str, Any]:
    known = numbers.known
    return {
        "format": np.array(_FORMAT),
        "wording": np.array(_WORDING),
        "number": numbers.number_C,
        "name": np.array(numbers.names, dtype=np.str_),
        "known_number": known.number_K,
        "known_name": np.array(known.names, dtype=np.str_),
        "known_origin": known.origin_K,
        **{f"known_profile_{mode}": each.astype(np.float32) for mode, each in enumerate(known.profiles)},
    }


def read_consensus(folder: Path, record: Record) -> Saved | None:
    """Return the consensus that is saved with a run; None if there is none that can be read."""
    path = folder / FILE
    with _warning_of_damage(path, "consensus-not-read"):
        if path.exists():
            arrays = _read(path, record)
            found, numbers = Estimates.read(arrays, record.tensor.shape), _numbers(arrays, record)
            if len(numbers.number_C) != len(found.value):
                raise ValueError("it does not have a number for each class")
            if (found.roles is None) != (record.spec.tied is None):
                raise ValueError("it does not fit the tied modes of the run")
            # Older files do not have the sweep; their runs cannot have replaced their draws.
            chains, draws, *sweep = arrays["run"].tolist()
            return Saved(found, numbers, chains, draws, *(sweep or [record.schedule.sweep_of(draws - 1)]))
    return None


def read_start(folder: Path, record: Record) -> Numbers | None:
    """Return the numbering with which a refit began; None if the run is no refit, or if it cannot be read."""
    path = folder / START
    with _warning_of_damage(path, "numbering-not-read"):
        if path.exists():
            return _numbers(_read(path, record), record)
    return None


def _read(path: Path, record: Record) -> Mapping[str, Any]:
    most = _most_bytes(record)
    with open_inside(path.parent, path.name, most) as content:
        arrays = read_npz(path, most, content)
    if int(arrays["format"]) != _FORMAT:
        raise ValueError(f"it has format {int(arrays['format'])}, and this version reads {_FORMAT}")
    return arrays


@contextmanager
def _warning_of_damage(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a damaged archive raises errors of many kinds
        warn(Finding(kind, "caution", {"path": str(path), "problem": str(error) or type(error).__name__}), stacklevel=4)


def _numbers(arrays: Mapping[str, Any], record: Record) -> Numbers:
    """The numbers and names of a file; names in another wording are made again, except those of new rows."""
    profiles = tuple(arrays[f"known_profile_{mode}"].astype(np.float64) for mode in range(len(record.factors)))
    origin_K = arrays["known_origin"] if "known_origin" in arrays else _origins(profiles)  # older files have none
    known = Known(arrays["known_number"], tuple(arrays["known_name"].tolist()), origin_K, profiles)
    numbers = Numbers(arrays["number"], tuple(arrays["name"].tolist()), known)
    if len(numbers.names) != len(numbers.number_C):
        raise ValueError("it does not have a name for each class")
    shapes = [(length, len(known.number_K)) for length in record.tensor.shape]
    if (
        not len(known.names) == len(known.number_K) == len(known.origin_K)
        or [each.shape for each in known.profiles] != shapes
    ):
        raise ValueError("its known classes do not have the lengths of the modes of the run")
    for number in (numbers.number_C, known.number_K):
        if number.dtype.kind not in "iu" or (number < 0).any() or len(np.unique(number)) != number.size:
            raise ValueError("its numbers of classes must be different whole numbers")
    if any(((each < 0) | np.isinf(each)).any() for each in known.profiles):  # NaN: rows that a class does not know
        raise ValueError("its known profiles must be finite and not negative")
    if int(arrays.get("wording", 0)) == _WORDING or record.new_rows is not None:
        return numbers
    names = _all_different(names_of(record.tensor, tuple(p / p.sum(axis=0) for p in _filled_in(profiles))), {})
    by_number = dict(zip(known.number_K.tolist(), names, strict=True))
    given = tuple(by_number[number] for number in numbers.number_C.tolist())
    return Numbers(numbers.number_C, given, known._replace(names=names))


def _most_bytes(record: Record) -> int:
    """More than a consensus of this run can take: four bands a mode and a profile of every class that had a number."""
    chains, draws, budget = record.core_values.shape
    classes = min(chains * budget, 100_000)
    return int(_FEW_BYTES + classes * (100 * sum(record.tensor.shape) + 16 * chains * draws))


def _is_foreign(folder: Path) -> bool:
    """Whether there is a file of another version, or one that may not be read: neither should be replaced."""
    if not (folder / FILE).exists():
        return False
    try:
        with (
            open_inside(folder, FILE, _FEW_BYTES * 2**10) as content,
            zipfile.ZipFile(content) as archive,
            archive.open("format.npy") as file,
        ):
            return int(npy.read_array(file, allow_pickle=False, max_header_size=1000)) != _FORMAT
    except OSError:
        return True
    except Exception:  # damaged: nothing is lost if it is replaced
        return False
