"""The exceptions: what a user can get wrong, what can go wrong with a run on disk; and the commonest rule."""

import operator


class InputError(ValueError):
    """A value given by the user breaks a rule; the message names the argument, the value and the rule."""


class StoreError(OSError):
    """A run on disk cannot be written, read or continued; the message says why, and what is safe."""


def whole_number(name: str, value: object, shown: object = None, least: int = 1) -> int:
    """`value` as an int of at least `least`, or an error that names the argument and what is `shown` of it."""
    subject, shown = ("it", value) if shown is None else ("every entry", shown)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise InputError(f"{name} is {shown!r}, but {subject} must be a whole number of at least {least}")
    return number
