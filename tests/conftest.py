"""What tests of several folders use."""

import gc
import os
import shutil
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import allocore as ac

# A shell starts what it puts in the background with Ctrl-C ignored, and tests of Ctrl-C would wait for it in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests write many small files and wait until they are on the disk. In memory, where there is room, they need not wait.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# A busy machine breaks no deadline.
settings.register_profile("allocore", deadline=None)
settings.load_profile("allocore")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Examples are in docstrings of the package; a test module is not searched for them."""
    return [each for each in (yield) if type(each) is pytest.Module]


def pytest_collection():
    """Collecting makes many objects and hardly any garbage."""
    gc.disable()


def pytest_collection_modifyitems(items):
    """Tests of tables and tensors come first: one process runs them while the other compiles the kernels."""
    items.sort(key=lambda item: item.path.parent.name not in ("events", "tensor"))


def pytest_collection_finish():
    """Modules and collected tests stay to the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    """Libraries that look for leaks at the end of the process find none."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter):
    """Say it aloud if the golden draws were skipped: then nothing has compared bytes with earlier ones."""
    skipped = [each for each in terminalreporter.getreports("skipped") if "test_golden_draws.py" in each.nodeid]
    if skipped:
        terminalreporter.section("GOLDEN DRAWS WERE NOT COMPARED", sep="!", red=True)
        terminalreporter.line(f"{len(skipped)} tests were skipped. {skipped[0].longrepr[2].removeprefix('Skipped: ')}")
        terminalreporter.line("On a machine with known hashes: python -m pytest tests/test_golden_draws.py")


@pytest.fixture(autouse=True, scope="session")
def briefest_checks():
    """A brief check, as in every report, simulates as few tensors as it may, and none with very many events."""
    from allocore.posterior import check

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "_BRIEF_TENSORS", check.LEAST_TENSORS)
        patch.setattr(check, "_BRIEF_EVENTS", 2_000_000)
        yield


@pytest.fixture(autouse=True)
def ctrl_c_stays_with_pytest():
    """Give Ctrl-C back to pytest after calls of the command line, which lets it end the process."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def run(monkeypatch, capfd):
    """Call the command line with some words; returns exit code, standard output and standard error."""

    from allocore.cli import main

    def call(*words):
        # The command line shows warnings in its own way; the tests get theirs back.
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["allocore", *(str(word) for word in words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def data(tmp_path):
    """A small tensor in a file."""
    Y = ac.as_tensor(np.random.default_rng(5).poisson(1.5, (4, 3, 2)), mode_names=["who", "what", "when"])
    Y.save(tmp_path / "y.npz")
    return tmp_path / "y.npz"
