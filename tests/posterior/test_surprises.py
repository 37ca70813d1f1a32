"""Surprises: against every cell judged by SciPy, far tails against exact decimals, and the search against all zeros."""

import math
from decimal import Decimal, localcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import allocore as ac
from allocore.errors import InputError
from allocore.kernels import exposure_sums as cell_rates
from allocore.model.spec import Spec
from allocore.posterior import predict as prediction
from allocore.posterior import surprises
from allocore.posterior import surprises as zero_search
from allocore.results import Posterior
from allocore.storage.record import Record, Schedule
from allocore.tensor.missing import Missing
from support.errors import refused
from support.findings import warned

SHAPE = (5, 4, 3)
PATTERNS = [(1, None, None), (None, 0, 1), (2, 1, 0), (1, 2, None)]


def put_together(tensor, core_values, core_locations, factors, threads=1):
    """A posterior of these draws, without a sampler."""
    chains, draws, budget = core_values.shape
    spec = Spec(budget, tuple(factor.shape[-1] for factor in factors))
    stats = {"moved": np.zeros((chains, draws))}
    return Posterior(
        Record(tensor, spec, Schedule(0, draws, 1), 0, core_values, core_locations, tuple(factors), stats), threads
    )


def posterior_of_counts(
    counts=None, chains=2, draws=9, shape=SHAPE, budget=4, seed=0, scale=3.0, missing=(), names=None
):
    """Random draws that differ mildly, as those of a posterior do."""
    rng = np.random.default_rng(seed)
    lead = (chains, draws)
    usual = [rng.gamma(0.5, 1.0, (length, budget)) for length in shape]
    if counts is None:
        counts = rng.poisson(2.0, shape) * rng.integers(0, 2, shape)
    return put_together(
        ac.as_tensor(counts).with_labels(mode_names=names).with_missing(list(missing)),
        core_values=rng.gamma(1.0, scale, (*lead, budget)),
        core_locations=rng.integers(0, budget, (*lead, budget, len(shape))),
        factors=[each * rng.gamma(20.0, 1 / 20, (*lead, *each.shape)) for each in usual],
    )


def rows_of(rates, counts, missing=()):
    """A posterior of a matrix in which all cells of a row have the same rate, given for each draw and row."""
    rates = np.asarray(rates, dtype=float)
    draws, rows = rates.shape
    return put_together(
        ac.as_tensor(np.array(counts)).with_missing(list(missing)),
        core_values=rates[None],
        core_locations=np.tile(np.arange(rows)[:, None], (1, draws, 1, 2)),
        factors=[np.tile(np.eye(rows), (1, draws, 1, 1)), np.ones((1, draws, len(counts[0]), rows))],
    )


def dense_rates(record):
    """The rates of all cells under every draw, (draw of all chains, *shape), by the formula of the model."""
    rates = []
    for place in np.ndindex(record.core_values.shape[:2]):
        total = np.zeros(record.tensor.shape)
        for q, value in enumerate(record.core_values[place]):
            product = np.array(value)
            for mode, factor in enumerate(record.factors):
                product = np.multiply.outer(product, factor[place][:, record.core_locations[(*place, q, mode)]])
            total += product
        rates.append(total)
    return np.array(rates)


def brute_force(post):
    """Every observed cell with its (log p, coordinates, count, mean rate), the most surprising first."""
    tensor, rates = post.tensor, dense_rates(post.record)
    counts = np.zeros(tensor.shape, dtype=int)
    counts[tuple(tensor.coords)] = tensor.counts
    more, fewer = stats.poisson.sf(counts - 1, rates).mean(axis=0), stats.poisson.cdf(counts, rates).mean(axis=0)
    log_p = np.log(np.minimum(1.0, 2 * np.minimum(more, fewer)))
    cells = [
        (log_p[cell], cell, counts[cell], rates.mean(axis=0)[cell])
        for cell in np.ndindex(tensor.shape)
        if not tensor.missing.contains(np.array(cell)[:, None])[0] and (counts[cell] > 0 or log_p[cell] < 0)
    ]
    return sorted(cells)


