"""What tests of runs share: a run that is stopped by Ctrl-C in a chosen sweep."""

import signal

import pytest

from allocore.run import chains as chains_module


@pytest.fixture
def stop_at(monkeypatch):
    """Call with a number: in that sweep of the run, Ctrl-C is pressed, or another signal comes."""

    def arm(number, which=signal.SIGINT):
        monkeypatch.undo()
        done, real = 0, chains_module.sweep

        def sweep(*arguments):
            nonlocal done
            done += 1
            if done == number:
                signal.raise_signal(which)
            return real(*arguments)

        monkeypatch.setattr(chains_module, "sweep", sweep)

    return arm
