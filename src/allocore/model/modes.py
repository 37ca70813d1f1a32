"""The settings of single modes of a model, `Mode`, and their checks against the labels of a tensor."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from allocore._text import first_few
from allocore.errors import NO_VALUE, Described, InputError, whole_number
from allocore.findings import Finding, warn
from allocore.model.known import LEAST_SHARE, SEED_WEIGHT, KnownFactors
from allocore.model.spec import check_weights, concentrations_for, positive
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import LabelRows, ModeLabels, did_you_mean, matching_rows

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 5  # labels in an error


@dataclass(frozen=True, eq=False)
class Mode:
    """The settings of one mode of a model: `modes={"month": ac.Mode(exposure=days)}`.

    Parameters
    ----------
    factors : int, default=None
        The number of factors of the mode, K_m. None takes it from `core_shape`, or else the budget.
    e0 : float, default=None
        The shape of the gamma prior of its factors. None takes the `e0` of the model.
    exposure : sequence, mapping, Series or data frame, default=None
        Known weights of its labels, all positive, such as the days that were observed of each month, or a population.
        The rate of a cell is the product of its weights and the rate of the model, so factors are compared per unit. A
        sequence is in the order of the labels; a mapping or a Series is by label, as is a data frame with a column of
        labels and one of weights. Weights near 1 leave the priors as they are. None means those of the tensor
        (`Y.exposures`), or else 1 for all.
    seeds : mapping from names to labels, default=None
        Factors that are expected to have certain labels, such as `{"violence": ["18", "19", "20"]}`. They keep these
        names, may learn other labels too, and stay unused if the data do not want them. In CP, class q has the q-th.
    seed_weight : float, default=10.0
        How much larger the shape of the prior is for the labels of a seed: it is (1 + seed_weight) e0 there.
    frozen : Posterior, Consensus, DataFrame, default=None
        Factors that stay as they are given: those of the same mode in the consensus of another fit, or a table of
        labels by factors, whose columns name them. All labels need a positive value. Only the proportions within a
        factor matter: each is scaled to the sum that the prior expects, D_m e0 / f0 (per unit of exposure).
    free : int, default=None
        The number of factors that are learned beside the frozen ones and the seeds, in place of `factors`.

    Examples
    --------
    >>> import allocore as ac
    >>> Y = ac.load_flights()
    >>> days = {"Feb": 28, **dict.fromkeys(["Apr", "Jun", "Sep", "Nov"], 30)}
    >>> month = ac.Mode(exposure={label: days.get(label, 31) / 30 for label in Y.labels[3]})
    >>> month
    Mode(exposure=12 weights)
    >>> model = ac.AlloCore(4, burn_in=5, draws=2, thin=1, chains=1, seed=1, modes={"month": month})
    >>> model.fit(Y).posterior_.exposure("month").round(2)[:3]
    array([1.03, 0.93, 1.03])
    >>> ac.Mode(factors=4, seeds={"summer": ["Jun", "Jul", "Aug"]})
    Mode(factors=4, seeds={'summer': ['Jun', 'Jul', 'Aug']})
    """

    factors: int | None = None
    e0: float | None = None
    exposure: Any = None
    seeds: Mapping[str, Any] | None = None
    seed_weight: float = SEED_WEIGHT
    frozen: Any = None
    free: int | None = None

    def __repr__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.seed_weight == SEED_WEIGHT:
            given["seed_weight"] = None
        if self.frozen is not None:
            text = f"{self.frozen.shape[1]} factors" if hasattr(self.frozen, "columns") else repr(self.frozen)
            given["frozen"] = Described(text)
        if self.exposure is not None and hasattr(self.exposure, "__len__"):
            given["exposure"] = Described(f"{len(self.exposure)} weights")
        return f"Mode({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"


def modes_given(modes: object, tensor: CountTensor) -> dict[int, Mode]:
    """Check the setting `modes`, a mapping from modes to `Mode`, and return it by the number of the mode."""
    if modes is None:
        return {}
    if not isinstance(modes, Mapping):
        raise InputError("modes", modes, "must be a dict from the names of modes to ac.Mode(...)")
    found: dict[int, Mode] = {}
    for name, mode in modes.items():
        if not isinstance(mode, Mode):
            raise InputError("modes", mode, f"must be ac.Mode(...) for mode {name!r}")
        try:
            number = tensor.mode(name)
        except InputError:
            near = did_you_mean(str(name), tensor.mode_names)
            rule = f"must be for modes of the tensor, {', '.join(tensor.mode_names)}{near}"
            raise InputError("modes", name, rule) from None
        if number in found:
            raise InputError("modes", name, "must name each mode once")
        found[number] = mode
    return found


@dataclass(frozen=True, eq=False)
class FrozenTable:
    """Factors of a mode that are given: their names, the labels of the rows, and the values, (D, F)."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    values_DF: NDArray[np.float64]


