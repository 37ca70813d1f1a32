"""Three questions about a run, each with a light, a number and a sentence.

    predictions   Can I use the predictions?                  the standard error of their score, in nats a cell
    classes       Would another run find the same classes?    the share of the counts in classes that it would find
    fit           Does the model look like the data?          the share of statistics that agree with simulated data

R-hat and effective sample sizes decide none of them: chains of this model find different solutions, and keep them
however long they run. They are in the table, for experts. Advice follows a sentence only if it can change the light.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import pandas as pd

from allocore.classes.reproducibility import LEAST_CHAINS, Reproducibility
from allocore.findings import Finding, Level, sentences
from allocore.posterior.check import Check
from allocore.posterior.convergence import (
    LEAST_DRAWS,
    PredictiveError,
    Trace,
    all_equal,
    convergence_table,
    drift_of,
    expert_findings,
    moved_after_burn_in,
    predictive_error,
    traces,
)
from allocore.posterior.evaluate import Evaluation
from allocore.storage.record import Record
from allocore.tensor.sharded import stays_on_disk

# The standard error of the score, in nats a cell. 0.05 nats means that predictive probabilities are known within 5%.
ERROR_GOOD, ERROR_CAUTION = 0.05, 0.2
# The share of the counts in classes that another run would find. A run that grows aims at 0.9 (growth.py).
AGREEMENT_GOOD, AGREEMENT_CAUTION = 0.85, 0.6
_SURE = 0.9  # the share of halves that find a class which another run almost surely finds too
_MANY_CHAINS, _MOST_CHAINS = 16, 64  # 16 are enough to compare sets of 2, 4 and 8 chains
_SETTINGS = {"AlloCore": "budget", "CP": "rank", "Tucker": "core_shape"}
_ORDER: tuple[Level, ...] = ("good", "note", "caution", "poor")


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to one question about a run, as `Posterior.diagnose` returns three of them.

    Attributes
    ----------
    question : str
        The question in words.
    level : {"good", "caution", "poor"}
        The light.
    value : float
        The number behind the light; NaN if it is not known.
    findings : tuple of Finding
        The answer first; then advice, if there is any that can change the light, and other remarks.

    Examples
    --------
    >>> answer = post.diagnose().classes
    >>> answer.level, answer.value, answer.findings[0].kind
    ('caution', nan, 'classes-few-chains')
    >>> print(answer.question, answer.sentence)
    Would another run find the same classes? Not known: it takes at least 4 chains to say, and there are 2.
    """

    question: str
    level: Level
    value: float
    findings: tuple[Finding, ...]

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return self.sentences[0]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words; the first is the answer."""
        return sentences(self.findings)


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Whether to trust a run, as `Posterior.diagnose` returns it: three answers, and a table for experts.

    Attributes
    ----------
    predictions : Answer
        Can I use the predictions? `value` is the Monte Carlo standard error of the predictive score, in nats a cell, by
        leaving out one chain at a time; 0.05 nats means that probabilities are known within 5%. The cells are held-out
        ones with counts, or if there are none, cells with counts of the tensor. "good" up to 0.05, "caution" up to 0.2
        or with too few draws or chains, "poor" above, if the chains have not settled, or if all draws are equal.
    classes : Answer
        Would another run find the same classes? `value` is `reproducibility.agreement`: "good" from 0.85, "caution"
        from 0.6 or with fewer than four chains, "poor" below.
    fit : Answer
        Does the model look like the data? `value` is the share of statistics that agree with simulated tensors. "good"
        if all do, and intervals of held-out counts are right; "poor" if the total or the number of non-zero cells
        differs by more than 10%; otherwise "caution".
    table : pandas.DataFrame
        One row per quantity: `mean` and `sd` over all draws, `r_hat`, `nested_r_hat` of groups of chains, the effective
        sample sizes `ess_bulk` and `ess_tail`, and `seconds_per_effective_sample`: the time of all sweeps after the
        burn-in, summed over chains, divided by `ess_bulk`. NaN if a quantity never changes. `r_hat` is infinite if a
        quantity is constant within every chain but differs between chains.
    reproducibility : Reproducibility or None
        How well sets of chains agree on the classes, and how likely another run finds each of them. None with fewer
        than four chains.
    likelihood : tuple of Finding
        How counts are distributed given the fit: after a Poisson fit, how dispersed they are and whether the negative
        binomial would likely predict better; otherwise the dispersion p. Then the concentrations, if learned.
    details : tuple of Finding
        What the table shows, chains that are far behind the others, and how often classes moved.
    move_rate : float
        Share of classes that changed location in a sweep, averaged over the sweeps after the burn-in. NaN if locations
        are fixed (CP, Tucker).

    Examples
    --------
    >>> found = post.diagnose()
    >>> found.level, found.ok, 0.0 <= found.move_rate <= 1.0
    ('caution', False, True)
    >>> found.predictions.level, found.classes.level, found.fit.level
    ('good', 'caution', 'caution')
    """

    predictions: Answer
    classes: Answer
    fit: Answer
    table: pd.DataFrame
    reproducibility: Reproducibility | None
    likelihood: tuple[Finding, ...]
    details: tuple[Finding, ...]
    move_rate: float

    @property
    def answers(self) -> tuple[Answer, Answer, Answer]:
        """The answers on predictions, classes and fit."""
        return self.predictions, self.classes, self.fit

    @property
    def level(self) -> Level:
        """The worst light of the three: "good", "caution" or "poor"."""
        return max((each.level for each in self.answers), key=_ORDER.index)

    @property
    def ok(self) -> bool:
        """Whether all three lights are "good"."""
        return self.level == "good"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the three answers, then what is known of the likelihood, then the details."""
        return (*(each for answer in self.answers for each in answer.findings), *self.likelihood, *self.details)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words."""
        return sentences(self.findings)

    def __str__(self) -> str:
        answers = [f"{each.level.capitalize()}: {each.question} {' '.join(each.sentences)}" for each in self.answers]
        numbers = self.table.to_string(float_format=lambda number: f"{number:.4g}", index_names=False)
        return "\n".join([*answers, "", numbers, "", *sentences((*self.likelihood, *self.details))])

    @property
    def answers_html(self) -> str:
        """The three answers as HTML, for a notebook."""
        return "".join(
            f"<p><strong>{each.level.capitalize()}: {escape(each.question)}</strong> "
            f"{escape(' '.join(each.sentences))}</p>"
            for each in self.answers
        )

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(each)}</li>" for each in sentences((*self.likelihood, *self.details)))
        numbers = self.table.to_html(float_format=lambda number: f"{number:.4g}")
        return f"{self.answers_html}{numbers}<ul>{items}</ul>"


