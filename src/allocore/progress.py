"""Progress that never disturbs the work: bars by rich on a terminal, an HTML table in a notebook, lines in a log.

`progress_bar` and `restart_bar` show chains and restarts of EM through an `Observer`, which a `Watch` calls; `draw_bar`
and `watched` show work on draws or in other steps, and `waiting` a command whose length is unknown. All lines go
through `log`, which the command line can silence or format.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from math import inf
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from allocore._text import visible
from allocore.findings import Finding, warn
from allocore.model.state import SweepInfo
from allocore.storage.record import Schedule

News = Sequence[tuple[str, str]]  # words and values
_T = TypeVar("_T")

_NOTEBOOK_SECONDS = 0.25  # between two updates of a notebook
_LINE_SECONDS, _SLOW_LINE_SECONDS = 10.0, 60.0  # between two lines of a log, and between two with little news
_ROWS = 4  # more chains than this share one row
_NEW_SHARE = 0.1  # a line has news if this share of the work was done since the last one
_PATIENCE = 1.0  # seconds before a terminal shows what a command does
_LOG_SECONDS = (30.0, 60.0)  # before the first line of a log that says what a command does, and between later ones
_SECONDS_BEFORE_A_TABLE = 2.0  # most work on draws ends sooner, and a short table would make a notebook jump
_SECONDS_BEFORE_A_BAR = 3.0
_CELL = "text-align:left;padding:0 0.6em 0 0;white-space:nowrap"


LogFormat = Literal["plain", "json"]
LogLevel = Literal["info", "warning", "error", "stopped"]
_PREFIXES = {"info": "", "warning": "allocore: warning: ", "error": "allocore: error: ", "stopped": "allocore: "}


@dataclass
class _Log:
    """How this process writes lines on standard error."""

    quiet: bool = False
    format: LogFormat | None = None  # None: lines without times, and bars where they can be shown


_log = _Log()


def set_log(*, quiet: bool = False, format: LogFormat | None = None) -> None:
    """Leave out progress and messages of this process (`quiet`), or write them as lines with times."""
    _log.quiet, _log.format = quiet, format


def log(message: str, level: LogLevel = "info") -> None:
    """Print a line on standard error. If the log is quiet, only warnings, errors and stops are printed."""
    if sys.stderr is None or (_log.quiet and level == "info"):
        return
    text, time = visible(message), datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = _PREFIXES[level] + text
    if _log.format == "json":
        line = json.dumps({"time": time, "level": level, "message": text})
    elif _log.format == "plain":
        line = f"{time} {line}"
    print(line, file=sys.stderr, flush=True)


class Row(NamedTuple):
    """One bar: its name, how much there is to do, and how much was done before."""

    name: str
    whole: int
    before: int = 0


class Display:
    """Shows how far the rows are. The pace counts from the first update: before it, kernels compile and data load."""

    def __init__(self, rows: Sequence[Row], clock: Callable[[], float]) -> None:
        self._rows, self._done, self._clock = list(rows), [row.before for row in rows], clock
        self._whole = sum(row.whole for row in rows)
        self._start: tuple[float, int] | None = None  # the time of the first update, and what was done by then

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Set how much of a row is done, and show it."""
        self._done[row] = done
        if self._start is None:
            self._start = self._clock(), sum(self._done)

    def close(self) -> None:
        """Leave the last state on the screen."""

    def _seconds(self) -> float:
        return 0.0 if self._start is None else self._clock() - self._start[0]

    def _rate(self) -> float:
        seconds = self._seconds()
        return 0.0 if self._start is None or not seconds else (sum(self._done) - self._start[1]) / seconds

    def _time_left(self) -> str:
        rate = self._rate()
        return f"about {in_words((self._whole - sum(self._done)) / rate)} left" if rate > 0 else ""


def output_kind() -> Literal["terminal", "notebook", "log"] | None:
    """Where this process can show progress; None if it has no standard error or its log is quiet."""
    if _log.quiet:
        return None
    if _in_notebook():
        return "notebook"
    if sys.stderr is None:
        return None
    return "terminal" if sys.stderr.isatty() and _log.format is None else "log"


