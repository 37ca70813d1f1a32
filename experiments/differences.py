"""What do the differences between the paper and the authors' code do? One at a time and all together.

Usage: python experiments/differences.py [DATA] [--actors 20] [--budget 50] [--splits 2] [--sweeps 300] [--full]

The most active actors of the first two modes are kept, and all variants are fitted to the same splits. Every switch of
slow_sampler.py is on by itself, and all are on together, for ALL0CORE and for CP. A row has the log PPD of all held-out
cells and of those with counts, the classes with counts, how many of these still have the same number as sender and as
receiver, as at the start, and the factors in use. The last rows are chains of this package.
"""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from setting import Data, Full, Out, Seed, folder_of, tensor_of
from slow_sampler import Sampler, Score, Switches

import allocore as ac

SWITCHES = {
    "none": Switches(),
    "prior per row": Switches(prior_per_row=True),
    "thinning every 5th sweep": Switches(thin_every=5),
    "imputation every 50th sweep": Switches(impute_every=50),
    "imputation and scores every 50th": Switches(impute_every=50, stale_rates=True),
    "probability 0 becomes 1e-5": Switches(floor=True),
    "all": Switches(prior_per_row=True, thin_every=5, impute_every=50, stale_rates=True, floor=True),
}


def main(
    data: Data = None,
    actors: Annotated[int, typer.Option(help="How many actors to keep.")] = 20,
    budgets: Annotated[str, typer.Option(help="Q, one or more.")] = "50",
    splits: Annotated[int, typer.Option(help="Splits of the data.")] = 2,
    sweeps: Annotated[int, typer.Option(help="Sweeps of each chain; half are burn-in.")] = 300,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Fit every variant to the same splits; write and print the table."""
    folder, tensor = folder_of(out, "differences", full), most_active(tensor_of(data, full, seed), actors)
    print(tensor)
    sweeps = 5000 if full else sweeps
    rows = []
    for split in range(splits):
        held_out = ac.hold_out(tensor, 0.01, along=tensor.ndim - 1, seed=seed + split)
        for budget in map(int, budgets.split(",")):
            for row in variants(held_out, budget, sweeps, seed + split):
                rows.append({"split": split, "Q": budget, **row})
                pd.DataFrame(rows).to_csv(folder / "differences.csv", index=False)
                print(rows[-1], flush=True)
    found = pd.DataFrame(rows).drop(columns="split")
    print(found.groupby(["Q", "model", "switch"], sort=False).mean().round(4).to_string())


def most_active(tensor: ac.CountTensor, actors: int) -> ac.CountTensor:
    """The tensor of the actors with most counts in the first two modes; actors have zeros with themselves."""
    totals = tensor.mode_totals(0) + tensor.mode_totals(1)
    chosen = np.sort(np.argsort(-totals, kind="stable")[:actors])
    place = np.full(len(totals), -1)
    place[chosen] = np.arange(len(chosen))
    coords = tensor.coords.copy()
    coords[:2] = place[coords[:2]]
    kept = (coords[:2] >= 0).all(axis=0)
    shape = (len(chosen), len(chosen), *tensor.shape[2:])
    return ac.CountTensor(coords[:, kept], tensor.counts[kept], shape)


def variants(split: ac.Split, budget: int, sweeps: int, seed: int) -> Iterator[dict[str, object]]:
    """Fit both models with every set of switches, and with this package."""
    for model in ("allocore", "cp"):
        for name, switches in SWITCHES.items():
            yield {"model": model, "switch": name, **slow(split, budget, sweeps, seed, switches, model == "allocore")}
        schedule = {"burn_in": sweeps // 2, "draws": sweeps // 10, "thin": 5, "chains": 1, "threads": 1, "seed": seed}
        kind = ac.AlloCore if model == "allocore" else ac.CP
        post = kind(budget, likelihood="poisson", progress=False, **schedule).fit(split).posterior_  # type: ignore[operator]
        log_H = post.log_ppd(split.test), post.log_ppd(split.test, positive_only=True)
        subs_QM = post.record.included_classes(0, -1)[1]
        counts = {"classes": int(post.record.stats["classes"][0, -1])}
        yield {
            "model": model,
            "switch": "this package",
            "all": log_H[0],
            "positive": log_H[1],
            **counts,
            **moved(subs_QM),
        }


def slow(split: ac.Split, budget: int, sweeps: int, seed: int, switches: Switches, learn: bool) -> dict[str, object]:
    """Fit one variant with the slow sampler, and score the held-out cells every fifth sweep."""
    train, test = split.train, split.test
    rng = np.random.default_rng([seed, budget])
    chain = Sampler(
        train.coords, train.counts, train.shape, (budget,) * train.ndim, budget, rng, test.coords, switches, learn
    )
    score = Score(test.coords, test.counts, switches)
    for sweep, (state, class_Q) in enumerate(chain.states(sweeps)):
        used_QM = state.subs_QM[class_Q > 0]
        score.refresh(state, sweep)
        if sweep >= sweeps // 2 and sweep % 5 == 0:
            score.add()
    log_H = score.log_ppd()
    scores = {"all": log_H.mean(), "positive": log_H[test.counts > 0].mean()}
    return {**scores, "classes": len(np.unique(used_QM, axis=0)), **moved(used_QM)}


def moved(subs_QM: np.ndarray) -> dict[str, object]:
    """How many classes are at equal sender and receiver numbers, and how many factors are in use."""
    factors = {f"factors {mode}": len(np.unique(column)) for mode, column in enumerate(subs_QM.T)}
    return {"on the diagonal": float((subs_QM[:, 0] == subs_QM[:, 1]).mean()), **factors}


if __name__ == "__main__":
    typer.run(main)
