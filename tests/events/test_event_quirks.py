"""What silently ruins a tensor: lost zeros, quotes that are text, dates and files in several spellings."""

import gzip
from collections import Counter

import duckdb
import pandas as pd
import polars as pl
import pytest

import allocore as ac
from allocore.events.sources import find_files
from support.errors import refused
from support.event_files import (
    ACTIONS,
    EVENTS,
    GDELT,
    ICEWS,
    cells,
    counted,
    findings,
    gdelt_rows,
    icews_rows,
    text_of,
    write,
)
from support.findings import warned
from support.tiers import parametrize_few

CSV = "who,what,when\nAda,tea,2024-01-05\nMax,rice,2024-02-05\nAda,tea,2024-01-06\n"
SALES = {("Ada", "tea", "2024-01"): 2, ("Max", "rice", "2024-02"): 1}


def read_own(path, **options):
    return ac.read_events(path, **{"modes": ["who", "what"], "time": "when"} | options)


def roots_of(tensor):
    return {cell[2][:2] for cell in cells(tensor)}


def test_a_code_that_is_text_keeps_its_zero(tmp_path):
    codes = {"014": "01", "0211": "02", "141": "14", "1411": "14", "13y": "13", "204": "20"}
    events = [(f"2018-0{month}-03", "Israel", "Ukraine", code) for month, code in enumerate(codes, 1)]
    tensor = ac.read_events(write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(events))))
    roots = {cell[3]: cell[2][:2] for cell in cells(tensor)}
    assert roots == {f"2018-0{month}": root for month, root in enumerate(codes.values(), 1)}
    assert tensor.report.findings == ()


@parametrize_few(
    ("code", "root"), [("14", "01"), ("211", "02"), ("14.0", "01"), ("211.0", "02"), ("42", "04"), ("831", "08")]
)
def test_a_code_that_lost_its_zero_is_repaired_with_a_warning(tmp_path, code, root):
    events = [("2018-01-03", "Israel", "Ukraine", code), ("2018-01-03", "Ukraine", "Israel", "190")]
    path = write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(events)))
    with warned("repaired-codes", mode="action", rows=1):
        tensor = ac.read_events(path)
    assert roots_of(tensor) == {root, "19"}
    (finding,) = [each for each in tensor.report.findings if each.kind == "repaired-codes"]
    assert finding.values == {"mode": "action", "rows": 1}


@parametrize_few("kind", ["int64", "float64", "Int64"])
def test_codes_that_are_numbers_in_a_frame_are_repaired_with_a_warning(kind):
    frame = pd.DataFrame(icews_rows()).astype({"CAMEO Code": "int64"}).astype({"CAMEO Code": kind})
    with warned("repaired-codes", mode="action"):
        tensor = ac.read_events(frame, diagonal="keep")
    assert cells(tensor) == counted()


def test_codes_that_are_numbers_in_one_parquet_and_text_in_another_are_both_right(tmp_path):
    table = pl.DataFrame(icews_rows())
    table.with_columns(pl.col("CAMEO Code").cast(pl.Int64)).write_parquet(tmp_path / "a.parquet")
    table.write_parquet(tmp_path / "b.parquet")
    with warned("repaired-codes", mode="action"):
        tensor = ac.read_events(tmp_path, diagonal="keep")
    assert cells(tensor) == counted([*EVENTS, *EVENTS])


def test_root_codes_of_gdelt_without_zeros_are_known(tmp_path):
    rows = [row | {"EventRootCode": str(int(row["EventRootCode"]))} for row in gdelt_rows()]
    path = write(tmp_path / "a.csv", text_of(GDELT[61], rows, header=False))
    assert cells(ac.read_events(path, diagonal="keep")) == counted()


WORDS = [("Make statement", 0), ("Make an appeal or request", 1), ("use  Conventional military force", 18)]


