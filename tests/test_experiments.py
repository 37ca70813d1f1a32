"""The experiments: what is simulated is what was planted, and every command is there and can be asked for help."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import allocore as ac

FOLDER = Path(__file__).parents[1] / "experiments"
COMMANDS = [
    *("agreement", "reproducibility", "budgets", "forecasting"),
    *("wall_clock", "recovery", "qualitative", "dispersion"),
    *("synthetic", "differences", "published", "learning_curves"),
]


@pytest.fixture
def networks(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import networks

    return networks


def test_a_simulated_network_has_the_shares_that_were_planted(networks):
    size = networks.Size(20, 6, 12, 60_000, communities=4, topics=3, regimes=3, classes=8, wars=2)
    found = networks.simulate(size, seed=1)
    assert found.tensor.shape == (20, 20, 6, 12)
    assert len(found.tensor.missing) == 20, "the diagonal"
    senders, receivers = (found.factors[mode][:, found.locations_QM[:, mode]] for mode in (0, 1))
    value_Q = found.values_Q * (1.0 - (senders * receivers).sum(axis=0))  # nobody acts upon itself
    for mode in (2, 3):
        planted = found.factors[mode][:, found.locations_QM[:, mode]] @ (value_Q / value_Q.sum())
        seen = found.tensor.mode_totals(mode) / found.tensor.total
        assert np.abs(seen - planted).max() < 0.01, "four standard deviations of 50,000 events are below that"


def test_wars_are_fought_in_a_few_months(networks):
    found = networks.simulate(networks.QUICK, seed=2)
    wars = found.locations_QM[:, 3] >= networks.QUICK.regimes
    assert wars.sum() == networks.QUICK.wars
    profiles = found.factors[3][:, found.locations_QM[wars, 3]]
    assert (np.sort(profiles, axis=0)[-4:].sum(axis=0) > 0.95).all()


def test_the_same_seed_gives_the_same_network(networks):
    one, two = (networks.simulate(networks.QUICK, seed=3).tensor for _ in range(2))
    assert one.coords.tobytes() == two.coords.tobytes()
    assert one.counts.tobytes() == two.counts.tobytes()


def test_experiments_take_data_from_a_file(networks, tmp_path):
    import setting

    tensor = networks.simulate(networks.QUICK, seed=3).tensor
    tensor.save(tmp_path / "network.npz")
    assert setting.tensor_of(str(tmp_path / "network.npz"), False, 0).nnz == tensor.nnz


@pytest.mark.slow
def test_predicted_and_actual_agreement_are_compared(tmp_path):
    ac.load_flights().save(tmp_path / "flights.npz")
    words = [tmp_path / "flights.npz", "--budget", 5, "--sweeps", 20, "--chains", 16, "--out", tmp_path]
    command = [sys.executable, FOLDER / "reproducibility.py", *words]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    points = pd.read_csv(tmp_path / "points.csv")
    assert (points["chains"] == 8).all()
    assert points[["predicted", "actual"]].stack().between(0, 1).all()
    assert (tmp_path / "reproducibility.png").stat().st_size > 10_000


def test_bursts_repeat_events_and_change_nothing_else(networks):
    plain, bursty = (networks.simulate(networks.QUICK, seed=3, bursts=share).tensor for share in (0.0, 0.1))
    np.testing.assert_array_equal(plain.coords, bursty.coords)
    extra = (bursty.total / plain.total - 1.0) / 0.1
    assert extra == pytest.approx(networks.MEAN_BURST - 1, rel=0.1), "five standard deviations of 8,000 bursts"
    assert bursty.counts.var() / bursty.counts.mean() > 1.5 * plain.counts.var() / plain.counts.mean()


def test_every_event_of_a_burst_counts_at_least_twice(networks):
    repeats = networks.repeated(1000, 1.0, np.random.default_rng(0))
    assert repeats.min() == 2
    assert (networks.repeated(1000, 0.0, np.random.default_rng(0)) == 1).all()


def test_bursts_are_for_simulated_data_alone(networks):
    import setting

    with pytest.raises(typer.BadParameter, match="needs simulated data"):
        setting.tensor_of("y.npz", False, 0, 0.1)
    with pytest.raises(typer.BadParameter, match="from 0 to 1"):
        setting.tensor_of(None, False, 0, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_every_experiment_has_a_quick_and_a_full_form(networks, name):
    command = typer.Typer(add_completion=False)
    command.command()(importlib.import_module(name).main)
    parameters = {option for each in typer.main.get_command(command).params for option in each.opts}
    assert {"--full", "--out"} <= parameters


def test_the_readme_of_the_experiments_names_them_all():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"python experiments/{name}.py" in text


def test_the_qualitative_run_goes_on_and_refuses_other_data(monkeypatch, tmp_path, networks):
    import qualitative

    tensor = ac.as_tensor(np.random.default_rng(0).poisson(1.0, (5, 5, 3, 4)))
    path = tmp_path / "run.zarr"
    ac.AlloCore(2, burn_in=2, draws=2, thin=1, seed=0, store=path, progress=False, chains=1).fit(tensor)
    assert qualitative.go_on(path, tensor, 0).posterior_.finished
    with pytest.raises(typer.BadParameter, match="other data or another seed"):
        qualitative.go_on(path, tensor, 1)


def test_the_papers_file_becomes_a_tensor_by_month_and_by_year(networks, tmp_path):
    import published

    counts = np.random.default_rng(0).poisson(0.3, (4, 4, 3, 25))
    months = np.arange("1995-01", "1997-02", dtype="datetime64[M]")
    names = {"actors": np.array(["AAA", "BBB", "CCC", "DDD"]), "actions": np.array(["Consult", "Fight", "Yield"])}
    np.savez_compressed(tmp_path / "data_compressed.npz", Y=counts, dates=months, **names)
    tensor = published.read_dyadic(tmp_path / "data_compressed.npz")
    np.testing.assert_array_equal(tensor.to_dense(), counts)
    assert tensor.labels[0] == tensor.labels[1] == tuple(names["actors"].tolist())
    assert (tensor.labels[3][0], tensor.labels[3][-1]) == ("1995-01", "1997-01")
    by_year = published.years(tensor)
    assert by_year.labels[3] == ("1995", "1996", "1997")
    expected = np.stack([counts[..., :12].sum(axis=3), counts[..., 12:24].sum(axis=3), counts[..., 24]], axis=3)
    np.testing.assert_array_equal(by_year.to_dense(), expected)


def test_the_command_of_the_papers_figures_runs_each_experiment_on_its_tensor(networks, tmp_path, monkeypatch):
    import published

    np.savez_compressed(
        tmp_path / "data.npz", Y=np.ones((2, 2, 2, 13)), actors=["A", "B"], actions=["x", "y"],
        dates=np.arange("1995-01", "1996-02", dtype="datetime64[M]"),
    )  # fmt: skip
    seen = {}
    for name in ("budgets", "wall_clock", "qualitative"):
        command = getattr(published, name)
        monkeypatch.setattr(
            command, "main", lambda data, name=name, **how: seen.update({name: ac.load_tensor(data).shape})
        )
    published.main(tmp_path / "data.npz", out=tmp_path / "out")
    assert seen == {"budgets": (2, 2, 2, 2), "wall_clock": (2, 2, 2, 2), "qualitative": (2, 2, 2, 13)}


def test_synthetic_data_have_the_published_factors(networks):
    import synthetic

    planted = synthetic.simulate(30, 3, 6, 400.0, np.random.default_rng(0))
    assert planted.truth == (3, 3, 2, 6)
    assert planted.tensor.shape == (30, 30, 5)
    assert synthetic.THIRD.sum(axis=0).tolist() == [5.0, 5.0]
    share = planted.tensor.mode_totals(2) / planted.tensor.total
    assert share[2] == pytest.approx(0.2, abs=0.01), "both columns have a fifth in the third row"


def test_the_figure_and_the_coverage_of_synthetic_data(networks, tmp_path):
    import synthetic

    trace = np.array([[9, 9, 9, 9]] * 10 + [[3, 4, 5, 6]] * 5 + [[4, 4, 5, 6]] * 5)
    found = synthetic.summaries(trace, (3, 3, 5, 7), {"likelihood": "poisson", "step": "ours"})
    table = synthetic.coverage(pd.DataFrame(found))
    assert table["inside"].iloc[0].tolist() == [1, 0, 1, 0]
    assert table["above"].iloc[0].tolist() == [0.5, 1.0, 0.0, -1.0]
    synthetic.draw(trace, (3, 3, 5, 7), tmp_path / "synthetic.png")
    assert (tmp_path / "synthetic.png").stat().st_size > 5_000


def test_only_the_most_active_actors_are_kept(networks):
    import differences

    counts = np.zeros((4, 4, 2, 3), dtype=np.int64)
    counts[3, 1], counts[1, 0, 0, 0], counts[2, 0, 0, 0] = 5, 2, 1
    kept = differences.most_active(ac.as_tensor(counts), 2)
    np.testing.assert_array_equal(kept.to_dense(), counts[np.ix_([1, 3], [1, 3], [0, 1], [0, 1, 2])])


def test_thinned_events_are_a_part_of_the_events_and_keep_labels_and_missing_cells(networks):
    import learning_curves

    tensor = networks.simulate(networks.QUICK, seed=3).tensor
    part = learning_curves.thinned(tensor, 0.2, np.random.default_rng(0))
    assert part.total / tensor.total == pytest.approx(0.2, abs=0.01), "six standard deviations"
    assert (part.labels, part.mode_names, len(part.missing)) == (tensor.labels, tensor.mode_names, len(tensor.missing))
    assert (part.to_dense() <= tensor.to_dense()).all()


def test_gains_are_paired_over_splits(networks, tmp_path):
    import learning_curves

    rows = [
        {"split": split, "likelihood": "poisson", "e0": "1", "Q": 25, "share": 0.2, "model": model,
         "all": 0.0, "positive": 10.0 * split + ahead, "parameters": 100.0}
        for split, ahead_of_cp in enumerate((1.0, 3.0))
        for model, ahead in (("allocore", ahead_of_cp), ("cp", 0.0))
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    found = learning_curves.gains(table).iloc[0]
    assert (found["positive"], found["positive_se"], found["all"]) == (2.0, 1.0, 0.0)
    learning_curves.draw(table, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5_000
