"""Chains that begin at the states of a finished run, for a refit after new data: rows are matched by their labels.

Chain c begins at the last draw of chain c of the run; if the run has fewer chains, they are taken in turn. Rows that
the run does not have begin at the mean of its rows, and rows that are gone are dropped. A chain that begins anywhere
has the same posterior in the end; this one begins near it.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from allocore.data.cameo import respelt
from allocore.data.labels import ModeLabels
from allocore.data.matching_rows import check_same_modes
from allocore.data.tensor import CountTensor
from allocore.errors import InputError
from allocore.model.spec import Spec
from allocore.model.state import Dispersion, State
from allocore.run.record import Record


def number_of_states(states: list[State]) -> int:
    """A number of 32 bits, above zero, that tells these states from others."""
    digest = hashlib.sha256()
    for state in states:
        for array in (state.log_core_Q, state.subs_QM, *state.log_phi):
            digest.update(np.ascontiguousarray(array).tobytes())
    return int.from_bytes(digest.digest()[:4], "little") or 1


def start_states(record: Record, tensor: CountTensor, spec: Spec, chains: int) -> list[State]:
    """The first states of the chains of a new run, of a model `spec` of `tensor`."""
    check_same_modes(tensor, record.tensor, "Y")
    _check_model(record.spec, spec)
    pairs = zip(tensor.labels, record.tensor.labels, strict=True)
    places = [_places(wanted, known) for wanted, known in pairs]
    if not any((place_D >= 0).any() for place_D in places):
        raise InputError("start has no label in common with Y in any mode: it must be a fit of the same kind of data")
    given = len(record.core_values)
    return [_matched(record, record.state_of(chain % given, -1), spec, places) for chain in range(chains)]


def _check_model(fitted: Spec, spec: Spec) -> None:
    theirs, ours = _settings(fitted), _settings(spec)
    for name, value in ours.items():
        if theirs.get(name) != value:
            known = theirs.get(name)
            raise InputError(
                f"start was fitted with {name} {known!r}, but this model has {name} {value!r}: they must agree"
            )


def _settings(spec: Spec) -> dict[str, object]:
    """The settings that two models must have in common, by the names that users know."""
    size = "rank" if spec.model == "CP" else "budget"
    return {
        "model": spec.model,
        "likelihood": spec.likelihood,
        "dispersion_by": spec.dispersion_by,
        size: "infer" if spec.infer_budget else spec.budget,
        "core_shape": spec.core_shape,
        "max_budget": spec.budget,
    }


def _places(wanted: ModeLabels, known: ModeLabels) -> NDArray[np.int64]:
    """Where each row is in the run, or -1. Without labels on both sides, rows go by position."""
    if isinstance(wanted, range) or isinstance(known, range):
        numbers = np.arange(len(wanted))
        return np.where(numbers < len(known), numbers, -1)
    place = {label: number for number, label in enumerate(known)}
    return np.array([place.get(label, -1) for label in respelt(wanted, place)])


def _matched(record: Record, state: State, spec: Spec, places: list[NDArray[np.int64]]) -> State:
    log_phi = tuple(
        np.where((place_D >= 0)[:, None], state.log_phi[mode][place_D], state.log_mean_row(mode))
        for mode, place_D in enumerate(places)
    )
    concentrations_M, dispersion = np.empty(0), state.dispersion
    if spec.infer_concentrations:
        learned_M = state.concentrations_M
        concentrations_M = np.array([record.spec.concentration(mode, learned_M) for mode in range(len(places))])
    if dispersion is not None and dispersion.mode is not None:
        place_D, log_odds_D = places[dispersion.mode], dispersion.log_odds_D
        log_odds_D = np.where(place_D >= 0, log_odds_D[place_D], log_odds_D.mean())
        dispersion = Dispersion(log_odds_D, dispersion.mode)
    return State(state.log_core_Q, state.subs_QM.copy(), log_phi, concentrations_M, dispersion)
