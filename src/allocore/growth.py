"""Run until settled: whether a complete round of a run is followed by another, with more sweeps or more chains.

Both are decided by the draws alone, so that a run grows in the same way on every machine, and after it was stopped:

sweeps     They double while the log-likelihood drifts. The new round is as long as all before it together, which become
           burn-in, and its draws replace theirs. So a run ends with the draws of `burn_in=n, draws=25, thin=n/25`.
chains     They double until another run is expected to find the same classes (reproducibility.py), or until halves of
           them no longer agree more than quarters do. Chain number i is the same, however many there are.

Only a limit on time depends on the clock.
"""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from allocore.classes.profiles import ClassReader
from allocore.classes.reproducibility import LEAST_CHAINS, judge_reproducibility
from allocore.errors import InputError
from allocore.findings import Finding
from allocore.posterior.convergence import drift_of
from allocore.progress import Observer, draw_bar, progress_bar
from allocore.storage.record import Plan, Record

REPRODUCIBLE = 0.9  # the agreement with another run at which chains are enough


class Judgement(NamedTuple):
    """What the draws of a round say: whether they drift, and how well sets of chains agree; None where not judged."""

    drifts: bool
    agreement: float | None = None
    rises: bool = False


def judge(record: Record, plan: Plan, tick: Callable[[int, int], None]) -> Judgement:
    """Judge a complete round as far as the next one depends on it."""
    growth = plan.growth
    if growth is None:
        return Judgement(False)
    drifts = drift_of(record) is not None
    longer = drifts and growth.sweeps and plan.schedule.sweeps < growth.max_sweeps
    if longer or not growth.chains or not LEAST_CHAINS <= plan.chains < growth.max_chains:
        return Judgement(drifts)
    found = judge_reproducibility(ClassReader(record), None, tick)
    return Judgement(drifts, found.agreement, found.rises)


def grown(plan: Plan, judged: Judgement) -> Plan | None:
    """The plan of the next round, or None if the run has settled or has reached its limits."""
    growth, sweeps = plan.growth, plan.schedule.sweeps
    if growth is None:
        return None
    if judged.drifts and growth.sweeps and sweeps < growth.max_sweeps:
        return replace(plan, schedule=plan.schedule.later(min(2 * sweeps, growth.max_sweeps)))
    if judged.agreement is not None and judged.agreement < REPRODUCIBLE and judged.rises:
        return replace(plan, chains=min(2 * plan.chains, growth.max_chains))
    return None


class Growing:
    """Decides about the next round of a run (a `NextRound`), shows what is still missing, and keeps to limits.

    `check` raises an error if a plan does not fit into memory.
    """

    def __init__(
        self, done: int, check: Callable[[Plan], object], *, progress: bool, seconds: float | None = None
    ) -> None:
        self._check, self._progress, self._seconds = check, progress, seconds
        self._start, self._done = monotonic(), done  # the sweeps of all chains before this process began
        self.ended: Finding | None = None  # by a limit of the machine

    def __call__(self, record: Record, plan: Plan) -> tuple[Plan, Observer | None] | None:
        """The plan of the next round with its progress bar, or None to end the run."""
        with draw_bar("comparing chains", self._progress) as tick:
            judged = judge(record, plan, tick)
        following = grown(plan, judged)
        if following is None:
            return None
        missing = {"agreement": judged.agreement, "target": REPRODUCIBLE}
        if self._too_long(plan, following):
            self.ended = Finding("out-of-time", "caution", {"seconds": self._seconds, **missing})
            return None
        try:
            self._check(following)
        except InputError as error:
            values = {"chains": following.chains, "rule": error.rule, **missing}
            self.ended = Finding("out-of-memory", "caution", values)
            return None
        done = [plan.schedule.sweeps] * plan.chains + [0] * (following.chains - plan.chains)
        return following, progress_bar(self._progress, following.schedule, done, missing=_news(judged, plan))

    def _too_long(self, plan: Plan, following: Plan) -> bool:
        """Whether the next round would likely end after the time limit, at the pace so far."""
        if self._seconds is None:
            return False
        spent, made = monotonic() - self._start, plan.chains * plan.schedule.sweeps
        pace = spent / max(1, made - self._done)
        return spent + pace * (following.chains * following.schedule.sweeps - made) > self._seconds


def _news(judged: Judgement, plan: Plan) -> tuple[tuple[str, str], ...]:
    if judged.agreement is None:
        return (("", f"still drifting after {plan.schedule.sweeps:,} sweeps"),)
    return (("reproducibility", f"{judged.agreement:.2f}, target {REPRODUCIBLE:.2f}"),)
