"""budget="infer": the number of classes is learned, kept in runs, and shown without the classes that are left out."""

import numpy as np
import pytest

import allocore as ac
from support.errors import refused

pytestmark = pytest.mark.jit
QUICK = {"burn_in": 30, "draws": 8, "thin": 2, "seed": 1, "chains": 1, "likelihood": "poisson", "progress": False}


def blocks(size=12, groups=3, seed=0):
    """A network of groups that keep to themselves: as many classes as groups explain it."""
    rng = np.random.default_rng(seed)
    group = np.arange(size) % groups
    rate = np.where(group[:, None] == group[None], 6.0, 0.02)
    return ac.as_tensor(rng.poisson(np.broadcast_to(rate[..., None], (size, size, 4))))


@pytest.fixture(scope="module")
def fitted():
    model = ac.AlloCore("infer", max_budget=40, f0=1.0, **{**QUICK, "chains": 2, "burn_in": 300, "draws": 20})
    return model.fit(blocks())


@pytest.mark.slow
def test_few_classes_stay_on_where_few_explain_the_data(fitted):
    budget = fitted.posterior_.budget
    assert budget.shape == (2, 20)
    assert budget.min() >= 3
    assert budget.max() < 20, "of 40 at the start"


def test_classes_that_are_off_are_zero_and_are_not_shown(fitted):
    post = fitted.posterior_
    assert (post.core_values == 0).any()
    table = post.classes(-1)
    assert len(table) <= post.budget[0, -1]
    assert (table["value"] > 0).all()
    in_use = len(post.class_summary(-1).names)
    assert 1 <= in_use <= post.budget[0, -1]
    assert table["stability"].between(0, 1).all()
    assert len(post.consensus().share) <= post.budget.max()


def test_the_inferred_budget_is_a_finding_of_the_consensus_and_of_a_draw(fitted):
    median = int(np.quantile(fitted.posterior_.budget, 0.5, method="nearest"))
    for draw in (None, "best"):
        found = {each.kind: each.values for each in fitted.posterior_.class_summary(draw).findings}
        assert found["inferred-budget"]["median"] == median


def test_rates_are_those_of_the_classes_that_are_on(fitted):
    post = fitted.posterior_
    total = post.expected(np.indices((12, 12, 4)).reshape(3, -1)).sum()
    assert total == pytest.approx(blocks().total, rel=0.1)


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads():
    one, two = (
        ac.AlloCore("infer", max_budget=20, threads=threads, **QUICK).fit(blocks()).posterior_ for threads in (1, 2)
    )
    assert one.core_values.tobytes() == two.core_values.tobytes()
    assert one.factors[0].tobytes() == two.factors[0].tobytes()


def test_a_run_is_stored_and_resumed_to_the_same_bytes(tmp_path):
    settings = {"budget": "infer", "max_budget": 20, "c0": 2.0, "d0": 5.0}
    whole = ac.AlloCore(**settings, **QUICK).fit(blocks()).posterior_
    ac.AlloCore(**settings, **{**QUICK, "draws": 3}, store=tmp_path / "run.zarr").fit(blocks())
    model = ac.AlloCore.resume(tmp_path / "run.zarr", draws=8)
    assert model.get_params()["budget"] == "infer"
    assert model.get_params()["max_budget"] == 20
    assert (model.c0, model.d0) == (2.0, 5.0)
    assert model.posterior_.core_values.tobytes() == whole.core_values.tobytes()
    assert ac.open_run(tmp_path / "run.zarr").budget.tolist() == whole.budget.tolist()


def test_a_fixed_budget_is_what_it_is():
    assert (ac.AlloCore(4, **QUICK).fit(blocks()).posterior_.budget == 4).all()


@pytest.mark.parametrize(("name", "value"), [("budget", "guess"), ("max_budget", 0), ("c0", -1.0), ("d0", "much")])
def test_a_setting_that_makes_no_sense_is_named(name, value):
    settings = {"budget": "infer", **QUICK, name: value}
    with refused(name, value):
        ac.AlloCore(**settings).fit(blocks())
