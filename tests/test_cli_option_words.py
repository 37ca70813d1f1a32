"""What the command line prints names its own options, not arguments in Python."""

import ast
import re
from pathlib import Path

import pytest
import typer
from rich.console import Group
from rich.text import Text

import allocore as ac
from allocore.cli.app import app
from allocore.cli.option_words import OptionConsole, in_options, learn_names, now_running

SOURCE = Path(ac.__file__).parent
PYTHON = re.compile(
    r"\b(?:ac|post|posterior|model|split|Y|Y_new|forecast)\.[a-z_]+|(?<![\w.])[a-z_]\w*=(?!=)|\b[a-z_]+\(\)|=True"
)
# Messages that the command line never prints, by how they begin, and why not.
NEVER_PRINTED = {
    "absent is 'missing', but only join=": "the command line joins no tensors",
    "mode 'X' has X; join='outer'": "the command line joins no tensors",
    "start is a X, but it must be a posterior": "--start is opened as a run first",
    ": pass split.test": "the command line passes no split",
    ": x.compute() gives": "the command line passes no arrays",
    "x is a X of X: read_events(x,": "the command line passes no frames",
    "coords is a CountTensor": "the command line passes no coordinates",
    "executor has workers with arithmetic": "what it names with = are variables of the environment",
}


@pytest.fixture(autouse=True)
def no_command():
    learn_names(typer.main.get_command(app))
    now_running(None)
    yield
    now_running(None)


def text_of(node):
    """A text of the source, with something in the place of what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    parts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(part.value)
        else:
            parts.append("'X'" if part.conversion == ord("r") else "it" if "them" in ast.unparse(part) else "X")
    return "".join(parts)


def sentences_in(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    within |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        text = None if id(node) in within else text_of(node)
        if text and len(text.split()) > 2 and not text.lstrip().startswith("<") and "SELECT" not in text:
            yield node.lineno, text


def test_no_sentence_of_the_library_reaches_the_terminal_in_python():
    left = []
    for file in sorted(SOURCE.rglob("*.py")):
        if file.parent.name in ("cli", "kernels"):
            continue
        for line, text in sentences_in(file):
            if PYTHON.search(in_options(text)) and not text.startswith(tuple(NEVER_PRINTED)):
                left.append(f"{file.relative_to(SOURCE)}, line {line}: {in_options(text)}")
    assert left == []


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("burn_in is -1, but it must be ..", "--burn-in is -1, but it must be .."),
        ("core_shape is (2, 0, 2), but ..", "--core-shape is 2x0x2, but .."),
        ("core_shape (2, 2) has 2 entries", "--core-shape 2x2 has 2 entries"),
        ("source is 'x.csv', but no such file exists", "DATA is 'x.csv', but no such file exists"),
        (
            "modes must be given: for example modes=['a', 'b', ...]",
            "--modes must be given: for example --modes a,b,...",
        ),
        ("fraction=0.5 leaves no count", "--hold-out 0.5 leaves no count"),
        ("split 3: hold_out=0.5 leaves no count", "split 3: --hold-out 0.5 leaves no count"),
        ("name the column of dates with time=", "name the column of dates with --time"),
        ("pass missing=True to sum", "give --missing to sum"),
        ("draw='best' (--draw best) shows", "--draw best shows"),
        ("source has 3 labels that like does not have", "source has 3 labels that --like does not have"),
        ("mode 'time' does not exist", "mode 'time' does not exist"),
        ("the same call with out='my folder' continues it", "the same command with --out 'my folder' continues it"),
        (
            "Chain 2 is far behind: leave it out with post.select_chains, or run longer.",
            "Chain 2 is far behind: run longer.",
        ),
    ],
)
def test_a_message_names_the_option_and_its_value_as_one_types_it(message, told):
    assert in_options(message) == told


def test_an_argument_is_called_as_the_command_that_runs_calls_it():
    now_running("predict")
    assert in_options("cells has None").startswith("CELLS has")
    now_running("forecast")
    assert in_options("cells has None").startswith("--cells has")
    now_running("fold-in")
    assert in_options("who has labels that like does not have") == "who has labels that RUN does not have"


def test_the_console_translates_sentences_and_leaves_their_colours_and_other_words(capsys):
    sentence = Text.assemble(("Poor: ", "red"), "fit with chains=4.")
    console = OptionConsole(width=100, force_terminal=True, color_system="standard")
    console.print(Group(sentence, Text("hold_out is a mode"), Text('likelihood="bernoulli" is made for such data.')))
    told = capsys.readouterr().out
    assert "\x1b[31mPoor: \x1b[0mfit with --chains 4." in told
    assert "hold_out is a mode" in told
    assert "--likelihood bernoulli is made" in told


def test_errors_of_a_run_speak_of_options(run, data, tmp_path):
    (tmp_path / "sales.csv").write_text("store,product\nNorth,tea\n")
    code, _, err = run("fit", tmp_path / "sales.csv", "--budget", 2)
    assert code == 2
    assert "--modes must be given" in err
    assert "--modes store,...; the columns are store, product" in err
    quick = ("--burn-in", "1", "--draws", "1", "--thin", "1", "--chains", "1")
    run("fit", data, "--budget", 2, "--out", tmp_path / "run.zarr", *quick)
    code, _, err = run("evaluate", tmp_path / "run.zarr", data)
    assert code == 2
    assert "or give --allow-training" in err
    code, _, err = run("evaluate", tmp_path / "run.zarr")
    assert code == 2
    assert "the run holds out no cells: give TEST, or fit with allocore fit --hold-out 0.01" in err


def test_a_run_of_one_chain_is_advised_in_options(run, data, tmp_path):
    quick = ("--burn-in", "1", "--draws", "5", "--thin", "1", "--chains", "1")
    run("fit", data, "--budget", 2, "--out", tmp_path / "run.zarr", *quick)
    _, out, _ = run("info", tmp_path / "run.zarr")
    assert "fit with --chains 4 to see whether chains agree." in " ".join(out.split())


@pytest.mark.parametrize(
    "message",
    [
        "hive/source=USA/part.csv has no column 'who'",
        "hive/time=2020/p.csv, line 4: count is 'x'",
        "burn_in/w.csv has no column 'who'",
        "--where is \"count=3 AND source='x'\", but there is no column 'count'",
        "--out is 'a/seed=5/run.zarr', but the folder 'a/seed=5' does not exist",
        "y.csv has no column 'who'; its columns are hold_out, max_iter",
        "y.csv has 'model=cp' in mode 'who', which has no such label",
    ],
)
def test_what_is_the_users_own_is_left_as_it_is(message):
    assert in_options(message) == message
    console = OptionConsole(width=200)
    with console.capture() as shown:
        console.print(Text(message))
    assert shown.get().rstrip() == message