def _in_notebook() -> bool:
    """Whether a kernel runs this process: IPython on a terminal has a shell, but no kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def in_words(seconds: float) -> str:
    """Return a time in a readable unit: "40 s", "12 min", "3.5 h", "4.6 days"."""
    for most, unit, form in ((100, 1, "{:.0f} s"), (6000, 60, "{:.0f} min"), (170_000, 3600, "{:.1f} h")):
        if seconds < most:
            return form.format(seconds / unit)
    return f"{seconds / 86400:.1f} days"


class TerminalBars(Display):
    """A line per row: bar, news, time left (if `steady`); appears after `patience` seconds, and goes if `transient`."""

    def __init__(
        self, rows: Sequence[Row], *, steady: bool = True, patience: float = 0.0, transient: bool = False
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeftColumn

        super().__init__(rows, monotonic)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeLeftColumn(compact=True) if steady else TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=transient,
        )
        self._tasks = [
            self._bar.add_task(row.name, total=row.whole, completed=row.before, news="", start=False) for row in rows
        ]
        self._from = monotonic() + patience
        if patience <= 0.0:
            self._bar.start()

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Redraw the line of a row."""
        text = "  ".join(f"{word} [bold]{value}[/]" if word else value for word, value in news)
        if monotonic() >= self._from:
            self._bar.start()
        self._bar.start_task(self._tasks[row])
        self._bar.update(self._tasks[row], completed=done, news=text)

    def close(self) -> None:
        """Leave the last state of the bars on the screen, or remove them if they are transient."""
        self._bar.stop()


