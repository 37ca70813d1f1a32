"""What the figures of classes show: the consensus, or one draw on request."""

from allocore.errors import InputError
from allocore.posterior.class_summary import ClassSummary
from allocore.posterior.fitted import Fitted, as_posterior
from allocore.posterior.posterior import ShownDraw


def shown_summary(post: Fitted, draw: ShownDraw, chain: int | None) -> ClassSummary:
    """The classes to draw; an error if there are none."""
    summary = as_posterior(post).class_summary(draw, chain=chain)
    if len(summary.number_C):
        return summary
    if summary.is_consensus:
        raise InputError("the draws have no class in common; draw='best' (--draw best) shows the best draw")
    raise InputError(f"{summary.source} has no classes: there is nothing to draw")


def source_words(summary: ClassSummary) -> str:
    """Where the classes are from, as the beginning of a sentence."""
    return summary.source[:1].upper() + summary.source[1:]
