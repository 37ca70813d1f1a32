"""Every known format is recognised by its columns, and its events are counted in the right cells."""

import csv
import io
from collections import Counter
from datetime import date, timedelta

import pytest

import allocore as ac
from allocore.tensor.countries import resolve
from support.errors import refused
from support.event_files import (
    ACLED,
    ACTIONS,
    EVENTS,
    GDELT,
    ICEWS,
    PHOENIX,
    POLECAT,
    TERRIER,
    TYPES,
    UCDP,
    cells,
    counted,
    gdelt_rows,
    icews_rows,
    json_lines,
    text_of,
    write,
)
from support.tiers import parametrize_few

MODES = ("sender", "receiver", "action", "time")
MONTHS = ("2018-01", "2018-02", "2018-03")
COUNTRIES = ("Israel", "Palestine", "Russia", "Ukraine")


def terrier_rows():
    return [
        {"event_id": f"e{number}", "date8": day.replace("-", ""), "src_actor": resolve(sender).iso3}
        | {"source": resolve(sender).iso3 + "GOV", "tgt_actor": resolve(receiver).iso3, "target": "x", "code": code}
        | {"root_code": str(int(code[:2])), "url": f"https://example.org/{number}"}
        for number, (day, sender, receiver, code) in enumerate(EVENTS)
    ]


def phoenix_rows():
    return [
        {"EventID": f"{number}_v3", "Date": day.replace("-", ""), "SourceActorEntity": resolve(sender).iso3}
        | {"TargetActorEntity": resolve(receiver).iso3, "EventCode": code, "EventRootCode": code[:2]}
        | {"Issues": "A,3;" * 20, "LocationName": '"somewhere'}
        for number, (day, sender, receiver, code) in enumerate(EVENTS)
    ]


