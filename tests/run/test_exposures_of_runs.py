"""Fits with exposures, from settings to the disk and back, and everything downstream of a fit that uses them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

import allocore as ac
from allocore.report.terminal import settings_line
from allocore.run.chains import start_states
from support.errors import refused, refused_file
from support.same_draws import assert_same, assert_same_run

MONTHS = [f"2001-{month:02d}" for month in range(1, 9)]
WEIGHTS = dict(zip(MONTHS, [1.0, 1.0, 0.2, 1.0, 1.0, 2.0, 1.0, 0.5], strict=True))
COUNTRIES = [1.0, 3.0, 0.5, 1.0, 2.0]
SHAPE = (5, 4, 8)
MODES = {"month": ac.Mode(exposure=WEIGHTS), "country": ac.Mode(exposure=COUNTRIES)}
CHAIN = {"burn_in": 40, "draws": 12, "thin": 2, "chains": 2, "seed": 4, "threads": 1, "progress": False}
BURSTS = {"likelihood": "negative-binomial", "dispersion_by": "month", "e0": "infer"}


def counts():
    """Counts of the same rate in every month, times the weights of months and countries."""
    rates = np.multiply.outer(np.multiply.outer(COUNTRIES, [10.0, 20.0, 10.0, 5.0]), list(WEIGHTS.values()))
    return np.random.default_rng(1).poisson(rates)


def tensor(months=slice(None)):
    chosen = counts()[:, :, months]
    labels = [[f"C{n}" for n in range(5)], list("abcd"), MONTHS[months]]
    names = ("country", "action", "month")
    cells = np.indices(chosen.shape).reshape(3, -1)
    return ac.CountTensor(cells, chosen.ravel(), chosen.shape, mode_names=names, labels=labels)


MASKED = tensor().with_missing([("C0", "b", None), ("C2", None, "2001-04")])
KINDS = {
    "poisson": (ac.CP(2, likelihood="poisson", modes=MODES, **CHAIN)),
    "bursts": (ac.AlloCore(4, modes=MODES, **BURSTS, **CHAIN)),
}


@pytest.fixture(scope="module")
def posts():
    return {name: model.fit(MASKED).posterior_ for name, model in KINDS.items()}


@pytest.fixture(params=KINDS)
def post(request, posts):
    return posts[request.param]


def test_weights_of_one_change_nothing(posts):
    ones = {"month": ac.Mode(exposure=np.ones(8))}
    for model in (ac.CP(2, likelihood="poisson"), ac.AlloCore(4, **BURSTS)):
        plain, given = (clone(model).set_params(**CHAIN, modes=modes).fit(MASKED).posterior_ for modes in (None, ones))
        assert_same(plain, given)


def test_an_estimator_with_modes_can_be_cloned():
    model = KINDS["bursts"]
    assert clone(model).get_params()["modes"]["month"].exposure == WEIGHTS


def test_a_run_on_disk_has_its_exposures_and_goes_on_with_them(tmp_path, posts):
    path, short = tmp_path / "run.zarr", clone(KINDS["bursts"]).set_params(draws=5, store=tmp_path / "run.zarr")
    short.fit(MASKED)
    tree = ac.open_run(path).to_datatree()
    np.testing.assert_array_equal(tree["constant_data"]["exposure_2"], list(WEIGHTS.values()))
    longer = ac.AlloCore.resume(path, draws=12, threads=1, progress=False)
    assert_same(longer.posterior_, posts["bursts"])
    assert longer.modes["month"].exposure == tuple(WEIGHTS.values())
    assert_same_run(path, posts["bursts"])
    np.testing.assert_array_equal(ac.open_run(path).exposure("country"), COUNTRIES)


def test_exposures_that_have_changed_on_disk_are_damage(tmp_path, posts):
    path = tmp_path / "run.zarr"
    posts["poisson"].save(path)
    other = clone(KINDS["poisson"]).set_params(modes={"month": ac.Mode(exposure=np.arange(1.0, 9.0))}, draws=1, thin=1)
    other.set_params(store=tmp_path / "other.zarr").fit(MASKED)
    changed = "constant_data/exposure_2/0"
    (path / changed).write_bytes((tmp_path / "other.zarr" / changed).read_bytes())
    with refused_file(path):
        ac.open_run(path)


def test_shards_and_executors_give_the_draws_of_one_process(tmp_path, posts):
    MASKED.save(tmp_path / "y.zarr", shards=2)
    model = clone(KINDS["poisson"])
    assert_same(model.fit(ac.load_tensor(tmp_path / "y.zarr")).posterior_, posts["poisson"])
    with ThreadPoolExecutor(2) as pool:
        assert_same(model.set_params(executor=pool, threads=1).fit(MASKED).posterior_, posts["poisson"])


def test_predictions_have_the_weights_in_them_and_can_leave_them_out(post):
    cells = np.indices(SHAPE).reshape(3, -1)
    table, unit = post.predict(cells), post.predict(cells, per_unit=True)
    weights = np.take(COUNTRIES, cells[0]) * np.take(list(WEIGHTS.values()), cells[2])
    np.testing.assert_allclose(table["expected"], weights * unit["expected"], rtol=1e-12)
    np.testing.assert_allclose(post.expected(cells), table["expected"], rtol=1e-12)
    assert (unit["low"] <= unit["expected"] + 1).all()
    assert (unit["expected"] <= unit["high"] + 1).all()
    # Sums per unit are sums of rates per unit.
    months = post.predict([{"month": month} for month in MONTHS], per_unit=True)["expected"]
    observed = np.array([not MASKED.missing.contains(cell[:, None])[0] for cell in cells.T])
    np.testing.assert_allclose(months, np.bincount(cells[2][observed], unit["expected"][observed]), rtol=1e-10)


def test_predictions_per_unit_are_those_of_a_fit_without_exposures():
    plain = ac.CP(2, **CHAIN).fit(tensor()).posterior_
    assert plain.predict({"month": MONTHS[0]}, per_unit=True).equals(plain.predict({"month": MONTHS[0]}))


def test_profiles_are_per_unit_so_that_a_short_month_is_no_dip(post):
    for summary in (post.class_summary(), post.class_summary("best")):
        profile = summary.profiles[2][0].share_D
        assert profile.max() < 2.0 * profile.min()  # the counts differ by a factor of ten
    # The expected counts of the largest cells have the weights in them again.
    top = post.top_cells(0, draw=-1, top=3)
    assert top["country"].iloc[0] == "C1"


def test_tables_for_other_programs_are_per_unit(post):
    for table, number in (("profiles", "class"), ("factors", "factor")):
        months = post.consensus(progress=False).to_frame(table).query("mode == 'month'")
        first = months[months[number] == months[number].iloc[0]]
        assert set(first["label"]) == set(MONTHS)
        assert first["share"].max() < 2.0 * first["share"].min()


def test_a_short_month_is_no_surprise_and_the_data_look_like_the_model(posts):
    assert posts["poisson"].surprises(top=1)["surprise"].iloc[0] < 5.0
    found = posts["poisson"].check(draws=40)
    assert np.isfinite(found.simulated.to_numpy(dtype=float)).all()
    np.testing.assert_allclose(found.simulated["total"].mean(), MASKED.total, rtol=0.1)


def test_new_rows_have_the_exact_conditional_given_their_weights():
    """With one class no count is allocated, so each new row is gamma: e0 + y, f0 / w + X."""
    modes = {**MODES, "month": ac.Mode(exposure=list(WEIGHTS.values())[:6])}
    model = ac.CP(1, likelihood="poisson", modes=modes, **{**CHAIN, "draws": 200, "thin": 1})
    post = model.fit(tensor(slice(0, 6))).posterior_
    new = tensor(slice(6, 8))
    with refused("exposure"):
        post.fold_in(new, "month", progress=False)
    folded = post.fold_in(new, "month", exposure={"2001-07": 1.0, "2001-08": 0.5}, sweeps=1, progress=False)
    np.testing.assert_array_equal(folded.exposure("month"), [1.0, 0.5])
    country, action, month = folded.factors
    reach = folded.core_values[..., 0] * country[..., 0].sum(axis=2) * action[..., 0].sum(axis=2)
    for row, weight in enumerate((1.0, 0.5)):
        scaled = month[:, :, row, 0] * (10.0 / weight + reach)
        law = stats.gamma(1.0 + new.mode_totals("month")[row])
        assert stats.kstest(scaled.ravel(), law.cdf).pvalue > 1e-4
    prior = stats.gamma(1.0, scale=np.array([1.0, 0.5]) / 10.0)
    log_joint = folded.stats["log_likelihood"] + (prior.logpdf(month[..., 0]) + np.log(month[..., 0])).sum(axis=2)
    assert folded.best_draw() == np.unravel_index(log_joint.argmax(), log_joint.shape)
    unit = folded.predict([{"month": "2001-07"}, {"month": "2001-08"}], per_unit=True)["expected"]
    assert unit[1] == pytest.approx(unit[0], rel=0.3)


def test_a_forecast_needs_the_weights_of_its_periods_and_scales_with_them(post):
    with refused("exposure"):
        post.forecast(2)
    one, two = (post.forecast(2, exposure=given) for given in ([1.0, 1.0], {"2001-09": 2.0, "2001-10": 0.5}))
    np.testing.assert_array_equal(two.record.spec.exposure(2), [2.0, 0.5])
    cells = [{"month": month, "country": "C1"} for month in one.periods]
    expected, scaled = one.predict(cells)["expected"], two.predict(cells)["expected"]
    np.testing.assert_allclose(scaled, expected * [2.0, 0.5], rtol=1e-9)
    weights = 3.0 * np.array([2.0, 0.5])  # of C1, and of the months
    np.testing.assert_allclose(two.predict(cells, per_unit=True)["expected"] * weights, scaled, rtol=1e-9)
    changes = two.changes()
    assert changes["ratio"].between(0.5, 2.0).all()  # per unit, nothing changes
    np.testing.assert_allclose(changes["expected"], one.changes()["expected"], rtol=1e-9)
    before = post.predict([{"month": "2001-01", "country": "C1"}])["expected"][0]
    assert 0.4 * before < expected[0] < 2.5 * before  # a full month, although the last one was half as long


def test_classes_over_time_and_their_forecast_are_per_unit():
    days = ac.Mode(exposure=np.array([31.0, 28, 31, 30, 31, 30, 31, 15]))
    post = ac.CP(1, likelihood="poisson", modes={"month": days}, **CHAIN).fit(tensor()).posterior_
    past = post.class_summary().counts(2, days.exposure).mean_CD[0]
    assert past @ days.exposure == pytest.approx(post.class_summary().value_C[0])
    one, month = (post.forecast(1, exposure=[weight]) for weight in (1.0, 31.0))
    coming = one.by_class()["expected"][0]
    assert coming == pytest.approx(one.predict([{"month": "2001-09"}])["expected"][0], rel=0.05)
    assert coming == pytest.approx(month.by_class()["expected"][0])
    figure = ac.figures.over_time(post, forecast=month)
    lines = {line.get_gid(): line.get_ydata() for line in figure.panels[0].lines}
    np.testing.assert_allclose(lines["past"], past)
    assert lines["coming"][1] == pytest.approx(coming)


def test_a_refit_starts_at_the_same_rates_per_unit(posts):
    post = posts["poisson"]
    other = ac.CP(2, likelihood="poisson", modes={"month": ac.Mode(exposure=np.full(8, 3.0))})._spec(MASKED)
    (state,) = start_states(post.record, MASKED, other, 1)
    unit = post.record.per_unit()
    np.testing.assert_allclose(state.factors(2), 3.0 * unit.factors[2][0, -1], rtol=1e-12)
    np.testing.assert_allclose(state.factors(0), unit.factors[0][0, -1], rtol=1e-12)


def test_a_comparison_fits_with_the_settings_of_single_modes_and_goes_on_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr("allocore.comparison.compare.write", lambda *_: None)
    short = {"burn_in": 4, "draws": 2, "thin": 1, "chains": 1, "likelihood": "poisson"}
    known = ac.AlloCore(2, modes={**MODES, "action": ac.Mode(e0=0.5, factors=1)}, **short)
    how = {"splits": 1, "hold_out": 0.1, "along": "month", "out": tmp_path}
    with ThreadPoolExecutor(1) as here:
        found, again = (ac.compare(MASKED, {"known": known}, executor=here, **how) for _ in range(2))
    assert "'month': Mode(exposure=8 weights)" in found.models["known"]
    pd.testing.assert_frame_equal(again.table, found.table)
    split = ac.hold_out(MASKED, 0.1, along="month", seed=0)
    post = clone(known).set_params(seed=0, threads=1, progress=False).fit(split).posterior_
    (row,) = found.table.to_dict("records")
    assert row["log_ppd"] == pytest.approx(post.evaluate().table.loc["model", "log_ppd"])
    assert row["core_shape"] == "2x1x2"
    other = {**known.modes, "month": ac.Mode(exposure=np.arange(1, 9))}
    with refused("models", rule="with other weights"):
        ac.compare(MASKED, {"known": clone(known).set_params(modes=other)}, **how)
    with refused("modes"):
        ac.compare(MASKED, {"known": ac.CP(2, modes={"action": ac.Mode(factors=1)})}, splits=1)


def test_the_settings_of_a_run_name_the_modes_with_exposures(posts):
    assert "country, month" in settings_line(posts["poisson"].record)


def test_a_fit_is_judged_with_its_exposures(posts):
    split = ac.hold_out(tensor(), 0.1, along="month", seed=2)
    given, plain = (
        clone(KINDS["poisson"]).set_params(modes=modes).fit(split).posterior_.evaluate() for modes in (MODES, None)
    )
    assert given.table.loc["model", "log_ppd"] == pytest.approx(plain.table.loc["model", "log_ppd"], abs=1.0)
    assert given.table.loc["one rate", "log_ppd"] > plain.table.loc["one rate", "log_ppd"] + 1.0
    assert np.isfinite(posts["bursts"].diagnose().table.to_numpy(dtype=float)).any()
