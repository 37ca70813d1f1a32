"""The option --cluster: where the chains of a fit run, or the fits of a comparison."""

import json
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


def check_cluster(address: str | None) -> None:
    """Refuse, before the data are read, a scheduler file that is not there or is none."""
    if address is not None and not address.startswith("local:") and _names_file(address):
        _check_scheduler_file(address)


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
    # What Dask and its event loop have to say of lost workers and schedulers, we say in one sentence.
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
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
    check_cluster(address)
    where = {"scheduler_file" if _names_file(address) else "address": address}
    try:
        return client(**where, timeout=_ANSWERS_WITHIN)
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:  # whatever Dask makes of an address
        raise InputError(
            f"--cluster is {address!r}, but no scheduler answers there ({error}): it must be an address such as "
            "tcp://host:8786, a scheduler file, or local:4"
        ) from None


def _names_file(address: str) -> bool:
    """Whether an address is the path of a file: there is one, or its form is that of a path."""
    if "://" in address:
        return False
    return Path(address).exists() or address.endswith(".json") or "/" in address or "\\" in address


def _check_scheduler_file(path: str) -> None:
    """Refuse at once a file that does not say where a scheduler is: Dask would wait for one that does."""
    if not Path(path).is_file():
        what = "that is a folder" if Path(path).is_dir() else "there is no such file"
        raise InputError(f"--cluster is {path!r}, but {what}: dask scheduler --scheduler-file {path} writes one")
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"--cluster is {path!r}, but that file is not JSON ({error}), as a scheduler file is"
        ) from None
    if not isinstance(told, dict) or not isinstance(told.get("address"), str):
        raise InputError(f"--cluster is {path!r}, but that file names no address of a scheduler")
