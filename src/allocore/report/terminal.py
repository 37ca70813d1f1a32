"""A run in text: what the command line and `post.show()` print with rich, and what a notebook shows of a posterior.

The page shares the lines about settings and progress, and the short table of diagnostics.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from allocore._text import plain_number, plural, visible
from allocore.classes.diff import Diff
from allocore.classes.memberships import Memberships
from allocore.classes.names import (
    APART,
    classes_html,
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
from allocore.classes.summary import ClassSummary, Profile, ShownDraw
from allocore.diagnosis import Diagnosis
from allocore.errors import whole_number
from allocore.findings import sentence, sentences
from allocore.kernels.elementary import Ints
from allocore.posterior.check import COLUMNS as CHECK_COLUMNS
from allocore.posterior.check import HEADINGS as CHECK_HEADINGS
from allocore.posterior.check import Check, check_rows
from allocore.posterior.convergence import LOG_COUNT, R_HAT_SETTLED, chains_behind, chains_without_moves
from allocore.posterior.evaluate import COLUMNS, HEADINGS, MODEL, Evaluation, heading, score_rows
from allocore.posterior.likelihood_check import learned_findings, likelihood_findings
from allocore.report.fit import Fit
from allocore.storage.record import Record

if TYPE_CHECKING:
    import pandas as pd

DIAGNOSTIC_HEADINGS = {
    "mean": "mean", "sd": "sd", "r_hat": "R-hat", "nested_r_hat": "nested R-hat", "ess_bulk": "ESS bulk",
    "ess_tail": "ESS tail", "seconds_per_effective_sample": "s per effective sample",
}  # fmt: skip
_DIAGNOSTIC_COLUMNS = (
    "R-hat: the spread of all chains over that within chains, below 1.01 where they agree. Nested R-hat: the same for "
    "groups of chains. ESS: how many independent draws these are worth, for means (bulk) and for intervals (tail). A "
    "dash: the quantity is constant, or there are too few draws."
)
_DIFF_COLUMNS = (
    "old, new: the share of the counts in each run. difference: in points, with its 95% interval. change: only clear "
    "ones."
)
_MEMBERSHIP_COLUMNS = (
    "probability: that the community is the main one. membership: the share of the counts in it, with its 90% interval."
)
_LEVEL_COLOURS = {"good": "green", "caution": "yellow", "poor": "red"}


class SafeConsole(Console):
    """A console for labels and names from untrusted sources: it shows control characters in them as text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def posterior_html(posterior: Fit) -> str:
    """Return a heading and the largest classes as HTML, for a notebook: the consensus, if there are several draws."""
    heading = f"<p><b>{escape(repr(posterior))}</b><br>{escape(repr(posterior.record.tensor))}"
    if not posterior.finished:
        heading += "<br>The run is not finished."
    if not posterior.record.core_values.shape[1]:
        return f"{heading}<br>It has no draws yet.</p>"
    summary, diagnosis = posterior.class_summary(), posterior.diagnose()
    behind = chains_behind(posterior.record)
    findings = (*learned_findings(posterior.record), *([] if behind is None else [behind]))
    text = " ".join([*summary.sentences, *sentences(findings)])
    return f"{heading}</p>{diagnosis.answers_html}<p>{escape(text)}</p>{classes_html(summary, '.show()')}"


def run_report(posterior: Fit, *, being_written: bool) -> RenderableType:
    """Return the settings, progress and diagnostics of a run."""
    record, test = posterior.record, posterior.record.held_out
    lines = [settings_line(record), repr(record.tensor), progress_line(record, being_written=being_written)]
    if test is not None:
        along = "" if test.along is None else f", in fibres along {record.tensor.mode_names[test.along]}"
        lines.append(f"{test!r}{along}; allocore evaluate scores them.")
    health = _health(posterior.diagnose()) if record.core_values.shape[1] else []
    return Group(*map(Text, lines), *health)


