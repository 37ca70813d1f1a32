"""Where compiled kernels are kept if the package and the home of the user cannot be written: it still works."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import allocore

PACKAGE = Path(allocore.__file__).parent
SCALE = """
import os, warnings
with warnings.catch_warnings(record=True) as messages:
    warnings.simplefilter("always")
    import numpy as np
    from allocore.kernels.exposure_sums import scale_rows
    from allocore.kernels.jit import _cache_folder
    scaled, log_scale = np.zeros((1, 2), np.float32), np.zeros(1)
    scale_rows(0, 1, np.array([[1.0, 2.0]]), np.ones(2), scaled, log_scale)
    assert scaled.tolist() == [[0.5, 1.0]]
print(_cache_folder(os.environ.get("NUMBA_CACHE_DIR", "")))
for each in messages:
    print(each.message)
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package in which nothing can be cached: files are where the folders would be.

    Not even the superuser can write there, nor in a home that is no folder.
    """
    copy = shutil.copytree(PACKAGE, tmp_path / "lib" / "allocore", ignore=shutil.ignore_patterns("__pycache__"))
    for folder, _, _ in list(os.walk(copy)):
        Path(folder, "__pycache__").touch()
    return copy.parent


def scale(package, temporary, **environment):
    given = {
        "PYTHONPATH": str(package),
        "TMPDIR": str(temporary),
        "HOME": "/dev/null",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", SCALE], capture_output=True, text=True, cwd="/", env={**kept, **given, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def temporary_folder(tmp_path, mode):
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(mode)
    return folder


def test_without_a_writable_package_or_home_a_temporary_folder_is_used_with_a_warning(package, tmp_path):
    temporary = temporary_folder(tmp_path, 0o1777)
    folder, *messages = scale(package, temporary)
    assert Path(folder).parent.parent == temporary
    assert Path(folder).parent.stat().st_mode & 0o777 == 0o700
    assert list(Path(folder).rglob("*.nbi"))
    rule = f"compiled kernels cannot be cached in {package / 'allocore' / '__pycache__'}: they are cached in {folder}; "
    assert messages == [f"{rule}set NUMBA_CACHE_DIR to a writable folder"]


@pytest.mark.slow
def test_a_temporary_folder_that_someone_else_has_prepared_is_not_used(package, tmp_path):
    """A cache is code: whoever can write there could have it run."""
    temporary = temporary_folder(tmp_path, 0o1777)
    planted = temporary / f"allocore-{os.geteuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    folder, *messages = scale(package, temporary)
    assert folder == "None"
    assert list(planted.iterdir()) == []
    assert len(messages) == 1
    assert "every process compiles them again" in messages[0]


@pytest.mark.slow
def test_a_cache_folder_that_cannot_be_is_said_and_a_temporary_one_is_used(package, tmp_path):
    folder, *messages = scale(package, temporary_folder(tmp_path, 0o1777), NUMBA_CACHE_DIR="/dev/null/cache")
    assert "allocore-" in folder
    assert messages[0].startswith("compiled kernels cannot be cached in /dev/null/cache: they are cached in ")


def test_a_full_disk_is_warned_of_once_and_the_kernel_works(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", f"{SCALE}\nfrom allocore.kernels import jit\nassert jit.why_not_kept()"],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)),
    )
    assert done.returncode == 0, done.stderr
    folder, message = done.stdout.splitlines()
    assert folder in message
    assert list(tmp_path.rglob("*.nbc")) == []
