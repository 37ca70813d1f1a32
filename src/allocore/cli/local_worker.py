"""What a worker process of `--cluster local:N` does first. Dask loads this module in it, and calls `dask_setup`.

A terminal sends Ctrl-C to all processes of a command. The process that drives decides what it means, and ends the
workers.
"""

import signal
import threading


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
