"""The command line: the models of fit, their sizes, their priors, and what each of them refuses."""

import signal
from dataclasses import fields

import pytest
import typer

import allocore as ac
from allocore.cli.app import app
from allocore.cli.options import MODELS
from allocore.em import nntuck as restarts
from allocore.estimators import _MAX_CHAINS, _MAX_SWEEPS
from support.command_line import assert_refused
from support.same_draws import assert_same_run
from support.tiers import parametrize_few

CHAINS = ("--burn-in", 2, "--draws", 2, "--thin", 1, "--chains", 2)
QUICK = ("--seed", 3, "--threads", 1)
SCHEDULE = {"burn_in": 2, "draws": 2, "thin": 1, "chains": 2, "seed": 3, "progress": False}
MOST = {"max_sweeps": _MAX_SWEEPS, "max_chains": _MAX_CHAINS}  # what None means
STARTS = ("--restarts", 2, "--max-iter", 4, "--tol", 1e-5)


@parametrize_few(
    ("words", "model"),
    [
        (
            ["--model", "allocore", "--budget", 3, "--core-shape", "2x3x1", "--alpha0", 0.5, "--a0", 2, "--b0", 0.5],
            ac.AlloCore(3, (2, 3, 1), alpha0=0.5, a0=2.0, b0=0.5),
        ),
        (
            ["--budget", "infer", "--max-budget", 4, "--c0", 2, "--d0", 3],
            ac.AlloCore("infer", max_budget=4, c0=2.0, d0=3.0),
        ),
        ([], ac.AlloCore()),
        (["--model", "cp", "--budget", 3, "--f0", 2.5], ac.CP(3, f0=2.5)),
        (
            ["--model", "cp", "--budget", 2, "--e0", "infer", "--s0", 2, "--t0", 4],
            ac.CP(2, e0="infer", s0=2.0, t0=4.0),
        ),
        (
            ["--model", "tucker", "--core-shape", "2x2x1", "--likelihood", "negative-binomial", "--g0", 2, "--h0", 3],
            ac.Tucker((2, 2, 1), likelihood="negative-binomial", g0=2.0, h0=3.0),
        ),
    ],
    quick=1,
    ids=lambda each: " ".join(map(str, each)) if isinstance(each, list) else "",
)
def test_fit_and_resume_have_the_draws_of_the_api(run, data, tmp_path, words, model):
    path, Y = tmp_path / "run.zarr", ac.load_tensor(data)
    code, _, err = run("fit", data, "--out", path, *words, *CHAINS, *QUICK)
    assert (code, err) == (0, "")
    code, _, err = run("resume", path, "--draws", 4)
    assert (code, err) == (0, "")
    assert_same_run(path, model.set_params(**{**SCHEDULE, "draws": 4}).fit(Y).posterior_)


def test_the_priors_that_were_given_are_told_by_info(run, data, tmp_path):
    words = ("--model", "cp", "--budget", 2, "--a0", 3, "--out", tmp_path / "run.zarr", *CHAINS[:-1], 1)
    run("fit", data, *words, *QUICK)
    code, out, err = run("info", tmp_path / "run.zarr")
    assert (code, err) == (0, "")
    told = "CP, negative-binomial: 2 classes, core 2 x 2 x 2; a0 3, b0 1, e0 1, f0 10, g0 1, h0 1; seed 3"
    assert told in " ".join(out.split())


# NNTuck


