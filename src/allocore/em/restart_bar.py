"""Progress of the restarts of EM: one line on a terminal, nothing anywhere else."""

import sys
from math import inf

from allocore.model.sweep_info import SweepInfo
from allocore.run.progress import Observer


class RestartBar:
    """One line: restarts done, the iteration of the one under way, its log-likelihood and the best so far."""

    def __init__(self, restarts: int, most_iterations: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._restarts, self._most, self._best, self._now = restarts, most_iterations, -inf, -1
        self._bar = Progress(
            TextColumn("restarts"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task("", total=restarts, news="")
        self._bar.start()

    def show(self, chain: int, sweep: int, info: SweepInfo) -> None:
        """Redraw the line: `chain` is the restart, `sweep` its iteration."""
        self._now, self._best = chain, max(self._best, info.log_likelihood)
        news = (
            f"iteration [bold]{sweep}[/] of {self._most}  log-lik [bold]{info.log_likelihood:,.0f}[/]"
            f"  best [bold]{self._best:,.0f}[/]"
        )
        self._bar.update(self._task, completed=chain, news=news)

    def close(self) -> None:
        """Leave the last state of the bar on the screen: full, if the last restart was under way and did not fail."""
        # No news comes after a last iteration, so its restart would never count as done.
        if self._now == self._restarts - 1 and sys.exc_info()[0] is None:
            self._bar.update(self._task, completed=self._restarts)
        self._bar.stop()


def restart_bar(wanted: bool, restarts: int, most_iterations: int) -> Observer | None:
    """A progress bar on standard error, if it is wanted and somebody is looking at a terminal."""
    looking = sys.stderr is not None and sys.stderr.isatty()
    return RestartBar(restarts, most_iterations) if wanted and looking else None
