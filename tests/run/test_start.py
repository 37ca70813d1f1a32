"""Chains that begin at the states of another fit: matched by label, near the posterior, and kept with the run."""

import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import allocore as ac
from allocore.errors import NO_VALUE
from allocore.run.chains import start_states
from support.errors import refused, refused_file
from support.findings import warned
from support.same_draws import assert_same, assert_same_run
from support.tiers import parametrize_few

RNG = np.random.default_rng(8)
FACTORS = [RNG.gamma(0.4, 1.0, (length, 3)) for length in (8, 7, 6)]
LABELS = [[f"a{i}" for i in range(8)], [f"b{i}" for i in range(7)], [f"2018-0{i}" for i in range(1, 7)]]
Y = ac.as_tensor(RNG.poisson(9.0 * np.einsum("aq,bq,cq->abc", *FACTORS)), mode_names=["from", "to", "month"])
Y = Y.with_labels(LABELS)
OLD = Y.select(month=slice("2018-01", "2018-05"))
SETTINGS = {"burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 11, "progress": False}
BURSTS = {"likelihood": "negative-binomial", "dispersion_by": "month", "e0": "infer"}
MODELS = [
    ac.AlloCore(3, (3, 2, 3), likelihood="poisson"),
    ac.AlloCore(3, **BURSTS),
    ac.CP(3, likelihood="poisson"),
    ac.Tucker((2, 1, 2), likelihood="poisson"),
    ac.AlloCore("infer", max_budget=5, likelihood="poisson"),
]


KILLED_IN_ITS_FIRST_SWEEP = """
import os, signal
import allocore as ac
from allocore import AlloCore
from allocore.run import chains

chains.sweep = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
model = {model!r}.set_params(store="{folder}/run.zarr", threads=1)
model.fit(ac.load_tensor("{folder}/y.npz"), start=ac.open_run("{folder}/old.zarr"))
"""


def model_like(model, **settings):
    return type(model)(**{**model.get_params(), **SETTINGS, **settings})


@pytest.fixture(scope="module")
def earlier():
    return model_like(MODELS[1], burn_in=60).fit(OLD).posterior_


# The states


def test_a_chain_begins_at_the_last_draw_of_its_chain(earlier):
    states = start_states(earlier.record, OLD, earlier.record.spec, 3)
    for state, chain in zip(states, (0, 1, 0), strict=True):
        last = earlier.record.state_of(chain, 3)
        assert state.log_core_Q.tobytes() == last.log_core_Q.tobytes()
        assert state.subs_QM.tobytes() == last.subs_QM.tobytes()
        for mine, theirs in zip(state.log_phi, last.log_phi, strict=True):
            assert mine.tobytes() == theirs.tobytes()
        assert state.concentrations_M.tobytes() == last.concentrations_M.tobytes()
        assert state.dispersion.log_odds_D.tobytes() == last.dispersion.log_odds_D.tobytes()


def test_rows_are_matched_by_label_and_new_ones_begin_at_the_mean_of_the_others(earlier):
    later = Y.select({"from": ["a0", "a2", "a7"], "month": slice("2018-03", "2018-06")})
    state, last = start_states(earlier.record, later, earlier.record.spec, 1)[0], earlier.record.state_of(0, -1)
    np.testing.assert_array_equal(state.log_phi[0], last.log_phi[0][[0, 2, 7]])
    np.testing.assert_array_equal(state.log_phi[1], last.log_phi[1])
    np.testing.assert_array_equal(state.log_phi[2][:3], last.log_phi[2][2:])
    np.testing.assert_allclose(np.exp(state.log_phi[2][3]), np.exp(last.log_phi[2]).mean(axis=0))
    log_odds = last.dispersion.log_odds_D
    np.testing.assert_allclose(state.dispersion.log_odds_D, [*log_odds[2:], log_odds.mean()])


def test_labels_in_another_order_give_the_same_start(earlier):
    turned = [list(reversed(LABELS[0])), LABELS[1], LABELS[2][:5]]
    coords = OLD.coords.copy()
    coords[0] = 7 - coords[0]
    other = ac.CountTensor(coords, OLD.counts, OLD.shape, mode_names=OLD.mode_names, labels=turned)
    plain = start_states(earlier.record, OLD, earlier.record.spec, 1)[0]
    state = start_states(earlier.record, other, earlier.record.spec, 1)[0]
    np.testing.assert_array_equal(state.log_phi[0][::-1], plain.log_phi[0])
    np.testing.assert_array_equal(state.log_phi[1], plain.log_phi[1])


def test_rows_without_labels_go_by_position():
    bare = ac.CountTensor(OLD.coords, OLD.counts, OLD.shape)
    earlier = model_like(MODELS[2]).fit(bare).posterior_
    longer = ac.CountTensor(Y.coords, Y.counts, Y.shape)
    state, last = start_states(earlier.record, longer, earlier.record.spec, 1)[0], earlier.record.state_of(0, -1)
    np.testing.assert_array_equal(state.log_phi[2][:5], last.log_phi[2])


def test_concentrations_that_were_given_are_where_learned_ones_begin():
    earlier = model_like(ac.CP(3, e0=(0.5, 1.0, 2.0), likelihood="poisson")).fit(OLD).posterior_
    learning = model_like(ac.CP(3, e0="infer", likelihood="poisson"))
    state = start_states(earlier.record, Y, learning._spec(Y), 1)[0]
    assert state.concentrations_M.tolist() == [0.5, 1.0, 2.0]
    learning.fit(Y, start=earlier)


# The runs


@parametrize_few("model", MODELS, ids=range(len(MODELS)))
def test_a_refit_begins_near_the_posterior(model):
    earlier = model_like(model, burn_in=80).fit(OLD).posterior_
    settled = earlier.stats["log_likelihood"][:, 40:]
    again = model_like(model, burn_in=0, seed=5).fit(OLD, start=earlier).posterior_
    away = again.stats["log_likelihood"][:, 0] - settled.mean(axis=1)
    assert (np.abs(away) < 6.0 * settled.std(axis=1)).all()

    refit = model_like(model, burn_in=0).fit(Y, start=earlier).posterior_
    afresh = model_like(model, burn_in=0).fit(Y).posterior_
    assert refit.tensor == Y
    assert refit.stats["log_likelihood"][:, 0].mean() > afresh.stats["log_likelihood"][:, 0].mean() + 20.0


def test_a_refit_has_the_same_bytes_on_any_thread_and_in_a_store(earlier, tmp_path):
    model = MODELS[1]
    one = model_like(model, threads=1).fit(Y, start=earlier).posterior_
    assert_same(one, model_like(model, threads=2).fit(Y, start=earlier).posterior_)
    stored = model_like(model, threads=2, store=tmp_path / "run.zarr").fit(Y, start=earlier).posterior_
    assert_same(one, stored)
    assert not np.array_equal(one.core_values, model_like(model).fit(Y).posterior_.core_values)


@pytest.mark.slow
def test_a_refit_killed_before_its_first_checkpoint_resumes_to_the_same_bytes(earlier, tmp_path):
    path, model = tmp_path / "run.zarr", MODELS[1]
    whole = model_like(model).fit(Y, start=earlier).posterior_
    earlier.save(tmp_path / "old.zarr")
    Y.save(tmp_path / "y.npz")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_IN_ITS_FIRST_SWEEP.format(folder=tmp_path, model=model_like(model))]
    )
    assert killed.returncode == -signal.SIGKILL
    shutil.rmtree(tmp_path / "old.zarr")
    assert_same(ac.AlloCore.resume(path, threads=1, progress=False).posterior_, whole)
    assert_same_run(path, whole)


