"""Choosing the budget of ALL0CORE by how well it predicts held-out cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from allocore.comparison.compare import BUDGETS, Comparison, compare
from allocore.comparison.findings import CRITERIA, by_split, difference, few_splits
from allocore.comparison.models import ModelName, shape_text
from allocore.errors import InputError, check_choice, whole_number
from allocore.estimators import AlloCore
from allocore.findings import Finding, join_words, sentences
from allocore.model.spec import likelihood_for
from allocore.tensor.files import as_tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from allocore.report.figures.style import Figure


@dataclass(frozen=True, repr=False)
class Selection:
    """A budget, and the curve it was chosen from. `ac.select_budget` returns it.

    Attributes
    ----------
    budget : int
        The budget that was chosen.
    table : pandas.DataFrame
        One row per budget: the `mean` log PPD over the splits, how far it is `behind` the best, the standard `error` of
        that difference, whether it is `within` one standard error, the number of `splits`, and the `classes` in use.
    criterion : {"all", "positive"}
        Which held-out cells it was judged by: all of them, or those with counts above 0.
    comparison : Comparison
        The fits.

    Examples
    --------
    >>> choice
    Selection: budget 8
    >>> choice.table[["budget", "within", "splits"]].values.tolist()
    [[2, False, 2], [8, True, 2]]
    """

    budget: int
    table: pd.DataFrame
    criterion: str
    comparison: Comparison

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why this budget was chosen, as data."""
        curve = self.table.set_index("budget")
        best = int(self.table["budget"].iloc[int(curve["mean"].argmax())])
        numbers = {"budget": best, "mean": float(curve["mean"][best]), "splits": int(curve["splits"][best])}
        found = [Finding("best-budget", "note", {"cells": self.criterion, **numbers})]
        if self.budget == best:
            found.append(Finding("best-budget-chosen", "good", {"budget": best}))
        else:
            behind = {"difference": float(curve["behind"][self.budget]), "error": float(curve["error"][self.budget])}
            found.append(Finding("smaller-budget-chosen", "good", {"budget": self.budget, **behind}))
        found += few_splits(int(numbers["splits"]))
        if best == curve.index.max():
            found.append(Finding("largest-budget-best", "caution"))
        if self.comparison.failed:
            found.append(Finding("budgets-with-failed-fits", "caution", {"jobs": self.comparison.failed}))
        return tuple(found)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Why this budget was chosen, in sentences."""
        return sentences(self.findings)

    def plot(self, ax: "Axes | None" = None) -> "Figure | Axes":
        """Draw the log PPD against the budget, with a line at the budget that was chosen.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.

        Returns
        -------
        Figure or matplotlib.axes.Axes
            The new figure, which a notebook shows; or `ax`, if that was given.

        Examples
        --------
        >>> plot = choice.plot().panels[0]
        >>> [line.get_xdata() for line in plot.get_lines() if line.get_gid() == "chosen"]
        [[8, 8]]
        """
        from allocore.report.figures.style import Figure

        drawn = self.comparison.plot(ax, positive=self.criterion == "positive")
        chart = drawn.panels[0] if isinstance(drawn, Figure) else drawn
        chart.axvline(self.budget, color="0.5", linewidth=0.8, linestyle=":", gid="chosen")
        return drawn

    def __repr__(self) -> str:
        return f"Selection: budget {self.budget}"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.sentences])

    def _repr_html_(self) -> str:
        lines = "<br>".join(escape(sentence) for sentence in self.sentences)
        return f"<p><b>{escape(repr(self))}</b><br>{lines}</p>{self.table.to_html(index=False)}"


def select_budget(
    Y: object,
    budgets: Sequence[int] = BUDGETS,
    *,
    model: AlloCore | None = None,
    splits: int = 4,
    criterion: Literal["all", "positive"] = "all",
    **options: Any,
) -> Selection:
    """Choose the budget of ALL0CORE: the smallest whose predictions are within one standard error of the best.

    The standard error is that of the paired difference to the best budget, because a split that is hard for one budget
    is hard for all. That of the best mean would be many times larger, and would choose too few classes.

    Parameters
    ----------
    Y : CountTensor, or anything `as_tensor` takes
        The tensor.
    budgets : sequence of int
        The budgets to try.
    model : AlloCore, optional
        The model, with any likelihood and schedule; its own budget is not used.
    splits : int
        Random splits, two or more. With few splits the standard error is rough.
    criterion : {"all", "positive"}
        Judge by all held-out cells, or by those with counts above 0.
    **options
        Other arguments of `ac.compare`: hold_out, along, out, jobs, threads, executor, retry, seed, hold_out_seed,
        progress.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import allocore as ac
    >>> quick = ac.AlloCore(burn_in=20, draws=2, thin=1, chains=1)
    >>> choice = ac.select_budget(ac.load_flights(), [2, 8], model=quick, splits=2)
    >>> choice.budget
    8
    """
    check_choice("criterion", criterion, tuple(CRITERIA))
    chosen = AlloCore() if model is None else model
    if not isinstance(chosen, AlloCore):
        raise InputError("model", chosen, "must be an AlloCore: other models have no budget to choose")
    by = None if chosen.dispersion_by is None else str(chosen.dispersion_by)
    number, tensor = whole_number("splits", splits, least=2), as_tensor(Y)
    likelihood = likelihood_for(chosen.likelihood, tensor.max, by)
    name = ModelName("allocore", likelihood, isinstance(chosen.e0, str), by).text
    found = compare(tensor, {name: chosen}, budgets, splits=number, **options)
    table = found.table
    # A folder may hold more than was requested.
    table = table[(table["model"] == name) & table["budget"].isin(list(budgets)) & (table["split"] < number)]
    core = "" if chosen.core_shape is None else shape_text(chosen.core_shape)
    table = table[table["core"] == core].reset_index(drop=True)
    budget, curve = one_standard_error(table, criterion)
    comparison = replace(found, table=table, failed_before=0)
    return Selection(budget, curve, criterion, comparison)


def one_standard_error(table: pd.DataFrame, criterion: str) -> tuple[int, pd.DataFrame]:
    """Return the smallest budget, of those with most splits, within one standard error of the best; and the curve."""
    values = {budget: each for (_, _, budget), each in sorted(by_split(table, CRITERIA[criterion]).items())}
    most = max((len(each) for each in values.values()), default=0)
    if most < 2:
        errors = [error for error in table["error"] if error]
        why = errors[0] if errors else f"{criterion} cells were held out in fewer than two splits"
        raise InputError("splits", rule=f"must give two fits of a budget for a standard error, and none has two: {why}")
    whole = _comparable(values, most, criterion)
    best = max(whole, key=lambda budget: (whole[budget].mean(), -budget))
    rows = []
    for budget, each in values.items():
        behind = difference(whole[best], whole.get(budget, each))
        within = budget in whole and behind.mean <= behind.error
        mean = whole[budget].mean() if budget in whole else math.nan
        splits = len(whole.get(budget, each))
        rows.append((budget, mean, behind.mean, behind.error, within, splits, _classes(table, budget)))
    names = ["budget", "mean", "behind", "error", "within", "splits", "classes"]
    curve = pd.DataFrame(rows, columns=pd.Index(names))
    return int(curve[curve["within"]]["budget"].min()), curve


def _comparable(values: dict[int, "pd.Series[float]"], most: int, criterion: str) -> dict[int, "pd.Series[float]"]:
    """Return the budgets with the most splits and finite values, each over the splits that all of them have."""
    whole = {
        budget: each for budget, each in values.items() if len(each) == most and np.isfinite(each.to_numpy()).all()
    }
    if not whole:
        rule = f"needs a budget with a finite log PPD in all of its {most} fits, and no budget has one"
        raise InputError("criterion", criterion, rule)
    splits = set.intersection(*(set(each.index) for each in whole.values()))
    if len(splits) < 2:
        rule = f"must be at least two that the budgets {join_words(map(str, whole))} have in common; they have "
        raise InputError("splits", rule=f"{rule}{len(splits)}")
    return {budget: each.loc[sorted(splits)] for budget, each in whole.items()}


def _classes(table: pd.DataFrame, budget: int) -> float:
    return float(table[table["budget"] == budget]["classes"].mean())
