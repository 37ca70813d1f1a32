"""The consensus of new rows that were folded into a fit: its classes, as large as they are in the new rows.

The classes, their numbers and their names are those of the consensus of the fit. A draw holds a class if it does so in
the fit, because the new rows alone may be too few to tell classes apart. Shares, profiles and intervals are those of
the expected counts in the new rows.
"""

import numpy as np

from allocore.data.coordinates import column_keys
from allocore.posterior.class_profiles import ClassReader, DrawClasses
from allocore.posterior.consensus.consensus import Consensus
from allocore.posterior.consensus.consensus_clusters import MOST_CLASSES
from allocore.posterior.consensus.consensus_estimates import Tally
from allocore.posterior.consensus.consensus_file import Known, Numbered
from allocore.posterior.draw_bar import draw_bar
from allocore.run.record import Record


def consensus_of_new_rows(record: Record, run: Record, consensus: Consensus, progress: bool) -> Consensus:
    """The consensus of new rows, given the run that they were folded into and its consensus."""
    given = consensus.numbered
    found, draws, chains = given.estimates, given.estimates.draws.tolist(), len(run.core_values)
    fitted = ClassReader(run)
    folded = _FoldedReader(record, fitted)
    tally = Tally(chains, found.draws, tuple(band.mean for band in found.profiles), folded)
    with draw_bar("consensus", progress) as tick:
        for chain in range(chains):
            for place, draw in enumerate(draws):
                judged, told = (reader.read(chain, draw, MOST_CLASSES) for reader in (fitted, folded))
                tally.add(chain, place, judged, told)
                tick(chain * len(draws) + place + 1, chains * len(draws))
    kept = tally.kept()
    estimates = tally.estimates(kept)
    number_C, names = given.number_C[kept], tuple(given.names[place] for place in kept.tolist())
    known = Known(number_C, names, tuple(band.mean for band in estimates.profiles))
    return Consensus(record, Numbered(estimates, number_C, names, known))


class _FoldedReader(ClassReader):
    """Reads the classes of the draws of new rows, in the order that they have in the fit."""

    def __init__(self, record: Record, fitted: ClassReader) -> None:
        super().__init__(record)
        self._fitted = fitted

    def read(self, chain: int, draw: int, most: int | None = None) -> DrawClasses:
        """The classes of one draw, or the largest of them in the fit, largest in the fit first."""
        own, wanted_CM = super().read(chain, draw), self._fitted.read(chain, draw, most).location_CM
        own_C, wanted_C = column_keys(self.record.spec.core_shape, own.location_CM.T, wanted_CM.T)
        by_key_C = np.argsort(own_C)
        return own.in_order(by_key_C[np.searchsorted(own_C[by_key_C], wanted_C)])
