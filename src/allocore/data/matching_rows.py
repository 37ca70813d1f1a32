"""A tensor of new rows of one mode, brought into the rows of another tensor in all other modes: matched by label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from allocore.data.cameo import respelt
from allocore.data.concat import listed, moved, patterns_of, places_of
from allocore.data.labels import ModeLabels
from allocore.data.missing_diagonals import missing_diagonals
from allocore.data.near_labels import described
from allocore.data.tensor import CountTensor
from allocore.errors import InputError

Absent = Literal["zero", "missing"]


def matched_rows(new: CountTensor, fitted: CountTensor, along: int, absent: Absent = "zero") -> CountTensor:
    """Return the new rows of mode `along` with the rows of `fitted`, in its order, in every other mode.

    Labels that the new tensor does not have are rows of zeros there, or missing. Labels that `fitted` does not have are
    an error if they have counts; without any, their rows are left out. Modes without labels, on either side, must have
    the same length.
    """
    if absent not in get_args(Absent):
        raise InputError(f"absent is {absent!r}, but it must be one of {', '.join(get_args(Absent))}")
    check_same_modes(new, fitted, "Y_new")
    others = [mode for mode in range(new.ndim) if mode != along]
    new = _spelt_as(fitted, new, others)
    new = _without_empty_rows(new, fitted, others)
    labels, wanted = list(new.labels), list(new.labels)
    for mode in others:
        labels[mode], wanted[mode] = _checked_labels(mode, new, fitted), fitted.labels[mode]
    new = new.with_labels(labels, fitted.mode_names)
    if labels != wanted:
        new = _moved_to(new, wanted, along, absent)
    _warn_of_diagonals(new, fitted, along)
    return new


def _spelt_as(fitted: CountTensor, new: CountTensor, modes: Sequence[int]) -> CountTensor:
    """Return the new rows with the labels of CAMEO codes as in `fitted`: with their words or without."""
    spelt = {}
    for mode in modes:
        own, known = new.labels[mode], fitted.labels[mode]
        if isinstance(own, tuple) and isinstance(known, tuple) and own != known:
            spelt[new.mode_names[mode]] = respelt(own, known)
    return new.with_labels(spelt) if spelt else new


def _without_empty_rows(new: CountTensor, fitted: CountTensor, modes: Sequence[int]) -> CountTensor:
    """Leave out rows without counts whose labels `fitted` does not have: part of a larger tensor lists them too."""
    for mode in modes:
        own, known = new.labels[mode], fitted.labels[mode]
        if not isinstance(own, range) and not isinstance(known, range):
            kept = np.isin(np.array(own), np.array(known)) | (new.mode_totals(mode) > 0)
            if not kept.all():
                new = new.select({new.mode_names[mode]: kept})
    return new


def check_same_modes(new: CountTensor, fitted: CountTensor, argument: str) -> None:
    """Raise an error unless two tensors have the same modes; a mode without a name agrees with any."""
    names = enumerate(zip(new.mode_names, fitted.mode_names, strict=False))
    same = [own == known or f"mode_{m}" in (own, known) for m, (own, known) in names]
    if new.ndim != fitted.ndim or not all(same):
        raise InputError(
            f"{argument} has the modes {', '.join(new.mode_names)}, but it must have those of the fitted tensor, "
            f"{', '.join(fitted.mode_names)}, in this order"
        )


def _checked_labels(mode: int, new: CountTensor, fitted: CountTensor) -> ModeLabels:
    """Return the labels of the new tensor in a mode, or those of the fitted one if rows go by position."""
    name, own, known = fitted.mode_names[mode], new.labels[mode], fitted.labels[mode]
    if isinstance(own, range) or isinstance(known, range):
        if len(own) != len(known):
            raise InputError(
                f"Y_new has {len(own)} rows in mode {name!r}, but the fitted tensor has {len(known)}: without labels "
                "on both sides, rows can only be matched if their numbers are equal"
            )
        return known
    rows = set(known)
    unknown = [label for label in own if label not in rows]
    if unknown:
        raise InputError(
            f"Y_new has {listed(unknown)} in mode {name!r}, which the fitted tensor does not have: "
            f"{described(unknown[0], known)}; ac.read_events(..., like=post.tensor, new_labels='drop') reads events "
            "into the rows of the fit, and Y_new.select leaves rows out"
        )
    return own


def _moved_to(new: CountTensor, labels: Sequence[ModeLabels], along: int, absent: Absent) -> CountTensor:
    places = places_of(new, labels, along, 0)
    moved_to = CountTensor(
        np.stack([moved(row, place) for row, place in zip(new.coords, places, strict=True)]),
        new.counts,
        [len(each) for each in labels],
        mode_names=new.mode_names,
        labels=labels,
        missing=patterns_of(new, places, labels, absent),
    )
    return moved_to._replaced(report=new.report)


def _warn_of_diagonals(new: CountTensor, fitted: CountTensor, along: int) -> None:
    there = missing_diagonals(new)
    for modes in missing_diagonals(fitted):
        if along not in modes and modes not in there:
            names = " and ".join(fitted.mode_names[mode] for mode in modes)
            warnings.warn(
                f"the diagonal of {names} is missing in the fitted tensor, but not in Y_new, where its zeros count as "
                f"observed: Y_new.mask_diagonal({modes}) makes them missing",
                stacklevel=4,
            )
