"""The option --open: show a page in the browser, where there is a desktop to show it on."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from allocore.cli.app import warn

OpenIt = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
_DESKTOPS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_page(page: Path) -> None:
    """Open a page in the browser. Where there is none, a warning says so: the page itself has been written."""
    if not _has_desktop():
        because = "there is no desktop here"
    elif not _is_opened(page):
        because = "no browser was found"
    else:
        return
    warn(f"--open was given, but {because}: copy {page} to a machine with a browser, and open it")


def _has_desktop() -> bool:
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in _DESKTOPS)


def _is_opened(page: Path) -> bool:
    try:
        return webbrowser.open(page.resolve().as_uri())
    except webbrowser.Error:
        return False
