"""What the columns of known event data sets mean, and how to recognise a data set.

A header is recognised by columns that no other format has; without one, the number of columns and a day in the second.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

TextKind = Literal["plain", "country", "cameo", "root", "plover", "violence", "time"]


@dataclass(frozen=True)
class Mode:
    """One mode of the tensor: its name, its column, what its texts mean, and a fallback for the column."""

    name: str
    column: str
    kind: TextKind = "plain"
    fallback: str | None = None
    codes: bool = False  # whether its texts may be CAMEO codes, which then have words


@dataclass(frozen=True)
class Format:
    """An event data set: its default modes, of which sender and receiver share their labels, and how it is written."""

    name: str
    modes: tuple[Mode, ...]
    marks: frozenset[str] = frozenset()  # columns by which a header is recognised
    columns: dict[int, tuple[str, ...]] = field(default_factory=dict)  # without a header: number of columns -> names
    event: tuple[str, ...] = ()  # columns that distinguish the events of a day or a story
    codes: tuple[str, ...] = ()  # columns of CAMEO codes that are no default mode
    story: str | None = None
    lists: bool = False  # countries may be lists, separated by semicolons
    quoted: bool = True


def _modes(sender: str, receiver: str, action: Mode, time: str, actors: TextKind = "country") -> tuple[Mode, ...]:
    return Mode("sender", sender, actors), Mode("receiver", receiver, actors), action, Mode("time", time, "time")


def _action(column: str, kind: TextKind, words: str | None = None) -> Mode:
    return Mode("action", column, kind, words)


def _gdelt_columns(number: int) -> tuple[str, ...]:
    """Return the columns of GDELT 1.0 without (57) and with (58) the source's address, or of GDELT 2.0 (61)."""
    codes = "Code Name CountryCode KnownGroupCode EthnicCode Religion1Code Religion2Code Type1Code Type2Code Type3Code"
    actor = codes.split()
    place = f"Type FullName CountryCode ADM1Code {'ADM2Code' if number == 61 else ''} Lat Long FeatureID".split()
    return (
        *("GLOBALEVENTID", "SQLDATE", "MonthYear", "Year", "FractionDate"),
        *(f"Actor{which}{part}" for which in (1, 2) for part in actor),
        *("IsRootEvent", "EventCode", "EventBaseCode", "EventRootCode", "QuadClass", "GoldsteinScale"),
        *("NumMentions", "NumSources", "NumArticles", "AvgTone"),
        *(f"{who}Geo_{part}" for who in ("Actor1", "Actor2", "Action") for part in place),
        "DATEADDED",
        *(("SOURCEURL",) if number > 57 else ()),
    )


_PHOENIX = (
    *("EventID", "Date", "Year", "Month", "Day"),
    *("SourceActorFull", "SourceActorEntity", "SourceActorRole", "SourceActorAttribute"),
    *("TargetActorFull", "TargetActorEntity", "TargetActorRole", "TargetActorAttribute"),
    *("EventCode", "EventRootCode", "PentaClass", "GoldsteinScore", "Issues", "Lat", "Lon"),
    *("LocationName", "StateName", "CountryCode", "SentenceID", "URLs", "NewsSources"),
)
_DAY = re.compile(r"[12][0-9]{7}")

