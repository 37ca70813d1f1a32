"""A run as a DataTree: the ArviZ schema, real labels, settings and seed; and the same from a Zarr folder."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import xarray as xr
from scipy.special import logsumexp

import allocore as ac
from allocore.classes.consensus import class_shares
from allocore.classes.datatree import _sampled_zeros
from allocore.classes.profiles import ClassReader
from allocore.storage.run_reader import stored_tree
from allocore.storage.zarr_format import ADDED_STATS
from support.errors import refused
from support.tiers import parametrize_few

GROUPS = {"posterior", "sample_stats", "sweep_stats", "observed_data", "constant_data"}
LABELS = [["Ada", "Zoë", "Cy", "日本"], None, ["x", "a longer label"]]


def tensor(mode_names=("who", "what", "when"), labels=LABELS):
    Y = np.random.default_rng(5).poisson(1.2, (4, 3, 2))
    return ac.as_tensor(Y, mode_names=mode_names, labels=labels).with_missing([(0, 0, None), (None, 2, 1)])


def fitted(Y=None, **settings):
    options = {"burn_in": 3, "draws": 4, "thin": 2, "chains": 2, "seed": 8, "progress": False, "threads": 1}
    options |= {"likelihood": "poisson", **settings}
    return ac.AlloCore(3, (3, 2, 4), f0=2.0, **options).fit(tensor() if Y is None else Y).posterior_


@pytest.fixture(scope="module")
def post():
    return fitted()


@pytest.fixture
def tree(post):
    return post.to_datatree()


# The schema


def test_the_groups_are_those_of_the_schema_and_the_trace_of_all_sweeps(tree):
    assert set(tree.children) == GROUPS


def test_chain_and_draw_come_first_everywhere(tree):
    for name, variable in tree["posterior"].data_vars.items():
        assert variable.dims[:2] == ("chain", "draw"), name
    for name, variable in tree["sample_stats"].data_vars.items():
        assert variable.dims[:2] == ("chain", "draw"), name
    for name, variable in tree["sweep_stats"].data_vars.items():
        assert variable.dims[:2] == ("chain", "sweep"), name


def test_the_posterior_group_holds_the_draws_under_named_dimensions(post, tree):
    group = tree["posterior"]
    dims = {name: variable.dims[2:] for name, variable in group.data_vars.items()}
    assert dims == {
        "core_values": ("q",),
        "core_locations": ("q", "mode"),
        "factors_who": ("who", "who_factor"),
        "factors_what": ("what", "what_factor"),
        "factors_when": ("when", "when_factor"),
        "expected_total": (),
        "class_share": ("class",),
    }
    np.testing.assert_array_equal(group["core_values"], post.core_values)
    np.testing.assert_array_equal(group["core_locations"], post.core_locations)
    for name, factor in zip(post.tensor.mode_names, post.factors, strict=True):
        np.testing.assert_array_equal(group[f"factors_{name}"], factor)


def test_labels_are_coordinates_and_unlabelled_modes_have_positions(tree):
    group = tree["posterior"]
    assert group["who"].values.tolist() == LABELS[0]
    assert group["what"].values.tolist() == [0, 1, 2]
    assert group["when"].values.tolist() == LABELS[2]
    assert group["mode"].values.tolist() == ["who", "what", "when"]
    assert group["q"].values.tolist() == [0, 1, 2]
    assert group["when_factor"].values.tolist() == [0, 1, 2, 3]
    assert (group["chain"].size, group["draw"].size) == (2, 4)


def test_a_factor_can_be_asked_for_by_label(post, tree):
    told = tree["posterior"]["factors_who"].sel(who="Zoë", chain=1, draw=2)
    np.testing.assert_array_equal(told, post.factors[0][1, 2, 1])


def test_sample_stats_are_the_sweeps_that_gave_the_draws_and_sweep_stats_all_of_them(post, tree):
    names = {"log_likelihood", "classes", "factors", "moved", "seconds", *ADDED_STATS}
    assert set(tree["sweep_stats"].data_vars) == names
    for name in names:
        of_draws = "log_likelihood_total" if name == "log_likelihood" else name
        np.testing.assert_array_equal(tree["sweep_stats"][name], post.stats[name])
        np.testing.assert_array_equal(tree["sample_stats"][of_draws], post.stats[name][:, [4, 6, 8, 10]])
    assert "log_likelihood" not in tree["sample_stats"].data_vars, "ArviZ would take it for values of single cells"
    assert tree["sample_stats"]["factors"].dims == ("chain", "draw", "mode")
    assert tree["sweep_stats"].sizes["sweep"] == 11


def test_the_data_can_be_made_again_from_the_tree(post, tree):
    observed, constant = tree["observed_data"], tree["constant_data"]
    again = ac.CountTensor(
        observed["coords"].values,
        observed["counts"].values,
        constant["shape"].values,
        mode_names=constant["mode"].values.tolist(),
        labels=LABELS,
        missing=constant["missing_patterns"].values,
    )
    assert again == post.tensor


def test_settings_and_seed_are_attributes(tree):
    settings = json.loads(tree.attrs["settings"])
    assert settings["schedule"] == {"burn_in": 3, "draws": 4, "thin": 2}
    assert settings["spec"]["budget"] == 3
    assert settings["spec"]["core_shape"] == [3, 2, 4]
    assert settings["spec"]["f0"] == 2.0
    assert settings["spec"]["model"] == "AlloCore"
    assert tree.attrs["seed"] == "8"
    assert tree.attrs["inference_library"] == "allocore"
    assert tree.attrs["inference_library_version"] == ac.__version__


def test_a_large_seed_is_kept_exactly():
    assert fitted(seed=2**70 + 1, draws=1).to_datatree().attrs["seed"] == str(2**70 + 1)


def test_settings_may_be_whole_numbers_of_numpy():
    tree = fitted(burn_in=np.int64(2), draws=np.int32(3), thin=np.uint8(1)).to_datatree()
    assert json.loads(tree.attrs["settings"])["schedule"] == {"burn_in": 2, "draws": 3, "thin": 1}


@parametrize_few(
    "names",
    [
        ("q", "chain", "mode"),
        ("draw", "sweep", "cell"),
        ("pattern", "counts", "coords"),
        ("shape", "factors", "moved"),
        ("two words", "per cent %", "日"),
    ],
)
def test_modes_may_have_the_names_of_the_schemas_own_dimensions(names, tmp_path):
    post = fitted(tensor(names))
    tree = post.to_datatree()
    for name, labels, factor in zip(names, post.tensor.labels, post.factors, strict=True):
        variable = tree["posterior"][f"factors_{name}"]
        assert variable.dims[:2] == ("chain", "draw")
        assert len(set(variable.dims)) == 4
        np.testing.assert_array_equal(variable, factor)
        assert variable.coords[variable.dims[2]].values.tolist() == list(labels)
    assert tree["posterior"]["core_values"].dims == ("chain", "draw", "q")
    post.save(tmp_path / "run.zarr")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as again:
        assert again["posterior"]["mode"].values.tolist() == list(names)


@pytest.mark.parametrize(
    "names",
    [
        ("class", "class_mode", "x"),
        ("who", "x", "who_factor"),
        ("core_values", "x", "y"),
        ("who", "factors_who", "x"),
        ("km/h", "x", "y"),
    ],
)
def test_a_posterior_whose_mode_names_meet_the_schemas_can_still_be_laid_out(names):
    post = fitted(tensor(names))
    posterior = post.to_datatree()["posterior"].to_dataset()
    assert len(posterior.data_vars) == 7
    for labels, factor in zip(post.tensor.labels, post.factors, strict=True):
        held = [each for each in posterior.data_vars.values() if np.array_equal(each, factor)]
        assert held
        assert held[0].coords[held[0].dims[2]].values.tolist() == list(labels)


# Files


def test_a_saved_run_is_opened_by_plain_xarray_to_identical_values(post, tree, tmp_path):
    post.save(tmp_path / "run.zarr")
    assert os.listdir(tmp_path) == ["run.zarr"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as opened:
            again = opened.load()
    assert set(again.children) == GROUPS
    assert again.attrs == tree.attrs
    for group in GROUPS:
        here = stored_tree(post.record)[group].to_dataset()
        xr.testing.assert_identical(again[group].to_dataset(), here)
        for name, variable in here.variables.items():
            assert again[group].to_dataset().variables[name].dtype.kind == variable.dtype.kind, name


@pytest.mark.slow
def test_a_saved_run_is_opened_without_allocore_and_without_a_warning(post, tmp_path):
    post.save(tmp_path / "run.zarr")
    code = (
        "import sys, xarray\n"
        "tree = xarray.open_datatree(sys.argv[1], engine='zarr').load()\n"
        "assert 'allocore' not in sys.modules\n"
        "print(tree['posterior']['core_values'].sum().item())\n"
    )
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, tmp_path / "run.zarr"], capture_output=True, text=True
    )
    assert (told.returncode, told.stderr) == (0, "")
    assert float(told.stdout) == pytest.approx(post.core_values.sum(), rel=1e-12)


def test_a_path_may_be_text_and_relative(post, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    post.save("run.zarr")
    assert os.listdir() == ["run.zarr"]


@pytest.mark.parametrize("kind", ["file", "folder", "run"])
def test_what_exists_is_never_written_over(post, tmp_path, kind):
    target = tmp_path / "run.zarr"
    if kind == "file":
        target.write_text("precious")
    elif kind == "folder":
        target.mkdir()
    else:
        fitted(seed=1, draws=1).save(target)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with refused("path", str(target), "already a run" if kind == "run" else "must be a path that does not exist yet"):
        post.save(target)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    if kind == "file":
        assert target.read_text() == "precious"


def test_a_folder_that_does_not_exist_is_named(post, tmp_path):
    target = tmp_path / "nowhere" / "run.zarr"
    with refused("path", str(target), f"must be in a folder that exists: {str(target.parent)!r}"):
        post.save(target)
    assert os.listdir(tmp_path) == []


def test_a_failure_leaves_nothing_behind(post, tmp_path, monkeypatch):
    for error in (OSError("no space left on device"), KeyboardInterrupt(), MemoryError()):

        def to_zarr(tree, store, error=error, **options):
            (store / "half").write_text("written")
            raise error

        monkeypatch.setattr(xr.DataTree, "to_zarr", to_zarr)
        with pytest.raises(type(error)):
            post.save(tmp_path / "run.zarr")
        assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    post.save(tmp_path / "run.zarr")
    assert os.listdir(tmp_path) == ["run.zarr"]


@pytest.mark.parametrize("model", [ac.CP(2), ac.Tucker((2, 1, 2))], ids=repr)
def test_runs_of_the_other_models_are_saved_too(model, tmp_path):
    model.set_params(burn_in=1, draws=1, thin=1, chains=1, seed=0, progress=False)
    model.fit(tensor()).posterior_.save(tmp_path / "run.zarr")
    with xr.open_datatree(tmp_path / "run.zarr", engine="zarr") as again:
        assert json.loads(again.attrs["settings"])["spec"]["model"] == type(model).__name__
        np.testing.assert_array_equal(again["posterior"]["core_values"], model.posterior_.core_values)


# ArviZ itself


def arviz():
    """ArviZ of this Python: 1 or later takes a DataTree, 0.23 an InferenceData. It warns on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


