"""Comparisons of likelihoods, of concentrations, and of one chain with several."""

import json
import shutil

import numpy as np
import pytest
from comparison_cases import QUICK, run_here, small_tensor, table_of

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.compare import Comparison
from allocore.comparison.markdown_report import figure_table, report
from allocore.comparison.sentences import words
from allocore.comparison.settings import Job, Settings

NAMES = ["allocore", "allocore-nb", "allocore-nb-e0", "cp-nb-by-who"]
CHOSEN = {"budgets": (3,), "splits": 1, "chains": 2, "e0": (0.5, 0.5, 1.0), "seed": 7}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A comparison of four models with two chains each, and its folder."""
    out = tmp_path_factory.mktemp("likelihoods") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "write", lambda *_: None)
        patch.setattr(compare, "run_jobs", run_here)
        return ac.compare(small_tensor(), NAMES, out=out, **CHOSEN, **QUICK), out


def by_hand(name):
    split = ac.hold_out(small_tensor(), 0.15, seed=7)
    common = {"burn_in": 6, "draws": 3, "thin": 2, "chains": 2, "seed": 7, "progress": False}
    fixed, nb = {"e0": (0.5, 0.5, 1.0)}, {"likelihood": "negative-binomial"}
    models = {
        "allocore": ac.AlloCore(3, **fixed, **common),
        "allocore-nb": ac.AlloCore(3, **fixed, **nb, **common),
        "allocore-nb-e0": ac.AlloCore(3, e0="infer", **nb, **common),
        "cp-nb-by-who": ac.CP(3, dispersion_by="who", **fixed, **nb, **common),
    }
    return models[name].fit(split.train).posterior_, split.test


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_fitted_as_it_says_and_judged_by_all_chains_and_by_single_ones(finished, name):
    row = finished[0].table.set_index("model").loc[name]
    post, test = by_hand(name)
    assert row["chains"] == 2
    assert row["log_ppd"] == post.log_ppd(test)
    assert row["log_ppd_positive"] == post.log_ppd(test, positive_only=True)
    alone = [ac.Posterior(post.record.with_chains([c])) for c in range(2)]
    for positive, column in ((False, "log_ppd_chain"), (True, "log_ppd_positive_chain")):
        expected = np.mean([chain.log_ppd(test, positive_only=positive) for chain in alone])
        assert row[column] == pytest.approx(expected)
        assert row[column] <= row[column.removesuffix("_chain")], "the mean of logarithms is below that of the mean"


def test_tables_sentences_and_figures_have_readable_names(finished):
    found, _ = finished
    assert found.table["model"].tolist() == NAMES
    assert found.summary()["model"].tolist() == NAMES
    told = str(found)
    assert "ALL0CORE (negative binomial) at Q = 3" in told
    assert "ALL0CORE (negative binomial, e0 learned) at Q = 3" in told
    assert "CP (negative binomial, p by who) at Q = 3: 2 chains together have a higher log PPD than one, by" in told
    assert "| ALL0CORE (negative binomial) | 3 | 1 |" in found.report()
    assert "Every fit has 2 such chains" in found.report()
    assert "Concentrations that are not learned: e0 = (0.5, 0.5, 1.0)." in found.report()
    legend = [text.get_text() for text in found.plot().panels[0].get_legend().get_texts()]
    assert legend[:3] == ["ALL0CORE", "ALL0CORE, negative binomial", "ALL0CORE, negative binomial, e0 learned"]


def test_a_kind_of_model_has_one_colour_in_figures():
    table = table_of(**{"allocore_5": [-1.0], "allocore-nb_5": [-0.9], "cp_5": [-1.1]})
    lines = [each.lines[0] for each in Comparison(table, None, "").plot().panels[0].containers]
    assert lines[0].get_color() == lines[1].get_color() != lines[2].get_color()
    assert lines[0].get_linestyle() != lines[1].get_linestyle()
    assert figure_table(table)["core"].tolist() == ["", "negative binomial", ""]


def test_with_one_chain_nothing_is_said_of_pooling():
    table = table_of(allocore_5=[-1.0, -1.1])
    assert not any("chains together" in sentence for sentence in words(table))
    assert "one chain" not in report(table, Settings("", 0.01, 2, "when", 0, 10, 5, 2, 3, 50), "", [], 0)


def test_the_report_says_that_nntuck_stays_poisson():
    settings = Settings("", 0.01, 2, "when", 0, 10, 5, 2, 3, 50)
    both = report(table_of(**{"cp-nb_5": [-1.0], "nntuck_5": [-1.5]}), settings, "", [], 0)
    assert "It is Poisson, whatever the likelihood of the others." in both
    assert "It is Poisson" not in report(table_of(cp_5=[-1.0], nntuck_5=[-1.5]), settings, "", [], 0)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"e0": 0.5}, r"^e0 is 0.5, but the comparison in '.*' was made with \[0.5, 0.5, 1.0\]: use another folder$"),
        ({"chains": 1}, r"^chains is 1, but the comparison in '.*' was made with 2: use another folder$"),
    ],
)
@pytest.mark.parametrize("lost", [False, True], ids=["settings", "results alone"])
def test_other_settings_in_the_same_folder_are_refused(finished, tmp_path, other, message, lost):
    out = shutil.copytree(finished[1], tmp_path / "out")
    if lost:
        (out / "settings.json").unlink()
    with pytest.raises(ac.InputError, match=message):
        ac.compare(small_tensor(), NAMES, out=out, **{**CHOSEN, **other}, **QUICK)


def test_another_likelihood_is_another_model_of_the_same_comparison(finished, monkeypatch):
    started = []
    monkeypatch.setattr(compare, "write", lambda *_: None)
    monkeypatch.setattr(compare, "run_jobs", lambda folder, jobs, **_: started.extend(job.name for job in jobs))
    options = {**CHOSEN, **QUICK, "likelihood": "negative-binomial"}
    again = ac.compare(small_tensor(), ["allocore", "allocore-e0", "cp"], out=finished[1], **options)
    assert started == ["cp-nb-3-split0"]
    assert again.missing == 1


def test_results_from_before_there_were_likelihoods_are_still_known(finished, tmp_path):
    settings = Settings.of(small_tensor(), 0.15, -1, seed=7, burn_in=6, draws=3, thin=2, restarts=2, max_iter=5)
    for model in ("cp", "nntuck"):
        job = settings.job(model, 3, (3, 3, 3), core=False, split=0)
        older = {name: value for name, value in job.to_json().items() if name not in ("chains", "e0")}
        assert Job.from_json(older) == job
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_a_mode_with_a_slash_is_no_folder(monkeypatch):
    monkeypatch.setattr(compare, "run_jobs", run_here)
    tensor = ac.as_tensor(np.random.default_rng(0).poisson(1.0, (5, 4, 3)), mode_names=["a/b", "c", "d"])
    found = ac.compare(tensor, ["cp-nb"], [2], splits=1, dispersion_by="a/b", **QUICK)
    assert found.table["model"].tolist() == ["cp-nb-by-a/b"]


def test_binary_data_compare_all_likelihoods(monkeypatch):
    monkeypatch.setattr(compare, "run_jobs", run_here)
    found = ac.compare(small_tensor().binary(), ["allocore-bernoulli", "allocore", "nntuck"], [3], splits=1, **QUICK)
    assert found.table["model"].tolist() == ["allocore", "allocore-bernoulli", "nntuck"]
    assert found.failed == 0


def test_select_budget_takes_the_likelihood_and_the_concentrations(monkeypatch):
    monkeypatch.setattr(compare, "run_jobs", run_here)
    options = {"likelihood": "negative-binomial", "e0": "infer", "dispersion_by": "whom"}
    found = ac.select_budget(small_tensor(), (1, 3), splits=2, **options, **QUICK)
    assert found.comparison.table["model"].unique().tolist() == ["allocore-nb-e0-by-whom"]
    assert found.table["splits"].tolist() == [2, 2]
    with pytest.raises(
        ac.InputError, match=r"^likelihood is 'bernoulli' \(allocore-bernoulli\), but the tensor has counts"
    ):
        ac.select_budget(small_tensor(), (1, 3), splits=2, likelihood="bernoulli", **QUICK)
