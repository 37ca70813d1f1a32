"""Compiling in a second process, for the first run after an installation: numba compiles one kernel at a time.

While this process compiles thinning, the second one compiles the steps that follow: it makes a sweep of a tiny tensor
with the same kind of model. Both store compiled kernels in the same folder, where this process then finds them. They
share nothing else: if the second process fails or is killed, this one compiles everything itself.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from allocore.gibbs.layout import Layout
from allocore.gibbs.sweep import SamplerState, sweep
from allocore.gibbs.thinning import Allocation, ThinnedCells
from allocore.kernels import jit
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers, available_threads
from allocore.model.simulate import first_state
from allocore.model.spec import Spec
from allocore.tensor.missing import Missing

_MAX_SECONDS = 60.0
_ROWS_PER_MODE = 3


@contextmanager
def compile_in_background(spec: Spec, missing: bool, threads: int) -> Iterator[Callable[[], None]]:
    """Compile the steps of a sweep in a second process, if it saves time; yields a function that waits for it.

    `missing` says whether the tensor has missing cells. The process ends with the block at the latest.
    """
    saves_time = min(threads, available_threads()) > 1
    to_compile = "relocation" if spec.learn_locations else "factors"
    process = _start(spec, missing) if saves_time and jit.will_be_kept(to_compile) else None

    def wait() -> None:
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_MAX_SECONDS)

    try:
        yield wait
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _start(spec: Spec, missing: bool) -> "subprocess.Popen[bytes] | None":
    if not Path(sys.executable or "").name.startswith("python"):  # a program with Python inside
        return None
    settings = json.dumps(asdict(spec), default=int)  # NumPy's integers
    command = [sys.executable, "-P", "-m", __name__, settings, json.dumps(missing)]
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    none, environment = subprocess.DEVNULL, {**os.environ, "PYTHONPATH": path}
    try:  # in its own session, so that Ctrl-C does not reach it
        return subprocess.Popen(command, env=environment, stdin=none, stdout=none, stderr=none, start_new_session=True)
    except OSError:
        return None


def compile_steps(spec: Spec, missing: bool) -> None:
    """Make all steps of a sweep on a tiny tensor, except thinning, and split-merge, which needs more classes."""
    core_shape = tuple(min(size, 2) for size in spec.core_shape)
    small = replace(spec, budget=prod(core_shape) if spec.dense_core else 2, core_shape=core_shape)
    shape = (_ROWS_PER_MODE,) * len(core_shape)
    patterns = [(0,) * len(shape)] if missing else []
    with Workers(1) as workers:
        coords = np.ones((len(shape), 1), dtype=np.int64)
        layout = Layout.of_cells(coords, np.ones(1, dtype=np.int64), Missing(patterns, shape), workers)
        state = first_state(small, shape, np.random.default_rng(0))
        allocation = Allocation(np.ones((sum(shape), small.budget), dtype=layout.count_type), 0.0)
        sweep(Key.of(0, 0).at(1), layout, small, SamplerState(state, allocation), thin_cells=_no_thinning)


def _no_thinning(_key: Key, layout: Layout, _likelihood: int, state: Any, *_: object) -> ThinnedCells:
    rows, none = sum(layout.shape), np.zeros(0)
    return ThinnedCells(np.zeros((rows, len(state.log_core_Q)), layout.count_type), none, none, none, np.zeros(rows))


if __name__ == "__main__":
    gc.disable()  # a process of a few seconds; it would take a tenth of them
    compile_steps(Spec(**json.loads(sys.argv[1])), json.loads(sys.argv[2]))
