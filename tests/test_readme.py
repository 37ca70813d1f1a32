"""Every command of the README and of the documentation runs as it is written, and so does the Python of the README.

The site runs its notebooks when it is built. Cells that are not shown check what its pages say about the results.
"""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

import allocore as ac
from allocore import estimators, progress
from allocore.comparison import compare
from allocore.report.figures import run as figure_files
from support.comparison_cases import JobsHere

ROOT = Path(__file__).parent.parent
# The page about clusters starts processes: tests/run/test_executors.py runs it.
GUIDES = sorted({path.stem for path in (ROOT / "docs" / "howto").glob("*.md")} - {"index", "clusters"})
NAMES = (
    "README.md",
    "docs/index.md",
    *(f"docs/howto/{name}.md" for name in GUIDES),
)
PAGES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
README = PAGES["README.md"]
PRINTED = {
    "resume": "expected counts",
    "summary": "expected counts",
    "diff": "in both runs",
    "figures": "files written",
    "report": "Report written",
    "table": "\\toprule",
    "graph": "Graph written",
    "memberships": "communities of",
    "surprises": "least expected counts",
    "predict": "expected low high",
    "evaluate": "than the best baseline",
    "check": "simulated",
    "fold-in": "in new rows of mode_3",
    "forecast": "Forecast of month",
}
# On a slow machine, commands print these lines on standard error while they work.
PROGRESS = re.compile(r"allocore: .*, \d+ (s|min)|\d+ of \d+ jobs done.*")
QUICK = ["--chains", "1", "--burn-in", "2", "--draws", "1", "--thin", "1", "--threads", "1"]
QUICK_NNTUCK = ["--restarts", "1", "--max-iter", "2", "--threads", "1"]


def blocks(page, language):
    """The blocks of a language; a notebook's cells are Python, and the lines with their tags are left out."""
    opening = r"(?:python|\{code-cell\})" if language == "python" else language
    found = re.findall(rf"```{opening}\n(.*?)```", PAGES[page], flags=re.DOTALL)
    return [re.sub(r"\A(?::[a-z-]+:.*\n)+", "", block) for block in found]


@pytest.fixture
def short_runs(monkeypatch):
    """Runs that grow end after 50 sweeps of 8 chains: enough for the 25 draws and the classes that a page names."""
    for name in ("_FIRST_SWEEPS", "_MAX_SWEEPS"):
        monkeypatch.setattr(estimators, name, 50)
    monkeypatch.setattr(estimators, "_MAX_CHAINS", 8)


@pytest.fixture
def run_page(monkeypatch, tmp_path):
    """Run the Python of a page in an empty folder; returns its names."""

    def run(page):
        folder = tmp_path / Path(page).stem
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        names = {}
        for block in blocks(page, "python"):
            exec(compile(block, page, "exec"), names)
        return names

    return run


@pytest.mark.slow
def test_the_python_examples_of_the_readme_run(run_page, short_runs, capsys):
    names = run_page("README.md")
    out = capsys.readouterr().out
    assert "classes, consensus of" in out
    assert "log-likelihood" in out
    assert names["tree"]["posterior"].sizes["chain"] == 8
    assert names["Y"].shape == (3, 3, 1)
    assert "rows read" in out
    assert ac.open_run("run.zarr").core_values.shape == (8, 25, 40)


def test_the_python_of_the_site_is_in_cells_which_run_when_it_is_built_or_is_run_by_a_test():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    plain = [page.relative_to(ROOT).as_posix() for page in pages if "```python\n" in page.read_text(encoding="utf-8")]
    assert plain == ["docs/howto/clusters.md", "docs/index.md"]


@pytest.mark.slow
def test_the_python_of_the_front_page_runs(run_page, short_runs):
    assert run_page("docs/index.md")["model"].posterior_.core_values.shape == (8, 25, 40)
    assert Path("flights.html").stat().st_size > 500_000


