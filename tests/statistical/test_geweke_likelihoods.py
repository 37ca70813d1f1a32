"""Geweke's joint-distribution test with the other likelihoods and with learned concentrations (see test_geweke.py).

The label-free quantities now include the log odds of every p and the logarithms of the concentrations. The priors give
all of them finite variances: E[1/e^2] exists for s0 > 2, and log odds of a Beta variate have all moments.

Two sweeps are made for each data set. After the first, p depends on the data; an error in p that leaves its prior as it
is (such as rows in another order) shows only in what the second makes of it.

Error rate: each test rejects a correct sampler with probability 1e-3, corrected for the number of quantities (seeds are
fixed, so it is decided once). Deliberate bugs must be found at 1e-6; how many starts each needs was measured.
"""

from dataclasses import replace

import numpy as np
import pytest

import allocore.gibbs.concentrations as concentrations_module
import allocore.gibbs.dispersion as dispersion_module
import allocore.gibbs.sweep as sweep_module
from allocore.gibbs.sweep import begin, sweep
from allocore.gibbs.thinning import Allocation, ThinningInfo
from allocore.model.joint import log_odds_at, rates_at
from allocore.model.simulate import prior_state
from allocore.model.spec import Spec
from allocore.model.state import Dispersion
from support import cases, naive
from support.evidence import corrected, same_means, summaries, zero_means
from support.geweke import NONE, SHAPE, SOME, wander

pytestmark = [pytest.mark.statistical, pytest.mark.jit]
SHORT = 150  # starts
PRIORS = {"a0": 1.6, "b0": 0.4, "e0": 1.3, "f0": 1.7, "alpha0": 2.0}
BURSTS = {**PRIORS, "likelihood": "negative-binomial", "g0": 3.0, "h0": 4.0}
BINARY = {**PRIORS, "likelihood": "bernoulli", "b0": 2.0}
LEARNED = {"e0": "infer", "s0": 8.0, "t0": 6.0}
FEW = {"infer_budget": True, "c0": 6.0, "d0": 3.0, "b0": 5.0}  # small core values, so that classes are often empty
MANY = {"alpha0": 6.0, "b0": 3.0}  # empty classes again, and enough of all for them to be split and merged
SPECS = {
    "bursts": Spec(3, (2, 3, 2), **BURSTS),
    "bursts-strong-prior": Spec(3, (2, 3, 2), **{**BURSTS, "a0": 3.0, "b0": 6.0, "h0": 8.0}),
    "bursts-by-row": Spec(3, (2, 3, 2), **BURSTS, dispersion_by=1),
    "binary": Spec(3, (2, 3, 2), **BINARY),
    "learned": Spec(3, (2, 3, 2), **{**PRIORS, **LEARNED}),
    "bursts-learned": Spec(3, (3, 3, 3), **{**BURSTS, **LEARNED}, dispersion_by=0),
    "binary-learned": Spec(3, (3, 3, 3), **{**BINARY, **LEARNED}),
    "by-mode": Spec(3, (2, 3, 2), **{**BURSTS, "e0": (0.8, 1.3, 2.5)}),
    "bursts-split-merge": Spec(9, (4, 3, 2), **{**BURSTS, **LEARNED, **MANY}, dispersion_by=2),
    "binary-split-merge": Spec(9, (4, 3, 2), **{**BINARY, **MANY}),
    "bursts-inferred": Spec(5, (2, 3, 2), **{**BURSTS, **FEW}, dispersion_by=1),
    "binary-inferred": Spec(5, (2, 3, 2), **{**BINARY, **LEARNED, **FEW}),
    "cp-bursts": Spec(2, (2, 2, 2), **{**BURSTS, **LEARNED}, dispersion_by=2, model="CP"),
    "cp-binary": Spec(2, (2, 2, 2), **BINARY, model="CP"),
    "tucker-bursts": Spec(4, (2, 1, 2), **BURSTS, model="Tucker"),
    "tucker-binary": Spec(4, (2, 1, 2), **{**BINARY, **LEARNED}, model="Tucker"),
}


def two_sweeps(key, number, layout, spec, state):
    now = begin(key.at(3 * number), layout, spec, state)
    now, _ = sweep(key.at(3 * number + 1), layout, spec, now)
    return sweep(key.at(3 * number + 2), layout, spec, now)[0].state


def evidence_against(spec, missing, starts=1_000):
    return corrected(zero_means(wander(two_sweeps, spec, missing, starts)))


