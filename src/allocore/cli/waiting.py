"""What is shown while a command works and nothing else tells how far it is: a line on standard error.

On a terminal it comes after a second and goes at the end. In a log it is a plain line, rarely.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from allocore._progress_display import in_words, place
from allocore.data.display import visible

_PATIENCE = 1.0  # seconds before a terminal shows anything
_LINES = (30.0, 60.0)  # seconds before the first line of a log, and between two others


@contextmanager
def waiting(what: str, *, in_logs_only: bool = False) -> Iterator[Callable[[str], None]]:
    """Say what is being done for as long as it lasts; call what is yielded with news, such as "3 files written".

    Nothing else may draw on standard error meanwhile. What draws a bar of its own on terminals is shown `in_logs_only`.
    """
    where = place()
    if where is None or (in_logs_only and where != "log"):
        yield lambda news: None
        return
    shown = _Shown(what, on_terminal=where == "terminal")
    watch = Thread(target=shown.watch, daemon=True)
    watch.start()
    try:
        yield shown.tell
    finally:
        shown.ended.set()
        watch.join()


class _Shown:
    """The line, from a thread of its own: the work knows nothing of it."""

    def __init__(self, what: str, *, on_terminal: bool) -> None:
        self._what, self._news, self._on_terminal = what, "", on_terminal
        self._start = monotonic()
        self.ended = Event()

    def tell(self, news: str) -> None:
        self._news = news

    def watch(self) -> None:
        if self._on_terminal:
            self._on_a_terminal()
        else:
            self._in_a_log()

    def _line(self) -> str:
        parts = [self._what, *([self._news] if self._news else []), in_words(monotonic() - self._start)]
        return visible(", ".join(parts))

    def _on_a_terminal(self) -> None:
        from rich.console import Console
        from rich.text import Text

        if self.ended.wait(_PATIENCE):
            return
        with Console(stderr=True).status(Text(self._line())) as status:
            while not self.ended.wait(0.5):
                status.update(Text(self._line()))

    def _in_a_log(self) -> None:
        first, others = _LINES
        pause = first
        while not self.ended.wait(pause):
            print(f"allocore: {self._line()}", file=sys.stderr, flush=True)
            pause = others
