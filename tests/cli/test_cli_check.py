"""`allocore check`, and what `allocore predict` says about sums whose intervals are too narrow."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.results import Posterior
from support.command_line import assert_refused

SETTINGS = {"burn_in": 10, "draws": 6, "thin": 1, "chains": 2, "seed": 1, "threads": 1, "progress": False}


@pytest.fixture(scope="module")
def run_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    labels = [["NA", "[bold]x", "a/b", "d", "e", "f"], list("wxyz"), [f"2003-{m:02d}" for m in range(1, 9)]]
    Y = ac.as_tensor(
        np.random.default_rng(5).poisson(1.5, (6, 4, 8)), mode_names=["who", "what", "when"], labels=labels
    )
    post = ac.CP(3, likelihood="negative-binomial", **SETTINGS).fit(Y).posterior_
    # Rows in another order: the totals of labels are wrong.
    weights = np.array([30.0, 10.0, 3.0, 1.0, 0.3, 0.1])[:, None]
    factors = (post.record.factors[0] * weights, *post.record.factors[1:])
    Posterior(replace(post.record, factors=factors)).save(path)
    return path


def as_words(text):
    return " ".join(text.split())


def test_the_verdict_the_statistics_and_the_findings_are_printed(run, run_path):
    code, out, err = run("check", run_path, "--draws", 50)
    assert (code, err) == (0, "")
    found, words = ac.open_run(run_path).check(draws=50), as_words(out)
    assert not found.ok
    for sentence in found.sentences:
        assert sentence in words
    for name in found.table.index:
        assert name in words


def test_the_tables_and_the_figure_are_written(run, run_path, tmp_path):
    out, labels, figure = tmp_path / "check.csv", tmp_path / "labels.parquet", tmp_path / "check.png"
    code, text, _ = run("check", run_path, "--draws", 40, "--out", out, "--labels", labels, "--figure", figure)
    assert code == 0
    assert all(path.name in text for path in (out, labels, figure))
    found = ac.open_run(run_path).check(draws=40)
    pd.testing.assert_frame_equal(pd.read_csv(out), found.table.reset_index(), check_dtype=False)
    pd.testing.assert_frame_equal(pd.read_parquet(labels), found.labels, check_dtype=False)
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert figure.with_suffix(".txt").read_text(encoding="utf-8").startswith("The data compared with 40 tensors")


def test_another_seed_simulates_other_tensors(run, run_path):
    one, other = (run("check", run_path, "--draws", 40, "--seed", seed)[1] for seed in (0, 1))
    assert one != other
    assert one == run("check", run_path, "--draws", 40)[1]


def test_wrong_options_are_refused_before_anything_is_simulated(run, run_path, tmp_path):
    assert_refused(run("check", run_path, "--draws", 5), "--draws", "5")
    assert_refused(run("check", run_path, "--seed", -1), "--seed", "-1")
    both = tmp_path / "table.csv"
    assert_refused(
        run("check", run_path, "--out", both, "--labels", both), "--labels", f"{str(both)!r}", "another file than --out"
    )
    assert_refused(run("check", run_path, "--figure", tmp_path / "f.txt"), "--figure", f"{str(tmp_path / 'f.txt')!r}")
    assert_refused(run("check", run_path, "--out", tmp_path / "t.txt"), "--out", f"{str(tmp_path / 't.txt')!r}")
    assert not both.exists()


def test_predicted_sums_are_said_to_need_wider_intervals(run, run_path, tmp_path):
    sums, cells = tmp_path / "sums.csv", tmp_path / "cells.csv"
    sums.write_text("who\nd\n", encoding="utf-8")
    cells.write_text("who,what,when\nd,w,2003-01\n", encoding="utf-8")
    finding = next(each for each in ac.open_run(run_path).brief_check().findings if each.kind == "narrow-sums")
    assert finding.values["widths"]["who"] > 1.0
    for options in ([], ["--out", tmp_path / "predictions.csv"]):
        words = as_words(run("predict", run_path, sums, *options)[1])
        assert "Intervals of sums over many cells are too narrow" in words
        assert f"{finding.values['widths']['who']:.2g} times as wide for totals by who" in words
        assert "too narrow" not in as_words(run("predict", run_path, cells, *options)[1])
