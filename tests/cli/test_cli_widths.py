"""Tables on a terminal of 80 columns: words are folded, numbers never; columns are explained below."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.posterior.evaluate import score_rows
from allocore.report.terminal import diagnosis_rows
from support.comparison_cases import JobsHere

QUICK = ("--chains", "4", "--burn-in", "2", "--draws", "6", "--thin", "1", "--seed", "3", "--threads", "1")


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setattr("allocore.cli.app._PIPE_WIDTH", 80)


@pytest.fixture(scope="module")
def run_of_long_labels(tmp_path_factory):
    """A run with long labels and large counts, which no test changes."""
    folder = tmp_path_factory.mktemp("long-labels")
    counts = np.random.default_rng(5).poisson(30_000, (6, 5, 4)) * np.random.default_rng(6).integers(0, 2, (6, 5, 4))
    labels = [[f"a place with a very long name, number {place}" for place in range(6)], None, list("wxyz")]
    Y = ac.as_tensor(counts, mode_names=["who", "what", "when"], labels=labels)
    Y.save(folder / "y.npz")
    settings = {"burn_in": 2, "draws": 6, "thin": 1, "chains": 4, "seed": 3, "threads": 1, "progress": False}
    # After two sweeps, a negative binomial has tails of many millions of counts, which are scored one by one.
    ac.AlloCore(3, likelihood="poisson", store=folder / "run.zarr", **settings).fit(
        ac.hold_out(Y, 0.3, along="when", seed=3)
    )
    return folder / "run.zarr"


def assert_whole(out, numbers):
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    for number in numbers:
        assert number in out, "no number is cut or folded"


def test_evaluate_turns_its_table_so_that_no_score_is_cut(run, run_of_long_labels):
    _, out, _ = run("evaluate", run_of_long_labels)
    rows = score_rows(ac.open_run(run_of_long_labels).evaluate().table)
    assert_whole(out, [cell for row in rows for cell in row[1:]])
    words = " ".join(out.split())
    assert "log PPD: mean log predictive probability of a cell" in words
    assert "In 50%, 90%: the share of counts in such intervals" in words


def test_info_of_a_run_folds_words_and_explains_its_columns(run, run_of_long_labels):
    _, out, _ = run("info", run_of_long_labels)
    _, rows = diagnosis_rows(ac.open_run(run_of_long_labels).diagnose())
    assert_whole(out, [cell for row in rows for cell in row[1:]])
    assert "log-likelihood " in out
    assert "e+0" not in out, "numbers have no exponents"
    assert "R-hat: the spread of all chains over that within chains" in " ".join(out.split())


def test_predictions_are_printed_with_separators_and_explained(run, run_of_long_labels, tmp_path):
    (tmp_path / "cells.csv").write_text('who,when\n"a place with a very long name, number 1",w\n,x\n')
    _, out, _ = run("predict", run_of_long_labels, tmp_path / "cells.csv")
    found = ac.open_run(run_of_long_labels).predict(pd.DataFrame({"when": ["x"]}))
    assert_whole(out, [f"{found['low'].iloc[0]:,}", f"{found['high'].iloc[0]:,}", f"{found['expected'].iloc[0]:,.0f}"])
    words = " ".join(out.split())
    assert "expected: the mean count that the run predicts." in words
    assert "low, high: the 90% interval of the count. all: summed over the mode." in words


def test_new_rows_and_their_numbers_are_whole(run, run_of_long_labels, tmp_path):
    code, out, _ = run(
        "fold-in",
        run_of_long_labels,
        run_of_long_labels.parent / "y.npz",
        "--mode",
        "when",
        "--sweeps",
        3,
        "--out",
        tmp_path / "new.zarr",
    )
    assert code == 0
    assert_whole(out, ["surprise", "observed"])
    _, out, _ = run("info", tmp_path / "new.zarr")
    assert "e+0" not in out


def test_select_budget_prints_a_table_that_says_what_was_chosen(run, run_of_long_labels, monkeypatch):
    monkeypatch.setattr("allocore.comparison.compare.JobProcesses", JobsHere)
    few = ("--budgets", "2,3", "--splits", 2, "--hold-out", 0.2, "--jobs", 1, "--likelihood", "poisson")
    code, out, _ = run("select-budget", run_of_long_labels.parent / "y.npz", *few, *QUICK)
    assert code == 0
    assert_whole(out, ["chosen"])
    assert "behind: " in " ".join(out.split())


@pytest.mark.parametrize("words", [(), ("--class", 0)])
def test_the_summary_is_not_cut(run, run_of_long_labels, words):
    _, out, _ = run("summary", run_of_long_labels, *words)
    assert_whole(out, ["%"])
