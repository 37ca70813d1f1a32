"""The command line: one module for each kind of command, and `app` for what they share."""

from allocore.cli import fit_commands, data_commands, run_commands  # noqa: F401, I001  in the order of the help
from allocore.cli import predict_commands, evaluate_commands, fold_in_commands, forecast_commands  # noqa: F401
from allocore.cli import compare_commands  # noqa: F401
from allocore.cli.app import main as main
