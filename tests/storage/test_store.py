"""What every store promises: it copies, it keeps what it was given, it says where a chain can go on."""

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from allocore.model.spec import Spec
from allocore.model.state import State, SweepInfo
from allocore.run.chains import run_chains
from allocore.storage import run_writer, zarr_format
from allocore.storage.record import MemoryStore, Plan, Schedule
from allocore.storage.run_reader import stored_tree
from allocore.storage.run_writer import ZarrStore
from allocore.storage.zarr_format import FLOAT, WHOLE, Growing
from support.errors import refused_file
from support.findings import warned
from support.same_draws import save_always

LABELS = [["Ada", "Zoë", "Bo", "日"], None, ["2001", "2002"]]
TENSOR = ac.CountTensor(
    *np.unique(np.random.default_rng(5).integers(0, [[4], [3], [2]], (3, 60)), axis=1, return_counts=True),
    (4, 3, 2),
    mode_names=["who", "what/where", "when"],
    labels=LABELS,
    missing=[(0, None, 1)],
)
SPEC = Spec(3, (3, 2, 4), f0=1.0, alpha0=3.0)
SCHEDULE = Schedule(2, 4, 3)
PLAN = Plan(TENSOR, SPEC, SCHEDULE, 2, 7)


@pytest.fixture(params=["memory", "zarr"])
def make(request, tmp_path):
    """A store of either kind for a plan."""

    def make(plan=PLAN):
        return MemoryStore(plan) if request.param == "memory" else ZarrStore.create(tmp_path / "run.zarr", plan)

    return make


def state_of(rng, plan=PLAN):
    modes = list(zip(plan.tensor.shape, plan.spec.core_shape, strict=True))
    subs_QM = np.stack([rng.integers(0, width, plan.spec.budget) for _, width in modes], axis=1)
    log_phi = [np.full(size, -np.inf) for size in modes]
    for mode, log_phi_DK in enumerate(log_phi):
        used = np.unique(subs_QM[:, mode])
        log_phi_DK[:, used] = rng.normal(size=(len(log_phi_DK), len(used)))
    return State(rng.normal(size=plan.spec.budget), subs_QM, tuple(log_phi))


def info_of(rng):
    return SweepInfo(rng.normal(), int(rng.integers(1, 4)), tuple(rng.integers(1, 4, 3).tolist()), rng.random())


def feed(store, chain, sweeps, rng, saving=()):
    """Sweeps and draws as a chain gives them; returns what was given."""
    infos, states = [], []
    for number in sweeps:
        infos.append(info_of(rng))
        state = state_of(rng, store.plan)
        store.record_sweep(chain, number, infos[-1], number / 10)
        draw = store.plan.schedule.draw_of(number)
        if draw is not None:
            store.record_draw(chain, draw, state)
            states.append(state)
        if number in saving or not saving:
            store.save(chain, number, state, now=True)
    return infos, states


def draws_of(record):
    return [record.core_values, record.core_locations, *record.factors]


def assert_same(arrays, others):
    assert [(array.dtype.str, array.tobytes()) for array in arrays] == [
        (other.dtype.str, other.tobytes()) for other in others
    ]


# The contract


def test_a_store_hands_over_what_it_was_given(make):
    rng = np.random.default_rng(0)
    with make() as store:
        given = [feed(store, chain, range(1, SCHEDULE.sweeps + 1), rng) for chain in range(2)]
        record = store.finish()
    assert record.core_values.shape == (2, 4, 3)
    for chain, (infos, states) in enumerate(given):
        for draw, state in enumerate(states):
            assert_same(
                [array[chain, draw] for array in draws_of(record)],
                [state.core_values(), state.subs_QM, *(state.factors(m) for m in range(3))],
            )
        for name in ("log_likelihood", "classes", "factors", "moved"):
            np.testing.assert_array_equal(record.stats[name][chain], [getattr(info, name) for info in infos])
        np.testing.assert_array_equal(record.stats["seconds"][chain], np.arange(1, 15) / 10)
    assert (record.tensor, record.spec, record.schedule, record.seed) == (TENSOR, SPEC, SCHEDULE, 7)


