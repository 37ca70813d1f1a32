"""The command line on tensors in shards: tensor writes them, info, fit and compare read them."""

import errno
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.shards import ShardWriter
from support.command_line import as_words, assert_refused, error_of
from support.comparison_cases import JobsHere
from support.tiers import parametrize_few

QUICK = ("--burn-in", "1", "--draws", "1", "--thin", "1", "--chains", "1", "--seed", "3")
MODES = ("--modes", "store,product", "--time", "sold")


@pytest.fixture(scope="module")
def sales_table(tmp_path_factory):
    """A table with a few thousand cells, and its tensor."""
    path = tmp_path_factory.mktemp("sales") / "sales.parquet"
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 305, 9000), "D")
    frame = pd.DataFrame({"store": rng.integers(0, 60, 9000), "product": rng.integers(0, 70, 9000), "sold": days})
    frame.to_parquet(path)
    return path, ac.read_events(path, modes=["store", "product"], time="sold")


@pytest.fixture
def sales_tensor(sales_table, tmp_path, monkeypatch):
    """The tensor of the table; sales.parquet is in the folder where commands are run."""
    monkeypatch.chdir(tmp_path)
    path, tensor = sales_table
    shutil.copy(path, "sales.parquet")
    return tensor


def test_tensor_writes_events_in_shards_out_of_core(run, sales_tensor, monkeypatch):
    monkeypatch.setattr("allocore.tensor.sharded.TableTensor._whole", None)
    code, told, err = run("tensor", "sales.parquet", *MODES, "--out", "y.zarr", "--shards", 3)
    assert (code, err) == (0, "")
    assert "rows read 9,000 from 1 file" in as_words(told)
    assert "y.zarr in 3 shards" in told
    assert ac.load_tensor("y.zarr") == sales_tensor


@pytest.mark.parametrize("source", ["y.npz", "first.zarr"])
def test_tensor_writes_any_tensor_in_shards(run, sales_tensor, source):
    sales_tensor.save(source)
    code, told, err = run("tensor", source, "--out", "y.zarr", "--shards", 2)
    assert (code, err) == (0, "")
    assert "in 2 shards" in told
    written = ac.load_tensor("y.zarr")
    assert written == sales_tensor
    assert written.report == sales_tensor.report


@pytest.mark.parametrize("source", ["sales.parquet", "y.npz", "first.zarr"])
def test_a_binary_tensor_goes_into_shards_too(run, sales_tensor, tmp_path, source):
    if source != "sales.parquet":
        sales_tensor.save(source)
    there = {path.name for path in tmp_path.iterdir()}
    code, told, err = run(
        "tensor", source, *(MODES if source == "sales.parquet" else ()), "--binary", "--out", "y.zarr"
    )
    assert (code, err) == (0, "")
    assert f"{sales_tensor.nnz:,} non-zeros, {sales_tensor.nnz:,} counts" in as_words(told)
    assert ac.load_tensor("y.zarr") == sales_tensor.binarize()
    sales_tensor.binarize().save("expected.zarr")
    assert ac.load_tensor("y.zarr").files.fingerprint == ac.load_tensor("expected.zarr").files.fingerprint
    assert {path.name for path in tmp_path.iterdir()} == there | {"y.zarr", "expected.zarr"}


def test_shards_become_a_file_again(run, sales_tensor):
    sales_tensor.save("y.zarr", shards=4)
    assert run("tensor", "y.zarr", "--out", "y.npz")[0] == 0
    assert ac.load_tensor("y.npz") == sales_tensor


def test_info_says_the_same_of_shards_as_of_a_file_without_reading_them_as_a_whole(run, sales_tensor, monkeypatch):
    sales_tensor = ac.CountTensor(
        sales_tensor.coords, sales_tensor.counts, (61, *sales_tensor.shape[1:]), mode_names=sales_tensor.mode_names
    )
    sales_tensor = sales_tensor.with_missing([(None, 3, None)])
    sales_tensor.save("y.npz")
    sales_tensor.save("y.zarr", shards=3)
    _, expected, _ = run("info", "y.npz")
    monkeypatch.setattr(ac.ShardedTensor, "_whole", lambda self: 1 / 0)
    code, told, err = run("info", "y.zarr")
    assert (code, err) == (0, "")
    first, rest = told.split("\n", 1)
    assert first.startswith("ShardedTensor: 61 x 70 x 10 (store, product, sold)")
    assert rest == expected.split("\n", 1)[1]


def test_fit_draws_from_shards_what_it_draws_from_a_file(run, sales_tensor):
    sales_tensor.save("y.npz")
    sales_tensor.save("y.zarr", shards=3)
    for name in ("npz", "zarr"):
        code, told, err = run("fit", f"y.{name}", "--budget", 3, "--out", f"run_{name}.zarr", *QUICK)
        assert (code, err) == (0, "")
        assert "CountTensor: 60 x 70 x 10 (store, product, sold)" in as_words(told)
    one, other = ac.open_run("run_npz.zarr"), ac.open_run("run_zarr.zarr")
    np.testing.assert_array_equal(one.core_values, other.core_values)
    assert_refused(
        run("fit", "run_zarr.zarr", "--budget", 3), "DATA", "'run_zarr.zarr'", "must be data, and this is a run"
    )
    assert run("info", "run_zarr.zarr")[0] == 0


def stdout(run, *words):
    code, told, err = run(*words)
    assert (code, err) == (0, ""), err
    return as_words(told)


