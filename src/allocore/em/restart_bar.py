"""Progress of the restarts of EM: one bar on a terminal or in a notebook, lines in a log."""

import sys
from math import inf

from allocore._progress_display import Display, Row, bars
from allocore.model.sweep_info import SweepInfo
from allocore.run.progress import Observer


class RestartBar:
    """One row: restarts done, the iteration of the current one, its log-likelihood and the best so far."""

    def __init__(self, restarts: int, most_iterations: int, display: Display) -> None:
        self._restarts, self._most, self._best, self._now = restarts, most_iterations, -inf, -1
        self._display, self._news = display, list[tuple[str, str]]()

    def show(self, chain: int, sweep: int, info: SweepInfo) -> None:
        """Show the row: `chain` is the restart, `sweep` its iteration."""
        self._now, self._best = chain, max(self._best, info.log_likelihood)
        self._news = [
            ("iteration", f"{sweep} of {self._most}"),
            ("log-lik", f"{info.log_likelihood:,.0f}"),
            ("best", f"{self._best:,.0f}"),
        ]
        self._display.update(0, chain, self._news)

    def close(self) -> None:
        """Leave the bar where it is; it is full if the last restart was running and did not fail."""
        # `show` is not called after the last iteration, so the last restart would never count as done.
        if self._now == self._restarts - 1 and sys.exc_info()[0] is None:
            self._display.update(0, self._restarts, self._news)
        self._display.close()


def restart_bar(wanted: bool, restarts: int, most_iterations: int) -> Observer | None:
    """What shows the progress of restarts, if that is wanted and can be seen."""
    display = bars([Row("restarts", restarts)], "done", steady=False) if wanted else None
    return None if display is None else RestartBar(restarts, most_iterations, display)
