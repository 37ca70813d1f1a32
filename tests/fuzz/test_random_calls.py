"""Public functions, methods and constructors, called at random, answer or raise an error in our words, and never hang.

The calls are the same in every run, unless `FUZZ_SECONDS` says how long to look at others, as `make fuzz` does for five
minutes. `FUZZ_SEED` says where to begin, and `FUZZ_TARGETS` at which targets, as in "Posterior.predict,ac.concat". Each
failure has its target and seed, and `calls_worker.py` makes that call again.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from fuzzing import Failure, Worker  # noqa: E402
from random_calls import ENDLESS, not_finite, targets  # noqa: E402

TARGETS = list(targets())
SCRIPT = "calls_worker.py"
CALLS = 6  # of each target
# They write or draw for a second.
SLOW = {"ac.figures.write_all", "ac.write_report", "ac.compare", "ac.select_budget", "NNTuck.fit", "AlloCore.fit"}


def test_a_random_call_of_each_target(tmp_path):
    with Worker(tmp_path, script=SCRIPT) as worker:
        failures = [worker.check(target, 0) for target in TARGETS if target not in SLOW]
        planted = [worker.check(target, 0) for target in ("raises", "is not finite")]
    assert [each for each in failures if each] == []
    assert all(isinstance(each, Failure) for each in planted)


def test_a_process_that_died_is_replaced(tmp_path):
    with Worker(tmp_path, script=SCRIPT) as worker:
        assert "died" in worker.check("dies", 0).why
        assert worker.check("Missing.none", 0) is None


@pytest.mark.slow
def test_several_random_calls_of_each_target_or_as_many_as_time_allows(tmp_path):
    seconds = os.environ.get("FUZZ_SECONDS")
    seed = int(os.environ.get("FUZZ_SEED", 1 if seconds is None else random.SystemRandom().randrange(10**9)))
    chosen = os.environ["FUZZ_TARGETS"].split(",") if "FUZZ_TARGETS" in os.environ else TARGETS
    failures, number = [], 0
    with Worker(tmp_path, script=SCRIPT) as worker:
        end = None if seconds is None else time.monotonic() + float(seconds)
        while len(failures) < 20 and (number < CALLS * len(chosen) if end is None else time.monotonic() < end):
            failures.append(worker.check(chosen[number % len(chosen)], seed + number // len(chosen)))
            failures, number = [each for each in failures if each], number + 1
    print(f"{number:,} calls of {len(chosen)} targets from seed {seed}")
    assert number > 10
    assert not failures, "\n\n".join(f"{each.kind} {each.seed}\n{each.why}" for each in failures)


def test_there_are_many_targets():
    assert len(TARGETS) >= 90
    assert {"CountTensor", "HeldOut", "Missing.union", "ac.figures.classes", "Posterior.predict"} <= set(TARGETS)
    assert "budget" in ENDLESS


def test_numbers_that_are_not_finite_are_found_where_they_are():
    assert not_finite({"a": [1.0, {"b": float("nan")}]}) == "the result['a'][1]['b']"
    assert not_finite([1, 2.5, "x"]) == ""
