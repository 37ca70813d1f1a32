"""Choosing the budget of ALL0CORE by how well it predicts what was held out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from allocore.comparison.compare import BUDGETS, Comparison, compare
from allocore.comparison.score_tables import CRITERIA, Difference, by_split, difference
from allocore.comparison.settings import items, shape_text
from allocore.errors import InputError, whole_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Selection:
    """A budget, and the curve it was chosen by.

    `table` has one row a budget: the mean of the log PPD over the splits, how much it is `behind` the best, the
    standard `error` of that difference, whether it is `within` one standard error, and the classes in use.
    """

    budget: int
    table: pd.DataFrame
    criterion: str
    comparison: Comparison

    @property
    def words(self) -> list[str]:
        """Why this budget."""
        curve = self.table.set_index("budget")
        best = int(self.table["budget"][self.table["mean"].argmax()])
        splits = int(curve["splits"][best])
        cells = "all held-out cells" if self.criterion == "all" else "held-out cells with counts"
        text = f"Q = {best:,} predicts {cells} best: mean log PPD {curve['mean'][best]:.4g} over {splits} splits."
        if self.budget == best:
            found = [text, f"No smaller budget is within one standard error of it: Q = {best:,} is chosen."]
        else:
            behind = Difference(float(curve["behind"][self.budget]), float(curve["error"][self.budget]), splits)
            found = [
                text,
                f"Q = {self.budget:,} is the smallest budget within one standard error of it: lower by {behind}.",
            ]
        if best == curve.index.max():
            found.append("The best is the largest budget tried: larger ones may be better still.")
        if self.comparison.failed:
            found.append(f"Jobs that failed: {self.comparison.failed}; budgets that lack a split are not chosen.")
        return found

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the log PPD against the budget, and a line at the one that was chosen."""
        ax = self.comparison.plot(ax, positive=self.criterion == "positive")
        ax.axvline(self.budget, color="0.5", linewidth=0.8, linestyle=":", gid="chosen")
        return ax

    def __repr__(self) -> str:
        return f"Selection: budget {self.budget}"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.words])

    def _repr_html_(self) -> str:
        sentences = "<br>".join(escape(sentence) for sentence in self.words)
        return f"<p><b>{escape(repr(self))}</b><br>{sentences}</p>{self.table.to_html(index=False)}"


def select_budget(
    Y: object,
    budgets: Sequence[int] = BUDGETS,
    *,
    splits: int = 4,
    criterion: Literal["all", "positive"] = "all",
    **options: Any,
) -> Selection:
    """Choose the budget of ALL0CORE: the smallest whose predictions are within one standard error of the best.

    The standard error is that of the difference to the best budget within the same splits, since what makes a split
    hard makes it hard for every budget; that of the best mean alone would be many times larger and choose too few.

    Parameters
    ----------
    Y
        The tensor: anything `as_tensor` takes.
    budgets
        The budgets to try.
    splits
        Random splits, two or more; a standard error from few is rough.
    criterion
        Judge by "all" held-out cells or by those with counts, "positive".
    options
        What else `ac.compare` takes: hold_out, along, burn_in, draws, thin, core_shape, out, jobs, seed, progress.

    Examples
    --------
    >>> import allocore as ac
    >>> found = ac.select_budget(ac.load_flights(), [2, 8], splits=2, burn_in=20, draws=2, thin=1)
    >>> found.budget
    8
    """
    if criterion not in CRITERIA:
        raise InputError(f'criterion is {criterion!r}, but it must be "all" or "positive"')
    number = whole_number("splits", splits, least=2)
    found = compare(Y, ("allocore",), budgets, splits=number, **options)
    asked = {int(budget) for budget in items("budgets", budgets)}
    table = found.table
    # A folder may hold more than was asked for.
    table = table[(table["model"] == "allocore") & table["budget"].isin(asked) & (table["split"] < number)]
    core = "" if options.get("core_shape") is None else shape_text(options["core_shape"])
    table = table[table["core"] == core].reset_index(drop=True)
    budget, curve = one_standard_error(table, criterion)
    return Selection(budget, curve, criterion, Comparison(table, found.settings, found.data, found.missing))


def one_standard_error(table: pd.DataFrame, criterion: str) -> tuple[int, pd.DataFrame]:
    """The smallest budget within one standard error of the best, and the curve; only budgets with most splits count."""
    values = {budget: each for (_, _, budget), each in sorted(by_split(table, CRITERIA[criterion]).items())}
    most = max((len(each) for each in values.values()), default=0)
    if most < 2:
        errors = [error for error in table["error"] if error]
        why = f": {errors[0]}" if errors else f"; {criterion} cells were held out in fewer than two splits"
        raise InputError(f"splits: a standard error needs two fits of a budget, and no budget has them{why}")
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
    """The budgets with the most splits and finite numbers, each over the splits that all of them have."""
    whole = {
        budget: each for budget, each in values.items() if len(each) == most and np.isfinite(each.to_numpy()).all()
    }
    if not whole:
        raise InputError(
            f"criterion is {criterion!r}, but no budget with {most} fits has a finite log PPD in all of them: "
            "none can be chosen"
        )
    splits = set.intersection(*(set(each.index) for each in whole.values()))
    if len(splits) < 2:
        raise InputError(
            f"splits: a standard error needs two that the budgets {', '.join(map(str, whole))} have in common, "
            f"and they have {len(splits)}"
        )
    return {budget: each.loc[sorted(splits)] for budget, each in whole.items()}


def _classes(table: pd.DataFrame, budget: int) -> float:
    return float(table[table["budget"] == budget]["classes"].mean())
