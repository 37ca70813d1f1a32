"""How dispersed counts are given a Poisson fit, and what is said about likelihoods, wherever a run is described."""

import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

import allocore as ac
from allocore import findings as words_of
from allocore.findings import sentences
from allocore.posterior import likelihood_check as measure
from allocore.posterior.likelihood_check import CountDispersion, _of_draw, count_dispersion
from allocore.report.terminal import class_report, posterior_html, run_report, settings_line

ICEWS = Path(__file__).parents[3] / "shared" / "data" / "icews_2018_2019_events.csv.gz"
# Of chains as short as these one in ten has not settled; with this seed they have.
QUICK = {
    "burn_in": 100,
    "draws": 4,
    "thin": 5,
    "seed": 3,
    "progress": False,
    "threads": 1,
    "chains": 1,
    "likelihood": "poisson",
}
ADVICE = 'so likelihood="negative-binomial" (allocore fit --likelihood negative-binomial) would likely predict better.'


def simulated(ratio, counts=3000, shape=(30, 30, 15), classes=5, seed=0):
    """A tensor of sparse classes whose counts have this variance-to-mean ratio given their rates."""
    rng = np.random.default_rng(seed)
    phis = [rng.gamma(0.3, 1.0, (length, classes)) for length in shape]
    rates = np.einsum("q,iq,jq,kq->ijk", rng.gamma(1.0, 1.0, classes), *(phi / phi.sum(axis=0) for phi in phis))
    rates *= counts / rates.sum()
    if ratio > 1:
        rates = rng.standard_gamma(rates / (ratio - 1)) * (ratio - 1)
    return ac.as_tensor(rng.poisson(rates))


def fit(Y, budget=5, **settings):
    return ac.AlloCore(budget, **QUICK | settings).fit(Y).posterior_


@cache
def fit_of(ratio, counts=3000, **settings):
    """A fit to simulated counts, which tests share."""
    return fit(simulated(ratio, counts), **settings)


def shown(what):
    screen = io.StringIO()
    Console(file=screen, width=300).print(what)
    return screen.getvalue()


# The measure


@pytest.mark.parametrize("ratio", [1.3, 2.0, 6.0])
def test_the_ratio_is_that_of_the_largest_likelihood_over_all_cells(ratio):
    """Zeros included: the sparse formula against every cell of a dense tensor, judged by SciPy."""
    rng = np.random.default_rng(0)
    mu = rng.gamma(0.5, 2.0, 4000)
    y = rng.poisson(rng.standard_gamma(mu / (ratio - 1)) * (ratio - 1))
    some = y > 0
    found, gain = _of_draw(y[some], mu[some], float(mu.sum()))

    def log_likelihood(v):
        return stats.nbinom(mu / (v - 1), 1 / v).logpmf(y).sum()

    assert found == pytest.approx(ratio, rel=0.2)
    assert gain == pytest.approx(log_likelihood(found) - stats.poisson(mu).logpmf(y).sum(), rel=1e-9)
    assert log_likelihood(found) >= max(log_likelihood(found * 1.03), log_likelihood(found * 0.97))


def test_counts_without_dispersion_gain_nothing():
    """Counts that are nearer to their rates than Poisson counts are."""
    assert _of_draw(np.full(500, 4), np.full(500, 4.0), 2000.0) == (1.0, 0.0)


@pytest.mark.parametrize("counts", [2000, 20_000])
def test_poisson_counts_raise_no_alarm(counts):
    found = count_dispersion(fit_of(1, counts).record)
    assert 1.0 <= found.ratio < 1.1
    assert not found.clear


@pytest.mark.parametrize(("ratio", "counts"), [(2.0, 2000), (5.0, 20_000)])
def test_bursts_are_clear_and_their_ratio_is_found(ratio, counts):
    found = count_dispersion(fit_of(ratio, counts).record)
    assert found.ratio == pytest.approx(ratio, rel=0.2)
    assert found.clear


def test_missing_cells_do_not_count():
    """A burst in cells that are missing is not seen, and their rates are not part of the total."""
    Y = simulated(1, 5000)
    post = fit(Y.with_missing([(0, None, None), (None, 3, None)]))
    assert count_dispersion(post.record).ratio < 1.1


