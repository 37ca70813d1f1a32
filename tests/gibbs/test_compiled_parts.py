"""A chain compiles only the kernels of its own likelihood."""

import os
import subprocess
import sys

import pytest

THIN = """
import numpy as np
from allocore.tensor.missing import Missing
from allocore.gibbs import latent_counts, thinning
from allocore.gibbs.layout import Layout, Workspace
from allocore.kernels.random import Key
from allocore.kernels.workers import Workers
from allocore.model.spec import Spec
from allocore.model.state import State

with Workers(1) as workers:
    layout = Layout.of_cells(np.array([[0, 0], [0, 1]]), np.array([2, 1000]), Missing.none((1, 2)), workers)
    state = State(np.zeros(2), np.zeros((2, 2), dtype=int), (np.zeros((1, 1)), np.zeros((2, 1))))
    thinning.thin(Key.of(1, 0), layout, Spec(2, (1, 1)), state, Workspace.of(layout, state))
for module in (latent_counts, thinning):
    for name, each in vars(module).items():
        if getattr(each, "signatures", None):
            print(name)
"""


@pytest.mark.jit
@pytest.mark.slow
def test_a_poisson_chain_compiles_nothing_of_latent_counts(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", THIN], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    compiled = set(done.stdout.split())
    assert {"_thin_blocks", "split_large", "find_classes"} <= compiled
    latent = {"crt", "zero_truncated_poisson", "draw_latent", "draw_tables", "draw_truncated", "find_rates", "log_fit"}
    assert compiled.isdisjoint(latent)
