"""The command line, one module a kind of command; `app` has what they have in common."""

from allocore.cli import fit_commands, data_commands, run_commands, compare_commands  # noqa: F401, I001  in the order of the help
from allocore.cli.app import main as main