def test_a_store_copies_the_draws_it_is_given(make):
    rng = np.random.default_rng(1)
    plan = Plan(TENSOR, SPEC, Schedule(0, 1, 1), 1, 0)
    with make(plan) as store:
        state = state_of(rng)
        expected = [state.core_values(), state.subs_QM.copy(), *(state.factors(m) for m in range(3))]
        store.record_sweep(0, 1, info_of(rng), 0.1)
        store.record_draw(0, 0, state)
        for array in (state.log_core_Q, state.subs_QM, *state.log_phi):
            array[:] = 0
        store.save(0, 1, state, now=True)
        assert_same([array[0, 0] for array in draws_of(store.finish())], expected)


def test_what_all_chains_have_is_what_is_handed_over(make):
    rng = np.random.default_rng(2)
    with make() as store:
        feed(store, 0, range(1, 13), rng)
        _, states = feed(store, 1, range(1, 8), rng)
        record = store.finish()
    assert record.core_values.shape[:2] == (2, len(states)) == (2, 1)
    assert record.stats["moved"].shape == (2, 7)


def test_nothing_is_handed_over_before_every_chain_has_begun(make):
    with make() as store:
        feed(store, 0, range(1, 13), np.random.default_rng(3))
        record = store.finish()
    assert [array.shape[:2] for array in draws_of(record)] == [(2, 0)] * 5
    assert {values.shape[:2] for values in record.stats.values()} == {(2, 0)}


def test_a_chain_goes_on_from_the_state_that_was_saved_last(make):
    rng = np.random.default_rng(4)
    with make() as store:
        assert [store.resume_point(chain) for chain in range(2)] == [None, None]
        feed(store, 1, range(1, 9), rng)
        feed(store, 1, [9], rng, saving=[0])
        state = state_of(rng)
        store.save(1, 9, state, now=True)
        again = store if isinstance(store, MemoryStore) else None
    with again or ZarrStore.reopen(store.path) as again:
        assert again.resume_point(0) is None
        sweep, found = again.resume_point(1)
    assert sweep == 9
    assert_same([found.log_core_Q, found.subs_QM, *found.log_phi], [state.log_core_Q, state.subs_QM, *state.log_phi])