def for_arviz(az, tree):
    """What the documentation of `to_datatree` says."""
    return tree if int(az.__version__.split(".")[0]) >= 1 else az.from_datatree(tree)


def test_arviz_summarises_the_run_and_names_its_parts_by_the_labels_of_the_tensor(tree):
    az = arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = az.summary(for_arviz(az, tree), var_names=["log_likelihood_total", "classes"], group="sample_stats")
        factors = az.summary(for_arviz(az, tree), var_names=["factors_who"])
    assert "factors_who[Ada, 0]" in factors.index
    assert list(found.index) == ["log_likelihood_total", "classes"]
    expected = float(tree["sample_stats"]["log_likelihood_total"].mean())
    assert float(found.loc["log_likelihood_total", "mean"]) == pytest.approx(expected, rel=0.05)


@pytest.mark.slow
def test_arviz_plots_traces_of_the_run(tree):
    az = arviz()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert az.plot_trace(for_arviz(az, tree), var_names=["class_share", "expected_total"]) is not None
        assert plt.get_fignums(), "a figure was drawn"
    plt.close("all")


# What ArviZ can use: identified quantities, and log-likelihoods of single cells


@pytest.fixture(scope="module")
def planted():
    """Two fits to one split of counts with two clear classes: of two classes, and of one."""
    rates = np.zeros((8, 8, 4))
    rates[:4, :4], rates[4:, 4:] = 4.0, 1.0
    names = ["who", "whom", "when"]
    split = ac.hold_out(ac.as_tensor(np.random.default_rng(2).poisson(rates + 0.02), mode_names=names), 0.2, seed=1)
    common = {"burn_in": 60, "draws": 40, "thin": 1, "chains": 2, "seed": 4, "progress": False, "threads": 1}
    return [ac.CP(rank, likelihood="negative-binomial", **common).fit(split).posterior_ for rank in (2, 1)]


