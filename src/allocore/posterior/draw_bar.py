"""Progress of work that goes through all draws of a run."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import TypeVar

from allocore._progress_display import Display, LogLines, NotebookBars, Row, place

# Most work is over before this; a bar that comes and goes at once would only make a notebook jump.
_SECONDS_OF_PATIENCE = 2.0
_SECONDS_BEFORE_A_BAR = 3.0
_T = TypeVar("_T")


@contextmanager
def draw_bar(
    title: str, wanted: bool, unit: str = "draws", patience: float = 0.0
) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal or, for longer work, in a notebook, both only while it lasts; lines in a log.

    On a terminal the bar comes after `patience` seconds. What is yielded is called with the number of draws done and of
    all, from any thread.
    """
    where = place() if wanted else None
    if where is None:
        yield lambda done, whole: None
    elif where == "terminal":
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        task, start = bar.add_task(title, total=None), monotonic()

        def tick(done: int, whole: int) -> None:
            if monotonic() - start >= patience:
                bar.start()
            bar.update(task, completed=done, total=whole)

        try:
            if not patience:
                bar.start()
            yield tick
        finally:
            bar.stop()
    else:
        display = _Late(title, unit, where == "notebook")
        try:
            yield display.tick
        finally:
            display.close()


def watched(steps: Iterable[_T], total: int, words: str) -> Iterator[_T]:
    """Pass the steps on. On a terminal and in a notebook a bar appears after a few seconds, in a log a line."""
    with draw_bar(words, wanted=True, unit="steps", patience=_SECONDS_BEFORE_A_BAR) as tick:
        for done, step in enumerate(steps):
            tick(done, total)
            yield step


class _Late:
    """A display that is made when the first news tell how many draws there are."""

    def __init__(self, title: str, unit: str, notebook: bool) -> None:
        self._title, self._unit, self._notebook = title, unit, notebook
        self._display: Display | None = None
        self._one_at_a_time = Lock()

    def tick(self, done: int, whole: int) -> None:
        with self._one_at_a_time:
            if self._display is None:
                self._display = self._made([Row(self._title, whole)])
            self._display.update(0, done)

    def close(self) -> None:
        if self._display is not None:
            self._display.close()

    def _made(self, rows: list[Row]) -> Display:
        if self._notebook:
            return NotebookBars(rows, patience=_SECONDS_OF_PATIENCE, transient=True)
        return LogLines(rows, self._unit)
