"""The benchmarks run, and what they compare is comparable: nothing here judges seconds."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import allocore as ac
from allocore.kernels.workers import Workers

FOLDER = Path(__file__).parents[1] / "benchmarks"
BUDGET = 6


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture(scope="module")
def tiny():
    """A tensor with fibres of several cells, some large counts, and missing cells."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.7, (9, 8, 4, 5)) * (rng.random((9, 8, 4, 5)) < 0.3)
    counts[0, 0, 0], counts[8, 7, 3, 0] = 3, 400
    return ac.hold_out(counts, 0.05, seed=0).train


@pytest.fixture
def chain(tiny):
    from timing import Chain

    with Workers(2) as workers:
        yield Chain(tiny, BUDGET, workers, warm_up=2)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_every_module_of_the_benchmarks_can_be_imported(name):
    assert import_module(name).__doc__


def test_the_floor_computes_the_products_of_all_cells_on_any_number_of_threads(chain):
    from dataclasses import replace

    from baselines import floor

    rows = chain.layout.nonzeros.coords_MN.astype(int) + chain.layout.nonzeros.starts_M[:, None]
    products_NL = np.prod(chain.scaled.scaled_RL.astype(float)[rows], axis=0)
    one = replace(chain.layout, workers=Workers(1))
    assert floor(chain.layout, chain.scaled) == pytest.approx(products_NL.sum(), rel=1e-5)
    assert floor(one, chain.scaled, passes=2) == pytest.approx(products_NL.sum(), rel=1e-5)


@pytest.mark.slow
def test_a_sweep_with_the_kernel_of_the_paper_allocates_every_count_and_has_the_same_log_likelihood(chain):
    from allocore.gibbs import sweep as steps
    from baselines import thin_as_in_the_paper

    state, layout = chain.state, chain.layout
    ours, papers = (
        steps.begin(chain.key, layout, chain.spec, state, thin_cells=each).allocation
        for each in (steps.thin_here, thin_as_in_the_paper)
    )
    assert papers.log_fit == pytest.approx(ours.log_fit, rel=1e-5)
    given = chain.key.at(9), layout, chain.spec, steps.SamplerState(state, papers)
    (_, allocation), info = steps.sweep(*given, thin_cells=thin_as_in_the_paper)
    assert np.isfinite(info.log_likelihood)
    for found in (papers, allocation):
        assert found.y_RQ.dtype == ours.y_RQ.dtype
        assert np.all(found.y_RQ >= 0)
        np.testing.assert_array_equal(found.y_RQ.sum(axis=1), layout.row_totals_R)
        totals = [found.y_RQ[layout.rows(mode)].sum(axis=0) for mode in range(4)]
        np.testing.assert_array_equal(totals, np.tile(totals[0], (4, 1)), "each class has one number of counts")


def test_the_sampler_with_the_kernel_of_the_paper_uses_it_in_every_sweep(monkeypatch):
    import baselines
    from allocore.run import chains
    from rival_fits import use_kernel_of_the_paper

    calls, paper_style = [], baselines.paper_style
    monkeypatch.setattr(chains, "thin_here", chains.thin_here)
    monkeypatch.setattr(baselines, "paper_style", lambda *given: calls.append(given) or paper_style(*given))
    use_kernel_of_the_paper()
    assert len(calls) == 5, "the first allocation and four sweeps"


def test_the_core_of_nntuck_fits_the_tensor():
    from rival_fits import nntuck_core

    assert nntuck_core((206, 206, 20, 84), 50) == (25, 25, 10, 10)
    assert nntuck_core((3, 105, 16, 12, 20), 25) == (3, 12, 5, 5, 12)
    assert nntuck_core((1, 2, 3), 2) == (1, 2, 2)


