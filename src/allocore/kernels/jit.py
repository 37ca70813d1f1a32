"""The package's numba policy, in three decorators: `kernel` for what Python calls, `part` and `inlined` for its pieces.

A kernel is serial, works on arrays it is given, and releases the GIL. Threads are the driver's business (`workers.py`).
There is no fastmath: sums keep one order, so the same seed gives the same bytes. Compiled code is cached on disk.
Kernels write out their loops: numba compiles a loop nest faster than one slice assignment or array method.
"""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.misc.appdirs import user_cache_dir

from allocore.findings import Finding, warn

P = ParamSpec("P")
R = TypeVar("R")
_PACKAGE = Path(__file__).parent.parent
_DISPATCHER: Any = import_module("numba.core.dispatcher")


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of a kernel that is copied into its callers before optimisation, so that loops around it vectorise."""
    return cast(Callable[P, R], numba.njit(inline="always", error_model="numpy")(function))


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function for kernels only. Python cannot call it: no Python entry point is compiled, which saves time."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    return cast(Callable[P, R], numba.njit(**options)(function))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on first use (a plain Python function when the JIT is off)."""
    given = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    folder = _cache_folder(given)
    numba.config.CACHE_DIR = folder or given  # type: ignore[attr-defined]
    cache_of = _DISPATCHER.FunctionCache
    _DISPATCHER.FunctionCache = lambda function: _that_goes_on_without_space(cache_of(function))
    try:
        options: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
        return cast(Callable[P, R], numba.njit(**options, cache=folder is not None)(function))
    finally:
        numba.config.CACHE_DIR = given  # type: ignore[attr-defined]
        _DISPATCHER.FunctionCache = cache_of


_problems: list[str] = []  # of kernels that could not be written to the cache


def why_not_kept() -> str:
    """Why kernels that this process compiled could not be kept, such as a full disk; empty if all are kept."""
    return _problems[0] if _problems else ""


def _that_goes_on_without_space(cache: Any) -> Any:
    """A cache that warns once if a kernel cannot be written to it, where numba's raises the error of the disk."""
    save = cache.save_overload

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            if not _problems:
                where = {"folder": str(cache.cache_path), "error": str(error)}
                warn(Finding("kernels-not-kept", "caution", where), stacklevel=2)
            _problems.append(str(error))

    cache.save_overload = save_if_possible
    return cache


@cache
def _cache_folder(given: str) -> str | None:
    """A folder for compiled kernels, inside `given` if there is one, named after the sources of all kernels.

    numba compiles a kernel again when its own file changes, but not when a kernel or constant that it reads changes. If
    the folder is not writable, one among the user's caches or a temporary one takes its place; without any, nothing is
    cached. A cache is code: a temporary folder must belong to the user.
    """
    digest = hashlib.sha256()
    for path in kernel_sources():
        digest.update(path.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    wanted = Path(given or _PACKAGE / "__pycache__")
    of_user = Path(user_cache_dir("numba", False))  # type: ignore[no-untyped-call]
    # A user without a home has the relative path ~/.cache.
    for parent in [wanted] if given or not of_user.is_absolute() else [wanted, of_user]:
        if _is_writable(parent / name):
            return str(parent / name)
    own = Path(tempfile.gettempdir()) / f"allocore-{os.getuid() if hasattr(os, 'getuid') else 'kernels'}"
    folder = str(own / name) if _is_own(own) and _is_writable(own / name) else None
    warn(Finding("kernels-not-cached", "caution", {"wanted": str(wanted), "folder": folder}), stacklevel=3)
    return folder


def will_be_kept(module: str) -> bool:
    """Whether the kernels of a module are not compiled yet and will be cached on disk once they are."""
    folder = kernel_folder()
    return folder is not None and not any(folder.glob(f"*/{module}.*.nbi"))


def kernel_folder() -> Path | None:
    """The folder where compiled kernels are kept, or None if they are not compiled or cannot be kept."""
    folder = _cache_folder(numba.config.CACHE_DIR)  # type: ignore[attr-defined]
    return None if folder is None or numba.config.DISABLE_JIT else Path(folder)  # type: ignore[attr-defined]


def _is_writable(folder: Path) -> bool:
    """Create a folder if necessary, and return whether files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _is_own(folder: Path) -> bool:
    """Create a folder if necessary, and return whether it belongs to this user and is closed to all others."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # on Windows the temporary folder is the user's own
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def kernel_sources() -> list[Path]:
    """All files that compiled code depends on: those with kernels, and those in the same folders that they import."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))}
    with_kernels = [path for path, text in texts.items() if f"from {__name__} import" in text]
    folders = {path.parent for path in with_kernels}
    imported = {
        _PACKAGE.joinpath(*name.split(".")).with_suffix(".py")
        for path in with_kernels
        for name in re.findall(r"^from allocore\.([\w.]+) import", texts[path], re.MULTILINE)
    }
    in_folders = {path for path in imported if path.parent in folders}
    return sorted({Path(__file__), *with_kernels, *in_folders} & texts.keys())
