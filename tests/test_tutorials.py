"""The tutorials run, and what they say about their results is true."""

import re
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"
GROUPS = ("United States", "Sweden", "Colombia", "Saudi Arabia", "Indonesia")


@pytest.fixture
def run_tutorial(monkeypatch, tmp_path):
    """Run the Python of a tutorial in an empty folder, without the commands of its shell; returns its names."""

    def run(name):
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(TUTORIALS)
        page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        names = {}
        for cell in re.findall(r"```\{code-cell\}\n(.*?)```", page, flags=re.DOTALL):
            code = re.sub(r"\A(?::[a-z-]+:.*\n)+", "", cell).lstrip()
            if not code.startswith("!"):
                exec(compile(code, name, "exec"), names)
        return names

    return run


@pytest.mark.slow
def test_the_flights_are_predicted_better_than_by_the_baselines(run_tutorial):
    names = run_tutorial("flights")
    assert names["scores"].level == "good"
    assert names["longer"].core_values.shape == (8, 30, 20)


@pytest.mark.slow
def test_the_planted_classes_of_the_events_are_found(run_tutorial):
    names = run_tutorial("icews")
    strong = names["table"].query("not apart")
    assert len(strong) == len(names["CLASSES"])
    assert all(strong["name"].str.contains(country).any() for country in GROUPS)
    assert (strong["support"] == 1).all()


@pytest.mark.slow
def test_the_forecast_of_sales_is_ahead_by_cell_and_surprises_are_promotions(run_tutorial):
    names = run_tutorial("retail")
    by_cell = names["judged"].table["crps"].unstack().loc["cells"]
    assert by_cell.idxmin() == "forecast"
    assert len(names["known"]) >= 14
    coverage = {name: score.table.loc["model", "coverage_90_busy"] for name, score in names["scores"].items()}
    assert coverage["poisson"] < 0.85 < coverage["negative-binomial"]


@pytest.mark.slow
def test_the_communities_of_the_firm_are_found_and_predict_best(run_tutorial):
    names = run_tutorial("network")
    assert len(names["table"]) == 8
    assert names["table"]["from_factor"].nunique() == 5
    assert names["table"]["layer_factor"].nunique() == 3
    scores = {name: fit.posterior_.evaluate().table.loc["model", "log_ppd"] for name, fit in names["fits"].items()}
    assert max(scores, key=scores.get) == "AlloCore"