def test_the_loops_that_measure_the_machine_give_every_thread_the_same_work():
    from machine import ROWS, integers, machine, vectors

    with Workers(2) as workers:
        assert vectors(workers, rounds=3) == pytest.approx([3 * ROWS / 160] * 2, rel=1e-5)
        first, second = integers(workers, steps=2)
    x = 88172645463325252
    for _ in range(2):
        x ^= x << 13 & (2**64 - 1)
        x ^= x >> 7
        x ^= x << 17 & (2**64 - 1)
    assert first == second == x
    found = machine(rounds=1, scale=1e-4)
    for loop in ("vectors", "integers"):
        ratio = found[loop]["one thread"] / found[loop]["all threads"]
        assert found[loop]["gain"] == pytest.approx(found["threads"] * ratio)


def test_work_that_cannot_be_cut_is_serial_and_so_is_everything_outside_of_it():
    from time import sleep

    from serial_share import BETWEEN, PieceTimer, SweepTimes

    with PieceTimer() as workers:

        def sweep():
            workers.run([lambda: sleep(0.02) for _ in workers.ranges(100)])
            workers.run([lambda: sleep(0.02) for _ in workers.ranges(100, 60)])
            workers.run([lambda: sleep(0.02) for _ in workers.ranges_of_equal_work(np.ones(4), 1.0)])
            sleep(0.02)

        times = SweepTimes(workers).time(sweep)
    assert [most for _, _, most in times.work] == [100, 1, 4]
    cut, whole, in_four = (took for _, took, _ in times.work)
    assert times.serial(BETWEEN) == pytest.approx(times.seconds - cut - in_four)
    assert times.on_threads(16) == pytest.approx(times.seconds - cut * 15 / 16 - in_four * 3 / 4)
    assert whole >= 0.02


def test_the_serial_share_counts_all_of_a_sweep_once(tiny):
    from serial_share import BETWEEN, print_serial_shares, serial_share, share_from_times, speed_up
    from timing import STEPS

    found = serial_share(tiny, BUDGET, rounds=2)
    assert list(found["steps"]) == [*STEPS, BETWEEN]
    for each in found["steps"].values():
        assert 0 < each["serial ms"] <= each["ms"]
    assert found["steps"]["split_merge"]["serial ms"] == found["steps"]["split_merge"]["ms"], "it has no second thread"
    assert found["ms"] == pytest.approx(sum(each["ms"] for each in found["steps"].values()))
    assert 0 < found["share"] <= 1
    assert 1 <= found["with its pieces"][16] <= found["speed-up"][16] + 1e-9
    share, gain = 0.1, 1.8
    assert share_from_times(1.0, share + (1 - share) / gain, gain) == pytest.approx(share)
    assert share_from_times(1.0, 1.0, 1.0) is None, "a machine without gain says nothing"
    assert speed_up(0.0, 16) == 16
    times = {"threads": 2, "floor gain": 1.0, "share from times": None}
    print_serial_shares([found], [times], Console(quiet=True))


def test_the_ratios_have_all_targets_and_the_steps_are_put_back(tiny):
    from allocore.gibbs import sweep as steps
    from ratios import TARGETS, THREADS_RATIO, print_ratios, ratios
    from timing import STEPS

    whole = [getattr(steps, name) for name in STEPS]
    (found,) = ratios(tiny, (BUDGET,), rounds=1)
    assert {*TARGETS, THREADS_RATIO} == set(found["ratios"])
    assert {*STEPS, "sweep"} == set(found["steps"])
    assert found["ratios"]["sweep / thinning"] == found["milliseconds"]["sweep"] / found["milliseconds"]["thinning"]
    assert [getattr(steps, name) for name in STEPS] == whole
    print_ratios([found], Console(quiet=True))


def test_thinning_in_a_sweep_is_measured_in_all_ways(tiny, monkeypatch):
    import thinning_in_sweep

    monkeypatch.setattr(thinning_in_sweep, "_LARGE", 1000)
    found = thinning_in_sweep.thinning_in_sweep(tiny, BUDGET, 2, rounds=1)
    assert all(each > 0 for each in found["milliseconds"].values())
    assert found["page faults of a sweep"] >= 0
    thinning_in_sweep.print_thinning_in_sweep([found], (BUDGET,), Console(quiet=True))


