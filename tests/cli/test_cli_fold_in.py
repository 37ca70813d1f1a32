"""`allocore fold-in` and `allocore fit --start`: new data beside a run on disk, and mistakes in one line."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac
from support.command_line import as_words, assert_refused

QUICK = ["--burn-in", 4, "--draws", 4, "--thin", 1, "--chains", 2, "--threads", 1, "--seed", 1]


def events(first, last, seed, extra=()):
    """A table of events between four countries, in the months `first` to `last`."""
    rng, names = np.random.default_rng(seed), np.array(["Chad", "Mali", "Niger", "Togo"])
    rows = 300
    months = rng.integers(first, last + 1, rows)
    frame = pd.DataFrame(
        {
            "source": names[rng.integers(0, 4, rows)],
            "target": names[rng.integers(0, 4, rows)],
            "kind": np.array(["01", "02", "19"])[rng.integers(0, 3, rows)],
            "date": [f"2020-{month:02d}-05" for month in months],
        }
    )
    return pd.concat([frame, pd.DataFrame(list(extra), columns=frame.columns)])


READ = ["--modes", "source,target,kind", "--time", "date", "--shared-modes", "source,target"]


FEW = ["--sweeps", 2, "--surprises", 0]


def fitted(table, path, **reading):
    """A small run of a table of events, written to a path."""
    model = ac.AlloCore(
        3, burn_in=4, draws=4, thin=1, chains=2, threads=1, seed=1, store=path, progress=False, likelihood="poisson"
    )
    model.fit(ac.read_events(table, **reading))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Events of five months in old.csv, and those of the sixth in june.csv."""
    folder = tmp_path_factory.mktemp("runs")
    events(1, 5, 1).to_csv(folder / "old.csv", index=False)
    events(6, 6, 2).to_csv(folder / "june.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def path(folder):
    """The path of a run of the five months, which no test changes."""
    modes = {"modes": ["source", "target", "kind"], "time": "date", "shared_modes": ["source", "target"]}
    return fitted(folder / "old.csv", folder / "run.zarr", **modes)


def test_a_month_of_events_is_folded_in_shown_and_kept(run, path, folder, tmp_path):
    out = tmp_path / "june.zarr"
    words = [
        "fold-in",
        path,
        folder / "june.csv",
        *READ,
        "--mode",
        "date",
        "--surprises",
        2,
        "--sweeps",
        2,
        "--out",
        out,
    ]
    code, told, err = run(*words)
    assert (code, err) == (0, "")
    assert "consensus of 2 chains, 8 draws, in new rows of date" in told
    assert "observed" in told
    assert str(out) in as_words(told)
    folded = ac.open_run(out)
    assert folded.tensor.labels[3] == ("2020-06",)
    june = ac.read_events(
        folder / "june.csv", modes=["source", "target", "kind"], time="date", like=ac.open_run(path).tensor
    )
    same = ac.open_run(path).fold_in(june, "date", sweeps=2)
    assert folded.factors[3].tobytes() == same.factors[3].tobytes()
    for command in ("summary", "info"):
        assert run(command, out)[0] == 0
    code, _, err = run("resume", out)
    assert code == 2
    assert err.startswith(f"allocore: error: {out} ")
    assert err.count("\n") == 1


def test_a_tensor_in_a_file_is_folded_in(run, path, folder, tmp_path):
    rows = ac.open_run(path).tensor.select(source="Mali")
    rows.save(tmp_path / "mali.npz")
    code, told, err = run("fold-in", path, tmp_path / "mali.npz", "--mode", "source", *FEW)
    assert (code, err) == (0, "")
    assert "in new rows of source" in told
    assert "observed" not in told


@pytest.mark.parametrize(
    ("option", "value", "printed", "rule"),
    [
        ("--new-labels", "append", "'append'", "must be one of error, drop"),
        ("--mode", "year", "'year'", "must be one of the modes source, target, kind, date"),
        ("--absent", "gone", "'gone'", "must be one of zero, missing"),
        ("--sweeps", 0, "0", "must be a whole number of at least 1"),
        ("--surprises", -1, "-1", "must be a whole number of at least 0"),
    ],
)
def test_mistakes_end_with_one_line(run, path, folder, tmp_path, option, value, printed, rule):
    result = run("fold-in", path, folder / "june.csv", *READ, option, value, "--out", tmp_path / "june.zarr")
    assert_refused(result, option, printed, rule)
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.filterwarnings("default::UserWarning")
def test_a_label_that_the_run_does_not_know_is_an_error_or_dropped(run, path, tmp_path):
    events(6, 6, 3, [("Mali", "Freedonia", "01", "2020-06-07")]).to_csv(tmp_path / "new.csv", index=False)
    words = ["fold-in", path, tmp_path / "new.csv", *READ, *FEW]
    result = run(*words)
    assert_refused(result, "DATA", "a tensor with 'Freedonia' in mode 'target'", "--new-labels drop")
    code, out, err = run(*words, "--new-labels", "drop", "--out", tmp_path / "new.zarr")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("allocore: warning: ")
    assert "appended" not in out
    report = ac.open_run(tmp_path / "new.zarr").tensor.report
    assert report.findings[-1].kind == "labels-left-out"
    assert report.findings[-1].values == {"counts": 1, "labels": {"target": ["Freedonia"]}}


def test_an_existing_folder_is_not_overwritten(run, path, folder):
    before = sorted(path.rglob("*"))
    result = run("fold-in", path, folder / "june.csv", *READ, "--out", path)
    assert_refused(result, "--out", f"'{path}'", "must be a path that does not exist yet: it is already a run")
    assert sorted(path.rglob("*")) == before


def test_a_fit_starts_at_a_run(run, path, folder, tmp_path):
    pd.concat([events(1, 5, 1), events(6, 6, 2)]).to_csv(tmp_path / "all.csv", index=False)
    words = ["fit", tmp_path / "all.csv", *READ, "--budget", 3, "--likelihood", "poisson", *QUICK]
    code, _, err = run(*words, "--start", path, "--out", tmp_path / "refit.zarr")
    assert (code, err) == (0, "")
    refit = ac.open_run(tmp_path / "refit.zarr")
    model = ac.AlloCore(
        3, burn_in=4, draws=4, thin=1, chains=2, threads=1, seed=1, progress=False, likelihood="poisson"
    )
    same = model.fit(refit.tensor, start=ac.open_run(path)).posterior_
    assert refit.core_values.tobytes() == same.core_values.tobytes()
    result = run(*words[:-2], "--seed", 1, "--start", path, "--likelihood", "negative-binomial")
    assert_refused(result, "--start", None, "was fitted with likelihood 'poisson', not 'negative-binomial'")


def test_nntuck_has_no_chains_to_start(run, path, data):
    words = ["fit", data, "--model", "nntuck", "--core-shape", "2x2x2", "--restarts", 1, "--start", path]
    assert_refused(run(*words), "--start", f"'{path}'", "needs a model with chains, and nntuck has none")


EVENTS = "shop,item,day,n,kind\n" + "".join(
    f"{shop},{item},2024-{month:02}-0{day},{day + month},{'sold' if day < 3 else 'lost'}\n"
    for shop in "NS" for item in ("tea", "rice") for month in range(1, 4) for day in range(1, 4)
)  # fmt: skip


@pytest.fixture(scope="module")
def shop_run(tmp_path_factory):
    """The path of a run of what two shops have sold; new.csv beside it has the events of the next year."""
    folder = tmp_path_factory.mktemp("shops")
    (folder / "old.csv").write_text(EVENTS)
    (folder / "new.csv").write_text(EVENTS.replace("2024-", "2025-"))
    modes = {"who": "shop", "what": "item"}
    reading = {"modes": modes, "time": "day", "count": "n", "where": "kind = 'sold'"}
    return fitted(folder / "old.csv", folder / "run.zarr", **reading)


def test_fold_in_reads_a_table_as_that_of_the_run_was_read(run, shop_run):
    code, out, err = run("fold-in", shop_run, shop_run.parent / "new.csv", *FEW)
    assert (code, err) == (0, "")
    assert "CountTensor: 2 x 2 x 3 (who, what, day), 12 non-zeros, 84 counts" in as_words(out)
    code, out, _ = run("fold-in", shop_run, shop_run.parent / "new.csv", "--where", "kind = 'lost'", *FEW)
    assert code == 0, "what is said here comes first"
    assert "12 non-zeros, 60 counts" in as_words(out)


def test_new_labels_of_the_mode_with_new_rows_are_its_new_rows(run, shop_run, tmp_path):
    (tmp_path / "new.csv").write_text(EVENTS + "W,tea,2024-01-01,2,sold\n")
    code, out, err = run("fold-in", shop_run, tmp_path / "new.csv", "--mode", "who", *FEW)
    assert (code, err) == (0, "")
    assert "in new rows of who" in out


def test_fold_in_offers_no_option_that_it_refuses(run):
    code, out, _ = run("fold-in", "--help")
    assert code == 0
    assert "--new-labels" in out
    assert "--like" not in out


def test_fold_in_says_which_options_a_run_of_a_tensor_needs(run, shop_run, tmp_path):
    old = ac.open_run(shop_run).tensor
    bare = ac.CountTensor(old.coords, old.counts, old.shape, mode_names=old.mode_names, labels=old.labels)
    bare_run = tmp_path / "run.zarr"
    ac.CP(2, burn_in=1, draws=2, thin=1, chains=1, seed=1, store=bare_run, progress=False).fit(bare)
    result = run("fold-in", bare_run, shop_run.parent / "new.csv")
    assert_refused(result, "RUN", None, "name them with --modes who=COLUMN,what=COLUMN,day=COLUMN")
    words = ("--modes", "who=shop,what=item,day=day", *FEW)
    assert run("fold-in", bare_run, shop_run.parent / "new.csv", *words)[0] == 0
