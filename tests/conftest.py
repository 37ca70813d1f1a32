"""What tests of several folders use."""

import sys
import warnings

import pytest


@pytest.fixture
def run(monkeypatch, capfd):
    """Call the command line with some words; returns exit code, standard output and standard error."""

    from allocore.cli import main

    def call(*words):
        # The command line shows warnings in its own way; the tests get theirs back.
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        monkeypatch.setattr(sys, "argv", ["allocore", *(str(word) for word in words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return code, *capfd.readouterr()

    return call