def test_a_trace_scores_the_second_half_of_the_sweeps_as_a_posterior_does(tiny):
    from itertools import islice

    from equal_score import SEED, Predictive, noted_sweeps

    split = ac.hold_out(tiny, 0.2, seed=0)
    model = ac.AlloCore(
        BUDGET, burn_in=2, draws=4, thin=1, seed=SEED, progress=False, chains=1, likelihood="poisson"
    ).fit(split.train)
    record = model.posterior_.record
    with Workers(1) as workers:
        predictive = Predictive(split.test, record.spec, workers)
        for last, draws in ((1, [0]), (3, [0, 1]), (5, [2, 3])):
            predictive.add(last, [record.state_of(0, draw) for draw in draws])
        assert predictive.score() == pytest.approx(model.posterior_.log_ppd(split.test))
    assert list(islice(noted_sweeps(), 8)) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_trace_ends_with_its_time_and_says_when_a_score_was_reached(tiny):
    from equal_score import compared_with, print_equal_scores, seconds_until, trace

    points = trace(tiny, BUDGET, 0.05, "negative-binomial")
    assert points[0]["sweeps"] == 1
    assert points[-2]["seconds"] < 0.05 <= points[-1]["seconds"] if len(points) > 1 else points[0]["seconds"] >= 0.05
    assert all(np.isfinite(point["score"]) and point["score"] < 0 for point in points)
    made = [{"seconds": 1.0, "score": -2.0}, {"seconds": 4.0, "score": -1.0}]
    assert [seconds_until(score, made) for score in (-3.0, -1.5, -0.5)] == [1.0, 4.0, None]
    rival = {"method": "other", "label": "other", "ppd": float(np.exp(-1.5)), "seconds": 20.0, "problem": None}
    found = compared_with(rival, {"poisson": made, "negative-binomial": []})
    assert found["ours"]["poisson"] == {"seconds": 4.0, "ratio": 5.0}
    assert found["ours"]["negative-binomial"] == {"seconds": None, "ratio": None}
    result = {"seconds": 20.0, "traces": {"poisson": made}, "rivals": [found], "best rival": "other"}
    print_equal_scores(result, Console(quiet=True))


def test_a_long_run_has_a_start_a_middle_and_an_end(tiny):
    from long_run import long_run, print_long_run

    found = long_run(tiny, BUDGET, sweeps=40, thin=10)
    assert found["sweeps"] == 40
    assert [(each["from"], each["to"]) for each in found["windows"].values()] == [(1, 2), (20, 21), (39, 40)]
    assert all(each["classes"] <= BUDGET for each in found["windows"].values())
    assert found["end / start"]["resident MB"] > 0
    print_long_run(found, Console(quiet=True))


def test_a_curve_of_missing_cells_begins_without_any(tiny):
    from curves import by_missing

    found = by_missing(tiny, (0, 40), rounds=1)
    assert [point["missing"] for point in found] == [0, 40]
    assert all(point["sweep"] > 0 for point in found)


def test_a_tensor_that_memory_cannot_hold_is_a_sentence_and_not_a_crash(monkeypatch):
    import scale
    from allocore import _memory as available_memory
    from curves import print_sizes

    monkeypatch.setattr(available_memory, "available_memory", lambda: 10**9)
    assert scale.lacking(10**6) == ""
    problem = scale.lacking(10**8)
    assert problem == "100,000,000 entries: to make the tensor takes about 11.0 GB of memory, but 1.0 GB are available"
    console = Console(record=True, width=200, quiet=True)
    point = scale.scale((9, 8, 7), 500, 4, 3)
    print_sizes([point, {"problem": problem}], console)
    assert point["bytes per non-zero"] > 8