def test_prior_and_a_short_chain_agree():
    assert evidence_against(SPECS["bursts-learned"], SOME, SHORT) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_prior_and_chain_agree(name):
    assert evidence_against(SPECS[name], SOME) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bursts", "bursts-learned", "binary-learned", "bursts-split-merge", "cp-bursts"])
def test_prior_and_chain_agree_if_no_cell_is_missing(name):
    assert evidence_against(SPECS[name], NONE) > 1e-3


def c_forgotten_in_one_mode(monkeypatch):
    right = sweep_module.exposure

    def forgetful(layout, workspace, mode):
        if mode != 2 or workspace.scale is None:
            return right(layout, workspace, mode)
        scale, sums_MQ = workspace.scale, workspace.expanded.sums_MQ.copy()
        sums_MQ[scale.mode] = workspace.rows(scale.mode).sum(axis=0)
        return layout.missing.sums_by_row(workspace.expanded._replace(sums_MQ=sums_MQ), mode, layout.workers)

    monkeypatch.setattr(sweep_module, "exposure", forgetful)


def p_drawn_from_latent_counts(monkeypatch):
    """With the latent counts of the sweep before in place of the counts."""
    right, latest = sweep_module.draw_dispersion, []
    thin = sweep_module.thin

    def remembering(*given):
        latest[:] = thin(*given)
        return tuple(latest)

    def from_latent(key, layout, *rest):
        return right(key, replace(layout, row_totals_R=latest[0].y_RQ.sum(axis=1).astype(float)), *rest)

    monkeypatch.setattr(sweep_module, "thin", remembering)
    monkeypatch.setattr(sweep_module, "draw_dispersion", from_latent)


def p_drawn_after_another_prior(monkeypatch):
    right = sweep_module.draw_dispersion
    monkeypatch.setattr(
        sweep_module,
        "draw_dispersion",
        lambda key, layout, spec, *rest: right(key, layout, replace(spec, g0=1.0), *rest),
    )


def core_values_with_a_prior_that_forgets_p(monkeypatch):
    right = sweep_module.draw_core_values

    def forgetful(key, spec, state, *rest):
        new, info = right(key, spec, replace(state, dispersion=None), *rest)
        return replace(new, dispersion=state.dispersion), info

    monkeypatch.setattr(sweep_module, "draw_core_values", forgetful)


def p_shifted_without_the_latent_counts(monkeypatch):
    right = sweep_module.draw_dispersion
    monkeypatch.setattr(sweep_module, "draw_dispersion", lambda *given: right(*given[:-1], 0.0))


def dispersion_of_other_rows(monkeypatch):
    right = sweep_module.draw_dispersion

    def turned(*given):
        state, info = right(*given)
        backwards = Dispersion(state.dispersion.log_odds_D[::-1].copy(), state.dispersion.mode)
        return replace(state, dispersion=backwards), info

    monkeypatch.setattr(sweep_module, "draw_dispersion", turned)


def by_latent_counts_of(draw):
    """Plant a thinning that draws the latent count of every cell by `draw(likelihood, count, rate, rng)`."""

    def plant(monkeypatch):
        rng = np.random.default_rng(12)

        def thin(key, layout, spec, state, workspace, thin_cells):
            coords_MN = np.empty(layout.nonzeros.coords_MN.shape, dtype=np.int64)
            coords_MN[list(layout.order)] = layout.nonzeros.coords_MN
            dense, counts_N = cases.naive_of(state), layout.counts_of(np.arange(layout.nnz))
            rates_QN = naive.class_rates(dense)[:, *coords_MN]
            y_RQ = np.zeros((sum(layout.shape), spec.budget), dtype=np.int64)
            for n, count in enumerate(counts_N.tolist()):
                rate = rates_QN[:, n].sum()
                split_Q = rng.multinomial(draw(count, rate, rng), rates_QN[:, n] / rate)
                y_RQ[layout.offsets_M[:-1] + coords_MN[:, n]] += split_Q
            return Allocation(y_RQ, 0.0), ThinningInfo(0, 0)

        monkeypatch.setattr(sweep_module, "thin", thin)

    return plant


right_tables = by_latent_counts_of(naive.chinese_restaurant)
tables_with_another_rate = by_latent_counts_of(
    lambda count, rate, rng: naive.chinese_restaurant(count, 1.5 * rate, rng)
)
counts_taken_for_latent_counts = by_latent_counts_of(lambda count, rate, rng: count)
right_truncation = by_latent_counts_of(lambda count, rate, rng: naive.positive_poisson(rate, rng))
one_latent_count_for_a_one = by_latent_counts_of(lambda count, rate, rng: 1)
truncation_ignored = by_latent_counts_of(lambda count, rate, rng: rng.poisson(rate))


