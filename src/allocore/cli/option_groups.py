"""Groups of options that several commands share: they appear in the help, and the function gets one argument."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

Command = Callable[..., None]
# For each option, its annotation for Typer and its default.
Options = Mapping[str, tuple[Any, Any]]


def takes(argument: str, options: Options, gathered: Callable[[dict[str, Any]], Any]) -> Callable[[Command], Command]:
    """Replace an argument of a command by options; it receives the result of `gathered` on their values."""
    kind = inspect.Parameter.KEYWORD_ONLY
    group = [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command)
        # The options stand in the help where the argument stands in the signature.
        parts = [group if each.name == argument else [each] for each in own.parameters.values()]
        parameters = [each for part in parts for each in part]

        @wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(name) for name in options}
            command(**given, **{argument: gathered(values)})

        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
