"""The command line on tables of events: fit, tensor and info take them as they come."""

import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.command_line import as_words, assert_refused, error_of
from support.findings import warned
from support.tiers import parametrize_few

QUICK = ("--chains", "4", "--burn-in", "1", "--draws", "1", "--thin", "1", "--seed", "3")


@pytest.fixture
def sales(tmp_path):
    """A table of the user's own as CSV."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "store": rng.choice(["North", "South", "it's"], 300),
            "product": rng.choice(["tea", "rice", "salt, fine"], 300),
            "week": rng.integers(1, 13, 300),
            "sold": pd.date_range("2024-01-01", "2024-09-30").strftime("%Y-%m-%d")[np.arange(300) * 274 // 300],
            "n": rng.integers(0, 4, 300),
        }
    )
    frame.to_csv(tmp_path / "sales.csv", index=False)
    return frame


def allocore(folder, *words):
    command = [sys.executable, "-m", "allocore.cli", *(str(word) for word in words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def test_fit_takes_a_table_and_prints_the_report_and_the_classes(run, sales, tmp_path):
    code, out, err = run("fit", tmp_path / "sales.csv", "--modes", "store,product,week", "--budget", 4, *QUICK)
    assert (code, err) == (0, "")
    words = as_words(out)
    assert "rows read 300 from 1 file" in words
    assert "CountTensor: 3 x 3 x 12 (store, product, week)" in words
    assert "classes, consensus of 4 chains" in words
    assert words.endswith("--out run.zarr to save it."), "how to keep the fit"


def test_tensor_builds_once_what_read_events_builds(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = (
        "--modes",
        "shop=store,product",
        "--time",
        "sold",
        "--freq",
        "quarter",
        "--count",
        "n",
        "--where",
        "n <> '3'",
    )
    code, told, err = run("tensor", "sales.csv", *options, "--where", "n <> '3'", "--out", "sales.npz")
    assert (code, err) == (0, "")
    assert "Tensor written to sales.npz" in told
    expected = ac.read_events(
        sales, modes={"shop": "store", "product": "product"}, time="sold", freq="quarter", count="n", where="n <> 3"
    )
    assert ac.load_tensor(tmp_path / "sales.npz") == expected
    _, told, _ = run("info", "sales.npz")
    assert repr(expected) in as_words(told)


def test_a_tensor_of_events_can_be_told_about_and_fitted(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("tensor", "sales.csv", "--modes", "store,product", "--out", "y.parquet")
    for words in (("info", "y.parquet"), ("fit", "y.parquet", "--budget", 2, *QUICK, "--chains", 1)):
        code, told, err = run(*words)
        assert (code, err) == (0, "")
        assert "CountTensor: 3 x 3 (store, product)" in told


def test_info_reads_a_pattern_of_parquet_files(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sales.iloc[:100].to_parquet(tmp_path / "a.parquet")
    sales.iloc[100:].to_parquet(tmp_path / "b.parquet")
    code, told, err = run("info", "*.parquet", "--modes", "store,product", "--time", "sold")
    assert (code, err) == (0, "")
    assert "300 from 2 files" in told
    assert "(store, product, sold)" in as_words(told)


COLUMNS = "columns are store, product, week, sold, n"
PAIR = ("sales.csv", "--modes", "store,product")


@parametrize_few(
    ("words", "option", "value", "rule"),
    [
        (
            ("sales.csv",),
            "--modes",
            None,
            f"must be given, because the format of these events is not known; the {COLUMNS}",
        ),
        (
            ("sales.csv", "--modes", "stor,product"),
            "--modes",
            "['stor', 'product']",
            f"needs the column 'stor', which sales.csv does not have; the nearest is 'store'; its {COLUMNS}",
        ),
        (
            (*PAIR, "--time", "product"),
            "DATA",
            "'sales.csv'",
            "at line 2: product is 'tea', which cannot be read as a date",
        ),
        ((*PAIR, "--freq", "month"), "--freq", "'month'", "needs dates: name their column in --time"),
        (("sales.csv", "--format", "iecws"), "--format", "'iecws'", "must be one of auto, icews, gdelt"),
        (("*.xlsx", "--modes", "a,b"), "DATA", "'*.xlsx'", "must match a file"),
        (("y.npz", "--freq", "month"), "--freq", "'month'", "applies only to tables of events, and y.npz is a tensor"),
        (
            (*PAIR, "--where", "nonsense = 1"),
            "--where",
            "'nonsense = 1'",
            "needs the column 'nonsense', which sales.csv",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_line(run, sales, tmp_path, monkeypatch, words, option, value, rule):
    ac.as_tensor(np.ones((2, 2), dtype=int)).save(tmp_path / "y.npz")
    monkeypatch.chdir(tmp_path)
    for command, more in (("info", ()), ("tensor", ("--out", "out.npz"))):
        result = run(command, *words, *more)
        assert_refused(result, option, value, rule)
        assert result[1] == ""
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.slow
def test_a_run_is_not_data_and_options_of_events_are_not_ignored_for_it(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("fit", "sales.csv", "--modes", "store,product", "--budget", 2, "--out", "run.zarr", *QUICK)
    rule = "must be data, and this is a run (see allocore info and allocore resume)"
    assert_refused(run("fit", "run.zarr", "--budget", 2), "DATA", "'run.zarr'", rule)
    rule = "applies only to tables of events, and run.zarr is a run"
    assert_refused(run("info", "run.zarr", "--freq", "month"), "--freq", "'month'", rule)
    (tmp_path / "run.zarr" / "sweep_stats" / "moved" / "0.0").unlink()
    assert run("info", "run.zarr")[0] == 2
    told = allocore(tmp_path, "info", "run.zarr", "--on-error", "drop")  # pytest would take its warning for an error
    assert (told.returncode, told.stderr.count("some statistics (moved) are lost")) == (0, 1)


def test_what_exists_is_not_written_over(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.npz").write_text("precious")
    result = run("tensor", "sales.csv", "--modes", "store,product", "--out", "y.npz")
    assert_refused(result, "--out", "'y.npz'", "must be a path that does not exist yet")
    assert (tmp_path / "y.npz").read_text() == "precious"


@pytest.mark.filterwarnings("default::UserWarning")  # the last week is incomplete
def test_more_events_become_a_tensor_like_the_one_before(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    modes = ("--modes", "store,product", "--time", "sold", "--freq", "week")
    assert run("tensor", "sales.csv", *modes, "--out", "old.npz")[0] == 0
    sales[sales["store"] != "South"].assign(store="East").head(20).to_csv("east.csv", index=False)
    sales[["product", "sold", "store"]].tail(20).to_csv("new.csv", index=False)
    code, told, err = run("tensor", "new.csv", "--like", "old.npz", "--out", "new.npz")
    assert (code, err.count("\n")) == (0, 1)
    old, new = ac.load_tensor("old.npz"), ac.load_tensor("new.npz")
    with warned("incomplete-periods"):
        assert new == ac.read_events("new.csv", like=old)
    assert new.labels[:2] == old.labels[:2]
    error = error_of(run("tensor", "east.csv", "--like", "old.npz", "--out", "east.npz", "--json"))
    assert (error["option"], error["value"]) == ("DATA", "east.csv")
    assert all(piece in error["rule"] for piece in ("`like`", "'East' (20 rows)", "`new_labels`"))
    assert all(option in error["sentence"] for option in ("--like", "--new-labels"))
    code, told, _ = run("tensor", "east.csv", "--like", "old.npz", "--new-labels", "append", "--out", "east.npz")
    assert code == 0
    assert "new in store, appended" in told
    assert ac.load_tensor("east.npz").labels[0] == (*old.labels[0], "East")


def test_periods_that_were_not_observed_are_missing(run, sales, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sales[~sales["sold"].str.startswith("2024-05")].to_csv("gap.csv", index=False)
    modes = ("--modes", "store,product", "--time", "sold")
    code, told, _ = run("info", "gap.csv", *modes)
    assert code == 0
    assert "periods without events 2024-05" in as_words(told)
    unobserved = ("--unobserved", "2024-05,2024-07")
    code, told, err = run(
        "fit", "gap.csv", *modes, *unobserved, "--budget", 2, "--out", "run.zarr", *QUICK, "--chains", 1
    )
    assert (code, err) == (0, "")
    assert "periods without events" not in told
    expected = ac.read_events("gap.csv", modes=["store", "product"], time="sold", unobserved=["2024-05", "2024-07"])
    assert ac.open_run("run.zarr").tensor == expected
    assert list(expected.missing) == [(None, None, 4), (None, None, 6)]


@pytest.mark.parametrize("option", [("--unobserved", "2024-05"), ("--like", "y.npz"), ("--new-labels", "drop")])
def test_options_for_events_are_refused_for_a_tensor(run, data, option):
    value = "['2024-05']" if option[0] == "--unobserved" else repr(option[1])
    assert_refused(run("info", data, *option), option[0], value, f"and {data} is a tensor")


def in_parts(sales, folder):
    """The table in three files."""
    for number, part in enumerate(np.array_split(sales.index, 3)):
        sales.loc[part].to_csv(folder / f"part{number}.csv", index=False)
    return [folder / f"part{number}.csv" for number in range(3)]


@parametrize_few("command", ["info", "tensor", "fit", "select-budget"])
def test_several_files_are_read_together_as_a_shell_gives_them(run, sales, tmp_path, command):
    files = in_parts(sales, tmp_path)
    options = {
        "info": [],
        "tensor": ["--out", tmp_path / "y.npz"],
        "fit": ["--budget", 2, *QUICK],
        "select-budget": ["--budgets", "2", "--splits", 2, "--hold-out", 0.1, "--jobs", 1, *QUICK],
    }[command]
    code, out, _ = run(command, *files, "--modes", "store,product,week", *options)
    assert code == 0
    assert "300 from 3 files" in as_words(out)


@pytest.mark.slow
def test_fold_in_and_compare_read_several_files(run, sales, tmp_path):
    files, modes = in_parts(sales, tmp_path), ("--modes", "store,product,week")
    run("fit", tmp_path / "sales.csv", *modes, "--budget", 2, "--out", tmp_path / "run.zarr", *QUICK)
    code, out, _ = run("fold-in", tmp_path / "run.zarr", *files, *modes, "--mode", "store")
    assert code == 0
    assert "300 from 3 files" in as_words(out)
    few = ("--models", "cp", "--budgets", 2, "--splits", 1, "--hold-out", 0.1, "--jobs", 1)
    code, out, _ = run("compare", *files, *modes, *few, "--out", tmp_path / "comparison", *QUICK)
    assert code == 0
    assert "300 from 3 files" in as_words(out)


def test_a_tensor_must_be_given_alone(run, data, sales, tmp_path):
    for words in (["info", data, tmp_path / "sales.csv"], ["fit", tmp_path / "sales.csv", data, "--budget", 2]):
        paths = [str(word) for word in words if "/" in str(word)]
        name = "DATA|RUN" if words[0] == "info" else "DATA"
        rule = f"must be one tensor or any number of tables of events, and {data} is a tensor"
        assert_refused(run(*words), name, str(paths), rule)


def test_info_describes_one_run_at_a_time(run, stored_run):
    paths = [str(stored_run), str(stored_run)]
    assert_refused(run("info", *paths), "DATA|RUN", str(paths), f"and {stored_run} is a run")


def test_info_names_the_heaviest_labels_once(run, sales, tmp_path):
    code, out, _ = run("info", tmp_path / "sales.csv", "--modes", "store,product,week")
    assert code == 0
    heaviest = sales["store"].value_counts().index[0]
    assert out.count(f"{heaviest} (") == 1


def test_spaces_after_commas_are_no_part_of_a_column(run, tmp_path):
    (tmp_path / "t.csv").write_text("who,what,kind\nx,p,sale\ny,q,gift\n")
    code, out, _ = run("info", tmp_path / "t.csv", "--modes", "who, what")
    assert code == 0
    assert "CountTensor: 2 x 2 (who, what)" in as_words(out)


@pytest.mark.parametrize("where", ["kind = sale", 'kind = "sale"'])
def test_a_text_without_single_quotes_is_told(run, tmp_path, where):
    (tmp_path / "t.csv").write_text("who,what,kind\nx,p,sale\ny,q,gift\n")
    result = run("info", tmp_path / "t.csv", "--modes", "who,what", "--where", where)
    rule = "does not have; a text must be in single quotes; its columns are who, what, kind"
    assert_refused(result, "--where", repr(where), rule)


def test_advice_in_a_report_names_the_option(run, tmp_path):
    (tmp_path / "t.csv").write_text("who,day\nx,2020-01-05\ny,2020-03-05\n")
    _, out, _ = run("info", tmp_path / "t.csv", "--modes", "who", "--time", "day", "--freq", "month")
    assert "--unobserved" in out


def test_notes_on_events_name_options_and_leave_names_of_modes_alone(run, tmp_path, monkeypatch):
    """Modes may be called like arguments of Python: here source and time."""
    monkeypatch.chdir(tmp_path)
    days = pd.date_range("2019-01-01", periods=59, freq="D").strftime("%Y-%m-%d")
    states = [f"state {place % 8}" for place in range(60)]
    events = pd.DataFrame({"source": states[:-1], "target": states[1:], "time": days, "my day": days})
    events.to_csv("events.csv", index=False)

    def notes(modes, *options):
        """What info says of the events, and the kinds of the findings behind it."""
        _, told, _ = run("info", "events.csv", "--modes", ",".join(modes), *options)
        time = {"time": options[1]} if options else {}
        report = ac.read_events("events.csv", modes=modes, **time).report
        return as_words(told), {each.kind for each in report.findings}

    told, kinds = notes(["source", "target", "time"])
    assert kinds >= {"labels-in-common", "dates-as-labels"}, kinds
    assert {"--shared-modes", "--time", "--freq"} <= set(re.findall(r"--[a-z-]+", told))
    assert "source and target" in told
    assert "--time to 'time'" in told
    assert "`" not in told
    told, _ = notes(["source", "my day"])
    assert "--time to 'my day'" in told
    told, kinds = notes(["source", "target"], "--time", "time")
    assert "dates-as-labels" not in kinds
    assert "--time" not in told


def test_an_error_about_absent_modes_can_be_typed(run, sales, tmp_path):
    error = error_of(run("info", tmp_path / "sales.csv", "--json"))
    assert (error["option"], error["value"]) == ("--modes", None)
    assert error["sentence"].endswith(" --modes store,product,sold --time week")


def test_a_table_without_a_header_is_read_with_a_flag(run, tmp_path):
    (tmp_path / "e.csv").write_text("2024-01-03,Chad,Mali\n2024-01-04,Mali,Chad\n")
    assert "--no-header" in error_of(run("info", tmp_path / "e.csv", "--json"))["sentence"]
    words = ("--no-header", "--modes", "column_2,column_3", "--time", "column_1")
    code, out, err = run("info", tmp_path / "e.csv", *words)
    assert (code, err) == (0, "")
    assert "rows read 2 from 1 file" in as_words(out)


@pytest.mark.filterwarnings("default::UserWarning")
def test_an_incomplete_period_is_said_at_once_and_dropped_on_request(run, sales, tmp_path):
    sales[sales["sold"] < "2024-09-21"].to_csv(tmp_path / "cut.csv", index=False)
    words = ("info", tmp_path / "cut.csv", "--modes", "store,product", "--time", "sold")
    code, out, err = run(*words)
    assert (code, err.count("\n"), "2024-09 (20 of 30 days observed)" in err) == (0, 1, True)
    assert "--incomplete drop" in as_words(out)
    code, out, err = run(*words, "--incomplete", "drop")
    assert (code, err) == (0, "")
    assert "3 x 3 x 8 (store, product, sold)" in as_words(out)


def test_undirected_ties_are_read_from_a_table_and_from_a_tensor(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = np.random.default_rng(2).choice(["Ada", "Max", "Eve", "Bo"], (2, 80))
    contacts = pd.DataFrame({"one": one, "other": other})
    contacts.to_csv("contacts.csv", index=False)
    ends = ("--undirected", "one,other")
    assert run("tensor", "contacts.csv", "--modes", "one,other", *ends, "--out", "pairs.npz")[0] == 0
    pairs = ac.load_tensor("pairs.npz")
    assert pairs == ac.read_events(contacts, modes=["one", "other"], undirected=["one", "other"])
    ac.read_events(contacts, modes=["one", "other"], shared_modes=["one", "other"]).save("directed.npz")
    assert run("tensor", "directed.npz", *ends, "--out", "same.npz")[0] == 0
    assert ac.load_tensor("same.npz") == pairs
    code, out, _ = run("info", "pairs.npz", "--json")
    assert code == 0
    assert json.loads(out)["data"]["undirected"] == ["one", "other"]
    assert_refused(run("info", "directed.npz", "--undirected", "one,third"), "--undirected", "'third'")
