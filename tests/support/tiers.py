"""Parameters of a test by tier: a few for every branch are quick, all other combinations are slow."""

import inspect
from itertools import product

import pytest
from hypothesis import given, settings


def by_tier(quick, *values):
    """All combinations of the values, as parameters of a test; those that `quick` does not list are slow."""
    combinations = list(product(*values))
    unknown = set(quick) - set(combinations)
    if unknown:
        raise ValueError(f"no combination of the values: {sorted(unknown)}")
    return [pytest.param(*each, marks=[] if each in quick else [pytest.mark.slow]) for each in combinations]


def given_by_tier(*values, quick, full=100, **named):
    """Like `given`: a few examples are quick, and as many as there would be otherwise are slow."""

    def decorate(check):
        tests = {number: settings(max_examples=number)(given(*values, **named)(check)) for number in (quick, full)}

        def test(examples, **fixtures):
            tests[examples](**fixtures)

        fixtures = inspect.signature(tests[quick]).parameters.values()
        examples = inspect.Parameter("examples", inspect.Parameter.KEYWORD_ONLY)
        test.__signature__ = inspect.Signature([*fixtures, examples])
        test.__name__, test.__module__, test.__doc__ = check.__name__, check.__module__, check.__doc__
        return pytest.mark.parametrize("examples", [quick, pytest.param(full, marks=pytest.mark.slow)])(test)

    return decorate


def parametrize_few(names, values, quick=2, **options):
    """Parametrize a test whose cases take the same path: the first few are quick, the others are slow."""
    several = not isinstance(names, str) or "," in names
    cases = []
    for place, value in enumerate(values):
        given = value if hasattr(value, "marks") else pytest.param(*value) if several else pytest.param(value)
        slow = (pytest.mark.slow,) if place >= quick else ()
        cases.append(given._replace(marks=(*given.marks, *slow)))
    return pytest.mark.parametrize(names, cases, **options)
