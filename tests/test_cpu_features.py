"""The golden chains on other blocks of CPU features, of numba and of NumPy: not a byte may change.

Every case is a process of its own, which prints the hashes of all golden chains as `python tests/test_golden_draws.py`
does, with how it rounds. A processor can do without features, so an AVX-512 machine stands in for all lesser ones.
"""

import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

import allocore as ac
from allocore.kernels.rounding import rounding
from test_golden_draws import CHAINS

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).with_name("test_golden_draws.py")
AVX2 = ("avx", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe", "popcnt", "sse4.2")
# What each has, and what NumPy must not use.
LESSER = {"x86-64": ((), ("512", "X86_V4", "X86_V3", "AVX2", "FMA3")), "haswell": (AVX2, ("512", "X86_V4"))}
EXP = "import numpy as np, sys; sys.stdout.write(np.exp(np.linspace(-9.0, 9.0, 999)).tobytes().hex())"
# What the golden chains do not reach: cells whose products underflow, a refit from a fitted state, and new rows.
OTHERS = """
import allocore as ac
from test_golden_draws import POISSON, hashed, tensor
first = ac.AlloCore(30, **POISSON).fit(tensor())
print(hashed(ac.CP(6, e0=0.0005, **POISSON).fit(tensor())))
print(hashed(ac.AlloCore(30, **POISSON).fit(tensor(), start=first.posterior_)))
print(first.posterior_.fold_in(tensor(), 0, seed=3, sweeps=5, progress=False).factors[0].tobytes().hex())
"""
WITHOUT_FMA = "glibc.cpu.hwcaps=-FMA"  # glibc's exp and log for processors without fused multiply-add


def printed(*words, **variables):
    """What a Python process with other environment variables prints."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    told = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=900)
    assert told.returncode == 0, told.stderr[-3000:]
    return told.stdout


@cache
def hashes_here():
    return printed(str(GOLDEN))


@cache
def others_here():
    return printed("-c", OTHERS)


def numpy_uses(*parts):
    """The features that NumPy uses here and can do without, of those with one of `parts` in their names."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return " ".join(name for name in found if any(part in name for part in parts))


def test_all_chains_are_hashed():
    assert set(CHAINS) == {line.split('"')[1] for line in hashes_here().splitlines() if line.count('"') == 4}


@pytest.mark.parametrize("cpu", LESSER)
def test_a_lesser_processor_gives_the_same_bytes(cpu, tmp_path):
    """Kernels are compiled for it, and NumPy does without its wider vectors."""
    given, without = LESSER[cpu]
    here = llvm.get_host_cpu_features()
    lacking = [name for name in given if not here.get(name)]
    if lacking or "sse2" not in here:
        pytest.skip(f"this processor cannot run code for {cpu}: it lacks {', '.join(lacking) or 'all of x86'}")
    features = ",".join(f"+{name}" for name in given)
    lesser = {"NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(tmp_path)}
    lesser |= {"NPY_DISABLE_CPU_FEATURES": numpy_uses(*without)}
    if numpy_uses("512", "X86_V4"):
        assert printed("-c", EXP, **lesser) != printed("-c", EXP), "NumPy's exp is the same: nothing was disabled"
    assert printed(str(GOLDEN), **lesser) == hashes_here()
    assert printed("-c", OTHERS, **lesser) == others_here()


def test_workers_with_another_c_library_are_refused_before_the_first_sweep(monkeypatch):
    code = "from allocore.kernels.rounding import rounding; print(rounding())"
    if printed("-c", code, GLIBC_TUNABLES=WITHOUT_FMA).strip() == rounding():
        pytest.skip("this C library has no variants for processors with and without fused multiply-add")
    monkeypatch.setenv("GLIBC_TUNABLES", WITHOUT_FMA)
    Y = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        model = ac.AlloCore(3, burn_in=1, draws=2, seed=1, executor=pool, progress=False, chains=1)
        with pytest.raises(ac.InputError, match=r"^executor has workers whose arithmetic rounds as '\w{16}', but "):
            model.fit(Y)
