"""The command line: a module for each group of commands. It may import all of allocore; nothing imports it."""

from allocore.cli import fit, data, show, predict, compare, warm_up  # noqa: F401, I001
from allocore.cli.app import app as commands, arrange_help, main as main

arrange_help(commands)
