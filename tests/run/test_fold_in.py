"""New rows that are folded into a fit: matched by label, the same on any thread, and a posterior like any other."""

import warnings

import numpy as np
import pytest
from scipy import stats

import allocore as ac
from allocore.model.joint import log_likelihood
from allocore.storage.record import NewRows
from support.errors import refused, refused_file
from support.findings import warned

NAMES = ["who", "whom", "what", "month"]
LABELS = [[f"c{i}" for i in range(7)], [f"c{i}" for i in range(7)], ["talk", "fight", "trade"], list("abcdef")]
SETTINGS = {"burn_in": 20, "draws": 6, "thin": 2, "chains": 2, "seed": 3, "threads": 1, "progress": False}


def make_tensor():
    rng = np.random.default_rng(4)
    factors = [rng.gamma(0.5, 1.0, (len(each), 3)) for each in LABELS]
    counts = rng.poisson(3.0 * np.einsum("aq,bq,cq,dq->abcd", *factors))
    return ac.as_tensor(counts, mode_names=NAMES).with_labels(LABELS).mask_diagonal((0, 1))


Y = make_tensor()
OLD, NEW = Y.select(month=slice("a", "d")), Y.select(month=["e", "f"])


@pytest.fixture(scope="module")
def old_fit():
    return ac.AlloCore(4, likelihood="poisson", **SETTINGS).fit(OLD).posterior_


@pytest.fixture(scope="module")
def folded(old_fit):
    return fold(old_fit, NEW, "month")


def fold(old_fit, new, *where, **options):
    """Few sweeps are enough where only bytes, labels and shapes matter."""
    return old_fit.fold_in(new, *where, **{"sweeps": 4, **options})


def same(one, other):
    return all(
        a.tobytes() == b.tobytes() for a, b in zip(one.record.draw_arrays, other.record.draw_arrays, strict=True)
    )


# What it is


def test_everything_but_the_new_rows_stays_as_it_is_in_every_draw(old_fit, folded):
    assert folded.tensor == NEW
    assert folded.core_values is old_fit.core_values
    assert folded.core_locations is old_fit.core_locations
    for mode in range(3):
        assert folded.factors[mode] is old_fit.factors[mode]
    assert folded.factors[3].shape == (2, 6, 2, 4)
    for chain, draw in np.ndindex(2, 6):
        used = np.isin(np.arange(4), old_fit.core_locations[chain, draw, :, 3])
        assert (folded.factors[3][chain, draw][:, used] > 0.0).all()
        assert (folded.factors[3][chain, draw][:, ~used] == 0.0).all()


def test_the_trace_has_the_log_likelihood_of_the_new_data_in_every_draw(old_fit, folded):
    record = folded.record
    for chain, draw in np.ndindex(2, 6):
        told = log_likelihood(NEW, record.spec, record.state_of(chain, draw))
        assert folded.stats["log_likelihood"][chain, draw] == pytest.approx(told, rel=1e-6)
    assert folded.finished
    assert folded.draw_sweeps.tolist() == [1, 2, 3, 4, 5, 6]
    moved = old_fit.stats["moved"][:, 20:].reshape(2, 6, 2).mean(axis=2)
    np.testing.assert_allclose(folded.stats["moved"], moved)


def test_the_rows_of_a_mode_can_be_new_in_any_mode(old_fit):
    for mode, labels in (("who", ["c2", "c5"]), ("what", ["fight"])):
        rows = OLD.select({mode: labels})
        folded = old_fit.fold_in(rows, mode)
        place = OLD.mode(mode)
        assert folded.factors[place].shape[2] == len(labels)
        assert folded.tensor.missing == rows.missing
        both = [{mode: label} for label in labels]
        predicted, observed = folded.predict(both)["expected"].to_numpy(), rows.mode_totals(mode)
        assert (np.abs(predicted - observed) < 6.0 * np.sqrt(observed)).all()


