"""What goes over the wire between the processes of a Dask cluster: counted, and delayed if that is wanted.

Every message that a process writes to a TCP connection of `distributed` is counted where it is written, with the bytes
that it has there. So a table that goes from a worker to the scheduler, and from there to the driver, counts twice, as
it would on a network; heartbeats count too. A delay stands for the latency of a network: a message from or to a worker
waits that long before it is written. Driver and scheduler are in one process, and nothing is delayed between them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client
from distributed.comm.tcp import TCP

SENDERS = ("driver", "scheduler", "workers")


@dataclass
class Wire:
    """What this process has written, by sender, and the delay of each message."""

    sent: dict[str, tuple[int, int]] = field(default_factory=dict)
    delay: float = 0.0
    schedulers: set[str] = field(default_factory=set)
    own_addresses: set[str] = field(default_factory=set)
    is_worker: bool = False

    def sender(self, peer: str) -> str:
        if self.is_worker:
            return "workers"
        return "driver" if peer in self.schedulers else "scheduler"


_wire, _write = Wire(), TCP.write


async def _counted(self: TCP, *given: Any, **options: Any) -> Any:
    sender, wire = _wire.sender(self.peer_address), _wire
    wire.own_addresses.add(self.local_address)
    if wire.delay and sender != "driver" and self.peer_address not in wire.own_addresses:
        await asyncio.sleep(wire.delay)
    size = await _write(self, *given, **options)
    messages, bytes_ = wire.sent.get(sender, (0, 0))
    wire.sent[sender] = messages + 1, bytes_ + size
    return size


def _begin(scheduler: str, is_worker: bool) -> None:
    TCP.write = _counted  # type: ignore[method-assign]
    _wire.is_worker = is_worker
    _wire.schedulers.add(scheduler)


def _sent() -> dict[str, tuple[int, int]]:
    return dict(_wire.sent)


def _delay(seconds: float) -> None:
    _wire.delay = seconds


def count(client: Client) -> None:
    """Count from now on what the processes of a cluster write."""
    _begin(client.scheduler.address, False)
    client.run(_begin, client.scheduler.address, True)


def set_delay(client: Client, seconds: float) -> None:
    """Delay each message from or to a worker from now on."""
    client.run(_delay, seconds)
    _delay(seconds)


def sent(client: Client) -> dict[str, tuple[int, int]]:
    """The messages and bytes so far, by sender; the driver's count is of all clusters."""
    workers = [each.get("workers", (0, 0)) for each in client.run(_sent).values()]
    return _sent() | {"workers": (sum(m for m, _ in workers), sum(b for _, b in workers))}


def sent_by(client: Client, work: Callable[[], object]) -> dict[str, list[int]]:
    """The messages and bytes of some work, without those of the question itself."""
    idle, before = sent(client), sent(client)
    work()
    after, counts = sent(client), dict[str, list[int]]()
    for name in SENDERS:
        first, second, third = (each.get(name, (0, 0)) for each in (idle, before, after))
        counts[name] = [max(0, c - b - (b - a)) for a, b, c in zip(first, second, third, strict=True)]
    return counts
