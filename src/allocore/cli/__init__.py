"""The command line: one module for each kind of command, and `app` for what they share."""

from allocore.cli import fit_commands, data_commands, run_commands, predict_commands, compare_commands  # noqa: F401, I001  in the order of the help
from allocore.cli.app import main as main
