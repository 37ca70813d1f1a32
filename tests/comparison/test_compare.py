"""Whole comparisons: their numbers, and what is left of them after kills, failures and Ctrl-C."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.jobs import _reason, fit_and_judge, peak_megabytes, run_jobs
from allocore.comparison.models import Job, Settings, requested_jobs
from support.comparison_cases import ALL, CHAINS, MODES, QUICK, STARTS, JobsHere, named, small_tensor
from support.errors import refused, refused_file
from support.tiers import parametrize_few

MEASURED = ["seconds", "seconds_per_sweep", "peak_mb", "threads"]
ENDLESS = 10**6


@pytest.fixture(scope="module")
def comparison_of_all(tmp_path_factory):
    """A comparison of all models, and its folder: most in this process, the second split of CP in another.

    This process compiles the kernels, if need be; the other finds them on the disk.
    """
    out = tmp_path_factory.mktemp("comparison_of_all") / "out"
    options = {"along": "who", "seed": 7, "out": out}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "write", lambda *_: None)
        patch.setattr(compare, "JobProcesses", JobsHere)
        compared(splits=1, **options)
        compared(["allocore", "tucker", "nntuck"], splits=2, **options)
    return compared(splits=2, **options), out


def compared(models=ALL, budgets=(4,), sweeps=6, **options):
    found = named(models, chains={**CHAINS, "burn_in": sweeps})
    return ac.compare(small_tensor(), found, budgets, **{**QUICK, **options})


@pytest.fixture
def no_report(monkeypatch):
    """Figures take longer than the fits, and are looked at elsewhere."""
    monkeypatch.setattr(compare, "write", lambda *_: None)


def a_job(budget, split, seed, hold_out, **chains):
    model = ac.CP(budget, likelihood="poisson", chains=1, **chains)
    (job,) = requested_jobs(small_tensor(), {"cp": model}, None, 1, Settings.of(small_tensor(), hold_out, 2, seed))
    return replace(job, split=split, hold_out_seed=split)


def results(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "jobs").glob("*.json")}


def by_hand(model, seed, hold_out_seed):
    """Fit a model as a user would who has never heard of comparisons."""
    split = ac.hold_out(small_tensor(), 0.15, "who", hold_out_seed)
    gibbs = {**CHAINS, "likelihood": "poisson", "seed": seed, "progress": False}
    core = (2, 1, 2)
    models = {
        "allocore": ac.AlloCore(4, **gibbs),
        "cp": ac.CP(4, **gibbs),
        "tucker": ac.Tucker(core, **gibbs),
        "nntuck": ac.NNTuck(core, **STARTS, seed=seed, progress=False),
    }
    return models[model].fit(split.train).posterior_, split.test


@parametrize_few("model", ["allocore", "cp", "tucker", "nntuck"])
def test_the_numbers_of_a_job_are_those_of_a_fit_by_hand(comparison_of_all, model):
    table = comparison_of_all[0].table
    for split in (0, 1):
        row = table[(table["model"] == model) & (table["split"] == split)].iloc[0]
        post, test = by_hand(model, seed=7 + split, hold_out_seed=split)
        assert row["log_ppd"] == post.log_ppd(test)
        assert row["log_ppd_positive"] == post.log_ppd(test, positive_only=True)
        assert row["ppd"] == pytest.approx(post.ppd(test))
        scores = post.evaluate(test).table.loc["model"]
        for name in ("kl", "auc", "average_precision"):
            assert row[name] == pytest.approx(scores[name])
        drawn = post.draw_sweeps - 1
        assert row["classes"] == pytest.approx(post.stats["classes"][:, drawn].mean())
        factors = post.stats["factors"][:, drawn].mean(axis=(0, 1))
        assert [row[f"factors_{name}"] for name in MODES] == pytest.approx(factors.tolist())
        assert row["sweeps"] == (12 if model != "nntuck" else row["sweeps"])
        assert 0 < row["seconds_per_sweep"] * row["sweeps"] == pytest.approx(row["seconds"])
        assert 20 < row["peak_mb"] < 2000


def test_the_table_is_tidy_and_the_folder_holds_what_was_promised(comparison_of_all):
    found, out = comparison_of_all
    assert len(found.table) == 4 * 2
    assert found.table["model"].unique().tolist() == ["allocore", "cp", "tucker", "nntuck"]
    assert not found.table.duplicated(["model", "core", "budget", "split"]).any()
    assert (found.table["error"] == "").all()
    written = pd.read_csv(out / "results.csv", keep_default_na=False, na_values=["nan"])
    pd.testing.assert_frame_equal(written, found.table, check_dtype=False)
    kinds = ("png", "pdf", "svg")
    figures = {f"{name}.{kind}" for name in ("ppd", "ppd-positive", "seconds", "seconds-positive") for kind in kinds}
    assert {path.name for path in out.iterdir()} == {
        *figures, "jobs", "lock", "report.md", "results.csv", "settings.json", "tensor.npz"
    }  # fmt: skip
    report = (out / "report.md").read_text(encoding="utf-8")
    for sentence in found.sentences:
        assert f"- {sentence}" in report
    assert "along who held out" in report
    assert str(found).startswith("Comparison: 8 fits, 0 failed, 0 missing\n")
    assert found.findings[0].kind == "best-models"
    assert found.models["nntuck"] == "NNTuck(restarts=2, max_iter=5)"
    assert "<table" in found._repr_html_()
    assert found.plot(against="seconds", positive=True).panels[0].get_xlabel().startswith("seconds")
    assert [text.get_text() for text in found.plot().panels[0].get_legend().get_texts()] == [
        "ALL0CORE",
        "CP",
        "Tucker",
        "NNTuck",
    ]


def test_done_again_nothing_runs_and_more_can_be_added(comparison_of_all, no_report, monkeypatch):
    found, out = comparison_of_all
    before = results(out)
    again = compared(splits=2, along=0, seed=7, out=out)
    pd.testing.assert_frame_equal(again.table, found.table)
    assert results(out) == before
    started = []
    monkeypatch.setattr(compare, "run_jobs", lambda executor, jobs, *_, **__: started.extend(job.name for job in jobs))
    more = compared(["cp"], (4, 3), splits=3, along=0, seed=7, out=out)
    assert started == ["cp-3-split0", "cp-3-split1", "cp-3-split2", "cp-4-split2"]
    assert more.missing == 4
    assert len(more.table) == 8, "what is there is kept"


@pytest.mark.parametrize(
    ("other", "argument", "value", "before"),
    [
        ({"sweeps": 7}, "models", "'cp' with burn_in=7", "burn_in=6"),
        ({"along": "when"}, "along", "when", "'who'"),
        ({"seed": 8}, "seed", 8, "must be 7"),
        ({"hold_out_seed": 1}, "hold_out_seed", 1, "must be 0"),
        ({"hold_out": 0.2}, "hold_out", 0.2, "must be 0.15"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(comparison_of_all, other, argument, value, before):
    _, out = comparison_of_all
    with refused(argument, value, before):
        compared(["cp"], [2], splits=1, out=out, **{"along": "who", "seed": 7, **other})


def test_another_tensor_or_another_model_of_the_same_name_is_refused(comparison_of_all):
    _, out = comparison_of_all
    ones = np.ones((3, 3, 3), dtype=int)
    with refused("out", str(out), "another tensor"):
        ac.compare(ones, named(["cp"]), [2], splits=1, along=0, seed=7, out=out, **QUICK)
    with refused("models", "'cp', a Tucker"):
        ac.compare(small_tensor(), {"cp": ac.Tucker((2, 2, 2))}, splits=1, along=0, seed=7, out=out, **QUICK)


@pytest.mark.parametrize("lost", [False, True], ids=["settings", "results alone"])
def test_results_of_two_sampler_versions_are_never_mixed(comparison_of_all, tmp_path, lost):
    out = tmp_path / "other"
    shutil.copytree(comparison_of_all[1], out)
    for path in [*(out / "jobs").glob("*.json"), out / "settings.json"]:
        content = json.loads(path.read_text())
        content.get("job", content)["sampler_version"] = 99
        path.write_text(json.dumps(content))
    if lost:
        (out / "settings.json").unlink()
    with refused("out", str(out), "sampler version 99"):
        compared(["cp"], [2], splits=1, along="who", seed=7, out=out)


# The quick tier compares a job of one process with a fit by hand.
@pytest.mark.slow
def test_results_do_not_depend_on_how_many_jobs_run_at_a_time(comparison_of_all, no_report):
    found = compared(["allocore", "cp"], splits=1, along="who", seed=7, jobs=2)
    whole = comparison_of_all[0].table
    same = whole[whole["model"].isin(["allocore", "cp"]) & (whole["split"] == 0)]
    pd.testing.assert_frame_equal(
        found.table.drop(columns=MEASURED), same.drop(columns=MEASURED).reset_index(drop=True)
    )


def children(folder):
    """Processes of jobs of a folder that run now, by their names."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"allocore.comparison.jobs" in words and any(word.startswith(os.fsencode(folder)) for word in words):
            found[os.fsdecode(words[-2])] = int(place.parent.name)
    return found


