"""The option --cluster: where the chains of a fit run, or the fits of a comparison."""

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Annotated, Any

import typer

from allocore.errors import InputError, whole_number

Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run the chains on a Dask cluster: the address of its scheduler (tcp://host:8786), its scheduler file, or "
        "local:4 for four processes on this machine. The draws are the same. Needs allocore\\[cluster].",
    ),
]
ClusterOfFits = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run the fits on a Dask cluster: the address of its scheduler (tcp://host:8786), its scheduler file, or "
        "local:4 for four processes on this machine. The scores are the same. Needs allocore\\[cluster].",
    ),
]
_ANSWERS_WITHIN = 15  # seconds
_LOCAL: dict[str, Any] = {
    "threads_per_worker": 1,
    "preload": ["allocore.cli.local_worker"],
    "silence_logs": "CRITICAL",
    # No dashboard, and any port: without an address, Dask wants its usual port, and warns if it is taken.
    "dashboard_address": ":0",
    "scheduler_kwargs": {"dashboard": False},
}


@contextmanager
def cluster_of(address: str | None) -> Iterator[Any]:
    """Connect to a cluster, or start a local one, for as long as it is needed; None if no address is given."""
    if address is None:
        yield None
        return
    try:
        import distributed
    except ImportError:
        raise InputError(
            f"--cluster is {address!r}, but Dask is not installed: pip install 'allocore[cluster]'"
        ) from None
    for name in ("distributed", "distributed.client"):  # what Dask has to say of lost workers, we say in one sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client_of: Any = distributed.Client
    cluster_on: Any = distributed.LocalCluster
    local = re.fullmatch(r"local:(.*)", address)
    if local is not None:
        workers = whole_number("--cluster local:N", int(local[1]) if local[1].isdecimal() else local[1])
        with ExitStack() as stack:
            with _interrupted_later():
                own = stack.enter_context(cluster_on(n_workers=workers, **_LOCAL))
                client = stack.enter_context(client_of(own))
            yield client
        return
    with ExitStack() as stack:
        with _interrupted_later():
            client = stack.enter_context(_connected(client_of, address))
        yield client


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C wait until Dask has started: an exception in the midst of that is printed, or lost, by Dask.

    The signal is blocked. The threads and processes that Dask starts meanwhile inherit that: a terminal sends Ctrl-C to
    all of them, but this process alone decides what it means.
    """
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # when multiprocessing starts it, it lets the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _connected(client: Any, address: str) -> Any:
    """A client of the scheduler at an address or in a scheduler file."""
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        return client(**where, timeout=_ANSWERS_WITHIN)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:  # the last for JSON of another kind
        raise InputError(
            f"--cluster is {address!r}, but no scheduler answers there ({error}): it must be an address such as "
            "tcp://host:8786, a scheduler file, or local:4"
        ) from None
