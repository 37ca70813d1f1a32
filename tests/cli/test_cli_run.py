"""The commands that look at a run: summary, figures, report; of runs that are whole, short, empty or damaged."""

import shutil
import signal
import webbrowser

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.gibbs.sweep import sweep
from allocore.run import chains
from support.command_line import assert_refused, error_of


@pytest.fixture(scope="module")
def run_with_odd_labels(tmp_path_factory):
    """A small run on disk, with labels that try to break out."""
    labels = [["Ada", "<b>", "$x$ & co", "مرحبا"], ["north", "south", "[bold]"], [f"2003-{m:02d}" for m in range(1, 7)]]
    Y = ac.as_tensor(
        np.random.default_rng(1).poisson(1.0, (4, 3, 6)), mode_names=["who", "where", "when"], labels=labels
    )
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    ac.CP(3, burn_in=4, draws=6, thin=1, chains=2, seed=1, store=path, progress=False).fit(Y)
    return path


def test_a_summary_tells_the_classes_in_words_and_writes_them_as_a_table(run, run_with_odd_labels, tmp_path):
    code, out, err = run("summary", run_with_odd_labels, "--rows", 2, "--out", tmp_path / "classes.csv")
    assert (code, err) == (0, "")
    found = ac.open_run(run_with_odd_labels).consensus()
    assert out.splitlines()[0].removeprefix("2 of ") == f"{len(found.share)} classes, consensus of 2 chains, 12 draws"
    assert " ".join(found.sentences) in " ".join(out.split())
    table = pd.read_csv(tmp_path / "classes.csv", index_col="class")
    assert table.index.tolist() == found.numbers.tolist()
    assert table["share"].tolist() == pytest.approx(found.share.tolist())
    assert {"name", "share_low", "support", "who_top", "when_peak", "where_shared"} <= set(table.columns)
    assert "(consensus of 2 chains, 12 draws) written to" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--draw", "best"], {"draw": "best"}),
        (["--draw", "2", "--chain", "1"], {"draw": 2, "chain": 1}),
        (["--draw", "-1"], {"draw": -1}),
        (["--chain", "1"], {"chain": 1}),
    ],
)
def test_a_summary_of_one_draw_names_it_and_writes_its_table(run, run_with_odd_labels, tmp_path, words, asked):
    code, out, err = run("summary", run_with_odd_labels, *words, "--out", tmp_path / "draw.csv")
    assert (code, err) == (0, "")
    summary = ac.open_run(run_with_odd_labels).class_summary(**asked)
    assert out.splitlines()[0] == f"{len(summary.share_C)} classes, {summary.source}"
    assert " ".join(summary.sentences) in " ".join(out.split())
    table = pd.read_csv(tmp_path / "draw.csv")
    assert table["share"].tolist() == pytest.approx(summary.share_C.tolist())
    assert table["cumulative"].iloc[-1] == pytest.approx(1.0)


def test_a_summary_of_one_class_has_all_of_it(run, run_with_odd_labels):
    code, out, err = run("summary", run_with_odd_labels, "--class", 0, "--chain", 1, "--draw", 2)
    assert (code, err) == (0, "")
    assert out.startswith("Class 0: ")
    assert "draw 2 of chain 1" in out
    assert "of the core" in out
    assert "peaks: " in out or "evenly over" in out
    assert "Top cells, summed over when" in out
    code, out, err = run("summary", run_with_odd_labels, "--class", 0)
    assert (code, err) == (0, "")
    assert f"Class 0: {ac.open_run(run_with_odd_labels).consensus().names[0]}" in out
    assert "consensus of 2 chains, 12 draws" in out


def test_a_report_is_one_page_that_can_be_opened(run, run_with_odd_labels, tmp_path, monkeypatch):
    path, opened = tmp_path / "report.html", []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    code, out, err = run("report", run_with_odd_labels, "--out", path, "--title", "<Ada>", "--surprises", 5, "--open")
    assert (code, err) == (0, "")
    assert str(path) in "".join(out.split("\n"))
    assert "<title>&lt;Ada&gt;</title>" in path.read_text(encoding="utf-8")
    assert opened == [path.as_uri()]


