"""The commands compare and select-budget."""

import pytest

import allocore as ac
from allocore.comparison.compare import Comparison
from allocore.comparison.select_budget import Selection, one_standard_error
from support.command_line import as_words, assert_refused
from support.comparison_cases import small_tensor, table_of


@pytest.fixture(autouse=True)
def tensor_in_this_folder(monkeypatch, tmp_path):
    """A small tensor in Y.npz, in the folder where commands are run."""
    small_tensor().save(tmp_path / "Y.npz")
    monkeypatch.chdir(tmp_path)


def comparison_by_hand(answer=None, before=0):
    """A comparison of two models; the second split of CP has failed unless there is an `answer`."""
    table = table_of(allocore_5=[-1.0, -1.1], cp_5=[-1.3, answer])
    return Comparison(table, None, "", failed_before=before)


def selection_by_hand(answer=-2):
    """A choice among three budgets; the second split of the largest has failed if the `answer` is None."""
    table = table_of(allocore_5=[-1.0, -1.1], allocore_9=[-1.01, -1.08], allocore_12=[-2.0, answer])
    budget, curve = one_standard_error(table, "all")
    return Selection(budget, curve, "all", Comparison(table, None, ""))


@pytest.fixture
def asked(monkeypatch):
    """Replace the fits by tables written by hand; returns what they were asked for."""
    given = {}

    def compare(Y, models, budgets, **options):
        given.update(models=models, budgets=budgets, **options)
        return comparison_by_hand(given.get("answer"), given.get("before", 0))

    def select_budget(Y, budgets, **options):
        given.update(budgets=budgets, **options)
        return selection_by_hand(given.get("answer", -2))

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
    assert repr(small_tensor()) in as_words(told)
    for sentence in comparison_by_hand(-1.2).sentences:
        assert sentence in as_words(told)
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
        "hold_out_seed": 0,
    }


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ([], ["allocore", "cp-nb"]),
        (["--dispersion-by", "who"], ["allocore", "cp-nb-by-who"]),
        (["--likelihood", "auto"], ["allocore-nb", "cp-nb"]),
        (["--likelihood", "auto", "--binary"], ["allocore-bernoulli", "cp-nb"]),
    ],
)
def test_a_name_without_an_ending_is_poisson_unless_a_likelihood_is_given(run, asked, words, names):
    asked["answer"] = -1.2
    assert run("compare", "Y.npz", "--models", "allocore,cp-nb", "--budgets", 2, "--out", "DIR", *words)[0] == 0
    assert list(asked["models"]) == names


def test_select_budget_takes_the_likelihood_that_suits_the_counts(run, asked):
    for words, likelihood in (([], "negative-binomial"), (["--binary"], "bernoulli")):
        assert run("select-budget", "Y.npz", *words)[0] == 0
        assert asked["model"].likelihood == likelihood


def assert_failed_jobs(complaint, number, *pieces):
    """One line with the number of failed jobs, and where to look."""
    assert complaint.startswith(f"allocore: {number} job")
    assert complaint.count("\n") == 1
    for piece in pieces:
        assert piece in complaint


def test_a_failed_job_makes_the_exit_code_1(run, asked):
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert code == 1
    expected = comparison_by_hand()
    assert "failed-jobs" in [each.kind for each in expected.findings]
    for sentence in expected.sentences:
        assert sentence in as_words(told)
    assert_failed_jobs(complaint, 1, "DIR/results.csv", "--retry")


def test_a_failure_of_an_earlier_call_that_was_not_asked_for_is_told_and_does_not_count(run, asked):
    asked["before"] = 1
    code, told, complaint = run("compare", "Y.npz", "--out", "DIR")
    assert (code, complaint) == (0, "")
    expected = comparison_by_hand(before=1)
    assert expected.findings[-1].kind == "failed-earlier"
    assert expected.sentences[-1] in as_words(told)


