"""What a run says about its likelihood: the dispersion, the concentrations, and advice after a Poisson fit."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from allocore.data.sharded_tensor import stays_on_disk
from allocore.model.likelihood import dispersion_of, odds_of
from allocore.posterior.count_dispersion import NEAR_POISSON, count_dispersion
from allocore.run.record import Record

_FOR_ONES = 'likelihood="bernoulli" is made for such data.'
_ADVICE = 'likelihood="negative-binomial" (allocore fit --likelihood negative-binomial) would likely predict better'


def likelihood_sentences(record: Record) -> tuple[str, ...]:
    """Return how the counts are distributed given the rates, in sentences; after a Poisson fit, how dispersed they are.

    The run must have draws.
    """
    first = _after_poisson(record) if record.spec.likelihood == "poisson" else ""
    return (*([first] if first else []), *learned_sentences(record))


def learned_sentences(record: Record) -> Iterator[str]:
    """Yield what was learned besides classes and factors: nothing for the model of the paper."""
    if record.spec.observation.note:
        yield record.spec.observation.note
    if record.log_odds is not None:
        yield _on_dispersion(record, record.log_odds)
    if record.concentrations is not None:
        mean_M = record.concentrations.mean(axis=(0, 1)).tolist()
        each = [f"{name} {mean:.2g}" for name, mean in zip(record.tensor.mode_names, mean_M, strict=True)]
        yield f"Concentrations learned: {', '.join(each)}."


def _on_dispersion(record: Record, log_odds: NDArray[np.float64]) -> str:
    if record.tensor.largest == 1:
        return f"Negative binomial likelihood, but p is not identified: all counts are 1; {_FOR_ONES}"
    p, mode = dispersion_of(log_odds), record.spec.dispersion_by
    if mode is None:
        times = f"{_digits(float(1.0 + odds_of(log_odds).mean()))} times its mean"
        numbers = f"p {p.mean():.3g} ({p.min():.3g} to {p.max():.3g} over all draws)"
        return f"Negative binomial likelihood: {numbers}, so the variance of a count is {times}."
    counted = np.flatnonzero(record.tensor.mode_totals(mode) > 0)
    p_D, labels = p.mean(axis=(0, 1))[counted], record.tensor.labels[mode]
    low, high = (f"{p_D[d]:.2g} ({labels[counted[d]]})" for d in (p_D.argmin(), p_D.argmax()))
    name = record.tensor.mode_names[mode]
    return f"Negative binomial likelihood with a p for each {name}: mean {p_D.mean():.2g}, from {low} to {high}."


def _after_poisson(record: Record) -> str:
    if record.tensor.largest == 1:
        return f"Poisson likelihood, but all counts are 1: {_FOR_ONES}"
    if stays_on_disk(record.tensor):
        why = "they stay on disk" if record.tensor._is_there() else f"{record.tensor.path} is not there"
        return f"Poisson likelihood. Whether counts are more dispersed was not judged: {why}."
    found = count_dispersion(record)
    told = f"Poisson likelihood: given the fit, the variance of a count is {_digits(found.ratio)} times its mean"
    if found.clear:
        return f"{told} (1 for Poisson counts), so {'' if record.spec.has_priors else 'another model with '}{_ADVICE}."
    near = "close to 1" if found.ratio < NEAR_POISSON else "though counts are too few to be sure that it is not 1"
    return f"{told}, {near}, as for Poisson counts."


def _digits(ratio: float) -> str:
    if ratio < 10:
        return f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.3g}"
