"""Atomic writes: a file appears whole or not at all, even if the process is killed while writing."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_UNFINISHED = ".tmp"


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a temporary file beside `target`; it replaces `target` once all of it is on the disk."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_UNFINISHED}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def settle(folder: Path) -> None:
    """Wait until the folder's directory entries are on the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of a process that was killed while writing."""
    for temporary in folder.rglob(f".*{_UNFINISHED}"):
        with suppress(OSError):
            temporary.unlink()
