"""What tests of the command line share: commands that are built once, and a small run."""

import shutil
from functools import cache

import numpy as np
import pytest
import typer

import allocore as ac


@pytest.fixture(scope="session", autouse=True)
def commands_built_once():
    """Typer builds all commands anew for every call, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory):
    """The path of a small run with held-out cells, which no test changes: 4 chains of 2 + 4 sweeps, seed 3."""
    path = tmp_path_factory.mktemp("stored") / "run.zarr"
    counts, months = np.random.default_rng(5).poisson(1.5, (4, 3, 6)), [f"2003-0{month}" for month in range(1, 7)]
    Y = ac.as_tensor(counts, mode_names=["who", "what", "when"], labels=[None, None, months])
    settings = {"burn_in": 2, "draws": 4, "thin": 1, "chains": 4, "seed": 3, "threads": 1, "progress": False}
    ac.AlloCore(2, store=path, **settings).fit(ac.hold_out(Y, 0.2, seed=3))
    return path


@pytest.fixture
def run_copy(stored_run, tmp_path):
    """The path of a copy of the small run, which a test may change."""
    return shutil.copytree(stored_run, tmp_path / "run.zarr")
