"""--json, --quiet and --log-format: one object on standard output, and lines for programs on standard error."""

import datetime
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import allocore as ac
from allocore import progress
from allocore.cli.app import EXIT_CODES, app
from allocore.findings import Finding
from allocore.report.objects import FORMAT, plain
from support.command_line import assert_refused

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([a-z_]+)`")
COMMANDS = typer.main.get_command(app).commands
QUICK = ("--burn-in", 2, "--draws", 4, "--thin", 1, "--chains", 4, "--threads", 1, "--seed", 3)


def rows_below(heading):
    """The rows of the first table below a heading of the page, as lists of cells."""
    rows = PAGE.split(f"{heading}\n", 1)[1].split("|---|---", 1)[1].split("\n\n")[0].splitlines()[1:]
    return [row.strip("| ").split(" | ") for row in rows]


def members_of(command):
    """The members that the page names for the object of a command."""
    commands = {name.replace("_", "-") for name in (command,)}
    found = set()
    for names, where, *_ in rows_below("## Members of the object"):
        if where == "all" or commands & set(re.findall(r"`([a-z-]+)`", where)):
            found |= set(NAME.findall(names))
    return found


def members_below(heading):
    return {name for cells in rows_below(f"### {heading}") for name in NAME.findall(cells[0])}


@pytest.fixture
def object_of(run):
    """Run a command with --json; returns its exit code and its object."""

    def call(*words):
        code, out, _ = run(*words, "--json")
        assert out.endswith("\n")
        assert out.count("\n") == 1, "one line, and nothing else"
        found = json.loads(out, parse_constant=pytest.fail)  # no NaN and no Infinity
        assert (found["format"], found["allocore"], found["exit_code"]) == (FORMAT, ac.__version__, code)
        return code, found

    return call


ALL = {"format", "allocore", "command", "exit_code"}
OF_A_RUN = [
    (("summary", "--rows", 1), {"classes", "diagnosis", "evaluation"}),
    (("summary", "--draw", "best"), {"classes", "evaluation"}),
    (("info",), {"run", "diagnosis"}),
    (("evaluate",), {"evaluation"}),
    (("check", "--draws", 40), {"check"}),
    (("memberships", "--mode", "who"), {"mode", "memberships", "communities"}),
    (("surprises", "--top", 3), {"surprises", "zeros_searched"}),
    (("surprises", "--threshold", 1e-9), {"surprises", "zeros_searched", "finding"}),
    (("table", "--rows", 1), {"table"}),
    (
        ("forecast", "--horizon", 1, "--by", "what"),
        {"mode", "periods", "findings", "past", "totals", "changes", "forecasts"},
    ),
]


@pytest.mark.parametrize(
    ("words", "members"), OF_A_RUN, ids=lambda each: " ".join(map(str, sorted(each) if isinstance(each, set) else each))
)
def test_the_object_of_a_run_has_the_members_that_the_page_names(object_of, stored_run, words, members):
    command, *rest = words
    code, found = object_of(command, stored_run, *rest)
    assert (code, found["command"]) == (0, command)
    assert set(found) == ALL | members
    assert set(found) <= members_of(command)
    for name in ("run", "diagnosis", "classes", "evaluation", "check"):
        if name in members:
            assert set(found[name]) == members_below(name)


def test_the_object_of_two_runs_has_the_members_that_the_page_names(object_of, stored_run):
    code, found = object_of("diff", stored_run, stored_run)
    assert (code, set(found)) == (0, ALL | {"differences", "labels", "findings"})
    assert set(found) <= members_of("diff")
    assert [each["change"] for each in found["differences"]] == [""] * len(found["differences"])


def test_the_numbers_are_those_of_the_python_interface(object_of, stored_run):
    post = ac.open_run(stored_run)
    _, found = object_of("summary", stored_run, "--top", 2)
    assert [each["share"] for each in found["classes"]["classes"]] == post.consensus().share.tolist()
    assert set(found["classes"]["classes"][0]) == members_below("class")
    profile = found["classes"]["classes"][0]["modes"]["when"]
    assert len(profile["labels"]) == 2
    assert {each["label"] for each in profile["labels"]} <= set(post.tensor.labels[2])
    kinds = [each.kind for each in post.class_summary().findings]
    assert [each["kind"] for each in found["classes"]["findings"]] == kinds
    assert found["diagnosis"]["level"] == post.diagnose().level
    assert found["diagnosis"]["classes"]["value"] == pytest.approx(post.diagnose().classes.value)
    _, found = object_of("surprises", stored_run, "--top", 3)
    assert pd.DataFrame(found["surprises"])["p"].tolist() == post.surprises(top=3)["p"].tolist()
    _, found = object_of("evaluate", stored_run)
    assert found["evaluation"]["table"][0]["prediction"] == "model"
    assert found["evaluation"]["table"][0]["log_ppd"] == post.evaluate().table.loc["model", "log_ppd"]


def test_one_class_has_its_profile_and_its_top_cells(object_of, stored_run):
    number = int(ac.open_run(stored_run).consensus().numbers[0])
    _, found = object_of("summary", stored_run, "--class", number, "--top", 2)
    assert set(found) == ALL | {"class", "top_cells"}
    assert set(found["class"]) == members_below("class")
    assert (found["class"]["class"], len(found["top_cells"])) == (number, 2)


def test_data_and_a_tensor_that_is_written_are_described(object_of, data, tmp_path):
    _, found = object_of("info", data)
    assert set(found) == ALL | {"data", "in_use", "top_labels", "share_of_ones"}
    assert set(found["data"]) == members_below("data")
    Y = ac.load_tensor(data)
    assert [each["length"] for each in found["data"]["modes"]] == list(Y.shape)
    assert found["top_labels"]["who"][0] == dict(zip(("label", "count"), Y.top_labels(0)[0], strict=True))
    _, found = object_of("tensor", data, "--out", tmp_path / "new.npz")
    assert (set(found), found["written"]) == (ALL | {"data", "written"}, [str(tmp_path / "new.npz")])


def test_predictions_have_null_for_a_mode_that_is_summed_over(object_of, stored_run, tmp_path):
    (tmp_path / "cells.csv").write_text("who,when\n1,2003-02\n2,\n")
    _, found = object_of("predict", stored_run, tmp_path / "cells.csv", "--rows", 1)
    assert set(found) == ALL | {"predictions", "findings"} <= members_of("predict")
    assert [each["when"] for each in found["predictions"]] == ["2003-02", None]
    _, found = object_of("predict", stored_run, tmp_path / "cells.csv", "--out", tmp_path / "found.csv")
    assert set(found) == ALL | {"findings", "written"}


def test_a_fit_and_what_follows_from_it_are_objects(object_of, data, tmp_path):
    path = tmp_path / "run.zarr"
    code, found = object_of("fit", data, "--budget", 2, *QUICK, "--out", path)
    assert code == 0
    assert set(found) == ALL | {"data", "classes", "diagnosis", "run", "written"} <= members_of("fit")
    assert 0.0 <= found["classes"]["classes"][0]["found_again"] <= 1.0
    assert (found["run"]["seed"], found["run"]["finished"], found["written"]) == (3, True, [str(path)])
    _, found = object_of("resume", path)
    assert set(found) == ALL | {"classes", "diagnosis", "run"} <= members_of("resume"), "nothing was written"
    ac.load_tensor(data).select(when=[0]).save(tmp_path / "new.npz")
    _, found = object_of("fold-in", path, tmp_path / "new.npz", "--sweeps", 2, "--surprises", 1)
    assert set(found) == ALL | {"data", "shares", "surprises"} <= members_of("fold-in")
    assert all(set(each) == {"class", "name", "share", "low", "high", "share_in_fit"} for each in found["shares"])


@pytest.mark.slow
def test_comparisons_are_objects(object_of, data, tmp_path):
    few = ("--budgets", "1,2", "--splits", 2, "--hold-out", 0.2, *QUICK)
    _, found = object_of("compare", data, "--models", "cp", *few, "--out", tmp_path / "out")
    assert set(found) == ALL | {"data", "comparison", "written"} <= members_of("compare")
    assert set(found["comparison"]) == members_below("comparison")
    assert len(found["comparison"]["fits"]) == 4
    _, found = object_of("select-budget", data, *few)
    members = {"data", "budget", "criterion", "table", "findings", "comparison"}
    assert set(found) == ALL | members <= members_of("select-budget")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_the_options_for_scripts(command):
    assert {"json", "quiet", "log_format"} <= {each.name for each in COMMANDS[command].params}


def test_an_error_of_the_input_has_its_parts(object_of, stored_run):
    code, found = object_of("summary", stored_run, "--rows", 0)
    assert (code, set(found)) == (2, ALL | {"error"})
    error = found["error"]
    assert (error["kind"], error["argument"], error["option"], error["value"]) == ("InputError", "rows", "--rows", 0)
    assert set(error) <= members_below("error")
    assert error["sentence"].endswith(error["rule"])


def test_an_error_of_a_file_has_its_path_and_its_problem(object_of, run_copy):
    (run_copy / ".zattrs").write_text("damaged")
    code, found = object_of("info", run_copy)
    assert (code, found["error"]["kind"], found["error"]["path"]) == (2, "StoreError", str(run_copy))
    assert set(found["error"]) == {"kind", "sentence", "path", "problem"} <= members_below("error")


@pytest.mark.parametrize("words", [["summary", "--nonsense"], ["nonsense"], ["summary"]])
def test_a_wrong_command_or_option_is_an_object_too(object_of, words):
    code, found = object_of(*words)
    assert (code, found["error"]["kind"]) == (2, "UsageError")


def test_a_value_that_no_json_type_can_hold_becomes_null_or_text():
    frame = pd.DataFrame(
        {"a": [1.5, np.nan], "b": [None, pd.Timestamp("2020-01-02")]}, index=pd.Index([4, 5], name="n")
    )
    assert plain(frame) == [{"n": 4, "a": 1.5, "b": None}, {"n": 5, "a": None, "b": "2020-01-02 00:00:00"}]
    assert plain({1: (np.int64(2), np.inf, np.array([True])), "path": Path("x")}) == {
        "1": [2, None, [True]],
        "path": "x",
    }
    found = plain(Finding("few-draws", "caution", {"draws": 4, "least": np.int32(50)}), str.upper)
    assert (found["kind"], found["level"], found["values"]) == ("few-draws", "caution", {"draws": 4, "least": 50})
    assert found["sentence"] == found["sentence"].upper()


def test_a_page_is_not_opened_for_a_program(run, stored_run, tmp_path):
    result = run("report", stored_run, "--out", tmp_path / "page.html", "--open", "--json")
    assert_refused(result, "--open", "True", "--json")
    assert not (tmp_path / "page.html").exists()


def test_the_log_format_must_be_known(run, stored_run):
    assert_refused(run("info", stored_run, "--log-format", "xml"), "--log-format", "'xml'")


@pytest.fixture
def log_as():
    """Set how this process writes its log, for one test."""
    yield progress.set_log
    progress.set_log()


def test_lines_of_a_log_have_the_time_and_a_level(run, stored_run):
    _, _, err = run("summary", stored_run, "--rows", 0, "--log-format", "json")
    line = json.loads(err)
    assert datetime.datetime.fromisoformat(line["time"]).tzinfo == datetime.UTC
    assert (line["level"], line["message"][:6]) == ("error", "--rows")
    _, _, err = run("summary", stored_run, "--rows", 0, "--log-format", "plain")
    time, _, rest = err.partition(" ")
    assert datetime.datetime.fromisoformat(time).tzinfo == datetime.UTC
    assert rest.startswith("allocore: error: --rows")


def test_a_quiet_log_has_only_warnings_errors_and_stops(log_as, capsys):
    log_as(quiet=True)
    for level in ("info", "warning", "error", "stopped"):
        progress.log(level, level)
    assert capsys.readouterr().err.split() == [
        *("allocore:", "warning:", "warning", "allocore:", "error:", "error", "allocore:", "stopped"),
    ]
    assert progress.output_kind() is None


def test_a_log_with_times_has_no_bars_even_on_a_terminal(log_as, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert progress.output_kind() == "terminal"
    log_as(format="plain")
    assert progress.output_kind() == "log"


def test_options_of_one_command_do_not_last(run, stored_run):
    run("summary", stored_run, "--rows", 0, "--log-format", "json", "--json", "--quiet")
    code, out, err = run("summary", stored_run, "--rows", 0)
    assert (code, out) == (2, "")
    assert err.startswith("allocore: error: ")


SUMMARY = "from allocore.cli import main; import sys; sys.argv = ['allocore', *sys.argv[1:]]; main()"


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_reader_that_goes_away_ends_the_command_quietly(stored_run, words):
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-c", SUMMARY, "summary", str(stored_run), *words]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (141, "")
    assert 141 in EXIT_CODES
