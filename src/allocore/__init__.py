"""allocore: Bayesian tensor decomposition for large, sparse count data.

    import allocore as ac

    Y = ac.load_flights()
    post = ac.AlloCore(budget=40, seed=0).fit(Y).posterior_
    print(post.classes())

Names are loaded on first use, so `import allocore` is fast and loads neither numba nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocore import figures
    from allocore.classes.consensus import Consensus
    from allocore.classes.diff import Diff
    from allocore.classes.memberships import Memberships
    from allocore.classes.reproducibility import Reproducibility
    from allocore.classes.summary import ClassSummary
    from allocore.comparison.compare import Comparison, compare
    from allocore.comparison.select_budget import Selection, select_budget
    from allocore.diagnosis import Answer, Diagnosis
    from allocore.errors import InputError, StoreError
    from allocore.estimators import CP, AlloCore, NNTuck, Tucker
    from allocore.events.read_events import read_events
    from allocore.findings import Finding, FindingWarning
    from allocore.forecast.forecast import Forecast
    from allocore.forecast.scores import ForecastEvaluation
    from allocore.model.modes import Mode
    from allocore.posterior.check import Check
    from allocore.posterior.evaluate import Evaluation
    from allocore.results import Posterior, diff, open_run, paper_table, write_graph, write_report
    from allocore.tensor.concat import concat
    from allocore.tensor.count_tensor import CountTensor
    from allocore.tensor.event_report import EventReport
    from allocore.tensor.files import as_tensor, load_flights, load_tensor, write_table
    from allocore.tensor.holdout import HeldOut, Split, hold_out
    from allocore.tensor.missing import Missing
    from allocore.tensor.sharded import ShardedTensor

_HOMES = {
    "AlloCore": "estimators",
    "Answer": "diagnosis",
    "CP": "estimators",
    "Check": "posterior.check",
    "ClassSummary": "classes.summary",
    "Comparison": "comparison.compare",
    "Consensus": "classes.consensus",
    "CountTensor": "tensor.count_tensor",
    "Diagnosis": "diagnosis",
    "Diff": "classes.diff",
    "Evaluation": "posterior.evaluate",
    "EventReport": "tensor.event_report",
    "Finding": "findings",
    "FindingWarning": "findings",
    "Forecast": "forecast.forecast",
    "ForecastEvaluation": "forecast.scores",
    "HeldOut": "tensor.holdout",
    "InputError": "errors",
    "StoreError": "errors",
    "Memberships": "classes.memberships",
    "Missing": "tensor.missing",
    "Mode": "model.modes",
    "NNTuck": "estimators",
    "Posterior": "results",
    "Reproducibility": "classes.reproducibility",
    "Selection": "comparison.select_budget",
    "ShardedTensor": "tensor.sharded",
    "Split": "tensor.holdout",
    "Tucker": "estimators",
    "as_tensor": "tensor.files",
    "compare": "comparison.compare",
    "concat": "tensor.concat",
    "diff": "results",
    "hold_out": "tensor.holdout",
    "load_flights": "tensor.files",
    "load_tensor": "tensor.files",
    "open_run": "results",
    "paper_table": "results",
    "read_events": "events.read_events",
    "select_budget": "comparison.select_budget",
    "write_graph": "results",
    "write_report": "results",
    "write_table": "tensor.files",
}

__all__ = [
    "CP",
    "AlloCore",
    "Answer",
    "Check",
    "ClassSummary",
    "Comparison",
    "Consensus",
    "CountTensor",
    "Diagnosis",
    "Diff",
    "Evaluation",
    "EventReport",
    "Finding",
    "FindingWarning",
    "Forecast",
    "ForecastEvaluation",
    "HeldOut",
    "InputError",
    "Memberships",
    "Missing",
    "Mode",
    "NNTuck",
    "Posterior",
    "Reproducibility",
    "Selection",
    "ShardedTensor",
    "Split",
    "StoreError",
    "Tucker",
    "as_tensor",
    "compare",
    "concat",
    "diff",
    "figures",
    "hold_out",
    "load_flights",
    "load_tensor",
    "open_run",
    "paper_table",
    "read_events",
    "select_budget",
    "write_graph",
    "write_report",
    "write_table",
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