def test_new_rows_predict_held_out_cells_of_theirs(old_fit):
    split = ac.hold_out(NEW, 0.3, along="what", seed=1)
    folded = old_fit.fold_in(split.train, "month")
    even = stats.poisson.logpmf(split.test.counts, NEW.total / (6 * 7 * 3 * 2)).mean()  # one rate for all cells
    assert folded.log_ppd(split.test) > even + 0.2
    with refused("test"):
        folded.log_ppd(NEW)


@pytest.mark.parametrize(
    "settings",
    [{"likelihood": "negative-binomial"}, {"likelihood": "negative-binomial", "dispersion_by": "month"},
     {"likelihood": "negative-binomial", "dispersion_by": "who", "e0": "infer"}],
)  # fmt: skip
def test_p_of_new_rows_is_drawn_only_if_each_row_has_its_own(settings):
    old_fit = ac.CP(3, **settings, **{**SETTINGS, "burn_in": 2}).fit(OLD).posterior_
    folded = fold(old_fit, NEW)
    if settings.get("dispersion_by") == "month":
        assert folded.dispersion.shape == (2, 6, 2)
        assert np.unique(folded.dispersion).size == 24
    else:
        assert folded.record.log_odds is old_fit.record.log_odds
    assert np.isfinite(folded.stats["log_likelihood"]).all()
    folded.show()


def test_binary_data_and_inferred_budgets_can_be_folded_in():
    model = ac.AlloCore("infer", max_budget=6, likelihood="bernoulli", **{**SETTINGS, "burn_in": 2})
    old_fit = model.fit(OLD.binarize()).posterior_
    assert (fold(old_fit, NEW.binarize()).budget == old_fit.budget).all()
    with refused("likelihood"):
        fold(old_fit, NEW)


def test_a_row_without_counts_is_a_row_like_any_other(old_fit):
    coords, counts = NEW.coords.copy(), NEW.counts
    coords[3] = 0
    empty = ac.CountTensor(coords, counts, NEW.shape, mode_names=NAMES, labels=NEW.labels, missing=NEW.missing)
    assert empty.mode_totals(3)[1] == 0
    folded = old_fit.fold_in(empty)
    rates = folded.predict([{"month": label} for label in "ef"])["expected"]
    assert 0.0 < rates[1] < 0.05 * rates[0]


# Reproducible


def test_the_rows_are_the_same_on_any_number_of_threads(old_fit, folded):
    for threads in (2, 3):
        other = fold(ac.Posterior(old_fit.record, threads), NEW, "month")
        assert same(folded, other)
    assert not same(folded, fold(old_fit, NEW, "month", seed=4))
    assert not same(folded, fold(old_fit, NEW, "month", sweeps=7))


def test_a_draw_of_new_rows_depends_on_no_other_draw(old_fit, folded):
    fewer = fold(ac.Posterior(old_fit.record.with_draws((slice(None), slice(0, 2)))), NEW, "month")
    assert fewer.factors[3].tobytes() == np.ascontiguousarray(folded.factors[3][:, :2]).tobytes()


def test_an_error_in_one_draw_ends_them_all(old_fit, monkeypatch):
    from allocore.run import fold_in

    def broken(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fold_in, "draw_new_rows", broken)
    with pytest.raises(KeyboardInterrupt):
        fold(ac.Posterior(old_fit.record, 2), NEW, "month")


# Labels


def test_rows_of_other_modes_are_matched_by_label_in_any_order(old_fit, folded):
    turned = [[*reversed(each)] for each in LABELS[:3]] + [["e", "f"]]
    coords = NEW.coords.copy()
    coords[:3] = np.array(NEW.shape)[:3, None] - 1 - coords[:3]
    missing = [(i, i, None, None) for i in range(7)]
    other = ac.CountTensor(coords, NEW.counts, NEW.shape, mode_names=NAMES, labels=turned, missing=missing)
    matched = fold(old_fit, other, "month")
    assert matched.tensor == NEW
    assert same(matched, folded)


def test_labels_that_new_data_do_not_have_are_zeros_or_missing(old_fit):
    some = NEW.select(what=["fight", "trade"])
    zero, missing = old_fit.fold_in(some), old_fit.fold_in(some, absent="missing")
    assert zero.tensor.shape == missing.tensor.shape == NEW.shape
    assert zero.tensor.missing == NEW.missing
    assert missing.tensor.missing.contains(np.array([[0], [1], [0], [0]]))[0]
    talk = {"what": "talk"}
    assert zero.predict(talk)["expected"][0] < missing.predict(talk, missing=True)["expected"][0]


