"""allocore table: the largest classes as a table for a paper, printed or written."""

import pytest

import allocore as ac


def test_a_table_is_printed_as_the_library_makes_it(run, stored_run):
    code, out, err = run("table", stored_run, "--rows", 2, "--top", 1, "--format", "latex")
    assert (code, err) == (0, "")
    assert out == ac.paper_table(stored_run, "latex", rows=2, top=1)


@pytest.mark.parametrize(("suffix", "format"), [(".tex", "latex"), (".md", "markdown"), (".html", "html")])
def test_the_suffix_decides_the_format_of_a_file(run, stored_run, tmp_path, suffix, format):
    path = tmp_path / f"classes{suffix}"
    code, _, err = run("table", stored_run, "--out", path, "--caption", "My classes", "--draw", "best")
    assert (code, err) == (0, "")
    made = ac.paper_table(stored_run, format, caption="My classes", draw="best")
    assert path.read_text(encoding="utf-8") == made


@pytest.mark.parametrize(
    ("words", "option"),
    [(["--out", "classes.docx"], "--out"), (["--format", "docx"], "--format"), (["--rows", 0], "--rows")],
)
def test_what_cannot_be_made_is_one_line(run, stored_run, words, option):
    code, out, err = run("table", stored_run, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"allocore: error: {option} is ")
    assert err.count("\n") == 1
