"""Geweke's joint-distribution test (2004; docs/explanation/exactness.md): from the prior, alternate data and moves.

Data are drawn given the variables, and the moves under test change the variables given the data. If every move is
right, the variables have the prior as their distribution at the end, as they do at the beginning.
"""

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import draw_counts, prior_state
from allocore.tensor.missing import Missing
from support import cases
from support.evidence import summaries

SHAPE = (3, 4, 2)
NONE = Missing(np.empty((0, 3), dtype=int), SHAPE)
SOME = Missing([(0, 0, None), (1, 1, None), (None, 2, 1), (2, None, 0), (2, 3, 1)], SHAPE)
STEPS = 3


def wander(move, spec, missing, starts, seed=1, undirected=None, quantities=summaries):
    """Differences of all `quantities` of states between the ends and the beginnings of independent short chains.

    `move(key, number, layout, spec, state)` returns the next state, given the data of the layout. `undirected` modes
    have one cell for both directions.
    """
    rng, key = np.random.default_rng(seed), Key.of(seed, 0)
    shape = missing.shape
    cells = np.indices(shape).reshape(len(shape), -1)
    cells = np.ascontiguousarray(cells[:, ~missing.contains(cells)])
    if undirected is not None:
        cells = np.ascontiguousarray(cells[:, cells[undirected[0]] < cells[undirected[1]]])
    firsts, lasts = [], []
    with Workers(1) as workers:
        for start in range(starts):
            state = prior_state(spec, shape, rng)
            firsts.append(cases.naive_of(state))
            for number in range(start * STEPS, (start + 1) * STEPS):
                counts = draw_counts(spec, state, cells, rng, undirected)
                layout = Layout.of_cells(cells[:, counts > 0], counts[counts > 0], missing, workers, undirected)
                state = move(key, number, layout, spec, state)
            lasts.append(cases.naive_of(state))
    return quantities(lasts) - quantities(firsts)
