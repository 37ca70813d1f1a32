"""A run as ArviZ expects it: draws with quantities that mean the same in every draw, and pointwise log-likelihoods.

The draws as they are stored (storage/run_reader.py) have class and factor numbers without a meaning across draws. So
the group `posterior` also has what can be summarised and traced: the shares of the consensus classes, the expected
total, the dispersion. The group `log_likelihood` has log P(y | draw) of single cells, for LOO and comparisons.
"""

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import xarray as xr

from allocore._memory import require_memory
from allocore.classes.consensus import Consensus, class_shares
from allocore.classes.profiles import ClassReader
from allocore.errors import InputError, check_choice
from allocore.kernels.elementary import Ints
from allocore.model.likelihood import dispersion_of
from allocore.posterior.cells import MOST_CELLS, observed_cells
from allocore.posterior.convergence import expected
from allocore.posterior.predict import number_of_draws, rates_by_draw
from allocore.storage.record import Record
from allocore.storage.run_reader import stored_tree
from allocore.tensor.coordinates import column_keys, locate
from allocore.tensor.count_tensor import CountTensor, cells_of
from allocore.tensor.labels import free_name
from allocore.tensor.missing import covered
from allocore.tensor.sharded import ShardedTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

Pointwise: TypeAlias = Literal["held-out", "cells"]
_ZEROS, _SEED = 10_000, 20240502
_SWITCH = "class and factor numbers have no meaning across draws: do not average or trace them"
_ABOUT = {
    "core_values": f"the value of each class; {_SWITCH}",
    "core_locations": f"the factor of each class in every mode; {_SWITCH}",
    "factors": f"the factors of a mode; {_SWITCH}",
    "concentrations": "the concentration e0 of each mode",
    "dispersion_log_odds": "ln p - ln(1 - p) of the negative binomial",
    "class_share": "the share of the counts in each consensus class (`names`), zero in a draw that does not hold it",
    "expected_total": "the expected total count of the observed cells",
    "dispersion": "the dispersion p of the negative binomial: the variance of a count is 1 / (1 - p) times its mean",
}


def arviz_tree(record: Record, consensus: Consensus | None, pointwise: Pointwise | None, threads: int) -> xr.DataTree:
    """Return the run as a DataTree: see `Posterior.to_datatree`."""
    if pointwise is not None:
        check_choice("log_likelihood", pointwise, get_args(Pointwise))
    tree = stored_tree(record)
    if not number_of_draws(record):
        return tree
    posterior = tree.children["posterior"].to_dataset()
    for name, variable in posterior.data_vars.items():
        variable.attrs["description"] = _ABOUT.get(str(name), _ABOUT["factors"])
    tree["posterior"] = xr.DataTree(_with_identified(posterior, record, consensus))
    if pointwise is not None:
        cells = _held_out(record) if pointwise == "held-out" else _cells_with_a_sample_of_zeros(record.tensor)
        tree["log_likelihood"] = xr.DataTree(_log_likelihood(record, cells, threads))
    return tree


def _with_identified(posterior: xr.Dataset, record: Record, consensus: Consensus | None) -> xr.Dataset:
    taken = (*map(str, posterior.variables), *map(str, posterior.dims))
    none = np.empty((record.tensor.ndim, 0), dtype=np.int64)
    found: dict[str, tuple[tuple[str, ...], Any]] = {"expected_total": ((), expected(record, none)[0])}
    if record.log_odds is not None:
        rows = tuple(str(dim) for dim in posterior["dispersion_log_odds"].dims[2:])
        found["dispersion"] = rows, dispersion_of(record.log_odds)
    by_class = free_name("class", taken)
    if consensus is not None and len(consensus.numbers):
        estimates, draws = consensus.estimates, record.core_values.shape[1]
        whole = len(estimates.draws) == draws
        shares = estimates.shares if whole else class_shares(ClassReader(record), estimates.mean_profiles)
        found["class_share"] = (by_class,), shares
        posterior = posterior.assign_coords({by_class: consensus.numbers})
    variables: dict[str, tuple[tuple[str, ...], Any, dict[str, Any]]] = {
        free_name(name, (*taken, by_class)): (("chain", "draw", *dims), values, {"description": _ABOUT[name]})
        for name, (dims, values) in found.items()
    }
    if consensus is not None and "class_share" in found:  # a second coordinate would be too much for az.summary
        variables[free_name("class_share", (*taken, by_class))][2]["names"] = list(consensus.names)
    return posterior.assign(variables)


