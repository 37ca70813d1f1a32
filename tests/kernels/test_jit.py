"""Compiled kernels are kept on disk under a name that changes whenever any source they may depend on does."""

import shutil
import subprocess
import sys
from pathlib import Path

import allocore


def cache_folder(root):
    code = "from allocore.kernels.jit import _cache_folder; print(_cache_folder(''), _cache_folder('elsewhere'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_cache_is_another_when_a_constant_beside_the_kernels_changes_and_the_same_when_other_files_do(tmp_path):
    package = tmp_path / "allocore"
    shutil.copytree(Path(allocore.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    here, given = cache_folder(tmp_path)
    assert Path(here).parent == package / "__pycache__"
    assert Path(given) == Path("elsewhere") / Path(here).name

    with open(package / "estimators.py", "a", encoding="utf-8") as file:
        file.write("# a remark\n")
    assert cache_folder(tmp_path) == [here, given]

    layout = package / "gibbs" / "layout.py"
    layout.write_text(layout.read_text(encoding="utf-8").replace("BLOCK = 1024", "BLOCK = 2048"), encoding="utf-8")
    assert here not in cache_folder(tmp_path)