class LogLines(Display):
    """A line on standard error from time to time, for logs; short work leaves none."""

    def __init__(self, rows: Sequence[Row], unit: str, *, steady: bool = True, clock: Callable[[], float] = monotonic):
        super().__init__(rows, clock)
        self._unit, self._steady = unit, steady
        self._printed: tuple[float, int] | None = None  # the time of the last line, and what was done by then
        self._slow = False  # whether the work takes so long that lines are printed

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Print a line ten seconds after the last one, or later if little was done."""
        super().update(row, done)
        now = self._clock(), sum(self._done)
        since, new = (0.0, 0) if self._printed is None else (now[0] - self._printed[0], now[1] - self._printed[1])
        worth_it = not self._slow or new >= _NEW_SHARE * self._whole or since >= _SLOW_LINE_SECONDS
        due = since >= _LINE_SECONDS and worth_it
        if due:
            self._slow = True
            if now[1] < self._whole:  # `close` prints the last line
                log(self._line(news if len(self._rows) == 1 else ()))
        if due or self._printed is None:
            self._printed = now

    def close(self) -> None:
        """Print how far the work came, if the work was slow."""
        if self._slow:
            log(f"{self._summary()} in {in_words(self._seconds())}")

    def _summary(self) -> str:
        name = self._rows[0].name if len(self._rows) == 1 else f"{len(self._rows)} chains"
        return f"{name}: {sum(self._done):,} of {self._whole:,} {self._unit}"

    def _line(self, news: News) -> str:
        parts = [self._summary()]
        if self._steady:
            parts[0] += f" ({sum(self._done) / self._whole:.0%})"
            rate = self._rate()
            slow = f"{1 / rate:.3g} s for each" if rate else ""
            parts += [f"{rate:.3g} per second" if rate >= 1 else slow, self._time_left()]
        return ", ".join([*(part for part in parts if part), *(f"{word} {value}".strip() for word, value in news)])


class NotebookBars(Display):
    """A table below the cell of a notebook, one row per bar; the arguments are those of `TerminalBars`."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        steady: bool = True,
        patience: float = 0.0,
        transient: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        super().__init__(rows, clock)
        self._steady, self._transient = steady, transient
        self._news: list[News] = [()] * len(rows)
        self._next, self._name = clock() + patience, ""
        if not patience:
            self._publish()

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Show the row, unless the table was updated a moment ago; `close` shows the last state."""
        super().update(row, done)
        self._news[row] = news
        if self._clock() >= self._next:
            self._publish()

    def close(self) -> None:
        """Show the last state, or remove the table if it is transient."""
        if self._name:
            self._publish(last=True)

    def _publish(self, last: bool = False) -> None:
        ipython: Any = import_module("IPython.display")
        shown = {"text/html": self._html(last), "text/plain": self._text()}
        if last and self._transient:
            shown = dict.fromkeys(shown, "")
        if self._name:
            ipython.update_display(shown, raw=True, display_id=self._name)
        else:
            self._name = uuid4().hex
            ipython.display(shown, raw=True, display_id=self._name)
        self._next = self._clock() + _NOTEBOOK_SECONDS

    def _html(self, last: bool) -> str:
        lines = [self._row(number) for number in range(len(self._rows))]
        time = in_words(self._seconds()) if last else self._time_left() if self._steady else ""
        lines[-1] += f"<td style='{_CELL}'>{time}</td>"
        rows = "".join(f"<tr style='background:none'>{line}</tr>" for line in lines)
        return f"<table style='font-variant-numeric:tabular-nums;border:none'>{rows}</table>"

    def _row(self, number: int) -> str:
        row, done = self._rows[number], self._done[number]
        bar = f"<progress value='{done}' max='{row.whole}' style='width:12em;vertical-align:middle'></progress>"
        escaped = [(escape(word), escape(value)) for word, value in self._news[number]]
        news = [f"{word} <b>{value}</b>" if word else value for word, value in escaped]
        cells = [escape(row.name), bar, f"{done:,}/{row.whole:,}", *news]
        return "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in cells)

    def _text(self) -> str:
        rows = zip(self._rows, self._done, strict=True)
        return "\n".join(f"{row.name}: {done:,} of {row.whole:,}" for row, done in rows)


def bars(
    rows: Sequence[Row], unit: str, *, steady: bool = True, patience: float = 0.0, transient: bool = False
) -> Display | None:
    """Bars or lines for work, if this process can show them. If work is steady, its pace gives the time left."""
    where = output_kind()
    if where == "terminal":
        return TerminalBars(rows, steady=steady, patience=patience, transient=transient)
    if where == "notebook":
        patience = _SECONDS_BEFORE_A_TABLE if transient else 0.0
        return NotebookBars(rows, steady=steady, patience=patience, transient=transient)
    return None if where is None else LogLines(rows, unit, steady=steady)


class Observer(Protocol):
    """Receives the progress of a run between sweeps."""

    def show(self, chain: int, sweep: int, info: SweepInfo) -> None:
        """Sweep 1, 2, .. of a chain is done."""

    def close(self) -> None:
        """The run has ended."""


class Watch:
    """Passes progress to an observer from any thread, at a human rate; one that raises is dropped with a warning."""

    def __init__(self, observer: Observer | None, seconds: float = 0.1, clock: Callable[[], float] = monotonic) -> None:
        self._observer, self._seconds, self._clock = observer, seconds, clock
        self._last: dict[int, float] = {}
        self._lock = Lock()

    def sweep_done(self, chain: int, sweep: int, info: SweepInfo, last: bool) -> None:
        """Call the observer if enough time has passed, or if this was the chain's last sweep."""
        now = self._clock()
        if self._observer is None or (now - self._last.get(chain, -inf) < self._seconds and not last):
            return
        self._last[chain] = now
        with self._lock:
            self._safely(lambda observer: observer.show(chain, sweep, info))

    def close(self) -> None:
        """Tell the observer that the run has ended."""
        self._safely(lambda observer: observer.close())

    def _safely(self, call: Callable[[Observer], None]) -> None:
        if self._observer is None:
            return
        try:
            call(self._observer)
        except Exception as error:
            self._observer = None
            warn(Finding("progress-display-failed", "caution", {"error": repr(error)}), stacklevel=3)


class ProgressBar:
    """A row per chain, or one for many chains: sweeps done, log-likelihood, classes in use, time left.

    `missing` is what the run still lacks, as judged by its last round.
    """

    def __init__(self, schedule: Schedule, display: Display, done: Sequence[int], missing: News = ()) -> None:
        self._schedule, self._display, self._missing = schedule, display, missing
        self._done = list(done)

    def show(self, chain: int, sweep: int, info: SweepInfo) -> None:
        """Show how far a chain is, or how far all of them are."""
        phase = "burn-in" if sweep <= self._schedule.burn_in else "draws  "
        news = [
            ("", phase),
            ("log-lik", f"{info.log_likelihood:,.0f}"),
            ("classes", f"{info.classes}"),
            *self._missing,
        ]
        self._done[chain] = sweep
        together = len(self._done) > _ROWS
        self._display.update(0 if together else chain, sum(self._done) if together else sweep, news)

    def close(self) -> None:
        """Leave the last state on the screen."""
        self._display.close()


