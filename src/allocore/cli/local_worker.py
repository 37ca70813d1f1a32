"""What a worker process of `--cluster local:N` does first: it ignores Ctrl-C, as Dask loads this module in it.

A terminal sends Ctrl-C to all processes of a command. The process that drives decides what it means, and ends the
workers.
"""

import signal
import threading

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