def wordy_rows():
    rows = icews_rows([("2018-01-03", "Israel", "Ukraine", "")] * 3)
    return [row | {"Event Text": text} for row, (text, _) in zip(rows, WORDS, strict=True)]


def without_codes():
    return [name for name in ICEWS if name != "CAMEO Code"]


def test_where_icews_has_no_codes_the_words_say_what_happened(tmp_path):
    tensor = ac.read_events(write(tmp_path / "a.tab", text_of(without_codes(), wordy_rows())))
    assert [cell[2] for cell in cells(tensor)] == [ACTIONS[root] for _, root in WORDS]


def test_a_frame_of_icews_without_codes_is_read_by_its_words():
    tensor = ac.read_events(pd.DataFrame(wordy_rows()).drop(columns="CAMEO Code"), dedup="day")
    assert [cell[2] for cell in cells(tensor)] == [ACTIONS[root] for _, root in WORDS]


def test_files_of_icews_with_and_without_codes_are_read_together(tmp_path):
    write(tmp_path / "a.tab", text_of(ICEWS, icews_rows()))
    write(tmp_path / "b.tab", text_of(without_codes(), wordy_rows()))
    tensor = ac.read_events(tmp_path, diagonal="keep")
    words = Counter(("Israel", "Ukraine", ACTIONS[root], "2018-01") for _, root in WORDS)
    assert cells(tensor) == counted() + words


def test_quotes_in_unquoted_files_are_text(tmp_path):
    quotes = {"Source Name": '"Bud" Selig', "Target Name": '"', "Publisher": 'a "b', "City": '"c"'}
    tensor = ac.read_events(write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(**quotes))), diagonal="keep")
    assert cells(tensor) == counted()
    assert tensor.report.rows == len(EVENTS)


@pytest.mark.parametrize("header", [True, False], ids=["header quoted too", "only the rows quoted"])
def test_files_that_the_dataverse_quoted_are_read_without_their_quotes(tmp_path, header):
    escaped = '""' if header else '\\"'
    rows = [{name: f'"{text}"' for name, text in row.items()} for row in icews_rows(Publisher=f"The {escaped}Times")]
    names = [f'"{name}"' for name in ICEWS] if header else ICEWS
    rows = [dict(zip(names, [row.get(name, "") for name in ICEWS], strict=True)) for row in rows]
    path = write(tmp_path / "a.tab", text_of(names, rows))
    tensor = ac.read_events(path, diagonal="keep", where='"Source Name" NOT LIKE \'%"%\'')
    assert cells(tensor) == counted()


def test_countries_that_are_not_given_are_dropped_and_counted(tmp_path):
    events = [*EVENTS]
    for nothing in ("", "NA", "NULL", "  "):
        events += [("2018-02-01", nothing, "Israel", "010"), ("2018-02-01", "Israel", nothing, "010")]
    tensor = ac.read_events(write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(events))), diagonal="keep")
    assert tensor.report.dropped == {"no receiver": 4, "no sender": 4}
    assert cells(tensor) == counted()


def test_na_is_a_label_in_a_table_of_ones_own(tmp_path):
    path = write(tmp_path / "a.csv", "who,what\nNA,None\n,tea\n")
    assert cells(ac.read_events(path, modes=["who", "what"])) == {("NA", "None"): 1}


DATES = ["2018-01-30", "20180130", "1/30/2018", "01/30/2018", "2018/01/30", "30 January 2018", "30-Jan-2018"]
DATES += ["2018-01-30T23:59:00Z", "2018-01-30 00:00:00", "2018-01-30 12:30:00.123", "20180130.0"]
DATES += ["30.1.2018", "30/1/2018", "30-01-2018", "01-30-2018", "1/30/2018 5:00 PM", "1/30/2018 17:00"]


@parametrize_few("text", DATES)
def test_a_date_may_be_written_in_many_ways(tmp_path, text):
    path = write(tmp_path / "a.csv", f"who,what,when\nAda,tea,{text}\n")
    assert read_own(path, freq="day").labels[2] == ("2018-01-30",)


