"""Where progress is shown: bars on a terminal and in a notebook, and now and then a plain line in a log.

Notebooks get a small table of HTML that is replaced in place, which Jupyter, VS Code and Colab show without any package
beside IPython.
"""

import sys
from collections.abc import Callable, Sequence
from html import escape
from importlib import import_module
from time import monotonic
from typing import Any, Literal, NamedTuple, Protocol
from uuid import uuid4

News = Sequence[tuple[str, str]]
# Seconds between two pictures of a notebook, between two lines of a log, and between two lines that say little new.
_PICTURES, _LINES, _DULL_LINES = 0.25, 10.0, 60.0
# A line of a log says something new if this share of the work was done since the last one.
_NEW = 0.1
_CELL = "text-align:left;padding:0 0.6em 0 0;white-space:nowrap"


class Row(NamedTuple):
    """One bar: its name, how much there is to do, and how much was done before."""

    name: str
    whole: int
    before: int = 0


class Display(Protocol):
    """Shows how far the rows are."""

    def update(self, row: int, done: int, news: News = ()) -> None:
        """So much of a row is done; `news` are words and values."""

    def close(self) -> None:
        """Leave the last state where it is."""


def place() -> Literal["terminal", "notebook", "log"] | None:
    """Where this process can show progress; None if it has no standard error."""
    if _in_notebook():
        return "notebook"
    if sys.stderr is None:
        return None
    return "terminal" if sys.stderr.isatty() else "log"


def _in_notebook() -> bool:
    """Whether a kernel runs this process: IPython on a terminal has a shell, and no kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def in_words(seconds: float) -> str:
    """Return a time in a readable unit.

    Examples
    --------
    >>> in_words(40), in_words(700), in_words(12600), in_words(400000)
    ('40 s', '12 min', '3.5 h', '4.6 days')
    """
    for most, unit, form in ((100, 1, "{:.0f} s"), (6000, 60, "{:.0f} min"), (170_000, 3600, "{:.1f} h")):
        if seconds < most:
            return form.format(seconds / unit)
    return f"{seconds / 86400:.1f} days"


class TerminalBars:
    """One line per row on a terminal: bar, number done, news, and the time left, or so far if none can be told."""

    def __init__(self, rows: Sequence[Row], *, time_left: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeftColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeLeftColumn(compact=True) if time_left else TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._tasks = [
            self._bar.add_task(row.name, total=row.whole, completed=row.before, news="", start=False) for row in rows
        ]
        self._bar.start()

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Redraw the line of a row."""
        told = "  ".join(f"{word} [bold]{value}[/]" if word else value for word, value in news)
        self._bar.start_task(self._tasks[row])
        self._bar.update(self._tasks[row], completed=done, news=told)

    def close(self) -> None:
        """Leave the last state of the bars on the screen."""
        self._bar.stop()


class _Pace:
    """How fast work goes, counted from the first news: before them kernels are compiled and data are read."""

    def __init__(self, rows: Sequence[Row], clock: Callable[[], float]) -> None:
        self.rows, self.done, self._clock = list(rows), [row.before for row in rows], clock
        self._start: tuple[float, int] | None = None

    @property
    def whole(self) -> int:
        return sum(row.whole for row in self.rows)

    def tell(self, row: int, done: int) -> None:
        self.done[row] = done
        if self._start is None:
            self._start = self._clock(), sum(self.done)

    def seconds(self) -> float:
        return 0.0 if self._start is None else self._clock() - self._start[0]

    def rate(self) -> float:
        """What is done in a second; 0 if that is not known yet."""
        seconds = self.seconds()
        return 0.0 if self._start is None or not seconds else (sum(self.done) - self._start[1]) / seconds

    def left(self) -> str:
        rate = self.rate()
        return f"about {in_words((self.whole - sum(self.done)) / rate)} left" if rate > 0 else ""


