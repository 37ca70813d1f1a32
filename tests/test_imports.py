"""What `import allocore` loads, and that imports between the folders point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import allocore as ac

SOURCE = Path(ac.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = ["numba", "scipy", "pandas", "xarray", "zarr", "duckdb", "narwhals", "rich", "typer", "matplotlib", "dask"]
LONGEST = 400

EVERYWHERE = ("errors", "_files", "_locks", "_quartiles", "_progress_display")
MAY_IMPORT = {
    "errors": (),
    "_files": (),
    "_locks": (),
    "_quartiles": (),
    "_progress_display": (),
    "data": ("data",),
    # The states of a model have the exp and log of the sampler, so that a stored draw has the same bytes everywhere.
    "model": ("data", "model", "kernels.elementary"),
    "kernels": ("data", "kernels"),
    "gibbs": ("data", "model", "kernels", "gibbs"),
    "run": ("data", "model", "kernels", "gibbs", "run"),
    # EM shares with the chains of Gibbs sampling what a run is, not how they are drawn.
    "em": ("data", "model", "kernels", "em", "run.progress", "run.record", "run.schedule", "run.stop"),
    # A posterior reads finished runs: it knows nothing of how they were drawn. New rows are drawn for it, given a run.
    "posterior": (
        "data", "model", "kernels", "posterior", "run.record", "run.datatree", "run.damage", "run.run_reader",
        "run.zarr_store", "run.fold_in", "run.schedule",
    ),
    "estimator_base": ("kernels.workers",),
    "gibbs_estimator": ("data", "model", "run", "posterior", "estimator_base"),
    "estimators": ("data", "model", "gibbs_estimator"),
    "nntuck": ("data", "model", "em", "posterior", "estimator_base", "estimators"),
    # The command line is one call of the public API, the tables on the screen, and a look at a run on disk.
    "cli": (
        "", "cli", "data", "model", "kernels.workers", "run.memory_needs", "run.run_reader", "run.schedule",
        "run.zarr_store", "posterior", "figures", "explorer", "estimators", "comparison.folder",
    ),
    # What people look at is made of the posterior, and nothing but the command line is made of it.
    "figures": ("data", "posterior", "figures"),
    "explorer": ("data", "posterior", "explorer"),
    # A comparison is many calls of the public API, and what people look at afterwards.
    "comparison": (
        "", "comparison", "data", "model.spec", "kernels.workers", "gibbs.version", "run.plan", "run.schedule",
        "run.cluster", "run.stop", "figures", "estimators",
    ),
    # The package itself has a name for everything that is public.
    "__init__": ("data", "posterior", "figures", "explorer", "estimators", "nntuck", "comparison"),
}  # fmt: skip


def dotted(path):
    """The name of a module below the package: gibbs.sweep, estimators, __init__."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imported(path):
    """All modules of the package that a file imports, at the top, in functions or for the type checker."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import, which this test cannot follow"
            # `from allocore.gibbs import sweep` imports allocore.gibbs.sweep.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            names = [max((name for name in names if is_module(name)), key=len, default=node.module)]
        else:
            continue
        for name in names:
            if name == "allocore" or name.startswith("allocore."):
                yield name.removeprefix("allocore").removeprefix(".")


def is_module(name):
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def lies_in(module, place):
    return module == place or (place != "" and module.startswith(f"{place}."))


def test_imports_between_the_folders_point_one_way():
    wrong = []
    for path in MODULES:
        allowed = (*MAY_IMPORT[dotted(path).partition(".")[0]], *EVERYWHERE)
        modules = [module for module in imported(path) if not any(lies_in(module, place) for place in allowed)]
        wrong += [f"{dotted(path)} imports {module}" for module in modules]
    assert wrong == []


def test_the_parser_of_imports_sees_what_there_is():
    assert {"model.spec", "model.state", "gibbs.thinning"} <= set(imported(SOURCE / "gibbs" / "sweep.py"))
    assert "posterior.prediction" in set(imported(SOURCE / "posterior" / "cell_predictions.py")), "inside a function"
    assert "model.sweep_info" in set(imported(SOURCE / "run" / "progress.py")), "for the type checker"
    assert "" in set(imported(SOURCE / "cli" / "fit_commands.py")), "the package itself"
    assert not lies_in("run.store", "run.record")
    assert lies_in("run.record", "run")


def test_no_module_is_longer_than_400_lines():
    assert [dotted(path) for path in MODULES if len(path.read_text().splitlines()) > LONGEST] == []


def test_no_two_modules_have_the_same_name():
    names = [path.stem for path in MODULES if path.stem != "__init__"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def modules_loaded_by(code):
    told = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in told.stdout.split()}


def test_importing_the_package_loads_nothing_heavy():
    loaded = modules_loaded_by("import allocore")
    assert "allocore" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_naming_the_models_and_the_data_loads_no_compiler_and_no_tables():
    models = "ac.AlloCore(5), ac.CP(2), ac.Tucker((2, 2)), ac.NNTuck((2, 2))"
    loaded = modules_loaded_by(f"import allocore as ac\n{models}, ac.load_flights()")
    assert loaded.isdisjoint(HEAVY)


def test_the_command_line_loads_what_its_help_needs_and_nothing_that_takes_long():
    loaded = modules_loaded_by("import allocore.cli")
    assert loaded.isdisjoint(set(HEAVY) - {"rich", "typer"} | {"arviz_stats"})


@pytest.mark.parametrize("name", ac.__all__)
def test_every_public_name_exists_and_says_what_it_is(name):
    thing = getattr(ac, name)
    assert thing.__name__.removeprefix("allocore.") == name
    assert thing.__doc__
    assert len(thing.__doc__.strip()) > 20


def test_public_names_are_listed():
    assert set(ac.__all__) < set(dir(ac))
    assert len(set(ac.__all__)) == len(ac.__all__)


def test_the_version_is_that_of_the_installed_package():
    from importlib.metadata import version

    assert ac.__version__ == version("allocore")


@pytest.mark.parametrize("name", ["nonsense", "Allocore", "_HOME"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=f"^module 'allocore' has no attribute '{name}'$"):
        getattr(ac, name)
    assert not hasattr(ac, name)
