"""Forecasts of small runs: by brute force over draws and cells, by what they must not do, and by their errors."""

import pickle
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.findings import Finding
from allocore.forecast.forecast import cells_by
from allocore.forecast.scores import home_cells, observed_by
from allocore.forecast.time_factors import bytes_of_a_path, factor_counts
from allocore.model.likelihood import odds_of
from allocore.tensor.count_tensor import with_parts
from support.errors import refused
from support.findings import warned
from support.forecast_cases import MONTHS, NAMES, dense_rates, fitted, tensor, with_incomplete
from support.tiers import parametrize_few


@pytest.fixture(scope="module")
def post():
    return fitted(tensor(loops=False), likelihood="negative-binomial")


@pytest.fixture(scope="module")
def forecast(post):
    return post.forecast(horizon=2)


def test_it_is_about_the_periods_after_the_last(forecast):
    assert forecast.periods == ("2018-07", "2018-08")
    assert forecast.mode == "month"
    assert repr(forecast) == "Forecast of month 2018-07 to 2018-08: 400 paths of 10 draws, negative binomial"
    assert forecast.smoothness["weight"].sum() == pytest.approx(1.0)


def test_expected_counts_of_cells_and_sums_are_those_of_brute_force(forecast):
    record = forecast.record
    rates = dense_rates(record)
    odds = odds_of(record.log_odds).reshape(-1, 1, 1, 1)
    expected = (rates * odds).mean(axis=0)
    cells = [{"who": "A", "whom": "B", "month": "2018-08"}, {"who": "A", "month": "2018-07"}, {}]
    off = 1.0 - np.eye(4)
    brute = [expected[0, 1, 1], (expected[0, :, 0] * off[0]).sum(), (expected * off[:, :, None]).sum()]
    np.testing.assert_allclose(forecast.predict(cells)["expected"], brute, rtol=1e-9)
    whole = forecast.predict(cells, missing=True)["expected"]
    np.testing.assert_allclose(whole, [brute[0], expected[0, :, 0].sum(), expected.sum()], rtol=1e-9)


def test_quantiles_of_sums_are_those_of_simulated_counts(forecast):
    cells = [{"month": "2018-07"}, {"who": ["A", "B"]}]
    found = forecast.quantiles(cells, [0.1, 0.5, 0.9])
    counts = forecast.simulate(cells, draws=20_000, seed=1)
    for n in range(2):
        for level in ("0.1", "0.5", "0.9"):
            share = (counts[:, n] <= found[level][n]).mean()
            below = (counts[:, n] < found[level][n]).mean()
            assert below - 0.02 < float(level) < share + 0.02


def test_the_same_seed_gives_the_same_forecast_and_another_seed_another(post, forecast):
    again, other = post.forecast(2), post.forecast(2, seed=1)
    assert np.array_equal(again.record.factors[2], forecast.record.factors[2])
    assert not np.array_equal(other.record.factors[2], forecast.record.factors[2])


def test_all_but_the_time_factors_stays_as_it_is_in_the_draw(post, forecast):
    paths = forecast.record.core_values.shape[1] // post.core_values.shape[1]
    assert np.array_equal(forecast.record.factors[0], np.repeat(post.factors[0], paths, axis=1))
    assert np.array_equal(forecast.record.core_values, np.repeat(post.core_values, paths, axis=1))
    assert forecast.record.factors[2].shape == (2, 200, 2, 2)
    assert (forecast.record.factors[2] > 0.0).all()