def cells_of(table, modes):
    return [tuple(row) for row in table.iloc[:, :modes].to_numpy().tolist()]


def log_tails(y, mu):
    """Both log tails of one Poisson by adding up its probabilities in 80 digits."""
    with localcontext() as context:
        context.prec = 80
        term = (-Decimal(mu)).exp()
        below = Decimal(0)
        for j in range(1, y + 1):
            below += term
            term *= Decimal(mu) / j
        above, last, j = Decimal(0), term, y
        while j < mu or last > above * Decimal(10) ** -40:
            above += last
            j += 1
            last *= Decimal(mu) / j
        return float(above.ln()), float((below + term).ln())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("missing", [(), PATTERNS])
def test_the_table_is_that_of_all_observed_cells_judged_one_by_one(seed, missing):
    post = posterior_of_counts(seed=seed, missing=missing)
    expected = brute_force(post)
    for top in (1, 7, len(expected)):
        table = post.surprises(top=top)
        log_p, cells, counts, rates = zip(*expected[:top], strict=True)
        assert cells_of(table, 3) == list(cells)
        np.testing.assert_array_equal(table["observed"], counts)
        np.testing.assert_allclose(table["expected"], rates, rtol=1e-12)
        np.testing.assert_allclose(table["surprise"], -np.array(log_p) / math.log(10), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(table["p"], np.exp(log_p), rtol=1e-9)
        assert table.attrs["zeros_searched"] == "all"
    assert {"more", "fewer"} >= set(table["direction"])


def test_zeros_are_among_them():
    """So that the comparison above is one of zeros too."""
    tables = [posterior_of_counts(seed=seed, scale=20.0).surprises(top=10) for seed in range(6)]
    assert sum((table["observed"] == 0).sum() for table in tables) > 5
    assert all((table["direction"][table["observed"] == 0] == "fewer").all() for table in tables)


@pytest.mark.parametrize("shape", [(7, 6), (3, 3, 2, 2), (2, 2, 2, 2, 2)])
def test_any_number_of_modes(shape):
    post = posterior_of_counts(shape=shape, scale=10.0, seed=3)
    assert cells_of(post.surprises(top=8), len(shape)) == [cell for _, cell, _, _ in brute_force(post)[:8]]


def test_more_cells_than_there_are_gives_them_all():
    post = posterior_of_counts()
    assert len(post.surprises(top=10**4)) == len(brute_force(post))


@pytest.mark.parametrize(
    ("y", "mu"),
    [
        (1, 1e-3),
        (1000, 1e-3),
        (1000, 1.0),
        (1000, 900.0),
        (3, 3.0),
        (1, 800.0),
        (30, 2000.0),
        (5000, 1000.0),
        (7, 1e-200),
    ],
)
def test_tails_are_exact_however_far_out(y, mu):
    table = rows_of([[mu]], [[y]]).surprises()
    more, fewer = log_tails(y, mu)
    log_p = min(0.0, math.log(2) + min(more, fewer))
    assert table["surprise"][0] == pytest.approx(-log_p / math.log(10), rel=1e-12, abs=1e-12)
    assert table["direction"][0] == ("more" if more < fewer else "fewer")
    assert table["p"][0] == pytest.approx(math.exp(log_p), rel=1e-9)


def test_a_zero_with_a_huge_rate_is_judged_exactly():
    table = rows_of([[2000.0]], [[0, 2000]]).surprises()
    assert table["surprise"][0] == pytest.approx((2000 - math.log(2)) / math.log(10), rel=1e-13)
    assert (table["observed"][0], table["p"][0], table["direction"][0]) == (0, 0.0, "fewer")


def test_far_tails_are_averaged_over_draws():
    """The draw that expects the count most decides, by its share of all draws."""
    rates = [1e-3, 2e-3, 5e-4, 1e-3, 1e-4, 1e-3, 2e-3, 1e-3, 1e-3, 3e-3, 1e-3, 1e-3]
    table = rows_of(np.array(rates)[:, None], [[400]]).surprises()
    logs = np.array([log_tails(400, mu)[0] for mu in rates])
    assert table["surprise"][0] == pytest.approx(
        -(math.log(2) + np.logaddexp.reduce(logs) - math.log(12)) / math.log(10)
    )
    assert table["expected"][0] == pytest.approx(np.mean(rates))


def test_a_rate_of_zero_gives_a_finite_surprise():
    table = rows_of([[0.0]], [[2, 5]]).surprises()
    assert np.isfinite(table["surprise"]).all()
    assert table["observed"].tolist() == [5, 2]
    assert (table["expected"] == 0).all()


def pooled(record, missing, room=1000):
    """A search, and the mean rates of all cells under the draws that it samples."""
    draws = surprises._SAMPLED_DRAWS
    search = zero_search.ZeroSearch(record, record.tensor.coords, missing, room=room, draws=draws)
    rates = dense_rates(prediction.sampled(record, surprises._SAMPLED_DRAWS)).mean(axis=0)
    taken = missing.contains(np.indices(rates.shape).reshape(rates.ndim, -1)).reshape(rates.shape)
    taken[tuple(record.tensor.coords)] = True
    return search, np.where(taken, -1.0, rates)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(4, 5), (3, 4, 3), (2, 3, 2, 3)]), st.floats(0.0, 1.0))
