"""Forecasts of runs with missing cells: past, future and simple forecasts are compared in the same cells."""

import itertools

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.findings import Finding
from allocore.forecast.scores import SCORES, Series, SimpleForecast, home_cells, past_pairs
from allocore.forecast.time_factors import Periods
from allocore.tensor.count_tensor import with_parts
from allocore.tensor.missing import Missing
from support.forecast_cases import dense_rates, fitted, tensor

LABELS = [f"{2000 + t // 12}-{t % 12 + 1:02d}" for t in range(33)]
SIMPLE = ("mean", "last", "year before")


@pytest.fixture(scope="module")
def steady():
    """Counts with steady rates: nothing rises and nothing falls."""
    rng = np.random.default_rng(5)
    rates = rng.gamma(2.0, 2.0, (8, 1, 1)) * rng.gamma(2.0, 1.0, (1, 8, 1)) * np.ones(33)
    Y = ac.as_tensor(rng.poisson(rates), mode_names=["who", "whom", "month"])
    return Y.with_labels({"who": list("ABCDEFGH"), "whom": list("abcdefgh"), "month": LABELS})


@pytest.fixture(scope="module")
def held_out(steady):
    """A forecast from a run with held-out fibres along time, and which cells it has seen."""
    train = ac.hold_out(steady.select(month=LABELS[:30]), 0.1, along="month", seed=1).train
    seen = ~train.missing.contains(np.indices((8, 8, 1)).reshape(3, -1)).reshape(8, 8)
    assert seen.sum() == 58
    return fitted(train).forecast(3), seen


@pytest.fixture(scope="module")
def whole(steady):
    """A forecast from a run without missing cells."""
    return fitted(steady.select(month=LABELS[:30])).forecast(3)


def simple_errors(past, future):
    """The mean absolute errors of the mean, the last value and the value one year before, (N, T) each."""
    means = {"mean": past.mean(axis=1)[:, None], "last": past[:, -1:], "year before": past[:, -12:][:, :3]}
    return {name: np.abs(each - future).mean() for name, each in means.items()}


def test_cells_that_were_never_observed_are_not_scored(steady, held_out):
    forecast, seen = held_out
    evaluation, dense = forecast.evaluate(steady), steady.to_dense()
    found = evaluation.table
    assert found.loc[("cells", "forecast"), "number"] == 3 * 58
    cells, totals = dense[seen], dense[seen].sum(axis=0)[None, :]
    for scope, counts in (("cells", cells), ("totals", totals)):
        for name, error in simple_errors(counts[:, :30], counts[:, 30:]).items():
            assert found.loc[(scope, name), "absolute_error"] == pytest.approx(error)
    expected = (dense_rates(forecast.record).mean(axis=0) * seen[:, :, None]).sum(axis=(0, 1))
    error = np.abs(expected - totals[0, 30:]).mean()
    assert found.loc[("totals", "forecast"), "absolute_error"] == pytest.approx(error)
    assert Finding("cells-never-observed", "note", {"cells": 6}) in evaluation.findings


@pytest.mark.slow
def test_a_run_with_held_out_cells_is_judged_as_one_without(steady, held_out, whole):
    forecast, seen = held_out
    assert "cells-never-observed" not in {finding.kind for finding in whole.evaluate(steady).findings}
    held = [("ABCDEFGH"[i], "abcdefgh"[j], None) for i, j in np.argwhere(~seen)]
    found, judged = forecast.evaluate(steady).table, whole.evaluate(steady.with_missing(held)).table
    assert found["number"].tolist() == judged["number"].tolist()
    for name in SIMPLE:
        own, other = found.loc[("totals", name)], judged.loc[("totals", name)]
        np.testing.assert_allclose(own[list(SCORES)].astype(float), other[list(SCORES)].astype(float), rtol=1e-9)
        own, other = found.loc[("cells", name)], judged.loc[("cells", name)]
        assert own["absolute_error"] == pytest.approx(other["absolute_error"])
        assert own["crps"] == pytest.approx(other["crps"], rel=0.01)  # the noise is that of all series of the past
    assert found.loc[("cells", "forecast"), "crps"] == pytest.approx(
        judged.loc[("cells", "forecast"), "crps"], rel=0.05
    )