@pytest.fixture(scope="module")
def trees(planted):
    return [post.to_datatree(log_likelihood="cells") for post in planted]


def test_what_is_identified_stands_beside_numbers_without_a_meaning(planted, trees):
    post, group = planted[0], trees[0]["posterior"]
    found = post.consensus()
    assert group["class"].values.tolist() == found.numbers.tolist()
    assert group["class_share"].attrs["names"] == list(found.names)
    np.testing.assert_allclose(group["class_share"].mean(("chain", "draw")), found.share)
    np.testing.assert_allclose(group["dispersion"], post.dispersion)
    whole = ac.as_tensor(np.ones(post.tensor.shape, dtype=int)).coords
    observed = ~post.tensor.missing.contains(whole)
    total = post.expected(whole[:, observed]).sum()
    assert float(group["expected_total"].mean()) == pytest.approx(total)
    for name, variable in group.data_vars.items():
        assert ("no meaning" in variable.attrs["description"]) == (name.startswith(("core_", "factors_")))


def test_shares_of_all_draws_are_those_of_the_consensus(planted):
    post = planted[0]
    shares = class_shares(ClassReader(post.record), post.consensus().estimates.mean_profiles)
    np.testing.assert_allclose(shares, post.consensus().shares_by_draw)


def test_the_log_likelihood_of_held_out_cells_gives_their_log_ppd(planted):
    post = planted[0]
    group = post.to_datatree(log_likelihood="held-out")["log_likelihood"]
    assert group["counts"].dims == ("chain", "draw", "cell")
    pointwise = logsumexp(group["counts"].values, axis=(0, 1)) - np.log(80)
    np.testing.assert_allclose(pointwise, post.log_predictive(post.held_out))
    assert pointwise.mean() == pytest.approx(post.log_ppd(post.held_out))
    assert group.attrs["cells"] == "held-out"


