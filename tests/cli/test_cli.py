"""The command line: what it prints, what it writes, and one line for every mistake."""

import re
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from support.command_line import assert_refused

QUICK = ("--burn-in", "2", "--draws", "2", "--thin", "1", "--seed", "3", "--threads", "1")


@pytest.fixture
def data(tmp_path):
    """A small tensor with names and labels in a file."""
    Y = np.random.default_rng(5).poisson(1.5, (4, 3, 2))
    labels = [["Ada", "Zoë", "[bold]", "[/]"], None, ["x", "y"]]
    tensor = ac.as_tensor(Y, mode_names=["who", "what", "when"], labels=labels)
    tensor.with_missing([(1, 0, None)]).save(tmp_path / "y.npz")
    return tmp_path / "y.npz"


def as_words(text):
    return " ".join(text.split())


# fit


def test_fit_prints_the_tensor_and_its_classes_and_nothing_on_stderr(run, data):
    code, out, err = run("fit", data, "--budget", 3, *QUICK)
    assert (code, err) == (0, "")
    words = as_words(out)
    assert repr(ac.load_tensor(data)) in words
    assert re.search(r"\d class(es)?, consensus of 4 chains, 8 draws", words)
    assert re.search(r"(1 class occurs|\d classes occur) in at least 2 of 4 chains", words)
    assert "Held out" not in words
    assert "Run written" not in words


def test_fit_is_one_call_of_the_api(run, data, tmp_path):
    run("fit", data, "--budget", 3, "--chains", 2, "--out", tmp_path / "run.zarr", *QUICK)
    model = ac.AlloCore(3, burn_in=2, draws=2, thin=1, chains=2, seed=3, progress=False)
    post = model.fit(ac.load_tensor(data)).posterior_
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        np.testing.assert_array_equal(tree["posterior"]["core_values"], post.core_values)


def test_fit_holds_out_reports_the_prediction_and_writes_the_run(run, data, tmp_path):
    out = tmp_path / "run.zarr"
    code, text, err = run("fit", data, "--budget", 3, "--hold-out", 0.3, "--along", "what", "--out", out, *QUICK)
    assert (code, err) == (0, "")
    split = ac.hold_out(ac.load_tensor(data), 0.3, "what", seed=3)
    post = ac.AlloCore(3, burn_in=2, draws=2, thin=1, chains=4, seed=3, progress=False).fit(split.train).posterior_
    words = as_words(text)
    assert f"Held out: {len(split.test)} cells, {len(split.test.positive)} of them positive" in words
    assert f"model {post.log_ppd(split.test):.2f} ±" in words
    assert f"{len(split.test)} cells are too few to judge by." in words
    assert "mean over when" in words
    assert "Seed 3" in words
    assert "Run written to" in words
    with xr.open_datatree(out, engine="zarr") as tree:
        assert tree["posterior"].sizes["draw"] == 2
        np.testing.assert_array_equal(tree["constant_data"]["missing_patterns"], split.train.missing.patterns)


@pytest.mark.parametrize("along", ["when", "2", "-1"])
def test_a_mode_may_be_given_by_name_or_number(run, data, along):
    expected = run("fit", data, "--budget", 2, "--hold-out", 0.3, *QUICK)
    assert run("fit", data, "--budget", 2, "--hold-out", 0.3, "--along", along, *QUICK) == expected
    assert expected[0] == 0


@pytest.mark.parametrize("core_shape", ["2x1x2", "2,1,2"])
def test_a_core_shape_has_two_spellings(run, data, tmp_path, core_shape):
    code, _, err = run("fit", data, "--budget", 3, "--core-shape", core_shape, "--out", tmp_path / "run.zarr", *QUICK)
    assert (code, err) == (0, "")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        sizes = tree["posterior"].sizes
    assert [sizes[f"{mode}_factor"] for mode in ("who", "what", "when")] == [2, 1, 2]


def test_rows_and_top_say_how_much_is_printed(run, tmp_path):
    np.save(tmp_path / "y.npy", np.kron(np.eye(3, dtype=int), np.full((2, 2), 30)))
    code, out, _ = run("fit", tmp_path / "y.npy", "--budget", 5, "--rows", 1, "--top", 1, *QUICK)
    assert code == 0
    assert re.search(r"1 of [2-5] classes, consensus of 4 chains, 8 draws", as_words(out))
    assert "%," not in out, "one label for each mode"


