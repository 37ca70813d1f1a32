"""Are planted classes recovered? Fits a network with known classes, with a budget of more classes than it has.

Usage: python experiments/recovery.py [--full] [--out FOLDER] [--cluster ADDRESS]
"""

import numpy as np
import typer
from networks import FULL, QUICK, Network, simulate
from numpy.typing import NDArray
from setting import Cluster, Full, Out, Seed, cluster_of, folder_of

import allocore as ac
from allocore.classes.matching import directions, match

ALIKE = 0.9


def main(full: Full = False, out: Out = None, seed: Seed = 0, cluster: Cluster = None) -> None:
    """Simulate, fit, and report which planted classes are found; write traces and histograms as figures."""
    folder = folder_of(out, "recovery", full)
    network = simulate(FULL if full else QUICK, seed)
    print(network.tensor)
    schedule = {"burn_in": 2000, "draws": 200, "thin": 10} if full else {"burn_in": 400, "draws": 40, "thin": 5}
    budget = 2 * len(network.values_Q)
    with cluster_of(cluster) as executor:
        model = ac.AlloCore(budget, likelihood="poisson", chains=4, seed=seed, executor=executor, **schedule)
        posterior = model.fit(network.tensor).posterior_
    for name in ("traces", "effective_shape", "mass"):
        getattr(ac.figures, name)(posterior).savefig(folder / f"{name}.png", dpi=150)
    print(posterior.diagnose())
    tell(network, posterior)


def tell(network: Network, posterior: ac.Posterior) -> None:
    """Print how many planted classes the consensus and the best draw hold, and their share of the events."""
    best = posterior.class_summary("best")
    profiles = [np.stack([each.share_D for each in of_mode], axis=1) for of_mode in best.profiles]
    found = posterior.consensus()
    print(f"{len(network.values_Q)} classes were planted (found: a cosine of at least {ALIKE} in every mode).")
    for name, each in (("the consensus", found.profiles), (best.source, profiles)):
        planted = planted_among(network, each)
        share = network.values_Q[planted].sum() / network.values_Q.sum()
        classes = f"{each[0].shape[1]} classes, {len(planted)} of them planted"
        print(f"  {name}: {classes}, which hold {share:.0%} of the events")
    for mode, name in enumerate(best.mode_names):
        groups = len(np.unique(found.summary.location_CM[:, mode]))
        print(f"  {name}: {len(np.unique(network.locations_QM[:, mode]))} factors planted, {groups} in the consensus")


def planted_among(network: Network, profiles: list[NDArray[np.float64]]) -> NDArray[np.int64]:
    """The planted classes with a partner among the profiles found."""
    planted = [factor[:, network.locations_QM[:, mode]] for mode, factor in enumerate(network.factors)]
    return match(directions(planted), directions(profiles), ALIKE)[0]


if __name__ == "__main__":
    typer.run(main)
