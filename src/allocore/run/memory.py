"""The memory that a run will need, estimated before the first sweep, so that a run that cannot fit is refused.

With R rows in all modes, Q classes and K factors in a mode of D rows, in numbers of 8 bytes:

    to sample, each chain      2 sum(D K)  +  2 R Q                     factors before and after a step, and expanded
    of tied modes, of D rows   2 D Q
    each chain at work         5 D Q, and 2 Q K if locations move       counts and exposures of the largest mode, scores
    draws in memory            chains * draws * (sum(D K) + Q M + Q + ..)
    draws on disk              one chunk of each variable and chain while it is filled, and three to encode one
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from allocore._memory import available_memory, in_bytes
from allocore._text import plural
from allocore.errors import InputError
from allocore.storage.lazy_array import READ_WHOLE_BYTES
from allocore.storage.record import Plan
from allocore.storage.zarr_format import STATS, chunk_shape, draw_variables
from allocore.tensor.count_tensor import CountTensor
from allocore.tensor.sharded import ShardedTensor

_NUMBER_BYTES = 8
_CELL_BYTES = 16  # of a non-zero: two bytes a coordinate and five more, and sorting
_LEAST_REPORTED = 2**30  # bytes


class Needs(NamedTuple):
    """Bytes of memory: to sample, for the draws while they are sampled, and to open the run."""

    sampling: int
    draws: int
    opening: int

    @property
    def whole(self) -> int:
        """What the fit needs."""
        return self.sampling + self.draws


def cells_in_memory(tensor: CountTensor, *, on_workers: bool) -> int:
    """How many non-zeros the process of a fit has in memory: of a sharded tensor, those of two shards or none."""
    if not isinstance(tensor, ShardedTensor):
        return tensor.nnz
    return 0 if on_workers else min(2 * len(tensor.files.sizes.cells_of(0, 1)), tensor.nnz)


def needs_of(plan: Plan, *, stored: bool, threads: int, cells: int | None = None) -> Needs:
    """The memory that a run needs: draws are `stored` on disk or in memory, and some or all `cells` are here."""
    tensor, spec = plan.tensor, plan.spec
    sizes = list(zip(tensor.shape, spec.core_shape, strict=True))
    chain = 2 * sum(length * width for length, width in sizes) + 2 * sum(tensor.shape) * spec.budget
    if spec.tied is not None:
        chain += 2 * tensor.shape[spec.tied[0]] * spec.budget
    if tensor.undirected_modes is not None:  # thinning has the mirror image of every class, too
        chain += 4 * sum(tensor.shape) * spec.budget
    moving = 2 * spec.budget if spec.learn_locations else 0
    at_work = max(5 * length * spec.budget + moving * width for length, width in sizes)
    sampling = _NUMBER_BYTES * (plan.chains * chain + min(plan.chains, threads) * at_work)
    sampling += _CELL_BYTES * (tensor.nnz if cells is None else cells)
    variables = draw_variables(tensor, spec)
    values = [_NUMBER_BYTES * math.prod(each.shape) for each in variables]
    per_sweep = _NUMBER_BYTES * (len(STATS) + tensor.ndim)
    traces = plan.chains * plan.schedule.sweeps * per_sweep
    all_draws = plan.chains * plan.schedule.draws * sum(values)
    # On disk a value is in a chunk with others, or is cut into chunks. Encoding and decoding need a chunk three times.
    whole = [_NUMBER_BYTES * math.prod(chunk_shape(each)) for each in variables]
    chunks = sum(max(pair) for pair in zip(values, whole, strict=True))
    opening = min(all_draws, READ_WHOLE_BYTES) + 3 * chunks
    # A run on disk is opened when it ends, perhaps long before its last sweep, so the size of the traces is unknown.
    draws = max((plan.chains + 3) * chunks, opening) if stored else traces + all_draws
    return Needs(sampling, draws, traces + opening)


def check_budget(argument: str, budget: int, core_shape: Sequence[int] | None = None) -> None:
    """Refuse, before reading data, a budget whose 2 Q K scores of locations cannot fit; K = Q unless a core is set."""
    needed, room = 2 * _NUMBER_BYTES * budget * max(core_shape or (budget,)), available_memory()
    if room is not None and needed > room:
        raise InputError(
            argument,
            budget,
            f"must be smaller, or the core: a sweep would need at least {in_bytes(needed)} of memory for any data, and "
            f"{in_bytes(room)} is available",
        )


def check_memory(plan: Plan, *, stored: bool, threads: int, cells: int | None = None) -> str:
    """Refuse a run that cannot fit in memory. Return what it will need, in a sentence; empty if that is little."""
    needs, room = needs_of(plan, stored=stored, threads=threads, cells=cells), available_memory()
    spec, draws = plan.spec, plan.schedule.draws
    to_sample, for_draws = in_bytes(needs.sampling), in_bytes(needs.draws)
    needed = f"{to_sample} to sample and {for_draws} for {draws:,} draws of {plural(plan.chains, 'chain')}"
    if room is not None and needs.whole > room:
        argument = "max_budget" if spec.infer_budget else "rank" if spec.model == "CP" else "budget"
        value: object = spec.budget
        advice = "or the core or `chains`"
        if needs.sampling + needs_of(plan, stored=True, threads=threads, cells=cells).draws <= room:
            argument, value, advice = "draws", draws, "or `store` must keep the draws on disk"
        elif spec.model == "Tucker":
            argument, value = "core_shape", spec.core_shape
        raise InputError(
            argument,
            value,
            f"must be smaller, {advice}: the run would need about {in_bytes(needs.whole)} of memory ({needed}), and "
            f"{in_bytes(room)} is available",
        )
    if needs.whole < _LEAST_REPORTED:
        return ""
    where = "on disk" if stored else "in memory"
    return f"memory: about {needed} ({where}); opening the run on disk takes {in_bytes(needs.opening)}"
