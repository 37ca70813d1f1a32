"""The demo: what it tells, what it writes to look at, and opening a page."""

import re
import subprocess
import sys
import webbrowser

import pytest

import allocore as ac
from allocore.cli.app import open_page
from support.command_line import as_words, assert_refused


@pytest.fixture
def short_demo(monkeypatch):
    """The demo with few classes and few sweeps."""
    of_flights = ac.AlloCore
    monkeypatch.setattr(ac, "AlloCore", lambda budget, **more: of_flights(4, sweeps=20, chains=4, **more))


@pytest.mark.slow
@pytest.mark.jit
def test_the_demo_tells_the_flights_of_new_york_in_words_and_writes_them_to_look_at(tmp_path):
    words = [sys.executable, "-m", "allocore.cli", "demo"]
    told = subprocess.run(words, capture_output=True, text=True, timeout=1200, cwd=tmp_path)
    assert told.returncode == 0
    slow = r"(8|16|32) chains: |comparing chains: |consensus: |judging cells: |finding classes: "  # if it takes long
    assert all(re.match(slow, line) for line in told.stderr.splitlines()), told.stderr
    words = as_words(told.stdout)
    assert words.startswith("New York flights of 2013. CountTensor: 3 x 105 x 16 x 12 x 20")
    assert "JetBlue Airways" in words
    assert "United Air Lines" in words
    assert "Factors shared by several classes" in words
    assert re.search(r"15 of \d+ classes, consensus of (8|16|32) chains", words)
    assert re.search(r"(8|16|32) chains of \d+ sweeps in \d+ s\.", words)
    assert "demo/flights.html a page to explore in a browser" in words
    assert "demo/classes.png" in words
    page = (tmp_path / "demo" / "flights.html").read_text(encoding="utf-8")
    assert "<title>Flights that left New York in 2013</title>" in page
    assert (tmp_path / "demo" / "classes.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_replaces_its_own_files_in_the_folder_that_is_named_and_opens_its_page(
    run, tmp_path, short_demo, monkeypatch
):
    folder, opened = tmp_path / "new" / "flights", []
    folder.mkdir(parents=True)
    for name in ("classes.png", "flights.html"):
        (folder / name).write_text("of an earlier demo")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    code, out, err = run("demo", "--out", folder, "--open")
    assert (code, err) == (0, "")
    words = as_words(out)
    assert repr(ac.load_flights()) in words
    assert "classes, consensus of 4 chains" in words
    assert re.search(r"4 chains of 20 sweeps in \d+ s\.", words)
    assert "flights.html" in words
    assert sorted(path.name for path in folder.iterdir()) == ["classes.png", "flights.html"]
    page = (folder / "flights.html").read_text(encoding="utf-8")
    assert "<title>Flights that left New York in 2013</title>" in page
    assert (folder / "classes.png").read_bytes().startswith(b"\x89PNG")
    assert opened == [(folder / "flights.html").as_uri()]


def test_a_folder_that_the_demo_cannot_write_to_is_refused_before_it_fits(run, tmp_path, monkeypatch):
    monkeypatch.setattr(ac, "load_flights", lambda: pytest.fail("the flights were read"))
    (tmp_path / "demo").write_text("mine")
    for path in (tmp_path / "demo", tmp_path / "demo" / "below"):
        rule = f"must be a folder, and '{tmp_path / 'demo'}' is a file"
        assert_refused(run("demo", "--out", path), "--out", f"'{path}'", rule)
    assert (tmp_path / "demo").read_text() == "mine"


@pytest.mark.parametrize(("display", "because"), [("", "no desktop"), (":0", "no browser")])
@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a desktop")
def test_a_page_that_cannot_be_opened_is_a_warning_in_one_line(tmp_path, monkeypatch, capsys, display, because):
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    open_page(tmp_path / "report.html")
    err = capsys.readouterr().err
    assert err.startswith("allocore: warning: --open ")
    assert because in err
    assert str(tmp_path / "report.html") in err
    assert err.count("\n") == 1
