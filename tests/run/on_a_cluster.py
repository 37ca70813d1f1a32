"""Fits on a real Dask cluster of two worker processes, which are killed and replaced. A program of its own.

    python on_a_cluster.py undisturbed              the draws of a run on the cluster are those of one process
    python on_a_cluster.py killed KILLS FOLDER      also if workers are killed, by SIGKILL, at random moments

Prints a line for every kill, and at last that all is there.
"""

import random
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from same_draws import assert_same

import allocore as ac

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "f0": 1.0, "burn_in": 7, "thin": 2, "chains": 3, "seed": 11, "progress": False}
SETTINGS |= {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}


def fitted(draws, **settings):
    return ac.AlloCore(**SETTINGS, draws=draws, **settings).fit(TENSOR).posterior_


def start_worker(cluster):
    command = [sys.executable, "-m", "dask", "worker", cluster.scheduler_address, "--no-nanny", "--nthreads", "1"]
    return subprocess.Popen([*command, "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_workers(cluster, workers, kills, over):
    """Kill a random worker at random moments of the run, and start another one."""
    rng = random.Random(3)
    while kills and not over.wait(rng.uniform(0.5, 4.0)):
        number = rng.randrange(len(workers))
        workers[number].send_signal(signal.SIGKILL)
        workers[number].wait()
        print("killed", workers[number].pid, flush=True)
        workers[number] = start_worker(cluster)
        kills -= 1


def disturbed(cluster, client, workers, kills, folder):
    """Fit a run that is long enough for all kills, while workers are killed."""
    over = threading.Event()
    killer = threading.Thread(target=kill_workers, args=(cluster, workers, kills, over), daemon=True)
    killer.start()
    path = folder / "run.zarr"
    post, draws = fitted(200, executor=client, store=path), 200
    while killer.is_alive():
        draws += 200
        post = ac.AlloCore.resume(path, draws=draws, executor=client, progress=False).posterior_
    over.set()
    return post, draws


def main(what, *words):
    warnings.filterwarnings("ignore")
    with LocalCluster(n_workers=0, dashboard_address=None) as cluster, Client(cluster) as client:
        workers = [start_worker(cluster) for _ in range(2)]
        try:
            if what == "undisturbed":
                assert_same(fitted(30, executor=client), fitted(30))
            else:
                post, draws = disturbed(cluster, client, workers, int(words[0]), Path(words[1]))
                assert_same(post, fitted(draws))
        finally:
            for worker in workers:
                worker.kill()
    print("all is there")


if __name__ == "__main__":
    main(*sys.argv[1:])
