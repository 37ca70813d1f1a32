"""While a command works: a line on a terminal that goes again, plain lines in a log, and none for short work."""

import re
import sys
import time

import pytest

from allocore import progress as module
from allocore.progress import waiting


class Terminal:
    """A standard error that says that it is a terminal."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setattr(module, "_LOG_SECONDS", (0.01, 0.01))


def wait_for(told):
    for _ in range(500):
        if told():
            return
        time.sleep(0.01)
    pytest.fail("nothing was shown in five seconds")


def test_a_log_gets_plain_lines_with_the_news_and_the_time(at_once, capsys):
    lines = []

    def has_news():
        lines.append(capsys.readouterr().err)
        return "3 files written" in lines[-1]

    with waiting("drawing figures") as tell:
        tell("3 files written")
        wait_for(has_news)
    assert "\x1b" not in "".join(lines)
    first = next(line for line in "".join(lines).splitlines() if "files" in line)
    assert re.fullmatch(r"allocore: drawing figures\W+3 files written\W+\d+ s", first)


def test_a_terminal_shows_a_line_that_goes_again(at_once, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with waiting("drawing figures"):
        wait_for(lambda: "drawing figures" in screen.text)
    assert "\x1b[2K" in screen.text.rpartition("drawing figures")[2], "the line is erased"


def test_short_work_shows_nothing(capsys):
    with waiting("drawing figures"):
        pass
    assert capsys.readouterr().err == ""


def test_what_has_a_bar_of_its_own_on_a_terminal_is_shown_in_logs_only(at_once, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting("reading events", in_logs_only=True):
        time.sleep(0.05)
    assert screen.text == ""


def test_an_error_of_the_work_ends_the_line_and_is_passed_on(at_once, capsys):
    with pytest.raises(ZeroDivisionError), waiting("working"):
        1 / 0  # noqa: B018
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == "", "no thread goes on"


def test_figures_of_a_run_are_written_to_a_folder_and_their_number_is_told(run, stored_run, tmp_path, at_once):
    folder = tmp_path / "figures"
    code, _, err = run("figures", stored_run, "--out", folder, "--formats", "svg", "--rows", 2)
    assert code == 0
    names = {path.name for path in folder.iterdir()}
    expected = {"classes-1", "core", "traces", "mass", "effective-shape", "factors-who", "calibration"}
    assert {f"{name}.svg" for name in expected} <= names
    told = [int(number) for number in re.findall(r"(\d+) files? written", err)]
    assert told == sorted(told)
    assert 0 < told[-1] <= len(names)