def test_the_search_finds_exactly_the_zeros_above_a_rate(seed, shape, quantile):
    rng = np.random.default_rng(seed)
    record = posterior_of_counts(seed=seed, shape=shape, draws=int(rng.integers(1, 9))).record
    pattern = tuple(int(rng.integers(0, length)) if rng.random() < 0.6 else -1 for length in shape)
    missing = Missing(np.array([pattern] if max(pattern) >= 0 else []).reshape(-1, len(shape)), shape)
    search, rates = pooled(record, missing)
    # Between two rates, so that rounding decides nothing.
    ordered = np.unique(rates[rates >= 0])
    place = int(quantile * (len(ordered) - 1)) if len(ordered) else 0
    least = float(ordered[place : place + 2].mean()) if len(ordered) else 0.0
    cells, reach = search.cells_above(least)
    assert set(map(tuple, cells.T.tolist())) == set(map(tuple, np.argwhere(rates >= least).tolist()))
    assert reach == least


@pytest.mark.parametrize("seed", range(10))
def test_a_search_without_room_knows_how_far_it_came(seed):
    record = posterior_of_counts(seed=seed, draws=2).record
    search, rates = pooled(record, Missing.none(SHAPE), room=3)
    cells, reach = search.cells_above(0.0)
    assert set(map(tuple, np.argwhere(rates > reach * (1 + 1e-9)).tolist())) <= set(map(tuple, cells.T.tolist()))
    assert cells.shape[1] == 3
    assert (rates[tuple(cells)] >= 0).all()


def test_a_search_that_stops_says_so(monkeypatch):
    post = posterior_of_counts(scale=40.0, seed=1)
    monkeypatch.setattr(zero_search, "_MOST_WORK", -1)
    with warned("zeros-not-all-searched", probability=lambda p: 0.0 <= p < 1.0):
        table = post.surprises(top=5)
    assert table.attrs["zeros_searched"] == "largest only"
    assert len(table) == 5


