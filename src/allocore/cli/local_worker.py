"""Dask loads this module in workers of `--cluster local:N`: the driver decides what Ctrl-C means, and ends them."""

import signal
import threading


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes of a command."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
