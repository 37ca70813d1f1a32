"""EM iterations against the dense textbook, and what they promise: the log-likelihood never falls."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import allocore as ac
from allocore.em import nntuck as iteration
from allocore.em.nntuck import Estimate, Problem, expectation, maximisation, random_start
from allocore.kernels.exposure_sums import SignedPatterns
from allocore.kernels.workers import Workers
from support import cases, dense_em

CORES = {2: (2, 3), 3: (2, 3, 2), 4: (2, 2, 1, 3)}


def tensor_of(modes, with_missing=True, seed=0, mean=2.0):
    rng = np.random.default_rng(seed)
    Y = rng.poisson(mean, cases.SHAPES[modes])
    tensor = ac.as_tensor(Y)
    return Y, tensor.with_missing(cases.PATTERNS[modes]) if with_missing else tensor


def observed_cells(tensor):
    return ~tensor.missing.contains(np.indices(tensor.shape).reshape(len(tensor.shape), -1)).reshape(tensor.shape)


def start_of(tensor, core_shape, seed=1, threads=1):
    problem = Problem.of(tensor, core_shape, Workers(threads))
    return problem, random_start(problem, np.random.default_rng(seed))


def iterate(problem, estimate, times):
    """The estimate after some iterations, and the log-likelihood of all on the way, the start's first."""
    expected = expectation(problem, estimate)
    trace = [expected.log_likelihood]
    for _ in range(times):
        estimate = maximisation(problem, estimate, expected)
        expected = expectation(problem, estimate)
        trace.append(expected.log_likelihood)
    return estimate, np.array(trace)


def assert_same(estimate, core, phi):
    np.testing.assert_allclose(estimate.core, core, rtol=1e-10, atol=1e-10)
    for found_DK, phi_DK in zip(estimate.phi, phi, strict=True):
        np.testing.assert_allclose(found_DK, phi_DK, rtol=1e-10, atol=1e-10)


def after_dense_iterations(Y, observed, start, times):
    core, phi = start.core, list(start.phi)
    for _ in range(times):
        core, phi = dense_em.iterate(Y, observed, core, phi)
    return core, phi


@pytest.mark.parametrize("with_missing", [True, False])
@pytest.mark.parametrize("modes", [2, 3, 4])
def test_iterations_are_those_of_the_dense_textbook(modes, with_missing):
    Y, tensor = tensor_of(modes, with_missing)
    observed = observed_cells(tensor)
    problem, start = start_of(tensor, CORES[modes])
    estimate, trace = iterate(problem, start, 12)
    core, phi = after_dense_iterations(Y, observed, start, 12)
    assert_same(estimate, core, phi)
    assert trace[0] == pytest.approx(dense_em.log_likelihood(Y, observed, start.core, start.phi), rel=1e-12)
    assert trace[-1] == pytest.approx(dense_em.log_likelihood(Y, observed, core, phi), rel=1e-12)
    assert trace[-1] > trace[0] + 1.0


def test_the_textbook_tells_when_missing_patterns_are_forgotten():
    Y, tensor = tensor_of(3)
    problem, start = start_of(tensor, CORES[3])
    forgetful, _ = start_of(ac.CountTensor(tensor.coords, tensor.counts, tensor.shape), CORES[3])
    estimate, _ = iterate(forgetful, start, 3)
    core, phi = after_dense_iterations(Y, observed_cells(tensor), start, 3)
    with pytest.raises(AssertionError):
        assert_same(estimate, core, phi)
    assert_same(iterate(problem, start, 3)[0], core, phi)


def test_the_textbook_tells_when_overlapping_patterns_are_taken_out_twice(monkeypatch):
    Y, tensor = tensor_of(3)
    patterns_PM = np.where(tensor.missing.patterns < 0, tensor.shape, tensor.missing.patterns)
    rows_PM = np.concatenate([[tensor.shape], patterns_PM])
    weights_P = np.array([1.0] + [-1.0] * len(patterns_PM))
    monkeypatch.setattr(SignedPatterns, "observed_cells", lambda self: (rows_PM.T, weights_P))
    problem, start = start_of(tensor, CORES[3])
    estimate, _ = iterate(problem, start, 3)
    with pytest.raises(AssertionError):
        assert_same(estimate, *after_dense_iterations(Y, observed_cells(tensor), start, 3))