def test_nothing_is_said_to_rise_because_it_was_held_out(held_out):
    forecast, seen = held_out
    found = forecast.changes()
    homes, dense = home_cells(forecast.fitted.class_summary(), 2), forecast.fitted.tensor.to_dense()
    for place, home in enumerate(homes):
        rows = np.ix_(["ABCDEFGH".index(each) for each in home["who"]], ["abcdefgh".index(e) for e in home["whom"]])
        assert found["last"].iloc[place] == pytest.approx(dense[rows][:, :, 27:].sum() / 3)
        expected = (dense_rates(forecast.record).mean(axis=0) * seen[:, :, None])[rows].sum() / 3
        assert found["expected"].iloc[place] == pytest.approx(expected)
    np.testing.assert_allclose(found["ratio"], 1.0, atol=0.25)


def test_a_class_at_home_in_cells_that_were_never_observed_has_no_past(steady, whole):
    home = home_cells(whole.fitted.class_summary(), 2)[0]
    pairs = [(who, whom, None) for who, whom in itertools.product(home["who"], home["whom"])]
    found = whole.evaluate(steady.with_missing(pairs)).table
    assert found.loc[("classes", "forecast"), "number"] == 3 * (len(whole.changes()) - 1)
    hidden = Missing(steady.with_missing(pairs).missing.patterns, (8, 8, 3))
    compared = with_parts(whole.compared.tensor, missing=hidden)
    assert np.isnan(whole.compared.past.by_period([home], compared)).all()
    assert np.isfinite(whole.compared.past.by_period([{}], compared)).all()


def test_a_series_with_gaps_has_the_mean_of_its_observed_periods(steady):
    train = ac.hold_out(steady.select(month=LABELS[:30]), 0.2, along="whom", seed=1).train
    evaluation = fitted(train).forecast(3).evaluate(steady)
    dense = steady.to_dense().astype(float)
    dense[:, :, :30][train.missing.contains(np.indices((8, 8, 30)).reshape(3, -1)).reshape(8, 8, 30)] = np.nan
    filled = np.where(np.isnan(dense), np.nanmean(dense[:, :, :30], axis=2)[:, :, None], dense).reshape(64, 33)
    for scope, counts in (("cells", filled), ("totals", filled.sum(axis=0)[None, :])):
        for name, error in simple_errors(counts[:, :30], counts[:, 30:]).items():
            assert evaluation.table.loc[(scope, name), "absolute_error"] == pytest.approx(error)
    assert Finding("cells-filled-in", "note", {"cells": int(np.isnan(dense).sum())}) in evaluation.findings


def test_sums_leave_out_what_is_missing_in_the_future(steady, whole):
    dense = steady.to_dense()
    largest = "ABCDEFGH"[int(dense.sum(axis=(1, 2)).argmax())]
    found = whole.evaluate(steady.with_missing([(largest, None, None), ("A", "b", LABELS[31])])).table
    seen = np.ones((8, 8, 3), dtype=bool)
    seen["ABCDEFGH".index(largest)] = False
    seen[0, 1, 1] = False
    totals = (dense[:, :, 30:] * seen).sum(axis=(0, 1))
    expected = (dense_rates(whole.record).mean(axis=0) * seen).sum(axis=(0, 1))
    mean = (dense[:, :, :30].mean(axis=2)[:, :, None] * seen).sum(axis=(0, 1))
    own = found.loc["totals"]["absolute_error"]
    assert own["forecast"] == pytest.approx(np.abs(expected - totals).mean())
    assert own["mean"] == pytest.approx(np.abs(mean - totals).mean())


def test_a_series_that_different_patterns_hide_in_every_period_was_never_observed():
    Y = tensor(4)
    months = Y.labels[2]
    Y = Y.with_missing(
        [("A", None, months[0]), (None, "B", months[1]), ("A", "B", months[3]), ("A", "C", months[3]), ("D", "D", None)]
    ).mask(month=months[2])
    compared = fitted(Y).forecast(2).compared
    missing = compared.tensor.missing
    dense = Y.missing.contains(np.indices(Y.shape).reshape(3, -1)).reshape(Y.shape).all(axis=2)
    found = missing.contains(np.indices((4, 4, 2)).reshape(3, -1)).reshape(4, 4, 2)
    assert np.array_equal(found, np.repeat(dense[:, :, None], 2, axis=2))
    assert np.argwhere(dense).tolist() == [[0, 1], [3, 3]]
    assert compared.left_out == 2