class LogLines:
    """A line on standard error from time to time, for logs: short work leaves none."""

    def __init__(self, rows: Sequence[Row], unit: str, *, steady: bool = True, clock: Callable[[], float] = monotonic):
        self._pace, self._unit, self._steady, self._clock = _Pace(rows, clock), unit, steady, clock
        self._told: tuple[float, int] | None = None
        self._lines = 0

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Print a line if it is time: ten seconds after the last, and more if little was done."""
        self._pace.tell(row, done)
        now = self._clock(), sum(self._pace.done)
        since, new = (0.0, 0) if self._told is None else (now[0] - self._told[0], now[1] - self._told[1])
        due = since >= _LINES and (not self._lines or new >= _NEW * self._pace.whole or since >= _DULL_LINES)
        if due:
            self._print(self._line(news if len(self._pace.done) == 1 else ()))
        if due or self._told is None:
            self._told = now

    def close(self) -> None:
        """Say how far the work came, if anything was said before."""
        if self._lines:
            self._print(f"{self._start()} in {in_words(self._pace.seconds())}")

    def _start(self) -> str:
        done, rows = sum(self._pace.done), self._pace.rows
        name = rows[0].name if len(rows) == 1 else f"{len(rows)} chains"
        return f"{name}: {done:,} of {self._pace.whole:,} {self._unit}"

    def _line(self, news: News) -> str:
        parts = [self._start()]
        if self._steady:
            parts[0] += f" ({sum(self._pace.done) / self._pace.whole:.0%})"
            rate = self._pace.rate()
            slow = f"{1 / rate:.3g} s for each" if rate else ""
            parts += [f"{rate:.3g} per second" if rate >= 1 else slow, self._pace.left()]
        return ", ".join([*(part for part in parts if part), *(f"{word} {value}".strip() for word, value in news)])

    def _print(self, line: str) -> None:
        self._lines += 1
        if sys.stderr is not None:
            print(line, file=sys.stderr, flush=True)


class NotebookBars:
    """A table below the cell of a notebook, one row per bar. `patience` is how many seconds it waits to appear."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        steady: bool = True,
        patience: float = 0.0,
        transient: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._pace, self._steady, self._transient, self._clock = _Pace(rows, clock), steady, transient, clock
        self._news: list[News] = [()] * len(rows)
        self._next, self._name = clock() + patience, ""
        if not patience:
            self._publish()

    def update(self, row: int, done: int, news: News = ()) -> None:
        """Show the row, if the last picture is not too new; the last one of all is always shown."""
        self._pace.tell(row, done)
        self._news[row] = news
        if self._clock() >= self._next:
            self._publish()

    def close(self) -> None:
        """Show the last state, or nothing more if the bars are only for the time of the work."""
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
        self._next = self._clock() + _PICTURES

    def _html(self, last: bool) -> str:
        lines = [self._row(place) for place in range(len(self._pace.rows))]
        time = f"{in_words(self._pace.seconds())}" if last else self._pace.left() if self._steady else ""
        lines[-1] += f"<td style='{_CELL}'>{time}</td>"
        rows = "".join(f"<tr style='background:none'>{line}</tr>" for line in lines)
        return f"<table style='font-variant-numeric:tabular-nums;border:none'>{rows}</table>"

    def _row(self, place: int) -> str:
        row, done = self._pace.rows[place], self._pace.done[place]
        bar = f"<progress value='{done}' max='{row.whole}' style='width:12em;vertical-align:middle'></progress>"
        told = [(escape(word), escape(value)) for word, value in self._news[place]]
        news = [f"{word} <b>{value}</b>" if word else value for word, value in told]
        cells = [escape(row.name), bar, f"{done:,}/{row.whole:,}", *news]
        return "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in cells)

    def _text(self) -> str:
        told = zip(self._pace.rows, self._pace.done, strict=True)
        return "\n".join(f"{row.name}: {done:,} of {row.whole:,}" for row, done in told)


def bars(rows: Sequence[Row], unit: str, *, steady: bool = True) -> Display | None:
    """Bars or lines for work, where this process can show them. Work is steady if its pace tells the time left."""
    where = place()
    if where == "terminal":
        return TerminalBars(rows, time_left=steady)
    if where == "notebook":
        return NotebookBars(rows, steady=steady)
    return None if where is None else LogLines(rows, unit, steady=steady)
