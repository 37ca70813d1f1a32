"""Commands that fit many models: compare, select-budget."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

import allocore as ac
from allocore._text import plural
from allocore.cli.app import Output, app, explaining_stops
from allocore.cli.options import (
    ClusterOfFits,
    DataPaths,
    check_cluster,
    cluster_of,
    exposures_given,
    mode_given,
    modes_with,
    option,
    print_data,
    read_data,
    settings_of,
    sizes_given,
    takes,
    takes_events,
    takes_likelihood,
    takes_likelihood_of_names,
    takes_output,
)
from allocore.errors import InputError
from allocore.model.spec import check_likelihood, likelihood_for
from allocore.progress import log

if TYPE_CHECKING:
    import pandas as pd


_BUDGETS = "5,10,25,50,75,100,150,200,250,300"
_FAILED = 1
_BUDGET_COLUMNS = (
    "log PPD: mean log predictive probability of a held-out cell. behind: difference from the best; error: its "
    "standard error. within: behind by no more than its error. classes: how many of Q are in use."
)

Budgets = Annotated[str, typer.Option(metavar="Q,Q,...", help="The budgets Q to try.")]

_FIT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "hold_out": option(float, "Share of the fibres to hold out.", 0.01),
    "along": option(str | None, "The mode along which held-out fibres run, by name or number; the last by default."),
    "core_shape": option(
        str | None,
        "Factors per mode of ALL0CORE, such as 50x50x20x300; Q in every mode by default.",
        metavar="NxNx...",
    ),
    "sweeps": option(
        int | None,
        "Sweeps of each chain, of which the first half is discarded. The default is 250 for each of 8 chains.",
    ),
    "burn_in": option(int | None, "Sweeps to discard. Use with --draws and --thin instead of --sweeps."),
    "draws": option(int | None, "Draws to keep."),
    "thin": option(int | None, "Sweeps per draw."),
    "chains": option(int | None, "Chains per fit. Their predictions are averaged. The default is 8."),
    "jobs": option(
        int | None,
        "Number of fits to run at a time; by default one per processor, or as many as the cluster has room for.",
    ),
    "threads": option(int | None, "Threads per fit; by default an even share of the processors, or 1 on a cluster."),
    "cluster": (ClusterOfFits, None),
    "retry": (Annotated[bool, typer.Option("--retry", help="Retry fits that failed earlier.")], False),
    "seed": option(int, "The seed of the fits to the first split. Later splits use the next numbers.", 0),
    "hold_out_seed": option(int, "The seed of the hold-out of the first split. Later splits use the next numbers.", 0),
}
_takes_fits = takes("fits", _FIT_OPTIONS, dict)


@app.command()
@takes_likelihood_of_names
@takes_events
@_takes_fits
@takes_output
def compare(
    *,
    data: DataPaths,
    out: Annotated[
        Path, typer.Option(help="Write results to this folder. The same command continues an earlier comparison.")
    ],
    models: Annotated[
        str,
        typer.Option(
            metavar="MODEL,MODEL,...",
            help="Any of 'allocore', 'cp', 'tucker', 'nntuck'. Suffixes change the likelihood (allocore-nb, "
            "cp-bernoulli), learn the concentrations (cp-e0, allocore-nb-e0), or set the core (tucker=20x20x6x3).",
        ),
    ] = "allocore,cp,tucker,nntuck",
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Number of random splits, the same for all models.")] = 8,
    restarts: Annotated[int, typer.Option(help="Number of random starts of NNTuck.")] = 20,
    max_iter: Annotated[int, typer.Option(help="Maximum number of iterations per start of NNTuck.")] = 1000,
    fits: dict[str, Any],
    likelihood: dict[str, Any],
    events: dict[str, Any],
    console: Output,
) -> None:
    """Fit several models at several budgets to the same random splits, and compare how they predict held-out cells.

    Writes a table of all fits (results.csv), figures, and a report (report.md).

    The same command continues an interrupted comparison. You can add models, budgets and splits. If you change
    --restarts or --max-iter, only NNTuck is fitted again.

    allocore compare icews/*.tab --budgets 5,10,25,50,100 --splits 8 --along time --out comparison

    allocore compare sales.csv --modes store,product,week --models allocore,cp --budgets 5,10 --out comparison

    allocore compare icews/*.tab --models allocore,allocore-nb,cp,cp-nb --budgets 50 --chains 4 --out comparison

    A name without a suffix is the Poisson model of the paper. --likelihood and --e0 apply to all models whose names do
    not set them. NNTuck is always Poisson.
    """
    names = _split_commas(models)
    has_allocore = any(name.startswith("allocore") and "=" not in name for name in names)
    numbers = _budgets(budgets, fits["core_shape"], in_memory=has_allocore)
    fits["exposure"] = events.pop("weights", None)
    Y, options = _read(console, data, events, likelihood, fits, out)
    chosen = _models(names, Y, likelihood, fits, {"restarts": restarts, "max_iter": max_iter})
    with explaining_stops(out), cluster_of(fits["cluster"]) as executor:
        found = ac.compare(Y, chosen, numbers, splits=splits, executor=executor, out=out, **options)
    console.keep(comparison=_comparison(found))
    console.print(Text("\n" + str(found)))
    console.wrote(out, f"\nTable, figures and report written to {out}")
    if found.failed:
        _exit_failed(found.failed, "", out)


@app.command("select-budget")
@takes_likelihood
@takes_events
@_takes_fits
@takes_output
def select_budget(
    *,
    data: DataPaths,
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Number of random splits, at least 2.")] = 4,
    criterion: Annotated[str, typer.Option(help="Judge by 'all' held-out cells, or by 'positive' ones only.")] = "all",
    out: Annotated[
        Path | None,
        typer.Option(help="Write results to this folder. The same command continues an earlier comparison."),
    ] = None,
    fits: dict[str, Any],
    likelihood: dict[str, Any],
    events: dict[str, Any],
    console: Output,
) -> None:
    """Choose the budget Q of ALL0CORE: the smallest whose score is within one standard error of the best.

    allocore select-budget icews/*.tab --budgets 25,50,100,200 --splits 4 --along time

    allocore select-budget icews/*.tab --e0 infer
    """
    check_likelihood(likelihood["likelihood"], likelihood["dispersion_by"])
    numbers = _budgets(budgets, fits["core_shape"])
    fits["exposure"] = events.pop("weights", None)
    Y, options = _read(console, data, events, likelihood, fits, out)
    ((model,),) = _models(["allocore"], Y, likelihood, fits, {}).values()
    with explaining_stops(out), cluster_of(fits["cluster"]) as executor:
        options |= {"model": model, "executor": executor, "out": out}
        found = ac.select_budget(Y, numbers, splits=splits, criterion=criterion, **options)  # type: ignore[arg-type]
    console.keep(budget=found.budget, criterion=found.criterion, table=found.table, findings=found.findings)
    console.keep(comparison=_comparison(found.comparison))
    console.print()
    console.print(_budget_table(found.table))
    console.print(Text(_BUDGET_COLUMNS, style="dim"))
    console.print(Text(f"\n{found}"))
    if found.comparison.failed:
        errors = found.comparison.table["error"]
        _exit_failed(found.comparison.failed, next(filter(None, errors)), out)


def _comparison(found: "ac.Comparison") -> dict[str, Any]:
    """Return the fits of a comparison and what they mean, as an object for programs."""
    numbers = {"failed": found.failed, "missing": found.missing, "findings": found.findings}
    return {"models": found.models, "fits": found.table, **numbers}


def _read(
    console: Output,
    data: list[str],
    events: dict[str, Any],
    likelihood: dict[str, Any],
    fits: dict[str, Any],
    out: Path | None,
) -> tuple[ac.CountTensor, dict[str, Any]]:
    """Return the data, and the options that `compare` takes as they are; what needs no data is checked first."""
    check_cluster(fits["cluster"])
    sizes_given(fits["core_shape"])
    if out is not None:
        from allocore.comparison.compare import check_place

        check_place(out)
    Y = read_data(data, events)
    Y = Y.binarize() if likelihood["binary"] else Y
    print_data(console, Y, binary=likelihood["binary"])
    along = -1 if fits["along"] is None else mode_given(fits["along"], Y.mode_names)
    same = ("hold_out", "hold_out_seed", "jobs", "threads", "retry", "seed")
    return Y, {"along": along, **{name: fits[name] for name in same}}


def _models(
    names: list[str], Y: ac.CountTensor, likelihood: dict[str, Any], fits: dict[str, Any], starts: dict[str, Any]
) -> dict[str, Any]:
    from allocore.comparison.models import Defaults, named_models

    _, settings = settings_of({**likelihood, "binary": False}, Y)
    if settings["likelihood"] == "auto":
        settings["likelihood"] = likelihood_for("auto", Y.max, settings["dispersion_by"])
    of_chains = ("sweeps", "burn_in", "draws", "thin", "chains")
    chains: dict[str, Any] = {name: fits[name] for name in of_chains if fits[name] is not None}
    if weights := exposures_given(fits["exposure"]):
        if all(name.startswith("nntuck") for name in names):
            raise InputError("exposure", fits["exposure"][0], "does not apply to nntuck, which has no priors")
        chains["modes"] = modes_with(weights, Y)
    core = sizes_given(fits["core_shape"])
    return named_models(names, Y, core_shape=core, defaults=Defaults(**settings), chains=chains, starts=starts)


def _budgets(text: str, core_shape: str | None, in_memory: bool = True) -> list[int]:
    """Return the budgets; refuse, before the data are read, those too large for the memory whatever the data are."""
    try:
        numbers = [int(part) for part in _split_commas(text)]
    except ValueError:
        raise InputError("budgets", text, "must be whole numbers joined by commas, like 5,10,25") from None
    if in_memory:
        from allocore.run.memory import check_budget

        for budget in numbers:
            check_budget("budgets", budget, sizes_given(core_shape))
    return numbers


def _split_commas(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _exit_failed(failed: int, error: str, out: Path | None) -> NoReturn:
    """Exit with code 1, so that a script does not go on as if all jobs had a result."""
    why = error if out is None else f"see the column error of {out / 'results.csv'}; use --retry to run again"
    log(f"{plural(failed, 'job')} failed: {why}", "stopped")
    sys.exit(_FAILED)


def _budget_table(budgets: "pd.DataFrame") -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("Q", "log PPD", "behind", "error", "splits", "classes", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    chosen = budgets["budget"].where(budgets["within"]).min()
    errors = [error for error in budgets["error"] if error > 0]
    digits = max([4, *(1 - math.floor(math.log10(error)) for error in errors)])  # two of the smallest error
    for row in budgets.to_dict("records"):
        status = "chosen" if row["budget"] == chosen else "within" if row["within"] else ""
        scores = ("-" if math.isnan(row[name]) else f"{row[name]:.{digits}f}" for name in ("mean", "behind", "error"))
        used = "-" if math.isnan(row["classes"]) else f"{row['classes']:.0f}"
        cells = f"{row['budget']:,}", *scores, f"{row['splits']:,}", used, status
        table.add_row(*cells, style="bold" if status == "chosen" else "")
    return table
