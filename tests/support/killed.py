"""Kills processes that write a run, by SIGKILL, and resumes them. A program of its own, so that it can fork freely.

    python killed.py steps FOLDER KILLS SEED      each run is killed at a random step of its work with files
    python killed.py moments FOLDER KILLS SEED    one run is killed again and again, at random moments
    python killed.py signals FOLDER KILLS SEED    like moments, with SIGINT and SIGTERM in turns
    python killed.py rounds FOLDER KILLS SEED     like steps, for a run that goes on with later sweeps, then more chains

A last word "bursts" makes it a negative-binomial run, with a dispersion for each row and learned concentrations;
"known" a run with seeds and frozen factors; "shards" a run whose cells are read from disk in every sweep.
Prints a line for every kill. Every draw that can be read at any time must be that of a run that was never disturbed.
"""

import builtins
import os
import random
import signal
import sys
import time
import traceback
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xarray  # noqa: F401  here, so that not every child has to import it

import allocore as ac
from allocore import _io as _files
from allocore.model.spec import Spec
from allocore.run.chains import run_chains
from allocore.storage import run_writer, zarr_format
from allocore.storage.record import Plan, Schedule

TENSOR = ac.as_tensor(np.random.default_rng(5).poisson(1.2, (6, 5, 4)))
SPLIT = ac.hold_out(TENSOR, 0.1, seed=1)
SETTINGS = {"budget": 3, "core_shape": (3, 2, 3), "f0": 1.0, "alpha0": 3.0, "thin": 2, "chains": 2, "seed": 11}
FROZEN = pd.DataFrame({"frozen": [1.0, 2.0, 3.0, 4.0]}, index=list("0123"))
KINDS = {
    "bursts": {"likelihood": "negative-binomial", "dispersion_by": 1, "e0": "infer"},
    "known": {"modes": {0: ac.Mode(seeds={"seed": ["1", "2"]}), 2: ac.Mode(frozen=FROZEN)}},
    "shards": {"likelihood": "poisson"},
    "poisson": {"likelihood": "poisson"},
}


