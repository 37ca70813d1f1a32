"""What `import allocore` loads, and the graph of imports: one direction, no cycles, no private names of others."""

import ast
import subprocess
import sys
from functools import cache
from typing import NamedTuple

import pytest

import allocore as ac
from support.source_code import SOURCE, syntax

HEAVY = [
    "numba",
    "scipy",
    "pandas",
    "xarray",
    "zarr",
    "duckdb",
    "narwhals",
    "rich",
    "typer",
    "matplotlib",
    "dask",
    "sklearn",
    "networkx",
]

# The layers of the system. A part may import those before it, never those after it or on the same line.
LAYERS = [
    {"errors", "_text"},
    {"findings"},
    {"_io", "_memory"},
    {"_zarr"},
    {"tensor"},
    {"events", "kernels"},
    {"model"},
    {"gibbs"},
    {"storage"},
    {"progress"},
    {"run"},
    {"em"},
    {"posterior"},
    {"classes"},
    {"forecast"},
    {"diagnosis", "growth"},
    {"report"},
    {"results"},
    {"estimators", "figures"},
    {"comparison"},
    {"__init__"},
    {"cli"},
]
LAYER = {part: number for number, parts in enumerate(LAYERS) for part in parts}


class Import(NamedTuple):
    """One name that a module imports from another; `for_types` if only the type checker sees it."""

    module: str
    target: str
    name: str
    for_types: bool


def dotted(path):
    """The name of a module below the package: gibbs.sweep, estimators, __init__ for the package itself."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


MODULES = {dotted(path): path for path in sorted(SOURCE.rglob("*.py"))}


def module_named(name):
    """The module that holds a dotted name below the package: `gibbs.sweep.sweep` is in `gibbs.sweep`."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or "__init__"


def imports_of(module, nodes):
    """Every import of one module from another part of the package: at the top, in a function, for the type checker."""
    typed = {
        id(node)
        for block in nodes
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import, which this test cannot follow"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == "allocore":
                target = module_named(name.removeprefix("allocore").removeprefix("."))
                if target != module:
                    yield Import(module, target, name.rpartition(".")[2], id(node) in typed)


@cache
def all_imports():
    """Every import of a module of the package from another."""
    return [each for module, path in MODULES.items() for each in imports_of(module, syntax()[path])]


def part(module):
    return module.partition(".")[0]


def backwards(imports):
    """The imports that point from one part of the package to a later one, or to another one of the same layer."""
    return [
        f"{each.module} imports {each.target}"
        for each in imports
        if part(each.module) != part(each.target) and LAYER[part(each.target)] >= LAYER[part(each.module)]
    ]


def cycles(imports):
    """The sets of modules that import one another in a circle."""
    reached = {}
    for each in imports:
        reached.setdefault(each.module, set()).add(each.target)
    grown = True
    while grown:
        grown = False
        for targets in reached.values():
            more = set().union(*(reached.get(target, set()) for target in targets)) - targets
            targets |= more
            grown = grown or bool(more)
    circles = {
        frozenset(other for other in targets if module in reached.get(other, ()))
        for module, targets in reached.items()
        if module in targets
    }
    return sorted(sorted(circle) for circle in circles)


def test_imports_between_the_parts_point_one_way():
    assert backwards(all_imports()) == []


def test_every_part_of_the_package_has_a_layer():
    assert {part(module) for module in MODULES} == set(LAYER)


def test_no_modules_import_one_another_in_a_circle():
    assert cycles([each for each in all_imports() if not each.for_types]) == []


def test_no_private_name_is_imported_across_packages():
    private = [each for each in all_imports() if each.name.startswith("_") and each.name not in MODULES]
    assert [f"{each.module} imports {each.name}" for each in private if part(each.module) != part(each.target)] == []


def test_the_graph_has_what_is_there():
    found = {(each.module, each.target, each.for_types) for each in all_imports()}
    assert ("gibbs.sweep", "gibbs.thinning", False) in found
    assert ("results", "posterior.predict", False) in found, "inside a function"
    assert any(for_types for _, _, for_types in found), "for the type checker"
    assert ("cli.fit", "__init__", False) in found, "the package itself"


def test_a_wrong_import_is_found():
    assert backwards([Import("tensor.files", "events.tables", "x", False)])
    assert backwards([Import("events.tables", "kernels.jit", "x", True)]), "the same layer"
    assert not backwards([Import("events.tables", "tensor.files", "x", False)])


def test_a_circle_is_found():
    around = [Import(one, other, "x", False) for one, other in ("ab", "bc", "ca", "cd", "de")]
    assert cycles(around) == [["a", "b", "c"]]
    assert cycles(around[:2] + around[3:]) == []


def private_names(nodes):
    """The attributes with one underscore that a module reads, and those that it defines."""
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    defined = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    defined |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    defined |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    private = {name for name in used if name.startswith("_") and not name.startswith("__")}
    return private, defined


# Names with an underscore that named tuples and Python's own modules give to everybody.
LIBRARIES = {"_replace", "_fields", "_asdict", "_make", "_exit"}


def test_no_private_name_of_another_package_is_used():
    foreign = {}
    for package in {part(module) for module in MODULES}:
        names = [private_names(syntax()[path]) for module, path in MODULES.items() if part(module) == package]
        used, defined = (set().union(*each) for each in zip(*names, strict=True))
        foreign[package] = used - defined - LIBRARIES
    assert {package: sorted(names) for package, names in foreign.items() if names} == {}


def modules_loaded_by(code):
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in ended.stdout.split()}


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


def test_every_public_name_exists_and_says_what_it_is():
    for name in ac.__all__:
        thing = getattr(ac, name)
        assert thing.__name__.removeprefix("allocore.") == name
        assert len((thing.__doc__ or "").strip()) > 20, name


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
