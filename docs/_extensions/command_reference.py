"""The page of the command line, written from the commands themselves: reference/command-line.md."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from rich.text import Text
from sphinx.application import Sphinx

import allocore.cli  # noqa: F401  registers the commands
from allocore.cli.app import EXIT_CODES
from allocore.cli.app import app as command_line

_OPENING = """\
# Command line

Every command calls the Python API once and prints the result. `allocore COMMAND --help` prints this text,
and `allocore --install-completion` sets up completion in the shell.

"""


def _plain(text: str | None) -> str:
    """Help without the marks for bold and colours."""
    return Text.from_markup(text or "").plain.strip()


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help; those that are commands as code."""
    parts = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    for is_code, group in groupby(parts, key=lambda part: part.startswith("allocore ")):
        lines = list(group)
        yield "\n".join(["```text", *lines, "```"]) if is_code else "\n\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")


def _panel(option: Any) -> str:
    """The group in which the help shows an option."""
    return getattr(option, "rich_help_panel", None) or ""


def _row(option: Any) -> str:
    names = [*option.opts, *option.secondary_opts] if option.param_type_name == "option" else [_cell(option.metavar)]
    text = _plain(getattr(option, "help", None))
    default = option.default
    if default not in (None, False, (), []) and not callable(default) and "efault" not in text:
        text += f" Default: {default}."
    return f"| {', '.join(f'`{name}`' for name in names)} | {_cell(text)} |"


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"({name})=\n## allocore {name}"
    yield from _paragraphs(_plain(command.help))
    shown = [option for option in command.params if not getattr(option, "hidden", False) and option.name != "help"]
    panels = list(dict.fromkeys(map(_panel, shown)))
    rows = ["| option | meaning |", "|---|---|"]
    for panel in panels:
        rows += [f"| **{panel}** | |"] if panel else []
        rows += [_row(option) for option in shown if _panel(option) == panel]
    yield "\n".join(rows)
    if command.epilog:
        yield from _paragraphs(_plain(command.epilog))


def _write(app: Sphinx) -> None:
    commands = typer.main.get_command(command_line).commands  # type: ignore[attr-defined]
    parts = [part for name, command in commands.items() for part in _command(name, command)]
    page = Path(app.srcdir) / "reference" / "command-line.md"
    codes = [f"| {code} | {_cell(text)} |" for code, text in EXIT_CODES.items()]
    text = _OPENING + "\n\n".join(["\n".join(["| exit code | meaning |", "|---|---|", *codes]), *parts]) + "\n"
    if not page.exists() or page.read_text(encoding="utf-8") != text:  # an unchanged page is not read again
        page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
