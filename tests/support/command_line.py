"""Errors of the command line by their parts: the option, its value as it is printed, and the rule."""


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
