"""`allocore evaluate`, and where else a run tells how well it predicts: fit, resume, info, summary, figures, report."""

import json

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.command_line import as_words, assert_refused, error_of

QUICK = ["--burn-in", 4, "--draws", 6, "--thin", 1, "--chains", 2, "--seed", 3, "--threads", 1]


@pytest.fixture(scope="module")
def tensor():
    rng = np.random.default_rng(5)
    return ac.as_tensor(
        rng.poisson(1.5, (6, 4, 8)),
        mode_names=["who", "what", "when"],
        labels=[["NA", "[bold]x", "a/b", "d", "e", "f"], list("wxyz"), [f"2003-{m:02d}" for m in range(1, 9)]],
    )


@pytest.fixture(scope="module")
def held_out_run(tensor, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    settings = {"burn_in": 4, "draws": 6, "thin": 1, "chains": 2, "seed": 1, "progress": False}
    ac.CP(3, store=path, **settings).fit(ac.hold_out(tensor, 0.3, along="what", seed=1))
    return path


def test_a_run_is_judged_by_what_it_holds_out(run, held_out_run):
    code, out, err = run("evaluate", held_out_run)
    assert (code, err) == (0, "")
    found, words = ac.open_run(held_out_run).evaluate(), as_words(out)
    known = found.table.attrs
    assert f"Held out: {known['cells']} cells, {known['positive']} of them positive, in 14 fibres along what" in words
    assert f"{found.level.capitalize()}: {found.sentences[0]}" in words
    for sentence in found.sentences[1:]:
        assert sentence in words
    for name in found.table.index:
        assert set(name.split()) <= set(words.split())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_the_table_is_written(run, held_out_run, tmp_path, suffix):
    out = tmp_path / f"scores{suffix}"
    assert run("evaluate", held_out_run, "--out", out)[0] == 0
    read = {".csv": pd.read_csv, ".tsv": pd.read_table, ".parquet": pd.read_parquet}[suffix]
    expected = ac.open_run(held_out_run).evaluate().table.reset_index()
    pd.testing.assert_frame_equal(read(out), expected, check_dtype=False)


def test_a_test_set_may_be_a_tensor_or_a_table(run, held_out_run, tensor, tmp_path):
    post = ac.open_run(held_out_run)
    test = post.held_out
    labels = {
        name: np.array(each, dtype=object)[place]
        for name, each, place in zip(tensor.mode_names, tensor.labels, test.coords, strict=True)
    }
    pd.DataFrame({**labels, "count": test.counts}).to_csv(tmp_path / "cells.csv", index=False)
    everywhere = np.indices(tensor.shape).reshape(3, -1)
    others = everywhere[:, ~post.tensor.missing.contains(everywhere)].T
    tensor.with_missing(others).save(tmp_path / "test.npz")
    tensor.with_missing(others).save(tmp_path / "test.parquet")
    for name in ("cells.csv", "test.npz", "test.parquet"):
        code, out, err = run("evaluate", held_out_run, tmp_path / name, "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["evaluation"]["table"][0]["log_ppd"] == post.log_ppd(test)


def test_training_cells_are_scored_on_request_only(run, held_out_run, tensor, tmp_path):
    tensor.save(tmp_path / "all.npz")
    error = error_of(run("evaluate", held_out_run, tmp_path / "all.npz", "--json"))
    assert (error["option"], error["value"]) == ("TEST", None)
    assert "--allow-training" in error["sentence"]
    code, out, err = run("evaluate", held_out_run, tmp_path / "all.npz", "--allow-training")
    assert (code, err) == (0, "")
    assert f"Scored: {tensor.volume} cells" in as_words(out)
    assert "Caution: The model was fitted to 136 of these 192 cells: the scores say how well it fits" in as_words(out)


def test_mistakes_get_one_line(run, held_out_run, tensor, tmp_path):
    plain = tmp_path / "plain.zarr"
    ac.CP(2, burn_in=1, draws=1, thin=1, seed=1, store=plain, progress=False, chains=1).fit(tensor)
    (tmp_path / "bad.csv").write_text("who,what,when,count\nNA,w,2003-01,many\n")
    (tmp_path / "cells.txt").write_text("")
    suffix, many = "must end in .csv, .tsv or .parquet", "'many' in the column 'count' at position 0"
    for words, option, value, rule in [
        ((plain,), "TEST", "None", "must be given: the run has no held-out cells"),
        ((held_out_run, tmp_path / "nothing.csv"), "TEST", "", "must be a file that exists"),
        ((held_out_run, tmp_path / "nothing.npz"), "TEST", "", "must be a file that exists"),
        ((held_out_run, tmp_path / "cells.txt"), "TEST", "", suffix),
        ((held_out_run, tmp_path / "bad.csv"), "TEST", many, "must have counts that are whole numbers of at least 0"),
        ((held_out_run, "--out", tmp_path / "scores.xlsx"), "--out", "", suffix),
        ((tmp_path / "no.zarr",), "RUN", "", "must be the folder of a run; this does not exist"),
    ]:
        result = run("evaluate", *words)
        assert_refused(result, option, value or f"'{words[-1]}'", rule)
        assert result[1] == ""
    assert not (tmp_path / "scores.xlsx").exists()


def test_fit_keeps_the_hold_out_and_every_command_tells_of_it(run, data, tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    monkeypatch.chdir(tmp_path)
    code, out, err = run("fit", data, "--budget", 3, "--hold-out", 0.3, "--along", "what", "--out", path, *QUICK)
    assert (code, err) == (0, "")
    post, split = ac.open_run(path), ac.hold_out(ac.load_tensor(data), 0.3, "what")
    assert post.held_out == split.test
    answer = post.evaluate().sentences[0]
    assert answer in as_words(out)
    code, out, _ = run("summary", path)
    assert code == 0
    assert answer in as_words(out)
    code, out, _ = run("info", path)
    assert code == 0
    assert f"{split.test!r}, in fibres along what; allocore evaluate scores them." in as_words(out)
    code, out, err = run("resume", path, "--draws", 8, "--threads", 1)
    assert (code, err) == (0, "")
    assert ac.open_run(path).evaluate().sentences[0] in as_words(out)
    assert run("report", path)[0] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"heldOut":{"level":"' in page


@pytest.mark.slow
def test_a_run_without_a_hold_out_is_silent_about_it(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    assert "Held out" not in run("fit", data, "--budget", 2, "--out", path, *QUICK)[1]
    for command in ("info", "summary"):
        told = run(command, path)[1]
        assert "HeldOut" not in told
        assert "Held out" not in told
    assert run("figures", path, "--out", tmp_path / "figures", "--formats", "svg")[0] == 0
    assert not (tmp_path / "figures" / "calibration.svg").exists()
    assert run("report", path, "--out", tmp_path / "report.html")[0] == 0
    assert '"heldOut":null' in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_estimate_of_nntuck_keeps_it_too(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    fit = ("fit", data, "--model", "nntuck", "--core-shape", "2x2x1", "--restarts", 1, "--max-iter", 4, "--seed", 3)
    assert run(*fit, "--hold-out", 0.3, "--out", path)[0] == 0
    code, out, err = run("evaluate", path)
    assert (code, err) == (0, "")
    assert "Held out:" in out
