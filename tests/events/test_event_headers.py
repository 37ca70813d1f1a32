"""Tables without a header, and what is said of tables whose columns mean nothing yet."""

import pandas as pd
import pytest

import allocore as ac
from allocore.events.formats import likely_columns
from support.errors import refused
from support.findings import warned

ROWS = ["2024-01-03,Chad,Mali,040,2", "2024-01-04,Mali,Chad,042,1", "2024-01-05,Chad,Togo,190,1"]
HEADER = "date,source,target,code,n"


@pytest.fixture
def written(tmp_path):
    """Write lines to a CSV file and return its path."""

    def write(*lines, name="events.csv"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        return tmp_path / name

    return write


def kinds(path):
    """The kinds of findings of a file whose first columns are read by the names in its first line."""
    names = path.read_text().splitlines()[0].split(",")[:2]
    return {each.kind for each in ac.read_events(path, modes=names).report.findings}


@pytest.mark.parametrize(
    "lines",
    [
        [line.replace("2024-01-0", "2024/1/") for line in ROWS],
        [line[11:] for line in ROWS],
        ["Chad,talk", "Chad,fight", "Mali,talk"],
        ["14,Chad", "15,Mali"],
    ],
)
def test_a_first_line_like_those_below_is_said_to_be_data(written, lines):
    with warned("data-as-names"):
        assert "data-as-names" in kinds(written(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        [HEADER, *ROWS],
        [HEADER, *ROWS, HEADER],
        ["country,2018,2019", "Chad,3,4", "Mali,2,2"],
        ["0,1,2", "7,Chad,3", "5,Mali,2"],
        ["who,what", "a,x", "b,y", "a,x"],
        ["who,n", "who,3", "b,4"],
        ["who,what", "a,x"],
    ],
)
def test_a_header_is_not_taken_for_data(written, lines):
    assert "data-as-names" not in kinds(written(*lines))


def test_without_a_header_columns_have_numbers_and_no_row_is_lost(written):
    how = {"header": False, "modes": {"who": "column_2", "whom": "column_3"}, "time": "column_1", "count": "column_5"}
    Y = ac.read_events(written(*ROWS), **how)
    assert (Y.report.rows, Y.total) == (3, 4)
    assert Y.report.reading["header"] is False
    assert ac.EventReport.from_json(Y.report.to_json()) == Y.report


def test_an_error_about_columns_says_that_the_first_line_looks_like_data(written):
    with refused("modes", rule="`header=False`"):
        ac.read_events(written(*ROWS))
    with refused("modes", ["source", "target"], "`header=False`"):
        ac.read_events(written(*ROWS), modes=["source", "target"])


def test_only_text_can_lack_a_header(tmp_path, written):
    pd.DataFrame({"who": ["A"], "what": ["x"]}).to_parquet(tmp_path / "a.parquet")
    for source in (tmp_path / "a.parquet", written('{"who": "A"}', name="a.jsonl"), pd.DataFrame({"who": ["A"]})):
        with refused("header", False):
            ac.read_events(source, modes=["who", "what"], header=False)


@pytest.mark.parametrize(
    ("columns", "modes", "time"),
    [
        ("date,source,target,cameo_code,cameo_root,cameo_label", ["source", "target", "cameo_root"], "date"),
        ("id,Event Date,Actor1,Actor2,Type", ["Actor1", "Actor2", "Type"], "Event Date"),
        ("shop,item,day,n", ["shop", "item"], "day"),
        ("a,b", ["a", "b"], None),
        ("date", [], "date"),
    ],
)
def test_likely_modes_are_found_by_their_names(columns, modes, time):
    assert likely_columns(tuple(columns.split(","))) == (modes, time)


def test_an_error_about_absent_modes_has_an_example(written):
    with refused("modes", rule="`modes=['source', 'target', 'code']` `time='date'`"):
        ac.read_events(written(HEADER, *ROWS))


def test_an_error_about_like_names_it(written, tmp_path):
    with refused("like", str(tmp_path / "no.npz")):
        ac.read_events(written(HEADER, *ROWS), modes=["source", "target"], like=tmp_path / "no.npz")
