"""The paper's synthetic experiment: are the true numbers of factors and classes within the posterior intervals?

Usage: python experiments/synthetic.py [--rows 100] [--factors 4] [--classes 8] [--core 10] [--full] [--out FOLDER]

Data are generated as the appendix "Synthetic Experiment" says: columns of the factors of modes 1 and 2 are
Dirichlet(0.01), times 5, and mode 3 has the two given columns. The paper leaves open the rows D of modes 1 and 2, their
factors K*, the classes Q* and the core values. Here they are options; core values are Gamma(1, 1), as in the model,
times a constant, and the locations of classes are drawn without repetition. Each tensor is fitted with K_m = Q = 50,
under both likelihoods, by this package and by the paper's step (slow_sampler.py). A factor or a class is effective if
it has counts.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from setting import Full, Out, Seed, folder_of
from slow_sampler import Sampler

import allocore as ac

BUDGET = 50
THIRD = np.array([[2.5, 0.5, 1.0, 0.5, 0.5], [0.5, 2.5, 1.0, 0.5, 0.5]]).T
NAMES = ("K1", "K2", "K3", "Q")
LEVELS = (0.05, 0.95)


class Planted(NamedTuple):
    """A tensor, and its true numbers of factors in each mode and of classes."""

    tensor: ac.CountTensor
    truth: tuple[int, ...]


def simulate(rows: int, factors: int, classes: int, core: float, rng: np.random.Generator) -> Planted:
    """Generate a tensor as the appendix says; no column of modes 1 and 2 is without a class."""
    core_shape = (factors, factors, 2)
    phi = [5.0 * rng.dirichlet(np.full(rows, 0.01), factors).T for _ in range(2)] + [THIRD]
    while True:
        cells = rng.choice(int(np.prod(core_shape)), classes, replace=False)
        subs_QM = np.stack(np.unravel_index(cells, core_shape), axis=1)
        if all(len(np.unique(column)) == width for column, width in zip(subs_QM.T, core_shape, strict=True)):
            break
    columns = [phi_DK[:, subs_QM[:, mode]] for mode, phi_DK in enumerate(phi)]
    tensor = ac.as_tensor(rng.poisson(np.einsum("q,iq,jq,kq->ijk", rng.gamma(1.0, core, classes), *columns)))
    return Planted(tensor, (*core_shape, classes))


def package_trace(tensor: ac.CountTensor, likelihood: str, sweeps: int, seed: int) -> NDArray[np.int64]:
    """The effective numbers after each sweep of this package, (sweeps, 4)."""
    schedule = {"burn_in": sweeps // 2, "draws": 1, "thin": sweeps - sweeps // 2, "chains": 1, "threads": 1}
    model = ac.AlloCore(BUDGET, likelihood=likelihood, seed=seed, progress=False, **schedule)  # type: ignore[arg-type]
    stats = model.fit(tensor).posterior_.record.stats
    return np.column_stack([stats["factors"][0], stats["classes"][0]]).astype(np.int64)


def paper_trace(tensor: ac.CountTensor, likelihood: str, sweeps: int, seed: int) -> NDArray[np.int64]:
    """The same with the paper's step."""
    rng, dispersed = np.random.default_rng(seed), likelihood == "negative-binomial"
    chain = Sampler(tensor.coords, tensor.counts, tensor.shape, (BUDGET,) * 3, BUDGET, rng, dispersed=dispersed)
    found = []
    for state, class_Q in chain.states(sweeps):
        used_QM = state.subs_QM[class_Q > 0]
        factors = [len(np.unique(column)) for column in used_QM.T]
        found.append([*factors, len(np.unique(used_QM, axis=0))])
    return np.array(found)


STEPS = {"ours": package_trace, "paper": paper_trace}


def main(
    rows: Annotated[int, typer.Option(help="D, the rows of modes 1 and 2.")] = 100,
    factors: Annotated[int, typer.Option(help="K*, the factors of modes 1 and 2.")] = 4,
    classes: Annotated[int, typer.Option(help="Q*, the classes.")] = 8,
    core: Annotated[float, typer.Option(help="The mean core value; a class has 125 times as many counts.")] = 1.0,
    tensors: Annotated[int, typer.Option(help="Data sets; the figure is of the first.")] = 20,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
) -> None:
    """Fit the data sets with both steps under both likelihoods; write the coverage and the figure."""
    folder, sweeps = folder_of(out, "synthetic", full), 5000 if full else 600
    found = []
    for n in range(tensors):
        planted = simulate(rows, factors, classes, core, np.random.default_rng([seed, n]))
        for likelihood in ("poisson", "negative-binomial"):
            for step, trace_of in STEPS.items():
                trace = trace_of(planted.tensor, likelihood, sweeps, seed + n)
                if n == 0:
                    draw(trace, planted.truth, folder / f"synthetic-{likelihood}-{step}.png")
                found += summaries(trace, planted.truth, {"tensor": n, "likelihood": likelihood, "step": step})
                pd.DataFrame(found).to_csv(folder / "intervals.csv", index=False)
    print(coverage(pd.DataFrame(found)).to_string())


def summaries(trace: NDArray[np.int64], truth: tuple[int, ...], keys: dict[str, object]) -> list[dict[str, object]]:
    """The 90% interval and the median of each number over the second half of a chain."""
    kept = trace[len(trace) // 2 :]
    low, high = np.quantile(kept, LEVELS, axis=0, method="nearest")
    parts = zip(NAMES, truth, low, np.median(kept, axis=0), high, strict=True)
    return [{**keys, "of": name, "truth": t, "low": a, "median": b, "high": c} for name, t, a, b, c in parts]


def coverage(table: pd.DataFrame) -> pd.DataFrame:
    """How many intervals have the truth, and how far the medians are above it."""
    table["inside"] = (table["low"] <= table["truth"]) & (table["truth"] <= table["high"])
    table["above"] = table["median"] - table["truth"]
    groups = table.groupby(["likelihood", "step", "of"], sort=False)
    return groups.agg(inside=("inside", "sum"), tensors=("inside", "size"), above=("above", "mean")).unstack("of")


def draw(trace: NDArray[np.int64], truth: tuple[int, ...], path: Path) -> None:
    """The published figure: traces on the left, histograms of the second half on the right, the truth in red."""
    figure, axes = plt.subplots(4, 2, figsize=(7.0, 6.0), width_ratios=(3, 1), sharey="row", layout="constrained")
    for (left, right), name, true, values in zip(axes, NAMES, truth, trace.T, strict=True):
        kept = values[len(values) // 2 :]
        left.plot(values, color="#4477AA", linewidth=0.7)
        right.hist(kept, np.arange(kept.min() - 0.5, kept.max() + 1.0), orientation="horizontal", color="#4477AA")
        for panel in (left, right):
            panel.axhline(true, color="#CC3311")
        left.set_ylabel(name)
    axes[-1, 0].set_xlabel("sweep")
    axes[-1, 1].set_xlabel("draws")
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
