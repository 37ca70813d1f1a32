"""Comparisons of likelihoods, of concentrations, and of one chain with several."""

import json
import shutil

import numpy as np
import pytest

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.compare import Comparison
from allocore.comparison.findings import comparison_findings
from allocore.comparison.models import Job, Settings, requested_jobs
from allocore.comparison.tables import figure_table
from allocore.gibbs import SAMPLER_VERSION
from support.comparison_cases import CHAINS, QUICK, JobsHere, named, small_tensor, table_of
from support.errors import refused

NAMES = ["allocore", "allocore-nb", "allocore-nb-e0", "cp-nb-by-who"]
E0 = (0.5, 0.5, 1.0)


def compared(names=NAMES, chains=2, e0=E0, likelihood="poisson", **options):
    models = named(names, chains={**CHAINS, "chains": chains}, e0=e0, likelihood=likelihood)
    return ac.compare(small_tensor(), models, (3,), splits=1, seed=7, **options, **QUICK)


@pytest.fixture(scope="module")
def comparison_and_folder(tmp_path_factory):
    """A comparison of four models with two chains each, and its folder."""
    out = tmp_path_factory.mktemp("likelihoods") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "write", lambda *_: None)
        patch.setattr(compare, "JobProcesses", JobsHere)
        return compared(out=out), out


def by_hand(name):
    split = ac.hold_out(small_tensor(), 0.15)
    common = {"burn_in": 6, "draws": 3, "thin": 2, "chains": 2, "seed": 7, "progress": False}
    fixed, nb = {"e0": (0.5, 0.5, 1.0)}, {"likelihood": "negative-binomial"}
    models = {
        "allocore": ac.AlloCore(3, likelihood="poisson", **fixed, **common),
        "allocore-nb": ac.AlloCore(3, **fixed, **nb, **common),
        "allocore-nb-e0": ac.AlloCore(3, e0="infer", **nb, **common),
        "cp-nb-by-who": ac.CP(3, dispersion_by="who", **fixed, **nb, **common),
    }
    return models[name].fit(split.train).posterior_, split.test


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_fitted_as_it_says_and_judged_by_all_chains_and_by_single_ones(comparison_and_folder, name):
    row = comparison_and_folder[0].table.set_index("model").loc[name]
    post, test = by_hand(name)
    assert row["chains"] == 2
    assert row["log_ppd"] == post.log_ppd(test)
    assert row["log_ppd_positive"] == post.log_ppd(test, positive_only=True)
    alone = [post.select_chains([c]) for c in range(2)]
    for positive, column in ((False, "log_ppd_chain"), (True, "log_ppd_positive_chain")):
        expected = np.mean([chain.log_ppd(test, positive_only=positive) for chain in alone])
        assert row[column] == pytest.approx(expected)
        assert row[column] <= row[column.removesuffix("_chain")], "the mean of logarithms is below that of the mean"


def test_tables_findings_and_figures_have_readable_names(comparison_and_folder):
    found, _ = comparison_and_folder
    assert found.table["model"].tolist() == NAMES
    assert found.summary()["model"].tolist() == NAMES
    pooled = {each.values["model"]: each.values for each in found.findings if each.kind == "pooled-chains"}
    assert list(pooled) == [
        "ALL0CORE",
        "ALL0CORE (negative binomial)",
        "ALL0CORE (negative binomial, e0 learned)",
        "CP (negative binomial, p by who)",
    ]
    assert {each["chains"] for each in pooled.values()} == {2}
    assert "| ALL0CORE (negative binomial) | 3 | 1 |" in found.report()
    assert "e0=(0.5, 0.5, 1.0)" in found.models["allocore"]
    legend = [text.get_text() for text in found.plot().panels[0].get_legend().get_texts()]
    assert legend[:3] == ["ALL0CORE", "ALL0CORE, negative binomial", "ALL0CORE, negative binomial, e0 learned"]


