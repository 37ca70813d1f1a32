"""Do senders and receivers of a network share their communities? Models with and without tied factors, by split.

Usage: python experiments/tied.py [DATA] [--modes sender,receiver] [--budget 50] [--splits 4] [--out FOLDER]

DATA can also be "assortative" or "disassortative": a planted network of 6 communities of 20 nodes, whose members act on
their own community, or on the next one. The share of nodes in the right community is then a column.

The first two modes are tied by default. For each split of the data, the same settings are fitted with and without
`tied`. A row has the log PPD of all held-out cells and of those with counts and the log PPD of zeros, the agreement
of the consensus of two halves of the chains, and the numbers of a draw: factor entries in use, each shared one counted
once, and factors in use in either role.
"""

from typing import Annotated

import numpy as np
import pandas as pd
import typer
from scipy.optimize import linear_sum_assignment
from setting import Data, Full, Out, Seed, folder_of, tensor_of

import allocore as ac
from allocore.classes.reproducibility import agreement
from allocore.classes.tracks import SharedClasses

PLANTED = ("assortative", "disassortative")


def main(
    data: Data = None,
    modes: Annotated[str | None, typer.Option(help="The two modes; the first two by default.")] = None,
    likelihood: Annotated[str, typer.Option(help="As for allocore fit.")] = "negative-binomial",
    e0: Annotated[str, typer.Option(help="A number, or infer.")] = "1",
    budget: Annotated[int, typer.Option(help="Classes of the model.")] = 50,
    sweeps: Annotated[int, typer.Option(help="Sweeps of each chain.")] = 250,
    chains: Annotated[int, typer.Option(help="Chains of each fit.")] = 8,
    splits: Annotated[int, typer.Option(help="Splits of the data; planted networks are drawn anew for each.")] = 4,
    fraction: Annotated[float, typer.Option("--hold-out", help="Share of the cells to hold out.")] = 0.01,
    threads: Annotated[int | None, typer.Option(help="Threads.")] = None,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Fit models with and without tied factors to the same splits, and compare them."""
    folder, planted = folder_of(out, "tied", full), data in PLANTED
    tensor = planted_network(data, seed) if planted else tensor_of(data, full, seed)
    names = tuple(modes.split(",")) if modes else tensor.mode_names[:2]
    concentration = "infer" if e0 == "infer" else float(e0)
    settings = {"likelihood": likelihood, "e0": concentration, "sweeps": sweeps, "chains": chains, "threads": threads}
    rows = []
    for split in range(splits):
        if planted:
            tensor = planted_network(data, seed + split)
        held_out = ac.hold_out(tensor, fraction, seed=seed + split)
        for tied in (names, None):
            model = ac.AlloCore(budget, **settings, tied=tied, seed=seed + split)  # type: ignore[arg-type]
            post = model.fit(held_out).posterior_
            row = {"split": split, "tied": tied is not None, **scores(post, held_out), **sizes(post, names)}
            rows.append(row | ({f"right_{name}": right_share(post, name) for name in names} if planted else {}))
            pd.DataFrame(rows).to_csv(folder / "splits.csv", index=False)
            print(rows[-1], flush=True)
    report(pd.DataFrame(rows))


def planted_network(kind: str | None, seed: int) -> ac.CountTensor:
    """Draw the ties of nodes of different activity, in heavy-tailed amounts, to their own or to the next community."""
    rng, each = np.random.default_rng(seed), 20
    home = np.repeat(np.arange(6), each)
    partner = home if kind == "assortative" else (home + 1) % 6
    active = rng.lognormal(0.0, 0.7, len(home))
    rates = np.where(partner[:, None] == home, 0.4, 0.02) * np.outer(active, active)
    tensor = ac.as_tensor(rng.poisson(rates), mode_names=["sender", "receiver"])
    return tensor.mask_diagonal()


def right_share(post: ac.Posterior, mode: str) -> float:
    """The share of nodes whose main community is the one that is matched with theirs, one to one."""
    found, home = post.consensus(progress=False).memberships(mode, progress=False), np.repeat(np.arange(6), 20)
    counts = np.zeros((6, len(found.number) + 1))
    np.add.at(counts, (home, found.main), 1)
    counts[:, -1] = 0.0  # nodes without a main community
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(home))


def scores(post: ac.Posterior, split: ac.Split) -> dict[str, float]:
    """How well a fit predicts, and how well two halves of its chains agree."""
    chains = len(post.core_values)
    halves = [post.select_chains(list(range(half, chains, 2))).consensus(progress=False) for half in (0, 1)]
    both = [SharedClasses(tuple(each.profiles), each.share) for each in halves]
    whole, positive = post.log_ppd(split.test), post.log_ppd(split.test, positive_only=True)
    number, with_counts = len(split.test), len(split.test.positive)
    zeros = (whole * number - positive * with_counts) / (number - with_counts)
    return {"all": whole, "positive": positive, "zeros": zeros, "agreement": agreement(*both)}


def sizes(post: ac.Posterior, names: tuple[str, ...]) -> dict[str, float]:
    """Means over the last draws of the chains: classes with different locations, factor entries, and factors."""
    pair = [post.tensor.mode(name) for name in names]
    found = []
    for locations_QM in post.core_locations[:, -1]:
        used = [np.unique(column) for column in locations_QM.T]
        shared = np.unique(locations_QM[:, pair])
        entries = sum(len(each) * length for each, length in zip(used, post.tensor.shape, strict=True))
        if post.record.spec.tied is not None:
            entries -= sum(len(used[mode]) * post.tensor.shape[mode] for mode in pair)
            entries += len(shared) * post.tensor.shape[pair[0]]
        in_use = {f"factors_{mode}": len(used[mode]) for mode in pair}
        found.append({"classes": len(np.unique(locations_QM, axis=0)), "entries": entries, **in_use})
    return {name: float(value) for name, value in pd.DataFrame(found).mean().items()}


def report(table: pd.DataFrame) -> None:
    """Print the means by model, and the mean difference with its standard error over splits."""
    values = table.columns.difference(["split", "tied"], sort=False)
    print(table.groupby("tied")[list(values)].mean().round(4).to_string())
    wide = table.pivot(index="split", columns="tied", values=list(values))
    better = wide.xs(True, axis=1, level="tied") - wide.xs(False, axis=1, level="tied")
    print(pd.DataFrame({"tied minus own": better.mean(), "se": better.sem()}).round(4).T.to_string())


if __name__ == "__main__":
    typer.run(main)
