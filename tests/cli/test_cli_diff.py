"""The command diff: what changed between two runs."""

import pandas as pd
import pytest

import allocore as ac
from support.command_line import as_words, assert_refused
from support.refits import month_run

EVEN = (1.0, 1.0, 1.0, 1.0)
A, B, C = (5.0, "France", "Iraq", EVEN), (4.0, "Mali", "Peru", EVEN), (3.0, "Spain", "Yemen", (1.0, 1.0, 1.0, 9.0))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The paths of a run and of its refit."""
    folder = tmp_path_factory.mktemp("runs")
    old = month_run(A, B)
    old.save(folder / "old.zarr")
    month_run((5.0, "France", "Iraq", C[3]), C, start=old).save(folder / "new.zarr")
    return folder / "old.zarr", folder / "new.zarr"


def test_the_changes_are_printed_and_written(run, runs, tmp_path):
    code, out, err = run("diff", *runs, "--out", tmp_path / "changes.csv", "--labels", tmp_path / "labels.csv")
    assert (code, err) == (0, "")
    found = ac.diff(*runs)
    for each in found.sentences:
        assert as_words(each) in as_words(out)
    table = pd.read_csv(tmp_path / "changes.csv", keep_default_na=False, na_values={"old": "", "new": ""})
    assert list(table) == list(found.table)
    assert dict(zip(table["name"], table["change"], strict=True)) == dict(
        zip(found.table["name"], found.table["change"], strict=True)
    )
    assert len(pd.read_csv(tmp_path / "labels.csv")) == len(found.labels) > 0


def test_classes_that_changed_are_printed_even_if_they_are_not_among_the_largest(run, runs):
    _, out, _ = run("diff", *runs, "--rows", 1)
    for name in ac.diff(*runs).table.query("change != ''")["name"]:
        assert as_words(name) in as_words(out)


def test_a_file_of_an_unknown_kind_and_two_tables_in_one_file_are_refused(run, runs, tmp_path):
    assert_refused(run("diff", *runs, "--out", tmp_path / "changes.xls"), "--out", f"'{tmp_path / 'changes.xls'}'")
    both = tmp_path / "both.csv"
    assert_refused(
        run("diff", *runs, "--out", both, "--labels", both), "--labels", f"'{both}'", "other file than --out"
    )


def test_runs_of_other_modes_are_refused(run, runs, stored_run):
    assert_refused(run("diff", runs[0], stored_run), "NEW", "a run with the modes who, what, when", "modes of OLD")
