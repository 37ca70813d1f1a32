"""Choosing the budget of ALL0CORE by how well it predicts held-out cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from allocore.comparison.compare import BUDGETS, Comparison, compare
from allocore.comparison.model_names import Defaults
from allocore.comparison.score_tables import CRITERIA, Difference, by_split, difference
from allocore.comparison.settings import items, shape_text
from allocore.data.convert import as_tensor
from allocore.errors import InputError, whole_number
from allocore.model.spec import LikelihoodName

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from allocore.figures.notebook_figure import Figure


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
    def words(self) -> list[str]:
        """Why this budget was chosen, in sentences.

        Returns
        -------
        list of str

        Examples
        --------
        >>> choice.words[1]
        'No smaller budget is within one standard error of it: Q = 8 is chosen.'
        """
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
            found.append("The best budget is the largest one tried: larger budgets may be even better.")
        if self.comparison.failed:
            found.append(f"Jobs that failed: {self.comparison.failed}. Budgets that lack a split are not chosen.")
        return found

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
        from allocore.figures.notebook_figure import Figure

        drawn = self.comparison.plot(ax, positive=self.criterion == "positive")
        chart = drawn.panels[0] if isinstance(drawn, Figure) else drawn
        chart.axvline(self.budget, color="0.5", linewidth=0.8, linestyle=":", gid="chosen")
        return drawn

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
    likelihood: LikelihoodName = "poisson",
    e0: float | Sequence[float] | Literal["infer"] = 1.0,
    dispersion_by: str | int | None = None,
    **options: Any,
) -> Selection:
    """Choose the budget of ALL0CORE: the smallest whose predictions are within one standard error of the best.

    The standard error is that of the paired difference to the best budget, because a split that is hard for one budget
    is hard for all. The standard error of the best mean alone would be many times larger and choose too few classes.

    Parameters
    ----------
    Y : CountTensor, or anything `as_tensor` takes
        The tensor.
    budgets : sequence of int
        The budgets to try.
    splits : int
        Random splits, two or more. With few splits the standard error is rough.
    criterion : {"all", "positive"}
        Judge by all held-out cells, or by those with counts above 0.
    likelihood : {"poisson", "negative-binomial", "bernoulli"}
        The likelihood: see `ac.AlloCore`.
    e0 : float, sequence of float or "infer"
        The concentrations: see `ac.AlloCore`.
    dispersion_by : str or int, optional
        The mode by which the dispersion of the negative binomial differs.
    **options
        Other arguments of `ac.compare`: hold_out, along, burn_in, draws, thin, chains, core_shape, out, jobs, threads,
        executor, retry, seed, progress.

    Returns
    -------
    Selection
        The budget, and the curve it was chosen from.

    Examples
    --------
    >>> import allocore as ac
    >>> choice = ac.select_budget(ac.load_flights(), [2, 8], splits=2, burn_in=20, draws=2, thin=1)
    >>> choice.budget
    8
    """
    if criterion not in CRITERIA:
        raise InputError(f'criterion is {criterion!r}, but it must be "all" or "positive"')
    number = whole_number("splits", splits, least=2)
    tensor = as_tensor(Y)
    chosen: dict[str, Any] = {"likelihood": likelihood, "e0": e0, "dispersion_by": dispersion_by}
    (model,) = Defaults(**chosen).named(["allocore"], tensor)
    found = compare(tensor, ("allocore",), budgets, splits=number, **chosen, **options)
    asked = {int(budget) for budget in items("budgets", budgets)}
    table = found.table
    # A folder may hold more than was requested.
    table = table[(table["model"] == model) & table["budget"].isin(asked) & (table["split"] < number)]
    core = "" if options.get("core_shape") is None else shape_text(options["core_shape"])
    table = table[table["core"] == core].reset_index(drop=True)
    budget, curve = one_standard_error(table, criterion)
    return Selection(budget, curve, criterion, Comparison(table, found.settings, found.data, found.missing))


def one_standard_error(table: pd.DataFrame, criterion: str) -> tuple[int, pd.DataFrame]:
    """Return the smallest budget within one standard error of the best, and the curve.

    Only the budgets with the most splits can be chosen.
    """
    values = {budget: each for (_, _, budget), each in sorted(by_split(table, CRITERIA[criterion]).items())}
    most = max((len(each) for each in values.values()), default=0)
    if most < 2:
        errors = [error for error in table["error"] if error]
        why = f": {errors[0]}" if errors else f"; {criterion} cells were held out in fewer than two splits"
        raise InputError(f"splits: a standard error needs two fits of a budget, but no budget has two{why}")
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
        raise InputError(
            f"criterion is {criterion!r}, but no budget with {most} fits has a finite log PPD in all of them, so none "
            "can be chosen"
        )
    splits = set.intersection(*(set(each.index) for each in whole.values()))
    if len(splits) < 2:
        raise InputError(
            f"splits: a standard error needs two splits that the budgets {', '.join(map(str, whole))} have in common, "
            f"but they have {len(splits)}"
        )
    return {budget: each.loc[sorted(splits)] for budget, each in whole.items()}


def _classes(table: pd.DataFrame, budget: int) -> float:
    return float(table[table["budget"] == budget]["classes"].mean())
