"""Progress without a terminal: lines in a log, bars in a notebook, and what is left after a resume."""

import io
import re
import sys

import numpy as np
import pytest

import allocore as ac
from allocore import progress
from allocore.model.state import SweepInfo
from allocore.progress import (
    LogLines,
    NotebookBars,
    Row,
    TerminalBars,
    bars,
    draw_bar,
    in_words,
    output_kind,
    progress_bar,
    restart_bar,
    watched,
)
from allocore.storage.record import Schedule
from support.notebooks import outputs_of

INFO = SweepInfo(log_likelihood=-12345.6, classes=17, factors=(3, 4), moved=0.125)


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """A clock for all displays."""
    clock = Clock()
    for display in (LogLines, NotebookBars):
        monkeypatch.setitem(display.__init__.__kwdefaults__, "clock", clock)
    return clock


@pytest.fixture
def published(monkeypatch):
    """What a notebook displays: names of displays and HTML."""
    pytest.importorskip("IPython", reason="ipykernel brings IPython")
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw, display_id: shown.append((display_id, data)))
    monkeypatch.setattr(
        IPython.display, "update_display", lambda data, raw, display_id: shown.append((display_id, data))
    )
    return shown


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (700, "12 min"), (12_600, "3.5 h"), (400_000, "4.6 days")])
def test_a_time_has_a_readable_unit(seconds, text):
    assert in_words(seconds) == text


# Lines in a log


def sweeps(observer, clock, sweeps, seconds):
    """Make sweeps 1, 2, .. that take `seconds` each."""
    for sweep in range(1, sweeps + 1):
        observer.show(0, sweep, INFO)
        clock.now += seconds
    observer.close()


def test_a_log_has_a_line_now_and_then_with_sweeps_done_rate_and_time_left(clock, capsys):
    sweeps(progress_bar(True, Schedule(100, 100, 1), [0]), clock, 200, 0.5)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "sampling: 21 of 200 sweeps (10%), 2 per second, about 90 s left, burn-in, log-lik -12,346, classes 17"
    )
    assert len(lines) == 10
    assert lines[-1] == "sampling: 200 of 200 sweeps in 2 min"


def test_a_run_of_hours_has_a_line_each_minute_at_most(clock, capsys):
    sweeps(progress_bar(True, Schedule(0, 400, 1), [0]), clock, 400, 20.0)
    lines = capsys.readouterr().err.splitlines()
    assert "20 s for each" in lines[0]
    assert 130 <= len(lines) <= 8000 / 60 + 2


def test_short_work_leaves_no_line(clock, capsys):
    sweeps(progress_bar(True, Schedule(0, 400, 1), [0]), clock, 400, 0.02)
    assert capsys.readouterr().err == ""


def test_a_single_slow_step_has_one_line_when_it_is_done(clock, capsys):
    for step in watched([12.8], 1, "scoring held-out cells"):
        clock.now += step
    assert capsys.readouterr().err.splitlines() == ["scoring held-out cells: 1 of 1 steps in 13 s"]


def test_lines_are_quiet_without_progress(clock, capsys):
    assert progress_bar(False, Schedule(0, 4, 1), [0]) is None
    assert restart_bar(False, 3, 10) is None


def test_the_line_of_several_chains_counts_the_sweeps_of_all(clock, capsys):
    observer = progress_bar(True, Schedule(0, 100, 1), [0, 0])
    for sweep in range(1, 31):
        for chain in range(2):
            observer.show(chain, sweep, INFO)
        clock.now += 1.0
    assert (
        capsys.readouterr()
        .err.splitlines()[0]
        .startswith("2 chains: 21 of 200 sweeps (10%), 2 per second, about 90 s left")
    )


def test_after_a_resume_the_rate_is_that_of_the_new_sweeps(clock, capsys):
    observer = progress_bar(True, Schedule(0, 100, 1), [50])
    for sweep in range(51, 63):
        observer.show(0, sweep, INFO)
        clock.now += 1.0
    assert capsys.readouterr().err.startswith("sampling: 61 of 100 sweeps (61%), 1 per second, about 39 s left")


def test_restarts_and_work_on_draws_have_lines_too(clock, capsys):
    restarts = restart_bar(True, 3, 10)
    restarts.show(0, 1, INFO)
    clock.now += 11
    restarts.show(1, 7, INFO)
    restarts.close()
    assert capsys.readouterr().err.splitlines() == [
        "restarts: 1 of 3 done, iteration 7 of 10, log-lik -12,346, best -12,346",
        "restarts: 1 of 3 done in 11 s",
    ]
    with draw_bar("consensus", True) as tick:
        tick(1, 100)
        clock.now += 11
        tick(12, 100)
    assert "consensus: 12 of 100 draws (12%), 1 per second, about 88 s left" in capsys.readouterr().err


