"""Small event files as their publishers write them, and tensors as plain dicts to compare them with."""

import json
from collections import Counter
from pathlib import Path

from allocore.tensor.cameo import PLOVER, ROOTS
from allocore.tensor.countries import resolve

ACTIONS = tuple(f"{code} {name}" for code, name in ROOTS.items())
TYPES = tuple(PLOVER)

ICEWS = """Event ID|Event Date|Source Name|Source Sectors|Source Country|Event Text|CAMEO Code|Intensity|Target Name|
Target Sectors|Target Country|Story ID|Sentence Number|Publisher|City|District|Province|Country|Latitude|
Longitude""".replace("\n", "").split("|")

_ACTOR = "Code Name CountryCode KnownGroupCode EthnicCode Religion1Code Religion2Code Type1Code Type2Code Type3Code"
_GEO_1 = "Type FullName CountryCode ADM1Code Lat Long FeatureID"
_GEO_2 = "Type FullName CountryCode ADM1Code ADM2Code Lat Long FeatureID"


def _names(text: str) -> list[str]:
    return text.split()


def _gdelt(geo: str, address: bool) -> list[str]:
    return [
        *_names("GLOBALEVENTID SQLDATE MonthYear Year FractionDate"),
        *(f"Actor1{part}" for part in _ACTOR.split()),
        *(f"Actor2{part}" for part in _ACTOR.split()),
        *_names("IsRootEvent EventCode EventBaseCode EventRootCode QuadClass GoldsteinScale"),
        *_names("NumMentions NumSources NumArticles AvgTone"),
        *(f"{who}Geo_{part}" for who in ("Actor1", "Actor2", "Action") for part in geo.split()),
        "DATEADDED",
        *(["SOURCEURL"] if address else []),
    ]


GDELT = {57: _gdelt(_GEO_1, address=False), 58: _gdelt(_GEO_1, address=True), 61: _gdelt(_GEO_2, address=True)}

TERRIER = _names("""event_id date8 year month day source src_actor src_agent src_other_agent target tgt_actor tgt_agent
tgt_other_agent code root_code quad_class goldstein joined_issues lat lon placename statename countryname url""")

PHOENIX = _names("""EventID Date Year Month Day SourceActorFull SourceActorEntity SourceActorRole SourceActorAttribute
TargetActorFull TargetActorEntity TargetActorRole TargetActorAttribute EventCode EventRootCode PentaClass GoldsteinScore
Issues Lat Lon LocationName StateName CountryCode SentenceID URLs NewsSources""")

POLECAT = """Event ID|Event Date|Event Type|Event Mode|Intensity|Quad Code|Contexts|Actor Name|Actor Country|
Actor Sectors|Recipient Name|Recipient Country|Recipient Sectors|Placename|City|Country|Latitude|Longitude|Language|
Version""".replace("\n", "").split("|")

ACLED = _names("""event_id_cnty event_date year time_precision disorder_type event_type sub_event_type actor1
assoc_actor_1
inter1 actor2 assoc_actor_2 inter2 country notes fatalities timestamp""")

UCDP = _names("""id relid year active_year type_of_violence conflict_name dyad_name side_a_new_id side_a
side_b_new_id side_b
country region date_start date_end deaths_a best high low""")

# What happened, in the columns of ICEWS: date, source, target, code.
EVENTS = [
    ("2018-01-03", "Russian Federation", "Ukraine", "014"),
    ("2018-01-09", "Russian Federation", "Ukraine", "0211"),
    ("2018-01-31", "Ukraine", "Russian Federation", "141"),
    ("2018-03-01", "Russian Federation", "Ukraine", "014"),
    ("2018-03-02", "Occupied Palestinian Territory", "Israel", "190"),
    ("2018-03-02", "Israel", "Israel", "042"),
]


def icews_rows(events=EVENTS, **more):
    return [
        {"Event ID": str(number), "Event Date": day, "Source Name": f"Citizen ({sender})", "Source Country": sender}
        | {"Event Text": "Make a visit", "CAMEO Code": code, "Intensity": "1.0", "Target Name": f"Police ({receiver})"}
        | {"Target Country": receiver, "Story ID": str(100 + number), "Publisher": 'The "Times"', "Latitude": "1.5"}
        | more
        for number, (day, sender, receiver, code) in enumerate(events)
    ]


def gdelt_rows(number=61, events=EVENTS, **more):
    columns = GDELT[number]
    rows = [
        {"GLOBALEVENTID": str(number), "SQLDATE": day.replace("-", ""), "Actor1Code": _code(sender) + "GOV"}
        | {"Actor1CountryCode": _code(sender), "Actor2Code": _code(receiver), "Actor2CountryCode": _code(receiver)}
        | {"Actor1Name": '"QUOTED', "IsRootEvent": "1", "EventCode": code, "EventRootCode": code[:2]}
        | {"NumMentions": "3", "SOURCEURL": f"https://example.org/{number}"}
        | more
        for number, (day, sender, receiver, code) in enumerate(events)
    ]
    return [{name: text for name, text in row.items() if name in columns} for row in rows]


def _code(country):
    return resolve(country).iso3


def text_of(columns, rows, separator="\t", header=True, end="\n"):
    """A table without quoting, as ICEWS and GDELT publish theirs."""
    lines = [separator.join(columns)] if header else []
    lines += [separator.join(row.get(name, "") for name in columns) for row in rows]
    return "".join(line + end for line in lines)


def write(path: Path, text: str, encoding="utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def cells(tensor):
    """The non-zeros of a tensor as a dict from labels to counts."""
    places = zip(*tensor.coords.tolist(), strict=True)
    return {
        tuple(labels[d] for labels, d in zip(tensor.labels, place, strict=True)): count
        for place, count in zip(places, tensor.counts.tolist(), strict=True)
    }


def findings(report):
    """The findings of a report as a dict from kinds to values, without that on empty periods, which many cases have."""
    return {each.kind: each.values for each in report.findings if each.kind != "empty-periods"}


def counted(events=EVENTS, *, period=lambda day: day[:7], diagonal=True):
    """The cells of events, counted one by one."""
    return Counter(
        (resolve(sender).name, resolve(receiver).name, ACTIONS[int(code[:2]) - 1], period(day))
        for day, sender, receiver, code in events
        if diagonal or sender != receiver
    )
