"""A complete run goes on with later sweeps, or more chains, to the bytes of a run that had them from the start."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.model.spec import Spec
from allocore.report.terminal import progress_line
from allocore.run import chains as chains_module
from allocore.run.chains import run_chains
from allocore.run.cluster.chains import run_on_executor
from allocore.storage import run_reader
from allocore.storage.record import MemoryStore, Plan, Schedule
from allocore.storage.run_reader import stored_sizes
from allocore.storage.run_writer import ZarrStore
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import kill_and_resume, save_always

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4))).with_missing([(0, None, 1)])
PLAN = Plan(TENSOR, Spec(3, (3, 2, 3), f0=1.0, alpha0=3.0), Schedule(3, 3, 1), 2, 11)
LATER = replace(PLAN, schedule=Schedule(6, 3, 2))
LARGER = replace(LATER, chains=5)


def next_round(record, plan):
    """The first plan, the same chains at later sweeps, then more chains."""
    if plan.schedule == PLAN.schedule:
        return LATER, None
    return (LARGER, None) if plan.chains == LATER.chains else None


def in_memory(plan, following=None):
    return run_chains(MemoryStore(plan), threads=2, next_round=following)


@pytest.fixture(scope="module")
def from_the_start():
    """The run that has all chains and the last schedule from the start."""
    return in_memory(LARGER)


@pytest.fixture(params=["memory", "zarr"])
def store(request, tmp_path):
    """A store of either kind for the first plan."""
    return MemoryStore(PLAN) if request.param == "memory" else ZarrStore.create(tmp_path / "run.zarr", PLAN)


def assert_same(record, other):
    assert record.schedule == other.schedule
    names = ("log_likelihood", "classes", "factors", "moved")
    for mine, theirs in zip(
        [*record.draw_arrays, *(record.stats[name] for name in names)],
        [*other.draw_arrays, *(other.stats[name] for name in names)],
        strict=True,
    ):
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_rounds_end_with_the_bytes_of_a_run_that_had_the_last_plan_from_the_start(store, from_the_start, threads):
    assert_same(run_chains(store, threads=threads, next_round=next_round), from_the_start)


def test_rounds_on_an_executor_end_with_the_same_bytes(store, from_the_start):
    with ThreadPoolExecutor(2) as executor:
        assert_same(run_on_executor(store, executor, threads=1, next_round=next_round), from_the_start)


@pytest.mark.slow
def test_a_run_killed_between_and_within_rounds_goes_on_to_the_same_bytes(tmp_path):
    kill_and_resume(tmp_path, "rounds", 40)


def test_chains_that_are_added_are_shown_when_they_have_caught_up(tmp_path, monkeypatch):
    save_always(monkeypatch)
    path, seen = tmp_path / "run.zarr", []
    store = ZarrStore.create(path, LATER)
    right = store._publish

    def publish():
        right()
        sizes = stored_sizes(path)
        seen.append((sizes["chain"], sizes["draw"]))
        if seen[-1] == (2, 3):
            assert xr.open_datatree(path, engine="zarr")["posterior"].sizes["chain"] == 2

    monkeypatch.setattr(store, "_publish", publish)
    run_chains(store, threads=1, next_round=next_round)
    assert set(seen[seen.index((2, 3)) : -1]) == {(2, 3)}
    assert seen[-1] == (5, 3)
    assert xr.open_datatree(path, engine="zarr")["posterior"].sizes["chain"] == 5


def stop_at_sweep(monkeypatch, sweep, chain=0):
    """Ask the run to stop as Ctrl-C does, at a sweep of a chain."""
    right = chains_module.Chain.advance

    def advance(self):
        right(self)
        if self._number == chain and self._sweep == sweep:
            self.stop.asked = self.stop.now = True

    stops = []
    enter = chains_module.Stop.__enter__
    monkeypatch.setattr(chains_module.Stop, "__enter__", lambda self: stops.append(self) or enter(self))
    monkeypatch.setattr(chains_module.Chain, "stop", property(lambda chain: stops[-1]), raising=False)
    monkeypatch.setattr(chains_module.Chain, "advance", advance)


def test_a_round_in_memory_that_is_stopped_before_its_first_draw_leaves_the_draws_before(monkeypatch):
    stop_at_sweep(monkeypatch, 7)
    with warned("stopped"):
        assert_same(in_memory(PLAN, next_round), in_memory(PLAN))


def test_a_round_on_disk_that_is_stopped_goes_on_when_it_is_resumed(tmp_path, monkeypatch, from_the_start):
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        stop_at_sweep(patch, 9)
        with warned("stopped"):
            record = run_chains(ZarrStore.create(path, PLAN), threads=1, next_round=next_round)
    assert record.core_values.shape[:2] == (2, 1)
    assert_same(run_chains(ZarrStore.reopen(path), threads=2, next_round=next_round), from_the_start)


def test_a_run_whose_new_chains_were_interrupted_is_not_finished(tmp_path, monkeypatch):
    path, settings = tmp_path / "run.zarr", {"burn_in": 3, "draws": 2, "thin": 1, "seed": 11, "progress": False}
    ac.CP(3, chains=2, store=path, **settings).fit(TENSOR)
    with monkeypatch.context() as patch:
        stop_at_sweep(patch, 3, chain=2)
        with warned("stopped"):
            post = ac.CP.resume(path, chains=4, threads=1, progress=False).posterior_
    assert (post.core_values.shape[0], post.record.planned_chains, post.finished) == (2, 4, False)
    assert not ac.open_run(path).finished
    assert progress_line(post.record).endswith("allocore resume.")
    post = ac.CP.resume(path, progress=False).posterior_
    assert (post.core_values.shape[0], post.record.planned_chains, post.finished) == (4, None, True)


def test_a_run_can_be_opened_by_xarray_before_its_first_sweep(tmp_path):
    path = tmp_path / "run.zarr"
    with ZarrStore.create(path, PLAN):
        posterior = xr.open_datatree(path, engine="zarr")["posterior"]
        assert dict(posterior["core_values"].sizes) == {"chain": 2, "draw": 0, "q": 3}
        assert posterior["chain"].values.tolist() == [0, 1]


def test_draws_that_were_opened_before_a_later_schedule_are_not_mistaken_for_its_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(run_reader, "READ_WHOLE_BYTES", 0)
    path = tmp_path / "run.zarr"
    run_chains(ZarrStore.create(path, PLAN), threads=2)
    before = ac.open_run(path)
    with ZarrStore.reopen(path) as store:
        store.extend(replace(PLAN, chains=3))
        assert before.factors[0][0, 0].shape == (6, 3)
        store.extend(replace(PLAN, schedule=LATER.schedule, chains=3))
        with refused_file(path):
            before.factors[0][1, 0]


def test_new_chains_get_all_threads(monkeypatch):
    made, right = [], chains_module.Workers

    def counted(threads):
        made.append(threads)
        return right(threads)

    store = MemoryStore(LATER)
    run_chains(store, threads=3)
    store.extend(LARGER)
    monkeypatch.setattr(chains_module, "Workers", counted)
    run_chains(store, threads=6)
    assert made == [2, 2, 2]


def test_resume_adds_chains_and_draws_to_a_finished_run(tmp_path):
    path, settings = tmp_path / "run.zarr", {"burn_in": 3, "thin": 2, "seed": 11, "progress": False}
    ac.CP(3, draws=2, chains=2, store=path, **settings).fit(TENSOR)
    model = ac.CP.resume(path, chains=4, draws=3, progress=False)
    assert (model.chains, model.draws) == (4, 3)
    whole = ac.CP(3, draws=3, chains=4, **settings).fit(TENSOR)
    assert_same(model.posterior_.record, whole.posterior_.record)
    assert_same(ac.open_run(path).record, whole.posterior_.record)
    with refused("chains", 3):
        ac.CP.resume(path, chains=3)


def test_chains_cannot_be_added_to_a_run_that_began_at_another(tmp_path):
    path, settings = tmp_path / "run.zarr", {"burn_in": 1, "draws": 2, "thin": 1, "progress": False}
    first = ac.CP(3, chains=2, **settings).fit(TENSOR).posterior_
    ac.CP(3, chains=2, store=path, **settings).fit(TENSOR, start=first)
    with refused("chains", 3):
        ac.CP.resume(path, chains=3)
    assert ac.CP.resume(path, progress=False).posterior_.record.core_values.shape[:2] == (2, 2)


@pytest.mark.parametrize(
    ("schedule", "argument"),
    [(Schedule(5, 3, 2), "burn_in"), (Schedule(3, 2, 1), "draws")],
    ids=["overlaps", "shorter"],
)
def test_a_schedule_must_keep_the_draws_or_begin_after_them(store, schedule, argument):
    with store, refused(argument, getattr(schedule, argument)):
        store.extend(replace(PLAN, schedule=schedule))


def test_the_consensus_of_an_earlier_round_is_not_taken_for_that_of_a_later_one(tmp_path):
    path = tmp_path / "run.zarr"
    run_chains(ZarrStore.create(path, PLAN), threads=2)
    before = ac.open_run(path).consensus()

    def only_later(record, plan):
        return (LATER, None) if plan.schedule == PLAN.schedule else None

    run_chains(ZarrStore.reopen(path), threads=2, next_round=only_later)
    after = ac.open_run(path).consensus()
    fresh = ac.Posterior(in_memory(LATER)).consensus()
    np.testing.assert_allclose(np.sort(after.share), np.sort(fresh.share))
    assert before.share.tolist() != after.share.tolist()