def test_select_budget_chooses_and_ends_with_exit_code_1_if_a_job_failed(run, asked):
    asked["answer"] = None
    code, told, complaint = run("select-budget", "Y.npz", "--out", "DIR")
    assert code == 1
    for sentence in selection_by_hand(None).sentences:
        assert sentence in as_words(told)
    assert_failed_jobs(complaint, 1, "DIR/results.csv", "--retry")
    code, _, complaint = run("select-budget", "Y.npz")
    assert code == 1
    assert_failed_jobs(complaint, 1, "SIGKILL")


def test_select_budget_prints_the_curve_and_the_choice(run, asked):
    code, told, complaint = run("select-budget", "Y.npz", "--budgets", "5,9", "--splits", "2")
    assert (code, complaint) == (0, "")
    assert (asked["budgets"], asked["splits"], asked["along"], asked["out"]) == ([5, 9], 2, -1, None)
    assert selection_by_hand().budget == 5
    for sentence in selection_by_hand().sentences:
        assert sentence in as_words(told)


def test_small_differences_and_errors_keep_their_digits_in_the_table_of_budgets(run, monkeypatch):
    table = table_of(cp_5=[-0.01, -0.011, -0.012], cp_9=[-0.0100001, -0.0110004, -0.0120001])
    budget, curve = one_standard_error(table, "all")
    chosen = Selection(budget, curve, "all", Comparison(table, None, ""))
    monkeypatch.setattr("allocore.select_budget", lambda *_, **__: chosen)
    _, told, _ = run("select-budget", "Y.npz", "--budgets", "5,9")
    (row,) = (line.split() for line in told.splitlines() if line.split()[:1] == ["9"])
    assert row[1:4] == ["-0.01100020", "0.00000020", "0.00000010"]


@pytest.mark.parametrize(
    ("words", "value", "rule"),
    [
        (["--budgets", "5,ten"], "'5,ten'", "must be whole numbers joined by commas, like 5,10,25"),
        (["--budgets", ","], "[]", "must have at least one entry"),
        (["--models", "pca"], "'pca'", "one of allocore, cp, tucker, nntuck; the first three may have suffixes"),
        (["--core-shape", "2y2"], "'2y2'", "must be whole numbers joined by x, like 50x50x20x300"),
        (["--format", "icews"], "'icews'", "applies only to tables of events, and Y.npz is a tensor"),
        (["--likelihood", "gamma"], "'gamma'", "one of auto, poisson, negative-binomial, bernoulli, or nb for"),
        (["--models", "allocore,cp", "--budgets", "2", "--dispersion-by", "who"], "'who'", "such as allocore-nb"),
        (["--budgets", "2", "--likelihood", "bernoulli"], "'bernoulli'", "the tensor has counts up to 26: "),
        (["--budgets", "2", "--e0", "1,2"], "(1.0, 2.0)", "must have one entry per mode, and the tensor has 3 modes"),
        (["--budgets", "2", "--out", "Y.npz"], "'Y.npz'", "must be a folder, and there is a file in its place"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, tmp_path, words, value, rule):
    before = sorted(tmp_path.iterdir())
    assert_refused(run("compare", "Y.npz", "--out", "DIR", *words), words[-2], value, rule)
    assert sorted(tmp_path.iterdir()) == before, "nothing was written"


@pytest.mark.parametrize("command", ["compare", "select-budget"])
def test_a_wrong_folder_is_told_before_the_data_are_read(run, monkeypatch, tmp_path, command):
    monkeypatch.setattr("allocore.cli.compare.read_data", lambda *_: pytest.fail("the data were read"))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years of work")
    rule = "must be an empty folder or one with a comparison"
    assert_refused(run(command, "Y.npz", "--out", "thesis"), "--out", "'thesis'", rule)
    for out in ("Y.npz", "Y.npz/deeper"):
        rule = "must be a folder, and there is a file in its place"
        assert_refused(run(command, "Y.npz", "--out", out), "--out", repr(out), rule)
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]