def concentration_that_forgets_the_exposure(monkeypatch):
    right = sweep_module.draw_concentration

    def forgetful(key, layout, spec, state, view):
        return right(key, layout, spec, state, view._replace(exposure_DQ=np.zeros_like(view.exposure_DQ)))

    monkeypatch.setattr(sweep_module, "draw_concentration", forgetful)


def concentration_with_every_count_a_table(monkeypatch):
    monkeypatch.setattr(
        concentrations_module, "crt_sum", lambda rng, counts_J, cumulative_J, r, scratch: int(counts_J.sum())
    )


def rates_of_missing_cells_in_the_dispersion(monkeypatch):
    right = dispersion_module.draw_dispersion
    none = cases.layout_of(np.zeros(SHAPE, dtype=np.int64), NONE).missing

    def all_observed(key, layout, *rest):
        return right(key, replace(layout, missing=none), *rest)

    monkeypatch.setattr(sweep_module, "draw_dispersion", all_observed)


BUGS = {
    "c_forgotten_in_one_mode": (c_forgotten_in_one_mode, "bursts-by-row", 300),
    "c_forgotten_in_one_mode-one_p": (c_forgotten_in_one_mode, "bursts", 600),
    "p_drawn_from_latent_counts": (p_drawn_from_latent_counts, "bursts-by-row", 300),
    "p_drawn_after_another_prior": (p_drawn_after_another_prior, "bursts-learned", SHORT),
    "core_values_with_a_prior_that_forgets_p": (core_values_with_a_prior_that_forgets_p, "bursts-strong-prior", 300),
    "p_shifted_without_the_latent_counts": (p_shifted_without_the_latent_counts, "bursts", 150),
    "dispersion_of_other_rows": (dispersion_of_other_rows, "bursts-by-row", 600),
    "tables_with_another_rate": (tables_with_another_rate, "bursts", 600),
    "counts_taken_for_latent_counts": (counts_taken_for_latent_counts, "bursts", 150),
    "one_latent_count_for_a_one": (one_latent_count_for_a_one, "binary", 150),
    "truncation_ignored": (truncation_ignored, "binary", 150),
    "concentration_that_forgets_the_exposure": (concentration_that_forgets_the_exposure, "learned", 150),
    "concentration_with_every_count_a_table": (concentration_with_every_count_a_table, "learned", 150),
    "rates_of_missing_cells_in_the_dispersion": (rates_of_missing_cells_in_the_dispersion, "bursts-by-row", 150),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_deliberate_bug_is_found(name, monkeypatch):
    plant, spec, starts = BUGS[name]
    plant(monkeypatch)
    assert evidence_against(SPECS[spec], SOME, starts) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "name"), [(right_tables, "bursts"), (right_truncation, "binary")])
def test_what_the_bugs_are_planted_in_is_right_without_them(plant, name, monkeypatch):
    """Error rate 1e-3. So it is the latent counts that the tests above find fault with."""
    plant(monkeypatch)
    assert evidence_against(SPECS[name], SOME, 600) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bursts-learned", "binary-learned", "by-mode"])
def test_the_prior_of_the_package_is_the_prior_of_the_oracle_and_so_are_the_data(name):
    """Error rate 1e-3."""
    spec, rng = SPECS[name], np.random.default_rng(5)
    states = [prior_state(spec, SHAPE, rng) for _ in range(4_000)]
    priors, cells = cases.priors_of(spec), np.indices(SHAPE).reshape(3, -1)
    dense = [naive.sample_prior(SHAPE, spec.core_shape, spec.budget, priors, rng) for _ in range(4_000)]
    ours = np.array([spec.observation.draw(rates_at(s, cells), log_odds_at(s, cells), rng) for s in states])
    theirs = np.array([naive.sample_data(state, SHAPE, rng, priors).ravel() for state in dense])
    counts = [np.column_stack([np.log1p(data), np.log1p(data) ** 2, data > 0]) for data in (ours, theirs)]
    first = np.hstack([summaries([cases.naive_of(state) for state in states]), counts[0]])
    assert corrected(same_means(first, np.hstack([summaries(dense), counts[1]]))) > 1e-3
