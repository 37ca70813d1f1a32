"""A process that damages and reads files: takes a kind and a seed per line, answers with a line of JSON.

Memory is limited by the operating system (`LIMIT` of address space over what was in use at the start), and the peak
is measured. The parent looks at the clock, and ends the process if it hangs: see `fuzzing.py`.
"""

import gzip
import json
import random
import resource
import shutil
import sys
import traceback
import warnings
from functools import cache
from pathlib import Path

from damage import damaged
from fuzz_kinds import ALL, CSV

from allocore.errors import InputError, StoreError

LIMIT = 4 << 30


def make_case(name, seed, folder):
    """Write the damaged file of a case into a folder, and return its path; the same case is always the same file."""
    kind, rng = ALL[name], random.Random(f"{name} {seed}")
    valid = valid_file(name, str(folder))
    target = folder / f"{rng.choice(['drop', 'raise'])}-{name.replace(' ', '_')}-{seed}{kind.suffix}"
    if valid.is_dir():
        shutil.copytree(valid, target)
        hit = rng.choice(sorted(path for path in target.rglob("*") if path.is_file()))
    else:
        hit = target
    content = (valid / hit.relative_to(target)).read_bytes() if valid.is_dir() else valid.read_bytes()
    if kind.inner == "gzip":
        hit.write_bytes(gzip.compress(damaged(gzip.decompress(content), rng, CSV.encode())))
    else:
        hit.write_bytes(damaged(content, rng, CSV.encode()))
    return target


@cache
def valid_file(name, folder):
    path = Path(folder) / f"valid-{name.replace(' ', '_')}{ALL[name].suffix}"
    ALL[name].write(path)
    return path


def outcome(read, path):
    """Return "answer" or "refused"; or what went wrong."""
    try:
        read(path)
    except (InputError, StoreError) as error:
        return "refused", str(error)
    except BaseException:
        return "raised", traceback.format_exc()
    return "answer", ""


def peak_bytes():
    """The peak of this program; ru_maxrss begins with that of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def serve(answer):
    """Answer each line, a kind and a seed, by an outcome and a reason; what is in use by now does not count."""
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + LIMIT, in_use + LIMIT))
    out, sys.stdout = sys.stdout, sys.stderr  # what is called may print
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        result, why = answer(*json.loads(line))
        print(json.dumps({"outcome": result, "why": why, "peak": peak_bytes()}), file=out, flush=True)


def main():
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    for kind in sys.argv[2:]:
        outcome(ALL[kind].read, valid_file(kind, str(folder)))  # what is loaded once is not counted

    def answer(kind, seed):
        path = make_case(kind, seed, folder)
        found = outcome(ALL[kind].read, path)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return found

    serve(answer)


if __name__ == "__main__":
    main()
