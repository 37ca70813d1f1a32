"""Write invented events as ICEWS releases its own: one file a day, 20 columns, tabs, a header.

Names of countries and codes of actions are real. Who did what to whom, and when, is planted: see CLASSES.
"""

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

COLUMNS = (
    *("Event ID", "Event Date", "Source Name", "Source Sectors", "Source Country", "Event Text", "CAMEO Code"),
    *("Intensity", "Target Name", "Target Sectors", "Target Country", "Story ID", "Sentence Number", "Publisher"),
    *("City", "District", "Province", "Country", "Latitude", "Longitude"),
)
MONTHS = [f"{year}-{month:02d}" for year in (2018, 2019) for month in range(1, 13)]
GROUPS = {
    "great powers": ["United States", "China", "Russian Federation", "United Kingdom", "France"],
    "Nordic": ["Sweden", "Norway", "Denmark", "Finland", "Iceland"],
    "Andean": ["Colombia", "Peru", "Ecuador", "Bolivia", "Chile"],
    "Gulf": ["Saudi Arabia", "United Arab Emirates", "Qatar", "Kuwait", "Oman", "Bahrain"],
    "East African": ["Ethiopia", "Kenya", "Somalia", "Uganda", "Tanzania"],
    "Southeast Asian": ["Indonesia", "Vietnam", "Thailand", "Malaysia", "Philippines"],
}
# The codes of an action with their weights, and words and intensity of each code.
ACTIONS = {
    "talk": {"040": 3, "042": 3, "036": 2, "050": 2, "010": 1},
    "aid": {"070": 3, "073": 4, "060": 1, "030": 1},
    "dispute": {"111": 4, "100": 3, "120": 2, "130": 2, "160": 1},
    "force": {"190": 4, "180": 2, "170": 2, "150": 2},
}
CODES = {
    "010": ("Make statement", 0.0),
    "030": ("Express intent to cooperate", 4.0),
    "036": ("Express intent to meet or negotiate", 4.0),
    "040": ("Consult", 1.0),
    "042": ("Make a visit", 1.9),
    "050": ("Engage in diplomatic cooperation", 3.5),
    "060": ("Engage in material cooperation", 6.0),
    "070": ("Provide aid", 7.0),
    "073": ("Provide humanitarian aid", 7.4),
    "100": ("Demand", -5.0),
    "111": ("Criticize or denounce", -2.0),
    "120": ("Reject", -4.0),
    "130": ("Threaten", -4.4),
    "150": ("Demonstrate military or police power", -7.2),
    "160": ("Reduce relations", -4.0),
    "170": ("Coerce", -7.0),
    "180": ("Use unconventional violence", -9.0),
    "190": ("Use conventional military force", -10.0),
}
# Senders, receivers, action, first and last month, expected events.
CLASSES = pd.DataFrame(
    [
        ("great powers", "great powers", "talk", "2018-01", "2019-12", 4000),
        ("great powers", "great powers", "dispute", "2018-10", "2019-12", 3000),
        ("great powers", "East African", "aid", "2018-01", "2019-12", 2000),
        ("Nordic", "Nordic", "talk", "2018-01", "2019-12", 2000),
        ("Andean", "Andean", "force", "2018-10", "2019-03", 1500),
        ("Andean", "Andean", "talk", "2019-04", "2019-12", 1500),
        ("Gulf", "Gulf", "dispute", "2018-01", "2019-03", 2000),
        ("Southeast Asian", "great powers", "talk", "2018-05", "2018-07", 1500),
    ],
    columns=["senders", "receivers", "action", "from", "to", "events"],
)


def activity(countries: list[str], group: list[str]) -> np.ndarray:
    """How much each country takes part in what a group does: the first of the group more than the last."""
    return np.array([1 / (1 + group.index(country)) if country in group else 0.0 for country in countries])


