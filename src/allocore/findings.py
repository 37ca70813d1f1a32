"""What a judgement found: data first, and one sentence for each kind of finding. Nothing reads a sentence back.

Results such as those of `diagnose` have `.findings`, a tuple, and `.sentences`, the same in words for every output.
A warning has its finding as `.finding`.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Literal

from allocore._text import first_few, plain_number, plural

Level = Literal["good", "note", "caution", "poor"]


@dataclass(frozen=True)
class Finding:
    """One thing that a judgement found.

    Attributes
    ----------
    kind : str
        What was found, such as "chains-disagree". Each kind has one sentence.
    level : {"good", "note", "caution", "poor"}
        How serious it is; "note" is for the reader's information.
    values : mapping
        The numbers and names of the finding.

    Examples
    --------
    >>> import allocore as ac
    >>> ac.Finding("few-draws", "caution", {"draws": 4, "least": 50})
    Finding(kind='few-draws', level='caution', values={'draws': 4, 'least': 50})
    """

    kind: str
    level: Level = "note"
    values: Mapping[str, Any] = field(default_factory=dict)


class FindingWarning(UserWarning):
    """A warning with its finding, so that programs need not read its sentence.

    Parameters
    ----------
    finding : Finding
        What the warning is about.

    Examples
    --------
    >>> import warnings
    >>> import allocore as ac
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = ac.CP(2, likelihood="negative-binomial", sweeps=8, chains=1).fit(ac.load_flights().binarize())
    >>> [each.message.finding.kind for each in caught]
    ['dispersion-of-ones']
    """

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding

    def __str__(self) -> str:
        return sentence(self.finding)


def warn(finding: Finding, stacklevel: int = 1) -> None:
    """Warn of a finding. As in `warnings.warn`, a `stacklevel` of 1 blames the line that calls this."""
    warnings.warn(FindingWarning(finding), stacklevel=stacklevel + 1)


def sentence(finding: Finding) -> str:
    """Return a finding as one sentence or a few."""
    writer = _WRITERS[finding.kind]
    return writer(**finding.values) if callable(writer) else _filled_in(writer, **finding.values)


def sentences(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return findings as sentences, in their order."""
    return tuple(sentence(finding) for finding in findings)


def join_words(words: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def plus_minus(mean: float, error: float) -> str:
    """Return "0.012 \u00b1 0.005", a mean with its standard error, two digits each; only the mean if that is NaN."""
    number, spread = _two_digits(mean), _two_digits(error)
    return number if math.isnan(error) else f"{number} \u00b1 {spread}"


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):g}"


_NAMED_STATISTICS = 3
_NAMED_CLASSES = 3
_TWICE = 1.95  # from here on a ratio is a number of times, so that nothing is "100% more"
_NAMED_JOBS = 3  # of those that failed with one error
_NEGATIVE_BINOMIAL = 'likelihood="negative-binomial" (allocore fit --likelihood negative-binomial)'
_FOR_ONES = 'likelihood="bernoulli" is made for such data.'
_POISSON = "Poisson likelihood: given the fit, the variance of a count is {ratio:ratio} times its mean"
_AGAINST = (
    "the best baseline ({baseline}): log PPD {log_ppd:number} against {baseline_log_ppd:number}, a difference of "
    "{difference:size}"
)
_COVERAGE = "In {busy:busy cells}, 50% intervals hold {half:.0%} of the counts and 90% intervals {most:.0%}"
_REMEDIES = {
    "negative-binomial": f"{_NEGATIVE_BINOMIAL} expects bursts, and widens them",
    "dispersion-by": "more chains, or a dispersion for each row of a mode (dispersion_by), may help",
    "more-draws": "more chains, and more draws, may help",
}
_UNSCORED = {
    "on-disk": "the cells stay on disk, and the run has no held-out cells with counts",
    "no-counts": "there are no cells with counts that the model thinks possible",
}
_DETOURS = {
    "not-reached": "a worker cannot reach it",
    "not-read": "a file that a worker wrote there cannot be read here",
}
_SCOPES = {
    "cells": "By cell",
    "positive cells": "In cells with counts",
    "classes": "By class",
    "totals": "In the totals of the periods",
}
_SIMPLE_FORECASTS = {
    "mean": "the mean of all past periods",
    "last": "the last value",
    "year before": "the value one year before",
    "week before": "the value one week before",
    "day before": "the value one day before",
}
_CELLS = {"all": "all held-out cells", "positive": "held-out cells with counts"}
_MEANS = {"all": "The means", "positive": "The means for cells with counts"}


def _ratio(ratio: float) -> str:
    if ratio < 10:
        return f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.3g}"


def _busy_cells(busy: int | None) -> str:
    return "all cells" if busy is None else f"the {busy:,} busy cells (a count is likely there)"


