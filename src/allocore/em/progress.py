"""Progress of the restarts of EM: one line on a terminal, nothing anywhere else."""

import sys
from math import inf

from allocore.gibbs.sweep import Info
from allocore.run.progress import Observer


class RestartBar:
    """One line: restarts done, the iteration of the one under way, its log-likelihood and the best so far."""

    def __init__(self, restarts: int, most_iterations: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._most, self._best = most_iterations, -inf
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

    def show(self, chain: int, sweep: int, info: Info) -> None:
        """Redraw the line: `chain` is the restart, `sweep` its iteration."""
        self._best = max(self._best, info.log_likelihood)
        news = (
            f"iteration [bold]{sweep}[/] of {self._most}  log-lik [bold]{info.log_likelihood:,.0f}[/]"
            f"  best [bold]{self._best:,.0f}[/]"
        )
        self._bar.update(self._task, completed=chain, news=news)

    def close(self) -> None:
        """Leave the last state of the bar on the screen."""
        self._bar.stop()


def restart_bar(wanted: bool, restarts: int, most_iterations: int) -> Observer | None:
    """A progress bar on standard error, if it is wanted and somebody is looking at a terminal."""
    looking = sys.stderr is not None and sys.stderr.isatty()
    return RestartBar(restarts, most_iterations) if wanted and looking else None