def write_events(folder):
    """The files that the commands name."""
    header = ("Event ID", "Event Date", "Source Country", "Event Text", "CAMEO Code", "Target Country")
    rows = [(n, f"2020-0{1 + n % 3}-05", "Chad", "", f"0{1 + n % 9}0", "Mali") for n in range(60)]
    (folder / "icews").mkdir()
    (folder / "icews" / "2020.tab").write_text("\n".join("\t".join(map(str, row)) for row in (header, *rows)) + "\n")
    ac.read_events(folder / "icews").save(folder / "icews.npz")
    april = (header, (60, "2020-04-05", "Chad", "", "010", "Niger"))
    (folder / "april.tab").write_text("\n".join("\t".join(map(str, row)) for row in april) + "\n")
    sales = [("store", "product", "week", "sold"), *((n % 2, n % 3, n % 4, "2024-01-05") for n in range(30))]
    (folder / "cells.csv").write_text("mode_0,mode_3\n1,2\n3,\n")
    (folder / "sales.csv").write_text("\n".join(",".join(map(str, row)) for row in sales) + "\n")


def write_test_cells(test, folder):
    """The held-out cells as a table."""
    rows = [*zip(*test.coords.tolist(), test.counts.tolist(), strict=True)]
    lines = ["mode_0,mode_1,mode_2,mode_3,count", *(",".join(map(str, row)) for row in rows)]
    (folder / "test.csv").write_text("\n".join(lines) + "\n")


def commands(*pages):
    lines = [line for page in pages or PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    chosen = [line for line in words if line[:1] == ["allocore"] and line[1] != "demo"]
    return list(dict.fromkeys(map(tuple, chosen)))


def test_the_documentation_names_commands():
    assert {command[1] for command in commands()} >= {"fit", "info", "resume"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [pytest.param(command, id=" ".join(command)) for command in commands()])
def test_the_commands_run(command, run, monkeypatch, tmp_path):
    """As written, on a tensor of four modes or a run of it, with a schedule of one sweep, and jobs in this process."""
    Y = ac.as_tensor(np.random.default_rng(0).poisson(0.3, (9, 9, 4, 5)))
    Y.save(tmp_path / "DATA.npz")
    write_events(tmp_path)
    if command[1] == "forecast":
        months = {"month": [f"2020-{month:02d}" for month in range(1, 6)]}
        Y = Y.with_labels(months, mode_names=["source", "target", "action", "month"])
    if command[1] == "fold-in" and "sender,receiver" in command:
        labels = {mode: [f"node {n}" for n in range(9)] for mode in ("sender", "receiver")}
        Y = Y.with_labels(labels, mode_names=["sender", "receiver", "action", "month"]).mask_diagonal()
        Y.save(tmp_path / "DATA.npz")
        known = labels["sender"][:8]
        Y = Y.select(sender=known, receiver=known)
    if command[2] == "run.zarr" or "--start" in command:
        split, budget = ac.hold_out(Y, 0.1, along=0, seed=1), 50 if "--start" in command else 3
        ac.AlloCore(budget, burn_in=1, draws=1, thin=1, store=tmp_path / "run.zarr", progress=False, chains=1).fit(
            split
        )
        write_test_cells(split.test, tmp_path)
    if "refit.zarr" in command[2:4] and command[1] == "diff":
        shutil.copytree(tmp_path / "run.zarr", tmp_path / "refit.zarr")
    if command[2] == "icews.zarr":
        ac.load_tensor(tmp_path / "icews.npz").save(tmp_path / "icews.zarr")
    words = ["DATA.npz" if word == "DATA" else word for word in command[1:]]
    monkeypatch.setattr(figure_files, "_DPI", 40)
    monkeypatch.setattr(compare, "JobProcesses", JobsHere)
    monkeypatch.setattr(progress, "_LOG_SECONDS", (3600.0, 3600.0))  # a busy machine draws figures for longer than 30 s
    monkeypatch.chdir(tmp_path)
    quick = QUICK_NNTUCK if "nntuck" in words else QUICK
    code, out, err = run(*words, *(quick if words[0] == "fit" else []))
    assert (code, [line for line in err.splitlines() if not PROGRESS.fullmatch(line)]) == (0, [])
    from_events = words[1] in ("icews/*.tab", "icews.zarr", "sales.csv", "april.tab")
    expected = PRINTED.get(words[0], "CountTensor: 9 x 9 x 4 x 5")
    if words[0] == "fold-in" and "--mode" in words:
        expected = f"in new rows of {' and '.join(words[words.index('--mode') + 1].split(','))}"
    if words[0] == "predict" and "--out" in words:
        expected = "2 predictions written to"
    assert ("rows read" if from_events else expected) in " ".join(out.split())


def test_the_make_targets_of_the_readme_exist():
    makefile = (Path(__file__).parent.parent / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z][a-z-]*)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
