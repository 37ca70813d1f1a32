"""Help: groups of commands and options, examples at the end, exit codes; and completion in the shell."""

import pytest
import typer

from allocore.cli.app import app

COMMANDS = list(typer.main.get_command(app).commands)


def test_commands_are_in_groups_in_the_order_in_which_they_are_needed(run):
    code, out, _ = run("--help")
    assert code == 0
    places = [
        out.index(f" {name} ")
        for name in ("Get started", "demo", "Look at results", "Predict and evaluate", "Choose a model")
    ]
    assert places == sorted(places)


def test_the_help_ends_with_the_exit_codes(run):
    words = " ".join(run("--help")[1].split())
    assert words.index("Exit codes") > words.index("select-budget")
    for code in ("0 success", "1 some fits", "2 an error", "70 a bug", "130 stopped"):
        assert code in words


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_ends_with_examples_of_it(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    head, examples = out.split("Examples")
    assert f"allocore {command} " in examples
    assert f"Usage: allocore {command}" in " ".join(head.split())
    assert f"\n allocore {command} " not in head, "examples appear once"


def test_options_are_in_groups(run):
    _, out, _ = run("fit", "--help")
    for first, option, then in (
        ("Model", "--budget", "Chains"),
        ("Chains", "--burn-in", "Priors"),
        ("Output", "--out", "Reading a table of events"),
    ):
        assert out.index(f" {first} ") < out.index(f" {option} ") < out.index(f" {then} ")
    others = out[out.index("─ Options ") : out.index("─ Model ")]
    assert [word for word in others.split() if word.startswith("--")] == ["--help"]


@pytest.mark.parametrize("command", [(), ("fit",), ("tensor",), ("forecast",)])
def test_flags_and_arguments_are_shown_without_a_type(run, command):
    _, out, _ = run(*command, "--help")
    assert "--help" in out
    assert "bool" not in out.casefold()
    assert "list[" not in out


def test_the_shell_can_complete_commands(run, monkeypatch):
    assert "--install-completion" in run("--help")[1]
    asked = {"_ALLOCORE_COMPLETE": "complete_bash", "COMP_WORDS": "allocore fo", "COMP_CWORD": "1"}
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    assert run()[1].split() == ["fold-in", "forecast"]
