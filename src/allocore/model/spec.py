"""The specification of a model: its kind, its size, its priors, and the exposures of rows.

An exposure is a known weight w[m][d] > 0 of row d of mode m, such as the days that were observed of a month, or a
population. The rate of a cell is the product of its weights and the rate of the model:

    r_d  =  prod_m w[m][d_m]  *  sum_q lambda_q prod_m phi[m][d_m, k[q, m]],        phi[m][d, k] ~ Gamma(e0, rate f0)

Everything here works with the factors times the weights, psi[m][d, k] = w[m][d] phi[m][d, k]. With these,

    r_d  =  sum_q lambda_q prod_m psi[m][d_m, k[q, m]],        psi[m][d, k] ~ Gamma(e0, rate f0 / w[m][d]),

because a gamma variate times w has its rate divided by w. So a weight is nothing but another rate of the prior in its
row. Whatever works with the rates of cells (latent counts, thinning, sums over observed cells, predictions) needs to
know nothing of weights, and whatever has the prior of factors in it takes the rate from `Spec.factor_rates`: the draws
of factors, relocation and split-merge, which integrate factors out, learned concentrations, and the joint density. In
the other modules, "factor" and phi mean psi. Without a weight, they are the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from allocore.errors import NO_VALUE, Described, InputError, whole_number
from allocore.model.known import KnownFactors

if TYPE_CHECKING:
    from allocore.model.likelihood import Likelihood
    from allocore.model.state import Dispersion


Model = Literal["AlloCore", "CP", "Tucker", "NNTuck"]
LikelihoodName = Literal["poisson", "negative-binomial", "bernoulli"]
LikelihoodChoice = LikelihoodName | Literal["auto", "nb"]

# Gamma(1, rate 0) is flat: the posterior mode is then the maximum-likelihood estimate.
_FLAT: dict[str, Any] = {"alpha0": 0.0, "a0": 1.0, "b0": 0.0, "e0": 1.0, "f0": 0.0}
_PRIORS = ("a0", "b0", "f0", "alpha0", "c0", "d0", "g0", "h0", "s0", "t0")
# Beyond these limits, products of rates over the modes leave the range of 64-bit floats.
_LEAST, _MOST = 1e-30, 1e30
_MOST_CLASSES = 2**31 - 1


@dataclass(frozen=True)
class Spec:
    """All models in one: `budget` classes (Q), each at a location of a core of shape `core_shape`.

    AlloCore starts the classes on the super-diagonal (k[q, m] = q mod K_m) and learns their locations. CP leaves them
    there. Tucker has one class fixed at every location. NNTuck is Tucker without priors. With `infer_budget`, each
    class is included with a probability that has the prior Beta(c0, d0). `e0` is one number, one per mode, or "infer":
    then each mode has its own, with the prior Gamma(s0, rate t0). The negative binomial has a dispersion p with the
    prior Beta(g0, h0), which scales the prior of the core values, or one for each row of the mode `dispersion_by`.
    `exposures` has the weights of the rows of each mode, or nothing for a mode without. Two modes that are `tied` are
    two roles of the same labels: they share their factors and the prior of their locations (gibbs/tied.py). `known`
    has the seeded and frozen factors of each mode (model/known.py), or nothing.
    """

    budget: int
    core_shape: tuple[int, ...]
    a0: float = 1.0
    b0: float = 1.0
    e0: float | tuple[float, ...] | Literal["infer"] = 1.0
    f0: float = 10.0
    alpha0: float = 0.1
    model: Model = "AlloCore"
    infer_budget: bool = False
    c0: float = 1.0
    d0: float = 1.0
    likelihood: LikelihoodName = "poisson"
    dispersion_by: int | None = None
    g0: float = 1.0
    h0: float = 1.0
    s0: float = 1.0
    t0: float = 1.0
    exposures: tuple[tuple[float, ...], ...] = ()
    tied: tuple[int, int] | None = None
    known: tuple[KnownFactors, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "budget", whole_number("budget", self.budget))
        shape = tuple(whole_number("core_shape", size, self.core_shape) for size in self.core_shape)
        object.__setattr__(self, "core_shape", shape)
        if self.budget > _MOST_CLASSES and not self.dense_core:
            raise InputError("budget", self.budget, "must be below 2^31")
        if max(shape) > _MOST_CLASSES and not self.dense_core:
            raise InputError("core_shape", shape, "must have numbers below 2^31")
        for name in _PRIORS if self.has_priors else ():
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "e0", concentrations_for(len(shape), self.e0) if self.has_priors else self.e0)
        check_likelihood(self.likelihood, self.dispersion_by)
        if self.dispersion_by is not None and not 0 <= self.dispersion_by < len(shape):
            raise InputError(
                "dispersion_by", self.dispersion_by, f"must be the number of a mode, from 0 to {len(shape) - 1}"
            )
        if self.dense_core and self.budget != math.prod(shape):
            rule = f"must be {math.prod(shape)}, one class for every location of `core_shape`, which is {shape}"
            raise InputError("budget", self.budget, rule)
        object.__setattr__(self, "exposures", _exposures_for(len(shape), self.exposures))
        object.__setattr__(self, "known", tuple(self.known) if any(self.known) else ())
        for mode, known in enumerate(self.known):
            known.check(shape[mode], f"mode {mode}")
        if self.tied is not None:
            object.__setattr__(self, "tied", self._checked_pair(tuple(self.tied)))

    @classmethod
    def without_priors(cls, core_shape: tuple[int, ...]) -> "Spec":
        """NNTuck: a class at every location of the core, and flat priors."""
        return cls(math.prod(core_shape), core_shape, **_FLAT, model="NNTuck")

    def _checked_pair(self, tied: tuple[int, ...]) -> tuple[int, int]:
        """Check that two modes are tied, and that whatever belongs to their common factors is the same in both."""
        if len(set(tied)) != 2 or not all(0 <= mode < len(self.core_shape) for mode in tied):
            raise InputError("tied", tied, "must be two different modes")
        first, second = sorted(tied)
        same = {"core_shape": self.core_shape[first] == self.core_shape[second]}
        same["e0"] = not isinstance(self.e0, tuple) or self.e0[first] == self.e0[second]
        same["exposure"] = not self.exposures or self.exposures[first] == self.exposures[second]
        one, other = self.known_in(first), self.known_in(second)
        same["frozen"] = one.frozen == other.frozen
        same["seeds"] = one == other
        for name, agrees in same.items():
            if not agrees:
                raise InputError(name, NO_VALUE, "must be the same in both tied modes, which share their factors")
        return first, second

    @property
    def observation(self) -> "Likelihood":
        """The likelihood."""
        from allocore.model.likelihood import LIKELIHOODS

        return LIKELIHOODS[self.likelihood]

    @property
    def infer_concentrations(self) -> bool:
        """Whether the concentrations e0 are learned."""
        return self.e0 == "infer"

    def concentration(self, mode: int, learned_M: NDArray[np.float64]) -> float:
        """e0 of one mode: the learned one, or the one that is given."""
        if self.infer_concentrations:
            return float(learned_M[mode])
        return self.e0[mode] if isinstance(self.e0, tuple) else float(self.e0)

    @cached_property
    def _weights(self) -> tuple[NDArray[np.float64] | None, ...]:
        return tuple(np.array(weights) if weights else None for weights in self.exposures)

    def exposure(self, mode: int) -> NDArray[np.float64] | None:
        """The known weights of the rows of one mode, (D), if it has any."""
        return self._weights[mode] if self.exposures else None

    def with_exposure(self, mode: int, weights_D: NDArray[np.float64] | None) -> "Spec":
        """The specification with other weights in one mode, which is then no longer tied to another."""
        exposures = list(self.exposures or ((),) * len(self.core_shape))
        exposures[mode] = () if weights_D is None else tuple(weights_D.tolist())
        tied = self.tied if len(self.sharing(mode)) == 1 else None
        return replace(self, exposures=tuple(exposures), tied=tied)

    def known_in(self, mode: int) -> KnownFactors:
        """The seeded and frozen factors of one mode, if any."""
        return self.known[mode] if self.known else KnownFactors()

    def of_new_rows(self, modes: tuple[int, ...], weights: Sequence[NDArray[np.float64] | None]) -> "Spec":
        """The specification for other rows of some modes, of which nothing is known but their weights."""
        spec = replace(self, known=tuple(KnownFactors() if m in modes else each for m, each in enumerate(self.known)))
        for mode, weights_D in zip(modes, weights, strict=True):
            spec = spec.with_exposure(mode, weights_D)
        return replace(spec, tied=self.tied) if modes == self.tied else spec

    def log_frozen(self, mode: int) -> NDArray[np.float64]:
        """The logarithms of the frozen factors of one mode, (D, columns), with the column sums that the prior expects.

        These are D e0 / f0 per unit of the weights; a concentration that is learned counts with its prior mean.
        """
        from allocore.kernels.elementary import log_of
        from allocore.model.state import times_weights

        share_DF = np.array(self.known_in(mode).frozen).T
        e0 = self.s0 / self.t0 if self.infer_concentrations else self.concentration(mode, np.empty(0))
        log_phi_DF = log_of(share_DF / share_DF.sum(axis=0)) + math.log(len(share_DF) * e0 / self.f0)
        return times_weights(log_phi_DF, self.exposure(mode))

    def factor_rates(self, mode: int, rows: int) -> NDArray[np.float64]:
        """The rate of the prior of the factors in each row of one mode, f0 / w, (D)."""
        weights_D = self.exposure(mode)
        return np.full(rows, self.f0) if weights_D is None else np.asarray(self.f0 / weights_D)

    def mean_factor_rate(self, mode: int) -> float:
        """The geometric mean of these rates."""
        from allocore.kernels.elementary import exp_of, log_of

        weights_D = self.exposure(mode)
        return self.f0 if weights_D is None else float(self.f0 * exp_of(-log_of(weights_D).mean()))

    def core_rate(self, dispersion: "Dispersion | None") -> float:
        """The rate of the prior of the core values: b0 or, for the negative binomial with one p, b0 p / (1 - p).

        The expected count of a cell is then lambda_q p / (1 - p) times factors, with the prior that it has under
        Poisson. If p differs by row it stays b0: with a mean of the odds, rows without data would depend on the others.
        """
        return self.b0 if dispersion is None or dispersion.mode is not None else self.b0 * dispersion.odds()

    @property
    def learn_locations(self) -> bool:
        """Whether the locations of the classes are learned."""
        return self.model == "AlloCore"

    @property
    def dense_core(self) -> bool:
        """Whether there is a class at every location of the core."""
        return self.model in ("Tucker", "NNTuck")

    @property
    def has_priors(self) -> bool:
        """Whether the model has priors, and therefore a posterior to sample."""
        return self.model != "NNTuck"

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The modes, in order, with tied modes in one group: the modes of a group share their factors."""
        tied = self.tied or ()
        modes = (mode for mode in range(len(self.core_shape)) if mode not in tied[1:])
        return tuple(tied if mode in tied else (mode,) for mode in modes)

    def sharing(self, mode: int) -> tuple[int, ...]:
        """The modes that share the factors of a mode: itself, or the two tied ones."""
        return self.tied if self.tied is not None and mode in self.tied else (mode,)

    def start_locations(self) -> NDArray[np.int64]:
        """The first locations of the classes, as `subs_QM`: of tied modes whose locations are learned, neighbours."""
        if self.dense_core:
            return np.ascontiguousarray(np.indices(self.core_shape).reshape(len(self.core_shape), -1).T)
        places_QM = np.repeat(np.arange(self.budget)[:, None], len(self.core_shape), axis=1)
        if self.tied is not None and self.learn_locations:  # classes within a community predict ties between two badly
            places_QM[:, self.tied[1]] += 1
        return np.asarray(places_QM % np.array(self.core_shape))


