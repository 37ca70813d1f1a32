"""What follows from the likelihood in a posterior: predictions, surprises, sizes and traces, against brute force."""

import inspect
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import allocore as ac
from allocore.model.spec import Spec
from allocore.posterior import surprises as zero_search
from allocore.posterior.convergence import traces
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule
from support.errors import refused
from support.tiers import parametrize_few

SHAPE, BUDGET = (5, 4, 3), 4
PATTERNS = [(1, None, None), (None, 0, 1), (2, 1, 0), (1, 2, None)]
KINDS = [("poisson", None), ("negative-binomial", None), ("negative-binomial", 0), ("negative-binomial", 2),
         ("bernoulli", None)]  # fmt: skip
QUICK = {"burn_in": 3, "draws": 4, "thin": 1, "seed": 1, "progress": False, "threads": 1, "chains": 1}


def posterior_with(likelihood, by=None, *, seed=0, chains=2, draws=9, scale=3.0, missing=(), infer=False, e0=1.0):
    """Random draws that differ mildly, as those of a posterior do, put together without a sampler."""
    rng, lead = np.random.default_rng(seed), (chains, draws)
    usual = [rng.gamma(0.5, 1.0, (length, BUDGET)) for length in SHAPE]
    counts = rng.poisson(2.0, SHAPE) * rng.integers(0, 2, SHAPE)
    tensor = ac.as_tensor(np.minimum(counts, 1) if likelihood == "bernoulli" else counts)
    core = rng.gamma(1.0, scale, (*lead, BUDGET))
    sweeps = {name: np.zeros(lead) for name in ("log_likelihood", "classes", "moved", "seconds")}
    return Posterior(
        Record(
            tensor.with_missing(list(missing)),
            Spec(BUDGET, (BUDGET,) * 3, likelihood=likelihood, dispersion_by=by, infer_budget=infer, e0=e0),
            Schedule(0, draws, 1),
            0,
            core_values=core * (rng.random(core.shape) < 0.7) if infer else core,
            core_locations=rng.integers(0, BUDGET, (*lead, BUDGET, 3)),
            factors=tuple(each * rng.gamma(20.0, 1 / 20, (*lead, *each.shape)) for each in usual),
            stats={**sweeps, "factors": np.zeros((*lead, 3))},
            concentrations=rng.gamma(2.0, 1.0, (*lead, 3)) if e0 == "infer" else None,
            log_odds=dispersions(rng, lead, by) if likelihood == "negative-binomial" else None,
        ),
        1,
    )


def dispersions(rng, lead, by):
    """Log odds that differ mildly from draw to draw, and much from row to row."""
    rows = () if by is None else (SHAPE[by],)
    return rng.normal(0.0, 1.0, rows) + rng.normal(0.0, 0.1, (*lead, *rows))


def dense(post):
    """Rates and dispersions p of all cells in each draw, (draw of all chains, *shape), by the formula of the model."""
    record, rates, p = post.record, [], []
    for place in np.ndindex(record.core_values.shape[:2]):
        total = np.zeros(SHAPE)
        for q, value in enumerate(record.core_values[place]):
            term = np.array(value)
            for mode, factor in enumerate(record.factors):
                term = np.multiply.outer(term, factor[place][:, record.core_locations[(*place, q, mode)]])
            total += term
        rates.append(total)
        if record.log_odds is not None:
            own = 1 / (1 + np.exp(-record.log_odds[place]))
            by = record.spec.dispersion_by
            axes = [1, 1, 1]
            if by is not None:
                axes[by] = SHAPE[by]
            p.append(np.broadcast_to(np.reshape(own, axes), SHAPE))
    return np.array(rates), np.array(p)


def frozen(post):
    """The distribution of all cells in each draw, by SciPy."""
    rates, p = dense(post)
    if post.likelihood == "negative-binomial":
        return stats.nbinom(rates, 1 - p)
    return stats.poisson(rates) if post.likelihood == "poisson" else stats.bernoulli(-np.expm1(-rates))


def dense_counts(tensor):
    counts = np.zeros(SHAPE, dtype=int)
    counts[tuple(tensor.coords)] = tensor.counts
    return counts


def observed(tensor):
    return ~tensor.missing.contains(np.indices(SHAPE).reshape(3, -1)).reshape(SHAPE)


# Predictions