def test_labels_with_markup_are_printed_as_they_are(run, data):
    _, out, _ = run("info", data)
    assert "[bold]" in out
    assert "[/]" in out


# info, version, help


def test_info_says_what_a_tensor_holds(run, data):
    code, out, err = run("info", data)
    assert (code, err) == (0, "")
    Y, words = ac.load_tensor(data), as_words(out)
    assert repr(Y) in words
    for mode, name in enumerate(Y.mode_names):
        label, count = Y.top_labels(mode)[0]
        assert f"{name} " in words
        assert f"{label} ({count})" in words
    assert f"the largest is {Y.counts.max()}" in words
    assert f"Missing cells: {Y.missing.cells} of {Y.volume}." in words


@pytest.mark.parametrize("kind", ["npy", "tns"])
def test_info_reads_files_of_other_programs(run, tmp_path, kind):
    if kind == "npy":
        np.save(tmp_path / "y.npy", np.array([[1, 0], [0, 5]]))
    else:
        (tmp_path / "y.tns").write_text("1 1 1\n2 2 5\n")
    code, out, err = run("info", tmp_path / f"y.{kind}")
    assert (code, err) == (0, "")
    assert "2 non-zeros, 6 counts" in as_words(out)


def test_the_version_is_printed(run):
    assert run("--version") == (0, f"allocore {ac.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["demo", "fit", "resume", "info", "--version"]),
        (("demo",), ["--budget", "--seed", "--threads", "flights"]),
        (("fit",), ["--core-shape", "--hold-out", "--along", "--out", "--burn-in", "--draws", "--thin", "--chains"]),
        (("resume",), ["RUN", "--draws", "--threads", "--on-error"]),
        (("info",), ["DATA|RUN"]),
    ],
)
def test_every_command_has_help(run, words, expected):
    code, out, err = run(*words, "--help")
    assert (code, err) == (0, "")
    assert "Usage: allocore" in as_words(out)
    for word in expected:
        assert word in out


def test_without_a_command_the_help_is_shown(run):
    code, out, err = run()
    assert code == 2
    assert "Usage: allocore" in out + err


@pytest.mark.parametrize("words", [["fit"], ["nonsense"], ["fit", "y.npz", "--budget", "many"], ["info", "--nonsense"]])
def test_words_that_are_no_command_end_in_exit_code_2_and_no_traceback(run, words):
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("allocore: error: ")
    assert err.count("\n") == 1


# Mistakes