def chain_rows(schedule: Schedule, done: Sequence[int]) -> list[Row]:
    """A row for each chain, with the sweeps that it has done before; one for all chains if there are many."""
    if len(done) > _ROWS:
        return [Row(f"{len(done)} chains", schedule.sweeps * len(done), sum(done))]
    names = ["sampling"] if len(done) == 1 else [f"chain {chain}" for chain in range(len(done))]
    return [Row(name, schedule.sweeps, before) for name, before in zip(names, done, strict=True)]


def progress_bar(wanted: bool, schedule: Schedule, done: Sequence[int], missing: News = ()) -> Observer | None:
    """The progress of chains that have `done` some sweeps before, if it is wanted and can be shown."""
    display = bars(chain_rows(schedule, done), "sweeps") if wanted else None
    return None if display is None else ProgressBar(schedule, display, done, missing)


class RestartBar:
    """One row: restarts done, the iteration of the current one, its log-likelihood and the best so far."""

    def __init__(self, restarts: int, max_iterations: int, display: Display) -> None:
        self._restarts, self._max_iterations, self._best, self._now = restarts, max_iterations, -inf, -1
        self._display, self._news = display, list[tuple[str, str]]()

    def show(self, chain: int, sweep: int, info: SweepInfo) -> None:
        """Show the row: `chain` is the restart, `sweep` its iteration."""
        self._now, self._best = chain, max(self._best, info.log_likelihood)
        self._news = [
            ("iteration", f"{sweep} of {self._max_iterations}"),
            ("log-lik", f"{info.log_likelihood:,.0f}"),
            ("best", f"{self._best:,.0f}"),
        ]
        self._display.update(0, chain, self._news)

    def close(self) -> None:
        """Close the bar, full if the last restart did not fail: `show` is not called after the last iteration."""
        if self._now == self._restarts - 1 and sys.exc_info()[0] is None:
            self._display.update(0, self._restarts, self._news)
        self._display.close()


def restart_bar(wanted: bool, restarts: int, max_iterations: int) -> Observer | None:
    """The progress of restarts, if it is wanted and can be shown."""
    display = bars([Row("restarts", restarts)], "done", steady=False) if wanted else None
    return None if display is None else RestartBar(restarts, max_iterations, display)


@contextmanager
def draw_bar(
    title: str, wanted: bool, unit: str = "draws", patience: float = 0.0
) -> Iterator[Callable[[int, int], None]]:
    """Show work on draws as a transient bar. Call what is yielded with the draws done and all draws, in any thread."""
    displays, lock = list[Display | None](), Lock()

    def tick(done: int, whole: int) -> None:
        with lock:
            if not displays:  # the first call says how many draws there are
                displays.append(bars([Row(title, whole)], unit, patience=patience, transient=True) if wanted else None)
            if displays[0] is not None:
                displays[0].update(0, done)

    try:
        yield tick
    finally:
        for display in filter(None, displays):
            display.close()


def watched(steps: Iterable[_T], total: int, words: str) -> Iterator[_T]:
    """Yield the steps. A bar (in a log, a line) appears after a few seconds."""
    with draw_bar(words, wanted=True, unit="steps", patience=_SECONDS_BEFORE_A_BAR) as tick:
        tick(0, total)
        for done, step in enumerate(steps, 1):
            yield step
            tick(done, total)


@contextmanager
def waiting(what: str, *, in_logs_only: bool = False) -> Iterator[Callable[[str], None]]:
    """Show what a command does while it runs. Call what is yielded with news, such as "3 files written".

    Nothing else may draw on standard error meanwhile: use `in_logs_only` for work with its own bar on terminals.
    """
    where = output_kind()
    if where is None or (in_logs_only and where != "log"):
        yield lambda news: None
        return
    parts, ended, start = [what], Event(), monotonic()

    def line() -> str:
        return visible(", ".join([*parts, in_words(monotonic() - start)]))

    def show_on_terminal() -> None:
        from rich.console import Console
        from rich.text import Text

        if ended.wait(_PATIENCE):
            return
        with Console(stderr=True).status(Text(line())) as status:
            while not ended.wait(0.5):
                status.update(Text(line()))

    def print_in_log() -> None:
        pause, later = _LOG_SECONDS
        while not ended.wait(pause):
            log(f"allocore: {line()}")
            pause = later

    def set_news(news: str) -> None:
        parts[1:] = [news] if news else []

    thread = Thread(target=show_on_terminal if where == "terminal" else print_in_log, daemon=True)
    thread.start()
    try:
        yield set_news
    finally:
        ended.set()
        thread.join()