FORMATS = {
    each.name: each
    for each in (
        Format(
            "icews",
            _modes("Source Country", "Target Country", _action("CAMEO Code", "cameo", "Event Text"), "Event Date"),
            marks=frozenset({"Source Country", "Target Country", "Event Date", "Event Text"}),
            event=("Source Name", "Target Name", "CAMEO Code"),
            story="Story ID",
            quoted=False,
        ),
        Format(
            "gdelt",
            _modes("Actor1CountryCode", "Actor2CountryCode", _action("EventRootCode", "root"), "SQLDATE"),
            marks=frozenset({"GLOBALEVENTID", "Actor1CountryCode", "Actor2CountryCode"}),
            columns={number: _gdelt_columns(number) for number in (57, 58, 61)},
            event=("Actor1Code", "Actor2Code", "EventCode"),
            codes=("EventCode", "EventBaseCode"),
            story="SOURCEURL",
            quoted=False,
        ),
        Format(
            "terrier",
            _modes("src_actor", "tgt_actor", _action("root_code", "root"), "date8"),
            marks=frozenset({"src_actor", "tgt_actor", "root_code"}),
            event=("source", "target", "code"),
            codes=("code",),
            story="url",
        ),
        Format(
            "phoenix",
            _modes("SourceActorEntity", "TargetActorEntity", _action("EventRootCode", "root"), "Date"),
            marks=frozenset({"SourceActorEntity", "TargetActorEntity"}),
            columns={26: _PHOENIX},
            event=("SourceActorFull", "TargetActorFull", "EventCode"),
            codes=("EventCode",),
            story="URLs",
            quoted=False,
        ),
        Format(
            "polecat",
            _modes("Actor Country", "Recipient Country", _action("Event Type", "plover"), "Event Date"),
            marks=frozenset({"Actor Country", "Recipient Country", "Event Type"}),
            event=("Actor Name", "Recipient Name", "Event Type", "Event Mode"),
            lists=True,
        ),
        Format(
            "acled",
            _modes("actor1", "actor2", _action("event_type", "plain"), "event_date", actors="plain"),
            marks=frozenset({"event_id_cnty", "actor1", "event_type"}),
            event=("event_id_cnty",),
        ),
        Format(
            "ucdp",
            _modes("side_a", "side_b", _action("type_of_violence", "violence"), "date_start", actors="plain"),
            marks=frozenset({"side_a", "side_b", "type_of_violence"}),
            event=("id",),
        ),
    )
}


def find_format(wanted: str, header: tuple[str, ...]) -> Format | None:
    """Return the format that is wanted, or with "auto" that of a file whose first line has these fields, if known."""
    if wanted != "auto":
        return FORMATS[wanted]
    for each in FORMATS.values():
        if each.marks <= set(header):
            return each
    if len(header) > 1 and _DAY.fullmatch(header[1].strip()):
        return next((each for each in FORMATS.values() if len(header) in each.columns), None)
    return None


# In event tables of unknown formats: names of columns for each mode, the likeliest first, and for the dates.
_LIKELY = (
    "source src sender actor1 actor_1 from initiator origin side_a exporter",
    "target tgt receiver recipient actor2 actor_2 to dst dest destination side_b importer",
    "cameo_root event_root_code root_code action event_type type kind relation cameo_code event_code cameo code",
)
_LIKELY_TIME = ("date", "datetime", "timestamp", "time", "day", "when", "week", "month", "year")
_UNLIKELY = re.compile(r"(.*_)?(id|url|n|count|counts|number|lat|lon|value|weight|label|text|notes?)")


def likely_columns(columns: tuple[str, ...]) -> tuple[list[str], str | None]:
    """Guess from their names which columns of a table are actors and actions, and which one has the dates."""
    plain = {column: re.sub("[^a-z0-9]+", "_", column.casefold()).strip("_") for column in columns}
    ends = {name: [column for column in columns if plain[column].split("_")[-1] == name] for name in _LIKELY_TIME}
    time = next((column for found in ends.values() for column in found), None)
    modes = [found for words in _LIKELY if (found := _first_like(words, plain))]
    if len(modes) < 2:
        others = [column for column in columns if column != time and not _UNLIKELY.fullmatch(plain[column])]
        modes = others[:3]
    return modes, time


def _first_like(words: str, plain: dict[str, str]) -> str | None:
    """Return the first column with the first of some words as its name, perhaps followed by what the word is of."""
    patterns = (re.compile(f"{word}(_(country|name|actor|entity|code))?") for word in words.split())
    return next((column for each in patterns for column, name in plain.items() if each.fullmatch(name)), None)
