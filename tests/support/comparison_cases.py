"""Small data, tables of results written by hand, and jobs that take no process of their own."""

from concurrent.futures import Executor, Future

import numpy as np
import pandas as pd

import allocore as ac
from allocore.comparison.models import Defaults, ModelName, named_models

CHAINS, STARTS = {"burn_in": 6, "draws": 3, "thin": 2, "chains": 1}, {"restarts": 2, "max_iter": 5}
QUICK = {"hold_out": 0.15, "progress": False}
ALL = ("allocore", "cp", "tucker", "nntuck")
MODES = ("who", "whom", "when")


def small_tensor():
    rng = np.random.default_rng(3)
    parts = [rng.gamma(0.5, 1.0, (length, 3)) for length in (6, 5, 8)]
    return ac.as_tensor(rng.poisson(2.0 * np.einsum("ak,bk,ck->abc", *parts)), mode_names=MODES)


def named(names, tensor=None, chains=CHAINS, starts=STARTS, core_shape=None, **defaults):
    """Estimators by their short names, with few sweeps."""
    tensor = small_tensor() if tensor is None else tensor
    more = {"chains": chains, "starts": starts, "core_shape": core_shape}
    return named_models(list(names), tensor, defaults=Defaults(**defaults), **more)


class JobsHere(Executor):
    """Runs jobs in this process, in place of `JobProcesses`: to start a process for each takes seconds."""

    def __init__(self, tensor, parallel):
        self._tensor = tensor

    def submit(self, function, /, task, tensor):
        future = Future()
        future.set_result(function(task, ac.load_tensor(self._tensor)))
        return future


ESTIMATORS = {"allocore": "AlloCore", "cp": "CP", "tucker": "Tucker", "nntuck": "NNTuck"}


def table_of(**series):
    """Results of models at budgets: allocore_5=[...] has the log PPDs of the splits 0, 1, .., None for a failed one."""
    rows = []
    for name, values in series.items():
        model, _, budget = name.partition("_")
        for split, value in enumerate(values):
            failed = value is None
            number = np.nan if failed else value
            row = {"model": model, "estimator": ESTIMATORS[ModelName.parse(model).kind], "core": "", "split": split}
            row |= {"budget": int(budget), "core_shape": "2x2x2"}
            row |= {"log_ppd": number, "log_ppd_positive": number, "seconds": 2.0, "seconds_per_sweep": 0.1}
            row |= {"classes": int(budget) * 0.8, "factors_who": 2.0, "factors_when": 1.0, "peak_mb": 100.0}
            row |= {"chains": 1, "log_ppd_chain": number, "log_ppd_positive_chain": number, "sweeps": 20.0}
            row |= {"kl": -number, "auc": 0.9, "average_precision": 0.5}
            row |= {"threads": 1.0, "error": "ended by SIGKILL" if failed else ""}
            rows.append(row)
    return pd.DataFrame(rows)
