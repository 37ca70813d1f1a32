"""Commands that fit many times: compare models, choose a budget."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, telling_of_stops, terminal
from allocore.cli.fitting import mode_given, sizes_given
from allocore.cli.taking_data import DataPath, print_data, read_data, takes_events
from allocore.errors import InputError

_BUDGETS = "5,10,25,50,75,100,150,200,250,300"
_FAILED = 1

Budgets = Annotated[str, typer.Option(help="The budgets Q to try.")]
HoldOut = Annotated[float, typer.Option(help="Share of the fibres to hold out.")]
Along = Annotated[
    str | None, typer.Option(help="The mode (name or number) along which fibres are held out; the last by default.")
]
CoreShape = Annotated[
    str | None, typer.Option(help="Factors per mode of ALL0CORE, e.g. 50x50x20x300; by default Q in every mode.")
]
BurnIn = Annotated[int, typer.Option(help="Sweeps to discard.")]
Draws = Annotated[int, typer.Option(help="Draws to keep.")]
Thin = Annotated[int, typer.Option(help="Sweeps per kept draw.")]
Jobs = Annotated[int | None, typer.Option(help="Fits at a time; by default as many as there are processors.")]
Retry = Annotated[bool, typer.Option("--retry", help="Do again what failed before.")]
Seed = Annotated[int, typer.Option(help="Seed of the first split; the next ones have the next numbers.")]


@app.command()
@takes_events
def compare(
    *,
    data: DataPath,
    out: Annotated[Path, typer.Option(help="The folder for results; the same command goes on where it was.")],
    models: Annotated[
        str, typer.Option(help="Any of allocore, cp, tucker, nntuck; tucker=20x20x6x3 is Tucker with that core.")
    ] = "allocore,cp,tucker,nntuck",
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Random splits, the same for all models.")] = 8,
    hold_out: HoldOut = 0.01,
    along: Along = None,
    core_shape: CoreShape = None,
    burn_in: BurnIn = 1000,
    draws: Draws = 200,
    thin: Thin = 20,
    restarts: Annotated[int, typer.Option(help="Random starts of NNTuck.")] = 20,
    max_iter: Annotated[int, typer.Option(help="The most iterations of each start of NNTuck.")] = 1000,
    jobs: Jobs = None,
    retry: Retry = False,
    seed: Seed = 0,
    events: dict[str, Any],
) -> None:
    """Fit several models at several budgets to the same splits, and tell which predicts best what was held out.

    Writes a table of all fits (results.csv), figures, and a report in words (report.md). A command that was interrupted
    goes on when it is given again; models, budgets and splits can be added.

    allocore compare "icews/*.tab" --budgets 5,10,25,50,100 --splits 8 --along time --out comparison

    allocore compare sales.csv --modes store,product,week --models allocore,cp --budgets 5,10 --out comparison
    """
    console = terminal()
    numbers = _budgets(budgets)
    Y = read_data(data, events)
    print_data(console, Y)
    with telling_of_stops(out):
        found = ac.compare(
            Y,
            _listed(models),
            numbers,
            splits=splits,
            hold_out=hold_out,
            along=mode_given(along, Y.mode_names),
            burn_in=burn_in,
            draws=draws,
            thin=thin,
            restarts=restarts,
            max_iter=max_iter,
            core_shape=sizes_given(core_shape),
            out=out,
            jobs=jobs,
            retry=retry,
            seed=seed,
        )
    console.print(Text("\n" + str(found)))
    console.print(Text(f"\nTable, figures and report written to {out}"))
    if found.failed:
        number, again = ("1 job", "it") if found.failed == 1 else (f"{found.failed} jobs", "them")
        where = f"see the column error of {out / 'results.csv'}; --retry does {again} again"
        print(f"allocore: {number} failed: {where}", file=sys.stderr)
        sys.exit(_FAILED)


@app.command("select-budget")
@takes_events
def select_budget(
    *,
    data: DataPath,
    budgets: Budgets = _BUDGETS,
    splits: Annotated[int, typer.Option(help="Random splits, two or more.")] = 4,
    criterion: Annotated[str, typer.Option(help="Judge by all held-out cells, or by the positive ones.")] = "all",
    hold_out: HoldOut = 0.01,
    along: Along = None,
    core_shape: CoreShape = None,
    burn_in: BurnIn = 1000,
    draws: Draws = 200,
    thin: Thin = 20,
    out: Annotated[
        Path | None, typer.Option(help="A folder for results; the same command goes on where it was.")
    ] = None,
    jobs: Jobs = None,
    retry: Retry = False,
    seed: Seed = 0,
    events: dict[str, Any],
) -> None:
    """Choose the budget Q of ALL0CORE: the smallest that predicts within one standard error of the best.

    allocore select-budget "icews/*.tab" --budgets 25,50,100,200 --splits 4 --along time
    """
    console = terminal()
    numbers = _budgets(budgets)
    Y = read_data(data, events)
    print_data(console, Y)
    with telling_of_stops(out):
        found = ac.select_budget(
            Y,
            numbers,
            splits=splits,
            criterion=criterion,  # type: ignore[arg-type]
            hold_out=hold_out,
            along=mode_given(along, Y.mode_names),
            burn_in=burn_in,
            draws=draws,
            thin=thin,
            core_shape=sizes_given(core_shape),
            out=out,
            jobs=jobs,
            retry=retry,
            seed=seed,
        )
    console.print(Text(f"\n{found.table.to_string(index=False)}\n\n{found}"))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _budgets(text: str) -> list[int]:
    try:
        return [int(part) for part in _listed(text)]
    except ValueError:
        raise InputError(
            f"--budgets is {text!r}, but it must be whole numbers joined by commas, like 5,10,25"
        ) from None
