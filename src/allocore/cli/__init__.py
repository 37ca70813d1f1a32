"""The command line: one module for each kind of command, and `app` for what they share."""

from allocore.cli import demo_command, fit_commands, data_commands, run_commands  # noqa: F401, I001
from allocore.cli import predict_commands, evaluate_commands, fold_in_commands, forecast_commands  # noqa: F401
from allocore.cli import compare_commands  # noqa: F401
from allocore.cli.app import app as commands, main as main
from allocore.cli.help_pages import arrange_help

arrange_help(commands)
