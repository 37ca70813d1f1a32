"""What the repository says about itself is true: versions agree, paths and targets exist, bounds can be read."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

import allocore as ac

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == PROJECT["version"]


def test_the_workflow_is_valid_and_its_make_targets_exist():
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with distributed")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    assert set(jobs) >= {"lint", "test", "docs", "dist"}
    assert {each.split("-")[0] for each in jobs["test"]["strategy"]["matrix"]["os"]} == {"ubuntu", "macos", "windows"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = [command.removeprefix("make ") for command in commands if command.startswith("make ")]
    assert {"lint", "test", "docs", "dist"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []


def test_the_checklist_of_a_release_names_targets_and_files_that_exist():
    checklist = (ROOT / "RELEASING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {each for line in re.findall(r"make ([a-z -]+)", checklist) for each in line.split()}
    assert {"lint", "docs", "test", "dist", "fuzz"} <= targets
    assert [target for target in sorted(targets) if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []
    files = re.findall(r"`((?:\.?\w+/)*[\w.]+\.(?:py|md|yml|toml|cff|txt))`", checklist)
    assert "pyproject.toml" in files
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_every_public_name_is_on_the_page_of_the_reference():
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   (\w+)$", page, flags=re.MULTILINE)
    names = [*(name for name in ac.__all__ if name != "figures"), *ac.figures.__all__]
    assert sorted(listed) == sorted(names)


def test_the_files_that_the_guide_names_exist():
    named = set(re.findall(r"`([\w/.-]+(?:/|\.(?:py|md|txt|toml|cff)))`", CONTRIBUTING))
    assert {"gibbs/sweep.py", "tests/support/naive.py", "CHANGELOG.md", "kernels/"} <= named
    places = (ROOT, ROOT / "src" / "allocore", ROOT / "src" / "allocore" / "model")
    assert [name for name in sorted(named) if not any((place / name).exists() for place in places)] == []


def test_the_make_targets_that_the_guide_names_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"(?:^|`)make ([a-z -]+?)(?: {2,}|`)", CONTRIBUTING, flags=re.MULTILINE)
    targets = {target for command in commands for target in command.split()}
    assert {"test", "lint", "dist", "test-lowest"} <= targets
    assert [target for target in sorted(targets) if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []


def test_the_lowest_versions_are_read_from_the_bounds():
    lowest_pins = runpy.run_path(str(ROOT / "scripts" / "lowest_versions.py"))["lowest_pins"]
    assert lowest_pins(["numpy>=2.0", "arviz-stats>=0.6"]) == ["numpy==2.0", "arviz-stats==0.6"]
    assert len(lowest_pins(PROJECT["dependencies"])) == len(PROJECT["dependencies"])
    with pytest.raises(SystemExit, match=r"dependencies are \['numpy'\], but each must have the form name>=version"):
        lowest_pins(["numpy", "scipy>=1.17"])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"one\n", None),
        (b"", None),
        (b"one", "must end in one newline"),
        (b"one\n\n", "must end in one newline"),
        (b"one \ntwo\n", "line 1: spaces or a carriage return at the end"),
        (b"one\r\n", "line 1: spaces or a carriage return at the end"),
        (b"one\n<<<<<<< ours\n", "line 2: a mark of a merge conflict"),
        (b"x" * 1_000_001 + b"\n", "has 1,000,002 bytes"),
    ],
)
def test_a_file_that_should_not_be_committed_is_named(tmp_path, content, fault):
    faults = runpy.run_path(str(ROOT / "scripts" / "check_files.py"))["faults"]
    path = tmp_path / "page.md"
    path.write_bytes(content)
    told = list(faults(path))
    assert told == [] if fault is None else fault in told[0]


README = (
    "![A picture](docs/demo.svg)\n\nSee [the model](docs/model.md), [above](#in-python) and [Dask](https://dask.org).\n"
)


@pytest.mark.parametrize(
    ("home", "shown"),
    [
        (None, "See the model, [above](#in-python) and [Dask](https://dask.org).\n"),
        (
            "https://example.org/a/",
            "![A picture](https://example.org/a/raw/main/docs/demo.svg)\n\nSee [the model]"
            "(https://example.org/a/blob/main/docs/model.md), [above](#in-python) and [Dask](https://dask.org).\n",
        ),
    ],
)
def test_a_package_index_shows_no_link_of_the_readme_that_leads_nowhere(home, shown):
    pytest.importorskip("hatchling")
    package_readme = runpy.run_path(str(ROOT / "hatch_build.py"))["package_readme"]
    assert package_readme(README, home) == shown
    whole = package_readme((ROOT / "README.md").read_text(encoding="utf-8"), home)
    links = re.findall(r"\]\(([^)]+)\)", whole)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def site(folder, page):
    (folder / "other.html").write_text("<h1 id='here'>Here</h1>", encoding="utf-8")
    (folder / "index.html").write_text(page, encoding="utf-8")
    return runpy.run_path(str(ROOT / "scripts" / "check_site.py"))["faults"](folder)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("<a href='other.html#here'>a</a> <a href='#top'>b</a> <p id='top'> <a href='https://example.org'>c</a>", None),
        ("<link rel='next' href='other.html'> <img src='other.html'>", None),
        ("<a href='other.html#/class/7'>a</a> <a href='#/'>b</a>", None),
        ("<a href='none.html'>a</a>", "index.html: none.html leads to no file"),
        ("<a href='other.html#there'>a</a>", "index.html: other.html#there leads to no place on the page"),
        ("<a href='#there'>a</a>", "index.html: #there leads to no place on the page"),
        ("<script src='https://example.org/a.js'></script>", "loads https://example.org/a.js from the network"),
        ("<img src='none.png'>", "index.html: none.png leads to no file"),
        ("<p>.. autoclass:: CountTensor</p>", "index.html: shows the directive '.. autoclass::' as text"),
    ],
)
def test_a_fault_of_the_site_is_named(tmp_path, page, fault):
    told = site(tmp_path, page)
    assert told == [] if fault is None else len(told) == 1 and fault in told[0]
