"""Memory is told before the first sweep, and what cannot be is refused with what it would take."""

import os
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import allocore as ac
from allocore import _memory as available_memory_module
from allocore._memory import available_memory, in_bytes
from allocore.model.spec import Spec
from allocore.run import memory as memory_needs
from allocore.run.memory import check_memory, needs_of
from allocore.storage.record import Plan, Schedule
from support.errors import refused, refused_file

SETTINGS = {"burn_in": 0, "draws": 2, "thin": 1, "seed": 1, "chains": 1}


@pytest.fixture
def room(monkeypatch):
    """Call with bytes: so much memory is available."""

    def set_room(size):
        for module in (memory_needs, available_memory_module):
            monkeypatch.setattr(module, "available_memory", lambda: size)

    return set_room


def tensor_of(rows, columns=50):
    coords = np.stack([np.arange(rows), np.arange(rows) % columns])
    return ac.CountTensor(coords, np.ones(rows, dtype=int), (rows, columns))


@pytest.mark.parametrize("store", [True, False])
def test_a_budget_that_memory_cannot_hold_is_refused_with_what_it_would_take(tmp_path, store):
    model = ac.AlloCore(1_000_000, store=tmp_path / "run.zarr" if store else None, progress=False, **SETTINGS)
    with refused("budget", 1_000_000, "must be smaller, or the core or `chains`: the run would need about 16.0 TB"):
        model.fit(ac.load_flights())
    assert os.listdir(tmp_path) == [], "nothing is written"


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "--budget", 1_000_000),
        ("fit", "--budget", "infer", "--max-budget", 1_000_000),
        ("select-budget", "--budgets", "5,1000000"),
        ("compare", "--budgets", "1000000", "--out", "comparison"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_the_command_line_refuses_it_in_one_line_before_the_data_are_read(run, tmp_path, words):
    code, _, err = run(words[0], tmp_path / "no such file", *words[1:])
    assert code == 2
    option = next(word for word in reversed(words) if "budget" in str(word))
    assert re.fullmatch(rf"allocore: error: {option} is 1,?000,?000, but .* at least 16.0 TB of memory .*\n", err)


def test_the_size_that_memory_cannot_hold_is_named_as_the_model_names_it(room):
    room(10**9)
    schedule, specs = (
        Schedule(0, 1, 1),
        {
            ("max_budget", 100_000): Spec(100_000, (100_000, 2), infer_budget=True),
            ("rank", 10_000_000): Spec(10_000_000, (10_000_000, 10_000_000), model="CP"),
        },
    )
    for (argument, value), spec in specs.items():
        with refused(argument, value, "the run would need"):
            check_memory(Plan(tensor_of(100), spec, schedule, 1, 0), stored=True, threads=1)


def test_draws_that_memory_cannot_hold_are_refused_before_the_first_sweep_and_fit_on_disk(tmp_path, room):
    """100,000 x 50 rows, Q = 50, 100 draws: the run that used to fail after its last sweep."""
    room(3 * 10**9)
    plan = Plan(tensor_of(100_000), Spec(50, (50, 50)), Schedule(0, 100, 1), 1, 0)
    rule = "must be smaller, or `store` must keep the draws on disk: the run would need about 4."
    with refused("draws", 100, rule):
        check_memory(plan, stored=False, threads=2)
    assert check_memory(plan, stored=True, threads=2) == ""
    with refused("draws", 100, rule):
        ac.AlloCore(50, burn_in=0, draws=100, thin=1, seed=1, progress=False, chains=1).fit(plan.tensor)


def test_a_run_on_disk_may_be_planned_longer_than_memory_as_it_can_be_stopped(room):
    room(10**9)
    plan = Plan(tensor_of(100), Spec(2, (2, 2)), Schedule(0, 10**9, 1), 4, 0)
    assert check_memory(plan, stored=True, threads=1) == ""
    with refused("draws", 10**9, "TB of memory"):
        check_memory(plan, stored=False, threads=1)


def test_a_large_run_says_what_it_will_need_before_the_first_sweep(room, capsys, monkeypatch):
    room(10**12)
    plan = Plan(tensor_of(100_000), Spec(50, (50, 50)), Schedule(0, 100, 1), 1, 0)
    said = check_memory(plan, stored=False, threads=2)
    assert re.fullmatch(
        r"memory: about [\d.]+ MB to sample and 4\.\d GB for 100 draws of 1 chain \(in memory\); opening the run on "
        r"disk takes \d+ MB",
        said,
    )
    monkeypatch.setattr(memory_needs, "_LEAST_REPORTED", 0)
    ac.AlloCore(2, **SETTINGS).fit(tensor_of(4, 2))
    assert capsys.readouterr().err.startswith("memory: about ")
    ac.AlloCore(2, progress=False, **SETTINGS).fit(tensor_of(4, 2))
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_needs_of_a_run_are_those_it_has(tmp_path):
    """NumPy's allocations of a fit and of opening, against what was told."""
    plan = Plan(tensor_of(10_000), Spec(30, (30, 30)), Schedule(0, 5, 1), 2, 1)
    for stored in (False, True):
        path = tmp_path / "run.zarr" if stored else None
        told = needs_of(plan, stored=stored, threads=1)
        tracemalloc.start()
        ac.AlloCore(30, burn_in=0, draws=5, thin=1, chains=2, seed=1, threads=1, store=path, progress=False).fit(
            plan.tensor
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.6 < peak / told.whole < 1.5, (stored, peak, told)
    tracemalloc.start()
    ac.open_run(tmp_path / "run.zarr")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 < peak / told.opening < 1.5, (peak, told)


def test_reading_more_than_memory_holds_is_told(tmp_path, room, monkeypatch):
    from allocore.storage import run_reader

    path = tmp_path / "run.zarr"
    ac.CP(2, store=path, progress=False, **SETTINGS).fit(tensor_of(6, 3))
    monkeypatch.setattr(run_reader, "READ_WHOLE_BYTES", 0)
    post = ac.open_run(path)
    monkeypatch.setattr(available_memory_module, "_NEVER_CHECKED", 0)
    room(100)
    with refused_file(path, "cannot be read: posterior/factors_mode_0 takes 192 bytes of memory, but 100 bytes are"):
        np.asarray(post.factors[0])
    post.expected([[0], [0]])


# What is available


def files(root, **contents):
    for name, content in contents.items():
        file = root / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return root


MEMINFO = "MemTotal:  1000 kB\nMemAvailable:  800 kB\nSwapFree:  100 kB\n"


def test_the_memory_that_is_left_is_the_least_of_machine_container_and_limits(tmp_path):
    assert available_memory(files(tmp_path, proc__meminfo=MEMINFO)) == 900 * 1024
    files(tmp_path, proc__self__cgroup="0::/a/b\n")
    files(tmp_path, sys__fs__cgroup__a__memory_dot_max="400000", sys__fs__cgroup__a__memory_dot_current="300000")
    assert available_memory(tmp_path) == 100_000
    files(tmp_path, sys__fs__cgroup__a__memory_dot_stat="anon 1\ninactive_file 50000\n")
    assert available_memory(tmp_path) == 150_000
    files(tmp_path, sys__fs__cgroup__a__b__memory_dot_max="max", sys__fs__cgroup__a__b__memory_dot_current="1")
    assert available_memory(tmp_path) == 150_000
    old = tmp_path / "sys" / "fs" / "cgroup" / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("70000\n")
    (old / "memory.usage_in_bytes").write_text("80000\n")
    assert available_memory(tmp_path) == 0


def test_without_any_file_the_memory_of_the_machine_counts(tmp_path):
    assert available_memory(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < available_memory() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 2


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say how much address space is taken")
def test_a_limit_of_the_process_counts():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 * 10**9, 2 * 10**9))\n"
        "from allocore._memory import available_memory; print(available_memory())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 10**9 < int(told.stdout) < 2 * 10**9


@pytest.mark.parametrize(
    ("size", "told"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (250e6, "250 MB"), (16e12, "16.0 TB")]
)
def test_sizes_are_told_as_people_read_them(size, told):
    assert in_bytes(int(size)) == told