def _labels_by_mode(labels: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{mode}: {first_few(names)}" for mode, names in labels.items())


def _days_observed(periods: Mapping[str, Sequence[int]]) -> str:
    """Return "2019-02 (9 of 28 days observed), 2019-03 (24 of 31)"."""
    first, *others = [f"{label} ({observed} of {days}" for label, (observed, days) in periods.items()]
    return first_few([f"{first} days observed)", *(f"{other})" for other in others)])


# How a template can write a value besides Python's formats: `{names:first few}`.
_FORMATS: dict[str, Callable[[Any], str]] = {
    "first few": first_few,
    "commas": ", ".join,
    "ratio": _ratio,
    "number": plain_number,
    "percent": lambda share: f"{_two_digits(100.0 * share)}%",
    "size": lambda difference: _two_digits(abs(difference)),
    "busy cells": _busy_cells,
    "labels by mode": _labels_by_mode,
    "days observed": _days_observed,
    "unscored": _UNSCORED.__getitem__,
    "of detour": _DETOURS.__getitem__,
    "remedy": _REMEDIES.__getitem__,
    "scope": _SCOPES.__getitem__,
    "cells": _CELLS.__getitem__,
    "means": _MEANS.__getitem__,
}


class _Template(Formatter):
    """Fills in `_FORMATS` and numbers: with 2 cells, `{cells:count cell}` is "2 cells", `{cells:is|are}` is "are"."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if "|" in format_spec:
            one, other = format_spec.split("|")
            return one if value == 1 else other
        if format_spec.startswith("count "):
            return plural(value, format_spec.removeprefix("count "))
        return _FORMATS[format_spec](value) if format_spec in _FORMATS else str(format(value, format_spec))


def _filled_in(template: str, **values: Any) -> str:
    return _Template().vformat(template, (), values)


# The sentence of each kind: a template, or a function (below) if its words depend on the values.
_WRITERS: dict[str, str | Callable[..., str]] = {
    "note": "{text}",  # of reports that were saved before there were findings
    # Events
    "skipped-files": "skipped, because these are not tables: {names:first few}",
    "empty-files": "empty: {files:first few}",
    "files-without-rows": "without rows: {files:first few}",
    "cut-off-file": "{file} is cut off; its first {lines:,} lines were read",
    "data-as-names": "the first line of {file} looks like data, but was read as the names of columns; "
    "`header=False` counts it as a row, and names the columns column_1, column_2 and so on",
    "not-utf-8": "{file} is not UTF-8; lines in another encoding were read as Latin-1",
    "stray-quotes": "{file} has {lines:count line} with stray quotes or of too great a length; they were left out",
    "day-first": "dates were read as day/month/year because of dates like {example}"
    "{exceptions:, though some can only be month/day/year|}",
    "month-first": "dates were read as month/day/year, though {exceptions:some|all dates} like {example} "
    "{exceptions:can only|could} be day/month/year",
    "periods-in-utc": "periods are in UTC, because times have a time zone or an offset"
    "{exceptions:; times without either were taken as they are|}",
    "empty-periods": "{periods:count period} {periods:has|have} no events and {periods:counts|count} as zeros; "
    "periods that were not observed belong in `{argument}`",
    "no-hours": "`{argument}` is 'hour', but all times are in the first hour of a day",
    "weeks-to-monday": "`{argument}` W-MON was taken for weeks from Monday to Sunday; in pandas such weeks end on "
    "Monday",
    "labels-in-common": "{modes[0]} and {modes[1]} have {labels:,} labels in common; if you name both in `{argument}`, "
    "they get the same labels, and cells of a label with itself become missing",
    "ties-in-one-direction": "all ties between {modes[0]} and {modes[1]} go from earlier to later labels, or all back; "
    "if they are undirected, say so ({argument}), or classes depend on the order of the labels",
    "symmetric-ties": "all ties between {modes[0]} and {modes[1]} are there in both directions, with equal counts; if "
    "they are undirected, say so ({argument}), or every tie counts twice, and held-out ties are seen the other way",
    "dates-as-labels": "{mode} has {labels:,} dates as labels; if you set `{argument}` to {column!r}, they become "
    "months, in order and without gaps, and `{length}` sets other periods, such as weeks",
    "codes-without-words": "labels of {mode} have no words, because not all texts in {column} are clearly CAMEO codes "
    "with their zeros, such as 04 and 042",
    "repaired-codes": "{rows:,} codes in {mode} had lost their leading zeros (014 read as a number is 14) and were "
    "repaired",
    "lists-of-actors": "lists of actors turned {rows:,} rows into {pairs:,} pairs",
    "weights-lost": "the weights of periods are lost, because a part was not made from events",
    "diagonal-not-missing": "the diagonal of {modes[0]} and {modes[1]} is missing in the fitted tensor, but not in "
    "Y_new, where its zeros count as observed: Y_new.mask_diagonal({numbers}) makes them missing",
    # Fits
    "dispersion-of-ones": "all counts are 1, so they carry no information about the dispersion p of the negative "
    "binomial: its prior and the zeros decide it. Use likelihood='bernoulli' for such data",
    "labels-in-several-seeds": "labels of {mode} are in more than one seed: {labels:first few}",
    "restarts-stopped": "stopped: {ended} of {restarts} restarts are done; the best estimate is kept",
    "progress-display-failed": "progress display failed and is off: {error}",
    "kernels-not-kept": "compiled kernels cannot be kept in {folder}: {error}",
    "task-repeated": "a task was lost and is repeated: {error}",
    "draws-through-executor": "draws come through the executor, not through {path}: {why:of detour}",
    # Files of runs
    "no-file-locks": "{folder} is on a file system without locks: the file {file} is used instead, and processes on "
    "other hosts must not write there",
    "chain-starts-again": "{folder} has no readable checkpoint: the chain starts again",
    "checkpoint-damaged": "{path} is damaged: continuing from the checkpoint of sweep {sweep}",
    "other-arithmetic": "{path} was started with {differences:commas}: draws may differ in their last bits",
    "draws-left-out": "{path} is damaged: {left_out} of {draws} draws are left out",
    "held-out-left-out": "{path} {problem}; they are left out",
    "statistics-lost": "{path} is damaged: some statistics ({name}) are lost",
    "consensus-not-read": "{path} cannot be read ({problem}): the consensus is found again, and its classes may get "
    "other numbers",
    "numbering-not-read": "{path} cannot be read ({problem}): classes may get other numbers than in the run where this "
    "one started",
    # Diagnosis: predictions
    "predictions-no-draws": "Maximum likelihood gives one estimate and no draws, so the error of predictions is not "
    "known, and intervals leave it out. Tucker, CP and AlloCore have draws.",
    "equal-draws": "No. All draws are equal, so these are not draws of a posterior: fit again with another seed.",
    "quick-look": "Preliminary: this is a quick look, {chains:count chain} of {sweeps} sweeps. {stored:To get the "
    "whole fit, resume it (allocore resume RUN)|To get the whole fit, leave out quick (--quick), or add store (--out) "
    "and resume the run}.",
    "predictions-few-draws": "Not known: {draws:count draw} per chain {draws:is|are} too few; it takes {least}.",
    "predictions-one-chain": "Not known: it takes several chains to see how much predictions depend on the chain.",
    "predictions-not-judged": "Not known: {why:unscored}.",
    "hold-out-cells": "If the tensor fits into memory, hold out cells and fit again: held-out cells are scored "
    "(ac.hold_out, or allocore fit --hold-out 0.01).",
    # Diagnosis: classes
    "classes-no-draws": "Not known: maximum likelihood gives one estimate and no chains to compare.",
    "classes-few-chains": "Not known: it takes at least {least} chains to say, and there {chains:is|are} {chains}.",
    "fewer-classes": "More chains would hardly change that, but fewer classes would: fit again with a smaller "
    "{setting} (now {classes}).",
    "classes-sure": "At least {share:.0%} of random halves of the chains find {sure} of the {classes} consensus "
    "{classes:class|classes}.",
    # Diagnosis: fit
    "fit-good": "Yes: all {statistics} statistics of the data agree with {tensors:,} simulated tensors.",
    "fit-intervals-off": "Not quite: all {statistics} statistics of the data agree with {tensors:,} simulated tensors, "
    "but intervals of held-out counts are off.",
    "fit-not-checked": "Not known: {on_disk:the cells stay on disk|simulated tensors would take long; post.check() "
    "(allocore check RUN) makes them}.",
    # Diagnosis: details
    "nested-r-hat": "Nested R-hat is at most {r_hat:.3f} for the expected counts of {cells:count cell}: means over "
    "groups of {size:count chain} differ little if it is near 1.",
    "effective-samples": "The fewest effective samples are {samples:,.0f}, for {quantity}.",
    "move-rate": "{rate:percent} of the classes moved in a sweep after the burn-in.",
    "few-draws": "R-hat needs at least {least} draws per chain.",
    "one-chain": "R-hat compares the two halves of the chain here.",
    # Evaluation
    "evaluation-trained": "The model was fitted to {trained:,} of these {cells:count cell}: the scores say how well it "
    "fits them, not how well it predicts, and the baselines know them too.",
    "evaluation-few-cells": "{cells:One cell is|{cells:,} cells are} too few to judge by.",
    "evaluation-no-zeros": "All these cells have counts, so only the log PPD of positive cells means something: a "
    "model is judged by all cells, zeros included.",
    "evaluation-impossible": "The model gives some held-out counts the probability 0, so its log PPD is minus "
    "infinity.",
    "evaluation-one-fibre": f"Predicts {{better:better|no better}} than {_AGAINST}; one fibre is too few for a "
    "standard error.",
    "evaluation-better": f"Predicts clearly better than {_AGAINST} with a standard error of "
    "{error:size}{intervals_off:; but its intervals are off (below)|}.",
    "evaluation-worse": f"Predicts clearly worse than {_AGAINST} with a standard error of {{error:size}}. A larger "
    "budget, longer chains or another likelihood may help.",
    "evaluation-unclear": f"Predicts neither clearly better nor clearly worse than {_AGAINST} with a standard error of "
    "{error:size}.",
    "zeros-ranked": "A cell with a count is ranked above one without with probability {auc:number} (AUC); the best "
    "baseline at that, {baseline}, has {baseline_auc:number}.",
    "intervals-right": f"{_COVERAGE}: intervals can be trusted.",
    "intervals-narrow": f"{_COVERAGE}: intervals are too narrow; {{remedy:remedy}}.",
    "intervals-wide": f"{_COVERAGE}: intervals are too wide; longer chains, or a larger budget, narrow them.",
    "intervals-wrong": f"{_COVERAGE}: the predictive distribution has the wrong shape; {{remedy:remedy}}.",
    "few-positive-cells": "Few of these cells are positive ({positive}): hold out more to be sure.",
    "no-mean-baseline": "There is no baseline '{baseline}': "
    "{along:the held-out fibres run along it|most fibres along it are missing whole}, so nothing of them was observed.",
    "errors-over-cells": "Standard errors are over cells: they are too small if the cells of a fibre are alike.",
    "some-draws": "Judged by {draws} of the {all_draws} draws; post.evaluate() takes all of them.",
    # Checks
    "check-good": "The data look like tensors that the model simulates: {statistics:count statistic} and the totals of "
    "{labels:count label} agree with {tensors:,} simulated tensors.",
    "check-bursts": "The data have fewer non-zero cells, or larger counts, than the model simulates: counts come in "
    f"bursts, which {{has_priors:|another model with }}{_NEGATIVE_BINOMIAL} expects.",
    "check-negative-binomial-sums": "The negative binomial takes bursts for chance, cell by cell, so sums of many "
    "cells may be off; predictions of cells are not. More classes explain more of the bursts.",
    # Surprises
    "surprising-cells": "{more:At least |}{cells:count cell} {cells:has|have} a probability of at most "
    "{threshold:.3g}. By chance, at most about {by_chance:.2g} of the {observed:,} observed cells would.",
    "zeros-not-all-searched": "the search for surprising zeros stopped early: it may have missed zeros with a "
    "probability of about {probability:.3g} or more",
    # Likelihood
    "poisson-ones": f"Poisson likelihood, but all counts are 1: {_FOR_ONES}",
    "poisson-dispersed": f"{_POISSON} (1 for Poisson counts), so {{has_priors:|another model with }}"
    f"{_NEGATIVE_BINOMIAL} would likely predict better.",
    "poisson-somewhat-dispersed": f"{_POISSON}. Over all cells, the negative binomial would predict slightly "
    "better, but not in cells with counts.",
    "poisson-near": f"{_POISSON}, close to 1, as for Poisson counts.",
    "poisson-unclear": f"{_POISSON}, though counts are too few to be sure that it is not 1, as for Poisson counts.",
    "bernoulli": "Bernoulli likelihood: a cell is 1 if its latent count is above 0; sizes of classes are latent "
    "counts.",
    "dispersion": "Negative binomial likelihood: p {mean:.3g} ({low:.3g} to {high:.3g} over all draws), so the "
    "variance of a count is {ratio:ratio} times its mean.",
    "dispersion-not-identified": "Negative binomial likelihood, but p is not identified: all counts are 1; "
    f"{_FOR_ONES}",
    "dispersion-by": "Negative binomial likelihood with a p for each {mode}: mean {mean:.2g}, from {low[0]:.2g} "
    "({low[1]}) to {high[0]:.2g} ({high[1]}).",
    # Classes
    "no-common-class": "The {chains:draws|chains} have no class in common.",
    "half-of-counts": "The {number:largest holds|{number} largest hold} half.",
    "weak-classes": "{weak} of the {classes} {weak:is|are} small, or in fewer than three quarters of the "
    "{chains:draws|chains}.",
    "similar-classes": "{share:.0%} is in further classes that are similar to these.",
    "other-classes": "The other {share:.0%} is in classes on which {chains:draws|chains} differ.",
    "unused-factors": "Seeded or frozen factors of {mode} that no class uses: {names:commas}.",
    "inferred-budget": "The budget was inferred: {median} classes are on (median of all draws, 95% from {low} to "
    "{high}).",
    # Forecasts
    "incomplete-past": "Not compared because incomplete: {periods:days observed}.{last: The last period is one of "
    "them, so the forecast may start too low: read the events with incomplete='exposure' or 'drop' (--incomplete), and "
    "fit again.|}",
    "incomplete-not-scored": "Not scored because incomplete: {periods:days observed}.",
    "cells-never-observed": "Sums leave out {cells:count cell} of each period, which {cells:was|were} held out or "
    "never observed.",
    "cells-filled-in": "Filled in: {cells:count cell} of the past, missing in some periods, with the mean of the "
    "others.",
    "nothing-to-score": "{scope:scope}, there is nothing to score.",
    "periods-scored": "Only {periods:commas} of the coming periods could be scored.",
    "labels-left-out": "left out: {counts:count count} of labels that the fit does not have ({labels:labels by mode})",
    "labels-without-forecast": "Left out: {counts:count count} of {labels:count label} that the fit does not have, so "
    "no forecast could include them.",
    # Comparisons
    "no-common-split": "{cells:means} cannot be compared: the models have no split in common.",
    "splits-left-out": "{cells:means} are over the {splits} of {of} splits that all compared models have.",
    "impossible-counts": "{model} gave probability 0 to a held-out count in {fits} of {of} fits. Its PPD is 0 there, "
    "and the means leave out budgets with such a fit.",
    "paired-differences": "Differences are means \u00b1 standard errors over {splits} splits, paired within splits. A "
    "difference is clear if its 95% interval excludes 0.",
    "few-splits": "{splits:One split is|{splits} splits are} too few to tell a difference from chance: use at least "
    "{least}, or better more. A comparison with more splits in the same folder keeps the fits that are done.",
    "failed-earlier": "{jobs:count job} in this folder failed in an earlier call and did not run again.",
    # Budgets
    "best-budget": "Q = {budget:,} predicts {cells:cells} best: mean log PPD {mean:.4g} over {splits} splits.",
    "best-budget-chosen": "No smaller budget is within one standard error of it, so Q = {budget:,} is chosen.",
    "largest-budget-best": "The best budget is the largest one tried. Larger budgets may be better still.",
    "budgets-with-failed-fits": "{jobs:count fit} failed. Budgets that lack a split cannot be chosen.",
}


def _writes(kind: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    def register(writer: Callable[..., str]) -> Callable[..., str]:
        _WRITERS[kind] = writer
        return writer

    return register


@_writes("incomplete-periods")
def _incomplete_periods(periods: Mapping[str, Sequence[int]], dropped: bool, weighed: bool = False) -> str:
    which = _days_observed(periods)
    if dropped:
        return f"left out as incomplete: {which}"
    found = f"{plural(len(periods), 'period')} may be incomplete: {which}"
    if weighed:
        return f"{found}; fits allow for the days that were not observed"
    pronoun = "it" if len(periods) == 1 else "them"
    return f"{found}; `incomplete='exposure'` makes fits allow for this, `incomplete='drop'` leaves {pronoun} out"


@_writes("predictive-error")
def _predictive_error(nats: float, cells: int, held_out: bool, chains: int, answer: str) -> str:
    start = {"good": "Yes: with", "caution": "With care: with only", "poor": "Not yet: with only"}[answer]
    share, where = math.expm1(min(nats, 700.0)), "held-out counts" if held_out else "counts"
    known = f"within {share:.1%}" if share < 0.1 else f"within {share:.0%}"
    known = known if share < 1.0 else "no better than within a factor of 2"
    return (
        f"{start} {chains} chains, predictive probabilities are known {known} on average (the log score of "
        f"{cells:,} {where} has a standard error of {nats:.2g} nats a cell)."
    )


@_writes("drift")
def _drift(nats: float) -> str:
    return (
        f"Not yet: the chains have not settled. Their log-likelihood still {'rises' if nats > 0 else 'falls'}, by "
        f"{abs(nats):,.0f} nats from the first half of the draws to the second."
    )


@_writes("more-chains")
def _more_chains(chains: int, folded: bool) -> str:
    return f"More chains help: {_fit_or_resume('chains', chains, folded)}."


@_writes("more-sweeps")
def _more_sweeps(sweeps: int, folded: bool) -> str:
    return f"Run longer: {_fit_or_resume('sweeps', sweeps, folded)}."


@_writes("more-draws")
def _more_draws(draws: int, folded: bool) -> str:
    return f"Run longer: {_fit_or_resume('draws', draws, folded)}."


def _fit_or_resume(what: str, wanted: int, folded: bool) -> str:
    again = ", and fold in again" if folded else ""
    return f"resume the run with {wanted} {what} (allocore resume RUN --{what} {wanted}), or fit again{again}"


@_writes("classes-found-again")
def _classes_found_again(agreement: float, classes: int) -> str:
    if not classes:
        return "No: the chains have no class in common."
    return f"Another run would find {agreement:.0%} of these classes again, by counts."


@_writes("fit-off")
def _fit_off(statistics: int, tensors: int, agree: int, off: Sequence[str], modes: Sequence[str]) -> str:
    differ = first_few([*off, *(f"totals by {mode}" for mode in modes)], _NAMED_STATISTICS)
    return (
        f"Not in all respects: {agree} of {statistics} statistics of the data agree with {tensors:,} simulated "
        f"tensors. Different: {differ}. post.check() (allocore check RUN) shows by how much."
    )


@_writes("r-hat")
def _r_hat(chains: int, above: int, judged: int, quantity: str, r_hat: float, low: float, high: float) -> str:
    worst = f"stuck at different values, {low:.6g} to {high:.6g}" if math.isinf(r_hat) else f"{r_hat:.3f}"
    if not above:
        return f"R-hat is at most {worst} for all {judged} quantities."
    apart = ": chains found different solutions, as is usual for this model" if chains > 1 else ""
    return f"R-hat is above 1.01 for {above} of {judged} quantities, most of all for {quantity} ({worst}){apart}."


@_writes("chains-behind")
def _chains_behind(chains: tuple[int, ...], best: int, nats: float, spreads: float) -> str:
    whose = "its mean log-likelihood is" if len(chains) == 1 else "their mean log-likelihoods are at least"
    far = f", {spreads:,.0f} times the spread within chains" if math.isfinite(spreads) else ""
    return (
        f"{_chains_are(chains)} far behind: {whose} {nats:,.0f} nats below that of chain {best}{far}. Predictions "
        f"hardly suffer, but classes there fit worse: leave {_pronoun(chains)} out with post.select_chains."
    )


@_writes("no-moves")
def _no_moves(still: tuple[int, ...], chains: int) -> str:
    where = f" in chain{'s' * (len(still) > 1)} {', '.join(map(str, still))}" if len(still) < chains else ""
    return (
        f"No class moved after the burn-in{where}. Locations move rarely when counts are large: a smaller core shape "
        "makes classes share factors from the start, and several chains show which classes are stable."
    )


def _chains_are(chains: tuple[int, ...]) -> str:
    return f"Chain {chains[0]} is" if len(chains) == 1 else f"Chains {join_words(map(str, chains))} are"


def _pronoun(chains: tuple[int, ...]) -> str:
    return "it" if len(chains) == 1 else "them"


@_writes("positive-cells")
def _positive_cells(baseline: str, log_ratio: float, zeros: tuple[float, float] | None) -> str:
    ratio, more = math.exp(min(abs(log_ratio), 700.0)), log_ratio >= 0.0
    than = f"{'more' if more else 'less'} probable than under {baseline}"
    if more and ratio >= _TWICE:
        than = f"as probable as under {baseline}"
    on_zeros = f"; the log PPD of zeros is {plain_number(zeros[0])} against {plain_number(zeros[1])}" if zeros else ""
    return f"A count above 0 that was held out is {_times(ratio)} {than}{on_zeros}."


def _times(ratio: float) -> str:
    if ratio < _TWICE:
        return f"{ratio - 1:.0%}"
    if ratio < 10.0:
        return f"{ratio:.1f} times"
    return f"{float(f'{ratio:.2g}'):,.0f} times" if ratio < 1e9 else "more than a billion times"


@_writes("kernels-not-cached")
def _kernels_not_cached(wanted: str, folder: str | None) -> str:
    instead = f"they are cached in {folder}" if folder else "every process compiles them again, in about 10 seconds"
    return f"compiled kernels cannot be cached in {wanted}: {instead}; set NUMBA_CACHE_DIR to a writable folder"


@_writes("stopped")
def _stopped(
    draws: int, planned_draws: int, chains: int, planned_chains: int, seconds: float | None, how_to_resume: str
) -> str:
    why = "stopped" if seconds is None else f"max_time is over ({seconds:g} s)"
    of_chains = f" of {plural(chains, 'chain')}" if planned_chains > 1 else ""
    planned = f" ({planned_chains} are planned)" if chains < planned_chains else ""
    resume = f"; {how_to_resume}" if how_to_resume else ""
    return f"{why}: {draws} of {planned_draws} draws{of_chains}{planned} are kept{resume}"


@_writes("out-of-time")
def _out_of_time(seconds: float, **missing: Any) -> str:
    return f"The time limit of {seconds:g} s leaves no room for another round, though {_still_missing(**missing)}."


@_writes("out-of-memory")
def _out_of_memory(chains: int, rule: str, **missing: Any) -> str:
    return f"There is not enough memory for {chains} chains, though {_still_missing(**missing)} ({rule})."


def _still_missing(agreement: float | None, target: float) -> str:
    if agreement is None:
        return "the chains still drift"
    return f"the reproducibility of the classes is {agreement:.2f}, and the target {target:.2f}"


@_writes("check-off")
def _check_off(off: Sequence[str], modes: Sequence[str], statistics: int, labels: int, tensors: int) -> str:
    totals = [f"totals by {join_words(modes)}"] if modes else []
    return f"The data differ from the {tensors:,} tensors that the model simulates: {join_words([*off, *totals])}."


@_writes("statistic-off")
def _statistic_off(name: str, observed: float, expected: float, low: float, high: float) -> str:
    return f"{name[:1].upper()}{name[1:]}: {plain_number(observed)} in the data, {_simulated(expected, low, high)}."


@_writes("totals-off")
def _totals_off(mode: str, labels: int, outside: int, chance: float, worst: Sequence[Mapping[str, Any]]) -> str:
    furthest = "; ".join(
        f"{each['label']}, {plain_number(each['observed'])} in the data, "
        f"{_simulated(each['expected'], each['low'], each['high'])}"
        for each in worst
    )
    return (
        f"Totals by {mode}: {outside:,} of {labels:,} are outside their 90% intervals, where {chance:.2g} would be by "
        f"chance{f'. Largest differences: {furthest}' if furthest else ''}."
    )


@_writes("narrow-sums")
def _narrow_sums(widths: Mapping[str, float]) -> str:
    times = join_words(f"{width:.2g} times as wide for totals by {mode}" for mode, width in widths.items())
    return (
        "Intervals of sums over many cells are too narrow: to hold 90% of the observed totals, 90% intervals would "
        f"have to be {times}."
    )


def _simulated(expected: float, low: float, high: float) -> str:
    return f"{plain_number(expected)} simulated ({plain_number(low)} to {plain_number(high)})"


@_writes("poisson-not-judged")
def _poisson_not_judged(missing_path: str | None) -> str:
    why = "they stay on disk" if missing_path is None else f"{missing_path} is not there"
    return f"Poisson likelihood. Whether counts are more dispersed was not judged: {why}."


@_writes("concentrations")
def _concentrations(means: Mapping[str, float]) -> str:
    return f"Concentrations learned: {', '.join(f'{name} {mean:.2g}' for name, mean in means.items())}."


@_writes("common-classes")
def _common_classes(classes: int, chains: int, least: int, share: float, counted: str) -> str:
    few = {1: "at least half of the draws of the one chain", 2: "both chains"}
    where = few.get(chains, f"at least {least} of {chains} chains")
    number, hold = (
        ("1 class occurs", "It holds") if classes == 1 else (f"{classes} classes occur", "Together they hold")
    )
    return f"{number} in {where}. {hold} {share:.0%} of the {counted}."


@_writes("classes-since-start")
def _classes_since_start(before: int, **changes: Sequence[tuple[int, str]]) -> str:
    classes, here = "1 class" if before == 1 else f"{before} classes", before - len(changes["lost"])
    found = f"This run has {here} of the {classes} of the run that it started from"
    listed = [
        f"; {what}: {first_few([f'{number} ({name})' for number, name in changes[what]], _NAMED_CLASSES)}"
        for what in ("lost", "new", "back")
        if changes[what]
    ]
    return f"{found}{''.join(listed)}."


@_writes("diff")
def _diff(
    both: int, old: float, new: float, gained: int, lost: int, grown: int, shrunk: int, weak_new: int, weak_old: int
) -> str:
    counts = {"gained": gained, "lost": lost, "grown": grown, "shrunk": shrunk}
    changes = (
        join_words(f"{number} {kind}" for kind, number in counts.items() if number) if any(counts.values()) else ""
    )
    start = f"{_classes_words(both)} in both runs, with {old:.0%} of the counts of the old and {new:.0%} of the new one"
    none = "No class was clearly gained, lost, grown or shrunk."
    clear = f"{start}. Clear changes: {changes}." if changes else f"{start}. {none}"
    if not weak_new and not weak_old:
        return clear
    return f"{clear} Small or weakly supported classes: {weak_new} only in the new run, {weak_old} only in the old one."


def _classes_words(number: int) -> str:
    return "1 class is" if number == 1 else f"{number} classes are"


def _class_words(number: int, name: str) -> str:
    return f"Class {number} ({name})"


@_writes("class-gained")
def _class_gained(number: int, name: str, old: float, new: float) -> str:
    return f"{_class_words(number, name)} is new, with {new:.1%} of the counts."


@_writes("class-lost")
def _class_lost(number: int, name: str, old: float, new: float) -> str:
    return f"{_class_words(number, name)} of the old run, with {old:.1%} of the counts, is gone."


@_writes("class-grown")
@_writes("class-shrunk")
def _class_resized(number: int, name: str, old: float, new: float, low: float, high: float) -> str:
    verb = "has grown" if new > old else "has shrunk"
    points = f"{100 * (new - old):+.1f} points, 95% interval {100 * low:+.1f} to {100 * high:+.1f}"
    return f"{_class_words(number, name)} {verb} from {old:.1%} to {new:.1%} of the counts ({points})."


@_writes("class-labels")
@_writes("class-moved-in-time")
def _class_labels(number: int, name: str, mode: str, labels: Sequence[tuple[str, float, float]]) -> str:
    listed = first_few([f"{label} from {old:.0%} to {new:.0%}" for label, old, new in labels], _NAMED_CLASSES)
    return f"{_class_words(number, name)} has other shares by {mode} than before: {listed}."


@_writes("class-in-new-labels")
def _class_in_new_labels(
    number: int, name: str, mode: str, labels: Sequence[str], share: float, low: float, high: float, every: float
) -> str:
    where = labels[0] if len(labels) == 1 else f"the {len(labels)} new labels of {mode} ({first_few(labels, 3)})"
    known = f"{share:.0%} ({low:.0%} to {high:.0%}) of its counts in {where}"
    than = "more" if share > every else "less"
    return f"{_class_words(number, name)} has {known}, {than} than the {every:.0%} of all classes together."


@_writes("classes-of-draw")
def _classes_of_draw(classes: int, budget: int, half: int, most: int, counted: str, factors: Mapping[str, int]) -> str:
    in_use = "1 class holds" if classes == 1 else f"{classes} classes hold"
    half_hold, most_hold = (f"{number} hold{'s' * (number == 1)}" for number in (half, most))
    used = ", ".join(f"{number} {name}" for name, number in factors.items())
    return (
        f"{in_use} counts, of a budget of {budget}; {half_hold} 50% of the {counted}, {most_hold} 95%. "
        f"Factors in use: {used}."
    )


@_writes("forecast-score")
def _forecast_score(scope: str, crps: float, others: Sequence[Mapping[str, Any]]) -> str:
    compared = [f"{_SIMPLE_FORECASTS[each['model']]} ({each['crps']:.4g}, {_verdict(**each)})" for each in others]
    start = f"{_SCOPES[scope]}, the CRPS of the forecast is {crps:.4g}, against {'; '.join(compared)}."
    not_beaten = [_SIMPLE_FORECASTS[each["model"]] for each in others if each["verdict"] != "better"]
    if not_beaten:
        return f"{start} The forecast is NOT better than {' and '.join(not_beaten)}."
    clearly = "" if all(each["clear"] for each in others) else ", but not clearly"
    return f"{start} The forecast is better than all of these{clearly}."


def _verdict(verdict: str, clear: bool, tested: bool, **_: object) -> str:
    word = "no better" if verdict == "equal" else verdict
    return word if not tested else f"{word}, {'clearly' if clear else 'not clearly'}"


@_writes("best-models")
def _best_models(cells: str, models: list[dict[str, Any]], differences: list[dict[str, Any]]) -> str:
    means = [each["mean"] for each in models]
    if len(models) == 1:
        return (
            f"{_at(models[0])} predicts {_CELLS[cells]} best: mean log PPD {means[0]:.4g}, "
            f"PPD {math.exp(means[0]):.4g}."
        )
    # Rounding may make the difference of equal means negative.
    gaps = join_words(plus_minus(max(each["difference"], 0.0), each["error"]) for each in differences)
    which = "Their difference" if len(differences) == 1 else "Their differences from the first"
    return (
        f"It is not clear which of {join_words(map(_at, models))} predicts {_CELLS[cells]} best: mean log PPD "
        f"{join_words(f'{mean:.4g}' for mean in means)}. {which}, {gaps}, may be chance."
    )


@_writes("behind-the-best")
def _behind_the_best(model: str, budget: int, difference: float, error: float, clear: bool | None) -> str:
    lower = f"{model} is {_lower(difference, error)} at its best budget, Q = {budget:,}"
    if math.isnan(error):
        return f"{lower}; with one split, the standard error is unknown."
    return f"{lower}: a clear difference." if clear else f"{lower}; two splits are too few to tell."


@_writes("worse-with-budget")
def _worse_with_budget(
    cells: str, model: str, best: int, largest: int, difference: float, error: float, clear: bool | None
) -> str:
    verb = "gets worse" if clear else "may or may not get worse" if clear is None else "does not get clearly worse"
    about = "" if cells == "all" else " (cells with counts)"
    return f"{model} {verb} from Q = {best:,} to Q = {largest:,}{about}: {_lower(difference, error)}."


@_writes("budgets-left-out")
def _budgets_left_out(cells: str, models: list[dict[str, Any]]) -> str:
    verb = "lacks" if len(models) == 1 else "lack"
    return f"{_MEANS[cells]} leave out {join_words(map(_at, models))}, which {verb} splits."


@_writes("pooled-chains")
def _pooled_chains(model: str, budget: int, chains: int, gains: dict[str, dict[str, Any]]) -> str:
    by = join_words(
        f"{plus_minus(gain['difference'], gain['error'])} ({_CELLS[cells]})" for cells, gain in gains.items()
    )
    return f"{model} at Q = {budget:,}: pooling {chains} chains raises the log PPD of a single chain by {by}."


@_writes("classes-in-use")
def _classes_in_use(model: str, budget: int, classes: float, factors: dict[str, float]) -> str:
    used = ", ".join(f"{number:.0f} {mode}" for mode, number in factors.items())
    return (
        f"{model} uses {classes:.0f} of {budget:,} classes ({classes / budget:.0%}) at its largest budget; factors in "
        f"use: {used}."
    )


@_writes("fit-times")
def _fit_times(times: list[dict[str, Any]]) -> str:
    each_model = "; ".join(f"{each['seconds']:,.3g} s for {_at(each)}" for each in times)
    return f"Median time of a fit: {each_model}."


@_writes("failed-jobs")
def _failed_jobs(jobs: list[dict[str, Any]], error: str) -> str:
    named = [f"{_at(job)}, split {job['split']}" for job in jobs[:_NAMED_JOBS]]
    more = f" and {len(jobs) - _NAMED_JOBS} more" if len(jobs) > _NAMED_JOBS else ""
    return f"{plural(len(jobs), 'job')} failed ({'; '.join(named)}{more}): {error.rstrip('.')}."


@_writes("splits-without-counts")
def _splits_without_counts(splits: list[int]) -> str:
    which = f"Split{'s' * (len(splits) > 1)} {join_words(map(str, splits))}"
    return f"{which} held out no cell with a count. Use a larger `hold_out` to judge predictions of counts."


def _at(each: dict[str, Any]) -> str:
    return f"{each['model']} at Q = {each['budget']:,}"


def _lower(difference: float, error: float) -> str:
    # A difference from the best below 0 can only be rounding.
    return (
        f"lower by {plus_minus(difference, error)}" if difference > 0 else f"equal (difference {plus_minus(0, error)})"
    )


@_writes("smaller-budget-chosen")
def _smaller_budget_chosen(budget: int, difference: float, error: float) -> str:
    behind = plus_minus(difference, error)
    return f"Q = {budget:,} is chosen: the smallest budget within one standard error of the best (lower by {behind})."
