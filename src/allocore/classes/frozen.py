"""Factors of an earlier fit, or of a table, that a new fit keeps as they are: the setting `frozen` of `Mode`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from allocore.classes.consensus import Consensus
from allocore.errors import Described, InputError
from allocore.model.known import LEAST_SHARE
from allocore.model.modes import FrozenTable, Mode
from allocore.tensor.count_tensor import CountTensor


def frozen_tables(given: Mapping[int, Mode], tensor: CountTensor) -> dict[int, FrozenTable]:
    """Return the frozen factors of the modes that have any: their names, labels and values."""
    return {
        mode: _table(each.frozen, tensor.mode_names[mode]) for mode, each in given.items() if each.frozen is not None
    }


def _table(frozen: Any, name: str) -> FrozenTable:
    if hasattr(frozen, "consensus"):  # a posterior
        frozen = frozen.consensus(progress=False)
    if isinstance(frozen, Consensus):
        frozen = frozen.factor_table(_mode_of(frozen, name)).clip(lower=LEAST_SHARE)  # no share is quite zero
    if not isinstance(frozen, pd.DataFrame):
        kind = Described(f"an object of type {type(frozen).__name__}")
        raise InputError(
            "frozen", kind, "must be a posterior, its consensus, or a pandas DataFrame of labels by factors"
        )
    if frozen.shape[1] == 0:
        raise InputError("frozen", Described("a table without columns"), "must have at least one factor")
    twice = frozen.index[frozen.index.duplicated()]
    if len(twice):
        raise InputError("frozen", twice[0], f"must have each label of mode {name!r} once")
    try:
        values_DF = frozen.to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        rule = f"must have numbers: its index has the labels of mode {name!r}, and each column is a factor"
        raise InputError("frozen", Described("a table with texts"), rule) from None
    return FrozenTable(tuple(map(str, frozen.columns)), tuple(map(str, frozen.index)), values_DF)


def _mode_of(consensus: Consensus, name: str) -> str:
    names = tuple(mode.name for mode in consensus.summary.modes)
    if name not in names:
        rule = f"must be a fit with a mode {name!r}: it has {', '.join(names)}"
        raise InputError("frozen", Described(repr(consensus)), rule)
    return name
