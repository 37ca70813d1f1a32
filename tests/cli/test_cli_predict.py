"""`allocore predict`: cells in files, predictions in files or on the screen, and mistakes in one line."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.command_line import assert_refused


@pytest.fixture(scope="module")
def run_with_missing(tmp_path_factory):
    labels = [["NA", "<b>", "[bold]x", "مرحبا"], ["01", "02", "1"], [f"2003-{m:02d}" for m in range(1, 7)]]
    Y = ac.as_tensor(
        np.random.default_rng(1).poisson(1.0, (4, 3, 6)), mode_names=["who", "where", "when"], labels=labels
    ).with_missing([(None, None, 5)])
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    ac.CP(3, burn_in=4, draws=6, thin=1, chains=2, seed=1, store=path, progress=False).fit(Y)
    return path


ASKED = pd.DataFrame({"who": ["NA", None, "[bold]x"], "where": ["01", "1", "02"], "when": ["2003-01", None, "2003-06"]})


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    return path


@pytest.mark.parametrize(("given", "wanted"), [(".csv", ".tsv"), (".tsv", ".parquet"), (".parquet", ".csv")])
def test_predictions_go_from_file_to_file(run, run_with_missing, tmp_path, given, wanted):
    out = tmp_path / f"predictions{wanted}"
    words = ["predict", run_with_missing, write(ASKED, tmp_path / f"cells{given}"), "--out", out, "--interval", 0.5]
    assert run(*words) == (0, f"3 predictions written to {out}\n", "")
    read = {".csv": pd.read_csv, ".tsv": pd.read_table, ".parquet": pd.read_parquet}[wanted]
    settings = {} if wanted == ".parquet" else {"dtype": {"where": str}, "keep_default_na": False, "na_values": [""]}
    found, expected = read(out, **settings), ac.open_run(run_with_missing).predict(ASKED, 0.5)
    assert list(found.columns) == ["who", "where", "when", "expected", "low", "high"]
    assert found["expected"].tolist() == pytest.approx(expected["expected"].tolist(), rel=1e-12)
    assert found[["low", "high"]].to_numpy().tolist() == expected[["low", "high"]].to_numpy().tolist()
    assert found["who"].isna().tolist() == [False, True, False]
    assert found["where"].tolist() == ["01", "1", "02"]


def test_predictions_are_printed_as_a_table(run, run_with_missing, tmp_path):
    code, out, err = run("predict", run_with_missing, write(ASKED, tmp_path / "cells.csv"), "--rows", 2)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    table = ac.open_run(run_with_missing).predict(ASKED)
    cells = [line.split() for line in lines if "2003" in line or "all" in line]
    assert cells[0][:3] == ["NA", "01", "2003-01"]
    assert cells[1] == ["all", "1", "all", f"{table['expected'][1]:.4g}", str(table["low"][1]), str(table["high"][1])]
    assert lines[-1] == "1 more. Use --out to write them all to a file."


def test_missing_cells_are_summed_on_request(run, run_with_missing, tmp_path):
    cells = write(pd.DataFrame({"when": ["2003-06"]}), tmp_path / "cells.csv")
    assert_refused(run("predict", run_with_missing, cells), "CELLS", None, "--missing")
    assert run("predict", run_with_missing, cells, "--missing")[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "words", "option", "value", "rule"),
    [
        ("cells.txt", "who\nNA\n", [], "CELLS", "'PATH'", "must end in .csv, .tsv or .parquet"),
        ("cells.csv", None, [], "CELLS", "'PATH'", "must be an existing file"),
        ("cells.csv", "", [], "CELLS", "'PATH'", "cannot be read"),
        ("cells.parquet", "who\nNA\n", [], "CELLS", "'PATH'", "is damaged or not a Parquet file"),
        (
            "cells.csv",
            "who\nNAA\n",
            [],
            "CELLS",
            "'NAA' in mode 'who'",
            "must be a label of the mode; did you mean 'NA'?",
        ),
        ("cells.csv", "who\n", [], "CELLS", "empty", "must name at least one cell"),
        ("cells.csv", "who\nNA\n", ["--out", "x.xlsx"], "--out", "'x.xlsx'", "must end in .csv, .tsv or .parquet"),
        ("cells.csv", "who\nNA\n", ["--interval", "90"], "--interval", "90.0", "above 0 and below 1"),
        ("cells.csv", "who\nNA\n", ["--rows", "0"], "--rows", "0", "must be a whole number of at least 1"),
    ],
)
def test_mistakes_get_one_line(run, run_with_missing, tmp_path, monkeypatch, name, text, words, option, value, rule):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    result = run("predict", run_with_missing, path, *words)
    assert_refused(result, option, value.replace("PATH", str(path)), rule)
    assert result[1] == ""
    assert list(tmp_path.iterdir()) == ([] if text is None else [path]), "nothing was written"
