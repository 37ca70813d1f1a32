"""Public classes and functions explain themselves: parameters, what they return, and an example that runs."""

import dataclasses
import inspect
import re

import pytest

import allocore as ac

CLASSES = (ac.Posterior, ac.Diagnosis, ac.Comparison, ac.Selection)
FUNCTIONS = (ac.open_run, ac.compare, ac.select_budget)


def sections(thing):
    """The numpydoc sections of a docstring: from heading to text."""
    parts = re.split(r"^(\w+)\n-+\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def members():
    """Every public function and every public method and property of the public classes."""
    for function in FUNCTIONS:
        yield pytest.param(function, id=function.__name__)
    for thing in CLASSES:
        for name, member in inspect.getmembers(
            thing, lambda each: inspect.isfunction(each) or isinstance(each, property)
        ):
            if not name.startswith("_"):
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
    signature = inspect.signature(member.fget if isinstance(member, property) else member)
    assert documented(told.get("Parameters", "")) == set(signature.parameters) - {"self"}
    assert ("Returns" in told) == (signature.return_annotation is not None)
    assert ">>> " in told["Examples"]


@pytest.mark.parametrize(
    "thing", [each for each in CLASSES if dataclasses.is_dataclass(each)], ids=lambda each: each.__name__
)
def test_a_public_dataclass_tells_its_attributes_and_an_example(thing):
    told = sections(thing)
    assert documented(told["Attributes"]) == {field.name for field in dataclasses.fields(thing)}
    assert ">>> " in told["Examples"]
