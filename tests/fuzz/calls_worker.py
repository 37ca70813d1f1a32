"""A process that makes random calls: takes a target and a seed per line, and answers as `fuzz_worker` does.

By hand: `PYTHONPATH=tests python tests/fuzz/calls_worker.py FOLDER TARGET SEED` makes one call and prints its outcome.
"""

import sys
from pathlib import Path

from fuzz_worker import serve
from random_calls import Things, call


def main(folder, *case):
    things = Things(Path(folder))
    if case:
        print(*call(case[0], int(case[1]), things), sep="\n")
    else:
        serve(lambda name, seed: judged(*call(name, seed, things)))


def judged(words, came):
    return (came, words) if came in ("answer", "refused") else ("raised", f"{words}\n{came}")


if __name__ == "__main__":
    main(*sys.argv[1:])
