"""Chains: which sweeps are kept, what Ctrl-C leaves, and that a draw never changes once it is made."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import allocore as ac
from allocore.model import joint
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.run import chains as chains_module
from allocore.run.chains import run_chains
from allocore.storage.record import MemoryStore, Plan, Schedule
from support.cluster_runs import until
from support.errors import refused
from support.findings import warned

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (4, 3, 2)))
SPEC = Spec(3, (3, 2, 3), f0=1.0, alpha0=3.0)
SCHEDULES = [Schedule(0, 1, 1), Schedule(0, 4, 3), Schedule(5, 1, 1), Schedule(3, 4, 2), Schedule(1, 3, 7)]


def sampled(schedule, chains=1, seed=2, spec=SPEC, observer=None, threads=1):
    return run_chains(MemoryStore(Plan(TENSOR, spec, schedule, chains, seed)), threads=threads, observer=observer)


def draws_of(record):
    return [record.core_values, record.core_locations, *record.factors]


def trace_of(record):
    return [values for name, values in record.stats.items() if name != "seconds"]


def assert_same(arrays, others):
    assert [array.tobytes() for array in arrays] == [other.tobytes() for other in others]


class Observer:
    """Presses Ctrl-C when it is told of a given sweep."""

    def __init__(self, chain, sweep):
        self.moment, self.told, self.closed = (chain, sweep), [], 0

    def show(self, chain, sweep, info):
        self.told.append((chain, sweep))
        if (chain, sweep) == self.moment:
            signal.raise_signal(signal.SIGINT)

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
    with refused(name, value, f"at least {least}"):
        Schedule(**{name: value})


# Ctrl-C and SIGTERM


@pytest.mark.parametrize(
    ("number", "which"), [(3, signal.SIGINT), (4, signal.SIGTERM), (5, signal.SIGINT), (8, signal.SIGTERM)]
)
def test_a_signal_lets_the_sweep_end_and_keeps_the_draws_and_the_trace_so_far(stop_at, number, which):
    schedule = Schedule(1, 4, 2)
    whole = sampled(schedule)
    stop_at(number, which)
    kept = schedule.draws_after(number)
    with warned("stopped", draws=kept, planned_draws=4, how_to_resume=""):
        record = sampled(schedule)
    assert record.core_values.shape[:2] == (1, kept)
    assert_same(draws_of(record), [array[:, :kept] for array in draws_of(whole)])
    assert_same(trace_of(record), [values[:, :number] for values in trace_of(whole)])


@pytest.mark.parametrize(("sweeps", "number"), [(3, 3), (3, 4), (3, 5), (4, 4)])
def test_chains_that_take_turns_are_kept_as_far_as_all_of_them_came(stop_at, sweeps, number):
    schedule = Schedule(0, 4, 1)
    whole = sampled(schedule, chains=3)
    stop_at(3 * (sweeps - 1) + number - sweeps + 1)
    kept = sweeps - (number - sweeps + 1 < 3)
    with warned("stopped", draws=kept, planned_draws=4, chains=3, planned_chains=3):
        record = sampled(schedule, chains=3)
    assert_same(draws_of(record), [array[:, :kept] for array in draws_of(whole)])
    assert_same(trace_of(record), [values[:, :kept] for values in trace_of(whole)])


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_stop_before_the_first_draw_is_a_keyboard_interrupt_that_says_so(stop_at, number):
    schedule = Schedule(2, 3, 2)
    stop_at(number)
    with pytest.raises(
        KeyboardInterrupt, match=f"^stopped after {number} of 8 sweeps, before the first draw was kept$"
    ):
        sampled(schedule)


def test_a_second_signal_stops_at_once(stop_at, monkeypatch):
    real, calls = chains_module.sweep, []

    def sweep(*arguments):
        calls.append(None)
        if len(calls) == 4:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second signal came to nothing")
        return real(*arguments)

    monkeypatch.setattr(chains_module, "sweep", sweep)
    with pytest.raises(KeyboardInterrupt):
        sampled(Schedule(0, 9, 1))
    assert len(calls) == 4


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_run_gives_the_signals_back_as_it_found_them(stop_at, which):
    handler = signal.getsignal(which)
    sampled(Schedule(0, 1, 1))
    assert signal.getsignal(which) is handler
    stop_at(1, which)
    with warned("stopped", seconds=None):
        sampled(Schedule(0, 2, 1))
    assert signal.getsignal(which) is handler


def test_a_run_in_another_thread_leaves_the_signals_alone():
    handler, records = signal.getsignal(signal.SIGINT), []
    thread = threading.Thread(target=lambda: records.append(sampled(Schedule(0, 2, 1))))
    thread.start()
    thread.join()
    assert records[0].core_values.shape[1] == 2
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_signal_while_the_observer_is_told_keeps_that_sweep_and_closes_the_observer():
    observer = Observer(0, 1)
    with warned("stopped", draws=1, planned_draws=5):
        record = sampled(Schedule(0, 5, 1), observer=observer)
    assert record.stats["moved"].shape == (1, 1)
    assert observer.told == [(0, 1)]
    assert observer.closed == 1


def test_a_stop_through_an_estimator_warns_where_fit_was_called_and_leaves_a_usable_posterior(stop_at):
    stop_at(5)
    model = ac.AlloCore(
        3, burn_in=2, draws=4, thin=1, seed=1, progress=False, threads=1, chains=1, likelihood="poisson"
    )
    with warned("stopped", draws=3, planned_draws=4) as caught:
        model.fit(TENSOR)
    assert caught[0].filename == __file__
    assert model.posterior_.core_values.shape == (1, 3, 3)
    assert not model.posterior_.finished
    assert (model.posterior_.expected(TENSOR.coords) > 0).all()
    assert model.posterior_.to_datatree()["sample_stats"].sizes["draw"] == 3
    assert len(model.posterior_.classes()) >= 1


def test_a_second_signal_waits_for_the_sweeps_of_other_threads_and_saves_nothing_more(monkeypatch):
    real, saves, stops = chains_module.sweep, [], []

    class Noted(chains_module.Stop):
        def __init__(self, seconds):
            super().__init__(seconds=seconds)
            stops.append(self)

    def interrupt(happened):
        """Press Ctrl-C, and wait until the main thread has noticed."""
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        until(happened, "the main thread to notice the signal")

    def sweep(key, *arguments):
        if threading.current_thread() is not threading.main_thread() and key.sweep == 4:
            interrupt(lambda: stops[0].now)
            interrupt(lambda: stops[0].at_once)
        return real(key, *arguments)

    class Noting(MemoryStore):
        def save(self, chain, number, state, *, now):
            saves.append((chain, number, now))
            super().save(chain, number, state, now=now)

    monkeypatch.setattr(chains_module, "Stop", Noted)
    monkeypatch.setattr(chains_module, "sweep", sweep)
    with pytest.raises(KeyboardInterrupt):
        run_chains(Noting(Plan(TENSOR, SPEC, Schedule(0, 10_000, 1), 2, 2)), threads=2)
    until(lambda: "allocore-chains" not in [each.name for each in threading.enumerate()], "the other thread to end")
    assert saves[-1][0] == 1
    assert [number for chain, number, now in saves if chain == 1 and now] == []


def test_a_signal_that_is_ignored_stays_ignored(stop_at):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        stop_at(2, signal.SIGTERM)
        assert sampled(Schedule(0, 4, 1)).core_values.shape[1] == 4
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_signal_in_the_last_sweep_of_a_run_is_not_told_as_a_stop(stop_at):
    stop_at(4)
    assert sampled(Schedule(0, 4, 1)).core_values.shape[1] == 4


def test_an_error_in_one_chain_ends_the_others_and_is_raised(monkeypatch):
    real, calls = chains_module.sweep, []

    def sweep(key, *arguments):
        calls.append(key)
        if key.words == chains_module.Key.of(2, 1).words and key.sweep == 3:
            raise ArithmeticError("chain 1 cannot go on")
        return real(key, *arguments)

    monkeypatch.setattr(chains_module, "sweep", sweep)
    with pytest.raises(ArithmeticError, match="chain 1 cannot go on"):
        sampled(Schedule(0, 100_000, 1), chains=2, threads=2)
    assert len(calls) < 10_000


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
model = ac.AlloCore(2, burn_in=0, draws=100_000, thin=1, chains=1, seed=3, threads=2).fit(Y)
post = model.posterior_
again = ac.AlloCore(2, burn_in=0, draws=3, thin=1, chains=1, seed=3).fit(Y).posterior_
print("same", (post.core_values[:, :3] == again.core_values).all())
print("draws", post.core_values.shape[1], post.stats["moved"].shape[1])
"""


