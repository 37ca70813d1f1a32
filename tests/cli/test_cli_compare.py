"""The commands compare and select-budget."""

import pytest

import allocore as ac
from allocore.cli import main
from allocore.comparison.compare import Comparison
from allocore.comparison.select_budget import Selection, one_standard_error
from support.comparison_cases import small_tensor, table_of


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
        "allocore,cp,nntuck",
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
    assert "ALL0CORE at Q = 5" in told
    assert "DIR" in told
    chains = {"burn_in": 9, "draws": 8, "thin": 7, "chains": 2, "e0": (0.1, 0.2, 1.0)}
    chains |= {"likelihood": "negative-binomial", "dispersion_by": "who"}
    assert list(asked["models"]) == ["allocore-nb-by-who", "cp-nb-by-who", "nntuck"]
    ((allocore,), (cp,), (nntuck,)) = asked["models"].values()
    assert chains.items() <= cp.get_params().items()
    assert {**chains, "core_shape": (2, 2, 3)}.items() <= allocore.get_params().items()
    assert {"restarts": 6, "max_iter": 55, "core_shape": None}.items() <= nntuck.get_params().items()
    assert {name: asked[name] for name in asked if name not in ("answer", "out", "models")} == {
        "budgets": [5, 10],
        "splits": 3,
        "hold_out": 0.2,
        "along": "whom",
        "jobs": 4,
        "threads": 3,
        "executor": None,
        "retry": True,
        "seed": 11,
    }


def test_a_failed_job_makes_the_exit_code_1(run, asked):
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert code == 1
    assert "CP at Q = 5, split 1" in told
    assert complaint.startswith("allocore: 1 job failed: ")
    assert "DIR/results.csv" in complaint
    assert "--retry" in complaint


def test_a_failure_of_an_earlier_call_that_was_not_asked_for_is_told_and_does_not_count(run, asked):
    asked["before"] = 1
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert (code, complaint) == (0, "")
    assert "earlier call" in told


def test_select_budget_chooses_and_ends_with_exit_code_1_if_a_job_failed(run, asked):
    asked["answer"] = None
    code, told, complaint = run("select-budget", "Y.npz", "--out", "DIR")
    assert (code, "Selection: budget 5" in told) == (1, True)
    assert "DIR/results.csv" in complaint
    code, _, complaint = run("select-budget", "Y.npz")
    assert (code, complaint) == (1, "allocore: 1 job failed: ended by SIGKILL\n")


def test_select_budget_prints_the_curve_and_the_choice(run, asked):
    code, told, complaint = run("select-budget", "Y.npz", "--budgets", "5,9", "--splits", "2")
    assert (code, complaint) == (0, "")
    assert (asked["budgets"], asked["splits"], asked["along"], asked["out"]) == ([5, 9], 2, -1, None)
    assert "within" in told
    assert "Q = 5 is chosen" in told


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["--budgets", "5,ten"], "--budgets is '5,ten'"),
        (["--budgets", ","], "--budgets is []"),
        (["--models", "pca"], "--models is 'pca'"),
        (["--core-shape", "2y2"], "--core-shape is '2y2'"),
        (["--format", "icews"], "--format is 'icews'"),
        (["--likelihood", "nb"], "likelihood"),
        (["--models", "allocore,cp", "--budgets", "2", "--dispersion-by", "who"], "--dispersion-by is 'who'"),
        (["--likelihood", "bernoulli", "--budgets", "2"], "bernoulli"),
        (["--e0", "1,2", "--budgets", "2"], "e0"),
        (["--out", "Y.npz", "--budgets", "2"], "--out is 'Y.npz'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, words, option):
    code, _, complaint = run("compare", "Y.npz", "--out", "DIR", *words)
    assert code == 2
    assert complaint.startswith("allocore: error: ")
    assert option in complaint
    assert complaint.count("\n") == 1


@pytest.mark.parametrize("command", ["compare", "select-budget"])
def test_a_wrong_folder_is_told_before_the_data_are_read(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr("allocore.cli.compare.read_data", lambda *_: pytest.fail("the data were read"))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    code, _, complaint = run(command, "Y.npz", "--out", "thesis")
    assert (code, "--out is 'thesis'" in complaint) == (2, True)
    for out in ("Y.npz", "Y.npz/deeper"):
        code, _, complaint = run(command, "Y.npz", "--out", out)
        assert (code, f"--out is {out!r}" in complaint) == (2, True)
