"""Scores of forecasts and of simple ones, against dense sums over all cells, draws and counts."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import allocore as ac
from allocore.findings import sentence, sentences
from allocore.forecast import scores as forecast_scores
from allocore.forecast.scores import Series, SimpleForecast, past_pairs
from allocore.forecast.time_factors import Periods
from allocore.model.likelihood import dispersion_of
from allocore.posterior.predict import sampled
from support.errors import refused
from support.forecast_cases import dense_rates, fitted, tensor


@pytest.fixture(scope="module")
def whole():
    return tensor(loops=False)


@pytest.fixture(scope="module")
def forecast(whole):
    past = whole.select(month=slice("2017-07", "2018-04"))
    return fitted(past, likelihood="negative-binomial").forecast(2)


@pytest.fixture(scope="module")
def evaluation(forecast, whole):
    return forecast.evaluate(whole)


@pytest.fixture(scope="module")
def scores(evaluation):
    return evaluation.table


def dense_scores(probability_SY, observed, level=0.9):
    """CRPS, ignorance, interval score and absolute error of one count under the mean of some distributions."""
    probability = probability_SY.mean(axis=0)
    below, y = probability.cumsum(), np.arange(len(probability))
    low, high = (int(np.argmax(below >= each)) for each in (0.5 - level / 2, 0.5 + level / 2))
    outside = max(low - observed, 0) + max(observed - high, 0)
    return [
        ((below - (y >= observed)) ** 2).sum(),
        -np.log2(probability[observed]),
        high - low + 2 / (1 - level) * outside,
        abs((probability * y).sum() - observed),
    ]


def test_scores_of_cells_are_those_of_dense_sums(forecast, whole, scores):
    future, y = whole.to_dense()[:, :, 10:], np.arange(2000)
    record = sampled(forecast.record, forecast_scores.PATHS_FOR_CELLS)
    rates, p = dense_rates(record), dispersion_of(record.log_odds).ravel()
    cells = [(i, j, t) for i in range(4) for j in range(4) for t in range(2) if i != j]
    dense = np.array(
        [
            dense_scores(stats.nbinom.pmf(y, rates[:, i, j, t, None], 1.0 - p[:, None]), future[i, j, t])
            for i, j, t in cells
        ]
    )
    own = scores.loc[("cells", "forecast")]
    np.testing.assert_allclose(own[list(forecast_scores.SCORES)].astype(float), dense.mean(axis=0), rtol=1e-5)
    positive = np.array([future[cell] > 0 for cell in cells])
    own = scores.loc[("positive cells", "forecast")]
    np.testing.assert_allclose(own[list(forecast_scores.SCORES)].astype(float), dense[positive].mean(axis=0), rtol=1e-5)
    assert own["number"] == positive.sum()


def test_scores_of_totals_are_those_of_dense_sums(forecast, whole, scores):
    record, off = forecast.record, (1.0 - np.eye(4))[None, :, :, None]
    totals, p = (dense_rates(record) * off).sum(axis=(1, 2)), dispersion_of(record.log_odds).ravel()
    happened, y = whole.mode_totals("month")[10:], np.arange(5000)
    dense = [dense_scores(stats.nbinom.pmf(y, totals[:, t, None], 1.0 - p[:, None]), happened[t]) for t in range(2)]
    own = scores.loc[("totals", "forecast")]
    np.testing.assert_allclose(own[list(forecast_scores.SCORES)].astype(float), np.mean(dense, axis=0), rtol=1e-4)


def test_absolute_errors_of_simple_forecasts_are_those_of_plain_means_and_last_values(whole, scores):
    dense, off = whole.to_dense(), ~np.eye(4, dtype=bool)
    past, future = dense[:, :, :10], dense[:, :, 10:]
    expected = {"mean": past.mean(axis=2), "last": past[:, :, -1]}
    for name, means in expected.items():
        error = np.abs(means[:, :, None] - future)[off].mean()
        assert scores.loc[("cells", name), "absolute_error"] == pytest.approx(error)


def test_differences_and_their_errors_are_those_of_cells(forecast, whole, monkeypatch):
    seen = []
    add = forecast_scores.ScoreSums.add
    monkeypatch.setattr(
        forecast_scores.ScoreSums,
        "add",
        lambda self, scores, unit: (seen.append((scores, unit)), add(self, scores, unit)),
    )
    found = forecast.evaluate(whole).table.loc[("cells", "last")]
    scores, unit = seen[0]
    difference = scores[2, 0] - scores[0, 0]
    by_cell = np.array([difference[unit == each].sum() for each in np.unique(unit)])
    mean = difference.mean()
    assert found["crps_difference"] == pytest.approx(mean)
    error = np.sqrt(12 / 11 * ((by_cell - 2 * mean) ** 2).sum()) / len(difference)
    assert found["standard_error"] == pytest.approx(error)


def test_a_value_one_year_before_is_taken_from_that_period():
    counts, ones = np.arange(1, 31).reshape(2, 15), np.ones(3)
    past = Periods(np.arange(15), np.ones(15, dtype=bool), None)
    simple = SimpleForecast("year before", past, 12, np.ones(15))
    assert simple.means(Series.of_table(counts), 15, np.arange(15, 18), ones).tolist() == [[4, 5, 6], [19, 20, 21]]
    assert simple.means(Series.of_table(counts), 11, np.arange(11, 14), ones) is None
    long = SimpleForecast("year before", past, 2, np.ones(15))
    assert long.means(Series.of_table(counts), 15, np.arange(15, 18), ones)[0].tolist() == [14, 15, 14]


def test_simple_forecasts_are_per_unit_times_the_weights_of_the_periods():
    past, series = Periods(np.arange(4), np.ones(4, dtype=bool), None), Series.of_table(np.array([[8, 4, 6, 3]]))
    expected = {"mean": [6.0, 3.0], "last": [12.0, 6.0], "year before": [8.0, 2.0]}
    for name, means in expected.items():
        simple = SimpleForecast(name, past, 4, np.array([2.0, 2.0, 2.5, 0.5]))
        assert simple.means(series, 4, np.array([4, 5]), np.array([2.0, 1.0])).tolist() == [means]
    pairs = past_pairs(SimpleForecast("last", past, None, np.array([2.0, 2.0, 2.0, 0.5])), series, 1)
    assert (pairs.means[0], pairs.counts[0]) == (1.5, 3)  # 6 in a whole period


def test_a_period_that_was_not_observed_is_not_the_last_value():
    past = Periods(np.arange(4), np.array([True, True, True, False]), None)
    series = Series.of_table(np.array([[1, 2, 6, 0]]))
    for name, mean in (("last", 6.0), ("mean", 3.0)):
        simple = SimpleForecast(name, past, None, np.ones(4))
        assert simple.means(series, 4, np.array([4]), np.ones(1)).tolist() == [[mean]]


def test_findings_say_where_the_forecast_is_better_and_where_it_is_not(evaluation, scores):
    found = {each.values["scope"]: each for each in evaluation.findings if each.kind == "forecast-score"}
    assert list(found) == ["cells", "positive cells", "classes", "totals"]
    for scope, finding in found.items():
        own = scores.loc[scope]
        assert finding.values["crps"] == own["crps"].iloc[0]
        verdicts = {each["model"]: each["verdict"] for each in finding.values["others"]}
        assert verdicts == {
            name: "better" if row["crps_difference"] > 0 else "worse" for name, row in own.iloc[1:].iterrows()
        }
        better = set(verdicts.values()) == {"better"}
        assert (finding.level in ("good", "caution")) == better
        assert ("NOT better" in sentence(finding)) != better


def test_print_and_a_notebook_show_the_table_and_the_sentences(evaluation):
    assert evaluation.sentences == sentences(evaluation.findings)
    printed, shown = str(evaluation), evaluation._repr_html_()
    assert printed.endswith("\n".join(evaluation.sentences))
    assert f"{evaluation.table.loc[('totals', 'mean'), 'crps']:.4g}" in printed
    assert shown.count("<li>") == len(evaluation.findings)
    assert "<table" in shown


@pytest.mark.parametrize(
    ("difference", "error", "level", "ending"),
    [
        (1.0, 0.1, "good", "The forecast is better than all of these."),
        (1.0, 0.9, "caution", "The forecast is better than all of these, but not clearly."),
        (1.0, np.nan, "good", "The forecast is better than all of these."),
        (0.0, np.nan, "poor", "The forecast is NOT better than the last value."),
        (-1.0, 0.1, "poor", "The forecast is NOT better than the last value."),
    ],
)
def test_a_difference_is_clear_from_two_standard_errors_on(difference, error, level, ending):
    rows = {"forecast": (5, 2.0, np.nan, np.nan), "last": (5, 2.0 + difference, difference, error)}
    table = pd.DataFrame.from_dict(
        {(scope, name): row for scope in ("cells", "totals") for name, row in rows.items()},
        orient="index",
        columns=["number", "crps", "crps_difference", "standard_error"],
    )
    table.index = pd.MultiIndex.from_tuples(table.index, names=["scope", "model"])
    found = forecast_scores.score_findings(table)
    assert [finding.values["scope"] for finding in found] == ["cells", "totals"]
    for finding in found:
        assert finding.level == level
        assert sentence(finding).endswith(ending)


def test_a_table_of_scores_can_be_saved(scores, tmp_path):
    scores.reset_index().to_parquet(tmp_path / "scores.parquet")
    assert len(pd.read_parquet(tmp_path / "scores.parquet")) == len(scores)


def test_modes_and_labels_are_matched_by_name(forecast, whole, scores):
    turned = ac.CountTensor(
        whole.coords[[2, 1, 0]],
        whole.counts,
        whole.shape[::-1],
        mode_names=["month", "whom", "who"],
        labels=whole.labels[::-1],
    )
    again = forecast.evaluate(turned.select(month=["2018-05", "2018-06"])).table
    np.testing.assert_allclose(again.to_numpy(dtype=float), scores.to_numpy(dtype=float), rtol=1e-9)


def test_findings_name_new_labels_and_unknown_periods(forecast, whole):
    actors = ["A", "B", "C", "E"]
    strange = whole.with_labels({"who": actors, "whom": actors}).select(month=["2018-05"])
    found = forecast.evaluate(strange)
    assert found.table.loc[("totals", "forecast"), "number"] == 1
    values = {each.kind: each.values for each in found.findings}
    assert values["periods-scored"] == {"periods": ("2018-05",)}
    assert values["labels-without-forecast"]["labels"] == 2
    assert "Only 2018-05 of the coming periods could be scored." in found.sentences
    with refused("Y_future", rule="periods 2018-05, 2018-06 in mode 'month'"):
        forecast.evaluate(whole.select(month=slice("2017-07", "2018-04")))
    with refused("Y_future", rule="modes of the fitted tensor"):
        forecast.evaluate(whole.with_labels(mode_names=["who", "to", "month"]))


def test_missing_cells_of_the_future_are_not_scored(forecast, whole):
    found = forecast.evaluate(whole.with_missing([("A", "B", None), (None, None, "2018-06")]))
    assert found.table.loc[("cells", "forecast"), "number"] == 11


@pytest.mark.slow
def test_a_forecast_that_knows_more_has_better_scores():
    """Counts of a network whose levels wander: the forecast is better than the mean, as the last value is."""
    rng = np.random.default_rng(0)
    level = np.exp(np.cumsum(rng.normal(0.0, 0.5, (40, 3)), axis=0))
    shares = rng.dirichlet(np.full(12, 0.3), (2, 3))
    rates = 60.0 * np.einsum("ki,kj,tk->ijt", shares[0], shares[1], level)
    Y = ac.as_tensor(rng.poisson(rates), mode_names=["a", "b", "t"])
    labels = [f"{2000 + t // 12}-{t % 12 + 1:02d}" for t in range(40)]
    Y = Y.with_labels({"t": labels})
    # With ten draws a chain, the ratio to the mean is 0.67 to 0.81; with these, 0.68 to 0.73.
    model = ac.CP(3, likelihood="poisson", burn_in=100, draws=60, thin=2, chains=2, seed=0, progress=False)
    found = model.fit(Y.select(t=labels[:38])).posterior_.forecast(2).evaluate(Y).table.loc["cells"]["crps"]
    assert found["forecast"] < 0.8 * found["mean"]
    assert found["forecast"] < found["last"]