def test_the_log_likelihood_of_all_cells_has_every_count_and_a_stated_sample_of_zeros(planted, trees, monkeypatch):
    post, group = planted[0], trees[0]["log_likelihood"]
    total = trees[0]["sample_stats"]["log_likelihood_total"]
    np.testing.assert_allclose(group["counts"].sum("cell"), total)
    monkeypatch.setattr("allocore.classes.datatree._ZEROS", 0)
    few = post.to_datatree(log_likelihood="cells")["log_likelihood"]
    nonzeros = post.tensor.nnz
    zeros = post.tensor.volume - post.tensor.missing.cells - nonzeros
    sampled = min(nonzeros, zeros)
    assert (few.attrs["nonzeros"], few.attrs["zeros"], few.attrs["zeros_sampled"]) == (nonzeros, zeros, sampled)
    assert few.attrs["weight_of_a_zero"] == pytest.approx(zeros / sampled)
    assert float(few["weight"].sum()) == pytest.approx(nonzeros + zeros)
    places = few["place"].values
    assert not post.tensor.missing.contains(places).any()
    assert len(np.unique(places, axis=1).T) == nonzeros + sampled


def test_zeros_of_a_large_tensor_are_drawn_without_visiting_all_of_them(planted, monkeypatch):
    tensor = planted[0].tensor
    monkeypatch.setattr("allocore.classes.datatree.MOST_CELLS", 1)
    zeros = _sampled_zeros(tensor, 50)
    assert len(np.unique(zeros, axis=1).T) == 50
    assert not tensor.missing.contains(zeros).any()
    assert tensor.to_dense()[tuple(zeros)].sum() == 0


def test_arviz_compares_models_by_single_cells_and_refuses_the_total(planted, trees):
    az = arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        two, one = (for_arviz(az, tree) for tree in trees)
        loo = az.loo(two)
        assert loo.n_data_points == trees[0]["log_likelihood"].sizes["cell"]
        assert list(az.compare({"two": two, "one": one}).index) == ["two", "one"]
        with pytest.raises(TypeError, match="log likelihood not found"):
            az.loo(for_arviz(az, planted[0].to_datatree()))
        names = ["class_share", "expected_total", "dispersion"]
        table = az.summary(two, var_names=names)
    assert len(table) == len(planted[0].consensus().numbers) + 2
    assert np.isfinite(table["mean"]).all()


def test_what_the_log_likelihood_cannot_be_of_is_refused(post):
    with refused("log_likelihood", "held-out", "the run has none"):
        post.to_datatree(log_likelihood="held-out")
    with refused("log_likelihood", "all", "must be one of held-out, cells"):
        post.to_datatree(log_likelihood="all")
