"""Profiles of classes in the observed cells, against sums over all cells one by one."""

from dataclasses import replace

import numpy as np
import pytest

from allocore.classes.profiles import ClassReader
from support.planted import posterior_of

SHAPE = (4, 4, 3)
MISSING = [(0, 0, None), (1, 1, None), (2, 2, None), (3, 3, None), (0, 2, 1)]


def random_posterior(missing=None, seed=0, **spec):
    rng = np.random.default_rng(seed)
    classes = [(float(rng.gamma(2.0)), tuple(tuple(rng.gamma(0.5, size=length)) for length in SHAPE)) for _ in range(3)]
    return posterior_of([[classes]], SHAPE, missing=missing, **spec)


def dense_counts(post, odds=None):
    """The expected count of every class in every cell, zero where it is missing: (Q, *shape)."""
    record = post.record
    counts = []
    for value, subs_M in zip(record.core_values[0, 0], record.core_locations[0, 0], strict=True):
        columns = [factor[0, 0][:, k] for factor, k in zip(record.factors, subs_M, strict=True)]
        counts.append(value * np.einsum("i,j,k->ijk", *columns))
    dense = np.array(counts) * (1.0 if odds is None else odds)
    cells = np.indices(SHAPE).reshape(3, -1)
    return np.where(record.tensor.missing.contains(cells).reshape(SHAPE), 0.0, dense)


@pytest.mark.parametrize("missing", [None, MISSING], ids=["whole", "missing"])
@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "by-row"])
def test_profiles_are_shares_of_expected_counts_in_observed_cells(missing, likelihood):
    post, odds = random_posterior(missing), None
    if likelihood != "poisson":
        by = 1 if likelihood == "by-row" else None
        log_odds = np.array([[[-1.0, 0.5, 2.0, 0.0]]]) if by == 1 else np.array([[0.7]])
        spec = replace(post.record.spec, likelihood="negative-binomial", dispersion_by=by)
        post._record = replace(post.record, spec=spec, log_odds=log_odds)
        odds = np.exp(log_odds[0, 0]).reshape((1, 4, 1)) if by == 1 else np.exp(0.7)
    dense = dense_counts(post, odds)
    order = np.argsort(-dense.sum(axis=(1, 2, 3)))
    found = ClassReader(post.record).read(0, 0)
    np.testing.assert_allclose(found.value_C, dense.sum(axis=(1, 2, 3))[order])
    for mode, profile in enumerate(found.profiles):
        others = tuple(axis for axis in (1, 2, 3) if axis != mode + 1)
        by_row = dense.sum(axis=others)[order]
        np.testing.assert_allclose(profile.T, by_row / by_row.sum(axis=1, keepdims=True))
    assert (found.factors is found.profiles) == (missing is None)


def test_the_profile_of_a_class_leaves_out_the_cell_of_a_label_with_itself():
    one, even = (0.7, 0.1, 0.1, 0.1), (1 / 3,) * 3
    post = posterior_of([[[(1.0, (one, one, even))]]], SHAPE, missing=[(d, d, None) for d in range(4)])
    found = ClassReader(post.record).read(0, 0)
    # Cells (0, d): 0.7 * 0.1 each, three of them; the others 0.1 * 0.1, two for each row.
    assert found.profiles[0][0, 0] == pytest.approx(0.21 / (0.42 + 0.06))
    assert found.factors[0][0, 0] == pytest.approx(0.7)


def test_classes_at_one_location_are_one():
    a, b = (
        ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0)),
        ((0.0, 1.0, 0.0, 0.0),) * 2 + ((0.0, 1.0, 0.0),),
    )
    post = posterior_of([[[(2.0, a), (3.0, a), (1.0, b)]]], SHAPE)
    found = ClassReader(post.record).read(0, 0)
    assert sorted(found.value_C.tolist()) == [1.0, 5.0]


def test_a_class_that_underflows_has_an_empty_profile():
    nothing = ((0.0,) * 4, (1.0, 0.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    found = ClassReader(posterior_of([[[(1.0, nothing)]]], SHAPE).record).read(0, 0)
    assert found.value_C.tolist() == [0.0]
    assert not found.profiles[0].any()
    assert np.isfinite(found.profiles[1]).all()