@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_rates_are_expected_counts_and_predictions_are_averages_over_draws(likelihood, by, infer):
    post, cells = posterior_with(likelihood, by, infer=infer), np.indices(SHAPE).reshape(3, -1)
    other, counts = frozen(post), dense_counts(post.tensor)
    np.testing.assert_allclose(post.expected(cells), other.mean().mean(axis=0).ravel(), rtol=1e-10)
    with np.errstate(divide="ignore"):
        expected = np.log(other.pmf(counts).mean(axis=0)).ravel()
    np.testing.assert_allclose(post.log_predictive(cells, counts.ravel()), expected, rtol=1e-8)


@parametrize_few(("likelihood", "by"), KINDS)
def test_predictive_probabilities_sum_to_one(likelihood, by):
    post, cell = posterior_with(likelihood, by, scale=1.0), [[0], [1], [2]]
    counts = range(2 if likelihood == "bernoulli" else 400)
    total = sum(math.exp(post.log_predictive(cell, [count])[0]) for count in counts)
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_count_above_one_is_impossible_under_bernoulli():
    post = posterior_with("bernoulli")
    assert post.log_predictive([[0], [0], [0]], [2])[0] == -np.inf


# Surprises


@parametrize_few("missing", [(), PATTERNS])
@parametrize_few("seed", range(3))
@parametrize_few(("likelihood", "by"), KINDS)
def test_surprises_are_those_of_all_observed_cells_judged_one_by_one(likelihood, by, seed, missing):
    post = posterior_with(likelihood, by, seed=seed, scale=20.0, missing=missing)
    counts, other, seen = dense_counts(post.tensor), frozen(post), observed(post.tensor)
    more, fewer = other.sf(counts - 1).mean(axis=0), other.cdf(counts).mean(axis=0)
    p, mean = np.minimum(1.0, 2 * np.minimum(more, fewer)), other.mean().mean(axis=0)
    cells = [cell for cell in np.ndindex(SHAPE) if seen[cell] and (counts[cell] > 0 or p[cell] < 1 - 1e-12)]
    for top in (1, 7, len(cells)):
        table = post.surprises(top=top)
        found = [tuple(row) for row in table.iloc[:, :3].to_numpy().tolist()]
        best = sorted(cells, key=lambda cell: p[cell])[:top]
        np.testing.assert_allclose(table["p"], [p[cell] for cell in best], rtol=1e-7)
        np.testing.assert_allclose(table["p"], [p[cell] for cell in found], rtol=1e-7)
        np.testing.assert_allclose(table["expected"], [mean[cell] for cell in found], rtol=1e-10)
        assert table["observed"].tolist() == [counts[cell] for cell in found]
        assert table.attrs["zeros_searched"] == "all"
    assert set(found) == set(cells)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_the_search_finds_exactly_the_zeros_above_a_latent_rate(likelihood, by, seed):
    post = posterior_with(likelihood, by, seed=seed, draws=3, scale=20.0, missing=PATTERNS)
    record, tensor = post.record, post.tensor
    zero = (dense_counts(tensor) == 0) & observed(tensor)
    rates, p = dense(post)
    latent = np.where(zero, (rates * (-np.log1p(-p) if len(p) else 1.0)).mean(axis=0), -1.0)
    search = zero_search.ZeroSearch(record, tensor.coords, tensor.missing, room=1000, draws=6)
    ordered = np.unique(latent[zero])
    for place in (0, len(ordered) // 2, len(ordered) - 2):
        least = float(ordered[place : place + 2].mean())  # between two, so that rounding decides nothing
        cells, reach = search.cells_above(least)
        assert set(map(tuple, cells.T.tolist())) == set(map(tuple, np.argwhere(latent >= least).tolist()))
        assert reach == least


# Dispersion and concentrations


@pytest.mark.parametrize(("by", "shape"), [(None, (2, 9)), (0, (2, 9, 5)), (2, (2, 9, 3))])
def test_the_dispersion_is_p(by, shape):
    post = posterior_with("negative-binomial", by)
    assert post.likelihood == "negative-binomial"
    assert post.dispersion.shape == shape
    np.testing.assert_allclose(np.log(post.dispersion / (1 - post.dispersion)), post.record.log_odds, rtol=1e-9)


def test_a_dispersion_of_any_size_is_a_probability():
    post = posterior_with("negative-binomial")
    extreme = replace(post.record, log_odds=np.tile([-900.0, 0.0, 900.0], (2, 3)))
    assert Posterior(extreme).dispersion[0, :3].tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_other_likelihoods_have_no_dispersion_and_say_so(likelihood):
    with refused("dispersion"):
        posterior_with(likelihood).dispersion  # noqa: B018
    assert not hasattr(posterior_with(likelihood), "dispersion")
    assert getattr(posterior_with(likelihood), "dispersion", None) is None
    assert "dispersion" not in dict(inspect.getmembers(posterior_with(likelihood)))
    assert hasattr(posterior_with("negative-binomial"), "dispersion")


def test_a_maximum_likelihood_estimate_has_no_concentrations_and_says_so():
    post = ac.NNTuck((2, 2, 2), restarts=1, max_iter=5, seed=0).fit(posterior_with("poisson").tensor).posterior_
    with refused("concentrations"):
        post.concentrations  # noqa: B018
    assert not hasattr(post, "concentrations")
    assert {"likelihood", "core_values"} <= dict(inspect.getmembers(post)).keys()


def test_the_likelihood_is_named_unless_it_is_that_of_the_paper():
    told = "Posterior: 2 chains of 9 draws, 4 classes, core 4 x 4 x 4"
    assert repr(posterior_with("poisson")) == told
    assert repr(posterior_with("negative-binomial", 0)) == f"{told}, negative binomial"
    assert repr(posterior_with("bernoulli")) == f"{told}, Bernoulli"


@pytest.mark.parametrize(("e0", "fixed"), [(1.0, [1, 1, 1]), ((0.1, 0.5, 2.0), [0.1, 0.5, 2.0])])
def test_concentrations_that_are_given_are_the_same_in_every_draw(e0, fixed):
    found = posterior_with("poisson", e0=e0).concentrations
    assert found.shape == (2, 9, 3)
    assert (found == fixed).all()


def test_concentrations_that_are_learned_are_those_of_the_draws():
    post = posterior_with("poisson", e0="infer")
    assert post.concentrations is post.record.concentrations


# Sizes of classes


@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.parametrize("missing", [(), PATTERNS])
@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_the_sizes_of_classes_add_up_to_the_expected_counts(likelihood, by, missing, infer):
    post = posterior_with(likelihood, by, missing=missing, infer=infer)
    rates, p = dense(post)
    expected = (rates * (p / (1 - p) if likelihood == "negative-binomial" else 1.0))[-1]
    summary = post.class_summary(-1, chain=1)
    assert summary.value_C.sum() == pytest.approx(expected[observed(post.tensor)].sum(), rel=1e-10)
    assert (np.diff(summary.value_C) <= 0).all()
    assert summary.counted == ("expected latent counts" if likelihood == "bernoulli" else "expected counts")


def test_factors_of_the_mode_with_dispersions_are_shares_of_expected_counts():
    post = posterior_with("negative-binomial", 0)
    summary, record = post.class_summary(-1), post.record
    odds = np.exp(record.log_odds[0, -1])
    for number, factor in summary.factors[0].items():
        weight = odds * record.factors[0][0, -1][:, number]
        np.testing.assert_allclose(factor.share_D, weight / weight.sum(), rtol=1e-12)
    for number, factor in summary.factors[1].items():
        weight = record.factors[1][0, -1][:, number]
        np.testing.assert_allclose(factor.share_D, weight / weight.sum(), rtol=1e-12)


def test_classes_are_compared_as_they_are_shown():
    """Draws that differ in the factors of the mode with dispersions, but not once these are weighted by the odds."""
    post = posterior_with("negative-binomial", 0, chains=1, draws=2)
    record, factors = post.record, [np.repeat(factor[:, :1], 2, axis=1) for factor in post.record.factors]
    odds = np.array([[1e-3, 1.0, 1e3, 1.0, 1e3], [1e3, 1.0, 1e-3, 1e3, 1.0]])
    shown = factors[0][0]
    factors[0] = (shown / odds[:, :, None])[None]
    same = {name: np.repeat(getattr(record, name)[:, :1], 2, axis=1) for name in ("core_values", "core_locations")}
    weighted = replace(record, **same, factors=tuple(factors), log_odds=np.log(odds)[None])
    assert (Posterior(weighted).classes(-1)["stability"] == 1.0).all()
    assert (Posterior(replace(weighted, log_odds=np.zeros((1, 2, 5)))).classes(-1)["stability"] < 1.0).any()


# Traces


@pytest.mark.parametrize("missing", [(), PATTERNS])
@pytest.mark.parametrize(("likelihood", "by"), KINDS)
def test_the_expected_total_and_the_cells_are_traced_under_the_likelihood(likelihood, by, missing):
    post = posterior_with(likelihood, by, missing=missing)
    found = {trace.name: trace.values for trace in traces(post.record)}
    mean, seen = (dense(post)[0] if likelihood == "bernoulli" else frozen(post).mean()), observed(post.tensor)
    name = "total latent rate" if likelihood == "bernoulli" else "expected total count"
    np.testing.assert_allclose(found[name].ravel(), mean[:, seen].sum(axis=1), rtol=1e-10)
    for name, values in found.items():
        if name.startswith("log expected count of "):
            cell = tuple(int(d) for d in name.removeprefix("log expected count of ").split(", "))
            np.testing.assert_allclose(np.exp(values).ravel(), frozen(post).mean()[:, *cell], rtol=1e-9)


def test_the_dispersion_and_the_concentrations_have_an_r_hat():
    table = posterior_with("negative-binomial", e0="infer").diagnose().table
    names = ["dispersion p", *(f"mode_{mode} concentration" for mode in range(3))]
    assert np.isfinite(table.loc[names, "r_hat"]).all()
    assert not any(
        "dispersion" in name or "concentration" in name for name in posterior_with("poisson").diagnose().table.index
    )


def test_dispersions_by_row_are_traced_by_their_mean_and_spread_over_rows_with_counts():
    post = posterior_with("negative-binomial", 0, missing=[(1, None, None)])
    found = {trace.name: trace.values for trace in traces(post.record)}
    rows = post.dispersion[..., [0, 2, 3, 4]]
    np.testing.assert_allclose(found["dispersion p, mean over mode_0"], rows.mean(axis=2))
    np.testing.assert_allclose(found["dispersion p, sd over mode_0"], rows.std(axis=2))


def test_chains_that_disagree_on_concentrations_have_a_large_r_hat_there():
    post = posterior_with("poisson", draws=60, e0="infer")
    apart = post.record.concentrations + 5.0 * np.arange(2)[:, None, None]
    found = Posterior(replace(post.record, concentrations=apart)).diagnose().details[0]
    assert (found.kind, found.values["quantity"]) == ("r-hat", "the concentrations")
    assert 3 <= found.values["above"] <= 6


# Fitted models, in memory and on disk


def fitted(likelihood, by, tmp_path, **settings):
    counts = np.random.default_rng(2).negative_binomial(0.7, 0.4, SHAPE)
    Y = ac.as_tensor(counts, mode_names=["who", "whom", "when"]).with_missing(PATTERNS)
    Y = Y.binarize() if likelihood == "bernoulli" else Y
    given = {"likelihood": likelihood, "dispersion_by": by, "store": tmp_path / "run.zarr", **QUICK, **settings}
    return ac.AlloCore(3, **given).fit(Y).posterior_


@pytest.mark.parametrize(
    ("likelihood", "by"),
    [
        ("negative-binomial", "when"),
        pytest.param("poisson", None, marks=pytest.mark.slow),
        pytest.param("negative-binomial", None, marks=pytest.mark.slow),
        pytest.param("bernoulli", None, marks=pytest.mark.slow),
    ],
)
def test_stored_reopened_and_pickled_runs_say_the_same(likelihood, by, tmp_path):
    post = fitted(likelihood, by, tmp_path, e0="infer", chains=2)
    cells = np.indices(SHAPE).reshape(3, -1)
    post.save(tmp_path / "saved.zarr")
    again = [ac.open_run(tmp_path / "run.zarr"), ac.open_run(tmp_path / "saved.zarr"), pickle.loads(pickle.dumps(post))]
    judged, surprises = post.diagnose(), post.surprises(top=5)
    for other in again:
        assert other.likelihood == likelihood
        np.testing.assert_array_equal(other.expected(cells), post.expected(cells))
        np.testing.assert_array_equal(other.concentrations, post.concentrations)
        found = other.diagnose()
        assert found.table.equals(judged.table)
        assert found.likelihood == judged.likelihood
        assert other.surprises(top=5).equals(surprises)
        if likelihood == "negative-binomial":
            np.testing.assert_array_equal(other.dispersion, post.dispersion)


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "bernoulli"])
def test_an_inferred_budget_predicts_and_is_summarised(likelihood, tmp_path):
    counts = np.random.default_rng(2).negative_binomial(0.7, 0.4, SHAPE)
    Y = ac.as_tensor(np.minimum(counts, 1) if likelihood == "bernoulli" else counts)
    post = ac.AlloCore("infer", max_budget=6, likelihood=likelihood, **QUICK).fit(Y).posterior_
    total = post.expected(np.indices(SHAPE).reshape(3, -1)).sum()
    assert np.isfinite(total)
    assert post.class_summary("best").value_C.sum() > 0
    assert np.isfinite(post.log_ppd(Y, allow_training=True))
    assert len(post.surprises(top=5)) == 5
