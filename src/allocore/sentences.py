"""Findings in words: one sentence for each kind, for the terminal, notebooks, the page and Markdown alike."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from allocore._text import first_few, plural
from allocore.findings import Finding

_WRITERS: dict[str, Callable[..., str]] = {}


def sentence(finding: Finding) -> str:
    """Return a finding as one sentence or a few."""
    return _WRITERS[finding.kind](**finding.values)


def sentences(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return findings as sentences, in their order."""
    return tuple(sentence(finding) for finding in findings)


def join_words(words: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c"."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _writes(kind: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register the function that writes the sentence of a kind of finding from its values."""

    def register(writer: Callable[..., str]) -> Callable[..., str]:
        _WRITERS[kind] = writer
        return writer

    return register


# Events


@_writes("note")
def _note(text: str) -> str:
    """Return a note as it is in reports that were saved before there were findings."""
    return str(text)


@_writes("skipped-files")
def _skipped_files(names: list[str]) -> str:
    return f"skipped, because these are not tables: {first_few(names)}"


@_writes("empty-files")
def _empty_files(files: list[str]) -> str:
    return f"empty: {first_few(files)}"


@_writes("files-without-rows")
def _files_without_rows(files: list[str]) -> str:
    return f"without rows: {first_few(files)}"


@_writes("cut-off-file")
def _cut_off_file(file: str, lines: int) -> str:
    return f"{file} is cut off; its first {lines:,} lines were read"


@_writes("not-utf-8")
def _not_utf_8(file: str) -> str:
    return f"{file} is not UTF-8; lines in another encoding were read as Latin-1"


@_writes("stray-quotes")
def _stray_quotes(file: str, lines: int) -> str:
    return f"{file} has {plural(lines, 'line')} with stray quotes or of too great a length; they were left out"


@_writes("day-first")
def _day_first(example: str, exceptions: bool) -> str:
    others = ", though some can only be month/day/year" if exceptions else ""
    return f"dates were read as day/month/year because of dates like {example}{others}"


@_writes("month-first")
def _month_first(example: str, exceptions: bool) -> str:
    if exceptions:
        return f"dates were read as month/day/year, though some like {example} can only be day/month/year"
    return f"dates were read as month/day/year, though all dates like {example} could be day/month/year"


@_writes("periods-in-utc")
def _periods_in_utc(exceptions: bool) -> str:
    others = "; times without either were taken as they are" if exceptions else ""
    return f"periods are in UTC, because times have a time zone or an offset{others}"


@_writes("no-hours")
def _no_hours(argument: str) -> str:
    return f"`{argument}` is 'hour', but all times are in the first hour of a day"


@_writes("weeks-to-monday")
def _weeks_to_monday(argument: str) -> str:
    return f"`{argument}` W-MON was taken for weeks from Monday to Sunday; in pandas such weeks end on Monday"


@_writes("labels-in-common")
def _labels_in_common(modes: list[str], labels: int, argument: str) -> str:
    one, other = modes
    return (
        f"{one} and {other} have {labels:,} labels in common; if you name both in `{argument}`, they get the same "
        "labels, and cells of a label with itself become missing"
    )


@_writes("dates-as-labels")
def _dates_as_labels(mode: str, labels: int, column: str, argument: str, length: str) -> str:
    return (
        f"{mode} has {labels:,} dates as labels; if you set `{argument}` to {column!r}, they become months, in order "
        f"and without gaps, and `{length}` sets other periods, such as weeks"
    )


@_writes("codes-without-words")
def _codes_without_words(mode: str, column: str) -> str:
    return (
        f"labels of {mode} have no words, because not all texts in {column} are clearly CAMEO codes with their zeros, "
        "such as 04 and 042"
    )


@_writes("repaired-codes")
def _repaired_codes(mode: str, rows: int) -> str:
    return f"{rows:,} codes in {mode} had lost their leading zeros and were repaired"


@_writes("lists-of-actors")
def _lists_of_actors(rows: int, pairs: int) -> str:
    return f"lists of actors turned {rows:,} rows into {pairs:,} pairs"


@_writes("empty-periods")
def _empty_periods(periods: int, argument: str) -> str:
    which = "1 period has no events and counts" if periods == 1 else f"{periods:,} periods have no events and count"
    return f"{which} as zeros; periods that were not observed belong in `{argument}`"


# Diagnosis


@_writes("diagnosis-no-draws")
def _diagnosis_no_draws() -> str:
    return "Maximum likelihood gives one estimate and no draws, so there are no chains to judge."


@_writes("diagnosis-unchanging")
def _diagnosis_unchanging() -> str:
    return "Nothing changes from draw to draw: these are not draws of a posterior."


@_writes("diagnosis-drift")
def _diagnosis_drift(chains: int) -> str:
    return f"{'The chains have' if chains > 1 else 'The chain has'} not settled: run longer."


@_writes("diagnosis-behind")
def _diagnosis_behind(chains: tuple[int, ...]) -> str:
    return f"{_chains_are(chains)} far behind the others: leave {_pronoun(chains)} out, or run longer."


@_writes("diagnosis-few-draws")
def _diagnosis_few_draws(draws: int) -> str:
    return f"There are too few draws to judge: {draws} per chain."


@_writes("diagnosis-one-chain")
def _diagnosis_one_chain() -> str:
    return "One chain cannot show whether chains agree: run four."


@_writes("diagnosis-modes")
def _diagnosis_modes() -> str:
    return "The chains are in different modes: predictions pool them and can be used, intervals hold within a mode."


@_writes("diagnosis-disagree")
def _diagnosis_disagree() -> str:
    return "The chains do not quite agree yet: run longer before you use intervals."


@_writes("diagnosis-few-samples")
def _diagnosis_few_samples() -> str:
    return "The chains agree, but effective samples are few: intervals are rough."


@_writes("diagnosis-no-moves")
def _diagnosis_no_moves() -> str:
    return "The chains agree, but there are chains in which no class moved."


@_writes("diagnosis-good")
def _diagnosis_good() -> str:
    return "The chains agree: predictions and intervals can be used."


@_writes("move-rate")
def _move_rate(rate: float) -> str:
    return f"{rate:.2%} of the classes moved in a sweep after the burn-in."


@_writes("few-draws")
def _few_draws(least: int) -> str:
    return f"R-hat needs at least {least} draws per chain: resume the run with more draws."


@_writes("equal-draws")
def _equal_draws() -> str:
    return "All draws are equal, so R-hat and intervals say nothing: fit again with another seed."


@_writes("no-problem")
def _no_problem(chains: int, r_hat: float, samples: float) -> str:
    who = "the chains agree" if chains > 1 else "the halves of the chain agree"
    return f"No problem found: {who} (R-hat at most {r_hat:.3f}), with at least {samples:.0f} effective samples."


@_writes("chains-disagree")
def _chains_disagree(
    chains: int, far: bool, number: int, judged: int, quantity: str, r_hat: float, low: float, high: float,
    run_longer: bool,
) -> str:  # fmt: skip
    who = "Chains" if chains > 1 else "The halves of the chain"
    how = "disagree" if far else "do not quite agree yet"
    distance = f"R-hat {r_hat:.{2 if r_hat > 1.05 else 3}f}"
    if math.isinf(r_hat):
        distance = f"stuck at different values, {low:.6g} to {high:.6g}"
    where = f"{quantity} ({distance})"
    if number > 1:
        where = f"{number} of {judged} quantities, most of all on {where}"
    return f"{who} {how} on {where}{'; run longer' if run_longer else ''}."


@_writes("drift")
def _drift(nats: float) -> str:
    return (
        f"The log-likelihood still {'rises' if nats > 0 else 'falls'}, by {abs(nats):,.0f} nats from the first half of "
        "the draws to the second, so the burn-in was too short: resume the run with more draws, or fit again with more "
        "burn-in."
    )


@_writes("different-modes")
def _different_modes() -> str:
    return (
        "They have settled in different modes: predictions pool all chains and can be used, and more chains make "
        "them better; intervals hold within a mode only."
    )


@_writes("chains-behind")
def _chains_behind(chains: tuple[int, ...], best: int, nats: float, spreads: float) -> str:
    whose = "its mean log-likelihood is" if len(chains) == 1 else "their mean log-likelihoods are at least"
    far = f", {spreads:,.0f} times the spread within chains" if math.isfinite(spreads) else ""
    return (
        f"{_chains_are(chains)} far behind: {whose} {nats:,.0f} nats below that of chain {best}{far}; predictions "
        f"hardly suffer, but classes there fit worse: leave {_pronoun(chains)} out with post.select_chains, or run "
        "longer."
    )


@_writes("few-samples")
def _few_samples(quantity: str, samples: float, wanted: int, chains: int, within: bool, advice: str | None) -> str:
    return (
        f"There are few effective samples{' within chains' if within else ''}: {samples:.0f} for {quantity}, where "
        f"there should be {wanted} ({wanted // chains} per chain).{f' For intervals, {advice}.' if advice else ''}"
    )


@_writes("no-moves")
def _no_moves(still: tuple[int, ...], chains: int) -> str:
    where = f" in chain{'s' * (len(still) > 1)} {', '.join(map(str, still))}" if len(still) < chains else ""
    return (
        f"No class moved after the burn-in{where}. Locations move rarely when counts are large: a smaller core shape "
        "makes classes share factors from the start, and several chains show which classes are stable."
    )


@_writes("one-chain")
def _one_chain() -> str:
    return "R-hat compares the two halves of the chain here. Fit four chains to see whether they agree."


def _chains_are(chains: tuple[int, ...]) -> str:
    """The chains as the beginning of a sentence."""
    if len(chains) == 1:
        return f"Chain {chains[0]} is"
    return f"Chains {', '.join(map(str, chains[:-1]))} and {chains[-1]} are"


def _pronoun(chains: tuple[int, ...]) -> str:
    return "it" if len(chains) == 1 else "them"


# Evaluation

_NEGATIVE_BINOMIAL = 'likelihood="negative-binomial" (allocore fit --likelihood negative-binomial)'


@_writes("evaluation-trained")
def _evaluation_trained(trained: int, cells: int) -> str:
    return (
        f"The model was fitted to {trained:,} of these {plural(cells, 'cell')}: the scores say how well it fits them, "
        "not how well it predicts, and the baselines know them too."
    )


@_writes("evaluation-few-cells")
def _evaluation_few_cells(cells: int) -> str:
    return f"{cells:,} cells are too few to judge by." if cells > 1 else "One cell is too few to judge by."


@_writes("evaluation-no-zeros")
def _evaluation_no_zeros() -> str:
    return (
        "All these cells have counts, so only the log PPD of positive cells means something: a model is judged by all "
        "cells, zeros included."
    )


@_writes("evaluation-impossible")
def _evaluation_impossible() -> str:
    return "The model gives some held-out counts the probability 0, so its log PPD is minus infinity."


@_writes("evaluation-one-fibre")
def _evaluation_one_fibre(better: bool, **scores: Any) -> str:
    how = "better" if better else "no better"
    return f"Predicts {how} than {_against(**scores)}; one fibre is too few for a standard error."


@_writes("evaluation-better")
def _evaluation_better(error: float, intervals_off: bool, **scores: Any) -> str:
    but = "; but its intervals are off (below)" if intervals_off else ""
    return f"Predicts clearly better than {_against(**scores)} with a standard error of {error:.4f}{but}."


@_writes("evaluation-worse")
def _evaluation_worse(error: float, **scores: Any) -> str:
    return (
        f"Predicts clearly worse than {_against(**scores)} with a standard error of {error:.4f}. "
        "A larger budget, longer chains or another likelihood may help."
    )


@_writes("evaluation-unclear")
def _evaluation_unclear(error: float, **scores: Any) -> str:
    start = "Predicts neither clearly better nor clearly worse than"
    return f"{start} {_against(**scores)} with a standard error of {error:.4f}."


def _against(baseline: str, log_ppd: float, baseline_log_ppd: float, difference: float) -> str:
    both = f"log PPD {log_ppd:.4f} against {baseline_log_ppd:.4f}"
    return f"the best baseline ({baseline}): {both}, a difference of {abs(difference):.4f}"


@_writes("positive-cells")
def _positive_cells(baseline: str, log_ratio: float, zeros: tuple[float, float] | None) -> str:
    ratio, more = math.exp(min(abs(log_ratio), 700.0)), log_ratio >= 0.0
    than = f"{'more' if more else 'less'} probable than under {baseline}"
    if more and ratio >= 2.0:
        than = f"as probable as under {baseline}"
    on_zeros = f"; the log PPD of zeros is {zeros[0]:.4f} against {zeros[1]:.4f}" if zeros else ""
    return f"A count above 0 that was held out is {_times(ratio)} {than}{on_zeros}."


def _times(ratio: float) -> str:
    if ratio < 2.0:
        return f"{ratio - 1:.0%}"
    if ratio < 10.0:
        return f"{ratio:.1f} times"
    return f"{float(f'{ratio:.2g}'):,.0f} times" if ratio < 1e9 else "more than a billion times"


@_writes("intervals-right")
def _intervals_right(**coverage: Any) -> str:
    return f"{_coverage(**coverage)}: intervals can be trusted."


@_writes("intervals-narrow")
def _intervals_narrow(remedy: str, **coverage: Any) -> str:
    return f"{_coverage(**coverage)}: intervals are too narrow; {_REMEDIES[remedy]}."


@_writes("intervals-wide")
def _intervals_wide(**coverage: Any) -> str:
    return f"{_coverage(**coverage)}: intervals are too wide; longer chains, or a larger budget, narrow them."


@_writes("intervals-wrong")
def _intervals_wrong(remedy: str, **coverage: Any) -> str:
    return f"{_coverage(**coverage)}: the predictive distribution has the wrong shape; {_REMEDIES[remedy]}."


_REMEDIES = {
    "negative-binomial": f"{_NEGATIVE_BINOMIAL} expects bursts, and widens them",
    "dispersion-by": "more chains, or a dispersion for each row of a mode (dispersion_by), may help",
    "more-draws": "more chains, and more draws, may help",
}


def _coverage(busy: int | None, half: float, most: float) -> str:
    where = "all cells" if busy is None else f"the {busy:,} busy cells (a count is likely there)"
    return f"In {where}, 50% intervals hold {half:.0%} of the counts and 90% intervals {most:.0%}"


@_writes("few-positive-cells")
def _few_positive_cells(positive: int) -> str:
    return f"Few of these cells are positive ({positive}): hold out more to be sure."


@_writes("errors-over-cells")
def _errors_over_cells() -> str:
    return "Standard errors are over cells: they are too small if the cells of a fibre are alike."


@_writes("no-mean-baseline")
def _no_mean_baseline(baseline: str, along: bool) -> str:
    why = "the held-out fibres run along it" if along else "most fibres along it are missing whole"
    return f"There is no baseline '{baseline}': {why}, so nothing of them was observed."


@_writes("some-draws")
def _some_draws(draws: int, all_draws: int) -> str:
    return f"Judged by {draws} of the {all_draws} draws; post.evaluate() takes all of them."


# Likelihood

_FOR_ONES = 'likelihood="bernoulli" is made for such data.'


@_writes("poisson-ones")
def _poisson_ones() -> str:
    return f"Poisson likelihood, but all counts are 1: {_FOR_ONES}"


@_writes("poisson-not-judged")
def _poisson_not_judged(missing_path: str | None) -> str:
    why = "they stay on disk" if missing_path is None else f"{missing_path} is not there"
    return f"Poisson likelihood. Whether counts are more dispersed was not judged: {why}."


@_writes("poisson-dispersed")
def _poisson_dispersed(ratio: float, has_priors: bool) -> str:
    model = "" if has_priors else "another model with "
    return f"{_poisson(ratio)} (1 for Poisson counts), so {model}{_NEGATIVE_BINOMIAL} would likely predict better."


@_writes("poisson-near")
def _poisson_near(ratio: float) -> str:
    return f"{_poisson(ratio)}, close to 1, as for Poisson counts."


@_writes("poisson-unclear")
def _poisson_unclear(ratio: float) -> str:
    return f"{_poisson(ratio)}, though counts are too few to be sure that it is not 1, as for Poisson counts."


def _poisson(ratio: float) -> str:
    return f"Poisson likelihood: given the fit, the variance of a count is {_ratio(ratio)} times its mean"


@_writes("bernoulli")
def _bernoulli() -> str:
    return "Bernoulli likelihood: a cell is 1 if its latent count is above 0; sizes of classes are latent counts."


@_writes("dispersion-not-identified")
def _dispersion_not_identified() -> str:
    return f"Negative binomial likelihood, but p is not identified: all counts are 1; {_FOR_ONES}"


@_writes("dispersion")
def _dispersion(mean: float, low: float, high: float, ratio: float) -> str:
    numbers = f"p {mean:.3g} ({low:.3g} to {high:.3g} over all draws)"
    return f"Negative binomial likelihood: {numbers}, so the variance of a count is {_ratio(ratio)} times its mean."


@_writes("dispersion-by")
def _dispersion_by(mode: str, mean: float, low: tuple[float, str], high: tuple[float, str]) -> str:
    ends = " to ".join(f"{p:.2g} ({label})" for p, label in (low, high))
    return f"Negative binomial likelihood with a p for each {mode}: mean {mean:.2g}, from {ends}."


@_writes("concentrations")
def _concentrations(means: Mapping[str, float]) -> str:
    return f"Concentrations learned: {', '.join(f'{name} {mean:.2g}' for name, mean in means.items())}."


def _ratio(ratio: float) -> str:
    if ratio < 10:
        return f"{ratio:.2f}"
    return f"{ratio:,.0f}" if ratio < 1e6 else f"{ratio:.3g}"


# Classes


@_writes("no-common-class")
def _no_common_class(chains: int) -> str:
    return f"The {_holders(chains)} have no class in common."


@_writes("common-classes")
def _common_classes(classes: int, chains: int, least: int, share: float, counted: str) -> str:
    by = {1: "at least half of the draws of the one chain", 2: "both chains"}.get(
        chains, f"at least {least} of {chains} chains"
    )
    number = "1 class is" if classes == 1 else f"{classes} classes are"
    return (
        f"{number} held by {by}. {'It holds' if classes == 1 else 'Together they hold'} {share:.0%} of the {counted}."
    )


@_writes("half-of-counts")
def _half_of_counts(number: int) -> str:
    return f"The {number} largest hold half." if number > 1 else "The largest holds half."


@_writes("weak-classes")
def _weak_classes(weak: int, classes: int, chains: int) -> str:
    number = f"{weak} of the {classes} {'is' if weak == 1 else 'are'}"
    return f"{number} small, or not held by three quarters of the {_holders(chains)}."


@_writes("similar-classes")
def _similar_classes(share: float) -> str:
    return f"{share:.0%} is in further classes that are similar to these."


@_writes("other-classes")
def _other_classes(share: float, chains: int) -> str:
    return f"The other {share:.0%} is in classes on which {_holders(chains)} differ."


def _holders(chains: int) -> str:
    return "chains" if chains > 1 else "draws"


@_writes("classes-of-draw")
def _classes_of_draw(classes: int, budget: int, half: int, most: int, counted: str, factors: Mapping[str, int]) -> str:
    in_use = "1 class holds" if classes == 1 else f"{classes} classes hold"
    half_hold, most_hold = (f"{number} hold{'s' * (number == 1)}" for number in (half, most))
    used = ", ".join(f"{number} {name}" for name, number in factors.items())
    return (
        f"{in_use} counts, of a budget of {budget}; {half_hold} 50% of the {counted}, {most_hold} 95%. "
        f"Factors in use: {used}."
    )


@_writes("inferred-budget")
def _inferred_budget(median: int, low: int, high: int) -> str:
    return f"The budget was inferred: {median} classes are on (median of all draws, 95% from {low} to {high})."


# Forecasts

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


@_writes("last-period-cut-off")
def _last_period_cut_off(period: str, last_event: str) -> str:
    return (
        f"The last period, {period}, may be incomplete: the last event is from {last_event}. If it is, fit without it "
        "(Y.select), or the forecast starts too low."
    )


@_writes("cells-not-compared")
def _cells_not_compared(cells: int) -> str:
    return f"Not compared: {plural(cells, 'cell')} of each period, held out or otherwise never observed in the past."


@_writes("cells-filled-in")
def _cells_filled_in(cells: int) -> str:
    return f"Filled in: {plural(cells, 'cell')} of the past, missing in some periods, with the mean of the others."


@_writes("nothing-to-score")
def _nothing_to_score(scope: str) -> str:
    return f"{_SCOPES[scope]}, there is nothing to score."


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


@_writes("periods-scored")
def _periods_scored(periods: Sequence[str]) -> str:
    return f"Only {', '.join(periods)} of the coming periods could be scored."


@_writes("labels-without-forecast")
def _labels_without_forecast(counts: int, labels: int) -> str:
    return (
        f"Left out: {plural(counts, 'count')} of {plural(labels, 'label')} that the fit does not have, so no forecast "
        "could include them."
    )


# Comparisons

_CELLS = {"all": "all held-out cells", "positive": "held-out cells with counts"}
_MEANS = {"all": "The means", "positive": "The means for cells with counts"}
_NAMED_JOBS = 3  # of those that failed with one error


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
    which = "their difference" if len(differences) == 1 else "their differences from the first"
    return (
        f"{join_words(map(_at, models))} predict {_CELLS[cells]} equally well: mean log PPD "
        f"{join_words(f'{mean:.4g}' for mean in means)}; {which}, {gaps}, {'is' if len(differences) == 1 else 'are'} "
        "not clear."
    )


@_writes("behind-the-best")
def _behind_the_best(model: str, budget: int, difference: float, error: float, clear: bool) -> str:
    lower = f"{model} is {_lower(difference, error)} at its best budget, Q = {budget:,}"
    if math.isnan(error):
        return f"{lower}; with one split, the standard error is unknown."
    return f"{lower}: a clear difference." if clear else f"{lower}, which is not clear."


@_writes("worse-with-budget")
def _worse_with_budget(
    cells: str, model: str, best: int, largest: int, difference: float, error: float, clear: bool
) -> str:
    verb = "gets worse" if clear else "does not get clearly worse"
    about = "" if cells == "all" else " (cells with counts)"
    return f"{model} {verb} from Q = {best:,} to Q = {largest:,}{about}: {_lower(difference, error)}."


@_writes("no-common-split")
def _no_common_split(cells: str) -> str:
    return f"{_MEANS[cells]} cannot be compared: the models have no split in common."


@_writes("splits-left-out")
def _splits_left_out(cells: str, splits: int, of: int) -> str:
    return f"{_MEANS[cells]} are over the {splits} of {of} splits that all compared models have."


@_writes("budgets-left-out")
def _budgets_left_out(cells: str, models: list[dict[str, Any]]) -> str:
    verb = "lacks" if len(models) == 1 else "lack"
    return f"{_MEANS[cells]} leave out {join_words(map(_at, models))}, which {verb} splits."


@_writes("impossible-counts")
def _impossible_counts(model: str, fits: int, of: int) -> str:
    return (
        f"{model} gave probability 0 to a held-out count in {fits} of {of} fits. Its PPD is 0 there, and the means "
        "leave out budgets with such a fit."
    )


@_writes("paired-differences")
def _paired_differences(splits: int) -> str:
    return (
        f"Differences are means \u00b1 standard errors over {splits} splits, paired within splits. A difference is "
        "clear if its 95% interval excludes 0."
    )


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


@_writes("failed-earlier")
def _failed_earlier(jobs: int) -> str:
    return f"{plural(jobs, 'job')} in this folder failed in an earlier call and did not run again."


@_writes("splits-without-counts")
def _splits_without_counts(splits: list[int]) -> str:
    which = f"Split{'s' * (len(splits) > 1)} {join_words(map(str, splits))}"
    return f"{which} held out no cell with a count. Use a larger `hold_out` to judge predictions of counts."


def plus_minus(mean: float, error: float) -> str:
    """Return a mean with its standard error, two digits each; without the error if it is unknown.

    Examples
    --------
    >>> plus_minus(0.01234, 0.005), plus_minus(1.5, float("nan"))
    ('0.012 \u00b1 0.005', '1.5')
    """
    number, spread = (f"{float(f'{each:.2g}'):g}" for each in (mean, error))
    return number if math.isnan(error) else f"{number} \u00b1 {spread}"


def _at(each: dict[str, Any]) -> str:
    return f"{each['model']} at Q = {each['budget']:,}"


def _lower(difference: float, error: float) -> str:
    # A difference from the best below 0 can only be rounding.
    return (
        f"lower by {plus_minus(difference, error)}" if difference > 0 else f"equal (difference {plus_minus(0, error)})"
    )


# Budgets


@_writes("best-budget")
def _best_budget(cells: str, budget: int, mean: float, splits: int) -> str:
    return f"Q = {budget:,} predicts {_CELLS[cells]} best: mean log PPD {mean:.4g} over {splits} splits."


@_writes("best-budget-chosen")
def _best_budget_chosen(budget: int) -> str:
    return f"No smaller budget is within one standard error of it, so Q = {budget:,} is chosen."


@_writes("smaller-budget-chosen")
def _smaller_budget_chosen(budget: int, difference: float, error: float) -> str:
    behind = plus_minus(difference, error)
    return f"Q = {budget:,} is chosen: the smallest budget within one standard error of the best (lower by {behind})."


@_writes("largest-budget-best")
def _largest_budget_best() -> str:
    return "The best budget is the largest one tried. Larger budgets may be better still."


@_writes("budgets-with-failed-fits")
def _budgets_with_failed_fits(jobs: int) -> str:
    return f"{plural(jobs, 'fit')} failed. Budgets that lack a split cannot be chosen."
