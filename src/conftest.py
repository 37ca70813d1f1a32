"""What the examples in docstrings share: a small fit of the flights, and a choice of its budget, made on first use."""

import re
import tempfile
from concurrent.futures import Executor, Future
from functools import cache
from pathlib import Path

import pytest

import allocore as ac

QUICK = {"thin": 1, "progress": False}


@cache
def flights():
    """The tensor `Y` of the examples."""
    return ac.load_flights()


@cache
def sharded():
    """The tensor `sharded` of the examples, as the docstring of `ShardedTensor` makes it."""
    path = Path(tempfile.mkdtemp()) / "flights.zarr"
    flights().save(path, shards=4)
    return ac.load_tensor(path)


@cache
def posterior():
    """The posterior `post` of the examples, as the docstring of `Posterior` makes it."""
    return ac.AlloCore(budget=5, burn_in=20, draws=10, chains=2, seed=0, **QUICK).fit(flights()).posterior_


@cache
def forecast():
    """The forecast `forecast` of the examples, as the docstring of `Forecast` makes it."""
    months = {"month": [f"2013-{month:02d}" for month in range(1, 13)]}
    model = ac.AlloCore(budget=5, burn_in=20, draws=10, chains=2, seed=0, **QUICK)
    return model.fit(flights().with_labels(months)).posterior_.forecast(horizon=3)


@cache
def selection():
    """The selection `choice` of the examples, as the docstring of `select_budget` makes it."""
    return ac.select_budget(
        flights(), [2, 8], model=ac.AlloCore(burn_in=20, draws=2, thin=1, chains=1), splits=2, progress=False
    )


class JobsHere(Executor):
    """Runs the jobs of a comparison in this process: processes take seconds to start."""

    def __init__(self, tensor, parallel):
        self._tensor = tensor

    def submit(self, function, /, task, tensor):
        """Run a job at once."""
        future = Future()
        future.set_result(function(task, ac.load_tensor(self._tensor)))
        return future


SHARED = {
    "Y": flights,
    "sharded": sharded,
    "post": posterior,
    "forecast": forecast,
    "choice": selection,
    "found": lambda: selection().comparison,
}
COMPARING = {"choice", "found", "compare", "select_budget"}


@pytest.fixture(autouse=True)
def shared_examples(request, doctest_namespace, monkeypatch):
    """Give an example the shared names that it uses and does not assign itself."""
    lines = "".join(example.source for example in request.node.dtest.examples)
    used = set(re.findall(r"\w+", lines))
    if used & COMPARING:
        from allocore.comparison import compare

        monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    for name, make in SHARED.items():
        doctest_namespace.pop(name, None)
        if name in used and f"{name} = " not in lines:
            doctest_namespace[name] = make()
