"""The option --cluster: a Dask cluster for the chains of a fit, or for the fits of a comparison."""

import json
import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Annotated, Any

import typer

from allocore.errors import InputError, whole_number

_ADDRESS = (
    "the address of its scheduler (tcp://host:8786), its scheduler file, or local:4 for four processes on this machine."
)
_NEEDS = "Needs allocore\\[cluster]."
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help=f"Run the chains on a Dask cluster: {_ADDRESS} The draws are the same. {_NEEDS}"
    ),
]
ClusterOfFits = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help=f"Run the fits on a Dask cluster: {_ADDRESS} The scores are the same. {_NEEDS}"
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
    """Refuse, before the data are read, a scheduler file that does not exist or is not one."""
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
        raise InputError("cluster", address, "needs Dask: pip install '.[cluster]' in a clone of allocore") from None
    # Lost workers and schedulers get one sentence from us, so Dask and its event loop need not log them.
    for name in ("distributed", "distributed.client", "tornado.application", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client_of: Any = distributed.Client
    cluster_on: Any = distributed.LocalCluster
    with ExitStack() as stack:
        if address.startswith("local:"):
            workers = _local_workers(address)
            with _interrupted_later():
                own = stack.enter_context(cluster_on(n_workers=workers, **_LOCAL))
                client = stack.enter_context(client_of(own))
        else:
            with _interrupted_later():
                client = stack.enter_context(_connected(client_of, address))
        yield client


def _local_workers(address: str) -> int:
    number = address.removeprefix("local:")
    try:
        return whole_number("cluster", int(number) if number.isdecimal() else number)
    except InputError:
        rule = "must have a whole number of at least 1 after local:"
        raise InputError("cluster", address, rule) from None


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Let Ctrl-C wait until Dask has started: Dask would print, or lose, an exception before that.

    The signal is blocked. The threads and processes that Dask starts meanwhile inherit that: a terminal sends Ctrl-C to
    all of them, but only this process decides what it means.
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
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:  # all that Dask raises for an address
        rule = f"must be the address of a scheduler, a scheduler file, or local:4; no scheduler answers there ({error})"
        raise InputError("cluster", address, rule) from None


def _names_file(address: str) -> bool:
    """Whether an address is the path of a file: the file exists, or it has the form of a path."""
    if "://" in address:
        return False
    return Path(address).exists() or address.endswith(".json") or "/" in address or "\\" in address


def _check_scheduler_file(path: str) -> None:
    """Refuse at once a file without the address of a scheduler: Dask would wait for one to appear."""
    if not Path(path).is_file():
        what = "this is a folder" if Path(path).is_dir() else "this file does not exist"
        rule = f"must be a scheduler file, and {what}; dask scheduler --scheduler-file {path} writes one"
        raise InputError("cluster", path, rule)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError("cluster", path, f"must be a scheduler file, and this file is not JSON ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("address"), str):
        raise InputError("cluster", path, "must be a scheduler file, and this file has no address of a scheduler")
