"""allocore: Bayesian tensor decomposition for large, sparse count data.

    import allocore as ac

    Y = ac.load_flights()
    post = ac.AlloCore(budget=40, seed=0).fit(Y).posterior_
    print(post.classes())

Names are loaded on first use, so `import allocore` is quick and brings in neither numba nor any plotting.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocore import figures
    from allocore.comparison.compare import Comparison, compare
    from allocore.comparison.selection import Selection, select_budget
    from allocore.data.concat import concat
    from allocore.data.convert import as_tensor
    from allocore.data.events.read_events import read_events
    from allocore.data.files import load_tensor
    from allocore.data.flights import load_flights
    from allocore.data.holdout import HeldOut, Split, hold_out
    from allocore.data.missing import Missing
    from allocore.data.sharded_tensor import ShardedTensor
    from allocore.data.tensor import CountTensor
    from allocore.errors import InputError, StoreError
    from allocore.estimators import CP, AlloCore, Tucker
    from allocore.explorer.page_file import write_report
    from allocore.nntuck import NNTuck
    from allocore.posterior.consensus.consensus import Consensus
    from allocore.posterior.diagnostics import Diagnosis
    from allocore.posterior.forecasts.forecast import Forecast
    from allocore.posterior.open_run import open_run
    from allocore.posterior.posterior import Posterior

_HOMES = {
    "AlloCore": "estimators",
    "CP": "estimators",
    "Comparison": "comparison.compare",
    "Consensus": "posterior.consensus.consensus",
    "CountTensor": "data.tensor",
    "Diagnosis": "posterior.diagnostics",
    "Forecast": "posterior.forecasts.forecast",
    "HeldOut": "data.holdout",
    "InputError": "errors",
    "StoreError": "errors",
    "Missing": "data.missing",
    "NNTuck": "nntuck",
    "Posterior": "posterior.posterior",
    "Selection": "comparison.selection",
    "ShardedTensor": "data.sharded_tensor",
    "Split": "data.holdout",
    "Tucker": "estimators",
    "as_tensor": "data.convert",
    "compare": "comparison.compare",
    "concat": "data.concat",
    "hold_out": "data.holdout",
    "load_flights": "data.flights",
    "load_tensor": "data.files",
    "open_run": "posterior.open_run",
    "read_events": "data.events.read_events",
    "select_budget": "comparison.selection",
    "write_report": "explorer.page_file",
}

__all__ = [
    "CP",
    "AlloCore",
    "Comparison",
    "Consensus",
    "CountTensor",
    "Diagnosis",
    "Forecast",
    "HeldOut",
    "InputError",
    "Missing",
    "NNTuck",
    "Posterior",
    "Selection",
    "ShardedTensor",
    "Split",
    "StoreError",
    "Tucker",
    "as_tensor",
    "compare",
    "concat",
    "figures",
    "hold_out",
    "load_flights",
    "load_tensor",
    "open_run",
    "read_events",
    "select_budget",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("allocore")
    if name == "figures":
        return import_module("allocore.figures")
    if name not in _HOMES:
        raise AttributeError(f"module 'allocore' has no attribute {name!r}")
    return getattr(import_module(f"allocore.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
