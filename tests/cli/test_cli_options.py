"""The command line names its own options where the library names arguments."""

import pytest
from rich.console import Group
from rich.table import Table
from rich.text import Text

from allocore.cli import app as cli
from allocore.errors import InputError
from support.command_line import assert_refused


@pytest.fixture
def running(monkeypatch):
    """Say which command runs."""
    return lambda command: monkeypatch.setattr(cli._Invocation, "command", command)


@pytest.mark.parametrize(
    ("command", "argument", "option"),
    [
        ("fit", "burn_in", "--burn-in"),
        ("fit", "source", "DATA"),
        ("fit", "fraction", "--hold-out"),
        ("fit", "rank", "--budget"),
        ("fit", "path", "--start"),
        ("resume", "path", "RUN"),
        ("resume", "executor", "--cluster"),
        ("predict", "cells", "CELLS"),
        ("forecast", "cells", "--cells"),
        ("forecast", "Y_future", "--against"),
        ("evaluate", "test", "TEST"),
        ("fold-in", "like", "RUN"),
        ("summary", "number", "--class"),
        ("summary", "class", "--class"),
        ("tensor", "path", "--out"),
        ("report", "open_it", "--open"),
        ("info", "data", "DATA|RUN"),
        ("predict", "burn_in", "burn_in"),
        (None, "burn_in", "burn_in"),
    ],
)
def test_an_argument_is_called_as_the_running_command_calls_it(running, command, argument, option):
    running(command)
    assert cli.option_of(argument) == option


def test_an_error_names_options_in_its_subject_and_in_its_rule(running, capsys):
    running("fit")
    assert cli._report_error(InputError("along", "time", "needs `hold_out`")) == 2
    assert capsys.readouterr().err == "allocore: error: --along is 'time', but it needs --hold-out\n"
    assert cli._report_error(InputError("nothing to do")) == 2
    assert capsys.readouterr().err == "allocore: error: nothing to do\n"


@pytest.mark.parametrize(
    ("sentence", "printed"),
    [
        ("fit with `chains=4`.", "fit with --chains 4."),
        ("use more `chains`", "use more --chains"),
        ("use `hold_out=0.1` or `start='my run'`", "use --hold-out 0.1 or --start 'my run'"),
        ("hold_out is a mode, and `nothing` is none", "hold_out is a mode, and `nothing` is none"),
        ("hive/seed=USA/part.csv has no column 'seed'", "hive/seed=USA/part.csv has no column 'seed'"),
    ],
)
def test_only_arguments_in_backquotes_become_options(running, sentence, printed):
    running("fit")
    assert cli.in_options(Text(sentence)).plain == printed


def test_the_console_replaces_arguments_in_sentences_and_keeps_colours_and_tables(running, capsys):
    running("fit")
    console = cli.OptionConsole(width=100, force_terminal=True, color_system="standard")
    table = Table.grid()
    table.add_row(Text("`chains`"))
    console.print(Group(Text.assemble(("Poor: ", "red"), "fit with `chains=4`."), table))
    out = capsys.readouterr().out
    assert "\x1b[31mPoor: \x1b[0mfit with --chains 4." in out
    assert "`chains`" in out


def test_errors_of_a_run_name_options(run, data, tmp_path):
    assert_refused(run("fit", data, "--budget", 2, "--rows", 0), "--rows", 0)
    assert_refused(run("fit", data, "--budget", 2, "--along", "time"), "--along", "'time'", "needs --hold-out")
    assert_refused(run("fit", data, "--budget", 2, "--modes", "a,b"), "--modes", "['a', 'b']")
    assert_refused(run("summary", data, "--draw", "last"), "--draw", "'last'")