def test_few_draws_never_decide_against_a_cell_that_all_draws_would_list(monkeypatch):
    post = posterior_of_counts(draws=20, seed=5, scale=10.0)
    whole = post.surprises(top=12)
    for sampled in (1, 3, 40):
        monkeypatch.setattr(surprises, "_SAMPLED_DRAWS", sampled)
        table = post.surprises(top=12)
        assert cells_of(table, 3) == cells_of(whole, 3)
        np.testing.assert_allclose(table["surprise"], whole["surprise"], rtol=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_draws_that_are_not_sampled_can_make_a_cell_the_most_surprising(count):
    """Half of 16 draws, those sampled, find the first cell likelier than the others by a third; it is impossible under
    the rest, hence less likely than the others under all."""
    tail = math.exp(-9.8)
    seen, unseen = (9.8, 1000.0) if count == 0 else (-math.log1p(-tail), 1e-300)
    other = -math.log1p(-0.75 * tail)
    missing = [(0, column) for column in range(1, 6)]
    post = rows_of(8 * [[seen, other], [unseen, other]], [[count] + 5 * [0], 6 * [1]], missing)
    assert prediction.sampled(post.record, 8).core_values[0, :, 0].tolist() == 8 * [seen]
    table = post.surprises(top=1)
    assert cells_of(table, 2) == [(0, 0)]
    assert table["p"][0] == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize(
    ("chains", "draws", "most", "kept"),
    [(1, 5, 8, (1, 5)), (1, 100, 8, (1, 8)), (4, 50, 8, (4, 2)), (20, 3, 8, (7, 1)), (2, 9, 1, (1, 1))],
)
def test_sampled_draws_are_spread_and_not_too_many(chains, draws, most, kept):
    record = posterior_of_counts(chains=chains, draws=draws, shape=(2, 2)).record
    sampled = prediction.sampled(record, most)
    assert sampled.core_values.shape[:2] == sampled.factors[0].shape[:2] == sampled.core_locations.shape[:2] == kept
    assert np.shares_memory(sampled.factors[0], record.factors[0])


def test_the_number_of_threads_changes_nothing(monkeypatch):
    monkeypatch.setattr(surprises, "_CELLS_PER_THREAD", 1)
    monkeypatch.setattr(cell_rates, "_CELLS_PER_THREAD", 1)
    record = posterior_of_counts(seed=2).record
    one, three = (Posterior(record, threads).surprises(top=20) for threads in (1, 3))
    assert one.equals(three)


@pytest.mark.parametrize("missing", [(), PATTERNS])
def test_missing_cells_never_appear(missing):
    post = posterior_of_counts(seed=4, scale=30.0)
    tensor = post.tensor.with_missing(list(missing))
    table = post.surprises(tensor, top=1000)
    assert not tensor.missing.contains(np.array(cells_of(table, 3)).T).any()
    assert missing == () or len(table) < len(post.surprises(top=1000))


def test_what_was_planted_in_real_data_comes_first():
    """One class cannot take up what does not fit it: the two cells stand out."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.gamma(5.0, 0.2, length) for length in (6, 5, 4))
    rates = 25 * np.einsum("i,j,k->ijk", a, b, c)
    counts = rng.poisson(rates)
    lost, extra = np.unravel_index(np.argmax(rates), rates.shape), np.unravel_index(np.argmin(rates), rates.shape)
    counts[lost], counts[extra] = 0, 90
    labels = {"who": [f"w{i}" for i in range(6)], "what": [f"x{i}" for i in range(5)]}
    tensor = ac.as_tensor(counts).with_labels(labels, mode_names=["who", "what", "when"])
    model = ac.AlloCore(
        budget=1, burn_in=20, draws=10, thin=1, seed=0, progress=False, threads=1, chains=1, likelihood="poisson"
    )
    table = model.fit(tensor).posterior_.surprises(top=4)
    rows = [tuple(row) for row in table[["who", "what", "when", "observed", "direction"]].to_numpy().tolist()]
    assert {row[:3] for row in rows[:2]} == {(f"w{i}", f"x{j}", k) for i, j, k in (lost, extra)}
    assert {row[3:] for row in rows[:2]} == {(0, "fewer"), (90, "more")}
    assert table["surprise"][1] > 5 > table["surprise"][3]


def test_a_held_out_set_is_judged_as_given():
    post = posterior_of_counts(seed=6, scale=10.0)
    cells = np.indices(SHAPE).reshape(3, -1)[:, ::2]
    rng = np.random.default_rng(1)
    counts = rng.poisson(3.0, cells.shape[1])
    table = post.surprises(SimpleNamespace(coords=cells, counts=counts), top=10)
    rates = dense_rates(post.record)[:, *cells]
    more, fewer = stats.poisson.sf(counts - 1, rates).mean(axis=0), stats.poisson.cdf(counts, rates).mean(axis=0)
    p = np.minimum(1.0, 2 * np.minimum(more, fewer))
    best = np.argsort(p, kind="stable")[:10]
    assert cells_of(table, 3) == [tuple(cell) for cell in cells[:, best].T.tolist()]
    np.testing.assert_allclose(table["p"], p[best], rtol=1e-9)
    assert table["observed"].tolist() == counts[best].tolist()
    assert table["direction"].tolist() == np.where(more < fewer, "more", "fewer")[best].tolist()
    assert table.attrs["zeros_searched"] == "given"


def test_a_test_set_of_hold_out_is_taken():
    split = ac.hold_out(posterior_of_counts().tensor, fraction=0.2, seed=0)
    table = posterior_of_counts().surprises(split.test, top=5)
    held = {tuple(cell): count for cell, count in zip(split.test.coords.T.tolist(), split.test.counts, strict=True)}
    assert len(table) == 5
    assert [held[cell] for cell in cells_of(table, 3)] == table["observed"].tolist()


def test_columns_give_way_to_modes_of_their_names():
    post = posterior_of_counts(shape=(3, 3, 3), names=["p", "rank", "observed"])
    table = post.surprises(top=3)
    assert list(table.columns) == ["p", "rank", "observed", "observed_", "expected", "direction", "p_", "surprise"]
    assert table.index.name == "rank_"
    assert table.index.tolist() == [0, 1, 2]


@pytest.mark.parametrize("top", [0, -1, 2.5, "many", True, None])
def test_top_must_be_a_whole_number(top):
    with refused("top", top, rule="a whole number of at least 1"):
        posterior_of_counts().surprises(top=top)


def test_a_tensor_of_another_shape_is_refused():
    with refused("Y", "of shape (2, 2, 2)", rule="the shape of the fitted tensor"):
        posterior_of_counts().surprises(ac.as_tensor(np.ones((2, 2, 2), dtype=int)))


def test_a_tensor_with_other_labels_is_refused():
    labelled = posterior_of_counts().tensor.with_labels([list("abcde"), None, None])
    post = posterior_of_counts(counts=labelled)
    with refused("Y", rule="the labels of the fitted tensor in mode mode_0"):
        post.surprises(labelled.with_labels([list("edcba"), None, None]))
    assert set(post.surprises(posterior_of_counts().tensor)["mode_0"]) <= set("abcde")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (np.ones(SHAPE), "Y is a ndarray, but it must have coords and counts"),
        (SimpleNamespace(test=1), "pass split.test"),
        (SimpleNamespace(coords=np.zeros((3, 0), dtype=int), counts=np.zeros(0, dtype=int)), "Y is a set of 0 cells"),
        (SimpleNamespace(coords=np.zeros((3, 1), dtype=int), counts=[-1]), "array with -1"),
        (
            SimpleNamespace(coords=np.zeros((3, 1), dtype=int), counts=[1, 2]),
            "one count for each of the 1",
        ),
        (SimpleNamespace(coords=[[9], [0], [0]], counts=[1]), "coords is 9 in mode 0"),
    ],
)
def test_what_is_not_a_set_of_cells_is_refused(cells, message):
    with pytest.raises(InputError, match=message):
        posterior_of_counts().surprises(cells)


def test_nothing_is_shown_elsewhere(capsys):
    posterior_of_counts().surprises()
    assert capsys.readouterr() == ("", "")
