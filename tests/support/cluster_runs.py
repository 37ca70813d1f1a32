"""A small run that clusters work on, as a fit and as a command, and what can be seen of it meanwhile."""

import contextlib
import json
import sys
import time

import numpy as np

import allocore as ac
from allocore.storage.run_reader import stored_sizes
from allocore.storage.zarr_format import with_checksum

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "f0": 1.0, "burn_in": 7, "thin": 2, "chains": 2, "seed": 11, "progress": False}
SETTINGS |= {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}
WAIT = 300.0  # seconds, for anything; a busy machine is slow


def fitted(draws, tensor=None, **settings):
    return ac.AlloCore(**SETTINGS, draws=draws, **settings).fit(TENSOR if tensor is None else tensor).posterior_


def until(true, what):
    """Wait for something, but not for ever."""
    end = time.monotonic() + WAIT
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {WAIT} seconds for {what}")
        time.sleep(0.02)


def sweeps_on_disk(path):
    """How many sweeps can be read of a run that is under way."""
    with contextlib.suppress(ac.StoreError):
        return stored_sizes(path)["sweep"]
    return 0


def shorten(path, draws):
    """Plan fewer draws of a run, which only a test does: `resume` makes runs longer, not shorter."""
    for file, inner in ((path / ".zattrs", None), (path / ".zmetadata", ".zattrs")):
        document = json.loads(file.read_text())
        attributes = document if inner is None else document["metadata"][inner]
        settings = json.loads(attributes["settings"])
        settings["schedule"]["draws"] = draws
        attributes.update(with_checksum({**attributes, "settings": json.dumps(settings)}))
        file.write_text(json.dumps(document))


def fit_command(folder, *words, data="y.npz"):
    """The command that fits the same model; its run is so long that it must be stopped or shortened."""
    TENSOR.save(folder / data)
    model = ["--budget", "3", "--f0", "1", "--likelihood", "negative-binomial", "--dispersion-by", "1", "--e0", "infer"]
    sweeps = ["--burn-in", "7", "--draws", "100000", "--thin", "2", "--chains", "2", "--seed", "11"]
    out = ["--out", folder / "run.zarr"]
    return [sys.executable, "-m", "allocore.cli", "fit", folder / data, *model, *sweeps, *out, *words]
