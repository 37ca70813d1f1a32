"""The same seed gives the same bytes with every likelihood: on any number of threads, wherever the work is cut."""

from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest

import allocore as ac
from allocore.gibbs import thinning
from allocore.gibbs.layout import BLOCK, Layout, Workspace
from allocore.gibbs.sweep import SamplerState, begin, sweep
from allocore.gibbs.thinning import thinning_ranges
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.missing import Missing
from support import cases
from support.tiers import by_tier, parametrize_few

CHAIN = {"burn_in": 4, "draws": 3, "thin": 2, "seed": 7, "progress": False, "chains": 1}
BURSTS = {"likelihood": "negative-binomial"}
BINARY = {"likelihood": "bernoulli"}
MISSING = [(0, None, None), (None, 3, 1), (5, 7, None)]


def tensor(shape=(70, 60, 9), nnz=3000, seed=0):
    """Large enough that every step cuts its work into several ranges; counts from 1 to some hundreds."""
    rng = np.random.default_rng(seed)
    coords = np.array([rng.integers(0, length, nnz) for length in shape])
    counts = 1 + rng.poisson(np.where(rng.random(nnz) < 0.02, 300.0, 1.0))
    return ac.CountTensor(coords, counts, shape)


def with_missing():
    return tensor().with_missing(MISSING)


def ones():
    """Ones, and a block of them without a zero: there the rates grow beyond 32."""
    Y = (np.random.default_rng(1).random((70, 60, 9)) < 0.06).astype(int)
    Y[:20, :20] = 1
    return ac.as_tensor(Y).with_missing([(0, None, None), (None, 3, 1), (25, 7, None)])


MODELS = {
    "poisson": (ac.AlloCore(20, (6, 20, 5), likelihood="poisson"), lambda: ac.hold_out(with_missing(), 0.05).train),
    "bursts": (ac.AlloCore(20, (6, 20, 5), **BURSTS), with_missing),
    "bursts-by-mode-e0": (ac.AlloCore(20, (6, 20, 5), **BURSTS, dispersion_by=1, e0="infer"), with_missing),
    "bursts-budget": (ac.AlloCore("infer", max_budget=20, **BURSTS, dispersion_by=0), with_missing),
    "cp-bursts": (ac.CP(12, **BURSTS, e0="infer"), with_missing),
    "tucker-bursts": (ac.Tucker((3, 4, 2), **BURSTS, dispersion_by=2), with_missing),
    "binary": (ac.AlloCore(20, (6, 20, 5), **BINARY, f0=0.1), ones),
    "binary-e0": (ac.AlloCore(20, (6, 20, 5), **BINARY, e0="infer", f0=0.1), ones),
    "binary-budget": (ac.AlloCore("infer", max_budget=20, **BINARY), ones),
    "tucker-binary": (ac.Tucker((3, 4, 2), **BINARY, e0="infer"), ones),
    "poisson-e0": (ac.AlloCore(20, (6, 20, 5), likelihood="poisson", e0="infer"), with_missing),
}


def fitted(name, **settings):
    model, data = MODELS[name]
    return type(model)(**{**model.get_params(), **CHAIN, **settings}).fit(data()).posterior_


@cache
def on_one_thread(name):
    return as_bytes(fitted(name, threads=1))


def as_bytes(post):
    arrays = [*post.record.draw_arrays, *(post.stats[n] for n in ("log_likelihood", "classes", "factors", "moved"))]
    return [array.tobytes() for array in arrays]


QUICK = [("poisson", 2), ("poisson", 3), ("poisson", 7), ("bursts-by-mode-e0", 3), ("binary", 2), ("bursts-budget", 2)]


@pytest.mark.jit
@pytest.mark.parametrize(("name", "threads"), by_tier(QUICK, MODELS, [2, 3, 7]))
def test_draws_are_byte_identical_on_any_number_of_threads(name, threads):
    expected = on_one_thread(name)
    assert len(set(expected)) == len(expected)
    assert as_bytes(fitted(name, threads=threads)) == expected


@pytest.mark.jit
@pytest.mark.parametrize("name", ["poisson", "bursts-by-mode-e0", "binary"])
def test_another_seed_gives_other_draws(name):
    assert as_bytes(fitted(name, threads=1, seed=8)) != on_one_thread(name)


@pytest.mark.jit
def test_the_rates_of_ones_come_to_both_sides_of_the_switch_at_32():
    post = fitted("binary", burn_in=30)
    coords = np.array(np.nonzero(np.ones((70, 60, 9))))
    core_Q, subs_QM = post.core_values[0, -1], post.core_locations[0, -1]
    phi = [factor[0, -1][:, subs_QM[:, m]] for m, factor in enumerate(post.factors)]
    rates = np.einsum("q,aq,bq,cq->abc", core_Q, *phi)[tuple(coords)]
    assert rates.max() > 40
    assert rates.min() < 1


