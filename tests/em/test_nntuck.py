"""The estimator: the surface of the other models, the best of its restarts, the same bytes on any number of threads."""

import signal

import numpy as np
import pytest

import allocore as ac
from allocore.em import nntuck as restarts_module
from allocore.errors import InputError
from allocore.model.state import SweepInfo
from allocore.progress import RestartBar, Row, TerminalBars, restart_bar
from allocore.report.terminal import progress_line, settings_line
from support import cases, dense_em
from support.errors import refused
from support.findings import warned

QUICK = {"restarts": 3, "max_iter": 20, "seed": 1, "threads": 1, "progress": False}
SMALL = np.random.default_rng(4).poisson(1.0, (4, 3, 2))


def nntuck(core_shape=(2, 2, 2), **settings):
    return ac.NNTuck(core_shape, **{**QUICK, **settings})


def as_bytes(model):
    post = model.posterior_
    arrays = [post.core_values, post.core_locations, *post.factors]
    arrays += [post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved")]
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("modes", [2, 3, 4, 5, 6])
def test_tensors_of_any_number_of_modes_are_fitted(modes):
    core_shape = (2, 3, 1, 2, 1, 1)[:modes]
    Y = ac.as_tensor(np.random.default_rng(modes).poisson(1.0, cases.SHAPES[modes])).with_missing(cases.PATTERNS[modes])
    model = nntuck(core_shape).fit(Y)
    post = model.posterior_
    budget = int(np.prod(core_shape))
    assert post.core_values.shape == (1, 1, budget)
    assert (post.core_locations[0, 0] == np.array(list(np.ndindex(*core_shape)))).all()
    assert [factor.shape for factor in post.factors] == [
        (1, 1, length, width) for length, width in zip(Y.shape, core_shape, strict=True)
    ]
    for array in (post.core_values, *post.factors):
        assert np.isfinite(array).all()
        assert (array >= 0.0).all()


def test_the_posterior_is_the_estimate_of_the_best_restart():
    model = nntuck((2, 3, 2), restarts=6).fit(SMALL)
    post, table = model.posterior_, model.restarts_
    assert list(table.columns) == ["restart", "log_likelihood", "iterations", "converged", "seconds"]
    assert table["restart"].tolist() == list(range(6))
    assert table["log_likelihood"].nunique() > 1
    assert model.log_likelihood_ == table["log_likelihood"].max() == post.stats["log_likelihood"][0, -1]
    assert model.n_iter_ == table["iterations"][table["log_likelihood"].idxmax()] == post.stats["seconds"].shape[1]
    core, phi = post.core_values.reshape(2, 3, 2), [factor[0, 0] for factor in post.factors]
    exact = dense_em.log_likelihood(SMALL, np.ones(SMALL.shape, dtype=bool), core, phi)
    assert exact == pytest.approx(model.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(
        post.expected(np.indices(SMALL.shape).reshape(3, -1)), dense_em.rates(core, phi).ravel(), rtol=1e-12
    )


def test_more_restarts_begin_like_fewer_and_are_never_worse():
    few, more = nntuck(restarts=2).fit(SMALL), nntuck(restarts=5).fit(SMALL)
    assert more.restarts_["log_likelihood"][:2].tolist() == few.restarts_["log_likelihood"].tolist()
    assert more.log_likelihood_ >= few.log_likelihood_


def test_the_trace_of_the_best_restart_never_falls():
    trace = nntuck(max_iter=200, tol=1e-12).fit(SMALL).posterior_.stats["log_likelihood"][0]
    assert np.diff(trace).min() > -1e-10 * np.abs(trace).max()


def test_a_restart_ends_when_the_change_is_below_the_tolerance_or_after_the_most_iterations():
    loose, tight = (nntuck(max_iter=300, tol=tol, restarts=1).fit(SMALL) for tol in (1e-2, 1e-5))
    for model, tol in ((loose, 1e-2), (tight, 1e-5)):
        trace = model.posterior_.stats["log_likelihood"][0]
        change = np.abs(np.diff(trace) / trace[1:])
        assert model.restarts_["converged"].all()
        assert change[-1] < tol
        assert (change[:-1] >= tol).all()
    assert loose.n_iter_ < tight.n_iter_ < 300
    short = nntuck(max_iter=3, tol=1e-15).fit(SMALL)
    assert not short.restarts_["converged"].any()
    assert (short.restarts_["iterations"] == 3).all()


@pytest.mark.jit
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    Y = ac.as_tensor(rng.poisson(0.4, (40, 40, 10, 4))).mask_diagonal((0, 1))
    fits = [tuple(as_bytes(nntuck((3, 3, 2, 2), threads=threads, restarts=2).fit(Y))) for threads in (1, 2, 3, 7)]
    assert len(set(fits)) == 1
    assert tuple(as_bytes(nntuck((3, 3, 2, 2), seed=2, restarts=2).fit(Y))) != fits[0]


def test_what_lies_in_missing_cells_does_not_matter():
    other = SMALL.copy()
    patterns = cases.PATTERNS[3]
    for pattern in patterns:
        other[tuple(slice(None) if row is None else row for row in pattern)] += 7
    one, two = (nntuck().fit(ac.as_tensor(Y).with_missing(patterns)) for Y in (SMALL, other))
    assert as_bytes(one) == as_bytes(two)
    assert as_bytes(one) != as_bytes(nntuck().fit(SMALL))


@pytest.mark.slow
@pytest.mark.jit
def test_planted_structure_is_found_again():
    rng = np.random.default_rng(5)
    core = np.array([[[900.0, 0.0], [0.0, 0.0]], [[0.0, 700.0], [500.0, 0.0]]]) * 3
    phi = [rng.dirichlet(np.full(length, 0.3), 2).T for length in (12, 10, 8)]
    truth = dense_em.rates(core, phi)
    split = ac.hold_out(ac.as_tensor(rng.poisson(truth)), 0.1, along=2, seed=0)
    model = ac.NNTuck((2, 2, 2), restarts=10, seed=0, threads=1).fit(split.train)
    rate = model.posterior_.expected(np.indices(truth.shape).reshape(3, -1)).reshape(truth.shape)
    assert np.abs(rate - truth).sum() < 0.1 * truth.sum()
    assert model.posterior_.ppd(split.test) > nntuck((1, 1, 1)).fit(split.train).posterior_.ppd(split.test)


# The surface of the other models


def test_tables_predictions_and_reports_work_as_for_the_other_models(tmp_path):
    split = ac.hold_out(ac.as_tensor(SMALL + 1), 0.2, seed=0)
    post = nntuck().fit(split.train).posterior_
    assert repr(post) == "Posterior: 1 chain of 1 draw, 8 classes, core 2 x 2 x 2"
    assert post.finished
    assert 0.0 < post.ppd(split.test) < 1.0
    assert post.classes()["value"].sum() == pytest.approx(split.train.total, rel=1e-9)
    assert len(post.surprises(top=3)) == 3
    assert "1 draw" in post._repr_html_()
    assert not post.diagnose().ok
    assert post.diagnose().table.dtypes.eq(float).all(), "an empty table is one of numbers too"
    assert settings_line(post.record).startswith("NNTuck: 8 classes, core 2 x 2 x 2; ")
    assert progress_line(post.record).endswith(" iterations; the best of its restarts.")
    ac.write_report(post, tmp_path / "report.html")
    assert "NNTuck" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_estimate_is_saved_and_opened_but_not_resumed(tmp_path):
    model = nntuck().fit(SMALL)
    model.posterior_.save(tmp_path / "run.zarr")
    opened = ac.open_run(tmp_path / "run.zarr")
    assert opened.record.spec.model == "NNTuck"
    assert opened.record.spec == model.posterior_.record.spec
    for one, two in zip(opened.factors, model.posterior_.factors, strict=True):
        assert one.tobytes() == two.tobytes()
    with refused("path"):
        ac.Tucker.resume(tmp_path / "run.zarr")


def test_settings_are_read_and_changed_by_name():
    model = ac.NNTuck((2, 2, 2))
    assert model.get_params() == {
        "core_shape": (2, 2, 2),
        "restarts": 20,
        "max_iter": 1000,
        "tol": 1e-7,
        "seed": None,
        "threads": None,
        "progress": True,
    }
    assert model.set_params(restarts=3) is model
    assert repr(model) == "NNTuck(core_shape=(2, 2, 2), restarts=3)"
    with refused("params", "budget"):
        model.set_params(budget=3)


@pytest.mark.parametrize("name", ["posterior_", "log_likelihood_", "restarts_", "n_iter_"])
def test_what_a_fit_finds_is_not_there_before(name):
    with pytest.raises(AttributeError, match=f"^this NNTuck has no {name} yet: call fit first$"):
        getattr(nntuck(), name)


def test_a_fit_that_fails_leaves_nothing_of_the_one_before():
    model = nntuck().fit(SMALL)
    with pytest.raises(InputError):
        model.set_params(restarts=0).fit(SMALL)
    assert not any(hasattr(model, name) for name in ("posterior_", "log_likelihood_", "restarts_", "n_iter_"))


def test_without_a_seed_two_fits_differ():
    one, two = (nntuck(seed=None).fit(SMALL) for _ in range(2))
    assert one.posterior_.seed != two.posterior_.seed
    assert as_bytes(one) != as_bytes(two)
    assert as_bytes(nntuck(seed=one.posterior_.seed).fit(SMALL)) == as_bytes(one)


# Bad input


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core_shape", None),
        ("core_shape", (2, 2)),
        ("core_shape", (2, 0, 2)),
        ("core_shape", 4),
        ("core_shape", (200, 200, 200)),
        ("restarts", 0),
        ("restarts", 1.5),
        ("max_iter", 0),
        ("tol", 0.0),
        ("tol", -1e-6),
        ("tol", float("nan")),
        ("tol", float("inf")),
        ("tol", "small"),
        ("seed", -1),
        ("threads", 0),
    ],
)
def test_settings_that_break_a_rule_are_named(name, value):
    with pytest.raises(InputError) as caught:
        nntuck(**{name: value}).fit(SMALL)
    assert str(caught.value).startswith(name)
    assert str(value) in str(caught.value)


