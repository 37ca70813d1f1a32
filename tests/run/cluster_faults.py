"""Runs on a real Dask cluster to which something happens. A program of its own: python cluster_faults.py WHAT FOLDER

    killed       workers of a LocalCluster are killed by SIGKILL, twelve times, and their nannies start them again
    late         a run begins without any worker; one comes later, then another
    polite       a worker is retired while it makes sweeps
    slow         a worker is stopped by SIGSTOP for some seconds, then goes on
    scheduler    the scheduler is killed: the run stops with one sentence, and goes on without a cluster
    compared     workers are killed while they fit the models of a comparison

Each ends by comparing all bytes with those of an undisturbed run in this process. Prints a line for everything that
happens, and at last that all is there.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster
from same_draws import assert_same

import allocore as ac

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SETTINGS = {"budget": 3, "f0": 1.0, "burn_in": 7, "thin": 2, "chains": 3, "seed": 11, "progress": False}
SETTINGS |= {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"}
LOCAL = {"threads_per_worker": 1, "dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
KILLS = 12
WAIT = 30.0  # seconds, for anything


def fitted(draws, **settings):
    return ac.AlloCore(**SETTINGS, draws=draws, **settings).fit(TENSOR).posterior_


def until(true, what):
    """Wait for something, but not for ever."""
    end = time.monotonic() + WAIT
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {WAIT} seconds for {what}")
        time.sleep(0.02)


def sweeps_on_disk(path):
    """How many sweeps can be read of a run that is under way."""
    from allocore.run.run_reader import stored_sizes

    with contextlib.suppress(ac.StoreError):
        return stored_sizes(path)["sweep"]
    return 0


def while_fitting(client, path, happens):
    """Fit on a cluster, and go on with more draws for as long as things happen; then compare with a run alone."""
    errors = []

    def watched():
        try:
            happens()
        except BaseException as error:
            errors.append(error)

    thread, draws = threading.Thread(target=watched, daemon=True), 300
    thread.start()
    post = fitted(draws, executor=client, store=path)
    while thread.is_alive():
        draws += 300
        post = ac.AlloCore.resume(path, draws=draws, executor=client, progress=False).posterior_
    if errors:
        raise errors[0]
    assert not (path / "slices").exists(), "nothing is left on its way home"
    assert_same(post, fitted(draws))
    assert_same(ac.open_run(path), fitted(draws))


def kill_workers(cluster, kills):
    """Kill random workers at random moments, while they work and while they start; nannies start them again."""
    rng = random.Random(3)
    for _ in range(kills):
        time.sleep(rng.uniform(0.05, 2.0))
        nanny = rng.choice(list(cluster.workers.values()))
        until(lambda nanny=nanny: nanny.pid is not None, "a nanny to start its worker again")
        print("killed", nanny.pid, flush=True)
        os.kill(nanny.pid, signal.SIGKILL)


def killed(folder):
    with LocalCluster(n_workers=3, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:
        while_fitting(client, folder / "run.zarr", lambda: kill_workers(cluster, KILLS))


def late(folder):
    with LocalCluster(n_workers=0, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:

        def join():
            for number in (1, 2):
                time.sleep(1.0)
                cluster.scale(number)
                until(lambda number=number: len(client.nthreads()) == number, "a worker to join")
                print("joined", number, flush=True)

        while_fitting(client, folder / "run.zarr", join)


def polite(folder):
    with LocalCluster(n_workers=2, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:

        def leave():
            until(lambda: sweeps_on_disk(folder / "run.zarr") > 0, "the first sweeps")
            (left,) = client.retire_workers([min(client.nthreads())])
            print("left", left, flush=True)

        while_fitting(client, folder / "run.zarr", leave)


def slow(folder):
    with LocalCluster(n_workers=2, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:

        def stop():
            until(lambda: sweeps_on_disk(folder / "run.zarr") > 0, "the first sweeps")
            pid = next(iter(cluster.workers.values())).pid
            os.kill(pid, signal.SIGSTOP)
            print("stopped", pid, flush=True)
            time.sleep(6.0)
            os.kill(pid, signal.SIGCONT)

        while_fitting(client, folder / "run.zarr", stop)


def scheduler(folder):
    path, where = folder / "run.zarr", folder / "scheduler.json"
    python = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    begun = subprocess.Popen([*python, "scheduler", "--port", "0", "--no-dashboard", "--dashboard-address", ":0",
                              "--scheduler-file", where], **quiet)  # fmt: skip
    until(where.exists, "the scheduler")
    worker = subprocess.Popen([*python, "worker", "--scheduler-file", where, "--no-nanny", "--nthreads", "1",
                               "--no-dashboard", "--death-timeout", "5"], **quiet)  # fmt: skip
    try:
        with Client(scheduler_file=str(where), timeout=5) as client:

            def kill():
                until(lambda: sweeps_on_disk(path) > 0, "the first sweeps")
                begun.kill()

            threading.Thread(target=kill, daemon=True).start()
            start = time.monotonic()
            try:
                fitted(100_000, executor=client, store=path)
            except ac.StoreError as error:
                assert time.monotonic() - start < 4 * WAIT
                print(error, flush=True)
    finally:
        for process in (begun, worker):
            process.kill()
            process.wait(WAIT)
    # The whole run would take long. All that was drawn until then, and some more, is compared.
    draws = ac.open_run(path).core_values.shape[1]
    shorten(path, draws + 10)
    assert_same(ac.AlloCore.resume(path, progress=False).posterior_, fitted(draws + 10))


def shorten(path, draws):
    """Plan fewer draws of a run, which only a test does: `resume` makes runs longer, not shorter."""
    import json

    from allocore.run.plan import with_checksum

    for file, inner in ((path / ".zattrs", None), (path / ".zmetadata", ".zattrs")):
        document = json.loads(file.read_text())
        attributes = document if inner is None else document["metadata"][inner]
        settings = json.loads(attributes["settings"])
        settings["schedule"]["draws"] = draws
        attributes.update(with_checksum({**attributes, "settings": json.dumps(settings)}))
        file.write_text(json.dumps(document))


def compared(folder):
    asked = {"models": ("allocore", "cp"), "budgets": (2, 3), "splits": 4, "hold_out": 0.2, "progress": False}
    asked |= {"burn_in": 500, "draws": 50, "thin": 40}
    with LocalCluster(n_workers=2, silence_logs="CRITICAL", **LOCAL) as cluster, Client(cluster) as client:
        killer = threading.Thread(target=kill_workers, args=(cluster, 5), daemon=True)
        killer.start()
        there = ac.compare(TENSOR, executor=client, out=folder / "there", **asked)
        killer.join(WAIT)
    with Client(processes=False, n_workers=1, **LOCAL) as client:
        here = ac.compare(TENSOR, executor=client, **asked)
    tables = [each.table.drop(columns=["seconds", "seconds_per_sweep", "peak_mb", "threads"]) for each in (here, there)]
    assert tables[0].to_csv() == tables[1].to_csv()
    assert there.failed == there.missing == 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    {"killed": killed, "late": late, "polite": polite, "slow": slow, "scheduler": scheduler, "compared": compared}[
        sys.argv[1]
    ](Path(sys.argv[2]))
    print("all is there")
