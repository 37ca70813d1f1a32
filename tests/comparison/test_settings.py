"""Bad input is refused in one sentence before any job runs; and which jobs a comparison has."""

import dataclasses
import json
import re

import numpy as np
import pytest

import allocore as ac
from allocore.comparison import compare
from allocore.comparison import jobs as job_module
from allocore.comparison.jobs import JobProgress, forecast_words, seconds_left, trial_rates, work_of
from allocore.comparison.models import Job, Settings, requested_jobs
from support.comparison_cases import CHAINS, QUICK, named, small_tensor
from support.errors import refused


def jobs(models, budgets=(2, 4), splits=2, **settings):
    tensor = small_tensor()
    return requested_jobs(tensor, named(models, **settings), budgets, splits, Settings.of(tensor, 0.1, "when", 4))


def test_every_model_budget_and_split_is_a_job_split_after_split():
    found = jobs(["cp", "tucker"])
    assert [(job.model, job.budget, job.split) for job in found[:4]] == [
        ("cp", 2, 0),
        ("cp", 4, 0),
        ("tucker", 2, 0),
        ("tucker", 4, 0),
    ]
    assert [job.split for job in found] == [0] * 4 + [1] * 4
    assert [job.seed for job in found] == [4] * 4 + [5] * 4
    assert [job.hold_out_seed for job in found] == [0] * 4 + [1] * 4
    assert len({job.name for job in found}) == len(found)


def test_cores_follow_from_the_budget_unless_they_are_chosen():
    cores = {
        job.name: job.core_shape for job in jobs(["allocore", "allocore=2x2x3", "tucker", "nntuck=2x2x2"], (4,), 1)
    }
    assert cores == {
        "allocore-4-split0": (4, 4, 4),
        "allocore-2x2x3-4-split0": (2, 2, 3),
        "tucker-4-split0": (2, 1, 2),
        "nntuck-2x2x2-8-split0": (2, 2, 2),
    }
    assert {job.core_shape for job in jobs(["allocore"], core_shape=(3, 3, 2))} == {(3, 3, 2)}


def test_a_job_is_json_and_holds_only_what_its_model_uses():
    gibbs, em = jobs(["cp", "nntuck"], (2,), 1)
    assert (dict(gibbs.settings)["burn_in"], dict(em.settings)["restarts"]) == (6, 2)
    assert "restarts" not in dict(gibbs.settings)
    assert "burn_in" not in dict(em.settings)
    for job in (gibbs, em):
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_doubled_budgets_and_models_are_one():
    assert len(jobs(["cp", "cp"], (2, 2, 4), 1)) == 2


def test_without_budgets_models_have_their_own_sizes():
    models = {"a": ac.AlloCore(3), "c": ac.CP(2), "t": ac.Tucker((2, 2, 2)), "s": [ac.CP(1), ac.CP(4)]}
    found = requested_jobs(small_tensor(), models, None, 1, Settings.of(small_tensor(), 0.1, -1))
    assert [(job.model, job.budget, job.core_shape, job.core) for job in found] == [
        ("a", 3, (3, 3, 3), False),
        ("c", 2, (2, 2, 2), False),
        ("t", 8, (2, 2, 2), True),
        ("s", 1, (1, 1, 1), False),
        ("s", 4, (4, 4, 4), False),
    ]


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"models": ["cp"]}, "models"),
        ({"models": {}}, "models"),
        ({"models": {"pca": object()}}, "models"),
        ({"models": {"cp": ac.CP}}, "models"),
        ({"models": {"cp": [ac.CP(2), ac.CP(2, thin=3)]}}, "models"),
        ({"models": {"allocore": ac.AlloCore("infer")}, "budgets": None}, "models"),
        ({"models": {"tucker": ac.Tucker(None)}, "budgets": None}, "budgets"),
        ({"models": {"tucker": ac.Tucker((7, 2, 2))}}, "core_shape"),
        ({"models": {"allocore": ac.AlloCore(core_shape=(2, 9, 2))}}, "core_shape"),
        ({"models": {"cp": ac.CP(2, burn_in=-1)}}, "burn_in"),
        ({"models": {"cp": ac.CP(2, draws=0)}}, "draws"),
        ({"models": {"nntuck": ac.NNTuck((2, 2, 2), restarts=0)}}, "restarts"),
        ({"budgets": []}, "budgets"),
        ({"budgets": [0, 5]}, "budgets"),
        ({"budgets": [2.5]}, "budgets"),
        ({"budgets": [5000]}, "budgets"),
        ({"splits": 0}, "splits"),
        ({"hold_out": 0.0}, "hold_out"),
        ({"hold_out": 1}, "hold_out"),
        ({"hold_out": "much"}, "hold_out"),
        ({"jobs": 0}, "jobs"),
        ({"seed": -1}, "seed"),
        ({"hold_out_seed": -1}, "hold_out_seed"),
        ({"out": ""}, "out"),
        ({"out": 5}, "out"),
    ],
)
def test_bad_input_is_refused_before_any_job(no_job, tmp_path, wrong, argument):
    with refused(argument):
        ac.compare(small_tensor(), **{"models": named(["cp"]), "budgets": [2], "out": "out", **QUICK, **wrong})
    assert not list(tmp_path.iterdir()), "nothing was written"