def settings_line(record: Record) -> str:
    """Return the model, its core, its priors and its seed in one line."""
    spec = record.spec

    def prior(name: str) -> str:
        value = getattr(spec, name)  # e0 may be one number, one per mode, or learned
        if isinstance(value, tuple):
            return f"({', '.join(f'{each:g}' for each in value)})"
        return "learned" if value == "infer" else f"{value:g}"

    core = " x ".join(str(size) for size in spec.core_shape)
    names = ["a0", "b0", "e0", "f0", *["alpha0"] * spec.learn_locations, *["c0", "d0"] * spec.infer_budget]
    names += ["s0", "t0"] * spec.infer_concentrations + ["g0", "h0"] * spec.observation.has_dispersion
    priors = ", ".join(f"{name} {prior(name)}" for name in names) if spec.has_priors else "maximum likelihood"
    made = "" if record.attributes is None else f", allocore {record.attributes['inference_library_version']}"
    most = "at most " if spec.infer_budget else ""
    by = "" if spec.dispersion_by is None else f", p by {record.tensor.mode_names[spec.dispersion_by]}"
    kind = spec.model if spec.likelihood == "poisson" else f"{spec.model}, {spec.likelihood}{by}"
    weighted = [name for name, weights in zip(record.tensor.mode_names, spec.exposures, strict=False) if weights]
    known = f"; exposures of {', '.join(weighted)}" if weighted else ""
    for name, each in zip(record.tensor.mode_names, spec.known, strict=False):
        known += f"; {plural(len(each.frozen), 'frozen factor')} of {name}" if each.frozen else ""
        known += f"; seeds of {name}: {', '.join(each.names[len(each.frozen) :])}" if each.seeds else ""
    if spec.tied is not None:
        known += f"; {' and '.join(record.tensor.mode_names[mode] for mode in spec.tied)} tied"
    return f"{kind}: {most}{spec.budget} classes, core {core}; {priors}{known}; seed {record.seed}{made}"


def progress_line(record: Record, *, being_written: bool = False) -> str:
    """Return how many sweeps and draws a run has, of how many planned."""
    schedule, (chains, sweeps) = record.schedule, record.stats["moved"].shape
    if not record.spec.has_priors:
        return f"{sweeps:,} iterations; the best of its restarts."
    draws, seconds = record.core_values.shape[1], record.stats["seconds"]
    if (new := record.new_rows) is not None:
        rows = plural(record.tensor.shape[new.modes[0]] - new.first, "new row")
        name = " and ".join(record.tensor.mode_names[mode] for mode in new.modes)
        where = f"{draws:,} draws of {'each of ' * (chains > 1)}{plural(chains, 'chain')}"
        return f"{rows} of {name}, folded into {where}; {np.nanmean(seconds):.3g} s per draw; finished."
    text = f"{sweeps:,} of {schedule.sweeps:,} sweeps"
    text += f" ({schedule.burn_in:,} of burn-in, then {plural(schedule.thin, 'sweep')} per draw)"
    text += f", {draws:,} of {schedule.draws:,} draws in {'each of ' * (chains > 1)}{plural(chains, 'chain')}"
    if sweeps:
        text += f"; {np.nanmean(seconds):.3g} s per sweep"
    if record.planned_chains is not None:
        text += f", of {record.planned_chains} that are planned"
    if record.complete:
        return f"{text}; {'a quick look at a larger run' if record.preliminary else 'finished'}."
    return f"{text}; {'being written now' if being_written else 'stopped: continue it with allocore resume'}."


def diagnosis_rows(diagnosis: Diagnosis) -> tuple[list[str], list[list[str]]]:
    """Return the short table of diagnostics as headings and rows of text."""
    rows = [
        [str(name), *(number_text(column, row[column]) for column in DIAGNOSTIC_HEADINGS)]
        for name, row in short_table(diagnosis).iterrows()
    ]
    return ["quantity", *DIAGNOSTIC_HEADINGS.values()], rows


def short_table(diagnosis: Diagnosis) -> "pd.DataFrame":
    """Return the table of diagnostics with one row for all cells: the worst value of each column."""
    import pandas as pd

    table = diagnosis.table
    if table.empty:
        return table
    cells = table[table.index.str.startswith(LOG_COUNT)]
    worst = {name: cells[name].max() for name in ("r_hat", "nested_r_hat", "seconds_per_effective_sample")}
    worst |= {name: cells[name].min() for name in ("ess_bulk", "ess_tail")}
    name = f"log expected counts of {len(cells)} cells, the worst"
    others = table.drop(cells.index)
    # Not pd.concat: pandas 2 warns when the new row is all NaN.
    short = others.reindex([*others.index, name])
    short.loc[name] = pd.Series(worst)
    return short


def number_text(column: str, value: float) -> str:
    """Return a number of the table with as many digits as its column needs; "-" for NaN."""
    if np.isnan(value):
        return "-"
    if column.endswith("r_hat"):
        return f"{value:.3f}"
    return f"{value:,.0f}" if column.startswith("ess") else plain_number(value)


