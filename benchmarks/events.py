"""Read a folder of GDELT-shaped files into a tensor: seconds and peak memory, beside a plain read and a plain scan.

Usage: python benchmarks/events.py [ROWS]

The files are generated: 58 columns, tab-separated, no header, one file per month. A separate process reads them, so
that its memory can be measured.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import duckdb
from rich.console import Console

MONTHS = 20
READ = """
import json, resource, sys, time
import allocore as ac
start = time.perf_counter()
Y = ac.read_events(sys.argv[1], format="gdelt", where="IsRootEvent = '1'", freq="month")
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"seconds": seconds, "peak GB": peak, "tensor": repr(Y), "rows": Y.report.rows}))
"""
COUNTRIES = "USA RUS CHN GBR FRA DEU IND PAK ISR IRN IRQ SYR TUR EGY SAU JPN KOR PRK UKR POL ITA ESP BRA MEX CAN AUS"


def write_files(folder: Path, rows: int) -> None:
    """Write a file per month, with values that vary as in GDELT and lines about as long."""
    names = ", ".join(f"'{code}'" for code in COUNTRIES.split())
    country = f"CASE WHEN random() < 0.4 THEN '' ELSE ([{names}])[1 + CAST(floor(random() * random() * 26) AS INT)] END"
    actor = ["'GOV' || (i % 97)", "'NAME OF ACTOR ' || (i % 9973)", country, *["''"] * 5, "'GOV'", *["''"] * 2]
    place = ["'4'", "'Some City, Some Province, Some Country'", "'US'", "'USDC'", "38.8951", "-77.0364", "'531871'"]
    root = "lpad(CAST(1 + CAST(floor(random() * random() * 20) AS INT) AS VARCHAR), 2, '0')"
    columns = [
        *("900000000 + i", "strftime(DATE '2020-01-01' + CAST(i % 28 AS INT) + INTERVAL {month} MONTH, '%Y%m%d')"),
        *("'202001'", "'2020'", "'2020.1'"),
        *actor[:10],
        *actor[:10],
        *("CAST(random() < 0.6 AS INT)", f"{root} || '0'", f"{root} || '0'", root, "1", "3.4", "4", "1", "4", "-2.5"),
        *place,
        *place,
        *place,
        "'20200101'",
        "'https://www.example.org/news/' || (i % 100003) || '/a-long-headline-as-they-are-in-addresses.html'",
    ]
    each = rows // MONTHS
    with duckdb.connect() as connection:
        for month in range(MONTHS):
            select = ", ".join(
                f"{text.replace('{month}', str(month))} AS c{place}" for place, text in enumerate(columns)
            )
            target = folder / f"{month:02d}.export.csv"
            connection.execute(
                f"COPY (SELECT {select} FROM range({each}) AS t(i)) TO '{target}' "
                f"(DELIMITER '\t', HEADER false, QUOTE '')"
            )


def reading(rows: int) -> dict[str, Any]:
    """Generate the files, scan them, and read them into a tensor."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        files = sorted(folder.iterdir())
        size = sum(file.stat().st_size for file in files)
        start = perf_counter()
        for file in files:
            with file.open("rb", buffering=0) as stream:
                while stream.read(2**24):
                    pass
        plain = perf_counter() - start
        start = perf_counter()
        with duckdb.connect() as connection:
            columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(58))
            connection.execute(
                f"SELECT count(c7), count(c17), count(c28), count(c1) FROM read_csv('{folder}/*.csv', "
                f"auto_detect = false, delim = '\t', quote = '', escape = '', header = false, columns = {{{columns}}})"
            ).fetchall()
        scan = perf_counter() - start
        done = subprocess.run([sys.executable, "-c", READ, f"{folder}/*.csv"], capture_output=True, text=True)
    if done.returncode:
        return {"problem": done.stderr.strip().splitlines()[-1]}
    return {"GB": size / 1e9, "plain read": plain, "duckdb scan": scan, **json.loads(done.stdout)}


def print_reading(result: dict[str, Any], console: Console) -> None:
    if "problem" in result:
        console.print(f"reading events failed: {result['problem']}")
        return
    console.print(
        f"Reading {result['rows']:,} events of GDELT's shape ({result['GB']:.1f} GB): {result['seconds']:.1f} s "
        f"(<= 60 for 2e7), peak {result['peak GB']:.2f} GB (< 4); the bytes alone {result['plain read']:.1f} s, duckdb "
        f"counting four columns {result['duckdb scan']:.1f} s. {result['tensor']}"
    )


if __name__ == "__main__":
    print_reading(reading(int(float(sys.argv[1])) if len(sys.argv) > 1 else 20_000_000), Console(width=150))
