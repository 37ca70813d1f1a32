"""How dispersed must counts be for the negative binomial to predict better than the Poisson? Simulated, by ratio.

Classes are planted, and counts are negative binomial with a known ratio of variance to mean given their rates. Both
likelihoods are fitted to the same nine tenths of the fibres. A row has what `allocore info` says after the Poisson fit,
the ratio and the gain in log-likelihood, and by how much the log PPD of the negative binomial is higher: of all
held-out cells and of those with counts, with standard errors over tensors.
"""

from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from setting import Full, Out, Seed, folder_of

import allocore as ac
from allocore.posterior.likelihood_check import count_dispersion

RATIOS = (1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 3.0)
SHAPE, CLASSES, BUDGET = (30, 30, 15), 5, 8


def simulate(ratio: float, counts: int, rng: np.random.Generator) -> ac.CountTensor:
    """Return a tensor of sparse classes whose counts have this ratio of variance to mean."""
    phis = [rng.gamma(0.3, 1.0, (length, CLASSES)) for length in SHAPE]
    rates = np.einsum("q,iq,jq,kq->ijk", rng.gamma(1.0, 1.0, CLASSES), *(phi / phi.sum(axis=0) for phi in phis))
    rates *= counts / rates.sum()
    if ratio > 1.0:
        rates = rng.standard_gamma(rates / (ratio - 1.0)) * (ratio - 1.0)
    return ac.as_tensor(rng.poisson(rates))


def compared(ratio: float, counts: int, seed: int) -> dict[str, float]:
    """Fit both likelihoods to one tensor and score the cells that were held out."""
    split = ac.hold_out(simulate(ratio, counts, np.random.default_rng([seed, counts])), fraction=0.1, seed=seed)
    schedule = {"burn_in": 150, "draws": 10, "thin": 5, "chains": 2, "seed": seed, "threads": 1, "progress": False}
    poisson, other = (
        ac.AlloCore(BUDGET, likelihood=name, **schedule).fit(split).posterior_
        for name in ("poisson", "negative-binomial")
    )
    found = count_dispersion(poisson.record)
    better = {
        name: other.log_ppd(split.test, positive_only=only) - poisson.log_ppd(split.test, positive_only=only)
        for name, only in (("all", False), ("positive", True))
    }
    return {
        "counts": counts, "ratio": ratio, "found": found.ratio, "gain": found.gain, "clear": found.clear,
        "all": better["all"] * len(split.test), "positive": better["positive"] * len(split.test.positive),
    }  # fmt: skip


def main(
    full: Full = False,
    out: Out = None,
    seed: Seed = 0,
    tensors: Annotated[int, typer.Option(help="Tensors for each ratio and number of counts.")] = 8,
) -> None:
    """Compare the likelihoods on tensors of 1,000 and 10,000 counts (with --full also of 100,000)."""
    sizes = (1_000, 10_000, 100_000) if full else (1_000, 10_000)
    path, rows = folder_of(out, "dispersion", full) / "tensors.csv", []
    for n, counts, ratio in product(range(tensors), sizes, RATIOS):
        rows.append(compared(ratio, counts, seed + n))
        pd.DataFrame(rows).to_csv(path, index=False)
    table = pd.DataFrame(rows)
    groups = table.groupby(["counts", "ratio"])
    errors = groups[["all", "positive"]].sem().add_suffix("_se")
    print(groups.mean().join(errors).round(3).to_string())


if __name__ == "__main__":
    typer.run(main)