def test_a_stale_exposure_is_told_from_a_fresh_one(monkeypatch):
    Y, tensor = tensor_of(3)
    problem, start = start_of(tensor, CORES[3])
    first = iteration._observed_rate(problem, start)
    expected = expectation(problem, start)
    monkeypatch.setattr(iteration, "_observed_rate", lambda problem, estimate: first)
    stale = maximisation(problem, start, expected)
    with pytest.raises(AssertionError):
        assert_same(stale, *after_dense_iterations(Y, observed_cells(tensor), start, 1))


@st.composite
def tensors(draw):
    """Small tensors of 2 to 4 modes with up to 4 missing patterns, and a core for them."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    core_shape = tuple(draw(st.integers(1, 3)) for _ in shape)
    pattern = st.tuples(*(st.none() | st.integers(0, length - 1) for length in shape))
    patterns = [each for each in draw(st.lists(pattern, max_size=4)) if any(row is not None for row in each)]
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    Y = rng.poisson(draw(st.sampled_from([0.3, 3.0, 300.0])), shape)
    return Y, patterns, core_shape


def assert_never_falls(Y, observed, problem, estimate, times):
    """The log-likelihood of the estimates, by the dense textbook, does not fall; what EM reports is that number.

    Tolerances are for rounding alone. Where an exposure is a difference that keeps six digits or more (what is fainter
    is left alone), an entry misses its best value by a millionth at most, and the maximum is flat: a loss of 1e-12 of
    the counts. What is reported has the rate of the observed cells as that of the whole tensor less the missing cells,
    so its error is some units in the last place of the rate of the whole, however large missing cells have become.
    """
    expected = expectation(problem, estimate)
    before = -np.inf
    for _ in range(times):
        now = dense_em.log_likelihood(Y, observed, estimate.core, list(estimate.phi))
        size = 1.0 + abs(now) + Y[observed].sum()
        assert now > before - 1e-11 * size
        assert abs(expected.log_likelihood - now) < 1e-13 * (size + estimate.core.sum())
        before, estimate = now, maximisation(problem, estimate, expected)
        expected = expectation(problem, estimate)
    return estimate


@given(tensors(), st.integers(0, 2**20))
@settings(max_examples=60, deadline=None)
def test_the_log_likelihood_never_falls(case, seed):
    Y, patterns, core_shape = case
    observed = np.ones(Y.shape, dtype=bool)
    for pattern in patterns:
        observed[tuple(slice(None) if row is None else row for row in pattern)] = False
    if not (Y[observed] > 0).any():
        return
    tensor = ac.as_tensor(np.where(observed, Y, 0)).with_missing(patterns)
    estimate = assert_never_falls(Y, observed, *start_of(tensor, core_shape, seed), 40)
    for phi_DK in estimate.phi:
        assert ((np.abs(phi_DK.sum(axis=0) - 1.0) < 1e-12) | (phi_DK.sum(axis=0) == 0.0)).all()


@pytest.mark.parametrize("modes", [2, 3, 4])
def test_one_factor_a_mode_is_independence_at_once(modes):
    """The maximum has a closed form: the total times the shares of the margins."""
    Y, tensor = tensor_of(modes, with_missing=False)
    estimate, trace = iterate(*start_of(tensor, (1,) * modes), 2)
    assert estimate.core.item() == pytest.approx(Y.sum(), rel=1e-13)
    for mode, phi_D1 in enumerate(estimate.phi):
        margin_D = Y.sum(axis=tuple(other for other in range(modes) if other != mode))
        np.testing.assert_allclose(phi_D1[:, 0], margin_D / Y.sum(), rtol=1e-12)
    assert trace[1] == pytest.approx(trace[2], rel=1e-13)


def test_a_core_as_large_as_a_matrix_fits_it_exactly():
    Y, tensor = tensor_of(2, with_missing=False, mean=20.0)
    estimate, trace = iterate(*start_of(tensor, Y.shape), 3000)
    np.testing.assert_allclose(dense_em.rates(estimate.core, list(estimate.phi)), Y, rtol=0.02)
    saturated = dense_em.log_likelihood(Y, np.ones_like(Y, dtype=bool), Y.astype(float), [np.eye(n) for n in Y.shape])
    assert saturated - 0.01 < trace[-1] <= saturated + 1e-9


def test_the_total_rate_of_the_observed_cells_is_their_total_count():
    """At every iteration's end: the last mode was put to its best value, and then the two agree."""
    Y, tensor = tensor_of(4)
    estimate, _ = iterate(*start_of(tensor, CORES[4]), 5)
    rate = dense_em.rates(estimate.core, list(estimate.phi))
    observed = observed_cells(tensor)
    assert rate[observed].sum() == pytest.approx(Y[observed].sum(), rel=1e-12)


