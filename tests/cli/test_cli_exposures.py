"""allocore fit --exposure, and the weights of new rows and of coming periods."""

import json

import numpy as np
import pandas as pd
import pytest

import allocore as ac

MONTHS = [f"2018-{month:02d}" for month in range(1, 7)]
WEIGHTS = [1.0, 1.0, 0.5, 1.0, 2.0, 0.25]
SHORT = ("--budget", 2, "--sweeps", 8, "--chains", 1, "--seed", 1, "--likelihood", "poisson", "--threads", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exposures")
    rates = np.multiply.outer(np.full((4, 3), 5.0), [*WEIGHTS, 1.0])
    counts, labels = np.random.default_rng(1).poisson(rates), [None, None, [*MONTHS, "2018-07"]]
    Y = ac.as_tensor(counts, mode_names=["who", "what", "month"], labels=labels)
    Y.select(month=slice(None, "2018-06")).save(folder / "y.npz")
    Y.select(month="2018-07").save(folder / "july.npz")
    table(folder / "days.csv", MONTHS, WEIGHTS)
    table(folder / "july.csv", ["2018-07"], [1.0])
    table(folder / "text.csv", MONTHS, [*WEIGHTS[:-1], "half"])
    table(folder / "gap.csv", MONTHS, [*WEIGHTS[:-1], None])
    table(folder / "coming.csv", ["2018-07", "2018-08"], [1.0, 2.0])
    return folder


def table(path, labels, weights):
    pd.DataFrame({"month": labels, "days": weights}).to_csv(path, index=False)


@pytest.fixture(scope="module")
def fitted(folder):
    model = ac.AlloCore(2, sweeps=8, chains=1, seed=1, likelihood="poisson", threads=1, progress=False)
    model.set_params(modes={"month": ac.Mode(exposure=WEIGHTS)}, store=folder / "known.zarr")
    return model.fit(ac.load_tensor(folder / "y.npz")).posterior_


def test_weights_in_a_file_are_those_of_the_fit(run, folder, fitted, tmp_path):
    code, _, _ = run(
        "fit", folder / "y.npz", *SHORT, "--exposure", f"month={folder / 'days.csv'}", "--out", tmp_path / "run"
    )
    assert code == 0
    post = ac.open_run(tmp_path / "run")
    assert post.exposure("month").tolist() == WEIGHTS
    assert post.core_values.tobytes() == fitted.core_values.tobytes()


def test_events_are_weighed_by_their_days_from_the_table_to_the_forecast(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = pd.date_range("2018-01-01", "2018-04-12").strftime("%Y-%m-%d")
    rows = [(who, what, day) for day in days for who in "AB" for what in "xy"]
    pd.DataFrame(rows, columns=["who", "what", "day"]).to_csv("events.csv", index=False)
    read, shares = ("--modes", "who,what", "--time", "day"), [1.0, 1.0, 1.0, 12 / 30]
    assert run("fit", "events.csv", *read, *SHORT, "--incomplete", "exposure", "--out", "run.zarr")[0] == 0
    assert ac.open_run("run.zarr").exposure("day").tolist() == shares
    assert run("tensor", "events.csv", *read, "--exposure", "days", "--out", "y.npz")[0] == 0
    assert ac.load_tensor("y.npz").exposures["day"]["2018-02"] == pytest.approx(28 / 30.436875)
    code, told, warned = run("forecast", "run.zarr", "--horizon", 1, "--json")
    assert (code, "too low" in warned) == (0, False)
    assert json.loads(told)["totals"][0]["expected"] == pytest.approx(4 * 30, rel=0.5)
    code, _, told = run("tensor", "events.csv", *read, "--exposure", "day=days.csv", "--out", "z.npz")
    assert (code, "--exposure" in told) == (2, True)


def test_a_comparison_takes_weights(run, folder, tmp_path, monkeypatch):
    asked, weights = [], ("--exposure", f"month={folder / 'days.csv'}")

    def stop(Y, budgets, *, model, **_):
        asked.append(model)
        raise ac.InputError("budgets", budgets, "are not tried here")

    monkeypatch.setattr(ac, "select_budget", stop)
    run("select-budget", folder / "y.npz", *weights)
    assert asked[0].modes["month"].exposure.tolist() == WEIGHTS
    code, _, told = run("compare", folder / "y.npz", *weights, "--models", "nntuck", "--out", tmp_path / "other")
    assert (code, "--exposure" in told) == (2, True)


def test_new_rows_and_forecasts_take_weights_of_their_own(run, folder, fitted, tmp_path):
    out = tmp_path / "july"
    known = folder / "known.zarr"
    code, _, _ = run(
        "fold-in", known, folder / "july.npz", "--exposure", folder / "july.csv", "--sweeps", 2, "--out", out
    )
    assert (code, ac.open_run(out).exposure("month").tolist()) == (0, [1.0])
    predicted = tmp_path / "forecast.csv"
    code, _, _ = run(
        "forecast", known, "--horizon", 2, "--exposure", folder / "coming.csv", "--by", "who", "--out", predicted
    )
    assert code == 0
    again = fitted.forecast(2, exposure=[1.0, 2.0]).predict({"who": 0, "month": "2018-08"})
    found = pd.read_csv(predicted).query("who == 0 and month == '2018-08'")
    assert found["expected"].iloc[0] == pytest.approx(again["expected"].iloc[0])


def test_a_report_has_the_forecast_of_periods_with_weights(run, folder, fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    page = tmp_path / "page.html"
    code, _, told = run("report", "known.zarr", "--horizon", 2, "--out", page)
    assert (code, "--exposure" in told, page.exists()) == (2, True, False)
    code, _, told = run("report", "known.zarr", "--horizon", 0, "--exposure", "coming.csv", "--out", page)
    assert (code, "--exposure" in told, page.exists()) == (2, True, False)
    assert run("report", "known.zarr", "--horizon", 2, "--exposure", "coming.csv", "--out", page)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert ('"perUnit":true' in text, "2018-08" in text) == (True, True)


def test_predictions_per_unit(run, folder, fitted, tmp_path):
    pd.DataFrame({"month": MONTHS}).to_csv(tmp_path / "cells.csv", index=False)
    for options, per_unit in (((), False), (("--per-unit",), True)):
        assert (
            run("predict", folder / "known.zarr", tmp_path / "cells.csv", *options, "--out", tmp_path / "p.csv")[0] == 0
        )
        expected = fitted.predict([{"month": month} for month in MONTHS], per_unit=per_unit)["expected"]
        np.testing.assert_allclose(pd.read_csv(tmp_path / "p.csv")["expected"], expected)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{days}", "month=days.csv"),
        ("month={folder}/none.csv", "none.csv"),
        ("year={days}", "who, what, month"),
        ("month={days} 2={days}", "once"),
        ("who={days}", "2018-01"),
        ("month={july}", "2018-07"),
        ("month={folder}/text.csv", "'half' for '2018-06'"),
        ("month={folder}/gap.csv", "row 6"),
    ],
)
def test_weights_that_are_wrong_end_with_one_sentence(run, folder, text, words):
    given = text.format(days=folder / "days.csv", july=folder / "july.csv", folder=folder)
    exposures = [word for each in given.split() for word in ("--exposure", each)]
    code, _, told = run("fit", folder / "y.npz", *SHORT, *exposures)
    assert code == 2
    assert told.count("\n") == 1
    assert "--exposure" in told
    assert words in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "y.npz", "--model", "nntuck", "--core-shape", "2x2x2", "--exposure", "month=days.csv"),
        ("fold-in", "known.zarr", "july.npz"),
        ("forecast", "known.zarr"),
    ],
)
def test_weights_that_a_command_needs_or_cannot_use_are_refused(run, folder, fitted, arguments, monkeypatch):
    monkeypatch.chdir(folder)
    code, _, told = run(*arguments)
    assert (code, told.count("\n")) == (2, 1)
    assert "--exposure" in told
