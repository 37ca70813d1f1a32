"""What the likelihoods and learned concentrations cost: a sweep of each, beside a Poisson sweep of the same data."""

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import allocore as ac
from allocore.kernels.workers import Workers, available_threads
from timing import Chain, best_in_turns

_WARM_UP = 60
# For each kind of sweep: what it is compared with, and the target for the ratio.
_TARGETS = {
    "negative binomial": ("poisson", 1.15),
    "negative binomial by row": ("poisson", None),
    "e0 learned": ("e0 fixed at the same values", 1.05),
    "bernoulli": ("poisson, binary data", 1.15),
}


def likelihoods(Y: ac.CountTensor, budget: int, rounds: int) -> list[dict[str, Any]]:
    """Milliseconds of a sweep of each kind, from chains of the same length, and the ratios."""
    nb, binary = {"likelihood": "negative-binomial"}, Y.binarize()
    with Workers(available_threads()) as workers:
        chains = {
            "poisson": Chain(Y, budget, workers, _WARM_UP),
            "negative binomial": Chain(Y, budget, workers, _WARM_UP, **nb),
            "negative binomial by row": Chain(Y, budget, workers, _WARM_UP, **nb, dispersion_by=0),
            "e0 learned": Chain(Y, budget, workers, _WARM_UP, e0="infer"),
            "poisson, binary data": Chain(binary, budget, workers, _WARM_UP),
            "bernoulli": Chain(binary, budget, workers, _WARM_UP, likelihood="bernoulli"),
        }
        chains["e0 fixed at the same values"] = _with_fixed_concentrations(chains["e0 learned"])
        calls = {name: chain.calls()["sweep"] for name, chain in chains.items()}
        times = best_in_turns(calls, rounds)
        latent = {name: int(chain.allocation.y_RQ[: Y.shape[0]].sum()) for name, chain in chains.items()}
    results = []
    for name, milliseconds in times.items():
        beside, target = _TARGETS.get(name, (name, None))
        ratio = milliseconds / times[beside]
        figures = {"ms": milliseconds, "ratio": ratio, "latent": latent[name]}
        results.append({"name": name, "beside": beside, "target": target, **figures})
    return results


def _with_fixed_concentrations(learning: Chain) -> Chain:
    """The same chain at the same state, but with its concentrations as settings."""
    fixed = copy(learning)
    fixed.spec = replace(learning.spec, e0=tuple(learning.state.concentrations_M.tolist()))
    fixed.state = replace(learning.state, concentrations_M=np.empty(0))
    return fixed


def print_likelihoods(results: list[dict[str, Any]], budget: int, console: Console) -> None:
    table = Table("", "sweep ms", "beside", "ratio", "counts allocated", title=f"Likelihoods, Q = {budget}")
    for each in results:
        target = f" (<= {each['target']})" if each["target"] else ""
        beside = [each["beside"], f"{each['ratio']:.2f}{target}"] if each["beside"] != each["name"] else ["", ""]
        table.add_row(each["name"], f"{each['ms']:.1f}", *beside, f"{each['latent']:,}")
    console.print(table)
