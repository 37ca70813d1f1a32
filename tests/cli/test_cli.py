"""The command line: what it prints, what it writes, and one line for every mistake."""

import io
import re
import sys

import numpy as np
import pytest
import xarray as xr

import allocore as ac
from support.command_line import as_words, assert_refused

QUICK = ("--chains", "4", "--burn-in", "2", "--draws", "2", "--thin", "1", "--seed", "3", "--threads", "1")


@pytest.fixture
def labelled_data(tmp_path):
    """A small tensor with names, odd labels and missing cells in a file."""
    Y = np.random.default_rng(5).poisson(1.5, (4, 3, 2))
    labels = [["Ada", "Zoë", "[bold]", "[/]"], None, ["x", "y"]]
    tensor = ac.as_tensor(Y, mode_names=["who", "what", "when"], labels=labels)
    tensor.with_missing([(1, 0, None)]).save(tmp_path / "y.npz")
    return tmp_path / "y.npz"


# fit


def test_fit_prints_the_tensor_and_its_classes_and_writes_the_draws_of_the_api(run, labelled_data, tmp_path):
    code, out, err = run("fit", labelled_data, "--budget", 3, "--out", tmp_path / "run.zarr", *QUICK)
    assert (code, err) == (0, "")
    words, Y = as_words(out), ac.load_tensor(labelled_data)
    assert repr(Y) in words
    assert re.search(r"\d class(es)?, consensus of 4 chains, 8 draws", words)
    assert re.search(r"(1 class occurs|\d classes occur) in at least 2 of 4 chains", words)
    assert "Held out" not in words
    post = ac.AlloCore(3, burn_in=2, draws=2, thin=1, chains=4, seed=3, progress=False).fit(Y).posterior_
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as tree:
        np.testing.assert_array_equal(tree["posterior"]["core_values"], post.core_values)


def test_fit_holds_out_reports_the_prediction_and_writes_the_run(run, labelled_data, tmp_path):
    out = tmp_path / "run.zarr"
    code, text, err = run(
        "fit", labelled_data, "--budget", 3, "--hold-out", 0.3, "--along", "what", "--out", out, *QUICK
    )
    assert (code, err) == (0, "")
    split = ac.hold_out(ac.load_tensor(labelled_data), 0.3, "what")
    post = ac.AlloCore(3, burn_in=2, draws=2, thin=1, chains=4, seed=3, progress=False).fit(split.train).posterior_
    words = as_words(text)
    assert f"Held out: {len(split.test)} cells, {len(split.test.positive)} of them positive" in words
    assert f"log PPD {post.log_ppd(split.test):.2f} ±" in words
    assert f"{len(split.test)} cells are too few to judge by." in words
    assert "Seed 3" in words
    assert "Run written to" in words
    with xr.open_datatree(out, engine="zarr") as tree:
        assert tree["posterior"].sizes["draw"] == 2
        np.testing.assert_array_equal(tree["constant_data"]["missing_patterns"], split.train.missing.patterns)


def test_two_fits_hold_out_the_same_cells_whatever_their_seeds_unless_the_hold_out_has_another(run, data, tmp_path):
    def held_out(name, *words):
        fit = ("fit", data, "--budget", 2, "--hold-out", 0.3, "--burn-in", 1, "--draws", 1, "--thin", 1, "--chains", 1)
        assert run(*fit, "--out", tmp_path / name, *words)[0] == 0
        return ac.open_run(tmp_path / name).held_out.coords.tolist()

    cells = held_out("a.zarr")
    assert held_out("b.zarr", "--seed", 5) == cells == ac.hold_out(ac.load_tensor(data), 0.3).test.coords.tolist()
    assert held_out("c.zarr", "--hold-out-seed", 1) != cells


def test_a_mode_may_be_given_by_name_or_number(run, labelled_data):
    words = ("fit", labelled_data, "--budget", 2, "--hold-out", 0.3, *QUICK, "--chains", 1)
    expected = run(*words)
    assert expected[0] == 0
    for along in ("when", "2", "-1"):
        assert run(*words, "--along", along) == expected


def test_a_core_shape_may_have_commas(run, labelled_data, tmp_path):
    words = ("--core-shape", "2,1,2", "--out", tmp_path / "run.zarr", "--chains", 1)
    code, _, err = run("fit", labelled_data, "--budget", 3, *QUICK, *words)
    assert (code, err) == (0, "")
    assert ac.open_run(tmp_path / "run.zarr").record.spec.core_shape == (2, 1, 2)


def test_rows_and_top_say_how_much_is_printed(run, tmp_path):
    np.save(tmp_path / "y.npy", np.kron(np.eye(3, dtype=int), np.full((2, 2), 30)))
    shown = ("--rows", 1, "--top", 1, "--likelihood", "poisson")
    code, out, _ = run("fit", tmp_path / "y.npy", "--budget", 5, *shown, *QUICK)
    assert code == 0
    assert re.search(r"1 of [2-5] classes, consensus of 4 chains, 8 draws", as_words(out))
    assert "%," not in out, "one label for each mode"


def test_labels_with_markup_are_printed_as_they_are(run, labelled_data):
    _, out, _ = run("info", labelled_data)
    assert "[bold]" in out
    assert "[/]" in out


# info, version, help


