"""Public classes, functions and methods explain themselves: parameters, what they return, an example that runs."""

import dataclasses
import inspect
import re

import pytest

import allocore as ac

PUBLIC = [getattr(ac, name) for name in ac.__all__ if name != "figures"]
CLASSES = [thing for thing in PUBLIC if inspect.isclass(thing)]
FUNCTIONS = [thing for thing in PUBLIC if not inspect.isclass(thing)]
FUNCTIONS += [getattr(ac.figures, name) for name in ac.figures.__all__]
ERRORS = (ac.InputError, ac.StoreError)
# Tables and figures read a summary; its methods have one line each.
BRIEF = (ac.ClassSummary,)


def is_method(thing):
    return inspect.isfunction(thing) or inspect.ismethod(thing)


def sections(thing):
    """The numpydoc sections of a docstring: from heading to text."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def members():
    """Every public function and every public method of the public classes."""
    for function in FUNCTIONS:
        yield pytest.param(function, id=function.__name__)
    for thing in CLASSES:
        for name, member in inspect.getmembers(thing, is_method):
            if not name.startswith("_") and thing not in BRIEF:
                yield pytest.param(member, id=f"{thing.__name__}.{name}")


def documented(text):
    """The names with a type that a section explains: "draw, chain : int" has two."""
    found = re.findall(r"^([\w*, ]+?) : ", text, flags=re.MULTILINE) + re.findall(
        r"^(\*\*\w+)$", text, flags=re.MULTILINE
    )
    return {name.strip().lstrip("*") for names in found for name in names.split(",")}


@pytest.mark.parametrize("member", list(members()))
def test_a_public_member_tells_its_parameters_what_it_returns_and_an_example(member):
    told = sections(member)
    signature = inspect.signature(member)
    assert documented(told.get("Parameters", "")) == set(signature.parameters) - {"self"}
    assert ("Returns" in told) == (signature.return_annotation not in (None, "None"))
    assert ">>> " in told["Examples"]


@pytest.mark.parametrize("thing", CLASSES, ids=lambda each: each.__name__)
def test_a_public_class_tells_its_parameters_or_attributes_and_an_example(thing):
    told = sections(thing)
    if thing not in ERRORS:
        # A dataclass that users do not make themselves describes its fields as attributes.
        fields = "Attributes" if dataclasses.is_dataclass(thing) and "Parameters" not in told else "Parameters"
        assert documented(told[fields]) == set(inspect.signature(thing).parameters)
    assert ">>> " in told["Examples"]


@pytest.mark.parametrize("thing", BRIEF, ids=lambda each: each.__name__)
def test_methods_of_a_summary_say_what_they_return(thing):
    for name, member in inspect.getmembers(thing, is_method):
        assert name.startswith("_") or inspect.getdoc(member), name


def test_every_public_name_is_covered():
    assert {"CountTensor", "Missing", "Split", "HeldOut", "AlloCore"} <= {each.__name__ for each in CLASSES}
    assert {"as_tensor", "load_tensor", "read_events", "hold_out", "write_all"} <= {each.__name__ for each in FUNCTIONS}


def properties():
    for thing in CLASSES:
        for name, member in inspect.getmembers(thing, lambda each: isinstance(each, property)):
            if not name.startswith("_"):
                yield pytest.param(member, id=f"{thing.__name__}.{name}")


@pytest.mark.parametrize("member", list(properties()))
def test_a_public_property_says_what_it_is(member):
    assert inspect.getdoc(member)
