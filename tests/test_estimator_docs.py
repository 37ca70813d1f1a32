"""The docstrings of the estimators are complete, true to the code, and say the same of the same setting."""

import dataclasses
import inspect
import re

import pytest

import allocore as ac

MODELS = [ac.AlloCore, ac.CP, ac.Tucker, ac.NNTuck]
METHODS = [
    getattr(model, name)
    for model in MODELS
    for name in ("fit", "get_params", "set_params", "resume")
    if hasattr(model, name)
]


def sections(thing):
    """The numpydoc sections of a docstring, by name."""
    pieces = re.split(r"^(\w+)\n-+\n", inspect.getdoc(thing), flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def entries(thing, section):
    """What a section says: name -> (type, text)."""
    pattern = r"^(\*{0,2}\w+(?:, \w+)*)(?: : (.+))?\n((?:    .*\n?|\n)+)"
    found = re.findall(pattern, sections(thing)[section], flags=re.MULTILINE)
    return {name: (kind, " ".join(text.split())) for names, kind, text in found for name in names.split(", ")}


def test_the_parser_reads_names_types_and_texts():
    kind, text = entries(ac.AlloCore, "Parameters")["core_shape"]
    assert kind == "sequence of int, default=None"
    assert text == "K_m, the number of factors of each mode. None means Q in every mode."


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_is_described_with_its_type_and_true_default(model):
    told = entries(model, "Parameters")
    assert set(told) == {field.name for field in dataclasses.fields(model)}
    for field in dataclasses.fields(model):
        kind, text = told[field.name]
        required = field.default is dataclasses.MISSING
        assert kind, field.name
        assert (None if required else f"{field.default!r}") == (
            kind.split("default=")[1] if "default=" in kind else None
        )
        assert text.endswith("."), field.name


@pytest.mark.parametrize("model", MODELS)
def test_every_result_is_described_with_its_type(model):
    told = entries(model, "Attributes")
    assert set(told) == set(model._fitted)
    assert all(kind and text.endswith(".") for kind, text in told.values())


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_an_example(model):
    assert ">>> " in sections(model)["Examples"]


def test_the_same_setting_is_described_in_the_same_words():
    told = [(model.__name__, name, entry) for model in MODELS for name, entry in entries(model, "Parameters").items()]
    # ALL0CORE has a core shape by default; for Tucker and NNTuck it is the size of the model.
    told = [each for each in told if each[:2] != ("AlloCore", "core_shape")]
    words = {name: {entry for _, other, entry in told if other == name} for _, name, _ in told}
    assert {name: entry for name, entry in words.items() if len(entry) > 1} == {}
    assert {"seed", "threads", "progress", "core_shape"} <= words.keys()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_every_method_describes_its_arguments_its_result_and_an_example(method):
    signature = inspect.signature(method).parameters.values()
    names = [
        f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name for each in signature if each.name != "self"
    ]
    told = entries(method, "Parameters")
    assert list(told) == names
    assert all(text.endswith(".") for _, text in told.values())
    assert {"Returns", "Examples"} <= sections(method).keys()
