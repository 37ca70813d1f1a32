"""Are planted classes found again? A network whose classes are known, fitted with more classes than it has.

Usage: python experiments/recovery.py [--full] [--out FOLDER]
"""

import numpy as np
import typer
from networks import FULL, QUICK, Network, simulate
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from setting import Full, Out, Seed, folder_of

import allocore as ac
from allocore.posterior.draw_summary import DrawSummary

ALIKE = 0.9


def main(full: Full = False, out: Out = None, seed: Seed = 0) -> None:
    """Simulate, fit, and tell which planted classes the last draw holds; traces and histograms as figures."""
    folder = folder_of(out, "recovery", full)
    network = simulate(FULL if full else QUICK, seed)
    print(network.tensor)
    schedule = {"burn_in": 2000, "draws": 200, "thin": 10} if full else {"burn_in": 400, "draws": 40, "thin": 5}
    budget = 2 * len(network.values_Q)
    model = ac.AlloCore(budget, chains=2, seed=seed, **schedule).fit(network.tensor)
    posterior = model.posterior_
    for name in ("traces", "effective_shape", "mass"):
        getattr(ac.figures, name)(posterior).figure.savefig(folder / f"{name}.png", dpi=150)
    print(posterior.diagnose())
    tell(network, posterior)


def tell(network: Network, posterior: ac.Posterior) -> None:
    """How many planted classes have one like them among those found, one to one, and what these hold."""
    summary = posterior.draw_summary()
    cosine_QC = np.minimum.reduce([cosines(network, summary, mode) for mode in range(len(network.factors))])
    planted, found = linear_sum_assignment(np.where(cosine_QC >= ALIKE, cosine_QC, 0.0), maximize=True)
    held = planted[cosine_QC[planted, found] >= ALIKE]
    share = network.values_Q[held].sum() / network.values_Q.sum()
    print(
        f"{summary.in_use} classes hold counts, of {summary.budget}; {len(network.values_Q)} were planted, and "
        f"{len(held)} of them are found, which hold {share:.0%} of all events (cosines of at least {ALIKE})."
    )
    for mode, (name, used) in enumerate(zip(summary.names, summary.factors_in_use, strict=True)):
        print(f"  {name}: {len(np.unique(network.locations_QM[:, mode]))} factors planted, {used} in use")


def cosines(network: Network, summary: DrawSummary, mode: int) -> NDArray[np.float64]:
    """The cosines of the factors in one mode of every planted class with those of every class found."""
    planted = network.factors[mode][:, network.locations_QM[:, mode]].T
    found = np.stack([summary.factor(number, mode).share_D for number in range(len(summary.value_C))])
    lengths = np.linalg.norm(planted, axis=1)[:, None] * np.linalg.norm(found, axis=1)
    return planted @ found.T / np.maximum(lengths, np.finfo(float).tiny)


if __name__ == "__main__":
    typer.run(main)
