"""Commands that fit many models: compare, select-budget."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, telling_of_stops, terminal
from allocore.cli.cluster_options import ClusterOfFits, check_cluster, cluster_of
from allocore.cli.data_options import DataPaths, print_data, read_data, takes_events
from allocore.cli.likelihood_options import check_dispersion_by, mode_given, settings_of, takes_likelihood
from allocore.cli.model_options import sizes_given
from allocore.cli.option_groups import takes
from allocore.cli.option_words import in_options
from allocore.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_BUDGETS = "5,10,25,50,75,100,150,200,250,300"
_FAILED = 1
_BUDGET_COLUMNS = (
    "log PPD: mean log predictive probability of a held-out cell, over the splits. behind: how far below the best; "
    "error: the standard error of that. within: behind by no more than its error. classes: how many of Q are in use."
)

Budgets = Annotated[str, typer.Option(help="The budgets Q to try.")]


def _option(kind: Any, help: str) -> Any:
    return Annotated[kind, typer.Option(help=help)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "hold_out": (_option(float, "Share of the fibres to hold out."), 0.01),
    "along": (
        _option(str | None, "The mode along which fibres are held out, by name or number; by default the last."),
        None,
    ),
    "core_shape": (
        _option(str | None, "Factors per mode of ALL0CORE, e.g. 50x50x20x300; by default Q in every mode."),
        None,
    ),
    "burn_in": (_option(int, "Sweeps to discard."), 1000),
    "draws": (_option(int, "Draws to keep."), 200),
    "thin": (_option(int, "Sweeps per draw."), 20),
    "chains": (_option(int, "Chains per fit; their predictions are averaged."), 1),
    "jobs": (
        _option(int | None, "How many fits run at a time; by default one per processor, or per place of the cluster."),
        None,
    ),
    "threads": (
        _option(int | None, "Threads per fit; by default an even share of the processors, and 1 on a cluster."),
        None,
    ),
    "cluster": (ClusterOfFits, None),
    "retry": (Annotated[bool, typer.Option("--retry", help="Run fits again that failed before.")], False),
    "seed": (_option(int, "Seed of the first split; the next splits have the next numbers."), 0),
}


_takes_fits = takes("fits", _OPTIONS, dict)


@app.command()
@takes_likelihood
@takes_events
@_takes_fits
def compare(
    *,
    data: DataPaths,
    out: Annotated[Path, typer.Option(help="The folder for results; the same command continues an earlier one.")],
    models: Annotated[
        str,
        typer.Option(
            help="Any of allocore, cp, tucker, nntuck; allocore-nb or cp-bernoulli has another likelihood, cp-e0 and "
            "allocore-nb-e0 learn the concentrations, tucker=20x20x6x3 chooses the core."
        ),
    ] = "allocore,cp,tucker,nntuck",
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Random splits, the same for all models.")] = 8,
    restarts: Annotated[int, typer.Option(help="Random starts of NNTuck.")] = 20,
    max_iter: Annotated[int, typer.Option(help="The most iterations of each start of NNTuck.")] = 1000,
    fits: dict[str, Any],
    likelihood: dict[str, Any],
    events: dict[str, Any],
) -> None:
    """Fit several models at several budgets to the same splits, and say which predicts held-out cells best.

    Writes a table of all fits (results.csv), figures, and a report in words (report.md).

    The same command continues an interrupted comparison; models, budgets and splits can be added. With other --restarts
    or --max-iter, NNTuck is fitted again, and all other fits stay.

    allocore compare icews/*.tab --budgets 5,10,25,50,100 --splits 8 --along time --out comparison

    allocore compare sales.csv --modes store,product,week --models allocore,cp --budgets 5,10 --out comparison

    allocore compare icews/*.tab --models allocore,allocore-nb,cp,cp-nb --budgets 50 --chains 4 --out comparison

    --likelihood and --e0 are those of all models whose names do not say otherwise. NNTuck is always Poisson.
    """
    console = terminal()
    names = _listed(models)
    if any(name.startswith("allocore") and "=" not in name for name in names):
        _check_memory(budgets, fits["core_shape"])
    Y, numbers, fits = _checked(console, data, events, likelihood, budgets, fits, out)
    fits |= {"restarts": restarts, "max_iter": max_iter}
    with telling_of_stops(out), cluster_of(fits.pop("cluster")) as executor:
        found = ac.compare(Y, names, numbers, splits=splits, executor=executor, out=out, **fits)
    console.print(Text("\n" + str(found)))
    console.print(Text(f"\nTable, figures and report written to {out}"))
    if found.failed:
        _exit_failed(found.failed, "", out)


@app.command("select-budget")
@takes_likelihood
@takes_events
@_takes_fits
def select_budget(
    *,
    data: DataPaths,
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Random splits, two or more.")] = 4,
    criterion: Annotated[str, typer.Option(help="Judge by 'all' held-out cells, or by the 'positive' ones.")] = "all",
    out: Annotated[
        Path | None, typer.Option(help="A folder for results; the same command continues an earlier one.")
    ] = None,
    fits: dict[str, Any],
    likelihood: dict[str, Any],
    events: dict[str, Any],
) -> None:
    """Choose the budget Q of ALL0CORE: the smallest that predicts within one standard error of the best.

    allocore select-budget icews/*.tab --budgets 25,50,100,200 --splits 4 --along time

    allocore select-budget icews/*.tab --likelihood negative-binomial --e0 infer
    """
    console = terminal()
    check_dispersion_by(likelihood)
    _check_memory(budgets, fits["core_shape"])
    Y, numbers, fits = _checked(console, data, events, likelihood, budgets, fits, out)
    with telling_of_stops(out), cluster_of(fits.pop("cluster")) as executor:
        options = {**fits, "executor": executor, "out": out}
        found = ac.select_budget(Y, numbers, splits=splits, criterion=criterion, **options)  # type: ignore[arg-type]
    console.print()
    console.print(_budget_table(found.table))
    console.print(Text(_BUDGET_COLUMNS, style="dim"))
    console.print(Text(f"\n{found}"))
    if found.comparison.failed:
        errors = found.comparison.table["error"]
        _exit_failed(found.comparison.failed, next(filter(None, errors)), out)


def _checked(
    console: Console,
    data: list[str],
    events: dict[str, Any],
    likelihood: dict[str, Any],
    budgets: str,
    fits: dict[str, Any],
    out: Path | None,
) -> tuple[ac.CountTensor, list[int], dict[str, Any]]:
    """Return the data, the budgets and the options of the fits; options are checked before the data are read."""
    check_cluster(fits["cluster"])
    numbers, core_shape = _budgets(budgets), sizes_given(fits["core_shape"])
    if out is not None:
        from allocore.comparison.folder import check_place

        check_place(out)
    Y, settings = settings_of(likelihood, read_data(data, events))
    print_data(console, Y, binary=likelihood["binary"])
    along = -1 if fits["along"] is None else mode_given(fits["along"], Y.mode_names)
    return Y, numbers, {**fits, **settings, "core_shape": core_shape, "along": along}


def _check_memory(budgets: str, core_shape: str | None) -> None:
    """Refuse, before the data are read, a budget of ALL0CORE that no data would leave room for."""
    from allocore.run.memory_needs import check_budget

    for budget in _budgets(budgets):
        check_budget("--budgets", budget, sizes_given(core_shape))


def _exit_failed(failed: int, error: str, out: Path | None) -> NoReturn:
    """Exit with code 1, so that a script does not go on as if all jobs had a result."""
    number, again = ("1 job", "it") if failed == 1 else (f"{failed} jobs", "them")
    why = (
        in_options(error)
        if out is None
        else f"see the column error of {out / 'results.csv'}; --retry runs {again} again"
    )
    print(f"allocore: {number} failed: {why}", file=sys.stderr)
    sys.exit(_FAILED)


def _budget_table(budgets: "pd.DataFrame") -> Table:
    """The budgets on the screen, the chosen one in bold."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("Q", "log PPD", "behind", "error", "splits", "classes", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    chosen = budgets["budget"].where(budgets["within"]).min()
    for row in budgets.to_dict("records"):
        told = "chosen" if row["budget"] == chosen else "within" if row["within"] else ""
        scores = ("-" if math.isnan(row[name]) else f"{row[name]:.4f}" for name in ("mean", "behind", "error"))
        used = "-" if math.isnan(row["classes"]) else f"{row['classes']:.0f}"
        cells = f"{row['budget']:,}", *scores, f"{row['splits']:,}", used, told
        table.add_row(*cells, style="bold" if told == "chosen" else "")
    return table


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in _listed(text)]
    except ValueError:
        raise InputError(
            f"--budgets is {text!r}, but it must be whole numbers joined by commas, like 5,10,25"
        ) from None
