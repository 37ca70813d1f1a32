"""allocore surprises: the least expected cells, and an exit code if some are beyond a threshold."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.cli.app import EXIT_CODES
from allocore.posterior.surprises import alarm
from support.command_line import as_words, assert_refused

FOUND = 3


@pytest.fixture(scope="module")
def threshold(stored_run):
    """A probability that two cells of the small run have at most."""
    p = ac.open_run(stored_run).surprises(top=3)["p"].tolist()
    return (p[1] + p[2]) / 2


def test_it_prints_the_cells_and_ends_with_success(run, stored_run):
    code, out, err = run("surprises", stored_run, "--top", 2)
    assert (code, err) == (0, "")
    for _, cell in ac.open_run(stored_run).surprises(top=2).iterrows():
        expected = [str(cell[name]) for name in ("who", "what", "when", "observed")]
        assert any(line.split()[:4] == expected for line in out.splitlines())


def test_cells_beyond_the_threshold_have_an_exit_code_of_their_own(run, stored_run, tmp_path, threshold):
    code, out, err = run("surprises", stored_run, "--threshold", threshold, "--out", tmp_path / "found.csv")
    assert (code, err) == (FOUND, "")
    assert FOUND in EXIT_CODES
    assert f"written to {tmp_path / 'found.csv'}" in as_words(out)
    table = pd.read_csv(tmp_path / "found.csv")
    assert len(table) == 2
    assert (table["p"] <= threshold).all()


def test_without_such_cells_it_ends_with_success(run, stored_run, tmp_path):
    code, _, err = run("surprises", stored_run, "--threshold", 1e-12, "--out", tmp_path / "found.csv")
    assert (code, err) == (0, "")
    assert not len(pd.read_csv(tmp_path / "found.csv"))


def test_an_alarm_says_how_many_cells_there_would_be_by_chance():
    Y = ac.as_tensor(np.ones((2, 3), dtype=int), mode_names=["p", "what"]).with_missing([(0, 0)])
    found = pd.DataFrame({"p": ["a", "b"], "what": ["x", "y"], "observed": [9, 1], "expected": [1.0, 1.0]})
    found = found.assign(direction="more", p_=[1e-9, 0.5], surprise=[9.0, 0.3])
    chosen, finding = alarm(found, Y, 0.01, top=50)
    assert chosen["p"].tolist() == ["a"], "a mode may be named like a column"
    expected = {"cells": 1, "threshold": 0.01, "more": False, "observed": 5, "by_chance": pytest.approx(0.05)}
    assert (finding.level, finding.values) == ("caution", expected)
    assert alarm(found, Y, 0.9, top=2)[1].values["more"], "there may be cells beyond those of the table"
    assert alarm(found, Y, 1e-12, top=50)[1].level == "good"


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, "nan"])
def test_the_threshold_must_be_a_probability(run, stored_run, value):
    assert_refused(run("surprises", stored_run, "--threshold", value), "--threshold", str(float(value)), "probability")


def test_the_file_must_be_a_table(run, stored_run, tmp_path):
    assert_refused(run("surprises", stored_run, "--out", tmp_path / "x.png"), "--out", repr(str(tmp_path / "x.png")))
