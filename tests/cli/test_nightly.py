"""The nightly job of docs/howto/nightly.md, for some simulated days, one of which is killed while it fits.

`python tests/cli/test_nightly.py 30` runs thirty days, and prints the time and the memory of each.
"""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import allocore as ac

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "nightly.md"
FIRST = date(2026, 1, 1)
ACTORS = ("Chad", "Fiji", "Iran", "Laos", "Mali", "Oman", "Peru", "Togo")
ACTIONS = ("consult", "aid", "protest", "fight")
HISTORY = 27  # days before the first night
RARE = ("Peru", "Laos", "fight")


def name_of(day):
    return (FIRST + timedelta(days=day)).isoformat()


def write_day(folder, day, burst=False):
    """Write the events of a day: three groups of actors with their actions, more on weekdays; perhaps a burst."""
    rng = np.random.default_rng([7, day])
    rows = []
    for group in range(3):
        actors = ACTORS[2 * group : 2 * group + 3]
        for _ in range(rng.poisson(25 if (FIRST + timedelta(days=day)).weekday() < 5 else 10)):
            source, target = rng.choice(actors, 2, replace=False)
            rows.append((source, target, ACTIONS[group] if rng.random() < 0.9 else rng.choice(ACTIONS), name_of(day)))
    rows += [(*RARE, name_of(day))] * (30 * burst)
    if day == HISTORY + 1:  # an actor that the fits before do not know
        rows += [("Cuba", "Fiji", "aid", name_of(day))]
    # Every other label occurs in the first days.
    rows += [(ACTORS[day % 8], ACTORS[(day + 3) % 8], ACTIONS[day % 4], name_of(day))]
    with (folder / "events" / f"{name_of(day)}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target", "action", "date"), *rows])


def prepare(folder):
    """Write the script, a command named allocore, and the events before the first night."""
    (script,) = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    commands = {"nightly.sh": script, "bin/allocore": f'#!/bin/sh\nexec "{sys.executable}" -m allocore.cli "$@"\n'}
    for name in ("events", "bin"):
        (folder / name).mkdir()
    for name, text in commands.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for day in range(HISTORY):
        write_day(folder, day)


def begin_night(folder, day):
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    command, pipe = ["./nightly.sh", name_of(day)], subprocess.PIPE
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )


def night(folder, day):
    """Run a night to its end; returns exit code, standard output, standard error, and memory in MB."""
    with begin_night(folder, day) as process:
        out, err = process.stdout.read(), process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, out, err, usage.ru_maxrss / 1024


def kill_while_it_fits(folder, day):
    """Begin a night, and kill all of it without warning once its run is there."""
    until = time.monotonic() + 300
    with begin_night(folder, day) as process:
        while not (folder / "runs" / f"{name_of(day)}.zarr" / "lock").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.slow
def test_the_nightly_job_runs_for_days_sounds_an_alarm_for_a_burst_and_survives_a_kill(tmp_path):
    prepare(tmp_path)
    bursts, killed, nights = {HISTORY + 2}, HISTORY + 1, range(HISTORY, HISTORY + 3)
    for day in nights:
        write_day(tmp_path, day, burst=day in bursts)
        if day == killed:
            kill_while_it_fits(tmp_path, day)
        code, out, err, _ = night(tmp_path, day)
        assert (code, err) == (0, "")
        assert (f"{name_of(day)}: surprising events" in out) == (day in bursts)
        fitted = json.loads((tmp_path / "fit.json").read_text())
        assert fitted["run"]["finished"]
        assert fitted["run"]["data"]["modes"][-1] == {"name": "date", "length": min(28, day + 1)}
    assert ac.open_run(tmp_path / "runs" / f"{name_of(killed)}.zarr").finished
    alarms = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "alerts").glob("*.json")}
    assert {day for day, found in alarms.items() if found["exit_code"] == 3} == set(map(name_of, bursts))
    (cell, *_) = alarms[name_of(*bursts)]["surprises"]
    assert (cell["source"], cell["target"], cell["action"], cell["direction"]) == (*RARE, "more")
    code, out, _, _ = night(tmp_path, nights[-1])
    assert (code, out) == (0, ""), "a night that is complete can be repeated"


def main(nights):
    """Print the exit code, the time and the memory of each night; two have a burst, two are killed first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        for number in range(nights):
            day = HISTORY + number
            write_day(folder, day, burst=number in (11, 22))
            if number in (6, 17):
                kill_while_it_fits(folder, day)
            start = time.monotonic()
            code, out, err, memory = night(folder, day)
            disk = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / 1e6
            shown = f"{name_of(day)}  {code}  {time.monotonic() - start:5.1f} s  {memory:.0f} MB  {disk:.1f} MB on disk"
            print(shown, out.strip(), err.strip(), sep="  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