def known_given(
    given: Mapping[int, Mode], frozen: Mapping[int, FrozenTable], tensor: CountTensor, tied: tuple[int, int] | None
) -> tuple[KnownFactors, ...]:
    """Check seeds and frozen factors against the labels of a tensor, and return them as `Spec.known` has them."""
    found = [
        _known(given.get(mode, Mode()), frozen.get(mode), tensor.labels[mode], tensor.mode_names[mode])
        for mode in range(tensor.ndim)
    ]
    if tied is not None:  # what is known in one role is known in the other
        first, second = tied
        found[first], found[second] = found[first] or found[second], found[second] or found[first]
    return tuple(found) if any(found) else ()


def _known(mode: Mode, frozen: FrozenTable | None, labels: ModeLabels, name: str) -> KnownFactors:
    seeds = {} if mode.seeds is None else _seeds(mode.seeds, labels, name)
    given = () if frozen is None else frozen.names
    _check_names("frozen", given)
    _check_names("seeds", tuple(seeds), given)
    weight = positive("seed_weight", mode.seed_weight)
    if weight != SEED_WEIGHT and not seeds:
        raise InputError("seed_weight", mode.seed_weight, f"needs `seeds`, and mode {name!r} has none")
    columns = () if frozen is None else _columns(frozen, labels, name)
    return KnownFactors(columns, tuple(seeds.values()), weight, (*given, *seeds))


