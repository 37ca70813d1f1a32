"""Sums of the classes of one draw over the observed cells, each cell times its odds if there is a dispersion.

The odds p / (1 - p) are the expected count per unit of the rate, so a weighted sum times the core value is the expected
count of a class. They are 1 for the likelihoods without a dispersion.
"""

import numpy as np

from allocore.kernels.arrays import Floats, Ints
from allocore.kernels.expansion import expand_factors, row_offsets
from allocore.kernels.signed_patterns import Expanded, RowScale, SignedPatterns, scaled_sums
from allocore.kernels.workers import Workers
from allocore.model.likelihood import odds_of
from allocore.run.record import Record


def weighted_expansion(
    record: Record, chain: int, draw: int, subs_QM: Ints, missing: SignedPatterns
) -> tuple[Expanded, RowScale | None, float]:
    """The factors expanded to classes at `subs_QM`, and the odds: by row as a scale, or one number for all cells."""
    phi_RQ = expand_factors([factor[chain, draw] for factor in record.factors], subs_QM)
    offsets_M = row_offsets(record.tensor.shape)
    sums_MQ = np.add.reduceat(phi_RQ, offsets_M[:-1], axis=0)
    mode = record.spec.dispersion_by
    if record.log_odds is None:
        return Expanded(phi_RQ, sums_MQ), None, 1.0
    odds = odds_of(record.log_odds[chain, draw])
    if mode is None:
        return Expanded(phi_RQ, sums_MQ), None, float(odds)
    scale = missing.scaled(mode, odds)
    sums_MQ[mode] = scaled_sums(phi_RQ[offsets_M[mode] : offsets_M[mode + 1]], mode, scale)
    return Expanded(phi_RQ, sums_MQ), scale, 1.0


def weighted_sums(
    record: Record, chain: int, draw: int, subs_QM: Ints, missing: SignedPatterns, workers: Workers
) -> Floats:
    """For classes at `subs_QM` with core values of 1, the sum over the observed cells of rate times odds, (Q)."""
    expanded, scale, odds = weighted_expansion(record, chain, draw, subs_QM, missing)
    return np.asarray(odds * missing.sums(expanded, workers, scale))
