"""The numba policy of the whole package, in three decorators: `kernel` for what Python calls, `part` and `inlined` for
what kernels are made of.

A kernel is serial, works on arrays it is given, and releases the GIL; threads are the driver's business
(`workers.py`).
No fastmath: sums keep one order, so the same seed gives the same bytes. Compiled code is cached on disk. Kernels write
their loops out: an assignment to a slice or a method of an array takes numba longer to compile than a whole loop nest.
"""

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")
_PACKAGE = Path(__file__).parent.parent


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A piece of a kernel, copied into its callers before they are optimised, so that loops around it vectorise."""
    return cast(Callable[P, R], numba.njit(inline="always", error_model="numpy")(function))


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function that kernels call and Python must not: no entry for Python is compiled, which takes numba a while."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
    return cast(Callable[P, R], numba.njit(**options)(function))


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba on first use (a plain Python function when the JIT is off)."""
    given = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = _cache_folder(given)  # type: ignore[attr-defined]
    try:
        options: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
        return cast(Callable[P, R], numba.njit(**options)(function))
    finally:
        numba.config.CACHE_DIR = given  # type: ignore[attr-defined]


@cache
def _cache_folder(given: str) -> str:
    """A folder for compiled kernels, in the one `given` if any, that is named after the sources of all kernels.

    numba compiles a kernel again when its own file changes, but not when a kernel that it calls does, or a constant
    or a tuple that it reads. Where the folder cannot be written, numba falls back to its usual places.
    """
    digest = hashlib.sha256()
    for path in kernel_sources():
        digest.update(path.read_bytes())
    return str(Path(given or _PACKAGE / "__pycache__") / f"kernels-{digest.hexdigest()[:16]}")


def kernel_sources() -> list[Path]:
    """All files that compiled code depends on: those with kernels, and those in the same rooms that they import from.

    A kernel takes its constants and tuples from these alone (tests/kernels/test_jit.py).
    """
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))}
    with_kernels = [path for path, text in texts.items() if f"from {__name__} import" in text]
    rooms = {path.parent for path in with_kernels}
    imported = {
        _PACKAGE.joinpath(*name.split(".")).with_suffix(".py")
        for path in with_kernels
        for name in re.findall(r"^from allocore\.([\w.]+) import", texts[path], re.MULTILINE)
    }
    beside = {path for path in imported if path.parent in rooms}
    return sorted({Path(__file__), *with_kernels, *beside} & texts.keys())