def test_a_diagonal_that_is_missing_stays_missing_for_labels_that_new_data_do_not_have(old_fit):
    some = NEW.select(who=LABELS[0][:5], whom=LABELS[0][:5])
    assert fold(old_fit, some).tensor.missing == NEW.missing


def test_a_diagonal_that_is_missing_in_the_fit_alone_gets_a_warning(old_fit):
    whole = ac.CountTensor(NEW.coords, NEW.counts, NEW.shape, mode_names=NAMES, labels=NEW.labels)
    with warned("diagonal-not-missing", modes=["who", "whom"], numbers=(0, 1)):
        fold(old_fit, whole)


def test_an_unknown_label_is_an_error_that_names_those_near_it(old_fit):
    strange = NEW.with_labels({"what": ["talk", "fihgt", "trade"]})
    with refused("Y_new", rule="did you mean 'fight'"):
        fold(old_fit, strange)


def test_labels_without_counts_that_the_fit_does_not_have_are_left_out(old_fit, folded):
    """They are there if the new month is part of a tensor with more labels."""
    more = ac.CountTensor(
        NEW.coords, NEW.counts, (NEW.shape[0] + 1, *NEW.shape[1:]), mode_names=NAMES,
        labels=[[*NEW.labels[0], "nobody"], *NEW.labels[1:]], missing=NEW.missing.patterns,
    )  # fmt: skip
    assert same(fold(old_fit, more, "month"), folded)


def test_new_data_may_have_no_labels_or_mode_names(old_fit, folded):
    bare = ac.CountTensor(NEW.coords, NEW.counts, NEW.shape, missing=NEW.missing)
    assert same(fold(old_fit, bare), folded)
    assert fold(old_fit, bare).tensor.labels[:3] == OLD.labels[:3]


@pytest.mark.parametrize(
    ("new", "options", "argument"),
    [
        (NEW.with_labels(mode_names=["who", "what", "whom", "month"]), {}, "Y_new"),
        (ac.as_tensor(np.ones((7, 7, 3))), {}, "Y_new"),
        (ac.as_tensor(np.ones((7, 6, 3, 1))), {}, "Y_new"),
        (NEW, {"mode": "year"}, "mode"),
        (NEW, {"sweeps": 0}, "sweeps"),
        (NEW, {"seed": -1}, "seed"),
        (NEW, {"absent": "gone"}, "absent"),
    ],
)
def test_what_cannot_be_folded_in_is_an_error(old_fit, new, options, argument):
    with refused(argument):
        fold(old_fit, new, **options)


def test_a_maximum_likelihood_estimate_takes_no_new_rows():
    old_fit = ac.NNTuck((2, 2, 2, 2), restarts=1, max_iter=20, seed=1, progress=False).fit(OLD).posterior_
    with refused("model", "NNTuck", "fitted by maximum likelihood"):
        fold(old_fit, NEW)


# A posterior like any other


def test_the_consensus_has_the_classes_of_the_fit_as_large_as_they_are_in_the_new_rows(old_fit, folded):
    fit, new = old_fit.consensus(), folded.consensus()
    assert set(new.numbers) <= set(fit.numbers)
    assert len(new.numbers) >= 1
    for number, name in zip(new.numbers, new.names, strict=True):
        assert name == fit.names[fit.numbers.tolist().index(number)]
    assert "in new rows of month" in new.summary.source
    assert [len(each) for each in new.profiles] == [7, 7, 3, 2]
    assert new.shares_by_draw.sum(axis=2).max() <= 1.0 + 1e-12


