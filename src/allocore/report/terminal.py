"""What the command line and `post.show()` print, drawn with rich: a run, its classes, one class, scores, new rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from allocore._text import plain_number
from allocore.classes.summary import ClassSummary, Profile, ShownDraw
from allocore.classes.words import (
    APART,
    label_words,
    perhaps_sharers,
    profile_words,
    share_words,
    sharers,
    support_brief,
    support_heading,
    support_words,
    together_words,
    users_together,
)
from allocore.errors import whole_number
from allocore.findings import sentence, sentences
from allocore.kernels.elementary import Ints
from allocore.posterior.diagnose import R_HAT_SETTLED, Diagnosis, chains_behind, chains_without_moves
from allocore.posterior.evaluate import COLUMNS, HEADINGS, MODEL, Evaluation, heading, score_rows
from allocore.posterior.likelihood_check import likelihood_findings
from allocore.report.fit import Fit
from allocore.report.run_text import (
    DIAGNOSTIC_COLUMNS,
    DIAGNOSTIC_HEADINGS,
    held_out_line,
    number_text,
    progress_line,
    settings_line,
    short_table,
)
from allocore.storage.record import Record

if TYPE_CHECKING:
    import pandas as pd

_LEVEL_COLOURS = {"good": "green", "caution": "yellow", "poor": "red"}


def run_report(posterior: Fit, *, being_written: bool) -> RenderableType:
    """Return the settings, progress and diagnostics of a run."""
    record = posterior.record
    parts: list[RenderableType] = [
        Text(settings_line(record)),
        Text(repr(record.tensor)),
        Text(progress_line(record, being_written=being_written)),
    ]
    if record.held_out is not None:
        parts.append(Text(held_out_line(record)))
    if record.core_values.shape[1]:
        parts += _health(posterior.diagnose())
    return Group(*parts)


def _health(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")  # words may be cut into lines, numbers never
    for title in DIAGNOSTIC_HEADINGS.values():
        table.add_column(_in_lines(title), justify="right", no_wrap=True)
    for name, row in short_table(diagnosis).iterrows():
        table.add_row(Text(str(name)), *(_cell(column, row[column]) for column in DIAGNOSTIC_HEADINGS))
    yield Text()
    yield _verdict(diagnosis.level, diagnosis.sentences[0], weight="bold ")
    yield table
    yield Text(DIAGNOSTIC_COLUMNS, style="dim")
    for each in diagnosis.sentences[1:]:
        yield Text(each)


def _verdict(level: str, headline: str, weight: str = "") -> Text:
    """The level of a judgement and its headline, in the colour of the level."""
    return Text(f"{level.capitalize()}: {headline}", style=f"{weight}{_LEVEL_COLOURS[level]}")


def _in_lines(heading: str) -> str:
    """A heading of several words on several lines, so that its column is as narrow as its numbers."""
    return heading.replace(" per ", " per\n").replace("effective ", "effective\n").replace("ESS ", "ESS\n")


def _cell(column: str, value: float) -> Text:
    text = Text(number_text(column, value))
    if np.isnan(value):
        text.stylize("dim")
    elif column == "r_hat" and value > R_HAT_SETTLED:
        text.stylize("bold red")
    return text


# The palette of Okabe and Ito suits all kinds of colour vision; every factor shows its number as well.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_MOST_NAMED = 8
# The least width of a mode beside others, and of a column with the modes on lines of their own.
_COLUMN, _DESCRIPTION = 20, 36
_BETWEEN = 2


def class_report(
    posterior: Fit, rows: int = 15, top: int = 2, *, draw: ShownDraw = None, chain: int | None = None
) -> RenderableType:
    """Return the largest classes in words, the factors they share, a summary and what the likelihood says.

    They are those of the consensus, if there are several draws; those of one draw on request.
    """
    rows, top = whole_number("rows", rows), whole_number("top", top)
    summary, record = posterior.class_summary(draw, chain=chain), posterior.record
    shown = summary.apart_last[:rows]
    colours = _shared_colours(summary, shown)
    # Intervals mean little if the chains have not converged, so the verdict on them comes first.
    diagnosis = posterior.diagnose() if summary.is_consensus else None
    likelihood = likelihood_findings(record) if diagnosis is None else diagnosis.likelihood
    table: list[RenderableType] = [Text(), _ClassList(summary, shown, top, colours), Text()]
    return Group(
        *_table_heading(summary, len(shown)),
        *([] if diagnosis is None else [_verdict(diagnosis.level, diagnosis.sentences[0])]),
        *(table if len(shown) else []),
        *_sharing_lines(summary, shown, top, colours),
        *(Text(each) for each in sentences(likelihood)),
        summary_line(summary),
        *_warnings(record, behind=diagnosis is None or diagnosis.verdict.kind != "diagnosis-behind"),
    )


def _table_heading(summary: ClassSummary, shown: int) -> Iterator[Text]:
    yield Text(f"{_counted(shown, len(summary.number_C))}, {summary.source}", style="bold")
    if summary.is_consensus and shown:
        yield Text("Shares are averages over all draws, with 90% intervals.", style="dim")
    elif summary.is_consensus:
        yield Text("draw='best' (--draw best) shows the best draw.", style="dim")


def _counted(shown: int, known: int) -> str:
    classes = "1 class" if known == 1 else f"{known} classes"
    return classes if shown == known else f"{shown} of {classes}"


def summary_line(summary: ClassSummary) -> Text:
    """Return the size of the classes in a few sentences, with their numbers in bold."""
    text = Text(" ".join(summary.sentences))
    text.highlight_regex(r"\d+(?= (class|hold))", "bold")
    return text


def _warnings(record: Record, *, behind: bool) -> Iterator[Text]:
    """Warn about chains far behind the others, and about chains in which no class moved after the burn-in.

    The first is left out if `behind` is False: the verdict on the chains says it.
    """
    for finding in (chains_behind(record) if behind else None, chains_without_moves(record)):
        if finding is not None:
            yield Text(sentence(finding), style="italic")


class _Column(NamedTuple):
    """A column of numbers: its heading, its width, and its cells by the places of the classes."""

    name: str
    width: int
    cells: dict[int, str]


@dataclass(frozen=True)
class _ClassList:
    """The classes as a table with the modes side by side, or on lines of their own; as blocks on a narrow terminal."""

    summary: ClassSummary
    shown: Ints
    top: int
    colours: dict[tuple[int, int], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._number_columns()
        room = options.max_width - sum(column.width + _BETWEEN for column in columns)
        for apart in (False, True):
            places = [place for place in self.shown.tolist() if self.summary.apart_C[place] == apart]
            if apart and places:
                yield Rule(Text(APART, style="dim"), align="left", style="dim")
            if places and room >= _DESCRIPTION:
                yield self._table(places, columns, room)
            else:
                yield from self._blocks(places)

    def _number_columns(self) -> list[_Column]:
        summary, places = self.summary, self.shown.tolist()
        cells = {
            "class": {place: str(summary.number_C[place]) for place in places},
            "share": {place: share_words(summary, place) for place in places},
        }
        if support_heading(summary):
            cells[support_heading(summary)] = {place: support_brief(summary, place) for place in places}
        return [_Column(name, max(map(len, (name, *column.values()))), column) for name, column in cells.items()]

    def _table(self, places: list[int], columns: list[_Column], room: int) -> Table:
        """The classes in rows, below a heading if they are the first that are shown."""
        beside = room >= (_COLUMN + _BETWEEN) * len(self.summary.modes) - _BETWEEN
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.show_header = places[0] == self.shown[0]
        for column in columns:
            table.add_column(column.name, justify="right", width=column.width)
        widths = self._mode_widths(room)
        table.add_column(_side_by_side(map(Text, self.summary.mode_names), widths) if beside else "name", width=room)
        for place in places:
            name = Text(self.summary.names[place], style="bold")
            words = _side_by_side(self._words(place), widths) if beside else self._lines(place)
            table.add_row(*(column.cells[place] for column in columns), Group(name, words))
        return table

    def _mode_widths(self, room: int) -> list[int]:
        """Divide room fairly among the modes: short ones get what they need, the others equal parts of the rest."""
        cells = [map(Text, self.summary.mode_names), *map(self._words, self.shown.tolist())]
        needed = np.max([[words.cell_len for words in row] for row in cells], axis=0)
        widths, left = [0] * len(needed), room - _BETWEEN * (len(needed) - 1)
        for turn, mode in enumerate(np.argsort(needed, kind="stable").tolist()):
            widths[mode] = min(int(needed[mode]), left // (len(needed) - turn))
            left -= widths[mode]
        return widths

    def _words(self, place: int) -> list[Text]:
        """The heaviest labels of a class in every mode, with the number of its factor if it is shared."""
        summary = self.summary
        return [
            _factor_text(
                summary,
                mode,
                int(summary.location_CM[place, mode]),
                profile_words(summary.profile(place, mode), self.top),
                self.colours,
            )
            for mode in range(len(summary.modes))
        ]

    def _lines(self, place: int) -> Table:
        grid = Table.grid(padding=(0, 1))
        for name, words in zip(self.summary.mode_names, self._words(place), strict=True):
            grid.add_row(Text(name), words)
        return grid

    def _blocks(self, places: list[int]) -> Iterator[RenderableType]:
        for place in places:
            number, support = self.summary.number_C[place], support_words(self.summary, place)
            size = f"class {number}, {share_words(self.summary, place)}"
            yield Text(f"{size}, {support}" if support else size, style="bold")
            yield Padding(Text(self.summary.names[place]), (0, 0, 0, 2))
            yield Padding(self._lines(place), (0, 0, 0, 2))


def _side_by_side(cells: Iterable[Text], widths: list[int]) -> Table:
    grid = Table.grid(padding=(0, _BETWEEN, 0, 0))
    for width in widths:
        grid.add_column(width=width, overflow="fold")
    grid.add_row(*cells)
    return grid


def _factor_text(
    summary: ClassSummary, mode: int, factor: int, words: str, colours: dict[tuple[int, int], str]
) -> Text:
    """Words after the number of the factor. In the consensus, a factor of a single class has no number."""
    colour = colours.get((mode, factor))
    if colour:
        return Text(f"#{factor} {words}", style=f"bold {colour}")
    numbered = not summary.is_consensus or len(summary.factors[mode][factor].classes) > 1
    return Text.assemble((f"#{factor} ", "dim"), words) if numbered else Text(words)


def _shared_colours(summary: ClassSummary, shown: Ints) -> dict[tuple[int, int], str]:
    """Return a colour for every factor that several shown classes use; those of a mode cycle through the palette."""
    colours = {}
    for mode in range(len(summary.modes)):
        factors = np.unique(summary.location_CM[shown, mode]).tolist()
        uses = {factor: len(users_together(summary, shown, mode, factor)) for factor in factors}
        shared = sorted((factor for factor in factors if uses[factor]), key=lambda factor: -uses[factor])
        for turn, factor in enumerate(shared):
            colours[mode, factor] = COLOURS[turn % len(COLOURS)]
    return colours


def _sharing_lines(summary: ClassSummary, shown: Ints, top: int, colours: dict[tuple[int, int], str]) -> Iterator[Text]:
    if not colours:
        return
    yield Text("Factors shared by several classes", style="bold")
    for mode, factor in colours:
        users = users_together(summary, shown, mode, factor)
        numbers = [str(number) for number in summary.number_C[users]]
        more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
        probability = together_words(summary, users, mode)
        used_by = f"  in classes {', '.join(numbers[:_MOST_NAMED])}{more}{f', {probability}' if probability else ''}"
        words = _factor_text(summary, mode, factor, profile_words(summary.factors[mode][factor], top), colours)
        yield Text.assemble(f"  {summary.mode_names[mode]} ", words, (used_by, "dim"))
    yield Text()


_BAR = 30
_REST = 0.0005


def class_details(
    posterior: Fit, number: int, top: int = 10, *, draw: ShownDraw = None, chain: int | None = None
) -> RenderableType:
    """Return one class in full, of the consensus if there are several draws; of one draw on request."""
    top = whole_number("top", top)
    summary = posterior.class_summary(draw, chain=chain)
    place = summary.place(number, "class")
    parts: list[RenderableType] = [*_class_heading(summary, place)]
    for mode in range(len(summary.modes)):
        parts += [Text(), *_mode_details(summary, place, mode, top)]
    cells = posterior.top_cells(number, top, draw=draw, chain=chain)
    return Group(*parts, Text(), *_cells(summary, cells))


def _class_heading(summary: ClassSummary, place: int) -> Iterator[Text]:
    yield Text(f"Class {summary.number_C[place]}: {summary.names[place]}", style="bold")
    location = ", ".join(map(str, summary.location_CM[place].tolist()))
    where = "" if summary.is_consensus else f", at ({location}) of the core"
    yield Text(f"{summary.source}{where}", style="dim")
    support = support_words(summary, place)
    size = f"{summary.value_C[place]:,.0f} {summary.counted}, {share_words(summary, place)} of all"
    yield Text(f"{size}; {support}." if support else f"{size}.")
    if summary.apart_C[place]:
        yield Text("It is small or weakly supported: another run may not have it.", style="italic")


def _mode_details(summary: ClassSummary, place: int, mode: int, top: int) -> Iterator[RenderableType]:
    profile = summary.profile(place, mode)
    number = f" #{summary.factor(place, mode).number}"
    yield Text.assemble((profile.mode.name, "bold"), (number, "dim"), f"  {_shared(summary, place, mode)}")
    if profile.empty or profile.even:
        yield Text(f"  {profile.words(1)}")
        return
    if profile.mode.kind == "time":
        yield Text(f"  peaks: {profile.peak_words()}")
    yield from _bars(profile, top)


def _shared(summary: ClassSummary, place: int, mode: int) -> str:
    sure, perhaps = sharers(summary, place, mode), perhaps_sharers(summary, place, mode)
    shared = f"shared with class{'es' * (len(sure) > 1)} {', '.join(sure)}" if sure else "not shared"
    return f"{shared}; perhaps shared with {', '.join(perhaps)}" if perhaps else shared


def _bars(profile: Profile, top: int) -> Iterator[RenderableType]:
    """The heaviest labels with their shares, intervals and bars, and the share of all other labels."""
    labels = profile.top(top)
    grid = Table.grid(padding=(0, 1))
    for column in (None, None, "right"):
        grid.add_column(justify=column or "left")
    for row, (label, share) in zip(profile.heaviest.tolist(), labels, strict=False):
        bar = Text("█" * round(_BAR * share / labels[0][1]), style=COLOURS[1])
        grid.add_row("", Text(label), label_words(profile, row), bar)
    yield grid
    rest = 1.0 - sum(share for _, share in labels)
    if rest > _REST:
        yield Text(f"  and {rest:.1%} spread over {len(profile.share_D) - len(labels):,} others", style="dim")


def _cells(summary: ClassSummary, cells: "pd.DataFrame") -> Iterator[RenderableType]:
    """The top cells: what the class and the whole model expect there, and what was observed."""
    if not len(cells):
        return
    summed = [name for name in summary.mode_names if name not in cells]
    over = f", summed over {' and '.join(summed)}" if summed else ""
    yield Text(f"Top cells{over}", style="bold")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in cells.columns[:-3]:
        table.add_column(Text(name), overflow="fold")
    for name in ("of the class", "expected", "observed"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in cells.itertuples(index=False):
        *labels, of_class, expected, observed = row
        table.add_row(*(Text(label) for label in labels), f"{of_class:,.1f}", f"{expected:,.1f}", f"{observed:,}")
    yield table


_UNBOUNDED = 1000


def print_held_out(console: Console, posterior: Fit) -> None:
    """Print how well the held-out cells of a run are predicted, if it has any, and draws."""
    if posterior.held_out is not None and posterior.core_values.shape[1]:
        console.print()
        console.print(evaluation_report(posterior.evaluate(brief=True)))


@dataclass(frozen=True)
class _Scores:
    """The scores, a row for each model; on a narrow terminal a column for each, so that no number is cut."""

    rows: list[list[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        across = self._across()
        fits = console.measure(across, options=options.update(max_width=_UNBOUNDED)).maximum <= options.max_width
        yield across if fits else self._down()

    def _across(self) -> Table:
        shown = Table(box=SIMPLE_HEAD, pad_edge=False)
        for name in HEADINGS:
            shown.add_column(name, justify="right" if name else "left", no_wrap=True)
        for row in self.rows:
            shown.add_row(*map(Text, row), style="bold" if row[0] == MODEL else "")
        return shown

    def _down(self) -> Table:
        shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        shown.add_column("", overflow="fold")
        for row in self.rows:
            shown.add_column(Text(row[0].replace(" ", "\n", 1)), justify="right", no_wrap=True)
        for name, *scores in zip(HEADINGS[1:], *(row[1:] for row in self.rows), strict=True):
            shown.add_row(name, *(Text(score, style="bold" * (not place)) for place, score in enumerate(scores)))
        return shown


def evaluation_report(found: Evaluation) -> RenderableType:
    """Return what `Posterior.evaluate` found for the screen, with its sentences."""
    first, *others = found.sentences
    return Group(
        Text(heading(found.table), style="bold"),
        _verdict(found.level, first),
        _Scores(score_rows(found.table)),
        Text(COLUMNS, style="dim"),
        *(Text(each) for each in others),
    )


def new_rows_report(fitted: Fit, folded: Fit, rows: int, surprises: int) -> RenderableType:
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
    title = Text(f"{_counted(min(rows, number), number)}, {found.summary.source}", style="bold")
    note = Text("Shares of the expected counts in the new rows, with 90% intervals, and in the fit.")
    return Group(title, note, table, *_surprises(folded, surprises))


def _surprises(folded: Fit, top: int) -> list[RenderableType]:
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
