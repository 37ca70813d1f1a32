"""Stopping cleanly: after Ctrl-C or SIGTERM the current sweep, restart or job still ends."""

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Flags of a run that must stop: `now`, after the current sweep; `asked`, by a signal; `at_once`, without saving.

    As a context manager it catches the first signal and sets `asked` and `now`; a second signal acts as usual. Python
    delivers signals to the main thread only, so in other threads nothing is caught. On a terminal, `message` is
    printed.
    """

    def __init__(self, message: str = "stopping after this sweep (Ctrl-C again: at once)") -> None:
        self.asked = self.now = self.at_once = False
        self._message = message
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            caught = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self._handlers = {number: signal.signal(number, self._on_signal) for number in caught}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.asked = self.now = True
        self._restore()
        if self._message and sys.stderr is not None and sys.stderr.isatty():
            print(f"\n{self._message}", file=sys.stderr)

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers = {}