@pytest.mark.parametrize("ratio", [1, 3.0])
def test_a_sample_of_the_non_zeros_finds_the_same_ratio(ratio, monkeypatch):
    record = fit_of(ratio, 20_000).record
    whole = count_dispersion(record)
    monkeypatch.setattr(measure, "_NONZEROS", record.tensor.nnz // 4)
    assert len(measure._sample(record.tensor.nnz)) == record.tensor.nnz // 4
    some = count_dispersion(record)
    assert some.ratio != whole.ratio or ratio == 1
    assert some.ratio == pytest.approx(whole.ratio, rel=0.1)
    assert some.clear == whole.clear == (ratio > 1)
    assert some.gain == pytest.approx(whole.gain, rel=0.1, abs=50.0)
    assert count_dispersion(record) == some


def test_the_dispersion_of_the_counts_is_found_once(monkeypatch):
    post = fit(simulated(1, 500), 2, burn_in=1)
    calls = []
    monkeypatch.setattr(measure, "count_dispersion", lambda record: calls.append(record) or CountDispersion(1.0, 0.0))
    assert sentences(post.diagnose().likelihood)[0] in shown(class_report(post))
    assert len(calls) == 1


def test_few_counts_are_not_clear():
    assert not CountDispersion(2.0, 8.0).clear
    assert not CountDispersion(4.3, 51.0).clear
    assert not CountDispersion(1.05, 800.0).clear
    assert CountDispersion(2.0, 800.0).clear


@pytest.mark.parametrize(
    ("ratio", "gain", "kind"),
    [
        (1.02, 5.0, "poisson-near"),
        (1.14, 20.0, "poisson-unclear"),
        (1.14, 500.0, "poisson-somewhat-dispersed"),
        (1.6, 500.0, "poisson-somewhat-dispersed"),
        (2.0, 50.0, "poisson-unclear"),
        (2.0, 500.0, "poisson-dispersed"),
    ],
)
def test_the_negative_binomial_is_advised_only_where_it_was_shown_to_predict_better(ratio, gain, kind):
    assert CountDispersion(ratio, gain).kind == kind


@pytest.mark.slow
def test_counts_of_a_ratio_of_1_14_get_no_advice():
    found = fit(simulated(1.14, 60_000)).diagnose().likelihood
    assert [each.kind for each in found if each.level == "caution"] == []


def test_the_advice_holds_for_held_out_cells():
    """Where it is clear, the negative binomial predicts better."""
    split = ac.hold_out(simulated(4.0, 10_000), fraction=0.1, seed=0)
    poisson, negative = fit(split.train), fit(split.train, likelihood="negative-binomial")
    assert count_dispersion(poisson.record).clear
    assert negative.log_ppd(split.test) > poisson.log_ppd(split.test)
    assert 1 / (1 - negative.dispersion.mean()) == pytest.approx(4.0, rel=0.3)


@pytest.mark.slow
def test_flights_are_dispersed():
    assert count_dispersion(fit(ac.load_flights(), 20).record).ratio > 10


@pytest.mark.slow
@pytest.mark.skipif(not ICEWS.exists(), reason="the events of ICEWS are not here")
@pytest.mark.filterwarnings("ignore:.*may be incomplete")
def test_events_of_icews_are_dispersed():
    modes = ["source", "target", "cameo_root"]
    Y = ac.read_events(ICEWS, modes=modes, time="date", freq="month", shared_modes=["source", "target"])
    found = count_dispersion(fit(Y, 25, burn_in=50).record)
    assert 2.0 < found.ratio < 4.0
    assert found.clear


# The words


def test_after_a_poisson_fit_of_bursts_the_negative_binomial_is_advised_everywhere():
    post = fit_of(4.0)
    (words,) = sentences(post.diagnose().likelihood)
    assert words.startswith("Poisson likelihood: given the fit, the variance of a count is ")
    assert words.endswith(f" times its mean (1 for Poisson counts), {ADVICE}")
    assert words in str(post.diagnose())
    assert words in shown(class_report(post))
    assert words in shown(run_report(post, being_written=False))
    assert "negative-binomial&quot;" in post.diagnose()._repr_html_()


def test_after_a_poisson_fit_of_poisson_counts_nothing_is_advised():
    (words,) = sentences(fit_of(1).diagnose().likelihood)
    assert words.startswith("Poisson likelihood: given the fit, the variance of a count is 1.0")
    assert words.endswith(" times its mean, close to 1, as for Poisson counts.")


def test_advice_has_no_part_in_whether_all_is_well():
    found = fit_of(4.0).diagnose()
    assert "poisson-dispersed" in [each.kind for each in found.likelihood]
    assert "poisson-dispersed" not in [each.kind for answer in found.answers for each in answer.findings]


def test_few_counts_are_said_to_be_too_few():
    Y = ac.as_tensor(np.array([[3, 0, 0], [0, 2, 0], [0, 0, 4]]))
    (words,) = sentences(fit(Y, 1).diagnose().likelihood)
    assert words.endswith("though counts are too few to be sure that it is not 1, as for Poisson counts.")


def test_where_all_counts_are_one_bernoulli_is_named():
    (words,) = sentences(fit(simulated(2.0).binarize()).diagnose().likelihood)
    assert words == 'Poisson likelihood, but all counts are 1: likelihood="bernoulli" is made for such data.'


@pytest.mark.filterwarnings("ignore:all counts are 1")
@pytest.mark.parametrize("by", [None, 0])
def test_where_all_counts_are_one_p_is_said_to_mean_nothing(by):
    post = fit(simulated(2.0, 300).binarize(), 2, burn_in=1, likelihood="negative-binomial", dispersion_by=by)
    (words,) = sentences(post.diagnose().likelihood)
    assert words.startswith("Negative binomial likelihood, but p is not identified: all counts are 1; likelihood=")
    for text in (shown(class_report(post)), shown(run_report(post, being_written=False))):
        assert words in text
    assert "p is not identified" in posterior_html(post)


@pytest.mark.parametrize(("ratio", "text"), [(1.0, "1.00"), (9.876, "9.88"), (12345.6, "12,346"), (2.5e30, "2.5e+30")])
def test_a_ratio_of_any_size_is_short(ratio, text):
    assert words_of._ratio(ratio) == text


def test_a_maximum_likelihood_fit_is_advised_of_another_model():
    post = ac.NNTuck((2, 2, 2), restarts=1, seed=0).fit(simulated(4.0, shape=(8, 8, 5))).posterior_
    (words,) = sentences(post.diagnose().likelihood)
    assert "so another model with likelihood=" in words


def test_a_negative_binomial_fit_tells_p_and_its_range():
    post = fit(simulated(4.0), likelihood="negative-binomial")
    p = post.dispersion
    (words,) = sentences(post.diagnose().likelihood)
    times = (1 / (1 - p)).mean()
    assert words == (
        f"Negative binomial likelihood: p {p.mean():.3g} ({p.min():.3g} to {p.max():.3g} over all draws), "
        f"so the variance of a count is {times:.2f} times its mean."
    )
    for text in (shown(class_report(post)), shown(run_report(post, being_written=False)), posterior_html(post)):
        assert words in text


def test_dispersions_by_row_are_told_by_their_extremes_among_rows_with_counts():
    names = ["who", "whom", "when"]
    Y = simulated(4.0).with_labels({"when": [f"day {n}" for n in range(15)]}, names).with_missing([(None, None, 3)])
    post = fit(Y, likelihood="negative-binomial", dispersion_by="when")
    counted = np.flatnonzero(Y.mode_totals("when") > 0)
    p = post.dispersion.mean(axis=(0, 1))[counted]
    low, high = counted[p.argmin()], counted[p.argmax()]
    (words,) = sentences(post.diagnose().likelihood)
    assert words == (
        f"Negative binomial likelihood with a p for each when: mean {p.mean():.2g}, "
        f"from {p.min():.2g} (day {low}) to {p.max():.2g} (day {high})."
    )
    assert 3 not in counted


def test_bernoulli_fits_say_what_the_sizes_of_classes_are():
    post = fit(simulated(2.0).binarize(), likelihood="bernoulli")
    words = "Bernoulli likelihood: a cell is 1 if its latent count is above 0; sizes of classes are latent counts."
    assert sentences(post.diagnose().likelihood) == (words,)
    assert "of the expected latent counts" in shown(class_report(post))
    assert words in posterior_html(post)


def test_learned_concentrations_are_told_by_mode():
    post = fit(simulated(1), e0="infer")
    mean = post.concentrations.mean(axis=(0, 1))
    each = ", ".join(f"mode_{mode} {value:.2g}" for mode, value in enumerate(mean))
    assert sentences(post.diagnose().likelihood)[1] == f"Concentrations learned: {each}."
    assert f"Concentrations learned: {each}." in posterior_html(post)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "AlloCore: 2 classes, core 2 x 2 x 2; a0 1, b0 1, e0 1, f0 10, alpha0 0.1; seed 3"),
        (
            {"likelihood": "negative-binomial", "dispersion_by": 1, "g0": 2.0},
            "AlloCore, negative-binomial, p by mode_1: 2 classes, core 2 x 2 x 2; "
            "a0 1, b0 1, e0 1, f0 10, alpha0 0.1, g0 2, h0 1; seed 3",
        ),
        (
            {"e0": (0.1, 0.5, 1)},
            "AlloCore: 2 classes, core 2 x 2 x 2; a0 1, b0 1, e0 (0.1, 0.5, 1), f0 10, alpha0 0.1; seed 3",
        ),
        (
            {"e0": "infer", "s0": 3},
            "AlloCore: 2 classes, core 2 x 2 x 2; a0 1, b0 1, e0 learned, f0 10, alpha0 0.1, s0 3, t0 1; seed 3",
        ),
    ],
)
def test_the_settings_name_the_likelihood_and_what_it_adds(settings, line):
    assert settings_line(fit(simulated(2.0, 100), 2, burn_in=1, **settings).record) == line
