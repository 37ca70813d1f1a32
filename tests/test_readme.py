"""Every command and every example of the README runs as it stands there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import allocore as ac

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
QUICK = ["--burn-in", "1", "--draws", "1", "--thin", "1", "--threads", "1"]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.jit
def test_the_python_examples_run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert "classes hold counts" in capsys.readouterr().out
    assert names["tree"]["posterior"].sizes["chain"] == 2
    assert names["Y"].shape == (3, 3, 2)


def commands():
    lines = "\n".join(blocks("sh")).splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [line for line in words if line[:1] == ["allocore"] and line[1] != "demo"]


def test_the_readme_names_commands():
    assert len(commands()) >= 3


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_the_commands_run(command, tmp_path):
    """As written, on a tensor of four modes and with a schedule of one sweep."""
    ac.as_tensor(np.random.default_rng(0).poisson(0.3, (9, 9, 4, 5))).save(tmp_path / "DATA.npz")
    words = ["DATA.npz" if word == "DATA" else word for word in command[1:]]
    quick = QUICK if words[0] == "fit" else []
    run = [sys.executable, "-m", "allocore.cli", *words, *quick]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "CountTensor: 9 x 9 x 4 x 5" in done.stdout


def test_the_make_targets_of_the_readme_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
