"""Keep the file of a case of the fuzzer, so that it becomes an ordinary test: keep_case.py KIND SEED [KIND SEED ..]."""

import shutil
import sys
import tempfile
from pathlib import Path

from fuzz_worker import make_case

KEPT = Path(__file__).parent / "kept"


def main(words):
    for kind, seed in zip(words[::2], words[1::2], strict=True):
        with tempfile.TemporaryDirectory() as folder:
            path = make_case(kind, int(seed), Path(folder))
            target = KEPT / kind.replace(" ", "_") / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)
            print(target)


if __name__ == "__main__":
    main(sys.argv[1:])
