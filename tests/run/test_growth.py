"""Runs that grow until settled: what decides about the next round, and that the bytes are those of a fixed run."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from allocore import growth
from allocore.estimators import RunSize
from allocore.growth import Growing, Judgement, grown
from allocore.model.spec import Spec
from allocore.progress import Row, chain_rows
from allocore.run import chains as chains_module
from allocore.storage.record import Growth, Plan, Schedule, planned
from allocore.storage.run_reader import read_plan
from support.errors import refused
from support.findings import warned
from support.same_draws import assert_same

Y = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
GROWTH = Growth(sweeps=True, chains=True, max_sweeps=1000, max_chains=32)
PLAN = Plan(Y, Spec(3, (3, 3, 3)), Schedule(125, 25, 5), 8, 1, growth=GROWTH)
DRIFTS, SETTLED = Judgement(True), Judgement(False, 0.95, True)
FEW_CHAINS = Judgement(False, 0.8, True)
# What each round is judged to be: the sweeps double once, then the chains.
ROUNDS = {(8, 2): DRIFTS, (16, 2): FEW_CHAINS, (16, 4): SETTLED}
FITS = str  # takes any plan
SETTINGS = {"budget": 3, "max_sweeps": 32, "seed": 3, "progress": False}


@pytest.fixture
def few(monkeypatch):
    """The first round has two chains of eight sweeps, and rounds are judged as in ROUNDS."""
    monkeypatch.setattr("allocore.estimators._FIRST_SWEEPS", 8)
    monkeypatch.setattr("allocore.estimators._FIRST_CHAINS", 2)
    monkeypatch.setattr(growth, "judge", lambda _, plan, __: ROUNDS[plan.schedule.sweeps, plan.chains])


@pytest.fixture(scope="module")
def fixed():
    """The run that has the last schedule and all chains from the start."""
    return ac.AlloCore(3, burn_in=8, draws=4, thin=2, chains=4, seed=3, progress=False).fit(Y).posterior_


@pytest.mark.parametrize(
    ("judged", "schedule", "chains"),
    [
        (DRIFTS, Schedule(250, 25, 10), 8),
        (FEW_CHAINS, Schedule(125, 25, 5), 16),
        (Judgement(True, 0.8, True), Schedule(250, 25, 10), 8),  # sweeps first
    ],
)
def test_a_round_grows_by_sweeps_while_chains_drift_and_then_by_chains(judged, schedule, chains):
    assert grown(PLAN, judged) == replace(PLAN, schedule=schedule, chains=chains)


@pytest.mark.parametrize(
    ("plan", "judged"),
    [
        (PLAN, SETTLED),
        (PLAN, Judgement(False, 0.8, rises=False)),
        (replace(PLAN, schedule=Schedule(500, 25, 20)), DRIFTS),
        (replace(PLAN, growth=replace(GROWTH, sweeps=False)), DRIFTS),
        (replace(PLAN, growth=None), FEW_CHAINS),
    ],
)
def test_a_run_ends_when_it_has_settled_or_has_reached_a_limit(plan, judged):
    assert grown(plan, judged) is None


def test_the_last_round_ends_at_the_limit():
    assert grown(replace(PLAN, growth=replace(GROWTH, max_sweeps=300)), DRIFTS).schedule == Schedule(250, 25, 2)
    assert grown(replace(PLAN, growth=replace(GROWTH, max_sweeps=255)), DRIFTS).schedule == Schedule(250, 5, 1)
    assert grown(replace(PLAN, growth=replace(GROWTH, max_sweeps=310)), DRIFTS).schedule == Schedule(260, 25, 2)
    assert grown(replace(PLAN, growth=replace(GROWTH, max_chains=12)), FEW_CHAINS).chains == 12


def test_a_schedule_of_sweeps_discards_half_and_keeps_25_draws():
    for sweeps in (1, 2, 3, 49, 50, 99, 250, 1000):
        schedule = Schedule.of_sweeps(sweeps)
        assert schedule.sweeps == sweeps
        assert schedule.burn_in >= schedule.draws * schedule.thin or sweeps == 1
    assert Schedule.of_sweeps(250) == Schedule(125, 25, 5)
    assert Schedule.of_sweeps(20) == Schedule(10, 10, 1)


def test_only_what_decides_is_judged():
    """Drift comes first; chains are not compared while sweeps can still grow, nor if chains cannot."""
    draws = np.zeros((8, 25, 1))
    rising = np.arange(250.0) + np.random.default_rng(0).normal(size=(8, 250))
    record = ac.AlloCore(1, sweeps=10, chains=4, seed=1, progress=False).fit(Y).posterior_.record
    stats = {**record.stats, "log_likelihood": rising}
    drifting = replace(record, stats=stats, schedule=PLAN.schedule, core_values=draws)
    assert growth.judge(drifting, PLAN, lambda *_: None) == DRIFTS
    fixed_chains = replace(PLAN, growth=replace(GROWTH, chains=False, max_sweeps=250))
    assert growth.judge(drifting, fixed_chains, lambda *_: None) == DRIFTS


def test_a_run_that_grows_has_the_draws_of_a_fixed_run(few, fixed):
    model = ac.AlloCore(**SETTINGS).fit(Y)
    assert_same(model.posterior_, fixed)
    assert model.posterior_.finished


@pytest.mark.parametrize("where", [{"threads": 1}, {"threads": 3}, "executor"])
def test_growth_is_the_same_on_any_threads_and_executors_and_on_disk(few, fixed, tmp_path, where):
    path = tmp_path / "run.zarr"
    with ThreadPoolExecutor(2) as pool:
        how = {"executor": pool} if where == "executor" else where
        ac.AlloCore(**SETTINGS, store=path, **how).fit(Y)
    assert_same(ac.open_run(path), fixed)


@pytest.mark.parametrize("stopped_at", [(8, 2), (16, 2)])
def test_a_run_that_ends_between_rounds_grows_on_when_it_is_resumed(few, fixed, tmp_path, monkeypatch, stopped_at):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        ended = {**ROUNDS, stopped_at: SETTLED}
        patch.setattr(growth, "judge", lambda _, plan, __: ended[plan.schedule.sweeps, plan.chains])
        ac.AlloCore(**SETTINGS, store=path).fit(Y)
    assert ac.open_run(path).stats["moved"].shape == stopped_at[::-1]
    model = ac.AlloCore.resume(path, chains="auto", progress=False)
    assert_same(model.posterior_, fixed)
    assert (model.sweeps, model.chains, model.burn_in, model.max_sweeps) == ("auto", "auto", None, 32)


def test_a_number_of_draws_or_chains_ends_the_growth_of_a_run(few, tmp_path):
    path = tmp_path / "run.zarr"
    ac.AlloCore(**SETTINGS, store=path).fit(Y)
    model = ac.AlloCore.resume(path, chains=5, draws=5, progress=False)
    assert model.posterior_.core_values.shape[:2] == (5, 5)
    assert read_plan(path, "raise").growth is None
    assert (model.sweeps, model.chains, model.draws) == ("auto", 5, 5)


def test_a_number_of_sweeps_ends_only_the_growth_of_sweeps():
    later = PLAN.resumed(sweeps=1000)
    assert later == replace(PLAN, schedule=Schedule(250, 25, 30), growth=replace(GROWTH, sweeps=False))
    assert PLAN.resumed(sweeps=1000, chains=9).growth is None
    assert PLAN.resumed(sweeps=250).schedule == PLAN.schedule


def test_chains_of_a_run_with_a_fixed_number_do_not_grow(tmp_path):
    path = tmp_path / "run.zarr"
    ac.AlloCore(3, sweeps=10, chains=2, seed=1, store=path, progress=False).fit(Y)
    before = {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}
    with refused("chains", "auto", "must be a whole number: this run was started with a fixed number of chains, 2"):
        ac.AlloCore.resume(path, chains="auto")
    assert before == {each: each.read_bytes() for each in path.rglob("*") if each.is_file()}


def test_chains_that_start_from_another_run_do_not_grow(few):
    start = ac.AlloCore(3, sweeps=10, chains=3, seed=1, progress=False).fit(Y).posterior_
    assert RunSize.of(ac.AlloCore(3), start) == (Schedule(4, 4, 1), 3, Growth(True, False, 4000, 32))
    assert RunSize.of(ac.AlloCore(3, sweeps=10, chains=5), start).chains == 5


def test_a_fit_that_starts_from_another_takes_its_likelihood(few):
    start = ac.AlloCore(3, likelihood="poisson", sweeps=10, chains=2, seed=1, progress=False).fit(Y).posterior_
    again = ac.AlloCore(3, sweeps=10, seed=2, progress=False).fit(Y, start=start).posterior_
    assert (again.likelihood, len(again.core_values)) == ("poisson", 2)


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_no_round_begins_that_would_end_after_the_time_limit(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(growth, "monotonic", clock)
    monkeypatch.setattr(growth, "judge", lambda *_: FEW_CHAINS)
    for seconds, goes_on in ((19.0, False), (21.0, True)):
        growing = Growing(0, FITS, progress=False, seconds=seconds)
        clock.now += 10.0  # for 8 chains; 16 are expected to take 20 seconds
        assert (growing(None, PLAN) is not None) == goes_on
        assert (growing.ended is None) == goes_on
    growing = Growing(8 * 250, FITS, progress=False, seconds=1.0)  # resumed: nothing is known about the pace
    assert growing(None, PLAN) is not None


def test_no_round_begins_that_does_not_fit_into_memory(few, monkeypatch):
    def check(plan, **_):
        if plan.chains > 2:
            raise ac.InputError("budget", 3, "must be smaller")
        return ""

    monkeypatch.setattr("allocore.run.memory.check_memory", check)
    with warned("out-of-memory", chains=4):
        model = ac.AlloCore(**SETTINGS).fit(Y)
    assert model.posterior_.stats["moved"].shape == (2, 16)


def test_a_time_limit_that_ends_the_growth_is_reported_and_the_run_resumes(few, fixed, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        patch.setattr(Growing, "_too_long", lambda *_: True)
        with warned("out-of-time", seconds=60):
            ac.AlloCore(**SETTINGS, store=path, max_time=60).fit(Y)
    assert ac.open_run(path).stats["moved"].shape == (2, 8)
    assert_same(ac.AlloCore.resume(path, progress=False, max_time=600).posterior_, fixed)


@pytest.mark.parametrize("executor", [False, True])
def test_a_time_limit_shorter_than_the_first_round_loses_nothing(few, fixed, tmp_path, executor):
    path = tmp_path / "run.zarr"
    with ThreadPoolExecutor(2) as pool, refused("max_time", 1e-6):
        ac.AlloCore(**SETTINGS, store=path, max_time=1e-6, executor=pool if executor else None).fit(Y)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, fixed)


def test_a_time_limit_within_a_round_keeps_its_draws(monkeypatch):
    """The clock of the chains goes one second a look."""
    clock = iter(np.arange(1.0, 1e6))
    monkeypatch.setattr(chains_module, "monotonic", lambda: next(clock))
    with warned("stopped", seconds=900):
        model = ac.AlloCore(3, sweeps=400, chains=2, seed=3, max_time=900, threads=1, progress=False).fit(Y)
    assert 0 < model.posterior_.core_values.shape[1] < 25
    assert not model.posterior_.finished


@pytest.mark.parametrize(
    ("settings", "argument", "value", "rule"),
    [
        ({"sweeps": "some"}, "sweeps", "some", "must be a whole number or 'auto'"),
        ({"sweeps": 0}, "sweeps", 0, "must be a whole number of at least 1"),
        ({"chains": "many"}, "chains", "many", "must be a whole number or 'auto'"),
        ({"sweeps": 10, "draws": 5}, "sweeps", 10, "must be left out if draws is given"),
        ({"draws": 5, "max_sweeps": 9}, "max_sweeps", 9, "needs `sweeps` 'auto'; it is fixed here"),
        ({"chains": 5, "max_chains": 9}, "max_chains", 9, "needs `chains` 'auto'; it is fixed here"),
        ({"max_chains": 0}, "max_chains", 0, "must be a whole number of at least 1"),
        ({"max_time": -1}, "max_time", -1, "must be a positive number of seconds"),
        ({"max_time": True}, "max_time", True, "must be a positive number of seconds"),
        ({"max_time": float("nan")}, "max_time", None, "must be a positive number of seconds"),
    ],
)
def test_settings_of_the_size_that_make_no_sense_are_refused(settings, argument, value, rule):
    with refused(argument, *([] if value is None else [value, rule])):
        ac.AlloCore(3, progress=False, **settings).fit(Y)


@pytest.mark.filterwarnings("ignore:all counts are 1")
@pytest.mark.parametrize(
    ("counts", "by", "likelihood"),
    [([1, 1, 1], None, "bernoulli"), ([1, 2, 1], None, "negative-binomial"), ([1, 1, 1], 0, "negative-binomial")],
)
def test_the_likelihood_follows_from_the_counts(counts, by, likelihood):
    tensor = ac.CountTensor([[0, 1, 2], [0, 1, 2]], counts, (4, 4))
    model = ac.AlloCore(2, dispersion_by=by, sweeps=4, chains=1, progress=False)
    assert model.fit(tensor).posterior_.likelihood == likelihood
    assert model.likelihood == "auto"


def test_the_published_settings_are_those_of_the_paper():
    model = ac.AlloCore.published(50, seed=4, threads=1)
    assert (model.budget, model.likelihood, model.e0, model.seed) == (50, "poisson", 1.0, 4)
    assert RunSize.of(model) == (Schedule(1000, 200, 20), 1, None)
    assert ac.AlloCore.published(chains=4).chains == 4


def test_many_chains_share_one_row_of_progress():
    schedule = Schedule(2, 2, 1)
    assert chain_rows(schedule, [0, 1, 4, 4]) == [Row(f"chain {n}", 4, done) for n, done in enumerate([0, 1, 4, 4])]
    assert chain_rows(schedule, [4] * 4 + [0] * 4) == [Row("8 chains", 32, 16)]


def test_a_damaged_growth_is_no_plan():
    attributes = {**PLAN.attributes()}
    damaged = attributes["settings"].replace('"sweeps": true', '"sweeps": 3')
    assert damaged != attributes["settings"]
    assert planned(Y, attributes) == PLAN
    with pytest.raises(ValueError, match="growth"):
        planned(Y, {**attributes, "settings": damaged})