def test_a_refit_whose_newer_checkpoints_are_damaged_begins_again_at_its_start(earlier, tmp_path):
    path, model = tmp_path / "run.zarr", MODELS[1]
    whole = model_like(model, draws=6).fit(Y, start=earlier).posterior_
    model_like(model, store=path).fit(Y, start=earlier)
    ac.AlloCore.resume(path, draws=5, progress=False)
    for chain in "01":
        first, *newer = sorted((path / "checkpoints" / chain).glob("*.npz"))
        assert first.name == "000000000.npz"
        assert len(newer) == 2
        for file in newer:
            file.write_bytes(b"damaged")
    with warned("checkpoint-damaged", sweep=0):
        longer = ac.AlloCore.resume(path, draws=6, progress=False).posterior_
    assert_same(longer, whole)


def test_a_refit_that_has_lost_its_start_is_not_continued_from_another(earlier, tmp_path):
    path = tmp_path / "run.zarr"
    model_like(MODELS[1], store=path).fit(Y, start=earlier)
    shutil.rmtree(path / "checkpoints" / "1")
    with refused_file(path / "checkpoints" / "1", "not even the state of another run"):
        ac.AlloCore.resume(path, draws=5, progress=False)
    assert ac.open_run(path).core_values.shape == (2, 4, 3)


