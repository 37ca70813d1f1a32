"""Weights of periods by their observed days: read from events, kept with the tensor, and used by fits."""

import warnings

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.count_tensor import with_parts
from support.errors import refused
from support.findings import warned

CUT = pd.date_range("2024-01-01", "2024-03-24").strftime("%Y-%m-%d")
AVERAGE = 365.2425 / 12
BY_DAYS = {"2024-01": 31 / AVERAGE, "2024-02": 29 / AVERAGE, "2024-03": 24 / AVERAGE}
BY_SHARE = {"2024-01": 1.0, "2024-02": 1.0, "2024-03": 24 / 31}
HOW = {"burn_in": 10, "draws": 5, "thin": 1, "chains": 1, "seed": 1, "progress": False}


def table(dates, each=2):
    rows = [(store, "tea", day) for day in dates for store in "AB" for _ in range(each)]
    return pd.DataFrame(rows, columns=["store", "item", "day"])


def read(dates=CUT, each=2, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ac.read_events(table(dates, each), modes=["store", "item"], time="day", **how)


def test_weights_by_days_are_those_that_were_observed_of_an_average_period():
    assert read(exposure="days").exposures == {"day": pytest.approx(BY_DAYS)}
    assert read(incomplete="exposure").exposures == {"day": BY_SHARE}
    assert read(exposure="days", incomplete="drop").exposures == {
        "day": pytest.approx({label: BY_DAYS[label] for label in ("2024-01", "2024-02")})
    }
    weeks = read(CUT[:21], exposure="days", freq="week").exposures["day"]
    assert list(weeks.values()) == [1.0, 1.0, 1.0]
    assert read(incomplete="drop").exposures == {}


def test_a_period_without_an_observed_day_is_missing():
    dates = [*CUT[:31], *pd.date_range("2024-03-01", "2024-03-31").strftime("%Y-%m-%d")]
    Y = read(dates, each=20, incomplete="exposure")
    assert Y.incomplete == {"2024-02": (0, 29)}
    assert Y.missing.observed_rows(2).tolist() == [True, False, True]
    assert list(Y.exposures["day"].values()) == [1.0, 1.0, 1.0]


def test_the_tensor_keeps_its_weights(tmp_path):
    Y = read(exposure="days")
    for name in ("y.npz", "y.parquet", "y.zarr"):
        Y.save(tmp_path / name)
        assert ac.as_tensor(tmp_path / name).exposures == Y.exposures
    assert ac.hold_out(Y, 0.4, along="store", seed=1).train.exposures == Y.exposures
    assert Y.select(day="2024-03").exposures == {"day": {"2024-03": Y.exposures["day"]["2024-03"]}}
    renamed = Y.with_labels({"period": ["one", "two", "three"]}, mode_names=["store", "item", "period"])
    assert renamed.exposures == {"period": dict(zip(("one", "two", "three"), Y.exposures["day"].values(), strict=True))}
    assert renamed.incomplete == {"three": (24, 31)}


def test_more_events_are_weighed_like_those_that_they_continue():
    for how, april in (({"exposure": "days"}, 30 / AVERAGE), ({"incomplete": "exposure"}, 1.0)):
        Y = read(**how)
        later = ac.read_events(table(pd.date_range("2024-04-01", "2024-04-30").strftime("%Y-%m-%d")), like=Y)
        both = ac.concat([Y, later], mode="day")
        assert both.exposures == {"day": {**Y.exposures["day"], "2024-04": pytest.approx(april)}}
    with warned("weights-lost"):
        ac.concat([Y, with_parts(later, report=None)], mode="day")


@pytest.mark.parametrize(
    ("how", "argument"),
    [
        ({"exposure": "months"}, "exposure"),
        ({"exposure": "days", "freq": "day"}, "exposure"),
        ({"incomplete": "weigh"}, "incomplete"),
    ],
)
def test_weights_that_cannot_be_computed_are_refused(how, argument):
    with refused(argument):
        read(**how)
    with refused("exposure"):
        ac.read_events(table(CUT), modes=["store", "item"], exposure="days")
    with refused("report"):
        ac.EventReport.from_json(read(exposure="days").report.to_json().replace('"2024-02": ', '"2024-02": -'))


def test_a_fit_uses_the_weights_of_the_tensor_unless_it_has_others():
    Y = read(each=10, incomplete="exposure")
    post = ac.CP(1, likelihood="poisson", **HOW).fit(Y).posterior_
    assert post.exposure("day").tolist() == list(BY_SHARE.values())
    shares = post.class_summary().profiles[2][0].share_D
    assert shares[2] == pytest.approx(shares[0], rel=0.2)  # the counts of March are 24/31 of those of January
    other = ac.CP(1, modes={"day": ac.Mode(exposure=np.ones(3))}, **HOW).fit(Y).posterior_
    assert other.exposure("day").tolist() == [1.0, 1.0, 1.0]
    frame = pd.DataFrame({"month": list(BY_DAYS)[::-1], "days": [24, 29, 31]})
    by_frame = ac.CP(1, modes={"day": ac.Mode(exposure=frame)}, **HOW).fit(Y).posterior_
    assert by_frame.exposure("day").tolist() == [31, 29, 24]
    with refused("exposure"):
        ac.CP(1, modes={"day": ac.Mode(exposure=frame.assign(more=1))}, **HOW).fit(Y)


@pytest.mark.parametrize(
    ("how", "coming"), [({"exposure": "days"}, [30, 31]), ({"incomplete": "exposure"}, [AVERAGE] * 2)]
)
def test_coming_periods_and_new_rows_have_their_days(how, coming):
    Y = read(each=10, **how)
    post = ac.CP(1, likelihood="poisson", **HOW).fit(Y).posterior_
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the last period is incomplete, but the fit allows for it
        forecast = post.forecast(2)
    assert forecast.record.spec.exposure(2).tolist() == pytest.approx(np.array(coming) / AVERAGE)
    daily = forecast.predict({"day": "2024-04"})["expected"][0] / 30
    assert daily == pytest.approx(20, rel=0.35)
    night = ac.read_events(table(["2024-04-01", "2024-04-02"], 10), like=Y)
    folded = post.fold_in(night, "day", sweeps=1, progress=False)
    assert folded.exposure("day") == pytest.approx(2 / (AVERAGE if "exposure" in how else 30))
