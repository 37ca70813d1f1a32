"""How well a fit predicts held-out cells, beside baselines fitted to the same training cells.

For each prediction, the means over the held-out cells of

    log PPD       the log predictive probability of the count: of all cells, of positive cells and of zeros
    MAE           |y - expected count|
    CRPS          sum_k ( F(k) - 1{k >= y} )^2, with F the predictive distribution (mixture_scores.py)
    coverage      whether u is within (0.25, 0.75), (0.05, 0.95): the central 50% and 90% intervals

with u = F(y - 1) + v (F(y) - F(y - 1)), v uniform: the randomised probability integral transform, uniform if the
predictions are right (Czado, Gneiting and Held 2009). Counts are discrete, so that without v an interval would hold
more than its share. The seed of v is fixed. Most cells of a sparse tensor are surely zero, and say little of an
interval. So coverage is also that of *busy* cells, where the prediction gives a count a probability of at least one
half. The choice depends on the prediction, not on the count, so it leaves u uniform.

Cells of a fibre share the values of other modes, so standard errors are taken over fibres, which were drawn at random:
with the mean x of n cells in G fibres, se^2 = G / (G - 1) sum_f (sum of x_i - x in fibre f)^2 / n^2.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.data.holdout import HeldOut
from allocore.data.missing import covered
from allocore.kernels.arrays import Flags, Floats, Ints
from allocore.kernels.workers import Workers
from allocore.model.likelihood import Likelihood
from allocore.posterior.baselines import baselines
from allocore.posterior.draw_bar import watched
from allocore.posterior.mixture_quantiles import Mixtures
from allocore.posterior.mixture_scores import MixtureScores, mixture_scores
from allocore.posterior.prediction import cell_mixtures, number_of_draws, sampled
from allocore.run.record import Record

if TYPE_CHECKING:
    import pandas as pd

MODEL = "model"
LEVELS = (50, 90)
_NUMBERS_AT_ONCE = 10_000_000
_SEED = 20240502
# Cells times draws: about half a minute with Q = 100 on two processors. `brief` takes fewer draws beyond it.
_BRIEF, _LEAST_DRAWS = 200_000_000, 20


class Evaluation(NamedTuple):
    """The table of scores, and for each cell the model's PIT, whether it is busy, and the number of its fibre."""

    table: "pd.DataFrame"
    pit_N: Floats
    busy_N: Flags
    fibre_N: Ints


