"""Bad input is refused in one sentence before any job runs; and which jobs a comparison has."""

import dataclasses
import json
import re

import numpy as np
import pytest
from comparison_cases import QUICK, small_tensor

import allocore as ac
from allocore.comparison import compare, time_trials
from allocore.comparison.job_progress import Lines, seconds_left, work_of
from allocore.comparison.settings import Job, Request, Settings
from allocore.comparison.time_trials import forecast_words, sweeps_of, trial_rates

NUMBERS = {"seed": 4, "burn_in": 6, "draws": 3, "thin": 2, "restarts": 2, "max_iter": 5}


def jobs(models, budgets=(2, 4), splits=2, core_shape=None):
    tensor = small_tensor()
    settings = Settings.of(tensor, 0.1, "when", **NUMBERS)
    return Request.of(tensor, models, budgets, splits, core_shape).jobs(settings, tensor.shape)


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
    assert (gibbs.burn_in, gibbs.restarts, em.burn_in, em.restarts) == (6, None, None, 2)
    for job in (gibbs, em):
        assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job


def test_doubled_budgets_and_models_are_one():
    assert len(jobs(["cp", "cp"], (2, 2, 4), 1)) == 2


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": ["pca"]}, "models has 'pca', but every model must be one of allocore, cp, tucker, nntuck"),
        ({"models": []}, "models is empty, but it must have at least one entry"),
        ({"models": ["cp=2x2x2"]}, "models has 'cp=2x2x2', but CP has no core to choose: its budget determines it"),
        ({"models": ["tucker=2x?"]}, "models has 'tucker=2x?', but a core must be whole numbers joined by x"),
        ({"models": ["tucker=7x2x2"]}, "models has a core of 7x2x2, but the mode who has only 6 labels"),
        ({"models": ["cp"], "core_shape": (2, 2, 2)}, "core_shape is (2, 2, 2), but it needs the model allocore"),
        ({"core_shape": (2, 9, 2)}, "core_shape has a core of 2x9x2, but the mode whom has only 5 labels"),
        ({"core_shape": (2, 2)}, "core_shape (2, 2) has 2 entries, but the tensor has 3 modes"),
        ({"budgets": []}, "budgets is empty, but it must have at least one entry"),
        ({"budgets": [0, 5]}, "budgets is [0, 5], but every entry must be a whole number of at least 1"),
        ({"budgets": [2.5]}, "budgets is [2.5], but every entry must be a whole number of at least 1"),
        ({"budgets": [5000]}, "budgets has 5,000, but it must not exceed the number of non-zeros, "),
        ({"splits": 0}, "splits is 0, but it must be a whole number of at least 1"),
        ({"hold_out": 0.0}, "hold_out is 0.0, but it must be a number above 0 and below 1"),
        ({"hold_out": 1}, "hold_out is 1, but it must be a number above 0 and below 1"),
        ({"hold_out": "much"}, "hold_out is 'much', but it must be a number above 0 and below 1"),
        ({"hold_out": 0.99}, "split 0: hold_out=0.99 leaves no positive count to train on; hold out less"),
        ({"along": "where"}, "where"),
        ({"along": 3}, "3"),
        ({"jobs": 0}, "jobs is 0, but it must be a whole number of at least 1"),
        ({"burn_in": -1}, "burn_in is -1, but it must be a whole number of at least 0"),
        ({"draws": 0}, "draws is 0, but it must be a whole number of at least 1"),
        ({"restarts": 0}, "restarts is 0, but it must be a whole number of at least 1"),
        ({"seed": -1}, "seed is -1, but it must be a whole number of at least 0"),
        ({"out": ""}, "out is '', but it must be a path"),
        ({"out": 5}, "out is 5, but it must be a path"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_before_any_job(monkeypatch, tmp_path, wrong, message):
    monkeypatch.setattr(compare, "run_jobs", lambda *_, **__: pytest.fail("a job was run"))
    monkeypatch.setattr(compare.tempfile, "mkdtemp", lambda **_: pytest.fail("a folder was made"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ac.InputError) as caught:
        ac.compare(small_tensor(), **{"budgets": [2], "out": "out", **QUICK, **wrong})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing was written"


def test_a_tensor_of_which_every_split_takes_all_counts_is_refused():
    counts = np.zeros((3, 1, 4), dtype=int)
    counts[0, 0, 1] = 5
    counts[1, 0, 1] = 5
    with pytest.raises(ac.InputError, match=r"^split \d+: hold_out=0.67 leaves no positive count to train on"):
        ac.compare(counts, ["cp"], [1], **{**QUICK, "hold_out": 0.67, "splits": 20})


@pytest.mark.parametrize("what", ["file", "parent", "other"])
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(tmp_path, what):
    out = tmp_path / "out"
    if what == "other":
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
    else:
        out.write_text("a file")
    with pytest.raises(ac.InputError, match=r"^out is '.*', but (there is a file|that folder holds something other)"):
        ac.compare(small_tensor(), ["cp"], [2], out=out / "deeper" if what == "parent" else out, **QUICK)
    assert [each.read_text() for each in tmp_path.rglob("*") if each.is_file()] in (["a file"], ["years of work"])


def test_time_left_follows_models_and_sizes():
    small, large = (dataclasses.replace(jobs(["cp"], (2,), 1)[0], budget=budget) for budget in (10, 30))
    assert seconds_left([], [], [large], 1) is None
    assert seconds_left([(small, 4.0)], [], [large, large], 1) == pytest.approx(16.0)
    assert seconds_left([(small, 4.0)], [(large, 3.0)], [], 2) == pytest.approx(2.5)
    assert seconds_left([(small, 4.0)], [(large, 100.0)], [], 1) == 0.0
    other = jobs(["tucker"], (2,), 1)[0]
    assert seconds_left([(small, 4.0), (other, 120.0)], [], [large], 1) == pytest.approx(8.0)


def test_where_there_is_no_terminal_a_line_comes_once_a_minute(capsys):
    now = [0.0]
    job = jobs(["cp"], (2,), 1)[0]
    lines = Lines([job, job], before=3, parallel=1, clock=lambda: now[0])
    for now[0] in (1.0, 59.0, 61.0, 62.0, 119.0, 122.0):
        lines.show([(job, 5.0)], [], 1)
    assert capsys.readouterr().err == "4 of 5 jobs done, about 5 s left\n" * 2


def test_a_trial_of_a_model_tells_its_time_until_one_of_its_jobs_is_finished():
    settings = Settings.of(small_tensor(), 0.15, -1, **NUMBERS)
    allocore, nntuck = Request.of(small_tensor(), ["allocore", "nntuck"], [10], 1).jobs(settings, small_tensor().shape)
    trials = {"allocore": 1.0, "nntuck": 100.0}
    before = seconds_left([], [], [allocore, nntuck], 1, trials)
    assert before == pytest.approx(1.0 * work_of(allocore) + 100.0 * work_of(nntuck))
    after = seconds_left([(allocore, 7.0)], [], [allocore, nntuck], 1, trials)
    assert after == pytest.approx(7.0 + 100.0 * work_of(nntuck)), "what was measured counts more than a trial"


def test_the_time_of_each_model_is_told_before_the_first_job(monkeypatch):
    settings = Settings.of(small_tensor(), 0.15, -1, **NUMBERS)
    jobs = Request.of(small_tensor(), ["allocore", "nntuck"], [2, 3], 2).jobs(settings, small_tensor().shape)
    assert trial_rates(small_tensor(), jobs, 1) == {}, "a short comparison needs no trial"
    monkeypatch.setattr("allocore.comparison.time_trials._WORTH_A_TRIAL", 0.0)
    rates = trial_rates(small_tensor(), jobs, 1)
    assert set(rates) == {"allocore", "nntuck"}
    told = forecast_words(jobs, rates, 2)
    assert re.fullmatch(r"8 fits, 2 at a time, take about .+: ALL0CORE [\d.]+ \w+, NNTuck at most [\d.]+ \w+", told)


def test_a_model_whose_trial_fails_has_no_time_and_the_others_have(monkeypatch):
    settings = Settings.of(small_tensor(), 0.15, -1, **NUMBERS)
    jobs = Request.of(small_tensor(), ["allocore", "nntuck"], [2], 1).jobs(settings, small_tensor().shape)
    monkeypatch.setattr("allocore.comparison.time_trials._WORTH_A_TRIAL", 0.0)
    right = time_trials.shortest_model

    def without_memory(job, *more, **named):
        if job.model == "nntuck":
            raise MemoryError
        return right(job, *more, **named)

    monkeypatch.setattr(time_trials, "shortest_model", without_memory)
    rates = trial_rates(small_tensor(), jobs, 1)
    assert set(rates) == {"allocore"}
    assert forecast_words(jobs, rates, 1).startswith("2 fits, 1 at a time, take about ")


def test_the_sweeps_of_a_job_are_those_of_all_its_chains_or_starts():
    settings = Settings.of(small_tensor(), 0.15, -1, chains=4, **NUMBERS)
    jobs = Request.of(small_tensor(), ["cp", "nntuck"], [2], 1).jobs(settings, small_tensor().shape)
    assert [sweeps_of(job) for job in jobs] == [4 * (6 + 3 * 2), 2 * 5]
