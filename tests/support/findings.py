"""Warnings by their findings: a test says what was found, never in which words."""

import warnings
from contextlib import contextmanager


@contextmanager
def warned(kind, **values):
    """Expect a warning of this kind with these values, among others; yields the list of such warnings.

    Other warnings pass through. A value can be a function that says whether a value is right.
    """
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for each in caught:
        finding = getattr(each.message, "finding", None)
        if finding is not None and finding.kind == kind:
            found.append(each)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    assert found, f"no warning {kind!r}, but {[str(each.message) for each in caught]}"
    for each in found:
        for name, value in values.items():
            given = each.message.finding.values[name]
            assert value(given) if callable(value) else given == value, f"{name} is {given!r}"
