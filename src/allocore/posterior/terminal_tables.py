"""The class table on a terminal: one row per class, with a colour for every factor that several classes share."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from allocore.errors import InputError, whole_number
from allocore.posterior.class_summary import ClassSummary, Factor
from allocore.posterior.moves import no_move_warning
from allocore.posterior.posterior import Posterior

# The palette of Okabe and Ito suits all kinds of colour vision; every factor shows its number as well.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_LISTED_CLASSES = 8
_COLUMN = 18
_NUMBERS = 16
_STABILITY = 8
_BAR = 30
_REST = 0.0005


def class_report(
    posterior: Posterior, rows: int = 15, top: int = 2, *, draw: int = -1, chain: int = 0
) -> RenderableType:
    """Return the largest classes of a draw in words, the factors they share, a summary and what the likelihood says."""
    rows = whole_number("rows", rows)
    modes = posterior.tensor.mode_names
    classes = posterior.classes(draw, top, chain=chain)
    shown = classes.head(rows)
    colours = _shared_colours(shown, modes)
    return Group(
        Text(f"The {len(shown)} largest of {len(classes)} classes, {_which(posterior, draw, chain)}", style="bold"),
        _ClassList(shown, modes, colours),
        *_sharing_lines(shown, modes, colours),
        Text(),
        *(Text(sentence) for sentence in posterior.likelihood_words()),
        summary_line(posterior.class_summary(draw, chain=chain)),
        *_warnings(posterior),
    )


def _which(posterior: Posterior, draw: int, chain: int) -> str:
    chains, draws = posterior.core_values.shape[:2]
    last = draw in (-1, draws - 1)
    of_chain = f" of chain {chain % chains}" if chains > 1 else ""
    return f"last draw{of_chain}" if last else f"draw {draw % draws}{of_chain}"


def summary_line(summary: ClassSummary) -> Text:
    """Return the summary of a draw in one line, with its numbers in bold."""
    text = Text(summary.sentences)
    text.highlight_regex(r"\d+(?= (class|hold))", "bold")
    return text


def _warnings(posterior: Posterior) -> Iterator[Text]:
    """Yield a warning if no class moved in some chain: its classes are those that the burn-in left."""
    warning = no_move_warning(posterior.record)
    if warning:
        yield Text(warning, style="italic")


@dataclass(frozen=True)
class _ClassList:
    """The classes as a table, or as one block per class on a narrow terminal."""

    classes: pd.DataFrame
    modes: tuple[str, ...]
    colours: dict[tuple[str, int], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - _COLUMN * len(self.modes) - _NUMBERS
        if room >= 0:
            classes = self.classes if room >= _STABILITY else self.classes.drop(columns="stability")
            yield _class_rows(classes, self.modes, self.colours)
        else:
            yield Text()
            yield from _class_blocks(self.classes, self.modes, self.colours)
            yield Text()


def _class_blocks(
    classes: pd.DataFrame, modes: tuple[str, ...], colours: dict[tuple[str, int], str]
) -> Iterator[RenderableType]:
    indent = max(len(name) for name in modes) + 3
    for number, row in zip(classes.index, classes.to_dict("records"), strict=True):
        stability = f", in {row['stability']:.0%} of draws" if row["stability"] >= 0 else ""
        yield Text(f"class {number}, {row['share']:.1%}{stability}", style="bold")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=indent)
        for name in modes:
            words = _factor_text(name, row[f"{name}_factor"], str(row[f"{name}_top"]), colours)
            grid.add_row(Text(f"  {name}"), words)
        yield grid


def _class_rows(classes: pd.DataFrame, modes: tuple[str, ...], colours: dict[tuple[str, int], str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("class", justify="right")
    table.add_column("share", justify="right")
    known = "stability" in classes and bool(classes["stability"].notna().any())
    if known:
        table.add_column("stable", justify="right")
    for name in modes:
        table.add_column(Text(name), overflow="fold")
    for number, row in zip(classes.index, classes.to_dict("records"), strict=True):
        cells = [_factor_text(name, row[f"{name}_factor"], str(row[f"{name}_top"]), colours) for name in modes]
        numbers = [str(number), f"{row['share']:.1%}"]
        if known:
            numbers.append(f"{row['stability']:.0%}" if row["stability"] >= 0 else "")
        table.add_row(*numbers, *cells)
    return table


def _factor_text(mode: str, factor: int, words: str, colours: dict[tuple[str, int], str]) -> Text:
    colour = colours.get((mode, factor))
    if colour:
        return Text(f"#{factor} {words}", style=f"bold {colour}")
    return Text.assemble((f"#{factor} ", "dim"), words)


def _shared_colours(classes: pd.DataFrame, modes: tuple[str, ...]) -> dict[tuple[str, int], str]:
    """Return a colour for every factor that several classes use; the factors of a mode cycle through the palette."""
    colours = {}
    for name in modes:
        uses = classes[f"{name}_factor"].value_counts()
        for turn, factor in enumerate(uses[uses > 1].index):
            colours[name, int(factor)] = _COLOURS[turn % len(_COLOURS)]
    return colours


def _sharing_lines(
    classes: pd.DataFrame, modes: tuple[str, ...], colours: dict[tuple[str, int], str]
) -> Iterator[Text]:
    if not colours:
        return
    yield Text("Factors shared by several classes", style="bold")
    for name in modes:
        for factor in (k for mode, k in colours if mode == name):
            users = classes[classes[f"{name}_factor"] == factor]
            numbers = [str(number) for number in users.index]
            more = f" and {len(numbers) - _LISTED_CLASSES} more" if len(numbers) > _LISTED_CLASSES else ""
            words = str(users[f"{name}_top"].iloc[0])
            listed = f"  in classes {', '.join(numbers[:_LISTED_CLASSES])}{more}"
            yield Text.assemble(f"  {name} ", _factor_text(name, factor, words, colours), (listed, "dim"))


def class_details(summary: ClassSummary, number: int, top: int = 10) -> RenderableType:
    """Return one class in full: its size, its location, its labels and peaks, and who shares its factors."""
    number = _class_number(number, summary)
    place = ", ".join(map(str, summary.location_CM[number].tolist()))
    stable = summary.support.draws_C[number]
    held = f"; found in {stable:.0%} of the other draws" if stable >= 0 else ""
    cumulative = summary.share_C[: number + 1].sum()
    parts: list[RenderableType] = [
        Text(f"Class {number}, at ({place}) of the core", style="bold"),
        Text(
            f"{summary.value_C[number]:,.0f} {summary.counted}, {summary.share_C[number]:.2%} of all; "
            f"{cumulative:.1%} together with all larger classes{held}."
        ),
    ]
    for mode in range(len(summary.modes)):
        parts += [Text(), *_factor_details(summary.factor(number, mode), summary.partners(number, mode), top)]
    return Group(*parts)


def _class_number(number: int, summary: ClassSummary) -> int:
    last = len(summary.value_C) - 1
    if not 0 <= number <= last:
        raise InputError(f"class is {number}, but it must be from 0 to {last}: the draw has {last + 1} classes")
    return number


def _factor_details(factor: Factor, partners: tuple[int, ...], top: int) -> Iterator[RenderableType]:
    classes = "class" if len(partners) == 1 else "classes"
    shared = f"shared with {classes} {', '.join(map(str, partners))}" if partners else "used by this class alone"
    heading = Text.assemble((factor.mode.name, "bold"), (f" #{factor.number}", "dim"), f"  {shared}")
    yield heading
    if factor.empty or factor.even:
        yield Text(f"  {factor.words(1)}")
        return
    if factor.mode.kind == "time":
        yield Text(f"  peaks: {factor.peak_words()}")
    grid = Table.grid(padding=(0, 1))
    labels = factor.top(top)
    for label, share in labels:
        bar = Text("█" * round(_BAR * share / labels[0][1]), style=_COLOURS[1])
        grid.add_row("", Text(label), f"{share:.1%}", bar)
    yield grid
    rest = 1.0 - sum(share for _, share in labels)
    if rest > _REST:
        yield Text(f"  and {rest:.1%} spread over {len(factor.share_D) - len(labels):,} others", style="dim")
