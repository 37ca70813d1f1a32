"""Do seeds make runs agree? Models with seeded action topics and without, by the weight of the seeds and by split.

Usage: python experiments/seeds.py DATA [--weights 0,3,10,30,100] [--budget 50] [--splits 2] [--out FOLDER]

DATA are events with CAMEO actions, such as ICEWS. Six topics of the 20 root codes are seeds; a weight of 0 stands for
the same model without seeds. A row has the log PPD of all held-out cells and of those with counts and the log PPD of
zeros, the agreement of the consensus of two halves of the chains, and, in the last draws of the chains, the share of a
seeded factor at the labels of its seed, the share of the counts at seeded factors, and the share of unused seeds.
"""

from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from setting import Full, Out, Seed, folder_of, tensor_of
from tied import scores

import allocore as ac

SEEDS = {
    "talks": ["03", "04", "05"],
    "aid": ["06", "07"],
    "demands": ["09", "10", "11", "12"],
    "protest": ["14"],
    "coercion": ["13", "15", "16", "17"],
    "violence": ["18", "19", "20"],
}


def main(
    data: Annotated[str, typer.Argument(help="Events with CAMEO actions, or a tensor of them.")],
    mode: Annotated[str, typer.Option(help="The mode of the actions.")] = "action",
    weights: Annotated[str, typer.Option(help="Weights of the seeds; 0 is a model without.")] = "0,3,10,30,100",
    factors: Annotated[int, typer.Option(help="Factors of this mode.")] = 10,
    budget: Annotated[int, typer.Option(help="Classes of the model.")] = 50,
    sweeps: Annotated[int, typer.Option(help="Sweeps of each chain.")] = 200,
    chains: Annotated[int, typer.Option(help="Chains of each fit.")] = 6,
    splits: Annotated[int, typer.Option(help="Splits of the data.")] = 2,
    threads: Annotated[int | None, typer.Option(help="Threads.")] = None,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Fit models with seeds of several weights to the same splits, and compare them."""
    folder, tensor = folder_of(out, "seeds", full), tensor_of(data, full, seed)
    rows = []
    for split in range(splits):
        held_out = ac.hold_out(tensor, 0.01, seed=seed + split)
        for weight in map(float, weights.split(",")):
            seeds: dict[str, Any] = {"seeds": SEEDS, "seed_weight": weight} if weight else {}
            modes = {mode: ac.Mode(factors=factors, **seeds)}
            model = ac.AlloCore(budget, sweeps=sweeps, chains=chains, threads=threads, modes=modes, seed=seed + split)
            post = model.fit(held_out).posterior_
            rows.append({"split": split, "weight": weight, **scores(post, held_out), **kept(post, mode)})
            pd.DataFrame(rows).to_csv(folder / "seeds.csv", index=False)
            print(rows[-1], flush=True)
    print(pd.DataFrame(rows).groupby("weight").mean().drop(columns="split").round(4).to_string())


def kept(post: ac.Posterior, mode: str) -> dict[str, float]:
    """What becomes of the seeds in the last draws of the chains."""
    m = post.tensor.mode(mode)
    known = post.record.spec.known_in(m)
    found = []
    for chain in range(len(post.core_values)):
        table = post.class_summary(-1, chain=chain)
        share_C, at_C = table.share_C, table.location_CM[:, m]
        used = [k for k in range(len(known)) if (at_C == k).any()]
        phi_DK = np.asarray(post.factors[m][chain, -1])
        homes = [phi_DK[list(known.seeds[k]), k].sum() / phi_DK[:, k].sum() for k in used]
        found.append(
            {
                "at home": float(np.mean(homes)) if used else np.nan,
                "in seeds": float(share_C[at_C < len(known)].sum()),
                "unused": 1.0 - len(used) / max(len(known), 1) if known else np.nan,
                "factors": len(np.unique(at_C)),
            }
        )
    return {name: float(value) for name, value in pd.DataFrame(found).mean().items()}


if __name__ == "__main__":
    typer.run(main)