def wait_for(what, seconds=600.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def command(out, *words, sweeps):
    Y = out.parent / "Y.npz"
    if not Y.exists():
        small_tensor().save(Y)
    options = ["--chains", "1", "--burn-in", str(sweeps), "--draws", "3", "--thin", "2", "--hold-out", "0.15"]
    options += ["--out", str(out)]
    return [sys.executable, "-m", "allocore.cli", "compare", str(Y), *options, *words]


@contextmanager
def started(words):
    """A process that does not outlive the test."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            yield run
        finally:
            run.kill()


linux = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")


@linux
@pytest.mark.slow
def test_a_killed_job_is_in_the_table_the_rest_goes_on_and_can_be_tried_again(no_report, monkeypatch, tmp_path):
    out = tmp_path / "out"
    words = ["--models", "cp", "--budgets", "2,3", "--splits", "1", "--jobs", "1"]
    with started(command(out, *words, sweeps=10)) as run:
        os.kill(wait_for(lambda: children(out).get("cp-2-split0")), signal.SIGKILL)
        told, complaint = run.communicate(timeout=600)
    assert run.returncode == 1
    assert "Comparison: 1 fit, 1 failed, 0 missing" in told
    assert complaint.startswith("allocore: 1 job failed: ")
    table = pd.read_csv(out / "results.csv", keep_default_na=False)
    assert table["sweeps"].tolist() == ["", "16.0"]
    assert table["error"].tolist() == ["ended by SIGKILL; perhaps there was not enough memory", ""]
    settings = {"sweeps": 10, "splits": 1, "out": out}
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    again = compared(["cp"], [2, 3], **settings)
    assert (again.failed, again.failed_before) == (1, 0), "unless it is asked for"
    other = compared(["cp"], [3], **settings)
    assert (other.failed, other.failed_before) == (0, 1), "it is not this call that failed"
    assert repr(other) == "Comparison: 1 fit, 0 failed, 0 missing"
    assert (other.findings[-1].kind, other.findings[-1].values) == ("failed-earlier", {"jobs": 1})
    assert compared(["cp"], [2, 3], retry=True, **settings).failed == 0
    assert len(results(out)) == 2, "the failure is forgotten"


@linux
@pytest.mark.slow
def test_after_a_kill_of_the_whole_nothing_runs_on_and_nothing_is_done_twice(no_report, tmp_path):
    out = tmp_path / "out"
    words = ["--models", "cp", "--budgets", "2", "--splits", "2", "--jobs", "1"]
    with started(command(out, *words, sweeps=100)) as run:
        wait_for(lambda: results(out) and children(out))
        run.kill()
    wait_for(lambda: not children(out), seconds=10)
    before = results(out)
    assert len(before) == 1
    found = compared(["cp"], [2], sweeps=100, splits=2, out=out).table
    after = results(out)
    assert len(after) == 2
    assert {name: after[name] for name in before} == before
    for split in range(2):
        job = a_job(budget=2, split=split, seed=split, hold_out=0.15, burn_in=100, draws=3, thin=2)
        undisturbed = fit_and_judge(small_tensor(), job, threads=1)
        for name in ("log_ppd", "log_ppd_positive", "classes"):
            assert found[name][split] == undisturbed[name]


@linux
@pytest.mark.slow
def test_ctrl_c_ends_the_jobs_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    out = tmp_path / "out"
    words = ["--models", "cp", "--budgets", "2", "--splits", "2", "--jobs", "2"]
    with started(command(out, *words, sweeps=ENDLESS)) as run:
        wait_for(lambda: len(children(out)) == 2)
        # Another comparison in the same folder has to wait.
        with refused_file(out, "another process"):
            compared(["cp"], [2], sweeps=ENDLESS, splits=2, out=out)
        run.send_signal(signal.SIGINT)
        _, complaint = run.communicate(timeout=600)
    assert run.returncode == 130
    assert complaint.startswith("allocore: interrupted with 0 of 2 jobs done; ")
    assert f"--out {out}" in complaint
    assert not children(out)
    assert not results(out)


def test_a_damaged_result_is_named(comparison_of_all, tmp_path):
    out = shutil.copytree(comparison_of_all[1], tmp_path / "out")
    (out / "jobs" / "cp-4-split0.json").write_text("{")
    with refused_file(out / "jobs" / "cp-4-split0.json", "damaged"):
        compared(["cp"], splits=1, along="who", seed=7, out=out)


def test_damaged_settings_can_be_removed_and_are_made_again_from_the_results(comparison_of_all, no_report, tmp_path):
    out = shutil.copytree(comparison_of_all[1], tmp_path / "out")
    settings = out / "settings.json"
    before = settings.read_bytes()
    options = {"models": ["cp"], "splits": 1, "along": "who", "seed": 7, "out": out}
    settings.write_text("[1]")
    with refused_file(settings, "damaged"):
        compared(**options)
    settings.unlink()
    with refused("seed", 8, "must be 7"):
        compared(**{**options, "seed": 8})
    with refused("along", "when", "'who'"):
        compared(**{**options, "along": "when"})
    with refused("out", str(out), "another tensor"):
        ones = np.ones((6, 5, 8), dtype=int)
        ac.compare(ones, named(["cp"]), [4], splits=1, along=0, seed=7, out=out, **QUICK)
    assert not settings.exists()
    compared(**options)
    assert settings.read_bytes() == before
    settings.unlink()
    (out / "tensor.npz").unlink()
    with refused("out", str(out), "neither settings.json nor tensor.npz"):
        compared(**options)


def test_a_folder_from_before_models_were_estimators_is_continued(comparison_of_all, no_report, monkeypatch, tmp_path):
    out = shutil.copytree(comparison_of_all[1], tmp_path / "out")
    numbers = {"burn_in": 6, "draws": 3, "thin": 2, "restarts": 2, "max_iter": 5, "chains": 1, "e0": 1.0}
    for path in (out / "jobs").glob("*.json"):
        result = json.loads(path.read_text())
        job = result["job"]
        unused = ("burn_in", "draws", "thin", "chains", "e0") if job["model"] == "nntuck" else ("restarts", "max_iter")
        result["job"] = {name: value for name, value in job.items() if name not in ("estimator", "settings")}
        result["job"] |= numbers | dict.fromkeys(unused)
        path.write_text(json.dumps(result))
    settings = json.loads((out / "settings.json").read_text())
    (out / "settings.json").write_text(json.dumps(settings | numbers))
    started = []
    monkeypatch.setattr(compare, "run_jobs", lambda executor, jobs, *_, **__: started.extend(job.name for job in jobs))
    again = compared(splits=3, along="who", seed=7, out=out)
    assert started == [f"{model}-4-split2" for model in ALL]
    pd.testing.assert_frame_equal(again.table, comparison_of_all[0].table)


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """An empty folder for temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("error", [OSError("the disk is full"), MemoryError()])
def test_a_folder_that_nobody_named_is_removed_whatever_happens(temporary, monkeypatch, error):
    def fail(executor, jobs, *more, **options):
        run_jobs(executor, jobs[:1], *more, **options)
        raise error

    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    monkeypatch.setattr(compare, "run_jobs", fail)
    with pytest.raises(type(error)):
        compared(["cp"], [2], splits=2)
    with pytest.raises(ac.InputError):
        compared(["cp"], [2], splits=2, hold_out=0.9999)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("done", [0, 1])
def test_ctrl_c_keeps_a_folder_that_nobody_named_only_if_it_has_results(temporary, monkeypatch, done):
    def stop(executor, jobs, *more, **options):
        run_jobs(executor, jobs[:done], *more, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    monkeypatch.setattr(compare, "run_jobs", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        compared(["cp"], [2], splits=2)
    told, folders = str(stopped.value), list(temporary.iterdir())
    assert told.startswith(f"interrupted with {done} of 2 jobs done; ")
    assert [str(folder) in told for folder in folders] == [True] * done


def test_a_split_without_a_count_held_out_has_no_ppd_of_counts():
    counts = np.zeros((4, 4, 3), dtype=int)
    counts[0, 0] = 5
    counts[1, 1] = 2
    job = a_job(budget=1, split=0, seed=0, hold_out=0.05, burn_in=2, draws=1, thin=1)
    assert not len(ac.hold_out(counts, 0.05, 2, 0).test.positive)
    found = fit_and_judge(ac.as_tensor(counts), job, threads=1)
    assert math.isnan(found["log_ppd_positive"])
    assert np.isfinite(found["log_ppd"])


@pytest.mark.slow
def test_the_peak_of_memory_is_that_of_the_job_and_not_of_who_started_it():
    code = "from allocore.comparison.jobs import peak_megabytes; print(peak_megabytes())"
    large = np.ones(60_000_000)
    mine = peak_megabytes()
    told = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert mine > large.nbytes / 2**20 > 400 > told > 10


def test_why_a_process_ended():
    assert _reason(-15, "") == "ended by SIGTERM"
    assert _reason(1, "Traceback\nMemoryError: no room") == "MemoryError: no room"
    assert _reason(3, "") == "ended with code 3 and no message"
    assert _reason(-200, "") == "ended by signal 200"


def test_results_say_what_made_them(comparison_of_all):
    _, out = comparison_of_all
    result = json.loads((out / "jobs" / "cp-4-split1.json").read_bytes())
    assert Job.from_json(result["job"]).name == "cp-4-split1"
    assert result["allocore"] == ac.__version__
    assert ac.load_tensor(out / "tensor.npz") == small_tensor()


@pytest.mark.slow
def test_other_restarts_fit_nntuck_again_and_keep_all_other_fits(tmp_path):
    settings = {**QUICK, "splits": 1, "out": tmp_path / "c"}
    models = ["cp", "nntuck"]
    ac.compare(small_tensor(), named(models), [2, 3], **settings)
    jobs = tmp_path / "c" / "jobs"
    before = {path.name: path.stat().st_mtime_ns for path in jobs.iterdir()}
    found = ac.compare(small_tensor(), named(models, starts={"restarts": 3, "max_iter": 5}), [2], **settings)
    again = {path.name for path in jobs.iterdir() if path.stat().st_mtime_ns != before[path.name]}
    assert again == {"nntuck-2-split0.json"}
    assert found.table[["model", "budget"]].values.tolist() == [["cp", 2], ["cp", 3], ["nntuck", 2]], (
        "fits of NNTuck with other restarts are left out"
    )
    assert "NNTuck(restarts=3, max_iter=5)" in found.report()
