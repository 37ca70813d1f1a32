"""The paper's figures from the paper's data: ICEWS 1995 to 2013, as aschein/bptf has it on GitHub.

Usage: python experiments/published.py data_compressed.npz [--full] [--out FOLDER]

The file is examples/ICEWS/dat/1995-2013-M/data_compressed.npz of that repository: Y, a dense array of counts by sender,
receiver, action and month, and the labels actors, actions and dates. By year, it is the tensor of the predictive
experiments (log PPD against Q, and against time by core); by month, that of the run with Q = 400 that is looked at. A
run that was stopped continues with the same command.
"""

from pathlib import Path
from typing import Annotated

import budgets
import numpy as np
import qualitative
import typer
import wall_clock
from setting import Full, Out, Seed, folder_of

import allocore as ac

MODES = ("sender", "receiver", "action", "time")


def main(
    data: Annotated[Path, typer.Argument(help="The file data_compressed.npz.")],
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Read the file, then run the paper's experiments on it, each in its own folder."""
    folder = folder_of(out, "published", full)
    months = read_dyadic(data)
    print(months)
    by_month, by_year = folder / "icews-by-month.npz", folder / "icews-by-year.npz"
    months.save(by_month)
    years(months).save(by_year)
    budgets.main(str(by_year), full=full, out=folder / "budgets", seed=seed)
    wall_clock.main(str(by_year), full=full, out=folder / "wall_clock", seed=seed)
    qualitative.main(str(by_month), full=full, out=folder / "qualitative", seed=seed)


def read_dyadic(path: Path) -> ac.CountTensor:
    """Read the file: the tensor by month, with its labels. The array has 283 million cells, so memory is needed."""
    with np.load(path) as arrays:  # objects are not unpickled
        counts = arrays["Y"]
        actors, actions, dates = (arrays[name] for name in ("actors", "actions", "dates"))
    coords = np.stack(np.nonzero(counts))
    names = [[str(label) for label in each] for each in (actors, actions)]
    months = [str(date)[:7] for date in dates]
    labels = [names[0], names[0], names[1], months]
    return ac.CountTensor(coords, counts[tuple(coords)], counts.shape, mode_names=MODES, labels=labels)


def years(months: ac.CountTensor) -> ac.CountTensor:
    """The same counts by year."""
    labels = [str(label)[:4] for label in months.labels[3]]
    known = sorted(set(labels))
    coords = months.coords.copy()
    coords[3] = np.array([known.index(year) for year in labels])[coords[3]]
    shape = (*months.shape[:3], len(known))
    return ac.CountTensor(coords, months.counts, shape, mode_names=MODES, labels=[*months.labels[:3], known])


if __name__ == "__main__":
    typer.run(main)
