"""How help is arranged: commands and options in groups, examples at the end, exit codes below all commands."""

import inspect
from typing import Any

import typer

# Also a table of the documentation (docs/_extensions/command_reference.py).
EXIT_CODES = {
    0: "all is well",
    1: "some fits of compare or select-budget failed; the others are there",
    2: "an error that one sentence explains: in the command, the data, files or memory",
    70: "a mistake in allocore: please report it, with what allocore --traceback prints",
    130: "stopped with Ctrl-C; allocore resume continues a run that --out has written",
}
_COMMANDS = {
    "Begin": ("demo", "info", "tensor"),
    "Fit": ("fit", "resume"),
    "Look": ("summary", "report", "figures"),
    "Predict and judge": ("predict", "evaluate", "fold-in", "forecast"),
    "Choose a model": ("compare", "select-budget"),
}
_OPTIONS = {
    "The model": ("model", "models", "budget", "budgets", "max_budget", "core_shape"),
    "The chains": ("burn_in", "draws", "thin", "chains", "sweeps", "seed", "start"),
    "NNTuck": ("restarts", "max_iter"),
    "Held-out cells": ("hold_out", "along", "splits", "criterion"),
    "Where it runs": ("threads", "jobs", "cluster", "retry"),
    "What is read": ("draw", "chain", "on_error"),
    "What is printed and written": (
        "out", "rows", "top", "number", "profiles", "factors", "draws_out", "figure", "formats", "title", "surprises",
        "open_it", "interval",
    ),
}  # fmt: skip
_EXAMPLE = "allocore "


def arrange_help(app: typer.Typer) -> None:
    """Put commands and options into groups, and the examples of a docstring at the end of its help."""
    panel_of = {name: panel for panel, names in _COMMANDS.items() for name in names}
    places = {name: place for place, name in enumerate(panel_of)}
    app.registered_commands.sort(key=lambda command: places[_name(command)])
    for command in app.registered_commands:
        command.rich_help_panel = panel_of[_name(command)]
        paragraphs = inspect.cleandoc(command.callback.__doc__ or "").split("\n\n")
        examples = [each for each in paragraphs if each.startswith(_EXAMPLE)]
        command.help = "\n\n".join(each for each in paragraphs if each not in examples)
        command.epilog = "\n\n".join(["[bold]Examples[/]", *(f"  {each}" for each in examples)]) if examples else None
        _group_options(command.callback)


def _name(command: Any) -> str:
    return str(command.name or command.callback.__name__)


def _group_options(callback: Any) -> None:
    panel_of = {name: panel for panel, names in _OPTIONS.items() for name in names}
    for name, parameter in inspect.signature(callback).parameters.items():
        for each in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(each, typer.models.OptionInfo) and each.rich_help_panel is None:
                each.rich_help_panel = panel_of.get(name)
