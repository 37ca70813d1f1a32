"""File systems without locks, without syncing of folders, and runs that are copied with what was left in them."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import allocore as ac
from allocore._io import ProcessLock
from allocore.storage.run_writer import ZarrStore, is_being_written
from support.errors import refused_file
from support.findings import warned

TENSOR = ac.as_tensor(np.arange(1, 7).reshape(2, 3))
SETTINGS = {"burn_in": 0, "draws": 3, "thin": 1, "seed": 1, "progress": False, "chains": 1}
NO_LOCKS = [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS]
pytestmark = pytest.mark.filterwarnings("ignore:.* is on a file system without locks")


@pytest.fixture(
    params=[NO_LOCKS[0], *(pytest.param(each, marks=pytest.mark.slow) for each in NO_LOCKS[1:])],
    ids=[errno.errorcode[each] for each in NO_LOCKS],
)
def no_flock(request, monkeypatch):
    """A file system that has no locks."""

    def flock(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_run_is_written_read_and_continued_where_there_are_no_locks(tmp_path, no_flock):
    path = tmp_path / "run.zarr"
    with warned("no-file-locks", folder=str(path), file="lock.owner"):
        ac.CP(2, store=path, **SETTINGS).fit(TENSOR)
    assert not (path / "lock.owner").exists()
    assert ac.CP.resume(path, draws=4, progress=False).posterior_.core_values.shape == (1, 4, 2)
    post = ac.open_run(path)
    post.consensus(progress=False)
    assert (path / "consensus.npz").exists()


def test_one_process_at_a_time_writes_where_there_are_no_locks(tmp_path, no_flock):
    path = tmp_path / "run.zarr"
    ac.CP(2, store=path, **SETTINGS).fit(TENSOR)
    with ZarrStore.reopen(path):
        assert is_being_written(path)
        with refused_file(path, f"(process {os.getpid()} on "):
            ac.CP.resume(path, draws=4, progress=False)
        ac.open_run(path)
    assert not is_being_written(path)
    assert ac.CP.resume(path, draws=4, progress=False).draws == 4


def owner_of(path, **changes):
    """The owner's file of a lock that is held, with some changes."""
    lock = ProcessLock(path / "lock").acquire()
    claim = json.loads((path / "lock.owner").read_text())
    lock.release()
    (path / "lock.owner").write_text(json.dumps({**claim, **changes}))


def test_the_lock_of_a_process_that_has_ended_is_stale_and_that_of_another_host_is_not(tmp_path, no_flock):
    path = tmp_path / "run.zarr"
    ac.CP(2, store=path, **SETTINGS).fit(TENSOR)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    owner_of(path, pid=ended.pid, started="1")
    assert not is_being_written(path)
    owner_of(path, started="another process with the same number")
    ac.CP.resume(path, draws=4, progress=False)
    owner_of(path, host="elsewhere", pid=1, folder=[1, 2])  # devices may have other numbers there
    with refused_file(path, "process 1 on elsewhere"):
        ac.CP.resume(path, draws=5, progress=False)
    (path / "lock.owner").write_text("")
    assert is_being_written(path), "perhaps it is being written"


def test_a_run_that_was_copied_while_it_was_written_opens_and_goes_on(tmp_path, no_flock):
    path, copy = tmp_path / "run.zarr", tmp_path / "copy.zarr"
    ac.CP(2, store=path, **SETTINGS).fit(TENSOR)
    with ZarrStore.reopen(path):
        shutil.copytree(path, copy)
        assert (copy / "lock.owner").exists()
        assert ac.open_run(copy).core_values.shape[1] == 3
        assert ac.CP.resume(copy, draws=4, progress=False).draws == 4


def test_a_copied_run_with_a_lock_file_left_in_it_opens_and_goes_on(tmp_path):
    path, copy = tmp_path / "run.zarr", tmp_path / "copy.zarr"
    ac.CP(2, store=path, **SETTINGS).fit(TENSOR)
    with ZarrStore.reopen(path):
        shutil.copytree(path, copy)
        (copy / "lock").write_text("left over")
        assert ac.open_run(copy).core_values.shape[1] == 3
        assert ac.CP.resume(copy, draws=4, progress=False).draws == 4


def test_many_processes_that_take_a_lock_in_turn_never_hold_it_together(tmp_path):
    """Two of them hold it only if the owner's file fails: each writes to one file and checks that it was alone."""
    code = (
        "import errno, fcntl, sys, time, warnings\n"
        "from pathlib import Path\n"
        "from allocore._io import ProcessLock\n"
        "warnings.simplefilter('ignore')\n"
        "def flock(*_): raise OSError(errno.ENOLCK, 'no locks')\n"
        "fcntl.flock = flock\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        "    with ProcessLock(folder / 'lock', timeout=60):\n"
        "        before = int((folder / 'number').read_text())\n"
        "        time.sleep(0.001)\n"
        "        (folder / 'number').write_text(str(before + 1))\n"
    )
    (tmp_path / "number").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "number").read_text() == "60"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_folders_that_cannot_be_synced_do_no_harm(tmp_path, monkeypatch, number):
    real = os.fsync

    def fsync(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(TENSOR)
    assert ac.open_run(tmp_path / "run.zarr").core_values.shape == (1, 3, 2)


def test_a_disk_that_fails_to_sync_is_still_told(tmp_path, monkeypatch):
    def fsync(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    with refused_file(tmp_path / "run.zarr", "cannot be written: Input/output error"):
        ac.CP(2, store=tmp_path / "run.zarr", **SETTINGS).fit(TENSOR)