def test_a_row_without_counts_or_without_observed_cells_becomes_zero_and_stays_it():
    Y, _ = tensor_of(3)
    Y[2] = 0
    tensor = ac.as_tensor(Y).with_missing([(None, 1, None)])
    for times in (1, 5):
        estimate, trace = iterate(*start_of(tensor, CORES[3]), times)
        assert (estimate.phi[0][2] == 0.0).all()
        assert (estimate.phi[1][1] == 0.0).all()
        assert np.isfinite(trace).all()


def test_a_zero_in_the_start_stays_zero():
    _, tensor = tensor_of(3)
    problem, start = start_of(tensor, CORES[3])
    core = start.core.copy()
    core[1, 2, 0] = 0.0
    estimate, _ = iterate(problem, Estimate(core, start.phi), 5)
    assert estimate.core[1, 2, 0] == 0.0
    assert (np.delete(estimate.core.ravel(), 10) > 0.0).all()


def test_an_entry_of_which_hardly_anything_is_observed_keeps_its_value():
    y, exposure, whole = np.array([3.0, 0.0, 2.0]), np.array([1e-12, 1e-12, 4.0]), np.array([1.0, 1.0, 8.0])
    found = iteration._ratio(y, exposure, whole, before=np.array([0.3, 0.4, 0.7]))
    assert found.tolist() == [0.3, 0.0, 0.5]


@pytest.mark.parametrize("near", [1e-3, 1e-6, 1e-9, 1e-10, 1e-14, 1e-17])
def test_a_factor_all_but_on_a_masked_cell_does_no_harm(near):
    """The exposure of sender 0 is then a difference of almost equal numbers; the rate of the masked cell is free."""
    Y = np.zeros((3, 3), dtype=int)
    Y[0, 1], Y[1, 0], Y[2, 0] = 3, 2, 4
    tensor = ac.as_tensor(Y).mask_diagonal((0, 1))
    problem, _ = start_of(tensor, (1, 1))
    start = Estimate(np.array([[9.0]]), (np.full((3, 1), 1 / 3), np.array([[1.0 - 2 * near], [near], [near]])))
    estimate = assert_never_falls(Y, observed_cells(tensor), problem, start, 60)
    assert all(np.isfinite(array).all() for array in (estimate.core, *estimate.phi))


def test_any_start_is_brought_into_form_without_changing_a_rate():
    rng = np.random.default_rng(0)
    core, phi = rng.random((2, 3)), [rng.random((4, 2)), rng.random((5, 3))]
    estimate = Estimate.of(core, phi)
    np.testing.assert_allclose(dense_em.rates(estimate.core, estimate.phi), dense_em.rates(core, phi), rtol=1e-13)
    assert all(phi_DK.sum(axis=0) == pytest.approx(1.0) for phi_DK in estimate.phi)


def test_a_random_start_has_no_zeros_and_expects_the_total_count():
    _, tensor = tensor_of(4)
    _, start = start_of(tensor, CORES[4])
    assert min(array.min() for array in (start.core, *start.phi)) > 0.0
    assert start.core.sum() == pytest.approx(tensor.total)
