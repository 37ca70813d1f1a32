"""Where does sharing factors pay? ALL0CORE and CP on growing parts of the events, by split.

Usage: python experiments/learning_curves.py [DATA] [--shares 0.05,0.2,1] [--budgets 25,50] [--chains 4] [--full]

The events are thinned: each is kept with the same probability. For each share, split, likelihood, e0 and Q, both models
are fitted to the same tensor. A row has the log PPD of all held-out cells and of those with counts, the classes and the
numbers in the factors in use (means over chains), and the agreement of the consensus of two halves of the chains.
"""

from itertools import product
from pathlib import Path
from typing import Annotated

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from setting import Data, Full, Out, Seed, folder_of, tensor_of

import allocore as ac
from allocore.classes.reproducibility import agreement
from allocore.classes.tracks import SharedClasses

KEYS = ["likelihood", "e0", "Q", "share"]


def thinned(tensor: ac.CountTensor, share: float, rng: np.random.Generator) -> ac.CountTensor:
    """The tensor of events of which each was kept with this probability; labels and missing cells stay."""
    kept = rng.binomial(tensor.counts, share)
    some = kept > 0
    found = ac.CountTensor(
        tensor.coords[:, some], kept[some], tensor.shape, mode_names=tensor.mode_names, labels=tensor.labels
    )
    return found.with_missing(tensor.missing.patterns)


def main(
    data: Data = None,
    shares: Annotated[str | None, typer.Option(help="Shares of the events that are kept.")] = None,
    budgets: Annotated[str | None, typer.Option(help="Values of Q.")] = None,
    likelihoods: Annotated[str, typer.Option(help="As for allocore fit.")] = "poisson,negative-binomial",
    concentrations: Annotated[str, typer.Option(help="Values of e0; infer learns it.")] = "1,infer",
    splits: Annotated[int | None, typer.Option(help="Splits of the data.")] = None,
    chains: Annotated[int, typer.Option(help="Chains of each fit.")] = 4,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Fit both models to every part; write the table, continuing one that is there, and the figure."""
    folder, tensor = folder_of(out, "learning_curves", full), tensor_of(data, full, seed)
    parts = [float(each) for each in (shares or ("0.02,0.05,0.1,0.2,0.5,1" if full else "0.05,0.2,1")).split(",")]
    sizes = [int(each) for each in (budgets or ("25,50,100,200" if full else "25")).split(",")]
    settings = list(product(likelihoods.split(","), concentrations.split(","), sizes, parts))
    path = folder / "curves.csv"
    rows = pd.read_csv(path, dtype={"e0": str}).to_dict("records") if path.exists() else []
    done = {tuple(row[key] for key in ("split", *KEYS, "model")) for row in rows}
    sweeps = 600 if full else 200
    for split, (likelihood, e0, size, share) in product(range(splits or (4 if full else 2)), settings):
        part = thinned(tensor, share, np.random.default_rng([seed, split, round(1e6 * share)]))
        held_out = ac.hold_out(part, 0.01, seed=seed + split)
        for name, kind in (("allocore", ac.AlloCore), ("cp", ac.CP)):
            keys = {"split": split, "likelihood": likelihood, "e0": e0, "Q": size, "share": share, "model": name}
            if tuple(keys.values()) in done:
                continue
            concentration = "infer" if e0 == "infer" else float(e0)
            how = {
                "likelihood": likelihood,
                "e0": concentration,
                "sweeps": sweeps,
                "chains": chains,
                "seed": seed + split,
            }
            post = kind(size, progress=False, **how).fit(held_out).posterior_
            rows.append({**keys, **measured(post, held_out)})
            pd.DataFrame(rows).to_csv(path, index=False)
            print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    print(gains(table).round(4).to_string())
    draw(table, folder / "learning_curves.png")


def measured(post: ac.Posterior, split: ac.Split) -> dict[str, float]:
    """The scores of a fit, what it uses, and how well the halves of its chains agree."""
    chains = len(post.core_values)
    stats = post.record.stats
    factors_CM = stats["factors"][:, -1]
    found = {
        "all": post.log_ppd(split.test),
        "positive": post.log_ppd(split.test, positive_only=True),
        "classes": float(stats["classes"][:, -1].mean()),
        "parameters": float((factors_CM @ np.array(post.tensor.shape)).mean()),
    }
    if chains > 1:
        halves = [post.select_chains(list(range(half, chains, 2))).consensus(progress=False) for half in (0, 1)]
        found["agreement"] = agreement(*(SharedClasses(tuple(each.profiles), each.share) for each in halves))
    return found


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """By how much ALL0CORE is ahead of CP, and the standard errors over splits."""
    wide = table.pivot(index=["split", *KEYS], columns="model", values=["all", "positive"])
    ahead = wide.xs("allocore", axis=1, level="model") - wide.xs("cp", axis=1, level="model")
    groups = ahead.groupby(level=KEYS, sort=False)
    return groups.mean().join(groups.sem().add_suffix("_se"))


def draw(table: pd.DataFrame, path: Path) -> None:
    """The gain of ALL0CORE on cells with counts against the share of the events, and the scores against parameters."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    for (likelihood, e0, size), found in gains(table).groupby(level=KEYS[:3], sort=False):
        found = found.sort_index(level="share")
        share = found.index.get_level_values("share")
        left.errorbar(share, found["positive"], found["positive_se"], label=f"{likelihood}, e0 {e0}, Q = {size}")
    left.axhline(0.0, color="#888888", linewidth=0.7)
    left.set(xscale="log", xlabel="share of the events", ylabel="log PPD of ALL0CORE minus CP, cells with counts")
    left.legend(fontsize=7)
    for (model, share), found in table.groupby(["model", "share"]):
        marker = "o" if model == "allocore" else "x"
        right.plot(found["parameters"], found["positive"], marker, label=f"{model}, {share:.0%} of the events")
    right.set(xscale="log", xlabel="numbers in factors in use", ylabel="log PPD, cells with counts")
    right.legend(fontsize=7)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
