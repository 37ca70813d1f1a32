"""Errors are data: every error that the package raises has its fields, and its sentence is made from them."""

import ast
import pickle
from pathlib import Path

import pytest

from allocore.errors import NO_VALUE, Described, InputError, StoreError, whole_number
from support.source_code import SOURCE, syntax

FIELDS = {"InputError": 3, "NotInModelError": 3, "StoreError": 2}


def raised(nodes):
    """The calls that make an error, with their line."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FIELDS:
            yield node


def test_every_error_has_its_fields():
    calls = [(path, call) for path, nodes in syntax().items() for call in raised(nodes)]
    bare = []
    for path, call in calls:
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        named = {each.arg for each in call.keywords}
        if not (starred or len(call.args) == FIELDS[call.func.id] or "rule" in named):
            bare.append(f"{path.relative_to(SOURCE)}:{call.lineno}")
    assert len(calls) > 100
    assert bare == []


def test_the_sentence_names_the_argument_the_value_and_the_rule():
    error = InputError("burn_in", -1, "must be a whole number of at least 0")
    assert (error.argument, error.value, error.rule) == ("burn_in", -1, "must be a whole number of at least 0")
    assert str(error) == "burn_in is -1, but it must be a whole number of at least 0"


def test_a_value_can_be_in_words_or_left_out():
    assert str(InputError("Y", Described("an array of shape (3,)"), "must be 2-d")) == (
        "Y is an array of shape (3,), but it must be 2-d"
    )
    assert str(InputError("cells", rule="must not be empty")) == "cells must not be empty"


def test_a_long_value_is_shortened():
    assert len(str(InputError("labels", list(range(10_000)), "must have 3 entries"))) < 300


def test_arguments_can_be_called_by_another_name():
    error = InputError("max_budget", 3, "needs `budget` to be 'infer'")
    options = {"max_budget": "--max-budget", "budget": "--budget"}
    assert error.sentence(options.__getitem__) == "--max-budget is 3, but it needs --budget to be 'infer'"


@pytest.mark.parametrize("error", [InputError("seed", -1, "must be at least 0"), StoreError("run.zarr", "is damaged")])
def test_an_error_survives_pickling(error):
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_a_value_that_was_left_out_stays_left_out_after_pickling():
    again = pickle.loads(pickle.dumps(InputError("cells", rule="must not be empty")))
    assert again.value is NO_VALUE
    assert str(again) == "cells must not be empty"


def test_a_store_error_has_its_path_and_its_problem():
    error = StoreError(Path("runs") / "run.zarr", "does not exist")
    assert (error.path, error.problem) == (str(Path("runs") / "run.zarr"), "does not exist")
    assert str(error) == f"{error.path} does not exist"
    assert isinstance(error, OSError)


@pytest.mark.parametrize("value", [0, 1.5, "3", None, True])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(InputError) as caught:
        whole_number("chains", value)
    assert caught.value.argument == "chains"
    assert caught.value.value is value
