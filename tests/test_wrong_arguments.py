"""Values of the wrong type or size raise an `InputError` about the argument: what random calls found, once each."""

from dataclasses import replace

import numpy as np
import pytest

import allocore as ac
from support.errors import refused
from support.forecast_cases import fitted, tensor
from support.handmade_posterior import posterior
from support.random_posterior import random_posterior

ARRAY = np.array([1, 2])


@pytest.fixture(scope="module")
def post():
    return random_posterior()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda post: ac.open_run("x" * 5000), "path"),
        (lambda post: ac.open_run("a\0b"), "path"),
        (lambda post: ac.open_run(3), "path"),
        (lambda post: ac.load_tensor(b"x.npz"), "path"),
        (lambda post: post.save(None), "path"),
        (lambda post: post.tensor.save(ARRAY), "path"),
        (lambda post: ac.write_report(post, "x" * 300), "path"),
        (lambda post: ac.figures.write_all(post, 1.5), "folder"),
        (lambda post: ac.figures.write_all(post, "x", formats=7), "formats"),
        (lambda post: post.class_summary(ARRAY), "draw"),
        (lambda post: post.class_summary(0, chain=ARRAY), "chain"),
        (lambda post: post.class_summary(0).profile(0, "who"), "mode"),
        (lambda post: post.class_summary(0).factor(ARRAY, 0), "place"),
        (lambda post: post.class_summary(0).to_frame(ARRAY), "what"),
        (lambda post: post.consensus().memberships(0, progress=False).frame(ARRAY), "what"),
        (lambda post: post.consensus().memberships(0, progress=False).words("all"), "node"),
        (lambda post: post.consensus().locations(None, 0), "chain"),
        (lambda post: post.consensus().locations(0, 99), "draw"),
        (lambda post: post.to_datatree(ARRAY), "log_likelihood"),
        (lambda post: post.predict({}, missing=ARRAY), "missing"),
        (lambda post: post.predict({}, draws="yes"), "draws"),
        (lambda post: post.ppd(post.tensor, allow_training=ARRAY), "allow_training"),
        (lambda post: ac.paper_table(post, ARRAY), "format"),
        (lambda post: ac.paper_table(post, caption=3), "caption"),
        (lambda post: ac.figures.traces(post, ARRAY), "ax"),
        (lambda post: ac.figures.mass(post, "axes"), "ax"),
        (lambda post: ac.figures.classes(post, 5), "numbers"),
        (lambda post: ac.figures.adjacency(post, modes=0.5), "modes"),
        (lambda post: ac.figures.forecast(post), "forecast"),
        (lambda post: ac.figures.over_time(post, forecast={}), "forecast"),
        (lambda post: ac.read_events({"a": [1]}, modes=["a"], time=ARRAY), "time"),
        (lambda post: ac.read_events({"a": [1]}, modes=["a"], count=3), "count"),
        (lambda post: ac.read_events({"a": [1]}, header=ARRAY), "header"),
        (lambda post: ac.as_tensor(np.ones((2, 2)), layers=ARRAY), "layers"),
        (lambda post: ac.as_tensor(np.ones((2, 2)), mode_names=3), "mode_names"),
        (lambda post: post.tensor.mask_diagonal(0.5), "modes"),
        (lambda post: post.tensor.missing.union("all"), "other"),
        (lambda post: post.tensor.missing.observed_rows("who"), "mode"),
        (lambda post: post.tensor.missing.has_diagonal(0, 1), "second"),
        (lambda post: post.tensor.missing.has_diagonal(None, 1), "first"),
        (lambda post: ac.CP(2).fit(post.tensor, resume=ARRAY), "resume"),
        (lambda post: ac.select_budget(post.tensor, criterion=[]), "criterion"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(post, call, argument):
    with refused(argument):
        call(post)


def test_a_value_that_is_nested_too_deeply_to_print_has_a_sentence():
    nested = []
    for _ in range(5000):
        nested = [nested]
    assert "nested very deeply" in str(ac.InputError("cells", nested, "must be cells"))


@pytest.mark.parametrize("rate", [1e25, 1e200, np.inf])
@pytest.mark.parametrize("call", [lambda post, cell: post.predict(cell), lambda post, cell: post.simulate(cell)])
def test_expected_counts_without_a_whole_number_are_refused(rate, call):
    record = posterior().record
    huge = ac.Posterior(replace(record, core_values=record.core_values * rate))
    for cell in ([(0, 1, 1, 2)], {"sender": "United States"}):
        with refused("cells"):
            call(huge, cell)


def test_an_interval_whose_end_would_be_infinite_is_refused(post):
    with refused("interval"):
        post.predict([(0, 0, 0)], np.nextafter(1.0, 0.0))
    assert np.isfinite(post.predict([(1, 0, 0)], 1.0 - 1e-12)["high"]).all()


def test_quantiles_at_levels_that_are_close_have_columns_of_their_own():
    levels = (0.1, 0.10000000000100001, 0.9)
    table = fitted(tensor()).forecast(1).quantiles({}, levels)
    assert list(table.columns)[-3:] == ["0.1", "0.10000000000100001", "0.9"]


def test_no_cells_have_no_predictions(post):
    none = np.zeros((3, 0), dtype=int)
    assert post.expected(none).shape == post.log_predictive(none, []).shape == (0,)
    assert len(post.predict(none)) == 0
    assert post.simulate(none, draws=2).shape == (2, 0)
