"""What a killed process leaves beside its target, and who removes it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import allocore as ac
from allocore._io import new_folder, result_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ownership is known by flock")
WRITERS = {"file": ("result_file", "table.csv"), "folder": ("new_folder", "y.zarr")}
HANGS = """
import sys, time
from pathlib import Path
from allocore import _io
with getattr(_io, sys.argv[1])(Path(sys.argv[2])) as made:
    print("ready", flush=True)
    time.sleep(600)
"""


def left(folder):
    return sorted(each.name for each in folder.iterdir() if each.name.startswith("."))


@pytest.fixture
def writer(tmp_path):
    """Starts processes that begin to write a target, and hang; kills them at the end."""
    started = []

    def start(kind):
        function, name = WRITERS[kind]
        process = subprocess.Popen(
            [sys.executable, "-c", HANGS, function, str(tmp_path / name)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process, tmp_path / name

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", WRITERS)
def test_the_next_writer_removes_what_a_killed_one_left_and_nothing_of_a_living_one(writer, kind, tmp_path):
    killed, target = writer(kind)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    abandoned = left(tmp_path)
    assert len(abandoned) == 1
    (tmp_path / f".{target.name}.notes").write_text("of the user")
    writer(kind)
    of_living = [name for name in left(tmp_path) if not name.endswith(".notes")]
    assert len(of_living) == 1
    assert of_living != abandoned
    with (result_file if kind == "file" else new_folder)(target):
        pass
    assert left(tmp_path) == sorted([*of_living, f".{target.name}.notes"])
    assert target.exists()


@pytest.mark.parametrize("suffix", [".npz", ".tns", ".parquet"])
def test_saving_a_tensor_removes_what_a_killed_process_left(tmp_path, suffix):
    litter = tmp_path / f".y{suffix}.{'0a' * 6}.tmp"
    litter.write_bytes(b"half")
    ac.as_tensor(np.eye(3, dtype=int)).save(tmp_path / f"y{suffix}")
    assert os.listdir(tmp_path) == [f"y{suffix}"]


def test_many_writers_of_one_file_at_once_never_remove_each_others(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom allocore._io import result_file\n"
        "for turn in range(200):\n    with result_file(Path(sys.argv[1])) as file: file.write(b'x' * 1000)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "t.csv")]
    processes = [subprocess.Popen(words) for _ in range(3)]
    end = time.monotonic() + 300
    assert [process.wait(end - time.monotonic()) for process in processes] == [0, 0, 0]
    assert os.listdir(tmp_path) == ["t.csv"]
