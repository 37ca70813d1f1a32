"""What tests of runs share: a run that is stopped by Ctrl-C in a chosen sweep."""

import signal

import pytest

from allocore.run import chains as chains_module


@pytest.fixture
def stop_at(monkeypatch):
    """Call with a number: Ctrl-C is pressed in the run's so-manyth sweep."""

    def arm(number):
        monkeypatch.undo()
        done, real = 0, chains_module.sweep

        def sweep(*arguments):
            nonlocal done
            done += 1
            if done == number:
                signal.raise_signal(signal.SIGINT)
            return real(*arguments)

        monkeypatch.setattr(chains_module, "sweep", sweep)

    return arm