def test_paths_copy_nothing_but_small_arrays(post, forecast):
    kept = forecast.record.factors[0]
    assert np.shares_memory(kept[1, 57], post.record.factors[0])
    assert np.shares_memory(forecast.record.core_locations[0, 3], post.record.core_locations)
    assert np.array_equal(kept[1, 57], post.factors[0][1, 57 // 40])
    assert np.array_equal(kept[1, 57, 2], post.factors[0][1, 1, 2])
    assert kept[1, 57, 2, 1] == post.factors[0][1, 1, 2, 1]
    assert np.array_equal(kept[:, 57, [0, 2]], post.factors[0][:, 1, [0, 2]])
    some = kept[::2, 1::30]
    assert np.shares_memory(some[0, 2], post.record.factors[0])
    assert np.array_equal(some, np.repeat(post.factors[0], 40, axis=1)[::2, 1::30])
    assert np.array_equal(2.0 * kept[0], 2.0 * np.repeat(post.factors[0], 40, axis=1)[0])
    assert np.array_equal(pickle.loads(pickle.dumps(kept)), kept)


def test_a_run_on_disk_is_forecast_without_reading_the_other_factors_whole(tmp_path, monkeypatch):
    from allocore.storage import lazy_array as stored_array

    model = ac.CP(2, burn_in=10, draws=5, thin=1, chains=2, seed=3, threads=1, progress=False, likelihood="poisson")
    held = model.fit(tensor()).posterior_
    held.save(tmp_path / "run.zarr")
    monkeypatch.setattr("allocore.storage.run_reader.READ_WHOLE_BYTES", 0)
    stored = ac.open_run(tmp_path / "run.zarr")
    assert isinstance(stored.record.factors[0], stored_array.StoredArray)
    expected = held.forecast(2).predict({"who": "A"})

    def refuse(*_):
        raise AssertionError("all draws were read")

    monkeypatch.setattr(stored_array.StoredArray, "read", refuse)
    pd.testing.assert_frame_equal(stored.forecast(2).predict({"who": "A"}), expected)


def test_short_memory_means_fewer_paths_and_no_memory_one_sentence(post, monkeypatch):
    each = bytes_of_a_path(post.record, 2, factor_counts(post.record, 2), 2)
    for module in ("_memory", "forecast.forecast"):
        monkeypatch.setattr(f"allocore.{module}.available_memory", lambda: 3 * each)
    assert post.forecast(2).record.core_values.shape[:2] == (2, 15)
    for module in ("_memory", "forecast.forecast"):
        monkeypatch.setattr(f"allocore.{module}.available_memory", lambda: each - 1)
    with pytest.raises(ac.InputError):
        post.forecast(2)


def test_counts_of_factors_add_up_to_the_expected_latent_counts(post):
    record = post.record
    found = factor_counts(record, 2)
    for number, place in enumerate(np.ndindex(record.core_values.shape[:2])):
        core, subs, phi = record.core_values[place], record.core_locations[place], [f[place] for f in record.factors]
        rates = sum(core[q] * np.einsum("i,j,t->ijt", *(phi[m][:, subs[q, m]] for m in range(3))) for q in range(2))
        latent = np.log1p(odds_of(record.log_odds[place])) * (rates * (1.0 - np.eye(4))[:, :, None]).sum(axis=(0, 1))
        np.testing.assert_allclose(found.counts_CT[found.draw_C == number].sum(axis=0), latent, rtol=1e-9)


def test_a_forecast_of_steady_counts_is_steady():
    rng = np.random.default_rng(1)
    coords = np.indices((4, 4, 12)).reshape(3, -1)
    rates = np.repeat(rng.gamma(1.0, 20.0, (4, 4)).ravel(), 12)
    Y = ac.CountTensor(coords, rng.poisson(rates), mode_names=NAMES, labels=[None, None, MONTHS])
    found = fitted(Y).forecast(3).predict([{"month": each} for each in ("2018-07", "2018-08", "2018-09")])
    mean = Y.total / 12
    np.testing.assert_allclose(found["expected"], mean, rtol=0.15)
    assert ((found["low"] < mean) & (mean < found["high"])).all()


def test_a_cell_that_was_never_observed_is_forecast_but_sums_leave_it_out():
    split = ac.hold_out(tensor(loops=False), fraction=0.2, along="month", seed=1)
    held = split.test.coords[:, 0]
    forecast = fitted(split.train).forecast(1)
    who, whom = "ABCD"[held[0]], "ABCD"[held[1]]
    assert forecast.predict({"who": who, "whom": whom, "month": forecast.periods[0]})["expected"][0] > 0.0
    pairs = {(int(i), int(j)) for i, j in split.test.coords[:2].T}
    assert forecast.record.tensor.missing.cells == 4 + len(pairs)
    some, every = (forecast.predict({"who": who}, missing=missing)["expected"][0] for missing in (False, True))
    assert some < every


def test_sums_by_label_are_those_with_cells_that_were_observed():
    Y = tensor(6).with_missing([("A", None, None), ("B", "C", None)])
    forecast = fitted(Y).forecast(1)
    (period,) = forecast.periods
    assert cells_by(forecast, "who") == [{"who": who, "month": period} for who in "BCD"]
    assert observed_by(forecast.record.tensor.missing, [0]).tolist() == [0, 3, 4, 4]
    assert len(cells_by(forecast, ["who", "whom"])) == 16, "single cells are always forecast"
    assert len(forecast.samples("who", draws=2)) == 6


def test_unobserved_and_absent_periods_are_skipped():
    labels = [*MONTHS[:5], *MONTHS[6:]]
    Y = tensor(11, labels=labels).mask(month="2017-09")
    forecast = fitted(Y).forecast(1)
    assert forecast.periods == ("2018-07",)
    steps = list(forecast.coming.past.steps())
    assert [row for row, _, _ in steps] == [0, 1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [gap for _, _, gap in steps] == [0, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    assert forecast.predict({})["expected"][0] > 0.0


@parametrize_few("e0", [0.01, 1.0], quick=1)
def test_a_source_that_was_missing_for_long_is_forecast_from_what_was_seen(e0):
    """Before month 28 nothing of D's cells was observed: its time factor is a draw from the prior there."""
    rates = np.zeros((4, 5, 36))
    rates[:3, :4], rates[3, 4] = 10.0, 200.0
    labels = [f"{2000 + t // 12}-{t % 12 + 1:02d}" for t in range(36)]
    Y = ac.as_tensor(np.random.default_rng(0).poisson(rates), mode_names=["source", "target", "month"])
    Y = Y.with_labels({"source": list("ABCD"), "month": labels}).with_missing([(3, None, t) for t in range(28)])
    found = fitted(Y, e0=e0).forecast(3).predict([{"source": "D"}, {"source": "A"}])
    np.testing.assert_allclose(found["expected"], [600.0, 120.0], rtol=0.1)
    assert (found["high"] - found["low"] < found["expected"]).all()


def test_a_gap_of_millions_of_periods_takes_no_time():
    Y = tensor(6, labels=["0", "1", "2", "3", "2000000000", "2000000001"])
    forecast = fitted(Y).forecast(2, mode="month")
    assert forecast.periods == ("2000000002", "2000000003")
    assert 0.0 < forecast.predict({})["expected"][0] < 20.0 * Y.total


def test_months_without_hyphens_go_on_as_months():
    post = fitted(tensor(labels=[label.replace("-", "") for label in MONTHS]))
    assert post.forecast(7, mode="month").periods[-2:] == ("201812", "201901")


def test_a_dispersion_for_each_period_goes_on_with_past_dispersions():
    post = fitted(tensor(), likelihood="negative-binomial", dispersion_by="month")
    record = post.forecast(2).record
    assert record.log_odds.shape == (2, 200, 2)
    for chain in range(2):
        for path in range(200):
            assert np.isin(record.log_odds[chain, path], post.record.log_odds[chain, path // 40]).all()
    same = record.log_odds[:, :, None, :] == post.record.log_odds[:, np.arange(200) // 40, :, None]
    chosen = same.argmax(axis=2)[..., 0]  # of the first coming period, in every path
    assert len(np.unique(chosen)) == 12
    near = tensor().mode_totals("month")[-3:].mean()
    assert 0.2 * near < post.forecast(1).predict({})["expected"][0] < 5.0 * near


@pytest.mark.parametrize(
    "how", [{"likelihood": "bernoulli"}, {"likelihood": "negative-binomial", "dispersion_by": "who"}]
)
def test_every_likelihood_can_be_forecast_and_scored(how):
    Y = tensor(seed=2)
    Y = Y.binarize() if how["likelihood"] == "bernoulli" else Y
    forecast = fitted(Y.select(month=slice("2017-07", "2018-04")), **how).forecast(2)
    scores = forecast.evaluate(Y)
    assert np.isfinite(scores.table[["crps", "ignorance", "interval_score", "absolute_error"]].to_numpy()).all()


def test_modes_without_labels_and_models_without_priors_can_be_forecast():
    Y = ac.as_tensor(np.random.default_rng(0).poisson(3.0, (4, 3, 8)))
    post = ac.NNTuck((2, 2, 2), restarts=1, max_iter=20, seed=0, progress=False).fit(Y).posterior_
    forecast = post.forecast(2, mode=2)
    assert forecast.periods == ("8", "9")
    assert forecast.predict({"mode_2": "8"})["expected"][0] > 0.0


def test_a_season_is_used_where_the_data_have_one():
    rng, index = np.random.default_rng(0), np.tile([0.3, 1.0, 1.7, 1.0], 6)
    labels = [f"{2000 + t // 4}-Q{t % 4 + 1}" for t in range(24)]
    counts = rng.poisson(40.0 * index, (4, 3, 24))
    post = fitted(ac.as_tensor(counts, mode_names=["a", "b", "time"]).with_labels({"time": labels}))
    cells = [{"time": label} for label in ("2006-Q1", "2006-Q2", "2006-Q3", "2006-Q4")]
    forecast = post.forecast(4)
    seasonal, plain = forecast.predict(cells), post.forecast(4, season=None).predict(cells)
    truth = 12 * 40.0 * index[:4]
    assert np.isfinite(forecast.smoothness["season"]).any()
    assert np.abs(seasonal["expected"] - truth).mean() < 0.5 * np.abs(plain["expected"] - truth).mean()


def test_samples_have_draws_as_rows(forecast, tmp_path):
    long = forecast.samples("who", draws=7, seed=2)
    assert list(long.columns) == ["who", "month", "draw", "outcome"]
    assert len(long) == 4 * 2 * 7
    assert long["draw"].tolist() == list(range(7)) * 8
    whole = forecast.simulate([{"who": "A", "month": "2018-07"}, *cells_by(forecast, "who")[1:]], 7, seed=2)
    assert long[(long["who"] == "A") & (long["month"] == "2018-07")]["outcome"].tolist() == whole[:, 0].tolist()
    assert len(forecast.samples()) == 2 * 400


def test_changes_compare_home_cells_with_the_last_periods(post, forecast):
    found = forecast.changes()
    summary = post.class_summary()
    assert found.index.tolist() == summary.number_C.tolist()
    assert (found["low"] <= found["expected"]).all()
    dense = post.tensor.to_dense()
    for place in range(len(found)):
        homes = [heaviest_half(summary.profile(place, m)) for m in range(2)]
        if len(homes[0]) == len(homes[1]) == 1 and homes[0][0] == homes[1][0]:  # a self-loop, which is missing
            homes = [summary.profile(place, m).heaviest(2) for m in range(2)]
        assert found["last"].iloc[place] == pytest.approx(dense[np.ix_(*homes, [10, 11])].sum() / 2)


def heaviest_half(profile):
    """The rows that hold half of a profile, one after another from the heaviest."""
    rows, held = [], 0.0
    for row in profile.heaviest(len(profile.share_D)):
        rows.append(row)
        held += profile.share_D[row]
        if held >= 0.5 * profile.share_D[profile.heaviest(len(profile.share_D))].sum():
            return rows
    raise AssertionError(profile)


@pytest.fixture(scope="module")
def cut_off(post):
    """The forecast of a run whose last period ends early."""
    with warned("incomplete-past", periods={"2018-06": (12, 30)}):
        return with_incomplete(post, {"2018-06": (12, 30)}).forecast(1)


def test_a_last_period_that_may_be_incomplete_is_said_aloud(cut_off):
    values = {"periods": {"2018-06": (12, 30)}, "last": True}
    assert cut_off.findings == (Finding("incomplete-past", "caution", values),)
    assert cut_off.last_incomplete == "2018-06"
    assert "2018-06" in repr(cut_off)


def test_an_earlier_incomplete_period_is_a_note(post):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        early = with_incomplete(post, {"2017-07": (2, 31), "2016-01": (1, 31)}).forecast(1)
    assert early.findings == (Finding("incomplete-past", "note", {"periods": {"2017-07": (2, 31)}, "last": False}),)
    assert early.last_incomplete is None


def test_changes_start_from_the_last_complete_period(post, cut_off):
    cells = home_cells(post.class_summary(), 2)
    past_NT = cut_off.compared.past.by_period(cells, cut_off.compared.tensor)
    np.testing.assert_array_equal(cut_off.changes()["last"], past_NT[:, -2])


def test_the_last_value_is_that_of_the_last_complete_period(post, cut_off):
    labels = [*post.tensor.labels[:2], ["2018-07"]]
    future = ac.CountTensor([[0], [1], [0]], [9], (4, 4, 1), mode_names=NAMES, labels=labels)
    scores = cut_off.evaluate(future).table.loc["totals"]
    last = post.tensor.mode_totals("month")[-2]
    assert scores.loc["last", "absolute_error"] == pytest.approx(abs(last - 9))


def test_an_incomplete_coming_period_is_not_scored(post):
    labels = [*post.tensor.labels[:2], ["2018-07", "2018-08"]]
    future = ac.CountTensor([[0, 1], [1, 0], [0, 1]], [9, 9], (4, 4, 2), mode_names=NAMES, labels=labels)
    report = ac.EventReport("custom", files=0, rows=9, kept=9, incomplete={"2018-08": (3, 31)})
    found = post.forecast(2).evaluate(with_parts(future, report=report))
    assert Finding("incomplete-not-scored", "caution", {"periods": {"2018-08": (3, 31)}}) in found.findings
    assert found.table.loc["totals", "number"].tolist()[0] == 1
    whole = replace(report, incomplete={"2018-07": (3, 31), "2018-08": (3, 31)})
    with refused("Y_future", rule="2018-07, 2018-08 may be incomplete"):
        post.forecast(2).evaluate(with_parts(future, report=whole))


def test_without_a_complete_period_nothing_is_compared(post):
    with warned("incomplete-past", periods=dict.fromkeys(MONTHS, (3, 31))):
        forecast = with_incomplete(post, dict.fromkeys(MONTHS, (3, 31))).forecast(1)
    assert forecast.changes()["last"].isna().all()


def test_the_figure_has_hollow_points_for_incomplete_periods(cut_off, forecast):
    def points(found):
        (panel,) = ac.figures.forecast(found).panels
        return [line.get_xdata().tolist() for line in panel.lines if line.get_label() == "incomplete"]

    assert points(cut_off) == [[11]]
    assert points(forecast) == []


def test_errors_say_what_cannot_be_forecast(post):
    with refused("horizon", 0):
        post.forecast(0)
    with refused("mode", "who", "periods of time as labels"):
        post.forecast(1, mode="who")
    with refused("season", 7, "at least 2 times into the 12 periods"):
        post.forecast(1, season=7)
    with refused("season", "yearly"):
        post.forecast(1, season="yearly")
    with refused("mode", "month", "2018-06 is missing"):
        fitted(tensor().mask(month="2018-06")).forecast(1)
    with refused("mode", "month", "at least 3 observed periods"):
        fitted(tensor(3).mask(month="2017-08")).forecast(1)
    with refused("mode", rule="the modes are who, whom, month"):
        fitted(tensor(4, labels=["w", "x", "y", "z"])).forecast(1)


def test_errors_of_a_forecast_name_the_argument(forecast):
    with refused("levels", [0.9, 0.1], "increasing"):
        forecast.quantiles({}, [0.9, 0.1])
    with refused("levels", [0.0, 0.5], "above 0"):
        forecast.quantiles({}, [0.0, 0.5])
    with refused("cells", "'2018-06' in mode 'month'"):
        forecast.predict({"month": "2018-06"})
    with refused("interval", 2.0):
        forecast.evaluate(tensor(), interval=2.0)
    with refused("draws", 100_000_000):
        forecast.samples("who", draws=100_000_000)


def test_a_table_of_cells_can_be_sampled(forecast):
    cells = pd.DataFrame({"who": ["A", "B"], "whom": ["B", "A"], "month": ["2018-07", "2018-08"]})
    assert len(forecast.samples(cells=cells, draws=3)) == 6


def test_every_long_step_of_a_forecast_shows_how_far_it_is(monkeypatch, capsys):
    post = fitted(tensor())
    monkeypatch.setattr("allocore.progress._SECONDS_BEFORE_A_BAR", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    post.forecast(2)
    shown = capsys.readouterr().err
    for step in ("time factors of all draws", "how the time factors continue", "paths of the future"):
        assert step in shown