def evaluate(record: Record, test: HeldOut, threads: int, *, brief: bool = False) -> Evaluation:
    """Score held-out cells; `brief` averages over fewer draws if there are very many cells."""
    import pandas as pd

    from allocore.posterior.evaluation_words import verdict

    every = number_of_draws(record)
    used = sampled(record, max(_LEAST_DRAWS, _BRIEF // len(test))) if brief and every * len(test) > _BRIEF else record
    fibre_N = test.fibres
    uniform_N = np.random.default_rng(_SEED).random(len(test))
    coords_MN, counts_N = test.coords.astype(np.int64), test.counts.astype(np.int64)
    scores = score_cells(used, coords_MN, counts_N, threads)
    model_N, pit_N, busy_N = scores.log_density_N, pit(scores, uniform_N), scores.zero_N <= 0.5
    rows = {MODEL: _row(scores, counts_N, fibre_N, pit_N)}
    with Workers(threads) as workers:
        for name, mixtures in baselines(record.tensor, record.spec.observation, coords_MN):
            scores = _score_alike(record.spec.observation, mixtures, counts_N, workers)
            rows[name] = _row(scores, counts_N, fibre_N, pit(scores, uniform_N), model_N)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "prediction"
    table.attrs |= {
        "cells": len(test),
        "positive": int(np.count_nonzero(counts_N)),
        "busy": int(np.count_nonzero(busy_N)),
        "fibres": int(fibre_N.max()) + 1,
        "along": None if test.along is None else record.tensor.mode_names[test.along],
        "trained": int(np.count_nonzero(~covered(coords_MN, record.tensor.missing))),
        "draws": number_of_draws(used),
        "all_draws": every,
    }
    table.attrs["level"], table.attrs["words"] = verdict(table, record)
    return Evaluation(table, pit_N, busy_N, fibre_N)


def score_cells(record: Record, coords_MN: Ints, counts_N: Ints, threads: int) -> MixtureScores:
    """The scores of cells under all draws, in blocks of cells."""
    scores_6N, draws = np.empty((len(MixtureScores._fields), len(counts_N))), number_of_draws(record)
    order_N, at_once = np.lexsort(coords_MN[::-1]), max(1, _NUMBERS_AT_ONCE // draws)  # sorted cells share products
    blocks = [order_N[start : start + at_once] for start in range(0, len(order_N), at_once)]
    with Workers(threads) as workers:
        for chosen in watched(blocks, len(blocks), "scoring held-out cells"):
            mixtures = cell_mixtures(record, coords_MN[:, chosen], threads)
            scores_6N[:, chosen] = mixture_scores(record.spec.observation, mixtures, counts_N[chosen], workers)
    return MixtureScores(*scores_6N)


def _score_alike(likelihood: Likelihood, mixtures: Mixtures, counts_N: Ints, workers: Workers) -> MixtureScores:
    """The scores under a single draw; cells with the same rate and count are scored once."""
    rates_N1, row_N, table_R1 = mixtures
    _, rate_N = np.unique(rates_N1, return_inverse=True)
    (keys_N,) = column_keys([len(counts_N), int(counts_N.max()) + 1], np.stack([rate_N.ravel(), counts_N]))
    _, first_U, same_N = np.unique(keys_N, return_index=True, return_inverse=True)
    few = mixture_scores(likelihood, Mixtures(rates_N1[first_U], row_N[first_U], table_R1), counts_N[first_U], workers)
    return MixtureScores(*(each_U[same_N] for each_U in few))


def pit(scores: MixtureScores, uniform_N: Floats) -> Floats:
    """The randomised probability integral transform of the counts."""
    return scores.below_N + uniform_N * (scores.up_to_N - scores.below_N)


def inside(pit_N: Floats, level: int) -> Flags:
    """Whether counts are within their central intervals of so many percent."""
    return np.abs(pit_N - 0.5) <= level / 200.0


def _row(
    scores: MixtureScores, counts_N: Ints, fibre_N: Ints, pit_N: Floats, model_N: Floats | None = None
) -> dict[str, float]:
    """The scores of one prediction by column; `model_N` has the log density of the model, to be compared with."""
    everywhere, busy_N = np.ones(len(counts_N), dtype=bool), scores.zero_N <= 0.5
    parts: list[tuple[str, Floats, Flags]] = [
        ("log_ppd", scores.log_density_N, everywhere),
        ("log_ppd_positive", scores.log_density_N, counts_N > 0),
        ("log_ppd_zero", scores.log_density_N, counts_N == 0),
        ("mae", np.abs(counts_N - scores.mean_N), everywhere),
        ("crps", scores.crps_N, everywhere),
    ]
    for suffix, where in (("", everywhere), ("_busy", busy_N)):
        parts += [(f"coverage_{level}{suffix}", inside(pit_N, level).astype(float), where) for level in LEVELS]
    row = dict(_columns(parts, fibre_N))
    if model_N is None:
        return {**row, "behind": 0.0, "behind_se": 0.0}
    with np.errstate(invalid="ignore"):
        difference_N = model_N - scores.log_density_N
    return {**row, **dict(_columns([("behind", difference_N, everywhere)], fibre_N))}


def _columns(parts: list[tuple[str, Floats, Flags]], fibre_N: Ints) -> Iterator[tuple[str, float]]:
    for name, values_N, where in parts:
        mean, error = clustered_mean(values_N[where], fibre_N[where])
        yield name, mean
        yield f"{name}_se", error


def clustered_mean(values_n: Floats, fibre_n: Ints) -> tuple[float, float]:
    """The mean of cells and its standard error over fibres; NaN where there are no cells, or fewer than two fibres."""
    if not len(values_n):
        return np.nan, np.nan
    mean = float(values_n.mean())
    _, place_n = np.unique(fibre_n, return_inverse=True)
    if not np.isfinite(mean):
        return mean, np.nan
    return mean, clustered_error(np.bincount(place_n, values_n - mean).astype(np.float64), len(values_n))


def clustered_error(sums_F: Floats, number: int) -> float:
    """The standard error of a mean of `number` cells, from the sums over fibres of differences to the mean.

    It is NaN if there are fewer than two fibres.
    """
    fibres = len(sums_F)
    return float(np.sqrt(fibres / (fibres - 1) * (sums_F**2).sum())) / number if fibres > 1 else np.nan