def test_a_run_that_begins_as_usual_keeps_nothing_of_a_start(tmp_path):
    model_like(MODELS[0], store=tmp_path / "run.zarr").fit(Y)
    names = sorted(path.name for path in (tmp_path / "run.zarr" / "checkpoints" / "0").iterdir())
    assert "000000000.npz" not in names
    assert "started" not in ac.open_run(tmp_path / "run.zarr").to_datatree().attrs["settings"]


# Mistakes


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (ac.AlloCore(4, **BURSTS), "budget 3, not 4"),
        (ac.AlloCore(3, (3, 3, 2), **BURSTS), "core_shape (3, 3, 3), not (3, 3, 2)"),
        (
            ac.AlloCore(3, likelihood="poisson"),
            "likelihood 'negative-binomial', not 'poisson'",
        ),
        (ac.AlloCore(3, **{**BURSTS, "dispersion_by": "to"}), "dispersion_by 2, not "),
        (
            ac.AlloCore("infer", max_budget=3, **BURSTS),
            "budget 3, not 'infer'",
        ),
        (ac.CP(3, **BURSTS), "model 'AlloCore', not 'CP'"),
    ],
)
def test_a_start_of_another_model_is_an_error(earlier, model, rule):
    with refused("start", NO_VALUE, rule):
        model_like(model).fit(Y, start=earlier)


def test_a_start_that_is_no_posterior_or_of_other_data_is_an_error(earlier):
    model = model_like(MODELS[1])
    with refused("start", rule="must be a posterior"):
        model.fit(Y, start="run.zarr")
    with refused("Y"):
        model.fit(Y.with_labels(mode_names=["from", "month", "to"]), start=earlier)
    other = Y.with_labels([[f"z{i}" for i in range(length)] for length in Y.shape])
    with refused("start", NO_VALUE, "no label in common with `Y`"):
        model.fit(other, start=earlier)
    with pytest.raises(TypeError):
        model.fit(Y, None, earlier)


# Random numbers


def test_a_refit_with_the_seed_of_the_fit_has_random_numbers_of_its_own():
    """With those of the fit, the two chains would soon be the same but for the count that changed."""
    cp = ac.CP(1, burn_in=0, draws=60, thin=1, seed=0, progress=False, chains=1, likelihood="poisson")
    old = cp.fit(Y).posterior_
    changed = Y.coords, Y.counts + (np.arange(Y.nnz) == 0)
    again = ac.CountTensor(*changed, Y.shape, mode_names=Y.mode_names, labels=Y.labels)
    refit = (
        ac.CP(1, burn_in=0, draws=60, thin=1, seed=0, progress=False, chains=1, likelihood="poisson")
        .fit(again, start=old)
        .posterior_
    )
    both = [each.factors[0][0, 20:, 0, each.core_locations[0, 0, 0, 0]] for each in (old, refit)]
    assert abs(np.corrcoef(both)[0, 1]) < 0.6, "1.00 with the same random numbers; 0.6 is 4 standard errors"