def diagnose(
    record: Record, likelihood: tuple[Finding, ...], shares: Sequence[Trace], halves: Reproducibility | None,
    fit: Answer, threads: int,
) -> Diagnosis:  # fmt: skip
    """Judge a run, given findings on its likelihood, traces of the shares of classes, and what was found before."""
    classes = classes_answer(record, halves)
    if not record.spec.has_priors:
        predictions = _answer_on_predictions(math.nan, Finding("predictions-no-draws", "caution"))
        return Diagnosis(predictions, classes, fit, convergence_table([], 0.0), None, likelihood, (), math.nan)
    seconds = record.stats["seconds"][:, record.schedule.burn_in : record.draw_sweeps[-1]]
    judged = [*traces(record), *shares]
    table = convergence_table(judged, float(seconds.sum()))
    error = predictive_error(record, threads)
    predictions = predictions_answer(record, error, equal=all_equal(table, record.core_values.shape[1]))
    details = expert_findings(record, judged, table)
    move_rate = float(moved_after_burn_in(record).mean()) if record.spec.learn_locations else math.nan
    return Diagnosis(predictions, classes, fit, table, halves, likelihood, details, move_rate)


def predictions_answer(record: Record, error: PredictiveError | None, *, equal: bool) -> Answer:
    """Answer whether predictions can be used, given their error (None if no cells can be scored)."""
    chains, draws = record.core_values.shape[:2]
    nats = math.nan if error is None else error.nats
    if equal:
        return _answer_on_predictions(nats, Finding("equal-draws", "poor"))
    if record.preliminary:
        size = dict(zip(("chains", "sweeps"), record.stats["moved"].shape, strict=True))
        look = Finding("quick-look", "caution", {**size, "stored": record.attributes is not None})
        return _answer_on_predictions(nats, look)
    if draws < LEAST_DRAWS:
        few = Finding("predictions-few-draws", "caution", {"draws": draws, "least": LEAST_DRAWS})
        return _answer_on_predictions(nats, few, _more(record, "draws", LEAST_DRAWS))
    if (drift := drift_of(record)) is not None:
        longer = {"sweeps": 2 * record.schedule.sweeps, "folded": record.new_rows is not None}
        return _answer_on_predictions(nats, drift, Finding("more-sweeps", values=longer))
    if chains == 1:
        one = Finding("predictions-one-chain", "caution")
        return _answer_on_predictions(nats, one, _more(record, "chains", LEAST_CHAINS))
    if error is None or math.isnan(nats):
        why = "no-counts" if error is not None else "on-disk"
        advice = [] if error is not None else [Finding("hold-out-cells")]
        return _answer_on_predictions(nats, Finding("predictions-not-judged", "caution", {"why": why}), *advice)
    level: Level = "good" if nats <= ERROR_GOOD else "caution" if nats <= ERROR_CAUTION else "poor"
    known = Finding("predictive-error", level, {**error._asdict(), "chains": chains, "answer": level})
    # The variance of a mean over chains is inverse to their number.
    wanted = math.ceil(min(chains * (nats / ERROR_GOOD) ** 2, max(_MOST_CHAINS, 4 * chains)))
    return _answer_on_predictions(nats, known, *([] if level == "good" else [_more(record, "chains", wanted)]))


