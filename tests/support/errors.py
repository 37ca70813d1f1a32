"""Errors by their fields: a test says which argument is refused, never in which words."""

from contextlib import contextmanager
from pathlib import Path

import pytest

import allocore as ac

ANY = object()


@contextmanager
def refused(argument, value=ANY, rule=""):
    """Expect an `InputError` about an argument; if given, with this value and with `rule` in its rule."""
    with pytest.raises(ac.InputError) as caught:
        yield caught
    error = caught.value
    assert error.argument == argument, str(error)
    if value is not ANY:
        assert error.value == value, str(error)
    assert rule in error.rule, str(error)
    assert "\n" not in str(error)


@contextmanager
def refused_file(path, problem=""):
    """Expect a `StoreError` about a file or folder; if given, with `problem` in what is wrong with it."""
    with pytest.raises(ac.StoreError) as caught:
        yield caught
    assert Path(caught.value.path) == Path(path), str(caught.value)
    assert problem in caught.value.problem, str(caught.value)