@pytest.mark.parametrize(
    ("words", "option", "value", "rule"),
    [
        (["summary", "RUN", "--class", "7"], "--class", "7", "must be from 0 to 1: there are 2 classes"),
        (["summary", "RUN", "--draw", "worst"], "--draw", "'worst'", "must be a whole number or best"),
        (["figures", "RUN", "--out", "OUT", "--draw", "1.5"], "--draw", "'1.5'", "must be a whole number or best"),
        (["report", "RUN", "--out", "OUT/r.html", "--draw", "last"], "--draw", "'last'", "must be a whole number or"),
        (["summary", "RUN", "--draw", "99"], "--draw", "99", "must be from -6 to 5: there are 6"),
        (["summary", "RUN", "--rows", "0"], "--rows", "0", "must be a whole number of at least 1"),
        (["summary", "nowhere.zarr"], "RUN", "'nowhere.zarr'", "must be the folder of a run; this does not exist"),
        (
            ["figures", "RUN", "--out", "OUT", "--formats", "gif"],
            "--formats",
            "('gif',)",
            "one or more of png, pdf, svg",
        ),
        (["figures", "RUN", "--out", "RUN/.zattrs"], "--out", "'RUN/.zattrs'", "must be a folder, and "),
        (["report", "RUN", "--out", "OUT/report.pdf"], "--out", "'OUT/report.pdf'", "must end in .html"),
        (["report", "RUN", "--out", "OUT/r.html", "--surprises", "-1"], "--surprises", "-1", "of at least 0"),
        (["report", "RUN", "--out", "OUT/r.html", "--chain", "5"], "--chain", "5", "must be from -2 to 1: there are 2"),
    ],
)
def test_a_mistake_gets_one_line_and_nothing_is_written(run, run_with_odd_labels, tmp_path, words, option, value, rule):
    folder = tmp_path / "out"
    *words, value = (
        word.replace("RUN", str(run_with_odd_labels)).replace("OUT", str(folder)) for word in (*words, value)
    )
    assert_refused(run(*words), option, value, rule)
    assert not folder.exists() or not any(folder.iterdir())


def test_a_run_that_was_stopped_in_its_burn_in_is_told_of_in_one_line(run, tmp_path, monkeypatch):
    def stopped(*arguments):
        signal.raise_signal(signal.SIGTERM)
        return sweep(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(chains, "sweep", stopped)
        with pytest.raises(KeyboardInterrupt, match="before the first draw"):
            ac.AlloCore(2, chains=1, store=tmp_path / "run.zarr", progress=False).fit(np.ones((3, 3), dtype=int))
    for words in (["summary", tmp_path / "run.zarr"], ["report", tmp_path / "run.zarr", "--out", tmp_path / "r.html"]):
        assert_refused(run(*words), "RUN", None, "no draws")
    assert not (tmp_path / "r.html").exists()


@pytest.mark.filterwarnings("ignore:.*is damaged")
def test_a_damaged_run_is_refused_and_read_without_its_damage_where_wanted(run, run_with_odd_labels, tmp_path):
    copy = tmp_path / "copy.zarr"
    shutil.copytree(run_with_odd_labels, copy)
    chunk = max((copy / "posterior" / "core_values").glob("[0-9]*"), key=lambda path: path.name)
    chunk.write_bytes(chunk.read_bytes()[:-3])
    error = error_of(run("report", copy, "--out", tmp_path / "r.html", "--json"))
    assert (error["kind"], error["path"]) == ("StoreError", str(copy))
    assert not (tmp_path / "r.html").exists()
    # The one chunk that is damaged held all draws.
    assert_refused(run("report", copy, "--out", tmp_path / "r.html", "--on-error", "drop"), "RUN", None, "no draws")