def test_a_core_wider_than_the_data_is_fitted_as_by_tucker():
    post = nntuck((6, 5, 4)).fit(SMALL).posterior_
    assert post.core_values.shape == (1, 1, 120)


def test_the_sampler_cannot_do_without_priors():
    with refused("b0", 0, rule="must be positive"):
        ac.Tucker((2, 2, 2), b0=0, f0=0).fit(SMALL)


@pytest.mark.parametrize("count", [1, 10**9])
def test_one_non_zero_is_enough(count):
    model = nntuck((2, 1, 2)).fit(ac.CountTensor([[2], [0], [1]], [count], (3, 2, 2)))
    assert model.posterior_.expected([[2], [0], [1]]) == pytest.approx([count])
    assert model.posterior_.expected([[0], [0], [1]]) == pytest.approx([0.0])


# Stopping, and progress


def stopping_after(iterations, monkeypatch):
    """Send Ctrl-C once so many iterations have been made in all."""
    made, real = [], restarts_module.maximisation

    def counted(*arguments):
        made.append(None)
        if len(made) == iterations:
            signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(restarts_module, "maximisation", counted)


def test_ctrl_c_keeps_the_best_so_far(monkeypatch):
    stopping_after(50, monkeypatch)
    model = nntuck(restarts=10, tol=1e-15)
    with warned("restarts-stopped", ended=2, restarts=10):
        model.fit(SMALL)
    assert model.restarts_["iterations"].tolist() == [20, 20, 10]
    assert model.log_likelihood_ == model.restarts_["log_likelihood"].max()
    whole = nntuck(restarts=2, tol=1e-15).fit(SMALL)
    assert model.restarts_["log_likelihood"][:2].tolist() == whole.restarts_["log_likelihood"].tolist()


