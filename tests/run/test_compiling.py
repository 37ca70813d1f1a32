"""The second process that compiles during the first run: it saves time, and nothing else depends on it."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

import allocore as ac
from allocore.gibbs.sweep import sweep
from allocore.kernels import jit
from allocore.kernels.workers import available_threads
from allocore.model.spec import Spec
from allocore.run import chains as chains_module
from allocore.run.chains import run_chains
from allocore.storage.record import MemoryStore, Plan, Schedule

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (4, 3, 2)))
SPEC = Spec(3, (3, 2, 3), f0=1.0, alpha0=3.0)
FIRST_RUN = """
import numpy as np
import allocore as ac
from allocore.gibbs import core_values, factors, relocation, thinning
from allocore.kernels import exposure_sums

Y = ac.as_tensor(np.ones((4, 3, 2), dtype=int)).with_missing([(0, 0, 0)])
ac.AlloCore(3, likelihood="poisson", burn_in=0, draws=2, thin=1, chains=1, threads=2, progress=False).fit(Y)
for module in (core_values, factors, relocation, exposure_sums, thinning):
    for name, each in vars(module).items():
        if getattr(each, "signatures", None) and each.__module__ == module.__name__:
            print(name, len(each.stats.cache_misses))
"""


def short_chains(threads=2):
    return run_chains(MemoryStore(Plan(TENSOR, SPEC, Schedule(0, 3, 1), 1, 2)), threads=threads)


@pytest.fixture
def cold(monkeypatch):
    """No kernel has been compiled, and there are two processors; lists the processes that are started."""
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(jit, "will_be_kept", lambda module: True)
    monkeypatch.setattr(chains_module, "available_threads", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", Noted)
    return started


@pytest.fixture
def python_that(tmp_path, monkeypatch):
    """Call with a shell command: it is what Python does from now on."""

    def arm(command):
        (tmp_path / "python3").write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
        (tmp_path / "python3").chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))

    return arm


@pytest.mark.jit
@pytest.mark.skipif(available_threads() < 2, reason="with one processor there is no second process")
@pytest.mark.slow
def test_the_steps_after_thinning_are_compiled_by_the_second_process(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FIRST_RUN], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    compiled_here = dict(line.split() for line in done.stdout.splitlines())
    assert compiled_here["_thin_blocks"] == "1"
    steps = {"_move_classes", "_score_classes", "_draw_rows", "_draw", "_subtract"}
    assert {name: compiled_here[name] for name in steps} == dict.fromkeys(steps, "0")


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        Spec(300, (300, 2, 1)),
        Spec(3, (3, 3), model="CP", e0=(1.0, 2.0)),
        Spec(12, (3, 2, 2), model="Tucker", e0="infer"),
        Spec(5, (5, 5, 5), infer_budget=True, likelihood="bernoulli"),
        Spec(5, (5, 5, 5), likelihood="negative-binomial", dispersion_by=2),
    ],
)
def test_every_model_has_steps_to_compile(spec, missing, monkeypatch):
    swept = []

    def sweep_and_keep(key, layout, small, before, **options):
        after = sweep(key, layout, small, before, **options)
        swept.append((layout, before.state, after[0].state))
        return after

    monkeypatch.setattr(chains_module, "sweep", sweep_and_keep)
    chains_module.compile_steps(spec, missing)
    ((layout, before, after),) = swept
    assert bool(len(layout.missing.patterns_PM)) == missing
    drawn = [(before.log_core_Q, after.log_core_Q), *zip(before.log_phi, after.log_phi, strict=True)]
    assert not any(np.array_equal(old, new) for old, new in drawn), "every step has drawn its variable"
    assert len(after.concentrations_M) == (len(spec.core_shape) if spec.infer_concentrations else 0)


@pytest.mark.parametrize("command", ["exit 1", "kill -9 $$"])
def test_a_second_process_that_fails_changes_nothing(cold, python_that, command):
    expected = short_chains(threads=1)
    assert cold == []
    python_that(command)
    assert short_chains().core_values.tobytes() == expected.core_values.tobytes()
    assert [process.returncode == 0 for process in cold] == [False]


def test_a_second_process_that_cannot_be_started_changes_nothing(cold, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    assert short_chains().core_values.shape == (1, 3, 3)
    assert cold == []


@pytest.mark.parametrize("executable", ["/usr/sbin/uwsgi", "", None])
def test_a_program_with_python_inside_is_not_started_again(cold, monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    short_chains()
    assert cold == []


def test_a_second_process_that_hangs_is_ended_with_the_run(cold, python_that, monkeypatch):
    python_that("exec sleep 60")
    monkeypatch.setattr(chains_module, "_MAX_COMPILE_SECONDS", 0.1)
    start = time.monotonic()
    short_chains()
    assert time.monotonic() - start < 55
    assert [process.returncode for process in cold] == [-9]


def test_a_second_process_is_ended_if_the_run_is_interrupted(cold, python_that):
    python_that("exec sleep 60")
    with suppress(KeyboardInterrupt), chains_module.compile_in_background(SPEC, False, 2):
        assert cold[0].poll() is None
        raise KeyboardInterrupt
    assert cold[0].returncode == -9


def test_a_model_with_numbers_of_numpy_is_told_to_the_second_process(cold, python_that):
    python_that("exit 0")
    spec = Spec(3, (3, 3), likelihood="negative-binomial", dispersion_by=np.int64(1))
    with chains_module.compile_in_background(spec, False, 2) as wait:
        wait()
    settings, missing = cold[0].args[-2:]
    assert (Spec(**json.loads(settings)), json.loads(missing)) == (spec, False)


def test_there_is_no_second_process_with_one_thread_or_one_processor(cold, monkeypatch):
    short_chains(threads=1)
    monkeypatch.setattr(chains_module, "available_threads", lambda: 1)
    short_chains(threads=2)
    assert cold == []


@pytest.mark.jit
def test_kernels_that_are_on_disk_or_cannot_be_kept_there_need_no_second_process(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "_cache_folder", lambda given: str(tmp_path))
    assert jit.will_be_kept("relocation")
    (tmp_path / "gibbs").mkdir()
    (tmp_path / "gibbs" / "factors._draw_rows-50.py311.nbi").touch()
    assert jit.will_be_kept("relocation")
    assert not jit.will_be_kept("factors")
    monkeypatch.setattr(jit.numba.config, "DISABLE_JIT", 1)
    assert not jit.will_be_kept("relocation")
    monkeypatch.setattr(jit.numba.config, "DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "_cache_folder", lambda given: None)
    assert not jit.will_be_kept("relocation")
