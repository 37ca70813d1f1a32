"""What tests of the command line share: commands that are built once, and small runs that no test changes."""

from functools import cache

import pytest
import typer


@pytest.fixture(scope="session", autouse=True)
def commands_built_once():
    """Typer builds all commands anew for every call, which takes longer than most of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield
