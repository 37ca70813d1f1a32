"""Public classes, functions and methods describe their parameters, what they return, and have an example that runs."""

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
MODELS = [ac.AlloCore, ac.CP, ac.Tucker, ac.NNTuck]
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


def entries(thing, section):
    """What a section describes, from name to type and text: "draw, chain : int" has two names."""
    pattern = r"^(\*{0,2}\w+(?:, \w+)*)(?: : (.+))?\n((?:    .*\n?|\n)+)"
    found = re.findall(pattern, sections(thing).get(section, ""), flags=re.MULTILINE)
    return {
        name.lstrip("*"): (kind, " ".join(text.split())) for names, kind, text in found for name in names.split(", ")
    }


@pytest.mark.parametrize("member", list(members()))
def test_a_public_member_describes_its_parameters_and_its_result_and_has_an_example(member):
    found = sections(member)
    signature = inspect.signature(member)
    described = entries(member, "Parameters")
    assert set(described) == set(signature.parameters) - {"self"}
    assert all(text.endswith((".", ":")) for _, text in described.values())
    assert ("Returns" in found) == (signature.return_annotation not in (None, "None"))
    assert ">>> " in found["Examples"]


@pytest.mark.parametrize("thing", CLASSES, ids=lambda each: each.__name__)
def test_a_public_class_describes_its_parameters_or_attributes_and_has_an_example(thing):
    found = sections(thing)
    if thing not in ERRORS:
        # A dataclass that users do not make themselves describes its fields as attributes.
        fields = "Attributes" if dataclasses.is_dataclass(thing) and "Parameters" not in found else "Parameters"
        assert set(entries(thing, fields)) == set(inspect.signature(thing).parameters)
    assert ">>> " in found["Examples"]


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


# The estimators


def test_the_parser_reads_names_types_and_texts():
    kind, text = entries(ac.AlloCore, "Parameters")["core_shape"]
    assert kind == "sequence of int, default=None"
    assert text == "K_m, the number of factors of each mode. None means Q in every mode."


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_has_its_type_and_true_default(model):
    described = entries(model, "Parameters")
    for field in dataclasses.fields(model):
        kind, text = described[field.name]
        required = field.default is dataclasses.MISSING
        assert kind, field.name
        assert (None if required else f"{field.default!r}") == (
            kind.split("default=")[1] if "default=" in kind else None
        )
        assert text.endswith("."), field.name


@pytest.mark.parametrize("model", MODELS)
def test_every_result_of_a_fit_is_described_with_its_type(model):
    described = entries(model, "Attributes")
    assert set(described) == set(model._fitted)
    assert all(kind and text.endswith(".") for kind, text in described.values())


def test_the_same_setting_is_described_in_the_same_words():
    described = [(model, name, entry) for model in MODELS for name, entry in entries(model, "Parameters").items()]
    # ALL0CORE has a core shape by default; for Tucker and NNTuck it is the size of the model.
    described = [each for each in described if each[:2] != (ac.AlloCore, "core_shape")]
    words = {name: {entry for _, other, entry in described if other == name} for _, name, _ in described}
    assert {name: entry for name, entry in words.items() if len(entry) > 1} == {}
    assert {"seed", "threads", "progress", "core_shape"} <= words.keys()