def test_any_name_is_a_name(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    models = {"mine": ac.CP(2, **CHAINS), "a/b": [ac.Tucker((2, 1, 2), **CHAINS), ac.Tucker((1, 1, 2), **CHAINS)]}
    found = ac.compare(small_tensor(), models, splits=1, **QUICK)
    assert found.table[["model", "budget", "core"]].values.tolist() == [
        ["mine", 2, ""], ["a/b", 4, "2x1x2"], ["a/b", 2, "1x1x2"]
    ][:1] + sorted([["a/b", 4, "2x1x2"], ["a/b", 2, "1x1x2"]], key=lambda row: row[2])  # fmt: skip
    assert found.failed == 0


def test_a_kind_of_model_has_one_colour_in_figures():
    table = table_of(**{"allocore_5": [-1.0], "allocore-nb_5": [-0.9], "cp_5": [-1.1]})
    lines = [each.lines[0] for each in Comparison(table, None, "").plot().panels[0].containers]
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    assert figure_table(table)["core"].tolist() == ["", "negative binomial", ""]


def test_with_one_chain_nothing_is_said_of_pooling():
    found = comparison_findings(table_of(allocore_5=[-1.0, -1.1]))
    assert "pooled-chains" not in {each.kind for each in found}


@pytest.mark.parametrize(
    ("other", "value"), [({"e0": 0.5}, "'allocore' with e0=0.5"), ({"chains": 1}, "'allocore' with chains=1")]
)
@pytest.mark.parametrize("lost", [False, True], ids=["settings", "results alone"])
def test_other_settings_in_the_same_folder_are_refused(comparison_and_folder, tmp_path, other, value, lost):
    out = shutil.copytree(comparison_and_folder[1], tmp_path / "out")
    if lost:
        (out / "settings.json").unlink()
    with refused("models", value):
        compared(out=out, **other)


def test_another_likelihood_is_another_model_of_the_same_comparison(comparison_and_folder, monkeypatch):
    started = []
    monkeypatch.setattr(compare, "write", lambda *_: None)
    monkeypatch.setattr(compare, "run_jobs", lambda executor, jobs, *_, **__: started.extend(job.name for job in jobs))
    again = compared(["allocore", "allocore-e0", "cp"], likelihood="negative-binomial", out=comparison_and_folder[1])
    assert started == ["cp-nb-3-split0"]
    assert again.missing == 1


OLD = {
    "budget": 3, "core_shape": [3, 3, 3], "core": False, "split": 0, "seed": 7, "hold_out": 0.15, "along": 2,
    "sampler_version": SAMPLER_VERSION, "burn_in": 6, "draws": 3, "thin": 2, "restarts": None, "max_iter": None,
    "chains": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "e0"),
    [("cp", [0.5, 0.5, 1.0]), ("allocore-nb", [0.5, 0.5, 1.0]), ("allocore-nb-e0", None), ("cp-nb-by-who", E0)],
)
def test_results_whose_settings_are_in_their_names_are_still_known(name, e0):
    models = named([name], chains={**CHAINS, "chains": 2}, e0=E0 if e0 else 1.0)
    (job,) = requested_jobs(small_tensor(), models, [3], 1, Settings.of(small_tensor(), 0.15, -1, 7, 7))
    assert Job.from_json({**OLD, "model": name, "e0": e0}) == job
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_results_from_before_there_were_likelihoods_are_still_known():
    older = {name: value for name, value in OLD.items() if name not in ("chains", "sampler_version")}
    found = Job.from_json({**older, "model": "cp"})
    assert (found.sampler_version, dict(found.settings)["chains"], dict(found.settings)["e0"]) == (0, 1, 1.0)
    numbers = {"burn_in": None, "draws": None, "thin": None, "restarts": 2, "max_iter": 5}
    nntuck = Job.from_json({**older, **numbers, "model": "nntuck"})
    assert dict(nntuck.settings) == {"restarts": 2, "max_iter": 5, "tol": 1e-7}


def test_a_mode_with_a_slash_is_no_folder(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    tensor = ac.as_tensor(np.random.default_rng(0).poisson(1.0, (5, 4, 3)), mode_names=["a/b", "c", "d"])
    found = ac.compare(tensor, named(["cp-nb"], tensor, dispersion_by="a/b"), [2], splits=1, **QUICK)
    assert found.table["model"].tolist() == ["cp-nb-by-a/b"]


def test_binary_data_compare_all_likelihoods(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    tensor, names = small_tensor().binarize(), ["allocore-bernoulli", "allocore", "nntuck"]
    found = ac.compare(tensor, named(names, tensor), [3], splits=1, **QUICK)
    assert found.table["model"].tolist() == names
    assert found.failed == 0


def test_select_budget_takes_a_model(monkeypatch):
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    model = ac.AlloCore(likelihood="negative-binomial", e0="infer", dispersion_by="whom", **CHAINS)
    found = ac.select_budget(small_tensor(), (1, 3), model=model, splits=2, **QUICK)
    assert found.comparison.table["model"].unique().tolist() == ["allocore-nb-e0-by-whom"]
    assert found.table["splits"].tolist() == [2, 2]
    with refused("likelihood"):
        ac.select_budget(small_tensor(), (1, 3), model=ac.AlloCore(likelihood="bernoulli"), splits=2, **QUICK)
    with refused("model"):
        ac.select_budget(small_tensor(), (1, 3), model=ac.CP(3), splits=2, **QUICK)
