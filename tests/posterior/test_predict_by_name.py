"""Predictions by label: sums and intervals against brute force on small dense tensors, and what may be asked."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_likelihoods import KINDS, PATTERNS, SHAPE, dense, frozen, observed, posterior_with

import allocore as ac
from allocore.posterior import cells as cell_sums
from allocore.posterior import predict as mixture_quantiles
from allocore.posterior import predict as predict_by_name
from allocore.results import Posterior
from support.errors import refused
from support.tiers import parametrize_few

NAMES, LABELS = ("who", "what", "when"), (("Ada", "Max", "Eve", "Adam", "7"), tuple("wxyz"), ("2001", "2002", "2003"))
CELLS = np.indices(SHAPE).reshape(3, -1)
SUMS = [
    {},
    {"who": "Ada"},
    {"what": "y", "when": "2002"},
    {"who": ["Max", "Eve", "Max"], "when": slice("2002", None)},
    (None, slice("x", "y"), "2001"),
    ("Max", ["w", "z"], "2003"),
    ("Adam", ["x"], "2001"),
    ("Eve", "x", "2001"),
]


def labelled(*arguments, **settings):
    post = posterior_with(*arguments, **settings)
    return Posterior(replace(post.record, tensor=post.tensor.with_labels(LABELS, NAMES)), 1)


def members(row):
    """The positions that a row of SUMS names in each mode."""
    values = [row.get(name) for name in NAMES] if isinstance(row, dict) else row
    for value, labels in zip(values, LABELS, strict=True):
        if isinstance(value, slice):
            first = 0 if value.start is None else labels.index(value.start)
            yield range(first, len(labels) if value.stop is None else labels.index(value.stop) + 1)
        else:
            wanted = labels if value is None else [value] if isinstance(value, str) else value
            yield [labels.index(label) for label in dict.fromkeys(wanted)]


def inside(row, post, missing):
    """Which cells are in a row of SUMS; a single cell is, observed or not."""
    box = np.zeros(SHAPE, dtype=bool)
    box[np.ix_(*members(row))] = True
    single = not isinstance(row, dict) and all(isinstance(value, str) for value in row)
    return box if missing or single else box & observed(post.tensor)


def without_empty(post):
    return [row for row in SUMS if inside(row, post, False).any()]


# Rates


@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.parametrize("patterns", [(), PATTERNS], ids=["whole", "missing"])
@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_expected_counts_of_sums_are_those_of_all_their_cells(likelihood, by, patterns, infer):
    post = labelled(likelihood, by, missing=patterns, infer=infer)
    mean = frozen(post).mean()
    for missing in (False, True):
        rows = SUMS if missing else without_empty(post)
        table, draws = post.predict(rows, draws=True, missing=missing)
        expected = np.array([mean[:, inside(row, post, missing)].sum(axis=1) for row in rows])
        np.testing.assert_allclose(draws, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(table["expected"], expected.mean(axis=1), rtol=1e-9, atol=1e-12)


def test_a_masked_diagonal_is_not_part_of_a_sum():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(2.0, (4, 4, 3))).mask_diagonal()
    post = ac.AlloCore(3, burn_in=3, draws=4, thin=1, seed=1, progress=False, chains=1).fit(Y).posterior_
    rates = post.expected(np.indices((4, 4, 3)).reshape(3, -1)).reshape(4, 4, 3)
    off = ~np.eye(4, dtype=bool)
    assert post.predict({})["expected"][0] == pytest.approx(rates[off].sum())
    assert post.predict({"mode_0": 1})["expected"][0] == pytest.approx(rates[1][off[1]].sum())
    assert post.predict({}, missing=True)["expected"][0] == pytest.approx(rates.sum())
    assert post.predict((2, 2, 0))["expected"][0] == pytest.approx(rates[2, 2, 0])


def test_the_sum_of_all_cells_is_that_of_the_trace():
    from allocore.posterior.convergence import expected

    post = labelled("negative-binomial", 0, missing=PATTERNS)
    totals, _ = expected(post.record, np.empty((3, 0), dtype=np.int64))
    _, draws = post.predict({}, draws=True)
    np.testing.assert_allclose(draws[0], totals.ravel(), rtol=1e-10)


# Intervals


def dense_quantiles(pmf_sum, levels):
    """The smallest counts whose cumulative probability, averaged over draws, reaches the levels."""
    return [int(np.searchsorted(np.cumsum(pmf_sum.mean(axis=0)), level)) for level in levels]


def cell_pmf(post, most=800):
    """The distributions of all cells in each draw."""
    return frozen(post).pmf(np.arange(most).reshape(-1, *[1] * 4))


def dense_pmf(pmf, chosen):
    """The distribution of the sum of some cells in each draw, by convolution of the distributions of its cells."""
    most, sums = len(pmf), []
    for s in range(pmf.shape[1]):
        waves = np.fft.rfft(pmf[:, s, chosen], 2 * most, axis=0).prod(axis=1)
        sums.append(np.fft.irfft(waves, 2 * most)[:most])
    assert np.sum(sums, axis=1) == pytest.approx(1.0, abs=1e-9)
    return np.array(sums)


@cache
def mixture_cdf(likelihood, by):
    cdf = frozen(labelled(likelihood, by, missing=PATTERNS)).cdf(np.arange(2000).reshape(-1, *[1] * 4))
    return cdf.mean(axis=1).reshape(2000, -1)


@parametrize_few("interval", [0.9, pytest.param(0.5, marks=pytest.mark.slow)])
@parametrize_few("walk", [1000, 0], ids=["walk", "bisection"])
@parametrize_few(("likelihood", "by"), KINDS)
def test_intervals_of_cells_are_the_quantiles_of_the_mixture(likelihood, by, interval, walk, monkeypatch):
    monkeypatch.setattr(mixture_quantiles, "_LONGEST_WALK", walk)
    table, cdf = labelled(likelihood, by, missing=PATTERNS).predict(CELLS, interval), mixture_cdf(likelihood, by)
    for name, level in (("low", 0.5 - interval / 2), ("high", 0.5 + interval / 2)):
        assert table[name].tolist() == (cdf < level).sum(axis=0).tolist()


@pytest.mark.parametrize(("likelihood", "by"), [("poisson", None), ("negative-binomial", None)])
def test_intervals_of_sums_are_exact_where_rates_add_up(likelihood, by):
    post = labelled(likelihood, by, missing=PATTERNS, scale=0.5)
    rows, pmf = without_empty(post), cell_pmf(post)
    table = post.predict(rows, 0.8)
    expected = [dense_quantiles(dense_pmf(pmf, inside(row, post, False)), (0.1, 0.9)) for row in rows]
    assert table[["low", "high"]].to_numpy().tolist() == expected


@pytest.mark.parametrize(("likelihood", "by"), [("negative-binomial", 2), ("bernoulli", None)])
def test_simulated_intervals_of_sums_have_their_probability(likelihood, by, monkeypatch):
    """With 20,000 simulated counts, a level is off by more than 0.02 with a probability below 1e-12 for each end."""
    monkeypatch.setattr(predict_by_name, "_SIMULATIONS", 20_000)
    post = labelled(likelihood, by, missing=PATTERNS, scale=0.5)
    rows, pmf = without_empty(post), cell_pmf(post)
    table = post.predict(rows, 0.8)
    for row, low, high in zip(rows, table["low"], table["high"], strict=True):
        cdf = np.cumsum(dense_pmf(pmf, inside(row, post, False)).mean(axis=0))
        for count, level in ((low, 0.1), (high, 0.9)):
            assert cdf[count] >= level - 0.02
            assert count == 0 or cdf[count - 1] < level + 0.02


@pytest.mark.parametrize(("likelihood", "log_odds"), [("poisson", 0.0), ("negative-binomial", 3.0)])
def test_large_rates_have_exact_intervals_too(likelihood, log_odds):
    post = labelled(likelihood, scale=1e6)
    if likelihood == "negative-binomial":
        post = Posterior(replace(post.record, log_odds=np.full((2, 9), log_odds)), 1)
    table, law = post.predict(CELLS, 0.9), frozen(post)
    assert table["expected"].max() > 1e5
    for name, level in (("low", 0.05), ("high", 0.95)):
        counts = table[name].to_numpy().reshape(SHAPE)
        assert (law.cdf(counts).mean(axis=0) >= level).all()
        assert (law.cdf(counts - 1).mean(axis=0) < level)[counts > 0].all()


def test_a_cell_that_is_impossible_has_an_interval_of_zero():
    post = labelled("poisson")
    record = replace(post.record, core_values=np.zeros_like(post.core_values))
    assert Posterior(record, 1).predict(CELLS)[["expected", "low", "high"]].to_numpy().max() == 0


@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_blocks_and_threads_do_not_matter(likelihood, by, monkeypatch):
    post = labelled(likelihood, by, missing=PATTERNS)
    whole = post.predict(CELLS)
    monkeypatch.setattr(predict_by_name, "_NUMBERS_AT_ONCE", 18 * 7)
    monkeypatch.setattr(mixture_quantiles, "_CELLS_PER_THREAD", 1)
    pd.testing.assert_frame_equal(Posterior(post.record, 3).predict(CELLS), whole)
    sums = without_empty(post)
    pd.testing.assert_frame_equal(Posterior(post.record, 3).predict(sums), post.predict(sums))


# Simulation


@pytest.mark.parametrize(("likelihood", "by"), KINDS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_draws_at_once_and_factors_that_are_not_kept_do_not_matter(likelihood, by, at_once, monkeypatch):
    post = labelled(likelihood, by, missing=PATTERNS)
    expected, draws = post.predict(CELLS, draws=True)
    monkeypatch.setattr(predict_by_name, "_DRAWS_AT_ONCE", at_once)
    monkeypatch.setattr(predict_by_name, "_CELLS_PER_THREAD", 2)
    monkeypatch.setattr(cell_sums, "_MOST_NUMBERS", 0)
    found, found_draws = Posterior(post.record, 3).predict(CELLS, draws=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert found_draws.tobytes() == draws.tobytes()


@parametrize_few(("likelihood", "by"), KINDS)
def test_simulated_counts_have_the_mean_and_the_variance_of_the_mixture(likelihood, by):
    """27 means and variances; each within 6 standard errors, which fails by chance once in some ten million times."""
    post, times = labelled(likelihood, by, missing=PATTERNS, scale=0.5), 18 * 400
    rows, of_cells = without_empty(post), cell_pmf(post)
    counts = post.simulate(rows, times, seed=3)
    assert counts.dtype == np.int64
    for n, row in enumerate(rows):
        pmf, values = dense_pmf(of_cells, inside(row, post, False)).mean(axis=0), np.arange(800)
        mean = (values * pmf).sum()
        second, fourth = (((values - mean) ** power * pmf).sum() for power in (2, 4))
        assert abs(counts[:, n].mean() - mean) < 6 * np.sqrt(second / times) + 1e-9
        error = np.sqrt(max(fourth - second**2, 0.0) / times)
        assert abs(counts[:, n].var() - second) < 6 * error + 6 * second / times + 1e-9


def test_simulated_counts_depend_on_the_seed_and_on_nothing_else():
    post = labelled("negative-binomial", 0)
    first = post.simulate(CELLS, 30, seed=5)
    assert first.tobytes() == Posterior(post.record, 3).simulate(CELLS, 30, seed=5).tobytes()
    assert (first != post.simulate(CELLS, 30, seed=6)).any()
    assert post.simulate(CELLS[:, :2]).shape == (18, 2)


def test_cells_of_one_simulated_draw_share_a_draw_of_the_posterior():
    """Two draws with rates of 0 and of thousands: all cells are zero, or none is."""
    post = labelled("poisson", chains=1, draws=2, scale=1e7)
    core = post.core_values * np.array([0.0, 1.0])[None, :, None]
    busy = np.flatnonzero(dense(post)[0][1].ravel() > 100)
    counts = Posterior(replace(post.record, core_values=core), 1).simulate(CELLS[:, busy], 6)
    assert (counts > 0).all(axis=1).tolist() == [False] * 3 + [True] * 3
    assert (counts == 0).all(axis=1).tolist() == [True] * 3 + [False] * 3


# What may be asked


def test_frames_of_all_kinds_dicts_tuples_and_coordinates_agree():
    post = labelled("poisson")
    coords = np.array([[0, 4, 2], [3, 0, 1], [2, 0, 1]])
    given = {name: [labels[d] for d in row] for name, labels, row in zip(NAMES, LABELS, coords, strict=True)}
    rows = pd.DataFrame(given)
    expected = post.expected(coords).tolist()
    categories = rows.astype("category")
    asked = [
        rows, categories, pl.DataFrame(given), rows.to_dict("records"), list(rows.itertuples(index=False, name=None)),
        coords, SimpleNamespace(coords=coords), rows.assign(when=rows["when"].astype(int)), rows[list(NAMES[::-1])],
        rows.assign(who=["Ada", 7.0, "Eve"]),
    ]  # fmt: skip
    for cells in asked:
        table = post.predict(cells)
        assert isinstance(table, pd.DataFrame)
        assert table["expected"].tolist() == pytest.approx(expected, rel=1e-12)
        assert set(table.columns) == {*NAMES, "expected", "low", "high"}
    assert post.predict(coords)[list(NAMES)].to_numpy().tolist() == rows.to_numpy().tolist()


def test_what_was_asked_is_told_and_other_columns_and_the_index_are_kept():
    post = labelled("poisson")
    frame = pd.DataFrame({"who": ["Ada", "Max"], "what": "x", "when": "2001", "expected": [5, 6]}, index=["a", "b"])
    table = post.predict(frame)
    assert list(table.columns) == ["who", "what", "when", "expected", "expected_", "low", "high"]
    assert table.index.tolist() == ["a", "b"]
    told = post.predict([{"when": "2001"}, {"who": ["Ada", "Max"]}])
    assert list(told.columns) == ["who", "when", "expected", "low", "high"]
    assert told["who"].tolist() == [None, ["Ada", "Max"]]
    assert list(post.predict({}).columns) == ["expected", "low", "high"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (slice("2001", "2002"), "2001 to 2002"),
        (slice("2002", None), "from 2002"),
        (slice(None, "2002"), "to 2002"),
        (slice(None, None, 2), "all, step 2"),
    ],
)
def test_a_slice_of_labels_is_told_in_words(asked, told):
    assert labelled("poisson").predict({"when": asked})["when"].tolist() == [told]


def test_empty_entries_and_absent_columns_are_sums():
    post = labelled("poisson")
    totals = post.predict([{"who": "Ada", "when": "2001"}, {"who": "Ada"}])["expected"].tolist()
    for empty in (None, np.nan, pd.NA):
        frame = pd.DataFrame({"who": ["Ada", "Ada"], "when": ["2001", empty]})
        assert post.predict(frame)["expected"].tolist() == pytest.approx(totals)
    assert post.predict(pl.DataFrame({"who": ["Ada", "Ada"], "when": ["2001", None]}))["expected"].tolist() == totals


def test_modes_without_labels_go_by_position():
    post = posterior_with("poisson")
    rate = post.expected([[1], [2], [0]]).tolist()
    for cell in ((1, 2, 0), ("1", 2.0, np.int64(0))):
        assert post.predict(cell)["expected"].tolist() == pytest.approx(rate)
    with refused("cells", "'5' in mode 'mode_0'", "a position from 0 to 4"):
        post.predict((5, 0, 0))


def test_labels_slices_and_longer_periods_mean_what_they_mean_to_select():
    post = labelled("poisson")
    months = tuple(f"20{year}-{month:02d}" for year, month in ((18, 11), (18, 12), (19, 1)))
    post = Posterior(replace(post.record, tensor=post.tensor.with_labels((*LABELS[:2], months), NAMES)), 1)
    for wanted in ("2018", ["2018", "2019-01"], slice("2018-12", "2020"), slice(None, None, 2), "2019-01"):
        rows = post.tensor.select(when=wanted).labels[2]
        assert post.predict({"when": wanted})["expected"].tolist() == pytest.approx(
            [sum(post.predict([{"when": month} for month in rows])["expected"])]
        )


@pytest.mark.parametrize(
    ("cells", "fragment"),
    [
        ({"who": "Adda"}, "did you mean 'Ada' or 'Adam'?"),
        ({"who": "max"}, "did you mean 'Max'?"),
        ({"who": "Zoe"}, "'Zoe'"),
        ({"when": "200"}, "did you mean '2003' or '2002' or '2001'?"),
        ([{"who": "Al"}, {"who": "Bo"}], "'Al'"),
        ({"whom": "Ada"}, "did you mean 'who'?"),
        ({"zzz": "Ada"}, "who, what, when"),
        (("Ada", "x"), "2"),
        ([("Ada", "x", None), "Ada"], "str"),
        ([], "at least one"),
        (pd.DataFrame({"who": []}), "at least one"),
        (pd.DataFrame({"x": [1]}), "who, what, when"),
        (pd.DataFrame({"who": ["Ada"], "wat": ["x"]}), "did you mean 'what'?"),
        (pd.DataFrame({"who": ["Ada"], "n": [1]}), "'n'"),
        (pl.DataFrame({"who": ["Ada"]}).lazy(), "LazyFrame"),
        (pd.DataFrame([["Ada", "x"]], columns=["who", "who"]), "cannot be read"),
        (5, "int"),
        ({"who": []}, "'who'"),
        ({"who": ["Ada", "Bo"]}, "'Bo'"),
        ({"who": ["Ada", None]}, "None"),
        ({"when": slice("2003", "2001")}, "slice('2003', '2001', None)"),
        ({"what": slice("x", "u")}, "'u'"),
    ],
)
def test_mistakes_are_named(cells, fragment):
    for ask in (labelled("poisson").predict, labelled("poisson").simulate):
        with refused("cells") as caught:
            ask(cells)
        assert fragment in str(caught.value)


def test_coordinates_outside_the_tensor_are_named():
    with refused("coords", "9 in mode 0 (who)", "below 5"):
        labelled("poisson").predict(np.array([[9], [0], [0]]))


@pytest.mark.parametrize("interval", [0.0, 1.0, 90, -0.1, "wide", None, np.nan, True])
def test_an_interval_is_a_probability(interval):
    with refused("interval", rule="above 0 and below 1"):
        labelled("poisson").predict({}, interval)


@pytest.mark.parametrize(("name", "value"), [("draws", 0), ("seed", -1)])
def test_draws_and_seed_are_whole_numbers(name, value):
    with refused(name, value):
        labelled("poisson").simulate({}, **{name: value})


@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_a_sum_without_an_observed_cell_is_refused(likelihood, by):
    post = labelled(likelihood, by, missing=[(None, None, 1)])
    with refused("cells", rule="position 1 has none; set `missing` to sum missing cells"):
        post.predict([{"when": "2001"}, {"when": "2002"}])
    assert post.predict({"when": "2002"}, missing=True)["expected"][0] > 0


def test_sums_that_are_too_large_are_refused(monkeypatch):
    monkeypatch.setattr(cell_sums, "MOST_PIECES", 1)
    with refused("cells", "sums that meet missing patterns in 2 places", "at most 1:"):
        labelled("poisson", missing=[(0, 0, 0), (1, 1, 1)]).predict({})
    monkeypatch.setattr(predict_by_name, "MOST_BERNOULLI_CELLS", 59)
    with refused("cells", "a sum of 60 cells", "at most 59 under the Bernoulli likelihood"):
        labelled("bernoulli").predict({})
    assert labelled("poisson").predict({})["expected"][0] > 0