def test_a_date_may_be_a_month_or_a_year(tmp_path):
    path = write(tmp_path / "a.csv", "who,what,when\nAda,tea,2018-02\nMax,tea,201802\nZoe,tea,2018\n")
    months = {cell[0]: cell[2] for cell in cells(read_own(path))}
    assert months == {"Ada": "2018-02", "Max": "2018-02", "Zoe": "2018-01"}


def test_what_is_no_date_or_no_clear_one_is_not_guessed_at(tmp_path):
    texts = ["1/5/17", "13/13/2018", "2018-02-30", "5", "99999", "infinity", "soon"]
    rows = "".join(f"Ada,tea,{text}\n" for text in texts)
    path = write(tmp_path / "a.csv", f"who,what,when\nAda,tea,2018-01-01\n{rows}")
    with refused("source", str(path), "line 3: when is '1/5/17', which cannot be read as a date (7 such rows)"):
        read_own(path)
    tensor = read_own(path, on_error="drop")
    assert tensor.report.dropped == {"unreadable time": 7}
    assert cells(tensor) == {("Ada", "tea", "2018-01"): 1}


SPELLINGS = {
    "mark of byte order": "\ufeff" + CSV,
    "windows": CSV.replace("\n", "\r\n"),
    "both": "\ufeff" + CSV.replace("\n", "\r\n"),
    "no last line end": CSV.removesuffix("\n"),
    "blank lines at the end": CSV + "\n\n",
    "several line ends": CSV.replace("\n", "\r\n", 2),
    "other line ends": CSV.replace("\n", "\r\n", 3).replace("\r\n", "\n", 2),
    "old line ends": CSV.replace("\n", "\r"),
    "semicolons": CSV.replace(",", ";"),
    "bars": CSV.replace(",", "|"),
    "tabs": CSV.replace(",", "\t"),
    "quoted header": CSV.replace("who,what,when", '"who","what","when"'),
    "blanks": CSV.replace(",", " , "),
}


@parametrize_few("name", SPELLINGS)
def test_a_text_file_may_be_spelt_in_many_ways(tmp_path, name):
    assert cells(read_own(write(tmp_path / "a.csv", SPELLINGS[name]))) == SALES


def _gz(path):
    (path / "a.csv.gz").write_bytes(gzip.compress(CSV.encode()))


def _zst(path):
    source = write(path / "a.csv", CSV)
    duckdb.sql(f"COPY (FROM read_csv('{source}', all_varchar = true)) TO '{path / 'b.csv.zst'}' (COMPRESSION zstd)")
    source.unlink()


def _parquet(path):
    pl.read_csv(CSV.encode(), try_parse_dates=True).write_parquet(path / "a.parquet")


def _json(path):
    pl.read_csv(CSV.encode()).write_ndjson(path / "a.ndjson")


@pytest.mark.parametrize("make", [_gz, _zst, _parquet, _json])
def test_files_may_be_compressed_or_binary(tmp_path, make):
    make(tmp_path)
    assert cells(read_own(tmp_path)) == SALES


def test_files_whose_columns_are_in_another_order_are_read_together(tmp_path):
    write(tmp_path / "a.csv", CSV)
    write(tmp_path / "b.tsv", "more\twhen\twho\twhat\n1\t2024-02-05\tMax\trice\n")
    _parquet(tmp_path)
    tensor = read_own(tmp_path)
    assert cells(tensor) == {("Ada", "tea", "2024-01"): 4, ("Max", "rice", "2024-02"): 3}
    assert tensor.report.files == 3


def test_a_pattern_a_list_and_a_folder_name_the_same_files(tmp_path):
    paths = [write(tmp_path / f"{number}.csv", CSV) for number in range(3)]
    for source in (tmp_path, str(tmp_path / "*.csv"), paths):
        assert find_files(source) == (paths, [])


