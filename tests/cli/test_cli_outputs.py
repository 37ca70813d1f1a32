"""Paths on the command line: what cannot be written or read is refused before the long work."""

import os

import pytest

import allocore as ac
from support.command_line import assert_refused, error_of


@pytest.fixture
def cells(tmp_path):
    """A table of cells to predict."""
    (tmp_path / "cells.csv").write_text("who\n0\n")
    return tmp_path / "cells.csv"


OUTPUTS = [
    ("predict RUN CELLS", "--out", "x.csv"),
    ("evaluate RUN", "--out", "x.csv"),
    ("check RUN", "--out", "x.csv"),
    ("check RUN", "--labels", "x.csv"),
    ("check RUN", "--figure", "x.png"),
    ("forecast RUN", "--out", "x.csv"),
    ("forecast RUN", "--draws-out", "x.csv"),
    ("forecast RUN", "--figure", "x.png"),
    ("summary RUN", "--profiles", "x.csv"),
    ("tensor DATA", "--out", "x.npz"),
    ("fit DATA --budget 2", "--out", "x.zarr"),
    ("fold-in RUN DATA", "--out", "x.zarr"),
]


@pytest.mark.parametrize(("words", "option", "name"), OUTPUTS, ids=lambda each: each)
def test_an_output_whose_folder_does_not_exist_is_refused_before_the_work(
    run, stored_run, cells, data, tmp_path, monkeypatch, words, option, name
):
    for work in ("open_run", "read_events", "as_tensor"):
        monkeypatch.setattr(ac, work, lambda *_, **__: pytest.fail("the work had begun"))
    places = {"RUN": stored_run, "CELLS": cells, "DATA": data}
    path = tmp_path / "nowhere" / name
    result = run(*(places.get(word, word) for word in words.split()), option, path)
    assert_refused(result, option, f"'{path}'", "must be in a folder that exists")
    assert not path.parent.exists()


@pytest.mark.parametrize(("command", "name"), [("figures", "figures"), ("report", "page.html")])
def test_folders_that_cannot_be_made_are_refused_before_the_work(run, stored_run, tmp_path, monkeypatch, command, name):
    monkeypatch.setattr(ac, "open_run", lambda *_, **__: pytest.fail("the work had begun"))
    (tmp_path / "file").write_text("mine")
    path = tmp_path / "file" / name
    assert_refused(
        run(command, stored_run, "--out", path), "--out", f"'{path}'", f"a folder, and '{tmp_path / 'file'}' is a file"
    )
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_in_the_place_of_a_page_is_refused(run, stored_run, tmp_path):
    (tmp_path / "page.html").mkdir()
    path = tmp_path / "page.html"
    assert_refused(run("report", stored_run, "--out", path), "--out", f"'{path}'", "must be a file, not a folder")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to_is_refused(run, stored_run, cells, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    error = error_of(run("predict", stored_run, cells, "--out", tmp_path / "locked" / "x.csv", "--json"))
    assert (error["kind"], error["path"]) == ("StoreError", str(tmp_path / "locked"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "this file does not exist"),
        ("{not json", "this file is not JSON"),
        ('{"id": 1}', "this file has no address of a scheduler"),
        ("[]", "this file has no address of a scheduler"),
    ],
)
@pytest.mark.parametrize("command", [("fit", "--budget", 2), ("select-budget",)], ids=str)
def test_a_scheduler_file_that_is_none_is_refused_before_the_data_are_read(run, tmp_path, content, told, command):
    if content is not None:
        (tmp_path / "file.json").write_text(content)
    words = (command[0], tmp_path / "no data.npz", *command[1:], "--cluster", tmp_path / "file.json")
    assert_refused(run(*words), "--cluster", f"'{tmp_path / 'file.json'}'", f"must be a scheduler file, and {told}")


@pytest.mark.parametrize("address", ["local:0", "local:two", "local:"])
@pytest.mark.parametrize("command", [("fit", "--budget", 2), ("select-budget",)], ids=str)
def test_a_local_cluster_of_no_processes_is_refused_before_the_data_are_read(run, tmp_path, command, address):
    words = (command[0], tmp_path / "no data.npz", *command[1:], "--cluster", address)
    assert_refused(run(*words), "--cluster", f"'{address}'", "must have a whole number of at least 1 after local:")
