"""The fingerprint of how a process rounds: the same twice, and another after a change in the last bit of one result."""

import re

import numpy as np
import pytest

from allocore.kernels import rounding as module
from allocore.kernels.rounding import rounding


@pytest.fixture(autouse=True)
def forgotten():
    """No test sees what another has planted."""
    rounding.cache_clear()
    yield
    rounding.cache_clear()


def test_a_fingerprint_is_16_digits_and_the_same_twice():
    first = rounding()
    rounding.cache_clear()
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert rounding() == first


@pytest.mark.parametrize("functions", ["_compiled", "_in_python", "_in_numpy"])
def test_one_last_bit_of_any_function_gives_another_fingerprint(monkeypatch, functions):
    before, real = rounding(), getattr(module, functions)
    results = range(len(real(module._points())))
    for place in results:

        def planted(points, place=place):
            found = [np.array(each) for each in real(points)]
            found[place].flat[-1] = np.nextafter(found[place].flat[-1], np.inf)
            return found

        monkeypatch.setattr(module, functions, planted)
        rounding.cache_clear()
        assert rounding() != before, f"result {place} of {functions} is not in the fingerprint"


def test_another_kind_of_processor_has_another_fingerprint(monkeypatch):
    before = rounding()
    monkeypatch.setattr(module.platform, "machine", lambda: "another")
    rounding.cache_clear()
    assert rounding() != before


def test_the_points_are_whole_numbers_times_powers_of_two():
    points = module._points()
    assert 2.0**-20 <= points.min() < 2.0**-19
    assert 2.0**5 <= points.max() < 2.0**6
    assert len(np.unique(points)) == len(points)
    assert (np.ldexp(points, 72) == np.floor(np.ldexp(points, 72))).all()
