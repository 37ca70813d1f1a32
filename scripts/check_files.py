"""Check files for what a commit should not hold: stray spaces, conflict marks, a missing last newline, large files.

    python scripts/check_files.py README.md src/allocore/__init__.py

Files made by others (minified JavaScript, pictures, data) are checked for their size alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

LARGEST = 1_000_000
TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".cff", ".css", ".html", ".csv", ".js"}
MADE_BY_OTHERS = ("src/allocore/report/page/assets/",)
CONFLICT = re.compile(r"^(<{7} |={7}$|>{7} )")


def faults(path: Path) -> Iterator[str]:
    """What is wrong with one file, a sentence each."""
    content = path.read_bytes()
    if len(content) > LARGEST:
        yield f"{path} has {len(content):,} bytes, but the most is {LARGEST:,}"
    if path.suffix not in TEXT or path.as_posix().startswith(MADE_BY_OTHERS):
        return
    lines = content.decode("utf-8").split("\n")
    if content and (lines[-1] or lines[-2:] == ["", ""]):
        yield f"{path} must end in one newline"
    for number, line in enumerate(lines, start=1):
        if line != line.rstrip():
            yield f"{path}, line {number}: spaces or a carriage return at the end"
        if CONFLICT.match(line):
            yield f"{path}, line {number}: a mark of a merge conflict"


if __name__ == "__main__":
    found = [fault for name in sys.argv[1:] if Path(name).is_file() for fault in faults(Path(name))]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
