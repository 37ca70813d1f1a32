"""Two runs compared byte by byte, and runs that are killed in a process of their own."""

import subprocess
import sys
from pathlib import Path

import allocore as ac
from allocore.storage import run_writer

KILLED = Path(__file__).with_name("killed.py")


def arrays_of(post):
    """All draws of a run, and its trace without the seconds."""
    return [*post.record.draw_arrays, *(post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved"))]


def assert_same(post, other):
    """Check that two runs have the same bytes."""
    for mine, theirs in zip(arrays_of(post), arrays_of(other), strict=True):
        assert mine.shape == theirs.shape
        assert mine.tobytes() == theirs.tobytes()


def save_always(patch):
    """Save after every sweep, given a pytest.MonkeyPatch."""
    patch.setattr(run_writer, "SAVE_INTERVAL", 0.0)
    patch.setattr(run_writer, "SAVE_INTERVAL_FACTOR", 0.0)


def kill_and_resume(folder, what, kills, *more):
    """Kill runs as killed.py says, and check that every kill was survived."""
    told = subprocess.run(
        [sys.executable, KILLED, what, folder, str(kills), "1", *more], capture_output=True, text=True, timeout=1800
    )
    assert told.returncode == 0, told.stderr[-3000:]
    *lines, last = told.stdout.splitlines()
    assert (len(lines), last) == (kills, "all is there")


def assert_same_run(path, post):
    """The run at a path has the specification and, to the byte, the draws of a posterior."""
    written = ac.open_run(path).record
    assert written.spec == post.record.spec
    for one, two in zip(written.draw_arrays, post.record.draw_arrays, strict=True):
        assert one.tobytes() == two.tobytes()