def _health(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")  # words may be cut into lines, numbers never
    for title in DIAGNOSTIC_HEADINGS.values():
        # A heading of several words takes several lines, so that its column is as narrow as its numbers.
        lines = title.replace(" per ", " per\n").replace("effective ", "effective\n")
        lines = lines.replace("ESS ", "ESS\n").replace("nested ", "nested\n")
        table.add_column(lines, justify="right", no_wrap=True)
    for name, row in short_table(diagnosis).iterrows():
        table.add_row(Text(str(name)), *(_cell(column, row[column]) for column in DIAGNOSTIC_HEADINGS))
    yield Text()
    yield from _answers(diagnosis)
    yield table
    yield Text(_DIAGNOSTIC_COLUMNS, style="dim")
    for each in sentences((*diagnosis.likelihood, *diagnosis.details)):
        yield Text(each)


def _answers(diagnosis: Diagnosis) -> Iterator[Text]:
    for each in diagnosis.answers:
        light = (f"{each.level.capitalize()}:", f"bold {_LEVEL_COLOURS[each.level]}")
        yield Text.assemble(light, " ", (each.question, "bold"), f" {' '.join(each.sentences)}")


def _verdict(level: str, headline: str) -> Text:
    return Text(f"{level.capitalize()}: {headline}", style=_LEVEL_COLOURS[level])


def _cell(column: str, value: float) -> Text:
    bad = column == "r_hat" and value > R_HAT_SETTLED
    return Text(number_text(column, value), style="dim" if np.isnan(value) else "bold red" if bad else "")


# The palette of Okabe and Ito suits all kinds of colour vision; every factor shows its number as well.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
_MOST_NAMED = 8
_COLUMN, _DESCRIPTION = 20, 36  # the least width of a mode next to others, and of a column with one line per mode
_BETWEEN = 2


def class_report(
    posterior: Fit, rows: int = 15, top: int = 2, *, draw: ShownDraw = None, chain: int | None = None
) -> RenderableType:
    """Return the largest classes in words, the factors they share, a summary, and findings on the likelihood."""
    rows, top = whole_number("rows", rows), whole_number("top", top)
    summary, record = posterior.class_summary(draw, chain=chain), posterior.record
    shown = summary.apart_last[:rows]
    colours = _shared_colours(summary, shown)
    # Whether to trust the classes, before they are read.
    diagnosis = posterior.diagnose() if summary.is_consensus else None
    likelihood = likelihood_findings(record) if diagnosis is None else diagnosis.likelihood
    text = Text(" ".join(summary.sentences))
    text.highlight_regex(r"\d+(?= (class|hold|have|has))", "bold")
    note = "Shares are averages over all draws, with 90% intervals."
    note = note if len(shown) else "draw='best' (--draw best) shows the best draw."
    table: list[RenderableType] = [Text(), _ClassList(summary, shown, top, colours), Text()]
    heading = f"{_number(len(shown), len(summary.number_C))}, {summary.source}"
    if diagnosis is not None and not np.isnan(diagnosis.classes.value):
        heading += f"; reproducibility {diagnosis.classes.value:.2f}"
    return Group(
        Text(heading, style="bold"),
        *([Text(note, style="dim")] if summary.is_consensus else []),
        *([] if diagnosis is None else _answers(diagnosis)),
        *(table if len(shown) else []),
        *_sharing_lines(summary, shown, top, colours),
        *(Text(each) for each in sentences(likelihood)),
        text,
        *_warnings(record),
    )


def _number(shown: int, known: int) -> str:
    classes = "1 class" if known == 1 else f"{known} classes"
    return classes if shown == known else f"{shown} of {classes}"


def _warnings(record: Record) -> Iterator[Text]:
    """Warn about chains far behind the others, and about chains in which no class moved."""
    for finding in (chains_behind(record), chains_without_moves(record)):
        if finding is not None:
            yield Text(sentence(finding), style="italic")


class _Column(NamedTuple):
    name: str
    width: int
    cells: dict[int, str]


@dataclass(frozen=True)
class _ClassList:
    """The classes as a table, with the modes side by side or one per line; as blocks on a narrow terminal."""

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
        side_by_side = room >= (_COLUMN + _BETWEEN) * len(self.summary.modes) - _BETWEEN
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        table.show_header = places[0] == self.shown[0]
        for column in columns:
            table.add_column(column.name, justify="right", width=column.width)
        widths = self._mode_widths(room)
        table.add_column(
            _side_by_side(map(Text, self.summary.mode_names), widths) if side_by_side else "name", width=room
        )
        for place in places:
            name = Text(self.summary.names[place], style="bold")
            words = _side_by_side(self._words(place), widths) if side_by_side else self._lines(place)
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
        summary = self.summary
        texts = []
        for mode, factor in enumerate(summary.location_CM[place].tolist()):
            words = profile_words(summary.profile(place, mode), self.top)
            texts.append(_factor_text(summary, mode, factor, words, self.colours))
        return texts

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
    """Return one class in full; by default of the consensus, if there are several draws."""
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
    number = f" #{summary.factor(place, mode).number}" + (f" {profile.known}" if profile.known else "")
    sure, perhaps = sharers(summary, place, mode), perhaps_sharers(summary, place, mode)
    shared = f"shared with class{'es' * (len(sure) > 1)} {', '.join(sure)}" if sure else "not shared"
    shared += f"; perhaps shared with {', '.join(perhaps)}" if perhaps else ""
    yield Text.assemble((profile.mode.name, "bold"), (number, "dim"), f"  {shared}")
    if profile.empty or profile.even:
        yield Text(f"  {profile.words(1)}")
        return
    if profile.mode.kind == "time":
        yield Text(f"  peaks: {profile.peak_words()}")
    yield from _bars(profile, top)


def _bars(profile: Profile, top: int) -> Iterator[RenderableType]:
    labels = profile.top(top)
    grid = Table.grid(padding=(0, 1))
    for justify in ("left", "left", "right"):
        grid.add_column(justify=justify)
    for row, (label, share) in zip(profile.heaviest.tolist(), labels, strict=False):
        bar = Text("█" * round(_BAR * share / labels[0][1]), style=COLOURS[1])
        grid.add_row("", Text(label), label_words(profile, row), bar)
    yield grid
    rest = 1.0 - sum(share for _, share in labels)
    if rest > _REST:
        yield Text(f"  and {rest:.1%} spread over {len(profile.share_D) - len(labels):,} others", style="dim")


def _cells(summary: ClassSummary, cells: "pd.DataFrame") -> Iterator[RenderableType]:
    if not len(cells):
        return
    summed = [name for name in summary.mode_names if name not in cells]
    over = f", summed over {' and '.join(summed)}" if summed else ""
    yield Text(f"Top cells{over}", style="bold")
    table = _table_of_cells(cells.columns[:-3], ("of the class", "expected", "observed"))
    for *labels, of_class, expected, observed in cells.itertuples(index=False, name=None):
        table.add_row(*(Text(label) for label in labels), f"{of_class:,.1f}", f"{expected:,.1f}", f"{observed:,}")
    yield table


def _table_of_cells(modes: Iterable[str], numbers: Iterable[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in modes:
        table.add_column(Text(name), overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


_UNBOUNDED = 1000
_LONG = 12  # characters of a heading that is split over two lines


def print_held_out(console: Console, posterior: Fit) -> None:
    """Print how well a run predicts its held-out cells, if it has any, and draws."""
    if posterior.record.held_out is not None and posterior.record.core_values.shape[1]:
        console.print()
        console.print(evaluation_report(posterior.evaluate(brief=True)))


@dataclass(frozen=True)
class _Scores:
    """The scores, a column for each model, in several tables on a narrow terminal."""

    rows: list[list[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        left, unbounded = self.rows, options.update(max_width=_UNBOUNDED)
        while left:
            widths = (
                console.measure(self._table(left[:some]), options=unbounded).maximum for some in range(1, len(left) + 1)
            )
            shown = max(1, sum(width <= options.max_width for width in widths))
            yield self._table(left[:shown])
            left = left[shown:]

    def _table(self, rows: list[list[str]]) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("", overflow="fold")
        for name, *_ in rows:
            table.add_column(
                Text(name if len(name) < _LONG else name.replace(" ", "\n", 1)), justify="right", no_wrap=True
            )
        for name, *scores in zip(HEADINGS[1:], *(row[1:] for row in rows), strict=True):
            table.add_row(
                name, *(Text(score, style="bold" * (row[0] == MODEL)) for row, score in zip(rows, scores, strict=True))
            )
        return table


def evaluation_report(found: Evaluation) -> RenderableType:
    """Return the scores of `Posterior.evaluate` with its sentences."""
    first, *others = found.sentences
    return Group(
        Text(heading(found.table), style="bold"),
        _verdict(found.level, first),
        _Scores(score_rows(found.table)),
        Text(COLUMNS, style="dim"),
        *(Text(each) for each in others),
    )


def check_report(found: Check) -> RenderableType:
    """Return the statistics of `Posterior.check` with its sentences."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", overflow="fold")
    for name in CHECK_HEADINGS[1:]:
        table.add_column(name.replace("adjusted ", "adjusted\n"), justify="right", no_wrap=True)
    for row in check_rows(found.table):
        table.add_row(*map(Text, row))
    first, *others = found.sentences
    return Group(
        _verdict(found.level, first), table, Text(CHECK_COLUMNS, style="dim"), *(Text(each) for each in others)
    )


def diff_report(found: Diff, rows: int) -> RenderableType:
    """Return the largest classes of two runs and those that changed, and what `ac.diff` found in sentences."""
    shown = found.table[(found.table["change"] != "") | (np.arange(len(found.table)) < rows)]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("class", "old", "new", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("change", no_wrap=True)
    table.add_column("name", overflow="fold")
    for row in shown.to_dict("records"):
        own = [str(row[when]) for when in ("old", "new") if row[when] == row[when] and row[when] is not None]
        shares = (f"{row[f'share_{when}']:.1%}" for when in ("old", "new"))
        change = f"{100 * row['difference']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f})"
        table.add_row(" → ".join(dict.fromkeys(own)), *shares, change, row["change"], Text(row["name"]))
    first, *others = found.sentences
    left = len(found.table) - len(shown)
    more = (
        [Text(f"and {left:,} more {'class' if left == 1 else 'classes'} without a clear change", style="dim")]
        if left
        else []
    )
    return Group(Text(first, style="bold"), table, *more, Text(_DIFF_COLUMNS, style="dim"), *map(Text, others))


def new_rows_report(fitted: Fit, folded: Fit, rows: int, surprises: "pd.DataFrame | None") -> RenderableType:
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
    title = Text(f"{_number(min(rows, number), number)}, {found.summary.source}", style="bold")
    note = Text("Shares of the expected counts in the new rows, with 90% intervals, and in the fit.")
    parts = [] if surprises is None else [surprises_report(surprises)]
    return Group(title, note, table, *parts)


def memberships_report(found: Memberships, rows: int) -> RenderableType:
    """Return the communities of a mode, and its largest nodes with their memberships, by community."""
    of_mode, nodes = " and ".join(found.roles), len(found.expected)
    communities = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("community", "share", "nodes"):
        communities.add_column(name, justify="right", no_wrap=True)
    communities.add_column("labels with most of its counts", overflow="fold")
    for number, name, share, members, _ in found.frame("communities").itertuples(name=None):
        communities.add_row(str(number), f"{share:.1%}", f"{members:,}", Text(name))
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(Text(found.mode.name), overflow="fold")
    for name in ("community", "probability", "membership"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("mixed", overflow="fold")
    shown = np.argsort(-found.expected, kind="stable")[:rows]
    # By community, the largest node of each first; nodes without one at the end.
    main_D = np.where(found.main >= 0, found.main, len(found.number))
    for node in shown[np.argsort(main_D[shown], kind="stable")].tolist():
        community, own = int(found.main[node]), ["-", "-", "-"]
        if community >= 0:
            share, low, high = (each[node, community] for each in (found.share, found.low, found.high))
            membership = f"{share:.0%} ({low:.0%} to {high:.0%})"
            own = [str(found.number[community]), f"{found.probability[node, community]:.2f}", membership]
        table.add_row(Text(str(found.mode.labels[node])), *own, found.words(node))
    number = len(found.number)
    counted = f"{number} communit{'y' if number == 1 else 'ies'} of {of_mode}"
    which = f"All {nodes:,}" if nodes <= rows else f"The {rows:,} largest of {nodes:,}"
    return Group(
        Text(f"{counted}, {found.source}", style="bold"),
        communities,
        Text(f"{which} by expected counts. {_MEMBERSHIP_COLUMNS}", style="dim"),
        table,
    )


def surprises_report(found: "pd.DataFrame") -> RenderableType:
    """Return the table of `Posterior.surprises`, whose last five columns are the numbers of each cell."""
    table = _table_of_cells(found.columns[:-5], ("observed", "expected", "surprise"))
    for *labels, observed, expected, _, _, surprise in found.itertuples(index=False, name=None):
        table.add_row(
            *(Text(str(label)) for label in labels), f"{observed:,}", plain_number(expected), f"{surprise:.1f}"
        )
    title = Text("The least expected counts; the surprise is -log10 of their probability.", style="bold")
    return Group(title, table)
