"""Compiled kernels are kept on disk under a name that changes whenever any source they may depend on does."""

import ast
import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import allocore
from allocore.kernels.jit import kernel_sources

PACKAGE = Path(allocore.__file__).parent


def cache_folder(root):
    code = "from allocore.kernels.jit import _cache_folder; print(_cache_folder(''), _cache_folder('elsewhere'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.split()


def edit(path, old="", new=""):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new) if old else text + "\n# a remark\n", encoding="utf-8")


@pytest.mark.slow
def test_the_cache_depends_on_the_sources_of_kernels_alone(tmp_path):
    package = tmp_path / "allocore"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    here, given = cache_folder(tmp_path)
    assert Path(here).parent == package / "__pycache__"
    assert Path(given) == Path("elsewhere") / Path(here).name

    for other in (
        "estimators.py",
        "report/terminal.py",
        "results.py",
        "gibbs/sweep.py",
        "em/nntuck.py",
    ):
        edit(package / other)
    assert cache_folder(tmp_path) == [here, given]

    for path, old, new in (
        ("gibbs/layout.py", "BLOCK = 1024", "BLOCK = 2048"),
        ("gibbs/factors.py", "    a0: float\n    b0: float\n", "    b0: float\n    a0: float\n"),
        ("kernels/distributions.py", "_INVERSION_LIMIT = 300", "_INVERSION_LIMIT = 301"),
    ):
        edit(package / path, old, new)
        assert here not in cache_folder(tmp_path), path
        edit(package / path, new, old)
        assert cache_folder(tmp_path) == [here, given], path


def module_of(path):
    return importlib.import_module("allocore." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def names_read_by_kernels(path):
    """The global names that the decorated functions of a file read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        decorators = [getattr(each, "id", "") for each in getattr(node, "decorator_list", [])]
        if isinstance(node, ast.FunctionDef) and {"kernel", "part", "inlined"} & set(decorators):
            yield from {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}


def test_kernels_take_constants_and_tuples_from_these_sources_alone():
    sources = kernel_sources()
    made = {}
    for path in sources:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node] if isinstance(node, ast.ClassDef) else []
            for target in targets:
                names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)] or [target.name]
                made.update(dict.fromkeys([*names, *([target.name] if isinstance(target, ast.ClassDef) else [])], path))
    read = {}
    for path in sources:
        module = module_of(path)
        for name in names_read_by_kernels(path):
            value = getattr(module, name, None)
            if isinstance(value, int | float | np.generic | np.ndarray) or hasattr(value, "_fields"):
                read[name] = path
    assert {"BLOCK", "LANES", "_HEIGHTS", "Priors", "NonZeros"} <= read.keys()
    assert [name for name in read if name not in made] == []


@pytest.mark.parametrize("name", ["sweep", "core_values", "thinning"])
def test_files_without_kernels_and_without_what_kernels_read_are_no_sources(name):
    assert (PACKAGE / "gibbs" / f"{name}.py" in kernel_sources()) == (name != "sweep")
