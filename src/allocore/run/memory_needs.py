"""The memory that a run will need, told before the first sweep; what cannot be is refused.

With R rows in all modes, Q classes and K factors in a mode of D rows, in numbers of 8 bytes:

    to sample, each chain      2 sum(D K)  +  2 R Q                     factors before and after a step, and expanded
    each chain at work         5 D Q, and 2 Q K if locations move       counts and exposures of the largest mode, scores
    draws in memory            chains * draws * (sum(D K) + Q M + Q + ..)
    draws on disk              one chunk of each variable and chain while it is filled, and three to encode one
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from allocore.data.available_memory import available_memory, in_bytes
from allocore.errors import InputError
from allocore.model.spec import Spec
from allocore.run.chunks import chunk_shape
from allocore.run.plan import Plan
from allocore.run.schema import STATS, draw_variables

AT_ONCE = 2**28  # draws of a run on disk of no more bytes are read into memory as a whole
_NUMBER = 8
_CELL_BYTES = 16  # of a non-zero: two bytes a coordinate and five more, and sorting
_TOLD = 2**30  # smaller needs are not worth a word


class Needs(NamedTuple):
    """Bytes of memory: to sample, for the draws while they are sampled, and to open the run and look at it."""

    sampling: int
    draws: int
    opening: int

    @property
    def whole(self) -> int:
        """What the fit needs."""
        return self.sampling + self.draws


def needs_of(plan: Plan, *, stored: bool, threads: int, cells_here: bool = True) -> Needs:
    """The memory that the run of a plan needs if its draws are `stored` on disk, or else in memory.

    If the cells are not here, they are in shards on workers.
    """
    tensor, spec = plan.tensor, plan.spec
    sizes = list(zip(tensor.shape, spec.core_shape, strict=True))
    chain = 2 * sum(length * width for length, width in sizes) + 2 * sum(tensor.shape) * spec.budget
    moving = 2 * spec.budget if spec.learn_locations else 0
    at_work = max(5 * length * spec.budget + moving * width for length, width in sizes)
    sampling = _NUMBER * (plan.chains * chain + min(plan.chains, threads) * at_work)
    sampling += _CELL_BYTES * tensor.nnz * cells_here
    variables = draw_variables(tensor, spec)
    values = [_NUMBER * math.prod(each.shape) for each in variables]
    per_sweep = _NUMBER * (len(STATS) + tensor.ndim)
    traces = plan.chains * plan.schedule.sweeps * per_sweep
    kept = plan.chains * plan.schedule.draws * sum(values)
    # On disk a value is in a chunk with others, or is cut into chunks. Encoding and decoding need a chunk three times.
    whole = [_NUMBER * math.prod(chunk_shape(each)) for each in variables]
    chunks = sum(max(pair) for pair in zip(values, whole, strict=True))
    opening = min(kept, AT_ONCE) + 3 * chunks
    # A run on disk is opened when it ends, which may be long before its last sweep: nobody knows how many traces.
    draws = max((plan.chains + 3) * chunks, opening) if stored else traces + kept
    return Needs(sampling, draws, traces + opening)


def check_budget(argument: str, budget: int, core_shape: Sequence[int] | None = None) -> None:
    """Refuse a budget of AlloCore that memory cannot hold whatever the data are, before they are read.

    The scores of new locations alone are 2 Q K numbers, with K = Q factors unless the core is given.
    """
    needed, room = 2 * _NUMBER * budget * max(core_shape or (budget,)), available_memory()
    if room is not None and needed > room:
        raise InputError(
            f"{argument} is {budget:,}, but a sweep would need at least {in_bytes(needed)} of memory for any data, "
            f"and {in_bytes(room)} are available: choose a smaller budget or core"
        )


def _size(spec: Spec) -> str:
    """What the user chose the size of the model by."""
    if spec.model == "Tucker":
        return f"core_shape is {spec.core_shape}"
    names = {"CP": "rank"}
    return f"{'max_budget' if spec.infer_budget else names.get(spec.model, 'budget')} is {spec.budget:,}"


def check_memory(plan: Plan, *, stored: bool, threads: int, cells_here: bool = True) -> str:
    """Refuse a run that memory cannot hold. Return what it will need, in a sentence; empty if that is little."""
    needs, room = needs_of(plan, stored=stored, threads=threads, cells_here=cells_here), available_memory()
    draws, chains = plan.schedule.draws, f"{plan.chains} chain{'s' * (plan.chains > 1)}"
    told = f"{in_bytes(needs.sampling)} to sample and {in_bytes(needs.draws)} for {draws:,} draws of {chains}"
    if room is not None and needs.whole > room:
        fits = needs.sampling + needs_of(plan, stored=True, threads=threads, cells_here=cells_here).draws <= room
        advice = (
            "store= (--out) keeps the draws on disk" if fits else "choose a smaller budget or core, or fewer chains"
        )
        given = f"draws is {draws:,}" if fits else _size(plan.spec)
        raise InputError(
            f"{given}, but the run would need about {in_bytes(needs.whole)} of memory ({told}) and "
            f"{in_bytes(room)} are available: {advice}"
        )
    if needs.whole < _TOLD:
        return ""
    kept = "on disk" if stored else "in memory"
    return f"memory: about {told} ({kept}); opening the run on disk takes {in_bytes(needs.opening)}"
