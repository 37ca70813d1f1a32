"""Classes and factors as tables: for people, for other programs, and as files.

The *top cells* of a class are those in which its expected counts are largest: its size times the product of its
factors, scaled so that the sum over all observed cells is the size. Cells are summed over the modes of time and other
ordered modes: "Russia, Ukraine, Fight" rather than the same in each month. Missing cells do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from allocore._text import first_few
from allocore.errors import InputError, check_choice, whole_number
from allocore.kernels.elementary import Floats, Ints
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.workers import available_threads
from allocore.model.spec import Spec
from allocore.posterior.predict import expected_counts, sampled
from allocore.storage.record import Record
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor, both_directions
from allocore.tensor.labels import with_results
from allocore.tensor.undirected import as_pairs, directions

if TYPE_CHECKING:
    from allocore.classes.estimates import ProfileBand
    from allocore.classes.summary import ClassSummary, Profile, ShownMode

TidyTable = Literal["classes", "profiles", "factors"]

# A cell is among the n largest of a product of factors only if the product of its ranks is at most n. Some of the cells
# may be missing, so this many times n are tried: by rank, and of those by weight.
_RANKS, _LOOKED_AT, _LEAST_TOP = 16, 4, 16
_SUMMED = 4096  # modes are summed over while that takes at most this many cells
_DRAWS = 40  # the whole model's expected counts are averages over about this many


class _Groups(NamedTuple):
    """Groups of cells: their coordinates in the shown modes (L, G), all observed cells (M, N), the group of each."""

    rows_LG: Ints
    cells_MN: Ints
    group_N: Ints


def top_cells(
    record: Record, summary: ClassSummary, places: Sequence[int], top: int, threads: int | None = None
) -> list[pd.DataFrame]:
    """For each class, a table of its top cells: see `Posterior.top_cells`."""
    shown = _shown_modes(summary)
    found = [_largest(record.spec, summary, place, shown, top) for place in places]
    counts_G = _counts_of(record.tensor, shown, np.concatenate([groups.rows_LG for groups, _ in found], axis=1))
    cells_MN = np.concatenate([groups.cells_MN for groups, _ in found], axis=1)
    # The whole model is that of the draw, if one is summarized.
    model = record if summary.draw is None else record.with_draws(tuple(slice(at, at + 1) for at in summary.draw))
    expected_N = expected_counts(sampled(model, _DRAWS), cells_MN, threads or available_threads())
    counts = np.split(counts_G, np.cumsum([len(of_class) for _, of_class in found])[:-1])
    expected = np.split(expected_N, np.cumsum([len(groups.group_N) for groups, _ in found])[:-1])
    tables = []
    for (groups, of_class), counts_g, expected_n in zip(found, counts, expected, strict=True):
        columns: dict[str, Any] = {
            summary.mode_names[mode]: [str(summary.modes[mode].labels[row]) for row in rows.tolist()]
            for mode, rows in zip(shown, groups.rows_LG, strict=True)
        }
        whole_model = np.bincount(groups.group_N, expected_n, len(of_class))
        results = {"of_class": of_class, "expected": whole_model, "observed": counts_g}
        tables.append(with_results(pd.DataFrame(columns), results))
    return tables


def _shown_modes(summary: ClassSummary) -> list[int]:
    """The modes whose labels are shown: those without an order, and ordered ones that are too long to sum over."""
    ordered = [mode for mode, each in enumerate(summary.modes) if each.kind in ("time", "order")]
    summed, cells = [], 1
    for mode in sorted(ordered, key=lambda mode: summary.tensor.shape[mode]):
        cells *= summary.tensor.shape[mode]
        if cells <= _SUMMED:
            summed.append(mode)
    shown = [mode for mode in range(len(summary.modes)) if mode not in summed]
    return shown or list(range(len(summary.modes)))


def _largest(spec: Spec, summary: ClassSummary, place: int, shown: list[int], top: int) -> tuple[_Groups, Floats]:
    """The groups of cells in which a class expects the most, and how many counts it expects there.

    If the size of the class is a latent count, a cell is 1 unless its latent count, which is Poisson, is 0.
    """
    latent = spec.likelihood == "bernoulli"
    tensor, factors = summary.tensor, []
    for mode, factor_DC in enumerate(summary.factor_shares):
        weights_D = spec.exposure(mode)  # the shares are per unit
        factors.append(factor_DC[:, place] if weights_D is None else factor_DC[:, place] * weights_D)
    most = max(top, _LEAST_TOP)
    ranks_LG = _ranks(tuple(tensor.shape[mode] for mode in shown), _RANKS * most)
    orders = [np.argsort(-factors[mode], kind="stable") for mode in shown]
    rows_LG = np.stack([order_D[ranks_G] for order_D, ranks_G in zip(orders, ranks_LG, strict=True)])
    weight_G = np.prod([factors[mode][rows_G] for mode, rows_G in zip(shown, rows_LG, strict=True)], axis=0)
    rows_LG = rows_LG[:, np.argsort(-weight_G, kind="stable")[: _LOOKED_AT * most]]
    pair = tensor.undirected_modes
    if pair is not None and set(pair) <= set(shown):  # the same pairs in both directions
        rows_LG = np.unique(as_pairs(rows_LG, (shown.index(pair[0]), shown.index(pair[1]))), axis=1)
    groups = _observed_cells(tensor, shown, rows_LG)
    weight_N = np.zeros(groups.cells_MN.shape[1])
    for ties_MN in directions(groups.cells_MN, pair):
        weight_N += np.prod([factor_D[rows_N] for factor_D, rows_N in zip(factors, ties_MN, strict=True)], axis=0)
    whole = SignedPatterns.of(tensor.missing).sum_of_one(factors, [float(factor_D.sum()) for factor_D in factors])
    size_N = summary.value_C[place] * weight_N / (whole or 1.0)
    of_class_N = -np.expm1(-size_N) if latent else size_N
    of_class_G = np.bincount(groups.group_N, of_class_N, rows_LG.shape[1]).astype(np.float64)
    chosen = np.argsort(-of_class_G, kind="stable")[:top]
    chosen = chosen[of_class_G[chosen] > 0.0]
    return _observed_cells(tensor, shown, rows_LG[:, chosen]), of_class_G[chosen]


@cache
def _ranks(lengths: tuple[int, ...], most: int) -> Ints:
    """All combinations of ranks (L, n), from 0, whose product, counted from 1, is at most `most`."""
    found: list[tuple[int, ...]] = [()]
    room = [most]
    for length in lengths:
        longer = [
            ((*ranks, rank), left // (rank + 1))
            for ranks, left in zip(found, room, strict=True)
            for rank in range(min(length, left))
        ]
        found, room = [ranks for ranks, _ in longer], [left for _, left in longer]
    return np.array(found, dtype=np.int64).T


def _observed_cells(tensor: CountTensor, shown: list[int], rows_LG: Ints) -> _Groups:
    summed = [mode for mode in range(len(tensor.shape)) if mode not in shown]
    lengths = [tensor.shape[mode] for mode in summed]
    grid = np.indices(lengths).reshape(len(summed), int(np.prod(lengths)))
    groups, size = rows_LG.shape[1], grid.shape[1]
    cells_MN = np.empty((len(tensor.shape), groups * size), dtype=np.int64)
    cells_MN[shown] = np.repeat(rows_LG, size, axis=1)
    cells_MN[summed] = np.tile(grid, groups)
    observed_N = ~tensor.missing.contains(cells_MN)
    return _Groups(rows_LG, cells_MN[:, observed_N], np.repeat(np.arange(groups), size)[observed_N])


def _counts_of(tensor: CountTensor, shown: list[int], rows_LG: Ints) -> Ints:
    shape, tensor = tuple(tensor.shape[mode] for mode in shown), both_directions(tensor)
    wanted_G, known_N = column_keys(shape, rows_LG, tensor.coords[shown])
    keys, place_G = np.unique(wanted_G, return_inverse=True)
    place_N = locate(known_N, keys)
    counts = np.bincount(place_N[place_N >= 0], tensor.counts[place_N >= 0], len(keys))
    return np.asarray(counts[place_G.ravel()], dtype=np.int64)


def class_table(summary: ClassSummary, top: int) -> pd.DataFrame:
    """Return one row per class, largest first: see `Posterior.classes` and `Consensus.classes`."""
    columns: dict[str, Any] = {"value": summary.value_C, "share": summary.share_C}
    if summary.interval_C2 is None:
        columns |= {
            "cumulative": summary.share_C.cumsum(),
            "stability": summary.support.draws_C,
            "stable_chains": summary.support.chains_C,
        }
    else:
        columns = {"name": list(summary.names), **columns}
        columns |= {
            "share_low": summary.interval_C2[:, 0],
            "share_high": summary.interval_C2[:, 1],
            "support": summary.support.chains_C,
            "support_draws": summary.support.draws_C,
            "found_again": np.nan if summary.support.found_again_C is None else summary.support.found_again_C,
            "apart": summary.apart_C,
        }
    table, places = pd.DataFrame(columns), range(len(summary.value_C))
    for mode, name in enumerate(summary.mode_names):
        table[f"{name}_factor"] = summary.location_CM[:, mode]
    for mode, name in enumerate(summary.mode_names):
        table[f"{name}_top"] = [summary.profile(place, mode).words(top) for place in places]
    for mode, shown in enumerate(summary.modes):
        if shown.kind == "time":
            table[f"{shown.name}_peak"] = [summary.profile(place, mode).peak_words() for place in places]
    for mode, name in enumerate(summary.mode_names):
        shared = [summary.numbers(summary.partners(place, mode)) for place in places]
        table[f"{name}_shared"] = pd.Series(shared, dtype=object).to_numpy()
    table.index = pd.Index(summary.number_C, name="class")
    table.attrs["source"] = summary.source
    return table


def factor_table(summary: ClassSummary, mode: int, number: int) -> pd.DataFrame:
    """Return one row per label of a factor: see `Posterior.factor`."""
    try:
        factor = summary.factors[mode][number]
    except (KeyError, TypeError):
        name, used = summary.mode_names[mode], sorted(summary.factors[mode])
        rule = f"must be one of the {name} factors in use: {first_few([str(each) for each in used], 20)}"
        raise InputError("k", number, rule) from None
    table = _by_label(factor.mode, {"share": factor.share_D})
    table.attrs["classes"] = summary.numbers(factor.classes)
    return table


def band_table(mode: ShownMode, band: ProfileBand, place: int) -> pd.DataFrame:
    """Return one row per label of a profile, with intervals: see `Consensus.profile`."""
    columns = {"share": band.mean, "median": band.median, "low": band.low, "high": band.high}
    return _by_label(mode, {name: values[:, place] for name, values in columns.items()})


def _by_label(mode: ShownMode, columns: dict[str, Floats]) -> pd.DataFrame:
    """The rows by label: heaviest first, or in their order if they have one."""
    table = with_results(pd.DataFrame(index=pd.Index(list(mode.labels), name=mode.name)), columns)
    if mode.kind in ("time", "order"):
        return table
    return table.iloc[np.argsort(-columns["share"], kind="stable")]


def sharing_table(summary: ClassSummary, mode: int, top: int) -> pd.DataFrame:
    """Return one row per factor in use: see `Posterior.sharing`."""
    factors = sorted(summary.factors[mode].values(), key=lambda factor: -factor.mass)
    return pd.DataFrame(
        {
            "share": [factor.mass for factor in factors],
            "number": [len(factor.classes) for factor in factors],
            "classes": pd.Series([summary.numbers(factor.classes) for factor in factors], dtype=object).to_numpy(),
            "top": [factor.words(top) for factor in factors],
        },
        index=pd.Index([factor.number for factor in factors], name=f"{summary.mode_names[mode]}_factor"),
    )


def sharing_pairs(summary: ClassSummary, both: Ints, modes: Iterable[int], least: float) -> pd.DataFrame:
    """Return one row per pair of classes and mode, surest first: see `Consensus.sharing`."""
    if not isinstance(least, int | float | np.floating) or not 0.0 <= least <= 1.0:
        raise InputError("least", least, "must be a probability from 0 to 1")
    assert summary.sharing is not None
    parts = []
    for mode in modes:
        one, other = np.triu_indices(len(summary.number_C), 1)
        probability = summary.sharing[mode][one, other]
        pairs = np.sort(np.stack([summary.number_C[one], summary.number_C[other]]), axis=0)
        columns = {"mode": summary.mode_names[mode], "class": pairs[0], "other": pairs[1], "probability": probability}
        columns["draws"] = both[one, other]
        parts.append(pd.DataFrame(columns)[probability >= max(least, np.finfo(float).tiny)])
    table = pd.concat(parts, ignore_index=True)
    return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)


def tidy_table(summary: ClassSummary, what: TidyTable, top: int) -> pd.DataFrame:
    """Return one of the tables: see `Consensus.to_frame`. A single draw has no intervals."""
    top = whole_number("top", top)
    check_choice("what", what, get_args(TidyTable))
    parts: list[tuple[dict[str, Any], Profile]]
    if what == "classes":
        table = class_table(summary, top)
        if "name" not in table:
            table.insert(0, "name", list(summary.names))
        for name in summary.mode_names:
            shared = [" ".join(map(str, numbers)) for numbers in table[f"{name}_shared"]]
            table[f"{name}_shared"] = pd.Series(shared, index=table.index, dtype=object)
        return table.reset_index()
    if what == "profiles":
        classes = zip(summary.number_C.tolist(), summary.names, *summary.profiles, strict=True)
        parts = [
            ({"class": number, "name": name, "mode": profile.mode.name}, profile)
            for number, name, *profiles in classes
            for profile in profiles
        ]
        return _by_key_and_label({"class": np.int64, "name": object, "mode": object}, parts, summary)
    parts = [
        ({"mode": factor.mode.name, "factor": number, "name": factor.short_name or "even"}, factor)
        for factors in summary.factors
        for number, factor in sorted(factors.items())
    ]
    return _by_key_and_label({"mode": object, "factor": np.int64, "name": object}, parts, summary)


def _by_key_and_label(
    kinds: dict[str, type], parts: list[tuple[dict[str, Any], Profile]], summary: ClassSummary
) -> pd.DataFrame:
    """One row per label of each part, with the keys of the part before it. There may be no part."""
    labels = {mode.name: [str(label) for label in mode.labels] for mode in summary.modes}
    times = [len(shares.share_D) for _, shares in parts]
    columns: dict[str, Any] = {
        key: np.repeat(np.array([keys[key] for keys, _ in parts], dtype=kind), times) for key, kind in kinds.items()
    }
    columns["label"] = np.array([label for _, shares in parts for label in labels[shares.mode.name]], dtype=object)
    numbers = {"share": "share_D", "median": "median_D", "low": "low_D", "high": "high_D"}
    for name, field in numbers.items() if summary.is_consensus else [("share", "share_D")]:
        columns[name] = np.concatenate([np.empty(0), *(getattr(shares, field) for _, shares in parts)])
    table = pd.DataFrame(columns)
    table.attrs["source"] = summary.source
    return table
