"""Progress: news at a human rate, bars on a terminal, and never at the cost of the run."""

import contextlib
import io
import os
import pty
import re
import sys
import threading

import numpy as np
import pytest
import rich.console
import rich.progress

import allocore as ac
from allocore.model.spec import Spec
from allocore.model.state import SweepInfo
from allocore.progress import ProgressBar, TerminalBars, Watch, chain_rows, progress_bar
from allocore.run.chains import run_chains
from allocore.storage.record import MemoryStore, Plan, Schedule
from support.findings import warned

INFO = SweepInfo(log_likelihood=-12345.6, classes=17, factors=(3, 4), moved=0.125)
TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (4, 3, 2)))


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Listener:
    def __init__(self, fails_at=None, fails_on_close=False):
        self.told, self.closed = [], 0
        self.fails_at, self.fails_on_close = fails_at, fails_on_close

    def show(self, chain, sweep, info):
        self.told.append((chain, sweep))
        if (chain, sweep) == self.fails_at:
            raise RuntimeError("no ink")

    def close(self):
        self.closed += 1
        if self.fails_on_close:
            raise RuntimeError("door stuck")


def sampled(observer, seed=1):
    schedule, spec = Schedule(1, 3, 1), Spec(2, (2, 2, 2))
    return run_chains(MemoryStore(Plan(TENSOR, spec, schedule, 2, seed)), threads=1, observer=observer)


@pytest.fixture
def screen(monkeypatch):
    """What a progress bar writes, as on a terminal of 120 columns."""
    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(
        rich.console, "Console", lambda stderr: real(file=screen, force_terminal=True, width=120, stderr=False)
    )
    return screen


def terminal_bar(schedule, chains=1, done=None):
    done = done or [0] * chains
    return ProgressBar(schedule, TerminalBars(chain_rows(schedule, done)), done)


# The watch


def test_news_are_passed_on_at_most_every_so_many_seconds():
    clock, listener = Clock(), Listener()
    watch = Watch(listener, seconds=0.5, clock=clock)
    for sweep in range(1, 21):
        watch.sweep_done(0, sweep, INFO, last=False)
        clock.now += 0.125
    assert listener.told == [(0, 1), (0, 5), (0, 9), (0, 13), (0, 17)]


def test_the_last_sweep_of_every_chain_is_always_told():
    clock, listener = Clock(), Listener()
    watch = Watch(listener, seconds=1000.0, clock=clock)
    for chain in range(3):
        for sweep in range(1, 5):
            clock.now += 0.001
            watch.sweep_done(chain, sweep, INFO, last=sweep == 4)
    assert listener.told == [(0, 1), (0, 4), (1, 1), (1, 4), (2, 1), (2, 4)]


def test_slow_sweeps_are_all_told():
    clock, listener = Clock(), Listener()
    watch = Watch(listener, seconds=0.1, clock=clock)
    for sweep in range(1, 6):
        watch.sweep_done(0, sweep, INFO, last=False)
        clock.now += 2.0
    assert listener.told == [(0, sweep) for sweep in range(1, 6)]


def test_closing_the_watch_closes_the_observer():
    listener = Listener()
    Watch(listener).close()
    assert listener.closed == 1


def test_an_observer_that_raises_is_let_go_with_a_warning_and_never_called_again():
    clock, listener = Clock(), Listener(fails_at=(0, 2))
    watch = Watch(listener, seconds=0.0, clock=clock)
    watch.sweep_done(0, 1, INFO, last=False)
    with warned("progress-display-failed", error="RuntimeError('no ink')"):
        watch.sweep_done(0, 2, INFO, last=False)
    watch.sweep_done(0, 3, INFO, last=True)
    watch.close()
    assert listener.told == [(0, 1), (0, 2)]
    assert listener.closed == 0


def test_a_run_tells_its_observer_of_the_first_and_the_last_sweeps_and_of_its_end():
    listener = Listener()
    sampled(listener)
    assert listener.told[0] == (0, 1)
    assert {(0, 4), (1, 4)} <= set(listener.told)
    assert {sweep for _, sweep in listener.told} <= {1, 2, 3, 4}
    assert listener.closed == 1


@pytest.mark.parametrize("broken", [{"fails_at": (0, 1)}, {"fails_at": (1, 4)}, {"fails_on_close": True}], ids=str)
def test_a_run_with_a_broken_observer_gives_the_draws_of_a_run_without_one(broken):
    expected = sampled(None)
    with warned("progress-display-failed"):
        record = sampled(Listener(**broken))
    assert record.core_values.tobytes() == expected.core_values.tobytes()
    assert record.core_locations.tobytes() == expected.core_locations.tobytes()
    assert record.stats["log_likelihood"].tobytes() == expected.stats["log_likelihood"].tobytes()


