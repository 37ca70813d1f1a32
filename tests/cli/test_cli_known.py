"""allocore fit --seeds, --freeze and --free."""

import numpy as np
import pandas as pd
import pytest

import allocore as ac

ACTIONS = ["meet", "consult", "aid", "fight", "protest"]
SHORT = ("--budget", 3, "--sweeps", 8, "--chains", 2, "--seed", 1, "--threads", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    counts = np.random.default_rng(1).poisson(2.0, (4, 5, 3))
    ac.as_tensor(counts, mode_names=["who", "action", "month"], labels=[None, ACTIONS, None]).save(folder / "y.npz")
    rows = [("action", "talks", "meet"), ("action", "talks", "consult"), ("action", "violence", "fight")]
    pd.DataFrame(rows, columns=["mode", "factor", "label"]).to_csv(folder / "seeds.csv", index=False)
    pd.DataFrame({"mode": ["action"], "label": ["meet"]}).to_csv(folder / "short.csv", index=False)
    pd.DataFrame([], columns=["mode", "factor", "label"]).to_csv(folder / "empty.csv", index=False)
    pd.DataFrame({"mode": ["action"], "factor": [None], "label": ["meet"]}).to_csv(folder / "nameless.csv", index=False)
    return folder


def test_seeds_and_the_factors_of_an_earlier_run_go_into_a_fit(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("fit", "y.npz", *SHORT, "--seeds", "seeds.csv", "--free", "action=1", "--out", "old.zarr")[0] == 0
    old = ac.open_run("old.zarr")
    known = old.record.spec.known_in(1)
    assert (known.names, known.seeds, old.record.spec.core_shape) == (("talks", "violence"), ((0, 1), (3,)), (3, 3, 3))
    assert run("fit", "y.npz", *SHORT, "--freeze", "action=old.zarr", "--free", "action=2", "--out", "new.zarr")[0] == 0
    new = ac.open_run("new.zarr").record.spec
    table = old.consensus(progress=False).factor_table("action")
    assert new.known_in(1).names == tuple(table.columns)
    assert new.core_shape[1] == table.shape[1] + 2


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("--seeds short.csv", "--seeds"),
        ("--seeds empty.csv", "--seeds"),
        ("--seeds nameless.csv", "--seeds"),
        ("--seeds none.csv", "--seeds"),
        ("--free action", "--free"),
        ("--free action=few", "--free"),
        ("--free action=-1", "--free"),
        ("--free deed=2", "--free"),
        ("--free action=2 --core-shape 3x3x3", "--core-shape"),
        ("--freeze action", "--freeze"),
        ("--freeze action=none.zarr", "--freeze"),
        ("--seeds seeds.csv --model nntuck --core-shape 2x2x2", "--seeds"),
    ],
)
def test_bad_options_are_refused_by_their_names(run, folder, monkeypatch, given, named):
    monkeypatch.chdir(folder)
    code, _, told = run("fit", "y.npz", *([] if "nntuck" in given else SHORT[:2]), *given.split())
    assert (code, named in told) == (2, True)
