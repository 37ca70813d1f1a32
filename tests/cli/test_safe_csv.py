"""Labels that a spreadsheet would run as formulas: as they are by default, and as text with --safe-csv."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.errors import refused

LABELS = ["=1+1", "+cmd", "-x", "@A1", " =2", "-5", "1e3", "\x1b[31m", "a\tb", "'plain", "\uff1d1"]
SAFE = ["'=1+1", "'+cmd", "'-x", "'@A1", "' =2", "-5", "1e3", "\\x1b[31m", "a\\tb", "'plain", "'\uff1d1"]
TABLE = pd.DataFrame({"=who": LABELS, "n": np.arange(-1, 10), "x": pd.Categorical(LABELS), "none": None})


def read(path):
    sep = "\t" if path.suffix == ".tsv" else ","
    return pd.read_csv(path, sep=sep, dtype=str, keep_default_na=False)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_only_a_safe_table_has_no_formulas(tmp_path, suffix):
    raw, safe = (ac.write_table(TABLE, tmp_path / f"{each}{suffix}", safe_csv=each) for each in (False, True))
    assert read(raw)["=who"].tolist() == read(raw)["x"].tolist() == LABELS
    assert read(safe)["'=who"].tolist() == read(safe)["x"].tolist() == SAFE
    assert read(safe)["n"].tolist() == read(raw)["n"].tolist() == [str(n) for n in range(-1, 10)]
    assert set(read(safe)["none"]) == {""}


def test_parquet_and_the_table_itself_do_not_change(tmp_path):
    before = TABLE.copy()
    path = ac.write_table(TABLE, tmp_path / "table.parquet", safe_csv=True)
    assert pd.read_parquet(path)["=who"].tolist() == LABELS
    pd.testing.assert_frame_equal(TABLE, before)


def test_a_table_without_rows_or_with_one_name_twice_is_written(tmp_path):
    twice = pd.DataFrame([["=a", "@b"]], columns=["x", "x"])
    assert ac.write_table(twice, tmp_path / "twice.csv", safe_csv=True).read_text() == "x,x\n'=a,'@b\n"
    assert ac.write_table(twice[:0], tmp_path / "none.csv", safe_csv=True).read_text() == "x,x\n"


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        ({"table": [1]}, "table"),
        ({"path": "table.xlsx"}, "path"),
        ({"path": 3}, "path"),
        ({"safe_csv": "y"}, "safe_csv"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused(tmp_path, wrong, argument):
    with refused(argument):
        ac.write_table(**{"table": TABLE, "path": tmp_path / "x.csv", **wrong})


def test_a_command_takes_the_option(run, tmp_path):
    Y = ac.as_tensor(np.full((2, 2), 3), mode_names=["who", "whom"], labels=[["=1+1", "b"], ["@c", "d"]])
    ac.CP(1, burn_in=2, draws=2, thin=1, chains=1, seed=1, store=tmp_path / "run.zarr", progress=False).fit(Y)
    cells, out = tmp_path / "cells.csv", tmp_path / "out.csv"
    cells.write_text("who,whom\n=1+1,@c\n")
    found = []
    for options in ([], ["--safe-csv"]):
        code, _, err = run("predict", tmp_path / "run.zarr", cells, "--out", out, *options)
        assert code == 0, err
        found.append(read(out).iloc[0, :2].tolist())
    assert found == [["=1+1", "@c"], ["'=1+1", "'@c"]]
