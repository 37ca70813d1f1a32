"""Errors of the command line by their parts: the option, its value, and the rule."""

import json


def error_of(result):
    """The fields of the error of a command with --json, whose sentence is the one line on standard error."""
    code, out, err = result
    assert code == 2, (code, out, err)
    error = json.loads(out)["error"]
    assert err == f"allocore: error: {error['sentence']}\n"
    assert "\n" not in error["sentence"]
    return error


def assert_refused(result, option, value=None, rule=""):
    """Expect exit code 2 and one line, "OPTION is VALUE, but it RULE", or "OPTION RULE" if there is no value."""
    code, _, err = result
    assert code == 2, err
    assert err.startswith("allocore: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    subject = option if value is None else f"{option} is {value}, but it"
    said = err.removeprefix("allocore: error: ")
    assert said.startswith(f"{subject} "), err
    assert rule in said.removeprefix(subject), err


def as_words(text):
    """What was printed, without its line ends and columns."""
    return " ".join(text.split())
