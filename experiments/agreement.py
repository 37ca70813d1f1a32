"""Do chains find the same classes? Compares the consensus of disjoint sets of chains, and single draws of two chains.

Usage: python experiments/agreement.py [DATA] [--chains 16] [--full] [--out FOLDER] [--cluster ADDRESS]
"""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from setting import Cluster, Data, Full, Out, Seed, cluster_of, folder_of, tensor_of

import allocore as ac
from allocore.classes.reproducibility import agreement
from allocore.classes.tracks import SharedClasses

REPEATS = 8


def main(
    data: Data = None,
    likelihood: Annotated[str, typer.Option(help="poisson or negative-binomial.")] = "poisson",
    budget: Annotated[int, typer.Option(help="Classes of the model.")] = 50,
    chains: Annotated[int, typer.Option(help="Chains; halves of four, eight, .. of them are compared.")] = 8,
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
    cluster: Cluster = None,
) -> None:
    """Fit many chains, and report on which share of the counts random disjoint sets of them agree."""
    run = folder_of(out, "agreement", full) / f"{likelihood}-{budget}-{chains}.zarr"
    schedule = {"burn_in": 3000, "draws": 20, "thin": 50} if full else {"burn_in": 600, "draws": 20, "thin": 20}
    with cluster_of(cluster) as executor:
        if not run.exists():
            tensor = tensor_of(data, full, seed)
            model = ac.AlloCore(budget, likelihood=likelihood, chains=chains, seed=seed, store=run, **schedule)  # type: ignore[arg-type]
            model.set_params(executor=executor).fit(tensor)
        post = ac.AlloCore.resume(run, executor=executor).posterior_
    rng = np.random.default_rng(seed)
    pairs = [rng.permutation(chains)[:2] for _ in range(REPEATS)]
    single = [agreement(*(last_draw(post, int(chain)) for chain in pair)) for pair in pairs]
    print(f"last draws of two chains agree on {np.mean(single):.2f} of the counts")
    size = 4
    while 2 * size <= chains:
        tell(size, list(halves(post, size, rng)))
        size *= 2


def tell(size: int, found: list[tuple[SharedClasses, SharedClasses]]) -> None:
    """Print the mean agreement of pairs of sets of chains, its spread, and how much of the counts they cover."""
    agreed = [agreement(*pair) for pair in found]
    covered = np.mean([share.sum() for pair in found for _, share in pair])
    classes = np.mean([len(share) for pair in found for _, share in pair])
    print(
        f"consensus of {size} chains and of {size} others: agree on {np.mean(agreed):.2f} +- {np.std(agreed):.2f} of "
        f"the counts that they cover, which is {covered:.2f} of all; {classes:.0f} classes"
    )


def halves(post: ac.Posterior, size: int, rng: np.random.Generator) -> Iterator[tuple[SharedClasses, SharedClasses]]:
    """The consensus of random disjoint sets of chains."""
    for _ in range(REPEATS):
        order = rng.permutation(len(post.core_values))
        sets = np.sort(order[:size]), np.sort(order[size : 2 * size])
        found = [ac.Posterior(post.record.with_chains(each.tolist())).consensus() for each in sets]
        one, other = (SharedClasses(tuple(each.profiles), each.share) for each in found)
        yield one, other


def last_draw(post: ac.Posterior, chain: int) -> SharedClasses:
    """The profiles and shares of the last draw of a chain."""
    summary = post.class_summary(-1, chain=chain)
    profiles = [np.stack([each.share_D for each in of_mode], axis=1) for of_mode in summary.profiles]
    return SharedClasses(tuple(profiles), summary.share_C)


if __name__ == "__main__":
    typer.run(main)
