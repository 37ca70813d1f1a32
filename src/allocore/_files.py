"""Files: a written file appears whole or not at all, even if the process is killed; what is read must be one."""

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from allocore.errors import InputError, StoreError

_UNFINISHED = ".tmp"
_CANNOT_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF}


def existing_file(path: str | os.PathLike[str], argument: str = "path") -> Path:
    """Return the path of a file that can be read to its end: pipes and devices may have none, and are refused."""
    try:
        target = Path(path).expanduser()
        if target.is_file():
            return target
        kind = "is a folder" if target.is_dir() else "is a pipe or a device" if target.exists() else "does not exist"
    except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, ~ of an unknown user
        raise InputError(f"{argument} is {str(path)!r}, which cannot be a file: {error}") from None
    raise InputError(f"{target} {kind}; {argument} must be an existing file")


def read_regular(path: Path) -> bytes:
    """Read a file whole; a ValueError if it is a pipe or a device, which may have no end."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path.name} is no regular file")
    return path.read_bytes()


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside `target`; it replaces `target` once all of it is on the disk."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_UNFINISHED}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            _sync(file.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder; it is renamed to `path` after everything in it has been written."""
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.resolve().parent))
        try:
            yield unfinished
            unfinished.chmod(0o777 & ~_umask())
            unfinished.rename(path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise StoreError(f"{path} was made by another process meanwhile: name another path") from None
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


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