@pytest.mark.slow
def test_the_standard_error_of_totals_is_that_of_three_periods(steady, held_out):
    found = held_out[0].evaluate(steady).table.loc["totals"]
    one_by_one = [
        held_out[0].evaluate(steady.select(month=[month])).table.loc["totals"]["crps_difference"]["mean"]
        for month in LABELS[30:]
    ]
    assert found["standard_error"]["mean"] == pytest.approx(np.std(one_by_one, ddof=1) / np.sqrt(3))


def test_one_period_has_no_standard_error(steady, held_out):
    found = held_out[0].evaluate(steady.select(month=[LABELS[30]])).table.loc["totals"]
    assert np.isnan(found["standard_error"]).all()


def test_the_year_before_is_tested_on_the_periods_that_were_observed():
    number = np.array([0, 1, 2, 3, 4, 5, 7, 8])  # period 6 is absent
    counts = 10 * number[None, :] + 1
    simple = SimpleForecast("year before", Periods(number, np.ones(8, dtype=bool), None), 4, np.ones(8))
    pairs = past_pairs(simple, Series.of_table(counts), 3)
    told = sorted(zip(pairs.means.tolist(), pairs.counts.tolist(), pairs.repeats.tolist(), strict=True))
    assert told == [(0.0, 0, 0.0), (11.0, 51, 1.0), (31.0, 71, 1.0), (41.0, 81, 1.0)]


def test_figure_and_command_show_the_past_of_the_cells_that_they_forecast(run, held_out, tmp_path):
    forecast, seen = held_out
    past, held = forecast.fitted.tensor.mode_totals("month"), np.argwhere(~seen)[0]
    expected = (dense_rates(forecast.record).mean(axis=0) * seen[:, :, None]).sum(axis=(0, 1))
    unseen = {"who": "ABCDEFGH"[held[0]], "whom": "abcdefgh"[held[1]]}
    total, alone = ac.figures.forecast(forecast, [{}, unseen]).panels[:2]
    grey, blue = total.lines[:2]
    assert grey.get_ydata().tolist() == past.tolist()
    np.testing.assert_allclose(blue.get_ydata()[1:], expected, rtol=0.1)
    assert np.isnan(alone.lines[0].get_ydata()).all()
    assert (alone.lines[1].get_ydata()[1:] > 0).all()
    forecast.fitted.save(tmp_path / "run.zarr")
    code, told, _ = run("forecast", tmp_path / "run.zarr", "--horizon", 3)
    assert code == 0
    lines = [line.split() for line in told.splitlines()]
    assert [LABELS[29], f"{past[-1]:,}"] in lines
    assert next(line[1] for line in lines if line[:1] == ["2002-07"]) == f"{expected[0]:,.0f}"
    assert all(sentence in " ".join(told.split()) for sentence in forecast.sentences)


def test_a_total_is_the_same_number_in_the_table_the_file_the_draws_and_the_figure(run, held_out, tmp_path):
    forecast, seen = held_out
    brute = (dense_rates(forecast.record).mean(axis=0) * seen[:, :, None]).sum(axis=(0, 1))
    totals = [{"month": period} for period in forecast.periods]
    table = forecast.predict(totals)
    np.testing.assert_allclose(table["expected"], brute)
    assert forecast.findings == (Finding("cells-never-observed", "note", {"cells": 6}),)
    forecast.fitted.save(tmp_path / "run.zarr")
    code, told, _ = run("forecast", tmp_path / "run.zarr", "--horizon", 3, "--out", tmp_path / "totals.csv")
    assert code == 0
    file = pd.read_csv(tmp_path / "totals.csv")
    printed = {line.split()[0]: line.split()[1:] for line in told.splitlines() if line.split()[:1]}
    for row, (low, high), expected in zip(
        table.itertuples(), file[["0.05", "0.95"]].to_numpy().tolist(), file["expected"].tolist(), strict=True
    ):
        assert printed[row.month] == [f"{row.expected:,.0f}", f"{row.low:,}", f"{row.high:,}"]
        assert (expected, low, high) == (pytest.approx(row.expected), row.low, row.high)
    (panel,) = ac.figures.forecast(forecast).panels
    assert panel.lines[1].get_ydata()[1:].tolist() == file["0.5"].tolist()
    assert forecast.samples(seed=0).groupby("month")["outcome"].mean().to_numpy() == pytest.approx(brute, rel=0.05)
    whole = forecast.predict(totals, missing=True)["expected"]
    np.testing.assert_allclose(whole, dense_rates(forecast.record).mean(axis=0).sum(axis=(0, 1)))
