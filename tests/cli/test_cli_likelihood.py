"""The command line: likelihoods, dispersion, concentrations and binary data."""

import pytest

import allocore as ac
from support.command_line import assert_refused
from support.same_draws import assert_same_run
from support.tiers import parametrize_few

QUICK = ("--burn-in", "2", "--draws", "2", "--thin", "1", "--seed", "3", "--threads", "1", "--chains", "1")
SCHEDULE = {"burn_in": 2, "draws": 2, "thin": 1, "seed": 3, "progress": False, "chains": 1}


@parametrize_few(
    ("words", "settings"),
    [
        (
            ["--likelihood", "negative-binomial", "--dispersion-by", "what", "--e0", "infer"],
            {"likelihood": "negative-binomial", "dispersion_by": "what", "e0": "infer"},
        ),
        (["--likelihood", "negative-binomial"], {"likelihood": "negative-binomial"}),
        (
            ["--likelihood", "negative-binomial", "--dispersion-by", "-1", "--e0", "0.1, 0.5,1"],
            {"likelihood": "negative-binomial", "dispersion_by": 2, "e0": (0.1, 0.5, 1.0)},
        ),
        (["--e0", "0.3"], {"e0": 0.3}),
        (["--likelihood", "poisson", "--e0", "1"], {"likelihood": "poisson"}),
    ],
    quick=1,
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_fit_and_resume_have_the_draws_of_the_api(run, data, tmp_path, words, settings):
    path = tmp_path / "run.zarr"
    code, _, err = run("fit", data, "--budget", 3, "--out", path, *words, *QUICK)
    assert (code, err) == (0, "")
    code, _, err = run("resume", path, "--draws", 4)
    assert (code, err) == (0, "")
    model = ac.AlloCore(3, **settings, **{**SCHEDULE, "draws": 4})
    assert_same_run(path, model.fit(ac.load_tensor(data)).posterior_)


def test_binary_data_are_made_and_fitted(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    words = ("--likelihood", "bernoulli", "--binary", "--hold-out", 0.3)
    code, out, err = run("fit", data, "--budget", 3, "--out", path, *words, *QUICK)
    assert (code, err) == (0, "")
    Y = ac.load_tensor(data).binarize()
    assert f"{Y.nnz} non-zeros, {Y.nnz} counts" in " ".join(out.split())
    train = ac.hold_out(Y, 0.3).train
    assert_same_run(path, ac.AlloCore(3, likelihood="bernoulli", **SCHEDULE).fit(train).posterior_)


def test_a_prior_of_the_dispersion_is_refused_if_the_data_turn_out_to_be_binary(run, data):
    assert_refused(run("fit", data, "--budget", 3, "--binary", "--g0", 2, *QUICK), "--g0", "2.0")


def test_tensor_writes_binary_data(run, data, tmp_path):
    code, _, err = run("tensor", data, "--binary", "--out", tmp_path / "binary.npz")
    assert (code, err) == (0, "")
    assert ac.load_tensor(tmp_path / "binary.npz") == ac.load_tensor(data).binarize()


def test_binary_events_are_shown_as_the_tensor_they_became(run, tmp_path):
    (tmp_path / "e.csv").write_text("who,what\n" + "a,x\nb,y\n" * 3)
    code, out, err = run("tensor", tmp_path / "e.csv", "--modes", "who,what", "--binary", "--out", tmp_path / "y.npz")
    assert (code, err) == (0, "")
    assert "rows read" in out
    assert "2 non-zeros, 2 counts" in " ".join(out.split())


@pytest.mark.filterwarnings("default::UserWarning")
def test_counts_of_1_with_the_negative_binomial_are_a_warning_in_one_line(run, data):
    code, _, err = run("fit", data, "--budget", 2, "--binary", "--likelihood", "nb", *QUICK)
    assert code == 0, "nb is short for negative-binomial"
    assert err.startswith("allocore: warning: ")
    assert err.count("\n") == 1


ONE_OF = "must be one of auto, poisson, negative-binomial, bernoulli"
BY = ["--likelihood", "negative-binomial", "--dispersion-by"]
MODES = "must be a mode of the tensor, one of ['who', 'what', 'when']"
NUMBERS = "must be a number, one number per mode like 0.1,0.1,1,1, or infer"


@pytest.mark.parametrize(
    ("words", "value", "rule"),
    [
        (["--likelihood", "gamma"], "'gamma'", ONE_OF),
        (["--likelihood", "bernoulli"], "'bernoulli'", "needs counts of 0 or 1, and the tensor has counts up to 4: "),
        (["--likelihood", "poisson", "--dispersion-by", "who"], "'who'", "'poisson' has no dispersion"),
        ([*BY, "why"], "'why'", MODES),
        ([*BY, "7"], "7", MODES),
        (["--e0", "learn"], "'learn'", NUMBERS),
        (["--e0", ""], "''", NUMBERS),
        (["--e0", "1,,1"], "'1,,1'", NUMBERS),
        (["--e0", "1,1"], "(1.0, 1.0)", "must have one entry per mode, and the tensor has 3 modes"),
        (["--e0", "0"], "0.0", "must be positive and finite"),
        (["--e0", "nan"], "nan", "must be positive and finite"),
    ],
    ids=str,
)
def test_a_bad_setting_is_one_line_that_names_it(run, data, tmp_path, words, value, rule):
    result = run("fit", data, "--budget", 2, "--out", tmp_path / "run.zarr", *words, *QUICK)
    assert_refused(result, words[-2], value, rule)
    assert ("--binary" in result[2]) == (value == "'bernoulli'"), "how to make the counts binary"
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *((command, ["--dispersion-by", "who", "--likelihood", "poisson"]) for command in ("fit", "select-budget")),
        *((command, ["--e0", "-1"]) for command in ("fit", "select-budget", "compare")),
        *((command, ["--likelihood", "gamma"]) for command in ("fit", "select-budget", "compare")),
    ],
)
def test_options_that_make_no_sense_are_told_before_the_data_are_read(run, tmp_path, command, words):
    more = {"fit": ["--budget", 2], "compare": ["--out", tmp_path / "out"], "select-budget": []}[command]
    code, _, err = run(command, tmp_path / "no such file", *more, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(f"allocore: error: {words[0]} is ")


@pytest.mark.parametrize("command", ["fit", "compare", "select-budget"])
def test_the_help_explains_likelihoods_and_concentrations(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    for word in ("--likelihood", "--dispersion-by", "--e0", "--binary", "negative-binomial", "bursts", "infer"):
        assert word in out