class Tripwire:
    """Kills this process at its so-manyth step of writing: open, half of the content, sync, rename, remove."""

    def __init__(self, number):
        self.left = number
        real_replace, real_fsync, real_unlink = os.replace, os.fsync, Path.unlink
        _files.open = self.open
        os.replace = lambda *paths: (self.step(), real_replace(*paths))
        os.fsync = lambda file: (self.step(), real_fsync(file))
        Path.unlink = lambda path, *options, **more: (self.step(), real_unlink(path, *options, **more))

    def step(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def open(self, path, mode, **how):
        if "r" in mode:
            return builtins.open(path, mode, **how)
        self.step()
        return _Halting(builtins.open(path, mode), self)


class _Halting:
    """A file that is half written for an instant."""

    def __init__(self, file, wire):
        self._file, self._wire = file, wire

    def write(self, content):
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._wire.step()
        return half + self._file.write(content[half:])

    def __enter__(self):
        return self

    def __exit__(self, *about):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def in_child(work):
    """Run `work` in a new process; returns its number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ending(child):
    """The signal that ended a process, 0 if it ended well."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code <= 0, f"a process failed with {code}"
    return -code


def go_on(path, draws, threads):
    if path.exists():
        return ac.AlloCore.resume(path, threads=threads, progress=False)
    model = ac.AlloCore(burn_in=3, draws=draws, store=path, threads=threads, progress=False, **SETTINGS)
    shards = path.parent / "shards.zarr"
    return model.fit(ac.Split(ac.load_tensor(shards), SPLIT.test) if shards.exists() else SPLIT)


def arrays_of(post):
    stats = [post.stats[name] for name in ("log_likelihood", "classes", "factors", "moved")]
    return post.record.draw_arrays, stats


def compare(path, expected, whole):
    """All that can be read is as it should be; and all of it is there if the run is `whole`."""
    post = ac.open_run(path)
    assert post.held_out == SPLIT.test
    for mine, theirs in zip(arrays_of(post), arrays_of(expected), strict=True):
        for array, other in zip(mine, theirs, strict=True):
            size = array.shape[1]
            assert array.tobytes() == np.ascontiguousarray(other[:, :size]).tobytes()
            assert not whole or array.shape == other.shape


def kill_at_steps(folder, kills, chance, go_on, compare):
    """Kill `go_on(path, threads)` at a random step of its writing, then resume it; `compare(path, whole)` judges."""

    def count():
        wire = Tripwire(0)  # it never trips
        go_on(folder / "undisturbed.zarr", 1)
        (folder / "steps").write_text(str(-wire.left))

    assert ending(in_child(count)) == 0
    most = int((folder / "steps").read_text())
    for done in range(kills):
        path, number = folder / f"{done}.zarr", chance.randint(1, most)

        def killed(path=path, number=number):
            Tripwire(number)
            go_on(path, chance.choice([1, 2]))

        def resumed(path=path):
            if path.exists():
                compare(path, False)
            go_on(path, 2)
            compare(path, True)

        assert ending(in_child(killed)) == signal.SIGKILL
        assert ending(in_child(resumed)) == 0
        print("killed at step", number, "of", most)


def steps(folder, kills, chance, expected, draws):
    kill_at_steps(
        folder,
        kills,
        chance,
        lambda path, threads: go_on(path, draws, threads),
        lambda path, whole: compare(path, expected, whole),
    )


ROUNDS = {
    (Schedule(3, 3, 1), 2): (Schedule(6, 3, 2), 2),
    (Schedule(6, 3, 2), 2): (Schedule(6, 3, 2), 4),
}


def run_rounds(path, threads):
    def next_round(record, plan):
        following = ROUNDS.get((plan.schedule, plan.chains))
        return None if following is None else (replace(plan, schedule=following[0], chains=following[1]), None)

    if path.exists():
        store = run_writer.ZarrStore.reopen(path)
    else:
        spec = Spec(3, (3, 2, 3), f0=1.0, alpha0=3.0)
        store = run_writer.ZarrStore.create(path, Plan(SPLIT.train, spec, Schedule(3, 3, 1), 2, 11))
    run_chains(store, threads=threads, next_round=next_round)


def compare_rounds(path, every_sweep, whole):
    """Every draw that can be read is that of its sweep in chains that keep every sweep."""
    record = ac.open_run(path).record
    chains, draws = record.core_values.shape[:2]
    for array, other in zip(record.draw_arrays, every_sweep.record.draw_arrays, strict=True):
        assert array.tobytes() == np.ascontiguousarray(other[:chains, record.draw_sweeps - 1]).tobytes()
    assert not whole or (chains, draws, record.schedule) == (4, 3, Schedule(6, 3, 2))


def rounds(folder, kills, chance, every_sweep, _draws):
    kill_at_steps(folder, kills, chance, run_rounds, lambda path, whole: compare_rounds(path, every_sweep, whole))


def moments(folder, kills, chance, expected, draws, signals=(signal.SIGKILL,)):
    path, done = folder / "run.zarr", 0
    while done < kills:
        number = signals[done % len(signals)]
        child = in_child(partial(go_on, path, draws, threads=1 + done % 2))
        time.sleep(chance.uniform(0.02, 0.4))
        os.kill(child, number)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # A stop before the first draw is an interruption; a kill can only be outrun by the end of the run.
        assert ended in ((-number, 0) if number == signal.SIGKILL else (-number, 0, 1)), ended
        if path.exists():
            assert ending(in_child(lambda: compare(path, expected, whole=False))) == 0
        done += 1
        print("killed by", number)
    run_writer.SAVE_INTERVAL = 0.1
    assert ending(in_child(lambda: go_on(path, draws, threads=2))) == 0
    assert ending(in_child(lambda: compare(path, expected, whole=True))) == 0


def main(what, folder, kills, seed, kind="poisson"):
    warnings.simplefilter("ignore")
    SETTINGS.update(KINDS[kind])
    chance, folder = random.Random(int(seed)), Path(folder)
    if kind == "shards":
        SPLIT.train.save(folder / "shards.zarr", shards=3)
    run_writer.SAVE_INTERVAL = run_writer.SAVE_INTERVAL_FACTOR = 0.0
    assert zarr_format._MAX_CHUNK_VALUES > 4
    zarr_format._MAX_CHUNK_VALUES = 4  # so that chunks fill up and new ones begin
    draws = {"steps": 6, "rounds": 12}.get(what, 400)
    all_sweeps = {"burn_in": 0, "thin": 1, "chains": 4} if what == "rounds" else {"burn_in": 3}
    settings = {**SETTINGS, **all_sweeps}
    expected = ac.AlloCore(draws=draws, threads=1, progress=False, **settings).fit(SPLIT).posterior_
    options = {"signals": (signal.SIGINT, signal.SIGTERM)} if what == "signals" else {}
    {"steps": steps, "moments": moments, "signals": moments, "rounds": rounds}[what](
        folder, int(kills), chance, expected, draws, **options
    )
    assert not [*folder.glob("*/**/.*.tmp")], "nothing unfinished is left behind"
    print("all is there")


if __name__ == "__main__":
    main(*sys.argv[1:])
