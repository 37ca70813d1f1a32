"""The same seed gives the same bytes: on any number of threads, in any company, again and again."""

from functools import partial

import numpy as np
import pytest

import allocore as ac
from allocore.gibbs import thinning
from allocore.gibbs.layout import Layout, Workspace
from allocore.gibbs.sweep import SamplerState, begin, sweep
from allocore.gibbs.thinning import thinning_ranges
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.model.state import State
from allocore.tensor.missing import Missing
from support import cases


def tensor(shape=(70, 60, 9), nnz=3000, seed=0):
    """Large enough that every step cuts its work into several ranges; counts from 1 to some hundreds."""
    rng = np.random.default_rng(seed)
    coords = np.array([rng.integers(0, length, nnz) for length in shape])
    counts = 1 + rng.poisson(np.where(rng.random(nnz) < 0.02, 300.0, 1.0))
    return ac.CountTensor(coords, counts, shape)


def fitted(Y, threads, **settings):
    options = {"burn_in": 5, "draws": 3, "thin": 2, "seed": 7, "progress": False, **settings}
    return ac.AlloCore(20, (6, 20, 5), threads=threads, **options).fit(Y).posterior_


def as_bytes(post):
    arrays = [post.core_values, post.core_locations, *post.factors]
    arrays += [post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved")]
    return [array.tobytes() for array in arrays]


@pytest.mark.jit
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_draws_are_byte_identical_on_any_number_of_threads(threads):
    Y = ac.hold_out(tensor(), 0.05).train.with_missing([(0, None, None), (None, 3, 1)])
    assert as_bytes(fitted(Y, threads)) == as_bytes(fitted(Y, 1))


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


@pytest.mark.jit
def test_the_same_seed_gives_the_same_bytes_again_and_another_seed_does_not():
    Y = tensor()
    assert as_bytes(fitted(Y, 2)) == as_bytes(fitted(Y, 2))
    assert as_bytes(fitted(Y, 2)) != as_bytes(fitted(Y, 2, seed=8))


def test_a_sweep_changes_nothing_that_it_was_given():
    case = cases.make(3, budget=4, seed=2)
    before = [case.state.log_core_Q, case.state.subs_QM, *case.state.log_phi, case.allocation.y_RQ]
    copies = [array.copy() for array in before]
    sweep(Key.of(1, 0).at(1), case.layout, case.spec, SamplerState(case.state, case.allocation))
    assert all((array == copy).all() for array, copy in zip(before, copies, strict=True))


def test_the_workspace_follows_the_state_from_sweep_to_sweep():
    """A chain that keeps its workspace draws the same bytes as one that makes it anew, and it is that of the state."""
    case = cases.make(3, budget=5, seed=2)
    kept = Workspace.of(case.layout, case.state)
    mine = theirs = SamplerState(case.state, case.allocation)
    for number in range(1, 4):
        key = Key.of(1, 0).at(number)
        mine, _ = sweep(key, case.layout, case.spec, mine, kept)
        theirs, _ = sweep(key, case.layout, case.spec, theirs)
    assert [phi.tobytes() for phi in mine.state.log_phi] == [phi.tobytes() for phi in theirs.state.log_phi]
    anew = Workspace.of(case.layout, mine.state)
    assert kept.expanded.phi_RQ.tobytes() == anew.expanded.phi_RQ.tobytes()
    assert kept.expanded.sums_MQ.tobytes() == anew.expanded.sums_MQ.tobytes()


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
