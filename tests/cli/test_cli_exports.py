"""Tidy tables for R and other programs: what `summary` writes, and `to_frame` in Python."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from allocore.tensor.files import write_frame
from support.command_line import assert_refused
from support.errors import refused

MODES = ("who", "where", "when")
NUMBERS = ["share", "median", "low", "high"]


@pytest.fixture(scope="module")
def run_to_export(tmp_path_factory):
    """A small run with a missing cell on disk: labels that a CSV file must quote, numbers, and months."""
    labels = [["Ada", 'a, "b"', "مرحبا", "1 2"], None, [f"2003-{m:02d}" for m in range(1, 7)]]
    who, where, when = np.kron(np.eye(2), [1, 2]), np.array([[5, 1, 0], [0, 1, 5]]), np.kron(np.eye(2), [1, 2, 3])
    rates = sum(5 * np.einsum("i,j,k", who[i], where[j], when[k]) for i, j, k in ((0, 0, 0), (0, 1, 1), (1, 0, 1)))
    counts = np.random.default_rng(1).poisson(rates + 0.01)
    Y = ac.as_tensor(counts, mode_names=MODES, labels=labels).with_missing([(0, 0, 0)])
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    ac.AlloCore(
        5, burn_in=100, draws=6, thin=1, chains=2, seed=1, store=path, progress=False, likelihood="poisson"
    ).fit(Y)
    return path


@pytest.fixture(scope="module")
def found(run_to_export):
    """The consensus of the run, as it is kept with the run: intervals have fewer digits there."""
    ac.open_run(run_to_export).consensus()
    return ac.open_run(run_to_export).consensus()


def labels_of(found, mode):
    return [str(label) for label in found.summary.modes[mode].labels]


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    texts = [name for name in pd.read_csv(path, nrows=0) if name in ("label", "name") or name.endswith("_shared")]
    table = pd.read_csv(path, dtype=dict.fromkeys(texts, str), keep_default_na=False)
    # Python reads every digit of a number; the parser of pandas before 3.1 may lose the last one.
    digits = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table.assign(**{name: digits[name].map(float) for name in table if table[name].dtype == np.float64})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_summary_writes_classes_profiles_and_factors_of_the_consensus(run, run_to_export, found, tmp_path, suffix):
    paths = {what: tmp_path / f"{what}.{suffix}" for what in ("classes", "profiles", "factors")}
    options = ("--out", paths["classes"], "--profiles", paths["profiles"], "--factors", paths["factors"])
    code, out, err = run("summary", run_to_export, "--top", 2, *options)
    assert (code, err) == (0, "")
    for what, path in paths.items():
        assert f"Table of all {what} (consensus of 2 chains, 12 draws) written to" in " ".join(out.split())
        written, table = read(path), found.to_frame(what, top=2)
        assert len(table) > 0
        for name in table:
            if table[name].dtype == np.float64:
                np.testing.assert_allclose(pd.to_numeric(written[name]), table[name], rtol=1e-14)
            else:
                assert written[name].tolist() == table[name].tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in paths.values())


def test_profiles_are_one_row_per_class_mode_and_label(found):
    table = found.to_frame()
    assert list(table.columns) == ["class", "name", "mode", "label", *NUMBERS]
    assert len(table) == len(found.numbers) * (4 + 3 + 6)
    for place, number in enumerate(found.numbers):
        for mode, name in enumerate(MODES):
            rows = table[(table["class"] == number) & (table["mode"] == name)]
            assert rows["label"].tolist() == labels_of(found, mode)
            assert set(rows["name"]) == {found.names[place]}
            one = found.profile(name, number).rename(index=str).loc[rows["label"]]
            np.testing.assert_array_equal(rows[NUMBERS], one[NUMBERS])
            np.testing.assert_array_equal(rows["share"], found.profiles[mode][:, place])


def test_factors_are_one_row_per_mode_factor_and_label_and_classes_refer_to_them(found):
    table, classes = found.to_frame("factors"), found.to_frame("classes")
    assert list(table.columns) == ["mode", "factor", "name", "label", *NUMBERS]
    for mode, name in enumerate(MODES):
        of_mode = table[table["mode"] == name]
        assert sorted(of_mode["factor"].unique()) == sorted(classes[f"{name}_factor"].unique())
        for number, rows in of_mode.groupby("factor"):
            assert rows["label"].tolist() == labels_of(found, mode)
            users = np.flatnonzero(classes[f"{name}_factor"] == number)
            largest = int(classes["class"][users[0]])
            own = found.profile(name, largest, observed=False).rename(index=str).loc[rows["label"]]
            np.testing.assert_array_equal(rows[NUMBERS], own[NUMBERS])


def test_classes_have_numbers_and_texts_and_no_lists(found):
    table, original = found.to_frame("classes", top=1), found.classes(top=1)
    assert table["class"].tolist() == found.numbers.tolist()
    assert not table.map(lambda value: isinstance(value, tuple | list)).to_numpy().any()
    for name in MODES:
        shared = [tuple(map(int, text.split())) for text in table[f"{name}_shared"]]
        assert shared == original[f"{name}_shared"].tolist()
    assert any(table[f"{name}_shared"].str.len().max() > 0 for name in MODES), "some classes share a factor"
    kept = [name for name in original if not name.endswith("_shared")]
    pd.testing.assert_frame_equal(table[kept], original[kept].reset_index(drop=True))


def test_a_summary_of_one_draw_writes_its_tables_without_intervals(run, run_to_export, tmp_path):
    options = ("--out", tmp_path / "c.csv", "--profiles", tmp_path / "p.csv", "--factors", tmp_path / "f.csv")
    code, out, err = run("summary", run_to_export, "--draw", 2, "--chain", 1, *options)
    assert (code, err) == (0, "")
    assert "Table of all factors (draw 2 of chain 1) written to" in " ".join(out.split())
    post = ac.open_run(run_to_export)
    classes, profiles, factors = (read(tmp_path / f"{name}.csv") for name in "cpf")
    assert classes["name"].tolist() == list(post.class_summary(2, chain=1).names)
    assert classes["share"].tolist() == pytest.approx(post.classes(2, chain=1)["share"].tolist(), rel=1e-14)
    assert list(profiles.columns) == ["class", "name", "mode", "label", "share"]
    assert list(factors.columns) == ["mode", "factor", "name", "label", "share"]
    for (name, number), rows in factors.groupby(["mode", "factor"]):
        one = post.factor(name, number, 2, chain=1).rename(index=str).loc[rows["label"], "share"]
        assert rows["share"].tolist() == pytest.approx(one.tolist(), rel=1e-14)
    sums = profiles.groupby(["class", "mode"])["share"].sum()
    assert len(sums) == 3 * len(classes)
    np.testing.assert_allclose(sums, 1.0)


def test_an_estimate_of_nntuck_is_written_as_a_draw(run, run_to_export, tmp_path):
    Y = ac.open_run(run_to_export).tensor
    post = ac.NNTuck((2, 1, 2), restarts=1, max_iter=9, seed=1, progress=False).fit(Y).posterior_
    post.save(tmp_path / "run.zarr")
    code, _, err = run("summary", tmp_path / "run.zarr", "--factors", tmp_path / "f.parquet")
    assert (code, err) == (0, "")
    table = pd.read_parquet(tmp_path / "f.parquet")
    expected = post.class_summary("best").to_frame("factors")
    pd.testing.assert_frame_equal(table, expected, check_dtype=False)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_without_rows_keeps_its_columns_and_their_types(found, tmp_path, suffix):
    path, table = tmp_path / f"empty.{suffix}", found.to_frame()
    write_frame(table.iloc[:0], path)
    written = read(path)
    assert list(written.columns) == list(table.columns)
    assert len(written) == 0
    if suffix == "parquet":
        write_frame(table, tmp_path / "whole.parquet")
        assert written.dtypes.tolist() == read(tmp_path / "whole.parquet").dtypes.tolist()


def test_an_existing_table_is_replaced(run, run_to_export, found, tmp_path):
    (tmp_path / "c.csv").write_text("old")
    code, _, err = run("summary", run_to_export, "--out", tmp_path / "c.csv")
    assert (code, err) == (0, "")
    assert read(tmp_path / "c.csv")["class"].tolist() == found.numbers.tolist()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--out", "OUT/c.xlsx"], "must end in .csv, .tsv or .parquet"),
        (["--profiles", "OUT/p"], "must end in .csv, .tsv or .parquet"),
        (["--factors", "OUT/nowhere/f.csv"], "must be in a folder that exists"),
        (["--factors", "OUT/folder.csv"], "must be a file, not a folder"),
        (["--out", "OUT/t.csv", "--factors", "OUT/t.csv"], "must be another file than --out"),
        (["--out", "OUT/t.csv", "--top", "0"], "must be a whole number of at least 1"),
    ],
    ids=str,
)
def test_a_path_for_no_table_is_one_line_and_nothing_is_written(run, run_to_export, tmp_path, words, rule):
    (tmp_path / "folder.csv").mkdir()
    words = [word.replace("OUT", str(tmp_path)) for word in words]
    result = run("summary", run_to_export, *words)
    assert_refused(result, words[-2], "0" if words[-1] == "0" else f"'{words[-1]}'", rule)
    assert result[1] == ""
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_disk_that_fills_up_is_one_line_and_keeps_the_old_table(run, run_to_export, tmp_path, monkeypatch, suffix):
    import duckdb

    def full(*arguments, **options):
        raise OSError(28, "No space left on device") if suffix == "csv" else duckdb.IOException("No space left")

    path = tmp_path / f"c.{suffix}"
    path.write_text("old")
    monkeypatch.setattr(*((pd.DataFrame, "to_csv") if suffix == "csv" else (duckdb, "connect")), full)
    code, _, err = run("summary", run_to_export, "--out", path)
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left" in err
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


def test_a_table_that_does_not_exist_is_refused(found):
    with refused("what", "class"):
        found.to_frame("class")
    with refused("top", 0):
        found.to_frame("classes", top=0)