def comma_separated(columns, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


FILES = {
    "icews": ("events.2018.tab", text_of(ICEWS, icews_rows())),
    "icews with commas": ("icews.csv", comma_separated(ICEWS, icews_rows(Publisher="The Times, London"))),
    "gdelt 57": ("20130101.export.CSV", text_of(GDELT[57], gdelt_rows(57), header=False)),
    "gdelt 58": ("20180101.export.CSV", text_of(GDELT[58], gdelt_rows(58), header=False)),
    "gdelt 61": ("20180101000000.export.CSV", text_of(GDELT[61], gdelt_rows(61), header=False)),
    "gdelt with a header": ("gdelt.tsv", text_of(GDELT[61], gdelt_rows(61))),
    "terrier": ("terrier.csv", comma_separated(TERRIER, terrier_rows())),
    "terrier in lines": ("terrier.jsonl", json_lines(terrier_rows())),
    "phoenix": ("events.full.20180101.txt", text_of(PHOENIX, phoenix_rows(), header=False)),
}


@parametrize_few("name", FILES)
def test_a_known_format_is_detected_or_named_and_counted_by_country_root_and_month(tmp_path, name):
    file, text = FILES[name]
    path = write(tmp_path / file, text)
    tensor = ac.read_events(path, diagonal="keep")
    assert tensor.report.format == name.split()[0]
    assert tensor.mode_names == MODES
    assert tensor.labels == (COUNTRIES, COUNTRIES, ACTIONS, MONTHS)
    assert cells(tensor) == counted()
    assert ac.read_events(path, diagonal="keep", format=name.split()[0]) == tensor


def test_all_twenty_roots_and_sixteen_types_are_in_their_order():
    assert [label[:2] for label in ACTIONS] == [f"{number:02d}" for number in range(1, 21)]
    assert ACTIONS[0] == "01 Make public statement"
    assert ACTIONS[19] == "20 Engage in unconventional mass violence"
    order = "AGREE CONSULT SUPPORT COOPERATE AID CONCEDE RETREAT REQUEST ACCUSE REJECT THREATEN PROTEST MOBILIZE "
    assert list(TYPES) == (order + "SANCTION COERCE ASSAULT").split()


def test_a_gdelt_file_with_a_wrong_number_of_columns_says_how_many_it_has(tmp_path):
    path = write(tmp_path / "a.csv", text_of(GDELT[61][:60], gdelt_rows(61), header=False))
    with refused("source", str(path), "must have 57 or 58 or 61 columns as in gdelt, not 60"):
        ac.read_events(path, format="gdelt")


POLECAT_ROWS = [
    ("2018-01-05", "AGREE", "RUS", "UKR"),
    ("2018-01-06", "Consult", "RUS; USA", "UKR;FRA"),
    ("2018-02-06", "ASSAULT", "None", "UKR"),
    ("2018-02-07", "ASSAULT", "RUS", "RUS"),
    ("2018-02-07", "DANCE", "RUS", "UKR"),
]


@pytest.fixture(scope="module")
def polecat(tmp_path_factory):
    """The tensor of a file of POLECAT."""
    rows = [
        {"Event ID": str(number), "Event Date": day, "Event Type": kind, "Actor Country": senders}
        | {"Recipient Country": receivers, "Actor Name": "José Peña", "Contexts": "None"}
        for number, (day, kind, senders, receivers) in enumerate(POLECAT_ROWS)
    ]
    path = tmp_path_factory.mktemp("polecat") / "ngecEvents.txt"
    return ac.read_events(write(path, text_of(POLECAT, rows), "latin-1"), diagonal="keep")


def test_lists_of_countries_in_polecat_count_for_every_pair(polecat):
    expected = Counter()
    for day, kind, senders, receivers in POLECAT_ROWS:
        for sender in senders.split(";"):
            for receiver in receivers.split(";"):
                if resolve(sender) and resolve(receiver) and kind.upper() in TYPES:
                    pair = resolve(sender).name, resolve(receiver).name
                    expected[(*pair, kind.upper(), day[:7])] += 1
    assert polecat.report.format == "polecat"
    assert polecat.labels[2] == TYPES
    assert polecat.labels[0] == polecat.labels[1] == ("France", "Russia", "Ukraine", "United States")
    assert cells(polecat) == expected


def test_a_country_that_a_list_of_polecat_has_twice_counts_once(tmp_path):
    pairs = {("USA;USA", "FRA"): 1, ("USA; USA ;RUS", "FRA"): 2, ("USA;RUS;USA", "FRA;FRA"): 2, (" USA", "FRA "): 1}
    rows = [
        {"Event Date": f"2018-0{month}-06", "Event Type": "CONSULT", "Actor Country": senders}
        | {"Recipient Country": receivers}
        for month, (senders, receivers) in enumerate(pairs, 1)
    ]
    tensor = ac.read_events(write(tmp_path / "a.txt", text_of(POLECAT, rows)))
    assert tensor.mode_totals("time").tolist() == list(pairs.values())
    assert tensor.report.kept == sum(pairs.values())
    assert set(tensor.counts.tolist()) == {1}
    assert tensor.report.rows == len(pairs)


def test_the_report_on_polecat_counts_rows_of_the_file_and_tells_of_the_pairs(polecat):
    report = polecat.report
    assert report.rows == 5
    assert report.kept == 6
    assert report.dropped == {"no sender": 1, "unknown action": 1}
    assert report.unknown == {"action": {"DANCE": 1}}
    assert "lists of actors turned 5 rows into 8 pairs" in str(report)


def test_acled_events_are_counted_by_the_actors_as_they_are_named(tmp_path):
    rows = [
        ("1 January 2024", "Battles", "Military Forces of Mali, (2021-)", 'JNIM: "Group"'),
        ("03 January 2024", "Battles", "Military Forces of Mali, (2021-)", 'JNIM: "Group"'),
        ("2024-03-05", "Protests", "Protesters (Mali)", ""),
        ("2024-03-05", "Riots", "Rioters (Mali)", "Protesters (Mali)"),
    ]
    table = [
        {"event_id_cnty": f"MLI{number}", "event_date": day, "event_type": kind, "actor1": one, "actor2": two}
        for number, (day, kind, one, two) in enumerate(rows)
    ]
    tensor = ac.read_events(write(tmp_path / "acled.csv", comma_separated(ACLED, table)))
    assert tensor.report.format == "acled"
    assert tensor.labels[0] == tensor.labels[1]
    assert cells(tensor) == Counter(
        (one, two, kind, f"2024-0{3 - 2 * (i < 2)}") for i, (_, kind, one, two) in enumerate(rows) if two
    )
    assert tensor.report.dropped == {"no receiver": 1}


@pytest.mark.parametrize("count", [None, "best"])
def test_ucdp_events_are_rows_or_deaths(tmp_path, count):
    rows = [("2020-01-05 00:00:00.000", "1", "A", "B", 3), ("2020-01-09 00:00:00.000", "3", "A", "Civilians", 0)]
    rows.append(("2020-02-09 00:00:00.000", "1", "A", "B", 4))
    table = [
        {"id": number, "date_start": day, "type_of_violence": kind, "side_a": one, "side_b": two, "best": deaths}
        for number, (day, kind, one, two, deaths) in enumerate(rows)
    ]
    tensor = ac.read_events(write(tmp_path / "ged.csv", comma_separated(UCDP, table)), count=count)
    names = ("state-based conflict", "non-state conflict", "one-sided violence")
    expected = Counter()
    for day, kind, one, two, deaths in rows:
        expected[one, two, names[int(kind) - 1], day[:7]] += deaths if count else 1
    assert tensor.report.format == "ucdp"
    assert tensor.labels[2] == names
    assert cells(tensor) == {cell: number for cell, number in expected.items() if number}


def monday(day):
    return str(date.fromisoformat(day) - timedelta(date.fromisoformat(day).weekday()))


PERIODS = {
    "day": (lambda day: day, 373),
    "week": (monday, 54),
    "month": (lambda day: day[:7], 14),
    "quarter": (lambda day: f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}", 6),
    "year": (lambda day: day[:4], 3),
}


@pytest.mark.parametrize("freq", PERIODS)
def test_periods_without_events_stay_and_cross_the_ends_of_years(tmp_path, freq):
    period, number = PERIODS[freq]
    events = [("2017-12-25", "Israel", "Ukraine", "010"), *EVENTS, ("2019-01-01", "Israel", "Ukraine", "010")]
    path = write(tmp_path / "a.tab", text_of(ICEWS, icews_rows(events)))
    tensor = ac.read_events(path, freq=freq, diagonal="keep")
    assert cells(tensor) == counted(events, period=period)
    assert len(tensor.labels[3]) == number
    assert tensor.labels[3][0] == period("2017-12-25")
    assert tensor.labels[3][-1] == period("2019-01-01")
    assert list(tensor.labels[3]) == sorted(set(tensor.labels[3]))
