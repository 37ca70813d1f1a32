"""Read events into a tensor in memory, and into shards on disk: seconds and peak memory, each in its own process.

Usage: python benchmarks/out_of_core.py [ROWS] [MEMORY]

The events are generated: one Parquet file, four modes, and almost as many cells as rows. MEMORY is what duckdb may use,
in its words; by default what it may use in `read_events`.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
from rich.console import Console

READ = """
import json, sys, time
import allocore as ac
from allocore.events import read_events as module
from memory import memory_mb

source, out, limit = sys.argv[1:4]
if limit:
    module._MEMORY = limit
options = {"modes": ["sender", "receiver", "action"], "time": "day", "freq": "day"}
before = memory_mb("VmHWM")
start = time.perf_counter()
Y = ac.read_events(source, **options, **({"out": out} if out else {}))
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "before": before, "peak": memory_mb("VmHWM"), "tensor": repr(Y)}))
"""


def write_events(file: Path, rows: int) -> None:
    """Write events of some busy and many quiet actors, on all days of two years."""
    lengths = {"sender": 3000, "receiver": 3000, "action": 40}
    columns = [f"'{name} ' || CAST(floor({n} * random() * random()) AS INT) AS {name}" for name, n in lengths.items()]
    with duckdb.connect() as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            f"COPY (SELECT {', '.join(columns)}, "
            f"DATE '2020-01-01' + CAST(floor(731 * random()) AS INT) AS day FROM range({rows})) "
            f"TO '{file}' (FORMAT parquet)"
        )


def reading(source: Path, out: Path | None, limit: str) -> dict[str, Any]:
    """Read the events in a process of its own."""
    words = [sys.executable, "-c", READ, str(source), "" if out is None else str(out), limit]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent)
    if done.returncode:
        return {"problem": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(rows: int, limit: str) -> None:
    console = Console(width=150)
    with TemporaryDirectory() as name:
        source = Path(name) / "events.parquet"
        write_events(source, rows)
        for what, out in (("in memory", None), ("in shards", Path(name) / "y.zarr")):
            found = reading(source, out, limit)
            if "problem" in found:
                console.print(f"{what}: failed: {found['problem']}")
                continue
            console.print(
                f"{rows:,} events {what}: {found['seconds']:.0f} s, peak {found['peak'] / 1024:.2f} GiB "
                f"({found['before'] / 1024:.2f} before). {found['tensor']}"
            )


if __name__ == "__main__":
    main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 20_000_000, sys.argv[2] if len(sys.argv) > 2 else "")
