"""What figures, tables and the page need of a posterior."""

from typing import TYPE_CHECKING, Protocol

from allocore.classes.consensus import Consensus
from allocore.classes.summary import ClassSummary, ShownDraw
from allocore.diagnosis import Diagnosis
from allocore.errors import InputError
from allocore.forecast.forecast import Forecast
from allocore.posterior.check import Check
from allocore.posterior.evaluate import Evaluation
from allocore.storage.record import Record

if TYPE_CHECKING:
    import pandas as pd


class Fit(Protocol):
    """The part of `allocore.Posterior` that this package uses."""

    @property
    def record(self) -> Record:
        """The run: its data, settings, draws and trace."""

    @property
    def finished(self) -> bool:
        """Whether the run has made all planned sweeps."""

    def class_summary(self, draw: ShownDraw = None, *, chain: int | None = None) -> ClassSummary:
        """Return the classes of the consensus, or of one draw."""

    def consensus(self) -> Consensus:
        """Return what the chains agree on."""

    def diagnose(self) -> Diagnosis:
        """Return whether to trust predictions, classes and fit."""

    def evaluate(self, test: object = None, *, allow_training: bool = False, brief: bool = False) -> Evaluation:
        """Score held-out cells."""

    def check(self, draws: int = 200, *, seed: int = 0) -> Check:
        """Compare the data with simulated tensors."""

    def brief_check(self) -> Check | None:
        """Return a check that takes seconds; None if it would take longer."""

    def forecast(self, horizon: int = 3, *, exposure: object = None) -> Forecast:
        """Forecast the periods after the last one."""

    def surprises(self, *, top: int = 50) -> "pd.DataFrame":
        """Return the least expected cells."""

    def top_cells(
        self, number: int, top: int = 5, *, draw: ShownDraw = None, chain: int | None = None
    ) -> "pd.DataFrame":
        """Return the cells in which a class expects the most counts."""


def shown_summary(post: Fit, draw: ShownDraw, chain: int | None) -> ClassSummary:
    """Return the classes to draw: the consensus or one draw. Raises an error if there are none."""
    summary = post.class_summary(draw, chain=chain)
    if len(summary.number_C):
        return summary
    if summary.is_consensus:
        raise InputError("draw", draw, 'must be "best" or a number: the draws have no class in common')
    raise InputError("draw", draw, f"must be a draw with classes, and {summary.source} has none")