def test_no_array_that_is_handed_over_can_be_written_to(make):
    with make() as store:
        for chain in range(2):
            feed(store, chain, range(1, 10), np.random.default_rng(5))
        record = store.finish()
    for array in (*draws_of(record), *record.stats.values()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_gives_the_same_bytes_whatever_the_store(make, threads):
    expected = run_chains(MemoryStore(PLAN), threads=1)
    record = run_chains(make(), threads=threads)
    assert_same(draws_of(record), draws_of(expected))
    for name in ("log_likelihood", "classes", "factors", "moved"):
        assert_same([record.stats[name]], [expected.stats[name]])


# On disk


@pytest.fixture
def always_saving(monkeypatch):
    save_always(monkeypatch)


def test_a_run_that_still_goes_on_is_opened_by_xarray_and_by_open_run_without_a_warning(tmp_path):
    """After every save, all draws so far are there; what comes later is not."""
    path, rng, schedule = tmp_path / "run.zarr", np.random.default_rng(6), Schedule(1, 2, 1)
    expected = []
    with ZarrStore.create(path, replace(PLAN, schedule=schedule)) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        for sweep in range(1, schedule.sweeps + 1):
            for chain in range(2):
                _, states = feed(store, chain, [sweep], rng)
                expected += [state.core_values() for state in states]
                seen = schedule.draws_after(sweep - (chain == 0))
                with xr.open_datatree(path, engine="zarr") as tree:
                    assert set(tree.children) == {
                        *("posterior", "sample_stats", "sweep_stats", "observed_data", "constant_data")
                    }
                    tree.load()
                values = np.reshape(expected[: 2 * seen], (seen, 2, 3)).swapaxes(0, 1)
                np.testing.assert_array_equal(tree["posterior"]["core_values"], values)
                assert tree["posterior"]["draw"].values.tolist() == list(range(seen))
                assert tree["sweep_stats"]["sweep"].values.tolist() == list(range(1, sweep + (chain == 1)))
                assert tree["posterior"]["who"].values.tolist() == LABELS[0]
                assert tree["posterior"]["when"].values.tolist() == LABELS[2]
                post = ac.open_run(path)
                assert post.core_values.shape == (2, seen, 3)
                assert post.tensor == TENSOR
                xr.testing.assert_identical(
                    stored_tree(post.record)["posterior"].to_dataset(), tree["posterior"].to_dataset()
                )
                assert post.finished == (sweep == schedule.sweeps and chain == 1)


def test_a_run_on_disk_has_the_tree_of_the_same_run_in_memory(tmp_path):
    settings = {"burn_in": 2, "draws": 3, "thin": 2, "chains": 2, "seed": 3, "progress": False}
    stored = ac.AlloCore(3, (3, 2, 4), store=tmp_path / "run.zarr", **settings).fit(TENSOR).posterior_
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        tree.load()
    memory = stored_tree(ac.AlloCore(3, (3, 2, 4), **settings).fit(TENSOR).posterior_.record)
    assert tree.attrs == memory.attrs == stored.to_datatree().attrs
    for group in tree.children:
        mine, theirs = (each[group].to_dataset().drop_vars("seconds", errors="ignore") for each in (tree, memory))
        xr.testing.assert_identical(mine, theirs)
        assert {name: each.dtype for name, each in mine.variables.items()} == {
            name: each.dtype for name, each in theirs.variables.items()
        }


def test_readers_that_ignore_consolidated_metadata_see_the_whole_of_a_finished_run(tmp_path):
    ac.CP(2, burn_in=0, draws=3, thin=1, seed=1, store=tmp_path / "run.zarr", progress=False, chains=1).fit(TENSOR)
    with pytest.warns(match="not recognized as a component of a Zarr hierarchy"):
        tree = xr.open_datatree(tmp_path / "run.zarr", engine="zarr", consolidated=False)
    assert tree["posterior"]["core_values"].shape == (1, 3, 2)
    assert not np.isnan(tree["posterior"]["core_values"]).any()
    tree.close()


def test_factors_that_no_class_uses_take_next_to_no_space(tmp_path):
    sizes = {}
    for used in (1, 40):
        plan = Plan(ac.as_tensor(np.ones((500, 2), dtype=int)), Spec(40, (40, 40)), Schedule(0, 1, 1), 1, 0)
        rng, log_phi = np.random.default_rng(0), [np.full((length, 40), -np.inf) for length in (500, 2)]
        for each in log_phi:
            each[:, :used] = rng.normal(size=(len(each), used))
        state = State(rng.normal(size=40), np.arange(40)[:, None] % used * [1, 1], tuple(log_phi))
        path = tmp_path / f"{used}.zarr"
        with ZarrStore.create(path, plan) as store:
            store.record_sweep(0, 1, SweepInfo(0.0, 1, (1, 1), 0.0), 0.1)
            store.record_draw(0, 0, state)
            store.save(0, 1, state, now=True)
        files = [*(path / "posterior" / "factors_mode_0").glob("0.*"), *(path / "checkpoints").rglob("*.npz")]
        assert len(files) == 2
        sizes[used] = [file.stat().st_size for file in files]
    assert all(few < many / 10 for few, many in zip(sizes[1], sizes[40], strict=True)), sizes


def test_the_numbers_of_draws_and_sweeps_go_on_from_one_chunk_to_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(run_writer, "_NUMBERS_IN_CHUNK", 4)
    ac.CP(2, burn_in=3, draws=9, thin=1, seed=1, store=tmp_path / "run.zarr", progress=False, chains=1).fit(TENSOR)
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        assert tree["posterior"]["draw"].values.tolist() == tree["sample_stats"]["draw"].values.tolist() == [*range(9)]
        assert tree["sweep_stats"]["sweep"].values.tolist() == [*range(1, 13)]


def test_going_on_from_an_older_checkpoint_takes_no_draw_from_readers(tmp_path, always_saving):
    path = tmp_path / "run.zarr"
    ac.CP(2, burn_in=0, draws=5, thin=1, seed=1, store=path, progress=False, chains=1).fit(TENSOR)
    (path / "checkpoints" / "0" / "000000005.npz").write_bytes(b"")
    with warned("checkpoint-damaged", sweep=4):
        store = ZarrStore.reopen(path)
    with store:
        assert store.resume_point(0)[0] == 4
        assert ac.open_run(path).core_values.shape[1] == 5


def test_only_the_two_newest_checkpoints_are_kept(tmp_path, always_saving):
    path = tmp_path / "run.zarr"
    ac.CP(2, burn_in=0, draws=5, thin=1, seed=1, store=path, progress=False, chains=1).fit(TENSOR)
    assert sorted(os.listdir(path / "checkpoints" / "0")) == ["000000004.npz", "000000005.npz"]


def test_saves_are_so_far_apart_that_they_cost_little(tmp_path, monkeypatch):
    now, saves = 0.0, []

    def write_checkpoint(folder, sweep, state):
        nonlocal now
        saves.append(sweep)
        now += 1.0

    monkeypatch.setattr(run_writer, "monotonic", lambda: now)
    monkeypatch.setattr(run_writer, "write_checkpoint", write_checkpoint)
    with ZarrStore.create(tmp_path / "run.zarr", Plan(TENSOR, SPEC, Schedule(200, 1, 1), 1, 0)) as store:
        state = state_of(np.random.default_rng(0))
        for sweep in range(1, 201):
            now += 1.0
            store.save(0, sweep, state, now=False)
    assert saves == [5, 55, 105, 155]


@pytest.mark.parametrize("name", ["1 läuft.zarr", "run"])
def test_a_run_may_have_any_name(tmp_path, name):
    ac.CP(2, burn_in=0, draws=2, thin=1, seed=1, store=str(tmp_path / name), progress=False, chains=1).fit(TENSOR)
    assert os.listdir(tmp_path) == [name]
    assert ac.open_run(tmp_path / name).core_values.shape == (1, 2, 2)


def test_a_run_of_memory_that_is_saved_opens_to_the_same_posterior(tmp_path):
    post = ac.AlloCore(3, burn_in=1, draws=3, thin=2, chains=2, seed=1, progress=False).fit(TENSOR).posterior_
    post.save(tmp_path / "run.zarr")
    again = ac.open_run(tmp_path / "run.zarr")
    assert_same(draws_of(again._record), draws_of(post._record))
    assert_same(again.stats.values(), post.stats.values())
    with refused_file(tmp_path / "run.zarr", "was saved from memory"):
        ac.AlloCore.resume(tmp_path / "run.zarr")


# Chunks


@pytest.mark.parametrize("shape", [(), (3,), (7, 2), (1, 1)])
@pytest.mark.parametrize("dtype", [FLOAT, WHOLE])
@pytest.mark.parametrize(("least", "most"), [(1, 8), (1, 40), (64, 2**20), (10**6, 10**6)])
def test_values_come_back_however_they_are_cut_into_chunks(tmp_path, monkeypatch, shape, dtype, least, most):
    monkeypatch.setattr(zarr_format, "_CHUNK_BYTES", least)
    monkeypatch.setattr(zarr_format, "_MAX_CHUNK_BYTES", most)
    variable = Growing("posterior", "x", "draw", ("a", "b")[: len(shape)], shape, dtype)
    (tmp_path / "posterior" / "x").mkdir(parents=True)
    values = np.random.default_rng(0).integers(0, 99, (11, *shape)).astype(dtype)

    def fail(path, places, error):
        raise error

    for size in range(11):
        writer = zarr_format.GrowingChunks(tmp_path, 0, variable)
        writer.resume(size, fail)
        for place in range(max(0, size - 2), size + 1):  # the chain may be a little behind what is on the disk
            writer.put(place, values[place])
        writer.flush()
        read = zarr_format.read_values(tmp_path, variable, 0, 0, size + 1, fail)
        assert_same([read], [values[: size + 1]])
