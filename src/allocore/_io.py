"""Files that appear completely or not at all, even if the process is killed; locks; JSON from an untrusted source.

One process at a time has a lock: `flock` or, on network and cluster file systems that answer ENOLCK or EOPNOTSUPP to
it, a file that only one process can create, with the host and the process in it. This file is stale, and is replaced,
if it names this host and that process has ended, or if it was copied with its folder.
"""

import errno
import inspect
import json
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Self

from filelock import FileLock, Timeout

from allocore.errors import NO_VALUE, InputError, StoreError, reason_of
from allocore.findings import Finding, warn

_UNFINISHED = ".tmp"
_CLAIM_BYTES = 10_000
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


def path_of(path: object, argument: str = "path") -> Path:
    """Return the path that a user gave, with ~ expanded, whether or not there is something in its place."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise InputError(argument, path, "must be a path")
    try:
        target = Path(path).expanduser()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            target.lstat()
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, ~ of an unknown user
        raise InputError(argument, str(path), f"must be a path: {reason_of(error)}") from None
    return target


def existing_file(path: object, argument: str = "path") -> Path:
    """Return the path of a regular file. Pipes and devices, which may have no end, raise an InputError."""
    target, rule = path_of(path, argument), "must be an existing file"
    if target.is_file():
        return target
    kind = no_file(target)
    raise InputError(argument, str(target), f"{rule}, not {kind}" if kind else f"{rule}; there is no such file")


def no_file(path: Path) -> str:
    """Return "a folder" or "a pipe or a device" if that is at a path, and "" if a regular file or nothing is."""
    return "a folder" if path.is_dir() else "a pipe or a device" if path.exists() and not path.is_file() else ""


@contextmanager
def open_inside(folder: Path, name: str, most_bytes: int) -> Iterator[IO[bytes]]:
    """Open a file inside a run, or another folder from an untrusted source. All files in such folders are read so.

    A ValueError refuses what is not a regular file (a pipe or a device may have no end), a link that leads out of the
    folder, and a file of more than `most_bytes` bytes.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name} is a link out of the folder")
    # Opening a pipe would wait for a writer.
    with open(path, "rb", opener=lambda path, flags: os.open(path, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{name} is not a regular file")
        if found.st_size > most_bytes:
            raise ValueError(f"{name} has more than {most_bytes:,} bytes")
        yield file


def read_inside(folder: Path, name: str, most_bytes: int) -> bytes:
    """Read a whole file inside a folder from an untrusted source (`open_inside`)."""
    with open_inside(folder, name, most_bytes) as file:
        return file.read()


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file next to `target`; it replaces `target` once it is completely on the disk."""
    temporary, file = _created_locked(target)
    try:
        with file:
            yield file
            file.flush()
            _sync(file.fileno())
            if os.name == "posix":  # still under its lock; Windows cannot move an open file
                os.replace(temporary, target)
        if os.name != "posix":
            os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _created_locked(target: Path) -> tuple[Path, IO[bytes]]:
    """Create a temporary file, locked until it is closed, so that no other process removes it as abandoned."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_UNFINISHED}")
        file = open(temporary, "xb")  # noqa: SIM115
        _lock(file.fileno())
        if os.fstat(file.fileno()).st_nlink:  # otherwise another process has just removed it as abandoned
            return temporary, file
        file.close()


def _lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock a file or folder until it is closed, which the system does for a process that is killed; return success.

    Windows and some network file systems have no such locks; abandoned files then stay.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return True
    except (ImportError, OSError):
        return False


def remove_abandoned(target: Path) -> None:
    """Remove what processes that were killed while they wrote `target` left next to it."""
    pattern = re.compile(re.escape(f".{target.name}.") + r"(?:[0-9a-f]{12}|[a-z0-9_]{8})" + re.escape(_UNFINISHED))
    with suppress(OSError):
        for left in [each for each in target.resolve().parent.iterdir() if pattern.fullmatch(each.name)]:
            with suppress(OSError):
                descriptor = os.open(left, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if _lock(descriptor, wait=False):
                        shutil.rmtree(left) if left.is_dir() else left.unlink()
                finally:
                    os.close(descriptor)


@contextmanager
def result_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces a file of the user; a StoreError names the one that cannot be written."""
    if kind := no_file(path):
        raise StoreError(path, f"is {kind}: choose another path")
    remove_abandoned(path)
    try:
        with replacing(path) as file:
            yield file
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(path, f"cannot be written: {reason_of(error)}") from error


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder; it is renamed to `path` after everything in it has been written."""
    remove_abandoned(path)
    try:
        with _locked_folder(path) as unfinished:
            try:
                yield unfinished
                mask = os.umask(0o077)
                os.umask(mask)
                unfinished.chmod(0o777 & ~mask)
                unfinished.rename(path)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise StoreError(path, "was created by another process meanwhile: choose another path") from None
        raise StoreError(path, f"cannot be written: {reason_of(error)}") from error


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder next to `path`, with a name like its own, and remove it, and those of killed processes."""
    remove_abandoned(path)
    with _locked_folder(path) as folder:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked_folder(target: Path) -> Iterator[Path]:
    """A new temporary folder, which belongs to this process until the block ends."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_UNFINISHED, dir=target.resolve().parent))
        if os.name != "posix":
            yield folder
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _lock(descriptor)
            if os.fstat(descriptor).st_nlink:  # otherwise another process has just removed it as abandoned
                yield folder
                return
        finally:
            os.close(descriptor)


def settle(folder: Path) -> None:
    """Wait until the folder's directory entries are on the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Wait until a file or a folder is on the disk, where the file system can say so; some cannot for folders."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of a process that was killed while writing."""
    for temporary in folder.rglob(f".*{_UNFINISHED}"):
        with suppress(OSError):
            temporary.unlink()


_WITHOUT_FLOCK = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_PAUSE = 0.05
# Newer releases of filelock fall back to a lock of their own, which takes a file that is left over for a lock.
_OPTIONS: dict[str, Any] = (
    {"fallback_to_soft": False} if "fallback_to_soft" in inspect.signature(FileLock.__init__).parameters else {}
)


class ProcessLock:
    """A lock on `file`. If another process has it, `acquire` raises a BlockingIOError that may say which one."""

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
            where = {"folder": str(self._file.parent), "file": self._owner.name}
            warn(Finding("no-file-locks", "caution", where), stacklevel=4)
        return self

    def release(self) -> None:
        """Release the lock."""
        if self._flock is not None:
            self._flock.release()
            self._flock = None
        elif self._mine and self._read() == self._mine:
            with suppress(OSError):
                self._owner.unlink()
        self._mine = ""

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _become_owner(self) -> None:
        who = {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid())}
        mine = json.dumps({**who, "folder": self._folder(), "token": secrets.token_hex(8)})
        end = time.monotonic() + self._timeout
        while not self._created(mine):
            claim = self._read()
            if claim is not None and self._is_stale(claim):
                self._remove_stale(claim)
            elif claim is not None and time.monotonic() >= end:
                raise BlockingIOError(
                    errno.EAGAIN, f" ({_owner_named_in(claim)} holds the lock; if it has ended, remove {self._owner})"
                )
            else:
                time.sleep(_PAUSE)
        self._mine = mine

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
            return read_inside(self._owner.parent, self._owner.name, _CLAIM_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return None
        except ValueError:  # a pipe or a device in its place: only the user can remove it
            return ""

    def _remove_stale(self, claim: str) -> None:
        """Remove a stale file. It is renamed first: another process may have replaced it meanwhile."""
        renamed = self._owner.with_name(f".{self._owner.name}.{secrets.token_hex(6)}{_UNFINISHED}")
        with suppress(FileNotFoundError):
            self._owner.rename(renamed)
            if renamed.read_text(encoding="utf-8", errors="replace") != claim:
                with suppress(OSError):  # a third process may own it by now
                    os.link(renamed, self._owner)
            renamed.unlink()

    def _is_stale(self, claim: str) -> bool:
        """Return whether the owner has ended, or had locked the folder of which this one is a copy."""
        try:
            fields = json.loads(claim)
            host, pid, started, folder = (fields[name] for name in ("host", "pid", "started", "folder"))
        except (ValueError, KeyError, TypeError, RecursionError):
            return False  # perhaps it is being written
        if host != socket.gethostname():  # unknown from here, and the number of a device may differ there
            return False
        return folder != self._folder() or not isinstance(pid, int) or started != _started(pid)

    def _folder(self) -> list[int]:
        found = self._file.parent.stat()
        return [found.st_dev, found.st_ino]


def _started(pid: int) -> str | None:
    """When a process started, in the unit of the system; None if there is no such process."""
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


def _owner_named_in(claim: str) -> str:
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        fields = json.loads(claim)
        return f"process {fields['pid']} on {fields['host']}"
    return "another process"


def parsed_json(text: str | bytes, argument: str) -> Any:
    """Return the value of a JSON text. Very deep nesting and numbers with thousands of digits raise an InputError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(argument, NO_VALUE, "must be JSON with fewer nested brackets") from None
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise InputError(argument, NO_VALUE, f"must be JSON: {error}") from None