def test_info_says_what_a_tensor_holds(run, labelled_data):
    code, out, err = run("info", labelled_data)
    assert (code, err) == (0, "")
    Y, words = ac.load_tensor(labelled_data), as_words(out)
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
        (["--hold-out-seed", "3"], "--hold-out-seed", "3", "needs --hold-out"),
        (["--hold-out", "0.1", "--hold-out-seed", "-1"], "--hold-out-seed", "-1", f"{WHOLE} 0"),
        (["--burn-in", "-1"], "--burn-in", "-1", f"{WHOLE} 0"),
        (["--draws", "0"], "--draws", "0", f"{WHOLE} 1"),
        (["--thin", "0"], "--thin", "0", f"{WHOLE} 1"),
        (["--chains", "0"], "--chains", "0", f"{WHOLE} 1"),
        (["--chains", "some"], "--chains", "'some'", "must be a whole number or auto"),
        (["--sweeps", "-5"], "--sweeps", "-5", f"{WHOLE} 1"),
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


def test_labels_beyond_the_encoding_of_the_output_are_replaced(run, labelled_data, monkeypatch):
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    assert run("info", labelled_data) == (0, "", "")
    screen.flush()
    assert b"Zo?" in screen.buffer.getvalue()


# Runs on disk


def test_resume_does_nothing_for_a_finished_run_unless_it_shall_be_longer(run, run_copy):
    code, out, _ = run("resume", run_copy)
    assert code == 0
    assert "4 draws" in as_words(out)
    assert "--draws" in out
    assert "Run written to" not in as_words(out)
    code, out, err = run("resume", run_copy, "--draws", 5, "--threads", 2)
    assert (code, err) == (0, "")
    assert "consensus of 4 chains, 20 draws" in as_words(out)
    assert f"Seed 3. Run written to {run_copy}" in as_words(out)
    model = ac.AlloCore(2, burn_in=2, draws=5, thin=1, chains=4, seed=3, progress=False)
    post = model.fit(ac.open_run(run_copy).tensor).posterior_
    assert ac.open_run(run_copy).core_values.tobytes() == post.core_values.tobytes()


def test_resume_makes_later_sweeps(run, run_copy):
    code, out, err = run("resume", run_copy, "--sweeps", 14)
    assert (code, err) == (0, "")
    assert f"Seed 3. Run written to {run_copy}" in as_words(out)
    model = ac.AlloCore(2, burn_in=6, draws=4, thin=2, chains=4, seed=3, progress=False)
    post = model.fit(ac.open_run(run_copy).tensor).posterior_
    assert ac.open_run(run_copy).core_values.tobytes() == post.core_values.tobytes()
    assert "already complete" in as_words(run("resume", run_copy, "--sweeps", 14)[1])
    assert_refused(
        run("resume", run_copy, "--sweeps", 9), "--sweeps", "9", "must be 14, as planned, or at least 4 more"
    )


def test_a_quick_look_is_preliminary_and_resumes_to_the_whole_fit(run, data, tmp_path):
    path, size = tmp_path / "run.zarr", ["--sweeps", 8, "--chains", 4, "--budget", 2, "--seed", 1]
    code, out, _ = run("fit", data, "--quick", *size, "--out", path)
    assert code == 0
    assert "(a quick look)" in as_words(out)
    assert "allocore resume RUN" in as_words(out)
    assert "--out" in as_words(run("fit", data, "--quick", *size)[1].split("Preliminary")[1].split("?")[0])
    assert "a quick look at a larger run" in as_words(run("info", path)[1])
    assert run("resume", path)[0] == 0
    post = ac.AlloCore(2, sweeps=8, chains=4, seed=1, progress=False).fit(ac.load_tensor(data)).posterior_
    assert ac.open_run(path).core_values.tobytes() == post.core_values.tobytes()
    assert not ac.open_run(path).preliminary


def test_resume_goes_on_with_any_model(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    settings = {"burn_in": 1, "thin": 1, "chains": 1, "seed": 1, "progress": False}
    ac.Tucker((2, 1, 2), draws=1, store=path, **settings).fit(ac.load_tensor(data))
    code, _, err = run("resume", path, "--draws", 2)
    assert (code, err) == (0, "")
    post = ac.Tucker((2, 1, 2), draws=2, **settings).fit(ac.load_tensor(data)).posterior_
    assert ac.open_run(path).core_values.tobytes() == post.core_values.tobytes()


def test_info_says_how_a_run_stands_and_whether_its_chains_agree(run, data, tmp_path):
    path = tmp_path / "run.zarr"
    settings = {"burn_in": 2, "draws": 20, "thin": 1, "seed": 3, "progress": False, "chains": 1}
    ac.AlloCore(3, store=path, **settings).fit(ac.load_tensor(data))
    code, out, err = run("info", path)
    assert (code, err) == (0, "")
    words = as_words(out)
    assert "AlloCore, negative-binomial: 3 classes, core 3 x 3 x 3; a0 1, b0 1, e0 1, f0 10, alpha0 0.1" in words
    assert "; seed 3, allocore" in words
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


def test_a_damaged_run_is_one_line(run, run_copy):
    (run_copy / "posterior" / "core_values" / "0.0.0").write_bytes(b"")
    for command in ("info", "resume"):
        assert_one_line(
            run(command, run_copy), f"{run_copy} is damaged: draws 0 to 3 cannot be read", "--on-error drop"
        )
    assert_refused(
        run("resume", run_copy, "--on-error", "ignore"), "--on-error", "'ignore'", "must be 'raise' or 'drop'"
    )


def test_fit_does_not_write_over_a_run(run, data, stored_run):
    result = run("fit", data, "--budget", 3, "--out", stored_run, *QUICK)
    assert_refused(result, "--out", f"'{stored_run}'", f"'allocore resume {stored_run}'")