def _check_names(argument: str, names: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
    """Check that factors have names, all different."""
    for name, number in Counter((*others, *names)).items():
        if not name.strip():
            raise InputError(argument, name, "must be a name that is not empty")
        if number > 1:
            raise InputError(argument, name, "must not be the name of two factors")


def _seeds(seeds: Any, labels: ModeLabels, name: str) -> dict[str, tuple[int, ...]]:
    """The rows of each seed by its name."""
    if not isinstance(seeds, Mapping):
        raise InputError("seeds", seeds, "must be a dict from names to lists of labels")
    rows, found = LabelRows(tuple(map(str, labels)), "seeds", name), dict[str, tuple[int, ...]]()
    for seed, wanted in seeds.items():
        found[str(seed)] = tuple(np.asarray(rows.rows(wanted)).tolist())
        if not found[str(seed)]:
            raise InputError("seeds", Described(f"{seed!r} without labels"), "must have at least one label")
    counts = Counter(row for each in found.values() for row in each)
    shared = [str(labels[row]) for row, number in counts.items() if number > 1]
    if shared:
        warn(Finding("labels-in-several-seeds", "note", {"mode": name, "labels": shared}), stacklevel=6)
    return found


def _columns(frozen: FrozenTable, labels: ModeLabels, name: str) -> tuple[tuple[float, ...], ...]:
    """The shares of the labels in each frozen factor."""
    (place_D,) = matching_rows([tuple(map(str, labels))], [frozen.labels])
    values_DF = np.full((len(labels), len(frozen.names)), np.nan)
    values_DF[place_D >= 0] = frozen.values_DF[place_D[place_D >= 0]]
    absent = [str(labels[row]) for row in np.flatnonzero(np.isnan(values_DF).any(axis=1))]
    if absent:
        raise _incomplete("frozen", "value", absent, name)
    wrong = ~((values_DF > 0) & (values_DF < np.inf))
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        value = Described(f"{values_DF[row, column]:g} for {str(labels[row])!r} in factor {frozen.names[column]!r}")
        raise InputError("frozen", value, "must be positive and finite: use a small value in place of zero")
    share_DF = np.maximum(values_DF / values_DF.sum(axis=0), LEAST_SHARE)
    return tuple(tuple(column) for column in (share_DF / share_DF.sum(axis=0)).T.tolist())


def check_known(known: Sequence[KnownFactors], core_shape: Sequence[int], mode_names: Sequence[str]) -> None:
    """Check that known factors are among those of each mode, and that some factor is left to learn."""
    for each, columns, name in zip(known, core_shape, mode_names, strict=False):
        each.check(columns, f"mode {name!r}")
    if known and all(len(each.frozen) == columns for each, columns in zip(known, core_shape, strict=True)):
        rule = "must leave something to learn: all factors of all modes are frozen; `free` adds factors to a mode"
        raise InputError("frozen", NO_VALUE, rule)


def with_free_factors(
    given: Mapping[int, Mode], known: Sequence[KnownFactors], tied: tuple[int, int] | None
) -> dict[int, Mode]:
    """The settings of modes with the number of factors that follows from `free`."""
    found = dict(given)
    for mode, each in given.items():
        if each.free is None:
            continue
        if each.factors is not None:
            raise InputError("free", each.free, "must be left out if `factors` is given, which counts all factors")
        number = whole_number("free", each.free, least=0) + (len(known[mode]) if known else 0)
        found[mode] = replace(each, factors=whole_number("free", number), free=None)
        for other in tied if tied is not None and mode in tied else ():
            if other not in given:
                found[other] = Mode(factors=number)
    return found


def modes_of(
    exposures: Sequence[Sequence[float]], known_factors: Sequence[KnownFactors], tensor: CountTensor
) -> dict[str, Mode]:
    """The settings of single modes from which exposures, seeds and frozen factors came; frozen ones as a table."""
    found = {}
    for mode, name in enumerate(tensor.mode_names):
        weights = tuple(exposures[mode]) if exposures else ()
        known = known_factors[mode] if known_factors else KnownFactors()
        seeds, frozen = None, None
        if known.seeds:
            pairs = zip(known.names[len(known.frozen) :], known.seeds, strict=True)
            seeds = {seed: [str(tensor.labels[mode][row]) for row in rows] for seed, rows in pairs}
        if known.frozen:
            import pandas as pd

            columns = dict(zip(known.names, known.frozen, strict=False))
            frozen = pd.DataFrame(columns, index=list(map(str, tensor.labels[mode])))
        if weights or known:
            found[name] = Mode(exposure=weights or None, seeds=seeds, seed_weight=known.seed_weight, frozen=frozen)
    return found


def tied_given(tied: object, tensor: CountTensor) -> tuple[int, int] | None:
    """Check the setting `tied`, two modes with the same labels and a missing diagonal, and return their numbers."""
    if tied is None:
        return None
    if isinstance(tied, str) or not isinstance(tied, Sequence) or len(tied) != 2:
        raise InputError("tied", tied, "must be two modes, such as ('sender', 'receiver')")
    try:
        first, second = sorted(tensor.mode(mode) for mode in tied)
    except InputError:
        raise InputError("tied", tied, f"must be modes of the tensor, {', '.join(tensor.mode_names)}") from None
    if first == second:
        raise InputError("tied", tied, "must be two different modes")
    names = f"({tensor.mode_names[first]!r}, {tensor.mode_names[second]!r})"
    if tensor.labels[first] != tensor.labels[second]:
        rule = (
            f"must have the same labels in the same order: read_events(..., shared_modes={names}) gives them the same"
        )
        raise InputError("tied", tied, rule)
    if not tensor.missing.has_diagonal(first, second):
        rule = f"must have a diagonal that is missing, because a label does not act on itself: Y.mask_diagonal({names})"
        raise InputError("tied", tied, rule)
    return first, second


def exposures_of(given: Mapping[int, Mode], tensor: CountTensor) -> tuple[tuple[float, ...], ...]:
    """The weights of the rows of each mode, as `Spec.exposures` has them."""
    weights = [exposure_of(given.get(mode, Mode()).exposure, tensor, mode) for mode in range(tensor.ndim)]
    return tuple(() if weights_D is None else tuple(weights_D.tolist()) for weights_D in weights)


def exposure_of(exposure: Any, tensor: CountTensor, mode: int) -> NDArray[np.float64] | None:
    """Check the weights that are given for the labels of a mode; without any, those that the tensor has."""
    name = tensor.mode_names[mode]
    given = tensor.exposures.get(name) if exposure is None else exposure
    return None if given is None else checked_exposure(given, tensor.labels[mode], name)


def checked_exposure(exposure: Any, labels: ModeLabels, name: str) -> NDArray[np.float64]:
    """Return the weights of labels, (D)."""
    if hasattr(exposure, "columns"):  # a data frame
        exposure = _series_of(exposure)
    if isinstance(exposure, Mapping) or (hasattr(exposure, "index") and hasattr(exposure, "items")):  # a pandas Series
        exposure = _in_order(exposure, labels, name)
    try:
        weights_D = np.asarray(exposure, dtype=np.float64)
    except (TypeError, ValueError):
        rule = f"must be numbers, one for each label of mode {name!r}, or a mapping from labels to numbers"
        raise InputError("exposure", exposure, rule) from None
    if weights_D.shape != (len(labels),):
        given = Described(f"{len(weights_D)} weights" if weights_D.ndim == 1 else f"of shape {weights_D.shape}")
        raise InputError(
            "exposure", given, f"must have one weight for each of the {len(labels)} labels of mode {name!r}"
        )
    check_weights(weights_D, labels)
    return weights_D


def _series_of(frame: Any) -> "pd.Series[Any]":
    """The weights of a data frame with a column of labels and one of weights."""
    import pandas as pd

    if len(frame.columns) != 2:
        columns = Described(f"a frame with the columns {', '.join(map(str, frame.columns))}")
        raise InputError("exposure", columns, "must have two columns, labels and weights")
    labels, weights = (list(frame[name]) for name in frame.columns)
    return pd.Series(weights, index=pd.Index(labels, dtype=object), dtype=object)


def _in_order(exposure: Any, labels: ModeLabels, name: str) -> list[Any]:
    """The weights of a mapping, in the order of the labels."""
    texts = tuple(map(str, labels))
    rows, weights = LabelRows(texts, "exposure", name), dict[int, Any]()
    for label, weight in exposure.items():
        found = rows.rows(label)
        if len(found) != 1 or found[0] in weights:
            rule = f"must name each label of mode {name!r} once"
            raise InputError("exposure", label, rule)
        weights[int(found[0])] = weight
    absent = [text for place, text in enumerate(texts) if place not in weights]
    if absent:
        raise _incomplete("exposure", "weight", absent, name)
    return [weights[place] for place in range(len(texts))]


def _incomplete(argument: str, what: str, absent: Sequence[str], name: str) -> InputError:
    """The error that some labels of a mode have no weight or no value."""
    none = "has none" if len(absent) == 1 else "have none"
    rule = f"must have a {what} for every label of mode {name!r}: {first_few(absent, _SHOWN)} {none}"
    return InputError(argument, NO_VALUE, rule)


def core_shape_given(given: Mapping[int, Mode], names: Sequence[str], core_shape: object, other: int) -> object:
    """The core shape with the factors of single modes, by name; `other` is the number of the modes that name none."""
    factors = {mode: each.factors for mode, each in given.items() if each.factors is not None}
    if not factors or (core_shape is not None and not isinstance(core_shape, Sequence | np.ndarray)):
        return core_shape
    if core_shape is not None:
        for mode, number in factors.items():
            if mode >= len(core_shape) or core_shape[mode] != number:
                rule = f"must have {number} for {names[mode]!r}, the number of factors that is given for this mode"
                raise InputError("core_shape", tuple(core_shape), rule)
        return core_shape
    return tuple(factors.get(mode, other) for mode in range(len(names)))


def concentrations_given(given: Mapping[int, Mode], names: Sequence[str], e0: object) -> object:
    """e0 with that of single modes: a number holds for the modes that give none."""
    own = {mode: each.e0 for mode, each in given.items() if each.e0 is not None}
    if not own:
        return e0
    common = concentrations_for(len(names), e0)
    if not isinstance(common, float):
        for mode, value in own.items():
            if common == "infer" or common[mode] != value:
                rule = f"must agree with the concentration that is given for {names[mode]!r}, {value!r}"
                raise InputError("e0", common, rule)
        return common
    return tuple(own.get(mode, common) for mode in range(len(names)))
