"""A lock that one process at a time holds: `flock` where the file system has it, elsewhere a file with its owner.

Some network and cluster file systems answer ENOLCK or EOPNOTSUPP to `flock`. There a file that only one process can
create names the host and the process. It is stale, and is replaced, if it names this host, and that process has ended
or the file was copied with its folder.
"""

import errno
import inspect
import json
import os
import secrets
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

_WITHOUT_FLOCK = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_PAUSE = 0.05
# Newer releases of filelock fall back to a lock of their own, which takes a file that is left over for a lock.
_OPTIONS: dict[str, Any] = (
    {"fallback_to_soft": False} if "fallback_to_soft" in inspect.signature(FileLock.__init__).parameters else {}
)


class ProcessLock:
    """A lock on `file`. If another process holds it, `acquire` raises a BlockingIOError that may say who."""

    def __init__(self, file: Path, timeout: float = 0.0) -> None:
        self._file, self._timeout = file, timeout
        self._owner = file.with_name(f"{file.name}.owner")
        self._flock: FileLock | None = None
        self._mine = ""

    def acquire(self) -> Self:
        """Take the lock, waiting for `timeout` seconds at most."""
        flock = FileLock(self._file, **_OPTIONS)
        try:
            flock.acquire(timeout=self._timeout)
            self._flock = flock
        except Timeout:
            raise BlockingIOError(errno.EAGAIN, "") from None
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in _WITHOUT_FLOCK:
                raise
            self._become_owner()
            warnings.warn(
                f"{self._file.parent} is on a file system without locks: the file {self._owner.name} stands for one, "
                "and processes on other hosts must not write there",
                stacklevel=4,
            )
        return self

    def release(self) -> None:
        """Give the lock back."""
        if self._flock is not None:
            self._flock.release()
            self._flock = None
        elif self._mine and self._read() == self._mine:
            with suppress(OSError):
                self._owner.unlink()
        self._mine = ""

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _become_owner(self) -> None:
        """Create the owner's file, or replace a stale one."""
        end, mine = time.monotonic() + self._timeout, self._claim()
        while not self._created(mine):
            there = self._read()
            if there is not None and self._is_stale(there):
                self._put_aside(there)
            elif there is not None and time.monotonic() >= end:
                raise BlockingIOError(
                    errno.EAGAIN, f" ({_told(there)} holds the lock; if it has ended, remove {self._owner})"
                )
            else:
                time.sleep(_PAUSE)
        self._mine = mine

    def _claim(self) -> str:
        who = {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid())}
        return json.dumps({**who, "folder": self._folder(), "token": secrets.token_hex(8)})

    def _created(self, mine: str) -> bool:
        try:
            descriptor = os.open(self._owner, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(mine)
        return True

    def _read(self) -> str | None:
        try:
            return self._owner.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def _put_aside(self, there: str) -> None:
        """Remove a stale file. It is renamed first: another process may have replaced it meanwhile."""
        aside = self._owner.with_name(f".{self._owner.name}.{secrets.token_hex(6)}.tmp")
        with suppress(FileNotFoundError):
            self._owner.rename(aside)
            if aside.read_text(encoding="utf-8", errors="replace") != there:
                with suppress(OSError):  # a third process may own it by now
                    os.link(aside, self._owner)
            aside.unlink()

    def _is_stale(self, there: str) -> bool:
        """Whether the owner has ended, or had locked the folder of which this one is a copy."""
        try:
            claim = json.loads(there)
            host, pid, started, folder = (claim[name] for name in ("host", "pid", "started", "folder"))
        except (ValueError, KeyError, TypeError, RecursionError):
            return False  # perhaps it is being written
        if host != socket.gethostname():  # nobody here can tell, and the number of a device may differ there
            return False
        return folder != self._folder() or not isinstance(pid, int) or started != _started(pid)

    def _folder(self) -> list[int]:
        found = self._file.parent.stat()
        return [found.st_dev, found.st_ino]


def _started(pid: int) -> str | None:
    """When a process started, in whatever unit the system has; None if there is no such process."""
    if Path("/proc/self/stat").exists():
        with suppress(OSError, IndexError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return None
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "alive"
    except (OSError, OverflowError):
        return None
    return "alive"


def _told(there: str) -> str:
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        claim = json.loads(there)
        return f"process {claim['pid']} on {claim['host']}"
    return "another process"
