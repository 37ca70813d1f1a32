"""Whether classes moved in the core after the burn-in: the one criterion that diagnostics and tables share."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from allocore.run.record import Record


def moved_after_burn_in(record: Record) -> NDArray[np.float64]:
    """Return the share of classes that moved, (chain, sweep), from the end of the burn-in to the last draw."""
    moved = record.stats["moved"][:, record.schedule.burn_in : record.draw_sweeps[-1]]
    return np.asarray(moved, dtype=np.float64)


def move_rate_sentences(move_rate: float) -> Iterator[str]:
    """Yield a sentence on the share of classes that move in a sweep; none if locations are fixed (NaN)."""
    if not np.isnan(move_rate):
        yield f"{move_rate:.2%} of the classes moved in a sweep after the burn-in."


def no_move_warning(record: Record) -> str | None:
    """Return a sentence that names the chains in which no class moved, or None if there are none.

    Classes of CP and Tucker never move, so they get no warning.
    """
    if not record.spec.learn_locations:
        return None
    moved = moved_after_burn_in(record)
    still = [str(chain) for chain, of_chain in enumerate(moved) if not of_chain.any()]
    if not still:
        return None
    where = "" if len(still) == len(moved) else f" in chain{'s' * (len(still) > 1)} {', '.join(still)}"
    return (
        f"No class moved after the burn-in{where}. Locations move rarely when counts are large: a smaller core shape "
        "makes classes share factors from the start, and several chains show which classes are stable."
    )