def assert_one_line(result, *pieces):
    code, _, err = result
    assert code == 2
    assert err.startswith("allocore: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for piece in pieces:
        assert piece in err


WHOLE = "must be a whole number of at least"
DAMAGED = "is damaged or not an "


@pytest.mark.parametrize("command", [("info",), ("fit", "--budget", "2")])
@pytest.mark.parametrize(
    ("name", "content", "rule"),
    [
        ("nowhere.npz", None, "must be an existing file; there is no such file"),
        ("y.xlsx", b"", "must end in one of .csv, .tsv, .tab, .txt, .json, .jsonl, .ndjson, .parquet"),
        ("y.npz", b"", f"{DAMAGED}.npz file"),
        ("y.npz", b"PK\x03\x04 this was a file once", f"{DAMAGED}.npz file"),
        ("y.npy", b"\x93NUMPY", f"{DAMAGED}.npy file"),
        ("y.tns", b"1 1 nonsense\n", "line 1: 'nonsense' is not a number"),
        ("y.tns", b"", "has no entries"),
        ("empty", None, "it is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(run, tmp_path, command, name, content, rule):
    (tmp_path / "empty").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert_refused(run(command[0], tmp_path / name, *command[1:]), "DATA", f"'{tmp_path / name}'", rule)
    assert sorted(tmp_path.iterdir()) == before, "nothing was written"


def test_a_truncated_file_is_one_line(run, data):
    data.write_bytes(data.read_bytes()[:-200])
    assert_refused(run("fit", data, "--budget", 2), "DATA", f"'{data}'", DAMAGED)


@pytest.mark.parametrize(
    ("words", "option", "value", "rule"),
    [
        (["--budget", "0"], "--budget", "0", f"{WHOLE} 1"),
        (["--budget", "-3"], "--budget", "-3", f"{WHOLE} 1"),
        (["--core-shape", "2x2"], "--core-shape", "(2, 2)", "must have one entry per mode, and the tensor has 3 modes"),
        (["--core-shape", "2x0x2"], "--core-shape", "(2, 0, 2)", "must have whole numbers of at least 1"),
        (["--core-shape", "2xax2"], "--core-shape", "'2xax2'", "must be whole numbers joined by x"),
        (["--core-shape", ""], "--core-shape", "''", "must be whole numbers joined by x"),
        (["--core-shape", "2x2x1.5"], "--core-shape", "'2x2x1.5'", "must be whole numbers joined by x"),
        (["--hold-out", "2"], "--hold-out", "2.0", "above 0 and below 1"),
        (["--hold-out", "0"], "--hold-out", "0.0", "above 0 and below 1"),
        (["--hold-out", "nan"], "--hold-out", "nan", "above 0 and below 1"),
        (["--hold-out", "0.1", "--along", "nonsense"], "--along", "'nonsense'", "one of the modes who, what, when"),
        (["--hold-out", "0.1", "--along", "7"], "--along", "7", "one of the modes who, what, when"),
        (["--along", "when"], "--along", "'when'", "needs --hold-out"),
        (["--burn-in", "-1"], "--burn-in", "-1", f"{WHOLE} 0"),
        (["--draws", "0"], "--draws", "0", f"{WHOLE} 1"),
        (["--thin", "0"], "--thin", "0", f"{WHOLE} 1"),
        (["--chains", "0"], "--chains", "0", f"{WHOLE} 1"),
        (["--threads", "0"], "--threads", "0", f"{WHOLE} 1"),
        (["--seed", "-1"], "--seed", "-1", f"{WHOLE} 0"),
        (["--out", "EXISTS"], "--out", "'EXISTS'", "must be a path that does not exist yet"),
        (["--out", "EXISTS/nowhere/run.zarr"], "--out", "'EXISTS/nowhere/run.zarr'", "must be in a folder that exists"),
    ],
    ids=str,
)
def test_a_bad_setting_is_one_line_that_names_it(run, data, tmp_path, words, option, value, rule):
    (tmp_path / "old").mkdir()
    *words, value = (word.replace("EXISTS", str(tmp_path / "old")) for word in (*words, value))
    budget = [] if "--budget" in words else ["--budget", "2"]
    assert_refused(run("fit", data, *budget, *words), option, value, rule)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old", "y.npz"]
    assert list((tmp_path / "old").iterdir()) == []


def test_a_mistake_of_the_real_command_is_one_line_without_a_traceback(tmp_path):
    path = tmp_path / "nowhere.npz"
    command = [sys.executable, "-m", "allocore.cli", "fit", path, "--budget", "2"]
    told = subprocess.run(command, capture_output=True, text=True)
    assert_refused((told.returncode, told.stdout, told.stderr), "DATA", f"'{path}'", "must be an existing file")
    assert told.stdout == ""


def test_a_disk_that_fills_up_is_one_line_and_leaves_nothing(run, data, tmp_path, monkeypatch):
    def to_zarr(tree, store, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.DataTree, "to_zarr", to_zarr)
    result = run("fit", data, "--budget", 2, "--out", tmp_path / "run.zarr", *QUICK)
    assert_one_line(result, "No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["y.npz"]


@pytest.mark.parametrize("along", ["²", "--1"])
def test_a_mode_that_looks_like_a_number_but_is_none_is_one_line(run, data, along):
    assert_one_line(run("fit", data, "--budget", 2, "--hold-out", "0.3", f"--along={along}"), "mode")


def test_a_run_too_large_for_the_memory_is_one_line(run, data):
    assert_one_line(run("fit", data, "--budget", 2, "--draws", 10**15))


@pytest.mark.parametrize("option", ["--rows", "--top"])
def test_a_negative_number_of_things_to_print_is_one_line(run, data, option):
    assert_refused(run("fit", data, "--budget", 2, *QUICK, option, "-1"), option, "-1", f"{WHOLE} 1")


def test_labels_beyond_the_encoding_of_the_output_end_in_no_traceback(data, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    told = subprocess.run([sys.executable, "-m", "allocore.cli", "info", data], capture_output=True, text=True)
    assert "Traceback" not in told.stderr


# Runs on disk


def test_resume_makes_a_run_longer_and_prints_its_classes(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--budget", 3, "--chains", 2, "--out", path, *QUICK)
    code, out, err = run("resume", path, "--draws", 5, "--threads", 2)
    assert (code, err) == (0, "")
    assert "consensus of 2 chains, 10 draws" in as_words(out)
    assert f"Seed 3. Run written to {path}" in out
    model = ac.AlloCore(3, burn_in=2, draws=5, thin=1, chains=2, seed=3, progress=False)
    post = model.fit(ac.load_tensor(data)).posterior_
    assert ac.open_run(path).core_values.tobytes() == post.core_values.tobytes()


def test_resume_of_a_finished_run_says_that_nothing_was_left_to_do(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--budget", 2, "--burn-in", 2, "--draws", 3, "--thin", 1, "--seed", 1, "--out", path)
    code, out, _ = run("resume", path)
    assert code == 0
    assert "This run is already complete (3 draws). Use a larger --draws to extend it." in as_words(out)
    assert "Run written to" in as_words(run("resume", path, "--draws", 4)[1])


def test_resume_goes_on_with_any_model(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    settings = {"burn_in": 1, "thin": 1, "seed": 1, "progress": False}
    ac.Tucker((2, 1, 2), draws=1, store=path, **settings).fit(ac.load_tensor(data))
    code, _, err = run("resume", path, "--draws", 2)
    assert (code, err) == (0, "")
    post = ac.Tucker((2, 1, 2), draws=2, **settings).fit(ac.load_tensor(data)).posterior_
    assert ac.open_run(path).core_values.tobytes() == post.core_values.tobytes()


def test_fit_makes_four_chains_unless_told_otherwise(run, data, tmp_path):
    for words in ([], ["--chains", 1]):
        run("fit", data, "--budget", 3, "--out", tmp_path / f"{len(words)}.zarr", *words, *QUICK)
    four, one = (ac.open_run(tmp_path / name).core_values for name in ("0.zarr", "2.zarr"))
    assert four.shape == (4, 2, 3)
    assert one.tobytes() == four[:1].tobytes(), "a chain is the same alone and beside others"


def test_info_says_how_a_run_stands_and_whether_its_chains_agree(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--budget", 3, "--chains", 1, "--out", path, *QUICK)
    run("resume", path, "--draws", 20)
    code, out, err = run("info", path)
    assert (code, err) == (0, "")
    words = as_words(out)
    assert "AlloCore: 3 classes, core 3 x 3 x 3; a0 1, b0 1, e0 1, f0 10, alpha0 0.1; seed 3, allocore" in words
    assert repr(ac.load_tensor(data)) in words
    assert "22 of 22 sweeps (2 of burn-in, then 1 sweep per draw), 20 of 20 draws in 1 chain;" in words
    assert "finished." in words
    names = ("log-likelihood", "expected total count", "who factors", "log expected counts of")
    for word in (*names, "R-hat"):
        assert word in words
    found = ac.open_run(path).diagnose()
    assert f"{found.level.capitalize()}: " in words
    for sentence in found.sentences:
        assert sentence in words
    assert "chains=" not in words


@pytest.mark.parametrize(
    ("path", "why"), [("y.npz", "is a file"), ("nowhere.zarr", "does not exist"), (".", "is a folder without a run")]
)
def test_what_is_no_run_is_one_line(run, data, monkeypatch, path, why):
    monkeypatch.chdir(data.parent)
    assert_refused(run("resume", path), "RUN", f"'{path}'", f"must be the folder of a run; this {why}")


def test_a_damaged_run_is_one_line(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--budget", 3, "--out", path, *QUICK)
    (path / "posterior" / "core_values" / "0.0.0").write_bytes(b"")
    for command in ("info", "resume"):
        assert_one_line(run(command, path), f"{path} is damaged: draws 0 to 1 cannot be read", "; --on-error drop ")
    assert_refused(run("resume", path, "--on-error", "ignore"), "--on-error", "'ignore'", "must be 'raise' or 'drop'")


def test_fit_does_not_write_over_a_run(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    run("fit", data, "--budget", 3, "--out", path, *QUICK)
    result = run("fit", data, "--budget", 3, "--out", path, *QUICK)
    assert_refused(
        result,
        "--out",
        f"'{path}'",
        f"must be a path that does not exist yet: it is already a run ('allocore resume {path}'",
    )


# Ctrl-C and SIGTERM
