"""Where commands write: a path at which nothing can be written is refused before the work, not after it."""

import os
from pathlib import Path

from allocore.errors import InputError


def check_file(option: str, path: Path | None) -> None:
    """Refuse a file whose folder does not exist or cannot be written to, or that is a folder."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} is {str(path)!r}, but it must be a file, and this is a folder")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{option} is {str(path)!r}, but the folder {str(folder)!r} does not exist")
    _check_writable(option, path, folder)


def check_folder(option: str, path: Path) -> None:
    """Refuse a folder that cannot be made: there is a file in its place, or above it."""
    nearest = next(place for place in (path.resolve(), *path.resolve().parents) if place.exists())
    if not nearest.is_dir():
        raise InputError(f"{option} is {str(path)!r}, but {str(nearest)!r} is a file where a folder should be")
    _check_writable(option, path, nearest)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} is {str(path)!r}, but the folder {str(folder)!r} is not yours to write to")
