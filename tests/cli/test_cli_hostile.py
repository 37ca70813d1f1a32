"""Hostile input on the command line: one error and exit code 2, whatever a file holds; no traceback, no hang."""

import errno
import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import allocore as ac
from support.command_line import error_of
from support.errors import refused


def npy(kind, shape):
    text = repr({"descr": kind, "fortran_order": False, "shape": shape}).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def own_npz(path, header):
    parts = {"coords": np.eye(2, dtype=int), "counts": np.array([1, 2]), "shape": np.array([2, 2])}
    parts |= {"missing": np.zeros((0, 2), dtype=int), "header": np.frombuffer(header, dtype=np.uint8)}
    np.savez(path, format=np.array("allocore.CountTensor/1"), **parts)
    return path.read_bytes()


def subject(error):
    """What an error is about: the option as it is typed, and its value."""
    assert error["kind"] == "InputError", error
    return error["option"], error["value"]


EVENTS = ["--modes", "a,b"]
LIMIT = "1,048,576"
REFUSED = {  # a file, what it holds, and what the rule names
    "a name of a column that is too long": ("t.csv", lambda: b"a," + b"b" * 200_000 + b"\n1,2\n", "line 1"),
    "JSON of deep lists in place of a table": ("t.jsonl", lambda: b"[" * 100_000, "JSON"),
    "gzip that is no gzip": ("t.csv.gz", lambda: b"\x1f\x8b\x08garbage", ""),
    "a line of a tensor that is too long": ("t.tns", lambda: b"1 " * 1_000_000, LIMIT),
    "a compressed line that is far too long": (
        "t.tns.gz", lambda: gzip.compress(b"1 1 " + b"1" * 30_000_000, compresslevel=1), LIMIT
    ),
    "an array larger than its file": ("t.npy", lambda: npy("<i8", (10**6, 10**7)), "80,000,000,000,000"),
    "an array larger than any": ("t.npy", lambda: npy("<i8", (2**40, 2**40)), f"{8 * 2**80:,}"),
    "an array of negative length": ("t.npy", lambda: npy("<i8", (-1, 2)), "(-1, 2)"),
    "an array of objects": ("t.npy", lambda: npy("|O", (2, 2)) + b"\0" * 32, "objects"),
    "a header of brackets": ("t.npy", lambda: b"\x93NUMPY\x01\x00\x60\x09" + b"(" * 2399 + b"\n", ".npy"),
    "a Parquet file that is none": ("t.parquet", lambda: b"PAR1" + b"\0" * 100 + b"PAR1", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_cannot_be_read_get_one_error(run, tmp_path, name):
    file, content, named = REFUSED[name]
    (tmp_path / file).write_bytes(content())
    options = [] if file.startswith(("t.tns", "t.npy")) else EVENTS
    error = error_of(run("info", tmp_path / file, *options, "--json"))
    assert subject(error) == ("DATA", str(tmp_path / file))
    assert named in error["rule"]
    assert "line 1" in error["rule"] or named != LIMIT


def test_a_nul_in_a_label_is_shown_as_text(run, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1\0x,2\n")
    error = error_of(run("info", tmp_path / "t.csv", *EVENTS, "--json"))
    assert subject(error) == ("labels", "1\0x")
    assert "\0" not in error["sentence"]


@pytest.mark.parametrize(
    "header", [b"[" * 100_000, b"[1]", b'{"mode_names": 5, "labels": 7}', b"\xff\xfe", b"1e9", b"{}"]
)
def test_a_damaged_header_of_a_saved_tensor_gets_one_error(run, tmp_path, header):
    own_npz(tmp_path / "t.npz", header)
    error = error_of(run("info", tmp_path / "t.npz", "--json"))
    assert subject(error) == ("DATA", str(tmp_path / "t.npz"))
    assert "damaged" in error["rule"]


@pytest.mark.parametrize(
    "shape", [np.array(5), np.array(["a", "b"]), np.array([[2, 2]]), np.array([2.5, 2]), np.array([1])]
)
def test_a_damaged_shape_gets_one_error(run, tmp_path, shape):
    np.savez(tmp_path / "t.npz", coords=np.eye(2, dtype=int), counts=np.array([1, 2]), shape=shape)
    error = error_of(run("info", tmp_path / "t.npz", "--json"))
    assert subject(error) == ("DATA", str(tmp_path / "t.npz"))
    assert "shape" in error["rule"]


def test_the_largest_index_there_is_can_be_read(run, tmp_path):
    (tmp_path / "t.tns").write_text("1 1 1\n9223372036854775807 2 3\n")
    code, out, err = run("info", tmp_path / "t.tns")
    assert (code, err) == (0, "")
    assert "9223372036854775806 (3)" in out
    Y = ac.as_tensor(tmp_path / "t.tns")
    with refused("memory", rule="'mode_0'"):
        Y.mode_totals(0)
    for model in (["allocore", "--budget", "2"], ["cp", "--budget", "2"], ["nntuck", "--core-shape", "2x2"]):
        error = error_of(run("fit", tmp_path / "t.tns", "--model", *model, "--json"))
        assert "memory" in error["argument"] + error["rule"], error


@pytest.mark.parametrize("end", ["\r", "\r\n"], ids=["mac", "windows"])
def test_line_ends_of_other_systems_end_the_lines_of_a_tensor(tmp_path, end):
    (tmp_path / "t.tns").write_bytes(f"1 1 1{end}2 2 3{end}".encode())
    assert ac.as_tensor(tmp_path / "t.tns") == ac.as_tensor(np.array([[1, 0], [0, 3]]))


@pytest.mark.parametrize("suffix", ["csv", "tns"])
def test_the_home_of_an_unknown_user_gets_one_error(run, suffix):
    path = f"~nosuchuser/x.{suffix}"
    assert subject(error_of(run("info", path, *(EVENTS if suffix == "csv" else []), "--json"))) == ("DATA", path)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_that_are_not_utf_8_are_refused_and_shown_as_text(run, tmp_path, suffix):
    path = os.fsdecode(bytes(tmp_path) + b"/\xff\x1b[31m." + suffix.encode())
    with open(path, "w") as file:
        file.write("a,b\n1,2\n")
    error = error_of(run("info", path, *EVENTS, "--json"))
    assert error["value"] == path
    assert "\\udcff\\x1b[31m" in error["sentence"]
    assert "\x1b" not in error["sentence"]
    (tmp_path / "ok.tns").write_text("1 1 1\n2 2 2\n")
    before = set(os.listdir(bytes(tmp_path)))
    out = os.fsdecode(bytes(tmp_path) + b"/\xfe.parquet")
    assert error_of(run("tensor", tmp_path / "ok.tns", "--out", out, "--json"))["option"] == "--out"
    assert set(os.listdir(bytes(tmp_path))) == before


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "jsonl", "npz", "npy", "tns", "tns.gz", "parquet"])
@pytest.mark.parametrize("what", ["fifo", "zero"])
def test_pipes_and_devices_are_refused_at_once(run, tmp_path, what, suffix):
    path = tmp_path / f"endless.{suffix}"
    os.mkfifo(path) if what == "fifo" else path.symlink_to("/dev/zero")
    error = error_of(run("info", path, *(EVENTS if suffix[:3] in ("csv", "jso") else []), "--json"))
    assert subject(error) == ("DATA", str(path))
    assert "pipe" in error["rule"]


def test_cells_to_predict_are_not_read_from_a_pipe(run, tmp_path):
    from allocore.tensor.files import read_frame

    os.mkfifo(tmp_path / "cells.csv")
    with refused("cells", rule="pipe"):
        read_frame(tmp_path / "cells.csv", "cells")


@pytest.mark.parametrize(
    "options",
    [
        ("--budget", "3", "--threads", "100000"),
        ("--budget", "1000000000000"),
        ("--budget", "99999999999999999999999"),
        ("--budget", "3", "--core-shape", "99999999999999999999x2"),
        ("--model", "cp", "--budget", "9999999999"),
        ("--budget", "3", "--draws", "9999999999999999999"),
        ("--budget", "3", "--chains", "9999999999999999999"),
    ],
    ids=" ".join,
)
def test_more_than_the_machine_has_gets_one_error(run, tmp_path, options):
    (tmp_path / "t.tns").write_text("1 1 1\n2 2 2\n")
    error = error_of(run("fit", tmp_path / "t.tns", *options, "--json"))
    option, value = subject(error)
    if option == "--budget":  # what needs the memory, whatever made it so much
        assert ("memory" in error["rule"]) == ("cp" not in options)
    else:
        assert (option, str(value)) == options[-2:]


def test_labels_never_send_commands_to_a_terminal(run, tmp_path):
    text = "who,what\n\x1b[2Jgone,\u202eevil\nx\x07,y\x9b31m\n"
    (tmp_path / "t.csv").write_text(text)
    code, out, err = run("info", tmp_path / "t.csv", "--modes", "who,what")
    assert code == 0
    assert "\\x1b[2Jgone" in out
    assert "\\u202eevil" in out
    assert not set("\x1b\x07\x9b\u202e") & set(out + err)
    Y = ac.read_events(tmp_path / "t.csv", modes=["who", "what"])
    assert "\x1b" not in str(Y.report) + repr(Y)
    assert "\x1b[2Jgone" in Y.labels[0], "the label itself is as it was"


def test_classes_and_warnings_never_send_commands_to_a_terminal(capsys, monkeypatch):
    from allocore.cli.app import warn

    Y = ac.as_tensor(
        np.array([[5, 0], [0, 7]]), mode_names=["a\x1b[1m", "b"], labels=[["\x1b[31mx", "y"], ["u", "\x9bv"]]
    )
    assert "\x1b" not in repr(Y)
    ac.CP(2, burn_in=2, draws=2, thin=1, seed=0, chains=1).fit(Y).posterior_.show()
    warn("\x1b[31m")
    shown = "".join(capsys.readouterr())
    assert "\\x1b[31mx" in shown
    assert not set("\x1b\x9b") & set(shown)


def test_a_mistake_of_ours_gets_one_sentence_and_its_own_exit_code(run, tmp_path, monkeypatch):
    def broken(path):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(ac, "as_tensor", broken)
    (tmp_path / "t.tns").write_text("1 1 1\n")
    code, out, err = run("info", tmp_path / "t.tns")
    assert (code, out) == (70, "")
    assert err.startswith("allocore: error: ZeroDivisionError: by zero. ")
    assert len(err.splitlines()) == 1
    code, _, err = run("--traceback", "info", tmp_path / "t.tns")
    assert code == 70
    assert "in broken" in err
    assert err.splitlines()[-1].startswith("allocore: error: ")


def limited(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize(
    "name", ["t.parquet", *(pytest.param(name, marks=pytest.mark.slow) for name in ("t.npz", "t.tns", "t.tns.gz"))]
)
def test_a_full_disk_leaves_nothing_half_written(tmp_path, name):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "y.npy", rng.poisson(3.0, (60, 50, 40)))
    (tmp_path / "out").mkdir()
    words = ["tensor", str(tmp_path / "y.npy"), "--out", str(tmp_path / "out" / name)]
    others = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}  # it writes files
    done = subprocess.run(
        [sys.executable, "-m", "allocore.cli", *words],
        capture_output=True,
        text=True,
        preexec_fn=lambda: limited(20_000),
        env={**others, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 2, done.stderr
    assert str(tmp_path / "out" / name) in done.stderr
    assert done.stderr.startswith("allocore: error: ")
    assert done.stderr.count("\n") == 1, "no traceback"
    assert "RUN" not in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["..", ".zgroup", ".", "a\\b", "a\0b", "\ud800"])
def test_names_of_modes_that_no_folder_can_have_are_refused(name):
    with refused("mode_names"):
        ac.as_tensor(np.eye(2, dtype=int), mode_names=[name, "b"])


@pytest.mark.parametrize("label", ["\ud800", "a\0b", "b\0"])
def test_labels_that_no_file_can_hold_are_refused(label):
    with refused("labels", label, "must have no NUL and no lone surrogate in mode 'a'"):
        ac.as_tensor(np.eye(2, dtype=int), mode_names=["a", "b"], labels=[[label, "x"], None])


def written_by(what):
    """A command that writes a file of each kind, with the place of the file."""
    return {
        "report": ["report", "RUN", "--out", "FILE"],
        "table": ["summary", "RUN", "--out", "FILE"],
        "predictions": ["predict", "RUN", "CELLS", "--out", "FILE"],
        "figure": ["check", "RUN", "--draws", "40", "--figure", "FILE"],
        "graph": ["graph", "RUN", "--modes", "who,what", "--out", "FILE"],
        "edges": ["graph", "RUN", "--kind", "classes", "--out", "FILE"],
        "nodes": ["memberships", "RUN", "--mode", "who", "--out", "FILE"],
        "shares": ["memberships", "RUN", "--mode", "who", "--shares", "FILE"],
        "paper": ["table", "RUN", "--out", "FILE"],
        "changes": ["diff", "RUN", "RUN", "--out", "FILE"],
        "draws": ["forecast", "RUN", "--by", "who", "--draws-out", "FILE"],
    }[what]


SUFFIXES = {
    "report": ".html",
    "table": ".csv",
    "predictions": ".csv",
    "figure": ".png",
    "graph": ".graphml",
    "edges": ".tsv",
    "nodes": ".csv",
    "shares": ".parquet",
    "paper": ".tex",
    "changes": ".csv",
    "draws": ".parquet",
}


def words_of(what, run_copy, tmp_path, file):
    cells = tmp_path / "cells.csv"
    cells.write_text("who,what,when\n0,0,2003-01\n")
    places = {"RUN": run_copy, "CELLS": cells, "FILE": file}
    return [places.get(word, word) for word in written_by(what)]


@pytest.mark.parametrize("what", SUFFIXES)
def test_a_pipe_is_not_replaced_by_a_file(run, run_copy, tmp_path, what):
    pipe = tmp_path / f"pipe{SUFFIXES[what]}"
    os.mkfifo(pipe)
    code, _, err = run(*words_of(what, run_copy, tmp_path, pipe))
    assert (code, pipe.is_fifo()) == (2, True), err
    assert str(pipe) in err


@pytest.mark.parametrize("what", SUFFIXES)
def test_the_file_that_cannot_be_written_is_named(run, run_copy, tmp_path, what, monkeypatch):
    def full(old, new):
        if Path(new).is_relative_to(tmp_path):  # kernels may be compiled, and saved elsewhere
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return replace(old, new)

    replace, file = os.replace, tmp_path / f"new{SUFFIXES[what]}"
    words = words_of(what, run_copy, tmp_path, file)
    ac.open_run(run_copy).consensus(progress=False)
    monkeypatch.setattr(os, "replace", full)
    code, _, err = run(*words)
    assert (code, file.exists(), list(tmp_path.glob(".*"))) == (2, False, [])
    assert str(file) in err
    assert os.strerror(errno.ENOSPC) in err
