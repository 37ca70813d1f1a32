"""Are planted classes found again? A network whose classes are known, fitted with more classes than it has.

Usage: python experiments/recovery.py [--full] [--out FOLDER]
"""

import numpy as np
import typer
from networks import FULL, QUICK, Network, simulate
from setting import Full, Out, Seed, folder_of

import allocore as ac

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
    """How many planted classes have one like them among those found, and what these hold."""
    portrait = posterior.portrait()
    found = np.array([best_cosine(network, portrait, q) for q in range(len(network.values_Q))])
    share = network.values_Q / network.values_Q.sum()
    print(
        f"{portrait.in_use} classes hold counts, of {portrait.budget}; {len(found)} were planted, and "
        f"{(found >= ALIKE).sum()} of them are found, which hold {share[found >= ALIKE].sum():.0%} of all events "
        f"(cosine of at least {ALIKE} in every mode with one class)."
    )
    for mode, name in enumerate(portrait.names):
        planted = len(np.unique(network.locations_QM[:, mode]))
        print(f"  {name}: {planted} factors planted, {len(portrait.factors[mode])} in use")


def best_cosine(network: Network, portrait: object, q: int) -> float:
    """Of all classes found the one most like planted class q: its least cosine over the modes."""
    least = np.inf
    for mode, planted in enumerate(network.factors):
        column = planted[:, network.locations_QM[q, mode]]
        shares = np.stack([portrait.factor(c, mode).share_D for c in range(len(portrait.value_C))])
        cosine = shares @ column / (np.linalg.norm(shares, axis=1) * np.linalg.norm(column) + 1e-300)
        least = np.minimum(least, cosine)
    return float(np.max(least))


if __name__ == "__main__":
    typer.run(main)
