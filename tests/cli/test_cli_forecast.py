"""allocore forecast: what it prints and writes, and its errors."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.files import read_frame
from support.command_line import assert_refused
from support.forecast_cases import fitted, tensor


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    fitted(tensor(10)).save(place / "run.zarr")
    tensor(12).save(place / "whole.npz")
    return place


def test_it_prints_totals_and_changes(run, folder):
    code, told, _ = run("forecast", folder / "run.zarr", "--horizon", 2)
    assert code == 0
    totals = tensor(10).mode_totals("month")
    assert "Forecast of month 2018-05 to 2018-06: 400 paths of 10 draws, Poisson" in told
    for label, total in zip(["2018-03", "2018-04"], totals[-2:], strict=True):
        assert any(line.split()[:2] == [label, f"{total:,}"] for line in told.splitlines())
    row = ac.open_run(folder / "run.zarr").forecast(2).predict([{"month": "2018-05"}])
    line = next(line for line in told.splitlines() if line.split()[:1] == ["2018-05"])
    assert line.split()[1:] == [f"{row['expected'][0]:,.0f}", f"{row['low'][0]:,}", f"{row['high'][0]:,}"]
    assert "expected to" in told


def test_it_writes_quantiles_and_draws_and_draws_the_largest_sums(run, folder, tmp_path):
    code, told, err = run(
        "forecast", folder / "run.zarr", "--horizon", 1, "--by", "who", "--by", "whom", "--out",
        tmp_path / "forecast.csv", "--draws-out", tmp_path / "draws.parquet", "--figure", tmp_path / "fan.png",
    )  # fmt: skip
    assert (code, err) == (0, "")
    words = " ".join(told.split())
    assert f"16 forecasts written to {tmp_path / 'forecast.csv'}" in words
    assert f"6,400 draws written to {tmp_path / 'draws.parquet'}" in words
    assert "12 largest of 16 sums" in words
    table, long = pd.read_csv(tmp_path / "forecast.csv"), read_frame(tmp_path / "draws.parquet", "x")
    assert list(table.columns) == ["who", "whom", "month", "expected", "0.05", "0.25", "0.5", "0.75", "0.95"]
    assert list(long.columns) == ["who", "whom", "month", "draw", "outcome"]
    assert np.issubdtype(long["outcome"].dtype, np.integer)
    again = ac.open_run(folder / "run.zarr").forecast(1).samples(["who", "whom"])
    assert long["outcome"].tolist() == again["outcome"].tolist()
    assert (tmp_path / "fan.png").read_bytes().startswith(b"\x89PNG")
    assert "2018-05" in (tmp_path / "fan.txt").read_text(encoding="utf-8")


def test_it_takes_a_table_of_cells_and_scores_what_happened(run, folder, tmp_path):
    (tmp_path / "cells.csv").write_text("who,whom,month\nA,B,2018-05\nA,,\n")
    code, told, _ = run(
        "forecast", folder / "run.zarr", "--horizon", 2, "--cells", tmp_path / "cells.csv", "--against",
        folder / "whole.npz", "--season", "none",
    )  # fmt: skip
    assert code == 0
    assert any(line.split()[:3] == ["A", "all", "all"] for line in told.splitlines())
    assert "By cell, the CRPS of the forecast is" in " ".join(told.split())
    assert "CRPS: " in told, "the scores are explained"
    forecast = ac.open_run(folder / "run.zarr").forecast(2, season=None)
    for sentence in forecast.evaluate(ac.load_tensor(folder / "whole.npz")).sentences:
        assert " ".join(told.split()).count(sentence) == 1, "nothing is said twice"


def test_it_is_scored_against_a_table_of_events(run, tmp_path):
    rng, days = np.random.default_rng(2), pd.date_range("2024-01-01", "2024-08-31")
    rows = {"who": rng.choice(list("ABC"), len(days)), "whom": rng.choice(list("ABC"), len(days)), "day": days.date}
    table = pd.DataFrame(rows)
    past = table[table["day"] < pd.Timestamp("2024-08-01").date()]
    Y = ac.read_events(past.astype(str), modes={"from": "who", "to": "whom"}, time="day")
    fitted(Y).save(tmp_path / "run.zarr")
    table.iloc[len(past) :].assign(who="New").to_csv(tmp_path / "new.csv", index=False)
    table.iloc[len(past) :].to_csv(tmp_path / "august.csv", index=False)
    words = ["forecast", tmp_path / "run.zarr", "--horizon", 1, "--against"]
    code, out, err = run(*words, tmp_path / "august.csv")
    assert (code, err) == (0, "")
    assert "CRPS: " in out
    code, out, _ = run(*words, tmp_path / "new.csv")
    assert (code, "Left out: 31 counts of 1 label" in " ".join(out.split())) == (0, True)
    code, _, err = run(*words, tmp_path / "no.csv")
    assert (code, err.startswith("allocore: error: --against is ")) == (2, True)


@pytest.mark.parametrize(
    ("words", "option", "value", "rule"),
    [
        (["--horizon", "0"], "--horizon", 0, "at least 1"),
        (["--mode", "who"], "--mode", "'who'", "'D'"),
        (["--season", "soon"], "--season", "'soon'", "'auto', 'none' or a whole number"),
        (["--out", "forecast.txt"], "--out", "'forecast.txt'", ".csv, .tsv or .parquet"),
        (["--figure", "fan.txt"], "--figure", "'fan.txt'", ".png, .pdf or .svg"),
        (["--by", "who", "--cells", "cells.csv"], "--cells", "'cells.csv'", ""),
    ],
)
def test_mistakes_end_with_one_line(run, folder, words, option, value, rule):
    assert_refused(run("forecast", folder / "run.zarr", *words), option, value, rule)
