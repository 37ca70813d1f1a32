"""How well are coming periods forecast? Fits to the past of rolling origins, scored beside simple forecasts.

Usage: python experiments/forecasting.py [DATA] [--horizon 3] [--origins 3] [--full] [--cluster ADDRESS]
"""

from typing import Annotated

import pandas as pd
import typer
from setting import Bursts, Cluster, Data, Full, Out, Seed, cluster_of, folder_of, tensor_of

import allocore as ac
from allocore.tensor.labels import label_kind


def main(
    data: Data = None,
    likelihood: Annotated[str, typer.Option(help="poisson or negative-binomial.")] = "negative-binomial",
    budget: Annotated[int, typer.Option(help="Classes of the model.")] = 30,
    horizon: Annotated[int, typer.Option(help="Periods that are forecast from each origin.")] = 3,
    origins: Annotated[int, typer.Option(help="Origins: the ends of the pasts that are fitted, a horizon apart.")] = 3,
    leave_out: Annotated[int, typer.Option(help="Periods at the end that are not used, such as a cut-off month.")] = 0,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
    bursts: Bursts = 0.0,
    cluster: Cluster = None,
) -> None:
    """Fit the periods before each origin, forecast those after it, and report mean scores over the origins."""
    tensor = tensor_of(data, full, seed, bursts)
    mode = next(m for m, labels in enumerate(tensor.labels) if label_kind(labels) == "time")
    labels = list(tensor.labels[mode])[: len(tensor.labels[mode]) - leave_out]
    folder, found = folder_of(out, "forecasting", full), []
    for origin in range(len(labels) - horizon * origins, len(labels), horizon):
        past = tensor.select({tensor.mode_names[mode]: labels[:origin]})
        print(f"fitted to {labels[0]} .. {labels[origin - 1]}, scored on {labels[origin]} and what follows")
        with cluster_of(cluster) as executor:
            post = fit(past, likelihood, budget, full, seed, executor)
        whole = tensor.select({tensor.mode_names[mode]: labels[: origin + horizon]})
        scores = post.forecast(horizon).evaluate(whole)
        for sentence in scores.attrs["words"]:
            print(f"  {sentence}")
        found.append(scores.assign(origin=labels[origin]).set_index("origin", append=True))
    table = pd.concat(found)
    table.to_csv(folder / f"{likelihood}-{budget}.csv")
    tell(table)


def fit(past: ac.CountTensor, likelihood: str, budget: int, full: bool, seed: int, executor: object) -> ac.Posterior:
    """The posterior of one past: two short chains, or four longer ones."""
    schedule = {"burn_in": 1500, "draws": 50, "thin": 20} if full else {"burn_in": 300, "draws": 20, "thin": 5}
    chains = 4 if full else 2
    model = ac.AlloCore(budget, likelihood=likelihood, e0="infer", chains=chains, seed=seed, **schedule)  # type: ignore[arg-type]
    return model.set_params(executor=executor).fit(past).posterior_


def tell(table: pd.DataFrame) -> None:
    """Print the mean scores over the origins, and from how many origins each simple forecast was beaten in CRPS."""
    beaten = (table["crps_difference"] > 0).groupby(level=["scope", "model"], sort=False).sum()
    means = table.groupby(level=["scope", "model"], sort=False).mean()
    shown = means[["crps", "ignorance", "interval_score", "absolute_error"]].assign(origins_beaten=beaten)
    print(f"means over {table.index.get_level_values('origin').nunique()} origins")
    print(shown.to_string(float_format=lambda value: f"{value:.5g}"))


if __name__ == "__main__":
    typer.run(main)
