"""Runs on a real Dask cluster to which something happens. A program of its own: python cluster_faults.py WHAT FOLDER

    killed       workers of a LocalCluster are killed by SIGKILL, eight times, and their nannies start them again
    moody        a run begins without any worker; one comes late, and another; one is stopped by SIGSTOP for some
                 seconds, and one is retired while it makes sweeps
    compared     workers are killed while they fit the models of a comparison
    sharded      workers that thin the shards of one tensor are killed, eight times
    sharded-moody    as moody, for workers that thin shards

Each ends by comparing all bytes with those of an undisturbed run in this process. Prints a line for everything that
happens, and at last that all is there.
"""

import os
import random
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dask
import numpy as np
from distributed import Client, LocalCluster

import allocore as ac
from support.cluster_runs import TENSOR, WAIT, fitted, sweeps_on_disk, until
from support.same_draws import assert_same

LOCAL = {"threads_per_worker": 1, "dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
KILLS = 8


def while_fitting(client, path, happens, tensor=None):
    """Fit on a cluster, and go on with more draws for as long as things happen; then compare with a run alone."""
    errors = []

    def watched():
        try:
            happens()
        except BaseException as error:
            errors.append(error)

    thread, draws = threading.Thread(target=watched, daemon=True), 100
    thread.start()
    post = fitted(draws, tensor=tensor, executor=client, store=path)
    while thread.is_alive():
        draws += 100
        post = ac.AlloCore.resume(path, draws=draws, executor=client, progress=False).posterior_
    if errors:
        raise errors[0]
    assert not (path / "slices").exists(), "nothing is left on its way home"
    alone = fitted(draws, tensor=None if tensor is None else tensor.load())
    assert_same(post, alone)
    assert_same(ac.open_run(path), alone)


def kill_workers(cluster, kills):
    """Kill random workers at random moments, while they work and while they start; nannies start them again."""
    rng, gone = random.Random(3), {None}
    for _ in range(kills):
        time.sleep(rng.uniform(0.05, 2.0))
        nanny = rng.choice(list(cluster.workers.values()))
        until(lambda nanny=nanny: nanny.pid not in gone, "a nanny to start its worker again")
        gone.add(pid := nanny.pid)
        print("killed", pid, flush=True)
        os.kill(pid, signal.SIGKILL)


def killed(folder, tensor=None):
    with LocalCluster(n_workers=3, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:
        while_fitting(client, folder / "run.zarr", lambda: kill_workers(cluster, KILLS), tensor)


def in_shards(folder):
    """A tensor of some blocks, in shards."""
    rng = np.random.default_rng(7)
    coords = np.array([rng.integers(0, length, 12_000) for length in (40, 30, 20)])
    ac.CountTensor(coords, np.ones(12_000, dtype=int)).save(folder / "y.zarr", shards=8)
    return ac.load_tensor(folder / "y.zarr")


def moody(folder, tensor=None):
    path = folder / "run.zarr"
    with LocalCluster(n_workers=0, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:

        def come_and_go():
            for number in (1, 2):
                cluster.scale(number)
                until(lambda number=number: len(client.nthreads()) == number, "a worker to join")
                print("joined", flush=True)
                until(lambda: sweeps_on_disk(path) > 0, "the first sweeps")
            pid = next(iter(cluster.workers.values())).pid
            os.kill(pid, signal.SIGSTOP)
            print("stopped", flush=True)
            time.sleep(6.0)
            os.kill(pid, signal.SIGCONT)
            client.retire_workers([min(client.nthreads())])
            print("left", flush=True)
            time.sleep(1.0)

        while_fitting(client, path, come_and_go, tensor)


def compared(folder):
    models = {"allocore": ac.AlloCore(2, burn_in=500, draws=20, thin=20, chains=1)}
    asked = {"models": models, "splits": 6, "hold_out": 0.2, "progress": False}
    with LocalCluster(n_workers=2, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:
        killer = threading.Thread(target=kill_workers, args=(cluster, 3), daemon=True)
        killer.start()
        there = ac.compare(TENSOR, executor=client, out=folder / "there", **asked)
        killer.join(WAIT)
    with ThreadPoolExecutor(1) as pool:
        here = ac.compare(TENSOR, executor=pool, **asked)
    tables = [each.table.drop(columns=["seconds", "seconds_per_sweep", "peak_mb", "threads"]) for each in (here, there)]
    assert tables[0].to_csv() == tables[1].to_csv()
    assert there.failed == there.missing == 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    # A cluster gives up a worker that is not back in time, which on a busy machine would leave none.
    dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what.startswith("sharded"):
        {"sharded": killed, "sharded-moody": moody}[what](folder, in_shards(folder))
    else:
        {"killed": killed, "moody": moody, "compared": compared}[what](folder)
    print("all is there")
