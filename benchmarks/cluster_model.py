"""A model of what a sweep costs on a cluster, fitted to what was measured, and what it predicts for larger ones.

    workers    cells * (a + b Q) + rows * Q * c      on one thread of a worker; rows are those that its cells touch
    driver     rows * Q * d + rows * Q^2 * e         all steps but thinning, on the driver's threads
    travel     f + bytes * g                         f: tasks and answers through Dask's scheduler; g: select,
                                                     pickle, copy, join; bytes: of all workers, for the driver has
                                                     to handle all of them
    bytes      out   rows * factors in use * 8
               back  rows * Q * width of the counts + 8 for each block of 1,024 cells

On a cluster of machines, with one worker on each, three more things count: the cores share the cells of a worker, and
their tables are added up one after another; all bytes pass the network interface of the driver; and a round trip has a
latency.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

BLOCK, LOCAL_TRIPS = 1024, 2  # a task and its answer are two round trips: task, "done", question for the data, data


@dataclass(frozen=True)
class Costs:
    """The costs of the formulas above, in seconds, and of adding a table's number to another's."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float
    g: float
    add: float

    def worker(self, cells: float, rows: float, budget: int) -> float:
        """Seconds of thinning on one thread."""
        return cells * (self.a + self.b * budget) + rows * budget * self.c

    def driver(self, rows: float, budget: int) -> float:
        """Seconds of all other steps."""
        return rows * budget * self.d + rows * budget**2 * self.e

    def travel(self, size: float) -> float:
        """Seconds to hand out tasks and to gather and join their answers, on one machine."""
        return self.f + size * self.g


@dataclass(frozen=True)
class Machines:
    """Machines with one worker each, and a driver with a link of `bandwidth` bytes a second."""

    number: int
    cores: int = 32
    efficiency: float = 1.0
    bandwidth: float = 1.25e9
    latency: float = 0.0005  # of a round trip


def fitted(points: Sequence[dict[str, Any]]) -> Costs:
    """The costs that explain some measured points best, by least squares of relative errors; none is negative."""
    ranges = [
        (each["cells"], each["cells"] * point["budget"], each["rows"] * point["budget"], each["seconds"])
        for point in points
        for each in point["ranges"]
    ]
    driver = [(p["rows"] * p["budget"], p["rows"] * p["budget"] ** 2, p["driver"]) for p in points]
    handling = [(point["bytes"], point["handling"]) for point in points]
    waiting = [(1.0, point["bytes"], point["waiting"]) for point in points]
    found = [_least_squares(np.array(rows)).tolist() for rows in (ranges, driver, handling, waiting)]
    (a, b, c), (d, e), (handled,), (f, waited) = found
    return Costs(a, b, c, d, e, f, handled + waited, add=_seconds_to_add())


def _least_squares(rows: np.ndarray) -> np.ndarray:
    features, seconds = rows[:, :-1], rows[:, -1]
    relative = features / seconds[:, None]
    unit = relative.max(axis=0)  # so that nnls sees columns of one size
    return np.asarray(nnls(relative / unit, np.ones(len(rows)))[0] / unit)


def _seconds_to_add(numbers: int = 640_000) -> float:
    one, two = (np.ones(numbers, dtype=np.int32) for _ in range(2))
    least = np.inf
    for _ in range(20):
        start = perf_counter()
        one += two
        least = min(least, perf_counter() - start)
    return float(least / numbers)


def explained(costs: Costs, point: dict[str, Any]) -> dict[str, float]:
    """What the model says of a measured point."""
    parts = {
        "on the workers": max(costs.worker(each["cells"], each["rows"], point["budget"]) for each in point["ranges"]),
        "other steps": costs.driver(point["rows"], point["budget"]),
        "travel": costs.travel(point["bytes"]),
    }
    return parts | {"all parts": sum(parts.values())}


def _parts(point: dict[str, Any]) -> dict[str, float]:
    """The parts that were measured."""
    workers = max(each["seconds"] for each in point["ranges"])
    parts = {"on the workers": workers, "other steps": point["driver"], "travel": point["handling"] + point["waiting"]}
    return parts | {"all parts": sum(parts.values())}