def _held_out(record: Record) -> xr.Dataset:
    """The held-out cells: `coords`, `counts`, `weight`."""
    if record.held_out is None:
        raise InputError("log_likelihood", "held-out", "needs held-out cells, and the run has none")
    about = (
        "held-out cells, which the draws have not seen: the mean over draws of exp(log-likelihood) is their predictive "
        "density, as in post.log_ppd. LOO, which takes each cell out of the draws once more, is slightly lower"
    )
    coords_MN, counts_N = record.held_out.coords.astype(np.int64), record.held_out.counts.astype(np.int64)
    return _dataset(coords_MN, counts_N, np.ones(len(counts_N)), {"cells": "held-out", "description": about})


def _cells_with_a_sample_of_zeros(tensor: CountTensor) -> xr.Dataset:
    """All non-zero cells and a random sample of the observed zeros, always the same: `coords`, `counts`, `weight`."""
    if isinstance(tensor, ShardedTensor):
        raise InputError("log_likelihood", "cells", "needs the cells in memory, and those of this run are in shards")
    every = tensor.observed - tensor.nnz
    zeros_MZ = _sampled_zeros(tensor, min(every, max(_ZEROS, tensor.nnz)))
    zeros = zeros_MZ.shape[1]
    weight = every / zeros if zeros else math.nan
    about = (
        f"all {tensor.nnz:,} non-zero cells and a random sample of {zeros:,} of the {every:,} observed zeros: a sum "
        "over all cells is the sum of values times `weight`"
    )
    numbers = {"nonzeros": tensor.nnz, "zeros": every, "zeros_sampled": zeros, "weight_of_a_zero": weight}
    coords_MN = np.concatenate([tensor.coords.astype(np.int64), zeros_MZ], axis=1)
    counts_N = np.concatenate([tensor.counts.astype(np.int64), np.zeros(zeros, dtype=np.int64)])
    weight_N = np.where(counts_N > 0, 1.0, weight)
    return _dataset(coords_MN, counts_N, weight_N, {"cells": "cells", "description": about, **numbers})


def _sampled_zeros(tensor: CountTensor, number: int) -> Ints:
    """The coordinates (M, number) of observed zeros, uniformly without replacement."""
    rng = np.random.Generator(np.random.PCG64(_SEED))
    if tensor.volume <= MOST_CELLS:
        zeros = [coords_MN[:, counts_N == 0] for coords_MN, counts_N in observed_cells(tensor)]
        zeros_MZ = np.concatenate([np.zeros((tensor.ndim, 0), dtype=np.int64), *zeros], axis=1)
        return zeros_MZ[:, np.sort(rng.choice(zeros_MZ.shape[1], number, replace=False))]
    lengths_M = np.array(tensor.shape)[:, None]
    found_MZ = np.zeros((tensor.ndim, 0), dtype=np.int64)
    while found_MZ.shape[1] < number:
        drawn_MN = cells_of(tensor, rng.integers(0, lengths_M, size=(tensor.ndim, max(number, _ZEROS))))
        keys_N, nonzeros = column_keys(tensor.shape, drawn_MN, tensor.coords)
        zero_N = (locate(keys_N, nonzeros) < 0) & ~covered(drawn_MN, tensor.missing)
        found_MZ = np.concatenate([found_MZ, drawn_MN[:, zero_N]], axis=1)
        (keys_Z,) = column_keys(tensor.shape, found_MZ)
        found_MZ = found_MZ[:, np.sort(np.unique(keys_Z, return_index=True)[1])]
    return found_MZ[:, :number]


def _dataset(coords_MN: Ints, counts_N: Ints, weight_N: "NDArray[np.float64]", about: dict[str, Any]) -> xr.Dataset:
    variables = {"coords": (("mode", "cell"), coords_MN), "counts": ("cell", counts_N), "weight": ("cell", weight_N)}
    return xr.Dataset(variables, attrs=about)


def _log_likelihood(record: Record, cells: xr.Dataset, threads: int) -> xr.Dataset:
    """log P(y | draw) of the cells, (chain, draw, cell), with their weights, counts and places as coordinates."""
    (chains, draws), counts_N = record.core_values.shape[:2], cells["counts"].to_numpy()
    require_memory(8 * chains * draws * len(counts_N), f"the log-likelihood of {len(counts_N):,} cells in every draw")
    values_SN = np.empty((chains * draws, len(counts_N)))
    for own_N, (rates_N, log_odds_N) in zip(
        values_SN, rates_by_draw(record, cells["coords"].to_numpy(), threads), strict=True
    ):
        own_N[:] = record.spec.observation.log_density(counts_N, rates_N, log_odds_N)
    numbers = {"chain": np.arange(chains), "draw": record.draw_numbers, "cell": np.arange(len(counts_N))}
    values = {"counts": (("chain", "draw", "cell"), values_SN.reshape(chains, draws, -1))}
    names_M = list(record.tensor.mode_names)
    places = {"mode": names_M, "weight": cells["weight"], "count": cells["counts"], "place": cells["coords"]}
    return xr.Dataset(values, {**numbers, **places}, cells.attrs)
