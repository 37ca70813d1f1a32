"""The command demo: fit the flights of New York, say what was found, and write something to look at."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.text import Text

import allocore as ac
from allocore.cli.app import app, own_name, telling_of_stops, terminal
from allocore.cli.fit_commands import Threads, print_classes
from allocore.cli.model_options import CHAINS
from allocore.cli.opening import OpenIt, open_page
from allocore.cli.output_paths import check_folder

_PAGE, _FIGURE = "flights.html", "classes.png"
_DPI = 200
_TITLE = "Flights that left New York in 2013"


@app.command()
def demo(
    budget: Annotated[int, typer.Option(help="The most classes the model may use.")] = 40,
    seed: Annotated[int, typer.Option(help="The seed: the same seed gives the same result.")] = 1,
    threads: Threads = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help=f"The folder for {_PAGE} and {_FIGURE}; earlier ones are replaced.")
    ] = Path("demo"),
    open_it: OpenIt = False,
) -> None:
    """Fit all 336,776 flights that left New York in 2013, print their classes in words, and write a page to explore.

    Origin x destination x carrier x month x hour, four chains side by side. Takes some ten seconds, twenty the first
    time, when kernels are compiled.

    allocore demo --out /tmp/flights --open
    """
    check_folder("--out", out)  # before the fit, not after
    console = terminal()
    Y = ac.load_flights()
    console.print(Text(f"New York flights of 2013.  {Y!r}"))
    start = perf_counter()
    with telling_of_stops(None):
        model = ac.AlloCore(budget, burn_in=200, draws=10, thin=3, chains=CHAINS, seed=seed, threads=threads).fit(Y)
    seconds = perf_counter() - start
    print_classes(console, model.posterior_, rows=15, top=2)
    page, figure = _write(model.posterior_, out)
    console.print(Text(f"\n{CHAINS} chains of 230 sweeps in {seconds:.0f} s. Something to look at:"))
    console.print(Text(f"  {page}  a page to explore: open it in a browser"))
    console.print(Text(f"  {figure}  the six largest classes as a figure"))
    if open_it:
        open_page(page)
    console.print(f"\nNow your own: [bold]{own_name()} fit DATA --budget 50 --out run.zarr[/]")


def _write(posterior: "ac.Posterior", out: Path) -> tuple[Path, Path]:
    page = ac.write_report(posterior, out / _PAGE, title=_TITLE)
    ac.figures.classes(posterior).savefig(out / _FIGURE, dpi=_DPI)
    return page, out / _FIGURE
