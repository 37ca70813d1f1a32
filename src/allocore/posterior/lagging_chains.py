"""Chains that fit far worse than the others: diagnostics and tables tell them plainly."""

from typing import NamedTuple

import numpy as np

from allocore.run.record import Record

# R-hat splits every chain in two and compares variances, so each half needs two draws.
LEAST_DRAWS = 4
# A chain is far behind if it fits worse than the best by more than noise, ten times the spread within chains, and by
# more than modes differ, and if it is further from the next chain above it than that is from the best. The worst of
# four settled chains on ICEWS was up to 0.09 nats a non-zero cell behind the best (50 times the spread), and leaving it
# out did not help. Poisson chains of 40 sweeps were 0.12 and more behind. Where counts are large, modes differ by more.
BEHIND_SPREADS = 10.0
BEHIND_PER_NONZERO = 0.1


class Behind(NamedTuple):
    """Chains that fit far worse than the best: by how many nats at least, and how many within-chain sd these are.

    `spreads` is infinite if nothing changes within chains.
    """

    chains: tuple[int, ...]
    best: int
    nats: float
    spreads: float


def chains_behind(record: Record) -> Behind | None:
    """Return the chains with the lowest mean log-likelihoods, if they are far behind all others; see BEHIND_SPREADS."""
    values = record.stats["log_likelihood"][:, record.draw_sweeps - 1].astype(float)
    if values.shape[1] < LEAST_DRAWS or len(values) < 2:
        return None
    means, spread = values.mean(axis=1), float(np.sqrt(values.var(axis=1, ddof=1).mean()))
    order = np.argsort(-means, kind="stable")
    least = max(BEHIND_SPREADS * spread, BEHIND_PER_NONZERO * record.tensor.nnz)
    # Most chains are not behind, except that of two chains one may be.
    for first in range(len(values) // 2 + 1 if len(values) > 2 else 1, len(values)):
        best, last, behind = means[order[[0, first - 1, first]]]
        if best - behind > least and last - behind > best - last:
            chains = tuple(sorted(order[first:].tolist()))
            nats = float(best - behind)
            return Behind(chains, int(order[0]), nats, nats / spread if spread else np.inf)
    return None


def behind_sentence(behind: Behind) -> str:
    """Say which chains are far behind, how far, and what to do."""
    chains, best, nats, spreads = behind
    whose = "its mean log-likelihood is" if len(chains) == 1 else "their mean log-likelihoods are at least"
    far = f", {spreads:,.0f} times the spread within chains" if np.isfinite(spreads) else ""
    return (
        f"{named(chains)} far behind: {whose} {nats:,.0f} nats below that of chain {best}{far}; predictions hardly "
        f"suffer, but classes there fit worse: leave {them(chains)} out with post.select_chains, or run longer."
    )


def named(chains: tuple[int, ...]) -> str:
    """The chains as the beginning of a sentence."""
    if len(chains) == 1:
        return f"Chain {chains[0]} is"
    return f"Chains {', '.join(map(str, chains[:-1]))} and {chains[-1]} are"


def them(chains: tuple[int, ...]) -> str:
    """The chains as a pronoun."""
    return "it" if len(chains) == 1 else "them"
