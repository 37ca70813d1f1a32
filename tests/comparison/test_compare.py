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
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from comparison_cases import MODES, QUICK, run_here, small_tensor

import allocore as ac
from allocore.comparison import compare
from allocore.comparison.job import fit_and_judge, peak_megabytes
from allocore.comparison.job_processes import _reason
from allocore.comparison.settings import Job

MEASURED = ["seconds", "seconds_per_sweep", "peak_mb", "threads"]
ENDLESS = 10**6


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A comparison of all models, and its folder: most in this process, the second split of CP and NNTuck in others.

    This process compiles the kernels, if need be; the others find them on the disk.
    """
    out = tmp_path_factory.mktemp("finished") / "out"
    options = {"budgets": (4,), "along": "who", "seed": 7, "out": out, **QUICK}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "write", lambda *_: None)
        patch.setattr(compare, "run_jobs", run_here)
        ac.compare(small_tensor(), splits=1, **options)
        ac.compare(small_tensor(), ["allocore", "tucker"], splits=2, **options)
    return ac.compare(small_tensor(), splits=2, **options), out


@pytest.fixture
def no_report(monkeypatch):
    """Figures take longer than the fits, and are looked at elsewhere."""
    monkeypatch.setattr(compare, "write", lambda *_: None)


def results(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "jobs").glob("*.json")}


def by_hand(model, seed):
    """Fit a model as a user would who has never heard of comparisons."""
    split = ac.hold_out(small_tensor(), 0.15, "who", seed)
    gibbs = {name: QUICK[name] for name in ("burn_in", "draws", "thin")} | {"seed": seed, "progress": False}
    core = (2, 1, 2)
    models = {
        "allocore": ac.AlloCore(4, **gibbs),
        "cp": ac.CP(4, **gibbs),
        "tucker": ac.Tucker(core, **gibbs),
        "nntuck": ac.NNTuck(core, restarts=2, max_iter=5, seed=seed, progress=False),
    }
    return models[model].fit(split.train).posterior_, split.test


@pytest.mark.parametrize("model", ["allocore", "cp", "tucker", "nntuck"])
def test_the_numbers_of_a_job_are_those_of_a_fit_by_hand(finished, model):
    table = finished[0].table
    for split in (0, 1):
        row = table[(table["model"] == model) & (table["split"] == split)].iloc[0]
        post, test = by_hand(model, seed=7 + split)
        assert row["log_ppd"] == post.log_ppd(test)
        assert row["log_ppd_positive"] == post.log_ppd(test, positive_only=True)
        assert row["ppd"] == pytest.approx(post.ppd(test))
        drawn = post.draw_sweeps - 1
        assert row["classes"] == pytest.approx(post.stats["classes"][:, drawn].mean())
        factors = post.stats["factors"][:, drawn].mean(axis=(0, 1))
        assert [row[f"factors_{name}"] for name in MODES] == pytest.approx(factors.tolist())
        assert row["sweeps"] == (12 if model != "nntuck" else row["sweeps"])
        assert 0 < row["seconds_per_sweep"] * row["sweeps"] == pytest.approx(row["seconds"])
        assert 20 < row["peak_mb"] < 2000


def test_the_table_is_tidy_and_the_folder_holds_what_was_promised(finished):
    found, out = finished
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
    for sentence in found.words:
        assert f"- {sentence}" in report
    assert "along who held out" in report
    assert str(found).startswith("Comparison: 8 fits, 0 failed, 0 missing\nOf all held-out cells, ")
    assert "<table" in found._repr_html_()
    assert found.plot(against="seconds", positive=True).panels[0].get_xlabel().startswith("seconds")
    assert [text.get_text() for text in found.plot().panels[0].get_legend().get_texts()] == [
        "ALL0CORE",
        "CP",
        "Tucker",
        "NNTuck",
    ]


def test_done_again_nothing_runs_and_more_can_be_added(finished, no_report, monkeypatch):
    found, out = finished
    before = results(out)
    again = ac.compare(small_tensor(), budgets=(4,), splits=2, along=0, seed=7, out=out, **QUICK)
    pd.testing.assert_frame_equal(again.table, found.table)
    assert results(out) == before
    started = []
    monkeypatch.setattr(compare, "run_jobs", lambda folder, jobs, **_: started.extend(job.name for job in jobs))
    more = ac.compare(small_tensor(), ["cp"], (4, 3), splits=3, along=0, seed=7, out=out, **QUICK)
    assert started == ["cp-3-split0", "cp-3-split1", "cp-3-split2", "cp-4-split2"]
    assert more.missing == 4
    assert len(more.table) == 8, "what is there is kept"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"burn_in": 7}, "burn_in is 7, but the comparison in '.*' was made with 6: use another folder"),
        ({"along": "when"}, "along is 'when', but the comparison in '.*' was made with 'who': use another folder"),
        ({"seed": 8}, "seed is 8, but the comparison in '.*' was made with 7: use another folder"),
        ({"hold_out": 0.2}, "hold_out is 0.2, but the comparison in '.*' was made with 0.15: use another folder"),
    ],
)
def test_other_settings_or_data_in_the_same_folder_are_refused(finished, other, message):
    _, out = finished
    settings = {"along": "who", "seed": 7, **QUICK, **other}
    with pytest.raises(ac.InputError, match=f"^{message}$"):
        ac.compare(small_tensor(), ["cp"], [2], splits=1, out=out, **settings)


def test_another_tensor_in_the_same_folder_is_refused(finished):
    _, out = finished
    with pytest.raises(ac.InputError, match=r"^out is '.*', but the comparison there is of another tensor"):
        ac.compare(np.ones((3, 3, 3), dtype=int), ["cp"], [2], splits=1, along=0, seed=7, out=out, **QUICK)


@pytest.mark.parametrize("lost", [False, True], ids=["settings", "results alone"])
def test_results_of_two_sampler_versions_are_never_mixed(finished, tmp_path, lost):
    out = tmp_path / "other"
    shutil.copytree(finished[1], out)
    for path in [*(out / "jobs").glob("*.json"), out / "settings.json"]:
        content = json.loads(path.read_text())
        content.get("job", content)["sampler_version"] = 99
        path.write_text(json.dumps(content))
    if lost:
        (out / "settings.json").unlink()
    message = r"^out is '.*', but the comparison there was made by sampler version 99, and this is version \d+: "
    with pytest.raises(ac.InputError, match=message):
        ac.compare(small_tensor(), ["cp"], [2], splits=1, along="who", seed=7, out=out, **QUICK)


def test_results_do_not_depend_on_how_many_jobs_run_at_a_time(finished):
    found = ac.compare(small_tensor(), ["allocore"], [4], splits=1, along="who", seed=7, jobs=1, **QUICK)
    whole = finished[0].table
    same = whole[(whole["model"] == "allocore") & (whole["split"] == 0)]
    pd.testing.assert_frame_equal(
        found.table.drop(columns=MEASURED), same.drop(columns=MEASURED).reset_index(drop=True)
    )


def children(folder):
    """Processes of jobs of a folder that run now, by the name of their result."""
    found = {}
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"allocore.comparison.job" in words and any(word.startswith(os.fsencode(folder)) for word in words):
            found[Path(os.fsdecode(words[-3])).name] = int(place.parent.name)
    return found


def wait_for(what, seconds=60.0):
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
    options = ["--burn-in", str(sweeps), "--draws", "3", "--thin", "2", "--hold-out", "0.15", "--out", str(out)]
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
        os.kill(wait_for(lambda: children(out).get("cp-2-split0.json")), signal.SIGKILL)
        told, complaint = run.communicate(timeout=120)
    assert run.returncode == 1
    assert "1 job failed (CP at Q = 2, split 0): ended by SIGKILL; perhaps there was not enough memory." in told
    assert "Comparison: 1 fit, 1 failed, 0 missing" in told
    assert complaint.startswith("allocore: 1 job failed: see the column error of")
    table = pd.read_csv(out / "results.csv", keep_default_na=False)
    assert table["sweeps"].tolist() == ["", "16.0"]
    assert table["error"].tolist() == ["ended by SIGKILL; perhaps there was not enough memory", ""]
    settings = {**QUICK, "burn_in": 10, "restarts": 20, "max_iter": 1000, "splits": 1, "out": out}
    monkeypatch.setattr(compare, "run_jobs", run_here)
    again = ac.compare(small_tensor(), ["cp"], [2, 3], **settings)
    assert (again.failed, again.failed_before) == (1, 0), "unless it is asked for"
    other = ac.compare(small_tensor(), ["cp"], [3], **settings)
    assert (other.failed, other.failed_before) == (0, 1), "it is not this call that failed"
    assert repr(other) == "Comparison: 1 fit, 0 failed, 0 missing"
    assert other.words[-1] == "1 failed job is from an earlier call and not part of this one."
    assert ac.compare(small_tensor(), ["cp"], [2, 3], retry=True, **settings).failed == 0
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
    settings = {**QUICK, "burn_in": 100, "restarts": 20, "max_iter": 1000}
    found = ac.compare(small_tensor(), ["cp"], [2], splits=2, out=out, **settings).table
    after = results(out)
    assert len(after) == 2
    assert {name: after[name] for name in before} == before
    for split in range(2):
        job = Job("cp", 2, (2, 2, 2), False, split, split, 0.15, 2, 100, 3, 2, None, None)
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
        settings = {**QUICK, "burn_in": ENDLESS, "restarts": 20, "max_iter": 1000}
        with pytest.raises(ac.StoreError, match="is being written by another process"):
            ac.compare(small_tensor(), ["cp"], [2], splits=2, out=out, **settings)
        run.send_signal(signal.SIGINT)
        _, complaint = run.communicate(timeout=30)
    assert run.returncode == 130
    assert complaint == f"allocore: interrupted with 0 of 2 jobs done; the same command with --out {out} continues it\n"
    assert not children(out)
    assert not results(out)


def test_a_damaged_result_is_named(finished, tmp_path):
    out = shutil.copytree(finished[1], tmp_path / "out")
    (out / "jobs" / "cp-4-split0.json").write_text("{")
    with pytest.raises(ac.StoreError, match=r"cp-4-split0.json is damaged; remove it, and the job runs again$"):
        ac.compare(small_tensor(), ["cp"], [4], splits=1, along="who", seed=7, out=out, **QUICK)


def test_damaged_settings_can_be_removed_and_are_made_again_from_the_results(finished, no_report, tmp_path):
    out = shutil.copytree(finished[1], tmp_path / "out")
    settings = out / "settings.json"
    before = settings.read_bytes()
    options = {"models": ["cp"], "budgets": [4], "splits": 1, "along": "who", "seed": 7, "out": out, **QUICK}
    settings.write_text("[1]")
    with pytest.raises(ac.StoreError, match=r"settings.json is damaged; remove it, and the same call rebuilds it"):
        ac.compare(small_tensor(), **options)
    settings.unlink()
    with pytest.raises(ac.InputError, match=r"^seed is 8, but the comparison in '.*' was made with 7"):
        ac.compare(small_tensor(), **{**options, "seed": 8})
    with pytest.raises(ac.InputError, match=r"^along is 'when', but the comparison in '.*' was made with 'who'"):
        ac.compare(small_tensor(), **{**options, "along": "when"})
    with pytest.raises(ac.InputError, match="is of another tensor"):
        ac.compare(np.ones((6, 5, 8), dtype=int), **{**options, "along": 0})
    assert not settings.exists()
    ac.compare(small_tensor(), **options)
    assert settings.read_bytes() == before
    settings.unlink()
    (out / "tensor.npz").unlink()
    with pytest.raises(ac.InputError, match=r"the data behind its results are unknown: use another folder$"):
        ac.compare(small_tensor(), **options)


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """An empty folder for temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("error", [OSError("the disk is full"), MemoryError()])
def test_a_folder_that_nobody_named_is_removed_whatever_happens(temporary, monkeypatch, error):
    def fail(folder, jobs, **_):
        run_here(folder, jobs[:1])
        raise error

    monkeypatch.setattr(compare, "run_jobs", fail)
    with pytest.raises(type(error)):
        ac.compare(small_tensor(), ["cp"], [2], splits=2, **QUICK)
    with pytest.raises(ac.InputError, match=r"hold_out=0.9999 leaves no positive count"):
        ac.compare(small_tensor(), ["cp"], [2], splits=2, **{**QUICK, "hold_out": 0.9999})
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("done", [0, 1])
def test_ctrl_c_keeps_a_folder_that_nobody_named_only_if_it_has_results(temporary, monkeypatch, done):
    def stop(folder, jobs, **_):
        run_here(folder, jobs[:done])
        raise KeyboardInterrupt

    monkeypatch.setattr(compare, "run_jobs", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        ac.compare(small_tensor(), ["cp"], [2], splits=2, **QUICK)
    told, folders = str(stopped.value), list(temporary.iterdir())
    assert told.startswith(f"interrupted with {done} of 2 jobs done; ")
    assert [str(folder) in told for folder in folders] == [True] * done
    assert told.endswith("continues it" if done else "nothing was kept")


def test_a_split_without_a_count_held_out_has_no_ppd_of_counts():
    counts = np.zeros((4, 4, 3), dtype=int)
    counts[0, 0] = 5
    counts[1, 1] = 2
    job = Job("cp", 1, (1, 1, 1), False, 0, 0, 0.05, 2, 2, 1, 1, None, None)
    assert not len(ac.hold_out(counts, 0.05, 2, 0).test.positive)
    found = fit_and_judge(ac.as_tensor(counts), job, threads=1)
    assert math.isnan(found["log_ppd_positive"])
    assert np.isfinite(found["log_ppd"])


@pytest.mark.slow
def test_the_peak_of_memory_is_that_of_the_job_and_not_of_who_started_it():
    code = "from allocore.comparison.job import peak_megabytes; print(peak_megabytes())"
    large = np.ones(60_000_000)
    mine = peak_megabytes()
    told = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert mine > large.nbytes / 2**20 > 400 > told > 10


def test_why_a_process_ended():
    assert _reason(-15, "") == "ended by SIGTERM"
    assert _reason(1, "Traceback\nMemoryError: no room") == "MemoryError: no room"
    assert _reason(3, "") == "ended with code 3 and no message"
    assert _reason(-200, "") == "ended by signal 200"


def test_results_say_what_made_them(finished):
    _, out = finished
    result = json.loads((out / "jobs" / "cp-4-split1.json").read_bytes())
    assert Job.from_json(result["job"]).name == "cp-4-split1"
    assert result["allocore"] == ac.__version__
    assert ac.load_tensor(out / "tensor.npz") == small_tensor()


@pytest.mark.slow
def test_other_restarts_fit_nntuck_again_and_keep_all_other_fits(tmp_path):
    settings = {**QUICK, "splits": 1, "out": tmp_path / "c"}
    ac.compare(small_tensor(), ["cp", "nntuck"], [2, 3], **settings)
    jobs = tmp_path / "c" / "jobs"
    before = {path.name: path.stat().st_mtime_ns for path in jobs.iterdir()}
    found = ac.compare(small_tensor(), ["cp", "nntuck"], [2], **{**settings, "restarts": 3})
    again = {path.name for path in jobs.iterdir() if path.stat().st_mtime_ns != before[path.name]}
    assert again == {"nntuck-2-split0.json"}
    assert found.table[["model", "budget"]].values.tolist() == [["cp", 2], ["cp", 3], ["nntuck", 2]], (
        "fits of NNTuck with other restarts are left out"
    )
    assert "the best of 3 restarts" in found.report()
    with pytest.raises(ac.InputError, match=r"^burn_in is 7, but the comparison"):
        ac.compare(small_tensor(), ["cp"], [2], **{**settings, "burn_in": 7})
