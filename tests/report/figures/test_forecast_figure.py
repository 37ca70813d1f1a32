"""The figure of a forecast: what it draws, in new axes and in given ones, and what it refuses."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import allocore as ac
from support.errors import refused


@pytest.fixture(scope="module")
def forecast():
    rng = np.random.default_rng(0)
    labels = [f"2018-{month:02d}" for month in range(1, 9)]
    Y = ac.as_tensor(rng.poisson(4.0, (3, 3, 8)), mode_names=["who", "whom", "month"]).with_labels(
        {"who": ["A$", "B", "C"], "whom": ["A$", "B", "C"], "month": labels}
    )
    Y = Y.mask(month="2018-03")
    model = ac.CP(2, burn_in=5, draws=3, thin=1, seed=0, progress=False, chains=1)
    return model.fit(Y).posterior_.forecast(2)


def test_it_shows_the_past_and_the_quantiles_of_the_future(forecast):
    panel = ac.figures.forecast(forecast, {"who": "B"}).panels[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == (forecast.mode, "counts")
    past = forecast.fitted.tensor.to_dense()[1].sum(axis=0).astype(float)
    past[2] = np.nan
    np.testing.assert_array_equal(panel.lines[0].get_ydata(), past)
    middle = forecast.quantiles([{"who": "B", "month": each} for each in forecast.periods])["0.5"]
    assert panel.lines[1].get_ydata().tolist() == [past[-1], *middle]
    assert panel.get_title(loc="left") == "B"


def test_every_sum_has_a_panel_and_the_total_is_the_default(forecast):
    cells = [{"who": "A$"}, {"who": ["B", "C"], "whom": "A$"}, {}]
    assert [panel.get_title(loc="left") for panel in ac.figures.forecast(forecast, cells).panels] == [
        "A$",
        "B, C / A$",
        "all cells",
    ]
    assert len(ac.figures.forecast(forecast).panels) == 1


def test_it_draws_into_given_axes_and_can_be_saved(forecast, tmp_path):
    ax = Figure(figsize=(4, 3)).add_subplot()
    assert ac.figures.forecast(forecast, None, ax) is ax
    ax.figure.savefig(tmp_path / "fan.png")
    assert (tmp_path / "fan.png").stat().st_size > 1000


def test_periods_and_unknown_labels_are_refused(forecast):
    with refused("cells", {"month": "2018-09"}, rule="'month'"):
        ac.figures.forecast(forecast, {"month": "2018-09"})
    with refused("cells", "Z"):
        ac.figures.forecast(forecast, {"who": "Z"})
    with refused("cells", "0 sums", rule="1 to 60"):
        ac.figures.forecast(forecast, [])
