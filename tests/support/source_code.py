"""The syntax of the package, for tests that read its source."""

import ast
import gc
from functools import cache
from pathlib import Path

import allocore as ac

SOURCE = Path(ac.__file__).parent


@cache
def syntax():
    """All nodes of the syntax tree of every file of the package, by its path.

    They stay to the end of the tests, so the garbage collector need not look at them again and again.
    """
    found = {
        path: tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8")))) for path in sorted(SOURCE.rglob("*.py"))
    }
    gc.freeze()
    return found