@pytest.mark.jit
@pytest.mark.parametrize("limit", [-1, 1600, 5000], ids=["all-in-common", "two-in-common", "one-in-common"])
def test_sums_that_threads_share_hold_the_same_counts_as_one_for_each(monkeypatch, limit):
    """Tables of 70, 60 and 9 rows of 20 classes in 32 bits: 5600, 4800 and 720 bytes."""
    Y, spec, key = tensor(), Spec(20, (6, 20, 5)), Key.of(3, 0)
    state = first_state(spec, Y.shape, np.random.default_rng(1))
    with Workers(1) as workers:
        alone = begin(key, Layout.of(Y, workers), spec, state).allocation
    monkeypatch.setattr(thinning, "COPIED_BYTES", limit)
    with Workers(3) as workers:
        together = begin(key, Layout.of(Y, workers), spec, state).allocation
    assert together.y_RQ.tobytes() == alone.y_RQ.tobytes()
    assert together.log_fit == alone.log_fit


@pytest.mark.jit
def test_no_count_is_lost_where_the_products_of_large_and_small_counts_underflow():
    """On several threads, whose ranges of large counts lie in one another's ranges of cells."""
    cells = 4096
    counts = np.where(np.arange(cells) % 512 == 511, 1000, 1)
    coords = np.array([np.arange(cells) // 2048, np.arange(cells) % 2048])
    state = State(np.zeros(1), np.zeros((1, 2), dtype=np.int64), (np.full((2, 1), -400.0), np.full((2048, 1), -400.0)))
    with Workers(4) as workers:
        layout = Layout.of_cells(coords, counts, Missing.none((2, 2048)), workers)
        for sweep_number in range(200):
            _, allocation = begin(Key.of(1, 0).at(sweep_number), layout, Spec(1, (1, 1)), state)
            assert allocation.y_RQ[layout.rows(0)].sum() == counts.sum()
            assert allocation.log_fit == pytest.approx(-800.0 * counts.sum(), rel=1e-12)


def state_and_layout(likelihood, threads):
    """Blocks with large counts, cells whose products underflow, and rates of all sizes."""
    rng, cells = np.random.default_rng(3), 5 * BLOCK + 100
    coords = np.array([np.zeros(cells, dtype=int), np.arange(cells)])
    amounts = np.ones(cells, dtype=int) if likelihood == "bernoulli" else rng.choice([1, 2, 9, 255, 256, 10**6], cells)
    spec = Spec(20, (6, 20), likelihood=likelihood)
    state = first_state(spec, (1, cells), rng)
    state.log_phi[1][rng.random(cells) < 0.1] -= 300.0
    state.log_phi[1][rng.random(cells) < 0.2] += 8.0
    return spec, state, Layout.of_cells(coords, amounts, Missing.none((1, cells)), Workers(threads))


@pytest.mark.jit
@pytest.mark.parametrize("likelihood", ["negative-binomial", "bernoulli"])
@pytest.mark.parametrize("limit", [None, -1, 2000], ids=["own-tables", "all-in-common", "some-in-common"])
def test_latent_counts_do_not_depend_on_where_the_blocks_are_cut(monkeypatch, likelihood, limit):
    spec, state, layout = state_and_layout(likelihood, 1)
    key = Key.of(3, 0)
    alone = begin(key, layout, spec, state).allocation
    if limit is not None:
        monkeypatch.setattr(thinning, "COPIED_BYTES", limit)
    blocks = layout.blocks
    for cuts in ([0, 1, 2, 3, 4, 5, blocks], [0, 3, blocks], [0, 5, blocks], [0, 2, 4, blocks]):
        ranges = list(pairwise(cuts))
        monkeypatch.setattr(thinning, "thinning_ranges", lambda layout, budget, ranges=ranges: ranges)
        _, _, layout = state_and_layout(likelihood, len(ranges))
        together = begin(key, layout, spec, state).allocation
        assert together.y_RQ.tobytes() == alone.y_RQ.tobytes()
        assert together.log_fit == alone.log_fit


@pytest.mark.jit
def test_a_cell_keeps_its_latent_count_when_cells_of_another_block_change():
    """The random numbers of a block do not depend on what other blocks draw."""
    spec, state, layout = state_and_layout("bernoulli", 1)
    before = begin(Key.of(3, 0), layout, spec, state).allocation.y_RQ[1:]
    state.log_phi[1][: 2 * BLOCK] += 1.0
    after = begin(Key.of(3, 0), layout, spec, state).allocation.y_RQ[1:]
    assert (before[: 2 * BLOCK] != after[: 2 * BLOCK]).any()
    np.testing.assert_array_equal(before[2 * BLOCK :], after[2 * BLOCK :])


def test_ranges_cover_all_items_once():
    for threads in (1, 2, 3, 5):
        with Workers(threads) as workers:
            for items in (1, 2, 7, 100):
                covered = [i for first, last in workers.ranges(items, 2) for i in range(first, last)]
                assert covered == list(range(items))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_every_call_is_made_once_and_its_error_is_raised(threads, number):
    with Workers(threads) as workers:
        made = []
        workers.run([partial(made.append, i) for i in range(number)])
        assert sorted(made) == list(range(number))
        with pytest.raises(ZeroDivisionError):
            workers.run([*(partial(made.append, i) for i in range(number)), lambda: 1 / 0])


EVERY = [
    {**BURSTS, "dispersion_by": 0, "e0": "infer"},
    {**BURSTS, "infer_budget": True, "b0": 3.0},
    {**BINARY, "e0": "infer"},
    {"e0": "infer"},
    {},
]


@pytest.mark.jit
@parametrize_few("settings", EVERY, ids=str)
@parametrize_few("shape", [(4, 3, 2), (1, 5, 3), (4, 1, 3), (4, 5, 1), (1, 1, 6)], ids=str)
def test_a_sweep_changes_nothing_that_it_was_given(shape, settings):
    """Also where a mode has one row: its transpose is no copy. Many sweeps, so that classes split and merge."""
    rng, missing = np.random.default_rng(2), Missing([(0, 0, 0)], shape)
    Y = (rng.random(shape) < 0.6).astype(int) if settings.get("likelihood") == "bernoulli" else rng.poisson(2.0, shape)
    Y[0, 0, 0] = 0
    layout, spec = cases.layout_of(Y, missing), Spec(9, (4, 3, 3), f0=1.0, alpha0=4.0, **settings)
    state, key = first_state(spec, shape, rng), Key.of(1, 0)
    now, workspace, moved = begin(key, layout, spec, state), Workspace.of(layout, state), 0.0
    for number in range(1, 41):
        state, allocation = now
        given = [state.log_core_Q, state.subs_QM, *state.log_phi, state.concentrations_M, allocation.y_RQ]
        given += [] if state.dispersion is None else [state.dispersion.log_odds_D]
        copies = [array.copy() for array in given]
        after, info = sweep(key.at(number), layout, spec, now, workspace)
        for array, copy in zip(given, copies, strict=True):
            np.testing.assert_array_equal(array, copy)
        now, moved = after, moved + info.moved
        again = begin(key.at(number), layout, spec, now.state)
        assert again.allocation.y_RQ.tobytes() == now.allocation.y_RQ.tobytes()
    assert moved > 0


@pytest.mark.jit
@pytest.mark.parametrize("settings", EVERY, ids=str)
def test_the_workspace_follows_the_state_from_sweep_to_sweep(settings):
    case = cases.make(3, budget=8, seed=2, **settings)
    kept = Workspace.of(case.layout, case.state)
    mine = theirs = SamplerState(case.state, case.allocation)
    for number in range(1, 9):
        key = Key.of(1, 0).at(number)
        mine, _ = sweep(key, case.layout, case.spec, mine, kept)
        theirs, _ = sweep(key, case.layout, case.spec, theirs)
    assert [phi.tobytes() for phi in mine.state.log_phi] == [phi.tobytes() for phi in theirs.state.log_phi]
    anew = Workspace.of(case.layout, mine.state)
    assert kept.expanded.phi_RQ.tobytes() == anew.expanded.phi_RQ.tobytes()
    assert kept.expanded.sums_MQ.tobytes() == anew.expanded.sums_MQ.tobytes()
    assert (kept.scale is None) == (anew.scale is None) == (mine.state.dispersion is None)
    if anew.scale is not None:
        assert kept.scale.scale_D.tobytes() == anew.scale.scale_D.tobytes()


def test_a_sweep_is_a_function_of_its_key_and_state_alone():
    """Redoing the thinning at the key of the last sweep gives its allocation: this is what a resumed chain does."""
    spec, shape = Spec(4, (3, 2, 4)), (5, 4, 3)
    rng = np.random.default_rng(1)
    Y = rng.poisson(2.0, shape)
    with Workers(1) as workers:
        coords = np.array(np.nonzero(Y))
        layout = Layout.of_cells(coords, Y[tuple(coords)], Missing.none(shape), workers)
        key, state = Key.of(3, 0), first_state(spec, shape, rng)
        now = begin(key, layout, spec, state)
        for number in range(1, 4):
            now, _ = sweep(key.at(number), layout, spec, now)
        again = begin(key.at(3), layout, spec, now.state)
    assert again.allocation.y_RQ.tobytes() == now.allocation.y_RQ.tobytes()
    assert again.allocation.log_fit == now.allocation.log_fit


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("nnz", [1, 900, 30_000])
def test_thinning_visits_every_block_once_on_any_number_of_threads(threads, nnz):
    with Workers(threads) as workers:
        layout = Layout.of(tensor(nnz=nnz), workers)
        visited = [b for first, last in thinning_ranges(layout, 20) for b in range(first, last)]
    assert visited == list(range(layout.blocks))