# The quick tier stops runs by signals in this process, and a command by Ctrl-C (test_cli_signals.py).
@pytest.mark.slow
def test_a_real_sigint_ends_the_run_with_the_draws_so_far_and_a_warning():
    with subprocess.Popen(
        [sys.executable, "-W", "default", "-c", PRESSED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(600, process.kill)
        guard.start()
        sweep = 0
        while sweep < 5:
            sweep = int(process.stdout.readline().removeprefix("sweep "))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        guard.cancel()
    assert process.returncode == 0, err
    assert "FindingWarning: stopped: " in err
    assert "of 100000 draws are kept" in err
    assert "Traceback" not in err
    *_, same, draws = out.splitlines()
    assert "closed" in out.splitlines()
    assert same == "same True"
    _, kept, traced = draws.split()
    assert sweep <= int(kept) == int(traced) < 100_000


# Draws


def test_later_sweeps_never_change_earlier_draws():
    short, long = sampled(Schedule(1, 2, 2)), sampled(Schedule(1, 6, 2))
    assert_same(draws_of(short), [array[:, :2] for array in draws_of(long)])
    assert len(np.unique(long.core_values[0, :, 0])) == 6


def test_no_array_of_a_finished_run_can_be_written_to():
    record = sampled(Schedule(0, 2, 1), chains=2)
    for array in (*draws_of(record), *record.stats.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(TypeError):
        record.stats["moved"] = np.zeros(2)


# The trace


def test_the_trace_has_an_entry_for_every_sweep_of_every_chain_burn_in_included():
    record = sampled(Schedule(3, 2, 4), chains=2)
    shapes = {name: values.shape for name, values in record.stats.items()}
    assert shapes == {
        "log_likelihood": (2, 11),
        "classes": (2, 11),
        "factors": (2, 11, 3),
        "moved": (2, 11),
        "seconds": (2, 11),
        "relocation_accepted": (2, 11),
        "split_merge_accepted": (2, 11),
    }
    assert (record.stats["seconds"] > 0).all()
    assert np.isfinite(record.stats["log_likelihood"]).all()
    assert ((record.stats["classes"] >= 1) & (record.stats["classes"] <= SPEC.budget)).all()
    assert (record.stats["factors"] >= 1).all()
    assert (record.stats["factors"] <= np.minimum(SPEC.core_shape, record.stats["classes"][..., None])).all()


def test_moved_is_the_share_of_classes_that_changed_location_in_that_sweep():
    record = sampled(Schedule(0, 12, 1), chains=2)
    for chain in range(2):
        locations = np.concatenate([[SPEC.start_locations()], record.core_locations[chain]])
        expected = (locations[1:] != locations[:-1]).any(axis=2).mean(axis=1)
        np.testing.assert_array_equal(record.stats["moved"][chain], expected)
    assert 0 < record.stats["moved"].max() <= 1


def test_nothing_moves_where_locations_are_fixed():
    record = sampled(Schedule(0, 4, 1), spec=Spec(3, (3, 3, 3), model="CP"))
    assert (record.stats["moved"] == 0).all()
    assert (record.core_locations == np.arange(3)[:, None]).all()


def test_the_log_likelihood_of_a_kept_sweep_is_that_of_its_draw():
    schedule = Schedule(2, 3, 2)
    record = sampled(schedule, chains=2)
    for chain, draw in np.ndindex(2, 3):
        with np.errstate(divide="ignore"):
            log_phi = tuple(np.log(factor[chain, draw]) for factor in record.factors)
        state = State(np.log(record.core_values[chain, draw]), record.core_locations[chain, draw], log_phi)
        told = record.stats["log_likelihood"][chain, schedule.sweep_of(draw) - 1]
        assert told == pytest.approx(joint.log_likelihood(TENSOR, record.spec, state), abs=1e-6 * TENSOR.total)


# Several chains


def test_chains_differ_from_each_other_from_the_first_sweep_on():
    record = sampled(Schedule(0, 2, 1), chains=3)
    for array in (record.core_values, record.stats["log_likelihood"]):
        assert len(np.unique(array[:, 0].reshape(3, -1), axis=0)) == 3


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
def test_a_chain_does_not_depend_on_how_many_others_run_beside_it(threads):
    schedule = Schedule(2, 3, 2)
    alone, together = sampled(schedule, chains=1), sampled(schedule, chains=3, threads=threads)
    assert_same(draws_of(alone), [array[:1] for array in draws_of(together)])
    assert_same(trace_of(alone), [values[:1] for values in trace_of(together)])


@pytest.mark.parametrize(
    ("chains", "threads", "shares"), [(1, 4, [4]), (2, 2, [1, 1]), (3, 8, [3, 3, 2]), (4, 2, [1, 1]), (3, 1, [1])]
)
def test_chains_share_the_threads(monkeypatch, chains, threads, shares):
    made = []

    class Counted(chains_module.Workers):
        def __init__(self, number):
            made.append(number)
            super().__init__(number)

    monkeypatch.setattr(chains_module, "Workers", Counted)
    sampled(Schedule(0, 1, 1), chains=chains, threads=threads)
    assert made == shares


def test_chains_advance_together_where_they_take_turns(monkeypatch):
    order, real = [], chains_module.sweep

    def sweep(key, *arguments):
        order.append((key.sweep, key.words))
        return real(key, *arguments)

    monkeypatch.setattr(chains_module, "sweep", sweep)
    sampled(Schedule(0, 3, 1), chains=3)
    assert [number for number, _ in order] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
