"""Tensors that continue each other along one mode, joined into one; and new rows matched to the rows of a fit by label.

A wildcard of one part along the joined mode becomes one pattern for each row of that part, unless all parts have the
same pattern. Wildcards in other modes stay: a period that was not observed was not observed for later labels either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import isqrt
from typing import Literal, get_args

import numpy as np

from allocore._text import first_few, plural
from allocore.errors import Described, InputError, check_choice
from allocore.findings import Finding, warn
from allocore.tensor.calendar import calendar_keys, is_rising, period_form
from allocore.tensor.cameo import respelt, spelt_alike
from allocore.tensor.coordinates import Int64s, Integers, column_keys
from allocore.tensor.count_tensor import CountTensor, heaviest_labels, missing_diagonals, summary_line, with_parts
from allocore.tensor.event_report import EventReport
from allocore.tensor.files import as_tensor
from allocore.tensor.labels import ModeLabels, label_hint
from allocore.tensor.missing import MAX_SIGNED_PATTERNS, WILDCARD
from allocore.tensor.undirected import Pair

Absent = Literal["zero", "missing"]
NewLabels = Literal["error", "drop"]
_NO_MODE = -1
_Places = int | Int64s  # how far the rows of a mode move, or where each of them goes


def concat(
    tensors: Iterable[object], mode: int | str, *, join: Literal["equal", "outer"] = "equal", absent: Absent = "zero"
) -> CountTensor:
    """Join tensors that continue each other along one mode, such as months read at different times.

    Parameters
    ----------
    tensors : iterable of CountTensor
        The parts in order, or anything that `as_tensor` takes. All have the same mode names in the same order. No label
        of the joined mode may be in two parts; if these labels are periods of time, they must rise. Periods between the
        parts are not filled in. Without labels, positions are counted on.
    mode : int or str
        The mode along which the parts are joined, by name or by index.
    join : {"equal", "outer"}, default "equal"
        Whether the labels of all other modes must be equal and in equal order, or are united: those of the first part,
        then those that each later part adds. United periods, months, weekdays and times of day are in calendar order.
    absent : {"zero", "missing"}, default "zero"
        With "outer", what the cells of a label are in parts that do not have it. Tables of events are complete: a
        country that is in no event of a period had zero events, hence the default. Use "missing" where such a label was
        not looked at. A diagonal that is missing in a part is missing for labels that are new to it too.

    Returns
    -------
    CountTensor
        The joined tensor. Missing cells of each part are missing in its rows. Its `report` adds up those of the parts,
        if all parts have one.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> parts = [Y.select(month=slice("Jan", "Jun")), Y.select(month=slice("Jul", "Dec"))]
    >>> ac.concat(parts, mode="month") == Y
    True
    >>> old = ac.CountTensor([[0, 1], [0, 0]], [3, 1], labels=[["Ada", "Max"], ["2018-01"]])
    >>> new = ac.CountTensor([[0, 1], [0, 0]], [2, 5], labels=[["Ada", "Eva"], ["2018-02"]])
    >>> ac.concat([old, new], mode=1, join="outer").to_dense()
    array([[3, 2],
           [1, 0],
           [0, 5]])
    """
    check_choice("join", join, ("equal", "outer"))
    check_choice("absent", absent, get_args(Absent))
    if join == "equal" and absent == "missing":
        raise InputError("absent", absent, "must be 'zero' unless `join` is 'outer': no labels are absent from a part")
    parts = _as_tensors(tensors)
    along = parts[0].mode(mode)
    pair = _undirected(parts, along)
    labels = [_joined(parts, m) if m == along else _other_labels(parts, m, join) for m in range(parts[0].ndim)]
    lengths = [len(each) for each in labels]
    starts = np.cumsum([0, *(part.shape[along] for part in parts)])
    places = [_places_of(part, labels, along, int(start)) for part, start in zip(parts, starts[:-1], strict=True)]
    coords = [_moved_coords(part, each) for part, each in zip(parts, places, strict=True)]
    patterns = [_patterns_of(part, each, labels, absent) for part, each in zip(parts, places, strict=True)]
    joined = CountTensor(
        np.concatenate(coords, axis=1),
        np.concatenate([part.counts for part in parts]),
        lengths,
        mode_names=parts[0].mode_names,
        labels=labels,
        missing=_all_patterns(patterns, lengths, starts, along),
    )
    joined = joined if pair is None else joined.undirected(pair, asymmetric="sum")
    return _with_report(joined, [part.report for part in parts])


def _undirected(parts: list[CountTensor], along: int) -> Pair | None:
    """Return the modes between which ties are undirected, in all parts or in none."""
    pairs = [part.undirected_modes for part in parts]
    if len(set(pairs)) > 1:
        rule = f"must all have undirected ties between the same modes, or none; tensor {pairs.index(None)} has none"
        raise InputError("tensors", rule=rule)
    if along in (pairs[0] or ()):
        raise InputError("mode", parts[0].mode_names[along], "must not be an end of undirected ties")
    return pairs[0]


def _with_report(joined: CountTensor, given: Sequence[EventReport | None]) -> CountTensor:
    """Return the tensor with the report on its parts, if all have one; parts of one tensor have the same."""
    reports = [report for place, report in enumerate(given) if report is not None and report not in given[:place]]
    if None in given:
        if any(report.exposures for report in reports):
            warn(Finding("weights-lost", "caution"), stacklevel=3)
        return joined
    if len(reports) == 1:
        return with_parts(joined, report=reports[0])
    return with_parts(joined, report=EventReport.joined(reports, summary_line(joined), heaviest_labels(joined)))


def _as_tensors(tensors: Iterable[object]) -> list[CountTensor]:
    if isinstance(tensors, CountTensor | str) or not isinstance(tensors, Iterable):
        raise InputError("tensors", tensors, "must be a list of tensors")
    parts = [as_tensor(each) for each in tensors]
    if not parts:
        raise InputError("tensors", tensors, "must have at least one tensor")
    for number, part in enumerate(parts):
        if part.mode_names != parts[0].mode_names:
            rule = (
                f"must have the same modes in the same order; tensor 0 has {', '.join(parts[0].mode_names)}, "
                f"tensor {number} has {', '.join(part.mode_names)}"
            )
            raise InputError("tensors", rule=rule)
    return _spelt_alike(parts)


def _spelt_alike(parts: list[CountTensor]) -> list[CountTensor]:
    for mode in range(parts[0].ndim):
        labels = [each for each in (part.labels[mode] for part in parts) if isinstance(each, tuple)]
        if len(labels) < len(parts) or len(set(labels)) < 2:
            continue
        name = parts[0].mode_names[mode]
        pairs = zip(parts, labels, spelt_alike(labels), strict=True)
        parts = [part if old == new else part.with_labels({name: new}) for part, old, new in pairs]
    return parts


def _has_labels(parts: list[CountTensor], mode: int) -> bool:
    with_labels = [isinstance(part.labels[mode], tuple) for part in parts]
    if len(set(with_labels)) > 1:
        name, number = parts[0].mode_names[mode], with_labels.index(False)
        raise InputError("tensors", rule=f"must all have labels in mode {name!r}, or none; tensor {number} has none")
    return with_labels[0]


def _joined(parts: list[CountTensor], mode: int) -> ModeLabels:
    """Return the labels of the joined mode: those of all parts, one after the other. Periods of time must rise."""
    if not _has_labels(parts, mode):
        return range(sum(part.shape[mode] for part in parts))
    name, owner = parts[0].mode_names[mode], dict[str, int]()
    for number, part in enumerate(parts):
        twice = [label for label in map(str, part.labels[mode]) if label in owner]
        if twice:
            rule = (
                f"must not overlap along the mode that is joined; mode {name!r} has {_shown(twice)} in tensors "
                f"{owner[twice[0]]} and {number}. Y.select can leave rows out of one of them"
            )
            raise InputError("tensors", rule=rule)
        owner |= {str(label): number for label in part.labels[mode]}
    labels = tuple(owner)
    if not all(period_form(part.labels[mode]) for part in parts):
        return labels
    if period_form(labels) is None:
        firsts = _shown([part.labels[mode][0] for part in parts])
        rule = f"must have periods of the same length in mode {name!r}; the parts begin with {firsts}"
        raise InputError("tensors", rule=rule)
    if not is_rising(labels):
        before, after = next((a, b) for a, b in pairwise(labels) if a >= b)
        raise InputError("tensors", rule=f"must be in order of time; mode {name!r} has {after!r} after {before!r}")
    return labels


def _other_labels(parts: list[CountTensor], mode: int, join: str) -> ModeLabels:
    """Return the labels of another mode: equal in all parts, or those of the first part and then what others add."""
    name, first = parts[0].mode_names[mode], parts[0].labels[mode]
    if not _has_labels(parts, mode):
        lengths = [part.shape[mode] for part in parts]
        if len(set(lengths)) > 1:
            rule = f"must have labels or equal lengths in mode {name!r}; its lengths are {lengths}"
            raise InputError("tensors", rule=rule)
        return first
    labels = tuple(dict.fromkeys(str(label) for part in parts for label in part.labels[mode]))
    if join == "equal":
        for number, part in enumerate(parts):
            if part.labels[mode] != first:
                raise _unequal(name, first, part.labels[mode], number)
    elif labels != first and period_form(labels):
        return tuple(sorted(labels))
    elif labels != first and (keys := calendar_keys(labels)) is not None:
        return tuple(label for _, label in sorted(zip(keys, labels, strict=True)))
    return labels


def _unequal(name: str, first: ModeLabels, other: ModeLabels, number: int) -> InputError:
    sides = [(first, set(other), 0), (other, set(first), number)]
    only = [(_shown([label for label in own if label not in rest]), which) for own, rest, which in sides]
    what = " and ".join(f"{labels} is only in tensor {which}" for labels, which in only if labels)
    rule = f"must have equal labels in mode {name!r}: {what or f'tensor {number} has another order'}"
    return InputError("tensors", rule=f"{rule}; join='outer' unites them")


def _shown(labels: Sequence[object]) -> str:
    return first_few([repr(str(label)) for label in labels], 5)


def _places_of(part: CountTensor, labels: Sequence[ModeLabels], along: int, start: int) -> list[_Places]:
    places: list[_Places] = []
    for mode, (own, joined) in enumerate(zip(part.labels, labels, strict=True)):
        if mode == along or own == joined:
            places.append(start if mode == along else 0)
        else:
            place = {label: number for number, label in enumerate(joined)}
            places.append(np.array([place[label] for label in own], dtype=np.int64))
    return places


def _moved(positions: Integers, places: _Places) -> Int64s:
    return positions.astype(np.int64) + places if isinstance(places, int) else places[positions]


def _moved_coords(part: CountTensor, places: list[_Places]) -> Int64s:
    return np.stack([_moved(row, place) for row, place in zip(part.coords, places, strict=True)])


def _patterns_of(part: CountTensor, places: list[_Places], labels: Sequence[ModeLabels], absent: str) -> Int64s:
    """Return the patterns of a part, in joined positions; a wildcard along the joined mode means its own rows."""
    own = part.missing.patterns.copy()
    for mode, place in enumerate(places):
        fixed = own[:, mode] != WILDCARD
        own[fixed, mode] = _moved(own[fixed, mode], place)
    united = [mode for mode, place in enumerate(places) if not isinstance(place, int)]
    diagonals = missing_diagonals(part) if united else []
    groups = [(mode,) for mode in united] if absent == "missing" else [each for each in diagonals if each[0] in united]
    return np.concatenate([own, *(_new_to(part, labels, modes) for modes in groups)])


def _new_to(part: CountTensor, labels: Sequence[ModeLabels], modes: tuple[int, ...]) -> Int64s:
    """Return a pattern for each label that is new to a part and has a row in all of some modes: in all, this label."""
    known = {label for mode in modes for label in part.labels[mode]}
    rows = [{label: row for row, label in enumerate(labels[mode])} for mode in modes]
    new = [label for label in rows[0] if label not in known and all(label in each for each in rows)]
    patterns = np.full((len(new), part.ndim), WILDCARD, dtype=np.int64)
    for mode, each in zip(modes, rows, strict=True):
        patterns[:, mode] = [each[label] for label in new]
    return patterns


def _all_patterns(patterns: list[Int64s], lengths: list[int], starts: Int64s, along: int) -> Int64s:
    """Return the patterns of all parts; a wildcard along the joined mode stays one only if all parts have it."""
    wild = [each[each[:, along] == WILDCARD] for each in patterns]
    keys = column_keys([length + 1 for length in lengths], *(each.T + 1 for each in wild))
    everywhere = reduce(np.intersect1d, keys)
    found = [each[each[:, along] != WILDCARD] for each in patterns]
    found.append(wild[0][np.isin(keys[0], everywhere)])
    for each, key, (start, end) in zip(wild, keys, pairwise(starts.tolist()), strict=True):
        found.append(_spread(each[~np.isin(key, everywhere)], range(start, end), along))
    return np.concatenate(found)


def _spread(patterns: Int64s, rows: range, along: int) -> Int64s:
    number = len(patterns) * len(rows)
    if number > MAX_SIGNED_PATTERNS:
        rule = (
            f"must have fewer missing patterns that hold for all rows of one part: {len(patterns):,} for {len(rows):,} "
            f"rows make {number:,} patterns, and at most {MAX_SIGNED_PATTERNS:,} are allowed"
        )
        raise InputError("tensors", rule=rule)
    spread = np.repeat(patterns, len(rows) if number else 1, axis=0)
    spread[:, along] = np.tile(np.array(rows if number else (), dtype=np.int64), len(patterns))
    return spread


def matched_rows(
    new: CountTensor,
    fitted: CountTensor,
    along: tuple[int, ...],
    absent: Absent = "zero",
    new_labels: NewLabels = "error",
) -> CountTensor:
    """Return the new rows of mode `along` with the rows of `fitted`, in its order, in every other mode.

    Labels that only `fitted` has become rows of zeros, or missing. Those that it lacks must have no counts, or are
    dropped with a warning and a finding in the report. In two modes, rows are nodes: those of `fitted` come first, and
    cells between two of them are missing.
    """
    check_choice("absent", absent, get_args(Absent))
    check_choice("new_labels", new_labels, get_args(NewLabels))
    check_same_modes(new, fitted, "Y_new")
    if len(along) == 1 and along[0] in (ends := fitted.undirected_modes or ()):
        names = tuple(fitted.mode_names[mode] for mode in ends)
        rule = f"must be {names}, both ends of undirected ties: a new node has a row at both"
        raise InputError("mode", fitted.mode_names[along[0]], rule)
    others = [mode for mode in range(new.ndim) if mode not in along]
    for mode in others:
        new = _matched_mode(new, fitted, mode)
    if new_labels == "drop":
        new = _without_new_labels(new, fitted, along)
    labels, wanted = list(new.labels), list(new.labels)
    for mode in others:
        labels[mode], wanted[mode] = _checked_labels(mode, new, fitted), fitted.labels[mode]
    if len(along) > 1:
        new, nodes = _with_known_nodes(new, fitted, along)
        for mode in along:
            labels[mode], wanted[mode] = new.labels[mode], nodes
    new = new.with_labels(labels, fitted.mode_names)
    if labels != wanted:
        places = _places_of(new, wanted, along[0] if len(along) == 1 else _NO_MODE, 0)
        moved = CountTensor(
            _moved_coords(new, places),
            new.counts,
            [len(each) for each in wanted],
            mode_names=new.mode_names,
            labels=wanted,
            missing=_patterns_of(new, places, wanted, absent),
        )
        if new.undirected_modes is not None:
            moved = moved.undirected(new.undirected_modes, asymmetric="sum")
        new = with_parts(moved, report=new.report)
    if len(along) > 1:
        new = _ties_of_new_nodes(new, fitted, along)
    _warn_of_diagonals(new, fitted, along)
    return new


def modes_of_new_rows(tensor: CountTensor, mode: object) -> tuple[int, ...]:
    """Return the mode that has new rows, or the two modes that have new nodes, in order."""
    if isinstance(mode, str) or not isinstance(mode, Sequence):
        return (tensor.mode(mode),)  # type: ignore[arg-type]
    found = tuple(sorted({tensor.mode(each) for each in mode}))
    if not len(found) == len(mode) == 2:
        raise InputError("mode", mode, "must be a mode, or the two modes of the nodes of a network")
    first, second = (tensor.labels[each] for each in found)
    if isinstance(first, range) or first != second:
        raise InputError("mode", mode, "must have the same labels in the fit: nodes in two roles")
    return found


def _with_known_nodes(
    new: CountTensor, fitted: CountTensor, modes: tuple[int, ...]
) -> tuple[CountTensor, tuple[str, ...]]:
    """Return new ties with the nodes spelt as in `fitted`, and its nodes followed by the new ones."""
    names = " and ".join(fitted.mode_names[mode] for mode in modes)
    known = tuple(map(str, fitted.labels[modes[0]]))
    if any(isinstance(new.labels[mode], range) for mode in modes):
        raise InputError("Y_new", Described("a tensor without labels"), f"must have labels in the modes {names}")
    new = new.with_labels({new.mode_names[mode]: respelt(new.labels[mode], known) for mode in modes})
    theirs, own = set(known), dict.fromkeys(str(label) for mode in modes for label in new.labels[mode])
    added = [label for label in own if label not in theirs]
    if not added:
        given = Described(f"a tensor whose labels in {names} are all in the fit")
        raise InputError("Y_new", given, "must have a node that the fit does not have")
    return new, (*known, *added)


def _ties_of_new_nodes(new: CountTensor, fitted: CountTensor, modes: tuple[int, ...]) -> CountTensor:
    """Return the ties in which at least one node is new, without the diagonal if the fit has none."""
    number = fitted.shape[modes[0]]
    if number**2 > MAX_SIGNED_PATTERNS:
        rule = (
            f"must be fitted to at most {isqrt(MAX_SIGNED_PATTERNS):,} nodes, whose ties with one another are left out"
        )
        raise InputError("mode", Described(f"{number:,} nodes"), rule)
    patterns = np.full((number**2, new.ndim), WILDCARD, dtype=np.int64)
    patterns[:, modes] = np.indices((number, number)).reshape(2, -1).T
    new = new.with_missing(patterns)
    if not fitted.missing.has_diagonal(*modes):
        return new
    if loops := int(new.counts[new.coords[modes[0]] == new.coords[modes[1]]].sum()):
        given = Described(f"a tensor with {plural(loops, 'count')} on the diagonal")
        raise InputError("Y_new", given, "must have none there, as the fitted tensor: mask_diagonal drops them")
    return new.mask_diagonal(modes)


def _matched_mode(new: CountTensor, fitted: CountTensor, mode: int) -> CountTensor:
    """Return the new rows with CAMEO codes spelt as in `fitted`, and without empty rows that `fitted` does not have."""
    own, known, name = new.labels[mode], fitted.labels[mode], new.mode_names[mode]
    if isinstance(own, range) or isinstance(known, range):
        return new
    if own != known:
        new = new.with_labels({name: respelt(own, known)})
    # Part of a larger tensor lists rows without counts too.
    used = np.isin(np.array(new.labels[mode]), np.array(known)) | (new.mode_totals(mode) > 0)
    return new if used.all() else new.select({name: used})


def _without_new_labels(new: CountTensor, fitted: CountTensor, along: tuple[int, ...]) -> CountTensor:
    """Return the new rows without the labels, in other modes than `along`, that `fitted` does not have."""
    known, found = {}, {}
    for mode, (own, theirs) in enumerate(zip(new.labels, fitted.labels, strict=True)):
        if mode not in along and isinstance(own, tuple) and isinstance(theirs, tuple):
            known[mode] = np.isin(np.array(own), np.array(theirs))
            name = fitted.mode_names[mode]
            found[name] = [own[row] for row in np.flatnonzero(~known[mode]).tolist()]
            if not known[mode].any():
                rule = f"must have at least one label of the fitted tensor in mode {name!r}"
                raise InputError("Y_new", Described(f"a tensor with {_shown(own)} in mode {name!r}"), rule)
    labels = {name: each for name, each in found.items() if each}
    if not labels:
        return new
    rest = new.select(known)
    finding = Finding("labels-left-out", "caution", {"counts": new.total - rest.total, "labels": labels})
    warn(finding, stacklevel=4)
    if new.report is None:
        return rest
    kept = {name: rows for name, rows in new.report.new_labels.items() if name not in found}
    return with_parts(rest, report=replace(new.report, findings=(*new.report.findings, finding), new_labels=kept))


def check_same_modes(new: CountTensor, fitted: CountTensor, argument: str) -> None:
    """Raise an InputError unless two tensors have the same modes; a mode without a name matches any."""
    names = enumerate(zip(new.mode_names, fitted.mode_names, strict=False))
    same = [own == known or f"mode_{m}" in (own, known) for m, (own, known) in names]
    if new.ndim != fitted.ndim or not all(same):
        given = Described(f"a tensor with the modes {', '.join(new.mode_names)}")
        known = ", ".join(fitted.mode_names)
        raise InputError(argument, given, f"must have those of the fitted tensor, {known}, in this order")
    if new.undirected_modes != fitted.undirected_modes:
        pair = fitted.undirected_modes
        ties = "directed ties" if pair is None else f"undirected ties (undirected({pair}))"
        raise InputError(argument, Described("a tensor with other ties"), f"must have {ties}, as the fitted tensor has")


def _checked_labels(mode: int, new: CountTensor, fitted: CountTensor) -> ModeLabels:
    """Return the labels of the new tensor in a mode, or those of the fitted one if rows go by position."""
    name, own, known = fitted.mode_names[mode], new.labels[mode], fitted.labels[mode]
    if isinstance(own, range) or isinstance(known, range):
        if len(own) != len(known):
            rule = (
                f"must have {len(known)} rows in mode {name!r}, as the fitted tensor has: without labels on both "
                "sides, rows are matched by position"
            )
            raise InputError("Y_new", Described(f"a tensor with {len(own)} rows in mode {name!r}"), rule)
        return known
    rows = set(known)
    unknown = [label for label in own if label not in rows]
    if unknown:
        rule = (
            f"must have only labels of the fitted tensor in mode {name!r}: {label_hint(unknown[0], known)}; "
            "`new_labels='drop'` leaves other rows out"
        )
        raise InputError("Y_new", Described(f"a tensor with {_shown(unknown)} in mode {name!r}"), rule)
    return own


def _warn_of_diagonals(new: CountTensor, fitted: CountTensor, along: tuple[int, ...]) -> None:
    masked = missing_diagonals(new)
    for modes in missing_diagonals(fitted):
        if len({*along} & {*modes}) != 1 and modes not in masked:
            names = [fitted.mode_names[mode] for mode in modes]
            warn(Finding("diagonal-not-missing", "caution", {"modes": names, "numbers": modes}), stacklevel=4)