def test_cells_held_out_of_shards_are_fitted_scored_and_checked_as_those_of_a_file(run, sales_tensor, monkeypatch):
    """All cells are never read. The training tensor is next to the run, which goes on with it."""
    sales_tensor.save("y.npz")
    sales_tensor.save("y.zarr", shards=3)
    how = ("--budget", 3, "--hold-out", 0.05, "--hold-out-seed", 2, "--likelihood", "negative-binomial", *QUICK)
    stdout(run, "fit", "y.npz", *how, "--out", "of_npz.zarr")
    # Diagnoses of tensors of up to 33 million non-zeros read them.
    monkeypatch.setattr("allocore.tensor.sharded._MAX_CELLS_TO_DESCRIBE", 100)
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    assert "written to of_zarr.train.zarr" in stdout(run, "fit", "y.zarr", *how, "--out", "of_zarr.zarr")
    assert "already complete" in stdout(run, "fit", "y.zarr", *how, "--out", "of_zarr.zarr", "--resume-or-start")
    for command in ("evaluate", "check"):
        words = ("--draws", 40) if command == "check" else ()
        assert stdout(run, command, "of_zarr.zarr", *words) == stdout(run, command, "of_npz.zarr", *words)
    assert stdout(run, "fit", "y.zarr", *how)
    assert sorted(path.name for path in Path().iterdir()) == [
        "of_npz.zarr", "of_zarr.train.zarr", "of_zarr.zarr", "sales.parquet", "y.npz", "y.zarr",
    ]  # fmt: skip


def test_a_training_tensor_that_a_stopped_fit_left_is_used_again_for_the_same_data_only(run, sales_tensor):
    sales_tensor.save("y.zarr", shards=3)
    how = ("--budget", 3, "--hold-out", 0.05, *QUICK, "--out", "run.zarr")
    fit = ("fit", "y.zarr", *how, "--resume-or-start")
    assert run("fit", "y.zarr", *how, "--start", "nowhere.zarr")[0] == 2
    written = Path("run.train.zarr").stat().st_ino
    stdout(run, *fit)
    assert "already complete" in stdout(run, *fit)
    assert Path("run.train.zarr").stat().st_ino == written
    sales_tensor.select({0: [0, 1]}).save("other.zarr", shards=3)
    for words in (("fit", "other.zarr", *fit[2:]), (*fit, "--hold-out-seed", 5)):
        error = error_of(run(*words, "--json"))
        assert (error["option"], error["value"]) == ("--out", "run.zarr")
        assert "run.train.zarr" in error["rule"]
    assert sorted(path.name for path in Path().iterdir()) == [
        "other.zarr", "run.train.zarr", "run.zarr", "sales.parquet", "y.zarr",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["compare", "select-budget"])
def test_models_are_compared_on_shards_as_on_a_file(run, sales_tensor, monkeypatch, command):
    monkeypatch.setattr("allocore.comparison.compare.JobProcesses", JobsHere)
    sales_tensor.save("y.npz")
    sales_tensor.save("y.zarr", shards=3)
    how = ("--budgets", "2,3", "--splits", 2, "--hold-out", 0.1, *QUICK)
    how += ("--models", "allocore,cp") if command == "compare" else ()
    stdout(run, command, "y.npz", *how, "--out", "of_npz")
    monkeypatch.setattr(ac.ShardedTensor, "_whole", None)
    stdout(run, command, "y.zarr", *how, "--out", "of_zarr")
    one, other = (pd.read_csv(f"of_{name}/results.csv") for name in ("npz", "zarr"))
    measured = ["seconds", "seconds_per_sweep", "peak_mb", "threads"]
    pd.testing.assert_frame_equal(one.drop(columns=measured), other.drop(columns=measured), check_exact=True)


@pytest.mark.parametrize(
    ("words", "value", "rule"),
    [
        (("--out", "y.npz", "--shards", "2"), "2", "needs an --out that ends in .zarr, not 'y.npz'"),
        (("--out", "y.zarr", "--shards", "0"), "0", "must be a whole number of at least 1"),
        (("--out", "there.zarr"), "'there.zarr'", "exists already: choose another path"),
    ],
)
def test_a_wrong_target_is_one_line_before_anything_is_read(run, sales_tensor, tmp_path, words, value, rule):
    (tmp_path / "there.zarr").mkdir()
    assert_refused(run("tensor", "no such file.csv", *words), words[-2], value, rule)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sales.parquet", "there.zarr"]


def test_options_for_events_are_refused_for_shards(run, sales_tensor):
    sales_tensor.save("y.zarr")
    rule = "applies only to tables of events, and y.zarr is a tensor"
    assert_refused(run("info", "y.zarr", "--freq", "month"), "--freq", "'month'", rule)


@parametrize_few("command", [("info",), ("fit", "--budget", "2")])
@parametrize_few("lost", [".zattrs", "counts/0", "labels_0_utf8/0"])
def test_damaged_shards_are_one_line(run, sales_tensor, tmp_path, command, lost):
    sales_tensor.save("y.zarr")
    (tmp_path / "y.zarr" / lost).unlink()
    error = error_of(run(command[0], "y.zarr", *command[1:], "--json"))
    assert (error["kind"], Path(error["value"]).name) == ("InputError", "y.zarr")
    assert ("labels" if "labels" in lost else lost) in error["rule"]


def test_a_disk_that_fills_up_is_one_line_and_leaves_nothing(run, sales_tensor, tmp_path, monkeypatch):
    def full(self, coords, counts):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ShardWriter, "add", full)
    error = error_of(run("tensor", "sales.parquet", *MODES, "--out", "y.zarr", "--json"))
    assert (error["kind"], Path(error["path"]).name) == ("StoreError", "y.zarr")
    assert "No space left on device" in error["problem"]
    assert [path.name for path in tmp_path.iterdir()] == ["sales.parquet"]


def test_the_help_names_shards(run):
    words = as_words(run("tensor", "--help")[1])
    assert "--shards" in words
    assert ".zarr" in words