def test_long_work_on_cells_has_a_line_too(clock, capsys):
    done = []
    for step in watched("abcd", 4, "judging cells"):
        done.append(step)
        clock.now += 6
    assert done == list("abcd")
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith("judging cells: 2 of 4 steps (50%), 6 s for each, about 12 s left")
    assert last == "judging cells: 4 of 4 steps in 24 s"


def test_steps_that_end_early_do_not_count_as_done(clock, capsys):
    for step in watched("abcd", 4, "judging cells"):
        clock.now += 11
        if step == "c":
            break
    assert "4 of 4" not in capsys.readouterr().err


def test_a_bar_appears_on_a_terminal_when_it_takes_long(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(watched("abc", 3, "judging cells")) == list("abc")
    assert "judging" not in capsys.readouterr().err
    monkeypatch.setattr("allocore.progress._SECONDS_BEFORE_A_BAR", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(watched("abc", 3, "judging cells")) == list("abc")
    assert "judging" in capsys.readouterr().err


# After a resume


def test_the_bars_of_a_resumed_run_start_at_what_is_done(tmp_path, monkeypatch):
    path, tensor = tmp_path / "run.zarr", np.random.default_rng(5).poisson(1.2, (4, 3, 2))
    ac.CP(2, burn_in=1, draws=3, thin=2, chains=2, seed=0, store=path, progress=False).fit(tensor)
    given = []
    monkeypatch.setattr("allocore.progress.bars", lambda rows, unit: given.extend(rows))
    ac.CP.resume(path, draws=5, progress=True)
    assert given == [Row("chain 0", 11, 7), Row("chain 1", 11, 7)]


def test_a_terminal_shows_what_was_done_before_the_first_news(monkeypatch, capsys):
    bar = TerminalBars([Row("sampling", 20, 5)])
    bar.close()
    assert "5/20" in capsys.readouterr().err


# Bars in a notebook


def test_where_progress_is_shown(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert output_kind() == "log"
    stream.isatty = lambda: True
    assert output_kind() == "terminal"
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    assert output_kind() == "notebook"
    monkeypatch.setattr(progress, "_in_notebook", lambda: False)
    monkeypatch.setattr(sys, "stderr", None)
    assert output_kind() is None
    assert bars([Row("sampling", 3)], "sweeps") is None


def test_a_notebook_has_one_table_that_is_replaced_at_a_human_rate(published, clock, monkeypatch):
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    observer = progress_bar(True, Schedule(2, 98, 1), [0, 0])
    for sweep in range(1, 51):
        for chain in range(2):
            observer.show(chain, sweep, INFO)
        clock.now += 0.05
    observer.close()
    assert len({name for name, _ in published}) == 1
    assert 8 <= len(published) <= 12
    last = re.sub(r"<[^>]+>", " ", published[-1][1]["text/html"]).split()
    assert " ".join(last) == (
        "chain 0 50/100 draws log-lik -12,346 classes 17 chain 1 50/100 draws log-lik -12,346 classes 17 2 s"
    )
    assert "value='50' max='100'" in published[-1][1]["text/html"]
    assert "about 3 s left" in published[-2][1]["text/html"]


def test_brief_work_on_draws_shows_nothing_in_a_notebook_and_longer_work_goes_when_it_is_done(
    published, clock, monkeypatch
):
    monkeypatch.setattr(progress, "_in_notebook", lambda: True)
    with draw_bar("consensus", True) as tick:
        tick(1, 100)
        clock.now += 1
        tick(99, 100)
    assert published == []
    with draw_bar("<consensus>", True) as tick:
        tick(1, 100)
        clock.now += 3
        tick(50, 100)
    assert "&lt;consensus&gt;" in published[0][1]["text/html"]
    assert published[-1][1] == {"text/html": "", "text/plain": ""}


FIT = """
import numpy as np
import allocore as ac
Y = np.random.default_rng(5).poisson(1.2, (4, 3, 2))
model = ac.AlloCore(2, burn_in=2, draws=3, thin=2, chains=2, seed=3{more}).fit(Y)
"""


@pytest.mark.slow
def test_a_fit_in_a_real_notebook_leaves_one_table_of_full_bars_and_nothing_else(tmp_path):
    shown, quiet = outputs_of(tmp_path, FIT.format(more=""), FIT.format(more=", progress=False"))
    assert [output["output_type"] for output in shown] == ["display_data"]
    html = shown[0]["data"]["text/html"]
    assert html.count("value='8' max='8'") == 2
    assert quiet == []
