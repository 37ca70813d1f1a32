"""The properties that the page of a class lists.

The fields of a dataclass are left out: its parameters describe them.
"""

import inspect
from functools import cached_property

import allocore as ac


def documented_properties() -> dict[str, list[str]]:
    """The names of the documented properties of every public class, by the name of the class."""
    classes = {name: getattr(ac, name) for name in ac.__all__ if inspect.isclass(getattr(ac, name))}
    return {name: [each for each in dir(found) if _is_documented(found, each)] for name, found in classes.items()}


def _is_documented(found: type, name: str) -> bool:
    member = inspect.getattr_static(found, name)
    return (
        isinstance(member, property | cached_property)
        and not name.startswith("_")
        and _is_public(inspect.getdoc(member))
    )


def _is_public(text: str | None) -> bool:
    """Whether a docstring describes something for users: Sphinx marks the rest as `:meta private:`."""
    return bool(text) and ":meta private:" not in str(text)
