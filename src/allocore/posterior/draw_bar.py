"""A progress bar for work that goes through all draws of a run."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def draw_bar(title: str, wanted: bool) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error, if it is wanted and standard error is a terminal.

    What it yields is called with the number of draws done and of all, from any thread.
    """
    if not (wanted and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda done, whole: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)