def expected_counts() -> tuple[list[str], list[str], np.ndarray]:
    """Countries, codes, and the expected number of events of every sender, receiver, code and month."""
    countries = [country for group in GROUPS.values() for country in group]
    codes = list(CODES)
    mean = np.zeros((len(countries), len(countries), len(codes), len(MONTHS)))
    for senders, receivers, action, first, last, events in CLASSES.itertuples(index=False):
        profiles = []
        for group in (senders, receivers):  # the first countries of a group do more than the last
            profiles.append(
                np.array([1 / (1 + GROUPS[group].index(c)) if c in GROUPS[group] else 0 for c in countries])
            )
        profiles.append(np.array([float(ACTIONS[action].get(code, 0)) for code in codes]))
        profiles.append(np.array([float(first <= month <= last) for month in MONTHS]))
        product = np.einsum("i,j,a,t->ijat", *profiles)
        product[range(len(countries)), range(len(countries))] = 0
        mean += events * product / product.sum()
    return countries, codes, mean + 1e-4  # anybody may do anything to anybody, if rarely


def draw_events(rng: np.random.Generator) -> pd.DataFrame:
    """One row per event: between countries in bursts, within countries, and by actors without a country."""
    countries, codes, mean = expected_counts()
    p = 0.6  # negative binomial: the variance is 1 / (1 - p) = 2.5 times the mean
    counts = rng.negative_binomial(mean * (1 - p) / p, 1 - p)
    i, j, a, t = (np.repeat(axis, counts[counts > 0]) for axis in np.nonzero(counts))
    home = rng.integers(len(countries), size=8000)
    i, j = np.append(i, home), np.append(j, home)
    a = np.append(a, rng.integers(len(codes), size=home.size))
    t = np.append(t, rng.integers(len(MONTHS), size=home.size))
    who = np.array(countries)
    events = pd.DataFrame({"source": who[i], "target": who[j], "code": np.array(codes)[a]})
    days = np.array([pd.Period(month).days_in_month for month in MONTHS])[t]
    first = np.array([pd.Timestamp(month) for month in MONTHS], dtype="datetime64[D]")[t]
    events["day"] = first + (days * rng.random(len(events))).astype(int)
    events.loc[rng.random(len(events)) < 0.02, "target"] = ""  # such as the United Nations
    return events


def icews_rows(events: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """The events in the 20 columns; one in thirty is told by two sentences of its story."""
    events = events.sort_values("day", kind="stable").reset_index(drop=True)
    rows = pd.DataFrame("", index=events.index, columns=list(COLUMNS))
    rows["Event ID"] = 30_000_000 + events.index
    rows["Event Date"] = events["day"].dt.strftime("%Y-%m-%d")
    for side in ("source", "target"):
        country = events[side]
        rows[f"{side.title()} Name"] = ("Government (" + country + ")").where(country != "", "United Nations")
        rows[f"{side.title()} Country"] = country
        rows[f"{side.title()} Sectors"] = "Government"
    rows["CAMEO Code"] = events["code"]
    rows["Event Text"] = events["code"].map(lambda code: CODES[code][0])
    rows["Intensity"] = events["code"].map(lambda code: CODES[code][1])
    rows["Story ID"], rows["Sentence Number"], rows["Publisher"] = 40_000_000 + events.index, 1, "Invented Press"
    rows["Country"] = events["source"]
    twice = rows[rng.random(len(rows)) < 1 / 30].assign(**{"Sentence Number": 2})
    return pd.concat([rows, twice]).sort_values(["Event Date", "Event ID"], kind="stable")


def write_icews_files(folder: str | Path, seed: int = 1) -> int:
    """Write one file for each day of 2018 and 2019, and return how many there are."""
    rng = np.random.default_rng(seed)
    rows = dict(list(icews_rows(draw_events(rng), rng).groupby("Event Date")))
    Path(folder).mkdir(parents=True, exist_ok=True)
    day, number = date(2018, 1, 1), 0
    while day.year < 2020:
        table = rows.get(day.isoformat(), pd.DataFrame(columns=list(COLUMNS)))
        table.to_csv(Path(folder) / f"{day:%Y%m%d}-icews-events.tab", sep="\t", index=False)
        day, number = day + timedelta(days=1), number + 1
    return number
