"""A simulation of a worse cluster: delays of the network, slow workers, and one that hangs. The draws must not change.

The cluster is real: two worker processes of Dask. Every message from or to a worker is delayed (`cluster_wire.py`), a
slow worker sleeps after each task, and one that hangs sleeps once. Beside each scenario runs a chain in this process,
and after every sweep both must be equal to the byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import numpy as np
from distributed import Client
from rich.console import Console
from rich.table import Table

import cluster_wire as wire
from allocore.run.cluster import shards as shard_tasks
from allocore.run.cluster import shards as sharded_thinning
from cluster_ways import Way, all_ways
from tensors import write_large

MESSAGES = 4  # of a task, one after another: the task, "done", the question for the answer, the answer
_undisturbed = shard_tasks.thin_range
_disturbance = {"factor": 1.0, "hang": 0.0}


def _disturbed(task: shard_tasks.ThinTask, data: None) -> shard_tasks.ThinnedRange:
    """`thin_range` on a worker that is slower, or hangs once."""
    answer = _undisturbed(task, data)
    longer = (_disturbance["factor"] - 1.0) * answer.seconds + _disturbance["hang"]
    _disturbance["hang"] = 0.0
    sleep(longer)
    return answer._replace(seconds=answer.seconds + longer)


def _disturb(**how: float) -> None:
    """On a worker: tasks name `thin_range`, and find the one that is put in its place."""
    shard_tasks.thin_range = _disturbed
    _disturbance.update(how)


def delays(entries: int, budget: int, quick: bool) -> list[dict[str, Any]]:
    """Run the scenarios; each result has the seconds of a sweep and what is expected of them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "y.zarr"
        write_large(path, (2000, 20, 500, 2000), entries)
        with all_ways(path, budget, ("two threads", "two workers")) as ways:
            here, there = ways["two threads"], ways["two workers"]
            assert there.client is not None
            there.client.run(_disturb)
            sweeps = 5 if quick else 15
            _seconds(here, there, sweeps)
            usual = _seconds(here, there, sweeps)
            results = [{"name": "undisturbed", "seconds": usual, "expected": usual}]
            results += [_with_latency(here, there, latency, sweeps) for latency in (0.001, 0.010, 0.050)]
            for factor in (2.0, 5.0):
                results += _with_slow_worker(here, there, factor, sweeps)
            results.append(_with_long_hang(here, there))
            results.append(_with_hang(here, there, 3.0))
    return results


def _advance(here: Way, there: Way) -> float:
    """Make a sweep both ways; the seconds that it took on the workers."""
    here.advance()
    there.advance()
    if not there.same_as(here):
        raise RuntimeError(f"the draws of sweep {there.number} differ")
    return there.turns[-1]["sweep"]


def _seconds(here: Way, there: Way, sweeps: int) -> float:
    """The median over some sweeps."""
    return float(np.median([_advance(here, there) for _ in range(sweeps)]))


def _compute(there: Way, sweeps: int) -> list[float]:
    """The median seconds of each worker, over the last sweeps."""
    return [float(each) for each in np.median(there.seconds_of_ranges[-sweeps:], axis=0)]


def _shards(there: Way) -> list[int]:
    return [each.where.last - each.where.first for each in there.ranges()]


def _with_latency(here: Way, there: Way, latency: float, sweeps: int) -> dict[str, Any]:
    assert there.client is not None
    before = _seconds(here, there, sweeps)
    wire.set_delay(there.client, latency)
    found = _seconds(here, there, sweeps)
    wire.set_delay(there.client, 0.0)
    name = f"every message {1e3 * latency:.0f} ms later"
    return {"name": name, "seconds": found, "expected": before + MESSAGES * latency, "before": before}


@contextmanager
def _first_worker(client: Client, **how: float) -> Iterator[None]:
    """Disturb the first worker for a while."""
    first = min(client.scheduler_info()["workers"])
    client.run(_disturb, workers=[first], **how)
    try:
        yield
    finally:
        client.run(_disturb, factor=1.0, hang=0.0)


def _with_slow_worker(here: Way, there: Way, factor: float, sweeps: int) -> list[dict[str, Any]]:
    """Sweeps with a slow worker, until the shards are cut anew and some more; then those until they are even again."""
    assert there.client is not None
    before, compute, cells = _seconds(here, there, sweeps), _compute(there, sweeps), _shards(there)
    rest = before - max(compute)
    with _first_worker(there.client, factor=factor):
        slow = _seconds(here, there, sweeps)
        waited = _until_cut(here, there, cells)
        cut = _seconds(here, there, sweeps)
    shards = _shards(there)
    expected = rest + max(factor * compute[0], compute[1])
    per_shard = factor * compute[0] / cells[0], compute[1] / cells[1]
    evenly = rest + max(each * number for each, number in zip(per_shard, shards, strict=True))
    name = f"one of two workers {factor:.0f} times slower"
    back = _until_cut(here, there, shards)
    return [
        {"name": name, "seconds": slow, "expected": expected, "before": before, "shards": cells},
        {"name": "  cut anew", "seconds": cut, "expected": evenly, "shards": shards, "sweeps": sweeps + waited},
        {"name": "  as before", "seconds": _seconds(here, there, sweeps), "expected": before, "shards": _shards(there),
         "sweeps": back},
    ]  # fmt: skip


def _until_cut(here: Way, there: Way, shards: list[int], most: int = 120) -> int:
    """Make sweeps until the shards are cut anew; how many, at most so many."""
    for number in range(1, most + 1):
        _advance(here, there)
        if _shards(there) != shards:
            return number
    return most


def _with_hang(here: Way, there: Way, hang: float) -> dict[str, Any]:
    assert there.client is not None
    before = _seconds(here, there, 5)
    with _first_worker(there.client, hang=hang):
        found = _advance(here, there)
    return {"name": f"one worker hangs once for {hang:.0f} s", "seconds": found, "expected": before + hang}


def _with_long_hang(here: Way, there: Way, hang: float = 12.0, patience: float = 2.0) -> dict[str, Any]:
    """A hang that is longer than patience, which is shortened here: the other worker gets the range as well."""
    assert there.client is not None
    before, compute = _seconds(here, there, 5), max(_compute(there, 5))
    usual, sharded_thinning._SLOW_SECONDS = sharded_thinning._SLOW_SECONDS, patience
    try:
        with _first_worker(there.client, hang=hang):
            found = _advance(here, there)
    finally:
        sharded_thinning._SLOW_SECONDS = usual
    name = f"one worker hangs for {hang:.0f} s; the other gets its task after {patience:.0f} s, not {usual:.0f}"
    return {"name": name, "seconds": found, "expected": before + patience + compute}


def print_delays(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(
        "", "s a sweep", "expected", "shards", "after sweeps", title="Delays and slow workers; draws unchanged"
    )
    for each in results:
        shards = " + ".join(map(str, each.get("shards", [])))
        seconds = f"{each['seconds']:.3f}", f"{each['expected']:.3f}"
        table.add_row(each["name"], *seconds, shards, str(each.get("sweeps", "")))
    console.print(table)
