"""Chains: which sweeps are kept, what Ctrl-C leaves, and that a draw never changes once it is made."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import allocore as ac
from allocore.errors import InputError
from allocore.model import joint
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run import chains as chains_module
from allocore.run.chains import run_chains
from allocore.run.schedule import Schedule
from allocore.run.store import MemoryStore

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (4, 3, 2)))
SPEC = Spec(3, (3, 2, 3), f0=1.0, alpha0=3.0)
SCHEDULES = [Schedule(0, 1, 1), Schedule(0, 4, 3), Schedule(5, 1, 1), Schedule(3, 4, 2), Schedule(1, 3, 7)]


def run(schedule, chains=1, seed=2, spec=SPEC, observer=None):
    store = MemoryStore(TENSOR, spec, schedule, chains, seed)
    return run_chains(TENSOR, spec, schedule, chains=chains, seed=seed, threads=1, store=store, observer=observer)


def draws_of(record):
    return [record.core_values, record.core_locations, *record.factors]


def trace_of(record):
    return [values for name, values in record.stats.items() if name != "seconds"]


def assert_same(arrays, others):
    assert [array.tobytes() for array in arrays] == [other.tobytes() for other in others]


@pytest.fixture
def interrupt(monkeypatch):
    """Call with a chain and a sweep: Ctrl-C is pressed in the middle of that sweep, 1, 2, .. of that chain."""

    def arm(chain, number, schedule):
        done = 0
        real = chains_module.sweep

        def sweep(*arguments):
            nonlocal done
            done += 1
            if done == chain * schedule.sweeps + number:
                raise KeyboardInterrupt
            return real(*arguments)

        monkeypatch.setattr(chains_module, "sweep", sweep)

    return arm


class Observer:
    """Presses Ctrl-C when it is told of a given sweep."""

    def __init__(self, chain, sweep):
        self.moment, self.told, self.closed = (chain, sweep), [], 0

    def show(self, chain, sweep, info):
        self.told.append((chain, sweep))
        if (chain, sweep) == self.moment:
            raise KeyboardInterrupt

    def close(self):
        self.closed += 1


# The schedule


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_thinth_sweep_after_the_burn_in_is_a_draw(schedule):
    kept = [sweep for sweep in range(1, schedule.sweeps + 1) if schedule.draw_of(sweep) is not None]
    assert kept == [schedule.burn_in + (draw + 1) * schedule.thin for draw in range(schedule.draws)]
    assert [schedule.draw_of(sweep) for sweep in kept] == list(range(schedule.draws))
    assert [schedule.sweep_of(draw) for draw in range(schedule.draws)] == kept
    assert kept[-1] == schedule.sweeps


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_draws_after_a_sweep_counts_those_made_so_far(schedule):
    made = 0
    assert schedule.draws_after(0) == 0
    for sweep in range(1, schedule.sweeps + 1):
        made += schedule.draw_of(sweep) is not None
        assert schedule.draws_after(sweep) == made


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [(name, value, int(name != "burn_in")) for name in ("burn_in", "draws", "thin") for value in (-1, 1.5, "3", True)]
    + [("draws", 0, 1), ("thin", 0, 1)],
)
def test_a_schedule_names_what_is_wrong_with_it(name, value, least):
    with pytest.raises(InputError, match=f"^{name} is {value!r}, but it must be a whole number of at least {least}$"):
        Schedule(**{name: value})


# Ctrl-C


@pytest.mark.parametrize("number", [4, 5, 6, 9])
def test_ctrl_c_keeps_the_draws_and_the_trace_so_far(interrupt, number):
    schedule = Schedule(1, 4, 2)
    whole = run(schedule)
    interrupt(0, number, schedule)
    kept = schedule.draws_after(number - 1)
    with pytest.warns(UserWarning, match=f"^interrupted: keeping {kept} of 4 draws in 1 of 1 chains$"):
        record = run(schedule)
    assert record.core_values.shape[:2] == (1, kept)
    assert_same(draws_of(record), [array[:, :kept] for array in draws_of(whole)])
    assert_same(trace_of(record), [values[:, : number - 1] for values in trace_of(whole)])


@pytest.mark.parametrize(("chain", "number"), [(1, 1), (1, 5), (2, 1), (2, 5)])
def test_ctrl_c_in_a_later_chain_drops_it_and_keeps_the_whole_ones(interrupt, chain, number):
    schedule = Schedule(1, 2, 2)
    whole = run(schedule, chains=3)
    interrupt(chain, number, schedule)
    with pytest.warns(UserWarning, match=f"^interrupted: keeping 2 of 2 draws in {chain} of 3 chains$"):
        record = run(schedule, chains=3)
    assert_same(draws_of(record), [array[:chain] for array in draws_of(whole)])
    assert_same(trace_of(record), [values[:chain] for values in trace_of(whole)])


@pytest.mark.parametrize("number", [1, 2, 4])
def test_ctrl_c_before_the_first_draw_stays_a_keyboard_interrupt(interrupt, number):
    schedule = Schedule(2, 3, 2)
    interrupt(0, number, schedule)
    with pytest.raises(KeyboardInterrupt, match="interrupted before the first draw was kept"):
        run(schedule, chains=2)


def test_ctrl_c_while_the_observer_is_told_keeps_that_sweep_and_closes_the_observer():
    observer = Observer(0, 1)
    with pytest.warns(UserWarning, match="^interrupted: keeping 1 of 5 draws in 1 of 2 chains$"):
        record = run(Schedule(0, 5, 1), chains=2, observer=observer)
    assert record.stats["moved"].shape == (1, 1)
    assert observer.told == [(0, 1)]
    assert observer.closed == 1


def test_ctrl_c_through_an_estimator_warns_where_fit_was_called_and_leaves_a_usable_posterior(interrupt):
    interrupt(0, 6, Schedule(2, 4, 1))
    model = ac.AlloCore(3, burn_in=2, draws=4, thin=1, seed=1, progress=False, threads=1)
    with pytest.warns(UserWarning, match="keeping 3 of 4 draws") as caught:
        model.fit(TENSOR)
    assert caught[0].filename == __file__
    assert model.posterior_.core_values.shape == (1, 3, 3)
    assert (model.posterior_.rate(TENSOR.coords) > 0).all()
    assert model.posterior_.to_datatree()["sample_stats"].sizes["draw"] == 3
    assert len(model.posterior_.classes()) >= 1


def test_ctrl_c_while_the_observer_is_told_of_a_chains_last_sweep_stops_the_run():
    observer = Observer(0, 2)
    with pytest.warns(UserWarning, match="^interrupted: keeping 2 of 2 draws in 1 of 3 chains$"):
        run(Schedule(0, 2, 1), chains=3, observer=observer)


def test_ctrl_c_while_a_later_chain_is_set_up_keeps_the_chains_before_it(monkeypatch):
    real, calls = chains_module.first_state, []

    def first_state(*arguments):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(chains_module, "first_state", first_state)
    try:
        with pytest.warns(UserWarning, match="keeping 2 of 2 draws in 1 of 3 chains"):
            run(Schedule(0, 2, 1), chains=3)
    except KeyboardInterrupt:  # which would end the whole test run
        pytest.fail("the first chain was finished, and it is lost")


PRESSED = """
import sys
import numpy as np
import allocore as ac
import allocore.estimators

