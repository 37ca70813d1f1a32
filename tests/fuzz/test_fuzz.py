"""Damaged files of every kind that is read give an answer or an error in our words: no crash, no hang, little memory.

`FUZZ_SECONDS` says how long to look, `FUZZ_SEED` where to begin, `FUZZ_KINDS` at which kinds; `make fuzz` takes five
minutes. `keep_case.py` keeps what was found in `kept/`, which is tested from then on.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from fuzz_kinds import ALL, KINDS, PLANTED  # noqa: E402
from fuzz_worker import outcome  # noqa: E402
from fuzzing import Failure, Worker  # noqa: E402

QUICK = 1  # case per kind
KEPT = sorted(path for path in (HERE / "kept").glob("*/*"))


def chosen_kinds():
    wanted = os.environ.get("FUZZ_KINDS")
    return {name: ALL[name] for name in wanted.split(",")} if wanted else KINDS


def test_some_damaged_files_of_each_kind(tmp_path):
    with Worker(tmp_path, KINDS) as worker:
        failures = [worker.check(kind, seed) for kind in KINDS for seed in range(QUICK)]
    assert [each for each in failures if each] == []


@pytest.mark.slow
def test_damaged_files_for_a_minute_or_as_long_as_one_likes(tmp_path):
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    seed = int(os.environ.get("FUZZ_SEED", random.SystemRandom().randrange(10**9)))
    kinds, failures, number = list(chosen_kinds()), [], 0
    with Worker(tmp_path, kinds) as worker:
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(failures) < 20:
            failures.append(worker.check(kinds[number % len(kinds)], seed + number))
            failures, number = [each for each in failures if each], number + 1
    print(f"{number:,} cases from seed {seed}")
    assert number > 10
    assert not failures, "\n\n".join(f"{each.kind!r} {each.seed}\n{each.why}" for each in failures)


@pytest.mark.parametrize(
    "reasons",
    [
        {"raises": "ZeroDivisionError", "dies": "died"},
        pytest.param({"hangs": "no answer", "hoards": "MB of memory"}, marks=pytest.mark.slow),
    ],
    ids=",".join,
)
def test_the_fuzzer_finds_what_it_looks_for(tmp_path, reasons):
    assert reasons.keys() <= PLANTED.keys()
    with Worker(tmp_path, [], seconds=15, most_memory=700_000_000) as worker:
        for kind, why in reasons.items():
            failure = worker.check(kind, 1)
            assert isinstance(failure, Failure)
            assert why in failure.why
        assert worker.check("tns", 2) is None, "the next case has a new process"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_what_was_found_once(path):
    kind = next(kind for name, kind in ALL.items() if name.replace(" ", "_") == path.parent.name)
    result, why = outcome(kind.read, path)
    assert result in ("answer", "refused"), why
