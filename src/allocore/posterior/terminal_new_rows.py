"""What new rows are made of, on a terminal: the shares of the classes there and in the fit, and the surprises."""

from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocore.data.display import plain_number
from allocore.posterior.class_words import share_words
from allocore.posterior.posterior import Posterior


def new_rows_report(fitted: Posterior, folded: Posterior, rows: int, surprises: int) -> RenderableType:
    """Return the classes with their shares in the new rows and in the fit, and the cells that are least expected."""
    found, before = folded.consensus(), fitted.consensus()
    known = dict(zip(before.numbers.tolist(), before.share.tolist(), strict=True))
    table = Table(box=SIMPLE_HEAD)
    for name in ("class", "new rows", "fit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("name")
    for place, number in enumerate(found.numbers[:rows].tolist()):
        share = share_words(found.summary, place)
        table.add_row(str(number), share, f"{known[number]:.1%}", Text(found.names[place]))
    number = len(found.numbers)
    heading = Text(f"{min(rows, number)} of {number} class{'es' * (number != 1)}, {found.summary.source}", style="bold")
    told = Text("Shares of the expected counts in the new rows, with 90% intervals, and in the fit.")
    return Group(heading, told, table, *_surprises(folded, surprises))


def _surprises(folded: Posterior, top: int) -> list[RenderableType]:
    if not top:
        return []
    cells = folded.surprises(top=top)
    table = Table(box=SIMPLE_HEAD)
    names = list(folded.tensor.mode_names)
    for name in (*names, "observed", "expected", "surprise"):
        is_number = name not in names
        justify: Literal["right", "left"] = "right" if is_number else "left"
        table.add_column(Text(str(name)), justify=justify, no_wrap=is_number, overflow="fold")
    for row in cells.itertuples(index=False, name=None):
        cell = dict(zip(cells.columns, row, strict=True))
        numbers = f"{cell['observed']:,}", plain_number(cell["expected"]), f"{cell['surprise']:.1f}"
        table.add_row(*(Text(str(cell[name])) for name in names), *numbers)
    return [Text("The least expected counts; the surprise is -log10 of their probability.", style="bold"), table]