def test_the_share_of_a_class_in_a_draw_is_that_of_its_expected_counts(old_fit, folded):
    record, new = folded.record, folded.consensus()
    values = np.zeros(new.shares_by_draw.shape[:2])
    for chain, draw in np.ndindex(2, 6):
        state = record.state_of(chain, draw)
        rates = np.zeros(NEW.shape)
        for core, subs in zip(state.core_values(), state.subs_QM, strict=True):
            rates += core * np.einsum("a,b,c,d->abcd", *(state.factors(m)[:, k] for m, k in enumerate(subs)))
        rates[np.arange(7), np.arange(7)] = 0.0
        values[chain, draw] = rates.sum()
    table = new.classes()
    held = new.shares_by_draw * values[..., None]
    np.testing.assert_allclose(table["value"].to_numpy(), held.mean(axis=(0, 1)), rtol=1e-9)


def test_new_rows_are_shown_judged_and_explained(old_fit, folded, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # of old releases among themselves
        folded.show()
        folded.show(draw="best")
        assert folded.diagnose().table.index[0] == "log-likelihood"
        assert set(folded.surprises(top=5)["month"]) <= {"e", "f"}
        assert len(folded.classes()) >= 1
        assert len(folded.top_cells(int(folded.consensus().numbers[0]))) >= 1
        assert folded.simulate({"month": "e"}, draws=4).shape == (4, 1)
        ac.write_report(folded, tmp_path / "report.html")
        ac.figures.write_all(folded, tmp_path / "figures", formats=("svg",))
        assert "<table" in folded._repr_html_()
    assert folded.to_datatree()["posterior"]["factors_month"].sizes["month"] == 2


def test_the_best_draw_is_the_one_that_explains_the_new_rows_best(old_fit, folded):
    record, spec = folded.record, folded.record.spec
    best, most = None, -np.inf
    for chain, draw in np.ndindex(2, 6):
        log_phi = record.state_of(chain, draw).log_phi[3]
        log_phi = log_phi[:, np.isfinite(log_phi[0])]
        prior = (np.log(spec.f0) + log_phi - spec.f0 * np.exp(log_phi)).sum()
        here = folded.stats["log_likelihood"][chain, draw] + prior
        best, most = ((chain, draw), here) if here > most else (best, most)
    assert folded.best_draw() == best


def test_some_chains_of_new_rows_keep_the_numbers_of_the_classes(old_fit, folded):
    one = folded.select_chains([1])
    assert one.record.new_rows == NewRows((3,))
    assert set(one.consensus().numbers) & set(folded.consensus().numbers)


def test_chains_can_be_left_out_before_or_after_folding_in(old_fit, folded):
    one, other = folded.select_chains([1]).consensus(), fold(old_fit.select_chains([1]), NEW).consensus()
    assert len(one.numbers) == len(other.numbers)
    np.testing.assert_allclose(one.share, other.share, rtol=0.3)


def test_new_rows_are_saved_with_their_consensus_and_cannot_be_resumed(old_fit, folded, tmp_path, run):
    path = tmp_path / "folded.zarr"
    fold(old_fit, NEW, "month").save(path)
    opened = ac.open_run(path)
    assert same(opened, folded)
    assert opened.record.new_rows == NewRows((3,))
    assert opened.consensus().names == folded.consensus().names
    assert opened.best_draw() == folded.best_draw()
    with refused_file(path, "folded into the draws of another run"):
        ac.AlloCore.resume(path)
    code, told, _ = run("info", path)
    assert code == 0
    assert "2 new rows of month, folded into 6 draws of each of 2 chains" in told


def test_rows_folded_in_the_first_mode_are_saved_as_such(old_fit, tmp_path):
    fold(old_fit, OLD.select(who="c1"), "who").save(tmp_path / "folded.zarr")
    assert ac.open_run(tmp_path / "folded.zarr").record.new_rows == NewRows((0,))


def test_new_rows_of_two_modes_are_folded_in_one_after_the_other(old_fit, folded):
    both = fold(folded, NEW.select(who=["c1"]), "who")
    assert both.tensor.shape == (1, 7, 3, 2)
    assert both.factors[3] is folded.factors[3]
    both.show()


def test_a_run_without_draws_takes_no_new_rows(old_fit):
    nothing = ac.Posterior(old_fit.record.with_draws((slice(None), slice(0, 0))))
    with refused("run", rule="has no draws yet"):
        nothing.fold_in(NEW)