class Teller:
    def show(self, chain, sweep, info):
        print("sweep", sweep, flush=True)
    def close(self):
        print("closed", flush=True)

allocore.estimators.progress_bar = lambda *about: Teller()
Y = np.random.default_rng(5).poisson(1.2, (4, 3, 2))
model = ac.AlloCore(2, burn_in=0, draws=100_000, thin=1, seed=3, threads=2).fit(Y)
post = model.posterior_
again = ac.AlloCore(2, burn_in=0, draws=3, thin=1, seed=3).fit(Y).posterior_
print("same", (post.core_values[:, :3] == again.core_values).all())
print("draws", post.core_values.shape[1], post.stats["moved"].shape[1])
"""


def test_a_real_sigint_ends_the_run_with_the_draws_so_far_and_a_warning():
    with subprocess.Popen(
        [sys.executable, "-W", "default", "-c", PRESSED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(60, process.kill)
        guard.start()
        sweep = 0
        while sweep < 5:
            sweep = int(process.stdout.readline().removeprefix("sweep "))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        guard.cancel()
    assert process.returncode == 0, err
    assert "UserWarning: interrupted: keeping" in err
    assert "of 100000 draws in 1 of 1 chains" in err
    assert "Traceback" not in err
    *_, same, draws = out.splitlines()
    assert "closed" in out.splitlines()
    assert same == "same True"
    _, kept, traced = draws.split()
    assert sweep <= int(kept) == int(traced) < 100_000


# Draws


def test_a_store_copies_what_it_is_given():
    schedule = Schedule(0, 1, 1)
    store = MemoryStore(TENSOR, SPEC, schedule, 1, 0)
    rng = np.random.default_rng(1)
    arrays = (
        rng.normal(size=3),
        rng.integers(0, 2, (3, 3)),
        tuple(rng.normal(size=(d, k)) for d, k in ((4, 3), (3, 2), (2, 3))),
    )
    state = State(*arrays)
    store.record_draw(0, 0, state)
    expected = [state.core_values(), state.subs_QM.copy(), *(state.factors(m) for m in range(3))]
    for array in (arrays[0], arrays[1], *arrays[2]):
        array[:] = 0
    kept = draws_of(store.finish(1, 1))
    assert_same([array[0, 0] for array in kept], expected)


def test_later_sweeps_never_change_earlier_draws():
    short, long = run(Schedule(1, 2, 2)), run(Schedule(1, 6, 2))
    assert_same(draws_of(short), [array[:, :2] for array in draws_of(long)])
    assert len(np.unique(long.core_values[0, :, 0])) == 6


def test_no_array_of_a_finished_run_can_be_written_to():
    record = run(Schedule(0, 2, 1), chains=2)
    for array in (*draws_of(record), *record.stats.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(TypeError):
        record.stats["moved"] = np.zeros(2)


# The trace


def test_the_trace_has_an_entry_for_every_sweep_of_every_chain_burn_in_included():
    record = run(Schedule(3, 2, 4), chains=2)
    shapes = {name: values.shape for name, values in record.stats.items()}
    assert shapes == {
        "log_likelihood": (2, 11),
        "classes": (2, 11),
        "factors": (2, 11, 3),
        "moved": (2, 11),
        "seconds": (2, 11),
    }
    assert (record.stats["seconds"] > 0).all()
    assert np.isfinite(record.stats["log_likelihood"]).all()
    assert ((record.stats["classes"] >= 1) & (record.stats["classes"] <= SPEC.budget)).all()
    assert (record.stats["factors"] >= 1).all()
    assert (record.stats["factors"] <= np.minimum(SPEC.core_shape, record.stats["classes"][..., None])).all()


def test_moved_is_the_share_of_classes_that_changed_location_in_that_sweep():
    record = run(Schedule(0, 12, 1), chains=2)
    for chain in range(2):
        locations = np.concatenate([[SPEC.start_locations()], record.core_locations[chain]])
        expected = (locations[1:] != locations[:-1]).any(axis=2).mean(axis=1)
        np.testing.assert_array_equal(record.stats["moved"][chain], expected)
    assert 0 < record.stats["moved"].max() <= 1


def test_nothing_moves_where_locations_are_fixed():
    record = run(Schedule(0, 4, 1), spec=Spec(3, (3, 3, 3), learn_locations=False))
    assert (record.stats["moved"] == 0).all()
    assert (record.core_locations == np.arange(3)[:, None]).all()


def test_the_log_likelihood_of_a_kept_sweep_is_that_of_its_draw():
    schedule = Schedule(2, 3, 2)
    record = run(schedule, chains=2)
    for chain, draw in np.ndindex(2, 3):
        with np.errstate(divide="ignore"):
            log_phi = tuple(np.log(factor[chain, draw]) for factor in record.factors)
        state = State(np.log(record.core_values[chain, draw]), record.core_locations[chain, draw], log_phi)
        told = record.stats["log_likelihood"][chain, schedule.sweep_of(draw) - 1]
        assert told == pytest.approx(joint.log_likelihood(TENSOR, state), abs=1e-6 * TENSOR.total)


# Several chains


def test_chains_differ_from_each_other_from_the_first_sweep_on():
    record = run(Schedule(0, 2, 1), chains=3)
    for array in (record.core_values, record.stats["log_likelihood"]):
        assert len(np.unique(array[:, 0].reshape(3, -1), axis=0)) == 3


def test_a_chain_does_not_depend_on_how_many_others_run():
    schedule = Schedule(2, 3, 2)
    alone, together = run(schedule, chains=1), run(schedule, chains=3)
    assert_same(draws_of(alone), [array[:1] for array in draws_of(together)])
    assert_same(trace_of(alone), [values[:1] for values in trace_of(together)])
