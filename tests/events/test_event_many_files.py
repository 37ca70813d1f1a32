"""Several files are read as one table, and it is an error in one sentence if they do not fit each other."""

import pandas as pd
import polars as pl
import pytest

import allocore as ac
from allocore.events.sources import find_files
from support.errors import refused
from support.event_files import ICEWS as COLUMNS
from support.event_files import cells, icews_rows, text_of, write

EXPECTED = {("x", "p", "2024-01"): 1, ("y", "p", "2024-02"): 1}


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "a.csv", "who,what,day,w\nx,p,2024-01-01,8\n")
    write(tmp_path / "b.csv", "day,who,what,w,more\n2024-02-01,y,p,9,1\n")  # in another order, with another column
    write(tmp_path / "c.tsv", "who\twhat\tday\nz\tq\t2024-03-01\n")
    write(tmp_path / "d.csv", "who,what,date\nz,q,2024-03-01\n")
    write(tmp_path / "i.tab", text_of(COLUMNS, icews_rows()))
    pl.DataFrame({"who": ["v"], "what": ["q"], "day": ["2024-04-01"], "w": [10]}).write_parquet(tmp_path / "e.parquet")
    return tmp_path


def _read(source, **options):
    return ac.read_events(source, modes=["who", "what"], time="day", **options)


def test_lists_patterns_and_what_a_glob_returns_are_read(folder):
    a, b = folder / "a.csv", folder / "b.csv"
    for source in ((str(a), b), {a, b}, [str(folder / "[ab].csv")]):
        files, skipped = find_files(source)
        assert (sorted(files), skipped) == ([a, b], [])
    tensor = _read(folder.glob("[ab].csv"))
    assert cells(tensor) == EXPECTED
    assert tensor.report.files == 2


def test_files_of_several_kinds_are_one_table(folder):
    kept = [_read([folder / "a.csv", folder / "e.parquet", folder / "b.csv"], where=f"w > {n}").total for n in (7, 9)]
    assert kept == [3, 1]


@pytest.mark.parametrize("names", [["a.csv", "d.csv"], ["d.csv", "a.csv"]])
def test_a_file_without_a_column_that_is_used_is_named_beside_one_that_has_it(folder, names):
    both = f"which {folder / 'd.csv'} does not have and {folder / 'a.csv'} has: files that are read together must all"
    with refused("time", "day", both):
        _read([folder / name for name in names])
    with refused("where", "w > 7", f"'w', which {folder / 'c.tsv'} does not have and {folder / 'a.csv'} has"):
        _read([folder / "a.csv", folder / "c.tsv"], where="w > 7")


def test_files_of_several_formats_are_an_error_that_names_one_of_each(folder):
    both = f"{folder / 'a.csv'} (no known format), {folder / 'i.tab'} (icews)"
    with refused("source", both, "files of one format"):
        _read([folder / "a.csv", folder / "i.tab"])


@pytest.mark.parametrize(("entry", "shown"), [(3, "3"), (pd.DataFrame({"a": [1]}), "a DataFrame"), (None, "None")])
def test_an_entry_that_is_no_path_is_an_error(folder, entry, shown):
    with refused("source", f"a list with {shown} in it", "must have only paths as entries"):
        _read([folder / "a.csv", entry])


def test_a_file_that_is_named_in_several_ways_is_read_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "again.csv").symlink_to(folder / "a.csv")
    source = ["a.csv", "./a.csv", folder / "a.csv", str(folder / "a.csv"), "again.csv"]
    assert ac.read_events(source, modes=["who", "what"]).report.rows == 1