def _answer_on_predictions(nats: float, answer: Finding, *others: Finding) -> Answer:
    return Answer("Can I use the predictions?", answer.level, nats, (answer, *others))


def _more(record: Record, what: Literal["chains", "draws"], wanted: int) -> Finding:
    """Advise this number of chains or draws in total, or the planned number if that is larger."""
    planned = record.schedule.draws if what == "draws" else record.planned_chains or 0
    folded = record.new_rows is not None
    kind = "more-chains" if what == "chains" else "more-draws"
    return Finding(kind, values={what: max(wanted, planned), "folded": folded})


def classes_answer(record: Record, halves: Reproducibility | None) -> Answer:
    """Answer whether another run would find the same classes, given how halves of the chains agree, if known."""
    question = "Would another run find the same classes?"
    if halves is None:
        if not record.spec.has_priors:
            return Answer(question, "caution", math.nan, (Finding("classes-no-draws", "caution"),))
        chains = {"chains": len(record.core_values), "least": LEAST_CHAINS}
        few = Finding("classes-few-chains", "caution", chains)
        advice = [] if record.preliminary else [_more(record, "chains", _MANY_CHAINS)]
        return Answer(question, "caution", math.nan, (few, *advice))
    agreement, classes = halves.agreement, len(halves.found_again)
    level: Level = "good" if agreement >= AGREEMENT_GOOD else "caution" if agreement >= AGREEMENT_CAUTION else "poor"
    if record.preliminary:
        level = max(level, "caution", key=_ORDER.index)
    found = [Finding("classes-found-again", level, {"agreement": agreement, "classes": classes})]
    if level != "good" and not record.preliminary:
        found.append(_advice_on_classes(record, halves))
    if classes:
        sure = int((halves.found_again >= _SURE).sum())
        found.append(Finding("classes-sure", values={"sure": sure, "classes": classes, "share": _SURE}))
    return Answer(question, level, agreement, tuple(found))


def _advice_on_classes(record: Record, halves: Reproducibility) -> Finding:
    if not halves.rises:
        setting = "max_budget" if record.spec.infer_budget else _SETTINGS[record.spec.model]
        return Finding("fewer-classes", values={"setting": setting, "classes": record.spec.budget})
    return _more(record, "chains", max(_MANY_CHAINS, 2 * len(record.core_values)))


def fit_answer(record: Record, check: Check | None, evaluation: Evaluation | None) -> Answer:
    """Answer whether the model looks like the data, by simulated tensors and by intervals of held-out counts."""
    question = "Does the model look like the data?"
    known = () if evaluation is None else evaluation.findings
    intervals = [each for each in known if each.kind.startswith("intervals-")]
    if check is None:
        first = Finding("fit-not-checked", "caution", {"on_disk": stays_on_disk(record.tensor)})
        return Answer(question, "caution", math.nan, (first, *intervals))
    verdict, statistics = check.findings[0].values, len(check.table)
    off, modes = verdict.get("off", ()), verdict.get("modes", ())
    agree = statistics - len(off) - len(modes)
    values = {"statistics": statistics, "tensors": len(check.simulated)}
    if agree < statistics:
        first = Finding("fit-off", check.level, {**values, "agree": agree, "off": off, "modes": modes})
    elif any(each.level != "good" for each in intervals):
        first = Finding("fit-intervals-off", "caution", values)
    else:
        first = Finding("fit-good", "good", values)
    return Answer(question, first.level, agree / statistics, (first, *intervals, *_advice_on_fit(check, intervals)))


def _advice_on_fit(check: Check, intervals: Sequence[Finding]) -> Iterator[Finding]:
    """The negative binomial, if counts come in bursts, unless the finding on intervals advises it already."""
    if not any("remedy" in each.values for each in intervals):
        yield from (each for each in check.findings if each.kind == "check-bursts")
