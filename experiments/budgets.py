"""ALL0CORE, CP, Tucker and NNTuck as the budget Q grows: how well does each predict held-out cells?

Usage: python experiments/budgets.py [DATA] [--models NAMES] [--chains N] [--budgets LIST] [--splits N] [--full]

The paper's protocol is `--full`: eight splits, ten values of Q, four models, 1,000 + 4,000 sweeps. A comparison that
was stopped continues with the same command.
"""

from typing import Annotated

import typer
from setting import Bursts, ClusterOfFits, Data, Full, Out, Seed, cluster_of, folder_of, tensor_of

import allocore as ac
from allocore.comparison.models import named_models

Models = Annotated[str, typer.Option(help="The models, as allocore compare names them: allocore,allocore-nb,cp-nb-e0.")]
Chains = Annotated[int, typer.Option(help="Chains per fit; their predictions are averaged.")]


def main(
    data: Data = None,
    models: Models = "allocore,cp,tucker,nntuck",
    chains: Chains = 1,
    budgets: Annotated[str | None, typer.Option(help="Values of Q, such as 25,100,300.")] = None,
    splits: Annotated[int | None, typer.Option(help="Splits; by default 4, or 8 with --full.")] = None,
    bursts: Bursts = 0.0,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
    cluster: ClusterOfFits = None,
) -> None:
    """Compare models over budgets and splits; write a table, figures and a report in words."""
    tensor = tensor_of(data, full, seed, bursts)
    print(tensor)
    budgets = budgets or ("5,10,25,50,75,100,150,200,250,300" if full else "5,10,25,50,100")
    schedule = {"burn_in": 1000, "draws": 200, "thin": 20} if full else {"burn_in": 300, "draws": 30, "thin": 5}
    search = {"restarts": 20, "max_iter": 1000} if full else {"restarts": 3, "max_iter": 200}
    named = named_models(models.split(","), tensor, chains={**schedule, "chains": chains}, starts=search)
    with cluster_of(cluster) as executor:
        found = ac.compare(
            tensor,
            named,
            budgets=tuple(map(int, budgets.split(","))),
            splits=splits or (8 if full else 4),
            out=folder_of(out, "bursts" if bursts else "budgets", full),
            executor=executor,
            seed=seed,
        )
    print(found)


if __name__ == "__main__":
    typer.run(main)
