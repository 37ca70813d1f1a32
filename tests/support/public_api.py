"""All that users can call, found by introspection, so that new public names are covered without work."""

import inspect
import warnings
from dataclasses import fields, is_dataclass

import pandas as pd

import allocore as ac

CLASSES = tuple(
    each for name in ac.__all__ if inspect.isclass(each := getattr(ac, name)) and not issubclass(each, Exception)
)
FUNCTIONS = {f"ac.{name}": each for name in ac.__all__ if inspect.isfunction(each := getattr(ac, name))} | {
    f"ac.figures.{name}": getattr(ac.figures, name) for name in ac.figures.__all__
}


def members(kind):
    """The public methods and properties of a class, by name; inherited ones too."""
    found = {name: inspect.getattr_static(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {name: each for name, each in found.items() if callable(each) or isinstance(each, property | classmethod)}


def is_method(member):
    return inspect.isfunction(member)


def tables(things, values):
    """All tables that some objects have or return, by name; `values` are arguments by the name of the parameter."""
    found = {}
    for thing in things:
        kind = type(thing)
        promised = {
            name: inspect.signature(each).return_annotation if is_method(each) else each.fget.__annotations__["return"]
            for name, each in members(kind).items()
            if is_method(each) or isinstance(each, property)
        }
        if is_dataclass(thing):
            promised |= {each.name: each.type for each in fields(thing)}
        for name in [name for name, annotation in promised.items() if "DataFrame" in str(annotation)]:
            value = getattr(thing, name)
            if callable(value):
                parameters = inspect.signature(value).parameters
                with warnings.catch_warnings(action="ignore"):
                    value = value(**{each: values[each] for each in parameters if each in values})
            found[f"{kind.__name__}.{name}"] = value
    assert all(isinstance(each, pd.DataFrame) for each in found.values())
    return found
