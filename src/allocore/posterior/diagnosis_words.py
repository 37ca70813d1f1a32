"""What a diagnosis says: a traffic light, a headline for the top of a page, and a few sentences on what to do.

Chains of this model often settle in different modes of the posterior. More chains then make predictions better, because
predictions average over all of them (Yao, Vehtari and Gelman 2022), and longer chains do not. Longer chains are the
advice only if something within the chains asks for it: they drift, or they have too few effective samples.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from allocore.posterior.lagging_chains import Behind, behind_sentence, named, them

Level = Literal["good", "caution", "poor"]

MAXIMUM_LIKELIHOOD = "Maximum likelihood gives one estimate and no draws: there are no chains to judge."


class Apart(NamedTuple):
    """A quantity on which chains do not agree, or the halves of a single chain: its R-hat and its range over draws."""

    words: str
    r_hat: float
    low: float
    high: float


class Few(NamedTuple):
    """The quantity with the fewest effective samples."""

    words: str
    samples: float
    wanted: int


class Findings(NamedTuple):
    """What the numbers show. `apart` has the worst quantity first; `drift` is in nats, None if chains do not drift."""

    chains: int
    draws: int
    least_draws: int
    judged: int
    apart: list[Apart]
    far: bool
    drift: float | None
    behind: Behind | None
    few: Few | None
    unchanging: bool
    no_move: str | None
    largest_r_hat: float
    fewest_samples: float

    @property
    def enough(self) -> bool:
        """Whether there are enough draws for R-hat."""
        return self.draws >= self.least_draws

    @property
    def problem(self) -> bool:
        """Whether something was found that is not as it should be."""
        return bool(self.apart or self.drift is not None or self.behind or self.few or self.unchanging or self.no_move)


def verdict(found: Findings) -> tuple[Level, str]:
    """Return the traffic light and the headline: the first of these that holds, the worst first."""
    if found.enough and found.unchanging:
        return "poor", "Nothing changes from draw to draw: these are not draws of a posterior."
    if found.drift is not None:
        who = "The chains have" if found.chains > 1 else "The chain has"
        return "poor", f"{who} not settled: run longer."
    if found.behind is not None:
        chains = found.behind.chains
        return "poor", f"{named(chains)} far behind the others: leave {them(chains)} out, or run longer."
    if not found.enough:
        return "caution", f"There are too few draws to judge: {found.draws} per chain."
    if found.chains == 1:
        return "caution", "One chain cannot show whether chains agree: run four."
    if found.far:
        return "caution", (
            "The chains are in different modes: predictions pool them and can be used, intervals hold within a mode."
        )
    if found.apart:
        return "caution", "The chains do not quite agree yet: run longer before you use intervals."
    if found.few is not None:
        return "caution", "The chains agree, but effective samples are few: intervals are rough."
    if found.no_move:
        return "caution", "The chains agree, but there are chains in which no class moved."
    return "good", "The chains agree: predictions and intervals can be used."


def sentences(found: Findings) -> Iterator[str]:
    """Yield what was found, what it means and what to do, in a few sentences."""
    if not found.enough:
        yield f"R-hat needs at least {found.least_draws} draws per chain: resume the run with more draws."
    elif found.unchanging:
        yield "All draws are equal, so R-hat and intervals say nothing: fit again with another seed."
    elif not found.problem:
        who = "the chains agree" if found.chains > 1 else "the halves of the chain agree"
        yield (
            f"No problem found: {who} (R-hat at most {found.largest_r_hat:.3f}), with at least "
            f"{found.fewest_samples:.0f} effective samples."
        )
    if found.apart:
        yield _on_agreement(found)
    yield from _on_modes(found)
    if found.few is not None:
        yield _on_samples(found.few, found)
    if found.no_move:
        yield found.no_move
    if found.enough and found.chains == 1:
        yield "R-hat compares the two halves of the chain here: fit with chains=4 to see whether chains agree."


def _on_agreement(found: Findings) -> str:
    who = "Chains" if found.chains > 1 else "The halves of the chain"
    how = "disagree" if found.far else "do not quite agree yet"
    worst, others = found.apart[0], len(found.apart) - 1
    where = f"{worst.words} ({_how_far(worst)})"
    if others:
        where = f"{len(found.apart)} of {found.judged} quantities, most of all on {where}"
    # In a single chain, and where chains almost agree, time is the cure. Drift has a sentence of its own.
    different_modes = found.far and found.chains > 1
    advice = "" if different_modes or found.drift is not None else "; run longer"
    return f"{who} {how} on {where}{advice}."


def _how_far(quantity: Apart) -> str:
    if np.isinf(quantity.r_hat):
        return f"stuck at different values, {quantity.low:.6g} to {quantity.high:.6g}"
    return f"R-hat {quantity.r_hat:.{2 if quantity.r_hat > 1.05 else 3}f}"


def _on_modes(found: Findings) -> Iterator[str]:
    if found.drift is not None:
        how = "rises" if found.drift > 0 else "falls"
        yield (
            f"The log-likelihood still {how}, by {abs(found.drift):,.0f} nats from the first half of the draws to the "
            "second, so the burn-in was too short: resume the run with more draws, or fit again with more burn-in."
        )
    elif found.far and found.chains > 1:
        yield (
            "They have settled in different modes: predictions pool all chains and can be used, and more chains make "
            "them better; intervals hold within a mode only."
        )
    if found.behind is not None:
        yield behind_sentence(found.behind)


def _on_samples(few: Few, found: Findings) -> str:
    within = " within chains" if found.apart and found.chains > 1 else ""
    # Draws that are almost independent could have been kept more often; others come from chains that move slowly.
    advice = "keep more draws" if few.samples > found.draws * found.chains / 2 else "run longer"
    # Chains that drift have been told to run longer.
    told = "" if found.drift is not None and advice == "run longer" else f" For intervals, {advice}."
    return (
        f"There are few effective samples{within}: {few.samples:.0f} for {few.words}, where there should be "
        f"{few.wanted} ({few.wanted // found.chains} per chain).{told}"
    )
