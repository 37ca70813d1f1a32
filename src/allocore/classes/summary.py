"""What tables, figures and the page show of classes: their sizes and profiles, and which of them share a factor.

A summary is that of the consensus (consensus.py) or of one draw (profiles.py). The largest class comes first. A *place*
is a position in this order. A *number* is what people see: the place itself in a draw; in the consensus, a number that
stays the same when a run is resumed.

The size of a class is its expected count in the observed cells. For the Bernoulli likelihood it is the expected latent
count, which is the rate: the probability of a one is not a sum over classes. The *profile* of a class in a mode is the
share of its expected count in each row, over the observed cells. Its *factor* is a column of a factor matrix, as shares
that sum to one over the observed rows. The two differ only if cells are missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np

from allocore.errors import Described, InputError, as_list, place_of
from allocore.findings import Finding, sentences
from allocore.kernels.elementary import Flags, Floats, Ints, Singles
from allocore.model.spec import Spec
from allocore.tensor.calendar import are_weeks, week_words
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.labels import LabelKind, ModeLabels, are_numbers, label_kind

if TYPE_CHECKING:
    import pandas as pd

    from allocore.classes.tables import TidyTable

ShownDraw = int | Literal["best"] | None  # None is the consensus, if there are several draws
_PEAK = 0.5  # a period is in a peak from this part of the highest share on: the full width at half maximum
_LEAST_EVEN, _MOST_EVEN = 0.5, 1.5  # times the average share, for every row of a profile that is even
_ENOUGH = 0.5  # the second label is named too if the heaviest has a smaller share
_STANDS_OUT = 1.5  # a stretch of time is named if its periods have this many times as much as the average period
FAINT = 0.02  # labels with a smaller share of a profile are not named


@dataclass(frozen=True)
class ShownMode:
    """A mode with its labels and their kind."""

    name: str
    labels: ModeLabels
    kind: LabelKind

    @cached_property
    def are_numbers(self) -> bool:
        """Whether the labels are numbers that say nothing without the name of the mode."""
        return self.kind == "plain" and are_numbers(self.labels)

    @cached_property
    def are_weeks(self) -> bool:
        """Whether the labels are weeks, named by their first days."""
        return self.kind == "time" and are_weeks(self.labels)

    def label(self, row: int) -> str:
        """Return a label in words: "store 12" if the labels are numbers, "week of 2018-01-01" if they are weeks."""
        if self.are_weeks:
            return self.stretch(row, row + 1)
        return f"{self.name} {self.labels[row]}" if self.are_numbers else str(self.labels[row])

    def join_labels(self, rows: Iterable[int], name: str | None = None) -> str:
        """Return some labels in words, with the name of the mode once, before numbers: "store 12, 7"."""
        if not self.are_numbers:
            return ", ".join(self.label(row) for row in rows)
        return f"{name or self.name} " + ", ".join(str(self.labels[row]) for row in rows)

    def stretch(self, first: int, end: int) -> str:
        """Return the labels of neighbouring rows, without the row `end`, in words."""
        one, last = str(self.labels[first]), str(self.labels[end - 1])
        if self.are_weeks:
            return week_words(one, last)
        return self.label(first) if end == first + 1 else f"{one} to {last}"


@dataclass(frozen=True)
class Profile:
    """Shares of the rows of a mode, whether they are even, and intervals and medians (None for a single draw).

    `known` is the name of its factor, if that is seeded or frozen.
    """

    mode: ShownMode
    share_D: Floats
    even: bool
    low_D: Singles | None = None
    high_D: Singles | None = None
    median_D: Singles | None = None
    known: str = ""

    def heaviest(self, most: int) -> Ints:
        """Return at most this many rows, heaviest first, without sorting all rows of a long mode."""
        share_D = self.share_D
        rows = np.arange(len(share_D))
        if most < len(share_D):
            first = len(share_D) - max(most, 1)
            rows = np.flatnonzero(share_D >= np.partition(share_D, first)[first])
        return rows[np.argsort(-share_D[rows], kind="stable")][:most]

    @property
    def empty(self) -> bool:
        """Whether all its weights underflow to zero."""
        return not self.share_D.any()

    @property
    def short_name(self) -> str:
        """The name of a seeded or frozen factor, or else the one or two heaviest labels; "" if none stands out."""
        if self.known or self.empty or self.even:
            return self.known
        share_D = self.share_D
        if self.mode.kind == "time":
            # The stretch around the highest share, down to half of it; nothing if it has hardly more than others.
            first, end = next((a, b) for a, b in runs_of(share_D >= share_D.max() / 2.0) if a <= share_D.argmax() < b)
            stands_out = share_D[first:end].mean() >= _STANDS_OUT * share_D.mean()
            return self.mode.stretch(first, end) if stands_out else ""
        rows = self.heaviest(len(self.top(2))).tolist()
        return self.mode.join_labels(rows[:1] if share_D[rows[0]] >= _ENOUGH else rows)

    def top(self, number: int) -> list[tuple[str, float]]:
        """Return the heaviest labels with their shares; all but the first have at least 2%."""
        heaviest = enumerate(self.heaviest(number).tolist())
        rows = [d for rank, d in heaviest if not rank or self.share_D[d] >= FAINT]
        return [(self.mode.label(d), float(self.share_D[d])) for d in rows]

    def words(self, top: int) -> str:
        """Return the heaviest labels in words, such as "JFK 93%, EWR 6%". Weeks that follow one another are joined."""
        name = f"{self.known}: " if self.known else ""
        if self.empty:
            return f"{name}too small to tell"
        if self.even:
            return f"{name}evenly over all {len(self.share_D)}"
        named = self.top(top)
        if self.mode.are_weeks:
            named = self._stretches(np.isin(np.arange(len(self.share_D)), self.heaviest(len(named))))
        return name + ", ".join(f"{label} {share:.0%}" for label, share in named)

    @property
    def even_words(self) -> str:
        """An even profile in words, with its lowest and its highest share if they differ: no two are quite the same."""
        ends: list[int] = self.heaviest(len(self.share_D))[[int(np.count_nonzero(self.share_D)) - 1, 0]].tolist()
        low, high = (f"{self.share_D[row]:.1%}" for row in ends)
        least, most = map(self.mode.label, ends)
        return f"evenly over all {len(self.share_D)}" + (f" ({least} {low} to {most} {high})" if low != high else "")

    def peaks(self, most: int = 3) -> list[tuple[str, float]]:
        """Return the stretches of rows with at least half of the highest share, and their shares, largest first."""
        if self.empty or self.even:
            return []
        return self._stretches(self.share_D >= _PEAK * self.share_D.max())[:most]

    def _stretches(self, chosen_D: Flags) -> list[tuple[str, float]]:
        """The stretches of chosen rows and their shares, largest first."""
        runs = [(float(self.share_D[first:end].sum()), first, end) for first, end in runs_of(chosen_D)]
        return [(self.mode.stretch(first, end), share) for share, first, end in sorted(runs, key=lambda run: -run[0])]

    def peak_words(self, most: int = 3) -> str:
        """Return the peaks in words, such as "2018-03 to 2018-05 (41%)"."""
        if self.empty or self.even:
            return self.words(1)
        return ", ".join(f"{stretch} ({share:.0%})" for stretch, share in self.peaks(most))


@dataclass(frozen=True, kw_only=True)
class Factor(Profile):
    """A factor, its number, the places of the classes that use it, and their share of all expected counts."""

    number: int
    classes: tuple[int, ...]
    mass: float

    def words(self, top: int) -> str:
        """Return the heaviest labels in words; an even factor has its extremes, because several factors may be even."""
        name = f"{self.known}: " if self.known else ""
        return name + self.even_words if self.even and not self.empty else super().words(top)


class Support(NamedTuple):
    """For each class, the share of draws and of chains that have it (NaN if there is no other), and how many chains.

    `found_again_C`, of the consensus of four chains or more: how often half of the chains, by themselves, find it.
    """

    draws_C: Floats
    chains_C: Floats
    chains: int
    found_again_C: Floats | None = None


class Counts(NamedTuple):
    """Expected counts of classes in the rows of a mode, (C, D), NaN without observed cells; no ends for one draw."""

    mean_CD: Floats
    low_CD: Floats | None
    high_CD: Floats | None


@dataclass(frozen=True)
class ClassSummary:
    """Classes, largest first, with their profiles and factors.

    Attributes
    ----------
    tensor : CountTensor
        The tensor that the model was fitted to.
    source, counted : str
        Where the classes are from, such as "draw 19 of chain 2", and what their values count: "expected counts", or
        "expected latent counts" for the Bernoulli likelihood.
    findings : tuple of Finding
        How many classes there are, and which share of the counts they have.
    modes : tuple of ShownMode
        The modes, with their labels and label kinds.
    number_C, names : ndarray of int, tuple of str
        The number of each class, and its name in words.
    value_C, share_C, interval_C2 : ndarray of float
        The expected counts of each class in the observed cells, their share of the total, and its interval, which is
        None for a single draw.
    support : Support
        For the consensus, the shares of draws and of chains that have each class. For a draw, the shares of the other
        draws and of all chains that have a similar class.
    apart_C : ndarray of bool
        Which classes are small or weakly supported; they are shown after the others.
    location_CM, factors : ndarray of int, tuple of mappings from int to Factor
        The number of the factor of each class in each mode, and for each mode, its factors in use by their number.
    profiles, factor_shares : tuple of tuples of Profile, tuple of ndarray
        For each mode, the profile of each class, and its factor (D, C), scaled to sum to one.
    sharing : tuple of ndarray or None
        For each mode (C, C), the probability that two classes use the same factor; None for a single draw.
    draw : tuple of int or None
        The chain and the draw of a single draw; None for the consensus.
    tied : tuple of int or None
        The two modes that share their factors; a factor has the same number in both.

    Examples
    --------
    >>> summary = post.class_summary("best")
    >>> len(summary.names), float(summary.share_C.sum().round(6))
    (5, 1.0)
    """

    tensor: CountTensor
    source: str
    findings: tuple[Finding, ...]
    counted: str
    modes: tuple[ShownMode, ...]
    number_C: Ints
    names: tuple[str, ...]
    value_C: Floats
    share_C: Floats
    interval_C2: Floats | None
    support: Support
    apart_C: Flags
    location_CM: Ints
    factors: tuple[Mapping[int, Factor], ...]
    profiles: tuple[tuple[Profile, ...], ...]
    factor_shares: tuple[Floats, ...]
    sharing: tuple[Floats, ...] | None
    draw: tuple[int, int] | None = None
    tied: tuple[int, int] | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    @property
    def is_consensus(self) -> bool:
        """Whether the classes are those of the consensus, not of a single draw."""
        return self.sharing is not None

    @property
    def mode_names(self) -> tuple[str, ...]:
        """The names of the modes."""
        return self.tensor.mode_names

    def profile(self, place: int, mode: int) -> Profile:
        """Return the profile of a class in a mode."""
        return self.profiles[self._mode(mode)][self._place(place)]

    def factor(self, place: int, mode: int) -> Factor:
        """Return the factor of a class in a mode."""
        place, mode = self._place(place), self._mode(mode)
        return self.factors[mode][int(self.location_CM[place, mode])]

    def counts(self, mode: int, weights_D: Floats | None = None) -> Counts:
        """Return the expected counts of the classes in the rows of a mode; per unit if the rows have exposures."""
        profiles, observed_D = self.profiles[self._mode(mode)], self.tensor.missing.observed_rows(mode)
        value_C = self.value_C
        if weights_D is not None and np.shape(weights_D) != observed_D.shape:
            raise InputError("weights_D", Described("this array"), "must have a weight for each row of the mode")
        if weights_D is not None:  # counted with the weights of the rows, they add up to the size of the class
            whole_C = np.array([profile.share_D @ weights_D for profile in profiles])
            value_C = value_C / np.where(whole_C > 0.0, whole_C, 1.0)
        ends = zip(*((each.share_D, each.low_D, each.high_D) for each in profiles), strict=True)
        mean, low, high = (
            None if part[0] is None else np.where(observed_D, value_C[:, None] * np.array(part), np.nan)
            for part in ends
        )
        return Counts(cast("Floats", mean), low, high)

    def partners(self, place: int, mode: int) -> tuple[int, ...]:
        """Return the places of the other classes that use the same factor."""
        return tuple(other for other in self.factor(place, mode).classes if other != place)

    def numbers(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """Return the numbers of the classes at some places."""
        given = as_list("places", places, "must be a list of places of classes")
        return tuple(int(self.number_C[self._place(place)]) for place in given)

    def place(self, number: int, name: str = "number") -> int:
        """Return the place of the class with this number. An error names the argument `name`."""
        found = np.flatnonzero(self.number_C == number) if isinstance(number, int | np.integer) else []
        if len(found):
            return int(found[0])
        if not len(self.number_C):
            raise InputError(name, number, "must be the number of a class, and the chains have none in common")
        numbers = sorted(self.number_C.tolist())
        rule = f"must be the number of a class: {', '.join(map(str, numbers))}"
        if numbers[-1] == len(numbers) - 1:
            rule = f"must be from 0 to {numbers[-1]}: there are {len(numbers)} classes"
        raise InputError(name, number, rule)

    def places(self, numbers: Iterable[int]) -> list[int]:
        """Return the places of the classes with these numbers, at least one."""
        found = [self.place(number) for number in as_list("numbers", numbers, "must be a list of class numbers")]
        if not found:
            raise InputError("numbers", numbers, "must have at least one class")
        return found

    def _place(self, place: int) -> int:
        return place_of("place", place, len(self.number_C))

    def _mode(self, mode: int) -> int:
        return place_of("mode", mode, len(self.modes))

    def to_frame(self, what: "TidyTable" = "profiles", top: int = 5) -> "pd.DataFrame":
        """Return the classes, their profiles or the factors as a tidy table: see `Consensus.to_frame`."""
        from allocore.classes.tables import tidy_table

        return tidy_table(self, what, top)

    @cached_property
    def apart_last(self) -> Ints:
        """The places, largest first, with small and weakly supported classes after all others."""
        return np.argsort(self.apart_C, kind="stable")


def runs_of(chosen_D: Flags) -> list[tuple[int, int]]:
    """Return the first row and the end of each run of chosen rows."""
    padded = np.concatenate([[False], chosen_D, [False]])
    edges = np.flatnonzero(padded[1:] != padded[:-1]).reshape(-1, 2)
    return [(first, end) for first, end in edges.tolist()]


def shown_modes(tensor: CountTensor) -> tuple[ShownMode, ...]:
    """Return the modes of a tensor, with the kinds of their labels."""
    named = zip(tensor.mode_names, tensor.labels, strict=True)
    return tuple(ShownMode(name, labels, label_kind(labels)) for name, labels in named)


def is_even(share_D: Floats) -> bool:
    """Return whether no row stands out, above or below; False for fewer than three rows."""
    times_D = share_D * len(share_D)
    return len(share_D) > 2 and bool(times_D.min() >= _LEAST_EVEN and times_D.max() < _MOST_EVEN)


def profiles_of(
    tensor: CountTensor,
    modes: Sequence[ShownMode],
    tables: Iterable[tuple[Floats | Singles, ...]],
    known: Sequence[Sequence[str]] = (),
) -> tuple[tuple[Profile, ...], ...]:
    """Return the profiles of C classes in each mode from tables (D, C): shares, and if known low, high and median.

    `known` has, for each mode, the names of the seeded or frozen factors of the classes.
    """
    found = []
    for m, (mode, of_mode) in enumerate(zip(modes, tables, strict=True)):
        observed_D, columns = tensor.missing.observed_rows(m), zip(*(table_DC.T for table_DC in of_mode), strict=True)
        profiles = [Profile(mode, share_D, is_even(share_D[observed_D]), *rest) for share_D, *rest in columns]
        if known:
            profiles = [replace(each, known=name) for each, name in zip(profiles, known[m], strict=True)]
        found.append(tuple(profiles))
    return tuple(found)


def factor_names(spec: Spec, location_CM: Ints | None) -> tuple[tuple[str, ...], ...]:
    """Return, for each mode, the names of the seeded or frozen factors at some locations; "" for other factors."""
    if location_CM is None:
        return ()
    named = [dict(enumerate(known.names)) for known in spec.known]
    return tuple(
        tuple(names.get(k, "") for k in column) for names, column in zip(named, location_CM.T.tolist(), strict=False)
    )


def unused_factors(spec: Spec, mode_names: Sequence[str], location_CM: Ints) -> Iterator[Finding]:
    """Yield a finding for each mode with seeded or frozen factors that no class has, given where the classes are."""
    for mode, known in enumerate(spec.known):
        used = set(location_CM[:, spec.sharing(mode)].ravel().tolist())
        unused = [name for k, name in enumerate(known.names) if k not in used]
        if unused and mode == spec.sharing(mode)[0]:
            yield Finding("unused-factors", values={"names": unused, "mode": mode_names[mode]})


def factors_in_use(
    shown: tuple[tuple[Profile, ...], ...], location_CM: Ints, share_C: Floats
) -> tuple[dict[int, Factor], ...]:
    """Return the factors of each mode by number, in the order of the classes, each as the largest class has it."""
    found = []
    for own_C, number_C in zip(shown, location_CM.T, strict=True):
        factors = {}
        for number in dict.fromkeys(number_C.tolist()):
            places = np.flatnonzero(number_C == number)
            own = own_C[places[0]]
            factors[number] = Factor(
                own.mode, own.share_D, own.even, own.low_D, own.high_D, own.median_D, own.known,
                number=number, classes=tuple(places.tolist()), mass=float(share_C[places].sum()),
            )  # fmt: skip
        found.append(factors)
    return tuple(found)
