"""Shards: cells thinned apart give the bytes of cells thinned together, wherever they are cut."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import allocore as ac
from allocore.gibbs.latent_counts import CODES
from allocore.gibbs.layout import BLOCK, Layout, Workspace, nonzeros_of
from allocore.gibbs.thinning import thin, thin_here
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.run.cluster.shards import Shard, join_thinned, state_of_rows
from allocore.tensor.shards import STEP
from support.tiers import parametrize_few

pytestmark = pytest.mark.jit
KEY = Key.of(5, 1).at(3)
SHAPE = (300, 60, 9)


def cells(binary=False):
    """Cells of several blocks: long and short fibres, counts from 1 to hundreds, rows that few cells touch."""
    rng = np.random.default_rng(2)
    coords = np.array([(length * rng.random(9000) ** 2).astype(int) for length in SHAPE])
    counts = 1 + rng.poisson(np.where(rng.random(9000) < 0.02, 300.0, 1.0))
    Y = ac.CountTensor(coords, counts, SHAPE)
    return Y.binarize() if binary else Y


def state_for(spec, underflow=False):
    """A state; if products must underflow, half of the classes are tiny in rows of a mode, the others in another."""
    state = first_state(spec, SHAPE, np.random.default_rng(1))
    if not underflow:
        return state
    small = [log_phi_DK.copy() for log_phi_DK in state.log_phi]
    small[0][:40, :6] -= 700.0
    small[1][:20, 6:] -= 700.0
    return replace(state, log_phi=tuple(small))


def in_shards(layout, edges, workers, threads=1):
    """A way to thin that cuts the sorted cells of a layout at these blocks."""
    nonzeros, order, counts = layout.nonzeros, layout.order, layout.counts_of(np.arange(layout.nnz))
    coords = np.empty_like(nonzeros.coords_MN)
    coords[list(order)] = nonzeros.coords_MN
    shards = [
        Shard.of(coords[:, here], counts[here], layout.shape, order, here.start, workers)
        for here in (slice(a * BLOCK, min(b * BLOCK, layout.nnz)) for a, b in pairwise(edges))
    ]
    first_draws = np.cumsum([0, *(each.draws for each in shards)])

    def thin_cells(key, given, likelihood, state, workspace, count_type):
        with Workers(threads) as own:
            thinned = [
                shard.thin(key, int(first), likelihood, state_of_rows(state, shard.rows), count_type, own)
                for shard, first in zip(shards, first_draws[:-1], strict=True)
            ]
        log_scale_R = workspace.scaled_rows(state).log_scale_R
        return join_thinned(thinned, [shard.rows for shard in shards], given, log_scale_R, count_type)

    return thin_cells, shards


def blocks():
    with Workers(1) as workers:
        return Layout.of(cells(), workers).blocks


@parametrize_few("likelihood", ["poisson", "negative-binomial", "bernoulli"])
@parametrize_few("underflow", [False, True], ids=["", "underflow"])
@parametrize_few("edges", [(0, 1), (0, 2, 5), (0, 1, 2, 3, 4, 5, 6, 7)], ids=str)
def test_shards_give_the_bytes_of_the_whole(likelihood, underflow, edges):
    Y, spec = cells(binary=likelihood == "bernoulli"), Spec(12, (12, 12, 12), likelihood=likelihood)
    state = state_for(spec, underflow)
    with Workers(2) as workers:
        layout = Layout.of(Y, workers)
        thin_cells, _ = in_shards(layout, [*edges, layout.blocks], workers, threads=2)
        whole, _ = thin(KEY, layout, spec, state, Workspace.of(layout, state))
        no_cells = np.empty((3, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        bare = replace(layout, nonzeros=nonzeros_of(*no_cells, layout.nonzeros.starts_M))
        cut, _ = thin(KEY, bare, spec, state, Workspace.of(bare, state), thin_cells)
        parts = thin_here(KEY, layout, CODES[likelihood], state, Workspace.of(layout, state), np.int32)
    assert (parts.log_fit_U.size > 100) == underflow, "the case has cells whose products underflow, or it has not"
    assert whole.y_RQ.dtype == cut.y_RQ.dtype
    assert whole.y_RQ.tobytes() == cut.y_RQ.tobytes()
    assert whole.log_fit == cut.log_fit


def test_classes_that_are_not_included_are_thinned_in_shards_as_in_the_whole():
    Y, spec = cells(), Spec(12, (12, 12, 12), infer_budget=True)
    state = state_for(spec)
    state = replace(state, log_core_Q=np.where(np.arange(12) % 3 == 0, -np.inf, state.log_core_Q))
    with Workers(1) as workers:
        layout = Layout.of(Y, workers)
        thin_cells, _ = in_shards(layout, [0, 3, layout.blocks], workers)
        whole, _ = thin(KEY, layout, spec, state, Workspace.of(layout, state))
        cut, _ = thin(KEY, layout, spec, state, Workspace.of(layout, state), thin_cells)
    assert (whole.y_RQ.tobytes(), whole.log_fit) == (cut.y_RQ.tobytes(), cut.log_fit)


def test_a_shard_that_forgets_its_place_has_other_draws():
    """A planted bug: all shards draw from the beginning of the stream."""
    Y, spec = cells(), Spec(12, (12, 12, 12))
    state = state_for(spec)
    with Workers(1) as workers:
        layout = Layout.of(Y, workers)
        _, shards = in_shards(layout, [0, 3, layout.blocks], workers)
        own = state_of_rows(state, shards[1].rows)
        right = shards[1].thin(KEY, shards[0].draws, 0, own, np.int32, workers)
        wrong = shards[1].thin(KEY, 0, 0, own, np.int32, workers)
    assert right.y_RQ.sum() == wrong.y_RQ.sum()
    assert (right.y_RQ != wrong.y_RQ).any()


def test_a_shard_knows_only_the_rows_that_its_cells_touch():
    Y = cells()
    with Workers(1) as workers:
        layout = Layout.of(Y, workers)
        _, shards = in_shards(layout, [0, 3, 6, layout.blocks], workers)
    first = layout.order[0]
    rows = [shard.rows[first] for shard in shards]
    for one, two in pairwise(rows):
        assert one[-1] <= two[0], "of the first mode of the order, neighbours share at most a row"
    assert sum(map(len, rows)) <= Y.shape[first] + len(shards) - 1
    own = state_of_rows(state_for(Spec(12, (12, 12, 12))), shards[0].rows)
    assert [len(each) for each in own.log_phi] == [len(each) for each in shards[0].rows]


def test_shards_begin_at_blocks_of_thinning():
    assert STEP % BLOCK == 0
