"""Runs cases in a worker process and judges them: an answer or one of our errors, soon, in little memory."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SECONDS = 30  # for a case that takes some hundredths of a second; the machine may be busy
MOST_MEMORY = 1_500_000_000  # of the whole process, Python and duckdb included; the valid files have some kilobytes


class Failure(NamedTuple):
    """A case that went wrong: `python tests/fuzz/keep_case.py KIND SEED` keeps its file as an ordinary test."""

    kind: str
    seed: int
    why: str


class Worker:
    """A process that takes cases, one after another; it is replaced if it hangs, dies or grows."""

    def __init__(self, folder, kinds=(), seconds=SECONDS, most_memory=MOST_MEMORY, script="fuzz_worker.py"):
        self._folder, self._kinds, self._seconds, self._most = Path(folder), list(kinds), seconds, most_memory
        self._script = HERE / script
        self._process, self._number = None, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop()

    def check(self, kind, seed):
        """Return None if the case went well, or a `Failure`; and what came of it."""
        process = self._started()
        process.stdin.write(json.dumps([kind, seed]).encode() + b"\n")
        process.stdin.flush()
        line = self._answer(process, self._seconds)
        if line is None:
            return self._failed(kind, seed, f"no answer within {self._seconds} s")
        if not line:
            return self._failed(kind, seed, f"the process died with code {process.wait()}")
        answer = json.loads(line)
        if answer["outcome"] == "raised":
            return Failure(kind, seed, answer["why"])
        if answer["peak"] > self._most:
            return self._failed(kind, seed, f"{answer['peak'] / 1e6:,.0f} MB of memory")
        return None

    def _failed(self, kind, seed, why):
        self._stop()
        return Failure(kind, seed, why)

    def _started(self):
        if self._process is None:
            folder = self._folder / f"process {self._number}"  # what an earlier one wrote is not in the way
            folder.mkdir(parents=True)
            self._number += 1
            paths = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
            command = [sys.executable, str(self._script), str(folder.resolve()), *self._kinds]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths},
            )
            assert self._answer(self._process, 300) == b"ready\n"
        return self._process

    @staticmethod
    def _answer(process, seconds):
        """Return a line of output; None if it does not come in time, and b"" if the process has ended."""
        ready, _, _ = select.select([process.stdout], [], [], seconds)
        return process.stdout.readline() if ready else None

    def _stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None