def _exposures_for(modes: int, exposures: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    """Check the weights of all modes; empty if no mode has any."""
    if not any(exposures):
        return ()
    if len(exposures) != modes:
        raise InputError("exposure", NO_VALUE, f"must be given for each of {modes} modes, not for {len(exposures)}")
    for weights in exposures:
        check_weights(np.array(weights), weights)
    return tuple(tuple(map(float, weights)) for weights in exposures)


def check_weights(weights_D: NDArray[np.float64], labels: Sequence[object]) -> None:
    """Check that the weights of some rows are positive and within the range of floats; an error names the label."""
    wrong = ~((weights_D >= _LEAST) & (weights_D <= _MOST))
    if wrong.any():
        first = int(wrong.argmax())
        found = Described(f"{weights_D[first]:g} for {str(labels[first])!r}")
        raise InputError("exposure", found, f"must be positive and finite ({_LEAST} to {_MOST})")


def core_shape_for(shape: tuple[int, ...], budget: int, core_shape: object) -> tuple[int, ...]:
    """Check a user's core shape against a tensor's shape; None means the canonical shape, K_m = Q in every mode."""
    if core_shape is None:
        return (whole_number("budget", budget),) * len(shape)
    if isinstance(core_shape, str) or not hasattr(core_shape, "__iter__"):
        raise InputError("core_shape", core_shape, "must be a sequence with one whole number per mode")
    sizes = tuple(core_shape)
    if len(sizes) != len(shape):
        raise InputError("core_shape", sizes, f"must have one entry per mode, and the tensor has {len(shape)} modes")
    return tuple(whole_number("core_shape", size, sizes) for size in sizes)


def check_likelihood(likelihood: object, dispersion_by: object = None) -> None:
    """Check the name of a likelihood or "auto", and that it has a dispersion if one by row is asked for."""
    if likelihood not in (known := ("auto", *get_args(LikelihoodName))):
        raise InputError("likelihood", likelihood, f"must be one of {', '.join(known)}, or nb for negative-binomial")
    if dispersion_by is not None and likelihood not in ("auto", "negative-binomial"):
        rule = f"needs `likelihood` 'negative-binomial': {likelihood!r} has no dispersion"
        raise InputError("dispersion_by", dispersion_by, rule)


def whole_name(likelihood: Any) -> Any:
    """Return the name of a likelihood that may be short: "nb" is "negative-binomial"."""
    return "negative-binomial" if likelihood == "nb" else likelihood


def likelihood_for(likelihood: "LikelihoodChoice", largest: int, dispersion_by: object = None) -> LikelihoodName:
    """Return a likelihood by its whole name; for "auto", that which suits a tensor with this largest count."""
    whole: LikelihoodName | Literal["auto"] = whole_name(likelihood)
    check_likelihood(whole, dispersion_by)
    if whole != "auto":
        return whole
    return "bernoulli" if largest <= 1 and dispersion_by is None else "negative-binomial"


def check_counts(likelihood: LikelihoodName, largest: int) -> None:
    """Check that a likelihood can explain the counts of a tensor, given the largest."""
    if likelihood == "bernoulli" and largest > 1:
        rule = f"needs counts of 0 or 1, and the tensor has counts up to {largest:,}: use Y.binarize(), or --binary"
        raise InputError("likelihood", likelihood, rule)


def concentrations_for(modes: int, e0: object) -> float | tuple[float, ...] | Literal["infer"]:
    """Check e0: a number, a sequence of one number per mode, or "infer"."""
    if isinstance(e0, str) and e0 == "infer":
        return "infer"
    if isinstance(e0, str):
        raise InputError("e0", e0, "must be a number, one number per mode, or 'infer'")
    if isinstance(e0, list | tuple | np.ndarray):
        values = tuple(positive("e0", value) for value in e0)
        if len(values) != modes:
            raise InputError("e0", values, f"must have one entry per mode, and the tensor has {modes} modes")
        return values
    return positive("e0", e0)


def positive(name: str, value: object) -> float:
    """Check a parameter of a prior: a positive number that leaves products of rates within 64-bit floats."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise InputError(name, value, "must be a positive number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not _LEAST <= number <= _MOST:
        raise InputError(name, value, f"must be positive and finite ({_LEAST} to {_MOST})")
    return number
