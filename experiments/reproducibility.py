"""Would another run find the same classes? Compares what a run predicts of itself with an independent run.

Usage: python experiments/reproducibility.py [DATA] [--name ICEWS] [--budget 50] [--chains 32] [--out FOLDER]

Chains are fitted once. Random sets of 8, 16, .. of them are runs: each predicts its agreement with another run, and the
probability that another run has each of its classes, and an equal number of other chains shows what is true. Points of
several data sets are collected in one folder, and drawn in one figure.
"""

from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from setting import Cluster, Data, Full, Out, Seed, cluster_of, folder_of, tensor_of

import allocore as ac
from allocore.classes.matching import directions, match
from allocore.classes.profiles import ClassReader
from allocore.classes.reproducibility import agreement, judge_reproducibility
from allocore.classes.tracks import SharedClasses

REPEATS = 6
LEAST = 8
POINTS, CLASSES, FIGURE = "points.csv", "classes.csv", "reproducibility.png"


def main(
    data: Data = None,
    name: Annotated[str, typer.Option(help="The name of the data in the figure.")] = "simulated network",
    likelihood: Annotated[str, typer.Option(help="As for allocore fit.")] = "auto",
    e0: Annotated[str, typer.Option(help="A number, or infer.")] = "1",
    budget: Annotated[int, typer.Option(help="Classes of the model.")] = 50,
    sweeps: Annotated[int, typer.Option(help="Sweeps of each chain.")] = 250,
    chains: Annotated[int, typer.Option(help="Chains; runs of up to half of them are compared.")] = 32,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
    cluster: Cluster = None,
) -> None:
    """Fit many chains, and compare the predicted agreement of runs with the actual one."""
    folder = folder_of(out, "reproducibility", full)
    with cluster_of(cluster) as executor:
        concentration = "infer" if e0 == "infer" else float(e0)
        settings = {"likelihood": likelihood, "e0": concentration, "sweeps": sweeps, "chains": chains, "seed": seed}
        model = ac.AlloCore(budget, **settings, executor=executor)  # type: ignore[arg-type]
        post = model.fit(tensor_of(data, full, seed)).posterior_
    rng = np.random.default_rng(seed)
    points, classes = [], []
    for size in (2**n for n in range(3, 16) if 2 * 2**n <= chains and 2**n >= LEAST):
        for _ in range(REPEATS):
            order = rng.permutation(chains)
            one, other = (post.select_chains(np.sort(each).tolist()) for each in (order[:size], order[size : 2 * size]))
            found, theirs = one.consensus(), other.consensus()
            predicted = judge_reproducibility(ClassReader(one.record), tuple(found.profiles), lambda *_: None)
            actual = agreement(*(SharedClasses(tuple(each.profiles), each.share) for each in (found, theirs)))
            points.append((name, size, predicted.agreement, actual))
            again = np.isin(np.arange(len(found.share)), match(directions(tuple(found.profiles)),
                            directions(tuple(theirs.profiles)), 0.9)[0])  # fmt: skip
            classes += [(name, size, p, bool(yes)) for p, yes in zip(predicted.found_again, again, strict=True)]
    add(folder / POINTS, pd.DataFrame(points, columns=["data", "chains", "predicted", "actual"]))
    add(folder / CLASSES, pd.DataFrame(classes, columns=["data", "chains", "predicted", "found"]))
    report(folder)


def add(path: Path, table: pd.DataFrame) -> None:
    """Write rows to a file, after those of other data."""
    if path.exists():
        earlier = pd.read_csv(path)
        table = pd.concat([earlier[~earlier["data"].isin(table["data"].unique())], table])
    table.to_csv(path, index=False)


def report(folder: Path) -> None:
    """Print predicted and actual agreement by data and number of chains, and draw the figure."""
    points, classes = pd.read_csv(folder / POINTS), pd.read_csv(folder / CLASSES)
    means = points.groupby(["data", "chains"])[["predicted", "actual"]].agg(["mean", "std"]).round(3)
    print(means.to_string())
    bins = pd.cut(classes["predicted"], [0.0, 0.25, 0.5, 0.75, 0.99, 1.0], include_lowest=True)
    calibration = classes.groupby(bins, observed=True)[["predicted", "found"]].agg(["mean", "size"]).round(3)
    print(calibration.to_string())
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), constrained_layout=True)
    for place, (name, of_data) in enumerate(points.groupby("data")):
        for (size, of_size), marker in zip(of_data.groupby("chains"), "osD^", strict=False):
            left.plot(of_size["actual"], of_size["predicted"], marker, color=f"C{place}", alpha=0.35, ms=4)
            mean = of_size[["actual", "predicted"]].mean()
            left.plot(*mean, marker, color=f"C{place}", ms=9, label=f"{name}, {size} chains")
    low = float(min(points["actual"].min(), points["predicted"].min())) - 0.02
    left.fill_between([low, 1], [low - 0.05, 0.95], [low + 0.05, 1.05], color="0.92", zorder=0)
    left.plot([low, 1], [low, 1], color="0.6", lw=1)
    left.set(xlim=(low, 1.005), ylim=(low, 1.005), xlabel="agreement of two runs", ylabel="predicted by one run")
    left.legend(fontsize=7, frameon=False)
    by_bin = classes.groupby(bins, observed=True)[["predicted", "found"]].mean()
    right.plot([0, 1], [0, 1], color="0.6", lw=1)
    right.plot(by_bin["predicted"], by_bin["found"], "o-")
    right.set(xlabel="share of halves that find a class", ylabel="share of these classes that another run has")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(folder / FIGURE, dpi=150)


if __name__ == "__main__":
    typer.run(main)