def predicted(
    costs: Costs, machines: Machines, shape: Sequence[int], cells: float, budget: int, width: int = 4
) -> dict[str, float]:
    """Seconds of the parts of a sweep on machines, and its bytes; all factors are in use."""
    each, rows = cells / machines.number, shape[0] / machines.number + sum(shape[1:])
    bytes_out = machines.number * rows * budget * 8
    bytes_back = machines.number * rows * budget * width + cells / BLOCK * 8
    size = bytes_out + bytes_back
    parts = {
        "cells, on the workers": costs.worker(each, rows, budget) / (machines.cores * machines.efficiency),
        "tables of the threads added up": (machines.cores - 1) * rows * budget * costs.add,
        "tasks handed out, answers joined": costs.travel(size),
        "network": size / machines.bandwidth + LOCAL_TRIPS * machines.latency,
        "other steps, on the driver": costs.driver(sum(shape), budget),
    }
    return parts | {"sweep": sum(parts.values()), "MB": size / 1e6}


def on_one(costs: Costs, machine: Machines, shape: Sequence[int], cells: float, budget: int) -> float:
    """Seconds of a sweep on one of the machines, without a cluster."""
    return (
        costs.worker(cells, sum(shape), budget) / (machine.cores * machine.efficiency)
        + (machine.cores - 1) * sum(shape) * budget * costs.add
        + costs.driver(sum(shape), budget)
    )


def modelled(points: Sequence[dict[str, Any]], check: dict[str, Any]) -> dict[str, Any]:
    """Fit the model to points, check it with another one, and predict the large clusters."""
    costs, shape, cells, budget = fitted(points), (5000, 5000, 50, 1000), 1e9, 100
    predictions = []
    for efficiency in (1.0, 0.5):
        for number in (4, 16):
            machines = Machines(number, efficiency=efficiency)
            parts = predicted(costs, machines, shape, cells, budget)
            speed_up = on_one(costs, machines, shape, cells, budget) / parts["sweep"]
            predictions.append({**asdict(machines), "parts": parts, "speed-up over one machine": speed_up})
    measured = _parts(check) | {"sweep, by the clock": check["sweep"]}
    return {
        "costs": asdict(costs),
        "check": {"cells": check["cells"], "measured": measured, "model": explained(costs, check)},
        "fit": [
            {
                "cells": p["cells"],
                "budget": p["budget"],
                "measured": _parts(p)["all parts"],
                "model": explained(costs, p)["all parts"],
            }
            for p in points
        ],
        "predictions": predictions,
    }


def print_model(result: dict[str, Any], console: Console) -> None:
    costs, check = result["costs"], result["check"]
    console.print(
        f"The model: a cell {1e9 * costs['a']:.1f} ns + {1e9 * costs['b']:.3f} ns a class; a row and class "
        f"{1e9 * costs['c']:.1f} ns on a worker, {1e9 * costs['d']:.1f} + {1e9 * costs['e']:.4f} Q ns on the driver; "
        f"travel {1e3 * costs['f']:.1f} ms + {1e9 * costs['g']:.2f} ns a byte; an addition {1e9 * costs['add']:.2f} ns"
    )
    fit = ", ".join(f"{p['cells']:,}, Q = {p['budget']}: {p['measured']:.3f} ({p['model']:.3f})" for p in result["fit"])
    console.print(f"Seconds of the parts with two workers, in brackets the model's, which was fitted to them: {fit}")
    table = Table("seconds", "measured", "model", title=f"A check: {check['cells']:,} non-zeros, not used for the fit")
    for name, seconds in check["measured"].items():
        table.add_row(name, f"{seconds:.3f}", f"{check['model'][name]:.3f}" if name in check["model"] else "")
    console.print(table)
    table = Table("", title="Predicted: 10^9 non-zeros, 5000 x 5000 x 50 x 1000, Q = 100, 10 Gbit/s, 32 cores each")
    for each in result["predictions"]:
        table.add_column(f"{each['number']} machines, {each['efficiency']:.0%}", justify="right")
    for name in result["predictions"][0]["parts"]:
        table.add_row(name, *(f"{each['parts'][name]:.3f}" for each in result["predictions"]))
    name = "speed-up over one machine"
    table.add_row(name, *(f"{each[name]:.1f}" for each in result["predictions"]))
    console.print(table)
    console.print("100% and 50%: how well the cores of a worker share its cells; that was not measured on 32 cores.")
