"""The commands compare and select-budget."""

import pytest
from comparison_cases import small_tensor, table_of

import allocore as ac
from allocore.cli import main
from allocore.comparison.compare import Comparison
from allocore.comparison.selection import Selection, one_standard_error


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command on a small tensor; returns its exit code and what it printed."""
    small_tensor().save(tmp_path / "Y.npz")
    monkeypatch.chdir(tmp_path)

    def go(*words):
        monkeypatch.setattr("sys.argv", ["allocore", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return go


@pytest.fixture
def asked(monkeypatch):
    """Replace the fits by tables written by hand; returns what they were asked for."""
    given = {}

    def compare(Y, models, budgets, **options):
        given.update(models=models, budgets=budgets, **options)
        table = table_of(allocore_5=[-1.0, -1.1], cp_5=[-1.3, given.get("answer")])
        return Comparison(table, None, "", failed_before=given.get("before", 0))

    def select_budget(Y, budgets, **options):
        given.update(budgets=budgets, **options)
        table = table_of(
            allocore_5=[-1.0, -1.1], allocore_9=[-1.01, -1.08], allocore_12=[-2.0, given.get("answer", -2)]
        )
        budget, curve = one_standard_error(table, "all")
        return Selection(budget, curve, "all", Comparison(table, None, ""))

    monkeypatch.setattr(ac, "compare", compare, raising=False)
    monkeypatch.setattr(ac, "select_budget", select_budget, raising=False)
    return given


def test_compare_hands_everything_to_the_function_and_tells_in_words(run, asked):
    asked["answer"] = -1.2
    options = [
        "--models",
        "allocore,cp=",
        "--budgets",
        "5, 10,",
        "--splits",
        "3",
        "--hold-out",
        "0.2",
        "--along",
        "whom",
    ]
    options += ["--core-shape", "2x2x3", "--burn-in", "9", "--draws", "8", "--thin", "7", "--restarts", "6"]
    options += [
        "--max-iter",
        "55",
        "--jobs",
        "4",
        "--threads",
        "3",
        "--retry",
        "--seed",
        "11",
        "--out",
        "DIR",
        "--chains",
        "2",
    ]
    options += ["--likelihood", "negative-binomial", "--dispersion-by", "0", "--e0", "0.1,0.2,1"]
    code, told, complaint = run("compare", "Y.npz", *options)
    assert (code, complaint) == (0, "")
    assert "CountTensor: 6 x 5 x 8" in told
    assert "ALL0CORE at Q = 5 and CP at Q = 5 predict best, a tie" in told
    assert "Table, figures and report written to DIR" in told
    assert {name: asked[name] for name in asked if name not in ("answer", "out")} == {
        "models": ["allocore", "cp="],
        "budgets": [5, 10],
        "splits": 3,
        "hold_out": 0.2,
        "along": "whom",
        "core_shape": (2, 2, 3),
        "burn_in": 9,
        "draws": 8,
        "thin": 7,
        "restarts": 6,
        "max_iter": 55,
        "jobs": 4,
        "threads": 3,
        "executor": None,
        "retry": True,
        "seed": 11,
        "chains": 2,
        "likelihood": "negative-binomial",
        "dispersion_by": 0,
        "e0": (0.1, 0.2, 1.0),
    }


def test_a_failed_job_makes_the_exit_code_1(run, asked):
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert code == 1
    assert "1 job failed (CP at Q = 5, split 1)" in told
    assert complaint == "allocore: 1 job failed: see the column error of DIR/results.csv; --retry runs it again\n"


def test_a_failure_of_an_earlier_call_that_was_not_asked_for_is_told_and_does_not_count(run, asked):
    asked["before"] = 1
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert (code, complaint) == (0, "")
    assert "1 failed job is from an earlier call and not part of this one." in told


def test_select_budget_chooses_and_ends_with_exit_code_1_if_a_job_failed(run, asked):
    asked["answer"] = None
    code, told, complaint = run("select-budget", "Y.npz", "--out", "DIR")
    assert (code, "Selection: budget 5" in told) == (1, True)
    assert complaint == "allocore: 1 job failed: see the column error of DIR/results.csv; --retry runs it again\n"
    code, _, complaint = run("select-budget", "Y.npz")
    assert (code, complaint) == (1, "allocore: 1 job failed: ended by SIGKILL\n")


def test_select_budget_prints_the_curve_and_the_choice(run, asked):
    code, told, complaint = run("select-budget", "Y.npz", "--budgets", "5,9", "--splits", "2")
    assert (code, complaint) == (0, "")
    assert (asked["budgets"], asked["splits"], asked["along"], asked["out"]) == ([5, 9], 2, -1, None)
    assert "within" in told
    assert "Q = 5 is the smallest budget within one standard error of it" in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budgets", "5,ten"], "--budgets is '5,ten', but it must be whole numbers joined by commas, like 5,10,25"),
        (["--budgets", ","], "--budgets is empty, but it must have at least one entry"),
        (
            ["--models", "pca"],
            "--models has 'pca', but every model must be one of allocore, cp, tucker, nntuck; the first three may have "
            "endings (a likelihood, -e0, -by-MODE), each at most once, as in allocore-nb, cp-bernoulli or tucker-nb-e0",
        ),
        (["--core-shape", "2y2"], "--core-shape is '2y2', but it must be whole numbers joined by x, like 50x50x20x300"),
        (["--format", "icews"], "--format can be used only with tables of events, but Y.npz is a tensor already"),
        (
            ["--likelihood", "nb"],
            "--likelihood is 'nb', but it must be one of poisson, negative-binomial, bernoulli: 'nb' is short for "
            "'negative-binomial' in the names of models only",
        ),
        (
            ["--models", "allocore,cp", "--budgets", "2", "--dispersion-by", "who"],
            "--dispersion-by is 'who', but no model uses it: it needs one such as allocore-nb",
        ),
        (
            ["--likelihood", "bernoulli", "--budgets", "2"],
            "--likelihood is 'bernoulli' (allocore-bernoulli), but the tensor has counts up to 26 and they must be 0 "
            "or 1: --binary makes them so for all models",
        ),
        (["--e0", "1,2", "--budgets", "2"], "--e0 1.0,2.0 has 2 entries, but the tensor has 3 modes: one per mode"),
        (["--out", "Y.npz", "--budgets", "2"], "--out is 'Y.npz', but there is a file where the folder should be"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, words, message):
    assert run("compare", "Y.npz", "--out", "DIR", *words)[::2] == (2, f"allocore: error: {message}\n")


@pytest.mark.parametrize("command", ["compare", "select-budget"])
def test_a_wrong_folder_is_told_before_the_data_are_read(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr("allocore.cli.compare_commands.read_data", lambda *_: pytest.fail("the data were read"))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    code, _, complaint = run(command, "Y.npz", "--out", "thesis")
    assert (code, "that folder holds something other than a comparison" in complaint) == (2, True)
    for out in ("Y.npz", "Y.npz/deeper"):
        code, _, complaint = run(command, "Y.npz", "--out", out)
        assert (code, "there is a file where the folder should be" in complaint) == (2, True)