def test_ctrl_c_in_the_first_restart_keeps_what_it_has_come_to(monkeypatch):
    stopping_after(4, monkeypatch)
    model = nntuck(tol=1e-15)
    with warned("restarts-stopped", ended=0, restarts=3):
        model.fit(SMALL)
    assert model.n_iter_ == 4


def test_ctrl_c_before_the_first_iteration_goes_on(monkeypatch):
    real = restarts_module.random_start

    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    monkeypatch.setattr(restarts_module, "random_start", interrupted)
    model = nntuck()
    with pytest.raises(KeyboardInterrupt, match="before the first iteration"):
        model.fit(SMALL)
    assert not hasattr(model, "posterior_")


def test_the_bar_shows_restarts_iterations_and_the_best(capsys):
    assert restart_bar(False, 3, 10) is None
    bar = RestartBar(3, 10, TerminalBars([Row("restarts", 3)]))
    bar.show(0, 5, SweepInfo(-100.0, 4, (2, 2), 0.0))
    bar.show(1, 7, SweepInfo(-200.0, 4, (2, 2), 0.0))
    bar.close()
    shown = capsys.readouterr().err
    assert "1/3" in shown
    assert "iteration 7 of 10" in shown
    assert "log-lik -200" in shown
    assert "best -100" in shown


def test_the_bar_is_full_at_the_end_unless_the_last_restart_was_not_reached_or_failed(capsys):
    def shown(last, error=None):
        bar = RestartBar(3, 10, TerminalBars([Row("restarts", 3)]))
        bar.show(last, 4, SweepInfo(-100.0, 4, (2, 2), 0.0))
        try:
            if error:
                raise error
        except InputError:
            bar.close()
        else:
            bar.close()
        return capsys.readouterr().err

    assert "3/3" in shown(2)
    assert "1/3" in shown(1)
    assert "2/3" in shown(2, InputError("Y"))
