"""The slow sampler of the experiments: exact without switches, and each switch does what it says."""

from pathlib import Path

import numpy as np
import pytest

import allocore as ac

FOLDER = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import slow_sampler

    return slow_sampler


def sampler(slow, counts, held_out=(), seed=0, **more):
    tensor = ac.as_tensor(counts)
    kept = ~np.isin(np.arange(tensor.nnz), held_out)
    rng = np.random.default_rng(seed)
    return slow.Sampler(tensor.coords[:, kept], tensor.counts[kept], tensor.shape, (3, 3, 3), 3, rng, **more)


def test_every_count_is_in_one_class(slow):
    counts = np.random.default_rng(0).poisson(0.7, (5, 4, 3))
    for state, class_Q in sampler(slow, counts).states(5):
        assert class_Q.sum() == counts.sum()
        assert state.subs_QM.shape == (3, 3)


def test_thinning_every_fifth_sweep_keeps_the_counts_of_the_classes_between(slow):
    counts = np.random.default_rng(0).poisson(2.0, (5, 4, 3))
    chain = sampler(slow, counts, switches=slow.Switches(thin_every=5))
    sizes = [class_Q.tolist() for _, class_Q in chain.states(12)]
    changed = [number for number in range(1, 12) if sizes[number] != sizes[number - 1]]
    assert changed == [5, 10]


def test_locations_that_are_not_learned_stay_on_the_diagonal(slow):
    counts = np.random.default_rng(0).poisson(1.0, (5, 4, 3))
    *_, (state, _) = sampler(slow, counts, learn_locations=False).states(4)
    assert state.subs_QM.tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]


def test_probabilities_of_zero_have_a_floor_only_with_the_switch(slow):
    cells, counts = np.zeros((3, 1), dtype=np.int64), np.array([400])
    state = slow.State(np.array([1e-6]), np.zeros((1, 3), dtype=np.int64), [np.ones((2, 1))] * 3)
    found = {}
    for floor in (False, True):
        score = slow.Score(cells, counts, slow.Switches(floor=floor))
        score.refresh(state, 0)
        score.add()
        found[floor] = float(score.log_ppd()[0])
    assert found[True] == pytest.approx(np.log(1e-5))
    assert found[False] < -5000


def test_stale_rates_are_those_of_the_last_imputation(slow):
    cells, counts = np.zeros((3, 1), dtype=np.int64), np.array([1])
    score = slow.Score(cells, counts, slow.Switches(impute_every=50, stale_rates=True))
    for sweep, core in enumerate((1.0, 2.0)):
        state = slow.State(np.array([core]), np.zeros((1, 3), dtype=np.int64), [np.ones((2, 1))] * 3)
        score.refresh(state, sweep)
        assert score.rate_H.tolist() == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial"])
def test_without_switches_it_has_the_posterior_of_the_package(slow, likelihood):
    """The means of the expected total and of the factors in use; the limit is passed once in ten thousand times."""
    counts = np.zeros((4, 3, 3), dtype=np.int64)
    counts[0, 0] = 6, 5, 0
    counts[1, 1, 1] = counts[2, 1, 1] = 9
    dispersed = likelihood == "negative-binomial"
    ours = []
    for state, _ in sampler(slow, counts, dispersed=dispersed, seed=1).states(8_000):
        odds = 1.0 if state.log_odds is None else np.exp(state.log_odds)
        ours.append([odds * (state.core_Q @ state.sums()), len(np.unique(state.subs_QM, axis=0))])
    model = ac.AlloCore(
        3, likelihood=likelihood, alpha0=0.1, burn_in=500, draws=2000, thin=5, chains=1, seed=1, progress=False
    )
    post = model.fit(ac.as_tensor(counts)).posterior_
    data = post.to_datatree()
    theirs = np.column_stack(
        [
            data["posterior"]["expected_total"].to_numpy()[0],
            [len(np.unique(each, axis=0)) for each in post.core_locations[0]],
        ]
    )
    for mine, other in zip(np.array(ours[1000:]).T, theirs.T, strict=True):
        error = np.hypot(
            *(each[: len(each) // 20 * 20].reshape(20, -1).mean(axis=1).std(ddof=1) / 20**0.5 for each in (mine, other))
        )
        assert abs(mine.mean() - other.mean()) < 4.9 * error, "Student's t with 38 degrees of freedom"