@pytest.mark.parametrize("wrong", [{"hold_out": 0.99}, {"along": "where"}, {"along": 3}])
def test_splits_that_cannot_be_made_are_refused_before_any_job(no_job, tmp_path, wrong):
    with pytest.raises(ac.InputError) as caught:
        ac.compare(small_tensor(), named(["cp"]), [2], **{"out": "out", **QUICK, **wrong})
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing was written"


@pytest.fixture
def no_job(monkeypatch, tmp_path):
    monkeypatch.setattr(compare, "run_jobs", lambda *_, **__: pytest.fail("a job was run"))
    monkeypatch.setattr(compare.tempfile, "mkdtemp", lambda **_: pytest.fail("a folder was made"))
    monkeypatch.chdir(tmp_path)


def test_a_tensor_of_which_every_split_takes_all_counts_is_refused():
    counts = np.zeros((3, 1, 4), dtype=int)
    counts[0, 0, 1] = 5
    counts[1, 0, 1] = 5
    with refused("hold_out"):
        ac.compare(counts, {"cp": ac.CP(1)}, **{**QUICK, "hold_out": 0.67, "splits": 20})


@pytest.mark.parametrize("what", ["file", "parent", "other"])
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(tmp_path, what):
    out = tmp_path / "out"
    if what == "other":
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
    else:
        out.write_text("a file")
    path = out / "deeper" if what == "parent" else out
    with refused("out", str(path)):
        ac.compare(small_tensor(), named(["cp"]), [2], out=path, **QUICK)
    assert [each.read_text() for each in tmp_path.rglob("*") if each.is_file()] in (["a file"], ["years of work"])


def test_time_left_follows_models_and_sizes():
    small, large = (dataclasses.replace(jobs(["cp"], (2,), 1)[0], budget=budget) for budget in (10, 30))
    assert seconds_left([], [], [large], 1) is None
    assert seconds_left([(small, 4.0)], [], [large, large], 1) == pytest.approx(16.0)
    assert seconds_left([(small, 4.0)], [(large, 3.0)], [], 2) == pytest.approx(2.5)
    assert seconds_left([(small, 4.0)], [(large, 100.0)], [], 1) == 0.0
    other = jobs(["tucker"], (2,), 1)[0]
    assert seconds_left([(small, 4.0), (other, 120.0)], [], [large], 1) == pytest.approx(8.0)


def test_where_there_is_no_terminal_a_line_comes_after_ten_seconds_and_then_once_a_minute(capsys):
    now = [0.0]
    job = jobs(["cp"], (2,), 1)[0]
    lines = JobProgress([job, job], before=3, parallel=1, clock=lambda: now[0])
    for now[0] in (1.0, 9.0, 11.0, 12.0, 69.0, 72.0):
        lines.show([(job, 5.0)], [])
    assert capsys.readouterr().err == "4 of 5 jobs done, about 5 s left\n" * 2


def test_a_trial_of_a_model_tells_its_time_until_one_of_its_jobs_is_finished():
    allocore, nntuck = jobs(["allocore", "nntuck"], [10], 1)
    trials = {"allocore": 1.0, "nntuck": 100.0}
    before = seconds_left([], [], [allocore, nntuck], 1, trials)
    assert before == pytest.approx(1.0 * work_of(allocore) + 100.0 * work_of(nntuck))
    after = seconds_left([(allocore, 7.0)], [], [allocore, nntuck], 1, trials)
    assert after == pytest.approx(7.0 + 100.0 * work_of(nntuck)), "what was measured counts more than a trial"


def test_the_time_of_each_model_is_told_before_the_first_job(monkeypatch):
    asked = jobs(["allocore", "nntuck"], [2, 3], 2)
    assert trial_rates(small_tensor(), asked, 1) == {}, "a short comparison needs no trial"
    monkeypatch.setattr(job_module, "_WORTH_A_TRIAL", 0.0)
    rates = trial_rates(small_tensor(), asked, 1)
    assert set(rates) == {"allocore", "nntuck"}
    told = forecast_words(asked, rates, 2)
    assert re.fullmatch(r"8 fits, 2 at a time, take about .+: ALL0CORE [\d.]+ \w+, NNTuck at most [\d.]+ \w+", told)


def test_a_model_whose_trial_fails_has_no_time_and_the_others_have(monkeypatch):
    asked = jobs(["allocore", "nntuck"], [2], 1)
    monkeypatch.setattr(job_module, "_WORTH_A_TRIAL", 0.0)
    right = job_module.shortest_model

    def without_memory(job, *more, **named):
        if job.model == "nntuck":
            raise MemoryError
        return right(job, *more, **named)

    monkeypatch.setattr(job_module, "shortest_model", without_memory)
    rates = trial_rates(small_tensor(), asked, 1)
    assert set(rates) == {"allocore"}
    assert forecast_words(asked, rates, 1).startswith("2 fits, 1 at a time, take about ")


def test_the_sweeps_of_a_job_are_those_of_all_its_chains_or_starts():
    found = jobs(["cp", "nntuck"], [2], 1, chains={**CHAINS, "chains": 4})
    assert [job.sweeps for job in found] == [4 * (6 + 3 * 2), 2 * 5]