def test_the_observer_is_closed_when_the_run_fails():
    class Full(MemoryStore):
        def record_draw(self, chain, draw, state):
            raise OSError("no space left")

    listener, schedule, spec = Listener(), Schedule(0, 2, 1), Spec(2, (2, 2, 2))
    store = Full(Plan(TENSOR, spec, schedule, 1, 0))
    with pytest.raises(OSError, match="no space left"):
        run_chains(store, threads=1, observer=listener)
    assert listener.closed == 1


# The bar


def test_the_bar_shows_log_likelihood_classes_and_sweeps_done(screen):
    bar = terminal_bar(Schedule(10, 5, 2), chains=1)
    bar.show(0, 20, INFO)
    bar.close()
    last = screen.getvalue().rsplit("sampling", 1)[1]
    text = _without_escapes(last)
    for piece in ("20/20", "log-lik -12,346", "classes 17", "draws"):
        assert piece in text


@pytest.mark.parametrize(("sweep", "phase"), [(1, "burn-in"), (10, "burn-in"), (11, "draws"), (20, "draws")])
def test_the_bar_tells_burn_in_from_draws(screen, sweep, phase):
    bar = terminal_bar(Schedule(10, 5, 2), chains=1)
    bar.show(0, sweep, INFO)
    bar.close()
    assert f"{sweep}/20 {phase}" in " ".join(_without_escapes(screen.getvalue()).split())


def test_every_chain_has_a_line_of_its_own(screen):
    bar = terminal_bar(Schedule(1, 3, 1), chains=3)
    for chain in range(3):
        bar.show(chain, chain + 1, INFO)
    bar.close()
    lines = _without_escapes(screen.getvalue()).splitlines()[-3:]
    for chain, line in enumerate(lines):
        assert line.startswith(f"chain {chain} ")
        assert f"{chain + 1}/4" in line


def test_a_closed_bar_gives_the_cursor_back(screen):
    terminal_bar(Schedule(1, 1, 1), chains=1).close()
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")


def test_a_run_with_a_bar_gives_the_draws_of_a_run_without_one(screen):
    expected = sampled(None)
    record = sampled(terminal_bar(Schedule(1, 3, 1), chains=2))
    assert record.core_values.tobytes() == expected.core_values.tobytes()
    assert "4/4" in screen.getvalue()


@pytest.mark.parametrize(
    ("wanted", "terminal", "expected"), [(1, 1, True), (1, 0, False), (0, 1, False), (0, 0, False)]
)
def test_there_is_a_bar_only_if_it_is_wanted_and_stderr_is_a_terminal(screen, monkeypatch, wanted, terminal, expected):
    stream = io.StringIO()
    stream.isatty = lambda: bool(terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    bar = progress_bar(bool(wanted), Schedule(1, 1, 1), [0])
    assert (bar is not None) == bool(wanted), "elsewhere there are lines"
    if bar is not None:
        bar.show(0, 1, INFO)
        bar.close()
    assert ("sampling" in screen.getvalue()) == expected


def test_a_short_fit_writes_nothing_where_stderr_is_no_terminal(capfd):
    ac.AlloCore(2, burn_in=1, draws=1, thin=1, seed=0, threads=1, progress=True, chains=1).fit(TENSOR)
    assert capfd.readouterr() == ("", "")


def test_on_a_real_terminal_a_fit_shows_the_bar_if_it_is_wanted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    model = ac.AlloCore(2, burn_in=2, draws=3, thin=2, chains=2, seed=3)
    without, bar = (_on_a_terminal(monkeypatch, model.set_params(progress=wanted).fit) for wanted in (False, True))
    assert without == ""
    for piece in ("chain 0", "chain 1", "8/8", "log-lik", "classes"):
        assert piece in bar


def _on_a_terminal(monkeypatch, fit):
    """What a fit writes to standard error when that is a terminal."""
    ours, theirs = pty.openpty()
    pieces = []

    def read():
        with contextlib.suppress(OSError):  # Linux says so when the other side is closed
            while piece := os.read(ours, 4096):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with monkeypatch.context() as patch, open(theirs, "w", encoding="utf-8") as screen:
        patch.setattr(sys, "stderr", screen)
        fit(TENSOR)
    reader.join(600)
    os.close(ours)
    return _without_escapes(b"".join(pieces).decode())


def _without_escapes(text):
    return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text).replace("\r", "\n").strip("\n")