def test_nntuck_writes_the_estimate_of_the_api_and_tells_of_its_starts(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    core = ("--model", "nntuck", "--core-shape", "2x2x1")
    code, out, err = run("fit", data, *core, "--hold-out", 0.3, "--out", path, *STARTS, *QUICK)
    assert (code, err) == (0, "")
    split = ac.hold_out(ac.load_tensor(data), 0.3)
    model = ac.NNTuck((2, 2, 1), restarts=2, max_iter=4, tol=1e-5, seed=3, progress=False).fit(split.train)
    assert_same_run(path, model.posterior_)
    told = " ".join(out.split())
    assert (
        f"the best of 2 random starts, {model.restarts_['converged'].sum()} of which converged: log-likelihood "
        f"{model.log_likelihood_:.2f} after {model.n_iter_} iterations"
    ) in told
    assert model.posterior_.evaluate(split.test).sentences[0] in told
    assert "Seed 3. Run written to" in told


def test_an_estimate_of_nntuck_can_be_looked_at_but_not_resumed(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--model", "nntuck", "--core-shape", "2x2x1", "--out", path, *STARTS, *QUICK)
    for command in (["info", path], ["summary", path], ["report", path, "--out", tmp_path / "r.html"]):
        code, _, err = run(*command)
        assert (code, err) == (0, "")
    assert_refused(run("resume", path), "RUN", None, "must be a run with chains")


@pytest.mark.filterwarnings("default::UserWarning")
def test_nntuck_that_is_stopped_keeps_its_best_estimate_and_ends_in_exit_code_130(run, data, tmp_path, monkeypatch):
    path, whole = tmp_path / "run.zarr", restarts.maximisation
    made = []

    def stopped(*arguments):
        made.append(1)
        if len(made) == 6:  # in the second start
            signal.raise_signal(signal.SIGTERM)
        return whole(*arguments)

    monkeypatch.setattr(restarts, "maximisation", stopped)
    starts = ("--restarts", 3, "--max-iter", 4, "--tol", 1e-30)
    code, out, err = run("fit", data, "--model", "nntuck", "--core-shape", "2x2x1", "--out", path, *starts, *QUICK)
    assert code == 130
    assert err == "allocore: warning: stopped: 1 of 3 restarts are done; the best estimate is kept\n"
    assert "the best of 2 random starts, 0 of which converged" in " ".join(out.split())
    assert ac.open_run(path).core_values.shape == (1, 1, 4)


# What a model does not have


CORE = ["--model", "nntuck", "--core-shape", "2x2x2"]
NO_CHAINS = "does not apply to nntuck: it is fitted by maximum likelihood, without priors and chains"


@parametrize_few(
    ("words", "option", "value", "rule"),
    [
        (["--model", "parafac"], "--model", "'parafac'", "must be one of allocore, cp, tucker, nntuck"),
        (["--model", "cp"], "--budget", None, "must be given: the number of classes"),
        (["--model", "tucker"], "--core-shape", None, "must be given: the factors of each mode"),
        (["--model", "nntuck"], "--core-shape", None, "must be given: the factors of each mode"),
        (
            ["--model", "tucker", "--budget", 3],
            "--budget",
            "'3'",
            "not apply to tucker: use --core-shape to set its size",
        ),
        (["--model", "nntuck", "--budget", 3], "--budget", "'3'", "not apply to nntuck: use --core-shape"),
        (["--model", "cp", "--budget", 3, *CORE[2:]], "--core-shape", "'2x2x2'", "not apply to cp: use --budget"),
        (["--model", "cp", "--budget", 3, "--alpha0", 0.5], "--alpha0", "0.5", "to cp: its locations are fixed"),
        (["--model", "tucker", *CORE[2:], "--alpha0", 0.1], "--alpha0", "0.1", "to tucker: its locations are fixed"),
        (["--model", "cp", "--budget", "infer"], "--budget", "'infer'", "must be a whole number for cp"),
        (
            ["--model", "cp", "--budget", 3, "--max-budget", 9],
            "--max-budget",
            "9",
            "only allocore can learn its budget",
        ),
        (["--budget", 3, "--max-budget", 9], "--max-budget", "9", "needs --budget infer"),
        (["--budget", 3, "--c0", 2], "--c0", "2.0", "needs --budget infer"),
        (["--budget", 3, "--restarts", 2], "--restarts", "2", "not apply to allocore: only nntuck"),
        (["--budget", 3, "--tol", 0.1], "--tol", "0.1", "not apply to allocore: only nntuck"),
        (["--budget", 3, "--s0", 2], "--s0", "2.0", "needs --e0 infer"),
        (["--budget", 3, "--e0", 1, "--t0", 2], "--t0", "2.0", "needs --e0 infer"),
        (
            ["--budget", 3, "--likelihood", "poisson", "--g0", 2],
            "--g0",
            "2.0",
            "needs --likelihood negative-binomial",
        ),
        (
            ["--budget", 3, "--likelihood", "bernoulli", "--h0", 2],
            "--h0",
            "2.0",
            "needs --likelihood negative-binomial",
        ),
        (["--budget", 3, "--a0", 0], "--a0", "0.0", "must be positive and finite"),
        (["--model", "cp", "--budget", 3, "--f0", "nan"], "--f0", "nan", "must be positive and finite"),
        *(([*CORE, option, 1], option, "1.0", NO_CHAINS) for option in ("--a0", "--alpha0", "--s0", "--e0")),
        *(
            ([*CORE, option, 1], option, "1", NO_CHAINS)
            for option in ("--burn-in", "--draws", "--thin", "--max-chains", "--max-budget")
        ),
        *(([*CORE, option, 1], option, "'1'", NO_CHAINS) for option in ("--chains", "--sweeps")),
        ([*CORE, "--quick"], "--quick", "True", NO_CHAINS),
        ([*CORE, "--likelihood", "bernoulli"], "--likelihood", "'bernoulli'", "must be poisson for nntuck"),
    ],
    ids=lambda each: " ".join(map(str, each)) if isinstance(each, list) else "",
)
def test_what_a_model_does_not_have_is_refused_in_one_line_before_the_data_are_read(
    run, tmp_path, words, option, value, rule
):
    result = run("fit", tmp_path / "no such file", *words, "--out", tmp_path / "run.zarr")
    assert_refused(result, option, value, rule)
    assert result[1] == ""
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("--tol", "0.0", "must be a positive number"),
        ("--restarts", "0", "must be a whole number of at least 1"),
        ("--max-iter", "0", "must be a whole number of at least 1"),
    ],
)
def test_a_bad_setting_of_nntuck_is_one_line(run, data, tmp_path, option, value, rule):
    assert_refused(run("fit", data, *CORE, "--out", tmp_path / "run.zarr", option, 0), option, value, rule)
    assert not (tmp_path / "run.zarr").exists()


def test_the_help_has_every_setting_of_the_models_with_the_defaults_of_the_api(run):
    _, out, _ = run("fit", "--help")
    assert "Priors" in out
    told = {option.name: option.help for option in typer.main.get_command(app).commands["fit"].params}
    for name in MODELS.values():
        for field in fields(getattr(ac, name)):
            if field.name in ("rank", "store", "executor", "progress", "modes"):
                # --budget, --out, --cluster, a terminal, --exposure
                continue
            assert f"--{field.name.replace('_', '-')} " in out
            default = MOST.get(field.name, field.default)
            if type(default) in (int, float) and field.name != "budget":
                assert told[field.name].endswith(f" The default is {default:g}."), field.name
    for name in ("sweeps", "chains"):
        assert told[name].endswith(" The default is 'auto'.")