BESIDE = {"README": "", "README.md": "# a, b", "Readme.txt": "a, b", "LICENSE": "", ".a.csv": "x", "a.xlsx": "PK"}


def test_what_is_no_table_in_a_folder_is_passed_over_and_told(tmp_path):
    for name, text in BESIDE.items():
        write(tmp_path / name, text)
    (tmp_path / "old").mkdir()
    write(tmp_path / "a.csv", CSV)
    write(tmp_path / "b.txt", CSV)
    tensor = read_own(tmp_path)
    assert cells(tensor) == {cell: 2 * count for cell, count in SALES.items()}
    assert tensor.report.files == 2
    names = [".a.csv", "LICENSE", "README", "README.md", "Readme.txt", "a.xlsx", "old/"]
    assert findings(tensor.report) == {"skipped-files": {"names": names}}
    assert tensor.report.sentences[0].endswith("a.xlsx and 1 more")
    assert sorted(find_files([tmp_path, tmp_path / "a.csv"])[0]) == [tmp_path / "a.csv", tmp_path / "b.txt"]


@pytest.mark.parametrize("name", ["README", "README.md", "LICENSE", "a.xlsx"])
def test_what_is_no_table_is_an_error_where_it_is_named(tmp_path, name):
    write(tmp_path / "a.csv", CSV)
    path = write(tmp_path / name, BESIDE[name])
    for source in (path, [tmp_path, path], str(tmp_path / "*")):
        with refused("source", str(path), "must end in one of .csv"):
            read_own(source)


def test_a_folder_without_any_table_is_an_error(tmp_path):
    write(tmp_path / "README.md", "")
    write(tmp_path / "a.zip", "")
    with refused("source", str(tmp_path), "only README.md, a.zip"):
        read_own(tmp_path)


def test_a_name_of_a_file_is_no_pattern(tmp_path):
    write(tmp_path / "a1.csv", CSV.replace("Ada", "Zoe"))
    assert cells(read_own(write(tmp_path / "a[1].csv", CSV))) == SALES
    names = ["a[1].csv", "a*.csv", "it's.csv", "ä b.csv", "UPPER.CSV"]
    tensor = read_own([write(tmp_path / name, CSV) for name in names])
    assert cells(tensor) == {cell: 5 * count for cell, count in SALES.items()}
    assert tensor.report.files == 5


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path):
    (tmp_path / "who=Zoe").mkdir()
    assert cells(read_own(write(tmp_path / "who=Zoe" / "a.csv", CSV))) == SALES


def test_one_file_may_be_in_utf_8_and_another_in_latin_1(tmp_path):
    write(tmp_path / "a.csv", "who,what\nZoë,tea\n")
    write(tmp_path / "b.csv", "who,what\nZoë,tea\nJosé,rice\n", "latin-1")
    tensor = ac.read_events(tmp_path, modes=["who", "what"])
    assert cells(tensor) == {("Zoë", "tea"): 2, ("José", "rice"): 1}
    assert findings(tensor.report) == {"not-utf-8": {"file": str(tmp_path / "b.csv")}}


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines_of_one_file_may_be_in_several_encodings(tmp_path, ending):
    text = "who,what\nZoë,tea\n".encode() + "Zoë,rice\n".encode("latin-1") + "“Al”,tea\n".encode("cp1252")
    text += b"\x81,tea\n"
    path = tmp_path / f"a.csv{ending}"
    path.write_bytes(gzip.compress(text) if ending else text)
    tensor = ac.read_events(path, modes=["who", "what"])
    assert set(cells(tensor)) == {("Zoë", "tea"), ("Zoë", "rice"), ("“Al”", "tea"), ("\x81", "tea")}


def test_a_header_may_be_in_latin_1(tmp_path):
    path = write(tmp_path / "a.csv", "straße,café\nA,b\n", "latin-1")
    assert ac.read_events(path, modes=["straße", "café"]).total == 1
